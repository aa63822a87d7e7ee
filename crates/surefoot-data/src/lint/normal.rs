//! Tail probabilities and quantiles of the normal distribution, and running moments.

use std::f64::consts::FRAC_1_SQRT_2;

/// The two-sided tail probability of `z`.
pub(super) fn beyond(z: f64) -> f64 {
    libm::erfc(z.abs() * FRAC_1_SQRT_2)
}

/// The `z` with this two-sided tail probability, by bisection: `beyond` decreases, and 40 exceeds every quantile that
/// an `f64` probability can have.
pub(super) fn limit(chance: f64) -> f64 {
    let (mut lo, mut hi) = (0.0, 40.0);
    for _ in 0..60 {
        let middle = 0.5 * (lo + hi);
        if beyond(middle) > chance { lo = middle } else { hi = middle }
    }
    hi
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_tables() {
        assert!((limit(0.05) - 1.959_964).abs() < 1e-6);
        assert!((limit(1e-4) - 3.890_592).abs() < 1e-6);
        assert!((beyond(-1.959_964) - 0.05).abs() < 1e-7);
    }
}
