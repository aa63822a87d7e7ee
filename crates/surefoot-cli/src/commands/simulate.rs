//! `surefoot simulate`: runs one configuration in a simulated world.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use surefoot::Certificate;
use surefoot::certificate::{Quantity, Theorem};
use surefoot::learn::{Candidate, Coverage, MemberReport};
use surefoot::simulate::{GateDecision, HandedOver, SimulatedRound};

use surefoot_data::{check_new_folder, write_session};
use surefoot_lab::{Beginning, Config, Experiment, Options, World, dataset};
use surefoot_terminal::figure::{self, Figure, Series};
use surefoot_terminal::{Failure, Result, Running, progress};

use super::folder_failure;

/// Run the loop of deploying, logging and learning in a simulated world
///
/// In a simulated world the truth is known. After each round the command prints the true risk of the learned policy
/// (lower is better, -1 is best), its accuracy (how often it takes the best action) and its divergence from the prior.
/// With --certify it also prints the certified risk, and with --gate whether the learned policy replaces the running
/// one. The same seed gives the same result for any number of threads.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    surefoot simulate --dataset digits --algorithm seq-adj-ls --rounds 10 --seed 1\n  \
    surefoot simulate --dataset path/to/mnist --posterior shaped --features kernel:500 --json\n  \
    surefoot simulate --posterior shaped --certify --gate improvement --plot gate\n  \
    surefoot simulate --config settings.toml --plot risk")]
pub(crate) struct Simulate {
    #[command(flatten)]
    options: Options,
    /// Read settings from a TOML file; flags override it
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    config: Option<PathBuf>,
    /// Draw the risk per round into STEM.svg and STEM.png
    #[arg(long, value_name = "STEM", help_heading = "Run")]
    plot: Option<PathBuf>,
    /// Save policies, logs and certificates in a new folder, for surefoot verify; implies --certify
    #[arg(long, value_name = "FOLDER", help_heading = "Run")]
    save: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Run")]
    running: Running,
}

/// The result, as it is written with `--json`.
#[derive(Debug, Serialize)]
struct Output<'a> {
    version: &'static str,
    config: &'a Config,
    initial: Beginning,
    rounds: &'a [RoundOutput],
}

/// A round, as it is written with `--json`.
#[derive(Debug, Serialize)]
struct RoundOutput {
    round: usize,
    n: usize,
    true_risk: f64,
    accuracy: f64,
    greedy_accuracy: f64,
    /// `C* = min_x pi(a*(x)|x)`.
    best_coverage: f64,
    /// The effective sample size of the newest policy on this round, and the number of actions alive.
    #[serde(skip_serializing_if = "Option::is_none")]
    coverage: Option<Coverage>,
    /// The mean reward of all interactions so far.
    reward: f64,
    kl: f64,
    lambda: f64,
    sharpness: f64,
    objective: Option<f64>,
    mean_cost: f64,
    /// The candidates of the round.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    candidates: Vec<Candidate>,
    /// The members of a portfolio.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    members: Vec<MemberReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hand_over: Option<HandedOver>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<Certificate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ladder: Option<Certificate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gate: Option<GateDecision>,
    seconds: f64,
}

impl RoundOutput {
    fn new(round: &SimulatedRound) -> Self {
        let proven = round.proven.as_ref();
        RoundOutput {
            round: round.round,
            n: round.learned.n,
            true_risk: round.true_risk,
            accuracy: round.accuracy,
            greedy_accuracy: round.greedy_accuracy,
            best_coverage: round.best_coverage,
            coverage: round.learned.coverage,
            reward: round.reward,
            kl: round.learned.kl,
            lambda: round.learned.lambda,
            sharpness: round.learned.sharpness,
            objective: round.learned.trace.objective.last().copied(),
            mean_cost: round.mean_cost,
            candidates: round.learned.candidates.clone(),
            members: round.learned.members.clone(),
            hand_over: round.hand_over.clone(),
            certificate: proven.and_then(|proven| proven.certificate.clone()),
            ladder: proven.and_then(|proven| proven.ladder.clone()),
            gate: round.decision.clone(),
            seconds: round.seconds,
        }
    }
}

