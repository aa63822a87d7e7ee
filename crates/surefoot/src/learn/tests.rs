//! Tests of the inside of a step: the number type of the search, and contexts that are left out.

use std::sync::Arc;

use rand::RngExt;

use super::search::Progress;
use super::settings::Setting;
use super::*;
use crate::certificate::{Case, Certificate, Combine, Protocol, Since, Smoothing};
use crate::contexts::Contexts;
use crate::features::FeatureMap;
use crate::logs::Logs;
use crate::math::random::{Purpose, stream};
use crate::model::{Regression, Statistics};
use crate::objective::{Objective, ObjectiveParts};
use crate::observer::Silent;
use crate::optim::{Adam, Decay, Lbfgs};
use crate::policy::{LinearGaussian, Policy, Posterior, Scale};

fn adam(epochs: usize) -> Optimiser {
    Optimiser::Adam(Adam { learning_rate: 0.03, decay: Decay::Linear, epochs, batch_size: 50, ..Adam::default() })
}

/// A round of 200 records over 4 features and 3 actions; about half of the costs are 0.
fn logs(seed: u64) -> Logs {
    let mut rng = stream(seed, Purpose::Shuffle, 9);
    let n = 200;
    let x: Vec<f32> = (0..4 * n).map(|_| 2.0 * rng.random::<f32>() - 1.0).collect();
    let action: Vec<u32> = (0..n).map(|_| rng.random_range(0..3)).collect();
    let cost = (0..n).map(|i| if x[4 * i + action[i] as usize] > 0.0 { -rng.random::<f64>() } else { 0.0 }).collect();
    Logs::new(3, Contexts::dense(x, 4).unwrap(), action, vec![1.0 / 3.0; n], cost).unwrap()
}

fn policy(features: FeatureMap) -> LinearGaussian {
    let p = features.output();
    LinearGaussian::new(features, Posterior::standard(p, 3).unwrap()).unwrap().with_exploration(0.05).unwrap()
}

fn learner(family: Family, algorithm: Algorithm) -> Learner {
    Learner { algorithm, family, optimiser: adam(5), precision: Precision::Double, ..Learner::default() }
}

#[test]
fn single_precision_ends_where_double_precision_does() {
    for algorithm in [Algorithm::SeqAdjLs, Algorithm::Scrm(Crm::default())] {
        for shape in [Family::Isotropic, Family::PerFeature] {
            let run = |precision| {
                let learner = Learner { precision, ..learner(shape, algorithm) };
                let (state, _) = learner.step(&State::new(policy(FeatureMap::identity(4))), &logs(1)).unwrap();
                learner.step(&state, &logs(2)).unwrap().0.current
            };
            let (single, double) = (run(Precision::Single), run(Precision::Double));
            assert_ne!(single, double);
            let moved = double.posterior().mean().iter().fold(0.0f64, |m, x| m.max(x.abs()));
            assert!(moved > 0.1, "{moved}");
            for (s, d) in single.posterior().mean().iter().zip(double.posterior().mean()) {
                assert!((s - d).abs() < 1e-3, "{algorithm:?} {shape:?}: {s} {d}");
            }
        }
    }
}

#[test]
fn l_bfgs_is_the_same_in_both_precisions() {
    let run = |precision| {
        let optimiser = Optimiser::Lbfgs(Lbfgs { iterations: 5, ..Lbfgs::default() });
        let learner = Learner { precision, optimiser, ..learner(Family::Isotropic, Algorithm::SeqLs) };
        learner.step(&State::new(policy(FeatureMap::identity(4))), &logs(1)).unwrap().0.current
    };
    assert_eq!(run(Precision::Single), run(Precision::Double));
}

