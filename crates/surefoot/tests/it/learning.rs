//! The loop as a whole: what a step promises beyond the numbers of the reference.

use std::ops::ControlFlow;
use std::str::FromStr;
use std::sync::Arc;

use surefoot::audit::{AuditedPolicy, AuditedRound, Run, Statement, StatementKind, audit};
use surefoot::certificate::{Case, Share, Since, Smoothing, verify};
use surefoot::estimator::{Custom, CustomEstimator, Regularizer};
use surefoot::learn::{Crm, Family, Portfolio, Precision, Start, State};
use surefoot::objective::{Objective, ObjectiveParts};
use surefoot::observer::{Observer, Silent};
use surefoot::optim::{Adam, Decay, Lbfgs, Optimiser};
use surefoot::policy::{Posterior, Scale};
use surefoot::simulate::{Outcome, SimulatedRound, simulate_observed};
use surefoot::worlds::{Environment, Synthetic, SyntheticSettings, Turn};
use surefoot::{
    Algorithm, Certificate, Contexts, Error, FeatureMap, Fingerprint, Gate, Lambda, Learner, Logs, Policy, Session,
    simulate,
};

fn world() -> Synthetic {
    Synthetic::new(SyntheticSettings { seed: 5, ..SyntheticSettings::default() }).unwrap()
}

fn first(world: &Synthetic, alpha: f64) -> surefoot::LinearGaussian {
    world.first_policy(FeatureMap::identity(10), alpha).unwrap()
}

fn quick(algorithm: Algorithm) -> Learner {
    Learner {
        algorithm,
        lambda: Lambda::Fixed(0.4),
        optimiser: Optimiser::Adam(Adam { learning_rate: 0.02, decay: Decay::Linear, ..Adam::default() }),
        ..Learner::default()
    }
}

const ALL: fn() -> Vec<Algorithm> = || {
    use Algorithm::*;
    let (crm, normalised) =
        (surefoot::learn::Crm::default(), surefoot::learn::Crm { gamma: None, ..surefoot::learn::Crm::default() });
    vec![BatchLs, SeqLs, SeqAdjLs, ShiftLs, ShiftAdjLs, Crm(crm), Scrm(crm), Scrm(normalised)]
};

/// The contract of every learner: a better policy at the end, the same bits again, the same bits on any number of
/// threads, and the state that goes in stays as it is.
#[test]
fn every_learner_keeps_the_contract() {
    let world = world();
    for algorithm in ALL() {
        for family in [Family::Isotropic, Family::PerFeature, Family::Shaped] {
            let learner = Learner { family, ..quick(algorithm) };
            let run = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| {
                    simulate(&world, first(&world, 0.3), &learner.clone().into(), &[300, 300, 300], |_| {}).unwrap()
                })
            };
            let Outcome { session, rounds, .. } = run(1);
            let state = session.state();
            let again = run(3).session;
            let again = again.state();
            assert_eq!(state.current(), again.current(), "{algorithm:?} {family:?}");
            let start = world.truth(0).unwrap().risk(state.first()).unwrap();
            let end = rounds[2].true_risk;
            assert!(end < start - 0.01, "{algorithm:?} {family:?}: from {start} to {end}");
            assert!(rounds.iter().all(|r| r.learned.kl >= 0.0 && r.true_risk >= -0.8));
            let before = state.clone();
            let logs = world.collect(state.current(), Turn { round: 3, start: 900, n: 50 }).unwrap();
            let (next, round) = learner.step(state, &logs).unwrap();
            assert_eq!((state.rounds(), state.records(), state.current()), (3, 900, before.current()));
            assert_eq!((next.rounds(), next.records(), round.n), (4, 950, 50));
        }
    }
}

#[test]
fn large_batches_give_the_same_bits_on_every_number_of_threads() {
    let world = world();
    for optimiser in [
        Optimiser::Adam(Adam { batch_size: 2500, learning_rate: 0.05, epochs: 3, ..Adam::default() }),
        Optimiser::Lbfgs(Lbfgs { iterations: 5, ..Lbfgs::default() }),
    ] {
        let learner = Learner { optimiser, ..quick(Algorithm::SeqAdjLs) };
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| simulate(&world, first(&world, 0.3), &learner.clone().into(), &[6000], |_| {}).unwrap())
        };
        assert_eq!(run(1).session.newest(), run(2).session.newest());
    }
}

#[test]
fn adam_and_l_bfgs_find_the_same_policy() {
    let world = world();
    let logs = world.collect(&first(&world, 0.3), Turn { round: 0, start: 0, n: 1500 }).unwrap();
    let risk = |optimiser| {
        let learner = Learner { optimiser, tolerance: 1e-10, ..quick(Algorithm::SeqLs) };
        let (state, round) = learner.step(&State::new(first(&world, 0.3)), &logs).unwrap();
        (state.current().posterior().mean().to_vec(), round)
    };
    let adam = Adam { learning_rate: 0.05, decay: Decay::Cosine, epochs: 600, batch_size: 1500, ..Adam::default() };
    let (a, _) = risk(Optimiser::Adam(adam));
    let (b, round) = risk(Optimiser::Lbfgs(Lbfgs { tolerance: 1e-7, ..Lbfgs::default() }));
    let distance = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(distance < 2e-3, "{distance}");
    assert!(round.trace.objective.is_sorted_by(|a, b| a >= b), "each iteration descends");
}

