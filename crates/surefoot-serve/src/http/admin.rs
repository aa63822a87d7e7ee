//! Acts of operators. Each is written down with the name of its key.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use surefoot::Fingerprint;

use super::body::{Parsed, parse, with_head};
use super::decisions::lost;
use super::problem::Problem;
use super::{App, reading};
use crate::config::Role;
use crate::engine::{AdminAsk, Answer, Ask, Command, Refusal, Status};

/// The policy to go back to.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RollbackRequest {
    /// Its fingerprint: a policy that has collected a round.
    policy: String,
}

/// Does it, and answers with where the loop stands then.
async fn act(
    app: &App,
    path: Result<Path<String>, PathRejection>,
    headers: &HeaderMap,
    command: Command,
) -> Result<Response, Problem> {
    let lp = app.open(headers, Role::Admin, &reading::segment(path)?)?;
    let by = app.allow(headers, Role::Admin)?;
    match lp.ask(Ask::Admin(AdminAsk { by, command })).await? {
        (Answer::Done(done), head) => {
            done?;
            Ok(with_head(Json(lp.status()).into_response(), head))
        }
        _ => Err(lost()),
    }
}

macro_rules! acts {
    ($($(#[$doc:meta])* $name:ident, $path:literal, $command:expr;)*) => {$(
        $(#[$doc])*
        #[utoipa::path(post, path = $path, tag = "operation", params(("loop" = String, Path)),
            responses((status = 200, body = Status),
                (status = "4XX", body = Problem, content_type = "application/problem+json"),
                (status = 503, body = Problem, content_type = "application/problem+json")))]
        pub(super) async fn $name(
            State(app): State<App>,
            path: Result<Path<String>, PathRejection>,
            headers: HeaderMap,
        ) -> Result<Response, Problem> {
            act(&app, path, &headers, $command).await
        }
    )*};
}

acts! {
    /// End the round that is being collected. Whoever does it must not have looked at its rewards.
    close, "/v1/loops/{loop}/rounds/current/close", Command::Close;
    /// Hold the policy that decides. Learning goes on.
    pause, "/v1/loops/{loop}/pause", Command::Pause;
    /// Deploy what is learned again, from the next round on.
    resume, "/v1/loops/{loop}/resume", Command::Resume;
    /// Learn again from a round whose learning failed.
    retrain, "/v1/loops/{loop}/retrain", Command::Retrain;
}

/// End the round, and hold a policy that decided before, from the next round on.
#[utoipa::path(post, path = "/v1/loops/{loop}/rollback", tag = "operation", params(("loop" = String, Path)),
    request_body = RollbackRequest,
    responses((status = 200, body = Status),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, content_type = "application/problem+json")))]
pub(super) async fn rollback(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    app.allow(&headers, Role::Admin)?;
    let Parsed::One(request) = parse::<RollbackRequest>(&headers, body, 1)? else {
        return Err(Problem::from(Refusal::unprocessable("json", "the body should be one JSON object")));
    };
    let policy: Fingerprint = request
        .policy
        .parse()
        .map_err(|reason: surefoot::Error| Problem::from(Refusal::unprocessable("policy", reason.to_string())))?;
    act(&app, path, &headers, Command::Rollback(policy)).await
}
