//! Validation of logged records.

use surefoot::RewardRange;
use surefoot::logs::Eligible;

use super::{Actions, LogBatch, Role};
use crate::error::Result;

/// Valid records: every action is known, every propensity is in (0, 1], and every reward is in its range.
#[derive(Debug)]
pub struct Records {
    /// The actions.
    pub action: Vec<u32>,
    /// Their propensities.
    pub propensity: Vec<f64>,
    /// Their costs, in [-1, 0].
    pub cost: Vec<f64>,
    /// The eligible actions, if they were logged.
    pub eligible: Option<Eligible>,
}

/// Rejects records that no policy can have logged.
#[derive(Debug, Clone)]
pub struct Check {
    actions: Actions,
    range: RewardRange,
    /// The drop probability, once known; it is the same for all records.
    thinned: Option<f64>,
}

impl Check {
    /// A check for these actions and this reward range.
    pub fn new(actions: Actions, range: RewardRange) -> Self {
        Check { actions, range, thinned: None }
    }

    /// The actions.
    pub fn actions(&self) -> &Actions {
        &self.actions
    }

    /// The records of a batch, validated.
    pub fn records(&mut self, batch: &LogBatch) -> Result<Records> {
        self.thinning(batch)?;
        let action = batch.action(&self.actions)?;
        let column = batch.required_role(Role::Propensity)?;
        let propensity = column.all_numbers()?.into_owned();
        if let Some(i) = propensity.iter().position(|q| !(*q > 0.0 && *q <= 1.0)) {
            return Err(column.error(i, "in (0, 1]", propensity[i]));
        }
        let column = batch.required_role(Role::Reward)?;
        column.all_numbers()?;
        let cost = self.range.costs(&batch.reward()?).map_err(|reason| batch.refused(reason))?;
        let eligible = batch.eligible(&self.actions)?;
        if let Some(sets) = &eligible
            && let Some(i) = (0..sets.len()).find(|&i| !sets.get(i).contains(&action[i]))
        {
            let column = batch.required_role(Role::Action)?;
            let allowed = format!("one of the eligible {:?}", sets.get(i));
            return Err(column.error(i, allowed, action[i]));
        }
        Ok(Records { action, propensity, cost, eligible })
    }

    /// Checks that the drop probability is constant. If every record was dropped with the same probability, the log is
    /// just a smaller log. Otherwise records would need weights, and no certificate here covers that.
    fn thinning(&mut self, batch: &LogBatch) -> Result<()> {
        let Some(column) = batch.role(Role::DropProbability) else {
            return Ok(());
        };
        for (i, &p) in column.numbers()?.iter().enumerate() {
            let p = if p.is_nan() { 0.0 } else { p };
            if !(0.0..1.0).contains(&p) {
                return Err(column.error(i, "in [0, 1)", p));
            }
            let first = *self.thinned.get_or_insert(p);
            if p != first {
                return Err(column.error(
                    i,
                    format!("{first} as before, because records dropped with different probabilities are not a sample"),
                    p,
                ));
            }
        }
        Ok(())
    }
}
