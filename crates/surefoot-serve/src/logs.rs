//! LOGS: the records of a round, for the core and for files.

use serde_json::{Map, Value, json};
use surefoot::Logs;
use surefoot::logs::{Eligible, RewardRange};
use surefoot_data::Field;

use crate::config::Rules;
use crate::engine::Ready;
use crate::error::{Error, Result};
use crate::request::{DecisionRequest, candidates, erased};
use crate::store::{Reader, RecordRow};

/// The logs of a round whose rewards are final: every decision of the round, in order.
pub fn round_logs(reader: &dyn Reader, rules: &Rules, round: &Ready) -> Result<Logs> {
    let place = format!("round {}", round.round);
    let mut rows = rules.encoding.rows();
    let (mut action, mut propensity, mut reward) = (Vec::new(), Vec::new(), Vec::new());
    let mut sets: Vec<Option<Vec<u32>>> = Vec::new();
    let mut candidates = rules.candidates.as_ref().map(|inputs| (inputs, inputs.encoding.rows(), vec![0]));
    records(reader, rules, round, &mut |record| {
        let request = DecisionRequest::stored(&record.decision)?;
        rules.encoding.encode_object(&record.decision.event_id, &request.context, &mut rows)?;
        if let Some((inputs, rows, offsets)) = &mut candidates {
            for candidate in candidates::stored(&request) {
                inputs.encode_object(&record.decision.event_id, &candidate, rows)?;
            }
            offsets.push(rows.len());
        }
        sets.push(request.eligible(&rules.actions).map_err(|reason| stored(&record, &reason.detail))?);
        if record.decision.policy != round.policy {
            return Err(stored(&record, "another policy took it than collected its round"));
        }
        action.push(record.decision.action);
        propensity.push(record.decision.propensity);
        reward.push(rules.aggregation.of(&record.rewards).unwrap_or(rules.default));
        Ok(())
    })?;
    let core = Error::core(&place);
    let [lowest, highest] = rules.reward_range;
    let costs = RewardRange::new(lowest, highest).and_then(|range| range.costs(&reward)).map_err(&core)?;
    let contexts = rows.contexts().map_err(&core)?;
    let logs = Logs::new(rules.actions.len(), contexts, action, propensity, costs).map_err(&core)?;
    let logs = logs.with_policy_version(round.policy.map(|policy| policy.to_string()).unwrap_or_default());
    if let Some((_, rows, offsets)) = candidates {
        let features = rows.contexts().map_err(&core)?;
        return Eligible::candidates(offsets, features).and_then(|sets| logs.with_eligible(sets)).map_err(core);
    }
    if sets.iter().all(Option::is_none) {
        return Ok(logs);
    }
    let all: Vec<u32> = (0..rules.actions.len() as u32).collect();
    let sets = sets.into_iter().map(|set| set.unwrap_or_else(|| all.clone()));
    Eligible::new(sets).and_then(|sets| logs.with_eligible(sets)).map_err(core)
}

/// Calls `each` with the records of a round, as they count.
pub(crate) fn records(
    reader: &dyn Reader,
    rules: &Rules,
    round: &Ready,
    each: &mut dyn FnMut(RecordRow) -> Result<()>,
) -> Result<()> {
    reader.records(round.first, round.records, &mut |record| match round.erased {
        false => each(record),
        true => each(RecordRow { decision: erased(rules, &record.decision), rewards: vec![rules.reward_range[0]] }),
    })
}

fn stored(record: &RecordRow, reason: &str) -> Error {
    Error::Malformed { place: format!("event {}", record.decision.event_id), reason: reason.into() }
}

/// A record as a line of a log file. The reward is final only if the window of the decision has passed.
pub(crate) fn line(rules: &Rules, record: &RecordRow) -> Result<Value> {
    let request = DecisionRequest::stored(&record.decision)?;
    let decision = &record.decision;
    let mut line = Map::new();
    line.insert("event_id".into(), json!(decision.event_id));
    line.insert("timestamp".into(), json!(crate::time::written(decision.decided_at)));
    line.insert("action".into(), crate::request::stored_action(rules, &request, decision.action));
    line.insert("pscore".into(), json!(decision.propensity));
    line.insert("reward".into(), json!(rules.aggregation.of(&record.rewards).unwrap_or(rules.default)));
    line.insert("policy_version".into(), json!(decision.policy));
    if let Some(set) = &request.eligible {
        let set = request.eligible(&rules.actions).map_err(|reason| stored(record, &reason.detail))?.map_or_else(
            || json!(set),
            |set| set.iter().map(|&action| crate::request::action_value(&rules.actions, action)).collect(),
        );
        line.insert("eligible".into(), set);
    }
    if let Some(inputs) = &rules.candidates {
        line.insert("candidates".into(), candidates::column(inputs, &request));
    }
    // Also what no context of the log has: a policy reads the column, and finds that it is missing.
    line.extend(rules.encoding.fields().iter().filter_map(|field| match field {
        Field::Number { column, .. } | Field::OneHot { column, .. } | Field::Hashed { column, .. } => {
            Some((column.clone(), Value::Null))
        }
        _ => None,
    }));
    line.extend(rules.encoding.raw(&request.context));
    Ok(Value::Object(line))
}
