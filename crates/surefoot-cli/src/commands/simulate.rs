//! `surefoot simulate`: one configuration.

use std::path::PathBuf;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use surefoot::SimulatedRound;

use crate::experiment::{Beginning, Experiment, dataset};
use crate::failure::{Failure, Result};
use crate::figure::{self, Figure, Series};
use crate::options::{Config, Options};
use crate::progress;

/// Run the loop of deploying, logging and learning in a simulated world
///
/// There the truth is known: after each round it tells the true risk of the policy learned (lower is better, -1 is best), its accuracy (how often
/// it takes the best action) and its divergence from the prior. The same seed gives the same result for every number
/// of threads.
#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  \
    surefoot simulate --dataset digits --algorithm seq-adj-ls --rounds 10 --seed 1\n  \
    surefoot simulate --dataset path/to/mnist --posterior shaped --features rff:1500 --json\n  \
    surefoot simulate --config settings.toml --plot risk"
)]
pub(crate) struct Simulate {
    #[command(flatten)]
    options: Options,
    /// Read settings from a TOML file; flags win over it
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    config: Option<PathBuf>,
    /// Threads; 0 for one a core. It does not change the result
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = super::threads(), help_heading = "Run")]
    threads: u64,
    /// Write the result as one JSON object
    #[arg(long, help_heading = "Run")]
    json: bool,
    /// Draw risk per round into STEM.svg and STEM.png
    #[arg(long, value_name = "STEM", help_heading = "Run")]
    plot: Option<PathBuf>,
    /// Show no progress
    #[arg(long, short, help_heading = "Run")]
    quiet: bool,
}

/// The result, as it is written with `--json`.
#[derive(Debug, Serialize)]
struct Output<'a> {
    version: &'static str,
    config: &'a Config,
    initial: Beginning,
    rounds: Vec<RoundOutput>,
}

/// A round, as it is written with `--json`.
#[derive(Debug, Serialize)]
struct RoundOutput {
    round: usize,
    n: usize,
    true_risk: f64,
    accuracy: f64,
    kl: f64,
    lambda: f64,
    objective: Option<f64>,
    mean_cost: f64,
    seconds: f64,
}

impl RoundOutput {
    fn new(round: &SimulatedRound) -> Self {
        RoundOutput {
            round: round.round,
            n: round.learned.n,
            true_risk: round.true_risk,
            accuracy: round.accuracy,
            kl: round.learned.kl,
            lambda: round.learned.lambda,
            objective: round.learned.trace.objective.last().copied(),
            mean_cost: round.mean_cost,
            seconds: round.seconds,
        }
    }
}

impl Simulate {
    pub(crate) fn run(self) -> Result<()> {
        super::use_threads(self.threads)?;
        if let Some(stem) = &self.plot {
            figure::check(stem)?;
        }
        let config = self.options.with_file(self.config.as_ref())?.complete();
        let experiment = Experiment::new(&config, dataset(&config)?.as_ref())?;
        let initial = experiment.beginning()?;
        let bar = progress::bar(experiment.rounds(), self.quiet);
        let rounds = experiment.run(|round| {
            bar.set_message(format!("risk {:.4}", round.true_risk));
            bar.inc(1);
        });
        bar.finish_and_clear();
        let rounds: Vec<RoundOutput> = rounds?.rounds.iter().map(RoundOutput::new).collect();
        if let Some(stem) = &self.plot {
            let paths = figure(&config, initial, &rounds).write(stem).map_err(|e| Failure::file(stem, "written", e))?;
            eprintln!("wrote {} and {}", paths[0].display(), paths[1].display());
        }
        if self.json {
            let output = Output { version: env!("CARGO_PKG_VERSION"), config: &config, initial, rounds };
            super::print(&serde_json::to_string_pretty(&output).map_err(Failure::new)?)
        } else {
            super::print(&table(initial, &rounds))
        }
    }
}

fn table(initial: Beginning, rounds: &[RoundOutput]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["round", "records", "true risk", "accuracy", "KL", "mean cost", "seconds"]);
    table.add_row(["0", "", &format!("{:.4}", initial.true_risk), &format!("{:.4}", initial.accuracy)]);
    for r in rounds {
        table.add_row([
            r.round.to_string(),
            r.n.to_string(),
            format!("{:.4}", r.true_risk),
            format!("{:.4}", r.accuracy),
            format!("{:.1}", r.kl),
            format!("{:.4}", r.mean_cost),
            format!("{:.2}", r.seconds),
        ]);
    }
    table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    format!("{}\n\nbest possible risk {:.4}", table.trim_fmt(), initial.optimal_risk)
}

fn figure(config: &Config, initial: Beginning, rounds: &[RoundOutput]) -> Figure {
    let first = std::iter::once((0.0, initial.true_risk));
    let points = first.chain(rounds.iter().map(|r| (r.round as f64, r.true_risk))).collect();
    let last = rounds.len() as f64;
    Figure {
        title: format!("{} on {}", config.algorithm, config.dataset),
        x_label: "round".into(),
        y_label: "true risk".into(),
        series: vec![
            Series { label: config.algorithm.clone(), points, ..Series::default() },
            Series {
                label: "best possible".into(),
                points: vec![(0.0, initial.optimal_risk), (last, initial.optimal_risk)],
                dashed: true,
                ..Series::default()
            },
        ],
        ..Figure::default()
    }
}
