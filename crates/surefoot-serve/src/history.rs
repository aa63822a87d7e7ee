//! HISTORY: logs from before a loop, beside it and never in it.
//!
//! A history is evidence for `lint` and `evaluate`. Its propensities are what another system has logged: no ledger names
//! its records, no certificate uses them, and no round has them. It is one file in the folder of the loop, in the form of
//! the loop's own logs, and a second one that says what it is.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use surefoot::RewardRange;
use surefoot_data::lint::{LintSettings, Severity};
use surefoot_data::{Check, ColumnNames, Format, LogReader, convert, replace};

use crate::config::{Rules, ServerConfig};
use crate::error::{Error, Result};
use crate::export::to_parquet;
use crate::request::DecisionRequest;
use crate::store::{PostgresStore, Reader, SqliteStore, Storage, store_path};

/// The records of a history, in the folder of a loop.
const RECORDS: &str = "history.parquet";
/// What they are. It is written last: without it, there is no history.
const ABOUT: &str = "history.json";
/// Columns that keep their meaning.
const KEPT: [&str; 6] = ["event_id", "timestamp", "pscore", "reward", "policy_version", "pdrop"];

/// The fields that are the identity of a candidate.
const IDENTITIES: [&str; 3] = ["id", "_id", "_tag"];

/// What a history is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct Imported {
    /// The log files that it was made from.
    pub logs: String,
    /// The number of its records.
    pub records: u64,
    /// The number of records that were left out: those without a label, and those that the logger asks to skip.
    pub left_out: u64,
    /// The warnings of `surefoot lint` about these logs.
    pub warnings: Vec<String>,
}

/// The file with the records of a history, if the loop in this folder has one.
pub(crate) fn records(folder: &Path) -> Option<PathBuf> {
    about(folder).map(|_| folder.join(RECORDS))
}

/// What the history is, if the loop in this folder has one.
pub(crate) fn about(folder: &Path) -> Option<Imported> {
    serde_json::from_slice(&std::fs::read(folder.join(ABOUT)).ok()?).ok()
}

/// Makes logs the history of a loop of a file. `place` is the name of the file, and `data` the folder of the stores.
///
/// Refused are logs in which `lint` finds an error, whose actions are not those of the loop, which never have one of its
/// features, or which have a decision of the loop itself.
pub fn import(config: &ServerConfig, place: &str, name: &str, data: &Path, logs: &LogReader) -> Result<Imported> {
    let Some(lp) = config.loops.iter().find(|lp| lp.name == name) else {
        let known: Vec<&str> = config.loops.iter().map(|lp| lp.name.as_str()).collect();
        return Err(Error::setting(place, "loop", format!("one of {}", known.join(", ")), format!("{name:?}")));
    };
    let (rules, _) = lp.resolve(place)?;
    let folder = data.join(name);
    let store: Option<Box<dyn Reader>> = match config.storage() {
        Storage::Folder if !store_path(&folder).is_file() => None,
        Storage::Folder => Some(Box::new(SqliteStore::open_to_read(&store_path(&folder))?)),
        Storage::Postgres(database) => Some(Box::new(PostgresStore::open_to_read(&database, name)?)),
    };
    write(&folder, &rules, store.as_deref(), logs)
}

