//! Candidates of a decision: each is an object of its features, with an id.

use std::collections::HashSet;

use serde_json::{Map, Value};
use surefoot::logs::Eligible;
use surefoot_data::CandidateInputs;

use super::{DecisionRequest, LONGEST_ID};
use crate::config::Rules;
use crate::engine::{CandidateAsk, Refusal};

/// The id of the only candidate of an erased decision.
const NOBODY: &str = "erased";

fn refused(detail: String) -> Refusal {
    Refusal::unprocessable("candidates", detail)
}

/// Checks the candidates of a request and encodes them. `limited` says whether it has eligible actions too.
pub(super) fn checked(
    given: Option<&[Map<String, Value>]>,
    limited: bool,
    rules: &Rules,
) -> Result<Option<CandidateAsk>, Refusal> {
    let (inputs, given) = match (&rules.candidates, given) {
        (None, None) => return Ok(None),
        (None, Some(_)) => {
            return Err(refused("candidates should be absent in a loop with fixed actions, but are given".into()));
        }
        (Some(_), None) => {
            return Err(refused("candidates should be given, each with its id and features, but are absent".into()));
        }
        (Some(inputs), Some(given)) => (inputs, given),
    };
    let most = rules.actions.len();
    if given.is_empty() || given.len() > most {
        return Err(refused(format!("candidates should be from 1 to {most}, but are {}", given.len())));
    }
    if limited {
        let detail = "eligible should be absent if there are candidates: leave out those that are not, but is given";
        return Err(Refusal::unprocessable("eligible", detail));
    }
    let mut ids = Vec::with_capacity(given.len());
    let mut seen = HashSet::new();
    for (place, candidate) in given.iter().enumerate() {
        let id = match inputs.identity_of(candidate) {
            Some(Value::String(id)) if (1..=LONGEST_ID).contains(&id.len()) => id,
            found => {
                let found =
                    found.map_or("absent".into(), |value| value.to_string().chars().take(80).collect::<String>());
                let allowed = format!("the id of candidate {place} should be a text of 1 to {LONGEST_ID} bytes");
                return Err(refused(format!("{allowed}, but is {found}")));
            }
        };
        if !seen.insert(id) {
            return Err(refused(format!("the ids of candidates should differ, but {id:?} occurs twice")));
        }
        ids.push(id.clone());
    }
    let encoded = encoded(inputs, "candidate", given).map_err(|reason| refused(reason.to_string()))?;
    Ok(Some(CandidateAsk { ids, encoded }))
}

/// The features of the candidates of one decision.
fn encoded(inputs: &CandidateInputs, event: &str, given: &[Map<String, Value>]) -> crate::Result<Eligible> {
    let mut rows = inputs.encoding.rows();
    for (place, candidate) in given.iter().enumerate() {
        inputs.encode_object(&format!("{event} {place}"), candidate, &mut rows)?;
    }
    let core = crate::Error::core(event);
    let features = rows.contexts().map_err(&core)?;
    Eligible::candidates(vec![0, given.len()], features).map_err(core)
}

/// The candidates of a stored request. An erased one has a single candidate without features.
pub(crate) fn stored(request: &DecisionRequest) -> Vec<Map<String, Value>> {
    match &request.candidates {
        Some(candidates) => candidates.clone(),
        None => vec![Map::new()],
    }
}

/// The same as a column of a log.
pub(crate) fn column(inputs: &CandidateInputs, request: &DecisionRequest) -> Value {
    match &request.candidates {
        Some(candidates) => candidates.iter().map(|candidate| Value::Object(inputs.raw(candidate))).collect(),
        None => Value::Array(vec![serde_json::json!({ "id": NOBODY })]),
    }
}

/// The id of the candidate at a place of a stored request.
pub(super) fn id(inputs: &CandidateInputs, request: &DecisionRequest, place: u32) -> Value {
    let candidate = request.candidates.as_ref().and_then(|all| all.get(place as usize));
    candidate.and_then(|candidate| inputs.identity_of(candidate)).cloned().unwrap_or_else(|| Value::from(NOBODY))
}

/// The place of the candidate that the caller has chosen.
pub(super) fn chosen(candidates: &CandidateAsk, action: &Value) -> Result<u32, Refusal> {
    let place = action.as_str().and_then(|id| candidates.ids.iter().position(|known| known == id));
    place.map(|place| place as u32).ok_or_else(|| {
        let shown: String = action.to_string().chars().take(80).collect();
        refused(format!("baseline.action should be the id of a candidate, but is {shown}"))
    })
}
