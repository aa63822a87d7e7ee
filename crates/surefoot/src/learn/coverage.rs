//! Coverage: whether the logs of a policy will show what other policies would bring.

use serde::Serialize;

use crate::error::Result;
use crate::logs::{Eligible, Logs};
use crate::policy::{Policy, distribution_of};

/// The largest number of records that are looked at.
const MOST_RECORDS: usize = 2000;

/// An action is alive if it has at least this share of `1/K` of the decisions.
const ALIVE: f64 = 0.01;

/// Fewer effective records than this say next to nothing.
const FEW: f64 = 30.0;

/// How a new policy covers the actions, and how the newest records cover the policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Coverage {
    /// The number of newest records.
    pub records: usize,
    /// The effective sample size `(sum w)^2 / sum w^2` of the new policy on them, `w = p/q`. It is the number of records of
    /// the policy's own that would tell as much about it.
    pub effective: f64,
    /// The number of actions.
    pub actions: usize,
    /// The number of actions that the new policy takes in at least `0.01/K` of these contexts. Logs of a policy say nothing
    /// about an action that is lost.
    pub alive: usize,
}

impl Coverage {
    /// The coverage of a policy on the records of a round: by its last 2,000 at most. `None` if some of their
    /// contexts are missing.
    pub fn of(policy: &dyn Policy, logs: &Logs) -> Result<Option<Self>> {
        if !logs.is_complete() || logs.is_empty() {
            return Ok(None);
        }
        let some = logs.slice(logs.len().saturating_sub(MOST_RECORDS)..logs.len());
        let (n, k) = (some.len() as f64, some.actions());
        let p = distribution_of(policy, &some.gathered()?, some.eligible(), &(0..some.len()))?;
        let (mut sum, mut squares, mut taken) = (0.0, 0.0, vec![0.0; k]);
        for ((p, &a), q) in p.chunks_exact(k).zip(some.action()).zip(some.propensity()) {
            let weight = p[a as usize] / q;
            sum += weight;
            squares += weight * weight;
            taken.iter_mut().zip(p).for_each(|(taken, p)| *taken += p);
        }
        let share = if squares > 0.0 { sum * sum / squares / n } else { 0.0 };
        let least = ALIVE / k as f64 * n;
        Ok(Some(Coverage {
            records: logs.len(),
            effective: share * logs.len() as f64,
            actions: k,
            alive: match some.eligible().and_then(Eligible::features) {
                None => taken.iter().filter(|&&taken| taken >= least).count(),
                // The places of candidates are no actions that could be lost.
                Some(_) => k,
            },
        }))
    }

    /// A warning, if coverage is being lost.
    pub fn warning(&self) -> Option<String> {
        let Coverage { records, effective, actions, alive } = self;
        if alive < actions {
            return Some(format!(
                "coverage is being lost: the new policy hardly ever takes {} of {actions} actions, so its logs will not show \
                 what they bring (a larger exploration floor keeps them)",
                actions - alive
            ));
        }
        // A round of a few records is small, and not badly covered.
        (*effective < FEW.min(0.5 * *records as f64)).then(|| {
            format!(
                "coverage is being lost: the newest {records} records tell as much about the new policy as {effective:.0} \
                 records of its own (smaller steps, or more exploration, keep it known)"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FeatureMap;
    use crate::contexts::Contexts;
    use crate::policy::{Softmax, Uniform};

    fn logs(n: usize) -> Logs {
        let contexts = Contexts::dense((0..n).map(|_| 1.0).collect(), 1).unwrap();
        let action = (0..n).map(|i| (i % 4) as u32).collect();
        Logs::new(4, contexts, action, vec![0.25; n], vec![-1.0; n]).unwrap()
    }

    #[test]
    fn the_policy_that_collected_is_covered_by_every_record() {
        for n in [8, 4000] {
            let coverage = Coverage::of(&Uniform::new(4).unwrap(), &logs(n)).unwrap().unwrap();
            assert_eq!((coverage.records, coverage.actions, coverage.alive), (n, 4, 4));
            assert!((coverage.effective - n as f64).abs() < 1e-9, "{coverage:?}");
        }
        assert_eq!(Coverage::of(&Uniform::new(4).unwrap(), &logs(4000)).unwrap().unwrap().warning(), None);
    }

    #[test]
    fn a_policy_of_one_action_has_a_quarter_of_the_records_and_loses_the_others() {
        let softmax = Softmax::new(FeatureMap::identity(1), 4, vec![50.0, 0.0, 0.0, 0.0], 1.0).unwrap();
        let coverage = Coverage::of(&softmax, &logs(400)).unwrap().unwrap();
        assert_eq!(coverage.alive, 1);
        assert!((coverage.effective - 100.0).abs() < 1e-9, "{coverage:?}");
        let warning = coverage.warning().unwrap();
        assert!(warning.contains("hardly ever takes 3 of 4 actions"), "{warning}");
    }

    #[test]
    fn few_effective_records_are_a_warning_although_all_actions_live() {
        let coverage = Coverage { records: 500, effective: 3.2, actions: 4, alive: 4 };
        assert!(coverage.warning().unwrap().contains("as 3 records of its own"));
        assert_eq!(Coverage { effective: 30.0, ..coverage }.warning(), None);
    }
}
