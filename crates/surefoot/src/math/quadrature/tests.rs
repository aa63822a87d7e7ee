//! The quadrature compared with golden values, with a slow quadrature, and with itself.

mod many;
mod range;

use super::*;
use crate::math::normal::{cdf_pdf, hazard, ln_cdf};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) scores: Vec<f64>,
    pub(crate) actions: Vec<usize>,
    pub(crate) propensity: Vec<f64>,
    pub(crate) gradient: Vec<Gradient>,
}

#[derive(Deserialize)]
pub(crate) struct Gradient {
    pub(crate) action: usize,
    pub(crate) wrt: Vec<usize>,
    pub(crate) value: Vec<f64>,
}

pub(crate) fn golden() -> Vec<Case> {
    serde_json::from_str(include_str!("../../../tests/golden/propensities.json")).unwrap()
}

fn single(scores: &[f64]) -> Vec<f32> {
    scores.iter().map(|&s| s as f32).collect()
}

/// Probability and gradient point by point, action by action: `O(K G)`, with `Phi` itself.
fn slow(scores: &[f64], action: usize) -> (f64, Vec<f64>) {
    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (mut p, mut gradient) = (0.0, vec![0.0; scores.len()]);
    let h = 0.02;
    for i in -500..=500 {
        let z = top + f64::from(i) * h;
        let f: f64 = scores.iter().map(|s| cdf_pdf(z - s).0).product();
        let integrand = h * f * hazard(z - scores[action]);
        p += integrand;
        for (g, s) in gradient.iter_mut().zip(scores) {
            *g -= integrand * hazard(z - s);
        }
    }
    gradient[action] = 0.0;
    gradient[action] = -gradient.iter().sum::<f64>();
    (p, gradient)
}

/// The largest errors of `ln Phi` and of the hazard on the lattice of a rule, where `F` is not negligible.
fn lattice_errors<R: Real, const COEFS: usize>(rule: &Rule<R, COEFS>) -> (f64, f64) {
    let h = rule.h.to_f64();
    let mut errors = (0.0f64, 0.0f64);
    for n in rule.bottom..rule.zero {
        for i in 0..=20 {
            // The remainder and the step as the kernels compute them.
            let r = R::of(f64::from(i) / 20.0 - 0.5);
            let t = (f64::from(n) - r.to_f64()) * h;
            let value = |coefficient: &dyn Fn(usize) -> R| {
                (0..COEFS).rev().fold(R::ZERO, |sum, j| sum * r + coefficient(j)).to_f64()
            };
            let ln_phi = value(&|j| rule.lattice.ln_cdf::<1>(j, n)[0]);
            errors.0 = errors.0.max((ln_phi - ln_cdf(t)).abs() / (1.0 + ln_cdf(t).abs()));
            errors.1 = errors.1.max((value(&|j| rule.lattice.hazard::<1>(j, n)[0]) - hazard(t)).abs());
        }
    }
    errors
}

#[test]
fn the_functions_on_the_lattice_have_the_stated_errors() {
    let (mut singles, mut doubles) = ((0.0f64, 0.0f64), (0.0f64, 0.0f64));
    for k in [2, 3, 5, 10, 100, 1000, 10_000, 100_000] {
        for exponent in 2..=13 {
            let tolerance = 10f64.powi(-exponent);
            if exponent <= 6 {
                let e = lattice_errors(&rule::<f32, 6>(k, tolerance, None, 16));
                singles = (singles.0.max(e.0), singles.1.max(e.1));
            }
            let e = lattice_errors(&rule::<f64, 12>(k, tolerance, None, 8));
            doubles = (doubles.0.max(e.0), doubles.1.max(e.1));
        }
    }
    assert!(singles.0 < 3e-7 && singles.1 < 7e-7, "{singles:?}");
    assert!(doubles.0 < 1e-13 && doubles.1 < 2e-13, "{doubles:?}");
}

#[test]
fn all_propensities_are_within_1e_10_of_the_reference() {
    for case in golden() {
        let mut out = vec![0.0; case.scores.len()];
        Double::new(out.len(), 1e-10).distribution(&case.scores, &mut out);
        for (&a, p) in case.actions.iter().zip(&case.propensity) {
            assert!((out[a] - p).abs() <= 1e-10, "{}: action {a}: {} {p}", case.name, out[a]);
        }
    }
}

