//! Loops that run on the widest instructions of the machine.
//!
//! Each is a plain loop that the compiler vectorises; `pulp` compiles it once per instruction set and chooses one at
//! run time ([`wide`]). There are no fused operations, and sums use a fixed number of lanes, so that every machine
//! gives the same bits.

use pulp::{Arch, NullaryFnOnce};

use super::normal::{cdf_pdf, exp_nonpositive, hazard};
use super::prefetch::prefetch;
use super::real::Real;
use crate::contexts::{Indices, Row};

/// The number of rows by which sparse rows are prefetched; between 1 and 8 there was no measurable difference.
const AHEAD: usize = 4;
/// The number of lanes of a sum.
const LANES: usize = 16;
/// The number of parameters that one thread works on together.
pub(crate) const PIECE: usize = 1 << 13;

/// Runs a closure on the widest instructions of this machine.
///
/// The closure, and every function and closure in it that matters, must be marked `#[inline(always)]`: a call that is
/// not inlined is compiled for the oldest machine. This includes the standard library: `[T; N]::map` is not inlined.
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

    #[cfg(test)]
    match LEVEL.get() {
        Level::Plain => return NullaryFnOnce::call(Wide(f)),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => {
            if let Some(v3) = pulp::x86::V3::try_new() {
                return pulp::Simd::vectorize(v3, Wide(f));
            }
        }
        _ => {}
    }
    Arch::new().dispatch(Wide(f))
}

/// The instructions that a test lets [`wide`] use.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Those that all machines have: SSE2 on x86-64.
    Plain,
    /// AVX2, where the machine has it.
    Avx2,
    /// All that the machine has, such as AVX-512.
    Widest,
}

#[cfg(test)]
thread_local! {
    static LEVEL: std::cell::Cell<Level> = const { std::cell::Cell::new(Level::Widest) };
}

