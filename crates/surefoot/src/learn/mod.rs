//! LOOP: every algorithm is the same pure step `(state, logs) -> (state, round)`.

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
    /// One scale: the paper's.
    #[default]
    Isotropic,
    /// One scale a feature.
    PerFeature,
    /// One scale a principal axis of the first round's contexts. A prior with one scale looks the same in every
    /// orthonormal basis, so that the choice costs nothing in any bound.
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

/// Where the search of a round starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// At the current policy; at the anchor where more than the newest round is held back, since the choice of the
    /// current policy has seen some of that.
    #[default]
    Warm,
    /// At the anchor of the divergence.
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

/// The numbers in which a search runs. What is logged or reported is always in double precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// `f32`: its errors are far below the noise of minibatches, and a register holds twice as many.
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

/// A learner: all its settings, and no state.
///
/// The exploration floor is a setting of the first policy ([`LinearGaussian::with_exploration`]): prior and posterior
/// have the same, and every learner carries it along.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Learner {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Its `lambda`.
    pub lambda: Lambda,
    /// How sharp the prior of the search is, where it is the first policy's.
    pub sharpness: Sharpness,
    /// The family of posteriors.
    pub family: Family,
    /// Where each round's search starts.
    pub start: Start,
    /// How it searches.
    pub optimiser: Optimiser,
    /// The numbers in which Adam searches; L-BFGS, whose line search compares values, is always in double precision.
    pub precision: Precision,
    /// The absolute error of the propensities during the search, in `(0, 0.01]`; L-BFGS takes 1e-10 or less. What is
    /// logged or reported does not depend on it.
    pub tolerance: f64,
    /// How many of the newest records are not learned from yet, in rounds like the newest; at least 0. On them the new
    /// policy is a fixed one, whose certificate needs no divergence. Never more than half of what can be learned from
    /// is held back. It should stay the same in all rounds of a loop.
    pub held_back: f64,
    /// By what lambda and the sharpness are chosen: 0 for what is certified, 1 for what is estimated, in between for a mean of
    /// both.
    pub trade: f64,
    /// What is minimised in place of the algorithm's own estimator; its window, its anchor and the divergence stay.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub custom: Option<Custom>,
    /// The terms of the certificates.
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

/// Where a loop stands: the policies that matter and the rounds so far. Cloning shares the data.
#[derive(Debug, Clone)]
pub struct State {
    first: LinearGaussian,
    /// The same, in the basis of what is learned.
    prior: LinearGaussian,
    current: LinearGaussian,
    deployed: LinearGaussian,
    /// The lambda and the sharpness of the last policy, for rules that keep them.
    kept: Option<Setting>,
    /// The rounds so far, over the features of the policies, in the basis of their posteriors.
    rounds: Vec<Arc<Logs>>,
}

impl State {
    /// Before the first round: the policy that will collect it, which is also the prior of every bound.
    pub fn new(first: LinearGaussian) -> Self {
        let (prior, current, deployed) = (first.clone(), first.clone(), first.clone());
        State { first, prior, current, deployed, kept: None, rounds: Vec::new() }
    }

    /// The first policy.
    pub fn first(&self) -> &LinearGaussian {
        &self.first
    }

    /// The last one learned; the first, before any round.
    pub fn current(&self) -> &LinearGaussian {
        &self.current
    }

    /// The one to deploy next: the last one learned, unless the algorithm never redeploys or the last one
    /// [was not promoted](State::keep).
    pub fn deployed(&self) -> &LinearGaussian {
        &self.deployed
    }

    /// The state in which another policy than the last one learned is deployed.
    pub fn keep(mut self, incumbent: &LinearGaussian) -> Result<Self> {
        self.turned(incumbent)?;
        self.deployed = incumbent.clone();
        Ok(self)
    }

    /// What the last policy was chosen at: lambda and sharpness, for rules that keep them.
    pub(crate) fn kept(&self) -> Option<(f64, f64)> {
        self.kept.map(|Setting { lambda, sharpness }| (lambda, sharpness))
    }

    /// The state of a loop whose rounds are remembered, and which had come to this.
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

