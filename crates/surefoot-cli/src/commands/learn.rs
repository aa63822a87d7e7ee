//! `surefoot learn`: learns the next policy from all rounds in the logs.

use std::path::{Path, PathBuf};

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use surefoot::Learner;
use surefoot::audit::Statement;
use surefoot::learn::{LearnerSettings, MemberKind};
use surefoot_data::{
    EncodingSettings, LearnRequest, LearnSummary, MemberSummary, Prior, ReadRequest, Reveals, Rounds,
    certificates_path, check_learned_to, check_new_folder, check_not_read, files_beside, learn_from, write_learned_to,
};
use surefoot_terminal::{Failure, Result, Running, percent, progress};

use super::folder_failure;
use crate::logs::{LogFlags, RewardFlags, logs_failure};
use crate::storage::StorageFlags;

/// Learn the next policy from all rounds in the logs, with a certificate
///
/// The first records are set aside. They determine how columns become features, and the prior if it is estimated. All
/// other records are used to learn and to certify. The certificate is valid for any policy that the search finds. The
/// policy file, with the files that it names beside it, contains everything that is needed to score raw records. The
/// certificates are written there too: for next.safetensors, to next.certificates.json.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    surefoot learn logs.parquet --out next.safetensors\n  \
    surefoot learn week1.csv week2.csv --rounds-by file --prior first.safetensors --out next.safetensors\n  \
    surefoot learn logs.csv --ignore 'user_id,pi_*' --categorical zip --reward-range 1,5 --out next.safetensors\n  \
    surefoot learn big/ --memory 4GB --cache encoded --algorithm thompson --out next.safetensors\n  \
    surefoot learn s3://bucket/logs/ --out s3://bucket/policies/next.safetensors")]
