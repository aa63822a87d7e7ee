//! Rewards of any range, and their conversion to costs.

use crate::error::{Error, Result};

/// The range `[lo, hi]` of a reward, and its conversion to costs in `[-1, 0]`: `c = -(r - lo)/(hi - lo)`.
///
/// ```
/// let stars = surefoot::RewardRange::new(1.0, 5.0)?;
/// assert_eq!(stars.costs(&[5.0, 1.0, 2.0])?, vec![-1.0, 0.0, -0.25]);
/// assert_eq!(stars.reward(-0.25), 2.0);
/// assert_eq!(
///     stars.costs(&[3.0, 6.0]).unwrap_err().to_string(),
///     "row 1: reward should be in [1, 5], but is 6"
/// );
/// # Ok::<(), surefoot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RewardRange {
    lo: f64,
    hi: f64,
}

impl RewardRange {
    /// The range from `lo` to `hi`, both finite, `lo < hi`.
    pub fn new(lo: f64, hi: f64) -> Result<Self> {
        if !(lo.is_finite() && hi.is_finite() && lo < hi && (hi - lo).is_finite()) {
            let value = format!("[{lo}, {hi}]");
            return Err(Error::setting("the reward range", "finite with lo < hi", value));
        }
        Ok(RewardRange { lo, hi })
    }

    /// Converts a column of rewards to costs.
    pub fn costs(&self, rewards: &[f64]) -> Result<Vec<f64>> {
        let cost = |(row, &r): (usize, &f64)| {
            if !(self.lo..=self.hi).contains(&r) {
                let allowed = format!("in [{}, {}]", self.lo, self.hi);
                return Err(Error::value(row, "reward", allowed, r));
            }
            Ok((self.lo - r) / (self.hi - self.lo))
        };
        rewards.iter().enumerate().map(cost).collect()
    }

    /// Converts a cost or a risk to a reward.
    pub fn reward(&self, cost: f64) -> f64 {
        self.lo - cost * (self.hi - self.lo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reward_range_needs_two_finite_ends() {
        for (lo, hi) in [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY), (-f64::MAX, f64::MAX)] {
            assert!(RewardRange::new(lo, hi).is_err());
        }
    }
}
