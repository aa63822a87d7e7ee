//! The actions of a log.

use std::borrow::Cow;
use std::collections::HashSet;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::files::read;

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

    /// What they are, for messages: `3 numbers`, or `the names a, b`.
    pub(crate) fn described(&self) -> String {
        match self {
            Actions::Count(k) => format!("{k} numbers"),
            Actions::Names(names) => format!("the names {}", some(names)),
        }
    }
}

impl Actions {
    /// Named actions, in this order. There are at least two, all different and none empty.
    pub fn named(names: Vec<String>) -> Result<Self> {
        let refused = |found: String| Err(Error::setting("actions", "at least 2 different names, none empty", found));
        let mut seen = HashSet::new();
        match names.iter().find(|name| name.is_empty() || !seen.insert(name.as_str())) {
            Some(name) => refused(format!("one with {name:?} {}", if name.is_empty() { "in it" } else { "twice" })),
            None if names.len() < 2 => refused(names.join(",")),
            None => Ok(Actions::Names(names)),
        }
    }

    /// This many actions, at least two, numbered from 0.
    pub fn counted(count: usize) -> Result<Self> {
        match count {
            0 | 1 => Err(Error::setting("actions", "a number of at least 2, or a list of names", count)),
            count => Ok(Actions::Count(count)),
        }
    }
}

impl FromStr for Actions {
    type Err = Error;

    /// Parses a number of actions, a list of names with commas between them, or `@FILE`, a file with one name per line.
    fn from_str(text: &str) -> Result<Self> {
        if let Ok(count) = text.trim().parse() {
            return Actions::counted(count);
        }
        let Some(path) = text.strip_prefix('@') else {
            return Actions::named(text.split(',').map(|name| name.trim().to_owned()).collect());
        };
        let lines = String::from_utf8(read(path.as_ref())?)
            .map_err(|_| Error::Malformed { place: path.into(), reason: "should be UTF-8 text, but is not".into() })?;
        Actions::named(lines.lines().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect())
    }
}

/// The first few names, for an error.
pub(crate) fn some(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN { format!("{shown}, ... ({} in all)", names.len()) } else { shown }
}
