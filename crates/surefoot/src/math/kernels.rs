//! Loops that run on the widest instructions of the machine.
//!
//! Each is a plain loop that the compiler vectorises; `pulp` compiles it once for every instruction set and picks one at
//! run time. Nothing is fused and nothing is summed across lanes, so that every machine gives the same bits.

use pulp::{Arch, NullaryFnOnce};

use super::normal::{cdf_pdf, hazard};
use crate::contexts::Row;

/// `cdfs[b] = Phi(z - s_b)` and `hazards[b] = phi(z - s_b)/Phi(z - s_b)`.
pub(crate) fn cdfs_and_hazards(arch: Arch, z: f64, scores: &[f64], cdfs: &mut [f64], hazards: &mut [f64]) {
    arch.dispatch(CdfsAndHazards { z, scores, cdfs, hazards });
}

struct CdfsAndHazards<'a> {
    z: f64,
    scores: &'a [f64],
    cdfs: &'a mut [f64],
    hazards: &'a mut [f64],
}

impl NullaryFnOnce for CdfsAndHazards<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for ((hazard, cdf), &s) in self.hazards.iter_mut().zip(self.cdfs).zip(self.scores) {
            let (phi, density) = cdf_pdf(self.z - s);
            *cdf = phi;
            *hazard = density / phi;
        }
    }
}

/// `hazards[b] = phi(z - s_b)/Phi(z - s_b)`, also where the distribution function underflows.
pub(crate) fn hazards(arch: Arch, z: f64, scores: &[f64], hazards: &mut [f64]) {
    map(
        arch,
        scores,
        hazards,
        #[inline(always)]
        |s| hazard(z - s),
    );
}

/// `cdfs[b] = Phi(z - s_b)`.
pub(crate) fn cdfs(arch: Arch, z: f64, scores: &[f64], cdfs: &mut [f64]) {
    map(
        arch,
        scores,
        cdfs,
        #[inline(always)]
        |s| cdf_pdf(z - s).0,
    );
}

/// `out[b] = f(s_b)`. The closure must say that it is always inlined: otherwise its loop is not vectorised.
fn map(arch: Arch, scores: &[f64], out: &mut [f64], f: impl Fn(f64) -> f64) {
    arch.dispatch(Map { f, scores, out });
}

struct Map<'a, F> {
    f: F,
    scores: &'a [f64],
    out: &'a mut [f64],
}

impl<F: Fn(f64) -> f64> NullaryFnOnce for Map<'_, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (out, &s) in self.out.iter_mut().zip(self.scores) {
            *out = (self.f)(s);
        }
    }
}

/// Runs `$few` with the number of actions as a constant if it is at most 16, so that a row of scores stays in registers;
/// otherwise `$many`, whose inner loop is long enough to be vectorised by itself.
macro_rules! for_few_actions {
    ($k:expr, $K:ident => $few:block, $many:block) => {
        for_few_actions!(@ $k, $K, $few, $many, 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
    };
    (@ $k:expr, $K:ident, $few:block, $many:block, $($n:literal)*) => {
        match $k {
            $($n => { const $K: usize = $n; $few })*
            _ => $many,
        }
    };
}

/// `out = X W` for sparse rows, a row of `k` values each; `W` is feature-major.
pub(crate) fn sparse_scores(rows: &[Row<'_>], w: &[f64], k: usize, out: &mut [f64]) {
    let arch = Arch::new();
    for_few_actions!(k, K => {
        let (w, out) = (w.as_chunks().0, out.as_chunks_mut().0);
        arch.dispatch(SparseScores::<K> { rows, w, out });
    }, {
        out.fill(0.0);
        for (row, out) in rows.iter().zip(out.chunks_exact_mut(k)) {
            row.for_each(|f, v| add_scaled(out, v, &w[f * k..(f + 1) * k]));
        }
    });
}

/// `g += X' D` for sparse rows, with a row of `k` values in `d` for each; `g` is feature-major.
pub(crate) fn sparse_accumulate(rows: &[Row<'_>], d: &[f64], k: usize, g: &mut [f64]) {
    let arch = Arch::new();
    for_few_actions!(k, K => {
        let (d, g) = (d.as_chunks().0, g.as_chunks_mut().0);
        arch.dispatch(SparseAccumulate::<K> { rows, d, g });
    }, {
        for (row, d) in rows.iter().zip(d.chunks_exact(k)) {
            row.for_each(|f, v| add_scaled(&mut g[f * k..(f + 1) * k], v, d));
        }
    });
}

struct SparseScores<'a, const K: usize> {
    rows: &'a [Row<'a>],
    w: &'a [[f64; K]],
    out: &'a mut [[f64; K]],
}

impl<const K: usize> NullaryFnOnce for SparseScores<'_, K> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (row, out) in self.rows.iter().zip(self.out) {
            let mut sums = [0.0; K];
            row.for_each(
                #[inline(always)]
                |f, v| add_scaled(&mut sums, v, &self.w[f]),
            );
            *out = sums;
        }
    }
}

struct SparseAccumulate<'a, const K: usize> {
    rows: &'a [Row<'a>],
    d: &'a [[f64; K]],
    g: &'a mut [[f64; K]],
}

impl<const K: usize> NullaryFnOnce for SparseAccumulate<'_, K> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (row, d) in self.rows.iter().zip(self.d) {
            row.for_each(
                #[inline(always)]
                |f, v| add_scaled(&mut self.g[f], v, d),
            );
        }
    }
}

/// `y += v x`.
#[inline(always)]
fn add_scaled(y: &mut [f64], v: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += v * x;
    }
}
