//! `surefoot study slack`: how far certificates are from the truth, and from what no certificate can beat.

use std::path::PathBuf;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use surefoot::certificate::{Case, Combine, FixedSince, Share, Since, Smoothing};
use surefoot::simulate::Outcome;
use surefoot::{Certificate, Logs, Policy, Protocol};
use surefoot_terminal::figure::{self, Figure, Series};
use surefoot_terminal::{Failure, Result, Running};

use crate::experiment::over_seeds;
use crate::options::{Config, Options};
use crate::statistics::{mean_and_deviation, normal_quantile};

/// Compare the slack of certificates with the limits that no certificate can beat
///
/// The slack is the certified risk minus the true risk, after each round. Every method certifies the same policy with the
/// same delta, in all rounds at once. The limits are the normal quantile of delta times the standard error of an estimate:
/// a method that was always below them would be wrong too often, even in a single look. A limit at its share is for
/// statements that are made anew in each round, and divide delta among the rounds. A chain is one statement for all
/// rounds and may be below it. The defaults are --algorithm seq-adj-ls and --posterior shaped in this study.
#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  surefoot study slack --output slack\n  \
    surefoot study slack --dataset path/to/mnist --seeds 1"
)]
pub(super) struct Slack {
    #[command(flatten)]
    options: Options,
    /// Number of seeds, from 1 to 100,000
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: u64,
    /// Write a figure to STEM.svg and STEM.png
    #[arg(long, value_name = "STEM")]
    output: Option<PathBuf>,
    #[command(flatten)]
    running: Running,
}

/// What is compared, in the order of the columns.
const METHODS: [&str; 7] = [
    "certified",
    "newest round, union",
    "newest round, mixture",
    "limit, newest round",
    "limit, chain",
    "limit, chain, at its share",
    "limit, on-policy",
];

/// The slack of every method after one round: means over seeds.
#[derive(Debug, Serialize)]
struct Round {
    round: usize,
    true_risk: f64,
    /// The slack of the certificate that a loop reports.
    certified: f64,
    /// Its standard deviation over seeds.
    deviation: f64,
    /// The policy on the records of the newest round that it has not seen, with a union over 13 lambdas.
    newest_union: f64,
    /// The same with a mixture.
    newest_mixture: f64,
    /// The normal quantile of delta times the standard error of the importance-weighted mean of those records.
    limit_newest: f64,
    /// The same for the mean of the best chain.
    limit_chain: f64,
    /// The same at the part of delta that the round has.
    limit_chain_at_share: f64,
    /// The same for as many records as there are so far, all collected by the policy itself.
    limit_on_policy: f64,
}

/// The JSON output.
#[derive(Debug, Serialize)]
struct Output<'a> {
    version: &'static str,
    seeds: u64,
    config: &'a Config,
    rounds: &'a [Round],
}

impl Slack {
    pub(super) fn run(self) -> Result<()> {
        self.running.start()?;
        if let Some(stem) = &self.output {
            figure::check(stem)?;
        }
        let (algorithm, posterior) = (Some("seq-adj-ls".into()), Some("shaped".into()));
        let shaped = Options { algorithm, posterior, ..Options::default() };
        let config = Config { certify: true, ..self.options.or(shaped).complete() };
        if config.gate != "always" {
            return Err(Failure::new("--gate: this study certifies every learned policy").hint("leave --gate out"));
        }
        let configs = [config.clone()];
        let runs = over_seeds(&configs, self.seeds, self.running.quiet, |_, _, outcome| {
            (1..=outcome.rounds.len()).map(|rounds| after(&outcome, rounds)).collect::<Result<Vec<_>>>()
        })?;
        let rounds: Vec<Round> = (0..runs[0][0].len()).map(|k| round(k, &runs[0])).collect();
        if let Some(stem) = &self.output {
            let paths = figure(&config, &rounds).write(stem)?;
            surefoot_terminal::note(&format!("wrote {} and {}\n", paths[0].display(), paths[1].display()));
        }
        let output = Output { version: env!("CARGO_PKG_VERSION"), seeds: self.seeds, config: &config, rounds: &rounds };
        self.running.answer(&output, || {
            format!(
                "Slack on {}: certified minus true risk, means of {} seeds, delta {}\n\n{}",
                config.dataset,
                self.seeds,
                config.delta,
                table(&rounds)
            )
        })
    }
}

/// The means over seeds after round `k`, counted from 0.
fn round(k: usize, runs: &[Vec<[f64; 8]>]) -> Round {
    let at = |i: usize| mean_and_deviation(runs.iter().map(|run| run[k][i]));
    let (certified, deviation) = at(1);
    Round {
        round: k + 1,
        true_risk: at(0).0,
        certified,
        deviation,
        newest_union: at(2).0,
        newest_mixture: at(3).0,
        limit_newest: at(4).0,
        limit_chain: at(5).0,
        limit_chain_at_share: at(6).0,
        limit_on_policy: at(7).0,
    }
}

