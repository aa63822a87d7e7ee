//! HTTP: the paths of the service. Handlers check, ask a loop, and write the answer; no rule of a loop is here.
//!
//! Bodies are JSON in snake_case. Errors are `application/problem+json`, and say what is allowed and what came.

mod activating;
mod activity;
mod admin;
mod body;
mod challengers;
mod decisions;
mod erasing;
mod evaluating;
mod keys;
mod openapi;
mod page;
mod patience;
mod personalizer;
mod problem;
mod reading;
mod rewards;
mod server;
mod telling;
mod tls;
mod upload;

pub(crate) use openapi::schema;
pub use server::{Limits, Server};

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get, post};

use crate::config::Role;
use crate::sequencer::Loop;
use keys::Keys;
use problem::Problem;

/// What all handlers share.
#[derive(Debug, Clone)]
pub(crate) struct App(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    loops: BTreeMap<String, Arc<Loop>>,
    keys: Keys,
    limits: Limits,
    /// Whoever reads all logs of a loop holds it: one at a time, since it takes time and memory.
    whole_logs: Arc<tokio::sync::Semaphore>,
}

impl App {
    pub(crate) fn new(loops: impl IntoIterator<Item = Arc<Loop>>, keys: Keys, limits: Limits) -> Self {
        let loops = loops.into_iter().map(|lp| (lp.name().to_owned(), lp)).collect();
        let whole_logs = Arc::new(tokio::sync::Semaphore::new(1));
        App(Arc::new(Inner { loops, keys, limits, whole_logs }))
    }

    fn limits(&self) -> &Limits {
        &self.0.limits
    }

    fn loops(&self) -> impl Iterator<Item = &Arc<Loop>> {
        self.0.loops.values()
    }

    /// The loop of this name, for a caller who may do this with it.
    fn open(&self, headers: &HeaderMap, role: Role, name: &str) -> Result<&Arc<Loop>, Problem> {
        self.allow(headers, role)?;
        self.0.loops.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.0.loops.keys().map(String::as_str).collect();
            let detail = format!("the loop should be one of {}, but is {name:?}", known.join(", "));
            Problem::new(StatusCode::NOT_FOUND, "no-such-loop", detail)
        })
    }

    /// The name of the caller's key, if its bearer may do this.
    fn allow(&self, headers: &HeaderMap, role: Role) -> Result<String, Problem> {
        self.0.keys.allow(headers, role)
    }
}

/// All paths.
pub(crate) fn router(app: App) -> Router {
    let (most, most_policy) = (app.limits().body, app.limits().policy);
    Router::new()
        .route("/", get(page::index))
        .route("/loops/{loop}", get(page::index))
        .route("/page/{file}", get(page::file))
        .route("/v1/loops", get(reading::loops))
        .route("/v1/loops/{loop}", get(reading::status))
        .route("/v1/loops/{loop}/rules", get(reading::rules))
        .route("/v1/loops/{loop}/decisions", post(decisions::decide).get(decisions::list))
        .route("/v1/loops/{loop}/decisions/{event_id}", get(decisions::one))
        .route("/v1/loops/{loop}/decisions/{event_id}/rewards", post(rewards::of_event))
        .route("/v1/loops/{loop}/decisions/{event_id}/activate", post(activating::activate))
        .route("/v1/loops/{loop}/rewards", post(rewards::any))
        .route("/v1/loops/{loop}/rounds", get(reading::rounds))
        .route("/v1/loops/{loop}/rounds/{round}/logs", get(reading::logs))
        .route("/v1/loops/{loop}/policies", post(challengers::bring).layer(DefaultBodyLimit::max(most_policy)))
        .route("/v1/loops/{loop}/policies/{file}", get(reading::policy))
        .route("/v1/loops/{loop}/challengers", get(challengers::list))
        .route("/v1/loops/{loop}/erasures", post(erasing::erase))
        .route("/v1/loops/{loop}/activity", get(activity::activity))
        .route("/v1/loops/{loop}/history", get(evaluating::history))
        .route("/v1/loops/{loop}/lint", get(evaluating::lint))
        .route("/v1/loops/{loop}/evaluations", post(evaluating::evaluate).layer(DefaultBodyLimit::max(most_policy)))
        .route("/v1/loops/{loop}/certificates", get(reading::certificates))
        .route("/v1/loops/{loop}/ledger", get(reading::ledger))
        .route("/v1/loops/{loop}/acts", get(reading::acts))
        .route("/v1/loops/{loop}/events", get(reading::events))
        .route("/v1/loops/{loop}/rounds/current/close", post(admin::close))
        .route("/v1/loops/{loop}/pause", post(admin::pause))
        .route("/v1/loops/{loop}/resume", post(admin::resume))
        .route("/v1/loops/{loop}/rollback", post(admin::rollback))
        .route("/v1/loops/{loop}/retrain", post(admin::retrain))
        .route("/personalizer/v1.0/{*rest}", any(personalizer::only))
        .route("/loops/{loop}/personalizer/v1.0/{*rest}", any(personalizer::of_loop))
        .route("/healthz", get(reading::healthz))
        .route("/readyz", get(reading::readyz))
        .route("/metrics", get(reading::metrics))
        .route("/openapi.json", get(openapi::document))
        .fallback(problem::not_found)
        .method_not_allowed_fallback(problem::not_allowed)
        .layer(DefaultBodyLimit::max(most))
        .layer(from_fn_with_state(app.clone(), in_time))
        .with_state(app)
}

/// Gives up on a request whose body does not come.
async fn in_time(State(app): State<App>, request: Request, next: Next) -> Response {
    let limit = app.limits().request;
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let detail = format!("a request should take at most {} s", limit.as_secs());
            Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail).into_response()
        }
    }
}
