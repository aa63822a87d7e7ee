//! `ln Phi` and the hazard `phi/Phi` on a lattice: for many arguments that differ by multiples of one step.
//!
//! Relative to a score `s`, the points of a grid in `z` are `z - s`. They all lie on one lattice `h Z`, shifted by the
//! remainder of `s`. Around each node both functions are short polynomials in that remainder, and the coefficients of
//! neighbouring nodes are adjacent in memory. So one score and a whole register of grid points need only loads,
//! products and sums: no exponential, no division, no branch.

use super::normal::{hazard, ln_cdf};
use super::real::Real;

/// Polynomials of `COEFS` coefficients in `r` in `[-1/2, 1/2]`: `f((n - r) h) = sum_j c_j[n] r^j`.
///
/// The largest errors are stated at the two types [`Single`](super::quadrature::Single) and
/// [`Double`](super::quadrature::Double). The tests of the quadrature measure them over the whole lattice of many
/// rules.
#[derive(Debug)]
pub(crate) struct Lattice<R, const COEFS: usize> {
    /// The index of the first node.
    first: i32,
    /// `ln Phi`: one row of nodes for each coefficient.
    ln_cdf: [Vec<R>; COEFS],
    /// The hazard, in the same layout.
    hazard: [Vec<R>; COEFS],
}

/// The number of terms of the Taylor series before it is shortened. The zeros of `Phi` closest to the real line have
/// distance 2.8, no step is longer than 1, and `(0.5/2.8)^32` is 1e-24.
const TERMS: usize = 32;

impl<R: Real, const COEFS: usize> Lattice<R, COEFS> {
    /// The nodes `first..last` of step `h`. From `zero` on, both functions count as 0.
    pub(crate) fn new(h: f64, first: i32, zero: i32, last: i32) -> Self {
        let empty = || std::array::from_fn(|_| Vec::with_capacity((last - first) as usize));
        let mut lattice = Lattice { first, ln_cdf: empty(), hazard: empty() };
        for n in first..last {
            let [f, g] = if n < zero { series(f64::from(n) * h, h).map(shorten::<COEFS>) } else { [[0.0; COEFS]; 2] };
            for j in 0..COEFS {
                lattice.ln_cdf[j].push(R::of(f[j]));
                lattice.hazard[j].push(R::of(g[j]));
            }
        }
        lattice
    }

    /// Coefficient `j` of `ln Phi` at `LANES` nodes from `n` on.
    #[inline(always)]
    pub(crate) fn ln_cdf<const LANES: usize>(&self, j: usize, n: i32) -> &[R; LANES] {
        nodes(&self.ln_cdf[j], n - self.first)
    }

    /// Coefficient `j` of the hazard at `LANES` nodes from `n` on.
    #[inline(always)]
    pub(crate) fn hazard<const LANES: usize>(&self, j: usize, n: i32) -> &[R; LANES] {
        nodes(&self.hazard[j], n - self.first)
    }

    /// Coefficient `j` of the hazard at `count` nodes from `n` on.
    #[inline(always)]
    pub(crate) fn hazards(&self, j: usize, n: i32, count: usize) -> &[R] {
        &self.hazard[j][(n - self.first) as usize..][..count]
    }
}

#[inline(always)]
fn nodes<R, const LANES: usize>(row: &[R], place: i32) -> &[R; LANES] {
    row[place as usize..].first_chunk().expect("nodes up to the last")
}

/// The Taylor series of `ln Phi` and of the hazard `g` at `t`, in `r` for the argument `t - r h`.
///
/// `(ln Phi)' = g` and `g' = -g (t + g)`, so each coefficient follows from the ones before.
fn series(t: f64, h: f64) -> [[f64; TERMS]; 2] {
    let (mut f, mut g) = ([0.0; TERMS], [0.0; TERMS]);
    f[0] = ln_cdf(t);
    g[0] = hazard(t);
    for n in 0..TERMS - 1 {
        let square: f64 = (0..=n).map(|i| g[i] * g[n - i]).sum();
        let before = if n > 0 { g[n - 1] } else { 0.0 };
        f[n + 1] = g[n] / (n + 1) as f64;
        g[n + 1] = -(t * g[n] + before + square) / (n + 1) as f64;
    }
    let mut power = 1.0;
    for n in 0..TERMS {
        f[n] *= power;
        g[n] *= power;
        power *= -h;
    }
    [f, g]
}

/// Approximates a longer polynomial on `[-1/2, 1/2]` by one with `COEFS` coefficients. From the highest power down,
/// each power is replaced by the lower terms of its Chebyshev polynomial, which is small everywhere (Lanczos'
/// economisation).
fn shorten<const COEFS: usize>(mut c: [f64; TERMS]) -> [f64; COEFS] {
    // The coefficients of T_n(2 r), for n = TERMS - 1 and below, by T_n(x) = 2 x T_(n-1) - T_(n-2).
    let mut chebyshev = [[0.0; TERMS]; TERMS];
    chebyshev[0][0] = 1.0;
    chebyshev[1][1] = 2.0;
    for n in 2..TERMS {
        for j in 0..TERMS {
            let up = if j > 0 { 4.0 * chebyshev[n - 1][j - 1] } else { 0.0 };
            chebyshev[n][j] = up - chebyshev[n - 2][j];
        }
    }
    for n in (COEFS..TERMS).rev() {
        let factor = c[n] / chebyshev[n][n];
        for j in 0..=n {
            c[j] -= factor * chebyshev[n][j];
        }
    }
    std::array::from_fn(|j| c[j])
}
