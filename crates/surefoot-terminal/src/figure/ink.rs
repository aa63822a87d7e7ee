//! Drawing of lines, markers and texts.

use kuva::render::color::Color;
use kuva::render::render::{PathData, Primitive, Scene, TextAnchor};

use super::Series;

pub(super) const TITLE: u32 = 16;
pub(super) const LABEL: u32 = 13;
pub(super) const TICK: u32 = 12;

pub(super) const INK: Color = Color::Rgb(0x22, 0x22, 0x22);
pub(super) const SOFT_INK: Color = Color::Rgb(0x55, 0x55, 0x55);
pub(super) const AXIS: Color = Color::Rgb(0x88, 0x88, 0x88);
pub(super) const GRID: Color = Color::Rgb(0xe8, 0xe8, 0xe8);
const WHITE: Color = Color::Rgb(0xff, 0xff, 0xff);

/// The palette of Okabe and Ito, whose colours can be told apart with any colour vision. Its yellow is left out,
/// because it is too faint for a line on white.
pub(super) const PALETTE: [Color; 7] = [
    Color::Rgb(0x00, 0x72, 0xb2),
    Color::Rgb(0xd5, 0x5e, 0x00),
    Color::Rgb(0x00, 0x9e, 0x73),
    Color::Rgb(0xcc, 0x79, 0xa7),
    Color::Rgb(0xe6, 0x9f, 0x00),
    Color::Rgb(0x56, 0xb4, 0xe9),
    Color::Rgb(0x00, 0x00, 0x00),
];

/// The corners of the markers, in units of their radius; no corners make a circle. Markers and dashes distinguish lines
/// without colour.
const MARKERS: [&[(f64, f64)]; 5] = [
    &[],
    &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
    &[(0.0, -1.25), (1.15, 0.85), (-1.15, 0.85)],
    &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
    &[(0.0, 1.25), (1.15, -0.85), (-1.15, -0.85)],
];
const MARKER_RADIUS: f64 = 4.2;
/// With more points than this, only some of them get a marker.
pub(super) const MOST_MARKERS: usize = 25;

/// Alternating lengths of ink and gap.
const DASHES: [&[f64]; 3] = [&[8.0, 5.0], &[2.0, 4.0], &[9.0, 4.0, 2.0, 4.0]];

/// The style of a series.
pub(super) struct Style {
    pub(super) color: Color,
    marker: Option<&'static [(f64, f64)]>,
    dashes: &'static [f64],
    pub(super) events: bool,
}

/// Assigns colours in order, with other markers each time the palette repeats. Dashed series get dashes in order.
pub(super) fn styles(series: &[Series]) -> Vec<Style> {
    let mut dashed = 0;
    let style = |(i, series): (usize, &Series)| {
        let color = PALETTE[i % PALETTE.len()].clone();
        if series.dashed {
            dashed += 1;
            return Style { color, marker: None, dashes: DASHES[(dashed - 1) % DASHES.len()], events: false };
        }
        Style { color, marker: Some(MARKERS[i % MARKERS.len()]), dashes: &[], events: series.events }
    };
    series.iter().enumerate().map(style).collect()
}

impl Style {
    pub(super) fn line(&self, scene: &mut Scene, points: &[(f64, f64)]) {
        let pieces = if self.dashes.is_empty() { vec![points.to_vec()] } else { dash(points, self.dashes) };
        for points in pieces {
            let stroke = self.color.clone();
            scene.elements.push(Primitive::PolyLine { points, stroke, stroke_width: 2.0, stroke_dasharray: None });
        }
    }

    /// Draws a marker with a white rim, which keeps it visible on lines of its own colour.
    pub(super) fn marker(&self, scene: &mut Scene, at: (f64, f64)) {
        if let Some(corners) = self.marker {
            shape(scene, corners, self.color.clone(), at);
        }
    }
}

/// Draws the marker of the series or group with this number.
pub(super) fn marker(scene: &mut Scene, number: usize, color: Color, at: (f64, f64)) {
    shape(scene, MARKERS[number % MARKERS.len()], color, at);
}

