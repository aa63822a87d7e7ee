//! The two number types that the kernels are compiled for.

use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

use super::{normal, tables};
use crate::math::SCALES;

/// `f32` for a search with minibatches, whose noise is far larger than its rounding; `f64` for everything else.
pub(crate) trait Real:
    faer::traits::RealField
    + Copy
    + Debug
    + Default
    + PartialOrd
    + Send
    + Sync
    + Sum
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
{
    const ZERO: Self;
    const ONE: Self;
    /// A scale whose square is still a normal number, and whose inverse has a finite square.
    const SMALLEST_SCALE: f64;

    /// The shift `c` and the polynomial of the Mills ratio, `M(a) = P((a - c)/(a + c))/(a + c)`.
    const MILLS_SHIFT: Self;
    fn mills_numerator(v: Self) -> Self;

    fn of(x: f64) -> Self;
    fn of_f32(x: f32) -> Self;
    fn to_f64(self) -> f64;
    fn sqrt(self) -> Self;
    fn magnitude(self) -> Self;

    /// `exp(x)` for `x <= 0`, or above 0 by a rounding error.
    fn exp_nonpositive(self) -> Self;

    /// `exp(x)` from the function above: unlike the library's, it vectorises.
    #[inline(always)]
    fn exp(self) -> Self {
        let negative = self < Self::ZERO;
        let e = (if negative { self } else { -self }).exp_nonpositive();
        if negative { e } else { Self::ONE / e }
    }

    /// The nearest integer and the remainder, for `|x|` up to a million, without a branch or a call.
    fn split(self) -> (i32, Self);
}

impl Real for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    const SMALLEST_SCALE: f64 = *SCALES.start();

    const MILLS_SHIFT: f64 = tables::MILLS_SHIFT;

    #[inline(always)]
    fn mills_numerator(v: f64) -> f64 {
        normal::polynomial(&tables::MILLS, v)
    }

    #[inline(always)]
    fn of(x: f64) -> f64 {
        x
    }

    #[inline(always)]
    fn of_f32(x: f32) -> f64 {
        f64::from(x)
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }

    #[inline(always)]
    fn sqrt(self) -> f64 {
        f64::sqrt(self)
    }

    #[inline(always)]
    fn magnitude(self) -> f64 {
        self.abs()
    }

    #[inline(always)]
    fn exp_nonpositive(self) -> f64 {
        normal::exp_nonpositive(self)
    }

    #[inline(always)]
    fn split(self) -> (i32, f64) {
        // Adding 1.5 * 2^52 leaves no bits for a fraction.
        const ROUND: f64 = 6_755_399_441_055_744.0;
        let nearest = (self + ROUND) - ROUND;
        (nearest as i32, self - nearest)
    }
}

impl Real for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    const SMALLEST_SCALE: f64 = 1e-18;

    const MILLS_SHIFT: f32 = tables::MILLS_SHIFT_F32;

    #[inline(always)]
    fn mills_numerator(v: f32) -> f32 {
        normal::polynomial(&tables::MILLS_F32, v)
    }

    #[inline(always)]
    fn of(x: f64) -> f32 {
        x as f32
    }

    #[inline(always)]
    fn of_f32(x: f32) -> f32 {
        x
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn sqrt(self) -> f32 {
        f32::sqrt(self)
    }

    #[inline(always)]
    fn magnitude(self) -> f32 {
        self.abs()
    }

    #[inline(always)]
    fn exp_nonpositive(self) -> f32 {
        normal::exp_nonpositive_f32(self)
    }

    #[inline(always)]
    fn split(self) -> (i32, f32) {
        // 1.5 * 2^23, for the same reason.
        const ROUND: f32 = 12_582_912.0;
        let nearest = (self + ROUND) - ROUND;
        (nearest as i32, self - nearest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn splits<R: Real>(x: f64) {
        let x = R::of(x);
        let (n, rest) = x.split();
        // Both are exact: a float of this size is a multiple of a power of 2 that the remainder can represent.
        assert_eq!(f64::from(n) + rest.to_f64(), x.to_f64());
        assert!(rest.to_f64().abs() <= 0.5, "{x:?}: {n} {rest:?}");
    }

    proptest! {
        #[test]
        fn a_number_splits_into_an_integer_and_a_rest(x in prop_oneof![-1e6..1e6, -3.0..3.0], n in -1_000_000..1_000_000) {
            splits::<f32>(x);
            splits::<f64>(x);
            splits::<f32>(f64::from(n) + 0.5);
            splits::<f64>(f64::from(n) + 0.5);
            prop_assert_eq!((Real::split(n as f32), Real::split(f64::from(n))), ((n, 0.0), (n, 0.0)));
        }

        #[test]
        fn exp_is_the_library_s_on_both_sides(x in -700.0..700.0, y in -87.0f32..87.0) {
            prop_assert!((Real::exp(x) / f64::exp(x) - 1.0).abs() < 1e-15);
            prop_assert!((f64::from(Real::exp(y)) / f64::from(y).exp() - 1.0).abs() < 4e-7);
        }
    }

    #[test]
    fn the_smallest_scale_and_its_inverse_have_squares() {
        fn check<R: Real>() {
            for scale in [R::SMALLEST_SCALE, 1.0 / R::SMALLEST_SCALE] {
                let log = R::of(2.0 * scale.ln());
                assert!(log.exp().to_f64().is_normal());
            }
        }
        check::<f32>();
        check::<f64>();
        assert!(Real::exp(f32::NAN).is_nan() && Real::exp(f64::NAN).is_nan());
    }
}
