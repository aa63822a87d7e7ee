//! SESSION: a loop under way. Logs come in, one round after the other; what is to run next comes out.
//!
//! A round is three steps, so that a service can go on deciding while it learns:
//!
//! | step | what it does |
//! | --- | --- |
//! | [`Session::prepare`] | takes in the logs and who collected them; the session is not changed |
//! | [`Job::run`] | learns and judges, anywhere, for as long as it takes; may be stopped |
//! | [`Session::commit`] | makes the outcome the session's: what is to run next may change here, and only here |
//!
//! [`Session::take`] is all three at once.

use std::sync::Arc;

use crate::certificate::{
    Case, Certificate, Challenger, FixedSince, Gate, Share, Since, Smoothing, Verdict, risk_and_ladder,
};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::learn::{Learner, State, StepReport};
use crate::logs::Logs;
use crate::observer::Observer;
use crate::policy::{LinearGaussian, Policy};

/// A loop under way: all that was deployed, logged and learned so far. Cloning shares the data.
#[derive(Debug, Clone)]
pub struct Session {
    learner: Learner,
    gate: Gate,
    state: State,
    /// What runs.
    incumbent: Challenger,
    /// The round since which it has collected all; `None` if it has not collected the newest.
    started: Option<usize>,
    challengers: Vec<Challenger>,
    logs: Vec<Logs>,
    /// What collected each round.
    deployed: Vec<Arc<dyn Policy>>,
    /// The policy learned from each round.
    learned: Vec<Challenger>,
    /// Another one after every change, so that a job of the session as it was is told from one of the session as it is.
    version: Arc<()>,
}

/// What a round brought.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RoundReport {
    /// What the learner reports.
    pub learned: StepReport,
    /// Whether what was learned, now or earlier, replaces what was running.
    pub promoted: bool,
    /// The certificate that decided: of the challenger that has the best one, not always the newest; none if the gate is
    /// always open, or the incumbent has not collected a round yet.
    pub decided_by: Option<Certificate>,
    /// What is proven about the policy that the round ends with, if it was asked for.
    pub proven: Option<Proven>,
}

/// What is proven about a policy.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Proven {
    /// Theorem 3.2 with the first policy as prior, on all records; none of a policy that has no divergence from it. Where contexts may shift, Theorem C.1: a bound on
    /// the mean over rounds of the risks of the policies learned from them, each in the world of its round.
    pub certificate: Option<Certificate>,
    /// The best rung of the [ladder](crate::certificate::ladder()). Where contexts may shift, only the policy on records
    /// of the newest round that it has not seen is left of it, if there are any: a bound in the world of that round.
    pub ladder: Option<Certificate>,
}

/// All that a session leaves behind and needs to go on, apart from its settings; cloning shares the data.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// The first policy.
    pub first: LinearGaussian,
    /// What was logged in each round.
    pub logs: Vec<Logs>,
    /// What collected each round.
    pub deployed: Vec<Arc<dyn Policy>>,
    /// What was learned from each round.
    pub learned: Vec<Challenger>,
    /// What is running.
    pub incumbent: Challenger,
    /// The round since which it has collected all; `None` if it has not collected the newest.
    pub started: Option<usize>,
    /// What was learned since, and not promoted.
    pub challengers: Vec<Challenger>,
    /// Lambda and sharpness of the last policy.
    pub kept: Option<(f64, f64)>,
}

/// A round that was prepared: all that it takes to learn from it, apart from the session.
#[derive(Debug, Clone)]
#[must_use = "a job does nothing until it is run"]
pub struct Job {
    /// The session with the round in it, nothing learned.
    session: Session,
    certify: bool,
}

/// What came of a [`Job`], to be committed.
#[derive(Debug, Clone)]
#[must_use = "the session is as before until this is committed"]
pub struct Done {
    session: Session,
    report: RoundReport,
}

impl Session {
    /// Before the first round, which the first policy collects.
    pub fn new(learner: Learner, gate: Gate, first: LinearGaussian) -> Result<Self> {
        learner.protocol.check()?;
        gate.check()?;
        if gate != Gate::Always && !learner.algorithm.redeploys() {
            return Err(Error::setting("the gate", "always, where nothing is ever redeployed", gate));
        }
        if gate != Gate::Always && learner.algorithm.shifts() {
            let allowed = "always, where contexts may shift: a comparison in past worlds says nothing about the next";
            return Err(Error::setting("the gate", allowed, gate));
        }
        let fixed_since = Some(FixedSince { round: 0, since: Since::round(0), size: 1 });
        Ok(Session {
            learner,
            gate,
            state: State::new(first.clone()),
            incumbent: Challenger { policy: Arc::new(first), fixed_since },
            started: None,
            challengers: Vec::new(),
            logs: Vec::new(),
            deployed: Vec::new(),
            learned: Vec::new(),
            version: Arc::default(),
        })
    }

