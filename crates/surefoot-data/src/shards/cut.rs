//! The driver's part: cutting rounds into shards, and having them encoded.

use std::ops::Range;
use std::sync::Arc;

use surefoot::logs::SPAN;
use surefoot::{Fingerprint, Logs};

use super::{ENCODE, Encoded, Engine, FORGET, FileRows, Held, Plan, Shard, mapped};
use crate::error::{Error, Result};
use crate::logs::LogBatch;

/// A round has about this many shards, if it has enough records.
const SHARDS: usize = 32;

/// The largest number of spans of a shard: 4 million records.
const MOST_SPANS: usize = 128;

/// Cuts a round into shards while its records are read.
#[derive(Debug)]
pub(crate) struct Cutter {
    /// The number of records per shard.
    size: usize,
    records: usize,
    /// For each shard, where its records come from.
    shards: Vec<Vec<FileRows>>,
}

impl Cutter {
    /// For a log of this many records.
    pub(crate) fn new(engine: &dyn Engine, records: usize) -> Result<Self> {
        let usual = || SPAN * (records / SHARDS / SPAN).clamp(1, MOST_SPANS + 1).next_power_of_two().min(MOST_SPANS);
        let size = engine.records().unwrap_or_else(usual);
        if !size.is_multiple_of(SPAN) || !(size / SPAN).is_power_of_two() {
            return Err(Error::setting("the records of a shard", &format!("a power of two times {SPAN}"), size));
        }
        Ok(Cutter { size, records: 0, shards: Vec::new() })
    }

    /// Adds some records of a batch.
    pub(crate) fn add(&mut self, batch: &LogBatch, records: Range<usize>) {
        for i in records {
            let (file, row) = (batch.file(), batch.place_of(i).1);
            if self.records.is_multiple_of(self.size) {
                self.shards.push(Vec::new());
            }
            self.records += 1;
            let rows = self.shards.last_mut().expect("just made");
            match rows.last_mut() {
                Some(last) if last.file == file => last.rows.end = row + 1,
                _ => rows.push(FileRows { file, rows: row..row + 1 }),
            }
        }
    }

    /// The shards of the round, before it is known in which form their rows are stored.
    fn finish(self, plan: &Arc<Plan>, round: Option<&str>) -> Vec<Shard> {
        let Cutter { size, records, shards } = self;
        let shard = |(place, rows): (usize, Vec<FileRows>)| Shard {
            plan: Arc::clone(plan),
            round: round.map(str::to_owned),
            records: place * size..((place + 1) * size).min(records),
            rows,
            dense: None,
        };
        shards.into_iter().enumerate().map(shard).collect()
    }
}

/// A round that was read, without its contexts.
pub(crate) struct Columns {
    pub(crate) cutter: Cutter,
    /// Its name, by which its records are found; `None` if all rows of its shards belong to it.
    pub(crate) filter: Option<String>,
    pub(crate) name: String,
    pub(crate) action: Vec<u32>,
    pub(crate) propensity: Vec<f64>,
    pub(crate) cost: Vec<f64>,
}

/// Has all rounds encoded at once, and returns them in the same order.
pub(crate) fn encode(engine: &Arc<dyn Engine>, plan: &Arc<Plan>, rounds: Vec<Columns>) -> Result<(Vec<Logs>, Shards)> {
    let mut cut = Vec::with_capacity(rounds.len());
    for columns in rounds {
        let Columns { cutter, filter, name, action, propensity, cost } = columns;
        cut.push((cutter.finish(plan, filter.as_deref()), name, (action, propensity, cost)));
    }
    let texts: Vec<Vec<u8>> = cut.iter().flat_map(|(shards, ..)| shards.iter().map(Shard::text)).collect();
    let shown: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let mut found = mapped(engine.as_ref(), ENCODE, &shown, &[])?.into_iter();
    let (features, sparse) = (plan.encoding.width(), plan.encoding.rows().is_sparse());
    let (mut logs, mut all) = (Vec::with_capacity(cut.len()), Vec::new());
    for (mut shards, name, (action, propensity, cost)) in cut {
        let (mut filled, mut leaves) = (0, Vec::<Fingerprint>::new());
        for _ in &shards {
            let text = found.next().unwrap_or_default();
            let place = "the result of an engine".to_owned();
            let one: Encoded = serde_json::from_slice(&text).map_err(|reason| Error::Json { place, reason })?;
            filled += one.filled;
            leaves.extend(one.leaves);
        }
        // As `Contexts::compact` decides for all records of a round.
        let dense = sparse && filled > action.len().saturating_mul(features) / 4;
        shards.iter_mut().for_each(|shard| shard.dense = Some(dense || !sparse));
        let shards: Vec<(Range<usize>, Vec<u8>)> =
            shards.iter().map(|shard| (shard.records.clone(), shard.text())).collect();
        all.extend(shards.iter().map(|(_, text)| text.clone()));
        let held = Held { engine: Arc::clone(engine), shards };
        let columns = (action.into(), propensity.into(), cost.into());
        let made = Logs::elsewhere(plan.actions.len(), features, columns, &leaves, Arc::new(held))?;
        logs.push(made.with_policy_version(name));
    }
    Ok((logs, Shards { engine: Arc::clone(engine), texts: all }))
}

/// All shards of a log.
#[derive(Debug)]
pub(crate) struct Shards {
    engine: Arc<dyn Engine>,
    texts: Vec<Vec<u8>>,
}

impl Shards {
    /// Has the files of all shards removed, on as many workers as the engine asks.
    pub(crate) fn forget(&self) -> Result<()> {
        let texts: Vec<&[u8]> = self.texts.iter().map(Vec::as_slice).collect();
        mapped(self.engine.as_ref(), FORGET, &texts, &[]).map(drop)
    }
}
