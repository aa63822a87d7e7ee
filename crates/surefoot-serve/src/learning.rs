//! LEARNING: from a round whose rewards are final to the next policy and its certificates.
//!
//! It has threads of its own, with a low priority, so that decisions do not wait for it. It decides nothing: what it
//! learned is stored and deployed by the [engine](crate::engine). If the process ends before, the round is learned from
//! again, and gives the same bits.

use std::sync::Arc;

use serde::Serialize;
use surefoot::audit::{Entry, Ledger, Statement, StatementKind};
use surefoot::observer::Silent;
use surefoot::session::RoundReport;
use surefoot::{Certificate, Fingerprint, LinearGaussian, RewardRange, Session};
use surefoot_data::{SavedRound, SavedSession};

use crate::config::Rules;
use crate::engine::Ready;
use crate::error::{Error, Result};
use crate::logs::round_logs;
use crate::policies::Policies;
use crate::store::{Learned, Reader, SessionRow};
use crate::verdict::{GateReport, verdict};

/// The session of a loop, and what it needs to go on.
#[derive(Debug)]
pub(crate) struct Learning {
    place: String,
    rules: Arc<Rules>,
    first: LinearGaussian,
    policies: Policies,
    reader: Box<dyn Reader>,
    /// Read when it is first needed: a server is ready before that.
    session: Option<Session>,
}

/// The report of a round, as the service tells it. Rewards, not costs.
#[derive(Debug, Clone, Serialize)]
struct Report {
    round: u64,
    records: u64,
    collected_by: Option<Fingerprint>,
    mean_reward: f64,
    learned: Option<Fingerprint>,
    promoted: bool,
    running: Option<Fingerprint>,
    /// The proven reward of the policy that runs next.
    certified_reward: Option<f64>,
    delta: f64,
    /// What decided about the promotion, for gates that compare.
    gate: Option<GateReport>,
    /// Whether a policy was promoted, and why, in words.
    verdict: String,
    /// The effective sample size of the learned policy on this round, and the actions that it keeps alive.
    effective_records: Option<f64>,
    ledger_head: Fingerprint,
}

impl Learning {
    pub(crate) fn new(
        name: &str,
        rules: Arc<Rules>,
        first: LinearGaussian,
        policies: Policies,
        reader: Box<dyn Reader>,
    ) -> Self {
        Learning { place: format!("loop {name}"), rules, first, policies, reader, session: None }
    }

    /// Learns from a round. The session goes on from its result, which must be stored next.
    pub(crate) fn learn(&mut self, round: &Ready) -> Result<Learned> {
        // Other servers may have learned from the rounds before.
        self.reader.fetch(self.policies.folder())?;
        let (mut session, logs) = loop {
            let (logs, stored) = self.together(|_| round_logs(self.reader.as_ref(), &self.rules, round))?;
            let ledger: Ledger = stored.ledger.parse().map_err(Error::core(&self.place))?;
            let session = match self.session.take() {
                // After a failure of the store the session may be a round ahead of it, and behind if another server learned.
                Some(session) if session.logs().len() as u64 == round.round => self.up_to_date(session, &ledger)?,
                _ => None,
            };
            let session = session.map_or_else(|| self.resumed(), Ok)?;
            if session.ledger().head() == ledger.head() {
                break (session, logs);
            }
            // Records were erased after they were read, and before the session was.
            self.session = Some(session);
        };
        let mean_cost = logs.cost().iter().sum::<f64>() / logs.len() as f64;
        if session.logs().len() as u64 != round.round {
            let expected = session.logs().len();
            return Err(Error::setting(&self.place, "the round to learn from", expected, round.round));
        }
        let core = Error::core(&self.place);
        let done = session.prepare(logs, round.policy, true).and_then(|job| job.run(&mut Silent)).map_err(&core)?;
        let report = session.commit(done).map_err(&core)?;
        let inputs = self.rules.inputs();
        for policy in SavedSession::policies(&session) {
            self.policies.write(policy.as_ref(), &inputs)?;
        }
        self.reader.share(self.policies.folder())?;
        session.running().identity().map(|next| self.policies.prepare(next)).transpose()?;
        let statements = statements(&report, session.logs().len());
        let learned = Learned {
            round: round.round,
            running: session.running().identity(),
            session: SavedSession::of(&session).to_json(&self.place)?,
            ledger: session.ledger().to_string(),
            report: self.report(round, &session, &report, mean_cost)?,
            statements,
        };
        self.session = Some(session);
        Ok(learned)
    }

