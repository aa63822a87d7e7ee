//! Challengers of the caller's own: what judges them, and what does not.

use std::sync::Arc;

use surefoot::audit::{
    AuditedPolicy, AuditedRound, Entry, Ledger, Run, Standing, Statement, StatementKind, audit, hash_of,
};
use surefoot::certificate::{Case, Share, Since, Smoothing};
use surefoot::observer::Silent;
use surefoot::optim::{Adam, Decay, Optimiser};
use surefoot::policy::{Softmax, Uniform};
use surefoot::session::RoundReport;
use surefoot::worlds::{Environment, Synthetic, SyntheticSettings, Turn};
use surefoot::{
    Algorithm, Certificate, Contexts, FeatureMap, Gate, Lambda, Learner, LinearGaussian, Logs, Policy, Session,
};

fn learner(epochs: usize) -> Learner {
    let optimiser = Optimiser::Adam(Adam { learning_rate: 0.02, decay: Decay::Linear, epochs, ..Adam::default() });
    let (algorithm, lambda) = (Algorithm::SeqAdjLs, Lambda::Fixed(0.4));
    Learner { algorithm, lambda, optimiser, held_back: 1.0, ..Learner::default() }
}

/// What a verifier is given after all rounds of a session.
fn run(session: &Session, statements: Vec<Statement>) -> Run {
    let rounds = session.logs().iter().zip(session.deployed());
    let policies = session.deployed().iter().chain([session.running()]).chain(session.learned());
    let policies = policies.chain(session.own_challengers().map(|(_, policy)| policy)).cloned();
    let policies = policies.chain([Arc::new(session.first().clone()) as Arc<dyn Policy>]);
    Run {
        ledger: Some(session.ledger().clone()),
        rounds: rounds
            .map(|(logs, by)| AuditedRound { name: "a round".into(), logs: logs.clone(), collected_by: by.identity() })
            .collect(),
        policies: policies.map(|policy| AuditedPolicy { name: "a policy".into(), policy }).collect(),
        statements,
        reward_range: None,
    }
}

fn statements(round: usize, report: &RoundReport) -> Vec<Statement> {
    let proven = report.proven.as_ref();
    let all = [
        (StatementKind::Gate, report.decided_by.clone()),
        (StatementKind::Certificate, proven.and_then(|proven| proven.certificate.clone())),
        (StatementKind::Ladder, proven.and_then(|proven| proven.ladder.clone())),
    ];
    let made = all.into_iter().filter_map(|(kind, certificate)| Some((kind, certificate?)));
    made.map(|(kind, certificate)| Statement { round, kind, certificate }).collect()
}

fn differences(run: &Run) -> Vec<String> {
    audit(run, &[], || ()).all_differences()
}

