//! SESSION: a running loop. It takes logs round by round, and decides which policy runs next.
//!
//! A round has three steps, so that a service can keep serving decisions while it learns:
//!
//! | step | what it does |
//! | --- | --- |
//! | [`Session::prepare`] | takes the logs and the name of their logging policy; the session does not change |
//! | [`Job::run`] | learns and judges, on any thread, for as long as it takes; can be stopped |
//! | [`Session::commit`] | stores the result in the session; the running policy can change only here |
//!
//! [`Session::take`] does all three.

mod own;

use std::sync::Arc;

use crate::audit::{self, Entry, Law, Ledger, Opening, Statement, StatementKind, Terms, hash_of};
use crate::certificate::{
    Case, Certificate, Challenger, FixedSince, Gate, Linked, Share, Since, Smoothing, Verdict, risk_and_ladder,
};
use crate::contexts::Contexts;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::learn::{Learner, PortfolioCheckpoint, Restored, State, StepReport};
use crate::logs::{Eligible, Logs};
use crate::observer::Observer;
use crate::policy::{LinearGaussian, Policy};

/// A running loop: everything deployed, logged and learned so far. Clones share the data.
#[derive(Debug, Clone)]
pub struct Session {
    learner: Learner,
    gate: Gate,
    state: State,
    /// The running policy.
    incumbent: Challenger,
    /// The round since which the incumbent has collected every round; `None` if it has not collected the newest.
    started: Option<usize>,
    challengers: Vec<Challenger>,
    logs: Vec<Logs>,
    /// The logging policy of each round.
    deployed: Vec<Arc<dyn Policy>>,
    /// The policy learned from each round.
    learned: Vec<Challenger>,
    /// The policy that would have been handed over after each round, if that is another one.
    hand_overs: Vec<Option<Arc<LinearGaussian>>>,
    /// The challengers of the caller's own, in the order of the ledger.
    own: Vec<Arc<dyn Policy>>,
    /// What was fixed when.
    ledger: Ledger,
    /// Replaced after every change, to recognise a job that was prepared from an earlier version of the session.
    version: Arc<()>,
}

/// The report of one round.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RoundReport {
    /// The learner's report.
    pub learned: StepReport,
    /// Whether a policy learned in this round or earlier replaced the running policy.
    pub promoted: bool,
    /// The certificate that decided: that of the challenger with the best one, which is not always the newest. `None`
    /// if the gate is always open, or if the incumbent has not collected a round yet.
    pub decided_by: Option<Certificate>,
    /// The certificates of the policy that the round ends with, if they were requested and that policy is known.
    pub proven: Option<Proven>,
    /// The certificate of the policy that [would be handed over](Session::hand_over), if certificates were requested and
    /// some records were held back from it.
    pub handed_over: Option<Certificate>,
}

/// The certificates of a policy.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Proven {
    /// Theorem 3.2 with the first policy as prior, on all records; `None` if the policy has no divergence from it. If
    /// contexts may shift, this is Theorem C.1: a bound on the mean over rounds of the risks of the learned policies,
    /// each in the world of the round that it was learned from.
    pub certificate: Option<Certificate>,
    /// The best rung of the [ladder](crate::certificate::ladder()). If contexts may shift, only one rung remains: the
    /// policy as a fixed policy on those records of the newest round that it has not seen, if there are any. It bounds
    /// the risk in the world of that round.
    pub ladder: Option<Certificate>,
}

/// Everything that a session needs to continue, except for its settings. Clones share the data.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// The first policy.
    pub first: LinearGaussian,
    /// The logs of each round.
    pub logs: Vec<Logs>,
    /// The logging policy of each round; `None` if it is unknown.
    pub deployed: Vec<Option<Arc<dyn Policy>>>,
    /// The policy learned from each round.
    pub learned: Vec<Challenger>,
    /// The policy that would have been handed over after each round, if that is another one.
    pub hand_overs: Vec<Option<Arc<LinearGaussian>>>,
    /// The running policy; `None` if it is [unknown](Session::replacing_unknown).
    pub incumbent: Option<Challenger>,
    /// The round since which the incumbent has collected every round; `None` if it has not collected the newest.
    pub started: Option<usize>,
    /// The policies learned since the last promotion, none of them promoted, and the caller's own.
    pub challengers: Vec<Challenger>,
    /// All challengers of the caller's own, in the order of the ledger.
    pub own: Vec<Arc<dyn Policy>>,
    /// Lambda and sharpness that the newest round chose.
    pub kept: Option<(f64, f64)>,
    /// What a portfolio remembers.
    pub portfolio: Option<PortfolioCheckpoint>,
    /// The ledger.
    pub ledger: Ledger,
}

