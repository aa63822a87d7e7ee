//! Pictures with logarithmic axes: curves in panels, and bars for ratios. The layout is ours, and kuva draws it.

use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::Args;
use kuva::RasterBackend;
use kuva::backend::svg::SvgBackend;
use kuva::render::color::Color;
use kuva::render::render::{Primitive, Scene, TextAnchor};
use serde::Deserialize;

use crate::work::Result;

const INK: Color = Color::Rgb(0x22, 0x22, 0x22);
const SOFT: Color = Color::Rgb(0x66, 0x66, 0x66);
const GRID: Color = Color::Rgb(0xe4, 0xe4, 0xe4);
/// Four colours of Okabe and Ito, which can be told apart with any colour vision.
const COLORS: [Color; 4] = [
    Color::Rgb(0x00, 0x72, 0xb2),
    Color::Rgb(0xe6, 0x9f, 0x00),
    Color::Rgb(0x00, 0x9e, 0x73),
    Color::Rgb(0xcc, 0x79, 0xa7),
];

/// A picture under construction.
#[derive(Debug)]
pub(crate) struct Picture {
    scene: Scene,
    size: (f64, f64),
}

impl Picture {
    fn new(width: f64, height: f64) -> Self {
        let mut scene = Scene::new(width, height);
        scene.font_family = Some("DejaVu Sans, Verdana, Helvetica, Arial, sans-serif".into());
        Picture { scene, size: (width, height) }
    }

    fn text(&mut self, (x, y): (f64, f64), content: &str, size: u32, anchor: TextAnchor, color: Color) {
        let content = content.to_owned();
        let text = Primitive::Text { x, y, content, size, anchor, rotate: None, bold: false, color: Some(color) };
        self.scene.elements.push(text);
    }

    fn line(&mut self, points: Vec<(f64, f64)>, stroke: Color, stroke_width: f64) {
        self.scene.elements.push(Primitive::PolyLine { points, stroke, stroke_width, stroke_dasharray: None });
    }

    fn dot(&mut self, (cx, cy): (f64, f64), fill: Color) {
        let dot = Primitive::Circle { cx, cy, r: 3.5, fill, fill_opacity: None, stroke: None, stroke_width: None };
        self.scene.elements.push(dot);
    }

    fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: Color) {
        let (stroke, stroke_width, opacity) = (None, None, None);
        self.scene.elements.push(Primitive::Rect { x, y, width, height, fill, stroke, stroke_width, opacity });
    }

    fn svg(&self) -> String {
        let (width, height) = self.size;
        // Without a view box, viewers cut the picture instead of shrinking it.
        SvgBackend::new().render_scene(&self.scene).replacen(
            "<svg ",
            &format!(r#"<svg viewBox="0 0 {width} {height}" "#),
            1,
        )
    }

    /// Writes `stem.svg` and `stem.png`.
    pub(crate) fn write(&self, stem: &Path) -> Result<()> {
        let png = RasterBackend::new().with_scale(2.0).render_scene(&self.scene).map_err(io::Error::other)?;
        fs::write(stem.with_extension("svg"), self.svg())?;
        Ok(fs::write(stem.with_extension("png"), png)?)
    }
}

/// A logarithmic axis between two powers of ten, drawn between two positions.
struct Axis {
    decades: (f64, f64),
    places: (f64, f64),
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>, places: (f64, f64)) -> Self {
        let logs = values.filter(|v| *v > 0.0).map(f64::log10);
        let (low, high) = logs.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        let (low, high) = if low > high { (0.0, 1.0) } else { (low.floor(), high.ceil().max(low.floor() + 1.0)) };
        Axis { decades: (low, high), places }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.log10() - self.decades.0) / (self.decades.1 - self.decades.0);
        self.places.0 + share * (self.places.1 - self.places.0)
    }

    fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        let (low, high) = (self.decades.0 as i32, self.decades.1 as i32);
        (low..=high).map(|power| {
            let value = 10f64.powi(power);
            let text = if power < -3 { format!("1e{power}") } else { thousands(&value.to_string()) };
            (self.at(value), text.replace('-', "\u{2212}"))
        })
    }
}

