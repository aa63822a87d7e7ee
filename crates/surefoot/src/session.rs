//! SESSION: a loop under way. Logs come in, one round after the other; what is to run next comes out.

use crate::certificate::{
    Case, Certificate, Challenger, Evidence, FixedSince, Gate, Share, Since, Smoothing, Verdict, ladder_of,
};
use crate::error::{Error, Result};
use crate::learn::{Learner, State, StepReport};
use crate::logs::Logs;
use crate::observer::Observer;
use crate::policy::LinearGaussian;

/// A loop under way: all that was deployed, logged and learned so far.
///
/// Simulated or live, a round is [`take`](Session::take): the logs of what is [`running`](Session::running) are learned
/// from, the gate decides, and something is running again.
#[derive(Debug, Clone)]
pub struct Session {
    learner: Learner,
    gate: Gate,
    state: State,
    /// What runs, and since which round.
    incumbent: Challenger,
    started: usize,
    challengers: Vec<Challenger>,
    logs: Vec<Logs>,
    /// What collected each round.
    deployed: Vec<LinearGaussian>,
    /// The policy learned from each round.
    learned: Vec<Challenger>,
}

/// What a round brought.
#[derive(Debug, Clone)]
pub struct RoundReport {
    /// What the learner reports.
    pub learned: StepReport,
    /// Whether what was learned, now or earlier, replaces what was running.
    pub promoted: bool,
    /// The certificate that decided: of the challenger that has the best one, not always the newest; none if the gate is
    /// always open.
    pub decided_by: Option<Certificate>,
    /// What is proven about the policy that the round ends with, if it was asked for.
    pub proven: Option<Proven>,
}

/// What is proven about a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Proven {
    /// Theorem 3.2 with the first policy as prior, on all records. Where contexts may shift, Theorem C.1: a bound on
    /// the mean over rounds of the risks of the policies learned from them, each in the world of its round.
    pub certificate: Certificate,
    /// The best rung of the [ladder](crate::certificate::ladder()). Where contexts may shift, only the policy on records of the
    /// newest round that it has not seen is left of it, if there are any: a bound in the world of that round.
    pub ladder: Option<Certificate>,
}

/// All that a loop leaves behind and needs to go on, apart from its settings; cloning shares contexts.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// The first policy.
    pub first: LinearGaussian,
    /// What was logged in each round.
    pub logs: Vec<Logs>,
    /// What collected each round.
    pub deployed: Vec<LinearGaussian>,
    /// What was learned from each round.
    pub learned: Vec<Challenger>,
    /// What is running, and since which round.
    pub incumbent: Challenger,
    /// That round.
    pub started: usize,
    /// What was learned since, and not promoted.
    pub challengers: Vec<Challenger>,
    /// Lambda and sharpness of the last policy.
    pub kept: Option<(f64, f64)>,
}

