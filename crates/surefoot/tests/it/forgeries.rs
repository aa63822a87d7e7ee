//! Runs that somebody made look better than they are. Each forgery is made as well as its author can: certificates are
//! computed again, and where he may, he writes the ledger again too.

use std::sync::Arc;

use surefoot::audit::{AuditedPolicy, AuditedRound, Entry, Ledger, Run, Statement, StatementKind, audit, hash_of};
use surefoot::certificate::{Case, Combine, FixedSince, Link, Protocol, Share, Since, Smoothing, Spending, Theorem};
use surefoot::learn::Portfolio;
use surefoot::optim::{Adam, Decay, Optimiser};
use surefoot::simulate::{Certify, Outcome, Plan};
use surefoot::worlds::{Synthetic, SyntheticSettings};
use surefoot::{Algorithm, Certificate, FeatureMap, Fingerprint, Gate, Lambda, Learner, Logs, Policy, simulate};

const SIZES: [usize; 4] = [300, 400, 500, 600];

fn outcome(algorithm: Algorithm, gate: Gate, held_back: f64) -> Outcome {
    outcome_under(algorithm, gate, held_back, &Protocol::default())
}

fn outcome_under(algorithm: Algorithm, gate: Gate, held_back: f64, protocol: &Protocol) -> Outcome {
    let world = Synthetic::new(SyntheticSettings { seed: 5, ..SyntheticSettings::default() }).unwrap();
    let optimiser = Optimiser::Adam(Adam { learning_rate: 0.02, decay: Decay::Linear, epochs: 4, ..Adam::default() });
    let (lambda, protocol) = (Lambda::Fixed(0.4), protocol.clone());
    let learner = Learner { algorithm, lambda, optimiser, held_back, protocol, ..Learner::default() };
    let plan = Plan { learner, gate, certify: Certify::Each };
    simulate(&world, world.first_policy(FeatureMap::identity(10), 0.2).unwrap(), &plan, &SIZES, |_| {}).unwrap()
}

/// What a verifier is given.
pub(crate) fn run(outcome: &Outcome) -> Run {
    let session = &outcome.session;
    let rounds = session.logs().iter().zip(session.deployed()).enumerate();
    let hand_overs = session.hand_overs().iter().flatten().map(|policy| Arc::clone(policy) as Arc<dyn Policy>);
    let policies = session.deployed().iter().chain([session.running()]).chain(session.learned()).cloned();
    Run {
        ledger: Some(session.ledger().clone()),
        rounds: rounds
            .map(|(k, (logs, policy))| AuditedRound {
                name: format!("round {k}"),
                logs: logs.clone(),
                collected_by: policy.identity(),
            })
            .collect(),
        policies: policies.chain(hand_overs).map(|policy| AuditedPolicy { name: "a policy".into(), policy }).collect(),
        statements: outcome.statements(),
        reward_range: None,
    }
}

/// What is handed over has a statement of its own, which pays the share of its round.
#[test]
fn a_policy_that_is_handed_over_is_the_one_of_the_ledger_and_pays_for_its_round() {
    let portfolio = Algorithm::Portfolio(Portfolio::thompson());
    for (gate, held_back) in [(Gate::Always, 0.3), (Gate::Improvement, 1.0)] {
        let outcome = outcome(portfolio, gate, held_back);
        let honest = run(&outcome);
        assert_eq!(differences(&honest, &[]), Vec::<String>::new(), "{gate}");
        let of = |s: &Statement| s.kind == StatementKind::HandOver && s.round == 3;
        let place = honest.statements.iter().position(of).unwrap();
        let claimed = honest.statements[place].certificate.clone();
        let policies: Vec<Arc<dyn Policy>> = claimed.policies.iter().map(|p| policy(&honest, p.unwrap())).collect();
        let mut next: Vec<&dyn Policy> = policies.iter().map(AsRef::as_ref).collect();
        let first = claimed.since.round;
        let rounds = &logs(&honest)[..3];
        // What comes before the first link is not looked at.
        let before = vec![next[0]; first];
        next.splice(0..0, before);
        let links: Vec<_> = std::iter::repeat_n(None, first).chain(claimed.links.iter().copied().map(Some)).collect();
        let protocol = claimed.protocol();
        let again = Certificate::hand_over(&next, &links, rounds, &protocol).unwrap().unwrap();
        assert_eq!(again, claimed, "{gate}");

        let forged = |certificate: Certificate| {
            let mut run = run(&outcome);
            run.statements[place].certificate = certificate;
            run.ledger = Some(restated(&run));
            run
        };
        // The share of an earlier round, which is larger.
        let cheap = Certificate::chain(&next, &links, 0.8, rounds, &protocol).unwrap().unwrap();
        assert!(cheap.share.round <= Some(2) && cheap.upper < claimed.upper, "{gate}");
        found(&forged(cheap), &[], "theorem: Chain is not that of a policy that is handed over");
        // Another policy, for instance the one that brings most on these records.
        let running = policy(&honest, outcome.session.deployed()[3].identity().unwrap());
        *next.last_mut().unwrap() = running.as_ref();
        let other = Certificate::hand_over(&next, &links, rounds, &protocol).unwrap().unwrap();
        found(&forged(other), &[], "policies: should be");
        // More records than were held back from it.
        *next.last_mut().unwrap() = policies.last().unwrap().as_ref();
        let mut greedy = links.clone();
        greedy[2].as_mut().unwrap().first = 0;
        if greedy != links {
            let other = Certificate::hand_over(&next, &greedy, rounds, &protocol).unwrap().unwrap();
            found(&forged(other), &[], "links: should be");
        }
    }
}

