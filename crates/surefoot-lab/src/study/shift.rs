//! `surefoot study shift`: the benefit of forgetting if contexts shift, and the certificates there.

mod report;
mod run;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use surefoot_terminal::figure::{self, Figure};
use surefoot_terminal::{Failure, Result, Running};

use crate::experiment::over_seeds;
use crate::options::{Config, Options, Text};
use report::Report;
use run::{METHODS, Run};

/// Compare learners that use all rounds with learners that use only the newest, in a world whose contexts shift
///
/// The mean context rotates by a number of degrees per round; the costs given a context do not change. SeqLS and
/// SeqAdjLS learn from all rounds. Shift (Algorithm 3) learns from the newest round, with the running policy as prior.
/// The risk of a policy is its risk in the world of the next round, where it runs. Theorem 3.2 and the ladder assume
/// that all contexts come from one distribution; the study counts the runs in which their certificate is below the risk
/// in the world of the next round. Theorem C.1 has no such assumption. It bounds another quantity: the mean over rounds
/// of each policy's risk in the world that it was learned from. The defaults of this study are --dataset drift
/// --dimensions 2 --exploration 0.1 --lambda 0.4 --rounds 20 --learning-rate 0.05.
#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  surefoot study shift --output shift\n  \
    surefoot study shift --features rff:3 --drifts 0,9,18 --seeds 40\n  \
    surefoot study shift --dimensions 10 --lambda 0.1 --drifts 0,18 --json"
)]
pub(super) struct Shift {
    #[command(flatten)]
    options: Options,
    /// Number of seeds per speed and method, from 1 to 100,000; each seed has its own world
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: u64,
    /// Speeds of the drift in degrees per round, separated by commas; 0 is the control
    #[arg(long, value_name = "DEGREES", value_delimiter = ',', default_value = "0,2,4.5,9")]
    drifts: Vec<f64>,
    /// Write a figure of the first and the last speed to STEM.svg and STEM.png
    #[arg(long, value_name = "STEM")]
    output: Option<PathBuf>,
    #[command(flatten)]
    running: Running,
}

impl Shift {
    pub(super) fn run(self) -> Result<()> {
        self.running.start()?;
        if let Some(stem) = &self.output {
            figure::check(stem)?;
        }
        let given = &self.options;
        for (flag, given, hint) in [
            ("--drift", given.drift.is_some(), "use --drifts, a list"),
            (
                "--schedule",
                given.schedule.is_some(),
                "its rounds are of equal size: means over them are means over records",
            ),
            ("--algorithm", given.algorithm.is_some(), "it runs seq-ls, seq-adj-ls, shift-ls and shift-adj-ls"),
        ] {
            if given {
                return Err(Failure::new(format!("{flag} is set by this study")).hint(hint));
            }
        }
        if given.dataset.as_ref().is_some_and(|dataset| dataset != "drift") {
            return Err(Failure::new("--dataset should be drift: the others stand still")
                .hint("--drifts 0 is a world that stands still"));
        }
        let config = Config { certify: true, ..self.options.or(defaults()).complete() };
        let methods = self.drifts.iter().flat_map(|&drift| METHODS.map(|method| (drift, method)));
        let with = |(drift, method): (f64, &str)| Config { drift, algorithm: method.into(), ..config.clone() };
        let configs: Vec<Config> = methods.map(with).collect();
        let clock = Instant::now();
        let runs = over_seeds(&configs, self.seeds, self.running.quiet, |_, experiment, outcome| {
            Run::new(experiment, &outcome)
        })?;
        let report = Report::new(config, self.seeds, &self.drifts, &runs);
        if let Some(stem) = &self.output {
            let paths = Figure::write_grid(&report.figures(), 1, stem)?;
            surefoot_terminal::note(&format!("wrote {} and {}\n", paths[0].display(), paths[1].display()));
        }
        self.running.answer(&report, || format!("{}\n{:.0} s", report.text(), clock.elapsed().as_secs_f64()))
    }
}

/// Settings in which a shift matters. With two features, the contexts of one round cover about 60 of 360 degrees. The
/// floor keeps the probability of every action above 0 until its contexts come. The steps are long enough for Adam to
/// converge on a round of a few hundred records.
fn defaults() -> Options {
    Options {
        dataset: Some("drift".into()),
        dimensions: Some(2),
        exploration: Some(0.1),
        lambda: Some(Text("0.4".into())),
        rounds: Some(20),
        learning_rate: Some(0.05),
        ..Options::default()
    }
}
