//! What the logs of a loop say: `lint` of them, and `evaluations` of a policy on them. Both give what the command line gives
//! on the exported log, or on the history that was imported beside the loop.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use surefoot::Fingerprint;
use surefoot_data::lint::{LintSettings, Linted};
use surefoot_data::{
    ColumnNames, EvaluateRequest, Evaluated, LogReader, ModelRequest, NamedPolicy, PolicyReader, RecordPolicy,
    write_policy_with,
};

use super::body::with_head;
use super::decisions::lost;
use super::problem::Problem;
use super::upload::{PolicyFile, PolicyForm, Upload};
use super::{App, reading};
use crate::config::Role;
use crate::engine::Refusal;
use crate::history::Imported;
use crate::sequencer::Loop;
use crate::store::RoundRow;
use crate::{export, history, learning};

/// The name of the log in findings, as in an exported folder.
const LOG: &str = "logs.parquet";
/// The name of the evaluated policy.
const POLICY: &str = "policy";

/// Which records to look at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Over {
    /// The rounds of the loop that were learned from.
    #[default]
    Rounds,
    /// The history that was imported beside the loop.
    History,
}

/// The records that were asked for, as a file.
struct Evidence {
    path: PathBuf,
    /// What is not the loop's own.
    _folder: Option<tempfile::TempDir>,
}

impl Evidence {
    fn find(lp: &Loop, over: Over, from_round: u64) -> Result<Self, Problem> {
        let none = |detail: &str| Problem::from(Refusal::conflict("no-logs", detail));
        if over == Over::History {
            let path = lp.folder().and_then(history::records);
            let path =
                path.ok_or_else(|| none("the loop has no history: surefoot serve import makes logs its history"))?;
            return Ok(Evidence { path, _folder: None });
        }
        let folder = tempfile::tempdir()
            .map_err(|reason| crate::Error::System { place: "a temporary folder".into(), reason })?;
        let path = folder.path().join(LOG);
        match export::learned_log(lp, from_round, &path)? {
            0 if from_round > 0 => Err(none(&format!("no round from {from_round} on was learned from yet"))),
            0 => Err(none("the logs of a loop are the rounds that were learned from, and there is none yet")),
            _ => Ok(Evidence { path, _folder: Some(folder) }),
        }
    }

    fn reader(&self) -> LogReader {
        LogReader::new(vec![self.path.clone()], None, ColumnNames::default())
    }
}

/// A result, and what it is about if that is not the loop itself.
#[derive(Debug, Serialize)]
struct About<T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    over: Option<Over>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_trust: Option<&'static str>,
    #[serde(flatten)]
    result: T,
}

impl<T> About<T> {
    fn of(over: Over, result: T) -> Self {
        let history = over == Over::History;
        let on_trust = "the propensities are what another system has logged, and no ledger names the records";
        About { over: history.then_some(over), on_trust: history.then_some(on_trust), result }
    }
}

/// A round to begin with is one of the loop's own.
fn check_round(over: Over, from_round: u64) -> Result<(), Problem> {
    match over == Over::History && from_round > 0 {
        true => {
            let detail = "from_round should be absent, as a history has no rounds of the loop, but is given";
            Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "query", detail))
        }
        false => Ok(()),
    }
}

/// How long a request waits for others that read all logs, before it is told to come again.
const WAIT: Duration = Duration::from_secs(10);

/// Works on all logs of a loop, one caller at a time, in threads of a low priority.
async fn work<T: Serialize + Send + 'static>(
    app: &App,
    lp: &Arc<Loop>,
    work: impl FnOnce(&Loop) -> Result<T, Problem> + Send + 'static,
) -> Result<Response, Problem> {
    let turn = Arc::clone(&app.0.whole_logs).acquire_owned();
    let Ok(Ok(turn)) = tokio::time::timeout(WAIT, turn).await else {
        let detail = "another request reads all logs of a loop: ask again later";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail));
    };
    let shared = Arc::clone(lp);
    let task = tokio::task::spawn_blocking(move || {
        // The work goes on when its caller has gone, and the next waits for it.
        let _turn = turn;
        let mut found = Err(lost());
        let done = learning::in_background(1, || found = work(&shared));
        done.map_err(|reason| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "threads", reason)).and(found)
    });
    let found = task.await.map_err(|_| lost())?;
    Ok(with_head(Json(found?).into_response(), lp.status().ledger_head))
}

