//! Reward models agree with their definitions.

#![allow(clippy::single_range_in_vec_init)] // One kind of features is a list of one range.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::contexts::Contexts;
use crate::error::Result;
use crate::features::FeatureMap;
use crate::logs::Logs;
use crate::policy::{Policy, Scale};

/// Records of three actions with features `(x, 1)`: the reward of action `a` is about `0.5 + 0.4 x_a`.
fn records(n: usize) -> (Contexts, Vec<u32>, Vec<f64>) {
    let noise = |i: usize| f64::sin(i as f64 * 12.9898) * 43758.5453 % 1.0;
    let x: Vec<f32> = (0..4 * n).map(|i| if i % 4 == 3 { 1.0 } else { noise(i) as f32 }).collect();
    let action: Vec<u32> = (0..n).map(|i| (i * i / 3 % 3) as u32).collect();
    let reward = (0..n).map(|i| {
        let mean = 0.5 + 0.4 * f64::from(x[4 * i + action[i] as usize]);
        f64::from(u8::from((noise(7 * i + 1) + 1.0) / 2.0 < mean))
    });
    let reward = reward.collect();
    (Contexts::dense(x, 4).unwrap(), action, reward)
}

fn statistics(range: std::ops::Range<usize>) -> Statistics {
    let (x, action, reward) = records(600);
    let mut sums = Statistics::new(3, 4).unwrap();
    sums.add(&x.slice(range.clone()), &action[range.clone()], &reward[range]).unwrap();
    sums
}

const KINDS: [std::ops::Range<usize>; 2] = [0..3, 3..4];

#[test]
fn the_bits_do_not_depend_on_the_number_of_threads() {
    let work = || {
        let model = Regression::default().fit(&statistics(0..600), &KINDS).unwrap();
        let policy = model.policy(&FeatureMap::identity(4), 0.5).unwrap();
        (model.mean().to_vec(), model.evidence(), policy.fingerprint())
    };
    let on = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work);
    assert_eq!(on(1), on(3));
}

#[test]
fn shards_that_are_merged_give_the_model_of_all_records() {
    let whole = Regression::default().fit(&statistics(0..600), &KINDS).unwrap();
    let mut merged = statistics(0..250);
    merged.merge(&statistics(250..600)).unwrap();
    assert_eq!((merged.records(), merged.records_of(0)), (600.0, statistics(0..600).records_of(0)));
    let model = Regression::default().fit(&merged, &KINDS).unwrap();
    for (a, b) in whole.mean().iter().zip(model.mean()) {
        assert!((a - b).abs() < 1e-9);
    }
    assert!((whole.evidence() - model.evidence()).abs() < 1e-6);
}

#[test]
fn logs_are_added_as_features_and_minus_costs_for_both_storages() {
    let (x, action, reward) = records(600);
    let map = FeatureMap::identity(4).with_intercept();
    let cost: Vec<f64> = reward.iter().map(|r| -r).collect();
    let mut direct = Statistics::new(3, 5).unwrap();
    direct.add(&map.apply(&x).unwrap(), &action, &reward).unwrap();
    for x in [x.clone(), x.to_sparse()] {
        let logs = Logs::new(3, x, action.clone(), vec![0.5; 600], cost.clone()).unwrap();
        let mut sums = Statistics::new(3, 5).unwrap();
        sums.add_logs(&map, &logs).unwrap();
        assert_eq!(sums, direct);
    }
}

