//! The rules of a loop: everything that it fixes before its first decision.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use surefoot::audit::Terms;
use surefoot::logs::RewardRange;
use surefoot::{FeatureMap, Fingerprint, Gate, Learner, LinearGaussian, Session};
use surefoot_data::{Actions, CandidateInputs, Encoding, Inputs, Lineage, PolicyReader};

use super::{ActionsConfig, LoopConfig, Milliseconds, features};
use crate::error::{Error, Result};

/// What a loop does with the decisions of its policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Callers follow them: the loop learns and redeploys.
    #[default]
    Live,
    /// They are logged, and nobody follows them. Nothing is learned.
    Shadow,
    /// Callers follow a policy of their own, and log its action with its propensity. The loop learns, and says when a
    /// policy of its own is proven to be better.
    Apprentice,
}

/// How several rewards of one decision become its reward.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregation {
    /// The first one that came.
    #[default]
    First,
    /// The last one that came within the window.
    Last,
    /// Their sum, which must be within the reward range.
    Sum,
    /// The largest.
    Max,
}

impl Aggregation {
    /// The reward of a decision from all its rewards that count, in the order in which they came; `None` without any.
    pub fn of(self, rewards: &[f64]) -> Option<f64> {
        match self {
            Aggregation::First => rewards.first().copied(),
            Aggregation::Last => rewards.last().copied(),
            Aggregation::Sum => (!rewards.is_empty()).then(|| rewards.iter().sum()),
            Aggregation::Max => rewards.iter().copied().reduce(f64::max),
        }
    }
}

/// When a round ends. The rule never looks at rewards: certificates would be false otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum RoundRule {
    /// After this many decisions.
    Count {
        /// The number of decisions.
        records: u64,
    },
    /// With the first decision after this time, counted from the round's first decision, if it has so many by then.
    Clock {
        /// The time.
        every: Milliseconds,
        /// The smallest number of decisions.
        #[serde(default = "hundred")]
        at_least: u64,
    },
}

fn hundred() -> u64 {
    100
}

/// The largest number of decisions of a round: they are held in memory while they are learned from.
const MOST_RECORDS: u64 = 100_000_000;
/// The smallest number of decisions of a round: some are held back, and some are learned from.
const FEWEST_RECORDS: u64 = 2;

/// What a loop fixes before its first decision. To change any of it is to begin a new loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// What the loop does with the decisions of its policy.
    pub mode: Mode,
    /// The actions.
    pub actions: Actions,
    /// How a context becomes features.
    pub encoding: Encoding,
    /// How candidates become features, if every decision has its own. The actions are then their places.
    #[serde(default)]
    pub candidates: Option<CandidateInputs>,
    /// The lowest and the highest reward.
    pub reward_range: [f64; 2],
    /// How long after a decision its rewards count.
    pub window: Milliseconds,
    /// The reward of a decision without one.
    pub default: f64,
    /// How several rewards become one.
    pub aggregation: Aggregation,
    /// When a round ends.
    pub round: RoundRule,
    /// How long records are kept; as long as the loop if `None`.
    #[serde(default)]
    pub retention: Option<Milliseconds>,
    /// The learner.
    pub learner: Learner,
    /// The gate.
    pub gate: Gate,
    /// The first policy.
    pub first: Fingerprint,
}