/// A prepared round: everything needed to learn from it, independent of the session.
#[derive(Debug, Clone)]
#[must_use = "a job does nothing until it is run"]
pub struct Job {
    /// A copy of the session that includes the round; nothing is learned from it yet.
    session: Session,
    certify: bool,
}

/// The result of a [`Job`], to be committed.
#[derive(Debug, Clone)]
#[must_use = "the session is as before until this is committed"]
pub struct Done {
    session: Session,
    report: RoundReport,
}

impl Session {
    /// A session before its first round, which the first policy will collect. With a gate other than
    /// [`Gate::Always`], a round is refused if its propensities are not those of the policy that collected it.
    pub fn new(learner: Learner, gate: Gate, first: LinearGaussian) -> Result<Self> {
        learner.protocol.check()?;
        gate.check()?;
        if gate != Gate::Always && !learner.algorithm.redeploys() {
            return Err(Error::setting("the gate", "always, because this algorithm never redeploys", gate));
        }
        if gate != Gate::Always && learner.algorithm.shifts() {
            let allowed =
                "always, because contexts may shift: past rounds do not show which policy is better in the next one";
            return Err(Error::setting("the gate", allowed, gate));
        }
        let fixed_since = Some(FixedSince { round: 0, since: Since::round(0), size: 1 });
        Ok(Session {
            ledger: opened(&learner, gate, &first, Terms::default(), true),
            learner,
            gate,
            state: State::new(first.clone()),
            incumbent: Challenger { policy: Arc::new(first), fixed_since },
            started: None,
            challengers: Vec::new(),
            logs: Vec::new(),
            deployed: Vec::new(),
            learned: Vec::new(),
            hand_overs: Vec::new(),
            own: Vec::new(),
            version: Arc::default(),
        })
    }

    /// A session before its first round, for logs of a running policy that is unknown: only its logged propensities are.
    ///
    /// The first policy is the prior of every search, and is never deployed. Each learned policy is compared once, with
    /// the logging policy of the round that it was learned from: as a fixed policy on the records held back from it, and
    /// by Theorem 4.1 with the first policy as prior. The unknown policy runs until one of them passes the gate. After
    /// that the session continues as any other. The gate must be [`Gate::Improvement`] or [`Gate::NonInferiority`],
    /// because nothing bounds the risk of an unknown policy in later rounds.
    pub fn replacing_unknown(learner: Learner, gate: Gate, first: LinearGaussian) -> Result<Self> {
        if !matches!(gate, Gate::Improvement | Gate::NonInferiority { .. }) {
            let allowed = "improvement or non-inferiority, because the running policy is unknown";
            return Err(Error::setting("the gate", allowed, gate));
        }
        let incumbent = Challenger { policy: Unknown::shared(first.actions()), fixed_since: None };
        let ledger = opened(&learner, gate, &first, Terms::default(), false);
        Ok(Session { incumbent, ledger, ..Session::new(learner, gate, first)? })
    }

    /// Whether the running policy is unknown, because no learned policy has passed the gate yet.
    pub fn runs_unknown(&self) -> bool {
        self.incumbent.policy.identity().is_none()
    }