/// Writes the history of the loop in a folder. `store` is the loop's own, if it has begun: its decisions are no history.
fn write(folder: &Path, rules: &Rules, store: Option<&dyn Reader>, logs: &LogReader) -> Result<Imported> {
    let system = |reason| Error::System { place: folder.display().to_string(), reason };
    if about(folder).is_some() {
        let reason = format!("the loop has a history already: {RECORDS} and {ABOUT} can be removed");
        return Err(Error::Malformed { place: folder.display().to_string(), reason });
    }
    let warnings = sound(rules, logs)?;
    std::fs::create_dir_all(folder).map_err(system)?;
    let work = tempfile::tempdir_in(folder).map_err(system)?;
    let (raw, own) = (work.path().join("raw.jsonl"), work.path().join("own.jsonl"));
    convert(logs, &raw, Format::JsonLines, &[])?;
    let mut out = BufWriter::new(File::create(&own).map_err(system)?);
    let mut imported = Imported { logs: logs.place(), records: 0, left_out: 0, warnings };
    let mut features = BTreeSet::new();
    for (number, line) in BufReader::new(File::open(&raw).map_err(system)?).lines().enumerate() {
        let place = format!("{}, record {number}", logs.place());
        let malformed = |reason: String| Error::Malformed { place: place.clone(), reason };
        let record: Map<String, Value> =
            serde_json::from_str(&line.map_err(system)?).map_err(|e| malformed(e.to_string()))?;
        let labelled =
            ["action", "pscore", "reward"].iter().all(|role| record.get(*role).is_some_and(|v| !v.is_null()));
        if !labelled || record.get("skip") == Some(&Value::Bool(true)) {
            imported.left_out += 1;
            continue;
        }
        let own = line_of(rules, &place, record, &mut features).map_err(malformed)?;
        if let (Some(store), Some(Value::String(event))) = (store, own.get("event_id"))
            && store.decision(event)?.is_some()
        {
            return Err(malformed(format!(
                "event {event} is a decision of the loop itself, which is no history of it"
            )));
        }
        writeln!(out, "{}", Value::Object(own)).map_err(system)?;
        imported.records += 1;
    }
    out.flush().map_err(system)?;
    drop(out);
    let columns = rules.encoding.columns();
    let absent: Vec<&str> = columns.into_iter().filter(|column| !features.contains(*column)).collect();
    let place = logs.place();
    if imported.records == 0 {
        return Err(Error::Malformed {
            place,
            reason: "there is no record with an action, a propensity and a reward".into(),
        });
    }
    if !absent.is_empty() {
        let reason = format!("no record has the feature {} of the loop", absent.join(", "));
        return Err(Error::Malformed { place, reason });
    }
    let records = folder.join(RECORDS);
    to_parquet(&own, &records)?;
    checked(rules, &records)?;
    let text = serde_json::to_vec_pretty(&imported).map_err(|e| Error::Malformed { place, reason: e.to_string() })?;
    replace(&folder.join(ABOUT), &text)?;
    Ok(imported)
}

/// The warnings of `lint`. Its errors are refused: an estimate from such logs would be wrong.
fn sound(rules: &Rules, logs: &LogReader) -> Result<Vec<String>> {
    let settings = LintSettings { rewards: rules.reward_range, ..LintSettings::default() };
    let linted = surefoot_data::lint::lint(logs, settings, |_| ())?;
    let of = |severity| {
        let all = linted.report.findings.iter().filter(move |finding| finding.severity == severity);
        all.map(|finding| format!("{}: {}", finding.check, finding.message)).collect::<Vec<_>>()
    };
    let errors = of(Severity::Error);
    match errors.is_empty() {
        true => Ok(of(Severity::Warning)),
        false => {
            let reason = format!("surefoot lint finds what makes estimates wrong: {}", errors.join("; "));
            Err(Error::Malformed { place: logs.place(), reason })
        }
    }
}

/// Checks that the records can be those of a policy over the actions of the loop.
fn checked(rules: &Rules, records: &Path) -> Result<()> {
    let [lowest, highest] = rules.reward_range;
    let range = RewardRange::new(lowest, highest).map_err(Error::core("the reward range"))?;
    let reader = LogReader::new(vec![records.to_owned()], None, ColumnNames::default());
    let mut check = Check::new(rules.actions.clone(), range);
    for batch in reader.batches() {
        check.records(&batch?)?;
    }
    Ok(())
}

