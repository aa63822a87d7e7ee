//! What the commands on log files have in common: flags, and policies by name.

use std::path::{Path, PathBuf};

use clap::Args;
use surefoot::RewardRange;
use surefoot_data::{Actions, ColumnNames, Format, LogReader, PolicyReader, RecordPolicy, read_mixture};

use crate::failure::{Failure, Result};

/// The log files, and what their columns mean.
#[derive(Debug, Clone, Args)]
pub(crate) struct LogFlags {
    /// Log files, in the order in which they were written: .parquet, .csv, .jsonl, .dsjson, .vw or .npz
    #[arg(required = true)]
    logs: Vec<PathBuf>,
    /// Their format, if their names do not tell: parquet, csv, jsonl, dsjson, vw or obp
    #[arg(long, help_heading = "ColumnNames")]
    format: Option<Format>,
    /// The column of the action [usual names: action, item_id]
    #[arg(long, value_name = "COLUMN", help_heading = "ColumnNames")]
    action: Option<String>,
    /// Actions that are numbers are counted from 1
    #[arg(long, help_heading = "ColumnNames")]
    actions_from_one: bool,
    /// The column of its probability [usual names: pscore, propensity, action_prob, propensity_score]
    #[arg(long, value_name = "COLUMN", help_heading = "ColumnNames")]
    propensity: Option<String>,
    /// The column of the reward [usual names: reward, click; or cost, which is minus it]
    #[arg(long, value_name = "COLUMN", help_heading = "ColumnNames")]
    reward: Option<String>,
    /// The column that tells records apart [usual name: event_id]
    #[arg(long, value_name = "COLUMN", help_heading = "ColumnNames")]
    event_id: Option<String>,
    /// The column of the version of the policy that took the decision [usual name: policy_version]
    #[arg(long, value_name = "COLUMN", help_heading = "ColumnNames")]
    policy_version: Option<String>,
}

impl LogFlags {
    pub(crate) fn reader(&self) -> LogReader {
        let columns = ColumnNames {
            event_id: self.event_id.clone(),
            action: self.action.clone(),
            propensity: self.propensity.clone(),
            reward: self.reward.clone(),
            policy_version: self.policy_version.clone(),
            from_one: self.actions_from_one,
        };
        LogReader::new(self.logs.clone(), self.format, columns)
    }
}

impl LogFlags {
    /// The actions as the policy should know them: those that are counted from 1 are called so, lest anybody count them
    /// otherwise later.
    pub(crate) fn named(&self, actions: &Actions) -> Actions {
        match actions {
            Actions::Count(k) if self.actions_from_one => Actions::Names((1..=*k).map(|a| a.to_string()).collect()),
            actions => actions.clone(),
        }
    }
}

/// The range of the rewards.
#[derive(Debug, Clone, Args)]
pub(crate) struct RewardFlags {
    /// The lowest and the highest reward that there can be
    #[arg(long, value_name = "LO,HI", default_value = "0,1", value_parser = range, allow_hyphen_values = true)]
    pub(crate) reward_range: [f64; 2],
}

impl RewardFlags {
    pub(crate) fn range(&self) -> Result<RewardRange> {
        let [lo, hi] = self.reward_range;
        Ok(RewardRange::new(lo, hi)?)
    }
}

fn range(text: &str) -> std::result::Result<[f64; 2], String> {
    let bad = || format!("should be two numbers such as 0,1, but is {text}");
    let (lo, hi) = text.split_once(',').ok_or_else(bad)?;
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_| bad());
    let (lo, hi) = (number(lo)?, number(hi)?);
    RewardRange::new(lo, hi).map(|_| [lo, hi]).map_err(|e| e.to_string())
}

/// A policy, and what it is called.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) name: String,
    /// Its file, if it has one.
    pub(crate) file: Option<PathBuf>,
    pub(crate) policy: RecordPolicy,
}

/// What a policy may be on the command line.
pub(crate) const POLICY: &str = "a Surefoot policy file, a mixture that select wrote, columns:PREFIX (the probabilities of action A in column PREFIX \
                                 and A), list:COLUMN (a list of all probabilities), uniform, or logged; NAME=... names it";

/// The policies that the command line names.
pub(crate) fn policies(texts: &[String]) -> Result<Vec<Named>> {
    let mut reader = PolicyReader::default();
    let mut named: Vec<Named> = Vec::new();
    for text in texts {
        let (name, what) = match text.split_once('=') {
            Some((name, what)) if !name.is_empty() && !name.contains(['/', ':']) => (name.to_owned(), what),
            _ => (text.rsplit('/').next().unwrap_or(text).trim_end_matches(".safetensors").to_owned(), text.as_str()),
        };
        if named.iter().any(|other| other.name == name) {
            let hint = format!("name them: --policy one={what} --policy other=...");
            return Err(Failure::new(format!("two policies are called {name}")).hint(hint));
        }
        let (policy, file) = match what.parse() {
            Ok(judged) => (judged, None),
            Err(()) => (own(what.as_ref(), &mut reader)?, Some(what.into())),
        };
        named.push(Named { name, file, policy });
    }
    Ok(named)
}

/// A warning about each policy that was learned from logs: of these, if they are the same, it knows too much.
pub(crate) fn learned(policies: &[Named]) -> impl Iterator<Item = String> {
    let knows = |policy: &RecordPolicy| match policy {
        RecordPolicy::Encoded { inputs, .. } => !inputs.lineage.logs.is_empty(),
        // Its weights are from logs.
        RecordPolicy::Mixture(_) => true,
        _ => false,
    };
    policies.iter().filter(move |named| knows(&named.policy)).map(|Named { name, .. }| {
        format!("{name} was learned from logs: if these are among them, what is said of it here is too good to be true")
    })
}

/// The policy, or the mixture, of a file.
pub(crate) fn own(path: &Path, reader: &mut PolicyReader) -> Result<RecordPolicy> {
    let hint = |e| Failure::new(e).hint(format!("a policy is {POLICY}"));
    if path.extension().is_some_and(|end| end == "json") {
        return read_mixture(path, reader).map_err(hint);
    }
    let (policy, inputs) = reader.read_with(path).map_err(hint)?;
    let inputs = inputs.ok_or_else(|| {
        Failure::new(format!("{}: the policy does not say how records become its features", path.display()))
            .hint("policies that surefoot learn writes do; those of simulate live in a world of features")
    })?;
    Ok(RecordPolicy::Encoded { policy: Box::new(policy), inputs: Box::new(inputs) })
}