/// A run with the union over lambdas, as certificates had it before there were mixtures and chains.
fn honest() -> Run {
    run(&outcome_under(Algorithm::SeqAdjLs, Gate::Always, 0.5, &union()))
}

fn union() -> Protocol {
    Protocol { combine: Combine::Union, ..Protocol::default() }
}

pub(crate) fn differences(run: &Run, heads: &[Fingerprint]) -> Vec<String> {
    let report = audit(run, heads, || ());
    let all = report.all_differences();
    assert_eq!(report.verified, all.is_empty());
    all
}

/// Asserts that a forgery is found, and that some difference says this.
fn found(run: &Run, heads: &[Fingerprint], said: &str) {
    let all = differences(run, heads);
    assert!(all.iter().any(|difference| difference.contains(said)), "{said:?} is not in {all:#?}");
}

/// The ledger with other entries, written again from its opening.
fn rewritten(ledger: &Ledger, change: impl Fn(usize, &Entry) -> Vec<Entry>) -> Ledger {
    let entries: Vec<Entry> = ledger.entries().iter().enumerate().flat_map(|(i, entry)| change(i, entry)).collect();
    let Entry::Open(opening) = &entries[0] else { panic!("no opening") };
    let mut ledger = Ledger::open(opening.clone());
    entries[1..].iter().for_each(|entry| ledger.append(entry.clone()));
    ledger
}

/// The ledger with the certificates of the statements, which were changed.
fn restated(run: &Run) -> Ledger {
    rewritten(run.ledger.as_ref().unwrap(), |_, entry| match entry {
        Entry::State { round, kind, .. } => {
            let of = |s: &&Statement| (s.round, s.kind) == (*round, *kind);
            let hash = |s: &Statement| Entry::State { round: *round, kind: *kind, certificate: hash_of(s) };
            run.statements.iter().find(of).map(hash).into_iter().collect()
        }
        entry => vec![entry.clone()],
    })
}

fn logs(run: &Run) -> Vec<Logs> {
    run.rounds.iter().map(|round| round.logs.clone()).collect()
}

fn policy(run: &Run, print: Fingerprint) -> Arc<dyn Policy> {
    Arc::clone(&run.policies.iter().find(|known| known.policy.identity() == Some(print)).unwrap().policy)
}

/// Computes the rungs of fixed policies again, with other values, so that all numbers agree.
fn with_rungs(run: &mut Run, change: impl Fn(&mut Certificate, &mut Protocol)) -> usize {
    let (rounds, mut changed) = (logs(run), 0);
    let policies: Vec<_> = run.statements.iter().map(|s| s.certificate.policies.first().copied().flatten()).collect();
    let policies: Vec<_> = policies.into_iter().map(|print| print.map(|print| policy(run, print))).collect();
    for (statement, policy) in run.statements.iter_mut().zip(policies) {
        let Some(policy) = policy else { continue };
        let old = statement.certificate.clone();
        if (statement.kind, old.theorem) != (StatementKind::Ladder, Theorem::Fixed) {
            continue;
        }
        let mut wanted = old.clone();
        let mut protocol = old.protocol();
        change(&mut wanted, &mut protocol);
        let case =
            Case { rounds: &rounds[..statement.round], since: wanted.since, protocol: &protocol, share: wanted.share };
        statement.certificate = Certificate::fixed(Smoothing::Ls, policy.as_ref(), wanted.size, &case).unwrap();
        changed += usize::from(statement.certificate != old);
    }
    changed
}