    /// The session with other terms in its ledger. They must be fixed before the first round.
    pub fn with_terms(mut self, terms: Terms) -> Result<Self> {
        if !self.logs.is_empty() {
            return Err(Error::setting("the terms", "given before the first round", "given after it"));
        }
        let [lowest, highest] = terms.reward_range;
        if !(lowest < highest && lowest.is_finite() && highest.is_finite()) {
            let value = format!("[{lowest}, {highest}]");
            return Err(Error::setting("the reward range", "two finite numbers, the lower one first", value));
        }
        self.ledger = opened(&self.learner, self.gate, self.state.first(), terms, !self.runs_unknown());
        Ok(self)
    }

    /// The ledger: what was fixed when. Its [head](Ledger::head) may be given to anybody before the next round.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Continues from a checkpoint of a session with the same settings. The result is the same, bit for bit, as without
    /// the interruption.
    pub fn resume(learner: Learner, gate: Gate, checkpoint: Checkpoint) -> Result<Self> {
        let Checkpoint {
            first,
            logs,
            deployed,
            learned,
            hand_overs,
            incumbent,
            started,
            challengers,
            own,
            kept,
            portfolio,
            ledger,
        } = checkpoint;
        let terms = ledger.opening().terms.clone();
        let unknown = Unknown::shared(first.actions());
        let deployed: Vec<_> =
            deployed.into_iter().map(|policy| policy.unwrap_or_else(|| Arc::clone(&unknown))).collect();
        let incumbent = incumbent.unwrap_or(Challenger { policy: unknown, fixed_since: None });
        let mut session = Session::new(learner, gate, first)?.with_terms(terms)?;
        if ledger.opening() != session.ledger.opening() {
            let (allowed, value) = ("opened with the settings of this session", "opened with others");
            return Err(Error::setting("the ledger", allowed, value));
        }
        let rounds = logs.len();
        let collected: Vec<(Option<Fingerprint>, Fingerprint)> = Law::of(&ledger).0.collected().collect();
        if collected.len() != rounds {
            return Err(Error::size("the ledger", format!("{rounds} rounds, as the logs"), collected.len()));
        }
        for (what, found) in [
            ("the list of deployed policies", deployed.len()),
            ("the list of learned policies", learned.len()),
            ("the list of policies to hand over", hand_overs.len()),
        ] {
            if found != rounds {
                return Err(Error::size(what, format!("{rounds} policies, one for each round"), found));
            }
        }
        if deployed.iter().zip(&collected).any(|(policy, (by, _))| policy.identity() != *by) {
            let (allowed, value) = ("collected by the policies of its ledger", "collected by others");
            return Err(Error::setting("the rounds of a session", allowed, value));
        }
        for (round, (logs, (_, named))) in logs.iter().zip(&collected).enumerate() {
            if logs.fingerprint() != *named {
                let (what, found) = (format!("the fingerprint of round {round}"), logs.fingerprint());
                return Err(Error::setting(&what, format!("{named}, as its ledger says"), found));
            }
            session.state = session.learner.remember(&session.state, logs)?;
        }
        if let Some(newest) = learned.last() {
            let newest = gaussian(&newest.policy, "the newest learned policy")?;
            let running = match session.learner.algorithm.redeploys() && incumbent.policy.identity().is_some() {
                // A challenger of the caller's own may be of another class; no search starts from it.
                true => incumbent.policy.as_gaussian().unwrap_or(newest),
                false => session.state.first(),
            };
            let learner = &session.learner;
            let settings = learner.algorithm.portfolio();
            let hand_over = hand_overs.iter().rev().flatten().next().map(|policy| LinearGaussian::clone(policy));
            let restored = match (&settings, portfolio) {
                (Some(settings), checkpoint) => Some(Restored { checkpoint, portfolio: settings, learner, hand_over }),
                (None, None) => None,
                (None, Some(_)) => return Err(Error::setting("the checkpoint", "of the same algorithm", "of another")),
            };
            session.state = session.state.clone().resumed(newest, running, kept, restored)?;
        }
        Session { incumbent, started, challengers, logs, deployed, learned, hand_overs, ledger, ..session }
            .with_own(own)
    }

