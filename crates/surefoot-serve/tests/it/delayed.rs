//! Whether certificates hold where rewards come late, never or twice: whole loops through the engine, with the true risk of
//! every policy known. `SUREFOOT_RUNS=2000` runs more of them.
//!
//! There are three worlds. In one, visitors click: a reward of 1 comes, or nothing does, which stands for 0. In another they
//! complain: a reward of 0 comes, or nothing does, which stands for 1. In the third, decisions are deferred, and not all of
//! them are shown. How often and how soon depends on context and action. Three rules that are wrong on purpose must be
//! found out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::json;
use surefoot::observer::Silent;
use surefoot::worlds::Truth;
use surefoot::{Contexts, Fingerprint, Logs, Policy, Session};
use surefoot_serve::clock::Time;
use surefoot_serve::config::Rules;
use surefoot_serve::engine::{Answer, Ask, DecideAsk, Engine, Ready, RewardAsk};
use surefoot_serve::request::DecisionRequest;
use surefoot_serve::round_logs;
use surefoot_serve::store::{Learned, Reader, SqliteStore};

use crate::common::rules;

const RECORDS: usize = 200;
const ROUNDS: usize = 3;
const WINDOW: Time = 1000;
/// A decision every 5 ms: a round takes as long as a window.
const EVERY: Time = 5;
const DELTA: f64 = 0.05;

/// How the records of a round are made from what the store has.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rule {
    /// As the service does.
    Lawful,
    /// Wrong: what has come when the round ends counts, so the last records have no time.
    OneCut,
    /// Wrong: only records with a reward are kept.
    OnlyRewarded,
    /// Wrong: only records whose decision was shown are kept.
    OnlyShown,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum World {
    Clicks,
    Complaints,
    Deferred,
}

impl World {
    /// What a reward is if one comes, and if none does.
    fn rewards(self) -> (f64, f64) {
        match self {
            World::Clicks | World::Deferred => (1.0, 0.0),
            World::Complaints => (0.0, 1.0),
        }
    }

    fn config(self) -> String {
        let (_, default) = self.rewards();
        format!(
            r#"
            [[loop]]
            name = "shop"
            actions = 3
            features = [{{ name = "x", kind = "vector", width = 2 }}]
            reward = {{ window = "1s", default = {default} }}
            round = {{ records = {RECORDS} }}
            learner = {{ algorithm = "seq-ls", lambda = "0.2", epochs = 2, held-back = "0.5" }}
            gate = "always"
            delta = {DELTA}
            "#
        )
    }
}

/// The contexts of both worlds.
const CONTEXTS: [[f64; 2]; 4] = [[1.0, 0.0], [0.0, 1.0], [0.7, 0.7], [-0.7, 0.7]];

/// The probability that a reward comes at all, and the longest delay: it is uniform up to there. Deferred decisions have one
/// in nine of ten cases, shown or not.
fn response(world: World, context: usize, action: usize) -> (f64, Time) {
    if world == World::Deferred {
        return (0.9, 700);
    }
    let p = [0.2, 0.5, 0.9][(context + action) % 3];
    (p, [700, 1200, 2000][(2 * context + action) % 3])
}

/// The probability that a decision is shown.
fn shown(world: World, context: usize, action: usize) -> f64 {
    if world == World::Deferred { [0.1, 0.3, 0.9][(context + action) % 3] } else { 1.0 }
}

/// The expected cost of every action, of rewards that come within the window of decisions that are shown.
fn truth(world: World) -> Truth {
    let contexts = CONTEXTS.iter().flatten().map(|&x| x as f32).collect();
    let cost = |(context, action)| {
        let (p, longest) = response(world, context, action);
        let in_time = shown(world, context, action) * p * (WINDOW as f64 / longest as f64).min(1.0);
        let (if_any, if_none) = world.rewards();
        -(in_time * if_any + (1.0 - in_time) * if_none)
    };
    let costs = (0..4).flat_map(|context| (0..3).map(move |action| (context, action))).map(cost).collect();
    Truth::table(Contexts::dense(contexts, 2).unwrap(), 3, costs).unwrap()
}

/// The policies that a loop has found so far.
type Policies = Arc<Mutex<HashMap<Fingerprint, Arc<dyn Policy>>>>;