#[test]
fn a_record_of_cost_zero_is_never_touched() {
    // The same logs, with other contexts and propensities where the cost is 0: the same bits.
    let logs = |filler: f32| {
        let row = |i: usize| if i.is_multiple_of(3) { [filler, -filler] } else { [i as f32, 1.0] };
        let contexts = Contexts::dense((0..30).flat_map(row).collect(), 2).unwrap();
        let cost = (0..30).map(|i| if i % 3 == 0 { 0.0 } else { -0.5 }).collect();
        let q = (0..30).map(|i| if i % 3 == 0 { f64::from(filler) / 1e9 } else { 0.5 }).collect();
        std::sync::Arc::new(Logs::new(2, contexts, vec![0; 30], q, cost).unwrap())
    };
    let q = Posterior::new(2, vec![0.1, 0.2, 0.3, -0.4], Scale::PerFeature(vec![1.0, 0.5])).unwrap();
    for criterion in [
        surefoot::objective::Criterion::Mean { regularizer: Regularizer::LsAdjusted { lambda: 0.3 } },
        surefoot::objective::Criterion::Mean { regularizer: Regularizer::Ls { lambda: 0.3 } },
        surefoot::objective::Criterion::Penalised { regularizer: Regularizer::Ips, penalty: 1.0 },
    ] {
        let value = |filler| {
            let rounds = [logs(filler)];
            let objective = Objective::new(ObjectiveParts {
                rounds: &rounds,
                total: None,
                criterion,
                custom: None,
                anchor: &q,
                shape: &q,
                learn_scale: true,
                lambda: Some(0.3),
                exploration: 0.0,
                tolerance: 1e-8,
            })
            .unwrap();
            let mut gradient = vec![0.0; 6];
            let batch: Vec<usize> = (0..30).collect();
            (objective.evaluate(&objective.parameters(&q), &batch, &mut gradient).unwrap(), gradient)
        };
        assert_eq!(value(1.0), value(1e8), "{criterion:?}");
    }
}

#[test]
fn the_rules_for_lambda_are_the_paper_s() {
    let at = |lambda: Lambda, m| lambda.value(m).unwrap();
    assert_eq!(at(Lambda::Fixed(0.3), 7), 0.3);
    assert_eq!(at(Lambda::InverseSqrt, 400), 0.05);
    assert_eq!(at(Lambda::Rate { alpha: 0.5, gamma: 2.0 }, 400), 0.5 / (8.0 * 2.0 * 20.0));
    let varying = Lambda::VaryingRate { alpha: 0.0, gamma: 2.0, beta1: 0.5, beta2: 3.0 };
    assert_eq!(at(varying, 400), 1.0 / 13.0);
    let text = |lambda: Lambda| lambda.value(9).unwrap_err().to_string();
    assert_eq!(text(Lambda::Rate { alpha: 1.0, gamma: 2.0 }), "alpha should be in [0, 1), but is 1");
    assert_eq!(text(Lambda::Rate { alpha: 0.0, gamma: 0.0 }), "gamma should be above 0, but is 0");
    let varying = |beta1, beta2| Lambda::VaryingRate { alpha: 0.0, gamma: 2.0, beta1, beta2 };
    assert_eq!(text(varying(2.0, 3.0)), "beta1 should be in (0, 1], but is 2");
    assert_eq!(text(varying(0.5, 0.5)), "beta2 should be at least 1, but is 0.5");
}

#[test]
fn lambda_comes_from_the_first_round_or_from_the_one_batch() {
    let world = world();
    let lambdas = |algorithm| {
        let learner = Learner { lambda: Lambda::InverseSqrt, ..quick(algorithm) };
        let rounds = simulate(&world, first(&world, 0.3), &learner.into(), &[100, 300], |_| {}).unwrap().rounds;
        [rounds[0].learned.lambda, rounds[1].learned.lambda]
    };
    assert_eq!(lambdas(Algorithm::SeqLs), [0.1, 0.1]);
    assert_eq!(lambdas(Algorithm::BatchLs), [0.1, 0.05]);
}

