//! Policies over candidates with features, in a world of articles.

use std::sync::Arc;

use crate::forgeries;
use surefoot::features::{Cross, Joint};
use surefoot::learn::Portfolio;
use surefoot::logs::Eligible;
use surefoot::model::JointModel;
use surefoot::policy::{Posterior, Scale};
use surefoot::simulate::{Certify, Outcome, Plan};
use surefoot::worlds::{Articles, ArticlesSettings, Environment, Turn};
use surefoot::{
    Algorithm, Contexts, FeatureMap, Gate, Lambda, Learner, LinearGaussian, Logs, Policy, Session, simulate,
};

fn plan(algorithm: Algorithm, gate: Gate) -> Plan {
    let learner = Learner { algorithm, lambda: Lambda::Auto, ..Learner::default() };
    let held_back = learner.usually_held_back(gate);
    Plan { learner: Learner { held_back, ..learner }, gate, certify: Certify::Each }
}

fn run(world: &Articles, algorithm: Algorithm, gate: Gate, sizes: &[usize]) -> Outcome {
    simulate(world, world.first_policy().unwrap(), &plan(algorithm, gate), sizes, |_| {}).unwrap()
}

fn portfolio() -> Algorithm {
    Algorithm::Portfolio(Portfolio::default())
}

#[test]
fn a_loop_over_articles_learns_what_to_show_and_every_certificate_holds() {
    for replaced_after in [0, 300] {
        let world = Articles::new(ArticlesSettings { replaced_after, ..ArticlesSettings::default() }).unwrap();
        let truth = world.truth(0).unwrap();
        let (first, best) = (truth.risk(&world.first_policy().unwrap()).unwrap(), truth.optimal_risk());
        let outcome = run(&world, portfolio(), Gate::Always, &[300; 6]);
        let last = outcome.rounds[5].hand_over.as_ref().unwrap();
        let gain = (first - last.true_risk) / (first - best);
        assert!(gain > 0.85, "{replaced_after}: {gain}");
        for round in &outcome.rounds {
            let proven = round.proven.as_ref().unwrap();
            assert!(proven.certificate.is_none(), "scores of candidates have no divergence");
            let ladder = proven.ladder.as_ref().unwrap();
            assert!(ladder.upper > round.true_risk && ladder.upper < 0.0, "{} {}", ladder.upper, round.true_risk);
            let hand_over = round.hand_over.as_ref().unwrap();
            assert!(hand_over.certificate.as_ref().unwrap().upper > hand_over.true_risk);
        }
        assert_eq!(forgeries::differences(&forgeries::run(&outcome), &[]), Vec::<String>::new());
    }
}

#[test]
fn the_search_learns_over_candidates_and_the_gate_promotes() {
    let world = Articles::new(ArticlesSettings { features: 3, strength: 3.0, ..ArticlesSettings::default() }).unwrap();
    let truth = world.truth(0).unwrap();
    let first = truth.risk(&world.first_policy().unwrap()).unwrap();
    for (algorithm, gate) in [(Algorithm::SeqAdjLs, Gate::Always), (Algorithm::SeqLs, Gate::Improvement)] {
        let outcome = run(&world, algorithm, gate, &[400; 4]);
        let last = outcome.rounds.last().unwrap();
        assert!(last.true_risk < first - 0.05, "{algorithm:?}: {} {first}", last.true_risk);
        assert_eq!(forgeries::differences(&forgeries::run(&outcome), &[]), Vec::<String>::new());
        assert!(gate == Gate::Always || outcome.rounds.iter().any(|round| round.decision.as_ref().unwrap().promoted));
    }
}

#[test]
fn a_loop_over_candidates_goes_on_from_its_checkpoint_as_if_it_had_not_stopped() {
    let world = Articles::new(ArticlesSettings::default()).unwrap();
    let plan = plan(portfolio(), Gate::Always);
    let outcome = run(&world, portfolio(), Gate::Always, &[200; 3]);
    let two = run(&world, portfolio(), Gate::Always, &[200; 2]).session;
    let mut session = Session::resume(plan.learner.clone(), plan.gate, two.checkpoint()).unwrap();
    let turn = Turn { round: 2, start: 400, n: 200 };
    let logs = world.collect(session.running().as_ref(), turn).unwrap();
    let before = session.ledger().clone();
    session.take(logs, true, &mut surefoot::observer::Silent).unwrap();
    assert_ne!(&before, session.ledger());
    assert_eq!(session.running().identity(), outcome.session.running().identity());
    assert_eq!(session.hand_over(), outcome.session.hand_over());
}