#[test]
fn a_model_of_many_features_is_that_of_the_second_moments_with_a_diagonal_covariance() {
    let (x, action, reward) = records(600);
    let cost = reward.iter().map(|r| -r).collect();
    let logs = Logs::new(3, x.to_sparse(), action, vec![0.5; 600], cost).unwrap();
    let map = FeatureMap::identity(4);
    let found = RewardModel::of_many_features(&map, 3, &[Arc::new(logs)]).unwrap();
    let exact = Regression::default().with_prior(&statistics(0..600), found.precision()).unwrap();
    assert!(found.mean().iter().zip(exact.mean()).all(|(a, b)| (a - b).abs() < 1e-3), "{found:?} {exact:?}");
    assert_eq!((found.offset(), found.records()), (exact.offset(), 600.0));
    let policy = found.policy(&map, 0.5).unwrap();
    let Scale::PerFeature(scale) = policy.posterior().scale() else { panic!("{policy:?}") };
    for (f, scale) in scale.iter().enumerate() {
        let square: f64 = (0..600).map(|i| f64::from(x.row(i).values()[f]).powi(2)).sum();
        let expected = 0.5 * (found.noise() / (found.precision()[f] + square / 3.0)).sqrt();
        assert!((scale - expected).abs() < 1e-9, "{f}: {scale} {expected}");
    }
    assert!(policy.posterior().basis().is_none());
    let said = RewardModel::of_many_features(&FeatureMap::identity(5), 3, &[]).map(|model| model.records());
    assert_eq!(said.unwrap(), 0.0);
}

#[test]
fn the_search_ends_at_a_maximum_of_the_evidence() {
    let sums = statistics(0..600);
    let model = Regression::default().fit(&sums, &KINDS).unwrap();
    for kind in KINDS {
        for factor in [0.5, 2.0] {
            let mut precision = model.precision().to_vec();
            precision[kind.clone()].iter_mut().for_each(|d| *d *= factor);
            let other = Regression::default().with_prior(&sums, &precision).unwrap();
            assert!(other.evidence() <= model.evidence() + 0.02, "{kind:?} x {factor}");
        }
    }
}

#[test]
fn the_best_action_is_found_and_a_sharper_policy_takes_it_more_often() {
    let model = Regression::default().fit(&statistics(0..600), &KINDS).unwrap();
    let x = Contexts::dense(vec![0.9, -0.5, -0.5, 1.0, -0.5, -0.5, 0.9, 1.0], 4).unwrap();
    let predicted = model.predict(&x).unwrap();
    assert!(predicted[0] > predicted[1].max(predicted[2]) && predicted[5] > predicted[3].max(predicted[4]));
    let p = |v| model.policy(&FeatureMap::identity(4), v).unwrap().propensity(&x, &[0, 2], None).unwrap();
    let (sharp, wide) = (p(0.25), p(2.0));
    assert!(sharp[0] > wide[0] && sharp[1] > wide[1] && sharp[0] > 0.95, "{sharp:?} {wide:?}");
}

#[test]
fn an_action_without_records_has_the_mean_reward_or_the_shared_one() {
    let (x, _, reward) = records(200);
    let action: Vec<u32> = (0..200).map(|i| i % 2).collect();
    let mut sums = Statistics::new(3, 4).unwrap();
    sums.add(&x, &action, &reward).unwrap();
    let own = Regression::default().fit(&sums, &KINDS).unwrap();
    assert!(own.mean().iter().skip(2).step_by(3).all(|m| *m == 0.0));
    let shared = Regression { shared: true, ..Regression::default() }.fit(&sums, &KINDS).unwrap();
    let third: Vec<f64> = shared.mean().iter().skip(2).step_by(3).copied().collect();
    assert!(third.iter().any(|m| *m != 0.0), "{third:?}");
}

#[test]
fn features_that_interpolate_leave_the_noise_at_its_smallest_value() {
    let x = Contexts::dense((0..400).map(|i| f32::from(u8::from(i / 20 == i % 20))).collect(), 20).unwrap();
    let (action, reward): (Vec<u32>, Vec<f64>) = (0..20).map(|i| (i % 2, f64::from(i / 10))).unzip();
    let mut sums = Statistics::new(2, 20).unwrap();
    (0..50).for_each(|_| sums.add(&x, &action, &reward).unwrap());
    let model = Regression::default().fit(&sums, &[0..20]).unwrap();
    assert!((model.noise() - 0.1 * 0.25).abs() < 1e-12, "{}", model.noise());
}

