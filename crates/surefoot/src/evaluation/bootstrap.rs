//! The percentile bootstrap of a stream.
//!
//! Records are assigned to [`BUCKETS`] buckets by their index in the stream, and the buckets are resampled. Each bucket
//! gets a Poisson weight with mean 1, instead of the multinomial counts of drawing with replacement. The only
//! difference is that the number of drawn records varies, which cancels because all estimates are ratios of sums. With
//! at most [`BUCKETS`] records, each bucket holds at most one record and this is the ordinary bootstrap. With more, the
//! sums of the buckets are independent, as the records are, and the variance of their total is the same; 16,384 buckets
//! are enough for its quantiles.
//!
//! The weights depend only on the seed, the replicate and the bucket. So all policies over the same records, and all
//! estimators, are resampled in the same way.

use rand::Rng;
use rayon::prelude::*;

use super::Interval;
use super::estimator::Formula;
use crate::math::kernels::{lane_sum, wide};
use crate::math::random::{Purpose, stream};

/// The number of buckets.
pub(super) const BUCKETS: usize = 1 << 14;

/// The sums of each column per bucket; the first column counts the records.
#[derive(Debug)]
pub(super) struct Buckets {
    pub(super) count: Vec<f64>,
    pub(super) sums: Vec<Vec<f64>>,
}

/// The estimates of each replicate, one list per formula; NaN if a replicate has no records.
pub(super) fn replicates(
    buckets: &Buckets,
    formulas: &[Formula<usize>],
    replicates: usize,
    seed: u64,
) -> Vec<Vec<f64>> {
    let thresholds = poisson_thresholds();
    let rows: Vec<Vec<f64>> = (0..replicates as u64)
        .into_par_iter()
        .map_init(
            || (vec![0u8; 4 * buckets.count.len()], vec![0.0; buckets.count.len()]),
            |(bytes, weights), replicate| {
                stream(seed, Purpose::Bootstrap, replicate).fill_bytes(bytes);
                draw(bytes, &thresholds, weights);
                let records = dot(weights, &buckets.count);
                let means: Vec<f64> = buckets.sums.iter().map(|sums| dot(weights, sums) / records).collect();
                let undefined = records == 0.0;
                formulas.iter().map(|formula| if undefined { f64::NAN } else { formula.value(&means) }).collect()
            },
        )
        .collect();
    (0..formulas.len()).map(|i| rows.iter().map(|row| row[i]).collect()).collect()
}

/// The interval between the quantiles `delta/2` and `1 - delta/2` of the values that are not NaN.
pub(super) fn percentiles(values: &[f64], delta: f64) -> Option<Interval> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|x| !x.is_nan()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let quantile = |share: f64| -> Option<f64> {
        let place = share * (sorted.len() as f64 - 1.0);
        let (below, above) = (*sorted.get(place as usize)?, *sorted.get(place.ceil() as usize)?);
        Some(below + (above - below) * place.fract())
    };
    Some(Interval { lower: quantile(0.5 * delta)?, upper: quantile(1.0 - 0.5 * delta)? })
}

/// `2^32 P(X <= k)` of a Poisson variable with mean 1, up to the `k` where the tail vanishes.
fn poisson_thresholds() -> [u32; 12] {
    let (mut below, mut chance) = (0.0, (-1.0f64).exp());
    std::array::from_fn(|k| {
        below += chance;
        chance /= (k + 1) as f64;
        (below * 4_294_967_296.0) as u32
    })
}

/// Draws Poisson weights from four random bytes each.
fn draw(bytes: &[u8], thresholds: &[u32; 12], weights: &mut [f64]) {
    wide(
        #[inline(always)]
        || {
            for (bytes, weight) in bytes.as_chunks::<4>().0.iter().zip(&mut *weights) {
                let (u, mut k) = (u32::from_le_bytes(*bytes), 0u32);
                for &threshold in thresholds {
                    k += u32::from(u >= threshold);
                }
                *weight = f64::from(k);
            }
        },
    );
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    wide(
        #[inline(always)]
        || {
            lane_sum(
                x,
                y,
                #[inline(always)]
                |x: f64, y: f64| x * y,
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_poisson() {
        let (mut bytes, mut weights) = (vec![0; 400_000], vec![0.0; 100_000]);
        stream(3, Purpose::Bootstrap, 0).fill_bytes(&mut bytes);
        draw(&bytes, &poisson_thresholds(), &mut weights);
        let mut chance = (-1.0f64).exp();
        for k in 0..5 {
            let share = weights.iter().filter(|&&w| w == f64::from(k)).count() as f64 / 1e5;
            assert!((share - chance).abs() < 4.0 * (chance / 1e5).sqrt(), "{k}: {share} {chance}");
            chance /= f64::from(k + 1);
        }
    }

    #[test]
    fn percentiles_are_interpolated_and_leave_out_what_is_undefined() {
        let values = [5.0, f64::NAN, 1.0, 2.0, 4.0, 3.0];
        assert_eq!(percentiles(&values, 0.5), Some(Interval { lower: 2.0, upper: 4.0 }));
        assert_eq!(percentiles(&values, 0.25), Some(Interval { lower: 1.5, upper: 4.5 }));
        assert_eq!(percentiles(&[f64::NAN], 0.5), None);
    }
}
