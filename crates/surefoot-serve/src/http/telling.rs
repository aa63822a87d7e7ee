//! Every request has an id, and is told to whoever wants to know.

use std::time::{Instant, SystemTime};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use serde_json::json;

use crate::telemetry::{Kind, Parent, Span, Telemetry};

/// The header with the id of a request, from the caller and back to it.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest id that is taken from a caller.
const LONGEST: usize = 128;

/// Gives a request its id, and tells what became of it, if anybody listens.
pub(super) async fn tell(State(telemetry): State<Telemetry>, request: Request, next: Next) -> Response {
    let fits = |id: &&HeaderValue| {
        (1..=LONGEST).contains(&id.len()) && id.as_bytes().iter().all(|byte| byte.is_ascii_graphic())
    };
    let sent = request.headers().get(&REQUEST_ID).filter(fits).cloned();
    let id = sent.unwrap_or_else(|| telemetry.request_id());
    let mut response = match telemetry.listens() {
        true => told(&telemetry, &id, request, next).await,
        false => next.run(request).await,
    };
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// Tells what became of a request: neither its body nor the path with the names in it.
async fn told(telemetry: &Telemetry, id: &HeaderValue, request: Request, next: Next) -> Response {
    let id = id.to_str().unwrap_or_default();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map_or("none".to_owned(), |path| path.as_str().to_owned());
    let name = loop_of(&route, request.uri().path());
    let parent = request.headers().get("traceparent").and_then(|text| text.to_str().ok()).and_then(Parent::parse);
    let (began, clock) = (SystemTime::now(), Instant::now());
    let response = next.run(request).await;
    let status = response.status();
    let recorded = telemetry.traces() && parent.as_ref().is_none_or(|parent| parent.sampled);
    let mut trace = parent.as_ref().map(|parent| parent.trace.clone());
    if recorded {
        let mut attributes = vec![
            ("http.request.method", json!(method.as_str())),
            ("http.route", json!(route)),
            ("http.response.status_code", json!(status.as_u16())),
            ("surefoot.request_id", json!(id)),
        ];
        attributes.extend(name.as_ref().map(|name| ("surefoot.loop", json!(name))));
        let named = format!("{method} {route}");
        let span = Span::ended(named, Kind::Server, parent, began, attributes, status.is_server_error());
        trace = Some(span.trace().to_owned());
        telemetry.send(span);
    }
    let level = if status.is_server_error() { "warn" } else { "info" };
    telemetry.line(
        level,
        "request",
        json!({
            "request_id": id,
            "trace_id": trace,
            "method": method.as_str(),
            "route": route,
            "loop": name,
            "status": status.as_u16(),
            "milliseconds": clock.elapsed().as_micros() as f64 / 1000.0,
        }),
    );
    response
}

/// The loop in a path, where the route has one. A name that no loop can have is not told.
fn loop_of(route: &str, path: &str) -> Option<String> {
    let place = route.split('/').position(|part| part == "{loop}")?;
    let name = path.split('/').nth(place)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (name.len() <= 64 && name.chars().all(fits)).then(|| name.to_owned())
}
