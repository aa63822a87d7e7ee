//! Second moments of rows, and linear systems with them.

use faer::linalg::matmul::triangular::{BlockStructure, matmul};
use faer::linalg::solvers::Solve;
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::reborrow::ReborrowMut;
use faer::{Accum, Mat, MatMut, MatRef, Par, Side};

use crate::error::{Error, Result};

/// The number of rows per product: their block stays in the cache.
const ROWS: usize = 256;

/// The sum of `z z'` over rows `z`, as its lower triangle, row by row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Moments {
    size: usize,
    triangle: Vec<f64>,
}

/// Room that sums of one size need, to be used again: each time anew, the system would clear megabytes.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Column-major; only the lower triangle is used.
    sum: Vec<f64>,
    rows: Vec<f64>,
}

impl Moments {
    pub(crate) fn new(size: usize) -> Self {
        Moments { size, triangle: vec![0.0; size * (size + 1) / 2] }
    }

    /// From the lower triangle, row by row.
    pub(crate) fn of_triangle(size: usize, triangle: Vec<f64>) -> Result<Self> {
        match size * (size + 1) / 2 {
            entries if entries == triangle.len() => Ok(Moments { size, triangle }),
            entries => Err(Error::size("second moments", format!("{entries} entries"), triangle.len())),
        }
    }

    /// The lower triangle, row by row.
    pub(crate) fn triangle(&self) -> &[f64] {
        &self.triangle
    }

    /// The entry at `(i, j)`.
    pub(crate) fn at(&self, i: usize, j: usize) -> f64 {
        let (i, j) = (i.max(j), i.min(j));
        self.triangle[i * (i + 1) / 2 + j]
    }

    /// The entries `(i, 0)` to `(i, i)`.
    pub(crate) fn row(&self, i: usize) -> &[f64] {
        &self.triangle[i * (i + 1) / 2..][..=i]
    }

    /// Adds `n` rows: `fill(i, row)` writes row `i` into zeros. The sum is in the order of the rows.
    pub(crate) fn add(&mut self, room: &mut Room, n: usize, fill: impl Fn(usize, &mut [f64])) {
        if n == 0 {
            return;
        }
        let size = self.size;
        let Room { sum, rows: room } = room;
        sum.resize(size * size, 0.0);
        room.resize(ROWS * size, 0.0);
        let mut sum = MatMut::from_column_major_slice_mut(sum, size, size);
        for start in (0..n).step_by(ROWS) {
            let rows = ROWS.min(n - start);
            let block = &mut room[..rows * size];
            block.fill(0.0);
            block.chunks_exact_mut(size).enumerate().for_each(|(i, row)| fill(start + i, row));
            let z = MatRef::from_row_major_slice(block, rows, size);
            let (lower, all) = (BlockStructure::TriangularLower, BlockStructure::Rectangular);
            let accum = if start == 0 { Accum::Replace } else { Accum::Add };
            matmul(sum.rb_mut(), lower, accum, z.transpose(), all, z, all, 1.0, Par::Seq);
        }
        for j in 0..size {
            for i in j..size {
                self.triangle[i * (i + 1) / 2 + j] += sum[(i, j)];
            }
        }
    }

    /// Adds the moments of other rows of the same size.
    pub(crate) fn merge(&mut self, other: &Moments) {
        assert_eq!(self.size, other.size);
        self.triangle.iter_mut().zip(&other.triangle).for_each(|(own, new)| *own += new);
    }

    /// The same with the other moments times a factor.
    pub(crate) fn merge_scaled(&mut self, other: &Moments, factor: f64) {
        assert_eq!(self.size, other.size);
        self.triangle.iter_mut().zip(&other.triangle).for_each(|(own, new)| *own += factor * new);
    }

    /// The Cholesky factor of `scale M + diag(d)`, with `M` the leading part of the size of `d`. `None` if the matrix is not
    /// positive definite in floating-point numbers.
    pub(crate) fn factor(&self, scale: f64, d: &[f64]) -> Option<Factor> {
        let entry = |i: usize, j: usize| scale * self.at(i, j) + if i == j { d[i] } else { 0.0 };
        // Only the lower triangle is read.
        let matrix = Mat::from_fn(d.len(), d.len(), |i, j| if i >= j { entry(i, j) } else { 0.0 });
        let factor = matrix.llt(Side::Lower).ok()?.L().to_owned();
        (0..d.len()).all(|i| factor[(i, i)].is_finite()).then_some(Factor(factor))
    }