/// The posterior that the second step learns if all contexts are kept: minimises the objective over all records by
/// hand.
fn kept(learner: &Learner, state: &State, rounds: &[Logs]) -> Posterior {
    let first = &state.prior;
    let full = |logs: &Logs| {
        let made = logs.clone().map_contexts(false, |contexts| {
            let x = first.features().apply(contexts)?;
            first.posterior().basis().map_or(Ok(x.clone()), |basis| basis.apply(&x))
        });
        assert!(made.as_ref().unwrap().is_complete());
        Arc::new(made.unwrap())
    };
    let rounds: Vec<Arc<Logs>> = rounds.iter().map(full).collect();
    let lambda = learner.lambda.value(rounds[0].len()).unwrap();
    let recipe = learner.algorithm.recipe(lambda);
    let objective = Objective::new(ObjectiveParts {
        rounds: &rounds,
        total: None,
        criterion: recipe.criterion,
        custom: None,
        anchor: first.posterior(),
        shape: state.current.posterior(),
        learn_scale: recipe.learn_scale,
        lambda: recipe.divergence.then_some(lambda),
        exploration: first.exploration(),
        tolerance: learner.tolerance,
    })
    .unwrap();
    let mut rng = stream(learner.seed, Purpose::Shuffle, 1);
    let x = objective.parameters(state.current.posterior());
    let mut alone = Progress { observer: &mut Silent, done: 0.0, searches: 1.0, stopped: false };
    objective.posterior(&learner.search::<f64>(&objective, &x, &mut rng, &mut alone).unwrap().0).unwrap()
}

#[test]
fn contexts_that_are_left_out_are_not_missed() {
    let fourier = FeatureMap::fourier(4, 9, 1.0, 3).unwrap();
    let intercept = FeatureMap::identity(4).with_intercept();
    let all = Crm { window: Window::All, ..Crm::default() };
    for (features, shape, algorithm) in [
        (fourier.clone(), Family::Isotropic, Algorithm::SeqAdjLs),
        (fourier.with_intercept(), Family::PerFeature, Algorithm::SeqLs),
        (intercept, Family::Isotropic, Algorithm::Scrm(all)),
        (FeatureMap::identity(4), Family::Shaped, Algorithm::SeqAdjLs),
    ] {
        let learner = learner(shape, algorithm);
        let (state, _) = learner.step(&State::new(policy(features)), &logs(1)).unwrap();
        let (next, round) = learner.step(&state, &logs(2)).unwrap();
        assert!(next.rounds.iter().all(|logs| !logs.is_complete() && logs.contexts().len() < 150));
        assert_eq!((next.records(), round.records), (400, 400));
        assert_eq!(next.current.posterior(), &kept(&learner, &state, &[logs(1), logs(2)]), "{algorithm:?} {shape:?}");
    }
}

#[test]
fn contexts_as_they_are_stay_and_are_shared() {
    let learner = learner(Family::PerFeature, Algorithm::SeqAdjLs);
    let (state, _) = learner.step(&State::new(policy(FeatureMap::identity(4))), &logs(1)).unwrap();
    assert!(state.rounds[0].is_complete());
}

#[test]
fn a_round_without_a_cost_may_leave_out_everything() {
    let logs = logs(1);
    let n = logs.len();
    let free = Logs::new(3, logs.contexts().clone(), logs.action().to_vec(), vec![0.5; n], vec![0.0; n]).unwrap();
    for (features, shape) in [
        (FeatureMap::fourier(4, 9, 1.0, 3).unwrap().with_intercept(), Family::Isotropic),
        (FeatureMap::identity(4), Family::Shaped),
    ] {
        let (state, round) = learner(shape, Algorithm::SeqLs).step(&State::new(policy(features)), &free).unwrap();
        assert!(state.rounds[0].contexts().is_empty());
        assert_eq!((round.records, round.kl), (n, 0.0));
    }
}

#[test]
fn weights_that_need_every_record_are_refused_where_some_were_left_out() {
    let normalised = |window| Algorithm::Scrm(Crm { gamma: None, window, ..Crm::default() });
    let first = State::new(policy(FeatureMap::identity(4).with_intercept()));
    let (state, _) = learner(Family::Isotropic, Algorithm::SeqLs).step(&first, &logs(1)).unwrap();
    let error = learner(Family::Isotropic, normalised(Window::All)).step(&state, &logs(2)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the criterion should be one that needs no records of cost 0, as in the rounds before, but is self-normalised"
    );
    // The newest round was kept whole.
    assert!(learner(Family::Isotropic, normalised(Window::Newest)).step(&state, &logs(2)).is_ok());
    let all = learner(Family::Isotropic, normalised(Window::All));
    let (state, _) = all.step(&first, &logs(1)).unwrap();
    assert!(state.rounds[0].is_complete() && all.step(&state, &logs(2)).is_ok());
}

