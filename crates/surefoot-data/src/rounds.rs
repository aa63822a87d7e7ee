//! ROUNDS: log files as rounds of encoded records to learn from.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use surefoot::audit::{ActionsFrom, FeaturesFrom};
use surefoot::features::Joint;
use surefoot::logs::Eligible;
use surefoot::{Logs, RewardRange};

use crate::cache::{Cache, Held, Manifest, PassFiles, RoundWriter, Storage};
use crate::encoding::{self, CandidateInputs, Encoding, EncodingFit, EncodingSettings, Identity, Rows};
use crate::error::{Error, Result};
use crate::inputs::Inputs;
use crate::lint::Screen;
use crate::logs::{Actions, Check, LogReader};
use crate::scan::{Grouping, Run, Scan};
use crate::shards::{self, Columns, Cutter, Engine, Plan, Shards};

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
    /// How much memory the run may take, and where encoded records are stored if they would take more.
    pub storage: Storage,
    /// Other processes that hold the contexts, if there are any.
    pub engine: Option<Arc<dyn Engine>>,
}

impl Default for ReadRequest {
    fn default() -> Self {
        ReadRequest {
            grouping: Grouping::PolicyVersion,
            reward_range: [0.0, 1.0],
            encoding: EncodingSettings::default(),
            set_aside: 0.1,
            storage: Storage::default(),
            engine: None,
        }
    }
}

/// Encoded records, in memory or in mapped files, as rounds to learn from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Rounds {
    /// The encoding of the records.
    pub encoding: Encoding,
    /// The encoding of the candidates, if the records have candidates with features.
    pub candidates: Option<CandidateInputs>,
    /// The joint features of contexts and candidates, unless a given policy has them.
    pub joint: Option<Joint>,
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
    /// The records set aside, to which the encoding was fitted.
    pub set_aside: Option<Logs>,
    /// The number of records that were skipped because the logger asked for it.
    pub skipped: usize,
    /// The number of decisions without a label, which were left out.
    pub unlabelled: usize,
    /// Whether the records of some round continue after another round has begun.
    pub interleaved: bool,
    /// The columns that look like identities, and why, if the encoding was fitted to these records.
    pub identities: Vec<(String, Identity)>,
    /// Flaws for which no number from these records may be called certified.
    pub flaws: Vec<String>,
    /// Warnings about the columns that are features.
    pub warnings: Vec<String>,
    /// What must exist as long as rounds in mapped files are used.
    pub(crate) held: Option<Arc<Held>>,
    /// The shards, if an engine holds the contexts.
    pub(crate) shards: Option<Arc<Shards>>,
    /// The folder of passes that are kept for an interrupted search.
    pub(crate) journal: Option<PathBuf>,
}

/// The columns of a round while it is read.
struct RoundBuilder {
    rows: Rows,
    action: Vec<u32>,
    propensity: Vec<f64>,
    cost: Vec<f64>,
    /// The eligible actions of each record, once they are known for some record.
    eligible: Option<Vec<Vec<u32>>>,
    /// The candidates, and their number in each record, if the records have candidates with features.
    candidates: Option<(Rows, Vec<usize>)>,
    /// The files that the records are moved to, if they are stored.
    writer: Option<RoundWriter>,
    /// Where the records come from, if an engine holds their contexts.
    cutter: Option<Cutter>,
    /// The number of all records.
    records: usize,
}

impl RoundBuilder {
    fn new(encoding: &Encoding, candidates: Option<&CandidateInputs>) -> Self {
        let (action, propensity, cost) = (Vec::new(), Vec::new(), Vec::new());
        let candidates = candidates.map(|candidates| (candidates.encoding.rows(), Vec::new()));
        let (rows, eligible, writer, cutter) = (encoding.rows(), None, None, None);
        RoundBuilder { rows, action, propensity, cost, eligible, candidates, writer, cutter, records: 0 }
    }

