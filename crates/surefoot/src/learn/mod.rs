//! LOOP: every algorithm is the same pure step `(state, logs) -> (state, report)`.

mod algorithm;
mod lambda;
mod named;
mod retrain;
mod search;
mod settings;
mod sharpness;

pub use algorithm::{Algorithm, Crm, Window};
pub use lambda::Lambda;
pub use named::LearnerSettings;
pub use retrain::{Retrained, retrain};
pub use sharpness::Sharpness;

use std::str::FromStr;
use std::sync::Arc;

use algorithm::Anchor;
use search::Progress;
use serde::{Deserialize, Serialize};
use settings::{Setting, sharpened};

use crate::certificate::{Evidence, Factor, FixedSince, Gate, Protocol, Since, Smoothing, Subject, Weighed, bound};
use crate::error::{Error, Result, check_setting};
use crate::estimator::Custom;
use crate::features::FeatureMap;
use crate::logs::Logs;
use crate::math::random::{Purpose, stream};
use crate::objective::{Objective, ObjectiveParts};
use crate::observer::{Observer, Silent};
use crate::optim::{Optimiser, Trace};
use crate::policy::{Basis, LinearGaussian, Policy, Posterior, Scale};

/// The family of posteriors that is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Family {
    /// One scale, as in the paper.
    #[default]
    Isotropic,
    /// One scale per feature.
    PerFeature,
    /// One scale per principal axis of the first round's contexts. A prior with one scale is the same in every
    /// orthonormal basis, so this choice costs nothing in any bound.
    Shaped,
}

impl FromStr for Family {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "isotropic" => Ok(Family::Isotropic),
            "per-feature" => Ok(Family::PerFeature),
            "shaped" => Ok(Family::Shaped),
            _ => Err(Error::setting("posterior", "isotropic, per-feature or shaped", text)),
        }
    }
}

/// The starting point of a round's search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// The current policy. If more than the newest round is held back, the anchor instead, because some of the records
    /// that are held back were used to choose the current policy.
    #[default]
    Warm,
    /// The anchor of the divergence.
    Anchor,
}

impl FromStr for Start {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "warm" => Ok(Start::Warm),
            "anchor" => Ok(Start::Anchor),
            _ => Err(Error::setting("start", "warm or anchor", text)),
        }
    }
}

/// The number type of a search. Everything that is logged or reported is in double precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// `f32`. Its rounding errors are far below the noise of minibatches, and a register holds twice as many numbers.
    #[default]
    Single,
    /// `f64`.
    Double,
}

impl FromStr for Precision {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "single" => Ok(Precision::Single),
            "double" => Ok(Precision::Double),
            _ => Err(Error::setting("precision", "single or double", text)),
        }
    }
}

/// The settings of learning, without any state.
///
/// The exploration floor is a setting of the first policy ([`LinearGaussian::with_exploration`]). Prior and posterior
/// have the same floor, and every learned policy keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Learner {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The rule for `lambda`.
    pub lambda: Lambda,
    /// The sharpness of the prior of the search, if this prior is made from the first policy.
    pub sharpness: Sharpness,
    /// The family of posteriors that is searched.
    pub family: Family,
    /// The starting point of each round's search.
    pub start: Start,
    /// The optimiser of the search.
    pub optimiser: Optimiser,
    /// The number type of Adam. L-BFGS always uses double precision, because its line search compares values.
    pub precision: Precision,
    /// The absolute error of the propensities during the search, in `(0, 0.01]`; L-BFGS uses 1e-10 or less. It does not
    /// affect logged or reported propensities.
    pub tolerance: f64,
    /// How many of the newest records are held back until a later round, in units of the newest round's size; at least
    /// 0. On them the new policy is a fixed policy, whose certificate needs no divergence. At most half of the records
    /// of the window are held back. All rounds of a loop should use the same value.
    pub held_back: f64,
    /// The weight of the estimated risk in the choice of lambda and sharpness, in `[0, 1]`: 0 chooses by the certified
    /// risk, 1 by the estimated risk, and a value in between by their weighted mean.
    pub trade: f64,
    /// A custom estimator that replaces the algorithm's own. The window, the anchor and the divergence stay the same.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub custom: Option<Custom>,
    /// The settings of the certificates.
    pub protocol: Protocol,
    /// The seed of the order of the records.
    pub seed: u64,
}

