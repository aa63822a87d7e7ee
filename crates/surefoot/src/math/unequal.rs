//! The perturbed argmax with a deviation per action: `a = argmax_b (m_b + v_b e_b)` with independent standard normal
//! `e_b`, and the probability
//!
//! `pi(a) = int phi((z - m_a)/v_a)/v_a prod_{b != a} Phi((z - m_b)/v_b) dz = int F(z) g((z - m_a)/v_a)/v_a dz`
//!
//! with `F(z) = prod_b Phi((z - m_b)/v_b)` and the hazard `g = phi/Phi`. Where all deviations are equal, it is the
//! [perturbed argmax](super::perturbed) of `m_b/v`, which is faster.
//!
//! All actions share the points of integration. If the deviations are not too different, these are those of the trapezoid
//! rule, with the step for [equal deviations](super::quadrature) times the smallest one: a larger deviation only makes the
//! integrand smoother (`check_deviations` in `reference/tables.py`).
//!
//! Otherwise: a factor changes only within a few deviations of its mean. These ranges cut the line into segments. Each is
//! divided into panels that are short against the smallest deviation that is active in it, with Gauss-Legendre nodes: so one
//! steep factor makes a few more panels, and not a finer grid everywhere.

use std::sync::OnceLock;

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::kernels::wide;
use super::normal::{cdf_pdf, hazard, ln_cdf, tail_point};
use super::perturbed::log_concave_integral;
use super::quadrature::trapezoid_step;

/// The smallest deviation of an action, as a share of the largest one of its set.
pub(crate) const LEAST: f64 = 1e-3;

/// The mass outside the segments, in all.
const OUTSIDE: f64 = 1e-14;

/// Below this, a probability is computed relative to itself.
const LARGE: f64 = 1e-4;

/// The number of nodes per panel.
const NODES: usize = 16;

/// The error of the trapezoid rule.
const ERROR: f64 = 1e-13;
/// The same for a gradient, which only a search needs.
const GRADIENT_ERROR: f64 = 1e-10;

/// A mean this many deviations below everything never wins: its distribution function is 1, and its density 0.
const NEVER: f64 = 50.0;

/// The number of actions that are computed at once. Sets are filled up to a multiple of it, with actions that never win.
const LANES: usize = 8;

/// Working memory for sets of any size.
#[derive(Debug, Default)]
pub(crate) struct Unequal {
    /// `t` with `Phi(-t) K = OUTSIDE`, and its `K`.
    reach: (usize, f64),
    /// The actions that matter, and their means and deviations, filled up.
    places: Vec<usize>,
    means: Vec<f64>,
    deviations: Vec<f64>,
    /// The ends of all segments.
    cuts: Vec<f64>,
    /// `g((z - m_b)/v_b)/v_b` at one point.
    hazards: Vec<f64>,
    sums: Vec<f64>,
}

impl Unequal {
    /// The probabilities of all actions, to an absolute error of 1e-12. Means and deviations must be finite, and
    /// deviations above 0; otherwise every result is NaN.
    pub(crate) fn distribution(&mut self, means: &[f64], deviations: &[f64], out: &mut [f64]) {
        if !self.place(means, deviations) {
            return out.fill(f64::NAN);
        }
        if let [only] = out {
            *only = 1.0;
            return;
        }
        self.integrate(ERROR, |f, hazards, sums| {
            sums.iter_mut().zip(hazards).for_each(|(sum, hazard)| *sum += f * hazard);
        });
        out.fill(0.0);
        self.places.iter().zip(&self.sums).for_each(|(&place, p)| out[place] = *p);
    }

    /// The probability of one action, to a relative error of 1e-9, even if it is tiny.
    pub(crate) fn propensity(&mut self, means: &[f64], deviations: &[f64], action: usize) -> f64 {
        if !self.place(means, deviations) {
            return f64::NAN;
        }
        if means.len() == 1 {
            return 1.0;
        }
        let mut p = 0.0;
        if let Some(own) = self.places.iter().position(|&place| place == action) {
            self.integrate(ERROR, |f, hazards, _| p += f * hazards[own]);
        }
        if p < LARGE { small_propensity(means, deviations, action) } else { p.min(1.0) }
    }

