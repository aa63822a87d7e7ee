//! A store whose n-th operation fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use surefoot::Fingerprint;
use surefoot::audit::Statement;
use surefoot_serve::clock::Time;
use surefoot_serve::store::{
    Act, DecisionRow, Ends, Learned, Moved, Reader, RecordRow, RewardRow, RoundRow, SessionRow, Store,
};
use surefoot_serve::{Error, Result};

/// Counts down with every operation; the one that finds 0 fails. Below 0, none fails.
pub(crate) type Fuse = Arc<AtomicI64>;

#[derive(Debug)]
pub(crate) struct Flaky {
    pub(crate) inner: Box<dyn Store>,
    pub(crate) fuse: Fuse,
}

impl Flaky {
    fn operation(&self) -> Result<()> {
        match self.fuse.fetch_sub(1, Ordering::SeqCst) {
            0 => Err(Error::Store { place: "test".into(), what: "written", reason: "the disk is full".into() }),
            _ => Ok(()),
        }
    }
}

impl Reader for Flaky {
    fn rules(&self) -> Result<Option<String>> {
        self.inner.rules()
    }
    fn secret(&self) -> Result<[u8; 32]> {
        self.inner.secret()
    }
    fn ends(&self) -> Result<Ends> {
        self.inner.ends()
    }
    fn decision(&self, event_id: &str) -> Result<Option<DecisionRow>> {
        self.operation()?;
        self.inner.decision(event_id)
    }
    fn decided_at(&self, event_id: &str) -> Result<Option<(Time, bool)>> {
        self.operation()?;
        self.inner.decided_at(event_id)
    }
    fn decisions(&self, from: u64, most: u64) -> Result<Vec<DecisionRow>> {
        self.inner.decisions(from, most)
    }
    fn rewards(&self, event_id: &str) -> Result<Vec<RewardRow>> {
        self.operation()?;
        self.inner.rewards(event_id)
    }
    fn records(&self, first: u64, count: u64, each: &mut dyn FnMut(RecordRow) -> Result<()>) -> Result<()> {
        self.inner.records(first, count, each)
    }
    fn rounds(&self) -> Result<Vec<RoundRow>> {
        self.inner.rounds()
    }
    fn session(&self) -> Result<SessionRow> {
        self.inner.session()
    }
    fn statements(&self) -> Result<Vec<Statement>> {
        self.inner.statements()
    }
    fn pinned(&self) -> Result<Option<Fingerprint>> {
        self.inner.pinned()
    }
    fn swept(&self) -> Result<u64> {
        self.inner.swept()
    }
    fn acts(&self) -> Result<Vec<Act>> {
        self.inner.acts()
    }
}

impl Store for Flaky {
    fn begin(&mut self) -> Result<()> {
        self.operation()?;
        self.inner.begin()
    }
    fn commit(&mut self) -> Result<()> {
        self.operation()?;
        self.inner.commit()
    }
    fn rollback(&mut self) {
        self.inner.rollback();
    }
    fn moved(&mut self) -> Result<Moved> {
        self.inner.moved()
    }
    fn expect(&mut self, decisions: &[&str], rewards: &[&str]) {
        self.inner.expect(decisions, rewards);
    }
    fn claim(&mut self, round: u64) -> Result<bool> {
        self.inner.claim(round)
    }
    fn open(&mut self, rules: &str, secret: &[u8; 32], ledger: &str, running: Option<Fingerprint>) -> Result<()> {
        self.inner.open(rules, secret, ledger, running)
    }
    fn add_decision(&mut self, row: &DecisionRow) -> Result<()> {
        self.operation()?;
        self.inner.add_decision(row)
    }
    fn activate(&mut self, event_id: &str, at: Time) -> Result<()> {
        self.operation()?;
        self.inner.activate(event_id, at)
    }
    fn add_reward(&mut self, row: &RewardRow) -> Result<()> {
        self.operation()?;
        self.inner.add_reward(row)
    }
    fn settle_parked(&mut self, event_id: &str, since: Time) -> Result<()> {
        self.operation()?;
        self.inner.settle_parked(event_id, since)
    }
    fn put_round(&mut self, row: &RoundRow) -> Result<()> {
        self.operation()?;
        self.inner.put_round(row)
    }
    fn put_learned(&mut self, at: Time, learned: &Learned) -> Result<()> {
        self.operation()?;
        self.inner.put_learned(at, learned)
    }
    fn erase(&mut self, event_id: &str, instead: Option<&DecisionRow>) -> Result<()> {
        self.operation()?;
        self.inner.erase(event_id, instead)
    }
    fn set_swept(&mut self, decisions: u64) -> Result<()> {
        self.operation()?;
        self.inner.set_swept(decisions)
    }
    fn put_ledger(&mut self, ledger: &str) -> Result<()> {
        self.operation()?;
        self.inner.put_ledger(ledger)
    }
    fn pin(&mut self, policy: Option<Fingerprint>) -> Result<()> {
        self.operation()?;
        self.inner.pin(policy)
    }
    fn add_act(&mut self, act: &Act) -> Result<()> {
        self.operation()?;
        self.inner.add_act(act)
    }
    fn reader(&self) -> Result<Box<dyn Reader>> {
        self.inner.reader()
    }
}
