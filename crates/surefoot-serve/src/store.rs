//! STORE: what a loop keeps. One thread writes, in transactions; others read.
//!
//! The rules of a loop are in the [engine](crate::engine), and none is here: a store finds, adds and changes rows.
//! [`SqliteStore`] is one file for one server, [`PostgresStore`] a database for several.

mod postgres;
mod sqlite;

pub use postgres::PostgresStore;
pub use sqlite::SqliteStore;

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use surefoot::Fingerprint;
use surefoot::audit::Statement;

use crate::clock::Time;
use crate::error::Result;

/// Where the loops of a server are stored.
#[derive(Clone, Default)]
pub enum Storage {
    /// In a SQLite file in the folder of each loop, for one server.
    #[default]
    Folder,
    /// In a PostgreSQL database, for several servers; this is a connection string, as libpq takes it.
    Postgres(String),
}

impl Debug for Storage {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Storage::Folder => "Folder",
            Storage::Postgres(_) => "Postgres",
        })
    }
}

impl Storage {
    /// Opens the store of a loop.
    pub(crate) fn open(&self, folder: &Path, name: &str) -> Result<Box<dyn Store>> {
        Ok(match self {
            Storage::Folder => Box::new(SqliteStore::open(&store_path(folder))?),
            Storage::Postgres(database) => Box::new(PostgresStore::open(database, name)?),
        })
    }
}

/// The file of the store in the folder of a loop.
pub(crate) fn store_path(folder: &Path) -> PathBuf {
    folder.join("loop.sqlite")
}

/// A decision as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct DecisionRow {
    /// Its place in the order of all decisions, counted from 0.
    pub number: u64,
    /// The id of the event.
    pub event_id: String,
    /// What was asked, as JSON: as it came, or with keys in order and without the event. The same event must ask the same
    /// again.
    pub request: String,
    /// The chosen action.
    pub action: u32,
    /// The probability that it had.
    pub propensity: f64,
    /// The round that it belongs to.
    pub round: u64,
    /// The policy that chose it; `None` if that was the caller's own.
    pub policy: Option<Fingerprint>,
    /// When it was drawn.
    pub decided_at: Time,
    /// When it became active: at once, or, if it was deferred, when the caller said that it is shown.
    pub activated_at: Option<Time>,
}

/// What became of a reward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewardStatus {
    /// Its decision has not come yet, or is not active yet.
    Parked = 0,
    /// It counts.
    Joined = 1,
    /// It came after the window of its decision, and never counts.
    Late = 2,
}

/// A reward as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct RewardRow {
    /// The id of the event.
    pub event_id: String,
    /// Its own id, which tells a second reward from one that was sent twice.
    pub reward_id: String,
    /// The reward.
    pub value: f64,
    /// When it came.
    pub received_at: Time,
    /// What became of it.
    pub status: RewardStatus,
}

/// A round as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundRow {
    /// Its number, counted from 0.
    pub round: u64,
    /// The policy that collects it; `None` if that is the caller's own.
    pub policy: Option<Fingerprint>,
    /// The number of its first decision.
    pub first: u64,
    /// When its first decision was drawn.
    pub opened_at: Time,
    /// How it ended; `None` while it is open.
    pub closed: Option<Closed>,
    /// When it was learned from, and the report as JSON.
    pub learned: Option<(Time, String)>,
    /// Whether all its records are erased: they are read as such, also if some are not overwritten yet.
    pub erased: bool,
}

/// How a round ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Closed {
    /// The number of its decisions.
    pub records: u64,
    /// When its last decision was drawn.
    pub last_at: Time,
    /// Whether an operator closed it.
    pub by_hand: bool,
}

/// What learning from a round gave.
#[derive(Debug, Clone)]
pub struct Learned {
    /// The round.
    pub round: u64,
    /// The policy to deploy next; `None` if no policy has passed the gate yet.
    pub running: Option<Fingerprint>,
    /// The state of the session.
    pub session: String,
    /// The ledger.
    pub ledger: String,
    /// The certificates of the round.
    pub statements: Vec<Statement>,
    /// The report, as JSON.
    pub report: String,
}

/// The newest state of what was learned.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRow {
    /// The policy to deploy next.
    pub running: Option<Fingerprint>,
    /// The state of the session; `None` before the first round was learned from.
    pub session: Option<String>,
    /// The ledger.
    pub ledger: String,
}

/// An act of an operator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Act {
    /// When.
    pub at: Time,
    /// The name of the key.
    pub by: String,
    /// What.
    pub act: String,
}

/// What the engine needs to go on after a start.
#[derive(Debug, Clone, PartialEq)]
pub struct Ends {
    /// The number of decisions.
    pub decisions: u64,
    /// The number of rewards.
    pub rewards: u64,
    /// How many of them are parked.
    pub parked: u64,
    /// The latest time in the store.
    pub time: Time,
}

/// A record of a round: a decision and the rewards that count for it, in the order in which they came.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordRow {
    /// The decision.
    pub decision: DecisionRow,
    /// The rewards that count.
    pub rewards: Vec<f64>,
}

