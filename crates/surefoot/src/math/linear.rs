//! Products of feature rows with matrices. Features are stored in `f32`; sums have the number type of the matrix.
//!
//! Matrices are feature-major: entry `(f, a)` of a `p x K` matrix is at `f * K + a`, so that one feature touches `K`
//! consecutive numbers.

use std::ops::Range;

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par, Side};
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

/// The [`eigenvectors`] of the second moments `X'X` of the contexts.
pub(crate) fn principal_axes(contexts: &Contexts) -> Option<Vec<f64>> {
    let p = contexts.features();
    let rows: Vec<Row<'_>> = contexts.iter().collect();
    let mut moments = vec![0.0; p * p];
    for rows in rows.chunks(BLOCK) {
        let mut dense = vec![0.0; rows.len() * p];
        for (row, out) in rows.iter().zip(dense.chunks_exact_mut(p)) {
            row.for_each(|f, v| out[f] = v);
        }
        accumulate(rows, &dense, p, &mut moments);
    }
    eigenvectors(&moments, p).map(|(_, axes)| axes)
}

/// The eigenvalues of a symmetric `p x p` matrix in increasing order, and its eigenvectors as the columns of a row-major
/// matrix.
///
/// The sign of an eigenvector is arbitrary; here its entry of largest magnitude is positive.
pub(crate) fn eigenvectors(matrix: &[f64], p: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    let eigen = MatRef::from_row_major_slice(matrix, p, p).self_adjoint_eigen(Side::Lower).ok()?;
    let u = eigen.U();
    let mut vectors = vec![0.0; p * p];
    for j in 0..p {
        let largest = (0..p).map(|i| u[(i, j)]).fold(0.0, |m: f64, v| if v.abs() > m.abs() { v } else { m });
        for i in 0..p {
            vectors[i * p + j] = u[(i, j)] * largest.signum();
        }
    }
    Some(((0..p).map(|j| eigen.S()[j]).collect(), vectors))
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
        let u = principal_axes(&contexts).unwrap();
        assert_eq!(Some(&u), principal_axes(&contexts.to_sparse()).as_ref());
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
