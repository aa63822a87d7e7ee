//! What the paper prints: `-E pi(y|x)` of the last policy, without the noise of the rewards.

/// SeqLS and SeqAdjLS in its Table 1 (`alpha = 0.2`) and in the one that varies alpha.
pub(super) fn risks(set: &str, alpha: f64, rounds: usize) -> Option<[f64; 2]> {
    let tables: &[(&str, f64, &[(usize, [f64; 2])])] = &[
        (
            "mnist",
            0.2,
            &[(1, [-0.674, -0.678]), (5, [-0.758, -0.766]), (10, [-0.782, -0.791]), (100, [-0.781, -0.789])],
        ),
        (
            "cifar-100",
            0.2,
            &[(1, [-0.197, -0.207]), (5, [-0.344, -0.380]), (10, [-0.406, -0.455]), (100, [-0.508, -0.558])],
        ),
        (
            "cifar-100",
            0.0,
            &[
                (0, [-0.010, -0.010]),
                (1, [-0.011, -0.011]),
                (5, [-0.011, -0.011]),
                (10, [-0.020, -0.026]),
                (100, [-0.044, -0.077]),
            ],
        ),
        (
            "cifar-100",
            0.5,
            &[
                (0, [-0.268, -0.268]),
                (1, [-0.430, -0.440]),
                (5, [-0.500, -0.520]),
                (10, [-0.527, -0.555]),
                (100, [-0.583, -0.621]),
            ],
        ),
        (
            "cifar-100",
            1.0,
            &[
                (0, [-0.531, -0.531]),
                (1, [-0.569, -0.572]),
                (5, [-0.590, -0.600]),
                (10, [-0.600, -0.614]),
                (100, [-0.630, -0.649]),
            ],
        ),
    ];
    let (.., rows) = tables.iter().find(|(of, at, _)| *of == set && *at == alpha)?;
    rows.iter().find(|(k, _)| *k == rounds).map(|(_, risks)| *risks)
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
