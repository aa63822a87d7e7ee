//! `surefoot verify`: every certificate of a saved run again, from logs and policies alone.

use std::path::PathBuf;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use rayon::prelude::*;
use serde::Serialize;
use surefoot::certificate::Theorem;
use surefoot::{Certificate, Fingerprint, LinearGaussian, Logs, Policy};
use surefoot_data::{Kind, Statement};

use super::Running;
use crate::bundle::{Bundle, Parts};
use crate::failure::{Failure, Result};
use crate::progress;

/// Recompute every certificate of a saved run from its logs and policies alone
///
/// Nothing that the learner said is believed: fingerprints, logged propensities, divergences and bounds are computed
/// again. Priors must have been deployed before the records that they are used on. What no file can show, such as that
/// no record was dropped, is listed with each certificate as an assumption. Any difference is named, and the exit code
/// is 1.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    surefoot simulate --rounds 5 --save run\n  \
    surefoot verify run\n  \
    surefoot verify --certificates c.json --logs 0.safetensors 1.safetensors --policies p.safetensors")]
pub(crate) struct Verify {
    /// The folder that simulate --save wrote
    #[arg(required_unless_present = "certificates", conflicts_with_all = ["certificates", "logs", "policies"])]
    folder: Option<PathBuf>,
    /// Certificates that lie elsewhere
    #[arg(long, value_name = "FILE", requires = "logs", requires = "policies", help_heading = "Parts")]
    certificates: Option<PathBuf>,
    /// All rounds of logs, in their order
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "certificates", help_heading = "Parts")]
    logs: Vec<PathBuf>,
    /// All policies that the certificates speak of, and those that collected the logs, in any order
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "certificates", help_heading = "Parts")]
    policies: Vec<PathBuf>,
    #[command(flatten)]
    running: Running,
}

/// How far a logged propensity may be from the policy's, relative to it.
const TOLERANCE: f64 = 1e-8;

/// The result, as it is written with `--json`.
#[derive(Debug, Serialize)]
struct Output {
    version: &'static str,
    verified: bool,
    rounds: usize,
    policies: usize,
    /// How many logged propensities were computed again.
    propensities: usize,
    certificates: Vec<Checked>,
    /// What is wrong with the logs.
    differences: Vec<String>,
}

/// What came of a certificate.
#[derive(Debug, Serialize)]
struct Checked {
    round: usize,
    kind: Kind,
    theorem: Theorem,
    upper: f64,
    vacuous: bool,
    /// Whether it rests on a policy or a prior of which no file shows that it was fixed before the records, or on
    /// propensities that no file shows to be right.
    on_trust: bool,
    differences: Vec<String>,
}

impl Verify {
    pub(crate) fn run(self) -> Result<()> {
        self.running.start()?;
        let parts = match (self.folder, self.certificates) {
            (Some(folder), _) => Parts::of(&folder)?,
            (None, Some(certificates)) => Parts { certificates, rounds: self.logs, policies: self.policies },
            (None, None) => unreachable!("one of them is required"),
        };
        let bundle = parts.read()?;
        let output = check(bundle, self.running.quiet);
        self.running.answer(&output, || format!("{}\n\n{}", table(&output.certificates), closing(&output)))?;
        match &output.all_differences()[..] {
            [] => Ok(()),
            all => Err(Failure::new(format!("{}:\n  {}", count(all.len(), "difference"), all.join("\n  ")))),
        }
    }
}

