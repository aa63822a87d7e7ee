//! `/personalizer/v1.0/...`: the rank, reward and activate calls of Azure Personalizer's clients, so that such a client needs
//! another address and nothing else. With one loop the address is that of the server, and with several
//! `http://server/loops/NAME`.
//!
//! Facts about the calls come from the public description of the service's REST interface. What a loop cannot do is
//! refused in the service's own form of errors.

mod bodies;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use surefoot::logs::Eligible;

use self::bodies::{ErrorResponse, RankRequest, RankResponse, RewardValue, ranked};
use super::App;
use super::decisions::lost;
use super::problem::Problem;
use crate::config::{Mode, Role};
use crate::engine::{Answer, Ask, Refusal, RewardAsk};
use crate::request::{DecisionRequest, RewardRequest, check_id};

pub(super) use bodies::Fault;

/// The header in which such clients send their key.
const KEY: &str = "Ocp-Apim-Subscription-Key";

/// The calls of a server with one loop.
pub(super) async fn only(
    State(app): State<App>,
    method: Method,
    rest: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Fault> {
    let Path(rest) = rest.map_err(|e| Fault::bad("path", e.body_text()))?;
    let names: Vec<&str> = app.loops().map(|lp| lp.name()).collect();
    let &[name] = names.as_slice() else {
        let allowed = names.iter().map(|name| format!("/loops/{name}/personalizer/v1.0")).collect::<Vec<_>>();
        let message = format!("this server has several loops: the address should be one of {}", allowed.join(", "));
        return Err(Fault::missing("path", message));
    };
    call(&app, &method, name, &rest, headers, body).await
}

/// The calls of one loop.
pub(super) async fn of_loop(
    State(app): State<App>,
    method: Method,
    parts: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Fault> {
    let Path((name, rest)) = parts.map_err(|e| Fault::bad("path", e.body_text()))?;
    call(&app, &method, &name, &rest, headers, body).await
}

async fn call(
    app: &App,
    method: &Method,
    name: &str,
    rest: &str,
    mut headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Fault> {
    if let Some(key) = headers.get(KEY).and_then(|key| key.to_str().ok()) {
        let bearer = HeaderValue::from_str(&format!("Bearer {key}"));
        headers.insert(header::AUTHORIZATION, bearer.map_err(|_| Fault::bad(KEY, "the key should be text"))?);
    }
    let body = || body.map_err(|e| Fault::from(Problem::new(e.status(), "body", e.body_text())));
    let event = |kind: &str| rest.strip_prefix("events/").and_then(|rest| rest.strip_suffix(kind));
    match (method, rest, event("/reward"), event("/activate")) {
        (&Method::POST, "rank", ..) => rank(app, name, &headers, &body()?).await,
        (&Method::POST, _, Some(event), _) => reward(app, name, &headers, event, &body()?).await,
        (&Method::POST, _, _, Some(event)) => activate(app, name, &headers, event).await,
        _ => {
            let message = format!(
                "there is no {method} {rest}: the calls are POST rank, POST events/EVENT/reward and POST events/EVENT/activate"
            );
            Err(Fault::missing("path", message))
        }
    }
}

async fn rank(app: &App, name: &str, headers: &HeaderMap, body: &[u8]) -> Result<Response, Fault> {
    let lp = app.open(headers, Role::Decide, name)?;
    let request: RankRequest = bodies::parse(body)?;
    let rules = lp.rules();
    if rules.candidates.is_some() {
        let message = "a loop over candidates ranks nothing here: send them as candidates to /v1/loops/NAME/decisions";
        return Err(Fault::bad("actions", message));
    }
    if rules.mode == Mode::Apprentice {
        return Err(Fault::bad(
            "actions",
            "a loop in apprentice mode watches a policy of the caller's own, and ranks nothing",
        ));
    }
    let context = bodies::context(request.context_features.unwrap_or_default())?;
    let most = app.limits().features;
    if context.len() > most {
        let found = context.len();
        return Err(Fault::bad("contextFeatures", format!("should have at most {most} features, but has {found}")));
    }
    let offered = bodies::offered(&rules.actions, &request.actions)?;
    let excluded = request.excluded_actions.unwrap_or_default();
    let eligible: Vec<_> = offered.iter().filter(|(id, _)| !excluded.contains(id)).collect();
    if eligible.is_empty() {
        return Err(Fault::bad("excludedActions", "at least one action should be left, but all are excluded"));
    }
    let decision = DecisionRequest {
        event_id: request.event_id,
        context,
        eligible: Some(eligible.iter().map(|(_, value)| value.clone()).collect()),
        defer: request.defer_activation == Some(true),
        ..DecisionRequest::default()
    };
    let ask = decision.check(rules)?;
    let (event_id, contexts, set) = (ask.event_id.clone(), ask.context.clone(), ask.eligible.clone());
    let decided = match lp.ask(Ask::Decide(vec![ask])).await? {
        (Answer::Decided(answers), _) => answers.into_iter().next().ok_or_else(lost)??,
        _ => return Err(lost().into()),
    };
    let refused = |reason: surefoot::Error| Fault::from(Refusal::unprocessable("context", reason.to_string()));
    let policy = decided.policy.ok_or_else(lost)?;
    let kept = std::sync::Arc::clone(lp);
    let policy = tokio::task::spawn_blocking(move || kept.policies().recent(policy)).await.map_err(|_| lost())?;
    let sets = set.as_ref().map(|set| Eligible::new([set])).transpose().map_err(refused)?;
    let all = policy.map_err(Problem::from)?.distribution(&contexts, sets.as_ref()).map_err(refused)?;
    let reward_action_id = bodies::id_of(&crate::request::action_value(&rules.actions, decided.action));
    let ranking = ranked(&rules.actions, &offered, &all, (reward_action_id.as_str(), decided.propensity));
    let answer = RankResponse { ranking, event_id, reward_action_id };
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

/// Every call is a reward of its own, as these clients expect: `aggregation` says how several become one.
async fn reward(app: &App, name: &str, headers: &HeaderMap, event: &str, body: &[u8]) -> Result<Response, Fault> {
    let lp = app.open(headers, Role::Reward, name)?;
    let RewardValue { value } = bodies::parse(body)?;
    let reward_id = Some(crate::request::new_id()?);
    let ask: RewardAsk = RewardRequest { event_id: None, reward_id, reward: value }.check(Some(event))?;
    match lp.ask(Ask::Reward(vec![ask])).await? {
        (Answer::Rewarded(answers), _) => {
            answers.into_iter().next().ok_or_else(lost)??;
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        _ => Err(lost().into()),
    }
}

/// An activation that comes late, or again, changes nothing, and these clients have no word for it.
async fn activate(app: &App, name: &str, headers: &HeaderMap, event: &str) -> Result<Response, Fault> {
    let lp = app.open(headers, Role::Decide, name)?;
    match lp.ask(Ask::Activate(check_id("eventId", event)?.to_owned())).await? {
        (Answer::Activated(outcome), _) => {
            outcome?;
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        _ => Err(lost().into()),
    }
}

/// Rank the actions of a loop, as Azure Personalizer's clients ask for it.
#[utoipa::path(post, path = "/personalizer/v1.0/rank", tag = "personalizer", request_body = RankRequest,
    responses((status = 201, body = RankResponse), (status = "4XX", body = ErrorResponse), (status = 503, body = ErrorResponse)))]
#[expect(dead_code, reason = "it describes a path")]
pub(super) fn rank_path() {}

/// Send a reward of an event, as Azure Personalizer's clients do. Every call is a reward of its own.
#[utoipa::path(post, path = "/personalizer/v1.0/events/{eventId}/reward", tag = "personalizer",
    params(("eventId" = String, Path)), request_body = RewardValue,
    responses((status = 204), (status = "4XX", body = ErrorResponse), (status = 503, body = ErrorResponse)))]
#[expect(dead_code, reason = "it describes a path")]
pub(super) fn reward_path() {}

/// Say that a deferred decision is shown, as Azure Personalizer's clients do. One that is not has the default reward.
#[utoipa::path(post, path = "/personalizer/v1.0/events/{eventId}/activate", tag = "personalizer",
    params(("eventId" = String, Path)),
    responses((status = 204), (status = "4XX", body = ErrorResponse), (status = 503, body = ErrorResponse)))]
#[expect(dead_code, reason = "it describes a path")]
pub(super) fn activate_path() {}
