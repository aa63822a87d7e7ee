//! LINT: what is wrong with logs, and what they can support, in one pass.
//!
//! A [`Lint`] looks at batch after batch and keeps sums, never records: its memory is bounded whatever the size of the
//! files, and how records are cut into batches does not matter. What it finds is an error if a certificate or an estimate
//! from these logs would be wrong or refused, a warning if one would be weaker or about something else than its reader
//! thinks, and a note if it is only good to know.
//!
//! Tests of chance are made at the level [`LEVEL`], divided by their number: of ten thousand correct logs, about one is
//! called wrong by each of them.

mod cells;
mod choices;
mod distribution;
mod drift;
mod findings;
mod ids;
mod normal;
mod order;
mod policies;
mod propensity;
mod reward;
#[cfg(test)]
mod tests;
mod verdict;

pub use findings::{Finding, Report, Row, Severity};
use serde::Serialize;

use crate::error::Result;
use crate::logs::{LogBatch, Role};
use crate::record_policy::{Cells, RecordPolicy};
use cells::Numbers;
use choices::Choices;
use distribution::Distributions;
use drift::Drift;
use ids::Ids;
use order::{Thinning, Times, Versions};
use policies::{Recomputed, Weighted};
use propensity::Propensities;
use reward::Rewards;

/// The chance with which a test of chance calls correct logs wrong.
///
/// Logs are linted again and again, every day perhaps, and with several tests each: at 1 in 10,000, a daily lint cries wolf
/// once in years. Wrong propensities of a size that matters are far beyond it in a few thousand records.
pub const LEVEL: f64 = 1e-4;

/// What logs are compared with.
#[derive(Debug, Clone)]
pub struct LintSettings {
    /// The lowest and the highest reward that there can be.
    pub rewards: [f64; 2],
    /// Policies that the logs are to be asked about, and what they are called.
    pub policies: Vec<(String, RecordPolicy)>,
    /// The policies that took the decisions, each for the records of a version or, without one, for all of them.
    pub deployed: Vec<(Option<String>, RecordPolicy)>,
    /// The most event ids that are remembered; of more, a half, a quarter, ... of all possible ones.
    pub ids: usize,
}

impl Default for LintSettings {
    fn default() -> Self {
        LintSettings { rewards: [0.0, 1.0], policies: Vec::new(), deployed: Vec::new(), ids: ids::CAPACITY }
    }
}

/// The numbers that tell most about logs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The records, without those that were skipped.
    pub records: usize,
    /// Those that the logger asks to skip.
    pub skipped: usize,
    /// The number of actions: of numbers one more than the largest, of names those that occur.
    pub actions: usize,
    /// How many of them were ever chosen.
    pub chosen: usize,
    /// The mean of the rewards that are in order.
    pub mean_reward: Option<f64>,
    /// Its standard error.
    pub reward_error: Option<f64>,
    /// The number of policy versions, if they are logged.
    pub versions: Option<usize>,
    /// How well the logs support policies: the uniform one, over the actions that were ever chosen, and those that were given.
    pub policies: Vec<Support>,
}

/// How well logs support a policy `pi`, by its weights `w = pi(a|x)/q`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Support {
    /// The policy.
    pub policy: String,
    /// The records that were in order.
    pub records: usize,
    /// The mean weight, which is 1 up to chance if the propensities are right and the policy does nothing that the logger
    /// did not.
    pub mean_weight: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// By how many standard errors it is off, corrected for the skewness of the weights.
    pub z: f64,
    /// The chance of such a `z` or a larger one.
    pub p: f64,
    /// The effective number of records, `(sum w)^2/sum w^2`.
    pub effective: f64,
    /// The largest weight.
    pub largest: f64,
}

/// What the records say together that concerns single ones: columns of a batch that are read once for all checks.
struct Seen<'a> {
    /// The place of each action in the vocabulary; `None` where there is no action.
    action: Vec<Option<u32>>,
    /// The propensities in (0, 1]; `None` elsewhere.
    propensity: Vec<Option<f64>>,
    /// Which records have both, and say clearly what could be chosen.
    sound: Vec<bool>,
    /// The versions of the policy.
    version: Option<Vec<Option<std::borrow::Cow<'a, str>>>>,
}

