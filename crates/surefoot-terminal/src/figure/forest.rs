//! A forest plot: one row per estimate, with its intervals, in groups.

use std::path::{Path, PathBuf};

use kuva::render::render::{Primitive, Scene, TextAnchor};

use super::axis::Axis;
use super::ink::{AXIS, GRID, INK, LABEL, PALETTE, SOFT_INK, TICK, TITLE, line, marker, text, text_width, wrap};
use super::{MARGIN, WIDTH, blank, write_scene};
use crate::failure::Result;

/// An estimate and its intervals.
#[derive(Debug, Clone)]
pub struct Mark {
    /// The label of the row.
    pub label: String,
    /// The estimate, if there is one.
    pub value: Option<f64>,
    /// The interval of the thick line.
    pub thick: Option<(f64, f64)>,
    /// The interval of the thin line with ends.
    pub thin: Option<(f64, f64)>,
}

/// Estimates in groups, each group with its own colour.
#[derive(Debug, Clone, Default)]
pub struct Forest {
    /// The title.
    pub title: String,
    /// The quantity on the horizontal axis.
    pub x_label: String,
    /// The meaning of thick and thin lines.
    pub note: String,
    /// The groups, with their names.
    pub groups: Vec<(String, Vec<Mark>)>,
}

/// The height of a row, and the heights of the space above and below all rows.
const ROW: f64 = 22.0;
const HEAD: f64 = 52.0;
const FOOT: f64 = 76.0;

impl Forest {
    /// Writes `stem.svg` and `stem.png`, each whole or not at all.
    pub fn write(&self, stem: &Path) -> Result<[PathBuf; 2]> {
        let extent = [WIDTH, self.height()];
        write_scene(&self.scene(extent), extent, stem)
    }

    fn height(&self) -> f64 {
        let rows: usize = self.groups.iter().map(|(_, marks)| marks.len() + 1).sum();
        HEAD + FOOT + ROW * rows as f64
    }

    fn scene(&self, [width, height]: [f64; 2]) -> Scene {
        let mut scene = blank([width, height]);
        let marks = || self.groups.iter().flat_map(|(_, marks)| marks);
        let ends = |ends: Option<(f64, f64)>| ends.into_iter().flat_map(|(low, high)| [low, high]);
        let all: Vec<f64> = marks()
            .flat_map(|mark| mark.value.into_iter().chain(ends(mark.thick)).chain(ends(mark.thin)))
            .filter(|x| x.is_finite())
            .collect();
        let widest = marks().map(|mark| text_width(&mark.label, LABEL)).fold(0.0, f64::max).min(0.4 * width);
        let (left, right) = (2.0 * MARGIN + 12.0 + widest, width - MARGIN - 20.0);
        let (top, bottom) = (HEAD, height - FOOT);
        let axis = Axis::new(&all, 8, 0.04);
        let at = |x: f64| left + axis.share(x).clamp(0.0, 1.0) * (right - left);

        text(&mut scene, (MARGIN, 30.0), &self.title, TITLE, TextAnchor::Start, INK);
        for (value, label) in &axis.ticks {
            let x = at(*value).round();
            line(&mut scene, [x, top, x, bottom], GRID);
            line(&mut scene, [x, bottom, x, bottom + 4.0], AXIS);
            text(&mut scene, (x, bottom + 19.0), label, TICK, TextAnchor::Middle, SOFT_INK);
        }
        line(&mut scene, [left, bottom, right, bottom], AXIS);
        text(&mut scene, (0.5 * (left + right), bottom + 40.0), &self.x_label, LABEL, TextAnchor::Middle, SOFT_INK);
        for (k, note) in wrap(&self.note, TICK, width - 2.0 * MARGIN).iter().take(1).enumerate() {
            text(&mut scene, (MARGIN, bottom + 62.0 + 14.0 * k as f64), note, TICK, TextAnchor::Start, SOFT_INK);
        }
        let mut y = top;
        for (g, (name, marks)) in self.groups.iter().enumerate() {
            let color = PALETTE[g % PALETTE.len()].clone();
            text(&mut scene, (MARGIN, y + 0.5 * ROW + 5.0), name, LABEL, TextAnchor::Start, INK);
            y += ROW;
            for mark in marks {
                let middle = (y + 0.5 * ROW).round();
                text(&mut scene, (MARGIN + 12.0, middle + 4.5), &mark.label, LABEL, TextAnchor::Start, SOFT_INK);
                let mut bar = |(low, high): (f64, f64), stroke_width: f64| {
                    let points = vec![(at(low), middle), (at(high), middle)];
                    let stroke = color.clone();
                    scene.elements.push(Primitive::PolyLine { points, stroke, stroke_width, stroke_dasharray: None });
                };
                if let Some((low, high)) = mark.thin {
                    bar((low, high), 1.0);
                }
                if let Some(ends) = mark.thick {
                    bar(ends, 4.0);
                }
                for end in mark.thin.into_iter().flat_map(|(low, high)| [low, high]) {
                    let x = at(end);
                    line(&mut scene, [x, middle - 5.0, x, middle + 5.0], color.clone());
                }
                if let Some(value) = mark.value {
                    marker(&mut scene, g, color.clone(), (at(value), middle));
                }
                y += ROW;
            }
        }
        scene
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::svg_of;

    #[test]
    fn every_row_is_drawn_with_its_intervals() {
        let mark = |label: &str, value| Mark {
            label: label.into(),
            value,
            thick: Some((0.2, 0.4)),
            thin: Some((0.0, f64::INFINITY)),
        };
        let forest = Forest {
            title: "two".into(),
            groups: vec![("a".into(), vec![mark("ips", Some(0.3)), mark("dm", None)]), ("b".into(), vec![])],
            ..Forest::default()
        };
        let extent = [WIDTH, forest.height()];
        let svg = svg_of(&forest.scene(extent), extent);
        assert!(svg.contains(">ips<") && svg.contains(">dm<") && svg.contains(">b<"));
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
