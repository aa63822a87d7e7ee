//! The tests of chance: how often they call right logs wrong, and whether they find wrong ones.

use super::*;
use surefoot::evaluation::{WeightSums, WeightVerdict};

use crate::lint::normal;

/// Seeds of a log with a warning or an error.
fn alarms(
    seeds: u64,
    n: usize,
    policy: impl Fn(f64) -> Vec<f64>,
    others: impl Fn(&Log) -> Vec<(&'static str, ArrayRef)>,
) -> usize {
    let wrong = |seed: &u64| {
        let log = log(*seed, n, &policy);
        let report = report(&log.table(others(&log)));
        let checks = report.checks(Severity::Warning);
        if !checks.is_empty() {
            eprintln!("seed {seed}: {:?}", report.findings);
        }
        !checks.is_empty()
    };
    (0..seeds).filter(wrong).count()
}

#[test]
fn right_logs_are_called_right() {
    let none = |_: &Log| vec![];
    assert_eq!(alarms(100, 4000, uniform(10), none), 0);
    assert_eq!(alarms(100, 4000, softmax(5, 1.0), none), 0);
    assert_eq!(alarms(50, 4000, greedy(4, 0.2), none), 0);
    let distribution = |log: &Log| vec![("probabilities", lists(log.p.clone()))];
    assert_eq!(alarms(50, 4000, softmax(5, 1.0), distribution), 0);
    let eligible = |log: &Log| {
        let set = |p: &Vec<f64>| (0..).zip(p).filter(|(_, p)| **p > 0.0).map(|(a, _)| a).collect();
        vec![("eligible", sets(log.p.iter().map(set)))]
    };
    let some = |x: f64| if x > 0.5 { vec![0.5, 0.0, 0.5] } else { vec![0.2, 0.3, 0.5] };
    assert_eq!(alarms(50, 4000, some, eligible), 0);
}

/// A policy that has learned gives most actions hardly any chance: no error, for nothing is wrong.
#[test]
fn a_sharp_logger_is_not_called_wrong() {
    for (k, scale) in [(10, 2.0), (10, 4.0), (5, 8.0)] {
        for seed in 0..40 {
            let report = log(seed, 5000, softmax(k, scale)).report();
            assert_eq!(report.count(Severity::Error), 0, "{k} {scale} {seed}: {:?}", report.findings);
        }
    }
}

/// 50,000 tests at a level of 1% of weights that are 0 or 10, with an effective number of 100 and more.
#[test]
fn skewed_weights_are_called_wrong_no_more_often_than_the_level_says() {
    let mut random = Random(1);
    for n in [1200, 3000] {
        let (mut high, mut low) = (0, 0);
        for _ in 0..10_000 {
            let mut weights = WeightSums::default();
            (0..n).for_each(|_| weights.add(if random.next() < 0.1 { 10.0 } else { 0.0 }));
            match weights.verdict(normal::limit(0.01)) {
                WeightVerdict::Above => high += 1,
                WeightVerdict::Below | WeightVerdict::BelowOrRare => low += 1,
                _ => {}
            }
        }
        // 50 each, and four standard deviations.
        assert!(high < 80 && low < 80, "{n}: {high} {low}");
    }
}

#[test]
fn propensities_that_are_too_small_are_found() {
    for seed in 0..20 {
        let mut log = log(seed, 4000, softmax(4, 0.7));
        log.propensity.iter_mut().for_each(|q| *q *= 0.9);
        let report = log.report();
        assert!(report.checks(Severity::Error).contains(&"mean-weight"), "{:?}", report.findings);
        assert!(
            report.hint("mean-weight").starts_with("logged propensities are about 0."),
            "{}",
            report.hint("mean-weight")
        );
    }
}

#[test]
fn propensities_that_are_too_large_are_found() {
    for seed in 0..20 {
        let mut log = log(seed, 20_000, softmax(4, 0.4));
        log.propensity.iter_mut().for_each(|q| *q = (*q * 1.1).min(1.0));
        assert!(log.report().checks(Severity::Error).contains(&"mean-weight"));
    }
}

#[test]
fn uniform_propensities_of_a_logger_that_was_not_are_found_action_by_action() {
    for seed in 0..20 {
        let mut log = log(seed, 4000, softmax(4, 0.7));
        log.propensity.fill(0.25);
        let report = log.report();
        assert_eq!(report.checks(Severity::Error), ["action-weight"]);
        assert!(report.hint("action-weight").ends_with("the propensities are those of another policy"));
    }
}

#[test]
fn a_greedy_action_that_is_logged_as_certain_is_found() {
    for seed in 0..20 {
        let mut log = log(seed, 40_000, greedy(4, 0.3));
        log.propensity.iter_mut().filter(|q| **q > 0.5).for_each(|q| *q = 1.0);
        let report = log.report();
        assert!(report.checks(Severity::Error).contains(&"mean-weight"), "{:?}", report.findings);
        assert!(
            report.hint("mean-weight").contains("was the greedy action logged as certain"),
            "{}",
            report.hint("mean-weight")
        );
    }
}

#[test]
fn a_chance_to_be_kept_that_was_multiplied_in_is_recognised() {
    let mut log = log(3, 20_000, softmax(4, 0.7));
    log.propensity.iter_mut().for_each(|q| *q *= 0.75);
    let dropped = numbers(vec![0.25; 20_000]);
    let report = report(&log.table(vec![("pdrop", dropped)]));
    assert!(report.hint("mean-weight").starts_with("it is 1/(1 - pdrop) for pdrop 0.25"), "{:?}", report.findings);
}

#[test]
fn an_action_too_many_is_recognised() {
    let mut log = log(3, 4000, uniform(5));
    log.propensity.fill(1.0 / 6.0);
    assert!(log.report().hint("mean-weight").starts_with("it fits 6 actions instead of 5"));
}

#[test]
fn weights_that_are_too_uneven_tell_nothing() {
    let policy = |_: f64| vec![0.4999, 0.4999, 0.0002];
    let report = log(1, 5000, policy).report();
    assert_eq!(report.count(Severity::Error), 0);
    let said = report.of("mean-weight").concat();
    assert!(
        said.starts_with("note: the uniform policy cannot test the propensities: the effective sample size is"),
        "{:?}",
        report.findings
    );
}

#[test]
fn a_policy_in_columns_is_asked_about() {
    let log = log(2, 4000, uniform(3));
    let column = |a: usize| numbers(log.p.iter().map(move |_| [0.6, 0.3, 0.1][a]));
    let table = log.table(vec![("p_0", column(0)), ("p_1", column(1)), ("p_2", column(2))]);
    let ask = |table: &RecordBatch| {
        let policies = vec![("new".to_owned(), "columns:p_".parse().unwrap())];
        report_with(table, LintSettings { policies, ..LintSettings::default() }, &ColumnNames::default(), 1000)
    };
    let report = ask(&table);
    let support = &report.summary.policies[1];
    assert_eq!((support.policy.as_str(), support.records), ("new", 4000));
    assert!((support.mean_weight - 1.0).abs() < 4.0 * support.standard_error);
    assert!((support.largest - 1.8).abs() < 1e-12 && support.effective < 4000.0);
    assert_eq!(report.checks(Severity::Warning), [""; 0]);

    let mut bad = log.propensity.clone();
    bad[7] = 0.0;
    bad.iter_mut().skip(10).for_each(|q| *q *= 0.8);
    let mut log = log;
    log.propensity = bad;
    let report = ask(&log.table(vec![
        ("p_0", column_of(&log, 0.6)),
        ("p_1", column_of(&log, 0.3)),
        ("p_2", column_of(&log, 0.1)),
    ]));
    assert!(report.of("policy-weight").iter().any(|said| said.starts_with("error: the mean weight of the new policy")));
    assert!(report.of("policy-weight").iter().any(|said| said.starts_with("note: new: 1 record left out")));
}

fn column_of(log: &Log, p: f64) -> ArrayRef {
    numbers(vec![p; log.x.len()])
}

#[test]
fn choices_that_were_not_drawn_from_the_distribution_are_found() {
    let mut log = log(5, 4000, softmax(4, 0.7));
    let report_of = |log: &Log| report(&log.table(vec![("probabilities", lists(log.p.clone()))]));
    assert_eq!(report_of(&log).of("distribution-choices"), [""; 0]);
    // The distributions of other records.
    log.p.rotate_left(1);
    log.p.iter_mut().for_each(|p| p.rotate_left(1));
    let a = |i: usize| log.p[i][log.action[i] as usize];
    log.propensity = (0..4000).map(a).collect();
    assert_eq!(report_of(&log).of("distribution-choices").len(), 1);
}

/// Records of a logger whose probabilities are the softmax of `scale` times normal scores, new ones in each record.
/// `tilt` favours the first actions.
fn sharp(seed: u64, (k, scale, tilt): (usize, f64, f64)) -> Log {
    let mut random = Random(seed * 7919 + 1);
    let mut log = Log { x: vec![], action: vec![], p: vec![], propensity: vec![], reward: vec![] };
    for _ in 0..10_000 {
        let scores: Vec<f64> = (0..k).map(|a| scale * random.normal() - tilt * a as f64).collect();
        let all: f64 = scores.iter().map(|s| s.exp()).sum();
        let p: Vec<f64> = scores.iter().map(|s| s.exp() / all).collect();
        let a = random.draw(&p);
        log.x.push(random.normal());
        log.action.push(a as u32);
        log.propensity.push(p[a]);
        log.reward.push(f64::from(random.next() < 0.3));
        log.p.push(p);
    }
    log
}

const SCALES: [f64; 4] = [2.0, 4.0, 6.0, 8.0];

/// The number of 20 logs with an error or a warning, after this change of each log.
fn found(shape: (usize, f64, f64), distributions: bool, change: impl Fn(&mut Log)) -> usize {
    let alarm = |seed: &u64| {
        let mut log = sharp(*seed, shape);
        change(&mut log);
        let others = if distributions { vec![("probabilities", lists(log.p.clone()))] } else { vec![] };
        let report = report(&log.table(others));
        if report.count(Severity::Error) + report.count(Severity::Warning) > 0 {
            eprintln!("{shape:?}, seed {seed}: {:?}", report.findings[0]);
        }
        report.count(Severity::Error) + report.count(Severity::Warning) > 0
    };
    (0..20).filter(alarm).count()
}

#[test]
fn heavy_tails_raise_no_alarm() {
    for scale in SCALES {
        assert_eq!(found((10, scale, 0.0), false, |_| {}), 0, "{scale}");
        assert_eq!(found((10, scale, 0.3), true, |_| {}), 0, "{scale}, with distributions");
    }
}

#[test]
fn wrong_propensities_of_a_sharp_logger_are_found() {
    let shuffled = |log: &mut Log| log.propensity.rotate_left(1);
    let best = |log: &mut Log| {
        log.propensity = log.p.iter().map(|p| p.iter().copied().fold(0.0, f64::max)).collect();
    };
    let rounded = |log: &mut Log| log.propensity.iter_mut().for_each(|q| *q = (*q * 100.0).round() / 100.0);
    for scale in SCALES {
        assert_eq!(found((10, scale, 0.3), false, best), 20, "the best action's, {scale}");
        assert_eq!(found((10, scale, 0.3), false, rounded), 20, "two decimals, {scale}");
        // With heavier tails, shuffled propensities show only next to the distributions.
        assert_eq!(found((10, scale, 0.3), scale > 2.0, shuffled), 20, "shuffled, {scale}");
        // Each action is chosen as often as these distributions say.
        assert_eq!(found((10, scale, 0.0), true, |log| log.p.rotate_left(1)), 20, "other distributions, {scale}");
        assert_eq!(found((2, scale, 0.0), false, |log| log.propensity.fill(0.05)), 20, "0.05 for 2 actions, {scale}");
    }
}

#[test]
fn weights_that_overflow_are_an_error() {
    let mut log = log(1, 500, uniform(2));
    log.propensity[3] = 1e-160;
    let said = log.report();
    assert!(said.of("mean-weight")[0].starts_with("error: the weights of the uniform policy cannot be added up"));
    assert!(said.count(Severity::Error) > 0);
}

#[test]
fn the_mean_reward_is_that_of_all_finite_rewards() {
    let mut log = log(1, 4, uniform(2));
    log.reward = vec![0.0, 1.0, 5.0, f64::NAN];
    assert_eq!(log.report().summary.mean_reward, Some(2.0));
}
