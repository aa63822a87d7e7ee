//! The perturbed argmax: `a = argmax_b (s_b + e_b)` with independent standard normal `e_b`, and its probabilities
//!
//! `pi(a) = int phi(z - s_a) prod_{b != a} Phi(z - s_b) dz`.
//!
//! The integrand is entire and falls off on both sides, so that the trapezoid rule converges geometrically; all
//! actions share one grid in `z`. `F(z) = prod_b Phi(z - s_b)` is the distribution function of the maximum: above the
//! window nothing is left to win, below it `F` is negligible.

use pulp::Arch;
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::kernels::{self, cdfs_and_hazards};
use super::normal::ln_cdf;
use super::tables::{STEP_ACTIONS, STEP_TOLERANCES, STEPS};

/// The trapezoid step that keeps the error of `actions` actions, and of their gradients, below `tolerance`.
///
/// The table falls in both directions; between two of its entries the smaller step is taken, and below its smallest
/// tolerance, which is at the rounding of the sum, the last. Beyond its largest `K` the step, which shrinks as the
/// width of a maximum's distribution, `1/sqrt(ln K)`, is made to shrink faster still.
fn step(actions: usize, tolerance: f64) -> f64 {
    let row = STEP_TOLERANCES.iter().position(|&t| t <= tolerance).unwrap_or(STEP_TOLERANCES.len() - 1);
    let last = STEP_ACTIONS.len() - 1;
    match STEP_ACTIONS.iter().position(|&k| k as usize >= actions) {
        Some(column) => STEPS[row][column],
        None => STEPS[row][last] * f64::from(STEP_ACTIONS[last]).ln() / (actions as f64).ln(),
    }
}

/// The point `x` with `Phi(-x) <= q`, from `Phi(-x) <= exp(-x^2/2)/2`.
fn tail_point(q: f64) -> f64 {
    (-2.0 * (2.0 * q).ln()).max(0.0).sqrt()
}

