//! A store in one SQLite file: a write-ahead log, flushed with every commit.

mod checkpoints;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::Type;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row, params};
use surefoot::Fingerprint;
use surefoot::audit::Statement;

use self::checkpoints::Checkpoints;
use super::{
    Act, Closed, DecisionRow, Ends, Learned, Reader, RecordRow, RewardRow, RewardStatus, RoundRow, SessionRow, Store,
};
use crate::clock::Time;
use crate::error::{Error, Result};

/// The version of the tables.
const VERSION: i64 = 2;

/// Fingerprints are texts: a decision row can be read by any tool. Decisions are in the order of their numbers, and the
/// rewards of an event are found by its id.
const TABLES: &str = "
    CREATE TABLE about (name TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;
    CREATE TABLE decisions (
        number INTEGER PRIMARY KEY,
        event_id TEXT NOT NULL UNIQUE,
        request TEXT NOT NULL,
        action INTEGER NOT NULL,
        propensity REAL NOT NULL,
        round INTEGER NOT NULL,
        policy TEXT,
        decided_at INTEGER NOT NULL,
        activated_at INTEGER
    ) STRICT;
    CREATE TABLE rewards (
        number INTEGER PRIMARY KEY,
        event_id TEXT NOT NULL,
        reward_id TEXT NOT NULL,
        value REAL NOT NULL,
        received_at INTEGER NOT NULL,
        status INTEGER NOT NULL,
        UNIQUE (event_id, reward_id)
    ) STRICT;
    CREATE INDEX parked ON rewards (event_id) WHERE status = 0;
    CREATE TABLE rounds (
        round INTEGER PRIMARY KEY,
        policy TEXT,
        first INTEGER NOT NULL,
        opened_at INTEGER NOT NULL,
        records INTEGER,
        last_at INTEGER,
        by_hand INTEGER,
        learned_at INTEGER,
        report TEXT,
        erased INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE statements (number INTEGER PRIMARY KEY, statement TEXT NOT NULL) STRICT;
    CREATE TABLE acts (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, by TEXT NOT NULL, act TEXT NOT NULL) STRICT;
";

/// How long a connection waits for others.
const PATIENTLY: Duration = Duration::from_secs(5);
/// How long it waits for something that can be done later.
const BRIEFLY: Duration = Duration::from_millis(50);

const DECISION: &str = "number, event_id, request, action, propensity, round, policy, decided_at, activated_at";

/// A store in one SQLite file. Only one process may have it open.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    connection: Connection,
    /// Whether the write-ahead log may still hold what was erased.
    erased: bool,
    /// For a connection that writes.
    checkpoints: Option<Checkpoints>,
}

/// How a connection is used.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Use {
    Write,
    Read,
    /// It moves the write-ahead log into the file.
    Checkpoint,
}

