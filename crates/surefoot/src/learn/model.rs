//! The next policy from a reward model of all rounds.

use std::sync::Arc;

use super::{State, Thompson};
use crate::error::{Result, check_setting};
use crate::logs::Logs;
use crate::model::{Regression, Statistics};
use crate::policy::LinearGaussian;

/// Fits a reward model to some rounds of the state, of which the last may be a part of a round, and samples from it.
///
/// The statistics of whole rounds are kept in the state. A round always adds to them as a whole, so they have the same
/// bits however often they are made again.
pub(super) fn fit(state: &mut State, seen: &[Arc<Logs>], thompson: Thompson) -> Result<LinearGaussian> {
    check_setting("thompson-v", thompson.v, thompson.v > 0.0, "above 0")?;
    let whole = seen.iter().zip(&state.rounds).take_while(|(seen, round)| Arc::ptr_eq(seen, round)).count();
    let (known, kept) = match state.statistics.take() {
        Some((known, kept)) if known <= whole => (known, Some(kept)),
        _ => (0, None),
    };
    let mut statistics = match kept {
        Some(kept) => Arc::unwrap_or_clone(kept),
        None => Statistics::new(state.prior.posterior().actions(), state.prior.posterior().features())?,
    };
    for logs in &seen[known..whole] {
        add(&mut statistics, logs)?;
    }
    let statistics = Arc::new(statistics);
    state.statistics = Some((whole, Arc::clone(&statistics)));
    let map = state.prior.features();
    let model = match &seen[whole..] {
        [] => Regression::default().fit(&statistics, &map.kinds())?,
        parts => {
            let mut with_parts = Statistics::clone(&statistics);
            parts.iter().try_for_each(|logs| add(&mut with_parts, logs))?;
            Regression::default().fit(&with_parts, &map.kinds())?
        }
    };
    model.policy(map, thompson.v)?.with_exploration(state.prior.exploration())
}

/// The contexts of the state's rounds are features already.
fn add(statistics: &mut Statistics, logs: &Logs) -> Result<()> {
    let reward: Vec<f64> = logs.cost().iter().map(|cost| -cost).collect();
    statistics.add(logs.contexts(), logs.action(), &reward)
}
