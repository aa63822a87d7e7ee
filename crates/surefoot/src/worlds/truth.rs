//! The known truth of a simulated world, and the quantities of the theory that follow from it.

use std::ops::Range;

use crate::contexts::Contexts;
use crate::error::{Error, Result, check_setting};
use crate::logs::Eligible;
use crate::policy::{Policy, distribution_of};

/// Contexts with the expected cost of every action. Costs are -1 or 0, so that `E[c^2] = -E[c]`.
#[derive(Debug, Clone)]
pub struct Truth {
    contexts: Contexts,
    /// The candidates of each context, if they have features.
    eligible: Option<Eligible>,
    actions: usize,
    costs: Costs,
    best: Vec<u32>,
}

#[derive(Debug, Clone)]
enum Costs {
    /// The same two values in every context: for the best action, and for the others.
    TwoValues { best: f64, other: f64 },
    /// One row of `K` per context.
    Table(Vec<f64>),
}

/// The number of rows whose distributions are held at once.
const BLOCK: usize = 1024;

/// Probabilities that differ by less are equal, but for rounding.
const TIE: f64 = 1e-9;

fn check_size(contexts: &Contexts, actions: usize) -> Result<()> {
    if contexts.is_empty() {
        return Err(Error::size("the contexts of a truth", "at least 1 row", 0));
    }
    if actions < 2 {
        return Err(Error::setting("the number of actions", "at least 2", actions));
    }
    Ok(())
}

impl Truth {
    /// In each context one action has expected cost `best` and all others have `other`; both in `[-1, 0]`.
    pub fn two_values(contexts: Contexts, actions: usize, labels: Vec<u32>, best: f64, other: f64) -> Result<Self> {
        check_setting("the expected cost of the best action", best, (-1.0..=other).contains(&best), "in [-1, other]")?;
        check_setting("the expected cost of the others", other, other <= 0.0, "in [best, 0]")?;
        check_size(&contexts, actions)?;
        if labels.len() != contexts.len() {
            let expected = format!("{} entries, one for each context", contexts.len());
            return Err(Error::size("labels", expected, labels.len()));
        }
        if let Some(row) = labels.iter().position(|&y| y as usize >= actions) {
            return Err(Error::value(row, "label", format!("below {actions}"), labels[row]));
        }
        Ok(Truth { contexts, eligible: None, actions, costs: Costs::TwoValues { best, other }, best: labels })
    }

    /// The expected cost of every action, in `[-1, 0]`, one row of `actions` per context.
    pub fn table(contexts: Contexts, actions: usize, costs: Vec<f64>) -> Result<Self> {
        check_size(&contexts, actions)?;
        if costs.len() != contexts.len() * actions {
            let expected = format!("{} contexts x {actions} actions", contexts.len());
            return Err(Error::size("the expected costs", expected, costs.len()));
        }
        if let Some(i) = costs.iter().position(|c| !(-1.0..=0.0).contains(c)) {
            return Err(Error::value(i / actions, "expected cost", "in [-1, 0]", costs[i]));
        }
        let lowest = |row: &[f64]| (1..actions).fold(0, |best, a| if row[a] < row[best] { a } else { best }) as u32;
        let best = costs.chunks_exact(actions).map(lowest).collect();
        Ok(Truth { contexts, eligible: None, actions, costs: Costs::Table(costs), best })
    }

    /// Adds what could be chosen in each context. Actions that could not must have the expected cost 0.
    pub fn with_eligible(mut self, eligible: Eligible) -> Result<Self> {
        eligible.check(self.actions, self.contexts.len())?;
        self.eligible = Some(eligible);
        Ok(self)
    }

    /// The truth on a range of the contexts.
    ///
    /// # Panics
    /// If the range does not lie within the contexts.
    pub fn slice(&self, range: Range<usize>) -> Result<Self> {
        let contexts = self.contexts.slice(range.clone());
        check_size(&contexts, self.actions)?;
        let costs = match &self.costs {
            Costs::Table(costs) => Costs::Table(costs[range.start * self.actions..range.end * self.actions].to_vec()),
            two => two.clone(),
        };
        let eligible = self.eligible.as_ref().map(|sets| sets.slice(range.clone()));
        Ok(Truth { contexts, eligible, actions: self.actions, costs, best: self.best[range].to_vec() })
    }

    /// The number of actions, `K`.
    pub fn actions(&self) -> usize {
        self.actions
    }

    /// The contexts over which risks are averaged.
    pub fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// What could be chosen in each context; `None` for every action.
    pub fn eligible(&self) -> Option<&Eligible> {
        self.eligible.as_ref()
    }

    /// The best action of each context, `a*(x)`.
    pub fn best(&self) -> &[u32] {
        &self.best
    }

    /// `E[c|x_i, a]`.
    pub fn expected_cost(&self, i: usize, a: usize) -> f64 {
        match &self.costs {
            Costs::TwoValues { best, .. } if self.best[i] as usize == a => *best,
            Costs::TwoValues { other, .. } => *other,
            Costs::Table(costs) => costs[i * self.actions + a],
        }
    }

    /// The risk of the optimal policy, `R(pi*)`.
    pub fn optimal_risk(&self) -> f64 {
        self.mean(|i| self.expected_cost(i, self.best[i] as usize))
    }

    /// The risk `R(pi)`.
    pub fn risk(&self, policy: &dyn Policy) -> Result<f64> {
        self.evaluate(policy).map(|(risk, _)| risk)
    }

    /// `E pi(a*(x)|x)`: the probability of the best action.
    pub fn accuracy(&self, policy: &dyn Policy) -> Result<f64> {
        let p = self.on_best(policy)?;
        Ok(self.mean(|i| p[i]))
    }

