//! REQUESTS: what callers send, and how it is checked against the rules of a loop before it is queued.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use surefoot_data::Actions;

use crate::config::{Mode, Rules};
use crate::engine::{Baseline, DecideAsk, Refusal, RewardAsk};
use crate::error::{Error, Result};
use crate::store::DecisionRow;

/// How the ids of erased events begin.
pub(crate) const ERASED: &str = "erased:";

/// The longest id, in bytes.
pub const LONGEST_ID: usize = 256;
/// The id of a reward that has none: without ids, an event has one reward.
const ONLY: &str = "";

/// A request for a decision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecisionRequest {
    /// The id of the event. The same id gets the same decision. Without one, the server draws a new one.
    #[serde(default, skip_serializing)]
    #[schema(min_length = 1, max_length = 256)]
    pub event_id: Option<String>,
    /// The features, by name. Fields that are no features of the loop are ignored.
    #[schema(value_type = std::collections::BTreeMap<String, Value>)]
    pub context: Map<String, Value>,
    /// The eligible actions, by name or number; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eligible: Option<Vec<Value>>,
    /// For a loop in apprentice mode: what your own policy has chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<BaselineRequest>,
}

/// The choice of the caller's own policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BaselineRequest {
    /// The action that is shown, by name or number.
    pub action: Value,
    /// The probability with which it was chosen; 1 if your policy does not draw.
    #[schema(exclusive_minimum = 0.0, maximum = 1.0)]
    pub propensity: f64,
}

/// A reward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RewardRequest {
    /// The id of the event; part of the path where the path names the event.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 256)]
    pub event_id: Option<String>,
    /// The id of this reward among those of the event. The same id counts once.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 256)]
    pub reward_id: Option<String>,
    /// The reward, within the range of the loop.
    pub reward: f64,
}

impl DecisionRequest {
    /// The request of a stored decision.
    pub(crate) fn stored(row: &DecisionRow) -> Result<Self> {
        serde_json::from_str(&row.request).map_err(|e| Error::Malformed {
            place: format!("event {}", row.event_id),
            reason: format!("its stored request cannot be read: {e}"),
        })
    }

    /// The numbers of the eligible actions, in order.
    pub(crate) fn eligible(&self, actions: &Actions) -> Result<Option<Vec<u32>>, Refusal> {
        let Some(list) = &self.eligible else { return Ok(None) };
        let mut set = list.iter().map(|value| action(actions, "eligible", value)).collect::<Result<Vec<_>, _>>()?;
        set.sort_unstable();
        set.dedup();
        match set.is_empty() {
            true => Err(Refusal::unprocessable("eligible", "eligible should be at least one action, but is empty")),
            false => Ok(Some(set)),
        }
    }

    /// Checks the request and encodes its context.
    pub fn check(self, rules: &Rules) -> Result<DecideAsk, Refusal> {
        let event_id = match &self.event_id {
            Some(id) => check_id("event_id", id)?.to_owned(),
            None => new_id()?,
        };
        let eligible = self.eligible(&rules.actions)?;
        let mut rows = rules.encoding.rows();
        rules
            .encoding
            .encode_object("context", &self.context, &mut rows)
            .map_err(|reason| Refusal::unprocessable("context", reason.to_string()))?;
        let context = rows.contexts().map_err(|reason| Refusal::unprocessable("context", reason.to_string()))?;
        let baseline = self.baseline(rules, eligible.as_deref())?;
        // Keys of a JSON object are in order, so equal requests are equal texts.
        let request = serde_json::to_string(&self).map_err(|e| Refusal::unprocessable("context", e.to_string()))?;
        Ok(DecideAsk { event_id, request, context, eligible, baseline })
    }

    fn baseline(&self, rules: &Rules, eligible: Option<&[u32]>) -> Result<Option<Baseline>, Refusal> {
        let refused = |detail: String| Err(Refusal::unprocessable("baseline", detail));
        match (&self.baseline, rules.mode) {
            (None, Mode::Apprentice) => {
                refused("baseline should be the action and the propensity of your own policy, but is absent".into())
            }
            (None, _) => Ok(None),
            (Some(_), Mode::Live | Mode::Shadow) => {
                refused("baseline should be absent, unless the loop is in apprentice mode, but is given".into())
            }
            (Some(baseline), Mode::Apprentice) => {
                let action = action(&rules.actions, "baseline.action", &baseline.action)?;
                let propensity = baseline.propensity;
                if !(propensity > 0.0 && propensity <= 1.0) {
                    return refused(format!("baseline.propensity should be in (0, 1], but is {propensity}"));
                }
                if eligible.is_some_and(|set| !set.contains(&action)) {
                    return refused("baseline.action should be eligible, but is not".into());
                }
                Ok(Some(Baseline { action, propensity }))
            }
        }
    }
}

impl RewardRequest {
    /// Checks the request. `event` is the event that the path names.
    pub fn check(self, event: Option<&str>) -> Result<RewardAsk, Refusal> {
        let event_id = match (self.event_id, event) {
            (Some(id), Some(event)) if id != event => {
                let detail = format!("event_id should be {event}, as in the path, but is {id}");
                return Err(Refusal::unprocessable("event-id", detail));
            }
            (Some(id), _) => id,
            (None, Some(event)) => event.to_owned(),
            (None, None) => return Err(Refusal::unprocessable("event-id", "event_id should be given, but is absent")),
        };
        check_id("event_id", &event_id)?;
        let reward_id = match &self.reward_id {
            None => ONLY.to_owned(),
            Some(id) => check_id("reward_id", id)?.to_owned(),
        };
        Ok(RewardAsk { event_id, reward_id, value: self.reward })
    }
}

fn check_id<'a>(what: &str, id: &'a str) -> Result<&'a str, Refusal> {
    match id.len() {
        _ if id.starts_with(ERASED) => {
            let detail = format!("{what} should not begin with {ERASED}, which names erased events, but is {id}");
            Err(Refusal::unprocessable("id", detail))
        }
        1..=LONGEST_ID if !id.contains(char::is_control) => Ok(id),
        n => {
            let allowed = format!("{what} should be 1 to {LONGEST_ID} bytes without control characters");
            Err(Refusal::unprocessable("id", format!("{allowed}, but has {n} bytes")))
        }
    }
}

/// A new random id.
pub(crate) fn new_id() -> Result<String, Refusal> {
    let mut drawn = [0; 16];
    getrandom::fill(&mut drawn).map_err(|e| Refusal {
        status: 503,
        kind: "no-random-id",
        detail: format!("the system has no random numbers: {e}"),
    })?;
    Ok(drawn.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The number of an action that a caller names.
fn action(actions: &Actions, what: &str, value: &Value) -> Result<u32, Refusal> {
    let found = match (actions, value) {
        (Actions::Names(names), Value::String(name)) => names.iter().position(|known| known == name),
        (Actions::Count(count), Value::Number(number)) => {
            number.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| n < count)
        }
        _ => None,
    };
    found.map(|number| number as u32).ok_or_else(|| {
        let allowed = match actions {
            Actions::Count(count) => format!("a number below {count}"),
            Actions::Names(names) => format!("one of {}", names.join(", ")),
        };
        let shown: String = value.to_string().chars().take(80).collect();
        Refusal::unprocessable("action", format!("{what} should be {allowed}, but is {shown}"))
    })
}

/// An action as callers name it.
pub(crate) fn action_value(actions: &Actions, action: u32) -> Value {
    match actions {
        Actions::Count(_) => Value::from(action),
        Actions::Names(names) => Value::from(names[action as usize].as_str()),
    }
}
