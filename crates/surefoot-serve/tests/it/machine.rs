//! The engine as a state machine: random schedules of asks, clock jumps, failures of the store and crashes, with a naive
//! model beside it. On SQLite there is one engine, on PostgreSQL there are two, which take turns.
//! `SUREFOOT_SCHEDULES=10000000` and `SUREFOOT_POSTGRES_SCHEDULES=10000` run more of them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use surefoot::audit::{Entry, Ledger};
use surefoot::{Fingerprint, LinearGaussian, Policy};
use surefoot_serve::clock::Time;
use surefoot_serve::config::{Aggregation, Rules};
use surefoot_serve::engine::{
    Activation, AdminAsk, Answer, Ask, Command, DecideAsk, Decided, Engine, Ready, RewardAsk, RewardOutcome,
};
use surefoot_serve::request::DecisionRequest;
use surefoot_serve::store::{Learned, PostgresStore, Reader, SqliteStore, Store};

use crate::common::{SHOP, rules};
use crate::flaky::{Flaky, Fuse};
use crate::postgres::Postgres;

/// Rounds of 4 decisions.
const ROUND: usize = 4;
const WINDOW: Time = 1000;

#[derive(Debug, Clone)]
enum Op {
    /// Events by number, each with one of two bodies.
    Decide(Vec<(u8, bool)>),
    /// Event, id of the reward, value in tenths.
    Reward(Vec<(u8, u8, u8)>),
    /// An event whose decision is shown.
    Activate(u8),
    /// The clock jumps by so much.
    Jump(i16),
    /// The process ends, and another begins.
    Crash,
    /// The n-th operation of the store fails from here on, once.
    Fail(u8),
    Learn(u8),
    Admin(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let event = || 0u8..24;
    prop_oneof![
        6 => prop::collection::vec((event(), prop::bool::weighted(0.1)), 1..5).prop_map(Op::Decide),
        5 => prop::collection::vec((event(), 0u8..2, 0u8..12), 1..4).prop_map(Op::Reward),
        2 => event().prop_map(Op::Activate),
        3 => (-1500i16..2500).prop_map(Op::Jump),
        1 => Just(Op::Crash),
        1 => (0u8..12).prop_map(Op::Fail),
        3 => (0u8..3).prop_map(Op::Learn),
        1 => (0u8..5).prop_map(Op::Admin),
    ]
}

/// Whether the decision on this event is deferred.
fn deferred(event: u8) -> bool {
    event.is_multiple_of(3)
}

/// What the model knows of an event.
#[derive(Debug, Clone)]
struct Event {
    body: bool,
    decided: Decided,
    at: Time,
    active: bool,
}

#[derive(Debug, Clone)]
struct Round {
    policy: Fingerprint,
    first: usize,
    closed: bool,
    learned: bool,
}

/// The id of a reward, its value, when it came, and whether it counts; `None` while it is parked.
type Reward = (u8, f64, Time, Option<bool>);

/// The loop as a list of everything that happened.
#[derive(Debug, Clone, Default)]
struct Model {
    /// The time of the engine whose turn it is.
    time: Time,
    /// The latest time that each engine has seen.
    times: Vec<Time>,
    order: Vec<u8>,
    events: HashMap<u8, Event>,
    rewards: HashMap<u8, Vec<Reward>>,
    rounds: Vec<Round>,
    running: Option<Fingerprint>,
    pinned: Option<Fingerprint>,
    learned_at: Option<Time>,
}

impl Model {
    /// The latest time in the store.
    fn stored(&self) -> Time {
        let decided = self.events.values().map(|event| event.at);
        let rewards = self.rewards.values().flatten().map(|reward| reward.2);
        decided.chain(rewards).chain(self.learned_at).max().unwrap_or(Time::MIN)
    }

    /// An engine is asked something at this time of the clock.
    fn turn(&mut self, engine: usize, clock: Time) {
        self.time = self.times[engine].max(clock).max(self.stored());
        self.times[engine] = self.time;
    }