/// The same records, but those from `record` on have other contexts, actions, propensities and costs.
fn changed_from(logs: &Logs, record: usize) -> Logs {
    let n = logs.len();
    let mut x: Vec<f32> = logs.contexts().iter().flat_map(|row| row.values().to_vec()).collect();
    x[4 * record..].iter_mut().for_each(|x| *x = 3.0 - *x);
    let action = logs.action().iter().enumerate().map(|(i, &a)| if i < record { a } else { 2 - a }).collect();
    let cost = logs.cost().iter().enumerate().map(|(i, &c)| if i < record { c } else { -0.2 * (1.0 + c) }).collect();
    let q = (0..n).map(|i| if i < record { 1.0 / 3.0 } else { 0.25 }).collect();
    Logs::new(3, Contexts::dense(x, 4).unwrap(), action, q, cost).unwrap()
}

#[test]
fn what_is_held_back_changes_nothing() {
    for shape in [Family::Isotropic, Family::PerFeature, Family::Shaped] {
        let thompson = Algorithm::Portfolio(Portfolio::thompson());
        for algorithm in [Algorithm::SeqLs, Algorithm::ShiftAdjLs, Algorithm::Scrm(Crm::default()), thompson] {
            let learner = Learner { held_back: 0.25, ..learner(shape, algorithm) };
            let first = State::new(policy(FeatureMap::identity(4)));
            let (a, round) = learner.step(&first, &logs(1)).unwrap();
            let (b, _) = learner.step(&first, &changed_from(&logs(1), 150)).unwrap();
            assert_eq!(a.current, b.current, "{algorithm:?} {shape:?}");
            let (seen, _) = learner.step(&first, &changed_from(&logs(1), 149)).unwrap();
            assert_ne!(a.current, seen.current, "{algorithm:?} {shape:?}");
            assert_eq!(
                round.fixed_since,
                Some(FixedSince { round: 0, since: Since { round: 0, record: 150 }, size: 2 })
            );
            assert_eq!((round.n, round.records), (200, 150));

            // One round later, the records are learned from.
            let (next, round) = learner.step(&a, &logs(2)).unwrap();
            let (same, _) = learner.step(&a, &changed_from(&logs(2), 150)).unwrap();
            assert_eq!(next.current, same.current);
            assert_eq!(
                round.fixed_since,
                Some(FixedSince { round: 1, since: Since { round: 1, record: 150 }, size: 1 })
            );
            let all = learner.algorithm.recipe(0.1).window == Window::All;
            assert_eq!(round.records, if all { 350 } else { 150 });
        }
    }
}

#[test]
fn the_candidates_do_not_depend_on_what_is_held_back_but_the_choice_does() {
    let learner = Learner {
        lambda: Lambda::Auto,
        choice: Choice::Newest,
        held_back: 0.4,
        protocol: Protocol { combine: Combine::Union, ..Protocol::default() },
        ..learner(Family::Isotropic, Algorithm::SeqLs)
    };
    let first = State::new(policy(FeatureMap::identity(4)));
    let chosen = |learner: &Learner, logs: &Logs| learner.step(&first, logs).unwrap();
    let (a, round) = chosen(&learner, &logs(1));
    let (_, other) = chosen(&learner, &changed_from(&logs(1), 120));
    assert_eq!(round.candidates.iter().map(|c| c.lambda).collect::<Vec<_>>(), Lambda::CANDIDATES);
    assert!(round.candidates.iter().zip(&other.candidates).all(|(a, b)| a.upper != b.upper));
    // 4 candidates and the first policy.
    assert_eq!(round.fixed_since, Some(FixedSince { round: 0, since: Since { round: 0, record: 120 }, size: 5 }));
    let alone = Learner { lambda: Lambda::Fixed(round.lambda), ..learner.clone() };
    assert_eq!(a.current, chosen(&alone, &logs(1)).0.current);
    // Its certified risk is that of the certificate of a fixed policy.
    let (protocol, rounds) = (&learner.protocol, [logs(1)]);
    let case = Case { since: Since { round: 0, record: 120 }, ..Case::whole(&rounds, protocol) };
    let certificate = Certificate::fixed(Smoothing::Ls, &a.current, 5, &case).unwrap();
    let best = round.candidates.iter().map(|c| c.upper).fold(f64::INFINITY, f64::min);
    assert!((certificate.upper - best).abs() < 1e-9, "{} {best}", certificate.upper);
    let (_, later) = learner.step(&a, &logs(2)).unwrap();
    assert_eq!(later.fixed_since, Some(FixedSince { round: 1, since: Since { round: 1, record: 120 }, size: 4 }));
}

