//! RUN FOLDERS: the policies, rounds, certificates and session of a run. See `docs/formats.md`.

use std::collections::HashMap;
use std::io::ErrorKind::{NotADirectory, NotFound};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use surefoot::audit::{AuditedPolicy, AuditedRound, Ledger, Run, Statement};
use surefoot::learn::PortfolioCheckpoint;
use surefoot::{Fingerprint, Logs, Policy, Session};

use crate::certificate_file::{Certificates, read_certificates, write_certificates};
use crate::error::{Error, Result};
use crate::files::{Together, check_output_folder, create_folder, names, read, replace};
use crate::learn::Learned;
use crate::policy_file::{PolicyReader, write_policy, write_policy_with};
use crate::round_file::{SavedRound, read_round, write_round};
use crate::saved_session::SavedSession;

const ROUNDS: &str = "rounds";
const POLICIES: &str = "policies";
const CERTIFICATES: &str = "certificates.json";
const SESSION: &str = "session.json";
const LEDGER: &str = "ledger.jsonl";
/// The prefix of policies that were learned but not deployed.
const CANDIDATE: &str = "candidate-";
/// The prefix of policies that would have been handed over.
const HAND_OVER: &str = "hand-over-";
/// The prefix of challengers of the caller's own.
const CHALLENGER: &str = "challenger-";
/// The prefix of policies of the members of a portfolio.
const MEMBER: &str = "member-";

/// Checks that a run can be saved in the folder, which must be new or empty.
pub fn check_new_folder(folder: &Path) -> Result<()> {
    match names(folder).map(|names| names.is_empty()) {
        Ok(true) => check_output_folder(folder),
        Ok(false) => Err(malformed(folder, "the folder should be new or empty, but is not")),
        Err(Error::Io { reason, .. }) if reason.kind() == NotFound => check_output_folder(folder),
        Err(Error::Io { place, reason }) => Err(Error::Write { place, reason }),
        Err(error) => Err(error),
    }
}

/// Saves a session and the certificates it produced. The folder appears complete or not at all.
pub fn write_session(folder: &Path, session: &Session, statements: Vec<Statement>) -> Result<()> {
    if session.learner().custom.is_some() {
        return Err(malformed(folder, "a session with a custom estimator cannot be saved"));
    }
    let mut together = Together::default();
    stage_folder(&mut together, folder, |folder| fill_session(folder, session, statements))?;
    together.commit()
}

fn fill_session(folder: &Path, session: &Session, statements: Vec<Statement>) -> Result<()> {
    let (rounds, policies) = make(folder)?;
    let mut written: Vec<Fingerprint> = Vec::new();
    let deployed = session.deployed().iter().chain([session.running()]);
    for (k, policy) in deployed.enumerate() {
        // A policy without a fingerprint is one that nobody knows.
        let Some(print) = policy.identity() else { continue };
        write_policy(&policies.join(numbered("", k)), policy.as_ref())?;
        written.push(print);
    }
    if !written.contains(&session.first().fingerprint()) {
        write_policy(&policies.join(numbered(CANDIDATE, 0)), session.first())?;
    }
    for (k, policy) in session.learned().enumerate() {
        let print = policy.identity();
        if print.is_some_and(|print| !written.contains(&print)) {
            write_policy(&policies.join(numbered(CANDIDATE, k + 1)), policy.as_ref())?;
        }
    }
    for (k, policy) in session.hand_overs().iter().enumerate() {
        if let Some(policy) = policy {
            write_policy(&policies.join(numbered(HAND_OVER, k + 1)), policy.as_ref())?;
        }
    }
    for (k, (_, policy)) in session.own_challengers().enumerate() {
        write_policy(&policies.join(numbered(CHALLENGER, k)), policy.as_ref())?;
    }
    for (k, (logs, policy)) in session.logs().iter().zip(session.deployed()).enumerate() {
        write_round(&rounds.join(numbered("", k)), logs, policy.identity())?;
    }
    let portfolio = session.checkpoint().portfolio;
    for (k, policy) in portfolio.iter().flat_map(PortfolioCheckpoint::policies).enumerate() {
        write_policy(&policies.join(numbered(MEMBER, k)), policy)?;
    }
    let path = folder.join(SESSION);
    replace(&path, SavedSession::of(session).to_json(&path.display().to_string())?.as_bytes())?;
    let ledger = session.ledger();
    write_ledger(&folder.join(LEDGER), ledger)?;
    let reward_range = ledger.opening().terms.reward_range;
    write_certificates(&folder.join(CERTIFICATES), Certificates { reward_range, statements })
}

