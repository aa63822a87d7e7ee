//! What Surefoot promises, on the digits that ship with it: means over 6 seeds, at the settings of `surefoot demo`.
//!
//! A difference counts as one if it is more than two standard errors from 0, taken over the seeds in pairs.

use std::collections::BTreeSet;

use rayon::prelude::*;
use surefoot::learn::{Family, State};
use surefoot::optim::{Adam, Decay, Optimiser};
use surefoot::simulate::Schedule;
use surefoot::worlds::{Dataset, Environment, LabelBandit, Turn};
use surefoot::{Algorithm, FeatureMap, Lambda, Learner, LinearGaussian, Policy, simulate};

const CLASSES: usize = 10;
const NOISE: f64 = 0.2;

/// One value a seed, the seeds in parallel.
fn for_seeds<T: Send>(value: impl Fn(u64) -> T + Sync + Send) -> Vec<T> {
    (1..=6).into_par_iter().map(value).collect()
}

fn learner(algorithm: Algorithm, family: Family, epochs: usize, seed: u64) -> Learner {
    let adam = Adam { learning_rate: 0.01, decay: Decay::Linear, epochs, batch_size: 128, ..Adam::default() };
    let (lambda, optimiser) = (Lambda::Fixed(0.4), Optimiser::Adam(adam));
    Learner { algorithm, lambda, family, optimiser, seed, ..Learner::default() }
}

fn world(data: &Dataset, seed: u64) -> LabelBandit {
    LabelBandit::new(data, NOISE, seed).unwrap()
}

fn first_policy(world: &LabelBandit, alpha: f64) -> LinearGaussian {
    world.first_policy(FeatureMap::identity(world.logging_split().contexts().features()), alpha).unwrap()
}

/// The true risk after the last of `rounds` rounds of equal size, for each seed.
fn risks(data: &Dataset, algorithm: Algorithm, family: Family, rounds: usize, epochs: usize) -> Vec<f64> {
    for_seeds(|seed| {
        let world = world(data, seed);
        let sizes = Schedule::Equal(rounds).sizes(world.interactions()).unwrap();
        let learner = learner(algorithm, family, epochs, seed);
        let rounds = simulate(&world, first_policy(&world, 0.2), &learner.into(), &sizes, |_| {}).unwrap().rounds;
        rounds.last().unwrap().true_risk
    })
}

/// Fails unless `a` is lower than `b` by more than two standard errors of the paired differences.
fn assert_lower(what: &str, a: &[f64], b: &[f64]) {
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    let n = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let squares: f64 = differences.iter().map(|d| (d - mean) * (d - mean)).sum();
    let error = (squares / (n * (n - 1.0))).sqrt();
    assert!(mean < -2.0 * error, "{what}: lower by {:.4} +- {error:.4}: {a:.4?} and {b:.4?}", -mean);
}

/// So many epochs on everything at once visit as many records as 10 epochs in each of 10 rounds.
const AS_LONG_AS_TEN_ROUNDS: usize = 55;

#[test]
fn the_adjusted_estimator_in_sequence_ends_below_a_batch_of_the_same_interactions() {
    let data = surefoot_data::digits();
    for family in [Family::Isotropic, Family::Shaped] {
        let sequence = risks(&data, Algorithm::SeqAdjLs, family, 10, 10);
        let batch = |rounds, epochs| risks(&data, Algorithm::BatchLs, family, rounds, epochs);
        assert_lower(&format!("{family:?}, a batch in 10 rounds"), &sequence, &batch(10, 10));
        assert_lower(&format!("{family:?}, a batch at once"), &sequence, &batch(1, 10));
        assert_lower(&format!("{family:?}, a longer search"), &sequence, &batch(1, AS_LONG_AS_TEN_ROUNDS));
    }
}

/// With the shaped posterior. With the isotropic one a batch in 10 rounds, or at once with as many steps, comes so near
/// that 30 seeds do not tell which is lower.
#[test]
fn plain_smoothing_in_sequence_ends_below_a_batch_of_the_same_interactions() {
    let data = surefoot_data::digits();
    let family = Family::Shaped;
    let sequence = risks(&data, Algorithm::SeqLs, family, 10, 10);
    let batch = |rounds, epochs| risks(&data, Algorithm::BatchLs, family, rounds, epochs);
    assert_lower("a batch in 10 rounds", &sequence, &batch(10, 10));
    assert_lower("a batch at once", &sequence, &batch(1, 10));
    assert_lower("a longer search", &sequence, &batch(1, AS_LONG_AS_TEN_ROUNDS));
    let isotropic = |algorithm, rounds| risks(&data, algorithm, Family::Isotropic, rounds, 10);
    let (sequence, batch) = (isotropic(Algorithm::SeqLs, 10), isotropic(Algorithm::BatchLs, 1));
    assert_lower("isotropic, a batch at once with as many epochs a round", &sequence, &batch);
}

#[test]
fn a_shaped_posterior_ends_below_the_isotropic_one() {
    let data = surefoot_data::digits();
    let end = |family| risks(&data, Algorithm::SeqAdjLs, family, 10, 10);
    assert_lower("shaped", &end(Family::Shaped), &end(Family::Isotropic));
}

/// The exploration floor that is tried; every class keeps a probability of a tenth of it.
const FLOOR: f64 = 0.05;

/// The classes that the policy has lost after each of 40 rounds from a uniform start: those whose mean probability on
/// the test contexts has fallen from a tenth to less than half of what the floor guarantees.
fn lost(data: &Dataset, exploration: f64, seed: u64) -> Vec<BTreeSet<usize>> {
    let world = world(data, seed);
    let contexts = world.truth(0).unwrap().contexts().clone();
    let learner = learner(Algorithm::SeqAdjLs, Family::Isotropic, 10, seed);
    let mut state = State::new(first_policy(&world, 0.0).with_exploration(exploration).unwrap());
    let mut start = 0;
    let mut lost = Vec::new();
    for (round, n) in Schedule::Equal(40).sizes(world.interactions()).unwrap().into_iter().enumerate() {
        let logs = world.collect(state.current(), Turn { round, start, n }).unwrap();
        state = learner.step(&state, &logs).unwrap().0;
        start += n;
        let p = state.current().distribution(&contexts, None).unwrap();
        let mean = |class: usize| p.iter().skip(class).step_by(CLASSES).sum::<f64>() / contexts.len() as f64;
        lost.push((0..CLASSES).filter(|&class| mean(class) < 0.5 * FLOOR / CLASSES as f64).collect());
    }
    lost
}

/// From a uniform start, what was chosen often is learned to be chosen more. (The floor does not make the last policy
/// better within these interactions: over 30 seeds the risks do not differ.)
#[test]
fn from_a_uniform_start_classes_are_lost_for_good_and_an_exploration_floor_keeps_them() {
    let data = surefoot_data::digits();
    for rounds in for_seeds(|seed| lost(&data, 0.0, seed)) {
        assert!(rounds[39].len() >= CLASSES / 2, "{rounds:?}");
        assert!(rounds.windows(2).all(|pair| pair[0].is_subset(&pair[1])), "{rounds:?}");
    }
    for rounds in for_seeds(|seed| lost(&data, FLOOR, seed)) {
        assert!(rounds.iter().all(BTreeSet::is_empty), "{rounds:?}");
    }
}
