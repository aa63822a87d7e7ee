//! One round: what is held back, what is searched, and which candidate wins.

use std::sync::Arc;

use super::algorithm::{Anchor, Window};
use super::portfolio::{self, Stepped};
use super::search::Progress;
use super::settings::{Setting, sharpened};
use super::{Candidate, Choice, Coverage, Family, Lambda, Learner, Precision, Sharpness, Start, State, StepReport};
use crate::certificate::{Evidence, Factor, FixedSince, Gate, Since, Smoothing, Subject, Wanted, Weighed, bound};
use crate::error::{Error, Result, check_setting};
use crate::features::FeatureMap;
use crate::logs::Logs;
use crate::math::random::{Purpose, stream};
use crate::objective::{JointObjective, Objective, ObjectiveParts, divergence_of_means};
use crate::observer::{Observer, Silent};
use crate::optim::{Lbfgs, Optimiser, Trace};
use crate::policy::{Basis, LinearGaussian, Policy, Posterior, Scale, in_view, view};

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
    if policy.joint().is_some() {
        return Ok(policy.clone());
    }
    let posterior = policy.posterior();
    let plain = Posterior::new(posterior.actions(), posterior.mean().to_vec(), posterior.scale().clone())?;
    LinearGaussian::new(FeatureMap::identity(posterior.features()), plain)?.with_exploration(policy.exploration())
}

/// The first record that a policy has not seen, which was chosen from a set of this size.
pub(super) fn fixed_since(rounds: &[Arc<Logs>], unseen: &[Arc<Logs>], size: usize) -> Option<FixedSince> {
    (!unseen.is_empty()).then(|| {
        let round = rounds.len() - unseen.len();
        let since = Since { round, record: rounds[round].len() - unseen[0].len() };
        FixedSince { round: rounds.len() - 1, since, size }
    })
}

impl Learner {
    /// A reward model learns most in its first rounds, so that a whole round would be missed: on the digits it costs 0.05 of
    /// the reward while learning, and this share 0.01.
    const HELD_BACK_FROM_MODELS: f64 = 0.3;

    /// The usual value of `held_back`: 0.3 of a round for a reward model; else 1 round if candidates are compared by their certificates on it, or if there is a
    /// gate; else 0.
    pub fn usually_held_back(&self, gate: Gate) -> f64 {
        if !self.algorithm.searches() {
            return if gate == Gate::Always { Self::HELD_BACK_FROM_MODELS } else { 1.0 };
        }
        let chosen = matches!(self.lambda, Lambda::Auto | Lambda::AutoDoubling) || self.sharpness == Sharpness::Auto;
        if (chosen && self.algorithm.smooths()) || gate != Gate::Always { 1.0 } else { 0.0 }
    }

    /// Adds a round to the state without learning from it. The next [`step`](Learner::step) learns from all rounds.
    pub fn remember(&self, state: &State, logs: &Logs) -> Result<State> {
        self.remember_in(state.clone(), logs)
    }

    /// Like [`remember`](Learner::remember), without a copy of the state: a loop over many rounds would copy all
    /// policies for each of them.
    pub(crate) fn remember_in(&self, state: State, logs: &Logs) -> Result<State> {
        self.check_logs(&state, logs)?;
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
        let mut next = self.take_in(state.clone(), logs)?;
        check_setting("the number of rounds held back", self.held_back, self.held_back >= 0.0, "at least 0")?;
        check_setting("the trade", self.trade, (0.0..=1.0).contains(&self.trade), "in [0, 1]")?;
        let window = match self.algorithm.recipe(1.0).window {
            Window::All => 0,
            Window::Newest => next.rounds.len() - 1,
        };
        let (rounds, unseen) = self.hold_back(&next.rounds[window..]);
        if let Some(portfolio) = self.algorithm.portfolio() {
            let stepped = portfolio::step(&portfolio, self, &mut next, &rounds, &unseen, observer)?;
            let Stepped { pair, members, chosen_from } = stepped;
            let records = rounds.iter().map(|logs| logs.len()).sum();
            let size = chosen_from + usize::from(state.rounds() == 0);
            let fixed_since = fixed_since(&next.rounds, &unseen, size);
            next.deployed = pair.collects.clone();
            next.current = pair.collects;
            next.hand_over = Some(pair.hand_over);
            let report = StepReport {
                n: logs.len(),
                records,
                lambda: 0.0,
                sharpness: 1.0,
                kl: 0.0,
                trace: Trace::default(),
                candidates: Vec::new(),
                members,
                coverage: Coverage::of(&next.current, logs)?,
                fixed_since,
            };
            return Ok((next, report));
        }
        let m = if self.algorithm.redeploys() { next.rounds[0].len() } else { next.records() };
        let (settings, all, before) = self.settings(m, state)?;
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
        let by_newest = self.choice == Choice::Newest || unseen.is_empty();
        // If more than the newest round is held back, some of it was used to choose the kept setting. Then the policy
        // could be that of any setting. In round 0 the set has one more member: the first policy, fixed before it.
        let chosen_from = match (unseen.len() > 1, by_newest) {
            (true, _) => all,
            (false, true) => learned.len(),
            (false, false) => 1,
        };
        let size = chosen_from + usize::from(state.rounds() == 0);
        let candidates = self.judge(&learned, &next, &unseen, size)?;
        let best = candidates.iter().enumerate().min_by(|a, b| a.1.score.total_cmp(&b.1.score)).map_or(0, |(i, _)| i);
        let kept = learned[best].setting;
        let chosen = match by_newest {
            true => best,
            false => learned.iter().position(|learned| learned.setting == before).unwrap_or(best),
        };
        let Learned { policy, setting, anchor, records, trace } = learned.swap_remove(chosen);
        let kl = match policy.joint() {
            None => policy.kl(&anchor)?,
            Some(_) => divergence_of_means(&policy, &anchor),
        };
        let fixed_since = fixed_since(&next.rounds, &unseen, size);
        next.deployed = if self.algorithm.redeploys() { policy.clone() } else { next.first.clone() };
        next.current = policy;
        next.kept = Some(kept);
        let Setting { lambda, sharpness } = setting;
        let (n, members, coverage) = (logs.len(), Vec::new(), Coverage::of(&next.current, logs)?);
        let report =
            StepReport { n, records, lambda, sharpness, kl, trace, candidates, members, coverage, fixed_since };
        Ok((next, report))
    }

