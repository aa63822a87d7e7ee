//! Summaries over seeds, and quantiles.

/// The mean, and the standard deviation with divisor `n - 1` (0 for one value).
pub fn mean_and_deviation(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let values: Vec<f64> = values.collect();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    (mean, if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 })
}

/// The number above which a standard normal variable is with this probability, by bisection.
pub(crate) fn normal_quantile(tail: f64) -> f64 {
    let above = |z: f64| 0.5 * libm::erfc(z * std::f64::consts::FRAC_1_SQRT_2);
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if above(middle) > tail { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (tail, z) in [(0.5, 0.0), (0.05, 1.644_854), (0.975, -1.959_964), (1e-4, 3.719_016)] {
            assert!((normal_quantile(tail) - z).abs() < 1e-6, "{tail}");
        }
    }
}
