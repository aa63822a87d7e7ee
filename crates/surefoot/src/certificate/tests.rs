//! The theorems as properties of the bound, and the contract of every function of the module.

mod chain;
mod forgery;
mod gate;
mod golden;

use super::*;
use crate::contexts::Contexts;
use crate::features::FeatureMap;
use crate::logs::Eligible;
use crate::math::random::{Purpose, stream};
use crate::policy::{Mixture, Posterior, Scale, Softmax};
use proptest::prelude::*;
use rand::RngExt;
use std::sync::Arc;

#[test]
fn rounds_are_counted_from_1_in_texts() {
    assert_eq!(Since { round: 1, record: 1860 }.to_string(), "record 1860 of round 2");
}

/// In the world of these tests, the best of 3 actions is the one with the largest of 3 features. A policy of strength
/// above 0 prefers it.
fn policy(strength: f64) -> LinearGaussian {
    let mean = (0..9).map(|i| if i % 4 == 0 { strength } else { 0.0 }).collect();
    gaussian(Posterior::new(3, mean, Scale::Shared(1.0)).unwrap())
}

fn gaussian(posterior: Posterior) -> LinearGaussian {
    LinearGaussian::new(FeatureMap::identity(3), posterior).unwrap()
}

/// The logs of a policy in that world: the best action costs -1 with probability 0.9, any other with probability 0.1.
fn collect(policy: &dyn Policy, n: usize, seed: u64) -> Logs {
    let mut rng = stream(seed, Purpose::World, 1);
    let x: Vec<f32> = (0..3 * n).map(|_| 2.0 * rng.random::<f32>() - 1.0).collect();
    let contexts = Contexts::dense(x.clone(), 3).unwrap();
    let decisions = policy.decide(&contexts, None, seed).unwrap();
    let cost = x.chunks(3).zip(&decisions).map(|(x, d)| {
        let best = x.iter().all(|&other| x[d.action as usize] >= other);
        if rng.random::<f64>() < if best { 0.9 } else { 0.1 } { -1.0 } else { 0.0 }
    });
    let cost = cost.collect();
    let (action, propensity) = decisions.iter().map(|d| (d.action, d.propensity)).unzip();
    Logs::new(3, contexts, action, propensity, cost).unwrap()
}

/// A protocol with the union over lambdas.
fn protocol(lambdas: &[f64], form: Form) -> Protocol {
    Protocol { lambdas: lambdas.to_vec(), form, ..union() }
}

fn union() -> Protocol {
    Protocol { combine: Combine::Union, ..Protocol::default() }
}

/// A protocol that mixes lambdas.
fn mixed(lambdas: &[f64]) -> Protocol {
    Protocol { lambdas: lambdas.to_vec(), ..Protocol::default() }
}

fn text<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

/// The most by which the bound rises from `upper` when its argument grows by `by`. `psi` is concave, and its slope at
/// the value `upper` is `1 - lambda upper`.
fn rise(form: Form, lambda: f64, upper: f64, by: f64) -> f64 {
    let slope = if form == Form::Psi { 1.0 - lambda * upper } else { 1.0 };
    by * slope + 1e-13 * (1.0 + upper.abs())
}

type Records = Vec<(f64, f64, f64)>;

/// `p`, `q` and `c` of records; some cost nothing.
fn records() -> impl Strategy<Value = Records> {
    let cost = prop_oneof![1 => Just(0.0), 3 => -1.0..=0.0];
    prop::collection::vec((0.0..=1.0, 0.01..=1.0, cost), 1..60)
}

fn evidence(records: &[(f64, f64, f64)]) -> Weighed {
    let column = |of: fn(&(f64, f64, f64)) -> f64| -> Vec<f64> { records.iter().map(of).collect() };
    Weighed::of(&column(|r| r.0), &column(|r| r.1), &column(|r| r.2))
}

fn wanted(factors: &[Factor], lambdas: &[f64]) -> Vec<Wanted> {
    factors.iter().map(|&factor| Wanted::new(factor, lambdas)).collect()
}