    /// The checkpoint from which to [`resume`](Session::resume).
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            first: self.first().clone(),
            logs: self.logs.clone(),
            deployed: self.deployed.iter().map(|policy| policy.identity().map(|_| Arc::clone(policy))).collect(),
            learned: self.learned.clone(),
            hand_overs: self.hand_overs.clone(),
            incumbent: (!self.runs_unknown()).then(|| self.incumbent.clone()),
            started: self.started,
            challengers: self.challengers.clone(),
            own: self.own.clone(),
            kept: self.state.kept(),
            portfolio: self.state.portfolio(),
            ledger: self.ledger.clone(),
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

    /// The state of its learner.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The running policy, which collects the next round. If it is [unknown](Session::runs_unknown), this policy has no
    /// fingerprint, and its probabilities are an error.
    pub fn running(&self) -> &Arc<dyn Policy> {
        &self.incumbent.policy
    }

    /// The newest learned policy; before any round, the first policy.
    pub fn newest(&self) -> &LinearGaussian {
        self.state.current()
    }

    /// The policy to hand over if learning ended now. It was learned from the same records as the
    /// [newest](Session::newest) policy, but explores less. `None` if the algorithm makes no difference between the two.
    pub fn hand_over(&self) -> Option<&LinearGaussian> {
        self.state.hand_over()
    }

    /// The current result of the loop: the running policy or, if the algorithm never redeploys, the newest learned
    /// policy.
    pub fn current(&self) -> &dyn Policy {
        if self.learner.algorithm.redeploys() { self.incumbent.policy.as_ref() } else { self.newest() }
    }

    /// The first policy, the prior of every search.
    pub fn first(&self) -> &LinearGaussian {
        self.state.first()
    }

    /// The logs of each round.
    pub fn logs(&self) -> &[Logs] {
        &self.logs
    }

    /// The logging policy of each round.
    pub fn deployed(&self) -> &[Arc<dyn Policy>] {
        &self.deployed
    }

    /// The policy learned from each round, deployed or not.
    pub fn learned(&self) -> impl ExactSizeIterator<Item = &Arc<dyn Policy>> {
        self.learned.iter().map(|challenger| &challenger.policy)
    }

    /// The policy that would have been handed over after each round, if that is another than the learned one.
    pub fn hand_overs(&self) -> &[Option<Arc<LinearGaussian>>] {
        &self.hand_overs
    }

    /// Processes a round: learns from the logs of the running policy and decides which policy runs next. If it fails or
    /// is stopped, the session does not change.
    pub fn take(&mut self, logs: Logs, certify: bool, observer: &mut dyn Observer) -> Result<RoundReport> {
        let done = self.prepare(logs, self.runs(), certify)?.run(observer)?;
        self.commit(done)
    }

    /// Prepares a round from its logs and the fingerprint of the policy that collected them: the running policy or one
    /// that was deployed before. While one round is being learned from, the running policy already collects the next one, and
    /// that round must name it. `None` stands for the [unknown](Session::replacing_unknown) policy.
    pub fn prepare(&self, logs: Logs, collected_by: impl Into<Option<Fingerprint>>, certify: bool) -> Result<Job> {
        let mut session = self.clone();
        session.take_in(logs, collected_by.into())?;
        Ok(Job { session, certify })
    }

    /// Stores the result of a job in the session and returns its report. Fails if the session has changed since the job
    /// was prepared, because another round was committed.
    pub fn commit(&mut self, done: Done) -> Result<RoundReport> {
        if !Arc::ptr_eq(&self.version, &done.session.version) {
            let (allowed, value) = ("prepared from the current state of the session", "prepared from an earlier state");
            return Err(Error::setting("the job", allowed, value));
        }
        *self = Session { version: Arc::default(), ..done.session };
        Ok(done.report)
    }

    /// Adds a round without learning from it; the next [`take`](Session::take) learns from all rounds.
    pub fn remember(&mut self, logs: Logs) -> Result<()> {
        let state = self.learner.remember(&self.state, &logs)?;
        self.take_in(logs, self.runs())?;
        // No policy is learned: the newest policy stays.
        let last = self.learned.last().cloned().unwrap_or_else(|| self.first_or_incumbent());
        self.learned.push(last);
        self.hand_overs.push(None);
        self.deploy();
        self.state = state;
        self.version = Arc::default();
        Ok(())
    }