    /// How many of the newest records are held back: at most half of all.
    fn held_back(&self, newest: usize, all: usize) -> usize {
        ((self.held_back * newest as f64).round() as usize).min(all / 2)
    }

    /// Splits the rounds into those to learn from and the newest records, which are held back.
    pub(super) fn hold_back(&self, rounds: &[Arc<Logs>]) -> (Vec<Arc<Logs>>, Vec<Arc<Logs>>) {
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
        if anchor.joint().is_some() {
            return self.learn_joint(lambda, rounds, anchor, start, progress);
        }
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
        if let Optimiser::Adam(_) = self.optimiser {
            rounds.iter().try_for_each(|logs| logs.check_here("the minibatches of Adam"))?;
        }
        let x = objective.parameters(&shape);
        let mut rng = stream(self.seed, Purpose::Shuffle, state.rounds() as u64 - 1);
        let (x, trace) = match self.precision {
            Precision::Single => self.search::<f32>(&objective, &x, &mut rng, progress)?,
            Precision::Double => self.search::<f64>(&objective, &x, &mut rng, progress)?,
        };
        let policy = state.current.with_posterior(objective.posterior(&x)?);
        Ok((policy, objective.records(), trace))
    }

    /// The same for a policy over candidates, by L-BFGS: its scales stay as they are.
    fn learn_joint(
        &self,
        lambda: f64,
        rounds: &[Arc<Logs>],
        anchor: &LinearGaussian,
        start: &LinearGaussian,
        progress: &mut Progress<'_>,
    ) -> Result<(LinearGaussian, usize, Trace)> {
        let recipe = self.algorithm.recipe(lambda);
        let objective = JointObjective::new(rounds, recipe.criterion, anchor, recipe.divergence.then_some(lambda))?;
        let lbfgs = match &self.optimiser {
            Optimiser::Lbfgs(lbfgs) => lbfgs.clone(),
            Optimiser::Adam(_) => Lbfgs { iterations: 20, tolerance: 1e-4, ..Lbfgs::default() },
        };
        let mut steps = 0;
        let found = lbfgs.minimise(start.posterior().mean().to_vec(), |mean, gradient| {
            steps += 1;
            progress.ask(steps, lbfgs.iterations, || objective.evaluate(mean, gradient))
        });
        if progress.stopped {
            return Err(Error::Stopped);
        }
        let (mean, trace) = found?;
        let posterior = anchor.posterior().with(mean, anchor.posterior().scale().clone())?;
        Ok((anchor.with_posterior(posterior), objective.records(), trace))
    }

    /// Certifies each policy: as one of a set that was fixed before the records held back or, if there are none, by
    /// Theorem 3.2 on all records. A single policy is not certified.
    fn judge(&self, learned: &[Learned], state: &State, unseen: &[Arc<Logs>], size: usize) -> Result<Vec<Candidate>> {
        // Without records held back, only a posterior has a bound.
        if learned.len() < 2 || unseen.is_empty() && state.prior.joint().is_some() {
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
            let wanted: Vec<Wanted> = factors.iter().map(|&factor| Wanted::new(factor, &lambdas)).collect();
            let mut evidence = Evidence::none(&wanted);
            for logs in rounds {
                evidence.merge(&Weighed::new(&policy, logs)?.evidence(&wanted));
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
    fn take_in(&self, mut next: State, logs: &Logs) -> Result<State> {
        // Every member of a portfolio has features of its own, and joint features are made when they are needed.
        if !self.algorithm.searches() || next.prior.joint().is_some() {
            next.rounds.push(Arc::new(logs.clone()));
            return Ok(next);
        }
        let plain = next.prior.posterior().basis().is_none();
        if self.family == Family::Shaped && plain {
            if !next.rounds.is_empty() {
                let (allowed, value) = ("isotropic or per-feature, as in the rounds before", "shaped");
                return Err(Error::setting("the posterior's shape", allowed, value));
            }
            // Records that are held back are left out: the new policy, and so its axes, must not have seen them.
            let seen = logs.slice(0..logs.len() - self.held_back(logs.len(), logs.len()));
            let basis = Arc::new(Basis::principal_of(&seen, next.prior.features())?);
            let prior = next.prior.posterior().in_basis(Some(&basis)).ok_or_else(|| {
                let (allowed, value) = ("a posterior with one shared scale", "one with a scale per feature");
                Error::setting("the first policy", allowed, value)
            })?;
            next.prior = next.prior.with_posterior(prior);
            next.current = next.prior.clone();
        }
        let (features, basis) = (next.prior.features(), next.prior.posterior().basis());
        // Unchanged contexts are shared and cost no memory. Features are computed only for records whose features will
        // be read.
        let mut logs = logs.clone();
        if basis.is_some() || !features.is_identity() {
            let leave_out = self.custom.is_some() || self.algorithm.ignores_zero_costs();
            if logs.needs_view() {
                logs = logs.viewed(view(features, basis), features.output(), leave_out)?;
            }
            if !logs.is_elsewhere() {
                logs = logs.map_contexts(leave_out, |contexts| in_view(features, basis, contexts))?;
            }
        }
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