#[test]
fn gradients_are_within_the_tolerance_of_the_reference() {
    for case in golden() {
        let mut out = vec![0.0; case.scores.len()];
        let mut rounded = vec![0.0; case.scores.len()];
        // The entry of the action itself is the sum of the errors of the others.
        let share = |b: usize, a: usize| if b == a { case.scores.len() as f64 } else { 1.0 };
        for Gradient { action, wrt, value } in &case.gradient {
            for tolerance in [1e-6, 1e-10] {
                Double::new(out.len(), tolerance).gradient(&case.scores, *action, &mut out);
                for (&b, g) in wrt.iter().zip(value) {
                    let error = (out[b] - g).abs();
                    assert!(error <= tolerance * share(b, *action), "{}: {b}: {} {g}", case.name, out[b]);
                }
            }
            // In f32 the scores are rounded, by 2e-6 where they reach 40.
            let p = Single::new(out.len(), 1e-6).gradient(&single(&case.scores), *action, &mut rounded);
            if let Some(i) = case.actions.iter().position(|a| a == action) {
                assert!((f64::from(p) - case.propensity[i]).abs() < 4e-6, "{}: {p}", case.name);
            }
            for (&b, g) in wrt.iter().zip(value) {
                let error = (f64::from(rounded[b]) - g).abs();
                assert!(error <= 4e-6 * share(b, *action).sqrt(), "{}: {b}: {} {g}", case.name, rounded[b]);
            }
        }
    }
}

proptest! {
    #[test]
    fn the_fast_sums_are_the_slow_ones(
        scores in prop::collection::vec(-40.0..40.0, 2..60), spread in 0.0..=1.0, action in 0usize..60,
    ) {
        let scores: Vec<f64> = scores.iter().map(|s: &f64| s * spread * spread).collect();
        let k = scores.len();
        let a = action % k;
        let (p, expected) = slow(&scores, a);
        let mut all = vec![0.0; k];
        Double::new(k, 1e-10).distribution(&scores, &mut all);
        prop_assert!((all.iter().sum::<f64>() - 1.0).abs() <= 1e-10 * k as f64);
        prop_assert!((all[a] - p).abs() <= 1e-10);
        prop_assert!((Double::new(k, 1e-10).propensity(&scores, a) - p).abs() <= 1e-10);
        let mut gradient = vec![0.0; k];
        prop_assert!((Double::new(k, 1e-8).gradient(&scores, a, &mut gradient) - p).abs() <= 1e-8);
        let mut rounded = vec![0.0; k];
        let found = Single::new(k, 1e-6).gradient(&single(&scores), a, &mut rounded);
        prop_assert!((f64::from(found) - p).abs() <= 1e-5);
        for b in 0..k {
            let share = if a == b { k as f64 } else { 1.0 };
            prop_assert!((gradient[b] - expected[b]).abs() <= 1e-8 * share);
            prop_assert!((f64::from(rounded[b]) - expected[b]).abs() <= 1e-5);
        }
    }

    #[test]
    fn the_gradient_is_the_finite_difference(
        scores in prop::collection::vec(-3.0..3.0, 2..12), action in 0usize..12, b in 0usize..12,
    ) {
        let (a, b) = (action % scores.len(), b % scores.len());
        let mut quadrature = Double::new(scores.len(), 1e-12);
        let mut gradient = vec![0.0; scores.len()];
        quadrature.gradient(&scores, a, &mut gradient);
        let mut at = |e: f64| {
            let mut moved = scores.clone();
            moved[b] += e;
            quadrature.propensity(&moved, a)
        };
        let e = 1e-4;
        prop_assert!((gradient[b] - (at(e) - at(-e)) / (2.0 * e)).abs() < 1e-7);
    }
}

#[test]
fn scores_of_any_size_give_the_probabilities_of_their_differences() {
    let mut out = [0.0; 3];
    let mut quadrature = Double::new(3, 1e-10);
    for shift in [-1e300, -1e16, -1e6, 0.0, 1e6, 1e14, 1e300] {
        quadrature.distribution(&[shift; 3], &mut out);
        assert!(out.iter().all(|p| (p - 1.0 / 3.0).abs() < 1e-10), "{shift}: {out:?}");
    }
    for far in [1e3, 1e7, 1e16, 1e155, 1e300] {
        let scores = [0.0, far, far];
        quadrature.distribution(&scores, &mut out);
        assert!(out[0] == 0.0 && (out[1] - 0.5).abs() < 1e-10, "{far}: {out:?}");
        assert_eq!(quadrature.gradient(&scores, 0, &mut out), 0.0);
        assert_eq!(out, [0.0; 3]);
    }
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert!(quadrature.gradient(&[0.0, bad, 1.0], 0, &mut out).is_nan());
        quadrature.distribution(&[0.0, bad, 1.0], &mut out);
        assert!(out.iter().all(|p| p.is_nan()));
    }
}

#[test]
fn one_action_is_certain() {
    let mut out = [0.0];
    let mut quadrature = Double::new(1, 1e-10);
    quadrature.distribution(&[5.0], &mut out);
    assert_eq!((out[0], quadrature.propensity(&[5.0], 0)), (1.0, 1.0));
    assert_eq!(quadrature.gradient(&[5.0], 0, &mut out), 1.0);
    assert_eq!(out[0], 0.0);
}