/// Reads a session. It continues bit for bit as the saved one would.
pub fn read_session(folder: &Path) -> Result<Session> {
    let path = folder.join(SESSION);
    let place = path.display().to_string();
    let text = read(&path)?;
    let saved = SavedSession::from_json(&place, &text)?;
    let Run { rounds, policies, ledger, .. } = RunFiles::of(folder)?.read()?;
    let ledger = ledger.ok_or_else(|| malformed(folder, format!("no {LEDGER}")))?;
    let known: HashMap<Fingerprint, Arc<dyn Policy>> =
        policies.into_iter().filter_map(|known| Some((known.policy.identity()?, known.policy))).collect();
    let find = |print: Fingerprint| {
        known.get(&print).cloned().ok_or_else(|| malformed(&path, format!("the policy {print} is not in the folder")))
    };
    let rounds = rounds.into_iter().map(|round| SavedRound { logs: round.logs, policy: round.collected_by }).collect();
    saved.resume(&place, rounds, ledger, &find)
}

/// Saves a policy learned from logs: the prior is policy 0, the learned policy is policy 1. The rounds do not name the
/// policy that collected them.
pub fn write_learned(folder: &Path, learned: &Learned, logs: &[Logs]) -> Result<()> {
    let mut together = Together::default();
    stage_folder(&mut together, folder, |folder| fill_learned(folder, learned, logs))?;
    together.commit()
}

pub(crate) fn fill_learned(folder: &Path, learned: &Learned, logs: &[Logs]) -> Result<()> {
    let (rounds, policies) = make(folder)?;
    for (k, policy) in [&learned.prior as &dyn Policy, learned.policy.as_ref()].into_iter().enumerate() {
        write_policy_with(&policies.join(numbered("", k)), policy, Some(&learned.inputs))?;
    }
    for (k, logs) in logs.iter().enumerate() {
        write_round(&rounds.join(numbered("", k)), logs, None)?;
    }
    write_ledger(&folder.join(LEDGER), &learned.ledger(logs)?)?;
    write_certificates(&folder.join(CERTIFICATES), learned.certificates())
}

fn write_ledger(path: &Path, ledger: &Ledger) -> Result<()> {
    replace(path, ledger.to_string().as_bytes())
}

fn read_ledger(path: &Path) -> Result<Ledger> {
    let bytes = read(path)?;
    let text = String::from_utf8(bytes).map_err(|_| malformed(path, "is not UTF-8"))?;
    text.parse().map_err(|reason| Error::Content { place: path.display().to_string(), reason })
}

/// Fills a new folder under a temporary name. Errors have the final name.
pub(crate) fn stage_folder(
    together: &mut Together,
    folder: &Path,
    fill: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    check_new_folder(folder)?;
    let temporary = together.folder(folder)?;
    fill(&temporary).map_err(|error| error.renamed(&temporary, folder))
}

/// Creates the folders for the rounds and the policies of a run.
fn make(folder: &Path) -> Result<(PathBuf, PathBuf)> {
    let (rounds, policies) = (folder.join(ROUNDS), folder.join(POLICIES));
    create_folder(&rounds)?;
    create_folder(&policies)?;
    Ok((rounds, policies))
}

fn numbered(prefix: &str, number: usize) -> String {
    format!("{prefix}{number:03}.safetensors")
}

/// The paths of the files of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFiles {
    /// The ledger, if there is one.
    pub ledger: Option<PathBuf>,
    /// The certificates.
    pub certificates: PathBuf,
    /// The rounds, in order.
    pub rounds: Vec<PathBuf>,
    /// All policies, in any order.
    pub policies: Vec<PathBuf>,
}

