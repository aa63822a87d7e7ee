//! The page of the service: files that are part of the binary. They ask the same paths as everybody, and nothing else.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::problem::Problem;

/// What the page may load and do: its own files, and requests to this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The type of a script.
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The files beside the page, by name, with their types.
const FILES: [(&str, &str, &str); 9] = [
    ("page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("page.js", SCRIPT, include_str!("page/page.js")),
    ("ask.js", SCRIPT, include_str!("page/ask.js")),
    ("charts.js", SCRIPT, include_str!("page/charts.js")),
    ("evidence.js", SCRIPT, include_str!("page/evidence.js")),
    ("glance.js", SCRIPT, include_str!("page/glance.js")),
    ("nodes.js", SCRIPT, include_str!("page/nodes.js")),
    ("policies.js", SCRIPT, include_str!("page/policies.js")),
    ("icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

/// The page itself, the same for all loops.
pub(super) async fn index() -> Response {
    sent("text/html; charset=utf-8", include_str!("page/index.html"))
}

/// A file beside it.
pub(super) async fn file(Path(name): Path<String>) -> Result<Response, Problem> {
    let found = FILES.iter().find(|(known, ..)| *known == name);
    let missing = || Problem::new(StatusCode::NOT_FOUND, "no-such-file", format!("the page has no file {name:?}"));
    let (_, kind, content) = found.ok_or_else(missing)?;
    Ok(sent(kind, content))
}

fn sent(kind: &'static str, content: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, content).into_response()
}
