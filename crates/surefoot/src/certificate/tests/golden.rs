//! The bound against the slow reference, `reference/certificates.py`.

use super::*;

#[derive(Deserialize)]
struct Reference {
    bounds: Vec<Whole>,
    shift: Vec<Rounds>,
    running: Vec<Running>,
}

#[derive(Deserialize)]
struct Whole {
    smoothing: String,
    judged: String,
    form: String,
    lambdas: Vec<f64>,
    delta: f64,
    kl: f64,
    size: usize,
    p: Vec<f64>,
    q: Vec<f64>,
    c: Vec<f64>,
    estimates: Vec<f64>,
    upper: f64,
    lambda: f64,
}

#[derive(Deserialize)]
struct Round {
    p: Vec<f64>,
    q: Vec<f64>,
    c: Vec<f64>,
    kl: f64,
}

#[derive(Deserialize)]
struct Rounds {
    smoothing: String,
    form: String,
    lambdas: Vec<f64>,
    delta: f64,
    rounds: Vec<Round>,
    estimates: Vec<f64>,
    upper: f64,
    lambda: f64,
}

#[derive(Deserialize)]
struct Running {
    form: String,
    lambdas: Vec<f64>,
    delta: f64,
    q: Vec<f64>,
    c: Vec<f64>,
    upper: f64,
    lambda: f64,
}

fn reference() -> Reference {
    let path = format!("{}/tests/golden/certificates.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn smoothing_of(name: &str) -> Smoothing {
    serde_json::from_value(name.into()).unwrap()
}

fn form_of(name: &str) -> Form {
    serde_json::from_value(name.into()).unwrap()
}

/// The bound is never below the reference, and at most twice the allowed numerical error above it: once because the
/// allowance is added, once because the sum may be off by as much.
#[track_caller]
fn check(found: Bound, form: Form, upper: f64, lambda: f64, what: &str) {
    assert_eq!(found.lambda, lambda, "{what}");
    let most = upper + rise(form, lambda, upper, 2.0 * found.numerical);
    assert!(found.upper >= upper && found.upper <= most, "{what}: {} is not in [{upper}, {most}]", found.upper);
    assert!(found.numerical <= 1e-8 * (1.0 + found.estimate.abs()), "{what}: {}", found.numerical);
}

/// Checks each lambda alone.
#[track_caller]
fn check_estimates(evidence: &[Weighed], smoothing: Smoothing, judged: Subject, lambdas: &[f64], estimates: &[f64]) {
    for (&lambda, &expected) in lambdas.iter().zip(estimates) {
        let found = bound_of(evidence, smoothing, judged, &protocol(&[lambda], Form::Psi), 0.05).unwrap().estimate;
        assert!((found - expected).abs() <= 1e-12 * expected.abs(), "lambda {lambda}: {found} {expected}");
    }
}

#[test]
fn every_bound_is_the_reference_s() {
    let cases = reference().bounds;
    assert_eq!(cases.len(), 72);
    for (i, case) in cases.iter().enumerate() {
        let (smoothing, form) = (smoothing_of(&case.smoothing), form_of(&case.form));
        let judged = match case.judged.as_str() {
            "posterior" => Subject::Posterior { kl: case.kl, error: 0.0, turned: false },
            _ => Subject::Fixed { size: case.size },
        };
        let evidence = [Weighed::of(&case.p, &case.q, &case.c)];
        let found = bound_of(&evidence, smoothing, judged, &protocol(&case.lambdas, form), case.delta).unwrap();
        check(found, form, case.upper, case.lambda, &format!("case {i}, {} {}", case.smoothing, case.judged));
        check_estimates(&evidence, smoothing, judged, &case.lambdas, &case.estimates);
    }
}

#[test]
fn every_bound_under_shift_is_the_reference_s() {
    for (i, case) in reference().shift.iter().enumerate() {
        let (smoothing, form) = (smoothing_of(&case.smoothing), form_of(&case.form));
        let evidence: Vec<Weighed> = case.rounds.iter().map(|r| Weighed::of(&r.p, &r.q, &r.c)).collect();
        let judged = Subject::Posterior { kl: case.rounds.iter().map(|r| r.kl).sum(), error: 0.0, turned: false };
        let found = bound_of(&evidence, smoothing, judged, &protocol(&case.lambdas, form), case.delta).unwrap();
        check(found, form, case.upper, case.lambda, &format!("case {i}"));
        check_estimates(&evidence, smoothing, judged, &case.lambdas, &case.estimates);
    }
}

#[test]
fn every_bound_of_what_has_been_running_is_the_reference_s() {
    for (i, case) in reference().running.iter().enumerate() {
        let (n, form) = (case.c.len(), form_of(&case.form));
        let contexts = Contexts::dense(vec![1.0; n], 1).unwrap();
        let logs = [Logs::new(2, contexts, vec![0; n], case.q.clone(), case.c.clone()).unwrap()];
        let protocol = Protocol { delta: case.delta, ..protocol(&case.lambdas, form) };
        let Certificate { upper, lambda, estimate, numerical, records, .. } =
            Certificate::running(&Case::whole(&logs, &protocol)).unwrap();
        let found = Bound { upper, lambda, estimate, numerical, records };
        check(found, form, case.upper, case.lambda, &format!("case {i}"));
    }
}
