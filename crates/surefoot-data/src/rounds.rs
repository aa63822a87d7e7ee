//! ROUNDS: the records of files as rounds to learn from.

use std::collections::HashMap;

use surefoot::audit::FeaturesFrom;
use surefoot::logs::Eligible;
use surefoot::{Contexts, Logs, RewardRange};

use crate::encoding::{Encoding, EncodingFit, EncodingSettings, Rows};
use crate::error::{Error, Result};
use crate::logs::{Actions, Check, LogReader};
use crate::policy_file::Inputs;
use crate::scan::{Grouping, Scan};

/// How logs become rounds.
#[derive(Debug, Clone)]
pub struct ReadRequest {
    /// What makes a round.
    pub grouping: Grouping,
    /// The lowest and the highest reward that there can be.
    pub reward_range: [f64; 2],
    /// How columns become features, unless a policy says so.
    pub encoding: EncodingSettings,
    /// The share of the first round, in [0, 1), whose records fix the features and are then set aside: whatever is fixed by
    /// them is fixed before the records that are left. With 0 all records fix them, and then none is left that does not know.
    pub set_aside: f64,
}

impl Default for ReadRequest {
    fn default() -> Self {
        ReadRequest {
            grouping: Grouping::PolicyVersion,
            reward_range: [0.0, 1.0],
            encoding: EncodingSettings::default(),
            set_aside: 0.1,
        }
    }
}

/// Records that are in memory, encoded, as rounds to learn from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Rounds {
    /// How they were encoded.
    pub encoding: Encoding,
    /// What fixed that.
    pub features_from: FeaturesFrom,
    /// The actions.
    pub actions: Actions,
    /// The lowest and the highest reward that there can be.
    pub reward_range: [f64; 2],
    /// The rounds, in the order in which their first records came, with the names of their groups.
    pub rounds: Vec<Logs>,
    /// The contexts and actions that were set aside, in which the encoding was fitted.
    pub set_aside: Option<(Contexts, Vec<u32>)>,
    /// How many records were skipped, as the logger asks.
    pub skipped: usize,
    /// Whether a round goes on after another one has begun.
    pub interleaved: bool,
}

/// The columns of a round.
struct RoundBuilder {
    rows: Rows,
    action: Vec<u32>,
    propensity: Vec<f64>,
    cost: Vec<f64>,
    /// The eligible actions of each record, once those of one are known.
    eligible: Option<Vec<Vec<u32>>>,
}

impl RoundBuilder {
    fn new(encoding: &Encoding) -> Self {
        let (action, propensity, cost) = (Vec::new(), Vec::new(), Vec::new());
        RoundBuilder { rows: encoding.rows(), action, propensity, cost, eligible: None }
    }

    fn logs(self, actions: usize, name: &str) -> surefoot::Result<Logs> {
        let contexts = self.rows.contexts()?;
        let logs = Logs::new(actions, contexts, self.action, self.propensity, self.cost)?;
        let logs = match self.eligible {
            Some(sets) => logs.with_eligible(Eligible::new(&sets)?)?,
            None => logs,
        };
        Ok(logs.with_policy_version(name))
    }

    /// Takes in the eligible actions of so many records that are about to come. One batch of a file may tell and another
    /// not: then all are.
    fn restrict(&mut self, sets: Option<&Eligible>, records: usize, actions: usize) {
        let all = || (0..actions as u32).collect::<Vec<u32>>();
        match (sets, &mut self.eligible) {
            (None, None) => {}
            (None, Some(known)) => known.extend((0..records).map(|_| all())),
            (Some(sets), known) => {
                let known = known.get_or_insert_with(|| vec![all(); self.action.len()]);
                known.extend((0..records).map(|i| sets.get(i).to_vec()));
            }
        }
    }
}

