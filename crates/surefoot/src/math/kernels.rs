//! Loops that run on the widest instructions of the machine.
//!
//! Each is a plain loop that the compiler vectorises; `pulp` compiles it once for every instruction set and picks one at
//! run time ([`wide`]). Nothing is fused and sums are taken in lanes of a fixed number, so that every machine gives the
//! same bits.

use pulp::{Arch, NullaryFnOnce};

use super::normal::{cdf_pdf, hazard};
use super::real::Real;
use crate::contexts::Row;

/// The lanes of a sum.
const LANES: usize = 16;

/// Runs a closure on the widest instructions of this machine.
///
/// The closure, and every function and closure in it that matters, must be marked `#[inline(always)]`: what is called and
/// not inlined is compiled for the oldest machine. That goes for the library too: `[T; N]::map` is not inlined.
#[inline(always)]
pub(crate) fn wide<T>(f: impl FnMut() -> T) -> T {
    /// Called through `FnMut`: the shim that calls a closure through `FnOnce` is not inlined.
    struct Wide<F>(F);

    impl<T, F: FnMut() -> T> NullaryFnOnce for Wide<F> {
        type Output = T;

        #[inline(always)]
        fn call(mut self) -> T {
            (self.0)()
        }
    }

    Arch::new().dispatch(Wide(f))
}

/// `hazards[b] = phi(z - s_b)/Phi(z - s_b)`, also where the distribution function underflows.
pub(crate) fn hazards(z: f64, scores: &[f64], hazards: &mut [f64]) {
    wide(
        #[inline(always)]
        || {
            for (out, &s) in hazards.iter_mut().zip(scores) {
                *out = hazard(z - s);
            }
        },
    );
}

/// `cdfs[b] = Phi(z - s_b)`.
pub(crate) fn cdfs(z: f64, scores: &[f64], cdfs: &mut [f64]) {
    wide(
        #[inline(always)]
        || {
            for (out, &s) in cdfs.iter_mut().zip(scores) {
                *out = cdf_pdf(z - s).0;
            }
        },
    );
}

/// Runs `$few` with the width of a matrix as a constant if it is a short one, so that a row of it stays in registers;
/// otherwise `$many`, whose inner loop is long enough to be vectorised by itself.
macro_rules! for_narrow {
    ($width:expr, $W:ident => $few:block, $many:block) => {
        for_narrow!(@ $width, $W, $few, $many, 4 8 16)
    };
    (@ $width:expr, $W:ident, $few:block, $many:block, $($n:literal)*) => {
        match $width {
            $($n => { const $W: usize = $n; $few })*
            _ => $many,
        }
    };
}

/// The width to which a narrow matrix is padded so that each of its rows is a register, or half of one.
pub(crate) fn padded(k: usize) -> usize {
    [4, 8, 16].into_iter().find(|&width| k <= width).unwrap_or(k)
}