    /// The certificates of the [current](Session::current) policy, from all rounds so far.
    pub fn prove(&self) -> Result<Proven> {
        match self.learned.last() {
            None => Err(Error::size("the loop", "at least one round", 0)),
            Some(_) if self.runs_unknown() => Err(unknown()),
            Some(newest) if !self.learner.algorithm.redeploys() => self.certify(newest),
            Some(_) => self.certify(&self.incumbent),
        }
    }

    /// The fingerprint of the running policy, unless it is unknown.
    fn runs(&self) -> Option<Fingerprint> {
        self.incumbent.policy.identity()
    }

    /// Adds the running policy to the ledger, unless it is unknown.
    fn deploy(&mut self) {
        if let Some(policy) = self.runs() {
            self.ledger.append(Entry::Deploy { policy });
        }
    }

    /// The running policy; the first policy if that is unknown.
    fn first_or_incumbent(&self) -> Challenger {
        match self.runs_unknown() {
            true => Challenger { policy: Arc::new(self.first().clone()), fixed_since: None },
            false => self.incumbent.clone(),
        }
    }

    /// A policy that has run or was deployed. A service may deploy a policy and learn the next one before the first round
    /// of that policy is complete: the ledger has announced it.
    fn announced(&self, policy: Option<Fingerprint>) -> Option<Arc<dyn Policy>> {
        let is = |known: &&Arc<dyn Policy>| known.identity() == policy;
        let mut ran = std::iter::once(&self.incumbent.policy).chain(self.deployed.iter().rev());
        let deploys = |entry: &Entry| matches!(entry, Entry::Deploy { policy: by } if Some(*by) == policy);
        let waiting = || self.learned().chain(&self.own).find(is).filter(|_| self.ledger.entries().iter().any(deploys));
        ran.find(is).or_else(waiting).cloned()
    }

    fn take_in(&mut self, logs: Logs, collected_by: Option<Fingerprint>) -> Result<()> {
        logs.check_propensities()?;
        let first = self.first();
        if self.gate != Gate::Always && first.actions() != logs.actions() {
            return Err(Error::size("the logs of a round", format!("{} actions", first.actions()), logs.actions()));
        }
        let ran = self.announced(collected_by);
        let policy = match ran {
            Some(policy) => policy,
            None if Some(first.fingerprint()) == collected_by && !self.began_unknown() => Arc::new(first.clone()),
            None => {
                let value = collected_by.map_or_else(|| "unknown".into(), |policy| policy.to_string());
                let allowed = "the running policy or one that was deployed before";
                return Err(Error::setting("the logging policy of the round", allowed, value));
            }
        };
        if self.gate != Gate::Always && collected_by.is_some() {
            self.check_propensities(policy.as_ref(), &logs)?;
        }
        // An unknown policy may change from round to round, so it never has a start.
        let collects = collected_by.is_some() && self.runs() == collected_by;
        if !collects && self.started.is_some() {
            // The comparison with the running policy has ended. Another one would begin with a later record, and the
            // challengers have spent their shares.
            self.challengers.clear();
        }
        self.started = if collects { self.started.or(Some(self.logs.len())) } else { None };
        self.ledger.append(Entry::Collect {
            round: self.logs.len(),
            by: collected_by,
            logs: logs.fingerprint(),
            records: logs.len(),
        });
        self.deployed.push(policy);
        self.logs.push(logs);
        Ok(())
    }

    /// A gate compares challengers with the policy that collected the records, and keeps the incumbent if none is better.
    /// So the incumbent must be the policy that collected them: otherwise the gate would replace the policy that runs
    /// today by one that was never compared with it.
    fn check_propensities(&self, policy: &dyn Policy, logs: &Logs) -> Result<()> {
        let Some(&(row, p)) = audit::differing(policy, logs)?.first() else { return Ok(()) };
        let allowed = format!(
            "{p}, that of the policy that collected the round, because the gate {} keeps that policy if no other is \
             better: give the policy that runs today as the first policy (prior), or none if you do not have it",
            self.gate
        );
        Err(Error::value(row, "propensity", allowed, logs.propensity()[row]))
    }