/// What `f` gives with all instructions, which must be the same with fewer.
#[cfg(test)]
pub(crate) fn same_on_every_level<T: PartialEq + std::fmt::Debug>(f: impl Fn() -> T) -> T {
    let found = f();
    for level in [Level::Plain, Level::Avx2] {
        LEVEL.set(level);
        let other = f();
        LEVEL.set(Level::Widest);
        assert_eq!(found, other, "{level:?}");
    }
    found
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

/// Replaces `products[j] = <x, l_j>` by `exp(-|x - l_j|^2/(2 b^2))`, from `|x|^2` and all `|l_j|^2`.
pub(crate) fn gaussian_kernel(square: f64, squares: &[f64], bandwidth: f64, products: &mut [f64]) {
    wide(
        #[inline(always)]
        || {
            for (out, &other) in products.iter_mut().zip(squares) {
                let distance = square + other - 2.0 * *out;
                let distance = if distance > 0.0 { distance } else { 0.0 };
                // Divides twice, because the square of a bandwidth may underflow.
                *out = exp_nonpositive(distance / bandwidth / (-2.0 * bandwidth));
            }
        },
    );
}

/// Runs `$few` with the number of actions as a constant if it is small, so that a row of scores stays in registers.
/// Otherwise runs `$many`, whose inner loop is long enough to be vectorised on its own.
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

/// `out = X W` for sparse rows, `k` values per row; `W` is feature-major.
pub(crate) fn sparse_scores<R: Real>(rows: &[Row<'_>], w: &[R], k: usize, out: &mut [R]) {
    wide(
        #[inline(always)]
        || {
            for_few_actions!(k, K => {
                let (w, out) = (w.as_chunks::<K>().0, out.as_chunks_mut::<K>().0);
                for (i, (row, out)) in rows.iter().zip(out).enumerate() {
                    if let Some(Row::Sparse { indices, values }) = rows.get(i + AHEAD) {
                        prefetch(values);
                        match indices {
                            Indices::Narrow(i) => prefetch(i),
                            Indices::Wide(i) => prefetch(i),
                        }
                    }
                    *out = sparse_product(*row, w);
                }
            }, {
                out.fill(R::ZERO);
                for (row, out) in rows.iter().zip(out.chunks_exact_mut(k)) {
                    row.for_each(
                        #[inline(always)]
                        |f, v| add_scaled(out, R::of(v), &w[f * k..(f + 1) * k]),
                    );
                }
            });
        },
    );
}

/// `x'W` for a sparse row.
#[inline(always)]
fn sparse_product<R: Real, const K: usize>(row: Row<'_>, w: &[[R; K]]) -> [R; K] {
    let Row::Sparse { indices, values } = row else { unreachable!("a sparse row") };
    match indices {
        Indices::Narrow(indices) => product(indices, values, w),
        Indices::Wide(indices) => product(indices, values, w),
    }
}

/// Four interleaved sums, because the additions of a single sum would wait for each other.
#[inline(always)]
fn product<R: Real, I: Copy + Into<u32>, const K: usize>(indices: &[I], values: &[f32], w: &[[R; K]]) -> [R; K] {
    let [mut a, mut b, mut c, mut d] = [[R::ZERO; K]; 4];
    let ((indices, rest_indices), (values, rest_values)) = (indices.as_chunks::<4>(), values.as_chunks::<4>());
    for (f, v) in indices.iter().zip(values) {
        add_scaled(&mut a, R::of_f32(v[0]), &w[f[0].into() as usize]);
        add_scaled(&mut b, R::of_f32(v[1]), &w[f[1].into() as usize]);
        add_scaled(&mut c, R::of_f32(v[2]), &w[f[2].into() as usize]);
        add_scaled(&mut d, R::of_f32(v[3]), &w[f[3].into() as usize]);
    }
    for (&f, &v) in rest_indices.iter().zip(rest_values) {
        add_scaled(&mut a, R::of_f32(v), &w[f.into() as usize]);
    }
    add_scaled(&mut a, R::ONE, &b);
    add_scaled(&mut c, R::ONE, &d);
    add_scaled(&mut a, R::ONE, &c);
    a
}

/// `g += X' D` for sparse rows, with `k` values of `d` per row; `g` is feature-major.
pub(crate) fn sparse_accumulate<R: Real>(rows: &[Row<'_>], d: &[R], k: usize, g: &mut [R]) {
    wide(
        #[inline(always)]
        || {
            for_few_actions!(k, K => {
                let (d, g) = (d.as_chunks::<K>().0, g.as_chunks_mut::<K>().0);
                for (row, &d) in rows.iter().zip(d) {
                    row.for_each(
                        #[inline(always)]
                        |f, v| {
                            // Works on copies, so that the compiler knows that they do not overlap.
                            let mut sum = g[f];
                            add_scaled(&mut sum, R::of(v), &d);
                            g[f] = sum;
                        },
                    );
                }
            }, {
                for (row, d) in rows.iter().zip(d.chunks_exact(k)) {
                    row.for_each(
                        #[inline(always)]
                        |f, v| add_scaled(&mut g[f * k..(f + 1) * k], R::of(v), d),
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

/// `y += x`.
pub(crate) fn add<R: Real>(x: &[R], y: &mut [R]) {
    wide(
        #[inline(always)]
        || {
            for (y, &x) in y.iter_mut().zip(x) {
                *y += x;
            }
        },
    );
}

/// `out_i += weight precision_i (x_i - anchor_i)`, and returns `sum_i precision_i (x_i - anchor_i)^2`.
pub(crate) fn pull<R: Real>(weight: R, x: &[R], anchor: &[R], precision: &[R], out: &mut [R]) -> f64 {
    wide(
        #[inline(always)]
        || {
            let mut sums = [R::ZERO; LANES];
            let (x, rest_x) = x.as_chunks::<LANES>();
            let (anchor, rest_anchor) = anchor.as_chunks::<LANES>();
            let (precision, rest_precision) = precision.as_chunks::<LANES>();
            let (out, rest_out) = out.as_chunks_mut::<LANES>();
            for (((&x, &anchor), &precision), out) in x.iter().zip(anchor).zip(precision).zip(out) {
                *out = pull_lanes(weight, x, anchor, precision, *out, &mut sums);
            }
            let n = rest_x.len();
            let filled = [rest_x, rest_anchor, rest_precision, &*rest_out].map(|rest| {
                let mut lanes = [R::ZERO; LANES];
                lanes[..n].copy_from_slice(rest);
                lanes
            });
            let [x, anchor, precision, out] = filled;
            rest_out.copy_from_slice(&pull_lanes(weight, x, anchor, precision, out, &mut sums)[..n]);
            total(sums).to_f64()
        },
    )
}

/// One part of [`pull`].
#[inline(always)]
fn pull_lanes<R: Real>(
    weight: R,
    x: [R; LANES],
    anchor: [R; LANES],
    precision: [R; LANES],
    mut out: [R; LANES],
    sums: &mut [R; LANES],
) -> [R; LANES] {
    for i in 0..LANES {
        let far = x[i] - anchor[i];
        let scaled = precision[i] * far;
        out[i] += weight * scaled;
        sums[i] += scaled * far;
    }
    out
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

/// The largest of at least one number.
#[inline(always)]
pub(crate) fn largest<R: Real>(x: &[R]) -> R {
    let mut tops = [x[0]; LANES];
    let (wide, rest) = x.as_chunks::<LANES>();
    for x in wide {
        for (top, &x) in tops.iter_mut().zip(x) {
            *top = if x > *top { x } else { *top };
        }
    }
    for (top, &x) in tops.iter_mut().zip(rest) {
        *top = if x > *top { x } else { *top };
    }
    let mut n = LANES / 2;
    while n > 0 {
        for i in 0..n {
            tops[i] = if tops[i + n] > tops[i] { tops[i + n] } else { tops[i] };
        }
        n /= 2;
    }
    tops[0]
}

/// The sum of the lanes, by repeated halving.
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

#[cfg(test)]
mod tests;