#[test]
fn the_previous_round_chooses_and_the_newest_changes_nothing_but_the_next_choice() {
    let learner = Learner { lambda: Lambda::Auto, held_back: 0.4, ..learner(Family::Isotropic, Algorithm::SeqLs) };
    assert_eq!(learner.choice, Choice::Previous);
    let mut state = State::new(policy(FeatureMap::identity(4)));
    let mut settings = Vec::new();
    for k in 1..5 {
        let (next, round) = learner.step(&state, &logs(k)).unwrap();
        // The choice of the round before, or the boldest in the first round.
        assert_eq!(round.lambda, state.kept.map_or(0.9, |kept| kept.lambda));
        assert_eq!(round.fixed_since.unwrap().size, 1 + usize::from(k == 1));
        let (other, _) = learner.step(&state, &changed_from(&logs(k), 120)).unwrap();
        assert_eq!(next.current, other.current, "round {k}");
        let best = round.candidates.iter().min_by(|a, b| a.score.total_cmp(&b.score)).unwrap();
        assert_eq!(next.kept.unwrap().lambda, best.lambda);
        settings.push((round.lambda, other.kept != next.kept));
        state = next;
    }
    assert!(settings.iter().any(|(_, moved)| *moved), "the held-back records choose for the next round");
    // Where nothing is held back, all records choose, and nothing is paid for it.
    let all = Learner { held_back: 0.0, ..learner };
    let (_, round) = all.step(&State::new(policy(FeatureMap::identity(4))), &logs(1)).unwrap();
    let best = round.candidates.iter().min_by(|a, b| a.score.total_cmp(&b.score)).unwrap();
    assert_eq!(round.lambda, best.lambda);
}

#[test]
fn thompson_sampling_is_the_policy_of_the_reward_model_of_what_was_seen() {
    let v = 0.7;
    let learner = Learner {
        held_back: 0.25,
        ..learner(Family::Isotropic, Algorithm::Portfolio(Portfolio { v: Some(v), ..Portfolio::thompson() }))
    };
    let map = FeatureMap::identity(4).with_intercept();
    let first = policy(map.clone()).with_exploration(0.1).unwrap();
    let (mut state, mut before, mut prior) = (State::new(first), Vec::new(), Vec::new());
    for k in 1..4 {
        let (next, round) = learner.step(&state, &logs(k)).unwrap();
        // All rounds before, and the first 150 of the 200 records of this one.
        let mut statistics = Statistics::new(3, 5).unwrap();
        before.iter().for_each(|logs| statistics.add_logs(&map, logs).unwrap());
        statistics.add_logs(&map, &logs(k).slice(0..150)).unwrap();
        // The prior is chosen by 150 records, then by the 350 that are more than twice as many, and kept for 550.
        let model = match k {
            1 | 2 => Regression::default().fit(&statistics, &map.kinds()).unwrap(),
            _ => Regression::default().with_prior(&statistics, &prior).unwrap(),
        };
        prior = model.precision().to_vec();
        let expected = model.policy(&map, v).unwrap().with_exploration(0.1).unwrap();
        assert_eq!(next.current, expected, "round {k}");
        assert_eq!((round.n, round.records, round.lambda), (200, 200 * (k as usize - 1) + 150, 0.0));
        assert!(round.candidates.is_empty());
        before.push(logs(k));
        state = next;
    }
    // The statistics are made again where a state was restored without them.
    let (state, restored) = (state.clone(), State { portfolio: None, ..state });
    assert_eq!(learner.step(&state, &logs(4)).unwrap().0.current, learner.step(&restored, &logs(4)).unwrap().0.current);
    let flat =
        Learner { algorithm: Algorithm::Portfolio(Portfolio { v: Some(0.0), ..Portfolio::thompson() }), ..learner };
    let said = flat.step(&state, &logs(4)).unwrap_err().to_string();
    assert_eq!(said, "thompson-v should be above 0, but is 0");
}