    /// Makes room for this many records in memory.
    fn reserve(&mut self, records: usize) {
        self.rows.reserve(records);
        self.action.reserve_exact(records);
        self.propensity.reserve_exact(records);
        self.cost.reserve_exact(records);
    }

    /// Moves the records in memory to the files.
    fn store(&mut self, encoding: &Encoding, cache: &Cache, place: usize) -> Result<()> {
        if self.action.is_empty() {
            return Ok(());
        }
        if self.writer.is_none() {
            self.writer = Some(RoundWriter::new(cache.round(place), &self.rows)?);
        }
        let rows = std::mem::replace(&mut self.rows, encoding.rows());
        let writer = self.writer.as_mut().expect("just made");
        writer.add(rows, &self.action, &self.propensity, &self.cost)?;
        self.action.clear();
        self.propensity.clear();
        self.cost.clear();
        Ok(())
    }

    /// The round without its contexts. Its records are found by the name of their group, if that is given.
    fn columns(self, name: &str, filter: Option<String>) -> Columns {
        let RoundBuilder { action, propensity, cost, cutter, .. } = self;
        let cutter = cutter.expect("an engine holds the contexts");
        Columns { cutter, filter, name: name.to_owned(), action, propensity, cost }
    }

    /// The round, in memory or in the files.
    fn finish(mut self, actions: usize, name: &str, at: &Place<'_>) -> Result<Logs> {
        let Some(cache) = at.cache else {
            let refused = |reason| Error::Content { place: at.reader.place(), reason };
            return self.logs(actions, name).map_err(refused);
        };
        self.store(at.encoding, cache, at.round)?;
        let writer = self.writer.expect("there are records");
        cache.logs(at.round, &writer.finish()?, actions, name)
    }

    fn logs(self, actions: usize, name: &str) -> surefoot::Result<Logs> {
        let contexts = self.rows.contexts()?;
        let logs = Logs::new(actions, contexts, self.action, self.propensity, self.cost)?;
        if let Some((rows, counts)) = self.candidates {
            let mut offsets = vec![0];
            offsets.extend(counts.iter().scan(0, |sum, count| {
                *sum += count;
                Some(*sum)
            }));
            let logs = logs.with_eligible(Eligible::candidates(offsets, rows.contexts()?)?)?;
            return Ok(logs.with_policy_version(name));
        }
        // Where every action is always eligible, there is nothing to store: some formats have the column anyway.
        let logs = match self.eligible.filter(|sets| sets.iter().any(|set| set.len() < actions)) {
            Some(sets) => logs.with_eligible(Eligible::new(&sets)?)?,
            None => logs,
        };
        Ok(logs.with_policy_version(name))
    }

    /// Adds the eligible actions of the next `records` records. Some batches of a file may log them and others not;
    /// where they are not logged, all actions are eligible.
    fn restrict(&mut self, sets: Option<&Eligible>, records: usize, actions: usize, place: &str) -> Result<()> {
        let all = || (0..actions as u32).collect::<Vec<u32>>();
        // Sets that are not logged are not backed by bytes of the file.
        let filled = |records: usize| match records.checked_mul(actions) {
            Some(..=MOST_ENTRIES) => Ok(()),
            _ => Err(Error::TooLarge {
                place: place.into(),
                what: "the number of eligible actions that are not logged".into(),
                limit: MOST_ENTRIES as u64,
                found: format!("{records} records x {actions} actions"),
            }),
        };
        match (sets, &mut self.eligible) {
            (None, None) => {}
            (None, Some(known)) => {
                filled(known.len() + records)?;
                known.extend((0..records).map(|_| all()));
            }
            (Some(sets), known) => {
                if known.is_none() {
                    filled(self.action.len())?;
                }
                let known = known.get_or_insert_with(|| vec![all(); self.action.len()]);
                known.extend((0..records).map(|i| sets.get(i).to_vec()));
            }
        }
        Ok(())
    }
}

impl Rounds {
    /// Whether the records are in mapped files.
    pub(crate) fn is_stored(&self) -> bool {
        self.held.is_some()
    }

