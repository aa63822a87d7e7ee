//! The number of misses that are allowed.

/// The smallest `m` with `P(X > m) <= 0.001`, where `X` is the number of misses in `runs` runs, each with probability
/// `delta`.
pub(super) fn allowed(runs: u64, delta: f64) -> u64 {
    let n = runs as f64;
    // Starts at P(X = 0), then P(X = m + 1) = P(X = m) (n - m)/(m + 1) delta/(1 - delta), in logarithms, which do not
    // underflow.
    let odds = delta.ln() - (-delta).ln_1p();
    let mut log = n * (-delta).ln_1p();
    let mut below = 0.0;
    for m in 0..runs {
        below += log.exp();
        if below >= 0.999 {
            return m;
        }
        let m = m as f64;
        log += ((n - m) / (m + 1.0)).ln() + odds;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_thousand_runs_may_miss_131_times() {
        assert_eq!(allowed(2000, 0.05), 131);
    }

    #[test]
    fn the_limit_is_the_quantile_of_the_binomial_distribution() {
        // By hand: P(X <= 1) = 0.75, P(X <= 2) = 1; P(X > 0) = 0.001 is allowed, 0.0011 is not.
        assert_eq!((allowed(2, 0.5), allowed(1, 0.001), allowed(1, 0.0011)), (2, 0, 1));
        // Computed from the sum of the probabilities by log-gamma functions.
        for (runs, delta, limit) in LIMITS {
            assert_eq!(allowed(runs, delta), limit, "{runs} {delta}");
        }
    }

    const LIMITS: [(u64, f64, u64); 5] =
        [(100, 0.05, 13), (200, 0.05, 21), (500, 0.01, 13), (2000, 0.2, 456), (100_000, 0.05, 5214)];
}
