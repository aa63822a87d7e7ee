//! Means and co-moments of columns, block by block.

use crate::math::kernels::{lane_sum, wide};
use crate::math::sum::Sum;

/// The sums of some columns, and for some pairs of them `sum_i (x_i - mean x)(y_i - mean y)`.
///
/// Blocks are centred at their own means and merged by the rule of Chan, Golub and LeVeque (1979):
/// `M = M_1 + M_2 + (mean x_2 - mean x_1)(mean y_2 - mean y_1) n_1 n_2/(n_1 + n_2)`. It avoids the subtraction of large
/// numbers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Moments {
    pub(super) records: usize,
    sums: Vec<Sum>,
    products: Vec<f64>,
}

impl Moments {
    pub(super) fn new(columns: usize, pairs: usize) -> Self {
        Moments { records: 0, sums: vec![Sum::default(); columns], products: vec![0.0; pairs] }
    }

    /// The moments of a block; its columns are centred in place.
    pub(super) fn of_block(columns: &mut [Vec<f64>], pairs: &[(usize, usize)]) -> Self {
        let records = columns.first().map_or(0, Vec::len);
        let sums = columns.iter_mut().map(|column| {
            let total = wide(
                #[inline(always)]
                || {
                    lane_sum(
                        column,
                        column,
                        #[inline(always)]
                        |x: f64, _| x,
                    )
                },
            );
            let mean = total / records as f64;
            column.iter_mut().for_each(|x| *x -= mean);
            Sum { total, lost: 0.0 }
        });
        let sums = sums.collect();
        let products = pairs.iter().map(|&(i, j)| {
            wide(
                #[inline(always)]
                || {
                    lane_sum(
                        &columns[i],
                        &columns[j],
                        #[inline(always)]
                        |x: f64, y: f64| x * y,
                    )
                },
            )
        });
        Moments { records, sums, products: products.collect() }
    }

    /// Adds the moments of other records.
    pub(super) fn join(&mut self, other: &Moments, pairs: &[(usize, usize)]) {
        if self.records == 0 || other.records == 0 {
            if self.records == 0 {
                self.clone_from(other);
            }
            return;
        }
        let (n, m) = (self.records as f64, other.records as f64);
        let apart = |i: usize| other.sums[i].value() / m - self.sums[i].value() / n;
        for ((own, new), &(i, j)) in self.products.iter_mut().zip(&other.products).zip(pairs) {
            *own += new + apart(i) * apart(j) * (n * m / (n + m));
        }
        self.sums.iter_mut().zip(&other.sums).for_each(|(own, new)| own.join(*new));
        self.records += other.records;
    }

    /// The mean of each column.
    pub(super) fn means(&self) -> Vec<f64> {
        self.sums.iter().map(|sum| sum.value() / self.records as f64).collect()
    }

    /// The sample variance of `sum_i slope_i x_i`; 0 for a single record.
    pub(super) fn variance(&self, slopes: &[(usize, f64)], pairs: &[(usize, usize)]) -> f64 {
        let product = |i: usize, j: usize| {
            let at = pairs.iter().position(|&pair| pair == (i.min(j), i.max(j)));
            self.products[at.expect("a pair that an estimator has")]
        };
        let terms = slopes.iter().flat_map(|&(i, a)| slopes.iter().map(move |&(j, b)| (i, j, a * b)));
        let sum: f64 = terms.map(|(i, j, weight)| weight * product(i, j)).sum();
        if self.records < 2 { 0.0 } else { sum.max(0.0) / (self.records - 1) as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_join_to_the_moments_of_the_whole_even_far_from_zero() {
        let x: Vec<f64> = (0..1000).map(|i| 1e6 + f64::from(i * i % 37) / 1024.0).collect();
        let y: Vec<f64> = (0..1000).map(|i| f64::from(i * 7 % 11)).collect();
        let pairs = [(0, 0), (0, 1)];
        let mut joined = Moments::new(2, 2);
        for (x, y) in x.chunks(64).zip(y.chunks(64)) {
            joined.join(&Moments::of_block(&mut [x.to_vec(), y.to_vec()], &pairs), &pairs);
        }
        let mean = |x: &[f64]| x.iter().sum::<f64>() / 1000.0;
        let product = |x: &[f64], y: &[f64]| -> f64 {
            x.iter().zip(y).map(|(a, b)| (a - mean(x)) * (b - mean(y))).sum::<f64>() / 999.0
        };
        assert!((joined.means()[0] - mean(&x)).abs() < 1e-9);
        assert!((joined.variance(&[(0, 1.0)], &pairs) / product(&x, &x) - 1.0).abs() < 1e-6);
        assert!((joined.products[1] / 999.0 / product(&x, &y) - 1.0).abs() < 1e-6);
    }
}
