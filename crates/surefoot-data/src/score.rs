//! SCORE: decisions of a policy on raw records.

use std::sync::Arc;

use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Float64Array, ListArray, RecordBatch, StringArray, UInt32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use serde_json::{Map, Value};
use surefoot::Policy;
use surefoot::logs::Eligible;
use surefoot::policy::Decision;
use twox_hash::XxHash64;

use crate::error::{Error, Result};
use crate::logs::{Actions, ColumnNames, ID, LogBatch, LogReader, Role};
use crate::record_policy::{RecordPolicy, wide};
use crate::table::{Format, read_table_bytes};

/// Makes decisions on records, one at a time or in batches. An event with the same id always gets the same decision,
/// wherever it occurs. An event without an id gets a new random one.
#[derive(Debug, Clone)]
pub struct Scorer {
    policy: RecordPolicy,
    actions: Actions,
    version: String,
    seed: u64,
    probabilities: bool,
    schema: SchemaRef,
    candidates: Option<Candidates>,
}

/// How decisions on candidates are written.
#[derive(Debug, Clone)]
struct Candidates {
    /// Whether by identity, and not by place.
    identities: bool,
    /// The field of the identity, if it has none of the usual names.
    field: Option<String>,
}

impl Scorer {
    /// A scorer for a policy that says how records become its features, or a mixture of such policies. With
    /// `probabilities`, the probabilities of all actions are returned too. Decisions are logged with the policy's
    /// [version](RecordPolicy::version).
    ///
    /// If the policy chooses among candidates, an action is the identity of the chosen candidate, as a text, if the policy
    /// knows identities, and otherwise its place among the candidates of the record, counted from 0.
    pub fn new(policy: RecordPolicy, seed: u64, probabilities: bool) -> Result<Self> {
        let encoded = match &policy {
            RecordPolicy::Mixture(parts) => parts.first().map(|(_, part)| part),
            policy => Some(policy),
        };
        let (Some(RecordPolicy::Encoded { inputs, .. }), Some(version)) = (encoded, policy.version()) else {
            return Err(Error::Malformed {
                place: "the policy".into(),
                reason: "should be one that says how records become its features, or a mixture of such policies, but \
                    is another"
                    .into(),
            });
        };
        let actions = inputs.actions.clone();
        let candidates = inputs.candidates.as_ref().map(|candidates| Candidates {
            identities: candidates.encoding.columns().contains(&ID),
            field: candidates.identity.clone(),
        });
        let action = match (&actions, &candidates) {
            (_, Some(Candidates { identities: true, .. })) | (Actions::Names(_), None) => DataType::Utf8,
            _ => DataType::UInt32,
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
        Ok(Scorer { policy, actions, version, seed, probabilities, schema, candidates })
    }

    /// The actions it chooses from.
    pub fn actions(&self) -> &Actions {
        &self.actions
    }

    /// The policy version to log with its decisions.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Decides on one raw record, given as a JSON object of its columns, like a line of a `.jsonl` file. The decision
    /// is drawn with the seed and `event_id`; an id in the record is ignored.
    ///
    /// ```no_run
    /// use surefoot_data::{PolicyReader, RecordPolicy, Scorer};
    ///
    /// let policy = RecordPolicy::open("next.safetensors", &mut PolicyReader::default())?;
    /// let scorer = Scorer::new(policy, 7, false)?;
    /// let record = serde_json::json!({ "device": "phone", "age": 31 });
    /// let decision = scorer.decide("visit-1", record.as_object().unwrap())?;
    /// println!("{} with probability {}", scorer.actions().name(decision.action as usize), decision.propensity);
    /// # Ok::<(), surefoot_data::Error>(())
    /// ```
    pub fn decide(&self, event_id: &str, record: &Map<String, Value>) -> Result<Decision> {
        let malformed = |reason: String| Error::Malformed { place: format!("event {event_id}"), reason };
        let mut line = serde_json::to_vec(record).map_err(|e| malformed(e.to_string()))?;
        line.push(b'\n');
        let tables = read_table_bytes(&format!("event {event_id}"), line, Format::JsonLines)?;
        let tables: Vec<RecordBatch> = tables.collect::<Result<_>>()?;
        let reader = LogReader::in_memory(format!("event {event_id}"), tables, ColumnNames::default());
        let batch = reader.batches().next().ok_or_else(|| malformed("the record is empty".into()))??;
        let sets = batch.eligible(&self.actions)?;
        let decided = self.decisions(&batch, sets.as_ref(), &[XxHash64::oneshot(0, event_id.as_bytes())])?;
        Ok(decided[0])
    }

    /// Whether [`score`](Scorer::score) draws ids for the records of a batch, because they have none.
    pub fn draws_ids(&self, batch: &LogBatch) -> Result<bool> {
        Ok(!batch.is_empty() && !has_ids(batch)?)
    }

    /// The columns of the output: `event_id`, `action`, `pscore`, `policy_version`, and `probabilities` if asked for.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Decides on a batch. The decision for an event is drawn with the seed and the key `XXH64(id)`. If the records have
    /// no ids, each gets a new random id from the operating system. A key that is not random, such as the row, would
    /// give the first record of every batch the same draw, and its propensity would be wrong.
    pub fn score(&self, batch: &LogBatch) -> Result<RecordBatch> {
        let batch = &*batch.identified_by(self.candidates.as_ref().and_then(|candidates| candidates.field.as_deref()));
        let sets = batch.eligible(&self.actions)?;
        let (ids, keys) = keys(batch)?;
        let decisions = self.decisions(batch, sets.as_ref(), &keys)?;
        let chosen = decisions.iter().map(|decision| decision.action);
        let action: ArrayRef = match (&self.actions, &self.candidates) {
            (_, Some(Candidates { identities: true, .. })) => Arc::new(StringArray::from(identities(batch, chosen)?)),
            (Actions::Names(names), None) => {
                Arc::new(StringArray::from_iter_values(chosen.map(|a| &names[a as usize])))
            }
            _ => Arc::new(UInt32Array::from_iter_values(chosen)),
        };
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(ids)),
            action,
            Arc::new(Float64Array::from_iter_values(decisions.iter().map(|decision| decision.propensity))),
            Arc::new(StringArray::from_iter_values(decisions.iter().map(|_| &self.version))),
        ];
        if self.probabilities {
            let actions = self.actions_of(batch)?;
            let p = self.policy.distribution(batch, sets.as_ref(), &actions)?;
            // A record has no more probabilities than candidates.
            let count = |i: usize| match &sets {
                Some(sets) if self.candidates.is_some() => sets.get(i).len(),
                _ => actions.len(),
            };
            let rows = p.chunks_exact(actions.len()).enumerate();
            let lists = rows.map(|(i, row)| Some(row[..count(i)].iter().copied().map(Some)));
            columns.push(Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(lists)));
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|e| Error::Malformed { place: "the decisions".into(), reason: e.to_string() })
    }
}

