//! Products of feature rows with matrices. Features are stored in `f32`; sums have the number type of the matrix.
//!
//! Matrices are feature-major: entry `(f, a)` of a `p x K` matrix is at `f * K + a`, so that one feature touches `K`
//! consecutive numbers.

use std::ops::Range;

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par, Side};
use rayon::prelude::*;

use super::kernels::{sparse_accumulate, sparse_scores};
use super::prefetch::prefetch;
use super::real::Real;
use crate::contexts::{Contexts, Row};
use crate::error::Result;

/// The number of rows that are worked on together: their block stays in the cache.
pub(crate) const BLOCK: usize = 64;

/// A block of rows, ready for products.
#[derive(Debug)]
pub(crate) enum Block<'a, R> {
    Sparse(&'a [Row<'a>]),
    /// `n x p` numbers.
    Dense {
        x: &'a [R],
        n: usize,
        p: usize,
    },
}

impl<'a, R: Real> Block<'a, R> {
    /// Gathers the rows, unless all are sparse. Rounds may be stored in different forms: a mix of both kinds is handled
    /// as dense.
    pub(crate) fn new(rows: &'a [Row<'a>], p: usize, room: &'a mut Vec<R>) -> Self {
        if rows.iter().all(|row| matches!(row, Row::Sparse { .. })) {
            return Block::Sparse(rows);
        }
        room.clear();
        for (i, row) in rows.iter().enumerate() {
            if let Some(Row::Dense(next)) = rows.get(i + 2) {
                prefetch(next);
            }
            match row {
                Row::Dense(x) => room.extend(x.iter().map(|&v| R::of_f32(v))),
                Row::Sparse { .. } => {
                    let start = room.len();
                    room.resize(start + p, R::ZERO);
                    row.for_each(|f, v| room[start + f] = R::of(v));
                }
            }
        }
        Block::Dense { x: room, n: rows.len(), p }
    }

    /// `out = X W`, one row of `k` values for each row; `W` is `p x k`.
    pub(crate) fn scores(&self, w: &[R], k: usize, out: &mut [R]) {
        match *self {
            Block::Sparse(rows) => sparse_scores(rows, w, k, out),
            Block::Dense { x, n, p } => matmul(
                MatMut::from_row_major_slice_mut(out, n, k),
                Accum::Replace,
                MatRef::from_row_major_slice(x, n, p),
                MatRef::from_row_major_slice(w, p, k),
                R::ONE,
                Par::Seq,
            ),
        }
    }

    /// `g += X' D` with `add`, otherwise `g = X' D`; `d` has `k` values per row, and `g` is `p x k`.
    pub(crate) fn accumulate(&self, d: &[R], k: usize, add: bool, g: &mut [R]) {
        match *self {
            Block::Sparse(rows) => {
                if !add {
                    g.fill(R::ZERO);
                }
                sparse_accumulate(rows, d, k, g);
            }
            Block::Dense { x, n, p } => matmul(
                MatMut::from_row_major_slice_mut(g, p, k),
                if add { Accum::Add } else { Accum::Replace },
                MatRef::from_row_major_slice(x, n, p).transpose(),
                MatRef::from_row_major_slice(d, n, k),
                R::ONE,
                Par::Seq,
            ),
        }
    }
}