impl SqliteStore {
    /// Opens the store, and creates it if it does not exist.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |reason: rusqlite::Error| Error::store(path, "opened", said(&reason));
        let connection = connect(path, Use::Write).map_err(failed)?;
        let checkpoints = Some(Checkpoints::of(path, &connection).map_err(failed)?);
        let store = SqliteStore { path: path.into(), connection, erased: false, checkpoints };
        let version: i64 = store.connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
        match version {
            0 => {
                let create = format!("BEGIN; {TABLES} PRAGMA user_version = {VERSION}; COMMIT;");
                store.connection.execute_batch(&create).map_err(failed)?;
            }
            VERSION => {}
            other => return Err(Error::store(path, "opened", format!("its version is {other}, and not {VERSION}"))),
        }
        Ok(store)
    }

    /// Opens a store that exists, to read it.
    pub fn open_to_read(path: &Path) -> Result<Self> {
        let failed = |reason: rusqlite::Error| Error::store(path, "opened", said(&reason));
        let connection = connect(path, Use::Read).map_err(failed)?;
        Ok(SqliteStore { path: path.into(), connection, erased: false, checkpoints: None })
    }

    /// Empties the write-ahead log. While others read it cannot be emptied; then the next commit tries again.
    fn empty_log(&mut self) {
        let wait = |time| self.connection.busy_timeout(time);
        let emptied = wait(BRIEFLY).and_then(|()| {
            self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
        });
        // The commit is on disk, whatever becomes of this.
        let _ = wait(PATIENTLY);
        self.erased = emptied != Ok(0);
    }

    fn read<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        read(&self.connection).map_err(|reason| Error::store(&self.path, "read", said(&reason)))
    }

    fn write(&self, write: impl FnOnce(&Connection) -> rusqlite::Result<usize>) -> Result<()> {
        match write(&self.connection) {
            Ok(_) => Ok(()),
            Err(reason) => Err(Error::store(&self.path, "written", said(&reason))),
        }
    }

    fn about<T: rusqlite::types::FromSql>(&self, name: &str) -> Result<Option<T>> {
        self.read(|db| {
            let mut found = db.prepare_cached("SELECT value FROM about WHERE name = ?1")?;
            found.query_row([name], |row| row.get(0)).optional()
        })
    }

    fn set_about(&self, name: &str, value: impl rusqlite::ToSql) -> Result<()> {
        self.write(|db| {
            db.prepare_cached("INSERT OR REPLACE INTO about (name, value) VALUES (?1, ?2)")?
                .execute(params![name, value])
        })
    }

    fn about_policy(&self, name: &str) -> Result<Option<Fingerprint>> {
        let text: Option<Option<String>> = self.about(name)?;
        let parse = |text: String| text.parse().map_err(|reason| Error::store(&self.path, "read", reason));
        text.flatten().map(parse).transpose()
    }
}

/// SQLite's own words, without those of the crate around it.
fn said(reason: &rusqlite::Error) -> String {
    match reason {
        rusqlite::Error::SqliteFailure(_, Some(text)) => text.clone(),
        other => other.to_string(),
    }
}

fn connect(path: &Path, how: Use) -> rusqlite::Result<Connection> {
    let flags = match how {
        Use::Write => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        Use::Read | Use::Checkpoint => OpenFlags::SQLITE_OPEN_READ_WRITE,
    };
    let db = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.busy_timeout(PATIENTLY)?;
    // A damaged file is found here, and not by the first decision.
    db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "cache_size", -65_536)?;
    // What is erased is overwritten.
    db.pragma_update(None, "secure_delete", true)?;
    if how == Use::Read {
        db.pragma_update(None, "query_only", true)?;
    }
    db.set_prepared_statement_cache_capacity(32);
    Ok(db)
}

fn fingerprint(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Fingerprint>> {
    let text: Option<String> = row.get(column)?;
    let parse = |text: String| {
        text.parse()
            .map_err(|e: surefoot::Error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(e)))
    };
    text.map(parse).transpose()
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).expect("counts stay below 2^63")
}

fn decision(row: &Row<'_>) -> rusqlite::Result<DecisionRow> {
    Ok(DecisionRow {
        number: unsigned(row, 0)?,
        event_id: row.get(1)?,
        request: row.get(2)?,
        action: row.get(3)?,
        propensity: row.get(4)?,
        round: unsigned(row, 5)?,
        policy: fingerprint(row, 6)?,
        decided_at: row.get(7)?,
        activated_at: row.get(8)?,
    })
}

fn status(number: i64) -> RewardStatus {
    match number {
        0 => RewardStatus::Parked,
        1 => RewardStatus::Joined,
        _ => RewardStatus::Late,
    }
}

fn text(policy: Option<Fingerprint>) -> Option<String> {
    policy.map(|policy| policy.to_string())
}

impl Reader for SqliteStore {
    fn rules(&self) -> Result<Option<String>> {
        self.about("rules")
    }

    fn secret(&self) -> Result<[u8; 32]> {
        self.about("secret")?.ok_or_else(|| Error::store(&self.path, "read", "it has no secret"))
    }