#[test]
fn a_step_refuses_what_does_not_fit() {
    let world = world();
    let state = State::new(first(&world, 0.0));
    let logs = world.collect(state.current(), Turn { round: 0, start: 0, n: 20 }).unwrap();
    let text = |learner: &Learner, state: &State, logs: &Logs| learner.step(state, logs).unwrap_err().to_string();
    for (algorithm, lambda, range) in [
        (Algorithm::SeqAdjLs, 1.0, "(0, 1)"),
        (Algorithm::ShiftAdjLs, 0.0, "(0, 1)"),
        (Algorithm::SeqLs, -0.5, "(0, inf)"),
        (Algorithm::ShiftLs, f64::NAN, "(0, inf)"),
    ] {
        let learner = Learner { lambda: Lambda::Fixed(lambda), ..quick(algorithm) };
        assert_eq!(text(&learner, &state, &logs), format!("lambda should be in {range}, but is {lambda}"));
    }
    let crm = |crm: Crm| quick(Algorithm::Scrm(crm));
    assert_eq!(
        text(&crm(Crm { penalty: -1.0, ..Crm::default() }), &state, &logs),
        "the penalty should be at least 0, but is -1"
    );
    assert_eq!(
        text(&crm(Crm { gamma: Some(-1.0), ..Crm::default() }), &state, &logs),
        "gamma should be at least 0, but is -1"
    );
    let learner = quick(Algorithm::SeqLs);
    let columns = |n: usize, k, p| {
        let contexts = Contexts::dense(vec![1.0; n * p], p).unwrap();
        Logs::new(k, contexts, vec![0; n], vec![0.5; n], vec![0.0; n]).unwrap()
    };
    assert_eq!(
        text(&learner, &state, &columns(0, 5, 10)),
        "the logs of a round should have at least 1 record, but has 0"
    );
    assert_eq!(text(&learner, &state, &columns(3, 4, 10)), "the logs should have 5 actions, as the policy, but has 4");
    assert_eq!(text(&learner, &state, &columns(3, 5, 9)), "contexts should have 10 features, as the policy, but has 9");
    for tolerance in [0.0, 0.5] {
        assert_eq!(
            text(&Learner { tolerance, ..learner.clone() }, &state, &logs),
            format!("the tolerance should be in (0, 0.01], but is {tolerance}")
        );
    }
    assert_eq!(
        text(&Learner { lambda: Lambda::Fixed(f64::NAN), ..crm(Crm::default()) }, &state, &logs),
        "lambda should be in (0, inf), but is NaN"
    );
    let (later, _) = learner.step(&state, &logs).unwrap();
    assert_eq!(
        text(&Learner { family: Family::Shaped, ..learner.clone() }, &later, &logs),
        "the posterior's shape should be isotropic or per-feature, as in the rounds before, but is shaped"
    );
    let scales = Scale::PerFeature(vec![1.0; 10]);
    let custom = Posterior::new(5, vec![0.0; 50], scales).unwrap();
    let custom = surefoot::LinearGaussian::new(FeatureMap::identity(10), custom).unwrap();
    assert_eq!(
        text(&Learner { family: Family::Shaped, ..learner.clone() }, &State::new(custom), &logs),
        "the first policy should be a posterior with one shared scale, but is one with a scale per feature"
    );
    let shaped = Learner { family: Family::PerFeature, ..learner.clone() };
    let (state, _) = shaped.step(&state, &logs).unwrap();
    assert_eq!(
        text(&learner, &state, &logs),
        "the posterior's shape should be per-feature, as the policy to start from, but is isotropic"
    );
}

#[test]
fn an_objective_refuses_parts_that_do_not_fit() {
    let q = Posterior::standard(2, 3).unwrap();
    let logs = |p: usize, k| {
        let contexts = Contexts::dense(vec![1.0; p], p).unwrap();
        std::sync::Arc::new(Logs::new(k, contexts, vec![0], vec![0.5], vec![-1.0]).unwrap())
    };
    let text = |rounds: &[std::sync::Arc<Logs>], anchor: &Posterior, exploration| {
        let parts = ObjectiveParts {
            rounds,
            total: None,
            criterion: surefoot::objective::Criterion::Mean { regularizer: Regularizer::Ips },
            custom: None,
            anchor,
            shape: &q,
            learn_scale: true,
            lambda: None,
            exploration,
            tolerance: 1e-6,
        };
        Objective::new(parts).unwrap_err().to_string()
    };
    let other = Posterior::standard(1, 3).unwrap();
    assert_eq!(
        text(&[logs(2, 3)], &other, 0.0),
        "the anchor should have 2 features x 3 actions, in the posterior's basis, but has 3"
    );
    assert_eq!(text(&[logs(1, 3)], &q, 0.0), "contexts should have 2 features, as the policy, but has 1");
    assert_eq!(text(&[logs(2, 2)], &q, 0.0), "the logs should have 3 actions, as the policy, but has 2");
    assert_eq!(text(&[], &q, 0.0), "the rounds should have at least 1 record, but has 0");
    assert_eq!(text(&[logs(2, 3)], &q, 1.0), "exploration should be in [0, 1), but is 1");
}

