//! `surefoot study rates`: measures how fast the policies of a loop approach the best policy.

mod report;
mod run;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use rayon::prelude::*;
use surefoot::Lambda;
use surefoot_terminal::{Result, Running, figure, progress};

use report::{MethodResult, Report};
use run::{METHODS, Size, run};

/// Measure how fast policies approach the best one, and compare with the proven rates
///
/// SeqLS and SeqAdjLS learn in a synthetic world, where margin, coverage and the best policy are known. All policies
/// draw a share of 0.2 of their decisions uniformly, because the rates need coverage; the best policy is the best of
/// these. The study shows the difference between the risk of each round's policy and that of the best policy, the slope
/// of the difference on logarithmic axes (over the last three quarters of the rounds) beside the theory's slope, and
/// whether Lemma 4.3 and Propositions 3.3 and 4.2 held.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    surefoot study rates\n  \
    surefoot study rates --rounds 64 --seeds 10 --output figures/rates --json")]
pub(super) struct Rates {
    /// Number of rounds of deploying, logging and learning, from 2 to 1000
    #[arg(long, value_name = "K", default_value_t = 100, value_parser = clap::value_parser!(u64).range(2..=1000))]
    rounds: u64,
    /// Records per round, from 2 to 100,000
    #[arg(long, value_name = "M", default_value_t = 100, value_parser = clap::value_parser!(u64).range(2..=100_000))]
    size: u64,
    /// Number of seeds per method, from 1 to 1000; each seed has its own world
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Exponent alpha of the rate in Theorem 4.4, which determines its lambda, in [0, 1)
    #[arg(long, value_name = "ALPHA", default_value_t = 0.75)]
    alpha: f64,
    /// Write a figure to STEM.svg and STEM.png
    #[arg(long, value_name = "STEM")]
    output: Option<PathBuf>,
    #[command(flatten)]
    running: Running,
}

impl Rates {
    pub(super) fn run(self) -> Result<()> {
        self.running.start()?;
        if let Some(stem) = &self.output {
            figure::check(stem)?;
        }
        let size = Size { rounds: self.rounds as usize, records: self.size as usize, alpha: self.alpha };
        // Checks the setting before the work, not after it.
        Lambda::Rate { alpha: size.alpha, gamma: 1.0 }.value(size.records)?;
        let jobs: Vec<_> = METHODS.iter().flat_map(|method| (1..=self.seeds).map(move |seed| (method, seed))).collect();
        let clock = Instant::now();
        let bar = progress::bar(jobs.len() * size.rounds, self.running.quiet);
        let runs = jobs.par_iter().map(|(method, seed)| run(method, size, *seed, || bar.inc(1)));
        let runs: Result<Vec<_>> = runs.collect();
        bar.finish_and_clear();
        let mut runs = runs?.into_iter();
        let results = METHODS
            .iter()
            .map(|method| MethodResult::new(method, size, runs.by_ref().take(self.seeds as usize).collect()));
        let report = Report::new(size, results.collect());
        let mut written = String::new();
        if let Some(stem) = &self.output {
            let paths = report.figure().write(stem)?;
            written = format!("\nFigure: {} and {}", paths[0].display(), paths[1].display());
        }
        self.running.answer(&report, || format!("{}{written}\n{:.0} s", report.text(), clock.elapsed().as_secs_f64()))
    }
}