    /// Reads all records, into memory or into files that are mapped ([`ReadRequest::storage`]). If `known` is given, its
    /// actions and features are used. Otherwise the actions are those that the reader was given, or else all that occur.
    pub fn read(reader: &LogReader, request: &ReadRequest, known: Option<&Inputs>) -> Result<Self> {
        let ReadRequest { grouping, reward_range, encoding, set_aside, storage, engine } = request;
        if engine.is_some() {
            reader.check_parts()?;
        }
        let manifest = match storage.cache {
            Some(_) => Manifest::of(reader, request, known)?,
            None => None,
        };
        let key = manifest.as_ref().map(Manifest::key);
        let found = manifest.as_ref().filter(|_| engine.is_none()).and_then(|manifest| Cache::find(storage, manifest));
        if let Some(found) = found {
            return Ok(found.with_journal(storage, key.as_deref()));
        }
        let range = RewardRange::new(reward_range[0], reward_range[1])?;
        let scan = Scan::of(reader, grouping)?;
        let place = reader.place();
        let (fitted, aside, features_from) = match known {
            Some(inputs) => {
                let learned = !inputs.lineage.logs.is_empty();
                (Fitted::known(inputs, &scan, &place)?, 0, FeaturesFrom::Policy { learned })
            }
            None => {
                if !(0.0..1.0).contains(set_aside) {
                    return Err(Error::setting("the share that is set aside", "in [0, 1)", set_aside));
                }
                let aside = (set_aside * scan.groups[0].1 as f64).ceil() as usize;
                let fitted_to = if aside > 0 { aside } else { scan.records };
                let from = if aside > 0 { FeaturesFrom::SetAside } else { FeaturesFrom::AllRecords };
                (Fitted::to(reader, encoding, fitted_to, &scan)?, aside, from)
            }
        };
        let Fitted { encoding, candidates, joint, identities, warnings } = fitted;
        check_entries(reader, &encoding, scan.records)?;
        if let (Some(inputs), Some(count)) = (&candidates, scan.candidates) {
            check_entries(reader, &inputs.encoding, count)?;
        }
        let (actions, actions_from) = actions(reader, &scan, known, aside)?;
        let bytes = encoding.bytes().saturating_mul(scan.records as u64);
        if engine.is_some() && candidates.is_some() {
            return Err(Error::setting("the records", "without candidates, with an engine", "with candidates"));
        }
        let cache = match storage.stores(bytes) {
            _ if engine.is_some() => None,
            // Candidates are lists of rows, which are not stored.
            true if candidates.is_none() => Some(Cache::begin(storage, manifest)?),
            true if storage.cache.is_none() => return Err(too_small(storage, bytes, "candidates")),
            _ => None,
        };
        let places: HashMap<&str, usize> = scan.groups.iter().map(|(name, _)| name.as_str()).zip(0..).collect();
        let mut rounds: Vec<RoundBuilder> =
            scan.groups.iter().map(|_| RoundBuilder::new(&encoding, candidates.as_ref())).collect();
        let mut head = RoundBuilder::new(&encoding, candidates.as_ref());
        if let Some(engine) = engine {
            for round in rounds.iter_mut().chain([&mut head]) {
                round.cutter = Some(Cutter::new(engine.as_ref(), scan.records)?);
            }
        }
        if cache.is_none() && engine.is_none() {
            // The records set aside are the first ones of the first group.
            let left = |place: usize, records: usize| if place == 0 { records.saturating_sub(aside) } else { records };
            let counts = scan.groups.iter().enumerate().map(|(place, (_, records))| left(place, *records));
            rounds.iter_mut().zip(counts).for_each(|(round, records)| round.reserve(records));
            head.reserve(aside);
        }
        let mut check = Check::new(actions.clone(), range);
        let mut screen = Screen::default();
        let mut held = 0;
        reader.read_ahead(|batch| {
            let records = check.records(&batch)?;
            screen.add(&batch, &records)?;
            let mut runs = Vec::new();
            for Run { group, records } in grouping.of(&batch)? {
                let round = *places.get(group.as_str()).ok_or_else(|| reader.changed())?;
                runs.push((round, records));
            }
            screen.order(&batch, |i| runs[runs.partition_point(|(_, records)| records.end <= i)].0);
            // The records set aside are the first ones.
            let edge = aside.saturating_sub(batch.row()).min(batch.len());
            let parts = runs.iter().flat_map(|(round, records)| {
                let edge = edge.clamp(records.start, records.end);
                [(None, records.start..edge), (Some(*round), edge..records.end)]
            });
            for (round, Range { start, end }) in parts.filter(|(_, records)| !records.is_empty()) {
                let into = match round {
                    None => &mut head,
                    Some(round) => &mut rounds[round],
                };
                let part = batch.slice(start..end);
                match &mut into.cutter {
                    Some(cutter) => cutter.add(&batch, start..end),
                    None => encoding.encode_into(&part, &mut into.rows)?,
                }
                match (&candidates, &mut into.candidates) {
                    (Some(inputs), Some((rows, counts))) => inputs.encode_into(&part, rows, counts)?,
                    _ => {
                        let sets = records.eligible.as_ref().map(|sets| sets.slice(start..end));
                        if cache.is_some() || engine.is_some() {
                            let all =
                                sets.is_none_or(|sets| (0..end - start).all(|i| sets.get(i).len() == actions.len()));
                            if !all && engine.is_some() {
                                let allowed = "without eligible actions, with an engine";
                                return Err(Error::setting("the records", allowed, "with eligible actions"));
                            }
                            if !all {
                                return Err(too_small(storage, bytes, "eligible actions"));
                            }
                        } else {
                            into.restrict(sets.as_ref(), end - start, actions.len(), &place)?;
                        }
                    }
                }
                into.action.extend_from_slice(&records.action[start..end]);
                into.propensity.extend_from_slice(&records.propensity[start..end]);
                into.cost.extend_from_slice(&records.cost[start..end]);
                into.records += end - start;
            }
            held += batch.len();
            if let Some(cache) = cache.as_ref().filter(|_| held >= HELD) {
                held = 0;
                for (place, round) in rounds.iter_mut().chain([&mut head]).enumerate() {
                    round.store(&encoding, cache, place)?;
                }
            }
            Ok(())
        })?;
        let mut shards = None;
        let mut logs = Vec::new();
        let set_aside;
        if let Some(engine) = engine {
            let plan = Arc::new(Plan {
                made_by: shards::made_by(),
                files: reader.entries()?.ok_or_else(|| reader.changed())?,
                columns: reader.columns().clone(),
                grouping: grouping.clone(),
                actions: actions.clone(),
                reward_range: *reward_range,
                encoding: encoding.clone(),
                cache: storage.cache.clone(),
            });
            let is_aside = head.records > 0;
            let named = rounds.into_iter().zip(&scan.groups).filter(|(round, _)| round.records > 0);
            let mut columns: Vec<Columns> =
                named.map(|(round, (name, _))| round.columns(name, Some(name.clone()))).collect();
            if is_aside {
                columns.push(head.columns(&scan.groups[0].0, None));
            }
            let (made, all) = shards::encode(engine, &plan, columns)?;
            (logs, shards) = (made, Some(Arc::new(all)));
            set_aside = if is_aside { logs.pop() } else { None };
        } else {
            let at = |round| Place { reader, encoding: &encoding, cache: cache.as_ref(), round };
            let last = rounds.len();
            for (place, (columns, (name, _))) in rounds.into_iter().zip(&scan.groups).enumerate() {
                if columns.records > 0 {
                    logs.push(columns.finish(actions.len(), name, &at(place))?);
                }
            }
            set_aside = match head.records {
                0 => None,
                _ => Some(head.finish(actions.len(), &scan.groups[0].0, &at(last))?),
            };
        }
        if logs.is_empty() {
            let reason = "no record is left to learn from: set a smaller share aside".into();
            return Err(Error::Malformed { place, reason });
        }
        let flaws = screen.flaws(&place, &actions, |round| &scan.groups[round].0)?;
        let rounds = Rounds {
            encoding,
            candidates,
            joint,
            features_from,
            actions,
            actions_from,
            reward_range: *reward_range,
            rounds: logs,
            set_aside,
            skipped: scan.skipped,
            unlabelled: scan.unlabelled,
            interleaved: scan.interleaved,
            identities,
            flaws,
            warnings,
            held: None,
            shards,
            journal: None,
        };
        let rounds = match cache {
            None => rounds,
            Some(cache) => cache.finish(rounds)?,
        };
        Ok(rounds.with_journal(storage, key.as_deref()))
    }

