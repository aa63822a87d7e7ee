//! The report of the runs: slopes, how often inequalities held, a table and a figure.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use surefoot_terminal::figure::{Figure, Scale, Series};

use super::run::{DELTA, FLOOR, Method, Point, Rule, Run, Size};
use crate::statistics::mean_and_deviation;

/// A method with all its runs.
#[derive(Debug, Serialize)]
pub(super) struct MethodResult {
    #[serde(flatten)]
    method: Method,
    /// The slope of the proven rate, if there is one for this lambda.
    theory: Option<f64>,
    /// The mean of the fitted slopes over the seeds, and their standard deviation.
    slope: f64,
    slope_deviation: f64,
    /// The mean suboptimality of the policy learned from `k` rounds, from `k = 0` on.
    suboptimality: Vec<f64>,
    runs: Vec<Run>,
}

impl MethodResult {
    pub(super) fn new(method: &Method, size: Size, runs: Vec<Run>) -> Self {
        let slopes = runs.iter().map(|run| {
            let fitted = run.points[first_fitted(size)..].iter().map(|p| (p.round as f64, p.suboptimality));
            slope(&fitted.map(|(k, gap)| (k.ln(), gap.ln())).collect::<Vec<_>>())
        });
        let (slope, slope_deviation) = mean_and_deviation(slopes);
        let theory = match method.rule {
            Rule::InverseSqrtOfAll => Some(-0.5),
            Rule::InverseSqrt => None,
            Rule::Theorem => Some(-size.alpha),
        };
        let mut result =
            MethodResult { method: *method, theory, slope, slope_deviation, suboptimality: Vec::new(), runs };
        result.suboptimality = (0..=size.rounds).map(|k| result.mean(k, |p| p.suboptimality)).collect();
        result
    }

    /// The values of all seeds at a round.
    fn at(&self, k: usize, value: impl Fn(&Point) -> f64) -> impl Iterator<Item = f64> {
        self.runs.iter().map(move |run| value(&run.points[k]))
    }

    fn mean(&self, k: usize, value: impl Fn(&Point) -> f64) -> f64 {
        mean_and_deviation(self.at(k, value)).0
    }

    fn bound(&self, k: usize) -> f64 {
        self.mean(k, |p| p.learned.map_or(f64::NAN, |learned| learned.bound))
    }

    fn lambda(&self, k: usize) -> f64 {
        self.mean(k, |p| p.learned.map_or(f64::NAN, |learned| learned.lambda))
    }
}

/// The first round of the fit of slopes: the first quarter is left out.
fn first_fitted(size: Size) -> usize {
    size.rounds.div_ceil(4)
}

/// The slope of the least-squares line.
fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let (x, y) = (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let (cross, square) =
        points.iter().fold((0.0, 0.0), |(c, s), p| (c + (p.0 - x) * (p.1 - y), s + (p.0 - x) * (p.0 - x)));
    cross / square
}

/// How often an inequality held.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Held {
    held: usize,
    of: usize,
}

impl Held {
    /// Counts `left <= right`, up to rounding.
    fn count(pairs: impl Iterator<Item = (f64, f64)>) -> Self {
        pairs.fold(Held::default(), |Held { held, of }, (left, right)| {
            let holds = left <= right + 1e-9 * (1.0 + right.abs());
            Held { held: held + usize::from(holds), of: of + 1 }
        })
    }
}

/// The most optimistic reading of Theorem 4.4.
#[derive(Debug, Serialize)]
struct Theorem {
    gamma: f64,
    lambda: f64,
    /// `C_alpha/(sqrt(m) K^alpha)` at the last round, as if the optimum had no divergence from the first policy.
    bound: f64,
    /// The largest possible suboptimality of a policy under the floor, over all seeds.
    largest: f64,
    /// The first round at which the bound is not vacuous.
    informative_from: f64,
}

