//! Target policies, and the logging policies.

use std::collections::HashSet;

use super::cells::Vocabulary;
use super::findings::{Finding, Occurrences, Severity, grouped, of};
use super::{Seen, Support, verdict};
use crate::column::Lists;
use crate::error::Result;
use crate::logs::{Actions, LogBatch, Records};
use crate::record_policy::RecordPolicy;
use surefoot::evaluation::WeightSums;

/// A policy, and the actions that it knows.
#[derive(Debug)]
struct Known {
    policy: RecordPolicy,
    actions: Option<Actions>,
    names: HashSet<String>,
    /// For each action of the vocabulary, whether the policy knows it.
    known: Vec<bool>,
}

impl Known {
    fn new(policy: RecordPolicy) -> Self {
        Known { policy, actions: None, names: HashSet::new(), known: Vec::new() }
    }

    /// The policy's probabilities of the logged actions, for those of the wanted records that it can evaluate.
    fn propensity(
        &mut self,
        batch: &LogBatch,
        seen: &Seen<'_>,
        wanted: impl Fn(usize) -> bool,
        vocabulary: &Vocabulary,
        eligible: Option<&Lists<u32>>,
    ) -> Result<Vec<(usize, f64)>> {
        let (first, n) = (u32::from(batch.counts_from_one()), batch.len());
        if self.actions.is_none() {
            self.actions = self.policy.actions(batch)?;
            if let Some(Actions::Names(names)) = &self.actions {
                self.names = names.iter().cloned().collect();
            }
        }
        let Some(actions) = &self.actions else { return Ok(Vec::new()) };
        for place in self.known.len() as u32..vocabulary.len() as u32 {
            self.known.push(match actions {
                Actions::Count(k) => {
                    let number = vocabulary.number(place).and_then(|number| number.checked_sub(first));
                    number.is_some_and(|number| (number as usize) < *k)
                }
                Actions::Names(_) => self.names.contains(vocabulary.name(place)),
            });
        }
        let knows = |place: u32| self.known.get(place as usize).copied().unwrap_or(false);
        let kept: Vec<bool> = (0..n)
            .map(|i| {
                let set = eligible.map_or(&[][..], |sets| sets.get(i));
                // A policy over candidates knows them by their features.
                let known =
                    batch.has_candidates() || seen.action[i].is_some_and(knows) && set.iter().all(|&b| knows(b));
                seen.sound[i] && wanted(i) && known
            })
            .collect();
        let places: Vec<usize> = (0..n).filter(|&i| kept[i]).collect();
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let batch = batch.keep(&kept)?;
        let records = Records {
            action: batch.action(actions)?,
            propensity: places.iter().filter_map(|&i| seen.propensity[i]).collect(),
            cost: Vec::new(),
            eligible: batch.eligible(actions)?,
        };
        let p = self.policy.propensity(&batch, &records, actions)?;
        Ok(places.into_iter().zip(p).collect())
    }
}

/// A target policy.
#[derive(Debug)]
pub(super) struct Weighted {
    name: String,
    policy: Known,
    weights: WeightSums,
    skipped: usize,
}

impl Weighted {
    pub(super) fn new(name: String, policy: RecordPolicy) -> Self {
        Weighted { name, policy: Known::new(policy), weights: WeightSums::default(), skipped: 0 }
    }

    pub(super) fn add(
        &mut self,
        batch: &LogBatch,
        seen: &Seen<'_>,
        vocabulary: &Vocabulary,
        eligible: Option<&Lists<u32>>,
    ) -> Result<()> {
        // The uniform policy is always checked elsewhere, and the weights of the logging policy are 1.
        if matches!(self.policy.policy, RecordPolicy::Uniform | RecordPolicy::Logged) {
            return Ok(());
        }
        let p = self.policy.propensity(batch, seen, |_| true, vocabulary, eligible)?;
        self.skipped += batch.len() - p.len();
        for (i, p) in p {
            if let Some(q) = seen.propensity[i] {
                self.weights.add(p / q);
            }
        }
        Ok(())
    }

