//! `surefoot learn`: the next policy, from all rounds that are in the logs.

use std::path::{Path, PathBuf};

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use surefoot::contexts::Labelled;
use surefoot::learn::{Retrained, retrain};
use surefoot::observer::Observer;
use surefoot::{Certificate, FeatureMap, Fingerprint, Learner, LinearGaussian, Logs, Policy, RewardRange};
use surefoot_data::{
    Encode, EncodingSettings, Grouping, Inputs, Kind, Lineage, PolicyReader, Rounds, Scan, Statement,
    write_certificates, write_policy_with,
};

use super::Running;
use crate::experiment;
use crate::failure::{Failure, Result};
use crate::files::with_suffix;
use crate::logs::{LogFlags, RewardFlags};
use crate::options::{Options, Text};
use crate::{bundle, progress};

/// Learn the next policy from all rounds in the logs, with a certificate
///
/// The first records are set aside: they fix how columns become features, and the prior if it is estimated. All others are
/// learned from and certified on; what is certified holds whatever the policy is. The policy file has all that is needed to
/// score raw records; beside it, FILE.certificates.json has what is proven about it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    surefoot learn logs.parquet --out next.safetensors\n  \
    surefoot learn week1.csv week2.csv --rounds-by file --prior first.safetensors --out next.safetensors\n  \
    surefoot learn logs.csv --ignore 'user_id,pi_*' --categorical zip --reward-range 1,5 --out next.safetensors")]
pub(crate) struct Learn {
    #[command(flatten)]
    logs: LogFlags,
    #[command(flatten)]
    reward: RewardFlags,
    /// What makes a round: policy-version, file, or a column
    #[arg(long, value_name = "WHAT", default_value = "policy-version", help_heading = "Rounds")]
    rounds_by: String,
    /// Share of the first round that is set aside; with 0, features are fitted to all records, and nothing is certified
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, help_heading = "Rounds")]
    set_aside: f64,

    /// The columns that are features, separated by commas [default: all that are nothing else]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Features")]
    features: Option<Vec<String>>,
    /// ColumnNames that are not; pi_* stands for all that begin with pi_
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Features")]
    ignore: Vec<String>,
    /// ColumnNames of numbers that stand for categories
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Features")]
    categorical: Vec<String>,
    /// The most categories that have a feature each; a column with more is hashed
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Features")]
    vocabulary: usize,
    /// A column is hashed to 2^BITS features
    #[arg(long, value_name = "BITS", default_value_t = 8, help_heading = "Features")]
    hash_bits: u32,
    /// Take numbers as they are instead of standardising them
    #[arg(long, help_heading = "Features")]
    raw: bool,
    /// Add no constant feature
    #[arg(long, help_heading = "Features")]
    no_intercept: bool,

    /// The prior: the file of the first policy that was deployed, uniform, or estimated (from the actions that were set
    /// aside). A file brings its own features
    #[arg(long, value_name = "FILE|NAME", default_value = "uniform", help_heading = "Learning")]
    prior: String,
    /// The prior was not learned from any of these records, though from others
    #[arg(long, help_heading = "Learning")]
    prior_is_older: bool,
    /// How it is learned
    #[arg(long, value_name = "NAME", default_value = "seq-adj-ls", help_heading = "Learning",
          value_parser = ["batch-ls", "seq-ls", "seq-adj-ls"])]
    algorithm: String,
    /// Scales of the posterior: one, one a feature, or one a principal axis of the contexts
    #[arg(long, value_name = "SHAPE", default_value = "shaped", help_heading = "Learning",
          value_parser = ["isotropic", "per-feature", "shaped"])]
    posterior: String,
    /// Smoothing and strength of the divergence: auto (chosen by certificate) or a number
    #[arg(long, default_value = "auto", help_heading = "Learning")]
    lambda: Text,
    /// Share of decisions that are drawn uniformly, so that later logs can tell of every action; a prior from a file brings
    /// its own
    #[arg(long, value_name = "E", default_value_t = 0.05, help_heading = "Learning")]
    exploration: f64,
    /// Share of all records, the newest, that only choose and certify
    #[arg(long, value_name = "SHARE", default_value_t = 0.2, help_heading = "Learning")]
    held_back: f64,
    /// Probability with which what is said of a kind may be wrong
    #[arg(long, default_value_t = 0.05, help_heading = "Learning")]
    delta: f64,
    /// Passes over the records
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Learning")]
    epochs: usize,
    /// Seed of the order of the records
    #[arg(long, default_value_t = 1, help_heading = "Learning")]
    seed: u64,

    /// Where the policy is written
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
    policy: PathBuf,
    /// The basis of the policy, which is a file beside it.
    basis: Option<Fingerprint>,
    rounds: Vec<RoundOutput>,
    set_aside: usize,
    held_back: usize,
    skipped: usize,
    features: usize,
    actions: usize,
    learner: Learner,
    lambda: f64,
    kl: f64,
    /// Whether what is certified rests on nothing that was fitted to the records it is certified on.
    certified: bool,
    /// The mean reward of the newest round, and its standard error.
    logged: [f64; 2],
    /// The reward of the new policy by self-normalised importance weights, on what was held back (on all records, if nothing
    /// was), and its standard error.
    estimate: [f64; 2],
    /// What it is at least, if that says anything.
    at_least: Option<f64>,
    /// How much more than the newest round it brings at least; below 0 if it is not shown to bring more.
    better_by: f64,
    confidence: f64,
    certificates: Vec<Statement>,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct RoundOutput {
    name: String,
    records: usize,
}

