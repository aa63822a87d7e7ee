//! The range of an axis, its ticks and their labels.

/// The scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// Equal differences have equal lengths.
    #[default]
    Linear,
    /// Equal ratios have equal lengths.
    Log,
}

impl Scale {
    /// The coordinate of a value; NaN if it has none.
    pub(super) fn of(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log if value > 0.0 => value.log10(),
            Scale::Log => f64::NAN,
        }
    }

    /// An axis for the coordinates with at most `most` ticks, and a margin on both sides as a share of the range.
    pub(super) fn axis(self, coordinates: &[f64], most: usize, margin: f64) -> Axis {
        match self {
            Scale::Linear => Axis::new(coordinates, most, margin),
            Scale::Log => Axis::log(coordinates, most, margin),
        }
    }
}

/// The range of one coordinate and its ticks.
#[derive(Debug)]
pub(super) struct Axis {
    pub(super) low: f64,
    pub(super) high: f64,
    /// The positions and labels of the ticks.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// An axis for the values with at most `most` ticks, and a margin on both sides as a share of the range. If all
    /// values are integers, so are the ticks.
    pub(super) fn new(values: &[f64], most: usize, margin: f64) -> Self {
        let (mut low, mut high) =
            values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &v| (low.min(v), high.max(v)));
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        // Nearly equal values get a wider range.
        let least = if low == 0.0 && high == 0.0 { 1.0 } else { 1e-6 * low.abs().max(high.abs()) };
        if high - low < least {
            let middle = 0.5 * (low + high);
            let room = if middle.abs() > 0.0 { 0.1 * middle.abs() } else { 1.0 };
            (low, high) = (middle - room, middle + room);
        }
        let span = high - low;
        (low, high) = (low - margin * span, high + margin * span);

        let whole = !values.is_empty() && values.iter().all(|v| v.fract() == 0.0 && v.abs() < 1e9);
        let mut exponent = (span / most as f64).log10().floor() as i32;
        let mut factor = 1.0;
        let step = |factor: f64, exponent: i32| factor * 10f64.powi(exponent);
        while span / step(factor, exponent) > (most - 1) as f64 || (whole && step(factor, exponent) < 1.0) {
            (factor, exponent) = match factor {
                1.0 => (2.0, exponent),
                2.0 => (5.0, exponent),
                _ => (1.0, exponent + 1),
            };
        }
        let step = step(factor, exponent);
        let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
        let ticks = (first..=last).map(|k| (k as f64 * step, tick(k as f64 * step, exponent))).collect();
        Axis { low, high, ticks }
    }

    /// An axis for decimal logarithms. Ticks are at 1, 2 and 5 times the powers of ten; at powers of ten alone if that
    /// would be too many; at every digit if it would be fewer than three.
    fn log(logs: &[f64], most: usize, margin: f64) -> Self {
        let (mut low, mut high) =
            logs.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &v| (low.min(v), high.max(v)));
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if high - low < 0.1 {
            (low, high) = (low - 0.1, high + 0.1);
        }
        let span = high - low;
        (low, high) = (low - margin * span, high + margin * span);
        let decades = low.floor() as i32..=high.floor() as i32;
        let ticks = |digits: &[f64], step: i32| -> Vec<(f64, String)> {
            let powers = decades.clone().filter(|power| power.rem_euclid(step) == 0);
            let all = powers.flat_map(|power| digits.iter().map(move |digit| (digit, power)));
            let at = all.map(|(digit, power)| (digit.log10() + f64::from(power), power_tick(*digit, power)));
            at.filter(|(at, _)| (low..=high).contains(at)).collect()
        };
        let every_digit = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
        let few = ticks(&[1.0, 2.0, 5.0], 1);
        let ticks = match few.len() {
            ..3 => ticks(&every_digit, 1),
            n if n <= most => few,
            _ => (1..).map(|step| ticks(&[1.0], step)).find(|ticks| ticks.len() <= most).unwrap_or_default(),
        };
        Axis { low, high, ticks }
    }

    /// The position of a value, from 0 at the low end to 1 at the high end.
    pub(super) fn share(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }
}

/// `digit * 10^power`, written out if that is short.
fn power_tick(digit: f64, power: i32) -> String {
    match power {
        -4..=5 => tick(digit * 10f64.powi(power), power),
        _ => format!("{digit}e{power}").replace('-', "\u{2212}"),
    }
}

/// A number whose last digit is that of ten to the power `exponent`, with a typographic minus sign.
fn tick(value: f64, exponent: i32) -> String {
    let digits = match exponent {
        ..-6 | 6.. => format!("{value:.1e}"),
        _ => format!("{:.*}", exponent.min(0).unsigned_abs() as usize, value.abs()),
    };
    let sign = if value < 0.0 && !digits.starts_with('-') { "-" } else { "" };
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut grouped = String::new();
    for (i, digit) in whole.chars().enumerate() {
        // Four digits are easier to read without a comma.
        if whole.len() > 4 && i > 0 && (whole.len() - i) % 3 == 0 && !digits.contains('e') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{rest}").replace('-', "\u{2212}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers_and_integers_where_the_values_are() {
        let ticks = |values: &[f64]| {
            let axis = Axis::new(values, 7, 0.0);
            axis.ticks.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ticks(&[0.0, 1.0, 2.0, 3.0]), "0 1 2 3");
        assert_eq!(ticks(&[1.0, 10.0]), "2 4 6 8 10");
        assert_eq!(ticks(&[-0.75, -0.3]), "\u{2212}0.7 \u{2212}0.6 \u{2212}0.5 \u{2212}0.4 \u{2212}0.3");
        assert_eq!(ticks(&[0.0, 60000.0]), "0 10,000 20,000 30,000 40,000 50,000 60,000");
        assert_eq!(ticks(&[0.0, 0.0001]), "0.00000 0.00002 0.00004 0.00006 0.00008 0.00010");
    }
    #[test]
    fn logarithmic_ticks_are_at_1_2_and_5_or_at_powers_of_ten() {
        let ticks = |values: &[f64]| {
            let logs: Vec<f64> = values.iter().map(|&v| Scale::Log.of(v)).collect();
            let axis = Scale::Log.axis(&logs, 9, 0.0);
            assert!(axis.ticks.iter().all(|(at, _)| (0.0..=1.0).contains(&axis.share(*at))));
            axis.ticks.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ticks(&[1.0, 64.0]), "1 2 5 10 20 50");
        assert_eq!(ticks(&[0.03, 0.4]), "0.05 0.1 0.2");
        assert_eq!(ticks(&[0.0005, 200.0]), "0.001 0.01 0.1 1 10 100");
        assert_eq!(ticks(&[2.4, 4.6]), "3 4");
        assert_eq!(ticks(&[20_000.0, 100_000.0]), "20,000 50,000 100,000");
        assert_eq!(ticks(&[1e-9, 1e9]), "1e\u{2212}8 1e\u{2212}6 0.0001 0.01 1 100 10,000 1e6 1e8");
        assert_eq!(ticks(&[]), "1 2 5 10");
        assert!(Scale::Log.of(0.0).is_nan() && Scale::Log.of(-1.0).is_nan());
    }
}