#[test]
fn equal_rewards_give_the_uniform_policy_and_features_of_zeros_are_no_obstacle() {
    let x = Contexts::dense(vec![0.0; 20], 2).unwrap();
    let mut sums = Statistics::new(2, 2).unwrap();
    sums.add(&x, &[0, 1, 0, 1, 0, 1, 0, 1, 0, 1], &[1.0; 10]).unwrap();
    let model = Regression::default().fit(&sums, &[0..2]).unwrap();
    let policy = model.policy(&FeatureMap::identity(2), 1.0).unwrap();
    let p = policy.distribution(&Contexts::dense(vec![1.0, 0.5], 2).unwrap(), None).unwrap();
    assert!((p[0] - 0.5).abs() < 1e-10);
    assert_eq!((model.offset(), model.records()), (1.0, 10.0));
}

#[test]
fn every_round_judges_the_model_of_the_rounds_before_it() {
    let (x, action, reward) = records(600);
    let model = Regression::default().fit(&statistics(0..400), &KINDS).unwrap();
    let slice = |from: usize, to: usize| model.judge(&x.slice(from..to), &action[from..to], &reward[from..to]).unwrap();
    let (whole, mut parts) = (slice(400, 600), slice(400, 450));
    parts.merge(&slice(450, 600));
    assert_eq!(parts.records, 200);
    assert!((whole.squared - parts.squared).abs() < 1e-9);
    let variance = 0.25;
    assert!(whole.mean() < 0.95 * variance, "{}", whole.mean());
    assert_eq!(Prediction::default().mean(), 0.0);
}