impl Learn {
    pub(crate) fn run(self) -> Result<()> {
        self.running.start()?;
        if let Some(folder) = &self.save {
            bundle::check(folder)?;
        }
        let range = self.reward.range()?;
        let reader = self.logs.reader();
        let grouping = match self.rounds_by.as_str() {
            "policy-version" => Grouping::PolicyVersion,
            "file" => Grouping::File,
            column => Grouping::Column(column.into()),
        };
        let bar = progress::doing("looking at the logs", self.running.quiet);
        let scan = Scan::of(&reader, &grouping).map_err(Failure::new)?;
        let known = self.known_prior()?;
        let actions = match &known {
            Some((_, inputs)) => inputs.actions.clone(),
            None => self.logs.named(&scan.actions),
        };
        let encode = match &known {
            Some((_, inputs)) => Encode::Known(inputs.encoding.clone()),
            None => Encode::Fit { settings: self.encoding(), set_aside: self.set_aside },
        };
        bar.set_message("reading the logs");
        let rounds = Rounds::read(&reader, &scan, &actions, &grouping, range, encode)
            .map_err(|e| Failure::new(e).hint("surefoot lint tells all that is wrong with logs at once"))?;
        if rounds.rounds.is_empty() {
            return Err(Failure::new("no record is left to learn from").hint("set a smaller share aside"));
        }
        // Whether what is certified rests on nothing that may know the records: the prior, and how they were encoded.
        let certified = match &known {
            Some((_, inputs)) => inputs.lineage.logs.is_empty() || self.prior_is_older,
            None => rounds.set_aside.is_some(),
        };
        let prior = match known {
            Some((policy, _)) => policy,
            None => self.prior(&rounds, actions.len())?,
        };
        let learner = self.learner(&rounds.rounds)?;
        let mut output = self.learn(&learner, &prior, certified, &rounds, range, &mut progress::Learning(&bar))?;
        bar.finish_and_clear();
        output.0.skipped = scan.skipped;
        if scan.interleaved {
            output.0.warnings.push("rounds are interleaved: a policy goes on after another has begun".into());
        }
        let (output, policy) = output;
        let lineage = Lineage {
            prior: Some(prior.fingerprint()),
            logs: rounds.rounds.iter().map(Logs::fingerprint).collect(),
            learner: Some(learner),
            made_by: format!("surefoot {}", env!("CARGO_PKG_VERSION")),
        };
        let inputs = Inputs::new(actions, rounds.encoding, self.reward.reward_range, lineage);
        write_policy_with(&self.out, &policy, Some(&inputs)).map_err(Failure::new)?;
        let stem = match self.out.extension() {
            Some(end) if end == "safetensors" => self.out.with_extension(""),
            _ => self.out.clone(),
        };
        let certificates = with_suffix(&stem, ".certificates.json");
        write_certificates(&certificates, output.certificates.clone()).map_err(Failure::new)?;
        if let Some(folder) = &self.save {
            let learned = [(&prior, &inputs), (&policy, &inputs)];
            bundle::save_learned(folder, &learned, &rounds.rounds, output.certificates.clone())?;
        }
        self.running.answer(&output, || text(&output, &certificates))
    }

