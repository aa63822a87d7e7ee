//! The standard normal distribution, branch-free so that loops over it vectorise.
//!
//! Everything is computed from the Mills ratio `M(a) = Phi(-a)/phi(a)`, `a >= 0`, which is smooth and never underflows:
//! one polynomial in `v = (a - c)/(a + c)` covers the whole half line.

use super::real::Real;

/// `1/sqrt(2 pi)`.
const FRAC_1_SQRT_2PI: f64 = 0.398_942_280_401_432_7;
/// `ln sqrt(2 pi)`.
const LN_SQRT_2PI: f64 = 0.918_938_533_204_672_8;

/// `M(a) = Phi(-a)/phi(a)` for `a >= 0`: relative error below 6e-16 in `f64`, 3e-7 in `f32`.
#[inline(always)]
fn mills<R: Real>(a: R) -> R {
    let inverse = R::ONE / (a + R::MILLS_SHIFT);
    R::mills_numerator((a - R::MILLS_SHIFT) * inverse) * inverse
}

/// `sum_i c_i x^i`, as four interleaved polynomials in `x^4`: in Horner's rule every product would wait for the one
/// before.
#[inline(always)]
pub(super) fn polynomial<R: Real, const N: usize>(c: &[R; N], x: R) -> R {
    const { assert!(N.is_multiple_of(4)) };
    let x2 = x * x;
    let x4 = x2 * x2;
    let mut sums = [R::ZERO; 4];
    let mut i = N;
    while i > 0 {
        i -= 4;
        for (j, sum) in sums.iter_mut().enumerate() {
            *sum = *sum * x4 + c[i + j];
        }
    }
    (sums[0] + sums[1] * x) + x2 * (sums[2] + sums[3] * x)
}

/// `phi(t)`, the density. Its relative error grows as `t^2/2` times the rounding unit, 1e-13 at `t = 38`.
#[inline(always)]
pub(crate) fn pdf<R: Real>(t: R) -> R {
    R::of(FRAC_1_SQRT_2PI) * (R::of(-0.5) * t * t).exp_nonpositive()
}

/// `(Phi(t), phi(t))`: on `[-6, 12]` to an absolute error of 3e-16 and 2e-16 in `f64`, 2e-7 and 7e-8 in `f32`.
#[inline(always)]
pub(crate) fn cdf_pdf<R: Real>(t: R) -> (R, R) {
    let a = t.magnitude();
    let density = pdf(a);
    let tail = density * mills(a);
    (if t < R::ZERO { tail } else { R::ONE - tail }, density)
}

/// `phi(t)/Phi(t)`, without underflow for any negative `t`: on `[-6, 12]` to a relative error of 4e-15 in `f64` and
/// 5e-6 in `f32`, which is the error of the density on the right.
#[inline(always)]
pub(crate) fn hazard<R: Real>(t: R) -> R {
    let a = t.magnitude();
    let (m, density) = (mills(a), pdf(a));
    if t < R::ZERO { R::ONE / m } else { density / (R::ONE - density * m) }
}

/// `ln Phi(t)`, without underflow for any negative `t`.
pub(crate) fn ln_cdf(t: f64) -> f64 {
    let m = mills(t.abs());
    if t < 0.0 { m.ln() - 0.5 * t * t - LN_SQRT_2PI } else { (-pdf(t) * m).ln_1p() }
}