    fn ends(&self) -> Result<Ends> {
        self.read(|db| {
            // The largest key is found without a scan.
            let last = |table: &str, time: &str| -> rusqlite::Result<(u64, Time)> {
                let last = format!("SELECT number, {time} FROM {table} ORDER BY number DESC LIMIT 1");
                let found = db.query_row(&last, [], |row| Ok((unsigned(row, 0)? + 1, row.get(1)?))).optional()?;
                Ok(found.unwrap_or((0, Time::MIN)))
            };
            let ((decisions, decided), (rewards, received)) =
                (last("decisions", "decided_at")?, last("rewards", "received_at")?);
            let parked = db.query_row("SELECT COUNT(*) FROM rewards WHERE status = 0", [], |row| unsigned(row, 0))?;
            let learned: Option<Time> = db.query_row("SELECT MAX(learned_at) FROM rounds", [], |row| row.get(0))?;
            let time = decided.max(received).max(learned.unwrap_or(Time::MIN));
            Ok(Ends { decisions, rewards, parked, time })
        })
    }

    fn decision(&self, event_id: &str) -> Result<Option<DecisionRow>> {
        self.read(|db| {
            let mut found = db.prepare_cached(&format!("SELECT {DECISION} FROM decisions WHERE event_id = ?1"))?;
            found.query_row([event_id], decision).optional()
        })
    }

    fn decided_at(&self, event_id: &str) -> Result<Option<(Time, bool)>> {
        self.read(|db| {
            let query = "SELECT decided_at, activated_at IS NOT NULL FROM decisions WHERE event_id = ?1";
            db.prepare_cached(query)?.query_row([event_id], |row| Ok((row.get(0)?, row.get(1)?))).optional()
        })
    }

    fn decisions(&self, from: u64, most: u64) -> Result<Vec<DecisionRow>> {
        self.read(|db| {
            let query = format!("SELECT {DECISION} FROM decisions WHERE number >= ?1 ORDER BY number LIMIT ?2");
            let mut found = db.prepare_cached(&query)?;
            found.query_map([signed(from), signed(most)], decision)?.collect()
        })
    }

