//! `POST /v1/loops/{loop}/decisions/{event_id}/activate`: a deferred decision is shown.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::body::with_head;
use super::decisions::lost;
use super::problem::Problem;
use super::{App, reading};
use crate::config::Role;
use crate::engine::{Activation, Answer, Ask};
use crate::request::check_id;

/// What became of an activation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct ActivationAnswer {
    /// The id of the event.
    event_id: String,
    /// `activated`, `duplicate` or `late`.
    outcome: Activation,
}

/// Say that a deferred decision is shown: its rewards count from now on, and those that came before do too. A decision that
/// is never activated keeps its place in the round, with the default reward.
#[utoipa::path(post, path = "/v1/loops/{loop}/decisions/{event_id}/activate", tag = "decisions",
    params(("loop" = String, Path), ("event_id" = String, Path)),
    responses((status = 200, description = "It is on disk; or it was before, or the window has passed.",
            body = ActivationAnswer),
        (status = "4XX", description = "What is allowed, and what came.", body = Problem,
            content_type = "application/problem+json"),
        (status = 503, description = "Ask again: it may have been stored, and is then a duplicate.", body = Problem,
            content_type = "application/problem+json")))]
pub(super) async fn activate(
    State(app): State<App>,
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (name, event_id) = reading::segments(path)?;
    let lp = app.open(&headers, Role::Decide, &name)?;
    check_id("event_id", &event_id)?;
    match lp.ask(Ask::Activate(event_id.clone())).await? {
        (Answer::Activated(outcome), head) => {
            let answer = ActivationAnswer { event_id, outcome: outcome? };
            Ok(with_head(Json(answer).into_response(), head))
        }
        _ => Err(lost()),
    }
}