    /// The probability of one action; `gradient[b]` becomes its derivative in `m_b`. Both are to an absolute error of
    /// 1e-9 (derivatives in units of `1/v_b`).
    ///
    /// For `b != a` it is `-int f(z) g((z - m_b)/v_b)/v_b dz` with the integrand `f` of `pi(a)`. The entries sum to 0.
    pub(crate) fn gradient(&mut self, means: &[f64], deviations: &[f64], action: usize, gradient: &mut [f64]) -> f64 {
        gradient.fill(0.0);
        if !self.place(means, deviations) {
            gradient.fill(f64::NAN);
            return f64::NAN;
        }
        let Some(own) = self.places.iter().position(|&place| place == action) else { return 0.0 };
        let mut p = 0.0;
        self.integrate(GRADIENT_ERROR, |f, hazards, sums| {
            let f = f * hazards[own];
            p += f;
            sums.iter_mut().zip(hazards).for_each(|(sum, hazard)| *sum -= f * hazard);
        });
        self.sums[own] -= self.sums.iter().sum::<f64>();
        self.places.iter().zip(&self.sums).for_each(|(&place, slope)| gradient[place] = *slope);
        p
    }

    /// Finds the actions that matter, the others being almost surely below one of them, and the ends of the segments.
    /// `false` if an entry is not allowed.
    fn place(&mut self, means: &[f64], deviations: &[f64]) -> bool {
        let k = means.len();
        if self.reach.0 != k {
            self.reach = (k, tail_point(OUTSIDE / k as f64));
        }
        let t = self.reach.1;
        let both = || means.iter().zip(deviations);
        if !both().all(|(m, v)| m.is_finite() && v.is_finite() && *v > 0.0) {
            return false;
        }
        // Below `from` lies almost nothing of the maximum.
        let from = both().map(|(m, v)| m - t * v).fold(f64::NEG_INFINITY, f64::max);
        self.places.clear();
        self.places.extend((0..k).filter(|&b| means[b] + t * deviations[b] > from));
        self.means.clear();
        self.means.extend(self.places.iter().map(|&b| means[b]));
        self.deviations.clear();
        self.deviations.extend(self.places.iter().map(|&b| deviations[b]));
        self.cuts.clear();
        let ends = self.means.iter().zip(&self.deviations).flat_map(|(m, v)| [m - t * v, m + t * v]);
        self.cuts.extend(ends.map(|z| z.max(from)));
        self.cuts.sort_by(f64::total_cmp);
        self.cuts.dedup();
        let largest = self.deviations.iter().copied().fold(0.0, f64::max);
        let filled = self.places.len().next_multiple_of(LANES);
        self.means.resize(filled, from - NEVER * largest);
        self.deviations.resize(filled, largest);
        self.hazards.clear();
        self.hazards.resize(filled, 0.0);
        self.sums.clear();
        self.sums.resize(filled, 0.0);
        true
    }

    /// Calls `add(w F(z), hazards, sums)` at every point `z` with its weight `w`, for an error of each integral.
    fn integrate(&mut self, error: f64, mut add: impl FnMut(f64, &[f64], &mut [f64])) {
        let smallest = self.deviations.iter().copied().fold(f64::INFINITY, f64::min);
        let step = smallest * trapezoid_step(self.places.len(), error);
        let (bottom, top) = (self.cuts[0], self.cuts[self.cuts.len() - 1]);
        let points = ((top - bottom) / step).ceil();
        // Every segment has a panel.
        if points > (NODES * self.cuts.len()) as f64 {
            return self.panels(add);
        }
        // From the top down: what is left below `z` is `F(z)`.
        for j in 0..=points as usize {
            let f = self.point(top - j as f64 * step);
            add(step * f, &self.hazards, &mut self.sums);
            if f < 0.01 * OUTSIDE {
                break;
            }
        }
    }

