//! ENGINE: the rules of a loop, as steps. One thread owns it.
//!
//! A step takes what callers asked since the last one, and the time. It draws, numbers, joins and closes rounds in one
//! transaction, and its answers are given away only after the commit. If the commit fails, everything is as before the
//! step. So there is nothing to repair after a crash: [`Engine::open`] reads where the store ends.
//!
//! | file | what |
//! | --- | --- |
//! | `activate.rs` | deferred decisions that are shown |
//! | `asks.rs` | what callers ask, and the answers |
//! | `challenges.rs` | challengers of the caller's own |
//! | `decide.rs` | decisions: drawn once, then found again |
//! | `erase.rs` | records that are erased |
//! | `reward.rs` | rewards: joined, duplicate, late, parked |
//! | `retain.rs` | records that are older than the loop keeps them |
//! | `rounds.rs` | rounds: opened, closed, ready to be learned from; which policy collects |

mod activate;
mod asks;
mod challenges;
mod decide;
mod erase;
mod retain;
mod reward;
mod rounds;

pub use asks::{
    Activation, AdminAsk, Answer, Ask, Baseline, CandidateAsk, ChallengeAsk, Command, DecideAsk, Decided, EraseAsk,
    Erased, Refusal, RewardAsk, RewardOutcome, Rewarded,
};
pub use rounds::Ready;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use surefoot::audit::Ledger;
use surefoot::{Fingerprint, Policy};

use crate::clock::Time;
use crate::config::{Mode, Rules};
use crate::error::{Error, Result};
use crate::store::{Moved, RoundRow, Store};

/// Finds a policy by its fingerprint.
pub type FindPolicy = Box<dyn FnMut(Fingerprint) -> Result<Arc<dyn Policy>> + Send>;

/// A running loop: its store, and what it remembers of it.
pub struct Engine {
    name: String,
    rules: Arc<Rules>,
    store: Box<dyn Store>,
    secret: [u8; 32],
    seed: u64,
    policies: HashMap<Fingerprint, Arc<dyn Policy>>,
    find: FindPolicy,
    position: Position,
}

impl std::fmt::Debug for Engine {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("name", &self.name).field("position", &self.position).finish_non_exhaustive()
    }
}

/// Where a loop stands. It is small: a step works on it, and a failed step puts it back.
#[derive(Debug, Clone, PartialEq)]
struct Position {
    /// The latest time: it never goes back, whatever the clock does.
    time: Time,
    decisions: u64,
    rewards: u64,
    parked: u64,
    /// The round that is being collected.
    open: Option<RoundRow>,
    /// When the newest decision was drawn.
    last_at: Time,
    next_round: u64,
    /// Rounds that ended and were not learned from, the oldest first.
    waiting: VecDeque<RoundRow>,
    /// Whether the oldest of them is being learned from.
    learning: bool,
    /// Why learning failed, until it is tried again.
    failed: Option<String>,
    /// The policy that the session would deploy.
    running: Option<Fingerprint>,
    /// The policy that an operator wants instead.
    pinned: Option<Fingerprint>,
    /// The head of the ledger.
    head: Fingerprint,
    /// How many decisions were looked at because of their age, and when to look at the next ones.
    swept: u64,
    sweep_at: Time,
}

/// Where a loop stands, for people.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Status {
    /// The name of the loop.
    pub name: String,
    /// `live`, `shadow` or `apprentice`.
    #[schema(value_type = String)]
    pub mode: Mode,
    /// The number of decisions.
    pub decisions: u64,
    /// The number of rewards, with those that came late.
    pub rewards: u64,
    /// Rewards whose decision has not come.
    pub parked: u64,
    /// The round that is being collected, or that the next decision begins.
    pub round: u64,
    /// Its decisions so far.
    pub round_decisions: u64,
    /// Rounds that ended and were not learned from yet.
    pub waiting_rounds: usize,
    /// Whether a round is being learned from.
    pub learning: bool,
    /// Why learning failed, if it did.
    pub failed: Option<String>,
    /// The policy that decides.
    #[schema(value_type = Option<String>)]
    pub policy: Option<Fingerprint>,
    /// The policy that will decide from the next round on.
    #[schema(value_type = Option<String>)]
    pub next_policy: Option<Fingerprint>,
    /// Whether an operator holds the policy.
    pub paused: bool,
    /// For an apprentice: the policy that could take over with a proof.
    #[schema(value_type = Option<String>)]
    pub could_take_over: Option<Fingerprint>,
    /// The head of the ledger.
    #[schema(value_type = String)]
    pub ledger_head: Fingerprint,
}

