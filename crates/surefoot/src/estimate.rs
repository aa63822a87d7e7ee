//! Off-policy evaluation: what the logs say of a policy that did not collect them.

use crate::error::{Error, Result};
use crate::logs::Logs;
use crate::policy::Policy;
use crate::regularizer::Regularizer;

/// `Rhat(pi) = (1/N) sum_i h(pi(a_i|x_i), q_i, c_i)` over the records of all rounds.
///
/// ```
/// use surefoot::{Contexts, Logs, Regularizer, Uniform, estimate};
///
/// let contexts = Contexts::dense(vec![1.0, 2.0], 1)?;
/// let logs = Logs::new(2, contexts, vec![0, 1], vec![0.25, 0.5], vec![-1.0, -0.5])?;
/// let risk = estimate(&Uniform::new(2)?, std::slice::from_ref(&logs), Regularizer::Ips)?;
/// assert_eq!(risk, (-2.0 - 0.5) / 2.0);
/// # Ok::<(), surefoot::Error>(())
/// ```
pub fn estimate(policy: &dyn Policy, rounds: &[Logs], regularizer: Regularizer) -> Result<f64> {
    regularizer.check()?;
    let records: usize = rounds.iter().map(Logs::len).sum();
    if records == 0 {
        return Err(Error::size("the logs", "at least 1 record", 0));
    }
    let mut sum = 0.0;
    for logs in rounds {
        if logs.actions() != policy.actions() {
            let expected = format!("{} actions, as the policy", policy.actions());
            return Err(Error::size("the logs", expected, logs.actions()));
        }
        let p = policy.propensity(logs.contexts(), logs.action(), logs.eligible())?;
        let records = p.iter().zip(logs.propensity()).zip(logs.cost());
        sum += records.map(|((&p, &q), &c)| regularizer.h(p, q, c)).sum::<f64>();
    }
    let risk = sum / records as f64;
    if !risk.is_finite() {
        return Err(Error::setting("the estimate", "finite", risk));
    }
    Ok(risk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contexts::Contexts;
    use crate::logs::Eligible;
    use crate::policy::Uniform;

    #[derive(Debug)]
    struct Undecided;

    impl Policy for Undecided {
        fn actions(&self) -> usize {
            2
        }

        fn distribution(&self, contexts: &Contexts, _: Option<&Eligible>) -> Result<Vec<f64>> {
            Ok(vec![f64::NAN; 2 * contexts.len()])
        }
    }

    #[test]
    fn what_cannot_be_estimated_is_refused() {
        let contexts = Contexts::dense(vec![1.0], 1).unwrap();
        let logs = [Logs::new(2, contexts, vec![0], vec![0.5], vec![-1.0]).unwrap()];
        let text = |policy: &dyn Policy, logs: &[Logs], r| estimate(policy, logs, r).unwrap_err().to_string();
        assert_eq!(
            text(&Uniform::new(3).unwrap(), &logs, Regularizer::Ips),
            "the logs should have 3 actions, as the policy, but has 2"
        );
        assert_eq!(text(&Undecided, &[], Regularizer::Ips), "the logs should have at least 1 record, but has 0");
        assert_eq!(text(&Undecided, &logs, Regularizer::Ips), "the estimate should be finite, but is NaN");
        assert_eq!(
            text(&Undecided, &logs, Regularizer::LsAdjusted { lambda: 2.0 }),
            "lambda should be in (0, 1), but is 2"
        );
    }
}
