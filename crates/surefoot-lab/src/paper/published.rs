//! The paper's printed results: `-E pi(y|x)` of the last policy, without the noise of the rewards.

/// The rows of Table 1 (`alpha = 0.2`) and of the table that varies alpha: set, alpha, rounds, SeqLS, SeqAdjLS.
const ROWS: [(&str, f64, usize, f64, f64); 23] = [
    ("mnist", 0.2, 1, -0.674, -0.678),
    ("mnist", 0.2, 5, -0.758, -0.766),
    ("mnist", 0.2, 10, -0.782, -0.791),
    ("mnist", 0.2, 100, -0.781, -0.789),
    ("cifar-100", 0.2, 1, -0.197, -0.207),
    ("cifar-100", 0.2, 5, -0.344, -0.380),
    ("cifar-100", 0.2, 10, -0.406, -0.455),
    ("cifar-100", 0.2, 100, -0.508, -0.558),
    ("cifar-100", 0.0, 0, -0.010, -0.010),
    ("cifar-100", 0.0, 1, -0.011, -0.011),
    ("cifar-100", 0.0, 5, -0.011, -0.011),
    ("cifar-100", 0.0, 10, -0.020, -0.026),
    ("cifar-100", 0.0, 100, -0.044, -0.077),
    ("cifar-100", 0.5, 0, -0.268, -0.268),
    ("cifar-100", 0.5, 1, -0.430, -0.440),
    ("cifar-100", 0.5, 5, -0.500, -0.520),
    ("cifar-100", 0.5, 10, -0.527, -0.555),
    ("cifar-100", 0.5, 100, -0.583, -0.621),
    ("cifar-100", 1.0, 0, -0.531, -0.531),
    ("cifar-100", 1.0, 1, -0.569, -0.572),
    ("cifar-100", 1.0, 5, -0.590, -0.600),
    ("cifar-100", 1.0, 10, -0.600, -0.614),
    ("cifar-100", 1.0, 100, -0.630, -0.649),
];

/// The paper's results for SeqLS and SeqAdjLS, if it prints them.
pub(super) fn risks(set: &str, alpha: f64, rounds: usize) -> Option<[f64; 2]> {
    let row = ROWS.iter().find(|row| (row.0, row.1, row.2) == (set, alpha, rounds));
    row.map(|&(.., seq_ls, seq_adj_ls)| [seq_ls, seq_adj_ls])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_read_by_set_alpha_and_rounds() {
        assert_eq!(risks("mnist", 0.2, 10), Some([-0.782, -0.791]));
        assert_eq!(risks("cifar-100", 1.0, 100), Some([-0.630, -0.649]));
        assert_eq!(risks("mnist", 0.5, 10), None);
        assert_eq!(risks("cifar-100", 0.2, 7), None);
    }
}