pub(crate) struct Learn {
    #[command(flatten)]
    logs: LogFlags,
    #[command(flatten)]
    reward: RewardFlags,
    /// Definition of a round: policy-version, file, or the name of a column; records with the same value are one round
    #[arg(long, value_name = "WHAT", default_value = "policy-version", help_heading = "Rounds")]
    rounds_by: String,
    /// Share of the first round that is set aside, in [0, 1). With 0, the features are fitted to all records, and
    /// nothing is certified
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, help_heading = "Rounds")]
    set_aside: f64,

    /// Columns to use as features, separated by commas [default: all columns without another role]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Features")]
    features: Option<Vec<String>>,
    /// Columns not to use as features, separated by commas; pi_* means all columns that begin with pi_
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Features")]
    ignore: Vec<String>,
    /// Columns of numbers that are categories, separated by commas
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Features")]
    categorical: Vec<String>,
    /// Largest number of categories with one feature each; a column with more categories is hashed
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Features")]
    vocabulary: usize,
    /// A hashed column has 2^BITS features; BITS is at most 20
    #[arg(long, value_name = "BITS", default_value_t = 8, help_heading = "Features")]
    hash_bits: u32,
    /// Use numbers as they are, without standardising them
    #[arg(long, help_heading = "Features")]
    raw: bool,
    /// Add no constant feature
    #[arg(long, help_heading = "Features")]
    no_intercept: bool,
    /// Products of context features and candidate features, as a pair of namespaces such as user:article; * means all.
    /// Repeat the option for several pairs; none for no products [default: all features with all, but not with the
    /// identity, unless it is all that a candidate has]
    #[arg(long, value_name = "CONTEXT:CANDIDATE", help_heading = "Candidates")]
    cross: Vec<String>,
    /// If the own features of candidates and the products are more than 2^BITS, they are hashed into so many; BITS is at
    /// most 30
    #[arg(long, value_name = "BITS", default_value_t = 18, help_heading = "Candidates")]
    cross_bits: u8,

    /// The prior: the file of the first deployed policy, uniform, or estimated (from the actions that were set aside).
    /// A policy file also determines the features
    #[arg(long, value_name = "FILE|NAME", default_value = "uniform", help_heading = "Learning")]
    prior: String,
    /// Declare that the prior was learned from other records and from none of these; without it, a policy with a
    /// learned prior is not certified
    #[arg(long, help_heading = "Learning")]
    prior_is_older: bool,
    /// Learning algorithm. portfolio takes the best of several learners, chosen by the newer part of the records that are not
    /// held back: reward models on the features (linear and logistic), on a kernel of them and on boosted trees, and seq-adj-ls;
    /// thompson is the linear reward model on the features alone
    #[arg(long, value_name = "NAME", default_value = "portfolio", help_heading = "Learning",
          value_parser = ["portfolio", "thompson", "batch-ls", "seq-ls", "seq-adj-ls"])]
    algorithm: String,
    /// portfolio: its members, separated by commas: kernel, linear, logistic, search, trees; usual is
    /// for all of them
    #[arg(long, value_name = "NAMES", default_value = "usual", help_heading = "Learning")]
    members: String,
    /// portfolio, thompson: what the policy is for: to be handed over, so that it explores as little as it can (policy),
    /// or to collect the next logs (reward)
    #[arg(long, value_name = "GOAL", default_value = "policy", help_heading = "Learning",
          value_parser = ["policy", "reward"])]
    goal: String,
    /// Scales of the posterior: one (isotropic), one per feature (per-feature), or one per principal axis of the
    /// contexts (shaped)
    #[arg(long, value_name = "SHAPE", default_value = "shaped", help_heading = "Learning",
          value_parser = ["isotropic", "per-feature", "shaped"])]
    posterior: String,
    /// Smoothing of the estimator, and strength of the divergence KL/(lambda N): auto (chosen by certificate) or a
    /// number, above 0, and below 1 for seq-adj-ls
    #[arg(long, default_value = "auto", help_heading = "Learning")]
    lambda: String,
    /// Exploration floor: share of decisions that are drawn uniformly, in [0, 1), so that later logs cover every
    /// action. A prior from a file has its own. A reward model that is handed over (--goal policy) keeps a fifth of it
    #[arg(long, value_name = "E", default_value_t = 0.05, help_heading = "Learning")]
    exploration: f64,
    /// Share of all records that are held back: the newest ones, used only to certify (and to choose lambda, without a
    /// portfolio), in [0, 0.5]
    #[arg(long, value_name = "SHARE", default_value_t = 0.2, help_heading = "Learning")]
    held_back: f64,
    /// Failure probability of each kind of certificate, in (0, 1)
    #[arg(long, default_value_t = 0.05, help_heading = "Learning")]
    delta: f64,
    /// How a search goes on: by minibatches (adam), or by whole passes (lbfgs), which resume from --cache
    #[arg(long, value_name = "NAME", default_value = "adam", help_heading = "Learning", value_parser = ["adam", "lbfgs"])]
    optimiser: String,
    /// adam: number of passes over the records, at least 1
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Learning")]
    epochs: usize,
    /// Seed of the order of the records
    #[arg(long, default_value_t = 1, help_heading = "Learning")]
    seed: u64,

    #[command(flatten)]
    storage: StorageFlags,
    /// File of the learned policy
    #[arg(long, short, value_name = "FILE", default_value = "policy.safetensors")]
    out: PathBuf,
    /// Also save rounds, prior, policy and certificates in a new folder, for surefoot verify
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,
    #[command(flatten)]
    running: Running,
}

/// The result, as it is written with `--json`.
#[derive(Debug, Serialize)]
struct Output {
    version: &'static str,
    #[serde(serialize_with = "surefoot_terminal::shown")]
    policy: PathBuf,
    /// The names of the files beside it, without which it cannot be read.
    beside: Vec<String>,
    #[serde(flatten)]
    summary: LearnSummary,
    learner: Learner,
    certificates: Vec<Statement>,
}

