//! SCORES: what a policy decides on raw records.

use std::sync::Arc;

use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Float64Array, ListArray, RecordBatch, StringArray, UInt32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use surefoot::Policy;
use surefoot::policy::Decision;
use twox_hash::XxHash64;

use crate::error::{Error, Result};
use crate::logs::{Actions, LogBatch, Role};
use crate::record_policy::RecordPolicy;

/// Decides on records, one at a time or many: an event with the same id gets the same decision, wherever it stands.
#[derive(Debug, Clone)]
pub struct Scorer {
    policy: RecordPolicy,
    actions: Actions,
    version: String,
    seed: u64,
    probabilities: bool,
    schema: SchemaRef,
}

impl Scorer {
    /// With a policy, or a mixture of them, over these actions; `version` is what decisions are logged with, and
    /// `probabilities` asks for those of all actions.
    pub fn new(policy: RecordPolicy, actions: Actions, version: String, seed: u64, probabilities: bool) -> Self {
        let action = match actions {
            Actions::Count(_) => DataType::UInt32,
            Actions::Names(_) => DataType::Utf8,
        };
        let mut fields = vec![
            Field::new(Role::EventId.name(), DataType::Utf8, false),
            Field::new(Role::Action.name(), action, false),
            Field::new(Role::Propensity.name(), DataType::Float64, false),
            Field::new(Role::PolicyVersion.name(), DataType::Utf8, false),
        ];
        if probabilities {
            let item = Arc::new(Field::new("item", DataType::Float64, true));
            fields.push(Field::new(Role::Probabilities.name(), DataType::List(item), true));
        }
        let schema = Arc::new(Schema::new(fields));
        Scorer { policy, actions, version, seed, probabilities, schema }
    }

    /// The columns that come out: `event_id`, `action`, `pscore`, `policy_version`, and `probabilities` if asked for.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The decisions on a batch. What tells events apart is their id, or their place in the file if they have none. The
    /// draw for an event is that of the seed and `XXH64(id)`, or the place.
    pub fn score(&self, batch: &LogBatch) -> Result<RecordBatch> {
        let actions = &self.actions;
        let sets = batch.eligible(actions)?;
        let (ids, keys) = keys(batch)?;
        let distribution = || self.policy.distribution(batch, sets.as_ref(), actions);
        let decisions: Vec<Decision> = match &self.policy {
            // Without an integral for each action, and to more digits.
            RecordPolicy::Encoded { policy, inputs } => {
                let contexts = inputs.encoding.encode(batch)?;
                let decided = policy.decide_keyed(&contexts, sets.as_ref(), self.seed, &keys);
                decided.map_err(|reason| batch.refused(reason))?
            }
            _ => {
                let p = distribution()?;
                let rows = p.chunks_exact(actions.len()).zip(&keys);
                rows.map(|(p, &key)| Decision::draw(p, self.seed, key)).collect()
            }
        };
        let chosen = decisions.iter().map(|decision| decision.action);
        let action: ArrayRef = match actions {
            Actions::Count(_) => Arc::new(UInt32Array::from_iter_values(chosen)),
            Actions::Names(names) => Arc::new(StringArray::from_iter_values(chosen.map(|a| &names[a as usize]))),
        };
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(ids)),
            action,
            Arc::new(Float64Array::from_iter_values(decisions.iter().map(|decision| decision.propensity))),
            Arc::new(StringArray::from_iter_values(decisions.iter().map(|_| &self.version))),
        ];
        if self.probabilities {
            let p = distribution()?;
            let lists = p.chunks_exact(actions.len()).map(|row| Some(row.iter().copied().map(Some)));
            columns.push(Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(lists)));
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|e| Error::Malformed { place: "the decisions".into(), reason: e.to_string() })
    }
}

/// The id of each event, and the number of its draw.
fn keys(batch: &LogBatch) -> Result<(Vec<String>, Vec<u64>)> {
    let Some(ids) = batch.event_id()? else {
        let rows = batch.row() as u64..(batch.row() + batch.len()) as u64;
        return Ok((rows.clone().map(|row| row.to_string()).collect(), rows.collect()));
    };
    let mut out = (Vec::with_capacity(ids.len()), Vec::with_capacity(ids.len()));
    for (i, id) in ids.into_iter().enumerate() {
        let id = id
            .ok_or_else(|| batch.required_role(Role::EventId).map_or_else(|e| e, |c| c.error(i, "an id", "missing")))?;
        out.1.push(XxHash64::oneshot(0, id.as_bytes()));
        out.0.push(id.into_owned());
    }
    Ok(out)
}