    fn decide(&mut self, event: u8, body: bool, answer: &Decided) {
        if self.rounds.last().is_none_or(|round| round.closed) {
            let policy = self.pinned.or(self.running).unwrap();
            self.rounds.push(Round { policy, first: self.order.len(), closed: false, learned: false });
        }
        let (number, round) = (self.rounds.len() - 1, self.rounds.last_mut().unwrap());
        assert!(!answer.again);
        assert_eq!((answer.round, answer.policy), (number as u64, Some(round.policy)));
        assert_eq!((answer.reward_until, answer.deferred), (self.time + WINDOW, deferred(event)));
        self.order.push(event);
        round.closed = self.order.len() - round.first == ROUND;
        let active = !deferred(event);
        self.events.insert(event, Event { body, decided: answer.clone(), at: self.time, active });
        if active {
            self.settle(event, self.time);
        }
    }

    /// Joins the parked rewards of an event that was decided at this time.
    fn settle(&mut self, event: u8, at: Time) {
        for (_, _, came, counts) in self.rewards.entry(event).or_default() {
            *counts = counts.or(Some(*came + WINDOW >= at));
        }
    }

    /// What an activation should be answered with; `None` without a decision.
    fn activate(&mut self, event: u8) -> Option<Activation> {
        let known = self.events.get_mut(&event)?;
        if known.active {
            return Some(Activation::Duplicate);
        }
        if self.time > known.at + WINDOW {
            return Some(Activation::Late);
        }
        known.active = true;
        let at = known.at;
        self.settle(event, at);
        Some(Activation::Activated)
    }

    /// What a reward should be answered with: an outcome, or a refusal.
    fn reward(&mut self, event: u8, id: u8, value: f64) -> Option<RewardOutcome> {
        let all = self.rewards.entry(event).or_default();
        if value > 1.0 {
            return None;
        }
        if let Some((_, known, ..)) = all.iter().find(|(other, ..)| *other == id) {
            return (*known == value).then_some(RewardOutcome::Duplicate);
        }
        let counts = self.events.get(&event).and_then(|event| match self.time <= event.at + WINDOW {
            true => event.active.then_some(true),
            false => Some(false),
        });
        let sum: f64 = all.iter().filter(|(.., counts)| *counts != Some(false)).map(|(_, value, ..)| value).sum();
        if counts != Some(false) && sum + value > 1.0 {
            return None;
        }
        all.push((id, value, self.time, counts));
        Some(match counts {
            None => RewardOutcome::Parked,
            Some(true) => RewardOutcome::Joined,
            Some(false) => RewardOutcome::Late,
        })
    }

    /// The round that is ready to be learned from.
    fn ready(&self) -> Option<usize> {
        let place = self.rounds.iter().position(|round| !round.learned)?;
        let round = &self.rounds[place];
        let last = self.order[self.end(place) - 1];
        (round.closed && self.time > self.events[&last].at + WINDOW).then_some(place)
    }

    fn end(&self, place: usize) -> usize {
        self.rounds.get(place + 1).map_or(self.order.len(), |next| next.first)
    }
}

struct World {
    folder: tempfile::TempDir,
    /// A database and the name of the loop in it, instead of the folder.
    shared: Option<(Arc<Postgres>, String)>,
    rules: Arc<Rules>,
    ledger: Ledger,
    policies: HashMap<Fingerprint, Arc<dyn Policy>>,
    prints: Vec<Fingerprint>,
    fuse: Fuse,
}

/// What all worlds have in common, made once: schedules are many and short.
struct Template {
    rules: Arc<Rules>,
    ledger: Ledger,
    policies: HashMap<Fingerprint, Arc<dyn Policy>>,
    prints: Vec<Fingerprint>,
    /// A file of a store without a loop in it.
    empty: Vec<u8>,
}

impl Template {
    fn get() -> &'static Self {
        static ONCE: OnceLock<Template> = OnceLock::new();
        ONCE.get_or_init(|| {
            let text = SHOP.replace("records = 40", "records = 4").replace("\"1s\"", "\"1s\", aggregation = \"sum\"");
            let (rules, first) = rules(&text);
            let ledger = rules.session("test", first.clone()).unwrap().ledger().clone();
            let other = |exploration| LinearGaussian::clone(&first).with_exploration(exploration).unwrap();
            let all = [first.clone(), other(0.3), other(0.6)];
            let prints = all.iter().map(LinearGaussian::fingerprint).collect();
            let policies = all.into_iter().map(|p| (p.fingerprint(), Arc::new(p) as Arc<dyn Policy>)).collect();
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("loop.sqlite");
            drop(SqliteStore::open(&path).unwrap());
            Template { rules: Arc::new(rules), ledger, policies, prints, empty: std::fs::read(path).unwrap() }
        })
    }
}