    /// The same by panels.
    fn panels(&mut self, mut add: impl FnMut(f64, &[f64], &mut [f64])) {
        let t = self.reach.1;
        // The distribution function of the maximum of many is steeper than that of one.
        let panel = 3.0 / (1.0 + (self.places.len() as f64).ln().sqrt());
        for i in 1..self.cuts.len() {
            let (from, to) = (self.cuts[i - 1], self.cuts[i]);
            let active =
                self.means.iter().zip(&self.deviations).filter(|(m, v)| *m - t * *v < to && *m + t * *v > from);
            let smallest = active.map(|(_, v)| *v).fold(f64::INFINITY, f64::min);
            // No more than rounding lies between ends that nothing is active between.
            if smallest.is_infinite() {
                continue;
            }
            let panels = ((to - from) / (panel * smallest)).ceil().max(1.0);
            let half = 0.5 * (to - from) / panels;
            for j in 0..panels as usize {
                let middle = from + half * (2 * j + 1) as f64;
                for (x, w) in nodes() {
                    let f = half * w * self.point(middle + half * x);
                    add(f, &self.hazards, &mut self.sums);
                }
            }
        }
    }

    /// `F(z)`, and the hazards at `z`. Within the segments no factor underflows; if the product does, it is negligible.
    fn point(&mut self, z: f64) -> f64 {
        let (means, deviations, hazards) = (&self.means, &self.deviations, &mut self.hazards);
        wide(
            #[inline(always)]
            || {
                let mut product = [1.0; LANES];
                let (means, deviations) = (means.chunks_exact(LANES), deviations.chunks_exact(LANES));
                for ((m, v), out) in means.zip(deviations).zip(hazards.chunks_exact_mut(LANES)) {
                    for i in 0..LANES {
                        let (cdf, pdf) = cdf_pdf((z - m[i]) / v[i]);
                        product[i] *= cdf;
                        out[i] = pdf / (cdf * v[i]);
                    }
                }
                product.iter().product()
            },
        )
    }
}

/// The nodes and weights of Gauss-Legendre quadrature on [-1, 1]: the roots of the Legendre polynomial by Newton's method.
fn nodes() -> &'static [(f64, f64); NODES] {
    static KEPT: OnceLock<[(f64, f64); NODES]> = OnceLock::new();
    KEPT.get_or_init(|| {
        std::array::from_fn(|i| {
            let n = NODES as f64;
            let mut x = -(std::f64::consts::PI * (i as f64 + 0.75) / (n + 0.5)).cos();
            let mut slope = 1.0;
            for _ in 0..20 {
                let (mut before, mut value) = (1.0, x);
                for degree in 2..=NODES {
                    let d = degree as f64;
                    (before, value) = (value, ((2.0 * d - 1.0) * x * value - (d - 1.0) * before) / d);
                }
                slope = n * (x * value - before) / (x * x - 1.0);
                x -= value / slope;
            }
            (x, 2.0 / ((1.0 - x * x) * slope * slope))
        })
    })
}