impl Simulate {
    pub(crate) fn run(self) -> Result<()> {
        self.running.start()?;
        if let Some(stem) = &self.plot {
            figure::check(stem)?;
        }
        let mut config = self.options.with_file(self.config.as_ref())?.complete();
        if let Some(folder) = &self.save {
            check_new_folder(folder).map_err(folder_failure)?;
            config.certify = true;
        }
        let data = dataset(&config)?;
        let experiment = match self.save {
            // A saved policy must contain its own feature map.
            Some(_) => Experiment::in_world(&config, Arc::new(World::unmapped(&config, data.as_ref())?))?,
            None => Experiment::new(&config, data.as_ref())?,
        };
        drop(data);
        let initial = experiment.beginning()?;
        let bar = progress::bar(experiment.rounds(), self.running.quiet);
        let rounds = experiment.run(|round| {
            let certified = round.proven.as_ref().and_then(|proven| proven.ladder.as_ref());
            let certified = certified.map_or(String::new(), |c| format!(", certified {:.4}", c.upper));
            bar.set_message(format!("risk {:.4}{certified}", round.true_risk));
            bar.inc(1);
        });
        bar.finish_and_clear();
        let outcome = rounds?;
        if let Some(folder) = &self.save {
            write_session(folder, &outcome.session, outcome.statements()).map_err(Failure::new)?;
        }
        let rounds: Vec<RoundOutput> = outcome.rounds.iter().map(RoundOutput::new).collect();
        if let Some(stem) = &self.plot {
            let paths = figure(&config, initial, &rounds).write(stem)?;
            surefoot_terminal::note(&format!("wrote {} and {}\n", paths[0].display(), paths[1].display()));
        }
        let output = Output { version: env!("CARGO_PKG_VERSION"), config: &config, initial, rounds: &rounds };
        self.running.answer(&output, || table(&config, initial, &rounds))
    }
}

fn table(config: &Config, initial: Beginning, rounds: &[RoundOutput]) -> String {
    let (certified, gated) = (rounds.iter().any(|r| r.ladder.is_some()), rounds.iter().any(|r| r.gate.is_some()));
    let from_first = rounds.iter().any(|r| r.certificate.is_some());
    let led = rounds.iter().any(|r| !r.members.is_empty());
    let shifts = rounds.iter().any(|r| r.certificate.as_ref().is_some_and(|c| c.bounds == Quantity::MeanRisk));
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["round", "records", "true risk"];
    if gated {
        header.extend(["gate", "newest candidate"]);
    }
    if certified {
        header.extend(["certified", "by"]);
    }
    if from_first {
        header.push(if shifts { "C.1, mean of rounds" } else { "prior pi_0" });
    }
    header.push("accuracy");
    match (led, certified) {
        (false, _) => header.extend(["lambda", "KL", "mean cost"]),
        (true, false) => header.extend(["reward so far", "explorer", "leader", "handed over"]),
        (true, true) => header.extend(["reward so far", "explorer", "leader", "handed over", "certified"]),
    }
    table.set_header(header);
    let beginning = [String::from("0"), String::new(), format!("{:.4}", initial.true_risk)];
    let skipped = [gated, gated, certified, certified, from_first].iter().filter(|shown| **shown).count();
    let skipped = vec![String::new(); skipped];
    table.add_row(beginning.into_iter().chain(skipped).chain([format!("{:.4}", initial.accuracy)]));
    for r in rounds {
        let mut row = vec![r.round.to_string(), r.n.to_string(), format!("{:.4}", r.true_risk)];
        if let Some(gate) = &r.gate {
            let verdict = if gate.promoted { "promoted" } else { "kept" };
            let by = gate.certificate.as_ref().map_or(String::new(), |c| format!(" ({:+.3})", c.upper));
            row.extend([format!("{verdict}{by}"), format!("{:.4}", gate.candidate_risk)]);
        }
        if certified {
            row.extend(r.ladder.as_ref().map_or(["none".into(), String::new()], |c| [upper(c), rung(c)]));
        }
        if from_first {
            row.push(r.certificate.as_ref().map_or(String::new(), upper));
        }
        row.push(format!("{:.4}", r.accuracy));
        if led {
            let name = |role: fn(&MemberReport) -> bool| {
                r.members.iter().find(|member| role(member)).map_or(String::new(), |member| member.member.to_string())
            };
            row.extend([format!("{:.4}", r.reward), name(|member| member.explores), name(|member| member.leads)]);
            row.push(r.hand_over.as_ref().map_or(String::new(), |policy| format!("{:.4}", policy.true_risk)));
            if certified {
                let certificate = r.hand_over.as_ref().and_then(|policy| policy.certificate.as_ref());
                row.push(certificate.map_or("none".into(), upper));
            }
        } else {
            row.extend([r.lambda.to_string(), format!("{:.1}", r.kl), format!("{:.4}", r.mean_cost)]);
        }
        table.add_row(row);
    }
    table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    let mut text = format!("{}\n\nbest possible risk {:.4}", table.trim_fmt(), initial.optimal_risk);
    if certified {
        let confidence = (1e8 * (1.0 - config.delta)).round() / 1e6;
        text += &format!(
            "\ncertified: an upper bound on the risk, with probability {confidence} % in all rounds at once \
             (by: the theorem, and the round whose policy is the prior; * is vacuous)"
        );
        if shifts {
            text +=
                "\nC.1 bounds the mean over rounds of the risk that each policy has in the round it was learned from";
        }
        text += &super::on_trust(rounds.iter().flat_map(|r| r.certificate.iter().chain(&r.ladder)), None);
    }
    if let Some((round, warning)) = rounds.iter().find_map(|r| Some((r.round, r.coverage?.warning()?))) {
        text += &format!("\nwarning: round {round}: {warning}");
    }
    if led {
        text += "\nhanded over: the true risk of the policy to hand over if learning ended there, which explores less";
        text += &members(rounds);
    }
    if gated {
        text += &format!(
            "\ngate: {}; in brackets the certified upper bound on {}",
            config.gate,
            if config.gate == "certified-risk" { "its risk" } else { "its risk minus the risk of the running policy" }
        );
    }
    text
}