#[test]
fn a_scale_that_runs_away_ends_the_search_and_not_the_program() {
    // Self-normalised weights, no divergence: nothing keeps the scale from vanishing.
    let settings = SyntheticSettings { margin: 1.0, ambiguous: 0.0, ..SyntheticSettings::default() };
    let world = Synthetic::new(settings).unwrap();
    let crm = Crm { gamma: None, ..Crm::default() };
    let learner = Learner { optimiser: Optimiser::Lbfgs(Lbfgs::default()), ..quick(Algorithm::Scrm(crm)) };
    let rounds = simulate(&world, first(&world, 1.0), &learner.into(), &[300, 300, 600], |_| {}).unwrap().rounds;
    assert!(rounds.iter().all(|r| r.true_risk.is_finite() && r.learned.kl.is_finite()));
}

#[test]
fn a_search_can_start_at_the_anchor() {
    let world = world();
    let run = |start| {
        let learner = Learner { start, ..quick(Algorithm::SeqLs) };
        simulate(&world, first(&world, 0.3), &learner.into(), &[200, 200], |_| {}).unwrap().rounds
    };
    let (warm, cold) = (run(Start::Warm), run(Start::Anchor));
    assert_eq!(warm[0].true_risk, cold[0].true_risk);
    assert_ne!(warm[1].true_risk, cold[1].true_risk);
}

#[test]
fn without_a_cost_nothing_is_learned_but_the_prior() {
    let world = world();
    let first = first(&world, 0.3);
    let logs = world.collect(&first, Turn { round: 0, start: 0, n: 50 }).unwrap();
    let free = Logs::new(5, logs.contexts().clone(), logs.action().to_vec(), logs.propensity().to_vec(), vec![0.0; 50]);
    let (state, round) = quick(Algorithm::SeqLs).step(&State::new(first.clone()), &free.unwrap()).unwrap();
    assert_eq!(round.kl, 0.0);
    assert_eq!(state.current(), &first);
}

#[test]
fn a_million_sparse_features_can_be_learned_from() {
    let n = 60;
    let indices = (0..n).flat_map(|i| [i % 3, 500_000 + (i * 7919) % 1000, 999_999]).collect();
    let contexts =
        Contexts::sparse((0..=n as usize).map(|i| 3 * i).collect(), indices, vec![1.0; 3 * n as usize], 1_000_000);
    let (contexts, features) = (contexts.unwrap(), FeatureMap::identity(1_000_000));
    let first = surefoot::LinearGaussian::new(features, Posterior::standard(1_000_000, 2).unwrap()).unwrap();
    let decisions = first.decide(&contexts, None, 1).unwrap();
    let action: Vec<u32> = decisions.iter().map(|d| d.action).collect();
    let cost = action.iter().map(|&a| if a == 1 { -1.0 } else { 0.0 }).collect();
    let propensity = decisions.iter().map(|d| d.propensity).collect();
    let logs = Logs::new(2, contexts.clone(), action, propensity, cost).unwrap();
    let learner = Learner {
        optimiser: Optimiser::Adam(Adam { learning_rate: 0.1, epochs: 5, ..Adam::default() }),
        ..quick(Algorithm::SeqAdjLs)
    };
    let (state, _) = learner.step(&State::new(first.clone()), &logs).unwrap();
    let ones = vec![1; n as usize];
    let mean = |policy: &surefoot::LinearGaussian| -> f64 {
        policy.propensity(&contexts, &ones, None).unwrap().iter().sum::<f64>() / f64::from(n)
    };
    assert!((mean(&first) - 0.5).abs() < 1e-9 && mean(state.current()) > 0.55, "{}", mean(state.current()));
}

#[test]
fn errors_of_the_optimiser_reach_the_caller() {
    let world = world();
    let adam = Adam { learning_rate: -1.0, ..Adam::default() };
    let learner = Learner { optimiser: Optimiser::Adam(adam), ..quick(Algorithm::SeqLs) };
    let result = simulate(&world, first(&world, 0.0), &learner.into(), &[10], |_| {});
    assert!(matches!(result, Err(Error::Setting { .. })));
}

/// One of ours as if it were somebody's own.
#[derive(Debug)]
struct Mine {
    regularizer: Regularizer,
    fails: bool,
}

impl CustomEstimator for Mine {
    fn name(&self) -> &str {
        "mine"
    }

    fn h_and_slope(&self, p: &[f64], q: &[f64], c: &[f64]) -> surefoot::Result<(Vec<f64>, Vec<f64>)> {
        if self.fails {
            return Ok((vec![f64::NAN; p.len()], vec![0.0; p.len()]));
        }
        let each = |f: &dyn Fn(usize) -> f64| (0..p.len()).map(f).collect::<Vec<f64>>();
        Ok((each(&|i| self.regularizer.h(p[i], q[i], c[i])), each(&|i| self.regularizer.dh_dp(p[i], q[i], c[i]))))
    }
}

