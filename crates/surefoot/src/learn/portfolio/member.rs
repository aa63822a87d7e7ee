//! A member of a portfolio: what it learns from, and the policies that it makes.

use std::sync::Arc;

use super::checkpoint::{MemberCheckpoint, oldest};
use super::knowledge::{direction, softmax};
use super::learned::Learned;
use super::tasks::{Errors, Predictor};
use super::{MemberKind, Pair, Portfolio};
use crate::error::{Error, Result};
use crate::features::SoftmaxFeatures;
use crate::learn::model::Model;
use crate::learn::{Algorithm, Family, Lambda, Learner, Sharpness, State};
use crate::logs::Logs;
use crate::model::{JointModel, Link, RewardModel};
use crate::observer::Observer;
use crate::policy::{LinearGaussian, Policy, Scale};

/// The largest number of weights of a reward model, for all actions together.
const MOST_WEIGHTS: usize = 1 << 23;

/// A reward model on kernel features is fitted to at most this many records, the same share of every round: 8,000 per feature. The
/// limit is a choice; what more records would bring was not measured.
const MOST_FITTED: usize = 1 << 22;

/// A member with everything it has learned. Clones share the data.
#[derive(Debug, Clone)]
pub(super) struct Member {
    kind: MemberKind,
    /// Its newest policies, and the number of records they were learned from.
    made: Option<(Arc<Pair>, usize)>,
    /// The number of policies among which the records held back chose them.
    chosen_from: usize,
    work: Work,
}

#[derive(Debug, Clone)]
enum Work {
    Model {
        model: Model,
        /// The newest fit.
        fitted: Option<Arc<RewardModel>>,
        /// For features that are learned: which ones, and the number of records they were learned from.
        learned: Option<(Learned, usize)>,
        /// What the first policy knows, for features that are learned.
        knows: Option<Arc<SoftmaxFeatures>>,
        exploration: f64,
    },
    Search {
        learner: Box<Learner>,
        state: Box<State>,
    },
    /// A reward model of joint features.
    Joint {
        first: Box<LinearGaussian>,
        fitted: Option<Arc<JointModel>>,
    },
}

impl Member {
    /// The member, before any record; `None` if it cannot learn from such features.
    pub(super) fn new(kind: MemberKind, first: &LinearGaussian, learner: &Learner) -> Result<Option<Self>> {
        let (map, exploration) = (first.features().clone(), first.exploration());
        let work = match kind {
            MemberKind::Linear if first.joint().is_some() => {
                Work::Joint { first: Box::new(first.clone()), fitted: None }
            }
            MemberKind::Kernel | MemberKind::Logistic | MemberKind::Trees if first.joint().is_some() => {
                return Ok(None);
            }
            MemberKind::Linear | MemberKind::Kernel | MemberKind::Logistic | MemberKind::Trees => {
                let learned = match kind {
                    MemberKind::Kernel => {
                        let contexts = learner.algorithm.portfolio().is_some_and(|portfolio| portfolio.one_log);
                        Some((Learned::Kernel { contexts }, 0))
                    }
                    MemberKind::Trees => Some((Learned::Trees, 0)),
                    _ => None,
                };
                let weights = map.output().saturating_mul(first.actions());
                let wide = Model::is_wide(&map, first.actions());
                if learned.is_none() && (weights > MOST_WEIGHTS || wide && kind == MemberKind::Logistic) {
                    return Ok(None);
                }
                let knows = if learned.is_some() { softmax(first)? } else { None };
                let link = if kind == MemberKind::Logistic { Link::Logistic } else { Link::Identity };
                let model = Model::new(map, first.actions(), link, direction(first).map(Arc::new));
                Work::Model { model, fitted: None, learned, knows, exploration }
            }
            MemberKind::Search => {
                let shared = matches!(first.posterior().scale(), Scale::Shared(_));
                // For candidates, only means are searched for.
                let family = if first.joint().is_some() {
                    Family::Isotropic
                } else if shared {
                    Family::for_features(map.output())
                } else {
                    Family::PerFeature
                };
                let learner = Learner {
                    algorithm: Algorithm::SeqAdjLs,
                    lambda: match learner.lambda {
                        // Candidates have a search beside a reward model that is better, and each lambda takes its time.
                        Lambda::Auto | Lambda::AutoDoubling if first.joint().is_some() => Lambda::Fixed(0.9),
                        Lambda::Auto => Lambda::AutoDoubling,
                        given => given,
                    },
                    sharpness: match learner.sharpness {
                        Sharpness::Fixed(1.0) => Sharpness::Auto,
                        given => given,
                    },
                    family,
                    ..learner.clone()
                };
                Work::Search { learner: Box::new(learner), state: Box::new(State::new(first.clone())) }
            }
        };
        Ok(Some(Member { kind, made: None, chosen_from: 1, work }))
    }

