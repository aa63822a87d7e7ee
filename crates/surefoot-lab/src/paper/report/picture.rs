//! Pictures: panels of lines.

use std::path::{Path, PathBuf};

use surefoot_terminal::Result;
use surefoot_terminal::figure::{Figure, Scale, Series};

use super::table::{groups, title};
use super::{NOISE, Point, Results, Summary};
use crate::paper::methods::Method;
use crate::paper::{FIGURE, TABLE, What};

/// Panels side by side.
pub(super) struct Picture {
    panels: Vec<Figure>,
}

impl Picture {
    pub(super) fn write(&self, stem: &Path) -> Result<[PathBuf; 2]> {
        Figure::write_grid(&self.panels, self.panels.len().min(2), stem)
    }
}

/// A line through a quantity of a method's points.
fn line(label: String, row: &Summary, of: impl Fn(&Point) -> Option<(f64, f64)>) -> Series {
    let all: Vec<(f64, (f64, f64))> =
        row.curve.iter().filter_map(|point| Some((point.round as f64, of(point)?))).collect();
    Series {
        label,
        points: all.iter().map(|(x, (y, _))| (*x, *y)).collect(),
        band: Some(all.iter().map(|(_, (y, deviation))| (y - deviation, y + deviation)).collect()),
        ..Series::default()
    }
}

impl Results<'_> {
    /// The picture of a result, if it has one and there is data to show.
    pub(super) fn picture(&self, what: What, rows: &[Summary]) -> Option<Picture> {
        let panels: Vec<Figure> = match what {
            What::Table1 | What::Table2 => groups(rows, |row| (row.set.key(), row.alpha))
                .iter()
                .map(|rows| self.by_rounds_panel(what, rows))
                .collect(),
            What::Figure1 | What::Figure2 | What::Figure3 | What::Figure4 => {
                groups(rows, |row| row.set.key()).iter().map(|rows| self.rounds_panel(what, rows)).collect()
            }
            What::Certified => {
                groups(rows, |row| row.set.key()).iter().map(|rows| self.certified_panel(rows)).collect()
            }
            What::Best => groups(rows, |row| row.set.key()).iter().map(|rows| self.best_panel(rows)).collect(),
            What::Scrm | What::All => Vec::new(),
        };
        (!panels.is_empty()).then_some(Picture { panels })
    }

    fn spread(&self, what: What) -> String {
        format!("mean and deviation over {}", self.over(what))
    }

    /// Risk by the number of rounds, with the paper's numbers dashed.
    fn by_rounds_panel(&self, what: What, rows: &[&Summary]) -> Figure {
        let mut series: Vec<Series> = Vec::new();
        for method in TABLE.iter().rev() {
            let of: Vec<&&Summary> = rows.iter().filter(|row| row.method == *method).collect();
            let at = |row: &Summary| (row.rounds as f64, row.last().risk);
            let band = |row: &Summary| (row.last().risk - row.last().deviation, row.last().risk + row.last().deviation);
            series.push(Series {
                label: method.label().into(),
                points: of.iter().map(|row| at(row)).collect(),
                band: Some(of.iter().map(|row| band(row)).collect()),
                ..Series::default()
            });
        }
        for method in [Method::SeqAdjLs, Method::SeqLs] {
            let of = rows.iter().filter(|row| row.method == method);
            let points: Vec<(f64, f64)> = of.filter_map(|row| Some((row.rounds as f64, row.paper?))).collect();
            if !points.is_empty() {
                let label = format!("{}, paper", method.label());
                series.push(Series { label, points, dashed: true, ..Series::default() });
            }
        }
        Figure {
            title: format!("{}: {}, alpha {}", title(what), self.title(rows[0]), rows[0].alpha),
            x_label: "rounds k".into(),
            y_label: format!("risk of the last policy, {}", self.spread(what)),
            x_scale: Scale::Log,
            series,
            ..Figure::default()
        }
    }

    /// Risk per round.
    fn rounds_panel(&self, what: What, rows: &[&Summary]) -> Figure {
        let of = |method: &Method| rows.iter().find(|row| row.method == *method);
        let risk = |point: &Point| Some((point.risk, point.deviation));
        Figure {
            title: format!("{}: {}, alpha {}", title(what), self.title(rows[0]), rows[0].alpha),
            x_label: "round".into(),
            y_label: format!("risk, {}", self.spread(what)),
            series: FIGURE.iter().filter_map(of).map(|row| line(row.method.label().into(), row, risk)).collect(),
            ..Figure::default()
        }
    }

    /// Certified and true risk per round.
    fn certified_panel(&self, rows: &[&Summary]) -> Figure {
        let mut series = Vec::new();
        for row in rows.iter().rev() {
            let method = row.method.label();
            let truth = |point: &Point| Some((point.true_risk, point.true_deviation));
            series.push(line(format!("{method}, true"), row, truth));
            // A cost of `-NOISE`, of a policy that is always wrong, is the worst possible.
            let proven = |point: &Point| Some((point.certified_true_risk?.min(-NOISE), 0.0));
            series.push(Series { dashed: true, band: None, ..line(format!("{method}, proven"), row, proven) });
        }
        Figure {
            title: format!("What is proven: {}, alpha {}", self.title(rows[0]), rows[0].alpha),
            x_label: "round".into(),
            y_label: format!("expected cost, {}", self.spread(What::Certified)),
            series,
            ..Figure::default()
        }
    }

    /// Risk by alpha.
    fn best_panel(&self, rows: &[&Summary]) -> Figure {
        let rows: Vec<&&Summary> = rows.iter().filter(|row| row.rounds == self.size.rounds).collect();
        let by_alpha = |methods: &[Method], of: fn(&Point) -> Option<f64>| -> Vec<(f64, f64)> {
            let mut points: Vec<(f64, f64)> = Vec::new();
            for row in rows.iter().filter(|row| methods.contains(&row.method)) {
                let Some(value) = of(row.last()) else { continue };
                match points.iter_mut().find(|(alpha, _)| *alpha == row.alpha) {
                    Some((_, best)) => *best = best.min(value),
                    None => points.push((row.alpha, value)),
                }
            }
            points
        };
        let series = |label: &str, methods: &[Method], of| Series {
            label: label.into(),
            points: by_alpha(methods, of),
            ..Series::default()
        };
        Figure {
            title: format!("{}: {} rounds", self.title(rows[0]), self.size.rounds),
            x_label: "alpha: from a uniform first policy to a trained one".into(),
            y_label: "risk of the last policy".into(),
            series: vec![
                series("Surefoot", &[Method::Surefoot], |point| Some(point.risk)),
                Series { dashed: true, ..series("Surefoot, proven", &[Method::Surefoot], |point| point.certified) },
                series("SCRM, best reading", &Method::SCRM, |point| Some(point.risk)),
                series("Surefoot, flat prior", &[Method::SurefootFlat], |point| Some(point.risk)),
                series("SeqAdjLS", &[Method::SeqAdjLs], |point| Some(point.risk)),
            ],
            ..Figure::default()
        }
    }
}
