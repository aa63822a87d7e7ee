//! ESTIMATOR: the regularised importance weight `h(p, q, c)` and its derivative in `p`.
//!
//! `Rhat(pi) = (1/N) sum_i h(pi(a_i|x_i), q_i, c_i)`. Here `p` is the probability under the target policy, `q` the
//! logged propensity and `c` the cost in `[-1, 0]`.

use serde::{Deserialize, Serialize};

use crate::error::{Result, check_setting};

/// The estimators of the form `mean of h(p, q, c)`; `w = p/q` is the importance weight, `l` is `lambda`.
///
/// A *pessimistic* estimator satisfies `p c / q <= h(p, q, c) <= 0` for all `p` in `[0, 1]`, `q` in `(0, 1]` and `c` in
/// `[-1, 0]`: it never makes a policy look better than plain importance weighting does. All are pessimistic, except
/// - [`PowerMean`](Regularizer::PowerMean): below `p c / q` whenever `w < 1`, because it is a mean of `w` and 1;
/// - [`LsAdjusted`](Regularizer::LsAdjusted): below `p c / q` where `q` is near 1. It estimates a difference of risks,
///   and only `p c / (q (1 + l c)) <= h <= 0` holds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "name")]
pub enum Regularizer {
    /// Inverse propensity scoring: `p c / q`.
    Ips,
    /// `p c / max(q, tau)`, `0 < tau <= 1`.
    ClippedPropensity {
        /// The clipping level: smaller propensities are raised to it.
        tau: f64,
    },
    /// `min(p/q, max) c`, `max > 0`.
    ClippedWeight {
        /// The clipping level: larger weights are lowered to it.
        max: f64,
    },
    /// `p c / q^beta`, `0 <= beta <= 1`.
    ExponentialSmoothing {
        /// The exponent.
        beta: f64,
    },
    /// `p c / (q + gamma)`, `gamma >= 0`.
    ImplicitExploration {
        /// The number added to each propensity.
        gamma: f64,
    },
    /// `c ((1 - l) w^s + l)^(1/s)`, the power mean of `w` and 1 (Metelli et al. 2021); `s = -1` gives
    /// `w c / (1 - l + l w)`. `0 <= l <= 1`, `s <= 1`, and `s = 0` is the limit `w^(1 - l) c`.
    PowerMean {
        /// The weight of 1 in the mean.
        lambda: f64,
        /// The power.
        s: f64,
    },
    /// `c l w / (w^2 + l)` (Su et al. 2020), `l > 0`.
    Shrinkage {
        /// The strength; in the limit of infinity this is importance weighting.
        lambda: f64,
    },
    /// Logarithmic smoothing: `-(1/l) ln(1 - l p c / q)`, `l > 0`.
    Ls {
        /// The smoothing parameter.
        lambda: f64,
    },
    /// Logarithmic smoothing, linear in `p`: `-(p/l) ln(1 - l c / q)`, `l > 0`.
    LsLinear {
        /// The smoothing parameter.
        lambda: f64,
    },
    /// Adjusted logarithmic smoothing: `-(p/l) ln(1 - l c / (q (1 + l c)))`, `0 < l < 1`.
    LsAdjusted {
        /// The smoothing parameter.
        lambda: f64,
    },
}

impl Regularizer {
    /// Fails and names the allowed range if a parameter is outside it.
    pub fn check(&self) -> Result<()> {
        use Regularizer::*;
        match *self {
            Ips => Ok(()),
            ClippedPropensity { tau } => check_setting("tau", tau, tau > 0.0 && tau <= 1.0, "in (0, 1]"),
            ClippedWeight { max } => check_setting("the largest weight", max, max > 0.0, "above 0"),
            ExponentialSmoothing { beta } => check_setting("beta", beta, (0.0..=1.0).contains(&beta), "in [0, 1]"),
            ImplicitExploration { gamma } => check_setting("gamma", gamma, gamma >= 0.0, "at least 0"),
            PowerMean { lambda, s } => {
                check_setting("lambda", lambda, (0.0..=1.0).contains(&lambda), "in [0, 1]")?;
                check_setting("the power s", s, s <= 1.0, "at most 1")
            }
            Shrinkage { lambda } | Ls { lambda } | LsLinear { lambda } => {
                check_setting("lambda", lambda, lambda > 0.0, "in (0, inf)")
            }
            LsAdjusted { lambda } => check_setting("lambda", lambda, lambda > 0.0 && lambda < 1.0, "in (0, 1)"),
        }
    }