/// The JSON output.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    version: &'static str,
    #[serde(flatten)]
    size: Size,
    seeds: usize,
    floor: f64,
    delta: f64,
    /// The first round of the fit of slopes.
    fitted_from: usize,
    /// Lemma 4.3 at the world's `u`.
    lemma: Held,
    /// Lemma 4.3 at `u = 0`.
    lemma_of_all: Held,
    proposition_3_3: Held,
    proposition_4_2: Held,
    theorem: Theorem,
    methods: Vec<MethodResult>,
}

impl Report {
    pub(super) fn new(size: Size, methods: Vec<MethodResult>) -> Self {
        let runs = || methods.iter().flat_map(|m| &m.runs);
        let points = || runs().flat_map(|run| &run.points);
        let proposition = |adjusted: bool| {
            let runs = methods.iter().filter(|m| m.method.adjusted() == adjusted).flat_map(|m| &m.runs);
            let points = runs.flat_map(|run| &run.points);
            Held::count(points.filter_map(|p| p.learned.map(|learned| (p.suboptimality, learned.bound))))
        };
        let facts = &methods[0].runs[0].facts;
        let of_theorem = methods.iter().find(|m| m.method.rule == Rule::Theorem).expect("a method of the list");
        let root = (size.records as f64).sqrt();
        let first = 64.0 * facts.gamma * (2.0 / DELTA).ln() / ((1.0 - size.alpha) * root);
        // Costs are in [-1, 0].
        let largest = runs().map(|run| -run.facts.floored_risk).fold(0.0, f64::max);
        let theorem = Theorem {
            gamma: facts.gamma,
            lambda: of_theorem.lambda(1),
            bound: first / (size.rounds as f64).powf(size.alpha),
            largest,
            informative_from: (first / largest).powf(1.0 / size.alpha).ceil(),
        };
        Report {
            version: env!("CARGO_PKG_VERSION"),
            size,
            seeds: methods[0].runs.len(),
            floor: FLOOR,
            delta: DELTA,
            fitted_from: first_fitted(size),
            lemma: Held::count(points().map(|p| (p.distance, p.lemma))),
            lemma_of_all: Held::count(points().map(|p| (p.distance, p.lemma_of_all))),
            proposition_3_3: proposition(false),
            proposition_4_2: proposition(true),
            theorem,
            methods,
        }
    }

    /// The tables, and one line per statement.
    pub(super) fn text(&self) -> String {
        let Report { size, theorem, lemma, lemma_of_all, proposition_3_3: slow, proposition_4_2: fast, .. } = self;
        let facts = &self.methods[0].runs[0].facts;
        [
            format!(
                "R(pi_k) - R(pi*) after k rounds of {} records, and the right-hand side of Proposition 3.3 (SeqLS) or 4.2\n\
                 (SeqAdjLS); means over {} seeds, C* is the least coverage of any\n",
                size.records, self.seeds
            ),
            self.rounds(),
            format!("\nSlopes, fitted over rounds {} to {}:\n", self.fitted_from, size.rounds),
            self.slopes(),
            format!(
                "\nLemma 4.3 held for {} of {} policies with u = {}, and for {} with u = 0, where alone it must.",
                lemma.held, lemma.of, facts.u, lemma_of_all.held
            ),
            format!("Proposition 3.3 held in {} of {} rounds, Proposition 4.2 in {} of {}.", slow.held, slow.of, fast.held, fast.of),
            format!(
                "Theorem 4.4 needs lambda = {} (gamma = {:.0}), at which hardly anything is learned. What it promises after\n\
                 {} rounds is {} even if the optimum had no divergence; no policy is as far off as {:.2}. It says nothing\n\
                 before round {:.0e}.",
                short(theorem.lambda),
                theorem.gamma,
                size.rounds,
                short(theorem.bound),
                theorem.largest,
                theorem.informative_from,
            ),
            format!(
                "Under the floor L(pi*, pi*) is {:.2} and not 0: as pi_k approaches pi*, Proposition 4.2 ends at that times\n\
                 lambda/(1 - lambda), and not at 0.",
                facts.floored_distance
            ),
        ]
        .join("\n")
    }