    /// The session with what the stored ledger has noted since. `None` if that ledger is another: something was noted
    /// while the session learned, or records that it has were erased.
    fn up_to_date(&self, mut session: Session, stored: &Ledger) -> Result<Option<Session>> {
        for entry in stored.entries().get(session.ledger().entries().len()..).unwrap_or_default() {
            let noted = match *entry {
                Entry::Challenge { policy, round } => session.challenge(self.policies.read(policy)?, round),
                Entry::Erase { round, records, logs: None } => session.note_erased(round, records),
                _ => return Ok(None),
            };
            noted.map_err(Error::core(&self.place))?;
        }
        Ok((session.ledger().head() == stored.head()).then_some(session))
    }

    fn report(&self, round: &Ready, session: &Session, report: &RoundReport, mean_cost: f64) -> Result<String> {
        let [lowest, highest] = self.rules.reward_range;
        let range = RewardRange::new(lowest, highest).map_err(Error::core(&self.place))?;
        // The rungs of the ladder share delta. The certificate beside it has a delta of its own: the better of both would hold with
        // less confidence than is said.
        let proven = report.proven.as_ref().and_then(|proven| proven.ladder.as_ref());
        let text = serde_json::to_string(&Report {
            round: round.round,
            records: round.records,
            collected_by: round.policy,
            mean_reward: range.reward(mean_cost),
            learned: session.learned().last().and_then(|policy| policy.identity()),
            promoted: report.promoted,
            running: session.running().identity(),
            certified_reward: proven.map(|ladder| range.reward(ladder.upper.min(0.0))),
            delta: self.rules.learner.protocol.delta,
            gate: GateReport::of(self.rules.gate, report),
            verdict: verdict(self.rules.gate, report, self.rules.reward_range),
            effective_records: report.learned.coverage.as_ref().map(|coverage| coverage.effective),
            ledger_head: session.ledger().head(),
        });
        text.map_err(|e| Error::Malformed { place: self.place.clone(), reason: e.to_string() })
    }

    /// The session as the store has it.
    pub(crate) fn resumed(&self) -> Result<Session> {
        self.together(|stored| self.resumed_from(stored)).map(|(session, _)| session)
    }

    /// Reads records beside the stored session. What is read in several steps belongs together only if nothing was learned or
    /// erased meanwhile.
    fn together<T>(&self, read: impl Fn(&SessionRow) -> Result<T>) -> Result<(T, SessionRow)> {
        loop {
            let stored = self.reader.session()?;
            let found = read(&stored);
            if self.reader.session()?.ledger == stored.ledger {
                return Ok((found?, stored));
            }
        }
    }

    fn resumed_from(&self, stored: &SessionRow) -> Result<Session> {
        let ledger: Ledger = stored.ledger.parse().map_err(Error::core(&self.place))?;
        let Some(text) = &stored.session else {
            let new = self.rules.session(&self.place, self.first.clone())?;
            let reason = "its ledger is not that of a loop with these rules".into();
            let other = || Error::Malformed { place: self.place.clone(), reason };
            return self.up_to_date(new, &ledger)?.ok_or_else(other);
        };
        let mut rounds = Vec::new();
        for round in self.reader.rounds()? {
            let Some(ready) = Ready::of(&round).filter(|_| round.learned.is_some()) else { continue };
            let logs = round_logs(self.reader.as_ref(), &self.rules, &ready)?;
            rounds.push(SavedRound { logs, policy: ready.policy });
        }
        let find = |print: Fingerprint| {
            self.policies.read(print).map_err(|error| match error {
                Error::Data(error) => error,
                other => surefoot_data::Error::Malformed { place: self.place.clone(), reason: other.to_string() },
            })
        };
        Ok(SavedSession::from_json(&self.place, text.as_bytes())?.resume(&self.place, rounds, ledger, &find)?)
    }
}

/// The certificates of a round, after so many rounds.
fn statements(report: &RoundReport, round: usize) -> Vec<Statement> {
    let proven = report.proven.as_ref();
    let all: [(StatementKind, Option<&Certificate>); 4] = [
        (StatementKind::Gate, report.decided_by.as_ref()),
        (StatementKind::Certificate, proven.and_then(|proven| proven.certificate.as_ref())),
        (StatementKind::Ladder, proven.and_then(|proven| proven.ladder.as_ref())),
        (StatementKind::HandOver, report.handed_over.as_ref()),
    ];
    let made = all.into_iter().filter_map(|(kind, certificate)| Some((kind, certificate?.clone())));
    made.map(|(kind, certificate)| Statement { round, kind, certificate }).collect()
}

/// Runs `work` in threads of a low priority.
pub(crate) fn in_background(threads: usize, work: impl FnOnce() + Send) -> Result<(), String> {
    let lowest = |_| {
        // On Linux this is the priority of the thread. Where it cannot be set, learning competes with deciding.
        let _ = rustix::process::nice(19);
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|i| format!("learning-{i}"))
        .start_handler(lowest)
        .build()
        .map_err(|e| e.to_string())?;
    pool.install(work);
    Ok(())
}