    /// `h(p, q, c)`.
    pub fn h(&self, p: f64, q: f64, c: f64) -> f64 {
        use Regularizer::*;
        let w = p / q;
        match *self {
            Ips => w * c,
            ClippedPropensity { tau } => p * c / q.max(tau),
            ClippedWeight { max } => w.min(max) * c,
            ExponentialSmoothing { beta } => p * c / q.powf(beta),
            ImplicitExploration { gamma } => p * c / (q + gamma),
            PowerMean { lambda, s } => power_mean(w, lambda, s) * c,
            Shrinkage { lambda } => lambda * w / (w * w + lambda) * c,
            // `ln_1p`, because most arguments are small.
            Ls { lambda } => -(-lambda * w * c).ln_1p() / lambda,
            LsLinear { .. } | LsAdjusted { .. } => p * self.slope(q, c),
        }
    }

    /// The largest `|h|` over records whose weight `p/q` is at most `largest_weight`, if it is finite.
    pub(crate) fn reach(&self, largest_weight: Option<f64>) -> Option<f64> {
        use Regularizer::*;
        let w = largest_weight.unwrap_or(f64::INFINITY);
        let reach = match *self {
            // The maximum is at `w = sqrt(l)`.
            Shrinkage { lambda } => lambda * w.min(lambda.sqrt()) / (w.min(lambda.sqrt()).powi(2) + lambda),
            PowerMean { lambda, s } if w.is_infinite() && s < 0.0 => lambda.powf(1.0 / s),
            // All other estimators grow with `p`, and with `1/q` at a given `p`.
            _ => -self.h(1.0, 1.0 / w, -1.0),
        };
        reach.is_finite().then_some(reach)
    }

    /// The derivative of `h` in `p`.
    pub fn dh_dp(&self, p: f64, q: f64, c: f64) -> f64 {
        use Regularizer::*;
        // Then `h` is 0 for every `p`, even where the slope of the weight is infinite.
        if c == 0.0 {
            return 0.0;
        }
        let w = p / q;
        match *self {
            Ips => c / q,
            ClippedPropensity { tau } => c / q.max(tau),
            ClippedWeight { max } => {
                if w < max {
                    c / q
                } else {
                    0.0
                }
            }
            ExponentialSmoothing { beta } => c / q.powf(beta),
            ImplicitExploration { gamma } => c / (q + gamma),
            PowerMean { lambda, s } => power_mean_slope(w, lambda, s) * c / q,
            Shrinkage { lambda } => {
                let r = lambda / (w * w + lambda);
                r * (2.0 * r - 1.0) * c / q
            }
            Ls { lambda } => c / (q * (1.0 - lambda * w * c)),
            LsLinear { .. } | LsAdjusted { .. } => self.slope(q, c),
        }
    }

    /// `h` and its derivative together.
    pub(crate) fn h_and_slope(&self, p: f64, q: f64, c: f64) -> (f64, f64) {
        match self {
            // One logarithm serves both.
            Regularizer::LsLinear { .. } | Regularizer::LsAdjusted { .. } => {
                let slope = self.slope(q, c);
                (p * slope, slope)
            }
            _ => (self.h(p, q, c), self.dh_dp(p, q, c)),
        }
    }

    /// `h / p` for the two logarithmic estimators that are linear in `p`.
    fn slope(&self, q: f64, c: f64) -> f64 {
        match *self {
            Regularizer::LsLinear { lambda } => -(-lambda * c / q).ln_1p() / lambda,
            Regularizer::LsAdjusted { lambda } => -(-lambda * c / (q * (1.0 + lambda * c))).ln_1p() / lambda,
            _ => unreachable!("only the linear logarithmic estimators have this slope"),
        }
    }
}