    /// The first policy, if it is given.
    fn known_prior(&self) -> Result<Option<(LinearGaussian, Inputs)>> {
        if ["uniform", "estimated"].contains(&self.prior.as_str()) {
            return Ok(None);
        }
        let (policy, inputs) = PolicyReader::default().read_with(self.prior.as_ref()).map_err(|e| {
            Failure::new(e).hint("a prior is the file of a policy that surefoot learn wrote, uniform, or estimated")
        })?;
        let inputs = inputs.ok_or_else(|| {
            Failure::new(format!("{}: the policy does not say how records become its features", self.prior))
        })?;
        Ok(Some((policy, inputs)))
    }

    fn encoding(&self) -> EncodingSettings {
        EncodingSettings {
            features: self.features.clone(),
            ignore: self.ignore.clone(),
            categorical: self.categorical.clone(),
            vocabulary: self.vocabulary,
            hash_bits: self.hash_bits,
            standardise: !self.raw,
        }
    }

    /// The prior that no file has: it prefers no action, or those that were logged.
    fn prior(&self, rounds: &Rounds, actions: usize) -> Result<LinearGaussian> {
        let map = FeatureMap::identity(rounds.encoding.width());
        let map = if self.no_intercept { map } else { map.with_intercept() };
        let prior = if self.prior == "uniform" {
            LinearGaussian::standard(map, actions)?
        } else {
            let first = &rounds.rounds[0];
            let (contexts, labels) = match &rounds.set_aside {
                Some((contexts, labels)) => (contexts.clone(), labels.clone()),
                None => (first.contexts().clone(), first.action().to_vec()),
            };
            LinearGaussian::imitating(map, &Labelled::new(contexts, labels)?, actions)?
        };
        Ok(prior.with_exploration(self.exploration)?)
    }

    fn learner(&self, rounds: &[Logs]) -> Result<Learner> {
        let config = Options {
            algorithm: Some(self.algorithm.clone()),
            posterior: Some(self.posterior.clone()),
            lambda: Some(self.lambda.clone()),
            delta: Some(self.delta),
            epochs: Some(self.epochs),
            seed: Some(self.seed),
            ..Options::default()
        };
        let learner = experiment::learner(&config.complete(), rounds.len())?;
        if !(0.0..=0.5).contains(&self.held_back) {
            return Err(Failure::new(format!("the share held back should be in [0, 0.5], but is {}", self.held_back)));
        }
        let records: usize = rounds.iter().map(Logs::len).sum();
        let newest = rounds.last().map_or(1, Logs::len);
        Ok(Learner { held_back: self.held_back * records as f64 / newest as f64, ..learner })
    }

