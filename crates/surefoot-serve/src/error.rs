//! The crate's error type.

use std::fmt::Display;
use std::path::Path;

/// What can go wrong when loops are opened, run or exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting has a value that is not allowed.
    #[error("{place}: {setting} should be {allowed}, but is {found}")]
    Setting {
        /// The file, and the loop in it.
        place: String,
        /// The setting.
        setting: String,
        /// What is allowed.
        allowed: String,
        /// What was found.
        found: String,
    },
    /// A loop has begun with another value of a setting.
    #[error("{place}: {setting} should be {began}, as when the loop began, but is {found}")]
    Begun {
        /// The loop.
        place: String,
        /// The setting.
        setting: String,
        /// What it was when the loop began.
        began: String,
        /// What was found.
        found: String,
    },
    /// A file of loops that cannot be parsed.
    #[error("{place}: {reason}")]
    Malformed {
        /// The file.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The store of a loop cannot be read or written.
    #[error("{place}: the store cannot be {what}: {reason}")]
    Store {
        /// The file of the store.
        place: String,
        /// What should have been done: `opened`, `read` or `written`.
        what: &'static str,
        /// The error of the store.
        reason: String,
    },
    /// The address cannot be listened on, or a thread cannot be started.
    #[error("{place}: {reason}")]
    System {
        /// What was tried.
        place: String,
        /// The error of the operating system.
        reason: std::io::Error,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    Data(#[from] surefoot_data::Error),
    /// The core refuses.
    #[error("{place}: {reason}")]
    Core {
        /// The loop, and the round if there is one.
        place: String,
        /// The error of the core.
        reason: surefoot::Error,
    },
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn setting(place: &str, setting: &str, allowed: impl Display, found: impl Display) -> Self {
        let (allowed, found) = (allowed.to_string(), found.to_string());
        Error::Setting { place: place.into(), setting: setting.into(), allowed, found }
    }

    pub(crate) fn store(path: &Path, what: &'static str, reason: impl Display) -> Self {
        Error::Store { place: path.display().to_string(), what, reason: reason.to_string() }
    }

    pub(crate) fn core(place: &str) -> impl Fn(surefoot::Error) -> Self {
        move |reason| Error::Core { place: place.into(), reason }
    }
}
