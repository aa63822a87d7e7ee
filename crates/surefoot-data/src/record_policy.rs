//! TARGET POLICIES: anything that gives each action of a record a probability.

use std::borrow::Cow;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use surefoot::Policy;
use surefoot::logs::Eligible;

use crate::column::Column;
use crate::error::{Error, Result};
use crate::inputs::Inputs;
use crate::logs::{Actions, LogBatch, Records, Role};
use crate::mixture_file::{is_mixture, read_mixture};
use crate::policy_file::PolicyReader;

/// A target policy for off-policy evaluation.
#[derive(Debug, Clone)]
pub enum RecordPolicy {
    /// A policy of Surefoot, with everything needed to apply it to raw records.
    Encoded {
        /// The policy.
        policy: Arc<dyn Policy>,
        /// How records become its features.
        inputs: Arc<Inputs>,
    },
    /// A mixture of policies with their weights, which sum to 1.
    Mixture(Vec<(f64, RecordPolicy)>),
    /// The probabilities are columns of the logs.
    Given(Cells),
    /// Uniform over the eligible actions.
    Uniform,
    /// The logging policy.
    Logged,
}

/// A number for each action, read from the logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cells {
    /// One column per action. The name of a column is this prefix followed by the name of the action.
    Columns(String),
    /// One column of lists, each with the numbers of all actions.
    List(String),
}

impl FromStr for RecordPolicy {
    type Err = ();

    /// Parses the policies that need no file: `columns:PREFIX`, `list:COLUMN`, `uniform` and `logged`.
    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        match text {
            "uniform" => Ok(RecordPolicy::Uniform),
            "logged" => Ok(RecordPolicy::Logged),
            _ => text.parse().map(RecordPolicy::Given),
        }
    }
}

impl FromStr for Cells {
    type Err = ();

    /// Parses `columns:PREFIX` or `list:COLUMN`.
    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        match text.split_once(':') {
            Some(("columns", prefix)) if !prefix.is_empty() => Ok(Cells::Columns(prefix.into())),
            Some(("list", column)) if !column.is_empty() => Ok(Cells::List(column.into())),
            _ => Err(()),
        }
    }
}

/// The tolerance for the sum of a record's probabilities.
const SUM: f64 = 1e-6;

