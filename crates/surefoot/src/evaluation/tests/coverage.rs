//! How often the intervals contain the truth, in a world where it is known.

use super::*;

const RUNS: u64 = 300;

/// Estimators whose expectation is the risk, exactly or nearly.
fn unbiased() -> Vec<Estimator> {
    vec![
        Estimator::Weighted(Regularizer::Ips),
        Estimator::SelfNormalised,
        Estimator::DoublyRobust,
        Estimator::SelfNormalisedDoublyRobust,
    ]
}

#[test]
fn the_truth_is_in_the_interval_at_all_times_at_once() {
    let settings = EvaluationSettings { replicates: 0, ..EvaluationSettings::default() };
    let (mut held, mut width) = (0, 0.0);
    for seed in 0..RUNS {
        let (records, mut evaluator) = (draw(4000, 1000 + seed), Evaluator::new(&settings).unwrap());
        let mut start = 0;
        let holds = [10, 50, 200, 1000, 4000].map(|end| {
            evaluator.add(&records.view().slice(start..end)).unwrap();
            start = end;
            let anytime = evaluator.finish().unwrap().anytime;
            width = anytime.upper - anytime.lower;
            anytime.contains(truth())
        });
        held += u64::from(holds.iter().all(|&holds| holds));
    }
    assert!(held as f64 >= 0.95 * RUNS as f64, "{held} of {RUNS}");
    assert!(width < 0.4, "{width}");
}

#[test]
fn the_bootstrap_holds_about_as_often_as_it_says_and_bernstein_at_least() {
    let settings = EvaluationSettings {
        estimators: unbiased(),
        replicates: 200,
        largest_weight: Some(9.0),
        ..EvaluationSettings::default()
    };
    let (mut bootstrap, mut bernstein) = ([0; 4], [0; 4]);
    for seed in 0..RUNS {
        let found = evaluate(&settings, &draw(500, 5000 + seed).view());
        for (i, estimate) in found.estimates.iter().enumerate() {
            bootstrap[i] += u64::from(estimate.bootstrap.unwrap().contains(truth()));
            bernstein[i] += u64::from(estimate.bernstein.is_some_and(|interval| interval.contains(truth())));
        }
    }
    for held in bootstrap {
        let share = held as f64 / RUNS as f64;
        assert!((0.88..=0.99).contains(&share), "{bootstrap:?}");
    }
    // No range is known for ratios.
    assert!(bernstein[0] as f64 >= 0.95 * RUNS as f64 && bernstein[2] as f64 >= 0.95 * RUNS as f64, "{bernstein:?}");
    assert_eq!((bernstein[1], bernstein[3]), (0, 0));
}

#[test]
fn with_many_records_a_bucket_the_bootstrap_agrees_with_the_standard_error() {
    let estimators = [unbiased(), EvaluationSettings::with_model().estimators].concat();
    let settings = EvaluationSettings { estimators, ..EvaluationSettings::default() };
    let found = evaluate(&settings, &draw(100_000, 11).view());
    for estimate in found.estimates {
        let Interval { lower, upper } = estimate.bootstrap.unwrap();
        let ratio = (upper - lower) / (2.0 * 1.96 * estimate.standard_error);
        assert!((0.88..1.12).contains(&ratio), "{}: {ratio}", estimate.estimator);
    }
}
