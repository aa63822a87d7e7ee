//! What the commands on log files have in common: flags, and policies by name.

use std::path::PathBuf;

use clap::Args;
use surefoot::RewardRange;
use surefoot_data::{ColumnNames, Format, LogReader, NamedPolicy, PolicyReader, RecordPolicy};
use surefoot_terminal::{Failure, Result};

/// The log files, and what their columns mean.
#[derive(Debug, Clone, Args)]
pub(crate) struct LogFlags {
    #[arg(required = true, help = format!("Log files, in the order in which they were written: {}", Format::extensions()))]
    logs: Vec<PathBuf>,
    #[arg(long, help_heading = "Columns", help = format!("Their format, if their names do not tell: {}", Format::names()))]
    format: Option<Format>,
    /// The column of the action [usual names: action, item_id]
    #[arg(long, value_name = "COLUMN", help_heading = "Columns")]
    action: Option<String>,
    /// Actions that are numbers are counted from 1
    #[arg(long, help_heading = "Columns")]
    actions_from_one: bool,
    /// The column of its probability [usual names: pscore, propensity, action_prob, propensity_score]
    #[arg(long, value_name = "COLUMN", help_heading = "Columns")]
    propensity: Option<String>,
    /// The column of the reward [usual names: reward, click; or cost, which is minus it]
    #[arg(long, value_name = "COLUMN", help_heading = "Columns")]
    reward: Option<String>,
    /// The column that tells records apart [usual name: event_id]
    #[arg(long, value_name = "COLUMN", help_heading = "Columns")]
    event_id: Option<String>,
    /// The column of the version of the policy that took the decision [usual name: policy_version]
    #[arg(long, value_name = "COLUMN", help_heading = "Columns")]
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

/// The range of the rewards.
#[derive(Debug, Clone, Args)]
pub(crate) struct RewardFlags {
    /// The lowest and the highest reward that there can be
    #[arg(long, value_name = "LO,HI", default_value = "0,1", value_parser = range, allow_hyphen_values = true)]
    pub(crate) reward_range: [f64; 2],
}

fn range(text: &str) -> std::result::Result<[f64; 2], String> {
    let bad = || format!("should be two numbers such as 0,1, but is {text}");
    let (lo, hi) = text.split_once(',').ok_or_else(bad)?;
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_| bad());
    let (lo, hi) = (number(lo)?, number(hi)?);
    RewardRange::new(lo, hi).map(|_| [lo, hi]).map_err(|e| e.to_string())
}

/// What a policy may be on the command line.
pub(crate) const POLICY: &str = "a Surefoot policy file, a mixture that select wrote, columns:PREFIX (the probabilities of action A in column PREFIX \
                                 and A), list:COLUMN (a list of all probabilities), uniform, or logged; NAME=... names it";

/// The policies that the command line names, and what they were named by.
pub(crate) fn policies(texts: &[String]) -> Result<(Vec<NamedPolicy>, Vec<String>)> {
    let mut reader = PolicyReader::default();
    let (mut named, mut files): (Vec<NamedPolicy>, Vec<String>) = (Vec::new(), Vec::new());
    for text in texts {
        let (name, what) = match text.split_once('=') {
            Some((name, what)) if !name.is_empty() && !name.contains(['/', ':']) => (name.to_owned(), what),
            _ => (text.rsplit('/').next().unwrap_or(text).trim_end_matches(".safetensors").to_owned(), text.as_str()),
        };
        if named.iter().any(|other| other.name == name) {
            let hint = format!("name them: --policy one={what} --policy other=...");
            return Err(Failure::new(format!("two policies are called {name}")).hint(hint));
        }
        named.push(NamedPolicy { name, policy: opened(what, &mut reader)? });
        files.push(what.to_owned());
    }
    Ok((named, files))
}

/// The policy, or the mixture, that a text names.
pub(crate) fn opened(what: &str, reader: &mut PolicyReader) -> Result<RecordPolicy> {
    RecordPolicy::open(what, reader).map_err(|e| Failure::new(e).hint(format!("a policy is {POLICY}")))
}

/// What is wrong with logs; lint tells more of it.
pub(crate) fn logs_failure(error: surefoot_data::Error) -> Failure {
    match error {
        surefoot_data::Error::Core(error) => {
            let text = error.to_string();
            let failure = Failure::from(error);
            if text.contains("needs one, but is none") { failure.hint("--model linear fits one") } else { failure }
        }
        error => Failure::new(error).hint("surefoot lint tells all that is wrong with logs at once"),
    }
}