    fn rewards(&self, event_id: &str) -> Result<Vec<RewardRow>> {
        self.read(|db| {
            let query = "SELECT reward_id, value, received_at, status FROM rewards WHERE event_id = ?1 ORDER BY number";
            let mut found = db.prepare_cached(query)?;
            let row = |row: &Row<'_>| {
                Ok(RewardRow {
                    event_id: event_id.into(),
                    reward_id: row.get(0)?,
                    value: row.get(1)?,
                    received_at: row.get(2)?,
                    status: status(row.get(3)?),
                })
            };
            found.query_map([event_id], row)?.collect()
        })
    }

    fn records(&self, first: u64, count: u64, each: &mut dyn FnMut(RecordRow) -> Result<()>) -> Result<()> {
        let failed = |reason: rusqlite::Error| Error::store(&self.path, "read", said(&reason));
        let db = &self.connection;
        let query = format!("SELECT {DECISION} FROM decisions WHERE number >= ?1 AND number < ?2 ORDER BY number");
        let mut decisions = db.prepare_cached(&query).map_err(failed)?;
        let mut rewards = db
            .prepare_cached("SELECT value FROM rewards WHERE event_id = ?1 AND status = 1 ORDER BY number")
            .map_err(failed)?;
        let mut rows = decisions.query([signed(first), signed(first + count)]).map_err(failed)?;
        let mut next = first;
        while let Some(row) = rows.next().map_err(failed)? {
            let decision = decision(row).map_err(failed)?;
            if decision.number != next {
                break;
            }
            let values = rewards.query_map([&decision.event_id], |row| row.get(0)).map_err(failed)?;
            let values = values.collect::<rusqlite::Result<Vec<f64>>>().map_err(failed)?;
            each(RecordRow { decision, rewards: values })?;
            next += 1;
        }
        match next == first + count {
            true => Ok(()),
            false => Err(Error::store(&self.path, "read", format!("decision {next} is missing"))),
        }
    }

    fn rounds(&self) -> Result<Vec<RoundRow>> {
        self.read(|db| {
            let mut found = db.prepare_cached(
                "SELECT round, policy, first, opened_at, records, last_at, by_hand, learned_at, report, erased FROM rounds \
                 ORDER BY round",
            )?;
            let row = |row: &Row<'_>| {
                let records: Option<i64> = row.get(4)?;
                let closed = match records {
                    None => None,
                    Some(_) => Some(Closed { records: unsigned(row, 4)?, last_at: row.get(5)?, by_hand: row.get(6)? }),
                };
                let learned_at: Option<Time> = row.get(7)?;
                Ok(RoundRow {
                    round: unsigned(row, 0)?,
                    policy: fingerprint(row, 1)?,
                    first: unsigned(row, 2)?,
                    opened_at: row.get(3)?,
                    closed,
                    learned: learned_at.map(|at| Ok::<_, rusqlite::Error>((at, row.get(8)?))).transpose()?,
                    erased: row.get(9)?,
                })
            };
            found.query_map([], row)?.collect()
        })
    }

    fn session(&self) -> Result<SessionRow> {
        let ledger = self.about("ledger")?.ok_or_else(|| Error::store(&self.path, "read", "it has no ledger"))?;
        Ok(SessionRow { running: self.about_policy("running")?, session: self.about("session")?, ledger })
    }

    fn statements(&self) -> Result<Vec<Statement>> {
        let texts: Vec<String> = self.read(|db| {
            let mut found = db.prepare_cached("SELECT statement FROM statements ORDER BY number")?;
            found.query_map([], |row| row.get(0))?.collect()
        })?;
        let parse = |text: &String| {
            serde_json::from_str(text).map_err(|e| Error::store(&self.path, "read", format!("a certificate: {e}")))
        };
        texts.iter().map(parse).collect()
    }

    fn pinned(&self) -> Result<Option<Fingerprint>> {
        self.about_policy("pinned")
    }

    fn swept(&self) -> Result<u64> {
        let found: Option<i64> = self.about("swept")?;
        Ok(found.and_then(|n| u64::try_from(n).ok()).unwrap_or(0))
    }

    fn acts(&self) -> Result<Vec<Act>> {
        self.read(|db| {
            let mut found = db.prepare_cached("SELECT at, by, act FROM acts ORDER BY number")?;
            found.query_map([], |row| Ok(Act { at: row.get(0)?, by: row.get(1)?, act: row.get(2)? }))?.collect()
        })
    }
}

impl Store for SqliteStore {
    fn begin(&mut self) -> Result<()> {
        self.write(|db| db.execute_batch("BEGIN IMMEDIATE").map(|()| 0))
    }

    fn commit(&mut self) -> Result<()> {
        self.write(|db| db.execute_batch("COMMIT").map(|()| 0))?;
        if self.erased {
            self.empty_log();
        }
        self.checkpoints.iter_mut().for_each(Checkpoints::committed);
        Ok(())
    }

