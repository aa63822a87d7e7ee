//! The actions of a log.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The actions of a log: numbers below `K`, or names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Actions {
    /// This many actions, numbered from 0.
    Count(usize),
    /// Named actions, in the order of their numbers.
    Names(Vec<String>),
}

impl Actions {
    /// The number of actions, `K`.
    pub fn len(&self) -> usize {
        match self {
            Actions::Count(k) => *k,
            Actions::Names(names) => names.len(),
        }
    }

    /// Whether there are no actions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of an action.
    pub fn name(&self, action: usize) -> Cow<'_, str> {
        match self {
            Actions::Count(_) => Cow::Owned(action.to_string()),
            Actions::Names(names) => Cow::Borrowed(&names[action]),
        }
    }
}

/// The first few names, for an error.
pub(super) fn some(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN { format!("{shown}, ... ({} in all)", names.len()) } else { shown }
}
