//! Every estimator against its definition, and every interval against the truth.

mod coverage;
mod golden;
mod model;

use super::*;
use crate::certificate::{Case, Certificate, Combine, Protocol, Share, Smoothing};
use crate::contexts::Contexts;
use crate::error::Result;
use crate::estimator::Regularizer;
use crate::logs::Logs;
use crate::math::random::{Purpose, stream};
use crate::policy::Uniform;
use rand::RngExt;

/// Columns that own their numbers.
#[derive(Debug, Clone, Default)]
struct Records {
    p: Vec<f64>,
    q: Vec<f64>,
    c: Vec<f64>,
    logged: Vec<f64>,
    mean: Vec<f64>,
}

impl Records {
    fn view(&self) -> Observed<'_> {
        let model = Some(Modelled { logged: &self.logged, mean: &self.mean });
        Observed { p: &self.p, q: &self.q, c: &self.c, model, custom: &[] }
    }
}

/// Two contexts and three actions. Per context: the logging policy, the target policy, the probabilities of a cost of
/// -1, and what a model predicts for them.
const WORLD: [[[f64; 3]; 4]; 2] = [
    [[0.2, 0.3, 0.5], [0.7, 0.2, 0.1], [0.6, 0.3, 0.2], [0.5, 0.35, 0.3]],
    [[0.6, 0.3, 0.1], [0.1, 0.0, 0.9], [0.1, 0.5, 0.7], [0.2, 0.45, 0.5]],
];

/// The risk of the target policy.
fn truth() -> f64 {
    -WORLD.iter().map(|[_, pi, chance, _]| 0.5 * pi.iter().zip(chance).map(|(p, r)| p * r).sum::<f64>()).sum::<f64>()
}

/// The logs of the logging policy in that world.
fn draw(n: usize, seed: u64) -> Records {
    let mut rng = stream(seed, Purpose::World, 2);
    let mut records = Records::default();
    for _ in 0..n {
        let [logging, judged, chance, model] = WORLD[usize::from(rng.random::<f64>() < 0.5)];
        let u: f64 = rng.random();
        let a = if u < logging[0] { 0 } else { 1 + usize::from(u >= logging[0] + logging[1]) };
        records.p.push(judged[a]);
        records.q.push(logging[a]);
        records.c.push(if rng.random::<f64>() < chance[a] { -1.0 } else { 0.0 });
        records.logged.push(-model[a]);
        records.mean.push(-judged.iter().zip(model).map(|(p, r)| p * r).sum::<f64>());
    }
    records
}

fn evaluate(settings: &EvaluationSettings, records: &Observed<'_>) -> Evaluation {
    let mut evaluator = Evaluator::new(settings).unwrap();
    evaluator.add(records).unwrap();
    evaluator.finish().unwrap()
}

fn text<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn three_records_give_what_a_pencil_gives() {
    let records = Records {
        p: vec![0.5, 0.5, 0.0],
        q: vec![0.25, 0.5, 0.2],
        c: vec![-1.0, -0.5, -1.0],
        logged: vec![-0.5, -0.5, -0.25],
        mean: vec![-0.25, -0.5, -0.75],
    };
    let estimators = vec![
        Estimator::Weighted(Regularizer::Ips),
        Estimator::SelfNormalised,
        Estimator::Weighted(Regularizer::ClippedWeight { max: 1.5 }),
        Estimator::DirectMethod,
        Estimator::DoublyRobust,
        Estimator::SelfNormalisedDoublyRobust,
        Estimator::Switch { tau: 1.0 },
    ];
    let settings = EvaluationSettings { estimators, ..Default::default() };
    let found = evaluate(&settings, &records.view());
    let values: Vec<f64> = found.estimates.iter().map(|e| e.value).collect();
    let expected = [-2.5 / 3.0, -2.5 / 3.0, -2.0 / 3.0, -0.5, (-1.5 - 1.0) / 3.0, -0.5 - 1.0 / 3.0, -0.5];
    for (value, expected) in values.iter().zip(expected) {
        assert!((value - expected).abs() < 1e-15, "{values:?}");
    }
    let Weights { mean, largest, effective, zero, .. } = found.weights;
    assert_eq!((mean, largest, effective, zero), (1.0, 2.0, 9.0 / 5.0, 1.0 / 3.0));
    assert_eq!(found.weights.z, Some(0.0));
}