    fn learn(
        &self,
        learner: &Learner,
        prior: &LinearGaussian,
        certified: bool,
        rounds: &Rounds,
        range: RewardRange,
        observer: &mut dyn Observer,
    ) -> Result<(Output, LinearGaussian)> {
        let logs = &rounds.rounds;
        let Retrained { policy, round, proven, better, logged, estimate, held_back, .. } =
            retrain(learner, prior, logs, observer)?;
        let width = range.reward(-1.0) - range.reward(0.0);
        let statement =
            |kind, certificate: &Certificate| Statement { round: logs.len(), kind, certificate: certificate.clone() };
        let output = Output {
            version: env!("CARGO_PKG_VERSION"),
            policy: self.out.clone(),
            basis: policy.posterior().basis().map(|basis| basis.fingerprint()),
            rounds: logs.iter().map(|l| RoundOutput { name: l.policy_version().into(), records: l.len() }).collect(),
            set_aside: rounds.set_aside.as_ref().map_or(0, |(_, actions)| actions.len()),
            held_back,
            skipped: 0,
            features: rounds.encoding.width(),
            actions: policy.actions(),
            learner: learner.clone(),
            lambda: round.lambda,
            kl: round.kl,
            certified,
            logged: [range.reward(logged.0), logged.1 * width],
            estimate: [range.reward(estimate.value), estimate.standard_error * width],
            at_least: (!proven.vacuous).then(|| range.reward(proven.upper)),
            better_by: -better.upper * width,
            confidence: 1.0 - self.delta,
            certificates: vec![statement(Kind::Ladder, &proven), statement(Kind::Gate, &better)],
            warnings: warnings(certified, &proven, &better),
        };
        Ok((output, policy))
    }
}

/// What the user should not overlook.
fn warnings(certified: bool, proven: &Certificate, better: &Certificate) -> Vec<String> {
    let mut warnings = Vec::new();
    if !certified {
        warnings.push(
            "NOT certified: features or prior may have been fitted to the records that the numbers are from; set some \
             aside, or say --prior-is-older of a prior that was learned from earlier logs"
                .into(),
        );
    }
    if proven.vacuous {
        warnings.push("these logs cannot certify any reward of the new policy above the lowest".into());
    } else if better.upper >= 0.0 {
        warnings.push(
            "these logs do not show that the new policy is better than what collected the newest round: deploy it to \
             part of the traffic, or collect more"
                .into(),
        );
    }
    warnings
}

fn plus_minus([value, error]: [f64; 2]) -> String {
    format!("{value:.4} ± {error:.4}")
}

fn text(output: &Output, certificates: &Path) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let total: usize = output.rounds.iter().map(|round| round.records).sum();
    let percent = format!("{:.0} %", 100.0 * output.confidence);
    let rounds = match output.rounds.len() {
        1 => "1 round".to_owned(),
        n => format!("{n} rounds"),
    };
    table.add_row(["records", &format!("{total} in {rounds}")]);
    table.add_row(["set aside", &output.set_aside.to_string()]);
    table.add_row(["held back", &output.held_back.to_string()]);
    if output.skipped > 0 {
        table.add_row(["skipped, as the logger asks", &output.skipped.to_string()]);
    }
    table.add_row(["features", &output.features.to_string()]);
    table.add_row(["actions", &output.actions.to_string()]);
    table.add_row(["lambda", &output.lambda.to_string()]);
    table.add_row(["reward of the newest round", &plus_minus(output.logged)]);
    table.add_row(["reward of the new policy, estimated", &plus_minus(output.estimate)]);
    let at_least = output.at_least.map_or("nothing".into(), |reward| format!("at least {reward:.4} ({percent})"));
    table.add_row(["... certified", &at_least]);
    let better = format!("at least {:+.4} ({percent})", output.better_by);
    table.add_row(["... more than the newest round", &better]);
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let warnings: String = output.warnings.iter().map(|warning| format!("\nwarning: {warning}")).collect();
    let on_trust = super::on_trust(output.certificates.iter().map(|statement| &statement.certificate));
    let on_trust = format!("{on_trust}; that there are no other actions than those in the logs");
    let beside = output.basis.map_or_else(String::new, |print| format!(", basis-{print}.safetensors beside it"));
    format!(
        "{}\n\nwrote {}{beside} and {}{on_trust}{warnings}",
        table.trim_fmt(),
        output.policy.display(),
        certificates.display()
    )
}