#[test]
fn an_estimator_of_the_users_own_learns_what_it_would_learn_as_ours() {
    let world = world();
    for optimiser in [Optimiser::default(), Optimiser::Lbfgs(Lbfgs { iterations: 5, ..Lbfgs::default() })] {
        let ours = Learner {
            algorithm: Algorithm::SeqLs,
            lambda: Lambda::Fixed(0.4),
            precision: Precision::Double,
            optimiser,
            ..Learner::default()
        };
        let regularizer = Regularizer::LsLinear { lambda: 0.4 };
        let theirs = Learner { custom: Some(Custom::new(Mine { regularizer, fails: false })), ..ours.clone() };
        let logs = world.collect(&first(&world, 0.3), Turn { round: 0, start: 0, n: 500 }).unwrap();
        let state = State::new(first(&world, 0.3));
        let (ours, _) = ours.step(&state, &logs).unwrap();
        let (theirs, _) = theirs.step(&state, &logs).unwrap();
        for (a, b) in ours.current().posterior().mean().iter().zip(theirs.current().posterior().mean()) {
            assert!((a - b).abs() < 1e-9, "{a} {b}");
        }
        let broken = Learner { custom: Some(Custom::new(Mine { regularizer, fails: true })), ..Learner::default() };
        assert_eq!(
            broken.step(&state, &logs).unwrap_err().to_string(),
            "row 0: h of mine should be finite, but is NaN"
        );
    }
}

#[derive(Default)]
struct Impatient {
    shares: Vec<f64>,
    stop_at: f64,
}