impl Learn {
    pub(crate) fn run(self) -> Result<()> {
        self.running.start()?;
        check_learned_to(&self.out).map_err(Failure::new)?;
        check_not_read(&self.out, self.logs.files()).map_err(Failure::new)?;
        if let Some(folder) = &self.save {
            check_new_folder(folder).map_err(folder_failure)?;
        }
        let bar = progress::doing("reading the logs", self.running.quiet);
        let reader = self.logs.reader()?.watched_by(progress::reading(bar.clone()));
        let request = self.request()?;
        let rounds = Rounds::read(&reader, &request.read, request.prior.inputs()).map_err(logs_failure)?;
        let learned = learn_from(&rounds, &request, &mut progress::Learning::new(&bar)).map_err(logs_failure)?;
        bar.finish_and_clear();
        let run = self.save.as_deref().map(|folder| (folder, &rounds.rounds[..]));
        write_learned_to(&self.out, &learned, run).map_err(Failure::new)?;
        let output = Output {
            version: env!("CARGO_PKG_VERSION"),
            policy: self.out.clone(),
            beside: files_beside(learned.policy.as_ref()),
            certificates: learned.statements(),
            learner: learned.learner,
            summary: learned.summary,
        };
        self.running.answer(&output, || text(&output, &certificates_path(&self.out), self.reward.reward_range))
    }

    fn request(&self) -> Result<LearnRequest> {
        let own = [
            ("--features", self.features.is_some()),
            ("--ignore", !self.ignore.is_empty()),
            ("--categorical", !self.categorical.is_empty()),
        ];
        let from_file = !matches!(self.prior.as_str(), "uniform" | "estimated");
        if self.prior_is_older && !from_file {
            return Err(Failure::new("--prior-is-older is about a policy file, which --prior names"));
        }
        if from_file && let Some((flag, _)) = own.iter().find(|(_, given)| *given) {
            let reason = format!("{flag} cannot be used with --prior {}, which determines the features", self.prior);
            return Err(Failure::new(reason));
        }
        let prior = match self.prior.as_str() {
            "uniform" => Prior::Uniform,
            "estimated" => Prior::Estimated,
            file => Prior::read(file.as_ref()).map_err(|e| {
                Failure::new(e).hint("a prior is a policy file written by surefoot learn, uniform, or estimated")
            })?,
        };
        Ok(LearnRequest {
            read: ReadRequest {
                grouping: self.rounds_by.parse().unwrap_or_else(|never| match never {}),
                reward_range: self.reward.reward_range,
                encoding: EncodingSettings {
                    features: self.features.clone(),
                    ignore: self.ignore.clone(),
                    categorical: self.categorical.clone(),
                    vocabulary: self.vocabulary,
                    hash_bits: self.hash_bits,
                    standardise: !self.raw,
                    crosses: match &self.cross[..] {
                        [] => None,
                        [one] if one == "none" => Some(Vec::new()),
                        crosses => Some(crosses.to_vec()),
                    },
                    cross_bits: self.cross_bits,
                },
                set_aside: self.set_aside,
                storage: self.storage.storage(),
                engine: None,
            },
            prior,
            prior_is_older: self.prior_is_older,
            learner: self.learner()?,
            held_back: self.held_back,
            exploration: self.exploration,
            intercept: !self.no_intercept,
            contenders: Vec::new(),
        })
    }

    fn learner(&self) -> Result<Learner> {
        let settings = LearnerSettings {
            algorithm: self.algorithm.clone(),
            members: self.members.clone(),
            goal: self.goal.clone(),
            posterior: self.posterior.clone(),
            lambda: self.lambda.clone(),
            delta: self.delta,
            optimiser: self.optimiser.clone(),
            epochs: self.epochs,
            seed: self.seed,
            ..LearnerSettings::default()
        };
        Ok(settings.learner()?.0)
    }
}

/// The first few columns.
fn shortened(columns: &[String]) -> String {
    const SHOWN: usize = 6;
    let shown = columns[..columns.len().min(SHOWN)].join(", ");
    if columns.len() > SHOWN { format!("{shown}, ... ({} in all)", columns.len()) } else { shown }
}

fn plus_minus([value, error]: [f64; 2]) -> String {
    format!("{value:.4} ± {error:.4}")
}

