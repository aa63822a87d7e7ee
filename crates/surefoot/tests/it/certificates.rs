//! Certificates of policies: the reference's numbers, and those of whole loops.

use serde::Deserialize;
use std::sync::Arc;

use surefoot::certificate::{Case, Combine, Quantity, Smoothing, verify};
use surefoot::learn::Family;
use surefoot::optim::{Adam, Decay, Optimiser};
use surefoot::policy::{Posterior, Scale};
use surefoot::simulate::{Certify, Outcome, Plan};
use surefoot::worlds::{Synthetic, SyntheticSettings};
use surefoot::{
    Algorithm, Certificate, Contexts, FeatureMap, Gate, Lambda, Learner, LinearGaussian, Logs, Policy, Protocol,
    simulate,
};

#[derive(Deserialize)]
#[serde(untagged)]
enum Scales {
    One(f64),
    Each(Vec<f64>),
}

#[derive(Deserialize)]
struct Gaussian {
    mean: Vec<f64>,
    scale: Scales,
}

#[derive(Deserialize)]
struct Expected {
    upper: f64,
    lambda: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Subject {
    actions: usize,
    features: usize,
    contexts: Vec<f32>,
    rounds: Vec<usize>,
    exploration: f64,
    prior: Gaussian,
    policy: Gaussian,
    action: Vec<u32>,
    p: Vec<f64>,
    q: Vec<f64>,
    c: Vec<f64>,
    delta: f64,
    lambdas: Vec<f64>,
    kl: f64,
    ls: Expected,
    adjusted: Expected,
    fixed_ls: Expected,
    fixed_adjusted: Expected,
}

#[derive(Deserialize)]
struct Reference {
    policies: Vec<Subject>,
}

impl Subject {
    fn policy(&self, Gaussian { mean, scale }: &Gaussian) -> LinearGaussian {
        let scale = match scale {
            Scales::One(sigma) => Scale::Shared(*sigma),
            Scales::Each(sigmas) => Scale::PerFeature(sigmas.clone()),
        };
        let posterior = Posterior::new(self.actions, mean.clone(), scale).unwrap();
        let policy = LinearGaussian::new(FeatureMap::identity(self.features), posterior).unwrap();
        policy.with_exploration(self.exploration).unwrap()
    }