#[test]
fn a_policy_that_takes_no_logged_action_costs_0_as_far_as_weights_tell() {
    let records =
        Records { p: vec![0.0; 2], q: vec![0.5; 2], c: vec![-1.0; 2], logged: vec![-1.0; 2], mean: vec![-0.5; 2] };
    let found = evaluate(&EvaluationSettings::with_model(), &records.view());
    for estimate in &found.estimates {
        let expected = if estimate.estimator.needs_model() { -0.5 } else { 0.0 };
        assert_eq!(estimate.value, expected, "{}", estimate.estimator);
        assert_eq!(estimate.standard_error, 0.0);
    }
    assert_eq!((found.anytime.lower, found.anytime.upper), (-1.0, 0.0));
    assert_eq!((found.weights.effective, found.weights.zero, found.weights.z), (0.0, 1.0, None));
}

#[test]
fn the_upper_end_at_any_time_is_that_of_a_certificate() {
    let mut rng = stream(4, Purpose::World, 3);
    for n in [1, 300, 1024, 20_000] {
        let q: Vec<f64> = (0..n).map(|_| 0.15 + 0.85 * rng.random::<f64>()).collect();
        let c: Vec<f64> = (0..n).map(|i| if i % 3 == 0 { 0.0 } else { -rng.random::<f64>().sqrt() }).collect();
        let contexts = Contexts::dense(vec![1.0; n], 1).unwrap();
        let logs = [Logs::new(3, contexts, vec![0; n], q.clone(), c.clone()).unwrap()];
        let protocol = Protocol { combine: Combine::Union, ..Protocol::default() };
        let case = Case { share: Share { round: None, part: 0.5 }, ..Case::whole(&logs, &protocol) };
        let certificate = Certificate::fixed(Smoothing::Ls, &Uniform::new(3).unwrap(), 1, &case).unwrap();
        let records = Observed { p: &vec![1.0 / 3.0; n], q: &q, c: &c, model: None, custom: &[] };
        let settings = EvaluationSettings { replicates: 0, protocol: protocol.clone(), ..Default::default() };
        let found = evaluate(&settings, &records).anytime;
        let expected = certificate.upper.min(0.0);
        assert!((found.upper - expected).abs() <= 1e-12 * expected.abs(), "{n}: {found:?} {expected}");
        assert!(n < 20_000 || found.upper < -0.1);
    }
}

/// Also where a column is computed by a shortcut.
#[test]
fn weighted_estimates_are_means_of_h() {
    let records = draw(3000, 13);
    let settings = EvaluationSettings { replicates: 0, ..EvaluationSettings::default() };
    for estimate in evaluate(&settings, &records.view()).estimates {
        if let Estimator::Weighted(r) = estimate.estimator {
            let protocol = records.p.iter().zip(&records.q).zip(&records.c).map(|((&p, &q), &c)| r.h(p, q, c));
            let expected = protocol.sum::<f64>() / 3000.0;
            assert!((estimate.value - expected).abs() < 1e-13, "{r:?}: {} {expected}", estimate.value);
        }
    }
}

#[test]
fn batches_and_threads_change_no_bit() {
    let records = draw(40_000, 1);
    let settings =
        EvaluationSettings { replicates: 50, largest_weight: Some(20.0), ..EvaluationSettings::with_model() };
    let whole = evaluate(&settings, &records.view());
    for (batch, threads) in [(40_000, 1), (40_000, 2), (7, 1), (1000, 2), (1024, 3), (16_384, 2)] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let found = pool.install(|| {
            let mut evaluator = Evaluator::new(&settings).unwrap();
            for start in (0..40_000).step_by(batch) {
                evaluator.add(&records.view().slice(start..(start + batch).min(40_000))).unwrap();
            }
            evaluator.finish().unwrap()
        });
        assert_eq!(found, whole, "batches of {batch}, {threads} threads");
    }
}

