//! Scores of any size; numbers of actions and tolerances at the ends of their ranges.

use super::*;

/// The largest errors of the probabilities, and of the gradient's entries for the other actions, for both methods.
fn errors<R, const C: usize, const L: usize>(
    scores: &[f64],
    a: usize,
    tolerance: f64,
    (p, gradient): &(f64, Vec<f64>),
) -> [f64; 2]
where
    R: Kept<C> + Integrate<Quadrature = Quadrature<R, C, L>>,
{
    let scores: Vec<R> = scores.iter().map(|&s| R::of(s)).collect();
    let k = scores.len();
    let mut quadrature = R::quadrature(k, tolerance);
    let mut all = vec![R::ZERO; k];
    quadrature.distribution(&scores, &mut all);
    let (mut one, mut many) = (vec![R::ZERO; k], vec![R::ZERO; k]);
    let mut first = [R::ZERO];
    let others = [all[a], quadrature.propensity(&scores, a), quadrature.gradient(&scores, a, &mut one)];
    quadrature.gradients(k, &scores, &[a as u32], &mut first, &mut many);
    let probabilities = others.iter().chain(&first).map(|found| (found.to_f64() - p).abs());
    let slopes = (0..k).filter(|&b| b != a);
    let slopes = slopes.flat_map(|b| [(one[b].to_f64() - gradient[b]).abs(), (many[b].to_f64() - gradient[b]).abs()]);
    // Not `max`, which would lose a NaN.
    let worst = |worst: f64, error: f64| if error <= worst { worst } else { error };
    [probabilities.fold(0.0, worst), slopes.fold(0.0, worst)]
}

/// Rounded to `f32`.
fn rounded(scores: &[f64]) -> Vec<f64> {
    scores.iter().map(|&s| f64::from(s as f32)).collect()
}

/// Scores of any size from 1e-30 to 1e30, of both signs, some of them equal.
fn score() -> impl Strategy<Value = f64> {
    let any = |exponents: std::ops::Range<f64>| {
        (exponents, any::<bool>()).prop_map(|(e, negative)| 10f64.powf(e) * if negative { -1.0 } else { 1.0 })
    };
    prop_oneof![3 => any(-1.0..1.0), 1 => any(-30.0..0.5), 1 => any(-30.0..30.0), 1 => Just(0.0), 1 => Just(3.0)]
}

fn small_score() -> impl Strategy<Value = f64> {
    (-3.0..0.8, any::<bool>()).prop_map(|(e, negative)| 10f64.powf(e) * if negative { -1.0 } else { 1.0 })
}

fn check(scores: &[f64], a: usize) -> Result<(), TestCaseError> {
    let scores = rounded(scores);
    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let oracle = slow(&scores.iter().map(|s| s - top).collect::<Vec<f64>>(), a);
    for tolerance in [1e-2, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10, 1e-12] {
        let found = errors::<f64, 12, 8>(&scores, a, tolerance, &oracle);
        prop_assert!(found.iter().all(|&e| e <= tolerance), "{tolerance}: {found:?}");
        let found = errors::<f32, 6, 16>(&scores, a, tolerance, &oracle);
        prop_assert!(found.iter().all(|&e| e <= tolerance.max(2e-6)), "{tolerance} in f32: {found:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn scores_of_any_size_are_within_the_tolerance(
        scores in prop::collection::vec(score(), 2..40), action in 0usize..40,
    ) {
        check(&scores, action % scores.len())?;
    }

    #[test]
    fn rivals_are_within_the_tolerance(
        scores in prop::collection::vec(small_score(), 2..20), action in 0usize..40,
    ) {
        check(&scores, action % scores.len())?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn many_scores_of_any_size_are_within_the_tolerance(
        scores in prop::collection::vec(score(), 2..2000), spread in 0.0..4.0, action in 0usize..2000,
    ) {
        let a = action % scores.len();
        check(&scores, a)?;
        let together: Vec<f64> = scores.iter().map(|s| spread * (1e3 * s).sin()).collect();
        check(&together, a)?;
    }
}

/// For two actions the probabilities are `Phi(+-d/sqrt 2)`. Tests every cell and both sides of its border, on the
/// lattices for few and for many actions.
#[test]
fn two_scores_at_every_distance_are_on_the_lattice() {
    fn each<R: Kept<C>, const C: usize, const L: usize>(k: usize, tolerance: f64, allowed: f64) {
        let mut quadrature = Quadrature::<R, C, L>::new(k, tolerance);
        let (h, idle) = (quadrature.rule.h.to_f64(), quadrature.rule.idle);
        for i in 0..=4 * (idle + 2) {
            let d = f64::from(R::of(f64::from(i) * h / 4.0).to_f64() as f32);
            let scores = [R::of(0.0), R::of(-d)];
            let (mut out, mut gradient) = ([R::ZERO; 2], [R::ZERO; 2]);
            quadrature.distribution(&scores, &mut out);
            for a in [0, 1] {
                let expected = cdf_pdf(if a == 0 { d } else { -d } * std::f64::consts::FRAC_1_SQRT_2).0;
                let found = [out[a], quadrature.propensity(&scores, a), quadrature.gradient(&scores, a, &mut gradient)];
                let error = found.iter().map(|p| (p.to_f64() - expected).abs()).fold(0.0, f64::max);
                assert!(error <= allowed, "{k} {tolerance}: {d}: {found:?} {expected}");
            }
        }
    }
    for k in [2, 3, 17, 2000, 200_000] {
        for tolerance in [0.01, 1e-5, 1e-13] {
            each::<f64, 12, 8>(k, tolerance, f64::max(tolerance, 1e-12));
            each::<f32, 6, 16>(k, tolerance, f64::max(tolerance, 2e-6));
        }
    }
}

#[test]
fn rows_of_very_many_actions_are_within_the_tolerance() {
    let k = 200_000;
    // One score ahead of many equal ones: `F = Phi(z) Phi(z + d)^(K - 1)`.
    for d in [0.0, 1.3, 3.1, 4.77] {
        let d = f64::from(d as f32);
        let h = 0.01;
        let of = |t: f64| f64::from(k as u32 - 1) * ln_cdf(t + d);
        let expected: f64 = (-1000..1000).map(|i| h * cdf_pdf(f64::from(i) * h).1 * of(f64::from(i) * h).exp()).sum();
        let mut scores = vec![-d; k];
        scores[77] = 0.0;
        for tolerance in [0.01, 1e-5, 1e-12] {
            let p = Double::new(k, tolerance).propensity(&scores, 77);
            assert!((p - expected).abs() <= tolerance, "{d}: {p} {expected}");
            let p = f64::from(Single::new(k, tolerance).propensity(&single(&scores), 77));
            assert!((p - expected).abs() <= tolerance.max(2e-6), "{d} in f32: {p} {expected}");
        }
    }
    for tolerance in [0.01, 1e-13] {
        let (equal, apart): (Vec<f64>, Vec<f64>) = (0..k).map(|i| (5.0, i as f64 * 1e3)).unzip();
        let mut out = vec![0.5; k];
        Double::new(k, tolerance).distribution(&equal, &mut out);
        assert!(out.iter().all(|p| (p - 1.0 / k as f64).abs() <= tolerance));
        Double::new(k, tolerance).distribution(&apart, &mut out);
        assert!(out[..k - 1].iter().all(|&p| p == 0.0) && (out[k - 1] - 1.0).abs() <= tolerance.max(2e-13));
    }
}