/// A first policy that was trained and then flattened.
fn flattened() -> LinearGaussian {
    let mean = (0..12).map(|i| if i % 3 == i / 3 { 0.3 } else { 0.0 }).collect();
    let posterior = Posterior::new(3, mean, Scale::Shared(1.0)).unwrap();
    LinearGaussian::new(FeatureMap::identity(4), posterior).unwrap()
}

#[test]
fn the_anchor_is_as_sharp_as_is_asked_and_the_divergence_is_measured_from_it() {
    let first = State::new(flattened());
    for shape in [Family::Isotropic, Family::Shaped] {
        let sharp = |sharpness| {
            let sharpness = Sharpness::Fixed(sharpness);
            let learner = Learner { sharpness, lambda: Lambda::Fixed(1e-9), ..learner(shape, Algorithm::SeqLs) };
            learner.step(&first, &logs(1)).map(|(state, round)| (state.current, round))
        };
        // With so small a lambda the policy stays at its anchor: in any basis its means are longer, and its scales are
        // the same.
        let norm = |policy: &LinearGaussian| policy.posterior().mean().iter().map(|m| m * m).sum::<f64>().sqrt();
        for sharpness in [1.0, 4.0] {
            let (policy, round) = sharp(sharpness).unwrap();
            assert_eq!(round.sharpness, sharpness);
            assert!((norm(&policy) - sharpness * norm(&first.first)).abs() < 0.01);
            assert!((policy.posterior().scale().get(2) - 1.0).abs() < 0.01);
            assert!(round.kl < 0.01, "{}", round.kl);
        }
        let error = sharp(0.0).unwrap_err().to_string();
        assert_eq!(error, "the sharpness should be above 0, but is 0");
    }
}

#[test]
fn what_is_chosen_by_certificate_is_kept_until_the_rounds_have_doubled() {
    let auto = Learner {
        lambda: Lambda::AutoDoubling,
        sharpness: Sharpness::Auto,
        choice: Choice::Newest,
        held_back: 0.4,
        ..learner(Family::Isotropic, Algorithm::SeqLs)
    };
    let (mut state, round) = auto.step(&State::new(flattened()), &logs(1)).unwrap();
    let pairs = Sharpness::CANDIDATES.iter().flat_map(|&s| Lambda::CANDIDATES.map(|l| (s, l)));
    assert!(round.candidates.iter().map(|c| (c.sharpness, c.lambda)).eq(pairs));
    assert_eq!(round.fixed_since.unwrap().size, 13);
    let best = round.candidates.iter().min_by(|a, b| a.upper.total_cmp(&b.upper)).unwrap();
    assert_eq!(state.kept, Some(Setting { lambda: best.lambda, sharpness: best.sharpness }));
    assert!(best.sharpness > 1.0, "the first policy is flat and right");
    for (k, size) in [(2, 6), (3, 1), (4, 6), (5, 1)] {
        let before = state.kept.unwrap();
        let (next, round) = auto.step(&state, &logs(k)).unwrap();
        assert_eq!(round.fixed_since.unwrap().size, size, "round {k}");
        let near = |c: &Candidate| c.lambda == before.lambda || c.sharpness == before.sharpness;
        assert!(round.candidates.iter().all(near));
        assert_eq!(round.candidates.len(), if size == 1 { 0 } else { size });
        let (lambda, sharpness) = (Lambda::Fixed(round.lambda), Sharpness::Fixed(round.sharpness));
        let fixed = Learner { lambda, sharpness, ..auto.clone() };
        assert_eq!(next.current, fixed.step(&state, &logs(k)).unwrap().0.current);
        // The records that chose the kept setting are held back again, so all settings count as if each had been
        // learned.
        let more = Learner { held_back: 1.5, ..auto.clone() };
        assert_eq!(more.step(&state, &logs(k)).unwrap().1.fixed_since.unwrap().size, if k == 2 { 6 } else { 12 });
        state = next;
    }
    // The setting of another learner is not among the candidates.
    let other = Learner { lambda: Lambda::Fixed(0.37), sharpness: Sharpness::Fixed(2.0), ..auto.clone() };
    let (mixed, _) = other.step(&State::new(flattened()), &logs(1)).unwrap();
    assert_eq!(auto.step(&mixed, &logs(2)).unwrap().1.candidates.len(), 12);
    // A uniform policy has nothing to sharpen.
    let (_, round) = auto.step(&State::new(policy(FeatureMap::identity(4))), &logs(1)).unwrap();
    assert_eq!((round.candidates.len(), round.sharpness), (4, 1.0));
    // If the anchor is the running policy, or nothing is smoothed, there is no choice.
    for algorithm in [Algorithm::ShiftLs, Algorithm::Scrm(Crm::default())] {
        for sharpness in [Sharpness::Auto, Sharpness::Fixed(1.0)] {
            let learner = Learner { algorithm, lambda: Lambda::Fixed(0.4), sharpness, ..auto.clone() };
            let (_, round) = learner.step(&State::new(flattened()), &logs(1)).unwrap();
            assert_eq!((round.sharpness, round.candidates.len()), (1.0, 0));
        }
    }
}