fn largest(scores: &[f64]) -> f64 {
    scores.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// Quadrature to a given absolute error, for all actions at once or for one with its gradient, in `O(K G)`.
#[derive(Debug)]
pub(crate) struct Quadrature {
    /// The widest instructions of this machine.
    arch: Arch,
    tolerance: f64,
    /// The scores less the largest of them.
    scores: Vec<f64>,
    hazards: Vec<f64>,
    cdfs: Vec<f64>,
}

impl Quadrature {
    /// The absolute error of each probability and each entry of a gradient: half of it for the step, a quarter for
    /// each end of the window.
    pub(crate) fn new(tolerance: f64) -> Self {
        Quadrature { arch: Arch::new(), tolerance, scores: Vec::new(), hazards: Vec::new(), cdfs: Vec::new() }
    }

    /// The probabilities of all actions. Scores must be finite, here and below; otherwise all is NaN.
    pub(crate) fn distribution(&mut self, scores: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        if scores.len() == 1 {
            out[0] = 1.0;
            return;
        }
        let h = self.walk(scores, f64::INFINITY, f64::NEG_INFINITY, |f, hazards| {
            for (p, hazard) in out.iter_mut().zip(hazards) {
                *p += f * hazard;
            }
        });
        for p in out {
            *p *= h;
        }
    }

    /// The probability of one action; `gradient[b]` becomes its derivative in `s_b`.
    ///
    /// For `b != a` it is `-int f(z) phi(z - s_b)/Phi(z - s_b) dz` with the integrand `f` of `pi(a)`, and the entries
    /// sum to 0, since a shift of all scores changes nothing.
    pub(crate) fn gradient(&mut self, scores: &[f64], action: usize, gradient: &mut [f64]) -> f64 {
        gradient.fill(0.0);
        if scores.len() == 1 {
            return 1.0;
        }
        let reach = tail_point(self.tolerance / 8.0);
        let s_a = scores[action] - largest(scores);
        let (from, to) = (s_a + reach, s_a - reach);
        let mut p = 0.0;
        let h = self.walk(scores, from, to, |f, hazards| {
            let integrand = f * hazards[action];
            p += integrand;
            for (g, hazard) in gradient.iter_mut().zip(hazards) {
                *g -= integrand * hazard;
            }
        });
        for g in gradient.iter_mut() {
            *g *= h;
        }
        gradient[action] = 0.0;
        gradient[action] = -gradient.iter().sum::<f64>();
        h * p
    }

    /// Walks down the grid, calls `visit(F(z), hazards)` at each point, and returns the step.
    ///
    /// The grid lies around the largest score, which is taken out first: however large the scores are, the walk is
    /// short, and its points are exact enough.
    /// Above the start `1 - F < tau` at `tau = tolerance/8`; the walk ends where `F < tau`, so that `F`, and with it
    /// every factor, stays far from underflow. `from` and `to` narrow the window further.
    fn walk(&mut self, scores: &[f64], from: f64, to: f64, mut visit: impl FnMut(f64, &[f64])) -> f64 {
        let k = scores.len();
        let tau = self.tolerance / 8.0;
        let h = step(k, self.tolerance / 2.0);
        self.hazards.resize(k, 0.0);
        self.cdfs.resize(k, 0.0);
        let top = largest(scores);
        self.scores.clear();
        self.scores.extend(scores.iter().map(|s| s - top));
        if !self.scores.iter().all(|s| s.is_finite()) {
            return f64::NAN;
        }
        let mut z = tail_point(tau / k as f64).min(from);
        while z >= to {
            // Two loops: a product in order cannot be vectorised, everything else can.
            cdfs_and_hazards(self.arch, z, &self.scores, &mut self.cdfs, &mut self.hazards);
            let f = self.cdfs.iter().product();
            if f < tau {
                break;
            }
            visit(f, &self.hazards);
            z -= h;
        }
        h
    }
}

/// The probability of one action to a *relative* error of 1e-9, however small it is: what is logged.
///
/// `g(z) = ln f(z) = -(z - s_a)^2/2 + sum_{b != a} ln Phi(z - s_b)` is strictly concave, so the window is found by
/// walking from its mode to both sides. `g'` falls and is convex, hence Newton's method from `s_a`, where
/// `g' >= 0`, climbs to the mode without ever passing it. The step starts at the width that the curvature gives the
/// mode and is halved until two sums agree: their difference is the error of the *coarser* one, and the finer one's is
/// about its square.
pub(crate) fn propensity(scores: &[f64], action: usize) -> f64 {
    if scores.len() == 1 {
        return 1.0;
    }
    // Against the best action alone it would be Phi((s_a - top)/sqrt(2)): below this gap, less than 1e-300.
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

    let (arch, mut values) = (Arch::new(), vec![0.0; others.len()]);
    let mut mode = s_a;
    let width = loop {
        let (mut slope, mut curvature) = (s_a - mode, -1.0);
        kernels::hazards(arch, mode, &others, &mut values);
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
    let mut g = |z: f64| -0.5 * (z - s_a) * (z - s_a) + ln_product_of_cdfs(arch, z, &others, &mut values);
    let peak = g(mode);
    let mut f = |z: f64| (g(z) - peak).exp();
    // Below the rounding of the sum.
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
    // Each pass adds the midpoints; ten of them would be a step of a thousandth of the width.
    for _ in 0..10 {
        sum += (0..points).map(|i| f(from + h * (f64::from(i) + 0.5))).sum::<f64>();
        h /= 2.0;
        points *= 2;
        let finer = sum * h;
        let settled = (finer - integral).abs() <= 1e-5 * finer;
        integral = finer;
        if settled {
            break;
        }
    }
    const FRAC_1_SQRT_2PI: f64 = 0.398_942_280_401_432_7;
    let p = FRAC_1_SQRT_2PI * integral * peak.exp();
    // Not `min`, which would turn a NaN into certainty.
    if p > 1.0 { 1.0 } else { p }
}

/// `sum ln Phi(z - s)` with few logarithms: factors are multiplied as long as their product is far from underflow.
fn ln_product_of_cdfs(arch: Arch, z: f64, scores: &[f64], cdfs: &mut [f64]) -> f64 {
    let top = largest(scores);
    // Phi(-20) is 3e-89: from there on a factor may underflow, or its product with 1e-200.
    if z - top < -20.0 {
        return scores.iter().map(|s| ln_cdf(z - s)).sum();
    }
    kernels::cdfs(arch, z, scores, cdfs);
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
    use crate::math::random::{Purpose, stream};
    use proptest::prelude::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Case {
        name: String,
        scores: Vec<f64>,
        actions: Vec<usize>,
        propensity: Vec<f64>,
        gradient: Vec<Gradient>,
    }

    #[derive(Deserialize)]
    struct Gradient {
        action: usize,
        wrt: Vec<usize>,
        value: Vec<f64>,
    }

    fn golden() -> Vec<Case> {
        serde_json::from_str(include_str!("../../tests/golden/propensities.json")).unwrap()
    }

    #[test]
    fn all_propensities_are_within_1e_10_of_the_reference() {
        for case in golden() {
            let mut out = vec![0.0; case.scores.len()];
            Quadrature::new(1e-10).distribution(&case.scores, &mut out);
            for (&a, p) in case.actions.iter().zip(&case.propensity) {
                assert!((out[a] - p).abs() <= 1e-10, "{}: action {a}: {} {p}", case.name, out[a]);
            }
        }
    }

    #[test]
    fn a_single_propensity_is_within_1e_6_of_itself_down_to_1e_15() {
        let mut smallest: f64 = 1.0;
        for case in golden() {
            for (&a, p) in case.actions.iter().zip(&case.propensity) {
                let found = propensity(&case.scores, a);
                if *p >= 1e-15 {
                    smallest = smallest.min(*p);
                    assert!((found / p - 1.0).abs() <= 1e-9, "{}: action {a}: {found} {p}", case.name);
                }
                assert!((found - p).abs() <= 1e-12);
            }
        }
        assert!(smallest < 1e-13, "the golden values should reach far down, but end at {smallest}");
    }

    #[test]
    fn gradients_are_within_the_tolerance_of_the_reference() {
        for case in golden() {
            let mut out = vec![0.0; case.scores.len()];
            for tolerance in [1e-6, 1e-10] {
                for gradient in &case.gradient {
                    Quadrature::new(tolerance).gradient(&case.scores, gradient.action, &mut out);
                    for (&b, g) in gradient.wrt.iter().zip(&gradient.value) {
                        // The entry of the action itself is the sum of the others' errors.
                        let share = if b == gradient.action { out.len() as f64 } else { 1.0 };
                        let error = (out[b] - g).abs();
                        assert!(error <= tolerance * share, "{}: {b}: {} {g}", case.name, out[b]);
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn probabilities_sum_to_one_and_agree_with_the_single_one(
            scores in prop::collection::vec(-40.0..40.0, 2..60), spread in 0.0..=1.0, action in 0usize..60,
        ) {
            let scores: Vec<f64> = scores.iter().map(|s: &f64| s * spread).collect();
            let a = action % scores.len();
            let mut out = vec![0.0; scores.len()];
            Quadrature::new(1e-10).distribution(&scores, &mut out);
            prop_assert!((out.iter().sum::<f64>() - 1.0).abs() <= 1e-10 * scores.len() as f64);
            prop_assert!((out[a] - propensity(&scores, a)).abs() <= 1e-10);
            let mut gradient = vec![0.0; scores.len()];
            let p = Quadrature::new(1e-8).gradient(&scores, a, &mut gradient);
            prop_assert!((out[a] - p).abs() <= 2e-8);
        }

        #[test]
        fn the_gradient_is_the_finite_difference(
            scores in prop::collection::vec(-3.0..3.0, 2..12), action in 0usize..12, b in 0usize..12,
        ) {
            let (a, b) = (action % scores.len(), b % scores.len());
            let mut gradient = vec![0.0; scores.len()];
            Quadrature::new(1e-12).gradient(&scores, a, &mut gradient);
            let at = |e: f64| {
                let mut moved = scores.clone();
                moved[b] += e;
                propensity(&moved, a)
            };
            let e = 1e-4;
            prop_assert!((gradient[b] - (at(e) - at(-e)) / (2.0 * e)).abs() < 1e-7);
        }
    }

    #[test]
    fn samples_follow_the_propensities() {
        let scores = [0.3, -0.5, 1.1, 0.0, -2.0];
        let mut p = [0.0; 5];
        Quadrature::new(1e-10).distribution(&scores, &mut p);
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
        let mut out = [0.0; 3];
        for shift in [-1e300, -1e16, -1e6, 0.0, 1e6, 1e14, 1e300] {
            let near = [shift, shift, shift];
            Quadrature::new(1e-10).distribution(&near, &mut out);
            assert!(out.iter().all(|p| (p - 1.0 / 3.0).abs() < 1e-10), "{shift}: {out:?}");
            assert!((propensity(&near, 1) - 1.0 / 3.0).abs() < 1e-10);
        }
        for far in [1e3, 1e7, 1e16, 1e155, 1e300] {
            let scores = [0.0, far, far];
            Quadrature::new(1e-10).distribution(&scores, &mut out);
            assert!(out[0] == 0.0 && (out[1] - 0.5).abs() < 1e-10, "{far}: {out:?}");
            assert_eq!(Quadrature::new(1e-10).gradient(&scores, 0, &mut out), 0.0);
            assert_eq!(propensity(&scores, 0), 0.0);
            assert!((propensity(&scores, 2) - 0.5).abs() < 1e-10);
        }
        let mut many = vec![60.0; 100_000];
        many[7] = 0.0;
        assert_eq!(propensity(&many, 7), 0.0);
        assert!((propensity(&many, 8) * 99_999.0 - 1.0).abs() < 1e-9);
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(Quadrature::new(1e-10).gradient(&[0.0, bad, 1.0], 0, &mut out).is_nan());
            assert!(propensity(&[0.0, bad, 1.0], 2).is_nan());
        }
    }

    #[test]
    fn one_action_is_certain() {
        let mut out = [0.0];
        Quadrature::new(1e-10).distribution(&[5.0], &mut out);
        assert_eq!((out[0], propensity(&[5.0], 0)), (1.0, 1.0));
        assert_eq!(Quadrature::new(1e-10).gradient(&[5.0], 0, &mut out), 1.0);
        assert_eq!(out[0], 0.0);
    }
}