impl Engine {
    /// Opens a loop: a new one if the store is empty, and otherwise the one in it, which must have these rules. `ledger` is
    /// that of a new loop.
    pub fn open(
        name: &str,
        rules: Arc<Rules>,
        ledger: &Ledger,
        mut store: Box<dyn Store>,
        find: FindPolicy,
    ) -> Result<Self> {
        let opened = store.begin().and_then(|()| open_in(name, &rules, ledger, store.as_mut()));
        if let Err(error) = opened.and_then(|()| store.commit()) {
            store.rollback();
            return Err(error);
        }
        let secret = store.secret()?;
        let seed = u64::from_le_bytes(keyed(&secret, b"seed")[..8].try_into().expect("8 bytes"));
        let position = Position::of(store.as_ref())?;
        let (name, policies) = (name.to_owned(), HashMap::new());
        Ok(Engine { name, rules, store, secret, seed, policies, find, position })
    }

    /// The rules of the loop.
    pub fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// A reader of its store, for another thread.
    pub fn reader(&self) -> Result<Box<dyn crate::store::Reader>> {
        self.store.reader()
    }

    /// Where the loop stands.
    pub fn status(&self) -> Status {
        let position = &self.position;
        let apprentice = self.rules.mode == Mode::Apprentice;
        let next = if apprentice { None } else { self.deployable() };
        Status {
            name: self.name.clone(),
            mode: self.rules.mode,
            decisions: position.decisions,
            rewards: position.rewards,
            parked: position.parked,
            round: position.open.as_ref().map_or(position.next_round, |open| open.round),
            round_decisions: position.open.as_ref().map_or(0, |open| position.decisions - open.first),
            waiting_rounds: position.waiting.len(),
            learning: position.learning,
            failed: position.failed.clone(),
            policy: position.open.as_ref().map_or(next, |open| open.policy),
            next_policy: next,
            paused: position.pinned.is_some(),
            could_take_over: position.running.filter(|_| apprentice),
            ledger_head: position.head,
        }
    }

    /// The head of the ledger.
    pub fn head(&self) -> Fingerprint {
        self.position.head
    }

    /// Takes all asks at this time, in order, in one transaction. There is one answer per ask.
    pub fn step(&mut self, asks: &[Ask], now: Time) -> Vec<Answer> {
        let before = self.position.clone();
        let done = self.work(asks, now);
        match done {
            Ok(answers) => answers,
            Err(error) => {
                self.store.rollback();
                self.position = before;
                let refusal = Refusal::unavailable(&error);
                asks.iter().map(|ask| ask.refused(&refusal)).collect()
            }
        }
    }

    /// Learns from the store what other servers did.
    fn look(&mut self) -> Result<()> {
        match self.store.moved()? {
            Moved::Nothing => {}
            Moved::Records => {
                let (ends, last_at) = (self.store.ends()?, last_at(self.store.as_ref())?);
                let position = &mut self.position;
                position.time = position.time.max(ends.time);
                (position.decisions, position.rewards, position.parked) = (ends.decisions, ends.rewards, ends.parked);
                position.last_at = last_at;
            }
            Moved::Everything => {
                let now = Position::of(self.store.as_ref())?;
                let before = std::mem::replace(&mut self.position, now);
                let position = &mut self.position;
                position.time = position.time.max(before.time);
                // What this server learns from, it goes on with; its failure is that of a round that still waits.
                position.learning = before.learning;
                let oldest = |position: &Position| position.waiting.front().map(|round| round.round);
                position.failed = before.failed.clone().filter(|_| oldest(position) == oldest(&before));
            }
        }
        Ok(())
    }

    /// Tells the store what a step will ask it for.
    fn expect(&mut self, asks: &[Ask]) {
        let (mut decided, mut rewarded): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
        for ask in asks {
            match ask {
                Ask::Decide(asks) => decided.extend(asks.iter().map(|ask| ask.event_id.as_str())),
                Ask::Reward(asks) => rewarded.extend(asks.iter().map(|ask| ask.event_id.as_str())),
                Ask::Activate(event_id) => decided.push(event_id),
                _ => {}
            }
        }
        self.store.expect(&decided, &rewarded);
    }