impl Default for Learner {
    fn default() -> Self {
        Learner {
            algorithm: Algorithm::SeqAdjLs,
            lambda: Lambda::InverseSqrt,
            sharpness: Sharpness::Fixed(1.0),
            family: Family::default(),
            start: Start::default(),
            optimiser: Optimiser::default(),
            precision: Precision::default(),
            tolerance: 1e-5,
            held_back: 0.0,
            trade: 0.0,
            custom: None,
            protocol: Protocol::default(),
            seed: 0,
        }
    }
}

/// The state of a loop: its policies and the rounds so far. Cloning shares the data.
#[derive(Debug, Clone)]
pub struct State {
    first: LinearGaussian,
    /// The first policy, in the basis of the learned policies.
    prior: LinearGaussian,
    current: LinearGaussian,
    deployed: LinearGaussian,
    /// The lambda and the sharpness of the last policy, for rules that keep them between rounds.
    kept: Option<Setting>,
    /// The rounds so far, as features of the policies, in the basis of their posteriors.
    rounds: Vec<Arc<Logs>>,
}

impl State {
    /// The state before the first round. `first` will collect it, and is also the prior of every bound.
    pub fn new(first: LinearGaussian) -> Self {
        let (prior, current, deployed) = (first.clone(), first.clone(), first.clone());
        State { first, prior, current, deployed, kept: None, rounds: Vec::new() }
    }

    /// The first policy.
    pub fn first(&self) -> &LinearGaussian {
        &self.first
    }

    /// The last policy learned; before any round, the first policy.
    pub fn current(&self) -> &LinearGaussian {
        &self.current
    }

    /// The policy to deploy next: the last policy learned, unless the algorithm never redeploys or the policy [was not
    /// promoted](State::keep).
    pub fn deployed(&self) -> &LinearGaussian {
        &self.deployed
    }

    /// The state with `incumbent` deployed in place of the last policy learned.
    pub fn keep(mut self, incumbent: &LinearGaussian) -> Result<Self> {
        self.turned(incumbent)?;
        self.deployed = incumbent.clone();
        Ok(self)
    }

    /// The lambda and the sharpness of the last policy, for rules that keep them between rounds.
    pub(crate) fn kept(&self) -> Option<(f64, f64)> {
        self.kept.map(|Setting { lambda, sharpness }| (lambda, sharpness))
    }

    /// Restores the policies and the kept settings of a loop whose rounds have been remembered.
    pub(crate) fn resumed(
        mut self,
        current: &LinearGaussian,
        deployed: &LinearGaussian,
        kept: Option<(f64, f64)>,
    ) -> Result<Self> {
        self.current = self.turned(current)?;
        self.deployed = deployed.clone();
        self.kept = kept.map(|(lambda, sharpness)| Setting { lambda, sharpness });
        Ok(self)
    }

    /// The policy in the basis of the learned policies.
    fn turned(&self, policy: &LinearGaussian) -> Result<LinearGaussian> {
        let posterior = policy.posterior().in_basis(self.prior.posterior().basis()).ok_or_else(|| {
            Error::setting("the policy that is kept", "in the basis of the others, or with one shared scale", "not")
        })?;
        Ok(policy.with_posterior(posterior))
    }

    /// The number of rounds so far.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// The number of records so far.
    pub fn records(&self) -> usize {
        self.rounds.iter().map(|logs| logs.len()).sum()
    }
}

/// The report of a step.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StepReport {
    /// The number of records of this round.
    pub n: usize,
    /// The number of records that were learned from.
    pub records: usize,
    /// The `lambda` that was used.
    pub lambda: f64,
    /// The sharpness that was used.
    pub sharpness: f64,
    /// `KL` of the new policy from the anchor, including the effect of the exploration floor.
    pub kl: f64,
    /// The trace of the search.
    pub trace: Trace,
    /// The candidates, if there was a choice; else empty.
    pub candidates: Vec<Candidate>,
    /// The first record that the new policy has not seen, if records were held back.
    pub fixed_since: Option<FixedSince>,
}

