//! The probabilities of learned policies, computed by an engine: by far the larger part of an evaluation.
//!
//! A worker reads the records of a shard, and returns the probability of every logged action under every such policy. The rest
//! of an evaluation is cheap, and much of it depends on the order of the records, such as the test of the propensities. So the
//! driver does it in its own pass over the logs, by the same code and with the same bits as without an engine.

use serde::{Deserialize, Serialize};
use surefoot::RewardRange;

use super::{ModelRequest, NamedPolicy};
use crate::error::{Error, Result};
use crate::logs::{Actions, Check, LogBatch, LogReader, SHARD};
use crate::policy_archive::{pack, unpack};
use crate::record_policy::RecordPolicy;
use crate::shards::{Engine, mapped};

/// The name of the task.
pub(crate) const EVALUATE: &str = "evaluate";

/// The number of bytes of probabilities that are asked for at once.
const WAVE: usize = 1 << 28;

/// How a worker reads records.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reading {
    actions: Actions,
    reward_range: [f64; 2],
}

/// The probabilities of some policies in a pass over the logs, computed by an engine.
pub(super) struct Elsewhere<'e> {
    engine: &'e dyn Engine,
    shards: Vec<Vec<u8>>,
    payload: Vec<u8>,
    /// For each policy of the request, its place among those that the engine computes.
    places: Vec<Option<usize>>,
    /// The number of shards of a wave, and of those asked for so far.
    wave: usize,
    asked: usize,
    /// The probabilities of each policy from record `first` on.
    ready: Vec<Vec<f64>>,
    first: usize,
}

impl<'e> Elsewhere<'e> {
    /// Prepares a pass; `None` if the reader has no engine, or if no policy is worth it: the others are cheaper to compute than
    /// to send.
    pub(super) fn new(
        policies: &[NamedPolicy],
        reader: &'e LogReader,
        actions: &Actions,
        range: [f64; 2],
    ) -> Result<Option<Self>> {
        let Some(engine) = reader.engine() else { return Ok(None) };
        let mut learned: Vec<&RecordPolicy> = Vec::new();
        let places = policies.iter().map(|NamedPolicy { policy, .. }| {
            matches!(policy, RecordPolicy::Encoded { .. } | RecordPolicy::Mixture(_)).then(|| {
                learned.push(policy);
                learned.len() - 1
            })
        });
        let places: Vec<Option<usize>> = places.collect();
        if learned.is_empty() {
            return Ok(None);
        }
        let payload = pack(&learned, Reading { actions: actions.clone(), reward_range: range })?;
        let ready = vec![Vec::new(); learned.len()];
        let shards = reader.shards()?;
        let wave = (WAVE / (8 * learned.len() * SHARD)).max(1);
        Ok(Some(Elsewhere { engine, shards, payload, places, wave, asked: 0, ready, first: 0 }))
    }

    /// The probabilities of the logged actions of a batch under a policy of the request; `None` if the driver computes them.
    /// Batches come in order.
    pub(super) fn propensity(&mut self, policy: usize, batch: &LogBatch) -> Result<Option<Vec<f64>>> {
        let Some(place) = self.places[policy] else { return Ok(None) };
        let records = batch.row()..batch.row() + batch.len();
        while self.first + self.ready[place].len() < records.end {
            self.next_wave(records.start)?;
        }
        Ok(Some(self.ready[place][records.start - self.first..records.end - self.first].to_vec()))
    }

    /// Asks for more, and forgets what is before record `from`.
    fn next_wave(&mut self, from: usize) -> Result<()> {
        let shards = &self.shards[self.asked..(self.asked + self.wave).min(self.shards.len())];
        if shards.is_empty() {
            return Err(strange("should read as many records as there are, but has read fewer".into()));
        }
        let texts: Vec<&[u8]> = shards.iter().map(Vec::as_slice).collect();
        let results = mapped(self.engine, EVALUATE, &texts, &self.payload)?;
        let policies = self.ready.len();
        self.ready.iter_mut().for_each(|ready| drop(ready.drain(..from - self.first)));
        self.first = from;
        for result in results {
            let (numbers, rest) = result.as_chunks::<8>();
            if !rest.is_empty() || !numbers.len().is_multiple_of(policies) {
                let found = result.len();
                return Err(strange(format!(
                    "should return {policies} numbers per record, but returned {found} bytes"
                )));
            }
            let records = numbers.len() / policies;
            for (i, ready) in self.ready.iter_mut().enumerate() {
                ready.extend(numbers[i * records..(i + 1) * records].iter().map(|&bytes| f64::from_le_bytes(bytes)));
            }
        }
        self.asked += shards.len();
        Ok(())
    }
}

fn strange(reason: String) -> Error {
    Error::Malformed { place: "the engine".into(), reason }
}

/// Refuses a reward model, which needs the probabilities of all actions.
pub(super) fn without_model(model: &ModelRequest) -> Result<()> {
    match model {
        ModelRequest::None => Ok(()),
        _ => {
            let allowed = "none, as an engine computes the probabilities of logged actions only";
            Err(Error::setting("the reward model", allowed, "given"))
        }
    }
}

/// The work of one shard: the probabilities of the logged actions, all of the first policy before those of the second.
pub(crate) fn propensities(reader: &LogReader, payload: &[u8]) -> Result<Vec<u8>> {
    let (policies, Reading { actions, reward_range: [lo, hi] }) = unpack(payload)?;
    let mut check = Check::new(actions.clone(), RewardRange::new(lo, hi)?);
    let mut found = vec![Vec::new(); policies.len()];
    for batch in reader.batches() {
        let batch = batch?;
        let records = check.records(&batch)?;
        for (policy, found) in policies.iter().zip(&mut found) {
            found.extend(policy.propensity(&batch, &records, &actions)?.iter().flat_map(|p: &f64| p.to_le_bytes()));
        }
    }
    Ok(found.concat())
}