    /// A policy in the basis of those that are learned.
    fn turned(&self, policy: &LinearGaussian) -> Result<LinearGaussian> {
        let posterior = policy.posterior().in_basis(self.prior.posterior().basis()).ok_or_else(|| {
            Error::setting(
                "the running policy",
                "in the basis of the learned policies, or with one shared scale",
                "neither",
            )
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

/// What a step reports of itself.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StepReport {
    /// Records of this round.
    pub n: usize,
    /// Records that were learned from.
    pub records: usize,
    /// The `lambda` that was used.
    pub lambda: f64,
    /// How much sharper than the first policy the anchor was.
    pub sharpness: f64,
    /// `KL` of the new policy from the anchor, the exploration floor counted.
    pub kl: f64,
    /// The course of the search.
    pub trace: Trace,
    /// What was chosen from, if there was a choice.
    pub candidates: Vec<Candidate>,
    /// From where on the new policy has not seen the records, if some were held back.
    pub fixed_since: Option<FixedSince>,
}

/// A policy that was learned at one lambda from one anchor, and what is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Candidate {
    /// The lambda.
    pub lambda: f64,
    /// How much sharper than the first policy the anchor is.
    pub sharpness: f64,
    /// The risk that is certified with all of delta for this choice alone: a score, no lasting statement.
    pub upper: f64,
    /// The estimated risk.
    pub estimate: f64,
    /// The mean of both by which the choice is made: the lowest wins.
    pub score: f64,
}

/// What a search found.
struct Learned {
    policy: LinearGaussian,
    setting: Setting,
    anchor: LinearGaussian,
    records: usize,
    trace: Trace,
}

/// The policy over the features that a [`State`] keeps: mapped, and in the basis.
fn in_coordinates(policy: &LinearGaussian) -> Result<LinearGaussian> {
    let posterior = policy.posterior();
    let plain = Posterior::new(posterior.actions(), posterior.mean().to_vec(), posterior.scale().clone())?;
    LinearGaussian::new(FeatureMap::identity(posterior.features()), plain)?.with_exploration(policy.exploration())
}

impl Learner {
    /// How much is usefully held back, in rounds: one where candidates are compared by what it says of them, or a gate has
    /// to judge; else nothing.
    pub fn usually_held_back(&self, gate: Gate) -> f64 {
        let chosen = matches!(self.lambda, Lambda::Auto | Lambda::AutoDoubling) || self.sharpness == Sharpness::Auto;
        if (chosen && self.algorithm.smooths()) || gate != Gate::Always { 1.0 } else { 0.0 }
    }

    /// The state with a round in it that was not learned from at the time: what the next [`step`](Learner::step) learns, it
    /// learns from all rounds.
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

    /// One round: learns the next policy from the new logs and what the state remembers. The state that came in is
    /// not changed.
    pub fn step(&self, state: &State, logs: &Logs) -> Result<(State, StepReport)> {
        self.step_observed(state, logs, &mut Silent)
    }

    /// The same, while somebody looks on.
    pub fn step_observed(
        &self,
        state: &State,
        logs: &Logs,
        observer: &mut dyn Observer,
    ) -> Result<(State, StepReport)> {
        self.check_logs(state, logs)?;
        let mut next = self.take_in(state, logs)?;
        check_setting("the number of rounds held back", self.held_back, self.held_back >= 0.0, "at least 0")?;
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
        // The current policy has been chosen by records of earlier rounds: where some of those are held back again, it
        // would tell the new one of them.
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
        // Where more than the newest round is held back, a setting that was kept has been chosen by some of it: then the
        // policy could have been that of any setting. The first policy is fixed before round 0 too.
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

    /// How many of the newest records are held back: never more than half of all.
    fn held_back(&self, newest: usize, all: usize) -> usize {
        ((self.held_back * newest as f64).round() as usize).min(all / 2)
    }

    /// The rounds to learn from, and the newest records, which are held back.
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

    /// The next policy at one lambda, the number of records it is learned from and the course of the search.
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
                // A line search compares values: they and their gradients must agree.
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

    /// What is certified of each policy: as one of a set that was fixed before the records held back, or, where there
    /// are none, by Theorem 3.2 on all records. One policy alone is not judged.
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
            // At the last lambda the estimate is all but unbiased; the bound does not look at it.
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

    /// The state with the new round in it. The first one fixes the basis, if one is asked for.
    fn take_in(&self, state: &State, logs: &Logs) -> Result<State> {
        let features = state.prior.features();
        let mut next = state.clone();
        let plain = state.prior.posterior().basis().is_none();
        if self.family == Family::Shaped && plain {
            if !state.rounds.is_empty() {
                let (allowed, value) = ("isotropic or per-feature, as in the rounds before", "principal");
                return Err(Error::setting("the posterior's shape", allowed, value));
            }
            // Not of what is held back: to the new policy, and so to its axes, those records are unseen.
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
        // Contexts as they are cost nothing: they are shared. Features of them are only made where they will be read.
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

    /// A posterior with the kind of scale that is sought.
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
