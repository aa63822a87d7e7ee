//! `surefoot study trade`: the cost of a better certificate in risk.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use surefoot::simulate::Outcome;
use surefoot_terminal::figure::{self, Figure, Series};
use surefoot_terminal::{Failure, Result, Running};

use crate::experiment::over_seeds;
use crate::options::{Config, Options, Text};
use crate::statistics::mean_and_deviation;

/// Show the trade-off between certified and true risk, over lambda and over the number of records held back
///
/// A larger lambda allows a larger divergence: the true risk is lower, but the certificate is weaker. Records that are
/// held back give a certificate without a divergence, but are learned from only a round later. The defaults are
/// --algorithm seq-adj-ls and --posterior shaped in this study.
#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  surefoot study trade --output trade\n  \
    surefoot study trade --dataset path/to/mnist --seeds 1 --held-backs 0,1 --lambdas 0.4,0.9,auto"
)]
pub(super) struct Trade {
    #[command(flatten)]
    options: Options,
    /// Number of seeds per setting, from 1 to 100,000
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: u64,
    /// Numbers of rounds to hold back, separated by commas; each as in --held-back
    #[arg(long, value_name = "ROUNDS", value_delimiter = ',', default_value = "0,0.5,1,2")]
    held_backs: Vec<Text>,
    /// Lambdas, separated by commas; each as in --lambda
    #[arg(long, value_name = "LAMBDAS", value_delimiter = ',', default_value = "0.1,0.2,0.4,0.9,auto")]
    lambdas: Vec<Text>,
    /// Write a figure to STEM.svg and STEM.png
    #[arg(long, value_name = "STEM")]
    output: Option<PathBuf>,
    #[command(flatten)]
    running: Running,
}

/// The result of a setting after the last round: means over seeds.
#[derive(Debug, Serialize)]
struct Setting {
    held_back: Text,
    lambda: Text,
    true_risk: f64,
    /// The standard deviation of the true risk over seeds.
    deviation: f64,
    /// The bound of the best rung of the ladder.
    certified: f64,
    /// The bound of Theorem 3.2 with the first policy as prior.
    first_prior: f64,
    /// The mean reward of all interactions.
    mean_reward: f64,
}

/// The JSON output.
#[derive(Debug, Serialize)]
struct Output<'a> {
    version: &'static str,
    seeds: u64,
    config: &'a Config,
    settings: &'a [Setting],
}

impl Trade {
    pub(super) fn run(self) -> Result<()> {
        self.running.start()?;
        if let Some(stem) = &self.output {
            figure::check(stem)?;
        }
        for (flag, given) in
            [("--lambda", self.options.lambda.is_some()), ("--held-back", self.options.held_back.is_some())]
        {
            if given {
                return Err(
                    Failure::new(format!("{flag} is what this study varies")).hint(format!("use {flag}s, a list"))
                );
            }
        }
        let (algorithm, posterior) = (Some("seq-adj-ls".into()), Some("shaped".into()));
        let shaped = Options { algorithm, posterior, ..Options::default() };
        let config = Config { certify: true, ..self.options.or(shaped).complete() };
        let pairs = self.held_backs.iter().flat_map(|h| self.lambdas.iter().map(move |l| (h.clone(), l.clone())));
        let with = |(held_back, lambda)| Config { held_back, lambda, ..config.clone() };
        let configs: Vec<Config> = pairs.map(with).collect();
        let clock = Instant::now();
        let runs = over_seeds(&configs, self.seeds, self.running.quiet, |_, _, outcome| Ok(last(&outcome)))?;
        let setting = |(config, runs): (Config, Vec<[f64; 4]>)| {
            let at = |i: usize| mean_and_deviation(runs.iter().map(|run| run[i]));
            let ((true_risk, deviation), (certified, _), (first_prior, _)) = (at(0), at(1), at(2));
            let Config { held_back, lambda, .. } = config;
            Setting { held_back, lambda, true_risk, deviation, certified, first_prior, mean_reward: at(3).0 }
        };
        let settings: Vec<Setting> = configs.into_iter().zip(runs).map(setting).collect();
        if let Some(stem) = &self.output {
            let paths = figure(&config, &settings).write(stem)?;
            surefoot_terminal::note(&format!("wrote {} and {}\n", paths[0].display(), paths[1].display()));
        }
        let output =
            Output { version: env!("CARGO_PKG_VERSION"), seeds: self.seeds, config: &config, settings: &settings };
        self.running.answer(&output, || {
            format!(
                "Certified against true risk on {}: {} rounds, {} seeds, delta {}, {:.0} s\n\n{}",
                config.dataset,
                config.rounds,
                self.seeds,
                config.delta,
                clock.elapsed().as_secs_f64(),
                table(&settings),
            )
        })
    }
}

/// The true risk, the two certificates and the mean reward after the last round.
fn last(outcome: &Outcome) -> [f64; 4] {
    let end = outcome.rounds.last().expect("a schedule has a round");
    let proven = end.proven.as_ref();
    let ladder = proven.and_then(|proven| proven.ladder.as_ref()).map_or(f64::NAN, |c| c.upper);
    let first_prior = proven.and_then(|proven| proven.certificate.as_ref()).map_or(f64::NAN, |c| c.upper);
    [end.true_risk, ladder, first_prior, outcome.mean_reward()]
}

fn table(settings: &[Setting]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["held back", "lambda", "true risk", "certified", "slack", "prior pi_0", "reward while learning"]);
    for s in settings {
        table.add_row([
            s.held_back.0.clone(),
            s.lambda.0.clone(),
            format!("{:.4} ± {:.4}", s.true_risk, s.deviation),
            format!("{:.4}", s.certified),
            format!("{:.4}", s.certified - s.true_risk),
            format!("{:.4}", s.first_prior),
            format!("{:.3}", s.mean_reward),
        ]);
    }
    table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table.trim_fmt()
}

/// The figure, with one line per number of rounds held back, through its lambdas.
fn figure(config: &Config, settings: &[Setting]) -> Figure {
    let mut series: Vec<Series> = Vec::new();
    let numbered = |s: &&Setting| s.lambda.0 != "auto";
    for s in settings {
        let label = format!("{} held back", s.held_back.0);
        if series.iter().any(|line| line.label == label) {
            continue;
        }
        let own = settings.iter().filter(|other| other.held_back == s.held_back);
        let points = own.filter(numbered).map(|s| (s.true_risk, s.certified)).collect();
        series.push(Series { label, points, ..Series::default() });
    }
    let chosen = settings.iter().filter(|s| !numbered(s)).map(|s| (s.true_risk, s.certified)).collect();
    series.insert(0, Series { label: "lambda auto".into(), points: chosen, events: true, ..Series::default() });
    Figure {
        title: format!("The trade on {}: lines go through growing lambdas", config.dataset),
        x_label: "true risk".into(),
        y_label: "certified risk".into(),
        series,
        ..Figure::default()
    }
}