impl World {
    fn new(shared: Option<(Arc<Postgres>, String)>) -> Self {
        let Template { rules, ledger, policies, prints, empty } = Template::get();
        // In memory, where that is a folder: the disk is not what is tested here.
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        std::fs::write(folder.path().join("loop.sqlite"), empty).unwrap();
        let (rules, ledger, policies, prints) = (Arc::clone(rules), ledger.clone(), policies.clone(), prints.clone());
        World { folder, shared, rules, ledger, policies, prints, fuse: Arc::new((-1).into()) }
    }

    fn start(&self) -> Engine {
        let inner: Box<dyn Store> = match &self.shared {
            None => Box::new(SqliteStore::open(&self.folder.path().join("loop.sqlite")).unwrap()),
            Some((database, name)) => {
                let store = PostgresStore::open(&database.address(), name).unwrap();
                // A server that looks seldom may not know yet that a round can be learned from.
                Box::new(store.looking_every(Duration::ZERO))
            }
        };
        let store = Flaky { inner, fuse: Arc::clone(&self.fuse) };
        let policies = self.policies.clone();
        let find = Box::new(move |print| Ok(Arc::clone(&policies[&print])));
        Engine::open("shop", Arc::clone(&self.rules), &self.ledger, Box::new(store), find).unwrap()
    }

    fn reader(&self) -> Box<dyn Reader> {
        match &self.shared {
            None => Box::new(SqliteStore::open_to_read(&self.folder.path().join("loop.sqlite")).unwrap()),
            Some((database, name)) => Box::new(PostgresStore::open_to_read(&database.address(), name).unwrap()),
        }
    }

    fn ask(&self, event: u8, body: bool) -> DecideAsk {
        let context = json!({ "x": f64::from(event) / 8.0 + f64::from(u8::from(body)), "device": "phone" });
        let request = json!({ "event_id": format!("e{event}"), "context": context, "defer": deferred(event) });
        serde_json::from_value::<DecisionRequest>(request).unwrap().check(&self.rules).unwrap()
    }
}