/// `out = X W` for any number of rows.
pub(crate) fn scores(rows: &[Row<'_>], w: &[f64], k: usize, out: &mut [f64]) {
    let mut room = Vec::new();
    for (rows, out) in rows.chunks(BLOCK).zip(out.chunks_mut(BLOCK * k)) {
        Block::new(rows, w.len() / k, &mut room).scores(w, k, out);
    }
}

/// `g += X' D` for any number of rows.
pub(crate) fn accumulate(rows: &[Row<'_>], d: &[f64], k: usize, g: &mut [f64]) {
    let mut room = Vec::new();
    for (rows, d) in rows.chunks(BLOCK).zip(d.chunks(BLOCK * k)) {
        Block::new(rows, g.len() / k, &mut room).accumulate(d, k, true, g);
    }
}

/// The two products of a search, block by block: `scores = X W` and `gradient = X' scores`, with the scores in place of
/// slopes.
#[cfg(feature = "internals")]
pub fn products(contexts: &Contexts, w: &[f32], k: usize, scores: &mut [f32], gradient: &mut [f32]) {
    let mut room = Vec::new();
    let rows: Vec<Row<'_>> = contexts.iter().collect();
    for (b, (rows, scores)) in rows.chunks(BLOCK).zip(scores.chunks_mut(BLOCK * k)).enumerate() {
        let block = Block::new(rows, contexts.features(), &mut room);
        block.scores(w, k, scores);
        block.accumulate(scores, k, b > 0, gradient);
    }
}

/// Fills `width` entries for each of `0..n`, in parallel over ranges of at most `size`. The ranges, and so every sum
/// within them, do not depend on the number of threads. If several ranges fail, the first error is returned.
pub(crate) fn in_blocks<T: Send + Clone>(
    n: usize,
    size: usize,
    (width, empty): (usize, T),
    work: impl Fn(Range<usize>, &mut [T]) -> Result<()> + Sync,
) -> Result<Vec<T>> {
    let mut out = vec![empty; n * width];
    if n <= size {
        work(0..n, &mut out)?;
        return Ok(out);
    }
    let blocks = out.par_chunks_mut(size * width).enumerate();
    let done: Vec<Result<()>> = blocks.map(|(b, out)| work(b * size..b * size + out.len() / width, out)).collect();
    done.into_iter().collect::<Result<()>>()?;
    Ok(out)
}

/// The number of rows that are mapped at once for their second moments: whole blocks.
const MAPPED: usize = 32 * BLOCK;

/// The second moments `X'X` of contexts that `map` turns into `p` features, some at a time: all of them at once would be the
/// largest thing in memory.
pub(crate) fn second_moments(
    contexts: &Contexts,
    p: usize,
    map: impl Fn(&Contexts) -> Result<Contexts>,
) -> Result<Vec<f64>> {
    let mut moments = vec![0.0; p * p];
    for start in (0..contexts.len()).step_by(MAPPED) {
        let part = map(&contexts.slice(start..(start + MAPPED).min(contexts.len())))?;
        let rows: Vec<Row<'_>> = part.iter().collect();
        for rows in rows.chunks(BLOCK) {
            let mut dense = vec![0.0; rows.len() * p];
            for (row, out) in rows.iter().zip(dense.chunks_exact_mut(p)) {
                row.for_each(|f, v| out[f] = v);
            }
            accumulate(rows, &dense, p, &mut moments);
        }
    }
    Ok(moments)
}

/// The eigenvalues of a symmetric `p x p` matrix in increasing order, and its eigenvectors as the columns of a row-major
/// matrix. `None` if an entry is not finite. Values and vectors are exact to about `p` units of rounding of the largest
/// entry.
///
/// Rows without an entry are set aside: their eigenvalue is 0 and their eigenvector an axis. The rest is solved as
/// `A / |A| + 2 I`, which has the same eigenvectors. The solver compares each off-diagonal entry with the diagonal
/// entries next to it, so without the shift it may not converge when many eigenvalues are 0 up to rounding.
///
/// The sign of an eigenvector is arbitrary; here its entry of largest magnitude is positive.
pub(crate) fn eigenvectors(matrix: &[f64], p: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    if matrix.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let (used, empty): (Vec<usize>, Vec<usize>) =
        (0..p).partition(|&i| matrix[i * p..(i + 1) * p].iter().any(|&v| v != 0.0));
    let q = used.len();
    if q == 0 {
        // The solver panics on a matrix without entries.
        let unit = |i: usize| f64::from(u8::from(i / p == i % p));
        return Some((vec![0.0; p], (0..p * p).map(unit).collect()));
    }
    // Entries are divided first, so that nothing overflows; the largest sum of a row bounds every eigenvalue.
    let largest = matrix.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
    let sum = |&i: &usize| matrix[i * p..(i + 1) * p].iter().map(|v| v.abs() / largest).sum();
    let norm = used.iter().map(sum).fold(0.0, f64::max);
    const SHIFT: f64 = 2.0;
    let shifted = |i: usize, j: usize| {
        let entry = matrix[used[i] * p + used[j]] / largest / norm;
        if i == j { entry + SHIFT } else { entry }
    };
    let eigen = Mat::from_fn(q, q, shifted).self_adjoint_eigen(Side::Lower).ok()?;
    let u = eigen.U();
    let value = |j: usize| (eigen.S()[j] - SHIFT) * norm * largest;
    // The axes of empty rows go between the negative and the positive eigenvalues.
    let negative = (0..q).take_while(|&j| value(j) < 0.0).count();
    let (mut values, mut vectors) = (vec![0.0; p], vec![0.0; p * p]);
    for (column, &axis) in (negative..).zip(&empty) {
        vectors[axis * p + column] = 1.0;
    }
    for j in 0..q {
        let column = if j < negative { j } else { j + empty.len() };
        values[column] = value(j);
        let sign = (0..q).map(|i| u[(i, j)]).fold(0.0, |m: f64, v| if v.abs() > m.abs() { v } else { m }).signum();
        for i in 0..q {
            vectors[used[i] * p + column] = u[(i, j)] * sign;
        }
    }
    Some((values, vectors))
}

/// `X U` for a row-major `p x k` matrix `U`, as dense contexts in `f32` after `finish(column, value)`.
pub(crate) fn map_rows(
    contexts: &Contexts,
    u: &[f64],
    k: usize,
    finish: impl Fn(usize, f64) -> f32 + Sync,
) -> Result<Vec<f32>> {
    in_blocks(contexts.len(), BLOCK, (k, 0.0), |range, out| {
        let rows: Vec<Row<'_>> = range.map(|i| contexts.row(i)).collect();
        let mut values = vec![0.0; rows.len() * k];
        scores(&rows, u, k, &mut values);
        out.iter_mut().zip(values).enumerate().for_each(|(i, (out, v))| *out = finish(i % k, v));
        Ok(())
    })
}

/// `A B` (or `A' B` with `transpose`) of row-major matrices, `A` square of size `p`, `B` `p x k`.
pub(crate) fn rotate(a: &[f64], transpose: bool, b: &[f64], p: usize, k: usize) -> Vec<f64> {
    let a = MatRef::from_row_major_slice(a, p, p);
    let mut out = vec![0.0; p * k];
    matmul(
        MatMut::from_row_major_slice_mut(&mut out, p, k),
        Accum::Replace,
        if transpose { a.transpose() } else { a },
        MatRef::from_row_major_slice(b, p, k),
        1.0,
        Par::Seq,
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use proptest::prelude::*;

    /// How far vectors are from orthonormal, and how far they are from eigenvectors in units of the largest entry.
    fn eigen_error(matrix: &[f64], p: usize) -> f64 {
        let (values, vectors) = eigenvectors(matrix, p).expect("every finite symmetric matrix has eigenvectors");
        assert!(values.is_sorted(), "{values:?}");
        let gram = rotate(&vectors, true, &vectors, p, p);
        let unit = |i: usize| f64::from(u8::from(i / p == i % p));
        let skew = gram.iter().enumerate().map(|(i, v)| (v - unit(i)).abs()).fold(0.0, f64::max);
        let largest = matrix.iter().fold(f64::MIN_POSITIVE, |m: f64, v| m.max(v.abs()));
        let product = rotate(matrix, false, &vectors, p, p);
        let residual = |(i, v): (usize, &f64)| ((v - vectors[i] * values[i % p]) / largest).abs();
        skew.max(product.iter().enumerate().map(residual).fold(0.0, f64::max))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        /// Rank-deficient, clustered, graded, with rows that are empty, of any size: the solver must not fail on any.
        #[test]
        fn every_finite_symmetric_matrix_has_eigenvectors(
            p in 1usize..70,
            rank in 1usize..12,
            kind in 0usize..6,
            exponent in -280i32..280,
            seed in any::<u64>(),
        ) {
            let mut state = seed;
            let mut draw = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as f64 / (1u64 << 31) as f64 - 0.5
            };
            let mut matrix = vec![0.0; p * p];
            for r in 0..rank {
                let mut x: Vec<f64> = (0..p).map(|_| draw()).collect();
                let weight = match kind {
                    // Of low rank; graded; nearly a multiple of the identity.
                    0 => 1.0,
                    1 => 1e-3f64.powf(r as f64),
                    2 => 1e-9,
                    // Indefinite; a few columns in use; indicators, whose sums are whole.
                    3 => draw().signum(),
                    4 => {
                        x.iter_mut().enumerate().for_each(|(i, v)| if i % 7 > 0 { *v = 0.0 });
                        1.0
                    }
                    _ => {
                        x.iter_mut().for_each(|v| *v = f64::from(u8::from(*v > 0.3)));
                        1.0
                    }
                };
                for i in 0..p {
                    for j in 0..p {
                        matrix[i * p + j] += weight * (x[i] * x[j]);
                    }
                }
            }
            if kind == 2 {
                (0..p).for_each(|i| matrix[i * p + i] += 1.0);
            }
            matrix.iter_mut().for_each(|v| *v *= 10f64.powi(exponent));
            let error = eigen_error(&matrix, p);
            prop_assert!(error < 1e-12, "{error}");
        }
    }

    #[test]
    fn eigenvectors_of_contexts_with_few_columns_in_use() {
        // 2,000 records of 256 hashed columns, of which 9 are in use; the same in all columns; nothing at all.
        let mut few = vec![0.0; 256 * 256];
        for record in 0..2_000usize {
            let used: Vec<usize> = (0..9).filter(|c| record.wrapping_mul(2_654_435_761 + c) >> 7 & 1 == 1).collect();
            used.iter().for_each(|i| used.iter().for_each(|j| few[i * 28 * 256 + j * 28] += 1.0));
        }
        for matrix in [few, vec![1.0; 256 * 256], vec![0.0; 256 * 256]] {
            let error = eigen_error(&matrix, 256);
            assert!(error < 1e-12, "{error}");
        }
        assert!(eigenvectors(&[f64::NAN], 1).is_none());
    }

    proptest! {
        #[test]
        fn both_storages_give_the_sums_of_the_definition(
            (p, k, x) in (1usize..7, 1usize..20).prop_flat_map(|(p, k)| {
                let value = prop_oneof![Just(0.0f32), -2.0f32..2.0];
                (Just(p), Just(k), prop::collection::vec(value, p * 70))
            })
        ) {
            let dense = Contexts::dense(x, p).unwrap();
            let w: Vec<f64> = (0..p * k).map(|i| (i as f64).sin()).collect();
            let d: Vec<f64> = (0..70 * k).map(|i| (i as f64).cos()).collect();
            let sparse = dense.to_sparse();
            let mixed = dense.iter().zip(sparse.iter()).enumerate().map(|(i, (d, s))| if i % 3 == 0 { s } else { d });
            for rows in [dense.iter().collect(), sparse.iter().collect(), mixed.collect::<Vec<Row<'_>>>()] {
                let (mut s, mut g) = (vec![0.0; 70 * k], vec![1.0; p * k]);
                scores(&rows, &w, k, &mut s);
                accumulate(&rows, &d, k, &mut g);
                for a in 0..k {
                    for (i, row) in dense.iter().enumerate() {
                        let x = row.values();
                        let expected: f64 = (0..p).map(|f| f64::from(x[f]) * w[f * k + a]).sum();
                        prop_assert!((s[i * k + a] - expected).abs() < 1e-12);
                    }
                    for f in 0..p {
                        let expected: f64 = dense.iter().enumerate()
                            .map(|(i, row)| f64::from(row.values()[f]) * d[i * k + a]).sum();
                        prop_assert!((g[f * k + a] - 1.0 - expected).abs() < 1e-12);
                    }
                }
            }
        }
    }

    #[test]
    fn principal_axes_are_orthonormal_and_diagonalise_the_moments() {
        let x: Vec<f32> = (0..60).map(|i| ((i * i) as f32).sin() * (1 + i % 3) as f32).collect();
        let contexts = Contexts::dense(x, 3).unwrap();
        let axes = |contexts: &Contexts| {
            let moments = second_moments(contexts, contexts.features(), |some| Ok(some.clone())).unwrap();
            eigenvectors(&moments, contexts.features()).map(|(_, axes)| axes)
        };
        let u = axes(&contexts).unwrap();
        assert_eq!(Some(&u), axes(&contexts.to_sparse()).as_ref());
        let identity = rotate(&u, true, &u, 3, 3);
        for i in 0..3 {
            for j in 0..3 {
                assert!((identity[i * 3 + j] - f64::from(u8::from(i == j))).abs() < 1e-12);
            }
        }
        let z = Contexts::dense(map_rows(&contexts, &u, 3, |_, v| v as f32).unwrap(), 3).unwrap();
        let moment =
            |i: usize, j: usize| -> f64 { z.iter().map(|r| f64::from(r.values()[i]) * f64::from(r.values()[j])).sum() };
        assert!(moment(0, 1).abs() + moment(0, 2).abs() + moment(1, 2).abs() < 1e-4);
    }

    #[test]
    fn blocks_come_back_in_order() {
        let twice = |range: Range<usize>, out: &mut [usize]| {
            for (i, out) in range.zip(out.chunks_exact_mut(2)) {
                out.copy_from_slice(&[2 * i, 2 * i + 1]);
            }
            Ok(())
        };
        assert_eq!(in_blocks(10, 3, (2, 0), twice), Ok((0..20).collect::<Vec<_>>()));
        assert_eq!(in_blocks(2, 3, (2, 0), twice), Ok((0..4).collect::<Vec<_>>()));
        assert_eq!(in_blocks(0, 3, (2, 0), twice), Ok(vec![]));
        let late = |range: Range<usize>, _: &mut [usize]| Err(Error::value(range.start, "x", "y", "z"));
        assert_eq!(in_blocks(10, 3, (1, 0), late), Err(Error::value(0, "x", "y", "z")));
    }
}