/// The bound from the records of some rounds.
fn bound_of(
    rounds: &[Weighed],
    smoothing: Smoothing,
    subject: Subject,
    protocol: &Protocol,
    delta: f64,
) -> Result<Bound> {
    let wanted = wanted(&[Factor { smoothing, fixed: matches!(subject, Subject::Fixed { .. }) }], &protocol.lambdas);
    let mut all = Evidence::none(&wanted);
    rounds.iter().for_each(|round| all.merge(&round.evidence(&wanted)));
    // These records are any numbers, also impossible ones.
    super::bound::inequality(&all, smoothing, subject, protocol, delta)
}

fn smoothing() -> impl Strategy<Value = Smoothing> {
    prop_oneof![Just(Smoothing::Ls), Just(Smoothing::Adjusted)]
}

fn form() -> impl Strategy<Value = Form> {
    prop_oneof![Just(Form::Psi), Just(Form::Plain)]
}

fn judged() -> impl Strategy<Value = Subject> {
    prop_oneof![
        (0.0..20.0).prop_map(|kl| Subject::Posterior { kl, error: 0.0, turned: false }),
        (1usize..100).prop_map(|size| Subject::Fixed { size })
    ]
}

proptest! {
    #[test]
    fn psi_lies_between_that_of_the_estimate_and_the_plain_form(
        records in records(), smoothing in smoothing(), judged in judged(), lambda in 0.001..0.999, delta in 0.001..0.999,
    ) {
        let evidence = [evidence(&records)];
        let at = |form| bound_of(&evidence, smoothing, judged, &protocol(&[lambda], form), delta).unwrap();
        let (psi, plain) = (at(Form::Psi), at(Form::Plain));
        prop_assert!(psi.upper <= plain.upper);
        prop_assert!(psi.upper > Form::Psi.apply(lambda, psi.estimate));
        prop_assert!(plain.upper > plain.estimate && plain.numerical >= 0.0);
    }

    #[test]
    fn more_confidence_and_more_divergence_cost_more(
        records in records(), smoothing in smoothing(), form in form(), delta in 0.001..0.5, kl in 0.0..20.0,
        more in 1.01..2.0,
    ) {
        let evidence = [evidence(&records)];
        let at = |kl, delta| {
            let judged = Subject::Posterior { kl, error: 0.0, turned: false };
            let at = |protocol: &Protocol| bound_of(&evidence, smoothing, judged, protocol, delta).unwrap().upper;
            [at(&protocol(&[0.3, 0.03], form)), at(&mixed(&[0.3, 0.03]))]
        };
        for i in 0..2 {
            prop_assert!(at(kl, delta)[i] <= at(kl, delta / more)[i]);
            prop_assert!(at(kl, delta)[i] <= at(kl + more, delta)[i]);
        }
    }

    /// And never below the bound of the best lambda alone: that one would be a union that costs nothing.
    #[test]
    fn a_mixture_is_never_above_the_union(
        records in records(), smoothing in smoothing(), judged in judged(), delta in 0.001..0.5,
        grid in prop::collection::vec(0.001..0.999, 1..6),
    ) {
        let evidence = [evidence(&records)];
        let at = |protocol: &Protocol| bound_of(&evidence, smoothing, judged, protocol, delta).unwrap().upper;
        let (mixture, union) = (at(&mixed(&grid)), at(&protocol(&grid, Form::Psi)));
        let alone = grid.iter().map(|&lambda| at(&protocol(&[lambda], Form::Psi))).fold(f64::INFINITY, f64::min);
        prop_assert!(mixture <= union);
        prop_assert!(mixture >= alone - 1e-12 * (1.0 + alone.abs()), "{mixture} {alone}");
    }

    #[test]
    fn a_grid_costs_no_more_than_the_logarithm_of_its_length(
        records in records(), smoothing in smoothing(), judged in judged(), form in form(),
        grid in prop::collection::vec(0.001..0.999, 1..6),
    ) {
        let evidence = [evidence(&records)];
        let best = bound_of(&evidence, smoothing, judged, &protocol(&grid, form), 0.05).unwrap();
        for &lambda in &grid {
            let delta = 0.05 / grid.len() as f64;
            let alone = bound_of(&evidence, smoothing, judged, &protocol(&[lambda], form), delta).unwrap().upper;
            prop_assert!(best.upper <= alone + 1e-12 * (1.0 + alone.abs()), "{best:?} {alone}");
            prop_assert!(lambda != best.lambda || (best.upper - alone).abs() <= 1e-12 * (1.0 + alone.abs()));
        }
    }

    #[test]
    fn a_fixed_policy_is_no_dearer_than_a_posterior_at_its_prior(
        records in records(), smoothing in smoothing(), form in form(), lambda in 0.001..0.999,
    ) {
        let evidence = [evidence(&records)];
        let at = |judged| bound_of(&evidence, smoothing, judged, &protocol(&[lambda], form), 0.05).unwrap();
        let (fixed, posterior) = (at(Subject::Fixed { size: 1 }), at(Subject::Posterior { kl: 0.0, error: 0.0, turned: false }));
        let slack = rise(form, lambda, posterior.upper, fixed.numerical);
        prop_assert!(fixed.upper <= posterior.upper + slack, "{fixed:?} {posterior:?}");
    }

    #[test]
    fn it_does_not_matter_where_rounds_are_cut(
        records in records(), cut: prop::sample::Index, smoothing in smoothing(), judged in judged(),
    ) {
        let cut = cut.index(records.len() + 1);
        let parts = [evidence(&records[..cut]), evidence(&records[cut..])];
        let whole = [evidence(&records)];
        let wanted = wanted(&[Factor { smoothing, fixed: true }], &[0.3]);
        let [before, after] = whole[0].split(cut, &wanted);
        prop_assert_eq!([&before, &after], [&parts[0].evidence(&wanted), &parts[1].evidence(&wanted)]);
        let at = |evidence: &[Weighed]| bound_of(evidence, smoothing, judged, &protocol(&[0.3], Form::Psi), 0.05).unwrap();
        let (one, two) = (at(&whole), at(&parts));
        prop_assert_eq!(one.records, two.records);
        prop_assert!((one.upper - two.upper).abs() <= 1e-14 * (1.0 + one.upper.abs()), "{one:?} {two:?}");
    }

    /// The quadrature guarantees a relative error of 1e-9 for computed and logged propensities.
    #[test]
    fn the_bound_allows_for_the_error_of_every_propensity(
        records in records(), errors in prop::collection::vec((-1e-9..=1e-9, -1e-9..=1e-9), 60), smoothing in smoothing(),
        judged in judged(), form in form(), lambda in 0.001..0.999, extreme: bool,
    ) {
        let push = |e: f64| if extreme { 1e-9 } else { e };
        let moved: Records =
            records.iter().zip(&errors).map(|(r, e)| (r.0 * (1.0 - push(e.0)), r.1 * (1.0 + push(e.1)), r.2)).collect();
        let at = |records| {
            let protocol = protocol(&[lambda], form);
            bound_of(&[evidence(records)], smoothing, judged, &protocol, 0.05).unwrap()
        };
        let (found, other) = (at(&records), at(&moved));
        let allowed = rise(form, lambda, found.upper.min(other.upper), found.numerical);
        prop_assert!((found.upper - other.upper).abs() <= allowed, "{found:?} {other:?}");
    }
}

