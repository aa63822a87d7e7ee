//! `GET /v1/loops/{loop}/activity`: the newest decisions as numbers, without contexts.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::body::with_head;
use super::problem::Problem;
use super::{App, reading};
use crate::clock::Time;
use crate::config::{Role, Rules};
use crate::request::action_value;
use crate::store::RecordRow;
use crate::time::written;

/// The largest number of decisions that are looked at.
const MOST: u64 = 100_000;
/// So many are read at once: others may read in between.
const TOGETHER: u64 = 1000;
/// The largest number of stretches of time.
const STRETCHES: Time = 60;
/// The lengths of a stretch, in seconds.
const LENGTHS: [Time; 16] = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800];
/// The upper ends of the bins of propensities.
const ENDS: [f64; 8] = [0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0];

/// Which decisions to look at.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ActivityQuery {
    /// The number of the newest decisions to look at; no more than 100000.
    #[serde(default = "usual")]
    #[param(minimum = 1, maximum = 100_000)]
    newest: u64,
}

fn usual() -> u64 {
    10_000
}

/// The newest decisions of a loop, as numbers.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct ActivityAnswer {
    /// The number of decisions that were looked at.
    decisions: u64,
    /// The length of a stretch of time, in seconds.
    stretch_seconds: f64,
    /// Stretches of time with a decision, in order.
    stretches: Vec<Stretch>,
    /// All actions, in their order.
    actions: Vec<ActionShare>,
    /// The smallest propensity; absent without decisions.
    #[serde(skip_serializing_if = "Option::is_none")]
    smallest_propensity: Option<f64>,
    /// How many propensities are in each bin, in order.
    propensities: Vec<Bin>,
}

/// A stretch of time.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
struct Stretch {
    /// When it begins.
    from: String,
    /// The number of its decisions.
    decisions: u64,
    /// How many of these have a reward that counts.
    rewarded: u64,
    /// Their mean reward: the default reward where none came.
    mean_reward: f64,
    /// Whether all their windows had passed when the newest decision was drawn, so that the mean is final.
    #[serde(rename = "final")]
    is_final: bool,
}

/// How often an action was chosen.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
struct ActionShare {
    /// The action, by name or number.
    action: Value,
    /// The number of decisions that chose it.
    decisions: u64,
}

/// The propensities above one number, up to another.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
struct Bin {
    /// The lower end, which is not in it.
    above: f64,
    /// The upper end, which is in it.
    up_to: f64,
    /// The number of decisions.
    decisions: u64,
}

/// Sums over the decisions of a stretch of time.
#[derive(Debug, Default)]
struct Sums {
    decisions: u64,
    rewarded: u64,
    reward: f64,
    last_at: Time,
}

/// What is kept of a record.
struct Seen {
    at: Time,
    action: u32,
    propensity: f64,
    reward: Option<f64>,
}

impl Seen {
    fn of(rules: &Rules, record: &RecordRow) -> Self {
        let RecordRow { decision, rewards } = record;
        let reward = rules.aggregation.of(rewards);
        Seen { at: decision.decided_at, action: decision.action, propensity: decision.propensity, reward }
    }
}

impl ActivityAnswer {
    fn of(rules: &Rules, seen: &[Seen]) -> Self {
        let (first, last) = (seen.first().map_or(0, |seen| seen.at), seen.last().map_or(0, |seen| seen.at));
        let fits = |length: &&Time| (last - first) / 1000 < **length * (STRETCHES - 1);
        let length = 1000 * LENGTHS.iter().find(fits).copied().unwrap_or((last - first) / 1000 / (STRETCHES - 1) + 1);
        let mut stretches: BTreeMap<Time, Sums> = BTreeMap::new();
        let mut actions = vec![0; rules.actions.len()];
        let mut bins = [0; ENDS.len()];
        for seen in seen {
            let sums = stretches.entry(seen.at.div_euclid(length)).or_default();
            sums.decisions += 1;
            sums.rewarded += u64::from(seen.reward.is_some());
            sums.reward += seen.reward.unwrap_or(rules.default);
            sums.last_at = sums.last_at.max(seen.at);
            actions[seen.action as usize] += 1;
            bins[ENDS.iter().position(|end| seen.propensity <= *end).unwrap_or(ENDS.len() - 1)] += 1;
        }
        let stretch = |(number, sums): (Time, Sums)| Stretch {
            from: written(number * length),
            decisions: sums.decisions,
            rewarded: sums.rewarded,
            mean_reward: sums.reward / sums.decisions as f64,
            is_final: sums.last_at.saturating_add(rules.window.0) < last,
        };
        let share = |(action, &decisions): (usize, &u64)| ActionShare {
            action: action_value(&rules.actions, action as u32),
            decisions,
        };
        let bin = |(i, &decisions): (usize, &u64)| Bin {
            above: if i == 0 { 0.0 } else { ENDS[i - 1] },
            up_to: ENDS[i],
            decisions,
        };
        ActivityAnswer {
            decisions: seen.len() as u64,
            stretch_seconds: length as f64 / 1000.0,
            stretches: stretches.into_iter().map(stretch).collect(),
            actions: actions.iter().enumerate().map(share).collect(),
            smallest_propensity: seen.iter().map(|seen| seen.propensity).reduce(f64::min),
            propensities: bins.iter().enumerate().map(bin).collect(),
        }
    }
}

/// Read the newest decisions as numbers: rewards over time, shares of actions and propensities, without any context.
#[utoipa::path(get, path = "/v1/loops/{loop}/activity", tag = "reading", params(("loop" = String, Path), ActivityQuery),
    responses((status = 200, body = ActivityAnswer),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, content_type = "application/problem+json")))]
pub(super) async fn activity(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    query: Result<Query<ActivityQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let lp = app.open(&headers, Role::Read, &reading::segment(path)?)?;
    let wrong = |detail: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "query", detail);
    let Query(ActivityQuery { newest }) = query.map_err(|e| wrong(e.body_text()))?;
    if !(1..=MOST).contains(&newest) {
        return Err(wrong(format!("newest should be from 1 to {MOST}, but is {newest}")));
    }
    let status = lp.status();
    let mut seen = Vec::new();
    let mut from = status.decisions.saturating_sub(newest);
    while from < status.decisions {
        let (rules, count) = (Arc::clone(lp.rules()), TOGETHER.min(status.decisions - from));
        seen.extend(
            reading::blocking(lp, move |reader| {
                let mut some = Vec::new();
                reader.records(from, count, &mut |record| {
                    some.push(Seen::of(&rules, &record));
                    Ok(())
                })?;
                Ok(some)
            })
            .await?,
        );
        from += count;
    }
    Ok(with_head(Json(ActivityAnswer::of(lp.rules(), &seen)).into_response(), status.ledger_head))
}