#[test]
fn honest_runs_of_every_kind_are_verified() {
    let portfolio = Algorithm::Portfolio(Portfolio::default());
    for algorithm in [Algorithm::SeqLs, Algorithm::SeqAdjLs, Algorithm::ShiftLs, Algorithm::BatchLs, portfolio] {
        // A portfolio may hold back at most one round.
        for held_back in [0.0, 0.5, if algorithm == portfolio { 1.0 } else { 1.5 }] {
            for protocol in [Protocol::default(), union()] {
                let found = run(&outcome_under(algorithm, Gate::Always, held_back, &protocol));
                assert_eq!(differences(&found, &[]), Vec::<String>::new(), "{algorithm:?}, {held_back}");
            }
        }
    }
    for gate in [Gate::Improvement, Gate::NonInferiority { margin: 0.05 }, Gate::CertifiedRisk] {
        let outcome = outcome(Algorithm::SeqAdjLs, gate, 1.0);
        let run = run(&outcome);
        assert_eq!(differences(&run, &[]), Vec::<String>::new(), "{gate}");
        // Every head of the ledger, given out before a round, is found again.
        let ledger = run.ledger.as_ref().unwrap();
        let heads: Vec<_> = (0..SIZES.len()).map(|round| ledger.head_before(round).unwrap()).collect();
        let report = audit(&run, &heads, || ());
        assert!(report.verified);
        let said = "rounds end by a rule that does not look at their costs: \
                    after numbers of records that were fixed in advance: 300, 400, 500, 600";
        assert_eq!(report.trust, [said]);
        let promoted =
            outcome.rounds.iter().filter(|round| round.decision.as_ref().is_some_and(|d| d.promoted)).count();
        let margins = matches!(gate, Gate::NonInferiority { .. }).then_some(0.05 * promoted as f64);
        assert_eq!(report.margins, margins);
        assert!(report.budget.iter().all(|budget| budget.spent <= 0.05 + 1e-12 && budget.spent > 0.0));
    }
}

#[test]
fn an_empty_list_verifies_nothing() {
    let mut run = honest();
    run.statements.clear();
    found(&run, &[], "there are no certificates");
}

#[test]
fn a_whole_share_for_every_rung_is_refused() {
    let mut run = honest();
    assert!(with_rungs(&mut run, |rung, _| rung.share = Share::of_round(0, 1.0)) > 1);
    run.ledger = Some(restated(&run));
    found(&run, &[], "share, since or size: should be (Share { round: Some(3), part: 0.8 }");
}

#[test]
fn a_smaller_set_of_candidates_is_refused() {
    let mut run = honest();
    assert!(with_rungs(&mut run, |rung, _| rung.size += 1) > 1);
    run.ledger = Some(restated(&run));
    found(&run, &[], "share, since or size");
}

#[test]
fn records_that_the_policy_was_learned_from_are_not_unseen() {
    let mut run = honest();
    assert!(with_rungs(&mut run, |rung, _| rung.since = Since::round(rung.since.round)) > 1);
    run.ledger = Some(restated(&run));
    found(&run, &[], "share, since or size");
}