#[test]
fn finishing_early_changes_nothing_later() {
    let (records, settings) =
        (draw(3000, 2), EvaluationSettings { replicates: 20, ..EvaluationSettings::with_model() });
    let mut evaluator = Evaluator::new(&settings).unwrap();
    evaluator.add(&records.view().slice(0..1500)).unwrap();
    assert_eq!(evaluator.finish().unwrap(), evaluate(&settings, &records.view().slice(0..1500)));
    evaluator.add(&records.view().slice(1500..3000)).unwrap();
    assert_eq!(evaluator.finish().unwrap(), evaluate(&settings, &records.view()));
}

/// The bootstrap by its definition, one term per record.
#[test]
fn up_to_one_record_a_bucket_the_bootstrap_is_the_ordinary_one() {
    use rand::Rng;
    let records = draw(200, 5);
    let estimators = vec![Estimator::Weighted(Regularizer::Ips), Estimator::SelfNormalised];
    let settings = EvaluationSettings { estimators, replicates: 40, seed: 9, ..Default::default() };
    let found = evaluate(&settings, &records.view());
    let (mut ips, mut snips) = (Vec::new(), Vec::new());
    for replicate in 0..40 {
        let mut rng = stream(9, Purpose::Bootstrap, replicate);
        let (mut n, mut weights, mut costs) = (0.0, 0.0, 0.0);
        for i in 0..200 {
            let u = f64::from(rng.next_u32()) / 4_294_967_296.0;
            let (mut k, mut chance, mut below) = (0.0, (-1.0f64).exp(), (-1.0f64).exp());
            while u >= below {
                k += 1.0;
                chance /= k;
                below += chance;
            }
            let w = records.p[i] / records.q[i];
            n += k;
            weights += k * w;
            costs += k * w * records.c[i];
        }
        ips.push(costs / n);
        snips.push(costs / weights);
    }
    for (estimate, mut values) in found.estimates.iter().zip([ips, snips]) {
        values.sort_by(f64::total_cmp);
        let Interval { lower, upper } = estimate.bootstrap.unwrap();
        // 0.025 of the way from the first to the last of 40.
        assert!((lower - (values[0] + 0.975 * (values[1] - values[0]))).abs() < 1e-12, "{lower} {values:?}");
        assert!((upper - (values[38] + 0.025 * (values[39] - values[38]))).abs() < 1e-12);
    }
}

#[test]
fn two_policies_over_the_same_records_are_compared_in_pairs() {
    let records = draw(5000, 6);
    // The other policy is nearly the same.
    let other: Vec<f64> = records.p.iter().map(|p| 0.98 * p + 0.02 / 3.0).collect();
    let settings = EvaluationSettings { replicates: 300, ..EvaluationSettings::default() };
    let (mut one, mut two) = (Evaluator::new(&settings).unwrap(), Evaluator::new(&settings).unwrap());
    one.add(&records.view()).unwrap();
    two.add(&Observed { p: &other, ..records.view() }).unwrap();
    let (a, b) = (one.finish().unwrap(), two.finish().unwrap());
    let width = |interval: Option<Interval>| interval.map(|i| i.upper - i.lower).unwrap();
    for ((contrast, a), b) in one.contrast(&two).unwrap().iter().zip(&a.estimates).zip(&b.estimates) {
        assert!((contrast.value - (a.value - b.value)).abs() < 1e-15);
        assert!(width(contrast.bootstrap) < 0.1 * width(a.bootstrap), "{}", contrast.estimator);
        assert!(contrast.bootstrap.unwrap().contains(contrast.value));
    }
    two.add(&records.view().slice(0..1)).unwrap();
    assert_eq!(text(one.contrast(&two)), "the other evaluator should have 5000 records, as the one, but has 5001");
    let third = Evaluator::new(&EvaluationSettings { seed: 1, ..settings }).unwrap();
    assert_eq!(text(one.contrast(&third)), "the settings of both evaluators should be the same, but is not");
}