    /// A session that goes on where another one, of the same settings, was left: bit for bit as if it had not been.
    pub fn resume(learner: Learner, gate: Gate, checkpoint: Checkpoint) -> Result<Self> {
        let Checkpoint { first, logs, deployed, learned, incumbent, started, challengers, kept } = checkpoint;
        let mut session = Session::new(learner, gate, first)?;
        let rounds = logs.len();
        for (what, found) in [("what was deployed", deployed.len()), ("what was learned", learned.len())] {
            if found != rounds {
                return Err(Error::size(what, format!("{rounds} policies, one for each round"), found));
            }
        }
        for logs in &logs {
            session.state = session.learner.remember(&session.state, logs)?;
        }
        if let Some(newest) = learned.last() {
            let newest = gaussian(&newest.policy, "what was learned")?;
            let running = match session.learner.algorithm.redeploys() {
                true => gaussian(&incumbent.policy, "what is running")?,
                false => session.state.first(),
            };
            session.state = session.state.clone().resumed(newest, running, kept)?;
        }
        Ok(Session { incumbent, started, challengers, logs, deployed, learned, ..session })
    }

    /// What it takes to [`resume`](Session::resume).
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            first: self.first().clone(),
            logs: self.logs.clone(),
            deployed: self.deployed.clone(),
            learned: self.learned.clone(),
            incumbent: self.incumbent.clone(),
            started: self.started,
            challengers: self.challengers.clone(),
            kept: self.state.kept(),
        }
    }

    /// The settings of its learner.
    pub fn learner(&self) -> &Learner {
        &self.learner
    }

    /// The rule by which candidates are deployed.
    pub fn gate(&self) -> Gate {
        self.gate
    }

    /// Where its learner stands.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What collects the next round.
    pub fn running(&self) -> &Arc<dyn Policy> {
        &self.incumbent.policy
    }

    /// The last policy learned; the first one, before any round.
    pub fn newest(&self) -> &LinearGaussian {
        self.state.current()
    }

    /// What the loop has come to: what is running or, where nothing is ever redeployed, the last policy learned.
    pub fn current(&self) -> &dyn Policy {
        if self.learner.algorithm.redeploys() { self.incumbent.policy.as_ref() } else { self.newest() }
    }

    /// The first policy, the prior of every search.
    pub fn first(&self) -> &LinearGaussian {
        self.state.first()
    }

    /// What was logged in each round.
    pub fn logs(&self) -> &[Logs] {
        &self.logs
    }

    /// What collected each round.
    pub fn deployed(&self) -> &[Arc<dyn Policy>] {
        &self.deployed
    }

    /// The policy learned from each round, deployed or not.
    pub fn learned(&self) -> impl ExactSizeIterator<Item = &Arc<dyn Policy>> {
        self.learned.iter().map(|challenger| &challenger.policy)
    }

    /// A round: learns from what the running policy logged, and decides what is to run. If it fails, or is stopped, all
    /// is as before.
    pub fn take(&mut self, logs: Logs, certify: bool, observer: &mut dyn Observer) -> Result<RoundReport> {
        let done = self.prepare(logs, self.runs()?, certify)?.run(observer)?;
        self.commit(done)
    }

    /// Prepares a round: its logs, and the policy that collected them, which is the one that runs or one that ran
    /// before. While a round is being learned from, the next one is collected by what ran already, and says so.
    pub fn prepare(&self, logs: Logs, collected_by: Fingerprint, certify: bool) -> Result<Job> {
        let mut session = self.clone();
        session.take_in(logs, collected_by)?;
        Ok(Job { session, certify })
    }

    /// Makes what a job found the session's, and says what it is. Fails if the session is not the one that the job was
    /// prepared from: somebody else has committed a round since.
    pub fn commit(&mut self, done: Done) -> Result<RoundReport> {
        if !Arc::ptr_eq(&self.version, &done.session.version) {
            let (allowed, value) = ("prepared from the session as it is now", "from one that has changed since");
            return Err(Error::setting("the job", allowed, value));
        }
        *self = Session { version: Arc::default(), ..done.session };
        Ok(done.report)
    }

    /// Takes in a round that nothing is learned from by itself: the next [`take`](Session::take) learns from all.
    pub fn remember(&mut self, logs: Logs) -> Result<()> {
        let state = self.learner.remember(&self.state, &logs)?;
        self.take_in(logs, self.runs()?)?;
        // Nothing new is learned: the last policy stays.
        let last = self.learned.last().unwrap_or(&self.incumbent).clone();
        self.learned.push(last);
        self.state = state;
        self.version = Arc::default();
        Ok(())
    }

    /// What all rounds so far prove about the policy that the loop [has come to](Session::current).
    pub fn prove(&self) -> Result<Proven> {
        match self.learned.last() {
            None => Err(Error::size("the loop", "at least one round", 0)),
            Some(newest) if !self.learner.algorithm.redeploys() => self.certify(newest),
            Some(_) => self.certify(&self.incumbent),
        }
    }

    /// The name of what is running.
    fn runs(&self) -> Result<Fingerprint> {
        name(self.incumbent.policy.as_ref())
    }

    fn take_in(&mut self, logs: Logs, collected_by: Fingerprint) -> Result<()> {
        let known = std::iter::once(&self.incumbent.policy).chain(self.deployed.iter().rev());
        let known = known.chain(self.learned());
        let policy = match known.into_iter().find(|policy| policy.identity() == Some(collected_by)) {
            Some(policy) => Arc::clone(policy),
            None if self.first().fingerprint() == collected_by => Arc::new(self.first().clone()),
            None => {
                return Err(Error::setting("what collected the round", "a policy of this session", collected_by));
            }
        };
        self.started = match self.runs()? == collected_by {
            true => self.started.or(Some(self.logs.len())),
            false => None,
        };
        self.deployed.push(policy);
        self.logs.push(logs);
        Ok(())
    }

    fn certify(&self, policy: &Challenger) -> Result<Proven> {
        let (protocol, logs) = (&self.learner.protocol, &self.logs[..]);
        let judged = policy.policy.as_ref();
        if self.learner.algorithm.shifts() {
            let case = Case::whole(logs, protocol);
            let all = |policies: &mut dyn Iterator<Item = &Arc<dyn Policy>>| {
                policies.map(|policy| gaussian(policy, "a policy under shift").cloned()).collect::<Result<Vec<_>>>()
            };
            let (learned, deployed) = (all(&mut self.learned())?, all(&mut self.deployed.iter())?);
            let pairs: Vec<_> = learned.iter().zip(&deployed).collect();
            let unseen = policy.fixed_since.filter(|fixed| fixed.since.round + 1 == logs.len());
            let unseen = unseen.map(|FixedSince { round, since, size }| {
                let share = Share::of_round(round, 1.0);
                Certificate::fixed(Smoothing::Ls, judged, size, &Case { since, share, ..case })
            });
            return Ok(Proven {
                certificate: Some(Certificate::shift(Smoothing::Ls, &pairs, &case)?),
                ladder: unseen.transpose()?,
            });
        }
        let (certificate, ladder) = risk_and_ladder(judged, policy.fixed_since, &self.deployed, logs, protocol)?;
        Ok(Proven { certificate, ladder: Some(ladder) })
    }
}