    /// Risk and accuracy together.
    pub fn evaluate(&self, policy: &dyn Policy) -> Result<(f64, f64)> {
        if let Costs::TwoValues { best, other } = self.costs {
            let accuracy = self.accuracy(policy)?;
            return Ok((other + (best - other) * accuracy, accuracy));
        }
        self.check_policy(policy)?;
        let (mut risk, mut accuracy) = (0.0, 0.0);
        let k = self.actions;
        for start in (0..self.contexts.len()).step_by(BLOCK) {
            let end = (start + BLOCK).min(self.contexts.len());
            let p = distribution_of(policy, &self.contexts, self.eligible(), &(start..end))?;
            for (i, p) in (start..end).zip(p.chunks_exact(k)) {
                risk += (0..k).map(|a| p[a] * self.expected_cost(i, a)).sum::<f64>();
                accuracy += p[self.best[i] as usize];
            }
        }
        let n = self.contexts.len() as f64;
        Ok((risk / n, accuracy / n))
    }

    /// The share of contexts in which the most probable action is the best one. Equally probable actions share theirs.
    pub fn greedy_accuracy(&self, policy: &dyn Policy) -> Result<f64> {
        self.greedy_and_coverage(policy).map(|(accuracy, _)| accuracy)
    }

    /// [Greedy accuracy](Truth::greedy_accuracy) and [coverage](Truth::coverage) together.
    pub(crate) fn greedy_and_coverage(&self, policy: &dyn Policy) -> Result<(f64, f64)> {
        self.check_policy(policy)?;
        let (mut right, mut coverage) = (0.0, 1.0f64);
        for start in (0..self.contexts.len()).step_by(BLOCK) {
            let end = (start + BLOCK).min(self.contexts.len());
            let p = distribution_of(policy, &self.contexts, self.eligible(), &(start..end))?;
            for (i, p) in (start..end).zip(p.chunks_exact(self.actions)) {
                let most = p.iter().copied().fold(0.0, f64::max);
                let likely = |p: f64| p >= most - TIE;
                coverage = coverage.min(p[self.best[i] as usize]);
                if likely(p[self.best[i] as usize]) {
                    right += 1.0 / p.iter().filter(|&&p| likely(p)).count() as f64;
                }
            }
        }
        Ok((right / self.contexts.len() as f64, coverage))
    }

    /// The coverage of the best actions, `C* = min_x pi(a*(x)|x)`.
    pub fn coverage(&self, policy: &dyn Policy) -> Result<f64> {
        Ok(self.on_best(policy)?.into_iter().fold(1.0, f64::min))
    }

    /// The margin `Delta_u`: the largest gap between the best action and all others that a share `1 - u` of the
    /// contexts have; `u` in `[0, 1)`.
    pub fn margin(&self, u: f64) -> Result<f64> {
        check_setting("u", u, (0.0..1.0).contains(&u), "in [0, 1)")?;
        let gap = |i: usize| {
            let best = self.best[i] as usize;
            let others = (0..self.actions).filter(|&a| a != best).map(|a| self.expected_cost(i, a));
            others.fold(f64::INFINITY, f64::min) - self.expected_cost(i, best)
        };
        let mut gaps: Vec<f64> = (0..self.contexts.len()).map(gap).collect();
        gaps.sort_by(f64::total_cmp);
        // At most a share `u` of the contexts may lie below; the added 1e-9 keeps `0.2 * 5` from being rounded below 1.
        let below = (u * gaps.len() as f64 + 1e-9).floor() as usize;
        Ok(gaps[below.min(gaps.len() - 1)])
    }

    /// `gamma = 3/(Delta_u (1 - u) C*)`, the constant of Theorem 4.4 for policies that cover the best actions with
    /// probability `coverage` or more; infinite if margin or coverage is 0.
    pub fn gamma(&self, u: f64, coverage: f64) -> Result<f64> {
        Ok(3.0 / (self.margin(u)? * (1.0 - u) * coverage))
    }

    /// `gamma_k = 1 + (1/4 + 1/C*_k)/(Delta_u (1 - u))`, the constant of Lemma 4.3 for one policy.
    ///
    /// The lemma is certain only for `u = 0`. For `u > 0` its proof needs a policy whose errors are no more frequent in
    /// the share `u` of the contexts than elsewhere, and not every policy is like that.
    pub fn gamma_k(&self, u: f64, coverage: f64) -> Result<f64> {
        Ok(1.0 + (0.25 + 1.0 / coverage) / (self.margin(u)? * (1.0 - u)))
    }

    /// `L(pi*, pi) = E_x[ E_pi[c^2] + E_{pi*}[c^2 (1/pi(a|x) - 2)] ]`, which vanishes as `pi` approaches `pi*`.
    pub fn distance(&self, policy: &dyn Policy) -> Result<f64> {
        let p = self.on_best(policy)?;
        let optimal = self.mean(|i| -self.expected_cost(i, self.best[i] as usize) * (1.0 / p[i] - 2.0));
        Ok(optimal - self.risk(policy)?)
    }

    fn on_best(&self, policy: &dyn Policy) -> Result<Vec<f64>> {
        self.check_policy(policy)?;
        policy.propensity(&self.contexts, &self.best, self.eligible())
    }

    pub(super) fn check_policy(&self, policy: &dyn Policy) -> Result<()> {
        if policy.actions() != self.actions {
            return Err(Error::size("the policy", format!("{} actions, as the world", self.actions), policy.actions()));
        }
        Ok(())
    }

    fn mean(&self, value: impl Fn(usize) -> f64) -> f64 {
        let n = self.contexts.len();
        (0..n).map(value).sum::<f64>() / n as f64
    }
}