/// The true risk, and the slack of every method, after this many rounds.
fn after(outcome: &Outcome, rounds: usize) -> Result<[f64; 8]> {
    let end = &outcome.rounds[rounds - 1];
    let held_back = "this study needs records that are held back";
    let Some(FixedSince { since, size, .. }) = end.learned.fixed_since else {
        return Err(Failure::new(held_back).hint("give --held-back, or --lambda auto"));
    };
    let (logs, policies) = (&outcome.session.logs()[..rounds], outcome.policies());
    let risk = end.true_risk;
    let ladder =
        end.proven.as_ref().and_then(|proven| proven.ladder.as_ref()).ok_or_else(|| Failure::new(held_back))?;
    let protocol = ladder.protocol();
    let alone = |combine| -> Result<f64> {
        let protocol = Protocol { combine, ..protocol.clone() };
        let since = since.max(Since::round(rounds - 1));
        let case = Case { rounds: logs, since, protocol: &protocol, share: Share::of_round(rounds - 1, 0.8) };
        Ok(Certificate::fixed(Smoothing::Ls, policies[rounds].as_ref(), size, &case)?.upper - risk)
    };
    let chained = Chained::new(outcome, &policies, rounds)?;
    let delta = protocol.delta;
    let at_share = Share::of_round(rounds - 1, 0.8).delta(&protocol)?;
    let error = chained.best_error();
    let records: usize = logs.iter().map(Logs::len).sum();
    Ok([
        risk,
        ladder.upper - risk,
        alone(Combine::Union)?,
        alone(Combine::Mixture)?,
        normal_quantile(delta) * chained.error(rounds - 1),
        normal_quantile(delta) * error,
        normal_quantile(at_share) * error,
        // Costs of -1 and 0 vary most; those of label worlds are such.
        normal_quantile(delta) * (-risk * (1.0 + risk) / records as f64).sqrt(),
    ])
}

/// The importance weights and costs of the records of each link.
struct Chained {
    links: Vec<Vec<(f64, f64)>>,
}

impl Chained {
    fn new(outcome: &Outcome, policies: &[std::sync::Arc<dyn Policy>], rounds: usize) -> Result<Self> {
        let link = |k: usize| -> Result<Vec<(f64, f64)>> {
            let logs = &outcome.session.logs()[k];
            let first = outcome.rounds[k]
                .learned
                .fixed_since
                .map_or(logs.len(), |fixed| if fixed.since.round == k { fixed.since.record } else { 0 });
            let counted = logs.slice(first..logs.len());
            let p = policies[k + 1].propensity(counted.contexts(), counted.action(), counted.eligible())?;
            Ok(p.iter().zip(counted.propensity()).zip(counted.cost()).map(|((p, q), &c)| (p / q, c)).collect())
        };
        Ok(Chained { links: (0..rounds).map(link).collect::<Result<_>>()? })
    }

    /// The standard error of the mean of `X = c (1 + (N_k/n_k)(w - 1))` over the rounds from `a` on.
    fn error(&self, a: usize) -> f64 {
        let (mut records, mut squares) = (0, 0.0);
        for link in &self.links[a..] {
            records += link.len();
            let ratio = records as f64 / link.len() as f64;
            let (_, deviation) = mean_and_deviation(link.iter().map(|(w, c)| c * (1.0 + ratio * (w - 1.0))));
            squares += link.len() as f64 * deviation * deviation;
        }
        squares.sqrt() / records as f64
    }

    /// The smallest one over all beginnings.
    fn best_error(&self) -> f64 {
        (0..self.links.len()).map(|a| self.error(a)).fold(f64::INFINITY, f64::min)
    }
}

fn columns(round: &Round) -> [f64; METHODS.len()] {
    [
        round.certified,
        round.newest_union,
        round.newest_mixture,
        round.limit_newest,
        round.limit_chain,
        round.limit_chain_at_share,
        round.limit_on_policy,
    ]
}

fn table(rounds: &[Round]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["round", "true risk"].into_iter().chain(METHODS).chain(["certified/limit, chain"]));
    for round in rounds {
        let mut row = vec![round.round.to_string(), format!("{:.4}", round.true_risk)];
        row.extend(columns(round).iter().map(|slack| format!("{slack:.4}")));
        row[2] += &format!(" ± {:.4}", round.deviation);
        row.push(format!("{:.2}", round.certified / round.limit_chain));
        table.add_row(row);
    }
    table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table.trim_fmt()
}

fn figure(config: &Config, rounds: &[Round]) -> Figure {
    let series = METHODS.iter().enumerate().map(|(i, &label)| Series {
        label: label.into(),
        points: rounds.iter().map(|round| (round.round as f64, columns(round)[i])).collect(),
        dashed: label.starts_with("limit"),
        ..Series::default()
    });
    Figure {
        title: format!("Slack on {}", config.dataset),
        x_label: "round".into(),
        y_label: "certified minus true risk".into(),
        series: series.collect(),
        ..Figure::default()
    }
}