#[test]
fn bad_records_settings_and_sizes_are_refused_and_leave_the_sums_as_they_were() {
    let text = |result: Result<()>| result.unwrap_err().to_string();
    let (x, action, reward) = records(2);
    let mut sums = statistics(0..10);
    let before = sums.clone();
    assert_eq!(text(sums.add(&x, &[0, 3], &reward)), "row 1: action should be below 3, but is 3");
    assert_eq!(text(sums.add(&x, &action, &[0.5, 1.5])), "row 1: reward should be in [0, 1], but is 1.5");
    assert_eq!(text(sums.add(&x, &action, &[f64::NAN, 1.0])), "row 0: reward should be in [0, 1], but is NaN");
    assert_eq!(text(sums.add(&x, &action, &[1.0])), "reward should have 2 entries, one for each context, but has 1");
    let narrow = Contexts::dense(vec![1.0, 2.0], 1).unwrap();
    assert_eq!(
        text(sums.add(&narrow, &action, &reward)),
        "contexts should have 4 features, as the reward model, but has 1"
    );
    let other = Statistics::new(2, 4).unwrap();
    assert_eq!(text(sums.merge(&other)), "the other statistics should have 3 actions x 4 features, but has 8");
    assert_eq!(sums, before);
    assert_eq!(
        text(Regression::default().fit(&sums, &[0..3, 2..4]).map(drop)),
        "the kinds of features should be ranges that follow each other; the next one starts at 3, but is 2..4"
    );
    assert_eq!(
        text(Regression::default().fit(&sums, &[0..3]).map(drop)),
        "the kinds of features should have 4 features together, but has 3"
    );
    assert_eq!(
        text(Regression { least_noise: 0.0, ..Regression::default() }.fit(&sums, &KINDS).map(drop)),
        "the smallest noise should be in (0, 1], but is 0"
    );
    assert_eq!(
        text(Regression::default().with_prior(&sums, &[1.0, 1.0, 0.0, 1.0]).map(drop)),
        "row 2: the prior precision should be finite and above 0, but is 0"
    );
    let directed = |direction: &[f64], shared: bool| {
        text(Regression { direction: Some(direction), shared, ..Regression::default() }.fit(&sums, &KINDS).map(drop))
    };
    assert_eq!(
        directed(&[1.0; 3], false),
        "the direction of the coefficients should have 4 x 3 entries, one per feature and action, but has 3"
    );
    let mut direction = [1.0; 12];
    assert_eq!(
        directed(&direction, true),
        "the direction of the coefficients should be absent if a part is shared, but is given"
    );
    direction[7] = f64::NAN;
    assert_eq!(directed(&direction, false), "row 2: the direction of the coefficients should be finite, but is NaN");
    assert_eq!(
        text(Regression { tightness: 0.0, ..Regression::default() }.fit(&sums, &KINDS).map(drop)),
        "the tightness of the prior should be above 0, but is 0"
    );
    assert_eq!(
        text(Regression::default().fit(&Statistics::new(3, 4).unwrap(), &KINDS).map(drop)),
        "the statistics of a reward model should have at least 1 record, but has 0"
    );
    let model = Regression::default().fit(&sums, &KINDS).unwrap();
    assert_eq!(
        text(model.policy(&FeatureMap::identity(4), 0.0).map(drop)),
        "the sharpness v should be above 0, but is 0"
    );
    assert_eq!(
        text(model.policy(&FeatureMap::identity(3), 0.5).map(drop)),
        "the feature map should have 4 features, as the reward model, but has 3"
    );
    assert!(
        text(Statistics::new(100, 1 << 20).map(drop)).starts_with("the memory of a reward model should be at most")
    );
    assert_eq!(text(Statistics::new(1, 1).map(drop)), "the number of actions should be at least 2, but is 1");
    assert_eq!(text(Statistics::new(2, 0).map(drop)), "the number of features should be at least 1, but is 0");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// More records along a direction never make the policy less certain there, and no scale exceeds the prior's.
    #[test]
    fn the_deviation_of_a_policy_is_at_most_the_prior_s_and_falls_with_records(
        n in 1usize..200,
        precision in prop::collection::vec(0.01f64..100.0, 4),
        v in 0.05f64..4.0,
    ) {
        let regression = Regression { least_noise: 1.0, ..Regression::default() };
        let deviations = |sums: &Statistics| {
            let model = regression.with_prior(sums, &precision).unwrap();
            let policy = model.policy(&FeatureMap::identity(4), v).unwrap();
            let Scale::PerFeature(scales) = policy.posterior().scale().clone() else { panic!("one scale per feature") };
            // In units of the noise, which changes with the records.
            let scales: Vec<f64> = scales.iter().map(|s| s / (v * model.noise().sqrt())).collect();
            scales
        };
        let largest = |scales: Vec<f64>| scales.into_iter().fold(0.0, f64::max);
        let some = statistics(0..n);
        let mut more = some.clone();
        more.merge(&statistics(n..2 * n)).unwrap();
        let least = precision.iter().copied().fold(f64::INFINITY, f64::min);
        let (a, b) = (largest(deviations(&some)), largest(deviations(&more)));
        prop_assert!(a <= (1.0 / least).sqrt() * (1.0 + 1e-9));
        prop_assert!(b <= a * (1.0 + 1e-9));
    }
}

#[test]
fn a_direction_is_found_again_where_it_is_the_truth_and_left_out_where_it_is_not() {
    let sums = statistics(0..600);
    let plain = Regression::default().fit(&sums, &KINDS).unwrap();
    // The model's own coefficients explain the rewards: around them, next to nothing is left to learn.
    let around = Regression { direction: Some(plain.mean()), ..Regression::default() };
    let known = around.fit(&sums, &KINDS).unwrap();
    assert!(known.evidence() > plain.evidence() + 5.0, "{} {}", known.evidence(), plain.evidence());
    // The other way round they are not used.
    let opposite: Vec<f64> = plain.mean().iter().map(|m| -m).collect();
    let prior = [1.0; 4];
    let [without, with] = [None, Some(&opposite[..])].map(|direction| {
        let fitted = Regression { direction, ..Regression::default() }.with_prior(&sums, &prior).unwrap();
        fitted.mean().to_vec()
    });
    let apart = without.iter().zip(&with).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(apart < 0.05, "{apart}");
    let tight = Regression { tightness: 100.0, ..around }.fit(&sums, &KINDS).unwrap();
    assert!(tight.precision().iter().zip(known.precision()).all(|(tight, known)| (tight / known - 100.0).abs() < 1e-9));
}