    fn rounds(&self) -> Vec<Logs> {
        let contexts = Contexts::dense(self.contexts.clone(), self.features).unwrap();
        let columns = (self.action.clone(), self.q.clone(), self.c.clone());
        let all = Logs::new(self.actions, contexts, columns.0, columns.1, columns.2).unwrap();
        let mut start = 0;
        let mut next = |n: &usize| {
            start += n;
            all.slice(start - n..start)
        };
        self.rounds.iter().map(&mut next).collect()
    }
}

#[test]
fn the_certificates_of_policies_are_the_reference_s() {
    let path = format!("{}/tests/golden/certificates.json", env!("CARGO_MANIFEST_DIR"));
    let Reference { policies } = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(policies.len(), 6);
    for (i, case) in policies.iter().enumerate() {
        let (policy, prior, rounds) = (case.policy(&case.policy), case.policy(&case.prior), case.rounds());
        let p = rounds.iter().flat_map(|logs| policy.propensity(logs.contexts(), logs.action(), None).unwrap());
        assert!(p.zip(&case.p).all(|(p, expected)| (p - expected).abs() <= 1e-9 * expected), "case {i}");
        let (delta, lambdas, combine) = (case.delta, case.lambdas.clone(), Combine::Union);
        let protocol = Protocol { delta, lambdas, combine, ..Protocol::default() };
        let whole = Case::whole(&rounds, &protocol);
        for (found, expected, kl) in [
            (Certificate::risk(&policy, &prior, &whole), &case.ls, case.kl),
            (Certificate::difference(&policy, &prior, &whole), &case.adjusted, case.kl),
            (Certificate::fixed(Smoothing::Ls, &policy, 1, &whole), &case.fixed_ls, 0.0),
            (Certificate::fixed(Smoothing::Adjusted, &policy, 1, &whole), &case.fixed_adjusted, 0.0),
        ] {
            let found = found.unwrap();
            let what = format!("case {i}, {:?}", found.theorem);
            assert!((found.kl - kl).abs() <= 1e-12 * (1.0 + kl), "{what}: {} {kl}", found.kl);
            assert_eq!(found.lambda, expected.lambda, "{what}");
            // The error that was allowed for is in it, and the sum may be off by as much; psi has this slope.
            let most = expected.upper + 2.0 * found.numerical * (1.0 - found.lambda * expected.upper) + 1e-13;
            assert!(found.upper >= expected.upper && found.upper <= most, "{what}: {} {}", found.upper, expected.upper);
            assert!(found.numerical < 1e-7 && found.vacuous == (expected.upper >= 0.0));
        }
    }
}

fn learner(algorithm: Algorithm, family: Family) -> Learner {
    let adam = Adam { learning_rate: 0.05, decay: Decay::Linear, epochs: 20, ..Adam::default() };
    Learner {
        algorithm,
        family,
        lambda: Lambda::Auto,
        held_back: 0.3,
        optimiser: Optimiser::Adam(adam),
        ..Learner::default()
    }
}

fn run(plan: &Plan, sizes: &[usize], exploration: f64) -> Outcome {
    let world = Synthetic::new(SyntheticSettings { features: 4, actions: 3, seed: 5, ..SyntheticSettings::default() });
    let world = world.unwrap();
    let first = world.first_policy(FeatureMap::identity(4), 0.3).unwrap().with_exploration(exploration).unwrap();
    simulate(&world, first, plan, sizes, |_| {}).unwrap()
}

#[test]
fn what_a_loop_certifies_is_true_and_verifies() {
    for (algorithm, shape, gate) in [
        (Algorithm::SeqAdjLs, Family::Shaped, Gate::Always),
        (Algorithm::SeqLs, Family::PerFeature, Gate::CertifiedRisk),
        (Algorithm::SeqAdjLs, Family::Isotropic, Gate::Improvement),
        (Algorithm::BatchLs, Family::Shaped, Gate::Always),
        (Algorithm::ShiftAdjLs, Family::Shaped, Gate::Always),
        (Algorithm::SeqAdjLs, Family::PerFeature, Gate::NonInferiority { margin: 0.05 }),
    ] {
        let plan = Plan { learner: learner(algorithm, shape), gate, certify: Certify::Each };
        let outcome = run(&plan, &[400, 300, 800], 0.1);
        let (mut policies, logs) = (outcome.policies(), outcome.session.logs().to_vec());
        let Outcome { rounds, session, .. } = outcome;
        // Where nothing is ever redeployed, what is judged is the candidate.
        policies.push(Arc::new(session.newest().clone()));
        let prints: Vec<_> = policies.iter().map(|policy| policy.identity().unwrap()).collect();
        for round in &rounds {
            let judged = round.proven.as_ref().unwrap();
            let ladder = judged.ladder.as_ref();
            let decided = round.decision.as_ref().and_then(|d| d.certificate.as_ref());
            for certificate in [judged.certificate.as_ref(), ladder, decided].into_iter().flatten() {
                let what = format!("{algorithm:?} {shape:?} {gate:?} {:?}", certificate.theorem);
                // No risk is below that of the best policy.
                assert!(certificate.bounds != Quantity::Risk || certificate.upper >= -0.8, "{what}");
                // Challengers that were never promoted are not among the policies.
                if certificate.policies.iter().flatten().all(|print| prints.contains(print)) {
                    assert_eq!(verify(certificate, &policies, &logs).unwrap(), [], "{what}");
                }
            }
            assert!(ladder.is_none_or(|ladder| ladder.upper > round.true_risk), "{algorithm:?} {shape:?} {gate:?}");
        }
        let last = rounds[2].proven.as_ref().unwrap();
        // The last one alone says the same of itself.
        let alone = run(&Plan { certify: Certify::Last, ..plan }, &[400, 300, 800], 0.1).rounds;
        assert!(alone[0].proven.is_none() && alone[1].proven.is_none() && alone[2].proven.as_ref() == Some(last));
        if gate == Gate::Always {
            assert!(!last.ladder.as_ref().unwrap().vacuous, "{algorithm:?}");
            assert_eq!(verify(last.ladder.as_ref().unwrap(), &policies, &logs).unwrap(), []);
            assert_eq!(verify(last.certificate.as_ref().unwrap(), &policies, &logs).unwrap(), []);
        }
    }
}

#[test]
fn a_gate_keeps_the_incumbent_until_a_challenger_is_shown_to_be_better() {
    let plan = |gate| Plan { learner: learner(Algorithm::SeqAdjLs, Family::Isotropic), gate, certify: Certify::Never };
    let outcome = run(&plan(Gate::Improvement), &[40, 4000, 40], 0.05);
    let (policies, rounds) = (outcome.policies(), outcome.rounds);
    let promoted: Vec<bool> = rounds.iter().map(|r| r.decision.as_ref().unwrap().promoted).collect();
    assert_eq!(promoted, [false, true, false]);
    let same = |i: usize, j: usize| policies[i].identity() == policies[j].identity();
    assert!(same(0, 1) && !same(1, 2) && same(2, 3));
    assert!(rounds[1].true_risk < rounds[0].true_risk && rounds[1].true_risk == rounds[2].true_risk);
    let open = run(&plan(Gate::Always), &[40, 40], 0.05);
    assert!(
        open.rounds.iter().all(|r| r.decision.is_none())
            && open.policies()[0].identity() != open.policies()[1].identity()
    );
}
