//! The empirical Bernstein interval.

use super::Interval;

/// `mean +- ( sqrt(2 V ln(4/delta)/n) + 7 B ln(4/delta)/(3 (n - 1)) )`, with `V` the sample variance of `n` independent
/// terms that lie in an interval of length `B` (Maurer and Pontil 2009, Theorem 4, at `delta/2` for each side).
pub(super) fn bernstein(mean: f64, variance: f64, range: f64, records: usize, delta: f64) -> Option<Interval> {
    if records < 2 {
        return None;
    }
    let (n, price) = (records as f64, (4.0 / delta).ln());
    let half = (2.0 * variance * price / n).sqrt() + 7.0 * range * price / (3.0 * (n - 1.0));
    Some(Interval { lower: mean - half, upper: mean + half })
}