/// The power mean `m = ((1 - l) w^s + l)^(1/s)` of `w` and 1.
fn power_mean(w: f64, l: f64, s: f64) -> f64 {
    if w > 0.0 {
        w * power_mean_log_ratio(w, l, s).exp()
    } else if s > 0.0 {
        l.powf(1.0 / s)
    } else {
        0.0
    }
}

/// `dm/dw = (1 - l) (m/w)^(1 - s)`; at `w = 0` it is infinite for `0 <= s < 1`.
fn power_mean_slope(w: f64, l: f64, s: f64) -> f64 {
    let log_ratio = if w > 0.0 {
        power_mean_log_ratio(w, l, s)
    } else if s < 0.0 {
        (1.0 - l).ln() / s
    } else {
        f64::INFINITY
    };
    match (1.0 - l, 1.0 - s) {
        // With no weight on `w`, or with a plain average, the slope is constant.
        (0.0, _) => 0.0,
        (rest, 0.0) => rest,
        (rest, power) => rest * (power * log_ratio).exp(),
    }
}

/// `ln(m/w)` for `w > 0`. Of two equivalent forms it uses the one whose power cannot overflow; `exp_m1` and `ln_1p`
/// keep it exact for `s` near 0.
fn power_mean_log_ratio(w: f64, l: f64, s: f64) -> f64 {
    let x = s * w.ln();
    if s == 0.0 {
        -l * w.ln()
    } else if x > 0.0 {
        (l * (-x).exp_m1()).ln_1p() / s
    } else {
        ((1.0 - l) * x.exp_m1()).ln_1p() / s - w.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pessimistic() -> impl Strategy<Value = Regularizer> {
        prop_oneof![
            Just(Regularizer::Ips),
            (1e-6..=1.0).prop_map(|tau| Regularizer::ClippedPropensity { tau }),
            (1e-3..1e4).prop_map(|max| Regularizer::ClippedWeight { max }),
            (0.0..=1.0).prop_map(|beta| Regularizer::ExponentialSmoothing { beta }),
            (0.0..10.0).prop_map(|gamma| Regularizer::ImplicitExploration { gamma }),
            (1e-6..1e3).prop_map(|lambda| Regularizer::Shrinkage { lambda }),
            (1e-6..1e3).prop_map(|lambda| Regularizer::Ls { lambda }),
            (1e-6..1e3).prop_map(|lambda| Regularizer::LsLinear { lambda }),
        ]
    }

    fn any() -> impl Strategy<Value = Regularizer> {
        prop_oneof![
            pessimistic(),
            (0.0..=1.0, -3.0..1.0).prop_map(|(lambda, s)| Regularizer::PowerMean { lambda, s }),
            (1e-6..0.999).prop_map(|lambda| Regularizer::LsAdjusted { lambda }),
        ]
    }

    proptest! {
        #[test]
        fn h_lies_between_the_weighted_cost_and_zero(
            r in pessimistic(), p in 0.0..=1.0, q in 1e-6..=1.0, c in -1.0..=0.0,
        ) {
            let h = r.h(p, q, c);
            prop_assert!(h <= 0.0 && h >= p * c / q * (1.0 + 1e-12), "{r:?}: {h}");
        }

        #[test]
        fn the_adjusted_one_keeps_its_own_inequality(
            lambda in 1e-6..0.999, p in 0.0..=1.0, q in 1e-6..=1.0, c in -1.0..=0.0,
        ) {
            let h = Regularizer::LsAdjusted { lambda }.h(p, q, c);
            prop_assert!(h <= 0.0 && h >= p * c / (q * (1.0 + lambda * c)) * (1.0 + 1e-12));
        }

        #[test]
        fn the_slope_is_the_finite_difference(
            r in any(), p in 0.01f64..0.99, q in 0.01f64..=1.0, c in -1.0f64..=0.0,
        ) {
            // There is no derivative at the kink, so the test stays away from it.
            if let Regularizer::ClippedWeight { max } = r {
                prop_assume!((p / q - max).abs() > 1e-3);
            }
            let e = 1e-6;
            let fd = (r.h(p + e, q, c) - r.h(p - e, q, c)) / (2.0 * e);
            let d = r.dh_dp(p, q, c);
            prop_assert!((d - fd).abs() <= 1e-4 * (1.0 + d.abs()), "{r:?}: {d} {fd}");
        }

        #[test]
        fn both_at_once_are_each_alone(
            r in any(), p in prop_oneof![Just(0.0), 0.0..=1.0], q in 1e-6..=1.0, c in prop_oneof![Just(0.0), -1.0..=0.0],
        ) {
            prop_assert_eq!(r.h_and_slope(p, q, c), (r.h(p, q, c), r.dh_dp(p, q, c)));
        }

        #[test]
        fn nothing_goes_beyond_the_reach(
            r in any(), p in 0.0..=1.0, q in 1e-6..=1.0, c in -1.0..=0.0, more in 1.0..1e3, known in proptest::bool::ANY,
        ) {
            let largest = known.then_some(p / q * more);
            prop_assume!(largest.is_none_or(|w| w > 0.0));
            if let Some(reach) = r.reach(largest) {
                prop_assert!(r.h(p, q, c).abs() <= reach * (1.0 + 1e-12), "{r:?}: {} {reach}", r.h(p, q, c));
            }
            prop_assert!(largest.is_none() || r.reach(largest).is_some());
        }

        #[test]
        fn a_cost_of_zero_weighs_nothing(r in any(), p in 0.001..=1.0, q in 1e-6..=1.0) {
            prop_assert_eq!(r.h(p, q, 0.0), 0.0);
            prop_assert_eq!(r.dh_dp(p, q, 0.0), 0.0);
        }
    }

    #[test]
    fn the_two_exceptions_do_break_the_inequality() {
        let broken = |r: Regularizer, p, q, c| r.h(p, q, c) < p * c / q - 1e-6;
        assert!(broken(Regularizer::PowerMean { lambda: 0.5, s: -1.0 }, 0.1, 0.5, -1.0));
        assert!(broken(Regularizer::LsAdjusted { lambda: 0.5 }, 1.0, 1.0, -1.0));
    }

    #[test]
    fn extreme_weights_and_powers_do_not_overflow() {
        let mean = |w: f64, lambda, s| -Regularizer::PowerMean { lambda, s }.h(w * 1e-9, 1e-9, -1.0);
        assert!((mean(10.0, 0.5, -400.0) - 1.0).abs() < 0.01);
        assert!((mean(1e7, 0.5, -50.0) - 1.0).abs() < 0.02);
        assert!((mean(1e-7, 0.5, -50.0) / 1e-7 - 1.0).abs() < 0.02);
        for s in [-1e-12, 1e-12, 1e-17, 0.0] {
            assert!((mean(2.0, 0.5, s) - 2f64.sqrt()).abs() < 1e-9, "{s}");
        }
        assert_eq!(mean(0.0, 1.0, 0.5), 1.0);
        assert_eq!(Regularizer::PowerMean { lambda: 1.0, s: 0.5 }.dh_dp(0.0, 0.5, -1.0), 0.0);
        assert_eq!(Regularizer::Shrinkage { lambda: 1.0 }.dh_dp(1.0, 1e-200, -1.0), 0.0);
    }

    #[test]
    fn a_parameter_outside_its_range_is_refused_with_the_range() {
        let text = |r: Regularizer| r.check().unwrap_err().to_string();
        assert_eq!(text(Regularizer::LsAdjusted { lambda: 1.0 }), "lambda should be in (0, 1), but is 1");
        assert_eq!(text(Regularizer::LsLinear { lambda: 0.0 }), "lambda should be in (0, inf), but is 0");
        assert_eq!(text(Regularizer::ClippedPropensity { tau: 2.0 }), "tau should be in (0, 1], but is 2");
        assert_eq!(text(Regularizer::PowerMean { lambda: 0.5, s: 2.0 }), "the power s should be at most 1, but is 2");
        for r in [
            Regularizer::ClippedWeight { max: f64::INFINITY },
            Regularizer::ExponentialSmoothing { beta: -0.1 },
            Regularizer::ImplicitExploration { gamma: f64::NAN },
            Regularizer::Shrinkage { lambda: -1.0 },
            Regularizer::Ls { lambda: 0.0 },
            Regularizer::PowerMean { lambda: 1.5, s: -1.0 },
        ] {
            assert!(r.check().is_err(), "{r:?}");
        }
    }
}
