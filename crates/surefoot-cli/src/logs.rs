//! Shared by the commands on log files: their flags, and the policies that the user names.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use surefoot::RewardRange;
use surefoot_data::{
    ActionIs, Actions, Catalogue, ColumnNames, Format, LogReader, NamedPolicy, PolicyReader, RecordPolicy,
};
use surefoot_terminal::{Failure, Result};

/// The log files, and the roles of their columns.
#[derive(Debug, Clone, Args)]
pub(crate) struct LogFlags {
    #[arg(required = true, help = format!("Log files, in the order in which they were written; their names end in \
        {}, and in .gz or .zst if they are compressed. A folder stands for its files in the order of their names, and - for \
        the standard input, with --format. A URL (s3://bucket/key, gs://..., az://..., https://...) is an object of a store, \
        or a prefix of objects", Format::extensions()))]
    logs: Vec<PathBuf>,
    #[arg(long, help_heading = "Columns", help = format!("Format of the log files, if their names do not show it: \
        {}", Format::names()))]
    format: Option<Format>,
    /// Column of the action [default: action or item_id]
    #[arg(long, value_name = "COLUMN", help_heading = "Columns")]
    action: Option<String>,
    /// Numbers of actions start at 1 instead of 0
    #[arg(long, help_heading = "Columns")]
    actions_from_one: bool,
    /// All actions that there are: their number K, for actions 0 to K-1; their names, separated by commas; or @FILE, a
    /// file with one name per line [default: those of a policy file, or else those in the logs: then the uniform policy
    /// cannot be evaluated, and learn certifies only if all of them occur in the records set aside]
    #[arg(long, value_name = "ACTIONS", help_heading = "Columns")]
    actions: Option<Actions>,
    /// Column of the propensity [default: pscore, propensity, action_prob or propensity_score]
    #[arg(long, value_name = "COLUMN", help_heading = "Columns")]
    propensity: Option<String>,
    /// Column of the reward [default: reward or click; or cost, which is minus the reward]
    #[arg(long, value_name = "COLUMN", help_heading = "Columns")]
    reward: Option<String>,
    /// Column of the unique id of each record [default: event_id or EventId, if it exists]
    #[arg(long, value_name = "COLUMN", help_heading = "Columns")]
    event_id: Option<String>,
    /// Column of the version of the logging policy [default: policy_version, if it exists]
    #[arg(long, value_name = "COLUMN", help_heading = "Columns")]
    policy_version: Option<String>,
    #[command(flatten)]
    candidates: CandidateFlags,
}

/// How records with candidates are read.
#[derive(Debug, Clone, Args)]
pub(crate) struct CandidateFlags {
    /// Column of the candidates of each record, lists of objects with their features [default: candidates, if it exists]
    #[arg(long, value_name = "COLUMN", help_heading = "Candidates")]
    candidates: Option<String>,
    /// Field of a candidate that is its identity [default: id, _id, _tag, item_id or action_id, if it exists]
    #[arg(long, value_name = "FIELD", help_heading = "Candidates")]
    identity: Option<String>,
    /// How the action names the chosen candidate: place (counted from 0) or identity [default: identity, if action and
    /// identities are both texts or both numbers; otherwise place]
    #[arg(long, value_name = "HOW", help_heading = "Candidates")]
    action_is: Option<ActionIs>,
    /// Ignore the features of candidates: their places are the actions
    #[arg(long, help_heading = "Candidates")]
    positions: bool,
    /// Every row is a candidate; rows next to each other with the same event id are one record [default: if there are
    /// event ids and a column chosen]
    #[arg(long, help_heading = "Candidates")]
    rows_are_candidates: bool,
    /// If rows are candidates: column that is 1 or true for the chosen one, or the column of the reward or propensity, if
    /// only the chosen one has it [default: chosen]
    #[arg(long, value_name = "COLUMN", help_heading = "Candidates")]
    chosen: Option<String>,
    /// If rows are candidates: columns that are features of candidates, separated by commas [default: those that differ
    /// between the rows of a record]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Candidates")]
    candidate_features: Option<Vec<String>>,
    /// File with the features of candidates, one row per identity, in any of the log formats. Without a column of
    /// candidates, these are the eligible actions of a record, or all rows of the file
    #[arg(long, value_name = "FILE", help_heading = "Candidates")]
    catalogue: Option<PathBuf>,
    /// Column of the identity in the catalogue [default: id, _id, _tag, item_id, action_id or action]
    #[arg(long, value_name = "COLUMN", help_heading = "Candidates", requires = "catalogue")]
    catalogue_key: Option<String>,
}

impl CandidateFlags {
    /// Adds these columns.
    pub(crate) fn columns(&self, columns: ColumnNames) -> ColumnNames {
        let flags = self.clone();
        ColumnNames {
            candidates: flags.candidates,
            identity: flags.identity,
            action_is: flags.action_is,
            positions: flags.positions,
            rows_are_candidates: flags.rows_are_candidates,
            chosen: flags.chosen,
            candidate_features: flags.candidate_features,
            ..columns
        }
    }

    /// The catalogue, if one was given.
    pub(crate) fn catalogue(&self) -> Result<Option<Arc<Catalogue>>> {
        let read = |path: &PathBuf| {
            let reader = LogReader::new(vec![path.clone()], None, ColumnNames::default());
            Catalogue::read(&reader, self.catalogue_key.as_deref()).map(Arc::new).map_err(Failure::new)
        };
        self.catalogue.as_ref().map(read).transpose()
    }
}

impl LogFlags {
    /// The files that are read.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.logs.iter().chain(&self.candidates.catalogue).map(PathBuf::as_path)
    }