/// Reads. It sees what was committed before each call.
pub trait Reader: Debug + Send {
    /// The rules of the loop, as JSON, if it was opened before.
    fn rules(&self) -> Result<Option<String>>;
    /// The secret from which decisions are drawn.
    fn secret(&self) -> Result<[u8; 32]>;
    /// Where the store ends.
    fn ends(&self) -> Result<Ends>;
    /// The decision of an event.
    fn decision(&self, event_id: &str) -> Result<Option<DecisionRow>>;
    /// When the event was decided, and whether its decision is active.
    fn decided_at(&self, event_id: &str) -> Result<Option<(Time, bool)>> {
        Ok(self.decision(event_id)?.map(|row| (row.decided_at, row.activated_at.is_some())))
    }
    /// The decisions from a number on, at most so many.
    fn decisions(&self, from: u64, most: u64) -> Result<Vec<DecisionRow>>;
    /// All rewards of an event, in the order in which they came.
    fn rewards(&self, event_id: &str) -> Result<Vec<RewardRow>>;
    /// Calls `each` with the records of decisions `first..first + count`, in order.
    fn records(&self, first: u64, count: u64, each: &mut dyn FnMut(RecordRow) -> Result<()>) -> Result<()>;
    /// All rounds, in order.
    fn rounds(&self) -> Result<Vec<RoundRow>>;
    /// What was learned last.
    fn session(&self) -> Result<SessionRow>;
    /// All certificates, in order.
    fn statements(&self) -> Result<Vec<Statement>>;
    /// The policy that an operator has pinned.
    fn pinned(&self) -> Result<Option<Fingerprint>>;
    /// How many decisions were looked at because of their age.
    fn swept(&self) -> Result<u64>;
    /// All acts of operators, in order.
    fn acts(&self) -> Result<Vec<Act>>;
    /// Gives the policy files in a folder to the other servers of the loop, if there are any.
    fn share(&self, _folder: &Path) -> Result<()> {
        Ok(())
    }
    /// Gets those that other servers gave.
    fn fetch(&self, _folder: &Path) -> Result<()> {
        Ok(())
    }
}

/// What other servers of the loop have written since this one last looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// Nothing.
    Nothing,
    /// Decisions and rewards, and nothing else.
    Records,
    /// Anything.
    Everything,
}

/// Writes, in transactions. Reads within a transaction see what it has written.
pub trait Store: Reader {
    /// Says of which events decisions and rewards will be asked for in the next transaction, so that a store that is far
    /// away can fetch them together.
    fn expect(&mut self, _decisions: &[&str], _rewards: &[&str]) {}
    /// Begins a transaction. Until it ends, no other server writes.
    fn begin(&mut self) -> Result<()>;
    /// What other servers have written since this was last asked. Asked after [`begin`](Store::begin), and now and then
    /// without a transaction.
    fn moved(&mut self) -> Result<Moved> {
        Ok(Moved::Nothing)
    }
    /// Ends it. When this returns, everything in it is on disk; if it fails, nothing is.
    fn commit(&mut self) -> Result<()>;
    /// Undoes everything since the beginning of the transaction, if there is one.
    fn rollback(&mut self);
    /// Opens a new loop.
    fn open(&mut self, rules: &str, secret: &[u8; 32], ledger: &str, running: Option<Fingerprint>) -> Result<()>;
    /// Adds a decision.
    fn add_decision(&mut self, row: &DecisionRow) -> Result<()>;
    /// Says when a deferred decision became active.
    fn activate(&mut self, event_id: &str, at: Time) -> Result<()>;
    /// Adds a reward.
    fn add_reward(&mut self, row: &RewardRow) -> Result<()>;
    /// Changes what became of the parked rewards of an event that came at this time or later, and of those before.
    fn settle_parked(&mut self, event_id: &str, since: Time) -> Result<()>;
    /// Adds a round, or replaces it.
    fn put_round(&mut self, row: &RoundRow) -> Result<()>;
    /// Stores what was learned.
    fn put_learned(&mut self, at: Time, learned: &Learned) -> Result<()>;
    /// Erases everything about an event: its rewards, and its decision, in whose place this row comes.
    fn erase(&mut self, event_id: &str, instead: Option<&DecisionRow>) -> Result<()>;
    /// Says how many decisions were looked at because of their age.
    fn set_swept(&mut self, decisions: u64) -> Result<()>;
    /// Replaces the ledger.
    fn put_ledger(&mut self, ledger: &str) -> Result<()>;
    /// Pins a policy, or none.
    fn pin(&mut self, policy: Option<Fingerprint>) -> Result<()>;
    /// Adds an act of an operator.
    fn add_act(&mut self, act: &Act) -> Result<()>;
    /// Says that this server learns from a round, or still does. False if another server does.
    fn claim(&mut self, _round: u64) -> Result<bool> {
        Ok(true)
    }
    /// Opens a reader for another thread.
    fn reader(&self) -> Result<Box<dyn Reader>>;
}