/// Looks at logs.
#[derive(Debug)]
pub struct Lint {
    records: usize,
    propensities: Propensities,
    choices: Choices,
    distributions: Distributions,
    rewards: Rewards,
    ids: Ids,
    versions: Versions,
    times: Times,
    thinning: Thinning,
    drift: Drift,
    policies: Vec<Weighted>,
    deployed: Vec<Recomputed>,
}

impl Lint {
    /// Before any record.
    pub fn new(settings: LintSettings) -> Self {
        let ignored = settings.policies.iter().filter_map(|(_, policy)| match policy {
            RecordPolicy::Given(Cells::Columns(prefix)) => Some(prefix.clone()),
            _ => None,
        });
        Lint {
            records: 0,
            propensities: Propensities::default(),
            choices: Choices::default(),
            distributions: Distributions::default(),
            rewards: Rewards::new(settings.rewards),
            ids: Ids::new(settings.ids),
            versions: Versions::default(),
            times: Times::default(),
            thinning: Thinning::default(),
            drift: Drift::new(ignored.collect()),
            policies: settings.policies.into_iter().map(|(name, policy)| Weighted::new(name, policy)).collect(),
            deployed: settings.deployed.into_iter().map(|(version, policy)| Recomputed::new(version, policy)).collect(),
        }
    }

    /// Looks at the records of a batch, which come after those before them. Fails only where a file cannot be read, or lacks
    /// a column that it must have.
    pub fn add(&mut self, batch: &LogBatch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        self.records += batch.len();
        let propensity = Numbers::of(batch, batch.expected(Role::Propensity)?)?;
        let propensity = self.propensities.add(batch, &propensity);
        let action = self.choices.actions(batch)?;
        let eligible = self.choices.eligible(batch)?;
        let mut seen = Seen { action, propensity, sound: Vec::new(), version: batch.policy_version()? };
        seen.sound = self.choices.sound(batch, &seen, eligible.as_ref());
        let sets = self.distributions.add(batch, &seen, eligible.as_ref(), &mut self.choices.vocabulary)?;
        self.choices.add(&seen, sets.as_ref());
        self.rewards.add(batch)?;
        self.ids.add(batch)?;
        let groups = self.versions.add(batch, seen.version.as_deref());
        self.times.add(batch)?;
        self.thinning.add(batch)?;
        self.drift.add(batch, &groups)?;
        for policy in &mut self.policies {
            policy.add(batch, &seen, &self.choices.vocabulary, eligible.as_ref())?;
        }
        for policy in &mut self.deployed {
            policy.add(batch, &seen, &self.choices.vocabulary, eligible.as_ref())?;
        }
        Ok(())
    }

    /// What was found, the worst first. `skipped` is the number of records that were left out on the logger's demand.
    pub fn finish(self, skipped: usize) -> Report {
        let mut findings = Vec::new();
        let reward = self.rewards.moments();
        let mut summary = Summary {
            records: self.records,
            skipped,
            actions: self.choices.count(),
            chosen: self.choices.chosen(),
            mean_reward: reward.mean(),
            reward_error: reward.standard_error(),
            versions: self.versions.count(),
            policies: Vec::new(),
        };
        if self.records == 0 {
            findings.push(Finding::new(Severity::Error, "records", "there are no records"));
            return Report { summary, findings };
        }
        if skipped > 0 {
            let message = format!("{} asked to be skipped, and are not counted here", findings::of(skipped, "record"));
            findings.push(Finding::new(Severity::Note, "skip", message).counted(skipped));
        }
        let dropped = self.thinning.constant();
        let ones = self.propensities.ones();
        self.choices.findings(&mut findings);
        self.propensities.findings(self.choices.uniform(), &mut findings);
        self.distributions.findings(&self.choices.vocabulary, &mut findings);
        let about = verdict::About { dropped, ones, chosen: self.choices.chosen() };
        summary.policies.extend(verdict::uniform(&self.choices, &about, &mut findings));
        verdict::actions(&self.choices, &about, &mut findings);
        for policy in &self.policies {
            summary.policies.extend(policy.findings(&about, &mut findings));
        }
        policies::recomputed(&self.deployed, self.records, &mut findings);
        self.rewards.findings(&mut findings);
        self.ids.findings(self.records, &mut findings);
        self.drift.findings(&self.versions, &mut findings);
        self.versions.findings(&mut findings);
        self.thinning.findings(&mut findings);
        self.times.findings(&mut findings);
        findings.sort_by_key(|finding| finding.severity);
        Report { summary, findings }
    }
}
