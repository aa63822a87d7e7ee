//! The memory that learning takes beside the records, so that a run that cannot keep its limit ends before its work.

use surefoot::learn::{Algorithm, Family, MemberKind};
use surefoot::logs::SPAN;
use surefoot::{Learner, LinearGaussian, Logs, Policy};

use crate::error::{Error, Result};
use crate::rounds::Rounds;

/// Bytes per record of a search: its place in the order of Adam, whether it weighs, and where its features are.
const SEARCHED: f64 = 5.3;

/// Bytes per record whose cost is not 0, in the certificates of a round.
const WEIGHED: u64 = 90;

/// Trees are grown from at most this many records, which are copied and binned.
const GROWN: u64 = 1 << 20;

/// Second moments have at most this many numbers.
const MOST_MOMENTS: u64 = 1 << 26;

/// The number of records that are looked at.
const SAMPLED: usize = 1000;

/// Checks that a limit can be kept.
pub(super) fn check(rounds: &Rounds, learner: &Learner, prior: &LinearGaussian, limit: Option<u64>) -> Result<()> {
    // What an engine holds is not in this process.
    let here = rounds.candidates.is_none() && rounds.shards.is_none();
    let Some(limit) = limit.filter(|_| here) else { return Ok(()) };
    let weighing = |logs: &Logs| logs.cost().iter().filter(|cost| **cost != 0.0).count() as u64;
    let weighing: Vec<u64> = rounds.rounds.iter().map(weighing).collect();
    let records: u64 = rounds.rounds.iter().map(|logs| logs.len() as u64).sum();
    let (all, largest) = (weighing.iter().sum::<u64>(), weighing.iter().max().copied().unwrap_or(0));
    let (p, k) = (prior.features().output() as u64, prior.actions() as u64);
    let stored = values_of_a_record(rounds);
    // Axes mix all features; otherwise sparse rows stay sparse.
    let width = if p <= Family::MOST_AXES as u64 { p } else { stored + 1 };
    let kinds: Vec<MemberKind> = match &learner.for_one_log().algorithm {
        Algorithm::Portfolio(portfolio) => portfolio.members().kinds().collect(),
        _ => vec![MemberKind::Search],
    };
    let moments = k.saturating_mul((p + 3).saturating_mul(p + 3));
    // Sums are added by a tree, which holds one per level.
    let levels = u64::from((records / SPAN as u64 + 1).next_power_of_two().trailing_zeros()) + 1;
    let part = |kind: &MemberKind| match kind {
        MemberKind::Search => (SEARCHED * records as f64) as u64 + all * (4 * width + 12),
        // Very many features are fitted without second moments, and not by logistic regressions.
        MemberKind::Linear if moments > MOST_MOMENTS => 80 * k * p,
        MemberKind::Logistic if moments > MOST_MOMENTS => 0,
        MemberKind::Linear => 4 * levels * moments,
        MemberKind::Logistic => 4 * (levels + 2) * moments,
        MemberKind::Kernel => 4 * levels * k * 503 * 503,
        MemberKind::Trees => records.min(GROWN) * (14 * stored + 40),
        // Others have no part that grows with the records.
        _ => 0,
    };
    // Records in memory take at most a third, and mapped files are held up to a quarter.
    let held = if rounds.is_stored() { limit / 4 } else { limit / 3 };
    let needed = kinds.iter().map(part).fold(held + largest * WEIGHED, u64::saturating_add);
    if needed <= limit {
        return Ok(());
    }
    // What is held is a share of the limit.
    let at_least = (needed - held) as f64 * if rounds.is_stored() { 4.0 / 3.0 } else { 1.5 };
    let other = match kinds[..] {
        [MemberKind::Linear] => "",
        _ => ", or the algorithm should be thompson, which needs the least",
    };
    let allowed = format!(
        "at least {:.1} GB to learn from {records} records, {all} of them with a reward above the lowest{other} (option memory)",
        (at_least / 1e8).ceil() / 10.0
    );
    Err(Error::setting("the memory", &allowed, format!("{:.1} GB", limit as f64 / 1e9)))
}

/// The number of values that a record of the newest round stores, as the mean of some.
fn values_of_a_record(rounds: &Rounds) -> u64 {
    let Some(logs) = rounds.rounds.last() else { return 0 };
    let step = (logs.len() / SAMPLED).max(1);
    let (mut values, mut count) = (0, 0);
    for i in (0..logs.len()).step_by(step) {
        values += logs.contexts().row(i).values().len();
        count += 1;
    }
    (values / count.max(1)) as u64
}