/// A ratio as text, with few digits and with commas.
fn times(ratio: f64) -> String {
    if ratio < 100.0 { format!("{ratio:.1} x") } else { thousands(&format!("{ratio:.0}")) + " x" }
}

fn thousands(digits: &str) -> String {
    if digits.contains('.') {
        return digits.to_owned();
    }
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|g| str::from_utf8(g).expect("digits")).collect();
    groups.join(",")
}

/// A curve: its points in the order of the line through them.
#[derive(Debug)]
pub(crate) struct Curve {
    pub(crate) label: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Curves over the same quantity.
#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) name: String,
    pub(crate) curves: Vec<Curve>,
}

/// Draws panels side by side with a common vertical axis, and a grey line of slope 1 through the end of each curve.
pub(crate) fn curves(title: &str, panels: &[Panel]) -> Result<Picture> {
    const WIDTH: f64 = 350.0;
    const BOTTOM: f64 = 390.0;
    let mut picture = Picture::new(70.0 + WIDTH * panels.len() as f64, 440.0);
    picture.text((20.0, 30.0), title, 16, TextAnchor::Start, INK);
    let all = || panels.iter().flat_map(|panel| &panel.curves).flat_map(|curve| &curve.points);
    let y = Axis::new(all().map(|p| p.1), (BOTTOM, 110.0));
    for (i, panel) in panels.iter().enumerate() {
        let left = 70.0 + WIDTH * i as f64;
        let right = left + WIDTH - 66.0;
        let points = || panel.curves.iter().flat_map(|curve| &curve.points);
        let x = Axis::new(points().map(|p| p.0), (left, right));
        for (place, label) in y.ticks() {
            picture.line(vec![(left, place), (right, place)], GRID, 1.0);
            if i == 0 {
                picture.text((left - 8.0, place + 4.0), &label, 12, TextAnchor::End, SOFT);
            }
        }
        for (place, label) in x.ticks() {
            picture.line(vec![(place, BOTTOM), (place, 110.0)], GRID, 1.0);
            picture.text((place, BOTTOM + 18.0), &label, 12, TextAnchor::Middle, SOFT);
        }
        picture.text((0.5 * (left + right), BOTTOM + 38.0), &panel.name, 13, TextAnchor::Middle, INK);
        for (j, (curve, color)) in panel.curves.iter().zip(COLORS).enumerate() {
            let heading = 62.0 + 18.0 * j as f64;
            picture.dot((left + 5.0, heading - 4.0), color.clone());
            picture.text((left + 14.0, heading), &curve.label, 11, TextAnchor::Start, INK);
            if let Some(&(end, height)) = curve.points.last() {
                // Starts at the left edge, or at the point where the line would leave the panel at the bottom.
                let lowest = 10f64.powf(y.decades.0) / height * end;
                let start = 10f64.powf(x.decades.0).max(lowest);
                let ends = [(start, height * start / end), (end, height)];
                picture.line(ends.iter().map(|p| (x.at(p.0), y.at(p.1))).collect(), Color::Rgb(0xaa, 0xaa, 0xaa), 1.0);
            }
            let places: Vec<(f64, f64)> = curve.points.iter().map(|p| (x.at(p.0), y.at(p.1))).collect();
            places.iter().for_each(|&place| picture.dot(place, color.clone()));
            picture.line(places, color, 2.0);
        }
    }
    Ok(picture)
}

/// Draw the ratios of `rivals.json` as bars
#[derive(Debug, Args)]
pub(crate) struct Chart {
    /// The file that `compare.py` wrote
    #[arg(long, default_value = "bench/results/rivals.json")]
    from: PathBuf,
    /// The SVG file
    #[arg(long, default_value = "docs/images/bench.svg")]
    out: PathBuf,
}

/// The fields of a comparison that the chart uses.
#[derive(Debug, Deserialize)]
struct Ratio {
    work: String,
    threads: usize,
    rival: String,
    ratio: f64,
    target: Option<f64>,
    chart: bool,
}

#[derive(Debug, Deserialize)]
struct Ratios {
    rows: Vec<Ratio>,
}

impl Chart {
    pub(crate) fn run(&self) -> Result<()> {
        let mut all: Ratios = serde_json::from_str(&fs::read_to_string(&self.from)?)?;
        all.rows.retain(|row| row.chart);
        Ok(fs::write(&self.out, bars(&all.rows).svg())?)
    }
}