/// A policy over `k` actions, and the same as a policy over candidates that are their one-hot identities.
fn twins(k: usize) -> (LinearGaussian, LinearGaussian) {
    let features = 3;
    let mean: Vec<f64> = (0..features * k).map(|i| ((i * 37) % 11) as f64 / 5.0 - 1.0).collect();
    let plain = Posterior::new(k, mean.clone(), Scale::Shared(0.7)).unwrap();
    let plain = LinearGaussian::new(FeatureMap::identity(features), plain).unwrap().with_exploration(0.1).unwrap();
    // Joint features are context-major, as the mean is feature-major.
    let joint = Joint::new(features, k, vec![], vec![Cross { context: 0..features, candidate: 0..k }], 18).unwrap();
    let joined = Posterior::over_candidates(mean, Scale::Shared(0.7)).unwrap();
    let joined = LinearGaussian::over_candidates(FeatureMap::identity(features), joint, k, joined).unwrap();
    (plain, joined.with_exploration(0.1).unwrap())
}

#[test]
fn identities_alone_give_the_linear_policy_of_the_paper() {
    let k = 5;
    let (plain, joined) = twins(k);
    let contexts = Contexts::dense((0..30).map(|i| ((i * 29) % 17) as f32 / 8.0 - 1.0).collect(), 3).unwrap();
    let one_hot: Vec<f32> = (0..10 * k * k).map(|i| if (i / k) % k == i % k { 1.0 } else { 0.0 }).collect();
    let everything = Eligible::candidates((0..=10).map(|i| i * k).collect(), Contexts::dense(one_hot, k).unwrap());
    let everything = everything.unwrap();
    let (expected, found) =
        (plain.distribution(&contexts, None).unwrap(), joined.distribution(&contexts, Some(&everything)).unwrap());
    assert!(expected.iter().zip(&found).all(|(a, b)| (a - b).abs() < 1e-9));
    let action: Vec<u32> = (0..10).map(|i| i % k as u32).collect();
    let (expected, found) = (
        plain.propensity(&contexts, &action, None).unwrap(),
        joined.propensity(&contexts, &action, Some(&everything)).unwrap(),
    );
    assert!(expected.iter().zip(&found).all(|(a, b)| (a / b - 1.0).abs() < 1e-9));

    // Eligible actions are candidates too: actions 1 and 3 of each record, in any order.
    let two: Vec<f32> = (0..10).flat_map(|_| [0., 0., 0., 1., 0., 0., 1., 0., 0., 0.]).collect();
    let two = Eligible::candidates((0..=10).map(|i| 2 * i).collect(), Contexts::dense(two, k).unwrap()).unwrap();
    let sets = Eligible::new(vec![[1, 3]; 10]).unwrap();
    let (expected, found) =
        (plain.distribution(&contexts, Some(&sets)).unwrap(), joined.distribution(&contexts, Some(&two)).unwrap());
    for (expected, found) in expected.chunks_exact(k).zip(found.chunks_exact(k)) {
        assert!((expected[3] - found[0]).abs() < 1e-9 && (expected[1] - found[1]).abs() < 1e-9);
    }
}