/// Checks all logs and all certificates.
fn check(bundle: Bundle, quiet: bool) -> Output {
    let bar = progress::bar_of(bundle.rounds.len() + bundle.certificates.len(), "checks", quiet);
    let names: Vec<String> = bundle.policies.iter().map(|(path, _)| path.display().to_string()).collect();
    let policies: Vec<LinearGaussian> = bundle.policies.into_iter().map(|(_, policy)| policy).collect();
    let prints: Vec<Fingerprint> = policies.iter().map(LinearGaussian::fingerprint).collect();
    let collected_by: Vec<Option<Fingerprint>> = bundle.rounds.iter().map(|(_, round)| round.policy).collect();

    let checked = bundle.rounds.par_iter().map(|(path, round)| {
        let collector = round.policy.map(|print| (print, prints.iter().position(|other| *other == print)));
        let result = match collector {
            // Nobody claims to know who collected them.
            None => Ok(0),
            Some((print, None)) => Err(format!("collected by the policy {print}, which is not among those given")),
            Some((_, Some(i))) => propensities(&policies[i], &names[i], &round.logs),
        };
        bar.inc(1);
        result.map_err(|difference| format!("{}: {difference}", path.display()))
    });
    let checked: Vec<std::result::Result<usize, String>> = checked.collect();
    let propensities = checked.iter().flatten().sum();
    let differences: Vec<String> = checked.into_iter().filter_map(std::result::Result::err).collect();

    let logs: Vec<Logs> = bundle.rounds.into_iter().map(|(_, round)| round.logs).collect();
    let certificates = bundle.certificates.par_iter().map(|statement| {
        let judged = judge(statement, &policies, &logs, &collected_by);
        bar.inc(1);
        judged
    });
    let mut certificates: Vec<Checked> = certificates.collect();
    bar.finish_and_clear();
    for (judged, statement) in certificates.iter_mut().zip(&bundle.certificates) {
        judged.differences.extend(outside_family(statement, &bundle.certificates[0]));
    }
    Output {
        version: env!("CARGO_PKG_VERSION"),
        verified: differences.is_empty() && certificates.iter().all(|judged| judged.differences.is_empty()),
        rounds: logs.len(),
        policies: policies.len(),
        propensities,
        certificates,
        differences,
    }
}

/// Computes the logged propensities again with the policy that collected them, and returns how many there are.
fn propensities(policy: &LinearGaussian, name: &str, logs: &Logs) -> std::result::Result<usize, String> {
    if policy.actions() != logs.actions() {
        return Err(format!("has {} actions, but {name}, which collected it, {}", logs.actions(), policy.actions()));
    }
    let found = policy.propensity(logs.contexts(), logs.action(), logs.eligible());
    let found = found.map_err(|e| format!("cannot be asked about by {name}: {e}"))?;
    let differs = |&i: &usize| {
        let (p, q) = (found[i], logs.propensity()[i]);
        // A propensity that is no number differs too.
        let near = (p - q).abs() <= TOLERANCE * p;
        !near
    };
    let wrong: Vec<usize> = (0..logs.len()).filter(differs).collect();
    match wrong[..] {
        [] => Ok(logs.len()),
        [first, ..] => Err(format!(
            "{} of {} logged propensities are not those of {name}, which collected it; the first is record {first}: \
             logged {}, but the policy gives {}",
            wrong.len(),
            logs.len(),
            logs.propensity()[first],
            found[first]
        )),
    }
}

/// Computes a certificate again.
fn judge(
    statement: &Statement,
    policies: &[LinearGaussian],
    logs: &[Logs],
    collected_by: &[Option<Fingerprint>],
) -> Checked {
    let Statement { round, kind, certificate } = statement;
    let mut differences = Vec::new();
    let end = certificate.since.round.saturating_add(certificate.logs.len());
    if *round != end {
        differences.push(format!("round: says {round}, but its records end with round {end}"));
    }
    let on_trust = timing(certificate, collected_by, &mut differences);
    match surefoot::certificate::verify(certificate, policies, logs) {
        Ok(found) => differences.extend(found.iter().map(ToString::to_string)),
        Err(reason) => differences.push(format!("cannot be computed again: {reason}")),
    }
    let Certificate { theorem, upper, vacuous, .. } = *certificate;
    Checked { round: *round, kind: *kind, theorem, upper, vacuous, on_trust, differences }
}

