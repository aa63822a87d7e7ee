//! `POST /v1/loops/{loop}/rewards`, and the same for one event.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::body::{Texts, lines, object, with_head};
use super::decisions::lost;
use super::problem::Problem;
use super::{App, reading};
use crate::config::Role;
use crate::engine::{Answer, Ask, Refusal, RewardAsk, RewardOutcome, Rewarded};
use crate::request::RewardRequest;

/// What became of a reward.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct RewardAnswer {
    /// The id of the event.
    event_id: String,
    /// `joined`, `duplicate`, `late` or `parked`.
    outcome: RewardOutcome,
}

macro_rules! paths {
    ($($(#[$doc:meta])* $name:ident, $path:literal, ($($param:tt)*), $place:ty, $parts:ident;)*) => {$(
        $(#[$doc])*
        #[utoipa::path(post, path = $path, tag = "rewards", params($($param)*),
            request_body(content((RewardRequest = "application/json"), (String = "application/x-ndjson"))),
            responses(
                (status = 201, description = "The reward is on disk.", body = RewardAnswer),
                (status = 200, description = "It was on disk before; or one answer per line of a batch, each with its \
                    status.",
                    content((RewardAnswer = "application/json"), (String = "application/x-ndjson"))),
                (status = "4XX", description = "What is allowed, and what came.", body = Problem,
                    content_type = "application/problem+json"),
                (status = 503, description = "Overload: nothing was stored. With urn:surefoot:store-unavailable, a \
                    connection to PostgreSQL that was lost during a commit may have left the reward stored: send it \
                    again, which is then a duplicate.", body = Problem,
                    content_type = "application/problem+json")))]
        pub(super) async fn $name(
            State(app): State<App>,
            path: Result<Path<$place>, PathRejection>,
            headers: HeaderMap,
            body: Result<Bytes, BytesRejection>,
        ) -> Result<Response, Problem> {
            let (name, event) = $parts(path)?;
            take(&app, &name, event.as_deref(), &headers, body).await
        }
    )*};
}

paths! {
    /// Send a reward of an event, or one per line.
    any, "/v1/loops/{loop}/rewards", (("loop" = String, Path)), String, without_event;
    /// Send a reward of this event, or one per line.
    of_event, "/v1/loops/{loop}/decisions/{event_id}/rewards",
        (("loop" = String, Path), ("event_id" = String, Path)), (String, String),
        with_event;
}

/// The loop and the event of a path.
type Parts = (String, Option<String>);

fn without_event(path: Result<Path<String>, PathRejection>) -> Result<Parts, Problem> {
    reading::segment(path).map(|name| (name, None))
}

fn with_event(path: Result<Path<(String, String)>, PathRejection>) -> Result<Parts, Problem> {
    reading::segments(path).map(|(name, event)| (name, Some(event)))
}

async fn take(
    app: &App,
    name: &str,
    event: Option<&str>,
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let lp = app.open(headers, Role::Reward, name)?;
    let check = |text: &[u8]| -> Result<RewardAsk, Problem> { Ok(object::<RewardRequest>(text)?.check(event)?) };
    let (single, asks) = Texts::of(headers, body, app.limits().batch)?.each(check)?;
    let good: Vec<RewardAsk> = asks.iter().flatten().cloned().collect();
    let (answers, head) = match good.is_empty() {
        true => (Vec::new(), lp.status().ledger_head),
        false => match lp.ask(Ask::Reward(good)).await? {
            (Answer::Rewarded(answers), head) => (answers, head),
            (_, head) => (Vec::new(), head),
        },
    };
    let answer = |event_id: String, answer: Result<Rewarded, Refusal>| match answer {
        Ok(Rewarded { outcome }) => {
            let again = outcome == RewardOutcome::Duplicate;
            let status = if again { StatusCode::OK } else { StatusCode::CREATED };
            Ok((status, RewardAnswer { event_id, outcome }))
        }
        Err(refusal) => Err(Problem::from(refusal)),
    };
    let mut answers = answers.into_iter();
    let all: Vec<Result<_, Problem>> = asks
        .into_iter()
        .map(|ask| {
            let ask = ask?;
            answer(ask.event_id, answers.next().ok_or_else(lost)?)
        })
        .collect();
    if single {
        let (status, body) = all.into_iter().next().ok_or_else(lost)??;
        return Ok(with_head((status, Json(body)).into_response(), head));
    }
    Ok(lines(all, head))
}
