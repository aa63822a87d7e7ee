//! Reading a loop.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use futures_util::stream::unfold;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use surefoot::Fingerprint;
use surefoot::audit::{Ledger, Statement, recomputable};
use tokio::sync::broadcast::error::RecvError;

use super::App;
use super::body::{NDJSON, with_head};
use super::problem::Problem;
use crate::config::{Aggregation, Mode, Role, RoundRule};
use crate::engine::Status;
use crate::export;
use crate::request::action_value;
use crate::sequencer::Loop;
use crate::store::{Reader, RoundRow};
use crate::time::written;

/// The only variable part of a path.
pub(super) fn segment(path: Result<Path<String>, PathRejection>) -> Result<String, Problem> {
    path.map(|Path(name)| name).map_err(refused)
}

/// The two variable parts of a path.
pub(super) fn segments(path: Result<Path<(String, String)>, PathRejection>) -> Result<(String, String), Problem> {
    path.map(|Path(names)| names).map_err(refused)
}

#[expect(clippy::needless_pass_by_value, reason = "it is an argument of map_err")]
fn refused(rejection: PathRejection) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "path", rejection.body_text())
}

/// Reads the store on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    lp: &Arc<Loop>,
    read: impl FnOnce(&dyn Reader) -> crate::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    let lp = Arc::clone(lp);
    let done = tokio::task::spawn_blocking(move || lp.read(read)).await;
    Ok(done.map_err(|e| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopped", e.to_string()))??)
}

/// List all loops.
#[utoipa::path(get, path = "/v1/loops", tag = "reading", responses((status = 200, body = [Status]),
    (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn loops(State(app): State<App>, headers: HeaderMap) -> Result<Json<Vec<Status>>, Problem> {
    app.allow(&headers, Role::Read)?;
    Ok(Json(app.loops().map(|lp| lp.status()).collect()))
}

/// Where a loop stands.
#[utoipa::path(get, path = "/v1/loops/{loop}", tag = "reading", params(("loop" = String, Path)),
    responses((status = 200, body = Status),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn status(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let status = app.open(&headers, Role::Read, &segment(path)?)?.status();
    let head = status.ledger_head;
    Ok(with_head(Json(status).into_response(), head))
}

/// What a loop has fixed before its first decision.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct RulesAnswer {
    /// `live`, `shadow` or `apprentice`.
    #[schema(value_type = String)]
    mode: Mode,
    /// The actions, by name or number; none if every decision has its own candidates.
    actions: Vec<Value>,
    /// The largest number of candidates of a decision; null if the actions are fixed.
    most_candidates: Option<usize>,
    /// The lowest and the highest reward.
    reward_range: [f64; 2],
    /// How long after a decision its rewards count.
    window_seconds: f64,
    /// The reward of a decision without one.
    default_reward: f64,
    /// How several rewards become one.
    #[schema(value_type = String)]
    aggregation: Aggregation,
    /// When a round ends: `{records}`, or `{every, at_least}`.
    #[schema(value_type = Object)]
    round: RoundRule,
    /// How long records are kept; null if as long as the loop.
    retention_seconds: Option<f64>,
    /// The gate.
    gate: String,
    /// The failure probability of all certificates together.
    delta: f64,
    /// The first policy.
    #[schema(value_type = String)]
    first_policy: Fingerprint,
}

/// What a loop has fixed before its first decision.
#[utoipa::path(get, path = "/v1/loops/{loop}/rules", tag = "reading", params(("loop" = String, Path)),
    responses((status = 200, body = RulesAnswer),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn rules(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let lp = app.open(&headers, Role::Read, &segment(path)?)?;
    let rules = lp.rules();
    let answer = RulesAnswer {
        mode: rules.mode,
        actions: match &rules.candidates {
            None => (0..rules.actions.len() as u32).map(|a| action_value(&rules.actions, a)).collect(),
            Some(_) => Vec::new(),
        },
        most_candidates: rules.candidates.as_ref().map(|_| rules.actions.len()),
        reward_range: rules.reward_range,
        window_seconds: rules.window.0 as f64 / 1000.0,
        default_reward: rules.default,
        aggregation: rules.aggregation,
        round: rules.round,
        retention_seconds: rules.retention.map(|time| time.0 as f64 / 1000.0),
        gate: rules.gate.to_string(),
        delta: rules.learner.protocol.delta,
        first_policy: rules.first,
    };
    Ok(with_head(Json(answer).into_response(), lp.status().ledger_head))
}

/// A round.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct RoundAnswer {
    /// Its number, counted from 0.
    round: u64,
    /// The policy that collects it.
    #[schema(value_type = Option<String>)]
    policy: Option<Fingerprint>,
    /// The number of its first decision.
    first: u64,
    /// When its first decision was drawn.
    opened_at: String,
    /// The number of its decisions; absent while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
    /// Whether an operator closed it; absent while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    closed_by_hand: Option<bool>,
    /// True if all its records were erased, because of their age.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    erased: bool,
    /// When it was learned from; absent before.
    #[serde(skip_serializing_if = "Option::is_none")]
    learned_at: Option<String>,
    /// What was learned from it; absent before.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<Value>,
}

impl RoundAnswer {
    fn of(row: RoundRow) -> Self {
        let (learned_at, report) = row.learned.unzip();
        RoundAnswer {
            round: row.round,
            policy: row.policy,
            first: row.first,
            opened_at: written(row.opened_at),
            records: row.closed.as_ref().map(|closed| closed.records),
            closed_by_hand: row.closed.as_ref().map(|closed| closed.by_hand),
            erased: row.erased,
            learned_at: learned_at.map(written),
            report: report.and_then(|text| serde_json::from_str(&text).ok()),
        }
    }
}

/// List the rounds of a loop, with what was learned from them.
#[utoipa::path(get, path = "/v1/loops/{loop}/rounds", tag = "reading", params(("loop" = String, Path)),
    responses((status = 200, body = [RoundAnswer]),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn rounds(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let lp = app.open(&headers, Role::Read, &segment(path)?)?;
    let rounds = blocking(lp, |reader| reader.rounds()).await?;
    let all: Vec<RoundAnswer> = rounds.into_iter().map(RoundAnswer::of).collect();
    Ok(with_head(Json(all).into_response(), lp.status().ledger_head))
}

/// How a log is written.
#[derive(Debug, Clone, Copy, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum LogFormat {
    /// A Parquet file.
    #[default]
    Parquet,
    /// One JSON object per line.
    Jsonl,
}

/// The format of a log.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LogQuery {
    /// `parquet` or `jsonl`.
    #[serde(default)]
    format: LogFormat,
}

/// Read the log of a round that has ended. Its rewards are final once it was learned from.
#[utoipa::path(get, path = "/v1/loops/{loop}/rounds/{round}/logs", tag = "reading",
    params(("loop" = String, Path), ("round" = u64, Path), LogQuery),
    responses((status = 200, description = "The records in their order.",
            content((Vec<u8> = "application/vnd.apache.parquet"), (String = "application/x-ndjson"))),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn logs(
    State(app): State<App>,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Result<Query<LogQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (name, round) = segments(path)?;
    let lp = app.open(&headers, Role::Read, &name)?;
    let wrong = |detail: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "query", detail);
    let Query(LogQuery { format }) = query.map_err(|e| wrong(e.body_text()))?;
    let round: u64 = round.parse().map_err(|_| wrong(format!("round should be a number, but is {round:?}")))?;
    let rules = Arc::clone(lp.rules());
    let found = blocking(lp, move |reader| {
        let rounds = reader.rounds()?;
        let Some(row) = rounds.into_iter().find(|row| row.round == round && row.closed.is_some()) else {
            return Ok(None);
        };
        let lines = export::lines(reader, &rules, &row)?;
        Ok(Some(match format {
            LogFormat::Jsonl => (lines, NDJSON),
            LogFormat::Parquet => (export::parquet(lines)?, "application/vnd.apache.parquet"),
        }))
    })
    .await?;
    let Some((bytes, kind)) = found else {
        let detail = format!("there is no round {round} that has ended");
        return Err(Problem::new(StatusCode::NOT_FOUND, "no-such-round", detail));
    };
    Ok(with_head(typed(bytes, kind), lp.status().ledger_head))
}

fn typed(bytes: Vec<u8>, kind: &'static str) -> Response {
    let mut response = Body::from(bytes).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Read a policy file: the fingerprint of a policy, or the name of a file of features or of a basis that it names.
#[utoipa::path(get, path = "/v1/loops/{loop}/policies/{file}", tag = "reading",
    params(("loop" = String, Path), ("file" = String, Path)),
    responses((status = 200, description = "A safetensors file.", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn policy(
    State(app): State<App>,
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (name, file) = segments(path)?;
    let lp = app.open(&headers, Role::Read, &name)?;
    let unknown = || Problem::new(StatusCode::NOT_FOUND, "no-such-policy", format!("there is no policy {file:?}"));
    let found = lp.policies().file(&file).ok_or_else(unknown)?;
    let read = tokio::task::spawn_blocking(move || std::fs::read(found)).await;
    let bytes = read.ok().and_then(Result::ok).ok_or_else(unknown)?;
    Ok(with_head(typed(bytes, "application/octet-stream"), lp.status().ledger_head))
}

/// A certificate.
#[derive(Debug, Serialize)]
struct CertificateAnswer {
    #[serde(flatten)]
    statement: Statement,
    /// Whether it can be recomputed: no record of it was erased since.
    recomputable: bool,
}

/// Which certificates to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct CertificateQuery {
    /// The first round whose certificates are listed; 0 if absent.
    #[serde(default)]
    #[param(minimum = 0)]
    from_round: usize,
}

/// List the certificates, in the order in which they were made. `recomputable` is false if records of one were erased.
#[utoipa::path(get, path = "/v1/loops/{loop}/certificates", tag = "reading",
    params(("loop" = String, Path), CertificateQuery),
    responses((status = 200, body = [Object]),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn certificates(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    query: Result<Query<CertificateQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let lp = app.open(&headers, Role::Read, &segment(path)?)?;
    let wrong = |e: QueryRejection| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "query", e.body_text());
    let Query(CertificateQuery { from_round }) = query.map_err(wrong)?;
    let all = blocking(lp, move |reader| {
        let ledger: Ledger = reader.session()?.ledger.parse().map_err(crate::Error::core("the ledger"))?;
        let told = |statement: Statement| CertificateAnswer {
            recomputable: recomputable(&ledger, &statement.certificate),
            statement,
        };
        // A statement counts the rounds up to its own.
        let listed = reader.statements()?.into_iter().filter(|statement| statement.round > from_round);
        Ok(listed.map(told).collect::<Vec<_>>())
    })
    .await?;
    Ok(with_head(Json(all).into_response(), lp.status().ledger_head))
}

/// Read the ledger.
#[utoipa::path(get, path = "/v1/loops/{loop}/ledger", tag = "reading", params(("loop" = String, Path)),
    responses((status = 200, body = String, content_type = "application/x-ndjson"),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn ledger(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let lp = app.open(&headers, Role::Read, &segment(path)?)?;
    let session = blocking(lp, |reader| reader.session()).await?;
    Ok(typed(session.ledger.into_bytes(), NDJSON))
}

/// An act of an operator.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct ActAnswer {
    /// When.
    at: String,
    /// The name of the key.
    by: String,
    /// What.
    act: String,
}

/// List the acts of operators.
#[utoipa::path(get, path = "/v1/loops/{loop}/acts", tag = "operation", params(("loop" = String, Path)),
    responses((status = 200, body = [ActAnswer]),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn acts(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let lp = app.open(&headers, Role::Read, &segment(path)?)?;
    let all = blocking(lp, |reader| reader.acts()).await?;
    let told = all.into_iter().map(|act| ActAnswer { at: written(act.at), by: act.by, act: act.act });
    Ok(with_head(Json(told.collect::<Vec<_>>()).into_response(), lp.status().ledger_head))
}

/// What happens in a loop, as it happens (server-sent events).
#[utoipa::path(get, path = "/v1/loops/{loop}/events", tag = "reading", params(("loop" = String, Path)),
    responses((status = 200, body = String, content_type = "text/event-stream"),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn events(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Sent, Infallible>>>, Problem> {
    let lp = app.open(&headers, Role::Read, &segment(path)?)?;
    let stream = unfold(lp.events(), |mut events| async move {
        loop {
            match events.recv().await {
                Ok(event) => {
                    let sent = Sent::default().json_data(&event).ok()?;
                    return Some((Ok(sent), events));
                }
                // A slow reader misses events, and reads where the loop stands.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()))
}

/// Whether the server answers.
#[utoipa::path(get, path = "/healthz", tag = "operation", responses((status = 200, body = String, content_type = "text/plain")))]
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether all loops can be read.
#[utoipa::path(get, path = "/readyz", tag = "operation",
    responses((status = 200, body = String, content_type = "text/plain"),
        (status = 503, body = Problem, content_type = "application/problem+json")))]
pub(super) async fn readyz(State(app): State<App>) -> Result<&'static str, Problem> {
    for lp in app.loops() {
        blocking(lp, |reader| reader.rules()).await?;
    }
    Ok("ready\n")
}

/// Counters, in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "operation", responses((status = 200, body = String, content_type = "text/plain"),
    (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn metrics(State(app): State<App>, headers: HeaderMap) -> Result<Response, Problem> {
    app.allow(&headers, Role::Read)?;
    let text = crate::metrics::text(app.loops().map(|lp| (lp.status(), lp.metrics())));
    Ok(typed(text.into_bytes(), "text/plain; version=0.0.4"))
}