    /// Whether the session began with an unknown running policy.
    fn began_unknown(&self) -> bool {
        self.deployed.first().unwrap_or(&self.incumbent.policy).identity().is_none()
    }

    /// The certificate of the policy to hand over, if there is one and it has not seen all records.
    fn certify_hand_over(&self) -> Result<Option<Certificate>> {
        let (protocol, rounds) = (&self.learner.protocol, self.logs.len());
        let Some(policy) = self.hand_over().filter(|_| protocol.mixes()) else { return Ok(None) };
        let (law, _) = Law::of(&self.ledger);
        let Some((links, _)) = law.hand_over(rounds) else { return Ok(None) };
        let deployed = self.deployed[1..].iter().map(AsRef::as_ref);
        let next: Vec<&dyn Policy> = deployed.chain([policy as &dyn Policy]).collect();
        Certificate::hand_over(&next, &links, &self.logs, protocol)
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
        // The ledger knows which policy was fixed when, so a verifier comes to the same links.
        let (law, _) = Law::of(&self.ledger);
        let linked = Linked { links: &law.links(logs.len()), gated: law.gated() };
        let mut deployed = self.deployed.clone();
        if self.began_unknown() {
            // The first policy was fixed before round 0, so it is a prior there, whichever policy collected that round.
            deployed[0] = Arc::new(self.first().clone());
        }
        let (certificate, ladder) = risk_and_ladder(judged, policy.fixed_since, &deployed, logs, protocol, linked)?;
        Ok(Proven { certificate, ladder })
    }
}

impl Job {
    /// Learns from the round, lets the gate decide, and certifies the policy if requested.
    pub fn run(self, observer: &mut dyn Observer) -> Result<Done> {
        let Job { mut session, certify } = self;
        let report = session.learn(certify, observer)?;
        Ok(Done { session, report })
    }
}

impl Done {
    /// The report of the round, before it is committed.
    pub fn report(&self) -> &RoundReport {
        &self.report
    }
}

/// The work of a job on its own copy of the session.
impl Session {
    /// Adds a certificate to the ledger, if there is one.
    fn state_in_ledger(&mut self, kind: StatementKind, certificate: Option<&Certificate>) {
        if let Some(certificate) = certificate {
            let statement = Statement { round: self.logs.len(), kind, certificate: certificate.clone() };
            let (round, certificate) = (statement.round, hash_of(&statement));
            self.ledger.append(Entry::State { round, kind, certificate });
        }
    }

    /// Tells the learner which policy runs. Only under shift does a search start from it, and then it must be of the
    /// learner's kind; a challenger of the caller's own need not be.
    fn keep(&mut self, policy: &Arc<dyn Policy>, what: &str) -> Result<()> {
        match gaussian(policy, what).and_then(|policy| self.state.clone().keep(policy)) {
            Ok(state) => self.state = state,
            Err(error) if self.learner.algorithm.shifts() || self.own.is_empty() => return Err(error),
            Err(_) => {}
        }
        Ok(())
    }

