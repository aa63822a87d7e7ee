//! `POST /v1/loops/{loop}/decisions`, and reading them again.

use std::time::Instant;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use surefoot::Fingerprint;
use surefoot_data::Actions;

use super::body::{Texts, lines, object, with_head};
use super::problem::Problem;
use super::{App, reading};
use crate::config::{Mode, Role, Rules};
use crate::engine::{Answer, Ask, DecideAsk, Decided, Refusal};
use crate::request::{DecisionRequest, stored_action};
use crate::store::{RewardRow, RewardStatus};
use crate::time::written;

/// A decision.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct DecisionAnswer<'a> {
    /// The id of the event.
    event_id: String,
    /// The chosen action, by name or number; the id of the chosen candidate in a loop over candidates.
    #[schema(value_type = Value)]
    action: Action<'a>,
    /// The probability with which it was chosen.
    propensity: f64,
    /// The fingerprint of the policy that chose it; null if your own policy did.
    #[schema(value_type = Option<String>)]
    policy_version: Option<Fingerprint>,
    /// The round that it belongs to.
    round: u64,
    /// Until when its rewards count.
    reward_until: String,
    /// If true, rewards count only if the decision is activated until then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    deferred: bool,
    /// In shadow mode: true. Nobody should follow the decision.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    shadow: bool,
    /// The head of the ledger.
    #[schema(value_type = String)]
    ledger_head: Fingerprint,
}

/// An action as callers name it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Action<'a> {
    Number(u32),
    Name(&'a str),
    Candidate(String),
}

/// Decide on an event, or on one per line.
#[utoipa::path(post, path = "/v1/loops/{loop}/decisions", tag = "decisions", params(("loop" = String, Path)),
    request_body(content((DecisionRequest = "application/json"), (String = "application/x-ndjson"))),
    responses(
        (status = 201, description = "The decision, which is on disk.", body = DecisionAnswer),
        (status = 200, description = "The decision that was stored for this event before; or one answer per line of a \
            batch, each with its status.",
            content((DecisionAnswer = "application/json"), (String = "application/x-ndjson"))),
        (status = "4XX", description = "What is allowed, and what came.", body = Problem,
            content_type = "application/problem+json"),
        (status = 503, description = "Overload: nothing was drawn or stored. With urn:surefoot:store-unavailable, a \
            connection to PostgreSQL that was lost during a commit may have left the decision stored: ask again with the \
            same event_id, which gives the stored decision, or a first one.", body = Problem,
            content_type = "application/problem+json")))]
pub(super) async fn decide(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let began = Instant::now();
    let lp = app.open(&headers, Role::Decide, &reading::segment(path)?)?;
    let rules = lp.rules();
    let most = app.limits().features;
    let check = |text: &[u8]| -> Result<DecideAsk, Problem> {
        if let Some(ask) = lp.usual().parse(text, most) {
            return Ok(ask);
        }
        let request: DecisionRequest = object(text)?;
        if request.context.len() > most {
            let detail = format!("context should have at most {most} fields, but has {}", request.context.len());
            return Err(Problem::from(Refusal::unprocessable("context", detail)));
        }
        Ok(request.check(rules)?)
    };
    let (single, asks) = Texts::of(&headers, body, app.limits().batch)?.each(check)?;
    let mut good: Vec<DecideAsk> = Vec::with_capacity(asks.len());
    // The event of each, or what is wrong with it.
    let events: Vec<Result<String, Problem>> = asks
        .into_iter()
        .map(|ask| {
            good.push(ask?);
            Ok(good[good.len() - 1].event_id.clone())
        })
        .collect();
    let (answers, head) = match good.is_empty() {
        true => (Vec::new(), lp.status().ledger_head),
        false => match lp.ask(Ask::Decide(good)).await? {
            (Answer::Decided(answers), head) => (answers, head),
            (_, head) => (Vec::new(), head),
        },
    };
    let mut answers = answers.into_iter();
    let answered = events.into_iter().map(|event_id| {
        let event_id = event_id?;
        let decided = answers.next().ok_or_else(lost)??;
        let status = if decided.again { StatusCode::OK } else { StatusCode::CREATED };
        Ok((status, described(rules, event_id, &decided, head)))
    });
    let all: Vec<Result<_, Problem>> = answered.collect();
    lp.metrics().answered(began.elapsed());
    if single {
        let (status, body) = all.into_iter().next().ok_or_else(lost)??;
        return Ok(with_head((status, Json(body)).into_response(), head));
    }
    Ok(lines(all, head))
}