    /// The trace of the part over the given entries.
    pub(crate) fn trace(&self, entries: std::ops::Range<usize>) -> f64 {
        entries.map(|i| self.at(i, i)).sum()
    }

    /// `M v` for the leading part `M` of the size of `v`.
    pub(crate) fn times(&self, v: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; v.len()];
        for i in 0..v.len() {
            let row = self.row(i);
            let mut sum = row[i] * v[i];
            for j in 0..i {
                sum += row[j] * v[j];
                out[j] += row[j] * v[i];
            }
            out[i] += sum;
        }
        out
    }

    /// The precision of the first `p` coordinates if all of them have the precision `M + diag(d)`: its inverse is the leading
    /// part of the inverse. Row-major `p x p`. `None` if a matrix is not positive definite in floating-point numbers.
    pub(crate) fn marginal(&self, d: &[f64], p: usize) -> Option<Vec<f64>> {
        let rest = d.len() - p;
        let entry = |i: usize, j: usize| self.at(i, j) + if i == j { d[i] } else { 0.0 };
        let mut out: Vec<f64> = (0..p * p).map(|at| entry(at / p, at % p)).collect();
        if rest > 0 {
            let factor = Mat::from_fn(rest, rest, |i, j| entry(p + i, p + j)).llt(Side::Lower).ok()?;
            let cross = Mat::from_fn(rest, p, |i, j| entry(p + i, j));
            let part = cross.transpose() * factor.solve(&cross);
            // Both triangles have the same rounding.
            (0..p * p).for_each(|at| out[at] -= 0.5 * (part[(at / p, at % p)] + part[(at % p, at / p)]));
        }
        out.iter().all(|v| v.is_finite()).then_some(out)
    }

    /// Solves `(M + diag(d)) x = b` for each right-hand side `b`, with `M` the leading part of the size of `d`, and returns
    /// the solutions and `ln det(M + diag(d))`. `None` if the matrix is not positive definite in floating-point numbers.
    pub(crate) fn solve<const N: usize>(&self, d: &[f64], b: [&[f64]; N]) -> Option<([Vec<f64>; N], f64)> {
        let p = d.len();
        let mut matrix = Mat::<f64>::zeros(p, p);
        for i in 0..p {
            self.row(i).iter().enumerate().for_each(|(j, &v)| matrix[(i, j)] = v);
            matrix[(i, i)] += d[i];
        }
        let factor = matrix.llt(Side::Lower).ok()?;
        let right = Mat::from_fn(p, N, |i, j| b[j][i]);
        let x = factor.solve(&right);
        let determinant = 2.0 * (0..p).map(|i| factor.L()[(i, i)].ln()).sum::<f64>();
        let x: [Vec<f64>; N] = std::array::from_fn(|j| (0..p).map(|i| x[(i, j)]).collect());
        (determinant.is_finite() && x.iter().flatten().all(|v| v.is_finite())).then_some((x, determinant))
    }
}

/// A Cholesky factor: a lower triangle `L` with `L L' = A`.
#[derive(Debug, Clone)]
pub(crate) struct Factor(Mat<f64>);

impl Factor {
    /// `L^-1 b`.
    pub(crate) fn solve(&self, b: &[f64]) -> Vec<f64> {
        let mut x = b.to_vec();
        let right = MatMut::from_column_major_slice_mut(&mut x, b.len(), 1);
        solve_lower_triangular_in_place(self.0.as_ref(), right, Par::Seq);
        x
    }

    /// `L'^-1 b`.
    pub(crate) fn solve_transposed(&self, b: &[f64]) -> Vec<f64> {
        let mut x = b.to_vec();
        let right = MatMut::from_column_major_slice_mut(&mut x, b.len(), 1);
        solve_upper_triangular_in_place(self.0.transpose(), right, Par::Seq);
        x
    }