impl LoopConfig {
    /// The rules of the loop, and its first policy. Reads the policy file, if there is one.
    pub fn resolve(&self, file: &str) -> Result<(Rules, LinearGaussian)> {
        let place = format!("{file}, loop {}", self.name);
        let wrong = |setting: &str, allowed: &str, found: String| Error::setting(&place, setting, allowed, found);
        let from_file = match &self.policy {
            None => None,
            Some(path) => {
                let (policy, inputs) = PolicyReader::default().read_with(path)?;
                let Some((policy, inputs)) = policy.as_gaussian().cloned().zip(inputs) else {
                    let allowed = "a linear Gaussian policy with its features, as surefoot learn writes";
                    return Err(wrong("policy", allowed, format!("{}: another", path.display())));
                };
                Some((policy, inputs))
            }
        };
        let malformed = |reason: String| Error::Malformed { place: place.clone(), reason };
        let given = |actions: surefoot_data::Result<Actions>| actions.map_err(|reason| malformed(reason.to_string()));
        let candidates = self.candidate_inputs(&place, from_file.as_ref().map(|(_, inputs)| inputs))?;
        let actions = match (&self.actions, &from_file) {
            _ if candidates.is_some() => {
                let of_file = from_file.as_ref().map_or(0, |(_, inputs)| inputs.actions.len());
                given(Actions::counted(self.candidates.as_ref().map_or(of_file, |given| given.most)))?
            }
            (Some(ActionsConfig::Count(count)), _) => given(Actions::counted(*count))?,
            (Some(ActionsConfig::Names(names)), _) => given(Actions::named(names.clone()))?,
            (None, Some((_, inputs))) => inputs.actions.clone(),
            (None, None) => return Err(wrong("actions", "given, if there is no policy file", "absent".into())),
        };
        let encoding = match (&self.features, &from_file) {
            (Some(list), _) => features::encoding(list).map_err(malformed)?,
            (None, Some((_, inputs))) => inputs.encoding.clone(),
            (None, None) if candidates.is_some() => Encoding::constant(),
            (None, None) => return Err(wrong("features", "given, if there is no policy file", "absent".into())),
        };
        let reward_range = match (self.reward.range, &from_file) {
            (Some(range), _) => range,
            (None, Some((_, inputs))) => inputs.reward,
            (None, None) => [0.0, 1.0],
        };
        if let Some((_, inputs)) = &from_file
            && (candidates.is_none() && inputs.actions != actions
                || inputs.candidates != candidates
                || inputs.encoding != encoding
                || inputs.reward != reward_range)
        {
            let allowed = "absent or those of the policy file";
            return Err(wrong("actions, features and reward range", allowed, "others".into()));
        }
        let [lowest, highest] = reward_range;
        RewardRange::new(lowest, highest).map_err(Error::core(&place))?;
        if !(lowest..=highest).contains(&self.reward.default) {
            let found = self.reward.default.to_string();
            return Err(wrong("default", &format!("within the reward range, {lowest} to {highest}"), found));
        }
        let records = match self.round {
            RoundRule::Count { records } => records,
            RoundRule::Clock { at_least, .. } => at_least,
        };
        if !(FEWEST_RECORDS..=MOST_RECORDS).contains(&records) {
            let allowed = format!("from {FEWEST_RECORDS} to {MOST_RECORDS} decisions");
            return Err(wrong("round", &allowed, records.to_string()));
        }
        if let Some(retention) = self.retention.filter(|retention| *retention <= self.reward.window) {
            let allowed = format!("longer than the reward window, {}", self.reward.window);
            return Err(wrong("retention", &allowed, retention.to_string()));
        }
        let settings = self.learner.settings(&self.gate, self.delta);
        let (learner, gate) = settings.learner().map_err(Error::core(&place))?;
        let first = match (from_file, &candidates) {
            (Some((policy, _)), None) => policy,
            (Some((policy, _)), Some(_)) => policy.with_most_candidates(actions.len()).map_err(Error::core(&place))?,
            (None, Some(candidates)) => {
                let cross = self.candidates.as_ref().and_then(|given| given.cross.clone());
                let first = candidates.first_policy(&encoding, cross, actions.len())?;
                first.with_exploration(self.exploration).map_err(Error::core(&place))?
            }
            (None, None) => {
                let map = FeatureMap::identity(encoding.width());
                let map = if self.intercept { map.with_intercept() } else { map };
                LinearGaussian::standard(map, actions.len())
                    .and_then(|policy| policy.with_exploration(self.exploration))
                    .map_err(Error::core(&place))?
            }
        };
        let rules = Rules {
            mode: self.mode,
            actions,
            encoding,
            candidates,
            reward_range,
            window: self.reward.window,
            default: self.reward.default,
            aggregation: self.reward.aggregation,
            round: self.round,
            retention: self.retention,
            learner,
            gate,
            first: first.fingerprint(),
        };
        rules.session(&place, first.clone())?;
        Ok((rules, first))
    }