#[test]
fn what_is_wrong_is_refused_with_its_row_in_the_stream_and_changes_nothing() {
    let settings = EvaluationSettings { largest_weight: Some(4.0), replicates: 10, ..Default::default() };
    let mut evaluator = Evaluator::new(&settings).unwrap();
    assert_eq!(text(evaluator.finish()), "the logs should have at least 1 record, but has 0");
    let good = Observed { p: &[0.5; 3], q: &[0.25; 3], c: &[-1.0, -0.5, 0.0], model: None, custom: &[] };
    evaluator.add(&good).unwrap();
    let before = evaluator.finish().unwrap();
    let mut refused = |p: f64, q: f64, c: f64| {
        text(evaluator.add(&Observed { p: &[0.1, p], q: &[0.5, q], c: &[0.0, c], model: None, custom: &[] }))
    };
    assert_eq!(refused(1.1, 0.5, 0.0), "row 4: the probability of the logged action should be in [0, 1], but is 1.1");
    assert_eq!(
        refused(f64::NAN, 0.5, 0.0),
        "row 4: the probability of the logged action should be in [0, 1], but is NaN"
    );
    assert_eq!(refused(0.5, 0.0, 0.0), "row 4: propensity should be in (0, 1], but is 0");
    assert_eq!(refused(0.5, 0.5, 0.5), "row 4: cost should be in [-1, 0], but is 0.5");
    assert_eq!(refused(1.0, 0.125, 0.0), "row 4: the weight p/q should be at most 4, but is 8");
    let uneven = Observed { q: &[0.5], ..good };
    assert_eq!(text(evaluator.add(&uneven)), "q should have 3 entries, one for each p, but has 1");
    assert_eq!(evaluator.finish().unwrap(), before);
    let rounded = Observed { p: &[1.0 + 1e-12], q: &[1.0], c: &[0.0], model: None, custom: &[] };
    evaluator.add(&rounded).unwrap();

    let mut unbounded = Evaluator::new(&EvaluationSettings::default()).unwrap();
    let tiny = Observed { p: &[1.0], q: &[5e-324], c: &[0.0], model: None, custom: &[] };
    assert_eq!(text(unbounded.add(&tiny)), "row 0: the weight p/q should be finite, but is inf");

    let mut modelled = Evaluator::new(&EvaluationSettings::with_model()).unwrap();
    assert_eq!(text(modelled.add(&good)), "the cost model should be given, as DM needs one, but is not");
    let predicted = Modelled { logged: &[-0.5; 3], mean: &[0.0, -1.5, 0.0] };
    assert_eq!(
        text(modelled.add(&Observed { model: Some(predicted), ..good })),
        "row 1: the predicted cost should be in [-1, 0], but is -1.5"
    );
}

#[test]
fn settings_outside_their_range_are_refused() {
    let with = |estimators: Vec<Estimator>| Evaluator::new(&EvaluationSettings { estimators, ..Default::default() });
    assert_eq!(text(with(vec![])), "the list of estimators should have at least one entry, but has 0");
    assert_eq!(text(with(vec![Estimator::Switch { tau: -1.0 }])), "tau should be at least 0, but is -1");
    let largest_weight = Some(0.0);
    let settings = EvaluationSettings { largest_weight, ..Default::default() };
    assert_eq!(text(Evaluator::new(&settings)), "the largest weight should be in (0, inf), but is 0");
}

#[test]
fn settings_and_results_are_the_same_after_a_file() {
    let settings = EvaluationSettings::with_model();
    let json = serde_json::to_string(&settings).unwrap();
    assert_eq!(serde_json::from_str::<EvaluationSettings>(&json).unwrap(), settings);
    let found = evaluate(&EvaluationSettings { replicates: 10, ..settings }, &draw(50, 7).view());
    assert_eq!(serde_json::from_str::<Evaluation>(&serde_json::to_string(&found).unwrap()).unwrap(), found);
}