    fn rollback(&mut self) {
        if !self.connection.is_autocommit() {
            // If this fails, the next begin fails too, and is answered with its reason.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }

    fn open(&mut self, rules: &str, secret: &[u8; 32], ledger: &str, running: Option<Fingerprint>) -> Result<()> {
        self.set_about("rules", rules)?;
        self.set_about("secret", secret)?;
        self.set_about("ledger", ledger)?;
        self.set_about("running", text(running))
    }

    fn add_decision(&mut self, row: &DecisionRow) -> Result<()> {
        self.checkpoints.iter_mut().for_each(Checkpoints::add);
        self.write(|db| {
            let query = format!("INSERT INTO decisions ({DECISION}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
            db.prepare_cached(&query)?.execute(params![
                signed(row.number),
                row.event_id,
                row.request,
                row.action,
                row.propensity,
                signed(row.round),
                text(row.policy),
                row.decided_at,
                row.activated_at
            ])
        })
    }

    fn activate(&mut self, event_id: &str, at: Time) -> Result<()> {
        self.write(|db| {
            db.prepare_cached("UPDATE decisions SET activated_at = ?2 WHERE event_id = ?1")?
                .execute(params![event_id, at])
        })
    }

    fn add_reward(&mut self, row: &RewardRow) -> Result<()> {
        self.checkpoints.iter_mut().for_each(Checkpoints::add);
        self.write(|db| {
            db.prepare_cached(
                "INSERT INTO rewards (number, event_id, reward_id, value, received_at, status) \
                 VALUES ((SELECT IFNULL(MAX(number) + 1, 0) FROM rewards), ?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![row.event_id, row.reward_id, row.value, row.received_at, row.status as i64])
        })
    }

    fn settle_parked(&mut self, event_id: &str, since: Time) -> Result<()> {
        self.write(|db| {
            db.prepare_cached(
                "UPDATE rewards SET status = CASE WHEN received_at >= ?2 THEN 1 ELSE 2 END \
                 WHERE event_id = ?1 AND status = 0",
            )?
            .execute(params![event_id, since])
        })
    }

    fn put_round(&mut self, row: &RoundRow) -> Result<()> {
        self.write(|db| {
            let closed = row.closed.as_ref();
            db.prepare_cached(
                "INSERT INTO rounds (round, policy, first, opened_at, records, last_at, by_hand, erased) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (round) DO UPDATE SET records = excluded.records, \
                 last_at = excluded.last_at, by_hand = excluded.by_hand, erased = excluded.erased",
            )?
            .execute(params![
                signed(row.round),
                text(row.policy),
                signed(row.first),
                row.opened_at,
                closed.map(|closed| signed(closed.records)),
                closed.map(|closed| closed.last_at),
                closed.map(|closed| closed.by_hand),
                row.erased
            ])
        })
    }

    fn put_learned(&mut self, at: Time, learned: &Learned) -> Result<()> {
        self.write(|db| {
            db.prepare_cached("UPDATE rounds SET learned_at = ?2, report = ?3 WHERE round = ?1")?.execute(params![
                signed(learned.round),
                at,
                learned.report
            ])
        })?;
        for statement in &learned.statements {
            let text = serde_json::to_string(statement)
                .map_err(|e| Error::store(&self.path, "written", format!("a certificate: {e}")))?;
            self.write(|db| db.prepare_cached("INSERT INTO statements (statement) VALUES (?1)")?.execute([&text]))?;
        }
        self.set_about("session", &learned.session)?;
        self.set_about("ledger", &learned.ledger)?;
        self.set_about("running", text(learned.running))
    }

    fn erase(&mut self, event_id: &str, instead: Option<&DecisionRow>) -> Result<()> {
        self.erased = true;
        self.write(|db| db.prepare_cached("DELETE FROM rewards WHERE event_id = ?1")?.execute([event_id]))?;
        let Some(row) = instead else { return Ok(()) };
        self.write(|db| {
            db.prepare_cached(
                "UPDATE decisions SET event_id = ?2, request = ?3, action = ?4, propensity = ?5 WHERE number = ?1",
            )?
            .execute(params![signed(row.number), row.event_id, row.request, row.action, row.propensity])
        })
    }

    fn set_swept(&mut self, decisions: u64) -> Result<()> {
        self.set_about("swept", signed(decisions))
    }

    fn put_ledger(&mut self, ledger: &str) -> Result<()> {
        self.set_about("ledger", ledger)
    }

    fn pin(&mut self, policy: Option<Fingerprint>) -> Result<()> {
        self.set_about("pinned", text(policy))
    }

    fn add_act(&mut self, act: &Act) -> Result<()> {
        self.write(|db| {
            db.prepare_cached("INSERT INTO acts (at, by, act) VALUES (?1, ?2, ?3)")?
                .execute(params![act.at, act.by, act.act])
        })
    }

    fn reader(&self) -> Result<Box<dyn Reader>> {
        Ok(Box::new(SqliteStore::open_to_read(&self.path)?))
    }
}