    pub(super) fn kind(&self) -> MemberKind {
        self.kind
    }

    /// The number of records that its policies were learned from.
    pub(super) fn records(&self) -> usize {
        self.made.as_ref().map_or(0, |(_, records)| *records)
    }

    /// The number of policies among which the records held back chose its own.
    pub(super) fn chosen_from(&self) -> usize {
        self.chosen_from
    }

    /// Its newest policies.
    pub(super) fn pair(&self) -> Result<&Pair> {
        let made = self.made.as_ref().ok_or_else(|| Error::size("the rounds of a portfolio", "at least 1", 0))?;
        Ok(&made.0)
    }

    /// For a reward model that has been fitted: minus the squared error of its prediction for each record.
    pub(super) fn predicts(&self, logs: &Logs) -> Result<Option<Vec<f64>>> {
        let errors = self.predictor().map(|predictor| logs.over(&Errors(predictor)));
        Ok(errors.transpose()?.map(Option::unwrap_or_default))
    }

    /// The reward model, if it has been fitted.
    pub(super) fn predictor(&self) -> Option<Predictor<'_>> {
        match &self.work {
            Work::Model { model, fitted: Some(fitted), .. } => Some(Predictor::Features(model.map(), fitted)),
            Work::Joint { fitted: Some(fitted), .. } => Some(Predictor::Joint(fitted)),
            _ => None,
        }
    }

    /// What must be stored of it.
    pub(super) fn checkpoint(&self) -> MemberCheckpoint<LinearGaussian> {
        let (features_from, prior_from) = match &self.work {
            Work::Model { learned, model, .. } => (learned.map(|(_, records)| records), model.prior_from()),
            Work::Search { .. } | Work::Joint { .. } => (None, 0),
        };
        let (kept, policy) = match &self.work {
            Work::Search { state, .. } => (state.kept(), Some(state.current().clone())),
            Work::Model { .. } | Work::Joint { .. } => (None, None),
        };
        let (member, records, chosen_from) = (self.kind, self.records(), self.chosen_from);
        MemberCheckpoint { member, records, features_from, prior_from, chosen_from, kept, policy }
    }

    /// For a search that has learned: the lambda and the sharpness that it chose.
    pub(super) fn kept(&self) -> Option<(f64, f64)> {
        match &self.work {
            Work::Search { state, .. } => state.kept(),
            Work::Model { .. } | Work::Joint { .. } => None,
        }
    }

    /// Adds rounds to a new member that will learn from them in the next step.
    pub(super) fn remember(&mut self, rounds: &[Arc<Logs>]) -> Result<()> {
        if let Work::Search { learner, state } = &mut self.work {
            for logs in rounds {
                **state = learner.remember(state, logs)?;
            }
        }
        Ok(())
    }

    /// Restores a new member from what was stored, and from the rounds so far.
    pub(super) fn restore(
        &mut self,
        stored: MemberCheckpoint<LinearGaussian>,
        rounds: &[Arc<Logs>],
        widths: [f64; 2],
    ) -> Result<()> {
        let MemberCheckpoint { records, features_from, prior_from, chosen_from, kept, policy, .. } = stored;
        self.chosen_from = chosen_from;
        let pair = match &mut self.work {
            Work::Model { model, fitted, learned, knows, exploration } => {
                if let (Some((kind, from)), Some(features_from)) = (learned, features_from) {
                    *from = features_from;
                    if features_from > 0 {
                        *model = kind.model(&oldest(rounds, features_from), model.actions(), knows.as_deref())?;
                    }
                }
                if records == 0 {
                    return Ok(());
                }
                if prior_from > 0 && prior_from < records {
                    model.fit(rounds, &oldest(rounds, prior_from))?;
                }
                fit(model, fitted, rounds, &oldest(rounds, records), widths, *exploration)?
            }
            Work::Search { learner, state } => {
                for logs in rounds {
                    **state = learner.remember(state, logs)?;
                }
                let Some(policy) = policy else { return Ok(()) };
                **state = State::clone(state).resumed(&policy, &policy, kept, None)?;
                if records == 0 {
                    return Ok(());
                }
                Pair { collects: state.current().clone(), hand_over: state.current().clone() }
            }
            Work::Joint { .. } if records == 0 => return Ok(()),
            Work::Joint { first, fitted } => fit_joint(first, fitted, &oldest(rounds, records), widths)?,
        };
        self.made = Some((Arc::new(pair), records));
        Ok(())
    }

    /// Learns from the records that are seen: all `rounds` without the newest records. Returns whether it did: a member
    /// that does not lead learns again when the number of records has doubled.
    pub(super) fn fit(
        &mut self,
        rounds: &[Arc<Logs>],
        seen: &[Arc<Logs>],
        newest: &Logs,
        widths: [f64; 2],
        leads: bool,
        observer: &mut dyn Observer,
    ) -> Result<bool> {
        let records: usize = seen.iter().map(|logs| logs.len()).sum();
        let due = leads || records >= 2 * self.records();
        let pair = match &mut self.work {
            Work::Model { model, fitted, learned, knows, exploration } => {
                if !due {
                    return Ok(false);
                }
                if let Some((kind, from)) = learned
                    && records >= 2 * *from
                    && *from < kind.enough()
                {
                    *model = kind.model(seen, model.actions(), knows.as_deref())?;
                    *from = records;
                }
                fit(model, fitted, rounds, seen, widths, *exploration)?
            }
            Work::Search { learner, state } => {
                if !due {
                    self.chosen_from = 1;
                    **state = learner.remember(state, newest)?;
                    return Ok(false);
                }
                let first = usize::from(state.rounds() == 0);
                let (next, report) = learner.step_observed(state, newest, observer)?;
                **state = next;
                // The set of round 0 has one more member: the first policy.
                self.chosen_from = report.fixed_since.map_or(1, |fixed| fixed.size - first);
                Pair { collects: state.current().clone(), hand_over: state.current().clone() }
            }
            Work::Joint { .. } if !due => return Ok(false),
            Work::Joint { first, fitted } => fit_joint(first, fitted, seen, widths)?,
        };
        self.made = Some((Arc::new(pair), records));
        Ok(true)
    }
}