/// Records that are held back twice affect which setting is chosen, among settings that the bound accounts for, and
/// nothing else.
#[test]
fn what_is_held_back_twice_changes_which_setting_is_kept_and_no_policy() {
    let auto = Learner {
        lambda: Lambda::AutoDoubling,
        sharpness: Sharpness::Auto,
        held_back: 1.5,
        ..learner(Family::Shaped, Algorithm::SeqLs)
    };
    let (state, _) = auto.step(&State::new(flattened()), &logs(1)).unwrap();
    let changed = changed_from(&logs(2), 100);
    let (a, b) = (auto.step(&state, &logs(2)).unwrap().0, auto.step(&state, &changed).unwrap().0);
    for lambda in Lambda::CANDIDATES {
        for sharpness in Sharpness::CANDIDATES {
            let fixed =
                Learner { lambda: Lambda::Fixed(lambda), sharpness: Sharpness::Fixed(sharpness), ..auto.clone() };
            let ((a, round), (b, _)) = (fixed.step(&a, &logs(3)).unwrap(), fixed.step(&b, &logs(3)).unwrap());
            assert_eq!(round.fixed_since.unwrap().since, Since { round: 1, record: 100 });
            assert_eq!(a.current, b.current, "{lambda} {sharpness}");
        }
    }
}

#[test]
fn never_more_than_half_is_held_back() {
    let learner = Learner { held_back: 1.0, ..learner(Family::Shaped, Algorithm::SeqLs) };
    let (state, round) = learner.step(&State::new(policy(FeatureMap::identity(4))), &logs(1)).unwrap();
    assert_eq!((round.fixed_since.unwrap().since.record, round.records), (100, 100));
    // Now half of all records is one round.
    let (_, round) = learner.step(&state, &logs(2)).unwrap();
    assert_eq!((round.fixed_since.unwrap().since, round.records), (Since { round: 1, record: 0 }, 200));
    let (_, round) = learner.step(&State::new(policy(FeatureMap::identity(4))), &logs(1).slice(0..1)).unwrap();
    assert_eq!((round.fixed_since, round.records), (None, 1));
    let newest = Learner { algorithm: Algorithm::ShiftLs, ..learner.clone() };
    assert_eq!(newest.step(&state, &logs(2)).unwrap().1.records, 100);
    // More than one round: the last round, and half of the round before.
    let more = Learner { held_back: 1.5, ..learner };
    let (state, _) = more.step(&state, &logs(2)).unwrap();
    let (_, round) = more.step(&state, &logs(3)).unwrap();
    let since = Since { round: 1, record: 100 };
    assert_eq!((round.fixed_since, round.records), (Some(FixedSince { round: 2, since, size: 1 }), 300));
}