/// The identities of the chosen candidates.
fn identities(batch: &LogBatch, chosen: impl Iterator<Item = u32>) -> Result<Vec<String>> {
    let missing = |place: String| Error::Field {
        place,
        column: ID.into(),
        allowed: "the identity of the candidate".into(),
        found: "missing".into(),
    };
    let Some(candidates) = batch.candidates()? else { return Err(missing(batch.place().to_owned())) };
    let identity = |(i, place): (usize, u32)| {
        let row = candidates.range(i).start + place as usize;
        let id = candidates.identities.as_ref().and_then(|ids| ids.of[row].clone());
        let (file, row) = batch.place_of(i);
        id.ok_or_else(|| missing(format!("{file}, row {row}, candidate {place}")))
    };
    chosen.enumerate().map(identity).collect()
}

impl Scorer {
    /// The actions of a batch: its own, if its records have candidates.
    fn actions_of(&self, batch: &LogBatch) -> Result<Actions> {
        match batch.candidates()?.filter(|_| self.candidates.is_some()) {
            Some(candidates) => Ok(Actions::Count(candidates.most.max(2))),
            None => Ok(self.actions.clone()),
        }
    }

    /// Draws a decision for each record by its key.
    fn decisions(&self, batch: &LogBatch, sets: Option<&Eligible>, keys: &[u64]) -> Result<Vec<Decision>> {
        match &self.policy {
            // This needs no integral per action, and is more accurate.
            RecordPolicy::Encoded { policy, inputs } => {
                let (contexts, candidates) = inputs.encode(batch)?;
                let policy = wide(policy, candidates.as_ref())?;
                let decided = policy.decide_keyed(&contexts, candidates.as_ref().or(sets), self.seed, keys);
                decided.map_err(|reason| batch.refused(reason))
            }
            mixture => {
                let actions = self.actions_of(batch)?;
                let p = mixture.distribution(batch, sets, &actions)?;
                let rows = p.chunks_exact(actions.len()).zip(keys);
                Ok(rows.map(|(p, &key)| Decision::draw(p, self.seed, key)).collect())
            }
        }
    }
}

/// Whether the records of a batch have ids. Some formats have a column of ids even if no record has one.
fn has_ids(batch: &LogBatch) -> Result<bool> {
    Ok(batch.event_id()?.is_some_and(|ids| ids.iter().any(Option::is_some)))
}

/// The id of each event, and the key of its draw.
fn keys(batch: &LogBatch) -> Result<(Vec<String>, Vec<u64>)> {
    let has_ids = has_ids(batch)?;
    let key = |id: &str| XxHash64::oneshot(0, id.as_bytes());
    let Some(ids) = batch.event_id()?.filter(|_| has_ids) else {
        let mut drawn = [0; 16];
        getrandom::fill(&mut drawn)
            .map_err(|e| Error::Malformed { place: batch.place().into(), reason: format!("no random ids: {e}") })?;
        let drawn: String = drawn.iter().map(|byte| format!("{byte:02x}")).collect();
        let ids: Vec<String> = (0..batch.len()).map(|i| format!("{drawn}-{i}")).collect();
        let keys = ids.iter().map(|id| key(id)).collect();
        return Ok((ids, keys));
    };
    let mut out = (Vec::with_capacity(ids.len()), Vec::with_capacity(ids.len()));
    for (i, id) in ids.into_iter().enumerate() {
        let id = id
            .ok_or_else(|| batch.required_role(Role::EventId).map_or_else(|e| e, |c| c.error(i, "an id", "missing")))?;
        out.1.push(key(&id));
        out.0.push(id.into_owned());
    }
    Ok(out)
}