impl Observer for Impatient {
    fn searching(&mut self, share: f64) -> ControlFlow<()> {
        self.shares.push(share);
        if share >= self.stop_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn who_watches_sees_how_far_it_is_and_can_stop_it() {
    let world = world();
    let state = State::new(first(&world, 0.3));
    let logs = world.collect(state.current(), Turn { round: 0, start: 0, n: 500 }).unwrap();
    for optimiser in [Optimiser::default(), Optimiser::Lbfgs(Lbfgs { iterations: 20, ..Lbfgs::default() })] {
        // Four candidates are searched for.
        let learner = Learner { lambda: Lambda::Auto, held_back: 0.5, optimiser, ..Learner::default() };
        let mut patient = Impatient { stop_at: 2.0, ..Impatient::default() };
        let watched = learner.step_observed(&state, &logs, &mut patient).unwrap();
        assert_eq!(watched.0.current(), learner.step(&state, &logs).unwrap().0.current());
        assert!(patient.shares.is_sorted() && *patient.shares.last().unwrap() <= 1.0);
        let mut impatient = Impatient { stop_at: 0.3, ..Impatient::default() };
        let stopped = learner.step_observed(&state, &logs, &mut impatient);
        assert_eq!(stopped.unwrap_err(), Error::Stopped);
    }
    let plan = Learner::default().into();
    let mut patient = Impatient { stop_at: 2.0, ..Impatient::default() };
    simulate_observed(&world, first(&world, 0.3), &plan, &[100, 100], &mut patient, |_| ControlFlow::Continue(()))
        .unwrap();
    assert!(!patient.shares.is_empty());
    let mut rounds = 0;
    let stop_after_one = |_: &SimulatedRound| {
        rounds += 1;
        ControlFlow::Break(())
    };
    let stopped = simulate_observed(&world, first(&world, 0.3), &plan, &[100, 100], &mut patient, stop_after_one);
    assert_eq!((stopped.unwrap_err(), rounds), (Error::Stopped, 1));
}

#[test]
fn a_loop_that_is_resumed_goes_on_as_if_it_had_not_stopped() {
    let world = world();
    let settings = [
        (Algorithm::SeqAdjLs, Gate::Always, Family::Shaped),
        (Algorithm::SeqAdjLs, Gate::Improvement, Family::Isotropic),
        (Algorithm::BatchLs, Gate::Always, Family::PerFeature),
        (Algorithm::ShiftLs, Gate::Always, Family::Isotropic),
        (Algorithm::Scrm(Crm::default()), Gate::Always, Family::Isotropic),
        (Algorithm::Portfolio(Portfolio::thompson()), Gate::Always, Family::Isotropic),
        (Algorithm::Portfolio(Portfolio::thompson()), Gate::Improvement, Family::Shaped),
        (Algorithm::Portfolio(Portfolio::default()), Gate::Always, Family::Isotropic),
        (Algorithm::Portfolio(Portfolio::default()), Gate::Improvement, Family::Isotropic),
    ];
    for (algorithm, gate, family) in settings {
        // Doubling keeps lambda between its choices: that must survive too.
        let learner = Learner { lambda: Lambda::AutoDoubling, held_back: 0.5, family, ..quick(algorithm) };
        let mut session = Session::new(learner.clone(), gate, first(&world, 0.2)).unwrap();
        let round = |session: &mut Session, round: usize| {
            let logs = world.collect(session.running().as_ref(), Turn { round, start: 400 * round, n: 400 }).unwrap();
            session.take(logs, true, &mut Silent).unwrap()
        };
        // After three rounds, a reward model keeps the prior that it chose after two.
        for k in 0..3 {
            round(&mut session, k);
        }
        let mut again = Session::resume(learner.clone(), gate, session.checkpoint()).unwrap();
        for k in 3..5 {
            let (one, other) = (round(&mut session, k), round(&mut again, k));
            assert_eq!(session.current().identity(), again.current().identity(), "{algorithm:?}");
            assert_eq!((one.proven, one.promoted), (other.proven, other.promoted));
            assert_eq!((one.learned.members, one.handed_over), (other.learned.members, other.handed_over));
        }
        let mut torn = session.checkpoint();
        torn.deployed.pop();
        assert_eq!(
            Session::resume(learner, gate, torn).unwrap_err().to_string(),
            "the list of deployed policies should have 5 policies, one for each round, but has 4"
        );
        // Records that are not those of the ledger: two rounds of the same length, exchanged.
        let mut exchanged = session.checkpoint();
        exchanged.logs.swap(1, 3);
        let said = Session::resume(session.learner().clone(), gate, exchanged).unwrap_err().to_string();
        let [ours, theirs] = [1, 3].map(|round: usize| session.logs()[round].fingerprint());
        assert_eq!(said, format!("the fingerprint of round 1 should be {ours}, as its ledger says, but is {theirs}"));
    }
}

#[test]
fn a_round_is_prepared_run_elsewhere_and_committed_once() {
    let world = world();
    let session = || Session::new(quick(Algorithm::SeqAdjLs), Gate::Always, first(&world, 0.2)).unwrap();
    let collect = |session: &Session, round: usize| {
        let turn = Turn { round, start: 400 * round, n: 400 };
        world.collect(session.running().as_ref(), turn).unwrap()
    };
    let (mut apart, mut at_once) = (session(), session());
    for round in 0..2 {
        let logs = collect(&apart, round);
        let by = apart.running().identity().unwrap();
        let job = apart.prepare(logs.clone(), by, true).unwrap();
        // While it is learned from, the session answers as before.
        assert_eq!((apart.logs().len(), apart.running().identity()), (round, Some(by)));
        let other = job.clone();
        let done = std::thread::spawn(move || job.run(&mut Silent).unwrap()).join().unwrap();
        let stale = other.run(&mut Silent).unwrap();
        let promoted = done.report().promoted;
        assert_eq!(apart.commit(done).unwrap().promoted, promoted);
        assert_eq!(
            apart.commit(stale).unwrap_err().to_string(),
            "the job should be prepared from the current state of the session, but is prepared from an earlier state"
        );
        at_once.take(logs, true, &mut Silent).unwrap();
        assert_eq!(apart.running().identity(), at_once.running().identity());
        assert_eq!(apart.prove().unwrap(), at_once.prove().unwrap());
    }
    let unknown = Fingerprint::from_str(&"0".repeat(64)).unwrap();
    assert_eq!(
        apart.prepare(collect(&apart, 2), unknown, false).unwrap_err().to_string(),
        format!(
            "the logging policy of the round should be the running policy or one that was deployed before, but is {unknown}"
        )
    );
}

/// In a live loop the next round is collected by what ran already while a round was learned from. Rounds are then booked on
/// who collected them, and an incumbent that has collected nothing yet is not replaced by a gate that compares with it.
#[test]
fn a_round_belongs_to_the_policy_that_collected_it() {
    let world = world();
    let learner = Learner { held_back: 0.5, ..quick(Algorithm::SeqAdjLs) };
    for (gate, replaced) in [(Gate::Always, true), (Gate::NonInferiority { margin: 1.0 }, false)] {
        let mut session = Session::new(learner.clone(), gate, first(&world, 0.2)).unwrap();
        let start = Arc::clone(session.running());
        let collect = |round: usize| world.collect(start.as_ref(), Turn { round, start: 400 * round, n: 400 }).unwrap();
        assert!(session.take(collect(0), true, &mut Silent).unwrap().promoted);
        let promoted = session.running().identity();
        assert_ne!(promoted, start.identity());
        // The first policy was still deciding.
        let job = session.prepare(collect(1), start.identity().unwrap(), true).unwrap();
        let report = session.commit(job.run(&mut Silent).unwrap()).unwrap();
        assert_eq!((report.promoted, report.decided_by.is_some()), (replaced, false));
        let by: Vec<_> = session.deployed().iter().map(|policy| policy.identity()).collect();
        assert_eq!(by, [start.identity(), start.identity()]);
        // The newest policy may collect a round only if it runs.
        let newest = session.learned().last().and_then(|policy| policy.identity()).unwrap();
        assert_eq!(session.prepare(collect(2), newest, true).is_ok(), replaced);
        // What it proves is proven from logs and policies.
        let policies: Vec<_> = session.deployed().iter().chain([session.running()]).cloned().collect();
        let proven = session.prove().unwrap();
        for certificate in [proven.certificate.as_ref(), proven.ladder.as_ref()].into_iter().flatten() {
            assert_eq!(verify(certificate, &policies, session.logs()).unwrap(), []);
        }
    }
}

/// A service deploys at the boundary of a round. By the time its first round is complete, the next policy may be learned.
#[test]
fn a_policy_may_collect_a_round_after_the_next_one_was_learned() {
    let world = world();
    let learner = Learner { held_back: 0.5, ..quick(Algorithm::SeqAdjLs) };
    let mut session = Session::new(learner.clone(), Gate::Always, first(&world, 0.2)).unwrap();
    let collect = |policy: &Arc<dyn Policy>, round: usize| {
        world.collect(policy.as_ref(), Turn { round, start: 400 * round, n: 400 }).unwrap()
    };
    let mut take = |policy: &Arc<dyn Policy>, round: usize| {
        let job = session.prepare(collect(policy, round), policy.identity().unwrap(), true).unwrap();
        session.commit(job.run(&mut Silent).unwrap()).unwrap();
        Arc::clone(session.running())
    };
    let zero: Arc<dyn Policy> = Arc::new(first(&world, 0.2));
    let one = take(&zero, 0);
    let two = take(&zero, 1);
    // The policy that was learned from round 0 collects round 2, and one learned later runs.
    take(&one, 2);
    take(&two, 3);
    let by: Vec<_> = session.deployed().iter().map(|policy| policy.identity()).collect();
    assert_eq!(by, [zero.identity(), zero.identity(), one.identity(), two.identity()]);
    let again = Session::resume(learner, Gate::Always, session.checkpoint()).unwrap();
    assert_eq!(again.ledger(), session.ledger());
    let policies: Vec<_> = session.deployed().iter().chain([session.running()]).cloned().collect();
    let proven = session.prove().unwrap();
    for certificate in [proven.certificate.as_ref(), proven.ladder.as_ref()].into_iter().flatten() {
        assert_eq!(verify(certificate, &policies, session.logs()).unwrap(), []);
    }
}

/// A session, a search over all rounds and an audit all refuse propensities that no policy can have.
#[test]
fn propensities_that_no_policy_has_are_refused() {
    let world = world();
    let first = first(&world, 1.0);
    let logs = world.collect(&first, Turn { round: 0, start: 0, n: 2000 }).unwrap();
    let halved = logs.propensity().iter().map(|q| 0.5 * q).collect();
    let wrong =
        Logs::new(logs.actions(), logs.contexts().clone(), logs.action().to_vec(), halved, logs.cost().to_vec())
            .unwrap();
    let learner = quick(Algorithm::SeqLs);
    let mut session = surefoot::Session::new(learner.clone(), surefoot::Gate::Always, first.clone()).unwrap();
    let said = session.take(wrong.clone(), true, &mut Silent).unwrap_err().to_string();
    assert!(said.contains("the mean of 1/propensity is 2.0"), "{said}");
    assert_eq!(session.logs().len(), 0);
    let said = surefoot::learn::retrain(&learner, &first, &[logs.clone(), wrong.clone()], &mut Silent).unwrap_err();
    assert!(said.to_string().contains("the mean of 1/propensity is 2.0"), "{said}");
    let round =
        |logs: &Logs| surefoot::audit::AuditedRound { name: "round".into(), logs: logs.clone(), collected_by: None };
    let audited = |logs: &Logs| {
        surefoot::audit::audit(&surefoot::audit::Run { rounds: vec![round(logs)], ..Default::default() }, &[], || ())
    };
    assert!(audited(&logs).differences.iter().all(|said| !said.contains("1/propensity")));
    let report = audited(&wrong);
    assert!(!report.verified && report.differences[0].contains("the mean of 1/propensity is 2.0"), "{report:?}");
}

/// Without the policy that collected the first round, a gate would keep the first policy, which was never compared with
/// what runs: a step back that no certificate supports.
#[test]
fn a_gate_refuses_a_round_that_another_policy_collected() {
    let world = world();
    let turn = |round: usize| Turn { round, start: 400 * round, n: 400 };
    let production = world.collect(&first(&world, 2.0), turn(0)).unwrap();
    let gates = [Gate::Improvement, Gate::NonInferiority { margin: 0.1 }, Gate::CertifiedRisk];
    for gate in gates {
        let mut session = Session::new(quick(Algorithm::SeqAdjLs), gate, first(&world, 0.0)).unwrap();
        for refused in [
            session.take(production.clone(), false, &mut Silent).unwrap_err(),
            session.remember(production.clone()).unwrap_err(),
        ] {
            let said = refused.to_string();
            assert!(said.starts_with("row 0: propensity should be 0."), "{said}");
            let reason = format!(
                "because the gate {gate} keeps that policy if no other is better: give the policy that runs today as \
                 the first policy (prior), or none if you do not have it, but is {}",
                production.propensity()[0]
            );
            assert!(said.ends_with(&reason), "{said}");
        }
        assert_eq!(session.logs().len(), 0);
        // Its own round is taken, and then a round that somebody else collected is refused too.
        let own = world.collect(session.running().as_ref(), turn(0)).unwrap();
        session.take(own, false, &mut Silent).unwrap();
        assert!(session.take(world.collect(&first(&world, 2.0), turn(1)).unwrap(), false, &mut Silent).is_err());
    }
    // A gate that compares with nothing needs only the logged propensities.
    let mut session = Session::new(quick(Algorithm::SeqAdjLs), Gate::Always, first(&world, 0.0)).unwrap();
    assert!(session.take(production, false, &mut Silent).unwrap().promoted);
}

/// Its logged propensities are all that is known of the policy that runs. It stays until a policy is certified to be
/// better than what ran, and the prior of the search never runs.
#[test]
fn an_unknown_policy_runs_until_another_is_certified_to_be_better() {
    let world = world();
    let learner = Learner { held_back: 0.5, ..quick(Algorithm::SeqAdjLs) };
    let rounds = 4;
    let mut replaced = Vec::new();
    // With few records, nothing is certified to be better.
    for (alpha, n) in [(2.0, 200), (0.1, 2000)] {
        let (production, prior) = (first(&world, alpha), first(&world, 0.0));
        let mut session = Session::replacing_unknown(learner.clone(), Gate::Improvement, prior.clone()).unwrap();
        let mut statements = Vec::new();
        for round in 0..rounds {
            let turn = Turn { round, start: n * round, n };
            let unknown = session.runs_unknown();
            let running: &dyn Policy = if unknown { &production } else { session.running().as_ref() };
            let report = session.take(world.collect(running, turn).unwrap(), true, &mut Silent).unwrap();
            let decided = report.decided_by.unwrap();
            assert_eq!(report.promoted, decided.upper < 0.0);
            if unknown {
                // It is compared with what ran in the newest round.
                assert_eq!(decided.since.round, round);
                assert_eq!(report.proven.is_some(), report.promoted);
            }
            let mut state = |kind, certificate| statements.push(Statement { round: round + 1, kind, certificate });
            state(StatementKind::Gate, decided);
            if let Some(proven) = report.proven {
                proven.certificate.into_iter().for_each(|found| state(StatementKind::Certificate, found));
                proven.ladder.into_iter().for_each(|found| state(StatementKind::Ladder, found));
            }
            // It resumes at any time.
            let again = Session::resume(learner.clone(), Gate::Improvement, session.checkpoint()).unwrap();
            assert_eq!(again.running().identity(), session.running().identity());
            assert_eq!(again.newest(), session.newest());
        }
        assert!(session.deployed().iter().all(|policy| policy.identity() != Some(prior.fingerprint())));
        let truth = world.truth(rounds).unwrap();
        if session.runs_unknown() {
            assert!(session.prove().is_err() && truth.risk(session.running().as_ref()).is_err());
        } else {
            assert!(truth.risk(session.running().as_ref()).unwrap() < truth.risk(&production).unwrap());
        }
        replaced.push(!session.runs_unknown());
        let policies = session.learned().chain([session.running()]).chain(session.deployed()).cloned();
        let policies = policies.chain([Arc::new(prior) as Arc<dyn Policy>]);
        let mut run = Run {
            ledger: Some(session.ledger().clone()),
            rounds: (session.logs().iter().zip(session.deployed()))
                .map(|(logs, by)| AuditedRound {
                    name: "a round".into(),
                    logs: logs.clone(),
                    collected_by: by.identity(),
                })
                .collect(),
            policies: policies.map(|policy| AuditedPolicy { name: "a policy".into(), policy }).collect(),
            statements,
            reward_range: None,
        };
        let report = audit(&run, &[], || ());
        assert!(report.verified, "{:#?}", report.all_differences());
        assert!(report.certificates[0].trust.iter().any(|trust| trust.contains("whose logging policy is not given")));
        if session.runs_unknown() {
            // A policy of an earlier round would spend its share again.
            let earlier = session.learned().next().unwrap();
            let (since, share) = (Since::round(rounds - 1), Share::of_round(0, 0.8));
            let case = Case { rounds: session.logs(), since, protocol: &learner.protocol, share };
            run.statements[rounds - 1].certificate =
                Certificate::fixed(Smoothing::Adjusted, earlier.as_ref(), 2, &case).unwrap();
            let found = audit(&run, &[], || ()).all_differences();
            assert!(found.iter().any(|difference| difference.contains("no entry says since when")), "{found:#?}");
        }
    }
    assert_eq!(replaced, [false, true]);
    for gate in [Gate::Always, Gate::CertifiedRisk] {
        assert!(Session::replacing_unknown(learner.clone(), gate, first(&world, 0.0)).is_err());
    }
    // In a session that knows what runs, every round names its policy.
    let session = Session::new(learner, Gate::Improvement, first(&world, 0.0)).unwrap();
    let logs = world.collect(session.running().as_ref(), Turn { round: 0, start: 0, n: 100 }).unwrap();
    assert!(session.prepare(logs, None, false).unwrap_err().to_string().contains("but is unknown"));
}