/// The probability of one action, however unlikely. As for [equal deviations](super::perturbed), the logarithm of the
/// integrand is strictly concave, and Newton's method from `m_a` climbs to its mode.
fn small_propensity(means: &[f64], deviations: &[f64], action: usize) -> f64 {
    // Against one other action alone it would be `Phi((m_a - m_b)/sqrt(v_a^2 + v_b^2))`: for a lower gap, less than 1e-300.
    const HOPELESS: f64 = -37.0;
    let (m_a, v_a) = (means[action], deviations[action]);
    let others: Vec<(f64, f64)> = means
        .iter()
        .zip(deviations)
        .enumerate()
        .filter(|(b, _)| *b != action)
        .map(|(_, (m, v))| (m - m_a, *v))
        .collect();
    if others.iter().any(|(m, v)| -m / v.hypot(v_a) < HOPELESS) {
        return 0.0;
    }
    let mut mode = 0.0;
    let mut width = v_a;
    for _ in 0..100 {
        let (mut slope, mut curvature) = (-mode / (v_a * v_a), -1.0 / (v_a * v_a));
        for (m, v) in &others {
            let t = (mode - m) / v;
            let g = hazard(t);
            slope += g / v;
            curvature -= g * (g + t) / (v * v);
        }
        width = 1.0 / (-curvature).sqrt();
        let newton = -slope / curvature;
        mode += newton;
        if newton <= 0.1 * width {
            break;
        }
    }
    let g = |z: f64| -0.5 * (z / v_a) * (z / v_a) + others.iter().map(|(m, v)| ln_cdf((z - m) / v)).sum::<f64>();
    const FRAC_1_SQRT_2PI: f64 = 0.398_942_280_401_432_7;
    FRAC_1_SQRT_2PI / v_a * log_concave_integral(g, mode, width, 1e-10)
}