/// What is wrong with a statement beside the others: all are made under the same terms, and share delta by the same
/// rule. What holds at all rounds at once has one share, what is said anew has one of a round.
fn outside_family(statement: &Statement, first: &Statement) -> Option<String> {
    let protocol = |c: &Certificate| (c.delta, c.lambdas.clone(), c.form, c.spending);
    let Statement { kind, certificate, .. } = statement;
    if protocol(certificate) != protocol(&first.certificate) {
        return Some("delta, lambdas, form or spending: not those of the first certificate".into());
    }
    let anew = *kind != Kind::Certificate;
    (certificate.share.round.is_some() != anew).then(|| {
        let allowed = if anew { "a share of a round" } else { "all of delta" };
        format!("share: a {kind} should have {allowed}")
    })
}

/// Whether what must have been fixed before the records is only said to have been; it is shown where it was deployed by
/// then. A prior that was not may know the records, and is named. A policy that is called fixed need not have been
/// deployed, and is taken on trust; as is everything where the rounds do not say what collected them.
fn timing(certificate: &Certificate, collected_by: &[Option<Fingerprint>], differences: &mut Vec<String>) -> bool {
    let known = |offset: usize| {
        let round = certificate.since.round.saturating_add(offset);
        (round, &collected_by[..round.saturating_add(1).min(collected_by.len())])
    };
    let mut on_trust = false;
    let each = matches!(certificate.theorem, Theorem::Shift | Theorem::ShiftAdjusted);
    for (i, prior) in certificate.priors.iter().enumerate() {
        let (round, known) = known(if each { i } else { 0 });
        if known.contains(&None) {
            on_trust = true;
        } else if !known.contains(&Some(*prior)) {
            differences.push(format!("the prior {prior} was not deployed in round {round} or before"));
        }
    }
    if matches!(certificate.theorem, Theorem::Fixed | Theorem::FixedAdjusted) {
        on_trust |= certificate.policies.iter().any(|policy| policy.is_none() || !known(0).1.contains(policy));
    }
    // Propensities of rounds that do not say what collected them were not computed again.
    let end = certificate.since.round.saturating_add(certificate.logs.len()).min(collected_by.len());
    on_trust |= collected_by.get(certificate.since.round..end).is_some_and(|rounds| rounds.contains(&None));
    certificate.parts.iter().fold(on_trust, |on_trust, part| timing(part, collected_by, differences) || on_trust)
}

impl Output {
    /// What is wrong with the logs, and with each certificate.
    fn all_differences(&self) -> Vec<String> {
        let of = |judged: &Checked| -> Vec<String> {
            let name = format!("round {}, {}", judged.round, judged.kind);
            judged.differences.iter().map(|difference| format!("{name}: {difference}")).collect()
        };
        self.differences.iter().cloned().chain(self.certificates.iter().flat_map(of)).collect()
    }
}

fn table(certificates: &[Checked]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["round", "kind", "theorem", "upper", "verdict"]);
    for judged in certificates {
        let verdict = match (&judged.differences[..], judged.vacuous, judged.on_trust) {
            ([], true, _) => "verified, says nothing",
            ([], _, true) => "verified, on trust",
            ([], ..) => "verified",
            _ => "DIFFERS",
        };
        let theorem = serde_json::to_value(judged.theorem).unwrap_or_default();
        table.add_row([
            judged.round.to_string(),
            judged.kind.to_string(),
            theorem.as_str().unwrap_or_default().to_owned(),
            format!("{:.4}", judged.upper),
            verdict.to_owned(),
        ]);
    }
    for column in [0, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

fn closing(output: &Output) -> String {
    let certificates = count(output.certificates.len(), "certificate");
    let propensities = count(output.propensities, "logged propensity");
    let trust = match output.certificates.iter().any(|judged| judged.on_trust) {
        true => {
            "\non trust: that a policy was fixed before the records and chosen from no more than it says, or what collected them"
        }
        false => "",
    };
    match output.all_differences().len() {
        0 => {
            let rounds = count(output.rounds, "round");
            format!("{certificates} and {propensities} come out again from {rounds} of logs{trust}")
        }
        n => format!("NOT verified: {}", count(n, "difference")),
    }
}

/// A number and a noun.
fn count(n: usize, noun: &str) -> String {
    match (n, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (n, Some(stem)) => format!("{n} {stem}ies"),
        (n, None) => format!("{n} {noun}s"),
    }
}
