//! The logged propensities on their own: impossible values, and values that look made up.

use std::collections::BTreeSet;

use super::cells::{Bad, Numbers};
use super::findings::{Finding, Occurrences, Severity, short};
use crate::logs::LogBatch;
use surefoot::evaluation::NEGLIGIBLE;

/// A uniform choice among `m` actions has a propensity `1/m` with at most two decimals only if `m` divides 100, and 100
/// has nine divisors. So more than ten distinct values, all with two decimals, are not from uniform choices.
const FEW: usize = 10;

/// With fewer records, the distinct values of the propensities tell nothing.
const ENOUGH: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Propensities {
    missing: Occurrences,
    not_finite: Occurrences,
    not_positive: Occurrences,
    above_one: Occurrences,
    /// The largest number, valid or not.
    largest: Option<f64>,
    /// How many are in (0, 1].
    count: usize,
    /// How many are 1.
    ones: usize,
    /// How many have at most two decimals.
    round: usize,
    /// The bit patterns of the distinct values, at most one more than [`FEW`].
    distinct: BTreeSet<u64>,
}

/// What is known of the actions after all records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Uniform {
    /// The number of actions.
    pub(super) actions: usize,
    /// The number of actions that were chosen.
    pub(super) chosen: usize,
    /// Whether every record logs its eligible actions and has one over their number as its propensity.
    pub(super) over_sets: bool,
}

impl Propensities {
    /// Adds a batch, and returns the propensities in (0, 1].
    pub(super) fn add(&mut self, batch: &LogBatch, numbers: &Numbers<'_>) -> Vec<Option<f64>> {
        let one = |i: usize| {
            let found = || numbers.shown(i);
            let q = match numbers.get(i) {
                Ok(q) => q,
                Err(Bad::Missing) => {
                    self.missing.add(batch, i, found);
                    return None;
                }
                Err(Bad::NotFinite) => {
                    self.not_finite.add(batch, i, found);
                    return None;
                }
            };
            self.largest = Some(self.largest.map_or(q, |largest| largest.max(q)));
            if q <= 0.0 {
                self.not_positive.add(batch, i, found);
                return None;
            }
            if q > 1.0 {
                self.above_one.add(batch, i, found);
                return None;
            }
            self.count += 1;
            self.ones += usize::from(q == 1.0);
            // 32-bit numbers are off by up to 6e-8.
            self.round += usize::from((q * 100.0 - (q * 100.0).round()).abs() < 1e-5);
            if self.distinct.len() <= FEW {
                self.distinct.insert(q.to_bits());
            }
            Some(q)
        };
        (0..batch.len()).map(one).collect()
    }

    /// The share of propensities that are 1.
    pub(super) fn ones(&self) -> f64 {
        self.ones as f64 / self.count.max(1) as f64
    }

    pub(super) fn findings(&self, uniform: Uniform, findings: &mut Vec<Finding>) {
        const CHECK: &str = "propensity";
        let mut push = |finding: Option<Finding>, hint: Option<&str>| {
            findings.extend(finding.map(|finding| match hint {
                Some(hint) => finding.hint(hint),
                None => finding,
            }));
        };
        push(self.missing.finding(Severity::Error, CHECK, |n| format!("{n} without a propensity")), None);
        push(
            self.not_finite
                .finding(Severity::Error, CHECK, |n| format!("{n} with a propensity that is not a finite number")),
            None,
        );
        let logarithms = self.largest.is_some_and(|largest| largest <= 0.0);
        push(
            self.not_positive.finding(Severity::Error, CHECK, |n| {
                format!("{n} with a propensity of 0 or below, though the action was chosen")
            }),
            logarithms.then_some("no propensity is above 0: if they are logarithms, log their exponentials"),
        );
        let percent = self.largest.is_some_and(|largest| largest <= 100.0) && self.above_one.count > self.count;
        push(
            self.above_one.finding(Severity::Error, CHECK, |n| {
                format!("{n} with a propensity above 1; it is not clipped to 1, because the true value is unknown")
            }),
            percent.then_some("most are above 1, and none above 100: if they are percentages, divide them by 100"),
        );
        findings.extend(self.form(uniform));
    }

    /// Findings about the distinct values.
    fn form(&self, uniform: Uniform) -> Option<Finding> {
        let Uniform { actions, chosen, over_sets } = uniform;
        let values: Vec<f64> = self.distinct.iter().map(|&bits| f64::from_bits(bits)).collect();
        if let [q] = values[..] {
            let one_over = |k: usize| (q * k as f64 - 1.0).abs() <= NEGLIGIBLE;
            if q == 1.0 {
                let message = "every propensity is 1: the logging policy is deterministic";
                let finding = Finding::new(Severity::Error, "constant-propensity", message).counted(self.count);
                return Some(finding.hint(
                    "such logs say nothing about other policies; draw actions at random, and log each with its true \
                     probability",
                ));
            }
            if self.count < ENOUGH {
                return None;
            }
            let constant = format!("every propensity is {}", short(q));
            return Some(match one_over(actions) || one_over(chosen) || over_sets {
                true => {
                    let message = format!("{constant}: the logging policy is uniform");
                    Finding::new(Severity::Note, "constant-propensity", message).counted(self.count)
                }
                false => {
                    let message = format!("{constant}, which is not 1 over the number of actions, {actions}");
                    let finding = Finding::new(Severity::Warning, "constant-propensity", message).counted(self.count);
                    finding.hint("the propensities of a policy that depends on the context, or that has learned, vary")
                }
            });
        }
        if self.count < ENOUGH {
            return None;
        }
        if values.len() <= FEW {
            let shown: Vec<String> = values.iter().map(|&q| short(q)).collect();
            let what = match values.len() {
                _ if over_sets => "uniform over the eligible actions",
                2 => "typical of an epsilon-greedy policy",
                _ => "typical of a policy that hardly depends on the context",
            };
            let message = format!("only {} different propensities ({}): {what}", values.len(), shown.join(", "));
            return Some(Finding::new(Severity::Note, "few-propensities", message).counted(values.len()));
        }
        // Of values that are not rounded, one in five thousand looks rounded.
        if self.round as f64 >= 0.99 * self.count as f64 {
            let message = "nearly all propensities have at most two decimals: they may be rounded, or written by hand";
            let finding = Finding::new(Severity::Warning, "round-propensities", message).counted(self.round);
            return Some(
                finding
                    .hint("log them as they were computed: if 0.01 was 0.014, the importance weight is 40 % too large"),
            );
        }
        None
    }
}