#[test]
fn terms_of_the_users_own_are_as_good_as_ours() {
    let regularizer = Regularizer::Ls { lambda: 0.3 };
    let n = 3000;
    let p: Vec<f64> = (0..n).map(|i| f64::from(i % 7) / 7.0).collect();
    let q: Vec<f64> = (0..n).map(|i| f64::from(1 + i % 5) / 5.0).collect();
    let c: Vec<f64> = (0..n).map(|i| -f64::from(i % 3) / 2.0).collect();
    let custom: Vec<f64> =
        (0..n as usize).flat_map(|i| [p[i] * c[i] / q[i], regularizer.h(p[i], q[i], c[i])]).collect();
    let ours = vec![Estimator::Weighted(Regularizer::Ips), Estimator::Weighted(regularizer)];
    let theirs = vec![Estimator::Custom { column: 0 }, Estimator::Custom { column: 1 }];
    let mut ours = Evaluator::new(&EvaluationSettings { estimators: ours, ..Default::default() }).unwrap();
    let mut theirs = Evaluator::new(&EvaluationSettings { estimators: theirs, ..Default::default() }).unwrap();
    for range in [0..500, 500..3000] {
        let part = |custom| Observed { p: &p, q: &q, c: &c, model: None, custom }.slice(range.clone());
        ours.add(&part(&[])).unwrap();
        theirs.add(&part(&custom)).unwrap();
    }
    let (ours, theirs) = (ours.finish().unwrap(), theirs.finish().unwrap());
    for (a, b) in ours.estimates.iter().zip(&theirs.estimates) {
        assert_eq!((a.value, a.standard_error, &a.bootstrap), (b.value, b.standard_error, &b.bootstrap));
        assert_eq!(b.bernstein, None);
    }
    let text = |r: Result<()>| r.unwrap_err().to_string();
    let estimators = vec![Estimator::Custom { column: 0 }];
    let mut one = Evaluator::new(&EvaluationSettings { estimators, ..Default::default() }).unwrap();
    let record = |custom| Observed { p: &[0.5], q: &[0.5], c: &[0.0], model: None, custom };
    assert_eq!(text(one.add(&record(&[]))), "the custom terms should have 1 records x 1 of the estimators, but has 0");
    assert_eq!(text(one.add(&record(&[f64::NAN]))), "row 0: custom term 0 should be finite, but is NaN");
    let misplaced = EvaluationSettings { estimators: vec![Estimator::Custom { column: 3 }], ..Default::default() };
    assert_eq!(
        misplaced.check().unwrap_err().to_string(),
        "the column of a custom estimator should be 0, its place among them, but is 3"
    );
}

#[test]
fn estimators_are_known_by_short_names() {
    let shown = |text: &str| text.parse::<Estimator>().map(|estimator| estimator.to_string());
    for (text, expected) in [
        ("ips", "IPS"),
        ("snips", "SNIPS"),
        ("clipped", "IPS, weight at most 10"),
        ("clipped:3.5", "IPS, weight at most 3.5"),
        ("es", "exponential smoothing, beta 0.5"),
        ("ix", "implicit exploration, gamma 0.01"),
        ("power-mean", "power mean, lambda 0.1, s -1"),
        ("shrinkage", "shrinkage, lambda 100"),
        ("ls:0.2", "LS, lambda 0.2"),
        ("dm", "DM"),
        ("dr", "DR"),
        ("sndr", "SNDR"),
        ("switch:2", "switch DR, weight at most 2"),
    ] {
        assert_eq!(shown(text).unwrap(), expected);
    }
    for bad in ["best", "clipped:much", ""] {
        let expected = format!(
            "an estimator should be ips, snips, clipped:MAX, es:BETA, ix:GAMMA, power-mean:LAMBDA, shrinkage:LAMBDA, \
             ls:LAMBDA, dm, dr, sndr or switch:TAU, but is {bad}"
        );
        assert_eq!(text(shown(bad)), expected);
    }
    assert_eq!(text(shown("switch:-1")), "tau should be at least 0, but is -1");
}

#[test]
fn weights_warn_of_wrong_propensities_and_of_logs_that_know_little() {
    let sound = Weights {
        mean: 1.01,
        standard_error: 0.02,
        z: Some(0.5),
        verdict: WeightVerdict::Fits,
        largest: 4.0,
        effective: 900.0,
        zero: 0.0,
    };
    assert_eq!(sound.warnings(1000), [""; 0]);
    let said = |verdict| Weights { mean: 0.9, verdict, ..sound }.warnings(1000);
    let off = "the mean weight is 0.9000 ± 0.0200 and should be 1";
    assert_eq!(said(WeightVerdict::Above), [format!("{off}: propensities are too small")]);
    assert_eq!(
        said(WeightVerdict::Below),
        [format!("{off}: propensities are too large, or an action that the policy takes was never logged")]
    );
    assert_eq!(
        said(WeightVerdict::BelowOrRare),
        [format!("{off}: propensities are too large, or actions that the policy takes were too rare to be logged")]
    );
    assert_eq!(said(WeightVerdict::CannotTell), [""; 0]);
    let few = "the effective sample size is 900 of 100000 records: the logs say little about this policy";
    assert_eq!(sound.warnings(100_000), [few]);
}