/// A record as a line of the loop's own logs. Notes the features that it has.
fn line_of(
    rules: &Rules,
    place: &str,
    mut record: Map<String, Value>,
    features: &mut BTreeSet<String>,
) -> Result<Map<String, Value>, String> {
    let mut line = Map::new();
    for role in KEPT {
        if let Some(value) = record.remove(role).filter(|value| !value.is_null()) {
            line.insert(role.into(), value);
        }
    }
    let mut action = record.remove("action").unwrap_or_default();
    let eligible = eligible(&mut record, &mut action)?;
    let number = |what: &str, value: &Value| {
        let request = DecisionRequest { eligible: Some(vec![value.clone()]), ..DecisionRequest::default() };
        let found = request.eligible(&rules.actions).map_err(|refusal| refusal.detail.replacen("eligible", what, 1))?;
        Ok::<_, String>(found.and_then(|set| set.first().copied()))
    };
    let chosen = number("action", &action)?;
    if let Some(set) = &eligible {
        let set = set.iter().map(|value| number("a candidate", value)).collect::<Result<Vec<_>, _>>()?;
        if !set.contains(&chosen) {
            return Err(format!("the action should be eligible, but {action} is not"));
        }
    }
    line.insert("action".into(), action);
    line.extend(eligible.map(|set| ("eligible".into(), Value::Array(set))));
    let columns = rules.encoding.columns();
    if !columns.contains(&"context_names") {
        named(&mut record)?;
    }
    for column in columns {
        if let Some(value) = record.remove(column).filter(|value| !value.is_null()) {
            features.insert(column.to_owned());
            line.insert(column.into(), value);
        }
    }
    rules.encoding.encode_object(place, &line, &mut rules.encoding.rows()).map_err(|reason| reason.to_string())?;
    Ok(line)
}

/// The eligible actions of a record: those that it lists, or its candidates. Candidates are known by their identities, if they
/// have some, and the action by that of its place.
fn eligible(record: &mut Map<String, Value>, action: &mut Value) -> Result<Option<Vec<Value>>, String> {
    let listed = record.remove("eligible").and_then(|set| set.as_array().cloned());
    let Some(Value::Array(candidates)) = record.remove("candidates") else { return Ok(listed) };
    let identity = |candidate: &Value| IDENTITIES.iter().find_map(|field| candidate.get(*field).cloned());
    let identities: Vec<Value> = candidates.iter().filter_map(identity).collect();
    let places = || (0..candidates.len()).map(|place| json!(place)).collect();
    if identities.is_empty() {
        return Ok(Some(listed.unwrap_or_else(places)));
    }
    if identities.len() != candidates.len() {
        let (n, all) = (identities.len(), candidates.len());
        return Err(format!("all candidates should have an identity, or none, but {n} of {all} have one"));
    }
    // A number is the place of a candidate, unless identities are numbers too.
    let known = |value: Value| match value.as_u64().and_then(|place| usize::try_from(place).ok()) {
        Some(place) if identities.iter().all(Value::is_string) => {
            let allowed = identities.len();
            identities
                .get(place)
                .cloned()
                .ok_or(format!("the place of a candidate should be below {allowed}, but is {place}"))
        }
        _ => Ok(value),
    };
    *action = known(action.take())?;
    match listed {
        Some(set) => set.into_iter().map(known).collect::<Result<_, _>>().map(Some),
        None => Ok(Some(identities)),
    }
}

/// Turns named features into columns: `age` with a number, and `city=Rome` with the value 1 into `city` with a text.
fn named(record: &mut Map<String, Value>) -> Result<(), String> {
    let (Some(Value::Array(names)), values) = (record.remove("context_names"), record.get("context_values").cloned())
    else {
        return Ok(());
    };
    record.remove("context_values");
    let values = values.and_then(|values| values.as_array().cloned()).unwrap_or_default();
    for (name, value) in names.iter().filter_map(Value::as_str).zip(values) {
        let (column, value) = match name.split_once('=') {
            Some((column, category)) if value.as_f64() == Some(1.0) => (column, json!(category)),
            _ => (name, value),
        };
        if record.insert(column.into(), value).is_some() {
            return Err(format!("feature {column} should have one value, but has several"));
        }
    }
    Ok(())
}
