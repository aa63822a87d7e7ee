//! A world with finitely many contexts, in which the risk of every policy is known exactly.

use rand::RngExt;

use super::{Environment, Truth, Turn, interact};
use crate::error::{Error, Result};
use crate::logs::Logs;
use crate::math::random::{Purpose, record_stream, stream};
use crate::policy::Policy;

/// In each interaction the context is drawn from those of a [`Truth`], uniformly and with replacement. So
/// [`Truth::risk`] is exact and not an estimate. With several truths the contexts drift: round `k` draws from truth `k`
/// modulo their number.
#[derive(Debug, Clone)]
pub struct Finite {
    phases: Vec<Truth>,
    seed: u64,
}

impl Finite {
    /// A cycle of truths over the same actions and features; the seed determines contexts, decisions and rewards.
    pub fn new(phases: Vec<Truth>, seed: u64) -> Result<Self> {
        let Some(first) = phases.first() else {
            return Err(Error::size("a finite world", "at least 1 truth", 0));
        };
        let size = |truth: &Truth| (truth.actions(), truth.contexts().features());
        let (actions, features) = size(first);
        if let Some(other) = phases.iter().map(size).find(|&other| other != (actions, features)) {
            let allowed = format!("of {actions} actions and {features} features, as the first");
            let value = format!("of {} and {}", other.0, other.1);
            return Err(Error::setting("every truth of a finite world", allowed, value));
        }
        Ok(Finite { phases, seed })
    }

    fn phase(&self, round: usize) -> &Truth {
        &self.phases[round % self.phases.len()]
    }
}

impl Environment for Finite {
    fn actions(&self) -> usize {
        self.phases[0].actions()
    }

    fn collect(&self, policy: &dyn Policy, turn: Turn) -> Result<Logs> {
        let truth = self.phase(turn.round);
        let base = stream(self.seed, Purpose::Contexts, 0);
        let draw = |i| record_stream(&base, (turn.start + i) as u64).random_range(0..truth.contexts().len());
        let rows: Vec<usize> = (0..turn.n).map(draw).collect();
        let contexts = truth.contexts().select(&rows);
        interact(policy, contexts, None, turn, self.seed, |i, a| truth.expected_cost(rows[i], a))
    }

    fn truth(&self, round: usize) -> Result<Truth> {
        Ok(self.phase(round).clone())
    }
}
