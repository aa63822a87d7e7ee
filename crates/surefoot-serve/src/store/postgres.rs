//! A store in PostgreSQL, for several servers of one loop. The tables of a loop are in a schema of their own.
//!
//! Servers take turns. A transaction begins by locking the one row of `state`, and whoever has that lock has the *lease* of
//! the loop: it alone draws, numbers, closes rounds and swaps policies, until it commits or its connection ends. So what
//! several servers do is what one server would have done, in some order, and no clock is needed to end a lease: PostgreSQL
//! ends it with the connection. The row has the version of what is stored. A server that finds another version than it left
//! reads again where the loop stands before it does anything.
//!
//! What a step will look for is fetched with the lease, and what it adds is kept here and sent with the commit: most steps
//! wait for the database twice, however many decisions they take.

mod files;
mod link;
mod read;
mod rows;
mod settings;
mod tls;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use surefoot::Fingerprint;
use tokio_postgres::types::ToSql;

use self::link::{Link, Place};
use super::{Act, DecisionRow, Learned, Moved, Reader, RewardRow, RewardStatus, RoundRow, Store};
use crate::clock::Time;
use crate::error::Result;

/// The version of the tables.
const VERSION: i32 = 2;

/// How often a server looks whether another has written, if it has nothing to write itself.
const LOOK: Duration = Duration::from_millis(500);
/// How often a server that learns says that it still does, and how often others ask.
const CLAIM: Duration = Duration::from_secs(5);

const TABLES: &str = "
    CREATE TABLE about (name text PRIMARY KEY, value text);
    CREATE TABLE state (
        one boolean PRIMARY KEY DEFAULT true CHECK (one),
        version bigint NOT NULL,
        structure bigint NOT NULL,
        decisions bigint NOT NULL,
        rewards bigint NOT NULL,
        parked bigint NOT NULL,
        time bigint NOT NULL
    );
    CREATE TABLE learner (
        one boolean PRIMARY KEY DEFAULT true CHECK (one),
        round bigint NOT NULL,
        server text NOT NULL,
        until timestamptz NOT NULL
    );
    CREATE TABLE decisions (
        number bigint PRIMARY KEY,
        event_id text NOT NULL UNIQUE,
        request text NOT NULL,
        action bigint NOT NULL,
        propensity float8 NOT NULL,
        round bigint NOT NULL,
        policy text,
        decided_at bigint NOT NULL,
        activated_at bigint
    );
    CREATE TABLE rewards (
        number bigint PRIMARY KEY,
        event_id text NOT NULL,
        reward_id text NOT NULL,
        value float8 NOT NULL,
        received_at bigint NOT NULL,
        status bigint NOT NULL,
        UNIQUE (event_id, reward_id)
    );
    CREATE TABLE rounds (
        round bigint PRIMARY KEY,
        policy text,
        first bigint NOT NULL,
        opened_at bigint NOT NULL,
        records bigint,
        last_at bigint,
        by_hand boolean,
        learned_at bigint,
        report text,
        erased boolean NOT NULL
    );
    CREATE TABLE statements (number bigserial PRIMARY KEY, statement text NOT NULL);
    CREATE TABLE acts (number bigserial PRIMARY KEY, at bigint NOT NULL, by text NOT NULL, act text NOT NULL);
    CREATE TABLE files (name text PRIMARY KEY, content bytea NOT NULL);
";

/// A store in PostgreSQL. Several processes may have it open.
#[derive(Debug)]
pub struct PostgresStore {
    link: Link,
    /// A name of its own among all servers, for what it learns.
    server: String,
    /// What was stored when this server last looked, and the counts of then; `None` if it does not know.
    known: Option<State>,
    /// The events whose decisions and whose rewards the next transaction will ask for.
    expected: [Vec<String>; 2],
    /// The transaction, if there is one.
    step: Option<Step>,
    look: Duration,
    looked: Instant,
    /// The round that it last wanted to learn from, when, and whether it may.
    claimed: Option<(u64, Instant, bool)>,
}

/// The row of `state`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct State {
    /// Counts commits.
    version: i64,
    /// Counts those that changed more than decisions and rewards.
    structure: i64,
    decisions: i64,
    rewards: i64,
    parked: i64,
    time: Time,
}

/// A transaction: what was fetched and what was added in it.
#[derive(Debug)]
struct Step {
    state: State,
    restructured: bool,
    /// What is stored of the events that this step was told of, with what was added since.
    decisions: HashMap<String, Option<Arc<DecisionRow>>>,
    /// When those were decided whose rewards came, and whether they are active.
    decided_at: HashMap<String, Option<(Time, bool)>>,
    rewards: HashMap<String, Vec<RewardRow>>,
    /// What was added and not sent.
    new_decisions: Vec<Arc<DecisionRow>>,
    new_rewards: Vec<(i64, RewardRow)>,
}