/// Fits a reward model, and makes its policies.
fn fit(
    model: &mut Model,
    fitted: &mut Option<Arc<RewardModel>>,
    rounds: &[Arc<Logs>],
    seen: &[Arc<Logs>],
    [v, hand_over]: [f64; 2],
    exploration: f64,
) -> Result<Pair> {
    // Kernel features take a thousand times the work of the features themselves.
    let some = model.map().kernel_parts().map(|_| Logs::thinned(seen, MOST_FITTED)).transpose()?;
    let found = model.fit(rounds, some.as_deref().unwrap_or(seen))?;
    let policy = |v: f64, floor: f64| found.policy(model.map(), v)?.with_exploration(floor);
    let pair = Pair {
        collects: policy(v, exploration)?,
        hand_over: policy(hand_over, Portfolio::HAND_OVER_FLOOR * exploration)?,
    };
    *fitted = Some(Arc::new(found));
    Ok(pair)
}

/// The same for a reward model of joint features.
fn fit_joint(
    first: &LinearGaussian,
    fitted: &mut Option<Arc<JointModel>>,
    seen: &[Arc<Logs>],
    [v, hand_over]: [f64; 2],
) -> Result<Pair> {
    let joint = first.joint().expect("a policy over candidates");
    let found = JointModel::fit(first.features(), joint, seen)?;
    let (k, exploration) = (first.actions(), first.exploration());
    let policy = |v: f64, floor: f64| found.policy(k, v)?.with_exploration(floor);
    let pair = Pair {
        collects: policy(v, exploration)?,
        hand_over: policy(hand_over, Portfolio::HAND_OVER_FLOOR * exploration)?,
    };
    *fitted = Some(Arc::new(found));
    Ok(pair)
}
