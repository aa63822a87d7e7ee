//! SCHEDULE: how many records each round collects.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// How a budget of interactions is divided into rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Schedule {
    /// This many rounds of equal size (the first ones get one more if the budget is not divisible).
    Equal(usize),
    /// This many rounds, each twice as large as the one before, the first of `ceil(N/2^k)` records. The last round
    /// takes the rest, which may be more or less than twice the one before.
    Doubling(usize),
    /// Each round is larger than the one before by this factor, which is at least 1. Early rounds are small, because a
    /// learner has most to gain from a new policy then.
    Growing {
        /// The number of rounds.
        rounds: usize,
        /// The factor.
        factor: f64,
    },
    /// The given sizes.
    Sizes(Vec<usize>),
}

impl Schedule {
    /// The factor of `growing` rounds, if none is given.
    pub const FACTOR: f64 = 1.15;

    /// The number of rounds of an algorithm, if none is given: 20 for `portfolio` and `thompson`, whose rounds grow; else
    /// 10.
    pub fn usual_rounds(algorithm: &str) -> usize {
        if matches!(algorithm, "portfolio" | "thompson") { 20 } else { 10 }
    }

    /// The schedule of this name: `equal`, `growing`, `growing:FACTOR`, `doubling`, `auto` (growing for `portfolio` and
    /// `thompson`, doubling for `scrm`, else equal), or a list of sizes such as `100,200,400`. A list determines the number
    /// of rounds; the others have `rounds` rounds.
    pub fn named(name: &str, rounds: usize, algorithm: &str) -> Result<Self> {
        match (name, algorithm) {
            ("doubling", _) | ("auto", "scrm") => Ok(Schedule::Doubling(rounds)),
            ("growing", _) | ("auto", "portfolio" | "thompson") => {
                Ok(Schedule::Growing { rounds, factor: Schedule::FACTOR })
            }
            ("equal" | "auto", _) => Ok(Schedule::Equal(rounds)),
            (list, _) => {
                if let Some(factor) = list.strip_prefix("growing:") {
                    let factor = factor.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor >= 1.0);
                    let wrong = || Error::setting("the factor of growing rounds", "a number from 1 on", list);
                    return Ok(Schedule::Growing { rounds, factor: factor.ok_or_else(wrong)? });
                }
                let sizes: std::result::Result<_, _> = list.split(',').map(|n| n.trim().parse()).collect();
                let allowed = "auto, equal, growing, growing:FACTOR, doubling, or a list of sizes such as 100,200,400";
                sizes.map(Schedule::Sizes).map_err(|_| Error::setting("schedule", allowed, list))
            }
        }
    }

    /// The sizes of the rounds for a budget of `total` interactions. Each is at least 1.
    pub fn sizes(&self, total: usize) -> Result<Vec<usize>> {
        let rounds = match self {
            Schedule::Equal(k) | Schedule::Doubling(k) => *k,
            Schedule::Growing { rounds, .. } => *rounds,
            Schedule::Sizes(sizes) => sizes.len(),
        };
        if rounds == 0 || rounds > total {
            return Err(Error::setting("the number of rounds", format!("from 1 to {total}, the interactions"), rounds));
        }
        match self {
            Schedule::Equal(k) => Ok((0..*k).map(|j| total / k + usize::from(j < total % k)).collect()),
            Schedule::Doubling(k) => {
                let first = if *k >= usize::BITS as usize { 1 } else { total.div_ceil(1 << k) };
                let mut left = total;
                let mut sizes = Vec::with_capacity(*k);
                for j in 0..*k {
                    let wanted =
                        u32::try_from(j).ok().and_then(|j| 1usize.checked_shl(j)).and_then(|d| first.checked_mul(d));
                    let size = if j + 1 == *k { left } else { wanted.unwrap_or(left).min(left) };
                    if size == 0 {
                        let most = total.ilog2() as usize + 1;
                        return Err(Error::setting("the number of doubling rounds", format!("from 1 to {most}"), k));
                    }
                    sizes.push(size);
                    left -= size;
                }
                Ok(sizes)
            }
            Schedule::Growing { rounds, factor } => Ok(growing(total, *rounds, *factor)),
            Schedule::Sizes(sizes) => {
                if sizes.contains(&0) {
                    return Err(Error::setting("every size of the schedule", "at least 1", 0));
                }
                let sum = sizes.iter().try_fold(0usize, |sum, &n| sum.checked_add(n)).unwrap_or(usize::MAX);
                if sum > total {
                    return Err(Error::setting("the sum of the round sizes", format!("at most {total}"), sum));
                }
                Ok(sizes.clone())
            }
        }
    }
}

