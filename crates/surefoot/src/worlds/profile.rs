//! A policy in a world with known truth: quantities of the convergence theory that need all its probabilities.

use super::Truth;
use crate::error::Result;
use crate::policy::{Policy, distribution_of};

/// All probabilities of a policy on the contexts of a [`Truth`], to compute several quantities from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Profile<'a> {
    truth: &'a Truth,
    p: Vec<f64>,
}

/// The number of rows whose distributions are held at once.
const BLOCK: usize = 1024;

impl Truth {
    /// Computes the profile of a policy on these contexts.
    pub fn profile(&self, policy: &dyn Policy) -> Result<Profile<'_>> {
        self.check_policy(policy)?;
        let n = self.contexts().len();
        let mut p = Vec::with_capacity(n * self.actions());
        for start in (0..n).step_by(BLOCK) {
            p.extend(distribution_of(policy, self.contexts(), self.eligible(), &(start..(start + BLOCK).min(n)))?);
        }
        Ok(Profile { truth: self, p })
    }
}

impl Profile<'_> {
    /// The risk `R(pi)`.
    pub fn risk(&self) -> f64 {
        self.mean(|i, a| self.get(i, a) * self.truth.expected_cost(i, a))
    }

    /// The coverage of the best actions, `C* = min_x pi(a*(x)|x)`.
    pub fn coverage(&self) -> f64 {
        (0..self.contexts()).map(|i| self.on_best(i)).fold(1.0, f64::min)
    }

    /// `L(pi*, pi)` for the optimal policy `pi*`, as [`Truth::distance`].
    pub fn distance(&self) -> f64 {
        let best = |i: usize| self.truth.expected_cost(i, self.truth.best()[i] as usize);
        let optimal: f64 = (0..self.contexts()).map(|i| -best(i) * (1.0 / self.on_best(i) - 2.0)).sum();
        optimal / self.contexts() as f64 - self.risk()
    }

    /// The pseudo-variance `S(pi) = E_x[ E_pi[c^2/pi_j(a|x)] ]` of Proposition 3.3 for another policy `pi`, with this
    /// one as the logging policy `pi_j`. It is infinite if `pi` takes an action that `pi_j` never takes.
    pub fn pseudo_variance(&self, of: &Profile<'_>) -> f64 {
        self.mean(|i, a| match of.get(i, a) {
            0.0 => 0.0,
            p => -self.truth.expected_cost(i, a) * p / self.get(i, a),
        })
    }

    /// `L(pi, pi_j) = E_x[ E_{pi_j}[c^2] + E_pi[c^2 (1/pi_j(a|x) - 2)] ]` of Proposition 4.2, with this policy as
    /// `pi_j`. `pi` need not be optimal or deterministic.
    pub fn distance_of(&self, of: &Profile<'_>) -> f64 {
        // `c^2 = -c`, because costs are -1 or 0.
        self.pseudo_variance(of) + 2.0 * of.risk() - self.risk()
    }

    fn contexts(&self) -> usize {
        self.truth.contexts().len()
    }

    fn get(&self, i: usize, a: usize) -> f64 {
        self.p[i * self.truth.actions() + a]
    }

    fn on_best(&self, i: usize) -> f64 {
        self.get(i, self.truth.best()[i] as usize)
    }

    /// `E_x sum_a value(x, a)`.
    fn mean(&self, value: impl Fn(usize, usize) -> f64) -> f64 {
        let row = |i: usize| (0..self.truth.actions()).map(|a| value(i, a)).sum::<f64>();
        (0..self.contexts()).map(row).sum::<f64>() / self.contexts() as f64
    }
}