#[test]
fn records_of_cost_zero_only_count() {
    let said = |filler: f64| evidence(&[(0.3, 0.5, -0.7), (filler, filler, 0.0), (0.2, 0.9, -0.1)]);
    assert_eq!(said(0.1), said(0.9));
    assert_eq!(said(0.1).evidence(&wanted(&[Factor::LS], &[0.1])).records(), 3);
    // The policy is not asked about these records either: it would reject their contexts.
    let logs = |filler: f32| {
        let contexts = Contexts::dense(vec![1.0, 0.5, 0.0, filler, filler, filler], 3).unwrap();
        Logs::new(3, contexts, vec![0, 1], vec![0.5, 0.5], vec![-1.0, 0.0]).unwrap()
    };
    let steep = gaussian(Posterior::new(3, vec![1e300; 9], Scale::Shared(1.0)).unwrap());
    assert_eq!(text(steep.propensity(logs(3e38).contexts(), &[0, 1], None)), {
        "row 1: the score of action 0 should be finite, but is inf"
    });
    assert_eq!(Weighed::new(&steep, &logs(3e38)).unwrap(), Weighed::new(&steep, &logs(0.0)).unwrap());
}

#[test]
fn evidence_since_a_record_is_that_of_the_records_after_it() {
    let logs = collect(&policy(0.5), 300, 1);
    let all = Weighed::new(&policy(2.0), &logs).unwrap();
    let wanted = wanted(&[Factor::LS, Factor { smoothing: Smoothing::Adjusted, fixed: true }], &[0.9, 0.1]);
    for record in [0, 1, 7, 150, 299, 300] {
        let said = |range| Weighed::new(&policy(2.0), &logs.slice(range)).unwrap().evidence(&wanted);
        assert_eq!(all.split(record, &wanted), [said(0..record), said(record..300)], "{record}");
    }
    let (protocol, rounds) = (Protocol::default(), [logs.slice(0..100), logs.slice(100..300)]);
    let case = Case { since: Since { round: 1, record: 50 }, ..Case::whole(&rounds, &protocol) };
    let cut = [logs.slice(150..300)];
    let upper = |case: &Case<'_>| Certificate::risk(&policy(2.0), &policy(0.5), case).unwrap().upper;
    assert_eq!(upper(&case), upper(&Case::whole(&cut, &protocol)));
}