    /// `ln det A`.
    pub(crate) fn ln_determinant(&self) -> f64 {
        2.0 * (0..self.0.nrows()).map(|i| self.0[(i, i)].ln()).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_inverse_of_a_marginal_precision_is_the_leading_part_of_the_inverse() {
        let (size, p) = (5, 3);
        let mut moments = Moments::new(size);
        moments.add(&mut Room::default(), 40, |i, z| {
            z.iter_mut().enumerate().for_each(|(f, z)| *z = ((i * 7 + f * 3) % 11) as f64 / 5.0 - 1.0);
        });
        let d = [0.5, 1.0, 0.2, 0.3, 2.0];
        let marginal = moments.marginal(&d, p).unwrap();
        for column in 0..p {
            let unit: Vec<f64> = (0..size).map(|i| f64::from(u8::from(i == column))).collect();
            let ([inverse], _) = moments.solve(&d, [&unit]).unwrap();
            for row in 0..p {
                let found: f64 = (0..p).map(|j| marginal[row * p + j] * inverse[j]).sum();
                assert!((found - unit[row]).abs() < 1e-10, "{row} {column}: {found}");
            }
        }
    }

    proptest! {
        #[test]
        fn moments_are_the_sums_of_the_definition_and_merge(
            (size, n, cut, z) in (1usize..9, 0usize..600).prop_flat_map(|(size, n)| {
                (Just(size), Just(n), 0..=n, prop::collection::vec(-2.0f64..2.0, n * size))
            })
        ) {
            let part = |from: usize, to: usize| {
                let mut sum = Moments::new(size);
                sum.add(&mut Room::default(), to - from, |i, row| row.copy_from_slice(&z[(from + i) * size..][..size]));
                sum
            };
            let (whole, mut merged) = (part(0, n), part(0, cut));
            merged.merge(&part(cut, n));
            for i in 0..size {
                for j in 0..size {
                    let expected: f64 = z.chunks_exact(size).map(|z| z[i] * z[j]).sum();
                    prop_assert!((whole.at(i, j) - expected).abs() < 1e-9);
                    prop_assert!((merged.at(i, j) - expected).abs() < 1e-9);
                }
            }
        }

        #[test]
        fn a_solution_solves_the_system_and_the_determinant_is_the_product_of_two_steps(
            z in prop::collection::vec(-2.0f64..2.0, 30),
            d in prop::collection::vec(0.1f64..3.0, 3),
            b in prop::collection::vec(-2.0f64..2.0, 3),
        ) {
            let mut sum = Moments::new(3);
            sum.add(&mut Room::default(), 10, |i, row| row.copy_from_slice(&z[3 * i..][..3]));
            let ([x, y], determinant) = sum.solve(&d, [&b, &d]).unwrap();
            for (x, b) in [(x, &b), (y, &d)] {
                let product = sum.times(&x);
                for i in 0..3 {
                    prop_assert!((product[i] + d[i] * x[i] - b[i]).abs() < 1e-9);
                }
            }
            let m = |i: usize, j: usize| sum.at(i, j) + if i == j { d[i] } else { 0.0 };
            let minor = |a: usize, b: usize| m(1, a) * m(2, b) - m(1, b) * m(2, a);
            let expected = m(0, 0) * minor(1, 2) - m(0, 1) * minor(0, 2) + m(0, 2) * minor(0, 1);
            prop_assert!((determinant - expected.ln()).abs() < 1e-9);
        }
    }

    #[test]
    fn the_two_halves_of_a_factor_solve_the_system() {
        let mut moments = Moments::new(4);
        moments.add(&mut Room::default(), 30, |i, z| {
            z.iter_mut().enumerate().for_each(|(f, z)| *z = ((i * 5 + f * 7) % 9) as f64 / 4.0 - 1.0);
        });
        let (d, b) = ([0.5, 1.0, 0.2, 0.3], [1.0, -2.0, 0.5, 3.0]);
        let mut scaled = Moments::new(4);
        scaled.merge_scaled(&moments, 0.7);
        let factor = moments.factor(0.7, &d).unwrap();
        let ([expected], determinant) = scaled.solve(&d, [&b]).unwrap();
        let found = factor.solve_transposed(&factor.solve(&b));
        assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?} {expected:?}");
        assert!((factor.ln_determinant() - determinant).abs() < 1e-12);
        assert!(Moments::new(2).factor(1.0, &[0.0, 0.0]).is_none());
    }

    #[test]
    fn a_matrix_that_is_not_positive_definite_has_no_solution() {
        assert_eq!(Moments::new(2).solve(&[0.0, 0.0], [&[1.0, 1.0]]), None);
        let mut sum = Moments::new(1);
        sum.add(&mut Room::default(), 1, |_, row| row[0] = f64::NAN);
        assert_eq!(sum.solve(&[1.0], [&[1.0]]), None);
    }
}