/// Everything about the protocol can be chosen afterwards, if nobody has held the head of the ledger.
#[test]
fn a_protocol_that_was_chosen_afterwards_is_found_by_the_head() {
    type Change = fn(&mut Protocol);
    let changes: [(&str, Change); 3] = [
        ("the best lambda alone", |protocol| protocol.lambdas = vec![protocol.lambdas[4]]),
        ("hardly any confidence", |protocol| protocol.delta = 0.999_999),
        ("all of delta in fewer rounds", |protocol| protocol.spending = Spending::Even { rounds: SIZES.len() }),
    ];
    for (what, change) in changes {
        let mut run = honest();
        let head = run.ledger.as_ref().unwrap().head_before(0).unwrap();
        run.statements.retain(|s| (s.kind, s.certificate.theorem) == (StatementKind::Ladder, Theorem::Fixed));
        assert!(with_rungs(&mut run, |_, protocol| change(protocol)) > 1);
        let honest_ledger = run.ledger.clone();
        found(&run, &[], "ledger: delta, lambdas, form or spending are not those of its opening");
        run.ledger = Some(rewritten(&restated(&run), |_, entry| match entry {
            Entry::Open(opening) => {
                let mut opening = opening.clone();
                change(&mut opening.protocol);
                vec![Entry::Open(opening)]
            }
            entry => vec![entry.clone()],
        }));
        let report = audit(&run, &[], || ());
        assert!(report.verified, "{what}: {:?}", report.all_differences());
        assert!(report.trust.iter().any(|trust| trust.contains("no head is given")), "{what}");
        found(&run, &[head], "is not in it: it was changed since");
        assert!(honest_ledger.unwrap().place(head).is_some());
    }
    // Over one round, there is nothing left for the second.
    let run = honest();
    let protocol = Protocol { spending: Spending::Even { rounds: 1 }, ..union() };
    assert!(Share::of_round(1, 0.8).delta(&protocol).is_err());
    let mut forged = run;
    with_rungs(&mut forged, |rung, protocol| {
        protocol.spending = Spending::Even { rounds: 1 };
        rung.share = Share::of_round(0, 0.8);
    });
    forged.ledger = Some(rewritten(&restated(&forged), |_, entry| match entry {
        Entry::Open(opening) => {
            let mut opening = opening.clone();
            opening.protocol.spending = Spending::Even { rounds: 1 };
            vec![Entry::Open(opening)]
        }
        entry => vec![entry.clone()],
    }));
    found(&forged, &[], "share, since or size");
}

#[test]
fn rounds_in_another_order_are_refused() {
    let mut run = honest();
    run.rounds.swap(1, 2);
    found(&run, &[], "round 1 of the ledger has 400 records");
    // With the ledger written again in that order, a policy collects before it is deployed.
    run.ledger = Some(rewritten(run.ledger.as_ref().unwrap(), |_, entry| match entry {
        Entry::Collect { round: round @ (1 | 2), .. } => {
            let other = &run.rounds[*round];
            vec![Entry::Collect {
                round: *round,
                by: other.collected_by,
                logs: other.logs.fingerprint(),
                records: other.logs.len(),
            }]
        }
        entry => vec![entry.clone()],
    }));
    found(&run, &[], "which was not deployed before");
    // A round that is left out, and a round twice.
    let mut run = honest();
    run.rounds.pop();
    found(&run, &[], "ledger: has 4 rounds, but 3 are given");
    let mut run = honest();
    run.rounds[2] = run.rounds[1].clone();
    found(&run, &[], "round 2 of the ledger has 500 records");
}

#[test]
fn a_statement_about_another_policy_is_refused() {
    // The newest policy looks best on the records of the last round; the statement is for the round before.
    let mut run = honest();
    let newest = run.statements.last().unwrap().certificate.policies[0].unwrap();
    let (rounds, place) = (logs(&run), run.statements.len() - 4);
    let claimed = run.statements[place].clone();
    let protocol = union();
    let case = Case {
        share: claimed.certificate.share,
        since: claimed.certificate.since,
        ..Case::whole(&rounds[..claimed.round], &protocol)
    };
    let newest = policy(&run, newest);
    run.statements[place].certificate = match claimed.kind {
        StatementKind::Ladder => Certificate::fixed(Smoothing::Ls, newest.as_ref(), 1, &case).unwrap(),
        _ => {
            let prior = policy(&run, claimed.certificate.priors[0]);
            Certificate::risk(newest.as_gaussian().unwrap(), prior.as_gaussian().unwrap(), &case).unwrap()
        }
    };
    run.ledger = Some(restated(&run));
    found(&run, &[], "policies: should be about");
}