#[test]
fn what_has_been_running_is_the_logging_policy_as_a_fixed_one() {
    let (running, protocol) = (policy(1.0), union());
    let rounds = [collect(&running, 500, 1), collect(&running, 100, 2)];
    let case = Case::whole(&rounds, &protocol);
    let (found, fixed) =
        (Certificate::running(&case).unwrap(), Certificate::fixed(Smoothing::Ls, &running, 1, &case).unwrap());
    assert_eq!((found.upper, found.lambda, found.records), (fixed.upper, fixed.lambda, 600));
    assert_eq!((found.bounds, fixed.bounds), (Quantity::RunningRisk, Quantity::Risk));
    assert!(!found.vacuous && found.policies.is_empty());
}

#[test]
fn a_shift_of_one_round_is_the_theorem_without_shift() {
    let (protocol, rounds) = (Protocol::default(), [collect(&policy(0.5), 400, 1)]);
    let case = Case::whole(&rounds, &protocol);
    let (q, p) = (policy(1.0), policy(0.5));
    for (smoothing, plain, bounds) in [
        (Smoothing::Ls, Certificate::risk(&q, &p, &case).unwrap(), Quantity::MeanRisk),
        (Smoothing::Adjusted, Certificate::difference(&q, &p, &case).unwrap(), Quantity::MeanDifference),
    ] {
        let shift = Certificate::shift(smoothing, &[(&q, &p)], &case).unwrap();
        let expected = Certificate { theorem: shift.theorem, bounds, assumptions: shift.assumptions.clone(), ..plain };
        assert_eq!(shift, expected);
    }
}

#[test]
fn a_shift_pays_for_every_round() {
    let (protocol, deployed) = (Protocol::default(), [policy(0.0), policy(0.5)]);
    let rounds = [collect(&deployed[0], 300, 1), collect(&deployed[1], 200, 2)];
    let learned = [policy(0.5), policy(1.0)];
    let pairs: Vec<_> = learned.iter().zip(&deployed).collect();
    let found = Certificate::shift(Smoothing::Ls, &pairs, &Case::whole(&rounds, &protocol)).unwrap();
    // Each time, 3 means move by one half.
    assert!((found.kl - 2.0 * 3.0 * 0.125).abs() < 1e-12);
    assert_eq!((found.records, found.policies.len(), found.priors.len()), (500, 2, 2));
}