/// Draws `argmax_b (m_b + v_b e_b)`, without any integral.
pub(crate) fn sample(means: &[f64], deviations: &[f64], rng: &mut impl Rng) -> usize {
    let mut best = (0, f64::NEG_INFINITY);
    for (b, (m, v)) in means.iter().zip(deviations).enumerate() {
        let noise: f64 = StandardNormal.sample(rng);
        if m + v * noise > best.1 {
            best = (b, m + v * noise);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::quadrature::Double;
    use crate::math::random::{Purpose, stream};
    use proptest::prelude::*;

    #[derive(serde::Deserialize)]
    struct Case {
        means: Vec<f64>,
        deviations: Vec<f64>,
        propensity: Vec<f64>,
    }

    fn golden() -> Vec<Case> {
        serde_json::from_str(include_str!("../../tests/golden/unequal.json")).unwrap()
    }

    fn propensity(means: &[f64], deviations: &[f64], action: usize) -> f64 {
        Unequal::default().propensity(means, deviations, action)
    }

    #[test]
    fn all_propensities_are_the_reference_s() {
        let mut smallest: f64 = 1.0;
        for Case { means, deviations, propensity: expected } in golden() {
            let mut p = vec![0.0; means.len()];
            Unequal::default().distribution(&means, &deviations, &mut p);
            for (a, (p, expected)) in p.iter().zip(&expected).enumerate() {
                assert!((p - expected).abs() <= 1e-12, "{means:?} {deviations:?}: {a}: {p} {expected}");
                let one = propensity(&means, &deviations, a);
                assert!((one / expected - 1.0).abs() <= 1e-9, "{means:?} {deviations:?}: {a}: {one} {expected}");
                smallest = smallest.min(*expected);
            }
        }
        assert!(smallest < 1e-50, "the golden values should reach far down, but end at {smallest}");
    }

    /// Some means and deviations, which differ by a factor of at most `ratio`.
    fn set(ratio: f64) -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
        (2usize..12)
            .prop_flat_map(move |k| (prop::collection::vec(-3.0..3.0, k), prop::collection::vec(1.0 / ratio..1.0, k)))
    }

    proptest! {
        #[test]
        fn probabilities_sum_to_one_and_both_ways_agree((means, deviations) in set(50.0)) {
            let mut p = vec![0.0; means.len()];
            Unequal::default().distribution(&means, &deviations, &mut p);
            prop_assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-11);
            for (a, p) in p.iter().enumerate() {
                let slow = small_propensity(&means, &deviations, a);
                prop_assert!((slow - p).abs() < 1e-9, "{} {}", slow, p);
            }
        }

        #[test]
        fn the_trapezoid_rule_and_panels_agree((means, deviations) in set(8.0)) {
            let add = |f: f64, hazards: &[f64], sums: &mut [f64]| {
                sums.iter_mut().zip(hazards).for_each(|(sum, hazard)| *sum += f * hazard);
            };
            let mut room = Unequal::default();
            prop_assert!(room.place(&means, &deviations));
            room.integrate(ERROR, add);
            let found = room.sums.clone();
            prop_assert!(room.place(&means, &deviations));
            room.panels(add);
            prop_assert!(found.iter().zip(&room.sums).all(|(a, b)| (a - b).abs() < 1e-12), "{:?} {:?}", found, room.sums);
        }

        #[test]
        fn equal_deviations_give_the_perturbed_argmax_of_standardised_scores(
            means in prop::collection::vec(-3.0..3.0, 2..12), v in 0.1..5.0,
        ) {
            let scores: Vec<f64> = means.iter().map(|m: &f64| m / v).collect();
            let (mut own, mut other) = (vec![0.0; means.len()], vec![0.0; means.len()]);
            Unequal::default().distribution(&means, &vec![v; means.len()], &mut own);
            Double::new(means.len(), 1e-10).distribution(&scores, &mut other);
            prop_assert!(own.iter().zip(&other).all(|(a, b)| (a - b).abs() < 2e-10));
        }

        #[test]
        fn the_gradient_is_the_finite_difference((means, deviations) in set(5.0), a in 0usize..12) {
            let a = a % means.len();
            let mut gradient = vec![0.0; means.len()];
            let p = Unequal::default().gradient(&means, &deviations, a, &mut gradient);
            prop_assert!((p - propensity(&means, &deviations, a)).abs() < 1e-6);
            for b in 0..means.len() {
                let moved = |by: f64| {
                    let mut means = means.clone();
                    means[b] += by;
                    propensity(&means, &deviations, a)
                };
                let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                prop_assert!((difference - gradient[b]).abs() < 1e-5, "{} {}", difference, gradient[b]);
            }
        }
    }

    #[test]
    fn nodes_integrate_polynomials_of_degree_31() {
        for degree in 0..32 {
            let found: f64 = nodes().iter().map(|(x, w)| w * x.powi(degree)).sum();
            let expected = if degree % 2 == 0 { 2.0 / f64::from(degree + 1) } else { 0.0 };
            assert!((found - expected).abs() < 1e-14, "{degree}: {found} {expected}");
        }
    }

    #[test]
    fn samples_follow_the_propensities() {
        let (means, deviations) = ([0.3, -0.5, 1.1, 0.0], [1.0, 0.1, 0.5, 2.0]);
        let mut rng = stream(3, Purpose::Decide, 0);
        let n = 200_000;
        let mut counts = [0.0; 4];
        for _ in 0..n {
            counts[sample(&means, &deviations, &mut rng)] += 1.0;
        }
        let chi2: f64 = (0..4)
            .map(|a| {
                let expected = propensity(&means, &deviations, a) * f64::from(n);
                (counts[a] - expected) * (counts[a] - expected) / expected
            })
            .sum();
        // The 99.9 % point of chi-squared with 3 degrees of freedom.
        assert!(chi2 < 16.27, "{chi2}");
    }

    #[test]
    fn what_is_not_finite_gives_nan_and_what_is_hopeless_gives_zero() {
        for bad in [f64::NAN, f64::INFINITY] {
            assert!(propensity(&[0.0, bad], &[1.0, 1.0], 0).is_nan());
            assert!(propensity(&[0.0, 1.0], &[1.0, bad], 0).is_nan());
        }
        assert_eq!(propensity(&[0.0, 1e6], &[1.0, 1.0], 0), 0.0);
        assert!((propensity(&[0.0, 1e6], &[1.0, 1.0], 1) - 1.0).abs() < 1e-9);
        assert_eq!(propensity(&[5.0], &[0.5], 0), 1.0);
    }
}