/// Sizes of at least 1 whose sum is `total`, each larger than the one before by the factor, but for rounding.
fn growing(total: usize, rounds: usize, factor: f64) -> Vec<usize> {
    // The share of the first `j` rounds, `(f^j - 1)/(f^k - 1)`, without overflow for large factors.
    let share = |j: usize| match factor {
        1.0 => j as f64 / rounds as f64,
        _ => {
            let (log, k) = (factor.ln(), rounds as f64);
            ((j as f64 - k) * log).exp() * (-(j as f64) * log).exp_m1() / (-k * log).exp_m1()
        }
    };
    let mut sizes = Vec::with_capacity(rounds);
    let mut before = 0;
    for j in 1..=rounds {
        // Every round has at least one record, and leaves one for each round after it.
        let end = ((total as f64 * share(j)).round() as usize).clamp(before + 1, total - (rounds - j));
        let end = if j == rounds { total } else { end };
        sizes.push(end - before);
        before = end;
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_rounds_together_spend_the_whole_budget(total in 1usize..100_000, k in 1usize..40) {
            let growing = [1.0, 1.2, 3.0, 1e6].map(|factor| Schedule::Growing { rounds: k, factor });
            for schedule in [Schedule::Equal(k), Schedule::Doubling(k)].into_iter().chain(growing) {
                if let Ok(sizes) = schedule.sizes(total) {
                    prop_assert_eq!(sizes.iter().sum::<usize>(), total);
                    prop_assert_eq!(sizes.len(), k);
                    prop_assert!(sizes.iter().all(|&n| n > 0));
                }
            }
        }
    }

    #[test]
    fn doubling_rounds_double_and_the_last_takes_the_rest() {
        assert_eq!(Schedule::Doubling(4).sizes(1500).unwrap(), [94, 188, 376, 842]);
        assert_eq!(Schedule::Doubling(1).sizes(7).unwrap(), [7]);
        assert_eq!(Schedule::Doubling(2).sizes(2).unwrap(), [1, 1]);
        assert_eq!(
            Schedule::Doubling(64).sizes(1000).unwrap_err().to_string(),
            "the number of doubling rounds should be from 1 to 10, but is 64"
        );
    }

    #[test]
    fn names_are_understood() {
        let named = |name, algorithm| Schedule::named(name, 3, algorithm);
        assert_eq!(named("auto", "seq-ls").unwrap(), Schedule::Equal(3));
        assert_eq!(named("auto", "scrm").unwrap(), Schedule::Doubling(3));
        assert_eq!(named("equal", "scrm").unwrap(), Schedule::Equal(3));
        assert_eq!(named("doubling", "seq-ls").unwrap(), Schedule::Doubling(3));
        let growing = |factor| Schedule::Growing { rounds: 3, factor };
        assert_eq!(named("auto", "portfolio").unwrap(), growing(Schedule::FACTOR));
        assert_eq!(named("growing", "scrm").unwrap(), growing(Schedule::FACTOR));
        assert_eq!(named("growing:2", "scrm").unwrap(), growing(2.0));
        assert_eq!(growing(2.0).sizes(700).unwrap(), [100, 200, 400]);
        assert_eq!(
            named("growing:0.5", "scrm").unwrap_err().to_string(),
            "the factor of growing rounds should be a number from 1 on, but is growing:0.5"
        );
        assert_eq!(named("5, 6", "scrm").unwrap(), Schedule::Sizes(vec![5, 6]));
        assert_eq!(
            named("a,b", "scrm").unwrap_err().to_string(),
            "schedule should be auto, equal, growing, growing:FACTOR, doubling, or a list of sizes such as 100,200,400, but is a,b"
        );
    }

    #[test]
    fn impossible_schedules_are_refused() {
        let text = |s: Schedule| s.sizes(10).unwrap_err().to_string();
        assert_eq!(text(Schedule::Equal(0)), "the number of rounds should be from 1 to 10, the interactions, but is 0");
        assert_eq!(
            text(Schedule::Equal(11)),
            "the number of rounds should be from 1 to 10, the interactions, but is 11"
        );
        assert_eq!(text(Schedule::Sizes(vec![3, 0])), "every size of the schedule should be at least 1, but is 0");
        assert_eq!(text(Schedule::Sizes(vec![5, 6])), "the sum of the round sizes should be at most 10, but is 11");
        assert!(Schedule::Sizes(vec![usize::MAX, 2]).sizes(10).is_err());
        assert_eq!(Schedule::Sizes(vec![5, 4]).sizes(10).unwrap(), [5, 4]);
    }
}