impl RecordPolicy {
    /// The policy version to log with its decisions: a fingerprint of the policy and of how it reads records, or of a
    /// mixture's parts and weights.
    pub fn version(&self) -> Option<String> {
        match self {
            RecordPolicy::Encoded { policy, inputs } => Some(inputs.version(policy.identity()?).to_string()),
            RecordPolicy::Mixture(parts) => {
                let mut hasher = Sha256::new();
                for (weight, part) in parts {
                    hasher.update(format!("{}:{weight}\n", part.version()?));
                }
                Some(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
            }
            _ => None,
        }
    }

    /// Whether it was learned from logs. A mixture counts as learned, since its weights are.
    pub fn was_learned(&self) -> bool {
        match self {
            RecordPolicy::Encoded { inputs, .. } => !inputs.lineage.logs.is_empty(),
            RecordPolicy::Mixture(_) => true,
            RecordPolicy::Given(_) | RecordPolicy::Uniform | RecordPolicy::Logged => false,
        }
    }

    /// The column with the lists of its probabilities, if it has one.
    pub(crate) fn list(&self) -> Option<&str> {
        match self {
            RecordPolicy::Given(Cells::List(column)) => Some(column),
            _ => None,
        }
    }

    /// Whether its probabilities depend on the set of actions and it does not know this set itself.
    pub(crate) fn needs_actions(&self) -> bool {
        match self {
            RecordPolicy::Uniform => true,
            RecordPolicy::Mixture(parts) => parts.iter().any(|(_, part)| part.needs_actions()),
            RecordPolicy::Encoded { .. } | RecordPolicy::Given(_) | RecordPolicy::Logged => false,
        }
    }

    /// Opens the policy or mixture that a text names: `columns:PREFIX`, `list:COLUMN`, `uniform`, `logged`, a policy
    /// file, or a mixture file (ending in `.json`).
    pub fn open(text: &str, reader: &mut PolicyReader) -> Result<Self> {
        if let Ok(policy) = text.parse() {
            return Ok(policy);
        }
        if let Some(kind @ ("columns" | "list")) = text.strip_suffix(':') {
            let (what, example) = if kind == "list" { ("column", "list:pi") } else { ("prefix", "columns:pi_") };
            let reason = format!("a {what} should follow the colon, as in {example}, but nothing does");
            return Err(Error::Malformed { place: kind.into(), reason });
        }
        Self::open_file(Path::new(text), reader)
    }

    /// Opens a policy file, or a mixture file (ending in `.json`).
    pub fn open_file(path: &Path, reader: &mut PolicyReader) -> Result<Self> {
        if is_mixture(path) {
            return read_mixture(path, reader);
        }
        let (policy, inputs) = reader.read_with(path)?;
        let inputs = inputs.ok_or_else(|| Error::Malformed {
            place: path.display().to_string(),
            reason: "the policy does not say how records become its features; policies learned from logs do".into(),
        })?;
        Ok(RecordPolicy::Encoded { policy, inputs: Arc::new(inputs) })
    }

    /// The actions that it knows, if the first batch tells.
    pub fn actions(&self, first: &LogBatch) -> Result<Option<Actions>> {
        match self {
            RecordPolicy::Encoded { inputs, .. } => Ok(Some(inputs.actions.clone())),
            RecordPolicy::Mixture(parts) => parts.first().map_or(Ok(None), |(_, part)| part.actions(first)),
            RecordPolicy::Given(cells) => cells.actions(first),
            RecordPolicy::Uniform | RecordPolicy::Logged => Ok(None),
        }
    }

    /// The probability that the policy gives each logged action.
    pub fn propensity(&self, batch: &LogBatch, records: &Records, actions: &Actions) -> Result<Vec<f64>> {
        let n = records.action.len();
        match self {
            RecordPolicy::Logged => Ok(records.propensity.clone()),
            RecordPolicy::Uniform => {
                let all = actions.len();
                let count = |i| records.eligible.as_ref().map_or(all, |sets| sets.get(i).len());
                Ok((0..n).map(|i| 1.0 / count(i) as f64).collect())
            }
            RecordPolicy::Encoded { policy, inputs } => {
                let (contexts, candidates) = inputs.encode(batch)?;
                let eligible = candidates.as_ref().or(records.eligible.as_ref());
                let p = wide(policy, candidates.as_ref())?.propensity(&contexts, &records.action, eligible);
                p.map_err(|reason| batch.refused(reason))
            }
            RecordPolicy::Mixture(parts) => mixed(parts, |part| part.propensity(batch, records, actions)),
            // Column by column, without a matrix of all numbers.
            RecordPolicy::Given(given @ Cells::Columns(prefix)) => {
                given.check(batch)?;
                let columns = columns(prefix, batch, actions)?;
                let cells = numbers(&columns)?;
                check(&columns[0], n, records.eligible.as_ref(), |i| cells.iter().map(move |column| column[i]))?;
                Ok((0..n).map(|i| cells[records.action[i] as usize][i]).collect())
            }
            RecordPolicy::Given(_) => {
                let (k, p) = (actions.len(), self.distribution(batch, records.eligible.as_ref(), actions)?);
                Ok((0..n).map(|i| p[i * k + records.action[i] as usize]).collect())
            }
        }
    }

    /// The probabilities of all actions, one row of `K` numbers per record.
    pub fn distribution(&self, batch: &LogBatch, eligible: Option<&Eligible>, actions: &Actions) -> Result<Vec<f64>> {
        let (n, k) = (batch.len(), actions.len());
        check_probabilities(batch, k)?;
        match self {
            RecordPolicy::Encoded { policy, inputs } => {
                let (contexts, candidates) = inputs.encode(batch)?;
                let eligible = candidates.as_ref().or(eligible);
                let policy = wide(policy, candidates.as_ref())?;
                let p = policy.distribution(&contexts, eligible).map_err(|reason| batch.refused(reason))?;
                sums(batch, policy.actions(), &p)?;
                Ok(resized(p, policy.actions(), k))
            }
            RecordPolicy::Uniform => {
                let mut p = vec![0.0; n * k];
                for (i, row) in p.chunks_exact_mut(k).enumerate() {
                    match eligible.map(|sets| sets.get(i)) {
                        None => row.fill(1.0 / k as f64),
                        Some(set) => set.iter().for_each(|&a| row[a as usize] = 1.0 / set.len() as f64),
                    }
                }
                Ok(p)
            }
            RecordPolicy::Mixture(parts) => mixed(parts, |part| part.distribution(batch, eligible, actions)),
            RecordPolicy::Given(cells) => {
                let p = cells.read(batch, actions)?;
                check(&cells.first(batch, actions)?, n, eligible, |i| p[i * k..(i + 1) * k].iter().copied())?;
                Ok(p)
            }
            RecordPolicy::Logged => {
                let p = logged(batch, actions)?;
                let column = batch.probabilities_column();
                check(&column, n, eligible, |i| p[i * k..(i + 1) * k].iter().copied())?;
                Ok(p)
            }
        }
    }
}

/// The policy for these candidates: records may have more of them than the records that it was learned from.
pub(crate) fn wide<'p>(policy: &'p Arc<dyn Policy>, candidates: Option<&Eligible>) -> Result<Cow<'p, Arc<dyn Policy>>> {
    match (candidates.map(Eligible::most), policy.as_gaussian()) {
        (Some(most), Some(gaussian)) if most > policy.actions() => {
            let wider: Arc<dyn Policy> = Arc::new(gaussian.with_most_candidates(most)?);
            Ok(Cow::Owned(wider))
        }
        _ => Ok(Cow::Borrowed(policy)),
    }
}