#[test]
fn a_combined_bound_is_the_sum_of_its_parts() {
    let protocol = Protocol::default();
    let rounds = [collect(&policy(0.5), 400, 1), collect(&policy(1.0), 200, 2)];
    let case = |part| Case { share: Share { round: None, part }, ..Case::whole(&rounds, &protocol) };
    let difference = |case: &Case<'_>| Certificate::difference(&policy(1.0), &policy(0.5), case).unwrap();
    let running = |case: &Case<'_>| Certificate::running(case).unwrap();
    let (a, b) = (difference(&case(0.75)), running(&case(0.25)));
    let both = Certificate::combined(a.clone(), b.clone()).unwrap();
    assert!(both.upper >= a.upper + b.upper && both.upper <= a.upper + b.upper + 1e-15);
    assert_eq!(both.numerical, a.numerical + b.numerical);
    assert_eq!((both.bounds, both.share, both.kl), (Quantity::Risk, Share::WHOLE, a.kl));
    assert_eq!(both.parts, [a.clone(), b.clone()]);

    let refused = "a combined certificate should be a difference and the running risk over the same records, at \
        shares of \
                   one delta, but is another";
    let other_delta = Protocol { delta: 0.01, ..protocol.clone() };
    let other_spending = Protocol { spending: Spending::Even { rounds: 2 }, ..protocol.clone() };
    let others = [
        running(&Case { since: Since::round(1), ..case(0.25) }),
        running(&Case { since: Since { round: 0, record: 1 }, ..case(0.25) }),
        running(&Case { rounds: &rounds[..1], ..case(0.25) }),
        running(&Case { protocol: &other_delta, ..case(0.25) }),
        running(&Case { protocol: &other_spending, ..case(0.25) }),
        running(&Case { share: Share::of_round(3, 0.25), ..case(0.25) }),
        a.clone(),
    ];
    for other in others {
        assert_eq!(text(Certificate::combined(a.clone(), other)), refused);
    }
    assert_eq!(text(Certificate::combined(b.clone(), b)), refused);
    assert_eq!(
        text(Certificate::combined(difference(&case(1.0)), running(&case(1.0)))),
        "the part of delta that both use should be at most 1, but is 2"
    );
}

#[test]
fn all_that_a_ladder_ever_says_has_no_more_than_delta() {
    let parts = [Parts::FIXED, Parts::LS, Parts::DIFFERENCE, Parts::RUNNING];
    assert!((Parts::UNSEEN + Parts::POSTERIOR - 1.0).abs() < 1e-15, "nor has a gate");
    for spending in [Spending::Forever, Spending::Even { rounds: 10_000 }, Spending::Even { rounds: 10_001 }] {
        let protocol = Protocol { spending, ..Protocol::default() };
        let share = |j, part| Share::of_round(j, part).delta(&protocol).unwrap();
        let all: f64 = (0..10_000).flat_map(|j| parts.map(|part| share(j, part))).sum();
        assert!(all <= protocol.delta * (1.0 + 1e-12) && all > 0.999 * protocol.delta, "{spending:?}: {all}");
        assert!((1..10_000).all(|j| share(j, 1.0) <= share(j - 1, 1.0)));
    }
    assert_eq!(Share::WHOLE.delta(&Protocol::default()).unwrap(), 0.05);
}

#[test]
fn the_ladder_is_the_best_of_its_rungs() {
    let (protocol, deployed) = (Protocol::default(), [policy(0.0), policy(0.6), policy(1.2)]);
    let rounds: Vec<Logs> = deployed.iter().zip([300, 200, 400]).map(|(p, n)| collect(p, n, n as u64)).collect();
    let rung = |judged: &LinearGaussian, j: usize| {
        let case = |part| Case {
            rounds: &rounds,
            since: Since::round(j),
            protocol: &protocol,
            share: Share::of_round(j, part),
        };
        let difference = Certificate::difference(judged, &deployed[j], &case(Parts::DIFFERENCE)).unwrap();
        let running = Certificate::running(&case(Parts::RUNNING)).unwrap();
        [
            Certificate::risk(judged, &deployed[j], &case(Parts::LS)).unwrap(),
            Certificate::combined(difference, running).unwrap(),
        ]
    };
    // The best rung depends on the policy and on when it was fixed.
    let births = [None, Some(Since { round: 0, record: 10 }), Some(Since { round: 2, record: 300 })];
    for judged in [policy(0.1), policy(1.3), policy(5.0)] {
        for fixed_since in births.map(|since| since.map(|since| FixedSince { round: 1, since, size: 4 })) {
            let mut all: Vec<Certificate> = (0..3).flat_map(|j| rung(&judged, j)).collect();
            if let Some(FixedSince { round, since, size }) = fixed_since {
                let case =
                    Case { rounds: &rounds, since, protocol: &protocol, share: Share::of_round(round, Parts::FIXED) };
                all.push(Certificate::fixed(Smoothing::Ls, &judged, size, &case).unwrap());
            }
            let found = ladder(&judged, fixed_since, &deployed, &rounds, &protocol).unwrap();
            assert!(all.iter().all(|rung| found.upper <= rung.upper) && all.contains(&found), "{fixed_since:?}");
        }
    }
}