/// Draws one bar per ratio. Ratios of the same work and number of threads have a common heading.
fn bars(rows: &[Ratio]) -> Picture {
    const LEFT: f64 = 320.0;
    const RIGHT: f64 = 750.0;
    const WIDTH: f64 = 840.0;
    const TOP: f64 = 90.0;
    const BAR: f64 = 15.0;
    let groups: Vec<&[Ratio]> = rows.chunk_by(|a, b| (&a.work, a.threads) == (&b.work, b.threads)).collect();
    let height = TOP + 14.0 + rows.len() as f64 * (BAR + 3.0) + groups.len() as f64 * 14.0 + 30.0;
    let bottom = height - 34.0;
    let mut rivals: Vec<&str> = Vec::new();
    for row in rows {
        if !rivals.contains(&row.rival.as_str()) {
            rivals.push(&row.rival);
        }
    }
    let color = |row: &Ratio| COLORS[rivals.iter().position(|r| *r == row.rival).unwrap_or(0) % COLORS.len()].clone();

    let mut picture = Picture::new(WIDTH, height);
    picture.text((20.0, 30.0), "How many times as fast as", 16, TextAnchor::Start, INK);
    for (i, (rival, color)) in rivals.iter().zip(COLORS.iter().cycle()).enumerate() {
        let (left, top) = (20.0 + 250.0 * (i / 2) as f64, 44.0 + 20.0 * (i % 2) as f64);
        picture.rectangle((left, top), (12.0, 12.0), color.clone());
        picture.text((left + 18.0, top + 10.0), rival, 12, TextAnchor::Start, INK);
    }
    picture.line(vec![(566.0, 42.0), (566.0, 58.0)], INK, 2.0);
    picture.text((576.0, 54.0), "aim", 12, TextAnchor::Start, INK);

    let x = Axis::new(rows.iter().map(|row| row.ratio).chain([1.0]), (LEFT, RIGHT));
    for (place, label) in x.ticks() {
        picture.line(vec![(place, TOP), (place, bottom)], GRID, 1.0);
        picture.text((place, bottom + 18.0), &label, 12, TextAnchor::Middle, SOFT);
    }
    let mut top = TOP + 8.0;
    for group in groups {
        let middle = top + 0.5 * group.len() as f64 * (BAR + 3.0);
        let threads = if group[0].threads == 1 { "1 thread".into() } else { format!("{} threads", group[0].threads) };
        picture.text((LEFT - 10.0, middle - 3.0), &group[0].work, 12, TextAnchor::End, INK);
        picture.text((LEFT - 10.0, middle + 12.0), &threads, 11, TextAnchor::End, SOFT);
        for row in group {
            let (start, end) = (x.at(1.0), x.at(row.ratio));
            picture.rectangle((start.min(end), top), ((end - start).abs(), BAR), color(row));
            picture.text((WIDTH - 15.0, top + 12.0), &times(row.ratio), 12, TextAnchor::End, INK);
            if let Some(target) = row.target {
                picture.line(vec![(x.at(target), top - 2.0), (x.at(target), top + BAR + 2.0)], INK, 2.0);
            }
            top += BAR + 3.0;
        }
        top += 14.0;
    }
    picture
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_reach_over_all_values_in_whole_decades() {
        let axis = Axis::new([0.5, 2000.0].into_iter(), (0.0, 100.0));
        let ticks: Vec<String> = axis.ticks().map(|(_, text)| text).collect();
        assert_eq!(ticks, ["0.1", "1", "10", "100", "1,000", "10,000"]);
        assert!((axis.at(1.0) - 20.0).abs() < 1e-9);
    }

    #[test]
    fn every_ratio_gets_a_bar() {
        let row = |rival: &str, ratio| Ratio {
            work: "an epoch".into(),
            threads: 2,
            rival: rival.into(),
            ratio,
            target: Some(60.0),
            chart: true,
        };
        let svg = bars(&[row("published", 81.5), row("tuned", 12345.0)]).svg();
        for text in ["an epoch", "2 threads", "published", "tuned", "81.5 x", "12,345 x"] {
            assert!(svg.contains(&format!(">{text}<")), "{text}");
        }
    }
}