    /// How candidates become features, as this file or the policy file says.
    fn candidate_inputs(&self, place: &str, of_file: Option<&Inputs>) -> Result<Option<CandidateInputs>> {
        let of_file = of_file.and_then(|inputs| inputs.candidates.clone());
        let Some(given) = &self.candidates else { return Ok(of_file) };
        if self.actions.is_some() {
            return Err(Error::setting(place, "actions", "absent, if decisions have candidates", "given"));
        }
        match (&given.features, of_file) {
            (Some(list), _) => {
                let encoding = features::candidate_encoding(list);
                let encoding = encoding.map_err(|reason| Error::Malformed { place: place.into(), reason })?;
                Ok(Some(CandidateInputs { encoding, identity: given.identity.clone() }))
            }
            (None, Some(of_file)) => Ok(Some(of_file)),
            (None, None) => {
                let allowed = "given, if there is no policy file over candidates";
                Err(Error::setting(place, "the features of candidates", allowed, "absent"))
            }
        }
    }
}

impl Rules {
    /// The session of the loop, before its first round.
    pub fn session(&self, place: &str, first: LinearGaussian) -> Result<Session> {
        let made = match self.mode {
            Mode::Live | Mode::Shadow => Session::new(self.learner.clone(), self.gate, first),
            Mode::Apprentice => Session::replacing_unknown(self.learner.clone(), self.gate, first),
        };
        made.and_then(|session| session.with_terms(self.terms())).map_err(Error::core(place))
    }

    /// How raw records become the features of a policy of this loop.
    pub fn inputs(&self) -> Inputs {
        let made_by = format!("surefoot {}", env!("CARGO_PKG_VERSION"));
        let lineage = Lineage { prior: Some(self.first), made_by, ..Lineage::default() };
        Inputs::new(self.actions.clone(), self.encoding.clone(), self.reward_range, lineage)
            .with_candidates(self.candidates.clone())
    }

    fn terms(&self) -> Terms {
        let rule = match self.round {
            RoundRule::Count { records } => format!("after {records} decisions"),
            RoundRule::Clock { every, at_least } => {
                format!("{every} after its first decision, with at least {at_least} decisions")
            }
        };
        let rounds_end = format!(
            "{rule}, or when an operator closes it, who must not have looked at its rewards; the reward of a decision is \
             the {} of those within {} of it, else {}",
            serde_json::to_string(&self.aggregation).unwrap_or_default().trim_matches('"'),
            self.window,
            self.default
        );
        Terms { reward_range: self.reward_range, inputs: Some(self.inputs().fingerprint()), rounds_end }
    }

    /// The first setting in which two sets of rules differ: its name, the stored value and the given one.
    pub fn difference(&self, given: &Rules) -> Option<(String, String, String)> {
        let (stored, given) = (serde_json::to_value(self).ok()?, serde_json::to_value(given).ok()?);
        difference("", &stored, &given)
    }
}

/// The innermost setting in which two values differ, as `outer.inner`.
fn difference(name: &str, stored: &Value, given: &Value) -> Option<(String, String, String)> {
    if let (Value::Object(stored), Value::Object(given)) = (stored, given)
        && stored.keys().eq(given.keys())
    {
        let inner = |inner: &String| if name.is_empty() { inner.clone() } else { format!("{name}.{inner}") };
        return stored.iter().find_map(|(key, stored)| difference(&inner(key), stored, &given[key]));
    }
    (stored != given).then(|| (name.to_owned(), stored.to_string(), given.to_string()))
}