    /// The table of rounds 1, 2, 4 and so on, and of the last one.
    fn rounds(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let names = self.methods.iter().flat_map(|m| [m.method.name.replace(", ", "\n"), "bound".into(), "C*".into()]);
        table.set_header(std::iter::once("k".to_string()).chain(names));
        let last = self.size.rounds;
        let powers = (0..).map(|i| 1 << i).take_while(|&k: &usize| k < last);
        for k in powers.chain([last]) {
            let cells = self.methods.iter().flat_map(|m| {
                let coverage = m.at(k, |p| p.coverage).fold(1.0, f64::min);
                [format!("{:.4}", m.suboptimality[k]), short(m.bound(k)), format!("{coverage:.3}")]
            });
            table.add_row(std::iter::once(k.to_string()).chain(cells));
        }
        table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        table.trim_fmt()
    }

    fn slopes(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["method", "lambda at the end", "slope", "theory"]);
        for m in &self.methods {
            let theory = match m.theory {
                Some(slope) => format!("{slope}"),
                None if m.method.adjusted() => "none: lambda is too large for Theorem 4.4".into(),
                None => "none: Proposition 3.3 stops at lambda S".into(),
            };
            let slope = format!("{:.2} ± {:.2}", m.slope, m.slope_deviation);
            table.add_row([m.method.name.to_string(), short(m.lambda(self.size.rounds)), slope, theory]);
        }
        table.trim_fmt()
    }

    /// Suboptimality per round with its range over seeds, and lines with the slopes of the theory.
    pub(super) fn figure(&self) -> Figure {
        let rounds = 1..=self.size.rounds;
        let mut series: Vec<Series> = self
            .methods
            .iter()
            .map(|m| Series {
                label: m.method.name.replace("sqrt(m)", "\u{221a}m").replace("sqrt", "\u{221a}"),
                points: rounds.clone().map(|k| (k as f64, m.suboptimality[k])).collect(),
                band: Some(rounds.clone().map(|k| ends(m.at(k, |p| p.suboptimality))).collect()),
                ..Series::default()
            })
            .collect();
        let (from, to) = (self.fitted_from as f64, self.size.rounds as f64);
        // Starts at the first fitted round of the line's method, a little below its curve.
        let line = |m: &MethodResult| {
            let slope = m.theory?;
            let start = 0.8 * m.suboptimality[self.fitted_from];
            let source = if m.method.adjusted() { "Theorem 4.4" } else { "Proposition 3.3" };
            Some(Series {
                label: format!("slope {}, {source}", slope.to_string().replace('-', "\u{2212}")),
                points: vec![(from, start), (to, start * (to / from).powf(slope))],
                dashed: true,
                ..Series::default()
            })
        };
        series.extend(self.methods.iter().filter_map(line));
        Figure {
            title: format!("How fast policies approach the best one, {} records per round", self.size.records),
            x_label: "rounds learned from, k".into(),
            y_label: format!("risk above that of the best policy, mean and range over {} seeds", self.seeds),
            x_scale: Scale::Log,
            y_scale: Scale::Log,
            series,
        }
    }
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
}

/// Formats a number with three digits.
fn short(value: f64) -> String {
    let digits = if value > 0.0 { (2.0 - value.log10().floor()).clamp(0.0, 8.0) as usize } else { 2 };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fitted_slope_of_a_power_law_is_its_exponent() {
        let points: Vec<_> = (3..50).map(f64::from).map(|k| (k.ln(), (0.4 * k.powf(-0.7)).ln())).collect();
        assert!((slope(&points) + 0.7).abs() < 1e-12);
    }

    #[test]
    fn an_inequality_may_be_broken_by_rounding_and_by_no_more() {
        let held = Held::count([(1.0, 2.0), (1.0 + 1e-12, 1.0), (1.001, 1.0), (f64::NAN, 1.0)].into_iter());
        assert_eq!((held.held, held.of), (2, 4));
    }

    #[test]
    fn numbers_are_written_with_three_digits() {
        assert_eq!([0.0000375, 0.1, 2.345, 1234.5].map(short), ["0.0000375", "0.100", "2.35", "1234"]);
    }
}