/// Runs a schedule, and compares every answer with the model.
#[expect(clippy::too_many_lines, reason = "one arm per operation")]
fn run(world: &World, ops: &[Op]) {
    let servers = if world.shared.is_some() { 2 } else { 1 };
    let mut engines: Vec<Engine> = (0..servers).map(|_| world.start()).collect();
    let mut model = Model { running: Some(world.prints[0]), times: vec![Time::MIN; servers], ..Model::default() };
    let mut clock: Time = 10_000;
    let mut learning: Option<(usize, Ready)> = None;
    let mut ledger = world.ledger.clone();
    for (place, op) in ops.iter().enumerate() {
        // Turns in an irregular order. What an engine has learned comes back to it.
        let turn = match (op, &learning) {
            (Op::Learn(_), Some((turn, _))) => *turn,
            _ => (place * place / 3) % servers,
        };
        let engine = &mut engines[turn];
        let failing = world.fuse.load(Ordering::SeqCst) >= 0;
        let before = model.clone();
        if !matches!(op, Op::Jump(_) | Op::Fail(_) | Op::Crash) {
            model.turn(turn, clock);
        }
        // Whether the store failed: then nothing happened.
        let mut failed = false;
        match op {
            Op::Jump(by) => {
                clock += Time::from(*by);
                continue;
            }
            Op::Fail(operation) => {
                world.fuse.store(i64::from(*operation), Ordering::SeqCst);
                continue;
            }
            Op::Crash => {
                world.fuse.store(-1, Ordering::SeqCst);
                drop(engines.remove(turn));
                engines.insert(turn, world.start());
                // Only what is stored is remembered, the time too.
                model.times[turn] = model.stored();
                if learning.as_ref().is_some_and(|(learner, _)| *learner == turn) {
                    learning = None;
                    // Its claim runs out after a while.
                    if let Some((database, name)) = &world.shared {
                        database.execute(&format!("DELETE FROM surefoot_{name}.learner"));
                    }
                }
                continue;
            }
            Op::Decide(asked) => {
                let asks = asked.iter().map(|&(event, body)| world.ask(event, body)).collect();
                let answers = engine.step(&[Ask::Decide(asks)], clock);
                let [Answer::Decided(answers)] = &answers[..] else { panic!("{answers:?}") };
                for (&(event, body), answer) in asked.iter().zip(answers) {
                    match (answer, model.events.get(&event)) {
                        (Err(refusal), _) if refusal.status == 503 => failed = true,
                        (answer, Some(known)) if known.body == body => {
                            let decided = Decided { again: true, ..known.decided.clone() };
                            assert_eq!(answer, &Ok(decided));
                        }
                        (answer, Some(_)) => assert_eq!(answer.as_ref().unwrap_err().kind, "other-body"),
                        (answer, None) => {
                            let answer = answer.as_ref().unwrap();
                            let ask = world.ask(event, body);
                            let policy = &world.policies[&answer.policy.unwrap()];
                            let p = policy.propensity(&ask.context, &[answer.action], None).unwrap()[0];
                            assert!((p - answer.propensity).abs() < 1e-9, "{p} {}", answer.propensity);
                            model.decide(event, body, answer);
                        }
                    }
                }
            }
            Op::Reward(sent) => {
                let ask = |&(event, id, tenths): &(u8, u8, u8)| RewardAsk {
                    event_id: format!("e{event}"),
                    reward_id: format!("r{id}"),
                    value: f64::from(tenths) / 10.0,
                };
                let answers = engine.step(&[Ask::Reward(sent.iter().map(ask).collect())], clock);
                let [Answer::Rewarded(answers)] = &answers[..] else { panic!("{answers:?}") };
                for (&(event, id, tenths), answer) in sent.iter().zip(answers) {
                    match answer {
                        Err(refusal) if refusal.status == 503 => failed = true,
                        answer => {
                            let expected = model.reward(event, id, f64::from(tenths) / 10.0);
                            assert_eq!(answer.as_ref().ok().map(|rewarded| rewarded.outcome), expected, "{answer:?}");
                        }
                    }
                }
            }
            Op::Activate(event) => {
                let answers = engine.step(&[Ask::Activate(format!("e{event}"))], clock);
                match &answers[..] {
                    [Answer::Activated(Err(refusal))] if refusal.status == 503 => failed = true,
                    [Answer::Activated(answer)] => assert_eq!(answer.as_ref().ok().copied(), model.activate(*event)),
                    other => panic!("{other:?}"),
                }
            }
            Op::Learn(policy) => {
                engine.step(&[], clock);
                match learning.take() {
                    None => {
                        let ready = engine.take_ready();
                        assert_eq!(ready.as_ref().map(|ready| ready.round as usize), model.ready());
                        learning = ready.map(|ready| (turn, ready));
                    }
                    Some((_, ready)) => {
                        let running = world.prints[usize::from(*policy)];
                        let mut longer = ledger.clone();
                        longer.append(Entry::Deploy { policy: running });
                        let learned = Learned {
                            round: ready.round,
                            running: Some(running),
                            session: "{}".into(),
                            ledger: longer.to_string(),
                            statements: Vec::new(),
                            report: "{}".into(),
                        };
                        match &engine.step(&[Ask::Learned(Box::new(learned))], clock)[..] {
                            [Answer::Done(Ok(()))] => {
                                model.rounds[ready.round as usize].learned = true;
                                model.running = Some(running);
                                model.learned_at = Some(model.time);
                                ledger = longer;
                            }
                            [Answer::Done(Err(_))] => {
                                failed = true;
                                learning = Some((turn, ready));
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                }
            }
            Op::Admin(which) => {
                let open = model.rounds.last().filter(|round| !round.closed);
                let short = open.is_some_and(|round| model.order.len() - round.first < 2);
                let ran = model.rounds.first().map(|round| round.policy);
                let (command, allowed) = match which {
                    0 => (Command::Close, !short),
                    1 => (Command::Pause, true),
                    2 => (Command::Resume, true),
                    3 => (Command::Retrain, false),
                    _ => (Command::Rollback(ran.unwrap_or(world.prints[2])), !short && ran.is_some()),
                };
                let ask = Ask::Admin(AdminAsk { by: "test".into(), command: command.clone() });
                match &engine.step(&[ask], clock)[..] {
                    [Answer::Done(Err(refusal))] if refusal.status == 503 => failed = true,
                    [Answer::Done(done)] => {
                        assert_eq!(done.is_ok(), allowed, "{command:?} {done:?}");
                        let policy = open.map(|round| round.policy).or(model.pinned).or(model.running);
                        match (command, allowed) {
                            (Command::Close, true) => model.rounds.iter_mut().for_each(|round| round.closed = true),
                            (Command::Pause, _) => model.pinned = policy,
                            (Command::Resume, _) => model.pinned = None,
                            (Command::Rollback(policy), true) => {
                                model.rounds.iter_mut().for_each(|round| round.closed = true);
                                model.pinned = Some(policy);
                            }
                            _ => {}
                        }
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        if failed {
            assert!(failing, "the store fails only where it is told to");
            let times = std::mem::take(&mut model.times);
            model = before;
            if matches!(op, Op::Learn(_)) {
                // The engine has looked at the clock in a step of its own, which did not fail.
                model.times = times;
            }
        } else {
            let status = engine.status();
            assert_eq!(status.decisions as usize, model.order.len());
            assert_eq!(status.ledger_head, ledger.head());
        }
    }
    world.fuse.store(-1, Ordering::SeqCst);
    drop(engines);
    check(world, &model);
}

/// What is stored is what the model knows: every decision in its order, in one round, with the rewards that count.
fn check(world: &World, model: &Model) {
    let store = world.reader();
    let rounds = store.rounds().unwrap();
    assert_eq!(rounds.len(), model.rounds.len());
    let mut next = 0;
    for (place, (row, round)) in rounds.iter().zip(&model.rounds).enumerate() {
        assert_eq!((row.first as usize, row.policy), (next, Some(round.policy)));
        next = model.end(place);
        assert_eq!(
            row.closed.as_ref().map(|closed| closed.records as usize),
            round.closed.then_some(next - round.first)
        );
        assert_eq!(row.learned.is_some(), round.learned);
    }
    assert_eq!(next, model.order.len());
    let mut stored = Vec::new();
    let mut all = |record| {
        stored.push(record);
        Ok(())
    };
    store.records(0, model.order.len() as u64, &mut all).unwrap();
    for (record, event) in stored.iter().zip(&model.order) {
        let known = &model.events[event];
        assert_eq!(record.decision.event_id, format!("e{event}"));
        assert_eq!(
            (record.decision.action, record.decision.propensity),
            (known.decided.action, known.decided.propensity)
        );
        assert_eq!(record.decision.policy, known.decided.policy);
        assert_eq!(record.decision.activated_at.is_some(), known.active);
        let rewards = model.rewards.get(event).map_or(&[][..], Vec::as_slice);
        let counted: Vec<f64> = rewards.iter().filter(|reward| reward.3 == Some(true)).map(|reward| reward.1).collect();
        assert_eq!(record.rewards, counted);
        let sum = Aggregation::Sum.of(&record.rewards);
        assert_eq!(sum.is_none(), counted.is_empty());
    }
}

/// Runs so many schedules, each in a world of its own, on so many threads.
fn schedules(cases: u32, threads: u32, world: impl Fn() -> World + Sync) {
    let run_some = |cases: u32| {
        let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
        runner.run(&prop::collection::vec(op(), 1..60), |ops| {
            run(&world(), &ops);
            Ok(())
        })
    };
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..threads).map(|_| scope.spawn(|| run_some(cases.div_ceil(threads)))).collect();
        for run in runs {
            run.join().unwrap().unwrap_or_else(|error| panic!("{error}"));
        }
    });
}

/// How many schedules to run, unless the environment says otherwise.
fn cases(name: &str, otherwise: u32) -> u32 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn random_schedules_with_failures_and_crashes_agree_with_a_model() {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    schedules(cases("SUREFOOT_SCHEDULES", 100_000), threads, || World::new(None));
}

#[test]
fn two_servers_on_one_database_agree_with_the_same_model() {
    let Some(database) = Postgres::start() else { return };
    let database = Arc::new(database);
    let loops = AtomicU32::new(0);
    schedules(cases("SUREFOOT_POSTGRES_SCHEDULES", 40), 1, || {
        let name = format!("loop{}", loops.fetch_add(1, Ordering::SeqCst));
        World::new(Some((Arc::clone(&database), name)))
    });
}
