//! Every estimate and every interval with a formula against the slow reference, `reference/evaluation.py`.

use super::*;
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Reference {
    evaluations: Vec<Case>,
    pub(super) models: Vec<Model>,
}

#[derive(Deserialize)]
struct Case {
    lambdas: Vec<f64>,
    delta: f64,
    largest_weight: f64,
    p: Vec<f64>,
    q: Vec<f64>,
    c: Vec<f64>,
    logged: Vec<f64>,
    mean: Vec<f64>,
    estimates: Vec<Expected>,
    weights: Weights,
    anytime: [f64; 2],
}

#[derive(Deserialize)]
struct Expected {
    estimator: Estimator,
    value: f64,
    standard_error: f64,
    bernstein: Option<[f64; 2]>,
}

#[derive(Deserialize)]
pub(super) struct Model {
    pub(super) features: usize,
    pub(super) actions: usize,
    pub(super) folds: usize,
    pub(super) penalty: f64,
    pub(super) contexts: Vec<f32>,
    pub(super) action: Vec<u32>,
    pub(super) cost: Vec<f64>,
    pub(super) predicted: Vec<f64>,
}

pub(super) fn reference() -> Reference {
    let path = format!("{}/tests/golden/evaluation.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[track_caller]
fn close(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found - expected).abs() <= tolerance * (1.0 + expected.abs()), "{what}: {found} {expected}");
}

#[test]
fn every_estimate_is_the_reference_s() {
    let cases = reference().evaluations;
    assert_eq!(cases.len(), 3);
    for case in cases {
        let settings = EvaluationSettings {
            estimators: case.estimates.iter().map(|e| e.estimator).collect(),
            protocol: Protocol {
                delta: case.delta,
                lambdas: case.lambdas,
                combine: Combine::Union,
                ..Protocol::default()
            },
            replicates: 0,
            seed: 0,
            largest_weight: Some(case.largest_weight),
        };
        let Case { p, q, c, logged, mean, .. } = case;
        let found = evaluate(&settings, &Records { p, q, c, logged, mean }.view());
        assert_eq!(found.estimates.len(), 34);
        for (found, expected) in found.estimates.iter().zip(&case.estimates) {
            let what = found.estimator.to_string();
            close(found.value, expected.value, 1e-14, &what);
            close(found.standard_error, expected.standard_error, 1e-13, &what);
            assert_eq!(found.bernstein.is_some(), expected.bernstein.is_some(), "{what}");
            if let (Some(found), Some([lower, upper])) = (found.bernstein, expected.bernstein) {
                close(found.lower, lower, 1e-9, &what);
                close(found.upper, upper, 1e-9, &what);
            }
        }
        let (w, expected) = (found.weights, case.weights);
        close(w.mean, expected.mean, 1e-14, "the mean weight");
        close(w.standard_error, expected.standard_error, 1e-13, "its error");
        close(w.z.unwrap(), expected.z.unwrap(), 1e-12, "z");
        close(w.effective, expected.effective, 1e-12, "the effective number");
        assert_eq!((w.largest, w.zero), (expected.largest, expected.zero));
        // Never narrower than the reference, and wider by at most the allowance for numerical error.
        let [lower, upper] = case.anytime;
        assert!(found.anytime.lower <= lower && found.anytime.lower > lower - 1e-8, "{:?} {lower}", found.anytime);
        assert!(found.anytime.upper >= upper && found.anytime.upper < upper + 1e-8, "{:?} {upper}", found.anytime);
    }
}
