//! A run as a folder: what was deployed, logged, learned and certified. See `docs/formats.md`.

use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use surefoot::simulate::Outcome;
use surefoot::{LinearGaussian, Logs};
use surefoot_data::{
    Inputs, Kind, PolicyReader, SavedRound, Statement, read_certificates, read_round, write_certificates, write_policy,
    write_policy_with, write_round,
};

use crate::failure::{Failure, Result};

const ROUNDS: &str = "rounds";
const POLICIES: &str = "policies";
const CERTIFICATES: &str = "certificates.json";
/// Before the number of a policy that was learned and not deployed.
const CANDIDATE: &str = "candidate-";

/// Fails unless a run can be saved in the folder: it is not there, or empty.
pub(crate) fn check(folder: &Path) -> Result<()> {
    match fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::new(format!("{}: the folder should be new or empty, but is not", folder.display()))
            .hint("a saved run is never written over: choose another folder, or remove this one")),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(Failure::file(folder, "written to", e)),
    }
}

/// Saves what was learned from logs of others: the prior as policy 0, what was learned as policy 1. Nothing says what
/// collected the rounds.
pub(crate) fn save_learned(
    folder: &Path,
    learned: &[(&LinearGaussian, &Inputs)],
    logs: &[Logs],
    certificates: Vec<Statement>,
) -> Result<()> {
    let (rounds, policies) = make(folder)?;
    for (k, (policy, inputs)) in learned.iter().enumerate() {
        write_policy_with(&policies.join(numbered("", k)), policy, Some(inputs)).map_err(Failure::new)?;
    }
    for (k, logs) in logs.iter().enumerate() {
        write_round(&rounds.join(numbered("", k)), logs, None).map_err(Failure::new)?;
    }
    write_certificates(&folder.join(CERTIFICATES), certificates).map_err(Failure::new)
}

/// The folders of a new run, for its rounds and its policies.
fn make(folder: &Path) -> Result<(PathBuf, PathBuf)> {
    check(folder)?;
    let (rounds, policies) = (folder.join(ROUNDS), folder.join(POLICIES));
    for folder in [&rounds, &policies] {
        fs::create_dir_all(folder).map_err(|e| Failure::file(folder, "made", e))?;
    }
    Ok((rounds, policies))
}

/// Saves a run. The certificates come last, so that a folder without them is seen to be incomplete.
pub(crate) fn save(folder: &Path, outcome: &Outcome) -> Result<()> {
    let (rounds, policies) = make(folder)?;
    for (k, policy) in outcome.policies.iter().enumerate() {
        write_policy(&policies.join(numbered("", k)), policy).map_err(Failure::new)?;
    }
    for (k, policy) in outcome.learned.iter().enumerate() {
        if !outcome.policies.contains(policy) {
            write_policy(&policies.join(numbered(CANDIDATE, k + 1)), policy).map_err(Failure::new)?;
        }
    }
    for (k, (logs, policy)) in outcome.logs.iter().zip(&outcome.policies).enumerate() {
        write_round(&rounds.join(numbered("", k)), logs, Some(policy.fingerprint())).map_err(Failure::new)?;
    }
    write_certificates(&folder.join(CERTIFICATES), statements(outcome)).map_err(Failure::new)
}

fn numbered(prefix: &str, number: usize) -> String {
    format!("{prefix}{number:03}.safetensors")
}

/// All that was certified, round after round.
fn statements(outcome: &Outcome) -> Vec<Statement> {
    let mut all = Vec::new();
    for round in &outcome.rounds {
        let mut add = |kind, certificate: Option<&surefoot::Certificate>| {
            all.extend(certificate.cloned().map(|certificate| Statement { round: round.round, kind, certificate }));
        };
        add(Kind::Gate, round.decision.as_ref().and_then(|decision| decision.certificate.as_ref()));
        add(Kind::Certificate, round.proven.as_ref().map(|proven| &proven.certificate));
        add(Kind::Ladder, round.proven.as_ref().and_then(|proven| proven.ladder.as_ref()));
    }
    all
}

/// Where the parts of a run are.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) certificates: PathBuf,
    /// In the order of the rounds.
    pub(crate) rounds: Vec<PathBuf>,
    pub(crate) policies: Vec<PathBuf>,
}

impl Parts {
    /// The parts of a saved run.
    pub(crate) fn of(folder: &Path) -> Result<Self> {
        let certificates = folder.join(CERTIFICATES);
        if !certificates.is_file() {
            return Err(Failure::new(format!("{}: no {CERTIFICATES}", folder.display())).hint(
                "the folder should be one that simulate --save wrote; the certificates are written last, so that a run \
                 which was interrupted has none",
            ));
        }
        let rounds = numbers(&folder.join(ROUNDS), "")?;
        let mut policies = numbers(&folder.join(POLICIES), "")?;
        policies.extend(numbers(&folder.join(POLICIES), CANDIDATE)?);
        let (rounds, policies) = (in_order(rounds)?, policies.into_iter().map(|(_, path)| path).collect());
        Ok(Parts { certificates, rounds, policies })
    }

    /// Reads all files; fails with everything that is wrong with any of them.
    pub(crate) fn read(self) -> Result<Bundle> {
        let mut reader = PolicyReader::default();
        let mut wrong = Vec::new();
        let mut keep = |result: surefoot_data::Result<()>| wrong.extend(result.err().map(|e| e.to_string()));
        let mut bundle = Bundle::default();
        keep(read_certificates(&self.certificates).map(|all| bundle.certificates = all));
        for path in self.policies {
            keep(reader.read(&path).map(|policy| bundle.policies.push((path, policy))));
        }
        let rounds: Vec<_> = self.rounds.par_iter().map(|path| read_round(path)).collect();
        for (path, round) in self.rounds.into_iter().zip(rounds) {
            keep(round.map(|round| bundle.rounds.push((path, round))));
        }
        match &wrong[..] {
            [] => Ok(bundle),
            [one] => Err(Failure::new(one)),
            all => Err(Failure::new(format!("{} files cannot be used:\n  {}", all.len(), all.join("\n  ")))),
        }
    }
}

/// The files of a folder named by a prefix and a number, in the order of the numbers.
fn numbers(folder: &Path, prefix: &str) -> Result<Vec<(usize, PathBuf)>> {
    let unreadable = |e| Failure::file(folder, "read", e);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = name.strip_prefix(prefix).and_then(|name| name.strip_suffix(".safetensors")?.parse().ok());
        if let Some(number) = number {
            found.push((number, path));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The files of the rounds, none of which is missing.
fn in_order(files: Vec<(usize, PathBuf)>) -> Result<Vec<PathBuf>> {
    for (expected, (number, path)) in files.iter().enumerate() {
        if *number != expected {
            let missing = path.with_file_name(numbered("", expected));
            return Err(Failure::new(format!("{}: is missing, but {} is there", missing.display(), path.display())));
        }
    }
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

/// A run that was read.
#[derive(Debug, Default)]
pub(crate) struct Bundle {
    pub(crate) certificates: Vec<Statement>,
    pub(crate) rounds: Vec<(PathBuf, SavedRound)>,
    pub(crate) policies: Vec<(PathBuf, LinearGaussian)>,
}