/// What to check.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LintQuery {
    /// `rounds` if absent, or `history`.
    #[serde(default)]
    #[param(inline)]
    over: Over,
    /// The first round of the loop to look at; 0 if absent.
    #[serde(default)]
    #[param(minimum = 0)]
    from_round: u64,
}

/// Check the logs of a loop: the rounds that were learned from, or its history.
#[utoipa::path(get, path = "/v1/loops/{loop}/lint", tag = "reading", params(("loop" = String, Path), LintQuery),
    responses((status = 200, description = "What `surefoot lint` says.", body = Object),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, content_type = "application/problem+json")))]
pub(super) async fn lint(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    query: Result<Query<LintQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let lp = app.open(&headers, Role::Read, &reading::segment(path)?)?;
    let wrong = |e: QueryRejection| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "query", e.body_text());
    let Query(LintQuery { over, from_round }) = query.map_err(wrong)?;
    check_round(over, from_round)?;
    work(&app, lp, move |lp| {
        let log = Evidence::find(lp, over, from_round)?;
        let settings = LintSettings { rewards: lp.rules().reward_range, ..LintSettings::default() };
        let mut linted: Linted =
            surefoot_data::lint::lint(&log.reader(), settings, |_| ()).map_err(crate::Error::from)?;
        let file = log.path.display().to_string();
        let rows = linted.report.findings.iter_mut().flat_map(|finding| &mut finding.rows);
        let name = log.path.file_name().unwrap_or_default().to_string_lossy();
        rows.filter(|row| row.file == file).for_each(|row| row.file = name.clone().into());
        Ok(About::of(over, linted))
    })
    .await
}

/// Read what the history of a loop is; null if it has none. `lint` and `evaluations` take `over=history`; no certificate uses it.
#[utoipa::path(get, path = "/v1/loops/{loop}/history", tag = "reading", params(("loop" = String, Path)),
    responses((status = 200, body = Option<Imported>),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn history(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let lp = app.open(&headers, Role::Read, &reading::segment(path)?)?;
    let about: Option<Imported> = lp.folder().and_then(history::about);
    Ok(with_head(Json(about).into_response(), lp.status().ledger_head))
}

/// How to evaluate.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EvaluationQuery {
    /// The failure probability of each interval; 0.05 if absent.
    #[serde(default = "usual_delta")]
    #[param(exclusive_minimum = 0.0, exclusive_maximum = 1.0)]
    delta: f64,
    /// The reward model: `none` or `linear`.
    #[serde(default = "no_model")]
    model: String,
    /// The number of bootstrap replicates; 1000 if absent.
    #[serde(default = "usual_replicates")]
    #[param(maximum = 10_000)]
    replicates: usize,
    /// The seed of the bootstrap; 1 if absent.
    #[serde(default = "usual_seed")]
    #[param(minimum = 0)]
    seed: u64,
    /// `rounds` if absent, or `history`.
    #[serde(default)]
    #[param(inline)]
    over: Over,
    /// The first round of the loop to look at; 0 if absent. A policy that was learned from rounds before it was not chosen
    /// by these records.
    #[serde(default)]
    #[param(minimum = 0)]
    from_round: u64,
}

fn usual_delta() -> f64 {
    EvaluateRequest::default().delta
}

fn no_model() -> String {
    "none".into()
}

fn usual_replicates() -> usize {
    EvaluateRequest::default().replicates
}

fn usual_seed() -> u64 {
    EvaluateRequest::default().seed
}

