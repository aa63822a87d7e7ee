//! SELECT: the choice among several policies, with bounds that hold together. All results are rewards.

use serde::Serialize;
use surefoot::audit;
use surefoot::evaluation::{EvaluationSettings, Selection, Standing};
use surefoot::{Evaluator, Protocol, RewardRange};

use crate::error::{Error, Result};
use crate::evaluate::{NamedPolicy, RewardModel, Seen, actions_of, learned, observe};
use crate::logs::LogReader;

/// The arguments of [`select`].
#[derive(Debug, Clone)]
pub struct SelectRequest {
    /// The candidates. All must have been fixed before the records were logged.
    pub policies: Vec<NamedPolicy>,
    /// Their prior weights, up to a common factor. `None`: equal weights.
    pub prior: Option<Vec<f64>>,
    /// The lowest and the highest possible reward.
    pub reward_range: [f64; 2],
    /// The failure probability of all bounds together.
    pub delta: f64,
}

/// The result of [`select`]: bounds for several policies that hold simultaneously, in rewards.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Selected {
    /// The number of records.
    pub records: usize,
    /// The probability with which all bounds hold.
    pub confidence: f64,
    /// Whether the bounds are proven: the logs have no flaw that their proof does not allow for.
    pub certified: bool,
    /// The name of the candidate with the highest lower bound.
    pub chosen: String,
    /// The candidates, in the order of the request.
    pub candidates: Vec<SelectedCandidate>,
    /// The bound for the best mixture.
    pub mixture: ProvenReward,
    /// The assumptions about logs and candidates that cannot be checked from the logs.
    pub assumption: &'static str,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// A candidate and its bound.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SelectedCandidate {
    /// Its name.
    pub name: String,
    /// Its weight in the mixture.
    pub weight: f64,
    /// The bound for its reward.
    #[serde(flatten)]
    pub proven: ProvenReward,
}

/// A lower bound for a policy's reward.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ProvenReward {
    /// The estimate behind the bound.
    pub estimate: f64,
    /// The reward is at least this.
    pub at_least: f64,
    /// The lambda of the bound.
    pub lambda: f64,
}

impl ProvenReward {
    fn of(standing: &Standing, range: RewardRange) -> Self {
        let Standing { estimate, upper, lambda, .. } = *standing;
        ProvenReward { estimate: range.reward(estimate), at_least: range.reward(upper), lambda }
    }
}

const ASSUMPTION: &str = "every candidate was fixed before the records, each propensity is right, no record was \
    dropped for its reward, and contexts are independent, from one distribution";

/// Bounds the rewards of several policies and chooses among them. `on_batch` is called with the number of records of
/// each batch.
pub fn select(reader: &LogReader, request: &SelectRequest, on_batch: impl FnMut(usize)) -> Result<Selected> {
    let [lo, hi] = request.reward_range;
    let range = RewardRange::new(lo, hi)?;
    let actions = actions_of(&request.policies, reader)?;
    // The bounds need only sums that every evaluator keeps, so one estimator is enough.
    let settings = EvaluationSettings {
        estimators: EvaluationSettings::default().estimators[..1].to_vec(),
        protocol: Protocol { delta: request.delta, ..Protocol::default() },
        replicates: 0,
        ..EvaluationSettings::default()
    };
    let Seen { evaluators, flaws, .. } =
        observe(&RewardModel::None, &request.policies, reader, &actions, request.reward_range, &settings, on_batch)?;
    let evaluators: Vec<&Evaluator> = evaluators.iter().collect();
    let selection = Selection::of(&evaluators, request.prior.as_deref()).map_err(|reason| match reason {
        surefoot::Error::Refuted { .. } => Error::Content { place: reader.place(), reason },
        reason => reason.into(),
    })?;
    let names: Vec<&str> = request.policies.iter().map(|named| named.name.as_str()).collect();
    let mut selected = Selected::new(&names, &selection, range);
    selected.certified = flaws.is_empty();
    selected.warnings.splice(0..0, audit::not_certified(&flaws));
    for NamedPolicy { name, policy } in &request.policies {
        selected.warnings.extend(learned(policy).map(|warning| format!("{name}: {warning}")));
    }
    Ok(selected)
}

impl Selected {
    /// Converts a selection among policies with these names to rewards.
    pub fn new(names: &[&str], selection: &Selection, range: RewardRange) -> Self {
        let candidates = names.iter().zip(&selection.candidates).zip(&selection.weights);
        let candidate = |((name, standing), &weight): ((&&str, &Standing), &f64)| SelectedCandidate {
            name: (*name).into(),
            weight,
            proven: ProvenReward::of(standing, range),
        };
        let mixture = ProvenReward::of(&selection.mixture, range);
        let nothing = mixture.at_least <= range.reward(0.0);
        Selected {
            records: selection.records,
            confidence: 1.0 - selection.delta,
            certified: true,
            chosen: names[selection.best].into(),
            candidates: candidates.map(candidate).collect(),
            mixture,
            assumption: ASSUMPTION,
            warnings: nothing.then(|| "these logs prove nothing about any candidate".into()).into_iter().collect(),
        }
    }
}