/// A policy that was learned with one lambda and one sharpness, and its scores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Candidate {
    /// Its lambda.
    pub lambda: f64,
    /// The sharpness of its anchor.
    pub sharpness: f64,
    /// The certified risk, with all of delta for this choice alone. It is a score and not a lasting statement.
    pub upper: f64,
    /// The estimated risk.
    pub estimate: f64,
    /// The score by which the choice is made, a weighted mean of `upper` and `estimate`; the lowest wins.
    pub score: f64,
}

/// The result of one search.
struct Learned {
    policy: LinearGaussian,
    setting: Setting,
    anchor: LinearGaussian,
    records: usize,
    trace: Trace,
}

/// The policy on the features that a [`State`] stores, which are mapped and in the basis.
fn in_coordinates(policy: &LinearGaussian) -> Result<LinearGaussian> {
    let posterior = policy.posterior();
    let plain = Posterior::new(posterior.actions(), posterior.mean().to_vec(), posterior.scale().clone())?;
    LinearGaussian::new(FeatureMap::identity(posterior.features()), plain)?.with_exploration(policy.exploration())
}

impl Learner {
    /// The usual value of `held_back`: 1 round if candidates are compared by their certificates on it, or if there is a
    /// gate; else 0.
    pub fn usually_held_back(&self, gate: Gate) -> f64 {
        let chosen = matches!(self.lambda, Lambda::Auto | Lambda::AutoDoubling) || self.sharpness == Sharpness::Auto;
        if (chosen && self.algorithm.smooths()) || gate != Gate::Always { 1.0 } else { 0.0 }
    }

    /// Adds a round to the state without learning from it. The next [`step`](Learner::step) learns from all rounds.
    pub fn remember(&self, state: &State, logs: &Logs) -> Result<State> {
        self.check_logs(state, logs)?;
        self.take_in(state, logs)
    }

    fn check_logs(&self, state: &State, logs: &Logs) -> Result<()> {
        if logs.is_empty() {
            return Err(Error::size("the logs of a round", "at least 1 record", 0));
        }
        let k = state.prior.actions();
        if logs.actions() != k {
            return Err(Error::size("the logs", format!("{k} actions, as the policy"), logs.actions()));
        }
        Ok(())
    }

    /// Learns the next policy from the new logs and the rounds of the state. The given state is not changed.
    pub fn step(&self, state: &State, logs: &Logs) -> Result<(State, StepReport)> {
        self.step_observed(state, logs, &mut Silent)
    }

    /// Like [`step`](Learner::step), with an observer of the search.
    pub fn step_observed(
        &self,
        state: &State,
        logs: &Logs,
        observer: &mut dyn Observer,
    ) -> Result<(State, StepReport)> {
        self.check_logs(state, logs)?;
        let mut next = self.take_in(state, logs)?;
        check_setting("what is held back", self.held_back, self.held_back >= 0.0, "at least 0")?;
        check_setting("the trade", self.trade, (0.0..=1.0).contains(&self.trade), "in [0, 1]")?;
        let window = match self.algorithm.recipe(1.0).window {
            Window::All => 0,
            Window::Newest => next.rounds.len() - 1,
        };
        let (rounds, unseen) = self.hold_back(&next.rounds[window..]);
        let m = if self.algorithm.redeploys() { next.rounds[0].len() } else { next.records() };
        let (settings, all) = self.settings(m, state)?;
        for setting in &settings {
            self.algorithm.recipe(setting.lambda).criterion.check()?;
            check_setting("lambda", setting.lambda, setting.lambda > 0.0, "in (0, inf)")?;
        }
        // Records of earlier rounds were used to choose the current policy. If some of them are held back again, a warm
        // start would leak them to the new policy.
        let warm = self.start == Start::Warm && state.rounds() > 0 && unseen.len() < 2;
        let mut learned = Vec::new();
        let searches = settings.len() as f64;
        for (done, setting) in settings.into_iter().enumerate() {
            let anchor = match self.algorithm.recipe(setting.lambda).anchor {
                Anchor::First => sharpened(&next.prior, setting.sharpness)?,
                Anchor::Incumbent => next.turned(&next.deployed)?,
            };
            let start = if warm { &next.current } else { &anchor };
            let mut progress = Progress { observer, done: done as f64 / searches, searches, stopped: false };
            let (policy, records, trace) = self.learn(setting.lambda, &rounds, &anchor, start, &next, &mut progress)?;
            learned.push(Learned { policy, setting, anchor, records, trace });
        }
        // If more than the newest round is held back, some of it was used to choose the kept setting. Then the policy
        // could be that of any setting. In round 0 the set has one more member: the first policy, fixed before it.
        let size = if unseen.len() > 1 { all } else { learned.len() } + usize::from(state.rounds() == 0);
        let candidates = self.judge(&learned, &next, &unseen, size)?;
        let chosen = candidates.iter().enumerate().min_by(|a, b| a.1.score.total_cmp(&b.1.score)).map_or(0, |(i, _)| i);
        let Learned { policy, setting, anchor, records, trace } = learned.swap_remove(chosen);
        let kl = policy.kl(&anchor)?;
        let fixed_since = (!unseen.is_empty()).then(|| {
            let round = next.rounds.len() - unseen.len();
            let since = Since { round, record: next.rounds[round].len() - unseen[0].len() };
            FixedSince { round: state.rounds(), since, size }
        });
        next.deployed = if self.algorithm.redeploys() { policy.clone() } else { next.first.clone() };
        next.current = policy;
        next.kept = Some(setting);
        let Setting { lambda, sharpness } = setting;
        Ok((next, StepReport { n: logs.len(), records, lambda, sharpness, kl, trace, candidates, fixed_since }))
    }

