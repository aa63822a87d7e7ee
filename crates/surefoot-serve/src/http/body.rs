//! Bodies: one JSON object, or one per line.

use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use surefoot::Fingerprint;

use super::problem::Problem;

/// The content type of one JSON object per line.
pub(super) const NDJSON: &str = "application/x-ndjson";

/// A parsed body.
pub(super) enum Parsed<T> {
    /// One object.
    One(T),
    /// One object per line, each of which may be wrong by itself.
    Lines(Vec<Result<T, Problem>>),
}

/// Parses a body by its content type.
pub(super) fn parse<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
    most_lines: usize,
) -> Result<Parsed<T>, Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let body = body.map_err(|rejection| Problem::new(rejection.status(), "body", rejection.body_text()))?;
    match kind.as_str() {
        "application/json" => object(&body).map(Parsed::One),
        NDJSON => {
            let lines: Vec<&[u8]> =
                body.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).collect();
            if lines.len() > most_lines {
                let detail = format!("a batch should have at most {most_lines} lines, but has {}", lines.len());
                return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "batch", detail));
            }
            Ok(Parsed::Lines(lines.into_iter().map(object).collect()))
        }
        other => {
            let detail = format!("Content-Type should be application/json or {NDJSON}, but is {other:?}");
            Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content-type", detail))
        }
    }
}

fn object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes).map_err(|e| {
        // Well-formed JSON that does not fit is another problem than bytes that are no JSON.
        let status = match e.classify() {
            serde_json::error::Category::Data => StatusCode::UNPROCESSABLE_ENTITY,
            _ => StatusCode::BAD_REQUEST,
        };
        Problem::new(status, "json", e.to_string())
    })
}

/// A line of a batch: the status of this line, and what a single request would be answered with.
#[derive(Serialize)]
struct Line<T> {
    status: u16,
    #[serde(flatten)]
    body: T,
}

/// The answer to a batch: one line per line.
pub(super) fn lines<T: Serialize>(answers: Vec<Result<(StatusCode, T), Problem>>, head: Fingerprint) -> Response {
    let mut out = Vec::new();
    for answer in answers {
        let written = match answer {
            Ok((status, body)) => serde_json::to_writer(&mut out, &Line { status: status.as_u16(), body }),
            // A problem has its own status.
            Err(problem) => serde_json::to_writer(&mut out, &problem),
        };
        debug_assert!(written.is_ok(), "answers are numbers and texts");
        out.push(b'\n');
    }
    let mut response = Body::from(out).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(NDJSON));
    with_head(response, head)
}

/// An answer with the head of the ledger in a header, so that a caller can keep it.
pub(super) fn with_head(mut response: Response, head: Fingerprint) -> Response {
    if let Ok(value) = HeaderValue::from_str(&head.to_string()) {
        response.headers_mut().insert("surefoot-ledger-head", value);
    }
    response
}
