//! Errors as RFC 9457 has them.

use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::engine::Refusal;
use crate::error::Error;

/// Why a request was not done.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub(crate) struct Problem {
    /// What kind of problem: `urn:surefoot:` and a short name.
    #[serde(rename = "type")]
    kind: String,
    /// The status in words.
    title: String,
    /// The status.
    status: u16,
    /// What is allowed, and what came.
    detail: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, kind: &str, detail: impl Into<String>) -> Self {
        Problem {
            kind: format!("urn:surefoot:{kind}"),
            title: status.canonical_reason().unwrap_or("error").into(),
            status: status.as_u16(),
            detail: detail.into(),
        }
    }

    /// Its status, its kind and its detail.
    pub(crate) fn parts(&self) -> (StatusCode, &str, String) {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, self.kind.rsplit(':').next().unwrap_or_default(), self.detail.clone())
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Problem::new(status, refusal.kind, refusal.detail)
    }
}

/// What goes wrong while reading is the store's fault, and may be over soon.
impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Problem::from(Refusal::unavailable(&error))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(&self)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

pub(super) async fn not_found(uri: Uri) -> Problem {
    let detail = format!("there is no {}: /openapi.json lists all paths", uri.path());
    Problem::new(StatusCode::NOT_FOUND, "no-such-path", detail)
}

pub(super) async fn not_allowed(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} does not take {method}: /openapi.json lists all paths", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", detail)
}