#[test]
fn a_policy_that_was_kept_is_one_rung() {
    let (a, b) = (policy(0.5), policy(0.6));
    let rounds = [collect(&a, 50, 1), collect(&a, 50, 2), collect(&a, 50, 3)];
    // There is one share, for one round: a second rung would have none.
    let protocol = Protocol { spending: Spending::Even { rounds: 1 }, ..Protocol::default() };
    let of = |deployed: &[LinearGaussian]| ladder(&b, None, deployed, &rounds, &protocol);
    assert_eq!(of(&[a.clone(), a.clone(), a.clone()]).unwrap().since, Since::round(0));
    assert_eq!(
        text(of(&[a.clone(), b.clone(), a])),
        "the round should be below 1, over which delta is spent, but is 1"
    );
}

#[test]
fn a_policy_that_has_seen_all_records_has_no_rung_of_its_own() {
    let (protocol, a) = (Protocol::default(), policy(0.5));
    let (rounds, deployed) = ([collect(&a, 50, 1)], [a]);
    let of = |fixed_since| ladder(&policy(1.0), fixed_since, &deployed, &rounds, &protocol).unwrap();
    assert_eq!(of(Some(FixedSince { round: 0, since: Since { round: 0, record: 50 }, size: 1 })), of(None));
}

#[test]
fn floors_scales_and_bases_are_paid_for() {
    let (protocol, scales) = (Protocol::default(), Scale::PerFeature(vec![0.5, 1.0, 0.8]));
    let rounds = [collect(&policy(0.5), 400, 1)];
    let basis = Arc::new(crate::policy::Basis::principal(rounds[0].contexts()).unwrap());
    let prior = policy(0.5).posterior().clone();
    let shaped = Posterior::new(3, prior.mean().to_vec(), scales).unwrap();
    let turned = shaped.clone().with_basis(basis.clone()).unwrap();
    for (q, p) in
        [(shaped, prior.clone()), (turned.clone(), prior.clone()), (turned, prior.in_basis(Some(&basis)).unwrap())]
    {
        let with = |posterior: &Posterior, e| gaussian(posterior.clone()).with_exploration(e).unwrap();
        let at = |e| Certificate::risk(&with(&q, e), &with(&p, e), &Case::whole(&rounds, &protocol)).unwrap();
        assert!((at(0.1).kl - 0.9 * q.kl(&p).unwrap()).abs() < 1e-12 && at(0.1).kl > 0.1);
        assert_ne!(at(0.1).estimate, at(0.0).estimate);
        assert!(verify(&at(0.1), &[with(&p, 0.1), with(&q, 0.1)], &rounds).unwrap().is_empty());
    }
}

/// A custom policy that gives every action the same number.
#[derive(Debug)]
struct Constant(f64);

impl Policy for Constant {
    fn actions(&self) -> usize {
        3
    }

    fn distribution(&self, contexts: &Contexts, _: Option<&Eligible>) -> Result<Vec<f64>> {
        Ok(vec![self.0; 3 * contexts.len()])
    }
}

