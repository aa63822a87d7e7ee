//! What all runs saw: numbers for a program, tables for a reader, figures.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use surefoot_terminal::figure::{Figure, Series};

use super::run::{METHODS, Run};
use crate::options::Config;
use crate::statistics::mean_and_deviation;

/// The result, as it is written with `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    version: &'static str,
    seeds: u64,
    config: Config,
    speeds: Vec<Speed>,
}

/// What was seen at one speed of the drift.
#[derive(Debug, Serialize)]
struct Speed {
    /// Degrees a round.
    drift: f64,
    /// The mean over seeds of the best possible risk in each round's world, from round 0 on.
    best: Vec<f64>,
    methods: Vec<MethodResult>,
    forgetting: Vec<Forgetting>,
}

/// What came of a method: means over seeds.
#[derive(Debug, Serialize)]
struct MethodResult {
    method: &'static str,
    /// The true risk of what runs in each round's world, from round 0 on, and its deviation over seeds; the last is the
    /// world of the round that would come next.
    risk: Vec<f64>,
    deviation: Vec<f64>,
    /// The mean over rounds of the risk above the best possible in the next world, and its deviation over seeds.
    regret: f64,
    regret_deviation: f64,
    /// The expected reward of all interactions.
    mean_reward: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<CertificateResult>,
}

/// What a method's certificates said; counts are of runs in which it was so after any round.
#[derive(Debug, Serialize)]
struct CertificateResult {
    theorem: &'static str,
    /// Whether what it takes on trust is so in this world.
    assumptions_hold: bool,
    /// What is certified after the last round, and what is true of the quantity that it speaks of.
    certified: f64,
    bounded: f64,
    /// Runs in which it was below that quantity, and all rounds of all runs.
    misses: usize,
    rounds_missed: usize,
    /// Runs in which it was below the risk in the next round's world, which is not what Theorem C.1 speaks of.
    below_next: usize,
    /// Runs in which the best rung of the ladder was below the risk in the next round's world.
    ladder_misses: Option<usize>,
    /// The last policy's risk in the worlds of all rounds so far, their mean; and the runs in which Theorem 3.2 was
    /// below it.
    past: Option<f64>,
    past_misses: Option<usize>,
}

/// What forgetting does to the regret, seed by seed: below 0 where it helps.
#[derive(Debug, Serialize)]
struct Forgetting {
    forgets: &'static str,
    remembers: &'static str,
    difference: f64,
    /// Its standard error.
    error: f64,
    /// Seeds in which the one that forgets is better.
    better: usize,
    verdict: &'static str,
}

impl Report {
    /// From the runs of every method at every speed, in that order.
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
        // The first policy is a reference, as the best possible is.
        let (first, learned) = self.methods.split_first().expect("the first policy is always there");
        let mut series: Vec<Series> = learned.iter().map(line).collect();
        for (label, values) in [(first.method, &first.risk), ("best possible", &self.best)] {
            series.push(Series { label: label.into(), points: path(values), dashed: true, ..Series::default() });
        }
        Figure {
            title: match self.drift {
                0.0 => "Contexts that stand still".into(),
                drift => format!("Contexts that turn by {drift} degrees a round"),
            },
            x_label: "round".into(),
            y_label: format!("true risk in the next round (lower is better), mean and deviation over {seeds} seeds"),
            series,
            ..Figure::default()
        }
    }
}

/// The mean and the deviation over runs, world by world.
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
    /// The one that remembers first, then the one that forgets.
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

/// What a difference tells, with two standard errors.
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