    /// The same rounds, with a journal of passes in the cache, if there is one.
    fn with_journal(mut self, storage: &Storage, key: Option<&str>) -> Self {
        if let Some((cache, key)) = storage.cache.as_ref().zip(key) {
            let folder = cache.join(format!("{key}.passes"));
            let rounds = std::mem::take(&mut self.rounds).into_iter().enumerate();
            let kept = |(place, logs): (usize, Logs)| {
                logs.with_journal(Some(Arc::new(PassFiles::new(folder.join(place.to_string())))))
            };
            self.rounds = rounds.map(kept).collect();
            self.journal = Some(folder);
        }
        self
    }

    /// Removes the passes that were kept for an interrupted search: it has ended.
    pub(crate) fn finished(&self) {
        if let Some(folder) = &self.journal {
            // What is left does no harm.
            let _ = std::fs::remove_dir_all(folder);
        }
    }

    /// Has the files of all shards removed, if an engine holds the contexts and they are not kept in a cache.
    pub fn forget(&self) -> Result<()> {
        self.shards.as_ref().map_or(Ok(()), |shards| shards.forget())
    }
}

/// Where a round is put together.
struct Place<'a> {
    reader: &'a LogReader,
    encoding: &'a Encoding,
    cache: Option<&'a Cache>,
    /// The place among the folders of the cache.
    round: usize,
}