/// Rows of `from` probabilities as rows of `to`. What is cut off, or added, is 0.
fn resized(p: Vec<f64>, from: usize, to: usize) -> Vec<f64> {
    if from == to {
        return p;
    }
    p.chunks_exact(from).flat_map(|row| (0..to).map(|a| row.get(a).copied().unwrap_or(0.0))).collect()
}

/// The weighted sum over the parts of a mixture.
fn mixed(parts: &[(f64, RecordPolicy)], of: impl Fn(&RecordPolicy) -> Result<Vec<f64>>) -> Result<Vec<f64>> {
    let mut sum = Vec::new();
    for (weight, part) in parts {
        let p = of(part)?;
        sum.resize(p.len(), 0.0);
        sum.iter_mut().zip(p).for_each(|(sum, p)| *sum += weight * p);
    }
    Ok(sum)
}

/// The largest number of probabilities of a batch: 8 GiB.
const MOST_PROBABILITIES: usize = 1 << 30;

/// Checks the number of probabilities of a batch before memory is taken for them.
fn check_probabilities(batch: &LogBatch, actions: usize) -> Result<()> {
    match batch.len().checked_mul(actions) {
        Some(..=MOST_PROBABILITIES) => Ok(()),
        _ => Err(Error::TooLarge {
            place: batch.place().to_owned(),
            what: "the number of probabilities of a batch".into(),
            limit: MOST_PROBABILITIES as u64,
            found: format!("{} records x {actions} actions", batch.len()),
        }),
    }
}

/// The logged distribution, if the logs have it.
fn logged(batch: &LogBatch, actions: &Actions) -> Result<Vec<f64>> {
    let Some(lists) = batch.probabilities()? else {
        return Err(batch.missing("probabilities"));
    };
    let (n, k) = (batch.len(), actions.len());
    let sets = match batch.candidates()? {
        Some(candidates) => Some(candidates.order.clone()),
        None => batch.eligible_lists(actions)?,
    };
    let mut p = vec![0.0; n * k];
    for i in 0..n {
        let set = sets.as_ref().map(|sets| sets.get(i)).filter(|set| !set.is_empty());
        let found = lists.get(i);
        let expected = set.map_or(k, <[u32]>::len);
        if found.len() != expected {
            return Err(batch.probabilities_column().error(i, format!("{expected} probabilities"), found.len()));
        }
        for (place, &q) in found.iter().enumerate() {
            p[i * k + set.map_or(place, |set| set[place] as usize)] = q;
        }
    }
    Ok(p)
}

impl Cells {
    /// The actions for which there are numbers.
    fn actions(&self, first: &LogBatch) -> Result<Option<Actions>> {
        self.check(first)?;
        let prefix = match self {
            Cells::Columns(prefix) => prefix,
            Cells::List(column) => {
                let lists = first.required(column)?.lists()?;
                return match (lists.len() > 0).then(|| lists.get(0).len()) {
                    Some(k @ 0..=1) => Err(first.required(column)?.error(0, "at least 2 numbers, one per action", k)),
                    k => Ok(k.map(Actions::Count)),
                };
            }
        };
        let schema = first.table().schema();
        let names = schema.fields().iter().filter_map(|field| field.name().strip_prefix(prefix.as_str()));
        let names: Vec<String> = names.map(str::to_owned).collect();
        if names.is_empty() {
            return Err(first.missing(&format!("{prefix}ACTION, one for each action")));
        }
        let mut numbers: Vec<usize> = names.iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        let counted = numbers.len() == names.len() && numbers.iter().enumerate().all(|(i, &n)| i == n);
        Ok(Some(if counted { Actions::Count(names.len()) } else { Actions::Names(names) }))
    }

    /// The error about the first action in the logs that has no column, if there is one.
    pub(crate) fn without_column(&self, batch: &LogBatch) -> Option<Error> {
        let Cells::Columns(prefix) = self else { return None };
        let texts = batch.required_role(Role::Action).ok()?.texts().ok()?;
        texts.iter().flatten().find_map(|text| batch.required(&format!("{prefix}{text}")).err())
    }

