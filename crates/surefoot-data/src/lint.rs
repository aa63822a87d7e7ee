//! LINT: finds errors in logs, and tells what the logs can support, in one pass.
//!
//! A [`Lint`] reads batch after batch and keeps sums, never records. Its memory is bounded whatever the size of the
//! files, and the result does not depend on how records are cut into batches. A finding is
//!
//! - an error if a certificate or an estimate from these logs would be wrong or refused,
//! - a warning if it would be weaker than its reader thinks, or about something else,
//! - a note if it is only good to know.
//!
//! Each statistical test has the false alarm rate [`LEVEL`], which is divided among the comparisons that it makes. So
//! each test calls about one in ten thousand correct logs wrong.

mod candidates;
mod cells;
mod choices;
mod columns;
mod distribution;
mod drift;
mod features;
mod findings;
mod ids;
mod normal;
mod order;
mod policies;
mod propensity;
mod reward;
mod screen;
#[cfg(test)]
mod tests;
mod verdict;

pub use findings::{Finding, Report, Row, Severity};
pub(crate) use screen::Screen;
use serde::Serialize;

use crate::error::Result;
use crate::logs::{LogBatch, LogReader, Role};
use crate::record_policy::{Cells, RecordPolicy};
use candidates::Candidates;
use cells::Numbers;
use choices::Choices;
use columns::Columns;
use distribution::Distributions;
use drift::Drift;
use ids::Ids;
use order::{Thinning, Times, Versions};
use policies::{Recomputed, Weighted};
use propensity::Propensities;
use reward::Rewards;

/// The probability with which a statistical test calls correct logs wrong.
///
/// Logs are linted repeatedly, perhaps every day, and with several tests each time. At 1 in 10,000, a daily lint raises
/// a false alarm once in years. Wrong propensities of a size that matters are far beyond this level after a few
/// thousand records.
pub const LEVEL: f64 = 1e-4;

/// The settings of a [`Lint`].
#[derive(Debug, Clone)]
pub struct LintSettings {
    /// The lowest and the highest possible reward.
    pub rewards: [f64; 2],
    /// Target policies to evaluate on the logs, with their names.
    pub policies: Vec<(String, RecordPolicy)>,
    /// The logging policies. Each is for the records of one policy version, or without a version for all records.
    pub deployed: Vec<(Option<String>, RecordPolicy)>,
    /// The largest number of event ids to remember. If there are more, only a half, a quarter, ... of all possible ids
    /// are tracked.
    pub ids: usize,
}

impl Default for LintSettings {
    fn default() -> Self {
        LintSettings { rewards: [0.0, 1.0], policies: Vec::new(), deployed: Vec::new(), ids: ids::CAPACITY }
    }
}

/// The most informative numbers about the logs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The number of records, without the skipped ones.
    pub records: usize,
    /// The number of records that the logger asks to skip.
    pub skipped: usize,
    /// The number of actions. If actions are numbers: one more than the largest. If they are names: how many occur. If
    /// records have candidates: the number of identities, which may be none.
    pub actions: usize,
    /// The number of actions that were ever chosen.
    pub chosen: usize,
    /// The fewest and the most candidates of a record, if records have candidates with features.
    pub candidates: Option<[usize; 2]>,
    /// The mean of all finite rewards, in their range or not.
    pub mean_reward: Option<f64>,
    /// Its standard error.
    pub reward_error: Option<f64>,
    /// The number of policy versions, if they are logged.
    pub versions: Option<usize>,
    /// How well the logs support the uniform policy over the actions that were ever chosen, and each given target
    /// policy.
    pub policies: Vec<Support>,
}

/// How well the logs support a target policy `pi`, measured by its importance weights `w = pi(a|x)/q`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Support {
    /// The name of the policy.
    pub policy: String,
    /// The number of valid records.
    pub records: usize,
    /// The mean weight. It is 1 up to chance if the propensities are right and the policy takes no action that the
    /// logging policy could not take.
    pub mean_weight: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// The deviation of the mean weight from 1 in standard errors, corrected for the skewness of the weights. Not a
    /// number for one record.
    pub z: f64,
    /// The probability of a `z` at least this extreme; 1 for one record.
    pub p: f64,
    /// The effective sample size, `(sum w)^2/sum w^2`.
    pub effective: f64,
    /// The largest weight.
    pub largest: f64,
}

/// The result of [`lint`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Linted {
    /// The number of errors.
    pub errors: usize,
    /// The number of warnings.
    pub warnings: usize,
    /// The findings.
    #[serde(flatten)]
    pub report: Report,
}

