//! FIGURES: lines with bands over one pair of axes, as SVG and PNG with the same look.
//!
//! The layout is ours, and kuva draws it. Its shapes look alike in both formats. Its own charts have no legend with
//! line and marker, and its dashes differ between SVG and PNG. Figures that belong together are written into one file,
//! in columns.

mod axis;
mod forest;
mod ink;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::slice;

use kuva::RasterBackend;
use kuva::backend::svg::SvgBackend;
use kuva::render::render::{Scene, TextAnchor};

use crate::failure::{Failure, Result};
use axis::Axis;
pub use axis::Scale;
pub use forest::{Forest, Mark};
use ink::{
    AXIS, GRID, INK, LABEL, MOST_MARKERS, SOFT_INK, Style, TICK, TITLE, line, polygon, styles, text, text_width, wrap,
};

/// Fails unless a figure can be written under this name. Call it before the work, not after it.
pub fn check(stem: &Path) -> Result<()> {
    let named = stem.file_name().is_some() && !stem.as_os_str().to_string_lossy().ends_with(['/', '\\']);
    let folder = stem.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !named {
        Err(Failure::new(format!("{}: the figure needs a name in that folder", stem.display())))
    } else if !folder.is_dir() {
        Err(Failure::new(format!("{}: the figure cannot be written: no such folder", stem.display()))
            .hint(format!("make it first: mkdir -p {}", folder.display())))
    } else {
        paths(stem).iter().try_for_each(|path| surefoot_data::check_output(path).map_err(Failure::new))
    }
}

/// The files of a figure. A stem that ends as one of them means the name before that.
fn paths(stem: &Path) -> [PathBuf; 2] {
    const ENDS: [&str; 2] = ["svg", "png"];
    let named = stem.extension().is_some_and(|end| ENDS.iter().any(|own| end.eq_ignore_ascii_case(own)));
    let stem = if named { stem.with_extension("") } else { stem.to_owned() };
    ENDS.map(|end| with_suffix(&stem, &format!(".{end}")))
}

/// One method, policy or bound.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// The name in the legend; an empty name has no entry there.
    pub label: String,
    /// The points, in the order of the line through them.
    pub points: Vec<(f64, f64)>,
    /// The low and the high end of the band at each point.
    pub band: Option<Vec<(f64, f64)>>,
    /// Whether the line is dashed and has no markers, for references.
    pub dashed: bool,
    /// Whether there are only markers and no line, for events.
    pub events: bool,
}

/// A chart of lines.
///
/// Points that are not finite (or beyond 1e300), or not above 0 on a logarithmic axis, are left out. The line has a gap
/// there, and so does the band if one of its ends is such a number.
#[derive(Debug, Clone, Default)]
pub struct Figure {
    /// The title.
    pub title: String,
    /// The quantity on the horizontal axis.
    pub x_label: String,
    /// The quantity on the vertical axis.
    pub y_label: String,
    /// The scale of the horizontal axis.
    pub x_scale: Scale,
    /// The scale of the vertical axis.
    pub y_scale: Scale,
    /// The lines; the first are drawn on top.
    pub series: Vec<Series>,
}

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 450.0;
/// Pixels of the PNG per unit of the SVG.
const SCALE: f32 = 2.0;

const FONTS: &str = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif";
const LEADING: f64 = 17.0;

const MARGIN: f64 = 20.0;

impl Figure {
    /// Writes `stem.svg` and `stem.png`, whole and together, or not at all.
    pub fn write(&self, stem: &Path) -> Result<[PathBuf; 2]> {
        Figure::write_grid(slice::from_ref(self), 1, stem)
    }

    /// Writes several figures to `stem.svg` and `stem.png`, in `columns` columns.
    pub fn write_grid(figures: &[Figure], columns: usize, stem: &Path) -> Result<[PathBuf; 2]> {
        write_scene(&scene(figures, columns), extent(figures, columns), stem)
    }
}

/// Writes a scene of this width and height to `stem.svg` and `stem.png`, whole and together, or not at all.
fn write_scene(scene: &Scene, extent: [f64; 2], stem: &Path) -> Result<[PathBuf; 2]> {
    let png = RasterBackend::new().with_scale(SCALE).render_scene(scene).map_err(Failure::new)?;
    let svg = svg_of(scene, extent);
    let paths = paths(stem);
    surefoot_data::replace_all(&[(&paths[0], svg.as_bytes()), (&paths[1], &png)]).map_err(Failure::new)?;
    Ok(paths)
}