    pub(crate) fn reader(&self) -> Result<LogReader> {
        let columns = ColumnNames {
            event_id: self.event_id.clone(),
            action: self.action.clone(),
            propensity: self.propensity.clone(),
            reward: self.reward.clone(),
            policy_version: self.policy_version.clone(),
            from_one: self.actions_from_one,
            ..ColumnNames::default()
        };
        let columns = self.candidates.columns(columns);
        let reader = LogReader::new(self.logs.clone(), self.format, columns).with_actions(self.actions.clone());
        Ok(reader.with_catalogue(self.candidates.catalogue()?))
    }
}

/// The range of the rewards.
#[derive(Debug, Clone, Args)]
pub(crate) struct RewardFlags {
    /// Lowest and highest possible reward: two numbers, the first below the second
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

/// The policies that can be named on the command line.
pub(crate) const POLICY: &str = "a Surefoot policy file, a mixture written by select, columns:PREFIX (one column of \
                                 probabilities per action, named PREFIX and the action), list:COLUMN (a column with \
                                 the list of all probabilities), uniform, or logged (the logging policy). NAME=... \
                                 gives it a name";

/// The policies that the command line names, and the file or expression of each.
pub(crate) fn policies(texts: &[String]) -> Result<(Vec<NamedPolicy>, Vec<String>)> {
    let mut reader = PolicyReader::default();
    let (mut named, mut files): (Vec<NamedPolicy>, Vec<String>) = (Vec::new(), Vec::new());
    for text in texts {
        let (name, what) = match text.split_once('=') {
            Some((name, what)) if !name.is_empty() && !name.contains(['/', ':']) => (name.to_owned(), what),
            _ => (text.rsplit('/').next().unwrap_or(text).trim_end_matches(".safetensors").to_owned(), text.as_str()),
        };
        if named.iter().any(|other| other.name == name) {
            let hint = format!("give them different names: --policy one={what} --policy other=...");
            return Err(Failure::new(format!("two policies have the name {name}")).hint(hint));
        }
        named.push(NamedPolicy { name, policy: opened(what, &mut reader)? });
        files.push(what.to_owned());
    }
    Ok((named, files))
}

/// Opens the policy or the mixture that a text names.
pub(crate) fn opened(what: &str, reader: &mut PolicyReader) -> Result<RecordPolicy> {
    let hint = format!("a policy is {POLICY}");
    RecordPolicy::open(what, reader).map_err(|error| unopened(what.as_ref(), error, &hint))
}

/// The failure if a policy cannot be opened; `otherwise` is the hint unless it is a file beside the policy that is
/// missing.
pub(crate) fn unopened(policy: &Path, error: surefoot_data::Error, otherwise: &str) -> Failure {
    let named = policy.display().to_string();
    let beside = matches!(&error, surefoot_data::Error::Io { place, reason }
        if *place != named && reason.kind() == ErrorKind::NotFound);
    let hint = if beside { "a policy names files beside it: copy them along with it" } else { otherwise };
    Failure::new(error).hint(hint)
}

/// The failure for an error in logs, with a hint to lint.
pub(crate) fn logs_failure(error: surefoot_data::Error) -> Failure {
    match error {
        surefoot_data::Error::Core(error) => {
            let text = error.to_string();
            let failure = Failure::from(error);
            if text.contains("needs one, but is none") {
                failure.hint("--model linear fits a reward model")
            } else {
                failure
            }
        }
        // What the file says is not known.
        surefoot_data::Error::Io { .. } => Failure::new(error),
        error if error.to_string().contains("(option actions)") => Failure::new(error)
            .hint("--actions 10 (numbers from 0 to 9), --actions a,b,c (names) or --actions @FILE (a name per line)"),
        // These are about records, one of perhaps many.
        surefoot_data::Error::Field { .. } | surefoot_data::Error::Content { .. } => {
            Failure::new(error).hint("surefoot lint lists all errors in logs at once")
        }
        error => columns_failure(error),
    }
}

/// The failure for an error in logs, with a hint if a column is missing that every log needs.
pub(crate) fn columns_failure(error: surefoot_data::Error) -> Failure {
    let hint = column_hint(&error);
    let failure = Failure::new(error);
    if let Some(hint) = hint { failure.hint(hint) } else { failure }
}

/// What helps if a column is missing that every log needs.
fn column_hint(error: &surefoot_data::Error) -> Option<&'static str> {
    let surefoot_data::Error::MissingColumn { column, found, .. } = error else { return None };
    let hint = match column.split(' ').next()? {
        "action" => "--action COLUMN, if the column has another name",
        "pscore" => {
            "--propensity COLUMN, if the column has another name: the probability with which the action was chosen"
        }
        "reward" => "--reward COLUMN, if the column has another name",
        _ => return None,
    };
    let fraction = |name: &str| name.contains('.') && name.parse::<f64>().is_ok();
    if !found.contains(", ") && found.contains([';', '\t', '|']) {
        Some("there is only one column, and ; or | or a tab in its name: fields should be separated by commas")
    } else if found.split(", ").any(fraction) {
        Some("the first line looks like data: it should be a header, with the names of the columns")
    } else {
        Some(hint)
    }
}
