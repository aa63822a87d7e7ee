//! Many records at once compared with one at a time.

use super::*;

fn record<R: Integrate>(quadrature: &mut R::Quadrature, scores: &[R], action: u32) -> (R, Vec<R>) {
    let mut gradient = vec![R::ZERO; scores.len()];
    let p = R::gradient(quadrature, scores, action as usize, &mut gradient);
    (p, gradient)
}

/// Compares all results for rows of `k` scores; one record may have a score that is not finite.
fn agree<R: Integrate>(k: usize, scores: &[f64], bad: Option<(usize, f64)>, (tolerance, error): (f64, f64)) {
    let mut scores: Vec<R> = scores.iter().map(|&s| R::of(s)).collect();
    let n = scores.len() / k;
    let actions: Vec<u32> = (0..n).map(|i| (i * 7 % k) as u32).collect();
    let bad = bad.filter(|_| n > 0).map(|(place, value)| {
        let place = place % scores.len();
        scores[place] = R::of(value);
        place / k
    });
    let mut quadrature = R::quadrature(k, tolerance);
    let (mut p, mut gradients) = (vec![R::ONE; n], vec![R::ONE; n * k]);
    R::gradients(&mut quadrature, k, &scores, &actions, &mut p, &mut gradients);
    for i in 0..n {
        let (expected, expected_gradient) = record(&mut quadrature, &scores[i * k..][..k], actions[i]);
        let found = std::iter::once(p[i]).chain(gradients[i * k..][..k].iter().copied());
        for (found, expected) in found.zip(std::iter::once(expected).chain(expected_gradient)) {
            let (found, expected) = (found.to_f64(), expected.to_f64());
            if bad == Some(i) {
                assert!(found.is_nan() && expected.is_nan(), "record {i} of {n}: {found} {expected}");
            } else {
                assert!((found - expected).abs() <= error, "record {i} of {n}, {k} actions: {found} {expected}");
            }
        }
    }
}

proptest! {
    #[test]
    fn many_records_at_once_are_each_record_alone(
        k in prop_oneof![4 => 2usize..=16, 1 => 17usize..60], n in 0usize..40, spread in 0.0..8.0,
        shift in -20.0..20.0, scores in prop::collection::vec(-1.0..1.0, 60 * 40),
        bad in prop::option::of((
            0usize..10_000, prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY)],
        )),
    ) {
        let scores: Vec<f64> = scores[..n * k].iter().map(|s| shift + s * spread).collect();
        agree::<f64>(k, &scores, bad, (1e-10, 1e-9));
        agree::<f32>(k, &scores, bad, (1e-6, 1e-5));
    }
}

#[test]
fn finite_scores_whose_difference_is_not_are_far_apart() {
    for k in [2, 16, 17] {
        let mut scores = vec![f64::MIN; k];
        scores[1] = f64::MAX;
        let mut rounded = vec![f32::MIN; k];
        rounded[1] = f32::MAX;
        for action in [0, 1] {
            let (mut p, mut gradient) = ([0.5], vec![0.5; k]);
            Double::new(k, 1e-10).gradients(k, &scores, &[action], &mut p, &mut gradient);
            assert!((p[0] - f64::from(action)).abs() < 1e-10 && gradient.iter().all(|g| g.abs() < 1e-10));
            let (mut p, mut gradient) = ([0.5], vec![0.5; k]);
            Single::new(k, 1e-6).gradients(k, &rounded, &[action], &mut p, &mut gradient);
            assert!((p[0] - action as f32).abs() < 1e-6 && gradient.iter().all(|g| g.abs() < 1e-6));
        }
    }
}