fn described<'a>(rules: &'a Rules, event_id: String, decided: &Decided, head: Fingerprint) -> DecisionAnswer<'a> {
    let action = match (&decided.candidate, &rules.actions) {
        (Some(id), _) => Action::Candidate(id.clone()),
        (None, Actions::Count(_)) => Action::Number(decided.action),
        (None, Actions::Names(names)) => Action::Name(&names[decided.action as usize]),
    };
    DecisionAnswer {
        event_id,
        action,
        propensity: decided.propensity,
        policy_version: decided.policy,
        round: decided.round,
        reward_until: written(decided.reward_until),
        deferred: decided.deferred,
        shadow: rules.mode == Mode::Shadow,
        ledger_head: head,
    }
}

/// The answer did not come: the loop has stopped.
pub(super) fn lost() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopped", "the loop has stopped")
}

/// Which decisions to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Page {
    /// The number of the first decision, counted from 0.
    #[serde(default)]
    #[param(minimum = 0)]
    from: u64,
    /// How many at most; no more than 1000.
    #[serde(default = "hundred")]
    #[param(minimum = 1, maximum = 1000)]
    limit: u64,
}

fn hundred() -> u64 {
    100
}

/// A stored decision.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct StoredDecision {
    /// Its place in the order of all decisions.
    number: u64,
    /// The id of the event.
    event_id: String,
    /// What was asked.
    request: Value,
    /// The chosen action, by name or number.
    action: Value,
    /// The probability with which it was chosen.
    propensity: f64,
    /// The policy that chose it.
    #[schema(value_type = Option<String>)]
    policy_version: Option<Fingerprint>,
    /// The round that it belongs to.
    round: u64,
    /// When it was drawn.
    decided_at: String,
    /// Until when its rewards count.
    reward_until: String,
    /// When it became active; null if it was deferred, and nobody has said that it is shown.
    activated_at: Option<String>,
    /// Its rewards; absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    rewards: Option<Vec<StoredReward>>,
}

/// A stored reward.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct StoredReward {
    /// Its id among those of the event; empty if it has none.
    reward_id: String,
    /// The reward.
    reward: f64,
    /// When it came.
    received_at: String,
    /// `parked`, `joined` or `late`.
    #[schema(value_type = String)]
    status: RewardStatus,
}

impl StoredDecision {
    fn of(rules: &Rules, row: crate::store::DecisionRow, rewards: Option<Vec<RewardRow>>) -> Self {
        let stored = |row: RewardRow| StoredReward {
            reward_id: row.reward_id,
            reward: row.value,
            received_at: written(row.received_at),
            status: row.status,
        };
        let request = DecisionRequest::stored(&row).unwrap_or_default();
        StoredDecision {
            number: row.number,
            event_id: row.event_id,
            action: stored_action(rules, &request, row.action),
            request: serde_json::to_value(request).unwrap_or_default(),
            propensity: row.propensity,
            policy_version: row.policy,
            round: row.round,
            decided_at: written(row.decided_at),
            reward_until: written(row.decided_at.saturating_add(rules.window.0)),
            activated_at: row.activated_at.map(written),
            rewards: rewards.map(|rows| rows.into_iter().map(stored).collect()),
        }
    }
}

/// List decisions in their order.
#[utoipa::path(get, path = "/v1/loops/{loop}/decisions", tag = "decisions", params(("loop" = String, Path), Page),
    responses((status = 200, body = [StoredDecision]),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    page: Result<Query<Page>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let lp = app.open(&headers, Role::Read, &reading::segment(path)?)?;
    let Query(Page { from, limit }) =
        page.map_err(|e| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "query", e.body_text()))?;
    if !(1..=1000).contains(&limit) || i64::try_from(from).is_err() {
        let detail = format!("limit should be from 1 to 1000 and from below 2^63, but are {limit} and {from}");
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "query", detail));
    }
    let rows = reading::blocking(lp, move |reader| reader.decisions(from, limit)).await?;
    let all: Vec<_> = rows.into_iter().map(|row| StoredDecision::of(lp.rules(), row, None)).collect();
    Ok(with_head(Json(all).into_response(), lp.status().ledger_head))
}

/// Read a decision with its rewards.
#[utoipa::path(get, path = "/v1/loops/{loop}/decisions/{event_id}", tag = "decisions",
    params(("loop" = String, Path), ("event_id" = String, Path)),
    responses((status = 200, body = StoredDecision),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn one(
    State(app): State<App>,
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (name, event_id) = reading::segments(path)?;
    let lp = app.open(&headers, Role::Read, &name)?;
    let id = event_id.clone();
    let found = reading::blocking(lp, move |reader| Ok((reader.decision(&id)?, reader.rewards(&id)?))).await?;
    let (Some(row), rewards) = found else {
        return Err(Problem::from(Refusal::no_decision(&event_id)));
    };
    let stored = StoredDecision::of(lp.rules(), row, Some(rewards));
    Ok(with_head(Json(stored).into_response(), lp.status().ledger_head))
}
