//! The report of all runs: JSON, tables and figures.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use surefoot_terminal::figure::{Figure, Series};

use super::run::{METHODS, Run};
use crate::options::Config;
use crate::statistics::mean_and_deviation;

/// The JSON output.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    version: &'static str,
    seeds: u64,
    config: Config,
    speeds: Vec<Speed>,
}

/// The results at one speed of the drift.
#[derive(Debug, Serialize)]
struct Speed {
    /// The drift in degrees per round.
    drift: f64,
    /// The lowest possible risk in each round's world, from round 0 on: the mean over seeds.
    best: Vec<f64>,
    methods: Vec<MethodResult>,
    forgetting: Vec<Forgetting>,
}

/// The result of a method: means over seeds.
#[derive(Debug, Serialize)]
struct MethodResult {
    method: &'static str,
    /// The true risk of the running policy in each round's world, from round 0 on, and its standard deviation over
    /// seeds. The last world is that of the round after the last.
    risk: Vec<f64>,
    deviation: Vec<f64>,
    /// The mean over rounds of the risk above the lowest possible in the next world, and its standard deviation over
    /// seeds.
    regret: f64,
    regret_deviation: f64,
    /// The expected reward of all interactions.
    mean_reward: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<CertificateResult>,
}

/// The certificates of a method. Counts are numbers of runs in which it happened after any round, unless stated.
#[derive(Debug, Serialize)]
struct CertificateResult {
    theorem: &'static str,
    /// Whether the assumptions of the theorem hold in this world.
    assumptions_hold: bool,
    /// The certified bound after the last round, and the true value of the bounded quantity.
    certified: f64,
    bounded: f64,
    /// The number of runs in which the bound was below that quantity, and the number of such rounds in all runs.
    misses: usize,
    rounds_missed: usize,
    /// The number of runs in which the bound was below the risk in the next round's world, which Theorem C.1 does not
    /// bound.
    below_next: usize,
    /// The number of runs in which the best rung of the ladder was below the risk in the next round's world.
    ladder_misses: Option<usize>,
    /// The last policy's mean risk over the worlds of all rounds so far, and the number of runs in which Theorem 3.2
    /// was below it after the last round.
    past: Option<f64>,
    past_misses: Option<usize>,
}

/// The difference of regrets, seed by seed, between the method that forgets and the one that remembers; below 0,
/// forgetting helps.
#[derive(Debug, Serialize)]
struct Forgetting {
    forgets: &'static str,
    remembers: &'static str,
    difference: f64,
    /// The standard error of the difference.
    error: f64,
    /// The number of seeds in which the method that forgets is better.
    better: usize,
    verdict: &'static str,
}

impl Report {
    /// Summarises the runs, which are ordered by speed and then by method.
    pub(super) fn new(config: Config, seeds: u64, drifts: &[f64], runs: &[Vec<Run>]) -> Self {
        let speeds = drifts.iter().zip(runs.chunks_exact(METHODS.len())).map(|(&drift, runs)| Speed::new(drift, runs));
        Report { version: env!("CARGO_PKG_VERSION"), seeds, config, speeds: speeds.collect() }
    }

    pub(super) fn text(&self) -> String {
        format!(
            "Contexts that shift: {} rounds, {} seeds, lambda {}, features {}, delta {}\n\n{}\n\n{}\n\n\
             drift: degrees a round; risk: after the last round, in the world of the next; regret: above the best\n\
             possible there, mean of all rounds; certified: Theorem 3.2, for Shift Theorem C.1, after the last round,\n\
             and what is true of what it speaks of (3.2: the risk in the next world; C.1: the mean over rounds of\n\
             each policy's risk in the world that it was learned from); misses: runs in which it was below that\n\
             after any round, and the same of the ladder. (*) what Theorem 3.2 takes on trust is not so.\n\
             forgetting: the difference of regrets seed by seed, with its standard error; told by two of them.",
            self.config.rounds,
            self.seeds,
            self.config.lambda.0,
            self.config.features,
            self.config.delta,
            self.methods(),
            self.forgetting(),
        )
    }

    fn methods(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let header = ["drift", "method", "risk", "regret", "reward while learning", "certified", "true"];
        table.set_header(header.into_iter().chain(["misses", "ladder"]));
        for speed in &self.speeds {
            for m in &speed.methods {
                let last = m.risk.len() - 1;
                let mut row = vec![
                    speed.drift.to_string(),
                    m.method.into(),
                    format!("{:.4} ± {:.4}", m.risk[last], m.deviation[last]),
                    format!("{:.4} ± {:.4}", m.regret, m.regret_deviation),
                    format!("{:.3}", m.mean_reward),
                ];
                if let Some(c) = &m.certificate {
                    let mark = if c.assumptions_hold { "" } else { " (*)" };
                    row.extend([format!("{:.4}", c.certified), format!("{:.4}", c.bounded)]);
                    row.extend([format!("{}{mark}", c.misses)]);
                    row.extend(c.ladder_misses.map(|misses| format!("{misses}{mark}")));
                }
                table.add_row(row);
            }
        }
        table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        table.trim_fmt()
    }

    fn forgetting(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["drift", "forgets", "remembers", "difference of regrets", "better in", "forgetting"]);
        for speed in &self.speeds {
            for f in &speed.forgetting {
                table.add_row([
                    speed.drift.to_string(),
                    f.forgets.into(),
                    f.remembers.into(),
                    format!("{:+.4} ± {:.4}", f.difference, f.error),
                    format!("{} of {}", f.better, self.seeds),
                    f.verdict.into(),
                ]);
            }
        }
        table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        table.trim_fmt()
    }

    /// Risk per round at the first and the last speed.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let mut shown: Vec<&Speed> = self.speeds.iter().collect();
        if shown.len() > 2 {
            shown.drain(1..shown.len() - 1);
        }
        shown.into_iter().map(|speed| speed.figure(self.seeds)).collect()
    }
}