impl Rounds {
    /// Reads all records into memory; over the actions and the features of `known`, if it is given.
    pub fn read(reader: &LogReader, request: &ReadRequest, known: Option<&Inputs>) -> Result<Self> {
        let ReadRequest { grouping, reward_range, encoding, set_aside } = request;
        let range = RewardRange::new(reward_range[0], reward_range[1])?;
        let scan = Scan::of(reader, grouping)?;
        let place = reader.place();
        let actions = known.map_or_else(|| reader.named(&scan.actions), |inputs| inputs.actions.clone());
        let (encoding, aside, features_from) = match known {
            Some(inputs) => {
                let learned = !inputs.lineage.logs.is_empty();
                (inputs.encoding.clone(), 0, FeaturesFrom::Policy { learned })
            }
            None => {
                if !(0.0..1.0).contains(set_aside) {
                    let (column, allowed) = ("the share that is set aside".into(), "in [0, 1)".into());
                    return Err(Error::Field { place, column, allowed, found: set_aside.to_string() });
                }
                let aside = (set_aside * scan.groups[0].1 as f64).ceil() as usize;
                let fitted_to = if aside > 0 { aside } else { scan.records };
                let from = if aside > 0 { FeaturesFrom::SetAside } else { FeaturesFrom::AllRecords };
                (fit(reader, encoding.clone(), fitted_to, &place)?, aside, from)
            }
        };
        let places: HashMap<&str, usize> = scan.groups.iter().map(|(name, _)| name.as_str()).zip(0..).collect();
        let mut rounds: Vec<RoundBuilder> = scan.groups.iter().map(|_| RoundBuilder::new(&encoding)).collect();
        let mut head = RoundBuilder::new(&encoding);
        let mut check = Check::new(actions.clone(), range);
        for batch in reader.batches() {
            let batch = batch?;
            let records = check.records(&batch)?;
            let groups = grouping.of(&batch)?;
            // Neighbours mostly belong together, and are taken in together.
            let mut start = 0;
            while start < batch.len() {
                let is_aside = |i: usize| batch.row() + i < aside;
                let same = |i: usize| is_aside(i) == is_aside(start) && groups[i] == groups[start];
                let end = (start..batch.len()).find(|&i| !same(i)).unwrap_or(batch.len());
                let into = if is_aside(start) { &mut head } else { &mut rounds[places[groups[start].as_str()]] };
                encoding.encode_into(&batch.slice(start..end), &mut into.rows)?;
                let sets = records.eligible.as_ref().map(|sets| sets.slice(start..end));
                into.restrict(sets.as_ref(), end - start, actions.len());
                into.action.extend_from_slice(&records.action[start..end]);
                into.propensity.extend_from_slice(&records.propensity[start..end]);
                into.cost.extend_from_slice(&records.cost[start..end]);
                start = end;
            }
        }
        let refused = |reason| Error::Content { place: place.clone(), reason };
        let mut logs = Vec::new();
        for (columns, (name, _)) in rounds.into_iter().zip(&scan.groups) {
            if !columns.action.is_empty() {
                logs.push(columns.logs(actions.len(), name).map_err(refused)?);
            }
        }
        let set_aside = match head.action.is_empty() {
            true => None,
            false => Some((head.rows.contexts().map_err(refused)?, head.action)),
        };
        if logs.is_empty() {
            let reason = "no record is left to learn from: set a smaller share aside".into();
            return Err(Error::Malformed { place, reason });
        }
        Ok(Rounds {
            encoding,
            features_from,
            actions,
            reward_range: *reward_range,
            rounds: logs,
            set_aside,
            skipped: scan.skipped,
            interleaved: scan.interleaved,
        })
    }
}

/// The encoding that the first records give.
fn fit(reader: &LogReader, settings: EncodingSettings, records: usize, place: &str) -> Result<Encoding> {
    let mut fit = EncodingFit::new(settings).map_err(|reason| Error::Malformed { place: place.into(), reason })?;
    for batch in reader.batches() {
        let batch = batch?;
        if batch.row() >= records {
            break;
        }
        fit.add(&batch.slice(0..batch.len().min(records - batch.row())))?;
    }
    fit.finish(place)
}