/// Lints all logs of a reader. `on_batch` is called with the number of records of each batch.
pub fn lint(reader: &LogReader, settings: LintSettings, mut on_batch: impl FnMut(usize)) -> Result<Linted> {
    let (mut lint, mut batches) = (Lint::new(settings), reader.batches());
    for batch in batches.by_ref() {
        let batch = batch?;
        lint.add(&batch)?;
        on_batch(batch.len());
    }
    let report = lint.finish(batches.skipped());
    let (errors, warnings) = (report.count(Severity::Error), report.count(Severity::Warning));
    Ok(Linted { errors, warnings, report })
}

/// Columns of a batch that all checks use, read once.
struct Seen<'a> {
    /// The index of each action in the vocabulary; `None` where the action is missing.
    action: Vec<Option<u32>>,
    /// The propensities in (0, 1]; `None` elsewhere.
    propensity: Vec<Option<f64>>,
    /// Records that have both, and an unambiguous set of eligible actions.
    sound: Vec<bool>,
    /// The versions of the policy.
    version: Option<Vec<Option<std::borrow::Cow<'a, str>>>>,
}

/// A linter for logs.
#[derive(Debug)]
pub struct Lint {
    records: usize,
    propensities: Propensities,
    choices: Choices,
    candidates: Candidates,
    columns: Columns,
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
    /// A linter that has seen no records yet.
    pub fn new(settings: LintSettings) -> Self {
        let ignored = settings.policies.iter().filter_map(|(_, policy)| match policy {
            RecordPolicy::Given(Cells::Columns(prefix)) => Some(prefix.clone()),
            _ => None,
        });
        let ignored: Vec<String> = ignored.collect();
        Lint {
            records: 0,
            propensities: Propensities::default(),
            choices: Choices::default(),
            candidates: Candidates::default(),
            columns: Columns::new(&ignored),
            distributions: Distributions::default(),
            rewards: Rewards::new(settings.rewards),
            ids: Ids::new(settings.ids),
            versions: Versions::default(),
            times: Times::default(),
            thinning: Thinning::default(),
            drift: Drift::new(ignored),
            policies: settings.policies.into_iter().map(|(name, policy)| Weighted::new(name, policy)).collect(),
            deployed: settings.deployed.into_iter().map(|(version, policy)| Recomputed::new(version, policy)).collect(),
        }
    }

    /// Adds the records of a batch, which follow those added before. Fails only if a file cannot be read or lacks a
    /// required column.
    pub fn add(&mut self, batch: &LogBatch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        self.records += batch.len();
        let propensity = Numbers::of(batch, batch.expected(Role::Propensity)?)?;
        let propensity = self.propensities.add(batch, &propensity);
        let labelled = self.candidates.labels(batch, &mut self.choices.vocabulary)?;
        let (action, eligible) = match labelled {
            None => {
                let (action, eligible) = (self.choices.actions(batch)?, self.choices.eligible(batch)?);
                self.candidates.without(eligible.as_ref(), &self.choices.vocabulary);
                self.columns.add(batch);
                (action, eligible)
            }
            Some(labelled) => {
                self.candidates.add(batch, &labelled, &propensity)?;
                self.choices.of_candidates();
                (labelled.action, Some(labelled.eligible))
            }
        };
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

    /// The findings, the worst first. `skipped` is the number of records that were left out because the logger asked
    /// for it.
    pub fn finish(self, skipped: usize) -> Report {
        let mut findings = Vec::new();
        let reward = self.rewards.moments();
        let mut summary = Summary {
            records: self.records,
            skipped,
            actions: self.choices.count(),
            chosen: self.choices.chosen(),
            candidates: self.candidates.numbers(),
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
            let message =
                format!("{} skipped on request of the logger, and not counted", findings::of(skipped, "record"));
            findings.push(Finding::new(Severity::Note, "skip", message).counted(skipped));
        }
        let dropped = self.thinning.constant();
        let ones = self.propensities.ones();
        self.choices.findings(&mut findings);
        self.candidates.findings(&mut findings);
        self.columns.findings(&mut findings);
        self.propensities.findings(self.choices.uniform(), &mut findings);
        self.distributions.findings(&self.choices.vocabulary, &mut findings);
        let about = verdict::About { dropped, ones, chosen: self.choices.chosen() };
        summary.policies.extend(verdict::uniform(&self.choices, &about, &mut findings));
        verdict::actions(&self.choices, &about, &mut findings);
        verdict::refuted(&self.choices, &mut findings);
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