/// Shards of a stream that are added up separately give the result of one pass up to rounding, and the same bits in
/// whatever order they are added up.
#[test]
fn shards_of_a_stream_add_up() {
    let n = 3 * Evaluator::SHARD + 777;
    let mut rng = stream(5, Purpose::World, 0);
    let q: Vec<f64> = (0..n).map(|_| 0.1 + 0.9 * rng.random::<f64>()).collect();
    let p: Vec<f64> = q.iter().map(|q| q * 0.9).collect();
    let c: Vec<f64> = (0..n).map(|_| -rng.random::<f64>().round()).collect();
    let settings = EvaluationSettings { replicates: 20, ..EvaluationSettings::default() };
    let records = Observed { p: &p, q: &q, c: &c, model: None, custom: &[] };
    let mut whole = Evaluator::new(&settings).unwrap();
    whole.add(&records).unwrap();
    let shard = |first: usize, end: usize, batch: usize| {
        let mut shard = Evaluator::starting_at(&settings, first).unwrap();
        for start in (first..end).step_by(batch) {
            shard.add(&records.slice(start..(start + batch).min(end))).unwrap();
        }
        shard
    };
    let merged = |batch: usize| {
        let mut all = shard(0, Evaluator::SHARD, batch);
        all.merge(&shard(Evaluator::SHARD, 3 * Evaluator::SHARD, batch)).unwrap();
        all.merge(&shard(3 * Evaluator::SHARD, n, batch)).unwrap();
        all.finish().unwrap()
    };
    let (one, two) = (whole.finish().unwrap(), merged(1000));
    assert_eq!(two, merged(5000));
    assert_eq!((one.records, one.weights.verdict), (two.records, two.weights.verdict));
    assert!((one.anytime.upper - two.anytime.upper).abs() < 1e-12);
    for (one, two) in one.estimates.iter().zip(&two.estimates) {
        assert!((one.value - two.value).abs() < 1e-12 && (one.standard_error - two.standard_error).abs() < 1e-12);
        let ends = |e: &Estimate| e.bootstrap.map(|i| i.lower + i.upper).unwrap();
        assert!((ends(one) - ends(two)).abs() < 1e-9);
    }
    assert_eq!(
        text(Evaluator::starting_at(&settings, 1000).map(|_| ())),
        "the first record of a shard should be a multiple of 16384, but is 1000"
    );
    let mut first = shard(0, Evaluator::SHARD, 1000);
    assert_eq!(
        text(first.merge(&shard(3 * Evaluator::SHARD, n, 1000))),
        "the beginning of the next shard should be at record 16384, where this one ends, but is 49152"
    );
}

#[test]
fn intervals_that_no_risk_can_be_in_are_refused() {
    let said = |p: f64, q: f64, c: &dyn Fn(usize) -> f64| {
        let n = 400;
        let settings = EvaluationSettings { replicates: 0, ..EvaluationSettings::default() };
        let mut evaluator = Evaluator::new(&settings).unwrap();
        let c: Vec<f64> = (0..n).map(c).collect();
        evaluator.add(&Observed { p: &vec![p; n], q: &vec![q; n], c: &c, model: None, custom: &[] }).unwrap();
        evaluator.finish().map(|_| ()).map_err(|e| e.to_string())
    };
    let below = said(1.0, 0.5, &|_| -1.0).unwrap_err();
    assert!(below.contains("the risk is proven to be at most -1."), "{below}");
    let above = said(1.0, 0.5, &|_| 0.0).unwrap_err();
    assert!(above.contains("the risk is proven to be above 0"), "{above}");
    let empty = said(1.0, 0.5, &|i| if i % 2 == 0 { -1.0 } else { 0.0 }).unwrap_err();
    assert!(empty.contains("which exclude each other"), "{empty}");
    // The best and the worst risk are possible.
    assert_eq!(said(1.0, 1.0, &|_| -1.0), Ok(()));
    assert_eq!(said(1.0, 1.0, &|_| 0.0), Ok(()));
}