/// The records that were held back the last time chose the last policy, so the search must not start from it.
#[test]
fn what_is_held_back_twice_changes_nothing_by_way_of_the_policy_before() {
    for shape in [Family::Isotropic, Family::Shaped] {
        let learner = Learner { held_back: 1.5, ..learner(shape, Algorithm::SeqLs) };
        let (state, _) = learner.step(&State::new(policy(FeatureMap::identity(4))), &logs(1)).unwrap();
        let then = |chosen, second: &Logs| {
            let learner = Learner { lambda: Lambda::Fixed(chosen), ..learner.clone() };
            learner.step(&state, second).unwrap().0
        };
        let (a, b) = (then(0.1, &logs(2)), then(0.9, &changed_from(&logs(2), 100)));
        assert_ne!(a.current, b.current);
        let ((a, round), (b, _)) = (learner.step(&a, &logs(3)).unwrap(), learner.step(&b, &logs(3)).unwrap());
        assert_eq!(round.fixed_since.unwrap().since, Since { round: 1, record: 100 });
        assert_eq!(a.current, b.current, "{shape:?}");
    }
}

#[test]
fn the_trade_chooses_by_what_is_certified_or_by_what_is_estimated() {
    for held_back in [0.0, 0.3] {
        let round = |trade| {
            let auto = learner(Family::Isotropic, Algorithm::SeqLs);
            let learner = Learner { lambda: Lambda::Auto, held_back, trade, ..auto };
            learner.step(&State::new(policy(FeatureMap::identity(4))), &logs(1)).unwrap().1
        };
        for (trade, of) in [(0.0, (|c| c.upper) as fn(&Candidate) -> f64), (1.0, |c| c.estimate)] {
            let round = round(trade);
            assert_eq!(round.candidates.len(), 4);
            assert!(round.candidates.iter().all(|c| c.score == of(c) && c.estimate < c.upper));
            let best = round.candidates.iter().min_by(|a, b| of(a).total_cmp(&of(b))).unwrap();
            assert_eq!(round.lambda, best.lambda);
        }
        let half = round(0.5).candidates[0];
        assert!((half.score - 0.5 * (half.upper + half.estimate)).abs() < 1e-15);
        assert_eq!(round(0.0).fixed_since.is_some(), held_back > 0.0);
    }
}

#[test]
fn without_records_held_back_candidates_are_judged_by_theorem_3_2() {
    let learner = Learner { lambda: Lambda::Auto, ..learner(Family::Shaped, Algorithm::SeqAdjLs) };
    let first = policy(FeatureMap::identity(4).with_intercept());
    let (state, _) = learner.step(&State::new(first.clone()), &logs(1)).unwrap();
    let (state, round) = learner.step(&state, &logs(2)).unwrap();
    let rounds = [logs(1), logs(2)];
    let case = Case::whole(&rounds, &learner.protocol);
    let certificate = Certificate::risk(&state.current, &first, &case).unwrap();
    let chosen = round.candidates.iter().find(|c| c.lambda == round.lambda).unwrap();
    assert!((certificate.upper - chosen.upper).abs() < 1e-5, "{} {}", certificate.upper, chosen.upper);
}

#[test]
fn what_does_not_smooth_has_one_lambda() {
    for algorithm in [Algorithm::Crm(Crm::default()), Algorithm::Scrm(Crm { divergence: true, ..Crm::default() })] {
        let learner = Learner { lambda: Lambda::Auto, ..learner(Family::Isotropic, algorithm) };
        let (_, round) = learner.step(&State::new(policy(FeatureMap::identity(4))), &logs(1)).unwrap();
        assert_eq!((round.lambda, round.candidates.len()), (0.4, 0));
    }
}

#[test]
fn what_is_held_back_and_traded_has_a_range() {
    let text = |held_back, trade| {
        let learner = Learner { held_back, trade, ..learner(Family::Shaped, Algorithm::SeqLs) };
        learner.step(&State::new(policy(FeatureMap::identity(4))), &logs(1)).unwrap_err().to_string()
    };
    for held_back in [-0.1, f64::NAN] {
        assert_eq!(
            text(held_back, 0.0),
            format!("the number of rounds held back should be at least 0, but is {held_back}")
        );
    }
    assert_eq!(text(f64::INFINITY, 0.0), "the number of rounds held back should be finite and at least 0, but is inf");
    for trade in [-0.1, 1.1, f64::NAN] {
        assert_eq!(text(0.0, trade), format!("the trade should be in [0, 1], but is {trade}"));
    }
}

