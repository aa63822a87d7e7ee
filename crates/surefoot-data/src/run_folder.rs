//! RUN FOLDERS: the policies, rounds, certificates and session of a run. See `docs/formats.md`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use surefoot::audit::{AuditedPolicy, AuditedRound, Ledger, Run, Statement};
use surefoot::certificate::{Challenger, FixedSince};
use surefoot::learn::PortfolioCheckpoint;
use surefoot::session::Checkpoint;
use surefoot::{Fingerprint, Gate, Learner, LinearGaussian, Logs, Policy, Session};

use crate::certificate_file::{Certificates, read_certificates, write_certificates};
use crate::error::{Error, Result};
use crate::files::{Together, check_output_folder, create_folder, replace};
use crate::learn::Learned;
use crate::policy_file::{PolicyReader, write_policy, write_policy_with};
use crate::round_file::{read_round, write_round};
use crate::tensors::json;

const ROUNDS: &str = "rounds";
const POLICIES: &str = "policies";
const CERTIFICATES: &str = "certificates.json";
const SESSION: &str = "session.json";
const LEDGER: &str = "ledger.jsonl";
/// The prefix of policies that were learned but not deployed.
const CANDIDATE: &str = "candidate-";
/// The prefix of policies that would have been handed over.
const HAND_OVER: &str = "hand-over-";
/// The prefix of policies of the members of a portfolio.
const MEMBER: &str = "member-";

const FORMAT: &str = "surefoot-session";
const VERSION: u64 = 1;

/// The state of a session, besides the policies and rounds in the folder, which it names by their fingerprints.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionFile {
    format: String,
    version: u64,
    learner: Learner,
    gate: Gate,
    first: Fingerprint,
    learned: Vec<Named>,
    /// `None` if the running policy is unknown.
    incumbent: Option<Named>,
    started: Option<usize>,
    challengers: Vec<Named>,
    kept: Option<(f64, f64)>,
    /// The policies that would have been handed over after each round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hand_overs: Vec<Option<Fingerprint>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    portfolio: Option<PortfolioCheckpoint<Fingerprint>>,
}

/// The fingerprint of a policy, and the time since which it was fixed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    policy: Fingerprint,
    fixed_since: Option<FixedSince>,
}

/// Checks that a run can be saved in the folder, which must be new or empty.
pub fn check_new_folder(folder: &Path) -> Result<()> {
    match fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
        Ok(true) => check_output_folder(folder),
        Ok(false) => Err(malformed(folder, "the folder should be new or empty, but is not")),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => check_output_folder(folder),
        Err(reason) => Err(Error::Write { place: folder.display().to_string(), reason }),
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
    for (k, (logs, policy)) in session.logs().iter().zip(session.deployed()).enumerate() {
        write_round(&rounds.join(numbered("", k)), logs, policy.identity())?;
    }
    let Checkpoint { first, learned, hand_overs, incumbent, started, challengers, kept, portfolio, ledger, .. } =
        session.checkpoint();
    for (k, policy) in portfolio.iter().flat_map(PortfolioCheckpoint::policies).enumerate() {
        write_policy(&policies.join(numbered(MEMBER, k)), policy)?;
    }
    let named = |challenger: &Challenger| Named {
        policy: challenger.policy.identity().expect("what is in a session has an identity"),
        fixed_since: challenger.fixed_since,
    };
    let file = SessionFile {
        format: FORMAT.into(),
        version: VERSION,
        learner: session.learner().clone(),
        gate: session.gate(),
        first: first.fingerprint(),
        learned: learned.iter().map(named).collect(),
        incumbent: incumbent.as_ref().map(named),
        started,
        challengers: challengers.iter().map(named).collect(),
        kept,
        hand_overs: match portfolio {
            None => Vec::new(),
            Some(_) => hand_overs.iter().map(|policy| policy.as_ref().map(|policy| policy.fingerprint())).collect(),
        },
        portfolio: portfolio.map(|portfolio| portfolio.map(|policy| policy.fingerprint())),
    };
    let path = folder.join(SESSION);
    let text = serde_json::to_string_pretty(&file)
        .map_err(|reason| Error::Json { place: path.display().to_string(), reason })?;
    replace(&path, format!("{text}\n").as_bytes())?;
    write_ledger(&folder.join(LEDGER), &ledger)?;
    let reward_range = ledger.opening().terms.reward_range;
    write_certificates(&folder.join(CERTIFICATES), Certificates { reward_range, statements })
}

