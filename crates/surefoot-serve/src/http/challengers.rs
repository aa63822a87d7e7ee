//! `POST /v1/loops/{loop}/policies`: challengers of the caller's own.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use surefoot::Fingerprint;
use surefoot::audit::Standing;

use super::body::with_head;
use super::decisions::lost;
use super::problem::Problem;
use super::upload::{PolicyFile, PolicyForm, Upload};
use super::{App, reading};
use crate::config::Role;
use crate::engine::{Answer, Ask, ChallengeAsk, Refusal};
use crate::sequencer::Loop;

/// A challenger of the caller's own.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct ChallengerAnswer {
    /// The fingerprint of the policy.
    #[schema(value_type = String)]
    policy: Fingerprint,
    /// The first round whose decisions judge it.
    judged_from_round: u64,
    /// `waiting` until that round was learned from, then `competing`, `promoted` or `dismissed`.
    #[schema(value_type = String)]
    standing: Standing,
    /// The head of the ledger, which names the challenger.
    #[schema(value_type = String)]
    ledger_head: Fingerprint,
}

/// Bring a challenger of your own. The gate judges it like any other, by rounds that begin after this.
#[utoipa::path(post, path = "/v1/loops/{loop}/policies", tag = "operation", params(("loop" = String, Path)),
    request_body(content((PolicyFile = "application/octet-stream"), (PolicyForm = "multipart/form-data"))),
    responses((status = 201, description = "The ledger names it.", body = ChallengerAnswer),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, content_type = "application/problem+json")))]
pub(super) async fn bring(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Problem> {
    let by = app.allow(&headers, Role::Admin)?;
    let lp = app.open(&headers, Role::Admin, &reading::segment(path)?)?;
    let upload = Upload::read(request).await?;
    let kept = Arc::clone(lp);
    let policy = tokio::task::spawn_blocking(move || keep(&kept, &upload)).await.map_err(|_| lost())??;
    match lp.ask(Ask::Challenge(ChallengeAsk { by, policy })).await? {
        (Answer::Challenged(round), ledger_head) => {
            let (judged_from_round, standing) = (round?, Standing::Waiting);
            let answer = ChallengerAnswer { policy, judged_from_round, standing, ledger_head };
            Ok(with_head((StatusCode::CREATED, Json(answer)).into_response(), ledger_head))
        }
        _ => Err(lost()),
    }
}

/// Checks that the policy can be judged, and puts its file among those of the loop.
fn keep(lp: &Loop, upload: &Upload) -> Result<Fingerprint, Problem> {
    let (rules, policies) = (lp.rules(), lp.policies());
    let policy = upload.policy(rules, policies)?;
    let refused = |detail: String| Problem::from(Refusal::unprocessable("policy", detail));
    let first = policies.read(rules.first)?;
    let first = first.as_gaussian().ok_or_else(|| refused("the first policy of the loop is of another kind".into()))?;
    let session = rules.session(lp.name(), first.clone())?;
    session.may_challenge(policy.as_ref()).map_err(|reason| refused(reason.to_string()))?;
    policies.write(policy.as_ref(), &rules.inputs())?;
    lp.read(|reader| reader.share(policies.folder()))?;
    policy.identity().ok_or_else(|| refused("the policy should have a fingerprint".into()))
}

/// List the challengers that callers brought.
#[utoipa::path(get, path = "/v1/loops/{loop}/challengers", operation_id = "list_challengers", tag = "reading",
    params(("loop" = String, Path)),
    responses((status = 200, body = [ChallengerAnswer]),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let lp = app.open(&headers, Role::Read, &reading::segment(path)?)?;
    let ledger = reading::blocking(lp, |reader| {
        reader.session()?.ledger.parse::<surefoot::audit::Ledger>().map_err(crate::Error::core("the ledger"))
    })
    .await?;
    let head = ledger.head();
    let told = |own: surefoot::audit::OwnChallenger| ChallengerAnswer {
        policy: own.policy,
        judged_from_round: own.round as u64,
        standing: own.standing,
        ledger_head: head,
    };
    let all: Vec<ChallengerAnswer> = ledger.own_challengers().into_iter().map(told).collect();
    Ok(with_head(Json(all).into_response(), head))
}