impl Job {
    /// Learns from the round, lets the gate decide, and certifies if it was asked for.
    pub fn run(self, observer: &mut dyn Observer) -> Result<Done> {
        let Job { mut session, certify } = self;
        let report = session.learn(certify, observer)?;
        Ok(Done { session, report })
    }
}

impl Done {
    /// What the round brought, should it be committed.
    pub fn report(&self) -> &RoundReport {
        &self.report
    }
}

/// What a job does to its own copy of the session.
impl Session {
    fn learn(&mut self, certify: bool, observer: &mut dyn Observer) -> Result<RoundReport> {
        let redeploys = self.learner.algorithm.redeploys();
        let round = self.logs.len() - 1;
        if redeploys && self.deployed[round].identity() != Some(self.state.deployed().fingerprint()) {
            // The search under shift is anchored at what collected the round.
            self.state = self.state.clone().keep(gaussian(&self.deployed[round], "what collected the round")?)?;
        }
        let (state, learned) = self.learner.step_observed(&self.state, &self.logs[round], observer)?;
        self.state = state;
        if round == 0
            && let Some(fixed) = learned.fixed_since
        {
            // The first policy and what was learned in round 0 are one set.
            self.incumbent.fixed_since = Some(FixedSince { size: fixed.size, round: 0, since: Since::round(0) });
        }
        let candidate = Challenger { policy: Arc::new(self.state.current().clone()), fixed_since: learned.fixed_since };
        self.learned.push(candidate.clone());
        self.challengers.push(candidate.clone());
        let Verdict { promoted, certificate } = self.gate.judge(
            &self.challengers,
            &self.incumbent,
            self.started,
            &self.deployed,
            &self.logs,
            &self.learner.protocol,
        )?;
        if !redeploys {
            self.challengers.clear();
        } else {
            if let Some(place) = promoted {
                self.incumbent = self.challengers.swap_remove(place);
                self.challengers.clear();
                self.started = None;
            }
            self.state = self.state.clone().keep(gaussian(&self.incumbent.policy, "what is running")?)?;
        }
        // What is judged: where nothing is ever redeployed, what would be.
        let ends_with = if redeploys { &self.incumbent } else { &candidate };
        let proven = certify.then(|| self.certify(ends_with)).transpose()?;
        Ok(RoundReport { learned, promoted: redeploys && promoted.is_some(), decided_by: certificate, proven })
    }
}

/// The name of a policy.
fn name(policy: &dyn Policy) -> Result<Fingerprint> {
    policy.identity().ok_or_else(|| Error::setting("a policy of a session", "one with a fingerprint", "without"))
}

/// The posterior that a policy is.
fn gaussian<'a>(policy: &'a Arc<dyn Policy>, what: &str) -> Result<&'a LinearGaussian> {
    policy.as_gaussian().ok_or_else(|| Error::setting(what, "a linear Gaussian policy", "another"))
}