/// What a round changes.
struct Next {
    state: State,
    incumbent: Challenger,
    started: usize,
    challengers: Vec<Challenger>,
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
            incumbent: Challenger { policy: first, fixed_since },
            started: 0,
            challengers: Vec::new(),
            logs: Vec::new(),
            deployed: Vec::new(),
            learned: Vec::new(),
        })
    }

    /// A loop that goes on where another one, of the same settings, was left: bit for bit as if it had not been.
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
            let running = if session.learner.algorithm.redeploys() { &incumbent.policy } else { session.state.first() };
            session.state = session.state.clone().resumed(&newest.policy, running, kept)?;
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

    /// What collects the next round.
    pub fn running(&self) -> &LinearGaussian {
        &self.incumbent.policy
    }

    /// The last policy learned; the first one, before any round.
    pub fn newest(&self) -> &LinearGaussian {
        self.state.current()
    }

    /// What the loop has come to: what is running or, where nothing is ever redeployed, the last policy learned.
    pub fn current(&self) -> &LinearGaussian {
        if self.learner.algorithm.redeploys() { self.running() } else { self.newest() }
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
    pub fn deployed(&self) -> &[LinearGaussian] {
        &self.deployed
    }

    /// The policy learned from each round, deployed or not.
    pub fn learned(&self) -> impl ExactSizeIterator<Item = &LinearGaussian> {
        self.learned.iter().map(|challenger| &challenger.policy)
    }

    /// A round: learns from what was logged, and decides what is to run. If it fails, or is stopped, all is as before.
    pub fn take(&mut self, logs: Logs, certify: bool, observer: &mut dyn Observer) -> Result<RoundReport> {
        self.deployed.push(self.incumbent.policy.clone());
        self.logs.push(logs);
        let before = self.learned.len();
        let taken = self.learn(certify, observer);
        if taken.is_err() {
            self.deployed.pop();
            self.logs.pop();
            self.learned.truncate(before);
        }
        let (next, taken) = taken?;
        Next { state: self.state, incumbent: self.incumbent, started: self.started, challengers: self.challengers } =
            next;
        Ok(taken)
    }

    /// Takes in a round that nothing is learned from by itself: the next [`take`](Session::take) learns from all.
    pub fn remember(&mut self, logs: Logs) -> Result<()> {
        self.state = self.learner.remember(&self.state, &logs)?;
        self.deployed.push(self.incumbent.policy.clone());
        // Nothing new is learned: the last policy stays.
        let last = self.learned.last().unwrap_or(&self.incumbent).clone();
        self.learned.push(last);
        self.logs.push(logs);
        Ok(())
    }

    fn learn(&mut self, certify: bool, observer: &mut dyn Observer) -> Result<(Next, RoundReport)> {
        let redeploys = self.learner.algorithm.redeploys();
        let round = self.logs.len() - 1;
        let (mut state, learned) = self.learner.step_observed(&self.state, &self.logs[round], observer)?;
        let (mut incumbent, mut started) = (self.incumbent.clone(), self.started);
        if round == 0
            && let Some(fixed_since) = learned.fixed_since
        {
            // The first policy and what was learned in round 0 are one set.
            incumbent.fixed_since = Some(FixedSince { size: fixed_since.size, round: 0, since: Since::round(0) });
        }
        let candidate = Challenger { policy: state.current().clone(), fixed_since: learned.fixed_since };
        self.learned.push(candidate.clone());
        let mut challengers = self.challengers.clone();
        challengers.push(candidate.clone());
        let protocol = &self.learner.protocol;
        let Verdict { promoted, certificate } =
            self.gate.judge(&challengers, &incumbent, started, &self.deployed, &self.logs, protocol)?;
        if !redeploys {
            challengers.clear();
        } else if let Some(place) = promoted {
            incumbent = challengers.swap_remove(place);
            challengers.clear();
            started = round + 1;
        }
        state = if redeploys { state.keep(&incumbent.policy)? } else { state };
        // What is judged: where nothing is ever redeployed, what would be.
        let ends_with = if redeploys { &incumbent } else { &candidate };
        let proven = certify.then(|| self.certify(ends_with)).transpose()?;
        let taken = RoundReport { learned, promoted: redeploys && promoted.is_some(), decided_by: certificate, proven };
        Ok((Next { state, incumbent, started, challengers }, taken))
    }

    /// What is proven by all rounds so far about the policy that the loop [has come to](Session::current).
    pub fn prove(&self) -> Result<Proven> {
        match self.learned.last() {
            None => Err(Error::size("the loop", "at least one round", 0)),
            Some(newest) if !self.learner.algorithm.redeploys() => self.certify(newest),
            Some(_) => self.certify(&self.incumbent),
        }
    }

    fn certify(&self, policy: &Challenger) -> Result<Proven> {
        let (protocol, logs) = (&self.learner.protocol, &self.logs[..]);
        let case = Case::whole(logs, protocol);
        if self.learner.algorithm.shifts() {
            let pairs: Vec<_> = self.learned().zip(&self.deployed).collect();
            let unseen = policy.fixed_since.filter(|fixed_since| fixed_since.since.round + 1 == logs.len());
            let unseen = unseen.map(|FixedSince { round, since, size }| {
                let share = Share::of_round(round, 1.0);
                Certificate::fixed(Smoothing::Ls, &policy.policy, size, &Case { since, share, ..case })
            });
            return Ok(Proven {
                certificate: Certificate::shift(Smoothing::Ls, &pairs, &case)?,
                ladder: unseen.transpose()?,
            });
        }
        let evidence = logs.iter().map(|logs| Evidence::new(&policy.policy, logs)).collect::<Result<Vec<_>>>()?;
        Ok(Proven {
            certificate: Certificate::of_posterior(&policy.policy, &self.deployed[0], &case, &evidence)?,
            ladder: Some(ladder_of(&policy.policy, policy.fixed_since, &self.deployed, logs, protocol, &evidence)?),
        })
    }

    /// Where its learner stands.
    pub fn state(&self) -> &State {
        &self.state
    }
}