    pub(super) fn findings(&self, about: &verdict::About, findings: &mut Vec<Finding>) -> Option<Support> {
        if self.skipped > 0 {
            let skipped = of(self.skipped, "record");
            let message = format!(
                "{}: {skipped} left out, with wrong values or with actions that the policy does not know",
                self.name
            );
            findings.push(Finding::new(Severity::Note, "policy-weight", message).counted(self.skipped));
        }
        (self.weights.count > 0.0).then(|| verdict::given(&self.name, &self.weights, about, findings))
    }
}

/// The tolerance for a logged propensity, relative to the policy's: more than the rounding error of 32-bit numbers,
/// less than any difference that matters.
const TOLERANCE: f64 = 1e-6;

/// A logging policy, and whether its recomputed propensities match the logged ones.
#[derive(Debug)]
pub(super) struct Recomputed {
    version: Option<String>,
    policy: Known,
    compared: usize,
    skipped: usize,
    differs: Occurrences,
}

impl Recomputed {
    pub(super) fn new(version: Option<String>, policy: RecordPolicy) -> Self {
        Recomputed { version, policy: Known::new(policy), compared: 0, skipped: 0, differs: Occurrences::default() }
    }

    pub(super) fn add(
        &mut self,
        batch: &LogBatch,
        seen: &Seen<'_>,
        vocabulary: &Vocabulary,
        eligible: Option<&Lists<u32>>,
    ) -> Result<()> {
        let version = self.version.as_deref();
        let wanted = |i: usize| {
            let found = seen.version.as_ref().and_then(|versions| versions[i].as_deref());
            version.is_none_or(|version| found == Some(version))
        };
        let all = (0..batch.len()).filter(|&i| wanted(i)).count();
        let p = self.policy.propensity(batch, seen, wanted, vocabulary, eligible)?;
        self.compared += p.len();
        self.skipped += all - p.len();
        for (i, p) in p {
            let Some(q) = seen.propensity[i] else { continue };
            if (p - q).abs() > TOLERANCE * p {
                self.differs.add(batch, i, || format!("{q} instead of {p}"));
            }
        }
        Ok(())
    }
}

/// Findings about all logging policies.
pub(super) fn recomputed(all: &[Recomputed], records: usize, findings: &mut Vec<Finding>) {
    const CHECK: &str = "deployed";
    for one in all {
        let what = one.version.as_ref().map_or("the deployed policy".into(), |version| format!("version {version}"));
        let compared = of(one.compared, "record");
        if one.compared == 0 {
            let message = format!("{what}: no record could be compared");
            findings.push(Finding::new(Severity::Warning, CHECK, message));
            continue;
        }
        match one.differs.finding(Severity::Error, CHECK, |_| {
            let n = grouped(one.differs.count);
            format!("{what}: {n} of {compared} with a propensity that differs from the policy's")
        }) {
            Some(finding) => findings.push(finding.hint(
                "another policy took these decisions, or it saw other features than the logs have, or the logged \
                 number is not its probability",
            )),
            None => {
                let message = format!("{what}: the propensities of {compared} are reproduced");
                findings.push(Finding::new(Severity::Note, CHECK, message).counted(one.compared));
            }
        }
        if one.skipped > 0 {
            let message = format!(
                "{what}: {} not compared, with wrong values or with actions that the policy does not know",
                of(one.skipped, "record")
            );
            findings.push(Finding::new(Severity::Warning, CHECK, message).counted(one.skipped));
        }
    }
    let looked_at: usize = all.iter().map(|one| one.compared + one.skipped).sum();
    if !all.is_empty() && looked_at < records {
        let message = format!("{} of versions without a given policy", of(records - looked_at, "record"));
        findings.push(Finding::new(Severity::Note, CHECK, message).counted(records - looked_at));
    }
}