    fn learn(&mut self, certify: bool, observer: &mut dyn Observer) -> Result<RoundReport> {
        let redeploys = self.learner.algorithm.redeploys();
        let round = self.logs.len() - 1;
        let by = self.deployed[round].identity();
        if redeploys && by.is_some_and(|by| by != self.state.deployed().fingerprint()) {
            // Under shift, the search is anchored at the policy that collected the round.
            self.keep(&Arc::clone(&self.deployed[round]), "the logging policy of the round")?;
        }
        let (state, mut learned) = self.learner.step_observed(&self.state, &self.logs[round], observer)?;
        self.state = state;
        let unknown = self.runs_unknown();
        let entering = self.entering(round);
        if let Some(fixed) = &mut learned.fixed_since {
            fixed.size += entering.len();
        }
        let size = learned.fixed_since.map_or(entering.len() + usize::from(round == 0), |fixed| fixed.size);
        if round == 0 && !unknown {
            // The first policy and the policies of round 0 form one set.
            self.incumbent.fixed_since = Some(FixedSince { size, round: 0, since: Since::round(0) });
        }
        let candidate = Challenger { policy: Arc::new(self.state.current().clone()), fixed_since: learned.fixed_since };
        let Challenger { policy, fixed_since } = &candidate;
        self.ledger.append(Entry::Learn {
            round,
            policy: name(policy.as_ref())?,
            fixed_since: *fixed_since,
            hand_over: self.hand_over().map(LinearGaussian::fingerprint),
        });
        self.learned.push(candidate.clone());
        self.hand_overs.push(self.hand_over().cloned().map(Arc::new));
        if unknown {
            // The unknown policy may be another one in each round. So a challenger has one comparison, with the logging
            // policy of its own round, and its share of delta is spent once.
            self.challengers.clear();
        }
        self.enter(round, entering, size);
        self.challengers.push(candidate.clone());
        let Verdict { promoted, certificate } = self.gate.judge(
            &self.challengers,
            &self.first_or_incumbent(),
            if unknown { Some(round) } else { self.started },
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
            self.keep(&self.first_or_incumbent().policy, "the running policy")?;
        }
        self.state_in_ledger(StatementKind::Gate, certificate.as_ref());
        self.deploy();
        // The policy to certify: the incumbent, or the candidate if the algorithm never redeploys.
        let ends_with = if redeploys { &self.incumbent } else { &candidate };
        let certify = certify && !self.runs_unknown();
        let proven = certify.then(|| self.certify(ends_with)).transpose()?;
        if let Some(Proven { certificate, ladder }) = &proven {
            self.state_in_ledger(StatementKind::Certificate, certificate.as_ref());
            self.state_in_ledger(StatementKind::Ladder, ladder.as_ref());
        }
        let handed_over = if certify { self.certify_hand_over()? } else { None };
        self.state_in_ledger(StatementKind::HandOver, handed_over.as_ref());
        let promoted = redeploys && promoted.is_some();
        Ok(RoundReport { learned, promoted, decided_by: certificate, proven, handed_over })
    }
}

/// The running policy of a session that does not know it. Its propensities are in the logs, and nothing else is known.
#[derive(Debug)]
struct Unknown {
    actions: usize,
}

impl Unknown {
    fn shared(actions: usize) -> Arc<dyn Policy> {
        Arc::new(Unknown { actions })
    }
}

impl Policy for Unknown {
    fn actions(&self) -> usize {
        self.actions
    }

    fn distribution(&self, _: &Contexts, _: Option<&Eligible>) -> Result<Vec<f64>> {
        Err(unknown())
    }
}

fn unknown() -> Error {
    let allowed =
        "known: no learned policy has passed the gate yet, so the policy that collected the logs should go on";
    Error::setting("the running policy", allowed, "unknown")
}

/// The ledger of a new session. The first policy is deployed in it, unless another one runs.
fn opened(learner: &Learner, gate: Gate, first: &LinearGaussian, terms: Terms, runs: bool) -> Ledger {
    let mut ledger = Ledger::open(Opening {
        first: first.fingerprint(),
        actions: first.actions(),
        protocol: learner.protocol.clone(),
        gate,
        redeploys: learner.algorithm.redeploys(),
        shifts: learner.algorithm.shifts(),
        terms,
    });
    if runs {
        ledger.append(Entry::Deploy { policy: first.fingerprint() });
    }
    ledger
}

/// The fingerprint of a policy.
fn name(policy: &dyn Policy) -> Result<Fingerprint> {
    policy.identity().ok_or_else(|| Error::setting("a policy of a session", "one with a fingerprint", "one without"))
}

/// The policy as a linear Gaussian.
fn gaussian<'a>(policy: &'a Arc<dyn Policy>, what: &str) -> Result<&'a LinearGaussian> {
    policy.as_gaussian().ok_or_else(|| Error::setting(what, "a linear Gaussian policy", "another"))
}
