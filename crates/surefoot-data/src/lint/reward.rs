//! Rewards: impossible values, constant values, and a wrong sign.

use super::cells::{Bad, Numbers};
use super::findings::{Finding, Occurrences, Severity, short};
use crate::error::Result;
use crate::logs::{COST, LogBatch, Role};
use crate::moments::Moments;

#[derive(Debug)]
pub(super) struct Rewards {
    range: [f64; 2],
    missing: Occurrences,
    not_finite: Occurrences,
    outside: Occurrences,
    /// Extremes of all finite values.
    lowest: f64,
    highest: f64,
    /// Moments of all finite values.
    moments: Moments,
    /// Whether the column holds costs.
    costs: bool,
}

impl Rewards {
    pub(super) fn new(range: [f64; 2]) -> Self {
        Rewards {
            range,
            missing: Occurrences::default(),
            not_finite: Occurrences::default(),
            outside: Occurrences::default(),
            lowest: f64::INFINITY,
            highest: f64::NEG_INFINITY,
            moments: Moments::default(),
            costs: false,
        }
    }

    pub(super) fn add(&mut self, batch: &LogBatch) -> Result<()> {
        let column = batch.expected(Role::Reward)?;
        let cost = column.is_some_and(|column| column.name == COST);
        self.costs |= cost;
        let numbers = Numbers::of(batch, column)?;
        for i in 0..batch.len() {
            let reward = match numbers.get(i) {
                Ok(x) if cost => -x,
                Ok(x) => x,
                Err(Bad::Missing) => {
                    self.missing.add(batch, i, || numbers.shown(i));
                    continue;
                }
                Err(Bad::NotFinite) => {
                    self.not_finite.add(batch, i, || numbers.shown(i));
                    continue;
                }
            };
            (self.lowest, self.highest) = (self.lowest.min(reward), self.highest.max(reward));
            self.moments.add(reward);
            if !(self.range[0]..=self.range[1]).contains(&reward) {
                self.outside.add(batch, i, || numbers.shown(i));
            }
        }
        Ok(())
    }

    pub(super) fn moments(&self) -> &Moments {
        &self.moments
    }

    pub(super) fn findings(&self, findings: &mut Vec<Finding>) {
        const CHECK: &str = "reward";
        let error = Severity::Error;
        let [lo, hi] = self.range;
        findings.extend(self.missing.finding(error, CHECK, |n| format!("{n} without a reward")).map(|finding| {
            finding.hint(
                "do not leave out records without a reward: log the reward that its absence means, such as 0 for no \
                 click",
            )
        }));
        findings.extend(
            self.not_finite.finding(error, CHECK, |n| format!("{n} with a reward that is not a finite number")),
        );
        let outside = self.outside.finding(error, CHECK, |n| {
            let costs = if self.costs { ", each minus the cost," } else { "" };
            format!(
                "{n} with a reward outside [{lo}, {hi}]; rewards{costs} go from {} to {}",
                short(self.lowest),
                short(self.highest)
            )
        });
        let hint = match (self.costs, self.lowest, self.highest) {
            (false, _, highest) if highest <= 0.0 && lo >= 0.0 => {
                "no reward is above 0: if they are costs, name the column cost; otherwise use --reward-range".into()
            }
            (true, lowest, _) if lowest >= 0.0 => {
                "the column cost is minus the reward, and none of its numbers is above 0: the sign may be wrong".into()
            }
            (_, lowest, highest) => {
                format!("if such rewards are possible, use --reward-range {lowest},{highest} or a wider range")
            }
        };
        findings.extend(outside.map(|finding| finding.hint(hint)));
        if self.lowest == self.highest && self.moments.count > 1.0 {
            let message = format!("every reward is {}: there is nothing to learn from", short(self.lowest));
            findings.push(Finding::new(Severity::Warning, "constant-reward", message));
        }
    }
}