/// `out = X W` for sparse rows, a row of `width` values each; `W` is feature-major.
pub(crate) fn sparse_scores<R: Real>(rows: &[Row<'_>], w: &[R], width: usize, out: &mut [R]) {
    wide(
        #[inline(always)]
        || {
            for_narrow!(width, W => {
                let (w, out) = (w.as_chunks::<W>().0, out.as_chunks_mut::<W>().0);
                for (row, out) in rows.iter().zip(out) {
                    *out = sparse_product(*row, w);
                }
            }, {
                out.fill(R::ZERO);
                for (row, out) in rows.iter().zip(out.chunks_exact_mut(width)) {
                    row.for_each(
                        #[inline(always)]
                        |f, v| add_scaled(out, R::of(v), &w[f * width..(f + 1) * width]),
                    );
                }
            });
        },
    );
}

/// `x'W` for a sparse row: four sums in turn, since one alone would wait for each of its additions.
#[inline(always)]
fn sparse_product<R: Real, const W: usize>(row: Row<'_>, w: &[[R; W]]) -> [R; W] {
    let Row::Sparse { indices, values } = row else { unreachable!("a sparse row") };
    let mut sums = [[R::ZERO; W]; 4];
    let ((indices, rest_indices), (values, rest_values)) = (indices.as_chunks::<4>(), values.as_chunks::<4>());
    for (indices, values) in indices.iter().zip(values) {
        for i in 0..4 {
            let row = w[indices[i] as usize];
            add_scaled(&mut sums[i], R::of_f32(values[i]), &row);
        }
    }
    for ((sums, &f), &v) in sums.iter_mut().zip(rest_indices).zip(rest_values) {
        add_scaled(sums, R::of_f32(v), &w[f as usize]);
    }
    let mut sum = [R::ZERO; W];
    for (a, sum) in sum.iter_mut().enumerate() {
        *sum = (sums[0][a] + sums[1][a]) + (sums[2][a] + sums[3][a]);
    }
    sum
}

/// `g += X' D` for sparse rows, with a row of `width` values in `d` for each; `g` is feature-major.
pub(crate) fn sparse_accumulate<R: Real>(rows: &[Row<'_>], d: &[R], width: usize, g: &mut [R]) {
    wide(
        #[inline(always)]
        || {
            for_narrow!(width, W => {
                let (d, g) = (d.as_chunks::<W>().0, g.as_chunks_mut::<W>().0);
                for (row, &d) in rows.iter().zip(d) {
                    row.for_each(
                        #[inline(always)]
                        |f, v| {
                            // On copies, of which the compiler knows that they do not overlap.
                            let mut sum = g[f];
                            add_scaled(&mut sum, R::of(v), &d);
                            g[f] = sum;
                        },
                    );
                }
            }, {
                for (row, d) in rows.iter().zip(d.chunks_exact(width)) {
                    row.for_each(
                        #[inline(always)]
                        |f, v| add_scaled(&mut g[f * width..(f + 1) * width], R::of(v), d),
                    );
                }
            });
        },
    );
}

/// `y += v x`.
#[inline(always)]
fn add_scaled<R: Real>(y: &mut [R], v: R, x: &[R]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y += v * x;
    }
}

/// `sum_f w_f x_f^2`.
pub(crate) fn sum_of_squares<R: Real>(row: Row<'_>, w: &[R]) -> R {
    wide(
        #[inline(always)]
        || match row {
            Row::Dense(x) => lane_sum(
                x,
                w,
                #[inline(always)]
                |x, w| w * (R::of_f32(x) * R::of_f32(x)),
            ),
            Row::Sparse { .. } => {
                let mut sum = R::ZERO;
                row.for_each(
                    #[inline(always)]
                    |f, v| sum += w[f] * (R::of(v) * R::of(v)),
                );
                sum
            }
        },
    )
}

/// `sums_f += v x_f^2`.
pub(crate) fn add_squares<R: Real>(row: Row<'_>, v: R, sums: &mut [R]) {
    wide(
        #[inline(always)]
        || match row {
            Row::Dense(x) => {
                for (sum, &x) in sums.iter_mut().zip(x) {
                    *sum += v * (R::of_f32(x) * R::of_f32(x));
                }
            }
            Row::Sparse { .. } => row.for_each(
                #[inline(always)]
                |f, x| sums[f] += v * (R::of(x) * R::of(x)),
            ),
        },
    );
}

/// `sum_i f(x_i, y_i)`, in lanes.
#[inline(always)]
pub(crate) fn lane_sum<X: Copy, R: Real>(x: &[X], y: &[R], f: impl Fn(X, R) -> R) -> R {
    let ((x, rest_x), (y, rest_y)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    let mut sums = [R::ZERO; LANES];
    for (x, y) in x.iter().zip(y) {
        for ((sum, &x), &y) in sums.iter_mut().zip(x).zip(y) {
            *sum += f(x, y);
        }
    }
    for ((sum, &x), &y) in sums.iter_mut().zip(rest_x).zip(rest_y) {
        *sum += f(x, y);
    }
    total(sums)
}

/// The sum of lanes, by halves.
#[inline(always)]
pub(crate) fn total<R: Real, const N: usize>(mut lanes: [R; N]) -> R {
    let mut n = N / 2;
    while n > 0 {
        for i in 0..n {
            let other = lanes[i + n];
            lanes[i] += other;
        }
        n /= 2;
    }
    lanes[0]
}
