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

/// The texts of a body.
pub(super) enum Texts {
    /// One object.
    One(Bytes),
    /// One object per line.
    Lines(Vec<Bytes>),
}

impl Texts {
    /// The texts of a body, by its content type.
    pub(super) fn of(
        headers: &HeaderMap,
        body: Result<Bytes, BytesRejection>,
        most_lines: usize,
    ) -> Result<Self, Problem> {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let body = body.map_err(|rejection| Problem::new(rejection.status(), "body", rejection.body_text()))?;
        if kind.eq_ignore_ascii_case("application/json") {
            return Ok(Texts::One(body));
        }
        if !kind.eq_ignore_ascii_case(NDJSON) {
            let kind = kind.to_ascii_lowercase();
            let detail = format!("Content-Type should be application/json or {NDJSON}, but is {kind:?}");
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content-type", detail));
        }
        let lines = body.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        let lines: Vec<Bytes> = lines.map(|line| body.slice_ref(line)).collect();
        if lines.len() > most_lines {
            let detail = format!("a batch should have at most {most_lines} lines, but has {}", lines.len());
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "batch", detail));
        }
        Ok(Texts::Lines(lines))
    }

    /// Parses each text. Each line of a batch may be wrong by itself. Also says whether there is only one text.
    pub(super) fn each<T>(self, parse: impl Fn(&[u8]) -> Result<T, Problem>) -> Result<Each<T>, Problem> {
        match self {
            Texts::One(text) => Ok((true, vec![Ok(parse(&text)?)])),
            Texts::Lines(lines) => Ok((false, lines.iter().map(|line| parse(line)).collect())),
        }
    }
}

/// Whether there is only one text, and what each of them says.
pub(super) type Each<T> = (bool, Vec<Result<T, Problem>>);

/// A parsed body.
pub(super) enum Parsed<T> {
    /// One object.
    One(T),
    /// One object per line.
    Lines,
}

/// Parses a body by its content type.
pub(super) fn parse<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
    most_lines: usize,
) -> Result<Parsed<T>, Problem> {
    match Texts::of(headers, body, most_lines)? {
        Texts::One(text) => object(&text).map(Parsed::One),
        Texts::Lines(_) => Ok(Parsed::Lines),
    }
}

/// Parses one object.
pub(super) fn object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
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