impl Speed {
    fn new(drift: f64, runs: &[Vec<Run>]) -> Self {
        let mut methods = vec![MethodResult::new("first policy", &runs[0], |run| &run.first)];
        for (method, runs) in METHODS.iter().zip(runs) {
            let certificate = Some(CertificateResult::new(method, drift, runs));
            methods.push(MethodResult { certificate, ..MethodResult::new(method, runs, |run| &run.risk) });
        }
        let pairs = METHODS.chunks_exact(2).zip(runs.chunks_exact(2));
        Speed {
            drift,
            best: mean_path(&runs[0], |run| &run.best).0,
            methods,
            forgetting: pairs.map(|(names, runs)| Forgetting::new(names, runs)).collect(),
        }
    }

    fn figure(&self, seeds: u64) -> Figure {
        let path = |values: &[f64]| values.iter().enumerate().map(|(k, &value)| (k as f64, value)).collect();
        let line = |m: &MethodResult| Series {
            label: m.method.into(),
            points: path(&m.risk),
            band: Some(m.risk.iter().zip(&m.deviation).map(|(risk, sd)| (risk - sd, risk + sd)).collect()),
            ..Series::default()
        };
        // The first policy is a reference, like the lowest possible risk.
        let (first, learned) = self.methods.split_first().expect("the first policy is always there");
        let mut series: Vec<Series> = learned.iter().map(line).collect();
        for (label, values) in [(first.method, &first.risk), ("best possible", &self.best)] {
            series.push(Series { label: label.into(), points: path(values), dashed: true, ..Series::default() });
        }
        Figure {
            title: match self.drift {
                0.0 => "Contexts that stand still".into(),
                drift => format!("Contexts that turn by {drift} degrees per round"),
            },
            x_label: "round".into(),
            y_label: format!("true risk in the next round (lower is better), mean and deviation over {seeds} seeds"),
            series,
            ..Figure::default()
        }
    }
}

/// The mean and the standard deviation over runs, in each world.
fn mean_path(runs: &[Run], of: impl Fn(&Run) -> &[f64]) -> (Vec<f64>, Vec<f64>) {
    (0..of(&runs[0]).len()).map(|k| mean_and_deviation(runs.iter().map(|run| of(run)[k]))).unzip()
}

impl MethodResult {
    fn new(method: &'static str, runs: &[Run], risk: impl Fn(&Run) -> &[f64]) -> Self {
        let (path, deviation) = mean_path(runs, &risk);
        let (regret, regret_deviation) = mean_and_deviation(runs.iter().map(|run| run.regret(risk(run))));
        let mean_reward = -Run::while_learning(&path);
        MethodResult { method, risk: path, deviation, regret, regret_deviation, mean_reward, certificate: None }
    }
}

impl CertificateResult {
    fn new(method: &str, drift: f64, runs: &[Run]) -> Self {
        let shifts = method.starts_with("shift");
        let last = |run: &Run| run.certified.len() - 1;
        let mean = |value: &dyn Fn(&Run) -> f64| mean_and_deviation(runs.iter().map(value)).0;
        let count = |is: &dyn Fn(&Run) -> bool| runs.iter().filter(|run| is(run)).count();
        CertificateResult {
            theorem: if shifts { "C.1" } else { "3.2" },
            assumptions_hold: shifts || drift == 0.0,
            certified: mean(&|run| run.certified[last(run)].upper),
            bounded: mean(&|run| run.certified[last(run)].bounded),
            misses: count(&|run| run.misses(|c| c.upper < c.bounded)),
            rounds_missed: runs.iter().flat_map(|run| &run.certified).filter(|c| c.upper < c.bounded).count(),
            below_next: count(&|run| run.misses(|c| c.upper < c.next)),
            ladder_misses: (!shifts)
                .then(|| count(&|run| run.misses(|c| c.ladder.is_some_and(|ladder| ladder < c.next)))),
            past: (!shifts).then(|| mean(&|run| run.past)),
            past_misses: (!shifts).then(|| count(&|run| run.certified[last(run)].upper < run.past)),
        }
    }
}

impl Forgetting {
    /// Compares two methods: first the one that remembers, then the one that forgets.
    fn new(names: &[&'static str], runs: &[Vec<Run>]) -> Self {
        let regret = |run: &Run| run.regret(&run.risk);
        let differences: Vec<f64> = runs[1].iter().zip(&runs[0]).map(|(a, b)| regret(a) - regret(b)).collect();
        let (difference, deviation) = mean_and_deviation(differences.iter().copied());
        let error = deviation / (differences.len() as f64).sqrt();
        Forgetting {
            forgets: names[1],
            remembers: names[0],
            difference,
            error,
            better: differences.iter().filter(|&&d| d < 0.0).count(),
            verdict: verdict(difference, error, differences.len()),
        }
    }
}

/// The verdict on a difference, at two standard errors.
fn verdict(difference: f64, error: f64, seeds: usize) -> &'static str {
    if seeds < 2 || difference.abs() <= 2.0 * error {
        "not told"
    } else if difference < 0.0 {
        "helps"
    } else {
        "costs"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_within_two_standard_errors_tells_nothing() {
        assert_eq!(verdict(-0.02, 0.009, 20), "helps");
        assert_eq!(verdict(0.02, 0.009, 20), "costs");
        assert_eq!(verdict(0.02, 0.011, 20), "not told");
        assert_eq!(verdict(0.02, 0.0, 1), "not told");
    }
}