#[test]
fn what_cannot_be_certified_is_refused() {
    let (rounds, protocol) = ([collect(&policy(0.5), 20, 1)], Protocol::default());
    let risk_under =
        |protocol: &Protocol| text(Certificate::risk(&policy(1.0), &policy(0.5), &Case::whole(&rounds, protocol)));
    for delta in [0.0, 1.0, -0.5, f64::NAN] {
        let expected = format!("delta should be in (0, 1), but is {delta}");
        assert_eq!(risk_under(&Protocol { delta, ..protocol.clone() }), expected);
        assert_eq!(text(bound_of(&[], Smoothing::Ls, Subject::Fixed { size: 1 }, &protocol, delta)), expected);
    }
    assert_eq!(
        risk_under(&self::protocol(&[], Form::Psi)),
        "the grid of lambdas should have at least one entry, but has 0"
    );
    assert_eq!(risk_under(&self::protocol(&[0.1, 0.0], Form::Psi)), "lambda should be in (0, inf), but is 0");
    assert_eq!(
        risk_under(&self::protocol(&[f64::INFINITY], Form::Psi)),
        "lambda should be finite and in (0, inf), but is inf"
    );
    assert_eq!(
        risk_under(&Protocol { spending: Spending::Even { rounds: 0 }, ..protocol.clone() }),
        "the number of rounds should be at least 1, but is 0"
    );
    let steep = self::protocol(&[1.0, 1.5], Form::Psi);
    assert_eq!(
        text(Certificate::difference(&policy(1.0), &policy(0.5), &Case::whole(&rounds, &steep))),
        "the grid of lambdas should be one with a finite bound, but is not"
    );
    assert!(Certificate::risk(&policy(1.0), &policy(0.5), &Case::whole(&rounds, &steep)).is_ok());

    let risk = |case: &Case<'_>| text(Certificate::risk(&policy(1.0), &policy(0.5), case));
    let case = Case::whole(&rounds, &protocol);
    for (part, allowed) in [(0.0, "in (0, 1]"), (1.5, "in (0, 1]"), (f64::INFINITY, "finite and in (0, 1]")] {
        assert_eq!(
            risk(&Case { share: Share { round: None, part }, ..case }),
            format!("the part of delta should be {allowed}, but is {part}")
        );
    }
    let empty = [rounds[0].slice(0..0)];
    assert_eq!(risk(&Case::whole(&empty, &protocol)), "the logs should have at least 1 record, but has 0");
    assert_eq!(risk(&Case::whole(&[], &protocol)), "the first round should be below 0, but is 0");
    let at = |round, record| Case { since: Since { round, record }, ..case };
    assert_eq!(risk(&at(1, 0)), "the first round should be below 1, but is 1");
    assert_eq!(risk(&at(0, 20)), "the logs should have at least 1 record, but has 0");
    assert_eq!(risk(&at(0, 21)), "the first record should be at most 20, but is 21");

    let other = LinearGaussian::new(FeatureMap::fourier(3, 3, 1.0, 1).unwrap(), policy(0.5).posterior().clone());
    let other = other.unwrap();
    assert_eq!(
        text(Certificate::risk(&policy(1.0), &other, &case)),
        "the prior should be over the features of the policy, but is over others"
    );
    assert_eq!(
        text(Certificate::difference(&policy(1.0), &policy(0.5).with_exploration(0.1).unwrap(), &case)),
        "the prior's exploration should be 0, as this policy's, but is 0.1"
    );
    let shift = |pairs: &[(&LinearGaussian, &LinearGaussian)], case: &Case<'_>| {
        text(Certificate::shift(Smoothing::Ls, pairs, case))
    };
    let (q, p) = (policy(1.0), policy(0.5));
    assert_eq!(shift(&[], &case), "Theorem C.1 should have 1 pairs of policy and prior, one for each round, but has 0");
    assert_eq!(shift(&[(&q, &p)], &at(0, 1)), "the first record should be 0 for Theorem C.1, but is 1");
    let fixed = |policy: &dyn Policy, size| text(Certificate::fixed(Smoothing::Ls, policy, size, &case));
    assert_eq!(fixed(&policy(1.0), 0), "the set of policies should have at least one of them, but has 0");
    assert_eq!(
        fixed(&crate::policy::Uniform::new(4).unwrap(), 1),
        "the logs should have 4 actions, as the policy, but has 3"
    );
    let ladder_of =
        |deployed: &[LinearGaussian], fixed_since| text(ladder(&q, fixed_since, deployed, &rounds, &protocol));
    assert_eq!(
        ladder_of(&[], None),
        "the list of deployed policies should have 1 policies, one for each round, but has 0"
    );
    let unborn = Some(FixedSince { round: 1, since: Since::round(1), size: 1 });
    assert_eq!(ladder_of(&[policy(0.5)], unborn), "the first round should be below 1, but is 1");
    assert_eq!(
        text(ladder::<LinearGaussian>(&q, None, &[], &[], &protocol)),
        "the ladder should be one with a prior of the policy's kind, or records that the policy has not seen, but is \
         one \
         without either"
    );
}

#[test]
fn what_is_no_probability_is_refused_with_its_row() {
    let contexts = Contexts::dense(vec![1.0; 9], 3).unwrap();
    let logs = Logs::new(3, contexts, vec![0; 3], vec![0.5; 3], vec![0.0, 0.0, -1.0]).unwrap();
    for p in [f64::NAN, -0.1, 1.1] {
        assert_eq!(
            text(Weighed::new(&Constant(p), &logs)),
            format!("row 2: a probability of the policy should be in [0, 1], but is {p}")
        );
    }
}

