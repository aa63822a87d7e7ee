//! What a step does inside: the numbers of the search, and contexts that are left out.

use super::*;
use crate::contexts::Contexts;
use crate::features::FeatureMap;
use crate::optim::{Adam, Decay, Lbfgs};
use rand::RngExt;

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

fn learner(shape: Shape, algorithm: Algorithm) -> Learner {
    Learner { algorithm, shape, optimiser: adam(5), precision: Precision::Double, ..Learner::default() }
}

#[test]
fn single_precision_ends_where_double_precision_does() {
    for algorithm in [Algorithm::SeqAdjLs, Algorithm::Scrm(Crm::default())] {
        for shape in [Shape::Isotropic, Shape::PerFeature] {
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
        let learner = Learner { precision, optimiser, ..learner(Shape::Isotropic, Algorithm::SeqLs) };
        learner.step(&State::new(policy(FeatureMap::identity(4))), &logs(1)).unwrap().0.current
    };
    assert_eq!(run(Precision::Single), run(Precision::Double));
}

/// What the second step learns if all contexts are kept: the objective over all records, by hand.
fn kept(learner: &Learner, state: &State, rounds: &[Logs]) -> Posterior {
    let first = &state.first;
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
        criterion: recipe.criterion,
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
    objective.posterior(&learner.search::<f64>(&objective, &x, &mut rng).unwrap().0).unwrap()
}

#[test]
fn contexts_that_are_left_out_are_not_missed() {
    let fourier = FeatureMap::fourier(4, 9, 1.0, 3).unwrap();
    let intercept = FeatureMap::identity(4).with_intercept();
    let all = Crm { window: Window::All, ..Crm::default() };
    for (features, shape, algorithm) in [
        (fourier.clone(), Shape::Isotropic, Algorithm::SeqAdjLs),
        (fourier.with_intercept(), Shape::PerFeature, Algorithm::SeqLs),
        (intercept, Shape::Isotropic, Algorithm::Scrm(all)),
        (FeatureMap::identity(4), Shape::Principal, Algorithm::SeqAdjLs),
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
    let learner = learner(Shape::PerFeature, Algorithm::SeqAdjLs);
    let (state, _) = learner.step(&State::new(policy(FeatureMap::identity(4))), &logs(1)).unwrap();
    assert!(state.rounds[0].is_complete());
}

#[test]
fn a_round_without_a_cost_may_leave_out_everything() {
    let logs = logs(1);
    let n = logs.len();
    let free = Logs::new(3, logs.contexts().clone(), logs.action().to_vec(), vec![0.5; n], vec![0.0; n]).unwrap();
    for (features, shape) in [
        (FeatureMap::fourier(4, 9, 1.0, 3).unwrap().with_intercept(), Shape::Isotropic),
        (FeatureMap::identity(4), Shape::Principal),
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
    let (state, _) = learner(Shape::Isotropic, Algorithm::SeqLs).step(&first, &logs(1)).unwrap();
    let error = learner(Shape::Isotropic, normalised(Window::All)).step(&state, &logs(2)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the criterion should be one that needs no records of cost 0, as in the rounds before, but is self-normalised"
    );
    // The newest round has been kept whole.
    assert!(learner(Shape::Isotropic, normalised(Window::Newest)).step(&state, &logs(2)).is_ok());
    let all = learner(Shape::Isotropic, normalised(Window::All));
    let (state, _) = all.step(&first, &logs(1)).unwrap();
    assert!(state.rounds[0].is_complete() && all.step(&state, &logs(2)).is_ok());
}