#[test]
fn another_prior_than_the_logging_policy_is_refused() {
    let mut run = run(&outcome(Algorithm::SeqAdjLs, Gate::Always, 0.0));
    let place = run.statements.iter().rposition(|s| s.kind == StatementKind::Ladder).unwrap();
    let subject = policy(&run, run.statements[place].certificate.policies[0].unwrap());
    // A policy that was learned from all records, as the prior of its own rung: no divergence at all.
    let (rounds, protocol) = (logs(&run), Protocol::default());
    let case = Case { share: Share::of_round(1, 0.1), since: Since::round(1), ..Case::whole(&rounds, &protocol) };
    let subject = subject.as_gaussian().unwrap();
    run.statements[place].certificate = Certificate::risk(subject, subject, &case).unwrap();
    run.ledger = Some(restated(&run));
    found(&run, &[], "priors: should be");
}

#[test]
fn a_second_statement_of_a_round_is_refused() {
    let mut run = honest();
    let twice = run.statements[0].clone();
    run.ledger.as_mut().unwrap().append(Entry::State { round: 4, kind: twice.kind, certificate: hash_of(&twice) });
    found(&run, &[], "its share of delta can be spent once");
    let mut run = honest();
    let mut other = run.statements[0].clone();
    other.certificate.assumptions.clear();
    run.statements.push(other);
    found(&run, &[], "its certificate of 1 rounds is another one");
    let mut run = honest();
    let ledger = run.ledger.as_ref().unwrap();
    let last = ledger.entries().len() - 1;
    run.ledger = Some(rewritten(ledger, |i, entry| if i == last { Vec::new() } else { vec![entry.clone()] }));
    found(&run, &[], "ledger: has no ladder of 4 rounds");
}

#[test]
fn a_deployment_that_no_certificate_supports_is_refused() {
    for gate in [Gate::Improvement, Gate::NonInferiority { margin: 0.0 }] {
        let mut run = run(&outcome(Algorithm::SeqAdjLs, gate, 0.5));
        let ledger = run.ledger.as_ref().unwrap();
        assert_eq!(differences(&run, &[]), Vec::<String>::new());
        let learned: Vec<Fingerprint> = ledger
            .entries()
            .iter()
            .filter_map(|entry| match entry {
                Entry::Learn { policy, .. } => Some(*policy),
                _ => None,
            })
            .collect();
        // The newest candidate is deployed after the last round, whatever the gate said.
        let last = ledger.entries().iter().rposition(|entry| matches!(entry, Entry::Deploy { .. })).unwrap();
        let Entry::Deploy { policy } = ledger.entries()[last] else { panic!() };
        let other = *learned.iter().rev().find(|learned| **learned != policy).unwrap();
        run.ledger = Some(rewritten(ledger, |i, entry| {
            vec![if i == last { Entry::Deploy { policy: other } } else { entry.clone() }]
        }));
        found(&run, &[], "was deployed, but no certificate passes the gate");
    }
}

#[test]
fn a_statement_after_rounds_that_are_not_there_is_refused() {
    for gate in [Gate::Always, Gate::Improvement, Gate::CertifiedRisk] {
        let honest = run(&outcome(Algorithm::SeqAdjLs, gate, 0.5));
        for place in 0..honest.statements.len() {
            for round in [0, SIZES.len() + 1, usize::MAX] {
                let mut run = honest.clone();
                run.statements[place].round = round;
                found(&run, &[], &format!("round: should be from 1 to 4, but is {round}"));
            }
        }
    }
}

/// The last statement of a run with chains, computed again with other links or another part of each share.
fn with_chain(run: &mut Run, change: impl Fn(&mut [Option<Link>], &mut f64, &mut Vec<Arc<dyn Policy>>)) {
    let (rounds, protocol) = (logs(run), Protocol::default());
    let old = run.statements.last().unwrap().certificate.clone();
    assert_eq!((old.theorem, old.since.round), (Theorem::Chain, 0));
    let mut policies: Vec<_> = old.policies.iter().map(|print| policy(run, print.unwrap())).collect();
    let (mut links, mut part): (Vec<_>, _) = (old.links.iter().copied().map(Some).collect(), old.share.part);
    change(&mut links, &mut part, &mut policies);
    let next: Vec<&dyn Policy> = policies.iter().map(AsRef::as_ref).collect();
    let forged = Certificate::chain(&next, &links, part, &rounds, &protocol).unwrap().unwrap();
    assert!(forged != old, "nothing was forged");
    run.statements.last_mut().unwrap().certificate = forged;
    run.ledger = Some(restated(run));
}