impl PostgresStore {
    /// Opens the store of a loop in a database, and creates it if it does not exist. `database` is a connection string, as
    /// libpq takes it: `host=... user=... dbname=...` or `postgresql://...`.
    pub fn open(database: &str, name: &str) -> Result<Self> {
        let store = Self::open_to_read(database, name)?;
        let place = &store.link.place;
        let unsafe_setting: String = store.link.query("SHOW fsync", &[])?[0].get(0);
        if unsafe_setting != "on" {
            return Err(
                place.error("opened", "fsync is off in this database: what is acknowledged would not be durable")
            );
        }
        // In one transaction, one server at a time: two may open a new loop at the same moment.
        let create = format!(
            "SELECT pg_advisory_xact_lock(hashtext('{schema}')); CREATE SCHEMA IF NOT EXISTS \"{schema}\"; \
             DO $$ BEGIN IF to_regclass('\"{schema}\".state') IS NULL THEN {TABLES} \
             INSERT INTO state VALUES (true, 0, 0, 0, 0, 0, '{never}'::bigint); \
             INSERT INTO about VALUES ('version', '{VERSION}'); END IF; END $$;",
            schema = place.schema,
            never = Time::MIN
        );
        store.link.with("opened", async |db| db.batch(&create).await)?;
        match store.about("version")? {
            Some(version) if version == VERSION.to_string() => Ok(store),
            other => Err(place.error("opened", format!("its version is {other:?}, and not {VERSION}"))),
        }
    }

    /// Opens a store that exists, to read it.
    pub fn open_to_read(database: &str, name: &str) -> Result<Self> {
        Self::of(Place::new(database, name)?)
    }

    /// Looks this often whether another server has written, while this one has nothing to write.
    #[must_use]
    pub fn looking_every(self, look: Duration) -> Self {
        PostgresStore { look, ..self }
    }

    fn of(place: Place) -> Result<Self> {
        let (link, looked) = (Link::new(place)?, Instant::now());
        let server = files::drawn_name()?;
        let expected = Default::default();
        Ok(PostgresStore { link, server, known: None, expected, step: None, look: LOOK, looked, claimed: None })
    }

    fn set_about(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        self.write(rows::SET_ABOUT, &[&name, &value]).map(|_| ())
    }

    /// Writes within the transaction, after everything that was added before.
    fn write(&mut self, query: &'static str, with: link::Params<'_>) -> Result<u64> {
        self.flush()?;
        self.link.with("written", async |db| db.execute(query, with).await)
    }

    /// The same for what others must read again: everything but decisions and rewards.
    fn restructure(&mut self, query: &'static str, with: link::Params<'_>) -> Result<u64> {
        if let Some(step) = &mut self.step {
            step.restructured = true;
        }
        self.write(query, with)
    }

    /// Sends what was added.
    fn flush(&mut self) -> Result<()> {
        let Some(step) = &mut self.step else { return Ok(()) };
        let (decisions, rewards) = (std::mem::take(&mut step.new_decisions), std::mem::take(&mut step.new_rewards));
        if decisions.is_empty() && rewards.is_empty() {
            return Ok(());
        }
        let added = rows::Added::of(&decisions, &rewards);
        self.link.with("written", async |db| db.together("", &added.writes(), "").await).map(|_| ())
    }

    fn step(&mut self) -> Result<&mut Step> {
        self.step.as_mut().ok_or_else(|| self.link.place.error("written", "there is no transaction"))
    }

    /// What changed between two looks.
    fn moved_from(known: Option<State>, now: State) -> Moved {
        match known {
            Some(known) if known.version == now.version => Moved::Nothing,
            Some(known) if known.structure == now.structure => Moved::Records,
            _ => Moved::Everything,
        }
    }
}

impl Store for PostgresStore {
    fn expect(&mut self, decisions: &[&str], rewards: &[&str]) {
        self.expected = [decisions, rewards].map(|events| events.iter().map(|&event| event.to_owned()).collect());
        // A decision asks for rewards that came before it; mostly there are none, and nothing is fetched for it.
        if self.known.is_some_and(|known| known.parked > 0) {
            self.expected[1].extend(decisions.iter().map(|&event| event.to_owned()));
        }
    }

