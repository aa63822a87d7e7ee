//! `surefoot study coverage`: checks that every certificate holds as often as it claims.

mod chains;
mod limit;
mod runs;
mod worlds;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use rayon::prelude::*;
use serde::Serialize;
use surefoot_terminal::{Failure, Result, Running, progress};

use runs::{Run, Seen};

/// Count how often each certificate is wrong, in worlds whose risks are known exactly
///
/// In each run every certificate is computed at every round. If a certificate is below the truth at any round, the run
/// is a miss. A certificate may miss with probability delta. It fails if it has more misses than a certificate with
/// miss probability delta has in 99.9 % of such studies. The negative controls are wrong on purpose, and must fail. The
/// slack is the difference between a certificate and the truth at the round where it is smallest; the table shows its
/// delta-quantile over the runs, which is 0 if the certificate could not be tighter. The exit code is 1 if a
/// certificate fails, or a negative control does not.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  surefoot study coverage\n  surefoot study coverage --runs 500 --seed 7 --json")]
pub(super) struct Coverage {
    /// Number of runs, from 20 to 1,000,000
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(20..=1_000_000))]
    runs: u64,
    /// Failure probability of each certificate over all rounds of a run, in (0, 1)
    #[arg(long, default_value_t = 0.05)]
    delta: f64,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    running: Running,
}

/// The JSON output.
#[derive(Debug, Serialize)]
struct Output<'a> {
    version: &'static str,
    runs: u64,
    delta: f64,
    seed: u64,
    certificates: &'a [Misses],
}

/// The misses of a statement over all runs.
#[derive(Debug, Serialize)]
struct Misses {
    certificate: &'static str,
    world: &'static str,
    /// Whether it is a negative control, which must fail.
    control: bool,
    runs: u64,
    misses: u64,
    allowed: u64,
    /// The delta quantile over runs of the smallest margin. `None` if too many runs have no margin, for example because
    /// nothing was promoted.
    slack: Option<f64>,
    /// Whether the verdict is as expected: a claim holds, a control fails.
    right: bool,
}

impl Misses {
    /// The misses of one statement, from its margin in each run.
    fn new(seen: Seen, mut margins: Vec<f64>, delta: f64) -> Self {
        margins.sort_by(f64::total_cmp);
        let runs = margins.len() as u64;
        let misses = margins.partition_point(|&margin| margin < 0.0) as u64;
        let allowed = limit::allowed(runs, delta);
        let slack = margins[(delta * runs as f64) as usize];
        Misses {
            certificate: seen.name,
            world: seen.world,
            control: seen.control,
            runs,
            misses,
            allowed,
            slack: slack.is_finite().then_some(slack),
            right: (misses > allowed) == seen.control,
        }
    }

    fn verdict(&self) -> &'static str {
        match (self.control, self.right) {
            (false, true) => "holds",
            (false, false) => "BROKEN",
            (true, true) => "fails",
            (true, false) => "HOLDS",
        }
    }
}

impl Coverage {
    pub(super) fn run(self) -> Result<()> {
        self.running.start()?;
        let tallies = self.count()?;
        let Coverage { runs, delta, seed, .. } = self;
        let output = Output { version: env!("CARGO_PKG_VERSION"), runs, delta, seed, certificates: &tallies };
        self.running.answer(&output, || self.table(&tallies))?;
        let wrong = tallies.iter().filter(|tally| !tally.right);
        let wrong: Vec<String> = wrong.map(|tally| format!("{} ({})", tally.certificate, tally.world)).collect();
        if wrong.is_empty() { Ok(()) } else { Err(Failure::new(format!("not as it should be: {}", wrong.join(", ")))) }
    }

    fn count(&self) -> Result<Vec<Misses>> {
        // Runs alternate between several worlds of each kind.
        const WORLDS: u64 = 10;
        let worlds = (0..WORLDS).map(|i| Run::new(self.seed.wrapping_mul(WORLDS).wrapping_add(i)));
        let worlds = worlds.collect::<surefoot::Result<Vec<Run>>>()?;
        let bar = progress::bar_of(self.runs as usize, "runs", self.running.quiet);
        let seen = (0..self.runs).into_par_iter().map(|run| {
            let seen =
                worlds[(run % WORLDS) as usize].see(self.seed.wrapping_mul(1 << 20).wrapping_add(run), self.delta);
            bar.inc(1);
            seen
        });
        let seen = seen.collect::<surefoot::Result<Vec<Vec<Seen>>>>();
        bar.finish_and_clear();
        let seen = seen?;
        let tally = |(i, &first): (usize, &Seen)| {
            Misses::new(first, seen.iter().map(|run| run[i].margin).collect(), self.delta)
        };
        Ok(seen[0].iter().enumerate().map(tally).collect())
    }

    fn table(&self, tallies: &[Misses]) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["certificate", "world", "runs", "misses", "allowed", "slack", "verdict"]);
        for control in [false, true] {
            if control {
                table.add_row([""]);
                table.add_row(["must fail"]);
            }
            for tally in tallies.iter().filter(|tally| tally.control == control) {
                table.add_row([
                    tally.certificate.to_string(),
                    tally.world.to_string(),
                    tally.runs.to_string(),
                    tally.misses.to_string(),
                    tally.allowed.to_string(),
                    tally.slack.map_or("none".into(), |slack| format!("{slack:.3}")),
                    tally.verdict().to_string(),
                ]);
            }
        }
        table.column_iter_mut().skip(2).take(4).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        format!("delta {}, seed {}\n\n{}", self.delta, self.seed, table.trim_fmt())
    }
}