#[test]
fn a_chain_with_other_links_shares_or_policies_is_refused() {
    let chained = || run(&outcome(Algorithm::SeqAdjLs, Gate::Improvement, 0.5));
    assert_eq!(differences(&chained(), &[]), Vec::<String>::new());
    let always = || run(&outcome(Algorithm::SeqAdjLs, Gate::Always, 0.5));
    let report = audit(&always(), &[], || ());
    let last = report.certificates.last().unwrap();
    assert_eq!((report.verified, last.theorem), (true, Theorem::Chain));
    assert_eq!(
        last.trust,
        ["the policies of the chain were learned without the records that were held back from them"]
    );
    // Every beginning has spent its share: four rounds of the ladder, and the ladder's other rungs.
    assert!(report.budget.iter().all(|budget| budget.spent <= 0.05));

    type Change = fn(&mut [Option<Link>], &mut f64, &mut Vec<Arc<dyn Policy>>);
    let forgeries: [(&str, &str, Change); 5] = [
        ("records that a policy has seen", "links", |links, _, _| links[2].as_mut().unwrap().first = 0),
        ("a larger part of the shares", "share", |_, part, _| *part = 1.0),
        ("a shorter chain from a worse round on", "links", |links, _, _| links[1].as_mut().unwrap().size = 3),
        ("a link that leads elsewhere", "does not lead to the policy of the next", |_, _, policies| {
            policies[1] = Arc::clone(&policies[3]);
        }),
        ("another policy", "policies: should be about", |_, _, policies| policies[3] = Arc::clone(&policies[2])),
    ];
    for (what, said, change) in forgeries {
        let mut run = always();
        with_chain(&mut run, change);
        let all = differences(&run, &[]);
        assert!(all.iter().any(|difference| difference.contains(said)), "{what}: {all:#?}");
    }
    // Under a gate a chain pays for its decisions. A forger leaves that out.
    let mut run = chained();
    let last = run.statements.iter().rposition(|s| s.kind == StatementKind::Ladder).unwrap();
    run.statements.truncate(last + 1);
    let (rounds, old) = (logs(&run), run.statements[last].certificate.clone());
    let ledger = run.ledger.clone().unwrap();
    let by: Vec<_> = run.rounds.iter().skip(1).map(|round| round.collected_by.unwrap()).collect();
    let next: Vec<_> = by
        .iter()
        .map(|print| policy(&run, *print))
        .chain([policy(&run, old.policies.last().unwrap().unwrap())])
        .collect();
    let next: Vec<&dyn Policy> = next.iter().map(AsRef::as_ref).collect();
    let links = vec![Some(Link { first: 0, size: 1 }); 4];
    let forged = Certificate::chain(&next, &links, 0.3, &rounds, &Protocol::default()).unwrap().unwrap();
    run.statements[last].certificate = forged;
    run.ledger = Some(ledger);
    run.ledger = Some(restated(&run));
    found(&run, &[], "links: should be");
}

/// When a policy was fixed is the word of whoever wrote the ledger, until somebody holds its head.
#[test]
fn held_back_records_are_on_trust_and_their_claim_is_fixed_by_a_head() {
    let honest = honest();
    let report = audit(&honest, &[], || ());
    let rung = report.certificates.iter().find(|c| c.theorem == Theorem::Fixed).unwrap();
    assert!(rung.on_trust && rung.trust[0].starts_with("the policy was learned without the records from record"));
    let head = honest.ledger.as_ref().unwrap().head_before(3).unwrap();
    let mut run = honest;
    let since = Since { round: 2, record: 1 };
    run.ledger = Some(rewritten(run.ledger.as_ref().unwrap(), |_, entry| match entry {
        Entry::Learn { round: 2, policy, .. } => {
            let fixed_since = Some(FixedSince { round: 2, since, size: 1 });
            vec![Entry::Learn { round: 2, policy: *policy, fixed_since, hand_over: None }]
        }
        entry => vec![entry.clone()],
    }));
    found(&run, &[head], "is not in it");
}

#[test]
fn without_a_ledger_order_and_budget_are_on_trust() {
    let mut run = honest();
    run.ledger = None;
    let report = audit(&run, &[], || ());
    assert!(report.verified);
    assert_eq!(report.trust, ["the order of the rounds, the protocol and how delta is spent: there is no ledger"]);
    found(&run, &[Fingerprint::of_bytes(b"head")], "there is no ledger that could have the head");
}