impl RunFiles {
    /// Finds the files of a saved run.
    pub fn of(folder: &Path) -> Result<Self> {
        let (certificates, ledger) = (folder.join(CERTIFICATES), folder.join(LEDGER));
        let found = match names(folder) {
            Err(Error::Io { reason, .. }) if matches!(reason.kind(), NotFound | NotADirectory) => Vec::new(),
            found => found?,
        };
        for name in [CERTIFICATES, LEDGER] {
            if !found.iter().any(|found| found == name) {
                return Err(malformed(folder, format!("no {name}")));
            }
        }
        let rounds = in_order(numbers(&folder.join(ROUNDS), "")?)?;
        let mut policies = numbers(&folder.join(POLICIES), "")?;
        for prefix in [CANDIDATE, HAND_OVER, CHALLENGER, MEMBER] {
            policies.extend(numbers(&folder.join(POLICIES), prefix)?);
        }
        let policies = policies.into_iter().map(|(_, path)| path).collect();
        Ok(RunFiles { ledger: Some(ledger), certificates, rounds, policies })
    }

    /// Reads all files. The error lists everything that is wrong with any of them.
    pub fn read(self) -> Result<Run> {
        let mut reader = PolicyReader::default();
        let mut wrong: Vec<Error> = Vec::new();
        let mut run = Run::default();
        let mut reward_range = None;
        match read_certificates(&self.certificates) {
            Ok(found) => (reward_range, run.statements) = (Some(found.reward_range), found.statements),
            Err(error) => wrong.push(error),
        }
        match self.ledger.as_deref().map(read_ledger).transpose() {
            Ok(ledger) => run.ledger = ledger,
            Err(error) => wrong.push(error),
        }
        if let (Some([lowest, highest]), Some(ledger)) = (reward_range, &run.ledger) {
            let fixed = ledger.opening().terms.reward_range;
            if [lowest, highest] != fixed {
                let [low, high] = fixed;
                let reason = format!(
                    "the reward range should be {low} to {high}, as in the ledger, but is {lowest} to {highest}"
                );
                wrong.push(malformed(&self.certificates, reason));
            }
        }
        run.reward_range = reward_range;
        for path in self.policies {
            match reader.read(&path) {
                Ok(policy) => run.policies.push(AuditedPolicy { name: path.display().to_string(), policy }),
                Err(error) => wrong.push(error),
            }
        }
        let rounds: Vec<_> = self.rounds.par_iter().map(|path| read_round(path)).collect();
        for (path, round) in self.rounds.iter().zip(rounds) {
            match round {
                Ok(round) => run.rounds.push(AuditedRound {
                    name: path.display().to_string(),
                    logs: round.logs,
                    collected_by: round.policy,
                }),
                Err(error) => wrong.push(error),
            }
        }
        match wrong.len() {
            0 => Ok(run),
            1 => Err(wrong.remove(0)),
            n => {
                let all: Vec<String> = wrong.iter().map(ToString::to_string).collect();
                Err(Error::Several { files: n, reasons: all.join("\n  ") })
            }
        }
    }
}

/// The files in a folder whose names are a prefix and a number, ordered by number.
fn numbers(folder: &Path, prefix: &str) -> Result<Vec<(usize, PathBuf)>> {
    let mut found = Vec::new();
    for name in names(folder)? {
        let number = name.strip_prefix(prefix).and_then(|name| name.strip_suffix(".safetensors")?.parse().ok());
        if let Some(number) = number {
            found.push((number, folder.join(&name)));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Checks that no round is missing, and returns their files.
fn in_order(files: Vec<(usize, PathBuf)>) -> Result<Vec<PathBuf>> {
    for (expected, (number, path)) in files.iter().enumerate() {
        if *number != expected {
            let missing = path.with_file_name(numbered("", expected));
            return Err(malformed(&missing, format!("is missing, but {} exists", path.display())));
        }
    }
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

fn malformed(path: &Path, reason: impl Into<String>) -> Error {
    Error::Malformed { place: path.display().to_string(), reason: reason.into() }
}