/// Reads a session. It continues bit for bit as the saved one would.
pub fn read_session(folder: &Path) -> Result<Session> {
    let path = folder.join(SESSION);
    let text = fs::read(&path).map_err(|reason| Error::io(&path, reason))?;
    let file: SessionFile = json(&path.display().to_string(), &text, FORMAT, VERSION)?;
    let Run { rounds, policies, ledger, .. } = RunFiles::of(folder)?.read()?;
    let ledger = ledger.ok_or_else(|| malformed(folder, format!("no {LEDGER}")))?;
    let known: HashMap<Fingerprint, Arc<dyn Policy>> =
        policies.into_iter().filter_map(|known| Some((known.policy.identity()?, known.policy))).collect();
    let find = |print: Fingerprint| {
        known.get(&print).cloned().ok_or_else(|| malformed(&path, format!("the policy {print} is not in the folder")))
    };
    let challenger = |named: &Named| -> Result<Challenger> {
        Ok(Challenger { policy: find(named.policy)?, fixed_since: named.fixed_since })
    };
    let all = |named: &[Named]| named.iter().map(challenger).collect::<Result<Vec<_>>>();
    let collected_by =
        |round: &AuditedRound| -> Result<Option<Arc<dyn Policy>>> { round.collected_by.map(find).transpose() };
    let first = find(file.first)?;
    let first = first.as_gaussian().ok_or_else(|| malformed(&path, "the first policy should be linear Gaussian"))?;
    let gaussian = |print: Fingerprint| -> Result<LinearGaussian> {
        let policy = find(print)?;
        let gaussian = policy.as_gaussian().cloned();
        gaussian.ok_or_else(|| malformed(&path, format!("the policy {print} should be linear Gaussian")))
    };
    let hand_over = |print: &Option<Fingerprint>| -> Result<_> { Ok(print.map(gaussian).transpose()?.map(Arc::new)) };
    let hand_overs = match file.hand_overs.is_empty() {
        true => vec![None; rounds.len()],
        false => file.hand_overs.iter().map(hand_over).collect::<Result<_>>()?,
    };
    let checkpoint = Checkpoint {
        first: first.clone(),
        hand_overs,
        portfolio: file.portfolio.map(|portfolio| portfolio.map(gaussian).transpose()).transpose()?,
        deployed: rounds.iter().map(collected_by).collect::<Result<_>>()?,
        logs: rounds.into_iter().map(|round| round.logs).collect(),
        learned: all(&file.learned)?,
        incumbent: file.incumbent.as_ref().map(challenger).transpose()?,
        started: file.started,
        challengers: all(&file.challengers)?,
        kept: file.kept,
        ledger,
    };
    Session::resume(file.learner, file.gate, checkpoint)
        .map_err(|reason| Error::Content { place: path.display().to_string(), reason })
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
    let bytes = fs::read(path).map_err(|reason| Error::io(path, reason))?;
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
        let certificates = folder.join(CERTIFICATES);
        let ledger = folder.join(LEDGER);
        for (path, name) in [(&certificates, CERTIFICATES), (&ledger, LEDGER)] {
            if !path.is_file() {
                return Err(malformed(folder, format!("no {name}")));
            }
        }
        let rounds = in_order(numbers(&folder.join(ROUNDS), "")?)?;
        let mut policies = numbers(&folder.join(POLICIES), "")?;
        for prefix in [CANDIDATE, HAND_OVER, MEMBER] {
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
    let unreadable = |reason| Error::io(folder, reason);
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