#[test]
fn a_challenger_of_ones_own_is_judged_by_the_rounds_after_it_and_what_follows_is_verified() {
    let world = Synthetic::new(SyntheticSettings { seed: 5, ..SyntheticSettings::default() }).unwrap();
    let map = || FeatureMap::identity(10);
    let good = world.first_policy(map(), 3.0).unwrap();
    let softmax = Softmax::new(map(), good.actions(), good.posterior().mean().to_vec(), 6.0).unwrap();
    for gate in [Gate::Improvement, Gate::NonInferiority { margin: 0.01 }, Gate::CertifiedRisk] {
        for (own, unknown) in [(Arc::new(good.clone()) as Arc<dyn Policy>, false), (Arc::new(softmax.clone()), false)]
            .into_iter()
            .chain((gate != Gate::CertifiedRisk).then(|| (Arc::new(softmax.clone()) as _, true)))
        {
            let first = world.first_policy(map(), 0.2).unwrap();
            // It learns next to nothing itself.
            let learner = Learner { lambda: Lambda::Fixed(1e-4), ..learner(1) };
            let new = if unknown { Session::replacing_unknown } else { Session::new };
            let mut session = new(learner.clone(), gate, first.clone()).unwrap();
            let mut made = Vec::new();
            let mut won = None;
            for round in 0..5 {
                if round == 1 {
                    session.challenge(Arc::clone(&own), 2).unwrap();
                    let named = Entry::Challenge { policy: own.identity().unwrap(), round: 2 };
                    assert_eq!(session.ledger().entries().last(), Some(&named));
                    session.challenge(Arc::new(Uniform::new(own.actions()).unwrap()), 3).unwrap();
                }
                let collects: &dyn Policy = if session.runs_unknown() { &first } else { session.running().as_ref() };
                let logs = world.collect(collects, Turn { round, start: 1500 * round, n: 1500 }).unwrap();
                let report = session.take(logs, true, &mut Silent).unwrap();
                let by = |certificate: &Certificate| certificate.policies[0] == own.identity();
                if round < 2 {
                    assert!(!report.decided_by.as_ref().is_some_and(by), "{gate}: its first round is the third");
                }
                if session.running().identity() == own.identity() && won.is_none() {
                    let decided = report.decided_by.clone().unwrap();
                    assert!(by(&decided) && decided.since >= Since::round(2), "{gate}: {decided:?}");
                    won = Some(round);
                }
                made.extend(statements(round + 1, &report));
                check_standings(&session);
                let again = Session::resume(learner.clone(), gate, session.checkpoint()).unwrap();
                assert_eq!(
                    (again.running().identity(), again.ledger()),
                    (session.running().identity(), session.ledger())
                );
                session = again;
            }
            assert!(won.is_some(), "{gate}: {own:?}");
            assert_eq!(differences(&run(&session, made.clone())), Vec::<String>::new(), "{gate}, {unknown}");
            // Nobody has to be trusted that it was fixed: the ledger names it before the records.
            let report = audit(&run(&session, made), &[], || ());
            let about = |checked: &&surefoot::audit::Checked| checked.round == won.unwrap() + 1;
            let mut trust = report.certificates.iter().filter(about).flat_map(|checked| &checked.trust);
            assert!(unknown || !trust.any(|trust| trust.contains("was learned without")), "{gate}: {report:#?}");
        }
    }
}

/// The ledger tells which of the caller's own challengers compete, as the session has it.
fn check_standings(session: &Session) {
    let competing = session.checkpoint().challengers;
    for own in session.ledger().own_challengers() {
        let competes = competing.iter().any(|challenger| challenger.policy.identity() == Some(own.policy));
        match own.standing {
            Standing::Waiting => assert!(own.round >= session.logs().len() && !competes),
            Standing::Competing => assert!(competes),
            Standing::Promoted | Standing::Dismissed => assert!(!competes),
        }
    }
}

#[test]
fn what_cannot_be_judged_is_no_challenger() {
    let world = Synthetic::new(SyntheticSettings { seed: 5, ..SyntheticSettings::default() }).unwrap();
    let first = world.first_policy(FeatureMap::identity(10), 0.2).unwrap();
    let k = first.actions();
    let mut session = Session::new(learner(1), Gate::Improvement, first.clone()).unwrap();
    let logs = world.collect(session.running().as_ref(), Turn { round: 0, start: 0, n: 300 }).unwrap();
    session.take(logs, true, &mut Silent).unwrap();
    let before = session.ledger().clone();
    let uniform = || Arc::new(Uniform::new(k).unwrap());
    let wide = LinearGaussian::standard(FeatureMap::identity(11), k).unwrap();
    let running = Arc::clone(session.running());
    for (policy, round, said) in [
        (
            uniform() as Arc<dyn Policy>,
            0,
            "the first round that judges a challenger should be at least 1: earlier records may have chosen the \
             challenger, but is 0",
        ),
        (Arc::new(Uniform::new(k + 1).unwrap()), 1, "a challenger should be one with"),
        (Arc::new(wide), 1, "a challenger should be one of contexts with 10 features, but is one with 11"),
        (running, 1, "a challenger should be another policy than the running one, but is that one"),
    ] {
        let found = session.challenge(policy, round).unwrap_err().to_string();
        assert!(found.starts_with(said), "{found}");
        assert_eq!(session.ledger(), &before);
    }
    session.challenge(uniform(), 1).unwrap();
    assert!(session.challenge(uniform(), 1).unwrap_err().to_string().contains("does not judge yet"));
    let mut always = Session::new(learner(1), Gate::Always, first).unwrap();
    let found = always.challenge(uniform(), 0).unwrap_err().to_string();
    assert!(found.contains("should be other than always"), "{found}");
}

