//! `POST /v1/loops/{loop}/erasures`: records that are erased, by event or by a column.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use surefoot::Fingerprint;

use super::body::{Parsed, parse, with_head};
use super::decisions::lost;
use super::problem::Problem;
use super::{App, reading};
use crate::config::Role;
use crate::engine::{Answer, Ask, EraseAsk, Erased, Refusal};
use crate::request::DecisionRequest;
use crate::sequencer::Loop;

/// How many decisions are looked at before others may read.
const PAGE: u64 = 1000;
/// How many events are erased in one step.
const TOGETHER: usize = 1000;

/// Which records to erase: an event, or all whose context has this value in this column.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ErasureRequest {
    /// The id of the event.
    #[serde(default)]
    event_id: Option<String>,
    /// A field of the context; it need not be a feature.
    #[serde(default)]
    column: Option<String>,
    /// Its value.
    #[serde(default)]
    value: Option<Value>,
}

/// What was erased.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct ErasureAnswer {
    /// The number of decisions.
    decisions: u64,
    /// The number of rewards.
    rewards: u64,
    /// The rounds of the decisions. Certificates of them that were made before cannot be recomputed.
    rounds: Vec<u64>,
    /// The head of the ledger, which tells of it.
    #[schema(value_type = String)]
    ledger_head: Fingerprint,
}

/// Erase all records of an event, or of all events whose context has a value in a column.
#[utoipa::path(post, path = "/v1/loops/{loop}/erasures", tag = "operation", params(("loop" = String, Path)),
    request_body = ErasureRequest,
    responses((status = 200, body = ErasureAnswer),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, content_type = "application/problem+json")))]
pub(super) async fn erase(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let by = app.allow(&headers, Role::Admin)?;
    let lp = app.open(&headers, Role::Admin, &reading::segment(path)?)?;
    let wrong = |detail: &str| Problem::from(Refusal::unprocessable("erasure", detail));
    let Parsed::One(request) = parse::<ErasureRequest>(&headers, body, 1)? else {
        return Err(wrong("the body should be one JSON object"));
    };
    let events = match request {
        ErasureRequest { event_id: Some(id), column: None, value: None } => vec![id],
        ErasureRequest { event_id: None, column: Some(column), value: Some(value) } => {
            let lp = Arc::clone(lp);
            tokio::task::spawn_blocking(move || of_column(&lp, &column, &value)).await.map_err(|_| lost())??
        }
        _ => return Err(wrong("either event_id should be given, or column and value, and not both")),
    };
    let (mut all, mut head) = (Erased::default(), lp.status().ledger_head);
    for events in events.chunks(TOGETHER) {
        let ask = Ask::Erase(EraseAsk { by: by.clone(), events: events.to_vec() });
        let (Answer::Erased(found), now) = lp.ask(ask).await? else { return Err(lost()) };
        let Erased { decisions, rewards, rounds } = found?;
        all.decisions += decisions;
        all.rewards += rewards;
        all.rounds.extend(rounds);
        head = now;
    }
    all.rounds.sort_unstable();
    all.rounds.dedup();
    let Erased { decisions, rewards, rounds } = all;
    let answer = ErasureAnswer { decisions, rewards, rounds, ledger_head: head };
    Ok(with_head(Json(answer).into_response(), head))
}

/// The events whose context has this value in this column. It looks at all decisions.
fn of_column(lp: &Loop, column: &str, value: &Value) -> crate::Result<Vec<String>> {
    let (mut from, mut found) = (0, Vec::new());
    loop {
        let rows = lp.read(|reader| reader.decisions(from, PAGE))?;
        let Some(last) = rows.last() else { return Ok(found) };
        from = last.number + 1;
        for row in rows {
            if DecisionRequest::stored(&row)?.context.get(column) == Some(value) {
                found.push(row.event_id);
            }
        }
    }
}
