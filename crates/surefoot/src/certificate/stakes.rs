//! Lambdas for a policy that was fixed before its records: chosen before the first of them, with a weight each.

use super::bound::Smoothing;
use super::case::Since;
use crate::logs::Logs;

/// A lambda and its weight in a mixture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stake {
    pub(crate) lambda: f64,
    pub(crate) weight: f64,
}

/// Multiples of the reference lambda, and their weights, which sum to 1. Twice the reference is for records that vary less
/// than was guessed. The small multiples are for more records than those of the first round (a martingale keeps its
/// lambda for as long as it lasts), and for importance weights that vary more.
const MULTIPLES: [(f64, f64); 7] =
    [(2.0, 0.08), (1.0, 0.25), (0.5, 0.25), (0.25, 0.2), (0.125, 0.1), (0.0625, 0.07), (0.03125, 0.05)];

/// The largest lambda of the adjusted factor, which is positive below 1.
const LARGEST_ADJUSTED: f64 = 0.95;

/// A difference of two policies is guessed to vary this much less than a cost.
const DIFFERENCE: f64 = 1.0 / 16.0;

/// The stakes for records from `since` on, at the failure probability `delta`. Everything here is known before the first of
/// these records, except for their number in the first round, which must not depend on their costs.
pub(super) fn stakes(rounds: &[Logs], since: Since, smoothing: Smoothing, delta: f64) -> Vec<Stake> {
    let records = rounds.get(since.round).map_or(1, |logs| logs.len().saturating_sub(since.record).max(1));
    let variance = match smoothing {
        Smoothing::Ls => variance(rounds, since),
        Smoothing::Adjusted => DIFFERENCE * variance(rounds, since),
    };
    // The lambda at which `l V/2 + ln(1/delta)/(l N)`, the slack to first order, is smallest.
    let reference = (2.0 * -delta.ln() / (records as f64 * variance)).sqrt();
    let cap = match smoothing {
        Smoothing::Ls => f64::INFINITY,
        Smoothing::Adjusted => LARGEST_ADJUSTED,
    };
    MULTIPLES.iter().map(|&(multiple, weight)| Stake { lambda: (multiple * reference).min(cap), weight }).collect()
}

/// A guess of the variance of a cost, from the newest round before `since`, or from the records before it in the first
/// round. Costs of -1 and 0 with the same mean vary most. Half a record of each is added, so that it is never 0.
fn variance(rounds: &[Logs], since: Since) -> f64 {
    let known = match since.round.checked_sub(1) {
        Some(before) => rounds.get(before).map_or(&[][..], Logs::cost),
        None => rounds.first().map_or(&[][..], |logs| &logs.cost()[..since.record.min(logs.len())]),
    };
    let rewarded = (0.5 - known.iter().sum::<f64>()) / (known.len() as f64 + 1.0);
    rewarded * (1.0 - rewarded)
}