    /// How many of the newest records are held back: at most half of all.
    fn held_back(&self, newest: usize, all: usize) -> usize {
        ((self.held_back * newest as f64).round() as usize).min(all / 2)
    }

    /// Splits the rounds into those to learn from and the newest records, which are held back.
    fn hold_back(&self, rounds: &[Arc<Logs>]) -> (Vec<Arc<Logs>>, Vec<Arc<Logs>>) {
        let mut left = self.held_back(rounds[rounds.len() - 1].len(), rounds.iter().map(|logs| logs.len()).sum());
        let (mut seen, mut unseen) = (rounds.to_vec(), Vec::new());
        while left > 0 {
            let logs = seen.pop().expect("at most half is held back");
            let split = logs.len().saturating_sub(left);
            left -= logs.len() - split;
            if split > 0 {
                seen.push(Arc::new(logs.slice(0..split)));
            }
            unseen.insert(0, if split > 0 { Arc::new(logs.slice(split..logs.len())) } else { logs });
        }
        (seen, unseen)
    }

    /// The next policy at one lambda, the number of records it is learned from, and the trace of the search.
    fn learn(
        &self,
        lambda: f64,
        rounds: &[Arc<Logs>],
        anchor: &LinearGaussian,
        start: &LinearGaussian,
        state: &State,
        progress: &mut Progress<'_>,
    ) -> Result<(LinearGaussian, usize, Trace)> {
        let recipe = self.algorithm.recipe(lambda);
        let shape = self.shaped(start.posterior())?;
        let objective = Objective::new(ObjectiveParts {
            rounds,
            total: None,
            criterion: recipe.criterion,
            custom: self.custom.as_ref(),
            anchor: anchor.posterior(),
            shape: &shape,
            learn_scale: recipe.learn_scale,
            lambda: recipe.divergence.then_some(lambda),
            exploration: state.prior.exploration(),
            tolerance: match self.optimiser {
                Optimiser::Adam(_) => self.tolerance,
                // A line search compares values, so values and gradients must agree.
                Optimiser::Lbfgs(_) => self.tolerance.min(1e-10),
            },
        })?;
        let x = objective.parameters(&shape);
        let mut rng = stream(self.seed, Purpose::Shuffle, state.rounds() as u64 - 1);
        let (x, trace) = match self.precision {
            Precision::Single => self.search::<f32>(&objective, &x, &mut rng, progress)?,
            Precision::Double => self.search::<f64>(&objective, &x, &mut rng, progress)?,
        };
        let policy = state.current.with_posterior(objective.posterior(&x)?);
        Ok((policy, objective.records(), trace))
    }

