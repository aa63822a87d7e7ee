//! SCHEDULE: how many records each round collects.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// How a budget of interactions is divided into rounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Schedule {
    /// This many rounds of equal size (the first ones get one more if the budget is not divisible).
    Equal(usize),
    /// This many rounds, each twice as large as the one before, the first of `ceil(N/2^k)` records. The last round
    /// takes the rest, which may be more or less than twice the one before.
    Doubling(usize),
    /// The given sizes.
    Sizes(Vec<usize>),
}

impl Schedule {
    /// The schedule of this name: `equal`, `doubling`, `auto` (doubling for the algorithm `scrm`, else equal), or a list of
    /// sizes such as `100,200,400`. A list determines the number of rounds; the others have `rounds` rounds.
    pub fn named(name: &str, rounds: usize, algorithm: &str) -> Result<Self> {
        match (name, algorithm) {
            ("doubling", _) | ("auto", "scrm") => Ok(Schedule::Doubling(rounds)),
            ("equal" | "auto", _) => Ok(Schedule::Equal(rounds)),
            (list, _) => {
                let sizes: std::result::Result<_, _> = list.split(',').map(|n| n.trim().parse()).collect();
                let allowed = "auto, equal, doubling, or a list of sizes such as 100,200,400";
                sizes.map(Schedule::Sizes).map_err(|_| Error::setting("schedule", allowed, list))
            }
        }
    }

    /// The sizes of the rounds for a budget of `total` interactions. Each is at least 1.
    pub fn sizes(&self, total: usize) -> Result<Vec<usize>> {
        let rounds = match self {
            Schedule::Equal(k) | Schedule::Doubling(k) => *k,
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equal_and_doubling_rounds_spend_the_whole_budget(total in 1usize..100_000, k in 1usize..40) {
            for schedule in [Schedule::Equal(k), Schedule::Doubling(k)] {
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
        assert_eq!(named("5, 6", "scrm").unwrap(), Schedule::Sizes(vec![5, 6]));
        assert_eq!(
            named("a,b", "scrm").unwrap_err().to_string(),
            "schedule should be auto, equal, doubling, or a list of sizes such as 100,200,400, but is a,b"
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
