//! The perturbed argmax: `a = argmax_b (s_b + e_b)` with independent standard normal `e_b`, and the probability
//!
//! `pi(a) = int phi(z - s_a) prod_{b != a} Phi(z - s_b) dz`
//!
//! of one action, to a *relative* error. For all actions at once, to an absolute error:
//! [`quadrature`](super::quadrature).

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::kernels;
use super::normal::ln_cdf;
use super::quadrature::Double;

fn largest(scores: &[f64]) -> f64 {
    scores.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// The probability of one action to a *relative* error of 1e-9, even if it is tiny: the propensity to log.
#[derive(Debug)]
pub(crate) struct Propensity {
    quadrature: Double,
    /// Made on first use.
    deep: Option<Double>,
    actions: usize,
}

impl Propensity {
    /// Above this, the absolute error of a quadrature is small enough.
    const LARGE: f64 = 1e-3;
    /// Above this, a deep quadrature still covers the whole integrand.
    const SMALL: f64 = 1e-14;

    /// For at most this many actions.
    pub(crate) fn new(actions: usize) -> Self {
        Propensity { quadrature: Double::new(actions, 1e-9 * Self::LARGE), deep: None, actions }
    }

    pub(crate) fn of(&mut self, scores: &[f64], action: usize) -> f64 {
        let mut p = self.quadrature.propensity(scores, action);
        if p < Self::LARGE {
            p = self.deep.get_or_insert_with(|| Double::deep(self.actions)).propensity(scores, action);
        }
        if p < Self::SMALL {
            p = small_propensity(scores, action);
        }
        // Not `min`, which would turn a NaN into 1.
        if p > 1.0 { 1.0 } else { p }
    }
}

/// The same for any action, however unlikely; much slower.
///
/// `g(z) = ln f(z) = -(z - s_a)^2/2 + sum_{b != a} ln Phi(z - s_b)` is strictly concave, so the window is found by
/// walking from its mode to both sides. `g'` is decreasing and convex. Hence Newton's method from `s_a`, where
/// `g' >= 0`, climbs to the mode without passing it. The step starts at the width that follows from the curvature at
/// the mode, and is halved until two sums agree. Their difference is the error of the *coarser* sum; the error of the
/// finer one is about its square.
fn small_propensity(scores: &[f64], action: usize) -> f64 {
    // Against the best action alone the probability would be `Phi((s_a - top)/sqrt(2))`: for a lower gap, less than
    // 1e-300.
    const HOPELESS: f64 = -53.0;
    if !scores.iter().all(|s| s.is_finite()) {
        return f64::NAN;
    }
    let top = largest(scores);
    let s_a = scores[action] - top;
    if s_a < HOPELESS {
        return 0.0;
    }
    let others: Vec<f64> = [&scores[..action], &scores[action + 1..]].concat().iter().map(|s| s - top).collect();

    let mut values = vec![0.0; others.len()];
    let mut mode = s_a;
    let width = loop {
        let (mut slope, mut curvature) = (s_a - mode, -1.0);
        kernels::hazards(mode, &others, &mut values);
        for (hazard, s) in values.iter().zip(&others) {
            slope += hazard;
            curvature -= hazard * (hazard + mode - s);
        }
        let width = 1.0 / (-curvature).sqrt();
        let newton = -slope / curvature;
        mode += newton;
        if newton <= 0.1 * width {
            break width;
        }
    };
    let g = |z: f64| -0.5 * (z - s_a) * (z - s_a) + ln_product_of_cdfs(z, &others, &mut values);
    const FRAC_1_SQRT_2PI: f64 = 0.398_942_280_401_432_7;
    // The difference is the error of the coarser sum, so that of the finer one is about 1e-10.
    FRAC_1_SQRT_2PI * log_concave_integral(g, mode, width, 1e-5)
}

/// `int exp(g(z)) dz` for a concave `g` with this mode, by the trapezoid rule: from a step of `width` on, it is halved
/// until two sums differ by at most `settled`, relatively.
pub(super) fn log_concave_integral(mut g: impl FnMut(f64) -> f64, mode: f64, width: f64, settled: f64) -> f64 {
    let peak = g(mode);
    let mut f = |z: f64| (g(z) - peak).exp();
    // Below the rounding error of the sum.
    const NEGLIGIBLE: f64 = 1e-16;
    let mut h = width;
    let mut sum = 1.0;
    let [left, right] = [-1.0, 1.0].map(|side| {
        let mut points = 1;
        loop {
            let value = f(mode + side * h * f64::from(points));
            sum += value;
            if value < NEGLIGIBLE {
                break points;
            }
            points += 1;
        }
    });
    let (from, mut points) = (mode - h * f64::from(left), left + right);
    let mut integral = sum * h;
    // Each pass adds the midpoints; ten passes would give a step of a thousandth of the width.
    for _ in 0..10 {
        sum += (0..points).map(|i| f(from + h * (f64::from(i) + 0.5))).sum::<f64>();
        h /= 2.0;
        points *= 2;
        let finer = sum * h;
        let done = (finer - integral).abs() <= settled * finer;
        integral = finer;
        if done {
            break;
        }
    }
    integral * peak.exp()
}

/// `sum ln Phi(z - s)` with few logarithms: factors are multiplied as long as their product is far from underflow.
fn ln_product_of_cdfs(z: f64, scores: &[f64], cdfs: &mut [f64]) -> f64 {
    let top = largest(scores);
    // `Phi(-20)` is 3e-89: beyond that a factor may underflow, or its product with 1e-200.
    if z - top < -20.0 {
        return scores.iter().map(|s| ln_cdf(z - s)).sum();
    }
    kernels::cdfs(z, scores, cdfs);
    let (mut sum, mut product) = (0.0, 1.0);
    for cdf in cdfs {
        product *= *cdf;
        if product < 1e-200 {
            sum += product.ln();
            product = 1.0;
        }
    }
    sum + product.ln()
}

/// Draws `argmax_b (s_b + e_b)`, without any integral.
pub(crate) fn sample(scores: &[f64], rng: &mut impl Rng) -> usize {
    let mut best = (0, f64::NEG_INFINITY);
    for (b, s) in scores.iter().enumerate() {
        let noise: f64 = StandardNormal.sample(rng);
        if s + noise > best.1 {
            best = (b, s + noise);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::quadrature::tests::golden;
    use crate::math::random::{Purpose, stream};
    use proptest::prelude::*;

    fn propensity(scores: &[f64], action: usize) -> f64 {
        Propensity::new(scores.len()).of(scores, action)
    }

    #[test]
    fn a_propensity_is_within_1e_9_of_itself_down_to_1e_15() {
        let mut smallest: f64 = 1.0;
        for case in golden() {
            for (&a, p) in case.actions.iter().zip(&case.propensity) {
                let found = propensity(&case.scores, a);
                if *p >= 1e-15 {
                    smallest = smallest.min(*p);
                    assert!((found / p - 1.0).abs() <= 1e-9, "{}: action {a}: {found} {p}", case.name);
                    let slow = small_propensity(&case.scores, a);
                    assert!((slow / p - 1.0).abs() <= 1e-9, "{}: action {a}: {slow} {p}", case.name);
                }
                assert!((found - p).abs() <= 1e-12);
            }
        }
        assert!(smallest < 1e-13, "the golden values should reach far down, but end at {smallest}");
    }

    proptest! {
        #[test]
        fn both_ways_to_a_propensity_agree(
            scores in prop::collection::vec(-1.0..1.0, 2..200), spread in 0.0..12.0, action in 0usize..200,
        ) {
            let scores: Vec<f64> = scores.iter().map(|s: &f64| s * spread).collect();
            let a = action % scores.len();
            let slow = small_propensity(&scores, a);
            prop_assert!((propensity(&scores, a) / slow - 1.0).abs() <= 2e-9);
        }
    }

    #[test]
    fn samples_follow_the_propensities() {
        let scores = [0.3, -0.5, 1.1, 0.0, -2.0];
        let p: Vec<f64> = (0..5).map(|a| propensity(&scores, a)).collect();
        let mut rng = stream(3, Purpose::Decide, 0);
        let n = 200_000;
        let mut counts = [0.0; 5];
        for _ in 0..n {
            counts[sample(&scores, &mut rng)] += 1.0;
        }
        let chi2: f64 = (0..5)
            .map(|a| {
                let expected = p[a] * f64::from(n);
                (counts[a] - expected) * (counts[a] - expected) / expected
            })
            .sum();
        // The 99.9 % point of chi-squared with 4 degrees of freedom.
        assert!(chi2 < 18.47, "{chi2}");
    }

    #[test]
    fn scores_of_any_size_give_the_probabilities_of_their_differences() {
        for shift in [-1e300, -1e16, -1e6, 0.0, 1e6, 1e14, 1e300] {
            let near = [shift, shift, shift];
            assert!((propensity(&near, 1) - 1.0 / 3.0).abs() < 1e-10);
            assert!((small_propensity(&near, 1) - 1.0 / 3.0).abs() < 1e-10);
        }
        for far in [1e3, 1e7, 1e16, 1e155, 1e300] {
            let scores = [0.0, far, far];
            assert_eq!(propensity(&scores, 0), 0.0);
            assert!((propensity(&scores, 2) - 0.5).abs() < 1e-10);
        }
        let mut many = vec![60.0; 100_000];
        many[7] = 0.0;
        assert_eq!(propensity(&many, 7), 0.0);
        assert!((propensity(&many, 8) * 99_999.0 - 1.0).abs() < 1e-9);
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(propensity(&[0.0, bad, 1.0], 2).is_nan());
        }
        assert_eq!(propensity(&[5.0], 0), 1.0);
    }
}