    /// Certifies each policy: as one of a set that was fixed before the records held back or, if there are none, by
    /// Theorem 3.2 on all records. A single policy is not certified.
    fn judge(&self, learned: &[Learned], state: &State, unseen: &[Arc<Logs>], size: usize) -> Result<Vec<Candidate>> {
        if learned.len() < 2 {
            return Ok(Vec::new());
        }
        let judge = |learned: &Learned| {
            let policy = in_coordinates(&learned.policy)?;
            let (rounds, subject, factor) = if unseen.is_empty() {
                let kl = learned.policy.kl(&state.prior)?;
                (&state.rounds[..], Subject::Posterior { kl, error: 0.0, turned: false }, Factor::LS)
            } else {
                (unseen, Subject::Fixed { size }, Factor::FIXED)
            };
            // At the last lambda the estimate is nearly unbiased; the bound does not use it.
            const NEARLY_UNBIASED: f64 = 1e-3;
            let lambdas: Vec<f64> = self.protocol.lambdas.iter().copied().chain([NEARLY_UNBIASED]).collect();
            let factors = if factor == Factor::FIXED { vec![factor] } else { vec![factor, Factor::FIXED] };
            let mut evidence = Evidence::none(&factors, &lambdas);
            for logs in rounds {
                evidence.merge(&Weighed::new(&policy, logs)?.evidence(&factors, &lambdas));
            }
            let upper = bound(&evidence, Smoothing::Ls, subject, &self.protocol, self.protocol.delta)?.upper;
            let plain = evidence.at(Factor::FIXED)[lambdas.len() - 1].logs.value();
            let estimate = -plain / (NEARLY_UNBIASED * evidence.records() as f64);
            let score = (1.0 - self.trade) * upper + self.trade * estimate;
            let Setting { lambda, sharpness } = learned.setting;
            Ok(Candidate { lambda, sharpness, upper, estimate, score })
        };
        learned.iter().map(judge).collect()
    }

    /// Adds the new round to the state. The first round fixes the basis, if the family needs one.
    fn take_in(&self, state: &State, logs: &Logs) -> Result<State> {
        let features = state.prior.features();
        let mut next = state.clone();
        let plain = state.prior.posterior().basis().is_none();
        if self.family == Family::Shaped && plain {
            if !state.rounds.is_empty() {
                let (allowed, value) = ("isotropic or per-feature, as in the rounds before", "principal");
                return Err(Error::setting("the posterior's shape", allowed, value));
            }
            // Records that are held back are left out: the new policy, and so its axes, must not have seen them.
            let seen = logs.contexts().slice(0..logs.len() - self.held_back(logs.len(), logs.len()));
            let basis = Arc::new(Basis::principal(&features.apply(&seen)?)?);
            let prior = state.prior.posterior().in_basis(Some(&basis)).ok_or_else(|| {
                let (allowed, value) = ("a posterior with one shared scale", "one with a scale per feature");
                Error::setting("the first policy", allowed, value)
            })?;
            next.prior = state.prior.with_posterior(prior);
            next.current = next.prior.clone();
        }
        let basis = next.prior.posterior().basis();
        // Unchanged contexts are shared and cost no memory. Features are computed only for records whose features will
        // be read.
        let made = basis.is_some() || !features.is_identity();
        let logs = logs.clone().map_contexts(
            made && (self.custom.is_some() || self.algorithm.ignores_zero_costs()),
            |contexts| {
                let x = features.apply(contexts)?;
                basis.map_or(Ok(x.clone()), |basis| basis.apply(&x))
            },
        )?;
        next.rounds.push(Arc::new(logs));
        Ok(next)
    }

    /// The posterior with the kind of scale that the family has.
    fn shaped(&self, posterior: &Posterior) -> Result<Posterior> {
        let scale = match (self.family, posterior.scale()) {
            (Family::Isotropic, Scale::PerFeature(_)) => {
                let (allowed, value) = ("per-feature, as the policy to start from", "isotropic");
                return Err(Error::setting("the posterior's shape", allowed, value));
            }
            (Family::PerFeature | Family::Shaped, Scale::Shared(sigma)) => {
                Scale::PerFeature(vec![*sigma; posterior.features()])
            }
            (_, scale) => scale.clone(),
        };
        posterior.with(posterior.mean().to_vec(), scale)
    }
}

#[cfg(test)]
mod tests;
