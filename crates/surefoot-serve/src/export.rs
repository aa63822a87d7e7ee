//! EXPORT: everything leaves as it came in.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use surefoot_data::{ColumnNames, Format, LogReader, convert, replace, write_policy_with, write_session};

use crate::config::Rules;
use crate::error::{Error, Result};
use crate::learning::Learning;
use crate::logs;
use crate::policies::Policies;
use crate::sequencer::Loop;
use crate::store::{PostgresStore, Reader, RoundRow, SqliteStore, store_path};

/// The log of a round as JSON lines.
pub(crate) fn lines(reader: &dyn Reader, rules: &Rules, round: &RoundRow) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let records = round.closed.as_ref().map_or(0, |closed| closed.records);
    reader.records(round.first, records, &mut |record| {
        let line = logs::line(rules, &record)?;
        writeln!(out, "{line}").map_err(|reason| Error::System { place: "a log".into(), reason })
    })?;
    Ok(out)
}

/// The same as a Parquet file.
pub(crate) fn parquet(lines: Vec<u8>) -> Result<Vec<u8>> {
    let system = |reason| Error::System { place: "a temporary folder".into(), reason };
    let folder = tempfile::tempdir().map_err(system)?;
    let (from, to) = (folder.path().join("log.jsonl"), folder.path().join("log.parquet"));
    std::fs::write(&from, lines).map_err(system)?;
    to_parquet(&from, &to)?;
    std::fs::read(&to).map_err(system)
}

/// Writes the log of the rounds that were learned from, from a round on, as [`export`] does. Returns the number of these
/// rounds.
pub(crate) fn learned_log(lp: &Loop, from_round: u64, to: &Path) -> Result<usize> {
    let counts = |round: &RoundRow| round.learned.is_some() && round.round >= from_round;
    let rounds: Vec<RoundRow> = lp.read(|reader| reader.rounds())?.into_iter().filter(counts).collect();
    let from = to.with_extension("jsonl");
    let failed = |reason| Error::System { place: from.display().to_string(), reason };
    let mut file = std::fs::File::create(&from).map_err(failed)?;
    for round in &rounds {
        // Round by round, so that others can read in between.
        file.write_all(&lp.read(|reader| lines(reader, lp.rules(), round))?).map_err(failed)?;
    }
    if !rounds.is_empty() {
        to_parquet(&from, to)?;
    }
    Ok(rounds.len())
}

pub(crate) fn to_parquet(from: &Path, to: &Path) -> Result<()> {
    let reader = LogReader::new(vec![from.to_owned()], Some(Format::JsonLines), ColumnNames::default());
    convert(&reader, to, Format::Parquet, &[])?;
    Ok(())
}

/// What was exported.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Exported {
    /// The number of rounds that were learned from.
    pub rounds: usize,
    /// The number of their records.
    pub records: usize,
    /// The number of certificates.
    pub certificates: usize,
}

/// Writes a loop as a run folder, from the rounds that were learned from: `surefoot verify` takes the folder, and
/// `surefoot lint`, `evaluate` and `learn` take its `logs.parquet`. `policy.safetensors` is the policy that runs, with its
/// features. The loop may be running.
pub fn export(folder: &Path, to: &Path) -> Result<Exported> {
    let path = store_path(folder);
    if !path.is_file() {
        return Err(Error::store(&path, "opened", "there is none: give the folder of a loop, such as DATA/NAME"));
    }
    let reader: Box<dyn Reader> = Box::new(SqliteStore::open_to_read(&path)?);
    export_from(reader, &path, &folder.join("policies"), to)
}

/// The same for a loop in a PostgreSQL database, by its name.
pub fn export_postgres(database: &str, name: &str, to: &Path) -> Result<Exported> {
    let reader: Box<dyn Reader> = Box::new(PostgresStore::open_to_read(database, name)?);
    let folder = tempfile::tempdir().map_err(|reason| Error::System { place: "a temporary folder".into(), reason })?;
    reader.fetch(folder.path())?;
    export_from(reader, Path::new("PostgreSQL"), folder.path(), to)
}

fn export_from(reader: Box<dyn Reader>, path: &Path, policies: &Path, to: &Path) -> Result<Exported> {
    let text = reader.rules()?.ok_or_else(|| Error::store(path, "read", "no loop was opened in it"))?;
    let rules: Rules = serde_json::from_str(&text).map_err(|e| Error::store(path, "read", e))?;
    let rules = Arc::new(rules);
    let policies = Policies::open(policies)?;
    let first = policies.read(rules.first)?;
    let first =
        first.as_gaussian().cloned().ok_or_else(|| Error::store(path, "read", "the first policy is another"))?;
    let statements = reader.statements()?;
    let rounds: Vec<RoundRow> = reader.rounds()?.into_iter().filter(|round| round.learned.is_some()).collect();
    let mut log = Vec::new();
    for round in &rounds {
        log.extend(lines(reader.as_ref(), &rules, round)?);
    }
    let place = to.display().to_string();
    let session = Learning::new(&place, Arc::clone(&rules), first, policies.clone(), reader).resumed()?;
    // A round may have been learned from since the certificates were read.
    let learned = session.logs().len().min(rounds.len());
    let statements: Vec<_> = statements.into_iter().filter(|statement| statement.round <= learned).collect();
    let records = session.logs().iter().map(surefoot::Logs::len).sum();
    let exported = Exported { rounds: learned, records, certificates: statements.len() };
    write_session(to, &session, statements)?;
    if !log.is_empty() {
        let lines = to.join("logs.jsonl");
        replace(&lines, &log)?;
        to_parquet(&lines, &to.join("logs.parquet"))?;
        std::fs::remove_file(&lines).map_err(|reason| Error::System { place: lines.display().to_string(), reason })?;
    }
    if let Some(policy) = session.running().identity() {
        let policy = policies.read(policy)?;
        write_policy_with(&to.join("policy.safetensors"), policy.as_ref(), Some(&rules.inputs()))?;
    }
    Ok(exported)
}