/// `exp(x)` for `x <= 0`, relative error below 3e-16, 0 below -708 (where `exp` is about to be subnormal).
///
/// `x = n ln 2 + r` with `|r| <= ln 2 / 2`; `exp r` by its Taylor polynomial of degree 15, whose remainder is below
/// `0.35^16/16! = 3e-21`. Adding and subtracting 1.5 * 2^52 rounds to the nearest integer without a branch or a
/// call and leaves `n` in the low bits.
#[inline(always)]
pub(crate) fn exp_nonpositive(x: f64) -> f64 {
    const ROUND: f64 = 6_755_399_441_055_744.0;
    // `ln 2` in two parts: the first has trailing zeros, so that its product with `n` is exact.
    const LN_2_HI: f64 = 6.931_471_803_691_238e-1;
    const LN_2_LO: f64 = 1.908_214_929_270_587_7e-10;
    const TAYLOR: [f64; 16] = [
        1.0,
        1.0,
        1.0 / 2.0,
        1.0 / 6.0,
        1.0 / 24.0,
        1.0 / 120.0,
        1.0 / 720.0,
        1.0 / 5040.0,
        1.0 / 40_320.0,
        1.0 / 362_880.0,
        1.0 / 3_628_800.0,
        1.0 / 39_916_800.0,
        1.0 / 479_001_600.0,
        1.0 / 6_227_020_800.0,
        1.0 / 87_178_291_200.0,
        1.0 / 1_307_674_368_000.0,
    ];
    // Not `max`, which would turn a NaN into a number.
    let clamped = if x < -708.0 { -708.0 } else { x };
    let shifted = clamped * std::f64::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (clamped - n * LN_2_HI) - n * LN_2_LO;
    let exp_r = polynomial(&TAYLOR, r);
    // 2^n: the low bits of `shifted` are n in two's complement; 1023 is the exponent's bias.
    let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    if x < -708.0 { 0.0 } else { exp_r * power }
}

/// The same in `f32`: relative error below 2e-7, 0 below -87. The remainder of the Taylor polynomial is below
/// `0.35^8/8! = 6e-9`.
#[inline(always)]
pub(crate) fn exp_nonpositive_f32(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HI: f32 = 6.933_594e-1;
    const LN_2_LO: f32 = -2.121_944_4e-4;
    const TAYLOR: [f32; 8] = [1.0, 1.0, 1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0];
    let clamped = if x < -87.0 { -87.0 } else { x };
    let shifted = clamped * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (clamped - n * LN_2_HI) - n * LN_2_LO;
    let exp_r = polynomial(&TAYLOR, r);
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    if x < -87.0 { 0.0 } else { exp_r * power }
}