/// The number of records that are held until they are stored.
const HELD: usize = 1 << 14;

/// The error for records that can only be held in memory.
fn too_small(storage: &Storage, bytes: u64, because: &str) -> Error {
    let gigabytes = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
    let allowed = format!(
        "at least {}, without a cache, because records with {because} are held in memory (option memory)",
        gigabytes(storage.needed(bytes))
    );
    Error::setting("the memory", &allowed, storage.memory.map_or("unlimited, with a cache".into(), gigabytes))
}

/// The number of feature values for which memory is taken in any case: 4 GiB.
const MOST_ENTRIES: usize = 1 << 30;

/// The number of feature values per byte of the files for which memory is taken. A value takes at least a byte, but a
/// field of JSON that a line does not have is a value too.
const MOST_PER_BYTE: u64 = 16;

/// Checks the number of feature values before memory is taken for them.
fn check_entries(reader: &LogReader, encoding: &Encoding, records: usize) -> Result<()> {
    let Some(bytes) = reader.bytes() else { return Ok(()) };
    let limit = bytes.saturating_mul(MOST_PER_BYTE).max(MOST_ENTRIES as u64);
    let each = encoding.entries();
    match (records as u64).checked_mul(each as u64) {
        Some(entries) if entries <= limit => Ok(()),
        _ => Err(Error::TooLarge {
            place: reader.place(),
            what: format!("the number of feature values from {bytes} bytes of logs"),
            limit,
            found: format!("{records} records x {each} features: leave columns out"),
        }),
    }
}