#[test]
fn what_is_kept_is_deployed_and_shift_starts_from_it() {
    for shape in [Family::Isotropic, Family::Shaped] {
        let learner = learner(shape, Algorithm::ShiftLs);
        let (learned, _) = learner.step(&State::new(policy(FeatureMap::identity(4))), &logs(1)).unwrap();
        assert_eq!(learned.deployed(), learned.current());
        let kept = learned.clone().keep(learned.first()).unwrap();
        assert_eq!((kept.deployed(), kept.current()), (learned.first(), learned.current()));
        let (promoted, far) = learner.step(&learned, &logs(2)).unwrap();
        let (rejected, near) = learner.step(&kept, &logs(2)).unwrap();
        let kl = |state: &State, anchor: &State| state.current().kl(anchor.deployed()).unwrap();
        // Up to rounding errors of a change of basis.
        for (found, expected) in [(far.kl, kl(&promoted, &learned)), (near.kl, kl(&rejected, &kept))] {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        assert_ne!(promoted.current(), rejected.current());
        // For SeqLS, which learns from all rounds with the first policy as prior, it makes no difference.
        let seq = Learner { algorithm: Algorithm::SeqLs, ..learner.clone() };
        let current = |state: &State| seq.step(state, &logs(2)).unwrap().0.current;
        assert_eq!(current(&learned), current(&kept));
    }
}

#[test]
fn what_is_kept_before_the_first_round_stays_deployed() {
    let other = Posterior::new(3, vec![0.5; 12], Scale::Shared(0.7)).unwrap();
    let first = policy(FeatureMap::identity(4));
    let state = State::new(first.clone()).keep(&first.with_posterior(other.clone())).unwrap();
    let (_, round) = learner(Family::Shaped, Algorithm::ShiftLs).step(&state, &logs(1)).unwrap();
    let (again, _) = learner(Family::Shaped, Algorithm::ShiftLs).step(&state, &logs(1)).unwrap();
    assert!((round.kl - 0.95 * again.current.posterior().kl(&other).unwrap()).abs() < 1e-9);
}

#[test]
fn a_policy_in_another_basis_cannot_be_kept() {
    let (state, _) =
        learner(Family::Shaped, Algorithm::SeqLs).step(&State::new(policy(FeatureMap::identity(4))), &logs(1)).unwrap();
    let (other, _) = learner(Family::PerFeature, Algorithm::SeqLs)
        .step(&State::new(policy(FeatureMap::identity(4))), &logs(1))
        .unwrap();
    assert_eq!(
        state.keep(other.current()).unwrap_err().to_string(),
        "the running policy should be in the basis of the learned policies, or with one shared scale, but is neither"
    );
}

#[test]
fn a_step_after_rounds_that_were_only_remembered_learns_from_all_of_them() {
    let learner = learner(Family::Shaped, Algorithm::SeqAdjLs);
    let first = State::new(policy(FeatureMap::identity(4)));
    let remembered = learner.remember(&first, &logs(1)).unwrap();
    assert_eq!((remembered.rounds(), remembered.current().actions()), (1, 3));
    let (state, round) = learner.step(&remembered, &logs(2)).unwrap();
    assert_eq!((state.rounds(), round.records), (2, 400));
    // With the same lambda and a start at the prior, the result is that of learning from both rounds.
    let learner = Learner { start: Start::Anchor, ..learner };
    let (both, _) = learner.step(&learner.step(&first, &logs(1)).unwrap().0, &logs(2)).unwrap();
    let (other, _) = learner.step(&learner.remember(&first, &logs(1)).unwrap(), &logs(2)).unwrap();
    assert_eq!(both.current(), other.current());
    assert!(learner.remember(&first, &logs(1).slice(0..0)).is_err());
}