/// Appends to the last component of a path. Unlike `with_extension`, it keeps a dot that is already there.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// The figures as SVG; the same figures give the same bytes.
#[cfg(test)]
fn svg(figures: &[Figure], columns: usize) -> String {
    svg_of(&scene(figures, columns), extent(figures, columns))
}

/// Renders a scene as SVG.
fn svg_of(scene: &Scene, [width, height]: [f64; 2]) -> String {
    let svg = SvgBackend::new().render_scene(scene);
    // Without a view box, viewers cut the picture instead of shrinking it.
    svg.replacen("<svg ", &format!(r#"<svg viewBox="0 0 {width} {height}" "#), 1)
}

/// The width and height of all figures together.
fn extent(figures: &[Figure], columns: usize) -> [f64; 2] {
    [WIDTH * columns as f64, HEIGHT * figures.len().div_ceil(columns) as f64]
}

/// An empty scene of this width and height.
fn blank([width, height]: [f64; 2]) -> Scene {
    let mut scene = Scene::new(width, height);
    scene.font_family = Some(FONTS.into());
    scene.text_color = Some("#222222".into());
    scene
}

fn scene(figures: &[Figure], columns: usize) -> Scene {
    let mut scene = blank(extent(figures, columns));
    for (k, figure) in figures.iter().enumerate() {
        let (left, top) = (WIDTH * (k % columns) as f64, HEIGHT * (k / columns) as f64);
        panel(&mut scene, figure, [left, top, left + WIDTH, top + HEIGHT]);
    }
    scene
}

/// Draws a figure into the part of the scene from `left, top` to `right, bottom`.
fn panel(scene: &mut Scene, figure: &Figure, [left, top, right, bottom]: [f64; 4]) {
    let styles: Vec<Style> = styles(&figure.series);
    let series: Vec<Series> = figure.series.iter().map(|s| scaled(s, figure.x_scale, figure.y_scale)).collect();
    let runs: Vec<Vec<Vec<(f64, f64)>>> = series.iter().map(|s| runs(&s.points)).collect();
    let bands: Vec<Vec<Vec<[f64; 3]>>> = series.iter().map(band_runs).collect();
    let points = || runs.iter().flatten().flatten();
    let xs: Vec<f64> = points().map(|point| point.0).collect();
    let ends_of_bands = bands.iter().flatten().flatten().flat_map(|band| [band[1], band[2]]);
    let ys: Vec<f64> = points().map(|point| point.1).chain(ends_of_bands).collect();
    let (x, y) = (figure.x_scale.axis(&xs, 11, 0.02), figure.y_scale.axis(&ys, 7, 0.05));

    let widest_tick = y.ticks.iter().map(|(_, text)| text_width(text, TICK)).fold(0.0, f64::max);
    let entries: Vec<(usize, Vec<String>)> = (0..figure.series.len())
        .filter(|&i| !figure.series[i].label.is_empty())
        .map(|i| (i, wrap(&figure.series[i].label, LABEL, 0.25 * (right - left))))
        .collect();
    let widest_entry = entries.iter().flat_map(|(_, lines)| lines).map(|l| text_width(l, LABEL)).fold(0.0, f64::max);
    let frame = Frame {
        left: left + MARGIN + widest_tick + 10.0,
        top: top
            + 22.0
            + if figure.title.is_empty() { 0.0 } else { 24.0 }
            + if figure.y_label.is_empty() { 0.0 } else { 24.0 },
        right: right - MARGIN - if entries.is_empty() { 0.0 } else { LEGEND_GAP + SWATCH + 8.0 + widest_entry },
        bottom: bottom - if figure.x_label.is_empty() { 34.0 } else { 56.0 },
        x,
        y,
    };

    frame.draw(scene);
    title_and_labels(scene, figure, &frame, left + MARGIN, top, bottom);
    for (style, bands) in styles.iter().zip(&bands).rev() {
        for band in bands {
            let there = band.iter().map(|b| frame.at((b[0], b[1])));
            let back = band.iter().rev().map(|b| frame.at((b[0], b[2])));
            polygon(scene, there.chain(back), style.color.clone(), Some(0.16), None);
        }
    }
    for (style, runs) in styles.iter().zip(&runs).rev() {
        let runs: Vec<Vec<(f64, f64)>> =
            runs.iter().map(|run| run.iter().map(|&point| frame.at(point)).collect()).collect();
        if !style.events {
            runs.iter().for_each(|run| style.line(scene, run));
        }
        let all = runs.concat();
        let step = all.len().div_ceil(MOST_MARKERS).max(1);
        match figure.x_scale {
            Scale::Linear => all.iter().step_by(step).for_each(|&at| style.marker(scene, at)),
            Scale::Log => apart(&all, NEAREST_MARKERS).for_each(|at| style.marker(scene, at)),
        }
    }
    let ends = |i: usize| runs[i].last().and_then(|run| run.last()).map(|&point| frame.at(point).1);
    legend(scene, &frame, &styles, &entries, ends);
}

/// The smallest distance of neighbouring markers on a logarithmic axis, where points get closer and closer.
const NEAREST_MARKERS: f64 = 30.0;

/// The points, without those that are too close to the last one kept.
fn apart(points: &[(f64, f64)], least: f64) -> impl Iterator<Item = (f64, f64)> {
    let mut last = f64::NEG_INFINITY;
    points.iter().copied().filter(move |&(x, _)| {
        let keep = (x - last).abs() >= least;
        last = if keep { x } else { last };
        keep
    })
}

/// The title and the labels of both axes. The vertical label is above its axis, so that it is not rotated.
fn title_and_labels(scene: &mut Scene, figure: &Figure, frame: &Frame, left: f64, top: f64, bottom: f64) {
    text(scene, (left, top + 30.0), &figure.title, TITLE, TextAnchor::Start, INK);
    text(scene, (left, frame.top - 12.0), &figure.y_label, LABEL, TextAnchor::Start, SOFT_INK);
    let middle = 0.5 * (frame.left + frame.right);
    text(scene, (middle, bottom - 16.0), &figure.x_label, LABEL, TextAnchor::Middle, SOFT_INK);
}

/// The space between the frame and the legend, and the length of its pieces of line.
const LEGEND_GAP: f64 = 12.0;
const SWATCH: f64 = 30.0;

/// A legend right of the frame. Each entry is as close to the end of its line as the others allow.
fn legend(
    scene: &mut Scene,
    frame: &Frame,
    styles: &[Style],
    entries: &[(usize, Vec<String>)],
    end: impl Fn(usize) -> Option<f64>,
) {
    let mut placed: Vec<_> =
        entries.iter().map(|(i, lines)| (end(*i).unwrap_or(frame.bottom), *i, lines, lines.len() as f64)).collect();
    placed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wishes: Vec<(f64, f64)> = placed.iter().map(|&(at, .., lines)| (at, lines * LEADING + 4.0)).collect();
    let left = frame.right + LEGEND_GAP;
    for ((_, i, lines, _), centre) in placed.into_iter().zip(spread(&wishes, frame.top, frame.bottom)) {
        if !styles[i].events {
            styles[i].line(scene, &[(left, centre), (left + SWATCH, centre)]);
        }
        styles[i].marker(scene, (left + 0.5 * SWATCH, centre));
        let first = centre - 0.5 * LEADING * (lines.len() - 1) as f64 + 4.5;
        for (k, line) in lines.iter().enumerate() {
            let at = (left + SWATCH + 8.0, first + LEADING * k as f64);
            text(scene, at, line, LABEL, TextAnchor::Start, INK);
        }
    }
}

/// The centres of boxes with given heights and wished centres (increasing). The boxes keep their order, do not overlap,
/// and are as close to the wishes as possible in least squares: isotonic regression after subtracting the space of the
/// boxes above.
fn spread(wishes: &[(f64, f64)], top: f64, bottom: f64) -> Vec<f64> {
    let mut room = Vec::with_capacity(wishes.len());
    let mut above = 0.0;
    for &(_, height) in wishes {
        room.push(above + 0.5 * height);
        above += height;
    }
    // Groups of boxes that touch: the sum of their members' wishes, and their number.
    let mut groups: Vec<(f64, usize)> = Vec::new();
    for (&(wish, _), room) in wishes.iter().zip(&room) {
        let mut group = (wish - room, 1);
        while let Some(&(sum, n)) = groups.last()
            && sum / n as f64 > group.0 / group.1 as f64
        {
            group = (group.0 + sum, group.1 + n);
            groups.pop();
        }
        groups.push(group);
    }
    let highest = (bottom - above).max(top);
    let starts = groups.iter().flat_map(|&(sum, n)| std::iter::repeat_n((sum / n as f64).clamp(top, highest), n));
    starts.zip(room).map(|(start, room)| start + room).collect()
}

/// The area between the axes, and the mapping of data to it.
struct Frame {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
    x: Axis,
    y: Axis,
}

impl Frame {
    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let (u, v) = (self.x.share(x), self.y.share(y));
        (self.left + u * (self.right - self.left), self.bottom - v * (self.bottom - self.top))
    }

    fn draw(&self, scene: &mut Scene) {
        let Frame { left, top, right, bottom, .. } = *self;
        // Whole pixels keep thin lines sharp.
        let x_at = |value: f64| self.at((value, self.y.low)).0.round();
        let y_at = |value: f64| self.at((self.x.low, value)).1.round();
        for (value, label) in &self.x.ticks {
            let x = x_at(*value);
            line(scene, [x, top, x, bottom], GRID);
            line(scene, [x, bottom, x, bottom + 4.0], AXIS);
            text(scene, (x, bottom + 19.0), label, TICK, TextAnchor::Middle, SOFT_INK);
        }
        for (value, label) in &self.y.ticks {
            let y = y_at(*value);
            line(scene, [left, y, right, y], GRID);
            line(scene, [left - 4.0, y, left, y], AXIS);
            text(scene, (left - 8.0, y + 4.0), label, TICK, TextAnchor::End, SOFT_INK);
        }
        line(scene, [left, bottom, right, bottom], AXIS);
        line(scene, [left, top, left, bottom], AXIS);
    }
}

/// The series in the coordinates of the axes.
fn scaled(series: &Series, x: Scale, y: Scale) -> Series {
    Series {
        label: String::new(),
        points: series.points.iter().map(|&(a, b)| (x.of(a), y.of(b))).collect(),
        band: series.band.as_ref().map(|band| band.iter().map(|&(low, high)| (y.of(low), y.of(high))).collect()),
        ..*series
    }
}

fn drawable(value: f64) -> bool {
    value.abs() < 1e300
}

/// The points that can be drawn, split where one was left out.
fn runs(points: &[(f64, f64)]) -> Vec<Vec<(f64, f64)>> {
    let parts = points.split(|&(x, y)| !drawable(x) || !drawable(y));
    parts.filter(|run| !run.is_empty()).map(<[_]>::to_vec).collect()
}

/// The band as `[x, low, high]`, split where a number cannot be drawn or is missing.
fn band_runs(series: &Series) -> Vec<Vec<[f64; 3]>> {
    let band = series.band.as_deref().unwrap_or_default();
    let all: Vec<[f64; 3]> = series.points.iter().zip(band).map(|(p, b)| [p.0, b.0, b.1]).collect();
    let parts = all.split(|part| !part.iter().copied().all(drawable));
    parts.filter(|run| !run.is_empty()).map(<[_]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, process};

    impl Figure {
        fn svg(&self) -> String {
            svg(slice::from_ref(self), 1)
        }
    }

    fn sample() -> Figure {
        let points = || (0..=10).map(|t| (f64::from(t), -0.3 - 0.04 * f64::from(t)));
        let band = points().map(|(_, y)| (y - 0.01, y + 0.01)).collect();
        Figure {
            title: "Cost & <risk> in $ and $".into(),
            x_label: "round".into(),
            y_label: "expected cost".into(),
            series: vec![
                Series { label: "learner".into(), points: points().collect(), band: Some(band), ..Series::default() },
                Series {
                    label: "reference".into(),
                    points: vec![(0.0, -0.5), (10.0, -0.5)],
                    dashed: true,
                    ..Series::default()
                },
                Series { label: "alarm".into(), points: vec![(4.0, -0.46)], events: true, ..Series::default() },
            ],
            ..Figure::default()
        }
    }

    #[test]
    fn the_svg_holds_all_labels_and_is_the_same_each_time() {
        let svg = sample().svg();
        for text in
            ["Cost &amp; &lt;risk&gt; in $ and $", ">round<", ">expected cost<", ">learner<", ">reference<", ">alarm<"]
        {
            assert!(svg.contains(text), "{text}");
        }
        assert!(svg.starts_with("<svg viewBox=") && svg.contains(">10<") && svg.contains(">\u{2212}0.5<"));
        assert_eq!(svg, sample().svg());
    }

    #[test]
    fn the_ending_of_a_file_is_not_written_twice() {
        let names = |stem: &str| paths(stem.as_ref()).map(|path| path.display().to_string());
        for stem in ["a/risk", "a/risk.png", "a/risk.svg", "a/risk.PNG"] {
            assert_eq!(names(stem), ["a/risk.svg", "a/risk.png"], "{stem}");
        }
        assert_eq!(names("v0.5"), ["v0.5.svg", "v0.5.png"]);
        assert_eq!(names(".png"), [".png.svg", ".png.png"]);
    }

    #[test]
    fn points_that_are_not_finite_leave_a_gap_and_nothing_else() {
        let mut figure = sample();
        figure.series[0].points[4].1 = f64::NAN;
        figure.series[0].points[7].0 = f64::INFINITY;
        figure.series[0].band.as_mut().unwrap()[1].1 = f64::NEG_INFINITY;
        let svg = figure.svg();
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert_eq!(runs(&figure.series[0].points).iter().map(Vec::len).collect::<Vec<_>>(), [4, 2, 3]);
        assert_eq!(band_runs(&figure.series[0]).iter().map(Vec::len).collect::<Vec<_>>(), [1, 5, 3]);
    }

    #[test]
    fn a_power_law_is_straight_on_logarithmic_axes_and_what_is_not_above_0_is_a_gap() {
        let mut points: Vec<(f64, f64)> = (1..=64).map(|k| (f64::from(k), 0.3 / f64::from(k).sqrt())).collect();
        points[9].1 = 0.0;
        let mut figure = sample();
        (figure.x_scale, figure.y_scale) = (Scale::Log, Scale::Log);
        figure.series = vec![Series { points, ..Series::default() }];
        let drawn = runs(&scaled(&figure.series[0], Scale::Log, Scale::Log).points);
        assert_eq!(drawn.iter().map(Vec::len).collect::<Vec<_>>(), [9, 54]);
        for pair in drawn[1].windows(2) {
            let slope = (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0);
            assert!((slope + 0.5).abs() < 1e-9, "{slope}");
        }
        let svg = figure.svg();
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert!([">1<", ">2<", ">50<", ">0.1<", ">0.05<"].iter().all(|tick| svg.contains(tick)), "{svg}");
    }

    #[test]
    fn figures_without_data_or_range_are_still_drawn() {
        let one = |y| Series { label: "one".into(), points: vec![(3.0, y)], ..Series::default() };
        for series in [vec![], vec![Series::default()], vec![one(0.0)], vec![one(1e299)], vec![one(f64::NAN)]] {
            for y_scale in [Scale::Linear, Scale::Log] {
                let svg = Figure { series: series.clone(), y_scale, ..sample() }.svg();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }

    #[test]
    fn markers_keep_their_distance() {
        let points = [(0.0, 1.0), (20.0, 2.0), (29.0, 3.0), (31.0, 4.0), (50.0, 5.0), (90.0, 6.0)];
        assert_eq!(apart(&points, 30.0).collect::<Vec<_>>(), [(0.0, 1.0), (31.0, 4.0), (90.0, 6.0)]);
    }

    #[test]
    fn legend_entries_keep_their_order_and_do_not_overlap() {
        let centres = spread(&[(10.0, 20.0), (100.0, 20.0), (102.0, 20.0), (199.0, 20.0)], 0.0, 200.0);
        assert_eq!(centres, [10.0, 91.0, 111.0, 190.0]);
    }

    #[test]
    fn figures_below_each_other_are_each_drawn_whole() {
        let both = svg(&[sample(), Figure { title: "second".into(), ..sample() }], 1);
        assert!(both.starts_with(r#"<svg viewBox="0 0 800 900" "#) && both.contains(">second<"));
        assert_eq!(both.matches(">learner<").count(), 2);
    }

    #[test]
    fn both_files_are_written_whole_and_no_other_stays() {
        let folder = std::env::temp_dir().join(format!("surefoot-figure-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [svg, png] = sample().write(&folder.join("cost.v1")).unwrap();
        assert_eq!((svg.file_name(), png.file_name()), (Some("cost.v1.svg".as_ref()), Some("cost.v1.png".as_ref())));
        assert_eq!(fs::read_to_string(svg).unwrap(), sample().svg());
        // The width is in bytes 16 to 19 of a PNG.
        let png = fs::read(png).unwrap();
        assert_eq!(png[16..20], 1600u32.to_be_bytes());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
        assert!(sample().write(&folder.join("cost")).is_err());
    }
}