#[test]
fn the_order_of_candidates_does_not_matter_and_decisions_follow_the_propensities() {
    let world = Articles::new(ArticlesSettings { candidates: 3, ..ArticlesSettings::default() }).unwrap();
    let first = world.first_policy().unwrap();
    let logs = world.collect(&first, Turn { round: 0, start: 0, n: 400 }).unwrap();
    let joint = first.joint().unwrap();
    let model = JointModel::fit(first.features(), joint, &[Arc::new(logs)]).unwrap();
    let policy = model.policy(3, 1.0).unwrap().with_exploration(0.05).unwrap();
    let candidates = [[0.3, 1.0, 0.0, 0.0, -1.0, 0.5, 0.0, 0.2], [0.0; 8], [1.0, -0.5, 0.3, 0.0, 0.0, 0.0, 2.0, 0.0]];
    let user = [0.5, -1.0, 0.0, 0.0, 2.0, 0.1, 0.4, 0.0];
    let n = 20_000;
    let contexts = |n: usize| Contexts::dense(user.repeat(n), 8).unwrap();
    let set = |order: [usize; 3], n: usize| {
        let rows = order.iter().flat_map(|&b| candidates[b]).collect::<Vec<f32>>().repeat(n);
        Eligible::candidates((0..=n).map(|i| 3 * i).collect(), Contexts::dense(rows, 8).unwrap()).unwrap()
    };
    let p = policy.distribution(&contexts(1), Some(&set([0, 1, 2], 1))).unwrap();
    let turned = policy.distribution(&contexts(1), Some(&set([2, 0, 1], 1))).unwrap();
    assert!((p[0] - turned[1]).abs() < 1e-9 && (p[1] - turned[2]).abs() < 1e-9 && (p[2] - turned[0]).abs() < 1e-9);
    let decisions = policy.decide(&contexts(n), Some(&set([0, 1, 2], n)), 7).unwrap();
    for (a, p) in p.iter().enumerate() {
        let share = decisions.iter().filter(|d| d.action as usize == a).count() as f64 / n as f64;
        assert!((share - p).abs() < 4.0 * (p * (1.0 - p) / n as f64).sqrt(), "{a}: {share} {p}");
        assert!(decisions.iter().filter(|d| d.action as usize == a).all(|d| (d.propensity / p - 1.0).abs() < 1e-8));
    }
}

#[test]
fn a_candidate_without_known_features_is_explored() {
    let world = Articles::new(ArticlesSettings { candidates: 2, ..ArticlesSettings::default() }).unwrap();
    let first = world.first_policy().unwrap();
    let logs = world.collect(&first, Turn { round: 0, start: 0, n: 1000 }).unwrap();
    // One more candidate feature, which no record has.
    let rows: Vec<f32> = (0..1000)
        .flat_map(|i| (0..2).map(move |a| (i, a)))
        .flat_map(|(i, a)| {
            let mut row = vec![0.0; 9];
            logs.eligible().unwrap().candidate(i, a).unwrap().for_each(|f, v| row[f] = v as f32);
            row
        })
        .collect();
    let eligible =
        Eligible::candidates((0..=1000).map(|i| 2 * i).collect(), Contexts::dense(rows, 9).unwrap()).unwrap();
    let logs =
        Logs::new(2, logs.contexts().clone(), logs.action().to_vec(), logs.propensity().to_vec(), logs.cost().to_vec());
    let logs = logs.unwrap().with_eligible(eligible).unwrap();
    for bits in [18, 6] {
        let joint = Joint::full(8, 9, bits).unwrap();
        let policy = JointModel::fit(&FeatureMap::identity(8), &joint, &[Arc::new(logs.clone())]).unwrap();
        let policy = policy.policy(2, 1.0).unwrap();
        let p = |feature: usize| {
            let mut rows = vec![0.0; 18];
            rows[feature] = 0.5;
            rows[9 + 1] = 0.5;
            let set = Eligible::candidates(vec![0, 2], Contexts::dense(rows, 9).unwrap()).unwrap();
            policy.distribution(&Contexts::dense(vec![0.5; 8], 8).unwrap(), Some(&set)).unwrap()[0]
        };
        // Against the same other candidate, the unknown one is the least certain of all.
        let uncertainty = |p: f64| (p - 0.5).abs();
        assert!(bits < 18 || (2..8).filter(|&f| uncertainty(p(f)) < uncertainty(p(8))).count() <= 2);
        assert!(p(8) > 0.02, "{}", p(8));
    }
}

#[test]
fn records_without_candidates_and_policies_without_a_divergence_are_refused() {
    let world = Articles::new(ArticlesSettings::default()).unwrap();
    let first = world.first_policy().unwrap();
    let users = Contexts::dense(vec![0.0; 8], 8).unwrap();
    let text = first.distribution(&users, None).unwrap_err().to_string();
    assert_eq!(text, "the records should be with candidates that have features, as the policy needs, but is without");
    let narrow = Eligible::candidates(vec![0, 2], Contexts::dense(vec![0.0; 4], 2).unwrap()).unwrap();
    let text = first.distribution(&users, Some(&narrow)).unwrap_err().to_string();
    assert_eq!(text, "candidates should have 8 features, as the policy, but has 2");
    let text = first.kl(&first).unwrap_err().to_string();
    assert_eq!(text, "a policy with a divergence should be over actions, but is over candidates");
    assert!(first.with_most_candidates(20).unwrap().fingerprint() == first.fingerprint());
}