    fn begin(&mut self) -> Result<()> {
        let [decided, rewarded] = std::mem::take(&mut self.expected);
        let mut queries: Vec<link::Query<'_>> = vec![(rows::LEASE, Vec::new())];
        if !decided.is_empty() {
            queries.push((rows::DECISIONS_OF, vec![&decided]));
        }
        if !rewarded.is_empty() {
            queries.push((rows::DECIDED_AT_OF, vec![&rewarded]));
            queries.push((rows::REWARDS_OF, vec![&rewarded]));
        }
        let mut found = self.link.begin(&queries)?.into_iter();
        let mut next = || found.next().unwrap_or_default();
        let state = rows::state(next().first().ok_or_else(|| self.link.place.error("read", "it has no state"))?);
        let mut step = Step {
            state,
            restructured: false,
            decisions: HashMap::new(),
            decided_at: HashMap::new(),
            rewards: HashMap::new(),
            new_decisions: Vec::new(),
            new_rewards: Vec::new(),
        };
        if !decided.is_empty() {
            for row in next() {
                let row = rows::decision(&self.link.place, &row)?;
                step.decisions.insert(row.event_id.clone(), Some(Arc::new(row)));
            }
        }
        if !rewarded.is_empty() {
            for row in next() {
                step.decided_at.insert(row.get(0), Some((row.get(1), row.get(2))));
            }
            for row in next() {
                let row = rows::reward(&row);
                step.rewards.entry(row.event_id.clone()).or_default().push(row);
            }
        }
        // What was not found is known too.
        for event in decided {
            step.decisions.entry(event).or_insert(None);
        }
        for event in rewarded {
            step.rewards.entry(event.clone()).or_default();
            step.decided_at.entry(event).or_insert(None);
        }
        self.step = Some(step);
        Ok(())
    }

    fn moved(&mut self) -> Result<Moved> {
        let now = match &self.step {
            Some(step) => step.state,
            None if self.looked.elapsed() < self.look => return Ok(Moved::Nothing),
            None => {
                self.looked = Instant::now();
                rows::state(&self.link.query(rows::LOOK, &[])?[0])
            }
        };
        let moved = Self::moved_from(self.known, now);
        self.known = Some(now);
        Ok(moved)
    }

    fn commit(&mut self) -> Result<()> {
        let step = self.step()?;
        let mut state = step.state;
        state.version += 1;
        state.structure += i64::from(step.restructured);
        let counts: [&(dyn ToSql + Sync); 6] =
            [&state.version, &state.structure, &state.decisions, &state.rewards, &state.parked, &state.time];
        let (decisions, rewards) = (std::mem::take(&mut step.new_decisions), std::mem::take(&mut step.new_rewards));
        let added = rows::Added::of(&decisions, &rewards);
        let mut writes = added.writes();
        writes.push((rows::SET_STATE, counts.to_vec()));
        self.link.commit(&writes)?;
        self.step = None;
        self.known = Some(state);
        self.looked = Instant::now();
        Ok(())
    }

    fn rollback(&mut self) {
        // What this server thinks of the loop may come from a transaction that never was; and if the connection was lost
        // during a commit, nobody here knows whether it was.
        self.known = None;
        self.step = None;
        self.link.rollback();
    }

    fn open(&mut self, rules: &str, secret: &[u8; 32], ledger: &str, running: Option<Fingerprint>) -> Result<()> {
        let secret: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        self.set_about("rules", Some(rules))?;
        self.set_about("secret", Some(&secret))?;
        self.set_about("ledger", Some(ledger))?;
        self.set_about("running", rows::text(running).as_deref())
    }

    fn add_decision(&mut self, row: &DecisionRow) -> Result<()> {
        let step = self.step()?;
        step.state.decisions += 1;
        step.state.time = step.state.time.max(row.decided_at);
        let row = Arc::new(row.clone());
        step.decisions.insert(row.event_id.clone(), Some(Arc::clone(&row)));
        step.new_decisions.push(row);
        Ok(())
    }

    fn activate(&mut self, event_id: &str, at: Time) -> Result<()> {
        self.write(rows::ACTIVATE, &[&event_id, &at])?;
        let step = self.step()?;
        if let Some(Some(row)) = step.decisions.get_mut(event_id) {
            Arc::make_mut(row).activated_at = Some(at);
        }
        if let Some(Some((_, active))) = step.decided_at.get_mut(event_id) {
            *active = true;
        }
        Ok(())
    }

    fn add_reward(&mut self, row: &RewardRow) -> Result<()> {
        let known = self.rewards(&row.event_id)?;
        let step = self.step()?;
        step.rewards.entry(row.event_id.clone()).or_insert(known).push(row.clone());
        step.new_rewards.push((step.state.rewards, row.clone()));
        step.state.rewards += 1;
        step.state.parked += i64::from(row.status == RewardStatus::Parked);
        step.state.time = step.state.time.max(row.received_at);
        Ok(())
    }