    fn work(&mut self, asks: &[Ask], now: Time) -> Result<Vec<Answer>> {
        self.position.time = self.position.time.max(now);
        let writes = !asks.is_empty() || self.is_over();
        if !writes {
            self.look()?;
            return Ok(Vec::new());
        }
        self.expect(asks);
        self.store.begin()?;
        self.look()?;
        self.close_if_over()?;
        let mut answers = Vec::with_capacity(asks.len());
        for ask in asks {
            answers.push(match ask {
                Ask::Decide(asks) => {
                    Answer::Decided(asks.iter().map(|ask| self.decide(ask)).collect::<Result<Vec<_>>>()?)
                }
                Ask::Reward(asks) => {
                    Answer::Rewarded(asks.iter().map(|ask| self.reward(ask)).collect::<Result<Vec<_>>>()?)
                }
                Ask::Activate(event_id) => Answer::Activated(self.activate(event_id)?),
                Ask::Admin(ask) => Answer::Done(self.admin(ask)?),
                Ask::Erase(ask) => Answer::Erased(self.erase(ask)?),
                Ask::Challenge(ask) => Answer::Challenged(self.challenge(ask)?),
                Ask::Learned(learned) => {
                    self.learned(learned)?;
                    Answer::Done(Ok(()))
                }
                Ask::LearningFailed { round, reason } => {
                    self.learning_failed(*round, reason);
                    Answer::Done(Ok(()))
                }
            });
        }
        self.store.commit()?;
        Ok(answers)
    }
}

impl Position {
    fn of(store: &dyn Store) -> Result<Self> {
        let (ends, session) = (store.ends()?, store.session()?);
        let rounds = store.rounds()?;
        let next_round = rounds.len() as u64;
        let (closed, mut open): (Vec<_>, Vec<_>) = rounds.into_iter().partition(|round| round.closed.is_some());
        let last_at = last_at(store)?;
        let ledger: Ledger = session.ledger.parse().map_err(Error::core("the ledger"))?;
        Ok(Position {
            time: ends.time,
            decisions: ends.decisions,
            rewards: ends.rewards,
            parked: ends.parked,
            open: open.pop(),
            last_at,
            next_round,
            waiting: closed.into_iter().filter(|round| round.learned.is_none()).collect(),
            learning: false,
            failed: None,
            running: session.running,
            pinned: store.pinned()?,
            head: ledger.head(),
            swept: store.swept()?,
            sweep_at: Time::MIN,
        })
    }
}

/// Opens a loop that is new, or compares its rules with the stored ones.
fn open_in(name: &str, rules: &Rules, ledger: &Ledger, store: &mut dyn Store) -> Result<()> {
    let Some(text) = store.rules()? else {
        let text = serde_json::to_string(rules).expect("rules are numbers and texts");
        let first = (rules.mode != Mode::Apprentice).then_some(rules.first);
        return store.open(&text, &drawn(name)?, &ledger.to_string(), first);
    };
    let known: Rules = serde_json::from_str(&text)
        .map_err(|e| Error::Malformed { place: format!("loop {name}"), reason: format!("its rules: {e}") })?;
    match known.difference(rules) {
        None => Ok(()),
        Some((setting, began, found)) => Err(Error::Begun { place: format!("loop {name}"), setting, began, found }),
    }
}

/// When the newest decision was drawn.
fn last_at(store: &dyn Store) -> Result<Time> {
    let last = store.ends()?.decisions.checked_sub(1).map(|number| store.decisions(number, 1)).transpose()?;
    Ok(last.and_then(|rows| rows.first().map(|row| row.decided_at)).unwrap_or(Time::MIN))
}

/// A new secret.
fn drawn(name: &str) -> Result<[u8; 32]> {
    let mut secret = [0; 32];
    let failed = |e| Error::Malformed { place: format!("loop {name}"), reason: format!("no random secret: {e}") };
    getrandom::fill(&mut secret).map_err(failed)?;
    Ok(secret)
}

/// A hash that nobody can compute without the secret.
fn keyed(secret: &[u8; 32], text: &[u8]) -> [u8; 32] {
    let mut inner = Sha256::new();
    inner.update(secret);
    inner.update(text);
    let mut outer = Sha256::new();
    outer.update(secret);
    outer.update(inner.finalize());
    outer.finalize().into()
}