/// The actions, and what determined them. `aside` is the number of records set aside, which are the first.
fn actions(reader: &LogReader, scan: &Scan, known: Option<&Inputs>, aside: usize) -> Result<(Actions, ActionsFrom)> {
    let given = reader.given_actions().map(|actions| reader.named(actions));
    if scan.candidates.is_some() {
        if let Some(given) = given {
            return Err(given_with_candidates(&given));
        }
        // The candidates of every record are logged, so nothing about them depends on other records.
        return Ok((scan.actions.clone(), ActionsFrom::Given));
    }
    match (known, given) {
        (Some(inputs), Some(given)) if inputs.actions != given => {
            let allowed = format!("those of the prior, {}", inputs.actions.described());
            Err(Error::setting("actions", &allowed, given.described()))
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

/// The error if the user gave the actions of records that have candidates.
pub(crate) fn given_with_candidates(given: &Actions) -> Error {
    let allowed = "not given, as every record has its own candidates (option positions ignores their features)";
    Error::setting("actions", allowed, given.described())
}

/// Fits encodings to all records of a log: that of contexts and, if the records have candidates, that of candidates.
pub fn fit_encodings(
    reader: &LogReader,
    settings: &EncodingSettings,
    scan: &Scan,
) -> Result<(Encoding, Option<CandidateInputs>)> {
    let fitted = Fitted::to(reader, settings, usize::MAX, scan)?;
    Ok((fitted.encoding, fitted.candidates))
}

/// Encodings, and what their user should know about the columns.
struct Fitted {
    encoding: Encoding,
    candidates: Option<CandidateInputs>,
    joint: Option<Joint>,
    identities: Vec<(String, Identity)>,
    warnings: Vec<String>,
}

impl Fitted {
    /// The encodings of a policy.
    fn known(inputs: &Inputs, scan: &Scan, place: &str) -> Result<Self> {
        let what = |candidates: bool| if candidates { "candidates with features" } else { "fixed actions" };
        let (policy, logs) = (inputs.candidates.is_some(), scan.candidates.is_some());
        if policy != logs {
            let reason = format!("should have {}, as the prior, but has {}", what(policy), what(logs));
            return Err(Error::Malformed { place: place.into(), reason });
        }
        Ok(Fitted {
            encoding: inputs.encoding.clone(),
            candidates: inputs.candidates.clone(),
            joint: None,
            identities: Vec::new(),
            warnings: Vec::new(),
        })
    }

    /// Fits the encodings to the first records.
    fn to(reader: &LogReader, settings: &EncodingSettings, records: usize, scan: &Scan) -> Result<Self> {
        let place = reader.place();
        // They are wrong for any logs.
        let wrong = |reason| Error::Malformed { place: "the settings of features".into(), reason };
        let over_candidates = scan.candidates.is_some();
        let fit = match over_candidates {
            true => EncodingFit::of_namespaces(settings.for_contexts()),
            false => EncodingFit::new(settings.clone()),
        };
        let mut fit = fit.map_err(wrong)?;
        let mut candidates = EncodingFit::of_candidates(settings.for_candidates()).map_err(wrong)?;
        for batch in reader.batches() {
            let batch = batch?;
            if batch.row() >= records {
                break;
            }
            let batch = batch.slice(0..batch.len().min(records - batch.row()));
            fit.add(&batch)?;
            if let Some(found) = batch.candidates()? {
                candidates.add(&found.rows)?;
            }
        }
        let (mut identities, mut warnings) = (fit.identities(), fit.warnings());
        let encoding = match over_candidates && fit.is_empty() {
            true => Encoding::constant(),
            false => fit.finish(&place)?,
        };
        let (mut inputs, mut joint) = (None, None);
        if over_candidates {
            identities.extend(candidates.identities());
            warnings.extend(candidates.warnings());
            let found = candidates.finish(&place)?;
            joint = Some(encoding::joint(&encoding, &found, settings)?);
            inputs = Some(CandidateInputs { encoding: found, identity: reader.identity() });
        }
        Ok(Fitted { encoding, candidates: inputs, joint, identities, warnings })
    }
}