/// A generator of numbers, so that the worlds below need no other.
struct Draws(u64);

impl Draws {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn sign(&mut self) -> f32 {
        if self.bits() >> 63 == 0 { -1.0 } else { 1.0 }
    }
}

const WIDTH: usize = 400;
const RECORDS: usize = 200;

/// A round of a world in which no policy is better than another: costs are coins.
fn coins(policy: &dyn Policy, seed: u64) -> Logs {
    let mut draws = Draws(seed);
    let contexts = Contexts::dense((0..RECORDS * WIDTH).map(|_| draws.sign()).collect(), WIDTH).unwrap();
    let action: Vec<u32> = (0..RECORDS).map(|_| (draws.bits() >> 63) as u32).collect();
    let cost = (0..RECORDS).map(|_| -((draws.bits() >> 63) as f64)).collect();
    let propensity = policy.propensity(&contexts, &action, None).unwrap();
    Logs::new(2, contexts, action, propensity, cost).unwrap()
}

/// The policy that these records like: it repeats what was rewarded, and avoids what was not.
fn flattered(logs: &Logs) -> Softmax {
    let mut weights = vec![0.0; WIDTH * 2];
    for i in 0..logs.len() {
        let sign = -logs.cost()[i] - 0.5;
        logs.contexts().row(i).for_each(|f, x| weights[2 * f + logs.action()[i] as usize] += sign * x);
    }
    Softmax::new(FeatureMap::identity(WIDTH), 2, weights, 1.0).unwrap()
}

/// The ledger with other entries, written again from its opening.
fn rewritten(ledger: &Ledger, change: impl Fn(&Entry) -> Vec<Entry>) -> Ledger {
    let mut again = Ledger::open(ledger.opening().clone());
    ledger.entries()[1..].iter().flat_map(change).for_each(|entry| again.append(entry));
    again
}

/// The negative control: where no policy is better, one that was chosen by the records that judge it looks better. The
/// session judges it by later records only, and whoever writes the ledger otherwise is found out.
#[test]
fn a_challenger_that_was_chosen_by_the_records_that_judge_it_is_not_accepted() {
    let first = LinearGaussian::standard(FeatureMap::identity(WIDTH), 2).unwrap();
    let (mut fooled, mut promoted) = (0, 0);
    for seed in 0..20 {
        let mut session = Session::new(learner(1), Gate::Improvement, first.clone()).unwrap();
        let protocol = session.learner().protocol.clone();
        session.take(coins(&first, 2 * seed), true, &mut Silent).unwrap();
        let own = Arc::new(flattered(&session.logs()[0]));
        let print = own.identity().unwrap();
        assert!(session.challenge(Arc::clone(&own) as _, 0).is_err());
        // What it would look like if these records judged it.
        let case = Case { share: Share::of_round(0, 0.8), ..Case::whole(session.logs(), &protocol) };
        let flattering = Certificate::fixed(Smoothing::Adjusted, own.as_ref(), 3, &case).unwrap();
        fooled += usize::from(flattering.upper < 0.0);
        if seed == 0 {
            let statement = Statement { round: 1, kind: StatementKind::Gate, certificate: flattering };
            let state = Entry::State { round: 1, kind: StatementKind::Gate, certificate: hash_of(&statement) };
            let challenge = Entry::Challenge { policy: print, round: 0 };
            let mut forged = run(&session, vec![statement]);
            forged.policies.push(AuditedPolicy { name: "the forged one".into(), policy: Arc::clone(&own) as _ });
            // Named after the records.
            forged.ledger = Some(rewritten(session.ledger(), |entry| match entry {
                Entry::Learn { .. } => vec![entry.clone(), challenge.clone()],
                Entry::State { kind: StatementKind::Gate, .. } => vec![state.clone()],
                _ => vec![entry.clone()],
            }));
            let found = differences(&forged);
            assert!(found.iter().any(|said| said.contains("was fixed after round 0")), "{found:#?}");
            // Written in before them: the head that was given away before is gone.
            let head = session.ledger().head_before(0).unwrap();
            forged.ledger = Some(rewritten(session.ledger(), |entry| match entry {
                Entry::Deploy { policy } if *policy == first.fingerprint() => vec![challenge.clone(), entry.clone()],
                Entry::State { kind: StatementKind::Gate, .. } => vec![state.clone()],
                _ => vec![entry.clone()],
            }));
            let found = audit(&forged, &[head], || ()).all_differences();
            assert!(found.iter().any(|said| said.contains("is not in it")), "{found:#?}");
            // Never named at all.
            forged.ledger = Some(rewritten(session.ledger(), |entry| match entry {
                Entry::State { kind: StatementKind::Gate, .. } => vec![state.clone()],
                _ => vec![entry.clone()],
            }));
            let found = differences(&forged);
            assert!(found.iter().any(|said| said.contains("was not learned in 1 rounds")), "{found:#?}");
        }
        session.challenge(own, 1).unwrap();
        for round in 1..3 {
            let collects = session.running().clone();
            session.take(coins(collects.as_ref(), 1000 + 2 * seed + round), true, &mut Silent).unwrap();
        }
        promoted +=
            usize::from(session.deployed().iter().chain([session.running()]).any(|p| p.identity() == Some(print)));
    }
    assert!(fooled >= 15, "the control looks better in {fooled} of 20 worlds");
    assert_eq!(promoted, 0);
}