/// One loop. Returns whether a certificate was wrong in any of its rounds.
fn wrong(world: World, rule: Rule, seed: u64) -> bool {
    // SplitMix64, with a seed far from the others.
    let mut state = seed.wrapping_mul(0xd134_2543_de82_ef95);
    let mut uniform = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    };
    let (rules, first) = rules(&world.config());
    let rules = Arc::new(rules);
    let mut session = rules.session("study", first.clone()).unwrap();
    let memory = std::path::Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let store = Box::new(SqliteStore::open(&folder.path().join("loop.sqlite")).unwrap());
    let policies: Policies = Arc::default();
    policies.lock().unwrap().insert(first.fingerprint(), Arc::new(first));
    let known = Arc::clone(&policies);
    let find = Box::new(move |print| Ok(Arc::clone(&known.lock().unwrap()[&print])));
    let mut engine = Engine::open("study", Arc::clone(&rules), session.ledger(), store, find).unwrap();
    let truth = truth(world);
    let mut time: Time = 0;
    let mut missed = false;
    for round in 0..ROUNDS {
        let mut coming: Vec<(Time, Ask)> = Vec::new();
        for i in 0..RECORDS {
            let context = (4.0 * uniform()) as usize;
            let event_id = format!("{round}-{i}");
            let answer = engine.step(&[Ask::Decide(vec![ask(world, &rules, &event_id, context)])], time);
            let [Answer::Decided(decided)] = &answer[..] else { panic!("{answer:?}") };
            let action = decided[0].as_ref().unwrap().action as usize;
            let (p, longest) = response(world, context, action);
            if world == World::Deferred && uniform() < shown(world, context, action) {
                // Before its reward or after it.
                coming.push((time + (WINDOW as f64 * uniform()) as Time, Ask::Activate(event_id.clone())));
            }
            let (comes, delay, twice) = (uniform() < p, longest as f64 * uniform(), uniform() < 0.2);
            if comes {
                let reward = RewardAsk { event_id, reward_id: String::new(), value: world.rewards().0 };
                let times = if twice { 2 } else { 1 };
                let reward = Ask::Reward(vec![reward]);
                coming.extend((0..times).map(|again| (time + delay as Time + again, reward.clone())));
            }
            time += EVERY;
        }
        let end = time;
        coming.sort_by_key(|(when, _)| *when);
        for (when, ask) in coming {
            engine.step(&[ask], when);
        }
        time = end + 3 * WINDOW;
        engine.step(&[], time);
        let ready = engine.take_ready().expect("all windows have passed");
        let logs = logs(engine.reader().unwrap().as_ref(), &rules, &ready, rule, end);
        let report = match learn(&mut session, logs, &ready) {
            // The records that a wrong rule keeps may contradict their propensities: it is found out before it is believed.
            Err(surefoot::Error::Refuted { .. }) if rule != Rule::Lawful => return true,
            report => report.unwrap(),
        };
        let running = Arc::clone(session.running());
        missed |= report.iter().any(|upper| *upper < truth.risk(running.as_ref()).unwrap());
        let print = running.identity().unwrap();
        policies.lock().unwrap().insert(print, running);
        let learned = Learned {
            round: ready.round,
            running: Some(print),
            session: String::new(),
            ledger: session.ledger().to_string(),
            statements: Vec::new(),
            report: String::new(),
        };
        let done = engine.step(&[Ask::Learned(Box::new(learned))], time);
        assert_eq!(done, [Answer::Done(Ok(()))]);
    }
    missed
}

fn ask(world: World, rules: &Rules, event_id: &str, context: usize) -> DecideAsk {
    let defer = world == World::Deferred;
    let request = json!({ "event_id": event_id, "context": { "x": CONTEXTS[context] }, "defer": defer });
    serde_json::from_value::<DecisionRequest>(request).unwrap().check(rules).unwrap()
}

/// Learns from a round, and returns the bounds on the risk of the policy that runs next.
fn learn(session: &mut Session, logs: Logs, ready: &Ready) -> surefoot::Result<Vec<f64>> {
    let done = session.prepare(logs, ready.policy, true)?.run(&mut Silent)?;
    let proven = session.commit(done)?.proven.unwrap();
    Ok([proven.certificate, proven.ladder].into_iter().flatten().map(|certificate| certificate.upper).collect())
}

/// The logs of a round by this rule.
fn logs(reader: &dyn Reader, rules: &Rules, ready: &Ready, rule: Rule, end: Time) -> Logs {
    let lawful = round_logs(reader, rules, ready).unwrap();
    if rule == Rule::Lawful {
        return lawful;
    }
    let (mut kept, mut cost) = (Vec::new(), Vec::new());
    let mut place = 0;
    let mut each = |record: surefoot_serve::store::RecordRow| {
        let came = reader.rewards(&record.decision.event_id)?;
        let (keeps, counted) = match rule {
            Rule::Lawful | Rule::OnlyShown => (record.decision.activated_at.is_some(), record.rewards.first().copied()),
            Rule::OneCut => (true, came.iter().find(|row| row.received_at <= end).map(|row| row.value)),
            Rule::OnlyRewarded => (!came.is_empty(), came.first().map(|row| row.value)),
        };
        if keeps {
            kept.push(place);
            cost.push(-counted.unwrap_or(rules.default));
        }
        place += 1;
        Ok(())
    };
    reader.records(ready.first, ready.records, &mut each).unwrap();
    let action = kept.iter().map(|&i| lawful.action()[i]).collect();
    let propensity = kept.iter().map(|&i| lawful.propensity()[i]).collect();
    Logs::new(3, lawful.contexts().select(&kept), action, propensity, cost).unwrap()
}

/// How many loops of so many have a wrong certificate, or are refused for a wrong rule. Each has a seed of its own, on any thread.
fn misses(world: World, rule: Rule, runs: u64) -> u64 {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let some =
        move |first: u64| (first..runs).step_by(threads as usize).filter(|&seed| wrong(world, rule, seed)).count();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|first| scope.spawn(move || some(first) as u64)).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

#[test]
fn certificates_hold_where_rewards_come_late_never_or_twice_and_wrong_rules_are_found_out() {
    let runs: u64 = std::env::var("SUREFOOT_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(25);
    // Two statements share delta per round, each over all rounds; four standard deviations more are allowed.
    let expected = 2.0 * DELTA * runs as f64;
    let allowed = expected + 4.0 * expected.sqrt();
    for world in [World::Clicks, World::Complaints, World::Deferred] {
        let found = misses(world, Rule::Lawful, runs);
        eprintln!("{world:?}, lawful: {found} of {runs}");
        assert!((found as f64) < allowed, "{world:?}: {found} of {runs}");
    }
    let wrong =
        [(World::Complaints, Rule::OneCut), (World::Clicks, Rule::OnlyRewarded), (World::Deferred, Rule::OnlyShown)];
    for (world, rule) in wrong {
        let found = misses(world, rule, runs);
        eprintln!("{world:?}, {rule:?}: {found} of {runs}");
        assert!(found as f64 > allowed.min(0.5 * runs as f64), "{world:?}, {rule:?}: {found} of {runs}");
    }
}