fn shape(scene: &mut Scene, corners: &[(f64, f64)], fill: Color, (x, y): (f64, f64)) {
    if corners.is_empty() {
        let (stroke, stroke_width) = (Some(WHITE), Some(1.0));
        let circle =
            Primitive::Circle { cx: x, cy: y, r: MARKER_RADIUS, fill, fill_opacity: None, stroke, stroke_width };
        scene.elements.push(circle);
    } else {
        let corners = corners.iter().map(|(dx, dy)| (x + MARKER_RADIUS * dx, y + MARKER_RADIUS * dy));
        polygon(scene, corners, fill, None, Some(1.0));
    }
}

/// Splits a line into its dashes.
fn dash(points: &[(f64, f64)], lengths: &[f64]) -> Vec<Vec<(f64, f64)>> {
    let (mut pieces, mut piece) = (Vec::new(), Vec::from_iter(points.first().copied()));
    let (mut k, mut left) = (0, lengths[0]);
    for ends in points.windows(2) {
        let [(x, y), (to_x, to_y)] = [ends[0], ends[1]];
        let whole = (to_x - x).hypot(to_y - y);
        let mut done = 0.0;
        while whole - done > left {
            done += left;
            let at = (x + (to_x - x) * done / whole, y + (to_y - y) * done / whole);
            if k % 2 == 0 {
                piece.push(at);
                pieces.push(std::mem::take(&mut piece));
            } else {
                piece = vec![at];
            }
            k += 1;
            left = lengths[k % lengths.len()];
        }
        left -= whole - done;
        if k % 2 == 0 {
            piece.push((to_x, to_y));
        }
    }
    pieces.push(piece);
    pieces.retain(|piece| piece.len() > 1);
    pieces
}

pub(super) fn polygon(
    scene: &mut Scene,
    corners: impl Iterator<Item = (f64, f64)>,
    fill: Color,
    opacity: Option<f64>,
    white_rim: Option<f64>,
) {
    let corners: Vec<String> = corners.map(|(x, y)| format!("{x:.2} {y:.2}")).collect();
    scene.elements.push(Primitive::Path(Box::new(PathData {
        d: format!("M {} Z", corners.join(" L ")),
        fill: Some(fill),
        stroke: if white_rim.is_some() { WHITE } else { Color::None },
        stroke_width: white_rim.unwrap_or(0.0),
        opacity,
        stroke_dasharray: None,
    })));
}

pub(super) fn line(scene: &mut Scene, [x1, y1, x2, y2]: [f64; 4], stroke: Color) {
    scene.elements.push(Primitive::Line { x1, y1, x2, y2, stroke, stroke_width: 1.0, stroke_dasharray: None });
}

pub(super) fn text(scene: &mut Scene, (x, y): (f64, f64), content: &str, size: u32, anchor: TextAnchor, color: Color) {
    // kuva parses text between dollar signs as mathematics.
    let content = content.replace('$', r"\$");
    scene.elements.push(Primitive::Text { x, y, content, size, anchor, rotate: None, bold: false, color: Some(color) });
}

/// The approximate width of a text in DejaVu Sans, the widest of the fonts.
pub(super) fn text_width(text: &str, size: u32) -> f64 {
    let em = |c: char| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '|' | '\'' | ' ' => 0.32,
        'f' | 'r' | 't' | '(' | ')' | '-' | '/' => 0.4,
        'm' | 'w' | 'M' | 'W' => 0.97,
        '\u{2212}' => 0.84,
        c if c.is_uppercase() => 0.72,
        c if (c as u32) < 0x2e80 => 0.64,
        _ => 1.0,
    };
    f64::from(size) * text.chars().map(em).sum::<f64>()
}

/// The text in lines, broken between words if it is wider than `widest`.
pub(super) fn wrap(text: &str, size: u32, widest: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}"), size) <= widest => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_go_on_around_corners() {
        let pieces = dash(&[(0.0, 0.0), (5.0, 0.0), (5.0, 9.0)], &[8.0, 4.0]);
        assert_eq!(pieces, [vec![(0.0, 0.0), (5.0, 0.0), (5.0, 3.0)], vec![(5.0, 7.0), (5.0, 9.0)]]);
    }
}