impl EvaluationQuery {
    fn request(&self, reward_range: [f64; 2], policy: RecordPolicy) -> Result<EvaluateRequest, String> {
        if !(self.delta > 0.0 && self.delta < 1.0) {
            return Err(format!("delta should be in (0, 1), but is {}", self.delta));
        }
        if self.replicates > 10_000 {
            return Err(format!("replicates should be at most 10000, but are {}", self.replicates));
        }
        let model = match self.model.as_str() {
            "none" => ModelRequest::None,
            "linear" => ModelRequest::Linear { ignore: Vec::new() },
            other => return Err(format!("model should be none or linear, but is {other:?}")),
        };
        Ok(EvaluateRequest {
            policies: vec![NamedPolicy { name: POLICY.into(), policy }],
            reward_range,
            model,
            delta: self.delta,
            replicates: self.replicates,
            seed: self.seed,
            ..EvaluateRequest::default()
        })
    }
}

/// Evaluate a policy on the logs of a loop: the rounds that were learned from, or its history.
///
/// Each interval holds with its own probability: whoever evaluates many policies and takes the best should bring it as a
/// challenger, which later rounds judge.
#[utoipa::path(post, path = "/v1/loops/{loop}/evaluations", tag = "reading",
    params(("loop" = String, Path), EvaluationQuery),
    request_body(content((PolicyFile = "application/octet-stream"), (PolicyForm = "multipart/form-data"))),
    responses((status = 200, description = "What `surefoot evaluate` says.", body = Object),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, content_type = "application/problem+json")))]
pub(super) async fn evaluate(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    query: Result<Query<EvaluationQuery>, QueryRejection>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Problem> {
    let lp = app.open(&headers, Role::Read, &reading::segment(path)?)?;
    let wrong = |detail: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "query", detail);
    let Query(query) = query.map_err(|e| wrong(e.body_text()))?;
    let (over, from_round) = (query.over, query.from_round);
    check_round(over, from_round)?;
    let upload = Upload::read(request).await?;
    work(&app, lp, move |lp| {
        let policy = record_policy(&upload, lp)?;
        let request = query.request(lp.rules().reward_range, policy).map_err(wrong)?;
        let log = Evidence::find(lp, over, from_round)?;
        let refused = |reason: surefoot_data::Error| Refusal::unprocessable("evaluation", reason.to_string());
        let mut evaluated: Evaluated = surefoot_data::evaluate(&log.reader(), &request, |_| ()).map_err(refused)?;
        if over == Over::Rounds
            && let Some(round) = seen_until(lp, upload.policy(lp.rules(), lp.policies())?.identity())?
            && round >= from_round
        {
            evaluated.certified = false;
            for policy in &mut evaluated.policies {
                policy.certified = false;
                policy.warnings.push(format!(
                    "the loop learned it from round {round} and those before: on these, its results are too optimistic \
                     (from_round={} leaves them out)",
                    round + 1
                ));
            }
        }
        Ok(About::of(over, evaluated))
    })
    .await
}

/// The newest round that the loop has learned a policy from; `None` if it has not learned it.
fn seen_until(lp: &Loop, policy: Option<Fingerprint>) -> Result<Option<u64>, Problem> {
    let Some(policy) = policy.map(|policy| Value::from(policy.to_string())) else { return Ok(None) };
    let rounds = lp.read(|reader| reader.rounds())?;
    let learned = |row: &RoundRow| {
        let report = row.learned.as_ref().and_then(|(_, report)| serde_json::from_str::<Value>(report).ok());
        report.is_some_and(|report| report["learned"] == policy)
    };
    // The same policy may be learned again: the first time counts, later records cannot have chosen it.
    Ok(rounds.iter().find(|row| learned(row)).map(|row| row.round))
}

/// The policy that was sent. Without inputs of its own, it has those of the loop.
fn record_policy(upload: &Upload, lp: &Loop) -> Result<RecordPolicy, Problem> {
    let policy = upload.policy(lp.rules(), lp.policies())?;
    let (mut reader, mut path) = (PolicyReader::default(), upload.path());
    let (_, inputs) = reader.read_with(&path).map_err(crate::Error::from)?;
    if inputs.is_none() {
        path = path.with_file_name("with-inputs.safetensors");
        let written = write_policy_with(&path, policy.as_ref(), Some(&lp.rules().inputs()));
        written.map_err(|reason| Refusal::unprocessable("policy", reason.to_string()))?;
    }
    Ok(RecordPolicy::open_file(&path, &mut reader).map_err(crate::Error::from)?)
}
