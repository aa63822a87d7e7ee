//! ROUNDS: log files as rounds of encoded records to learn from.

use std::collections::HashMap;

use surefoot::audit::{ActionsFrom, FeaturesFrom};
use surefoot::logs::Eligible;
use surefoot::{Contexts, Logs, RewardRange};

use crate::encoding::{Encoding, EncodingFit, EncodingSettings, Rows};
use crate::error::{Error, Result};
use crate::logs::{Actions, Check, LogReader, some};
use crate::policy_file::Inputs;
use crate::scan::{Grouping, Scan};

/// How logs become rounds.
#[derive(Debug, Clone)]
pub struct ReadRequest {
    /// How records are grouped into rounds.
    pub grouping: Grouping,
    /// The lowest and the highest possible reward.
    pub reward_range: [f64; 2],
    /// How columns become features, unless a given policy determines that.
    pub encoding: EncodingSettings,
    /// The share of the first round to set aside, in [0, 1). The records set aside fix the features and are not learned
    /// from, so whatever they fix is fixed before the remaining records. With 0, all records fix the features, and no
    /// records remain that are independent of them.
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

/// Encoded records in memory, as rounds to learn from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Rounds {
    /// The encoding of the records.
    pub encoding: Encoding,
    /// What the encoding was fitted to.
    pub features_from: FeaturesFrom,
    /// The actions.
    pub actions: Actions,
    /// What determined the actions.
    pub actions_from: ActionsFrom,
    /// The lowest and the highest possible reward.
    pub reward_range: [f64; 2],
    /// The rounds, in the order in which their first records appear. Each has the name of its group as its policy
    /// version.
    pub rounds: Vec<Logs>,
    /// The contexts and actions of the records set aside, to which the encoding was fitted.
    pub set_aside: Option<(Contexts, Vec<u32>)>,
    /// The number of records that were skipped because the logger asked for it.
    pub skipped: usize,
    /// Whether the records of some round continue after another round has begun.
    pub interleaved: bool,
    /// Warnings about the columns that are features.
    pub warnings: Vec<String>,
}

/// The columns of a round while it is read.
struct RoundBuilder {
    rows: Rows,
    action: Vec<u32>,
    propensity: Vec<f64>,
    cost: Vec<f64>,
    /// The eligible actions of each record, once they are known for some record.
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
        // Where every action is always eligible, there is nothing to store: some formats have the column anyway.
        let logs = match self.eligible.filter(|sets| sets.iter().any(|set| set.len() < actions)) {
            Some(sets) => logs.with_eligible(Eligible::new(&sets)?)?,
            None => logs,
        };
        Ok(logs.with_policy_version(name))
    }

    /// Adds the eligible actions of the next `records` records. Some batches of a file may log them and others not;
    /// where they are not logged, all actions are eligible.
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
    /// Reads all records into memory. If `known` is given, its actions and features are used. Otherwise the actions are
    /// those that the reader was given, or else all that occur.
    pub fn read(reader: &LogReader, request: &ReadRequest, known: Option<&Inputs>) -> Result<Self> {
        let ReadRequest { grouping, reward_range, encoding, set_aside } = request;
        let range = RewardRange::new(reward_range[0], reward_range[1])?;
        let scan = Scan::of(reader, grouping)?;
        let place = reader.place();
        let (encoding, aside, features_from, warnings) = match known {
            Some(inputs) => {
                let learned = !inputs.lineage.logs.is_empty();
                (inputs.encoding.clone(), 0, FeaturesFrom::Policy { learned }, Vec::new())
            }
            None => {
                if !(0.0..1.0).contains(set_aside) {
                    let (column, allowed) = ("the share that is set aside".into(), "in [0, 1)".into());
                    return Err(Error::Field { place, column, allowed, found: set_aside.to_string() });
                }
                let aside = (set_aside * scan.groups[0].1 as f64).ceil() as usize;
                let fitted_to = if aside > 0 { aside } else { scan.records };
                let from = if aside > 0 { FeaturesFrom::SetAside } else { FeaturesFrom::AllRecords };
                let (encoding, warnings) = fit(reader, encoding.clone(), fitted_to, &place)?;
                (encoding, aside, from, warnings)
            }
        };
        let (actions, actions_from) = actions(reader, &scan, known, aside)?;
        let places: HashMap<&str, usize> = scan.groups.iter().map(|(name, _)| name.as_str()).zip(0..).collect();
        let mut rounds: Vec<RoundBuilder> = scan.groups.iter().map(|_| RoundBuilder::new(&encoding)).collect();
        let mut head = RoundBuilder::new(&encoding);
        let mut check = Check::new(actions.clone(), range);
        for batch in reader.batches() {
            let batch = batch?;
            let records = check.records(&batch)?;
            let groups = grouping.of(&batch)?;
            // Neighbouring records mostly belong to the same round, and are added together.
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
            actions_from,
            reward_range: *reward_range,
            rounds: logs,
            set_aside,
            skipped: scan.skipped,
            interleaved: scan.interleaved,
            warnings,
        })
    }
}

/// The actions, and what determined them. `aside` is the number of records set aside, which are the first.
fn actions(reader: &LogReader, scan: &Scan, known: Option<&Inputs>, aside: usize) -> Result<(Actions, ActionsFrom)> {
    let given = reader.given_actions().map(|actions| reader.named(actions));
    match (known, given) {
        (Some(inputs), Some(given)) if inputs.actions != given => {
            let described = |actions: &Actions| match actions {
                Actions::Count(k) => format!("{k} numbers"),
                Actions::Names(names) => format!("the names {}", some(names)),
            };
            let allowed = format!("those of the prior, {}", described(&inputs.actions));
            Err(Error::setting("actions", &allowed, described(&given)))
        }
        (Some(inputs), _) => Ok((inputs.actions.clone(), ActionsFrom::Given)),
        (None, Some(given)) => Ok((given, ActionsFrom::Given)),
        (None, None) => {
            // If no other record has another action, the records set aside alone determine the actions.
            let same = aside > 0 && Scan::actions_of_first(reader, aside)? == scan.actions;
            let from = if same { ActionsFrom::SetAside } else { ActionsFrom::AllRecords };
            Ok((reader.named(&scan.actions), from))
        }
    }
}

/// Fits the encoding to the first records; also returns warnings about the columns.
fn fit(reader: &LogReader, settings: EncodingSettings, records: usize, place: &str) -> Result<(Encoding, Vec<String>)> {
    let mut fit = EncodingFit::new(settings).map_err(|reason| Error::Malformed { place: place.into(), reason })?;
    for batch in reader.batches() {
        let batch = batch?;
        if batch.row() >= records {
            break;
        }
        fit.add(&batch.slice(0..batch.len().min(records - batch.row())))?;
    }
    let warnings = fit.warnings();
    Ok((fit.finish(place)?, warnings))
}