/// The members of the portfolio in the last round.
fn members(rounds: &[RoundOutput]) -> String {
    let Some(last) = rounds.last() else { return String::new() };
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["member", "records", "estimated risk", "certified alone", "seconds in all"]);
    for (place, member) in last.members.iter().enumerate() {
        let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
        let seconds: f64 = rounds.iter().filter_map(|round| Some(round.members.get(place)?.seconds)).sum();
        table.add_row([
            match (member.explores, member.leads) {
                (true, true) => format!("{}, explores and leads", member.member),
                (true, false) => format!("{}, explores", member.member),
                (false, true) => format!("{}, leads", member.member),
                (false, false) => member.member.to_string(),
            },
            member.records.to_string(),
            number(member.estimate),
            number(member.upper),
            format!("{seconds:.2}"),
        ]);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    format!("\n\nin the last round, by the records held back from all members:\n{}", table.trim_fmt())
}

/// The bound, marked with * if it is vacuous.
fn upper(certificate: &Certificate) -> String {
    format!("{:.4}{}", certificate.upper, if certificate.vacuous { "*" } else { "" })
}

/// The kind of a statement: its theorem, and the round of the first record that counts.
fn rung(certificate: &Certificate) -> String {
    let since = certificate.since.round;
    match certificate.theorem {
        Theorem::Ls => format!("3.2, pi_{since}"),
        Theorem::Combined => format!("4.1, pi_{since}"),
        Theorem::Fixed => "unseen records".into(),
        Theorem::Chain | Theorem::HandOver => format!("chain, pi_{since}"),
        _ => "C.1".into(),
    }
}

fn figure(config: &Config, initial: Beginning, rounds: &[RoundOutput]) -> Figure {
    let first = std::iter::once((0.0, initial.true_risk));
    let points: Vec<(f64, f64)> = first.chain(rounds.iter().map(|r| (r.round as f64, r.true_risk))).collect();
    let last = rounds.len() as f64;
    // A risk is at most 0 by definition.
    let certified = |of: fn(&RoundOutput) -> Option<&Certificate>| -> Vec<(f64, f64)> {
        rounds.iter().filter_map(|r| Some((r.round as f64, of(r)?.upper.min(0.0)))).collect()
    };
    let promotions = rounds.iter().filter(|r| r.gate.as_ref().is_some_and(|gate| gate.promoted));
    let promotions: Vec<(f64, f64)> = promotions.map(|r| (r.round as f64, r.true_risk)).collect();
    let candidates = rounds.iter().filter_map(|r| Some((r.round as f64, r.gate.as_ref()?.candidate_risk))).collect();
    let lines = [
        Series { label: "promotions".into(), points: promotions, events: true, ..Series::default() },
        Series { label: format!("true risk, {}", config.algorithm), points, ..Series::default() },
        Series { label: "certified, best rung".into(), points: certified(|r| r.ladder.as_ref()), ..Series::default() },
        Series {
            label: "certified, first policy as prior".into(),
            points: certified(|r| r.certificate.as_ref()),
            ..Series::default()
        },
        Series { label: "true risk of candidates".into(), points: candidates, dashed: true, ..Series::default() },
        Series {
            label: "best possible".into(),
            points: vec![(0.0, initial.optimal_risk), (last, initial.optimal_risk)],
            dashed: true,
            ..Series::default()
        },
    ];
    let shown = if config.certify { "risk, true and certified" } else { "true risk" };
    Figure {
        title: format!("{} on {}", config.algorithm, config.dataset),
        x_label: "round".into(),
        y_label: format!("{shown} (lower is better)"),
        series: lines.into_iter().filter(|line| !line.points.is_empty()).collect(),
        ..Figure::default()
    }
}