    fn settle_parked(&mut self, event_id: &str, since: Time) -> Result<()> {
        let settled = self.write(rows::SETTLE, &[&event_id, &since])?;
        let step = self.step()?;
        step.state.parked -= i64::try_from(settled).unwrap_or(i64::MAX);
        let all = step.rewards.entry(event_id.to_owned()).or_default();
        for row in all.iter_mut().filter(|row| row.status == RewardStatus::Parked) {
            row.status = if row.received_at >= since { RewardStatus::Joined } else { RewardStatus::Late };
        }
        Ok(())
    }

    fn put_round(&mut self, row: &RoundRow) -> Result<()> {
        let closed = row.closed.as_ref();
        let columns: link::Params<'_> = &[
            &rows::signed(row.round),
            &rows::text(row.policy),
            &rows::signed(row.first),
            &row.opened_at,
            &closed.map(|closed| rows::signed(closed.records)),
            &closed.map(|closed| closed.last_at),
            &closed.map(|closed| closed.by_hand),
            &row.erased,
        ];
        self.restructure(rows::PUT_ROUND, columns).map(|_| ())
    }

    fn put_learned(&mut self, at: Time, learned: &Learned) -> Result<()> {
        let stored = self.restructure(rows::LEARNED, &[&rows::signed(learned.round), &at, &learned.report])?;
        if stored != 1 {
            let reason = format!("round {} was learned from already", learned.round);
            return Err(self.link.place.error("written", reason));
        }
        for statement in &learned.statements {
            let text = serde_json::to_string(statement)
                .map_err(|e| self.link.place.error("written", format!("a certificate: {e}")))?;
            self.write(rows::ADD_STATEMENT, &[&text])?;
        }
        self.set_about("session", Some(&learned.session))?;
        self.set_about("ledger", Some(&learned.ledger))?;
        self.set_about("running", rows::text(learned.running).as_deref())?;
        let step = self.step()?;
        step.state.time = step.state.time.max(at);
        Ok(())
    }

    fn erase(&mut self, event_id: &str, instead: Option<&DecisionRow>) -> Result<()> {
        let rewards = self.rewards(event_id)?;
        let parked = rewards.iter().filter(|row| row.status == RewardStatus::Parked).count();
        self.restructure(rows::ERASE_REWARDS, &[&event_id])?;
        if let Some(row) = instead {
            let columns: link::Params<'_> =
                &[&rows::signed(row.number), &row.event_id, &row.request, &i64::from(row.action), &row.propensity];
            self.write(rows::ERASE_DECISION, columns)?;
        }
        let step = self.step()?;
        step.state.parked -= i64::try_from(parked).unwrap_or(i64::MAX);
        step.rewards.insert(event_id.to_owned(), Vec::new());
        step.decisions.insert(event_id.to_owned(), None);
        if let Some(row) = instead {
            step.decisions.insert(row.event_id.clone(), Some(Arc::new(row.clone())));
        }
        Ok(())
    }

    fn set_swept(&mut self, decisions: u64) -> Result<()> {
        self.restructure(rows::SET_ABOUT, &[&"swept", &Some(decisions.to_string())]).map(|_| ())
    }

    fn put_ledger(&mut self, ledger: &str) -> Result<()> {
        self.restructure(rows::SET_ABOUT, &[&"ledger", &Some(ledger)]).map(|_| ())
    }

    fn pin(&mut self, policy: Option<Fingerprint>) -> Result<()> {
        self.restructure(rows::SET_ABOUT, &[&"pinned", &rows::text(policy)]).map(|_| ())
    }

    fn add_act(&mut self, act: &Act) -> Result<()> {
        self.restructure(rows::ADD_ACT, &[&act.at, &act.by, &act.act]).map(|_| ())
    }

    fn claim(&mut self, round: u64) -> Result<bool> {
        if let Some((claimed, when, ours)) = self.claimed
            && claimed == round
            && when.elapsed() < CLAIM
        {
            return Ok(ours);
        }
        let columns: link::Params<'_> = &[&rows::signed(round), &self.server];
        let ours = self.link.with("written", async |db| db.execute(rows::CLAIM, columns).await)? == 1;
        self.claimed = Some((round, Instant::now(), ours));
        Ok(ours)
    }

    fn reader(&self) -> Result<Box<dyn Reader>> {
        Ok(Box::new(Self::of(self.link.place.clone())?))
    }
}