/// The point `x >= 0` with `Phi(-x) = q`, for `q` in `(0, 1/2]`, by bisection.
pub(crate) fn tail_point(q: f64) -> f64 {
    let (mut low, mut high) = (0.0, 40.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if ln_cdf(-middle) > q.ln() { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(serde::Deserialize)]
    struct Golden {
        t: f64,
        cdf: f64,
        ln_cdf: f64,
        hazard: f64,
    }

    #[test]
    fn the_reference_has_the_same_values() {
        let golden: Vec<Golden> = serde_json::from_str(include_str!("../../tests/golden/normal.json")).unwrap();
        for Golden { t, cdf, ln_cdf, hazard } in golden {
            let near = |found: f64, expected: f64| {
                // `exp` loses `t^2/2` units; below the normal range of `f64` there is no guarantee.
                let tolerance = 1e-15 * (1.0 + 0.5 * t * t);
                (found - expected).abs() <= tolerance * expected.abs() || expected.abs() < 1e-307
            };
            assert!(near(cdf_pdf(t).0, cdf), "Phi({t})");
            assert!(near(super::ln_cdf(t), ln_cdf), "ln Phi({t})");
            assert!(near(super::hazard(t), hazard), "hazard({t})");
        }
    }

    /// `Phi` by libm's `erfc`.
    fn cdf_oracle(t: f64) -> f64 {
        0.5 * libm::erfc(-t * std::f64::consts::FRAC_1_SQRT_2)
    }

    proptest! {
        #[test]
        fn exp_is_the_library_s(x in -708.0..=0.0) {
            prop_assert!((exp_nonpositive(x) / x.exp() - 1.0).abs() < 5e-16);
        }

        #[test]
        fn the_cdf_is_the_library_s(t in -37.0..37.0) {
            let (cdf, _) = cdf_pdf(t);
            // `erfc` of libm and the rounding of its argument lose `t^2` units.
            prop_assert!((cdf / cdf_oracle(t) - 1.0).abs() < 4e-16 * (2.0 + t * t), "{cdf}");
        }

        #[test]
        fn both_forms_agree(t in -37.0..37.0) {
            let (cdf, pdf) = cdf_pdf(t);
            prop_assert!((ln_cdf(t) - cdf.ln()).abs() < 1e-12);
            prop_assert!((hazard(t) * cdf / pdf - 1.0).abs() < 1e-12);
        }
    }

    /// The largest errors of `Phi` (absolute), `phi` (absolute) and the hazard (relative), in this order.
    fn errors<R: Real>(points: impl Iterator<Item = (f64, f64, f64, f64)>) -> [f64; 3] {
        let mut worst = [0.0f64; 3];
        for (t, cdf, pdf, hazard) in points {
            let (t, (found, density)) = (R::of(t), cdf_pdf(R::of(t)));
            let errors = [found.to_f64() - cdf, density.to_f64() - pdf, super::hazard(t).to_f64() / hazard - 1.0];
            worst = std::array::from_fn(|i| worst[i].max(errors[i].abs()));
        }
        worst
    }

    #[test]
    fn the_errors_are_the_stated_ones() {
        let golden: Vec<Golden> = serde_json::from_str(include_str!("../../tests/golden/normal.json")).unwrap();
        let within = golden.iter().filter(|g| (-6.0..=12.0).contains(&g.t));
        // The points are multiples of 1/4, exact in both.
        let points = || within.clone().map(|g| (g.t, g.cdf, g.hazard * g.cdf, g.hazard));
        assert!(points().count() > 60);
        let between = (-6000..=12_000).map(|i| {
            let t = f64::from((f64::from(i) / 1000.0) as f32);
            let (cdf, pdf) = cdf_pdf(t);
            (t, cdf, pdf, super::hazard(t))
        });
        let (doubles, singles) = (errors::<f64>(points()), errors::<f32>(points().chain(between)));
        let below = |found: [f64; 3], stated: [f64; 3]| found.iter().zip(stated).all(|(found, stated)| *found < stated);
        assert!(below(doubles, [3e-16, 2e-16, 4e-15]), "{doubles:?}");
        assert!(below(singles, [2e-7, 7e-8, 5e-6]), "{singles:?}");
    }

    #[test]
    fn exp_in_single_precision_has_the_stated_error() {
        for i in 0..=87_000 {
            let x = -(i as f32) / 1000.0;
            let error = f64::from(exp_nonpositive_f32(x)) / f64::from(x).exp() - 1.0;
            assert!(error.abs() < 2e-7, "{x}: {error}");
        }
    }

    #[test]
    fn the_tail_beyond_its_point_is_what_was_asked_for() {
        assert!(tail_point(0.5) < 1e-12);
        for exponent in 1..300 {
            let q = 10f64.powi(-exponent);
            let x = tail_point(q);
            assert!((ln_cdf(-x) / q.ln() - 1.0).abs() < 1e-12, "{q}: {x}");
        }
    }

    #[test]
    fn what_is_no_number_stays_none() {
        assert!(exp_nonpositive(f64::NAN).is_nan() && exp_nonpositive_f32(f32::NAN).is_nan());
        assert!(pdf(f64::NAN).is_nan() && pdf(f32::NAN).is_nan());
        assert!(cdf_pdf(f64::NAN).0.is_nan() && cdf_pdf(f32::NAN).0.is_nan());
        assert!(hazard(f64::NAN).is_nan() && hazard(f32::NAN).is_nan() && ln_cdf(f64::NAN).is_nan());
    }

    #[test]
    fn the_ends_of_the_line_are_finite_in_single_precision() {
        assert_eq!((exp_nonpositive_f32(-1e9), exp_nonpositive_f32(0.0)), (0.0, 1.0));
        assert_eq!((cdf_pdf(1e30f32), cdf_pdf(-1e30f32)), ((1.0, 0.0), (0.0, 0.0)));
        assert!((hazard(-1e7f32) / 1e7 - 1.0).abs() < 1e-6 && hazard(1e7f32) == 0.0);
    }

    #[test]
    fn the_ends_of_the_line_are_finite() {
        assert_eq!(exp_nonpositive(-1e9), 0.0);
        assert_eq!(exp_nonpositive(0.0), 1.0);
        assert_eq!(cdf_pdf(1e7), (1.0, 0.0));
        assert_eq!(cdf_pdf(-1e7), (0.0, 0.0));
        assert!((ln_cdf(-1e7) / -5e13 - 1.0).abs() < 1e-12 && (hazard(-1e7) / 1e7 - 1.0f64).abs() < 1e-12);
        assert!(ln_cdf(1e7) == 0.0 && hazard(1e7) == 0.0);
    }
}