fn text(output: &Output, certificates: &Path, rewards: [f64; 2]) -> String {
    let summary = &output.summary;
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let total: usize = summary.rounds.iter().map(|round| round.records).sum();
    let percent = percent(summary.confidence);
    let rounds = match summary.rounds.len() {
        1 => "1 round".to_owned(),
        n => format!("{n} rounds"),
    };
    table.add_row(["records", &format!("{total} in {rounds}")]);
    table.add_row(["set aside", &summary.set_aside.to_string()]);
    table.add_row(["held back", &summary.held_back.to_string()]);
    if summary.skipped > 0 {
        table.add_row(["skipped on request of the logger", &summary.skipped.to_string()]);
    }
    if summary.unlabelled > 0 {
        table.add_row(["without a label, left out", &summary.unlabelled.to_string()]);
    }
    table.add_row(["features", &summary.features.to_string()]);
    table.add_row(["... from the columns", &shortened(&summary.columns)]);
    match &summary.candidates {
        None => table.add_row(["actions", &summary.actions.to_string()]),
        Some(candidates) => {
            table.add_row(["candidates of a record, at most", &summary.actions.to_string()]);
            table.add_row(["features of a candidate", &candidates.features.to_string()]);
            table.add_row(["... from the fields", &shortened(&candidates.columns)]);
            let hashed = if candidates.hashed { "hashed to " } else { "" };
            table.add_row(["joint features", &format!("{hashed}{}", candidates.joint)])
        }
    };
    if summary.members.is_empty() {
        table.add_row(["lambda", &summary.lambda.to_string()]);
    }
    for MemberSummary { member, estimate, at_least, .. } in &summary.members {
        let number = |value: &Option<f64>| value.map_or("nothing".into(), |value| format!("{value:.4}"));
        let label = format!("learner {member}, estimated and certified alone");
        table.add_row([&label, &format!("{}, {}", number(estimate), number(at_least))]);
    }
    if let Some(MemberSummary { member, .. }) = summary.members.iter().find(|member| member.leads) {
        // The estimate of another reward model may be higher: estimates of policies differ far more by chance than predictions do.
        let what = if *member == MemberKind::Search { "estimate" } else { "predictions" };
        let label = format!("... chosen for its {what}, by records that are not held back");
        table.add_row([&label, &member.to_string()]);
    }
    table.add_row(["reward of the newest round", &plus_minus(summary.logged)]);
    table.add_row(["reward of the new policy, estimated", &plus_minus(summary.estimate)]);
    let at_least = summary.at_least.map_or("nothing".into(), |reward| format!("at least {reward:.4} ({percent})"));
    let certified = if summary.certified { "... certified" } else { "... NOT certified" };
    table.add_row([certified, &at_least]);
    let better = summary.better_by.map_or("nothing".into(), |reward| format!("at least {reward:+.4} ({percent})"));
    table.add_row(["... more than the newest round", &better]);
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let warnings: String = summary.warnings.iter().map(|warning| format!("\nwarning: {warning}")).collect();
    let on_trust = match output.certificates[..] {
        [] => String::new(),
        _ => super::on_trust(output.certificates.iter().map(|statement| &statement.certificate), Some(rewards)),
    };
    let beside = match output.beside[..] {
        [] => String::new(),
        _ => format!(" with {} beside it", output.beside.join(" and ")),
    };
    let reveals = revealed(&summary.reveals);
    format!(
        "{}\n\nwrote {}{beside} and {}{reveals}{on_trust}{warnings}",
        table.trim_fmt(),
        output.policy.display(),
        certificates.display()
    )
}

/// A line with the raw values of the logs that the files contain.
fn revealed(reveals: &Reveals) -> String {
    let mut parts: Vec<String> =
        reveals.vocabularies.iter().map(|listed| format!("{} values of {}", listed.values, listed.column)).collect();
    if reveals.action_names > 0 {
        parts.push(format!("{} names of actions", reveals.action_names));
    }
    if reveals.landmarks > 0 {
        parts.push(format!("{} contexts as landmarks of the kernel", reveals.landmarks));
    }
    if reveals.thresholds > 0 {
        parts.push(format!("{} thresholds of trees, each between two values of a feature", reveals.thresholds));
    }
    match parts.is_empty() {
        true => String::new(),
        false => format!("\nreadable in these files: {}", parts.join(", ")),
    }
}