/// An operator lets another policy decide for a while. The comparison with the running policy has then ended: one that begins
/// with a later record would be another, for which a challenger has no share of delta left.
#[test]
fn a_comparison_does_not_begin_again_after_a_break() {
    let world = Synthetic::new(SyntheticSettings { seed: 5, ..SyntheticSettings::default() }).unwrap();
    let [first, good] = [0.2, 3.0].map(|alpha| world.first_policy(FeatureMap::identity(10), alpha).unwrap());
    let learner = Learner { lambda: Lambda::Fixed(1e-4), ..learner(1) };
    let mut session = Session::new(learner, Gate::Improvement, first.clone()).unwrap();
    let [first, good] = [first, good].map(|policy| Arc::new(policy) as Arc<dyn Policy>);
    let uniform = Uniform::new(first.actions()).unwrap();
    session.challenge(Arc::clone(&good), 0).unwrap();
    let mut made = Vec::new();
    for (round, by) in [&first, &good, &first, &good].into_iter().enumerate() {
        if round == 1 {
            session.challenge(Arc::new(uniform.clone()), 1).unwrap();
        }
        let logs = world.collect(by.as_ref(), Turn { round, start: 1500 * round, n: 1500 }).unwrap();
        let job = session.prepare(logs, by.identity(), true).unwrap();
        let report = session.commit(job.run(&mut Silent).unwrap()).unwrap();
        assert_eq!(report.promoted, round == 0, "only the good policy is better");
        made.extend(statements(round + 1, &report));
        check_standings(&session);
        // Those that were there before the break are gone.
        assert_eq!(session.checkpoint().challengers.len(), [0, 2, 1, 2][round]);
    }
    let honest = run(&session, made);
    assert_eq!(differences(&honest), Vec::<String>::new());
    // Somebody compares the uniform policy again, on the records since the break.
    let (protocol, logs) = (session.learner().protocol.clone(), session.logs());
    let place = honest.statements.iter().rposition(|s| s.kind == StatementKind::Gate).unwrap();
    for since in [3, 1] {
        let case = Case { since: Since::round(since), share: Share::of_round(1, 0.8), ..Case::whole(logs, &protocol) };
        let mut forged = honest.clone();
        forged.statements[place].certificate = Certificate::fixed(Smoothing::Adjusted, &uniform, 2, &case).unwrap();
        let found = differences(&forged);
        assert!(found.iter().any(|said| said.contains("no entry says since when")), "{found:#?}");
    }
}