#[test]
fn a_mixture_that_is_certain_exceeds_one_by_rounding_only() {
    let certain =
        || Arc::new(Softmax::new(FeatureMap::identity(1), 2, vec![1e6, 0.0], 1.0).unwrap()) as Arc<dyn Policy>;
    let mixture = Mixture::new(vec![certain(), certain()], vec![0.5, 0.5 + 5e-10]).unwrap();
    let contexts = Contexts::dense(vec![1.0], 1).unwrap();
    let logs = Logs::new(2, contexts, vec![0], vec![0.5], vec![-1.0]).unwrap();
    assert_eq!(Weighed::new(&mixture, &logs).unwrap(), Weighed::of(&[1.0], &[0.5], &[-1.0]));
}

/// A certificate must not depend on how the policy was learned.
#[test]
fn certificates_import_neither_learner_nor_optimiser() {
    let folder = format!("{}/src/certificate", env!("CARGO_MANIFEST_DIR"));
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    let sources = files.iter().filter(|path| path.is_file() && !path.ends_with("tests.rs"));
    let mut seen = 0;
    for path in sources {
        let source = std::fs::read_to_string(path).unwrap();
        for module in ["learn", "optim", "objective", "session", "simulate"] {
            assert!(!source.contains(&format!("crate::{module}")), "{path:?} imports {module}");
        }
        seen += 1;
    }
    assert!(seen >= 6, "{files:?}");
}

/// Records that all chose action 0 with a propensity of 1/2 and had the best cost.
fn impossible(n: usize) -> Logs {
    let contexts = Contexts::dense(vec![1.0; 3 * n], 3).unwrap();
    Logs::new(3, contexts, vec![0; n], vec![0.5; n], vec![-1.0; n]).unwrap()
}

#[test]
fn a_bound_below_every_risk_is_refused() {
    let always = Softmax::new(FeatureMap::identity(3), 3, [[50.0, 0.0, 0.0]; 3].concat(), 1.0).unwrap();
    let (logs, protocol) = ([impossible(500)], Protocol::default());
    let case = Case::whole(&logs, &protocol);
    let said = text(Certificate::fixed(Smoothing::Ls, &always, 1, &case));
    assert!(said.contains("the risk is proven to be at most -1.") && said.contains("no risk is below -1"), "{said}");
    // Costs of the same records that are right: each propensity is 1.
    let contexts = Contexts::dense(vec![1.0; 1500], 3).unwrap();
    let right = [Logs::new(3, contexts, vec![0; 500], vec![1.0; 500], vec![-1.0; 500]).unwrap()];
    for n in [1, 500] {
        let right = [right[0].slice(0..n)];
        let found = Certificate::fixed(Smoothing::Ls, &always, 1, &Case::whole(&right, &protocol)).unwrap();
        assert!((-1.0..0.5).contains(&found.upper) || n == 1, "{}", found.upper);
        Certificate::running(&Case::whole(&right, &protocol)).unwrap();
    }
    // A claim over such records cannot be verified either.
    let mut claimed = Certificate::fixed(Smoothing::Ls, &always, 1, &Case::whole(&right, &protocol)).unwrap();
    claimed.logs = vec![logs[0].fingerprint()];
    assert!(text(verify(&claimed, &[Arc::new(always) as Arc<dyn Policy>], &logs)).contains("no risk is below -1"));
}

#[test]
fn a_difference_below_the_range_of_costs_is_refused() {
    let n = 500;
    let contexts = Contexts::dense(vec![1.0; 3 * n], 3).unwrap();
    let cost = (0..n).map(|i| if i % 2 == 0 { -1.0 } else { 0.0 }).collect();
    let logs = [Logs::new(3, contexts, vec![0; n], vec![0.1; n], cost).unwrap()];
    let always = Softmax::new(FeatureMap::identity(3), 3, [[50.0, 0.0, 0.0]; 3].concat(), 1.0).unwrap();
    let protocol = Protocol::default();
    let said = text(Certificate::fixed(Smoothing::Adjusted, &always, 1, &Case::whole(&logs, &protocol)));
    assert!(said.contains("the risk minus that of the logging policies is proven to be at most -"), "{said}");
}