    /// Fails for records with candidates if there is a column per action.
    fn check(&self, batch: &LogBatch) -> Result<()> {
        match self {
            Cells::Columns(prefix) if batch.has_candidates() => Err(Error::Malformed {
                place: format!("columns:{prefix}"),
                reason:
                    "a column per action is for fixed actions, but the records have candidates: use list:COLUMN, a \
                    column with the list of the numbers of all candidates"
                        .into(),
            }),
            _ => Ok(()),
        }
    }

    /// The first column, for errors.
    fn first<'a>(&self, batch: &'a LogBatch, actions: &Actions) -> Result<Column<'a>> {
        match self {
            Cells::Columns(prefix) => batch.required(&format!("{prefix}{}", actions.name(0))),
            Cells::List(name) => batch.required(name),
        }
    }

    /// The numbers of all actions, one row of `K` numbers per record.
    ///
    /// If the records have candidates, a list has a number for each of them, and the others are 0.
    pub fn read(&self, batch: &LogBatch, actions: &Actions) -> Result<Vec<f64>> {
        let (n, k) = (batch.len(), actions.len());
        self.check(batch)?;
        if let (Cells::List(name), Some(candidates)) = (self, batch.candidates()?) {
            let column = batch.required(name)?;
            let lists = column.lists()?;
            let mut p = vec![0.0; n * k];
            for (i, row) in p.chunks_exact_mut(k).enumerate() {
                let (found, count) = (lists.get(i), candidates.range(i).len());
                if found.len() != count {
                    return Err(column.error(i, format!("{count} numbers, one per candidate"), found.len()));
                }
                row[..count].copy_from_slice(found);
            }
            return Ok(p);
        }
        match self {
            Cells::Columns(prefix) => {
                let cells = numbers(&columns(prefix, batch, actions)?)?;
                Ok((0..n).flat_map(|i| cells.iter().map(move |column| column[i])).collect())
            }
            Cells::List(name) => {
                let column = batch.required(name)?;
                let lists = column.lists()?;
                match (0..n).find(|&i| lists.get(i).len() != k) {
                    Some(i) => Err(column.error(i, format!("{k} numbers, one per action"), lists.get(i).len())),
                    None => Ok(lists.values),
                }
            }
        }
    }
}

/// The columns of all actions.
fn columns<'a>(prefix: &str, batch: &'a LogBatch, actions: &Actions) -> Result<Vec<Column<'a>>> {
    (0..actions.len()).map(|a| batch.required(&format!("{prefix}{}", actions.name(a)))).collect()
}

fn numbers<'a>(columns: &[Column<'a>]) -> Result<Vec<Cow<'a, [f64]>>> {
    columns.iter().map(Column::all_numbers).collect()
}

/// Checks that the probabilities of a policy sum to 1 in each record.
fn sums(batch: &LogBatch, k: usize, p: &[f64]) -> Result<()> {
    for (i, row) in p.chunks_exact(k).enumerate() {
        let sum: f64 = row.iter().sum();
        // A NaN is no sum either.
        let near = (sum - 1.0).abs() <= SUM;
        if !near {
            let (file, row) = batch.place_of(i);
            let column = "the sum of the policy's probabilities".into();
            let place = format!("{file}, row {row}");
            return Err(Error::Field { place, column, allowed: "1".into(), found: sum.to_string() });
        }
    }
    Ok(())
}

/// Checks that each record has a distribution over its eligible actions.
fn check<I: Iterator<Item = f64>>(
    column: &Column<'_>,
    n: usize,
    eligible: Option<&Eligible>,
    of: impl Fn(usize) -> I,
) -> Result<()> {
    for i in 0..n {
        let mut sum = 0.0;
        let set = eligible.map(|sets| sets.get(i));
        for (a, p) in of(i).enumerate() {
            if p > 0.0 && set.is_some_and(|set| set.binary_search(&(a as u32)).is_err()) {
                let (place, column) = (column.at(i), format!("the probability of action {a}, which is not eligible,"));
                return Err(Error::Field { place, column, allowed: "0".into(), found: p.to_string() });
            }
            if !(0.0..=1.0).contains(&p) {
                return Err(column.error(i, "a probability, in [0, 1]", p));
            }
            sum += p;
        }
        if (sum - 1.0).abs() > SUM {
            let (place, column) = (column.at(i), "the sum of the probabilities".into());
            return Err(Error::Field { place, column, allowed: "1".into(), found: sum.to_string() });
        }
    }
    Ok(())
}
