//! The error type of the crate. Its text says what is wrong, where, what is allowed and what was found.

use std::fmt::Display;

/// An error in the data or in the settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value of the data is not allowed.
    #[error("row {row}: {column} should be {allowed}, but is {value}")]
    Value {
        /// The row, counted from 0.
        row: usize,
        /// The column's name.
        column: String,
        /// The values that the column may hold.
        allowed: String,
        /// The value found.
        value: String,
    },
    /// The sizes of two parts do not fit together.
    #[error("{what} should have {expected}, but has {found}")]
    Size {
        /// The part.
        what: String,
        /// The expected size, with its unit.
        expected: String,
        /// The size found.
        found: usize,
    },
    /// A setting is outside its range.
    #[error("{name} should be {allowed}, but is {value}")]
    Setting {
        /// The setting's name.
        name: String,
        /// Its allowed range.
        allowed: String,
        /// The value given.
        value: String,
    },
    /// The records contradict an assumption of every certificate. So a certificate from them would be false.
    #[error(
        "the logs contradict the assumptions of a certificate: {what}; check that each propensity is the probability \
         with which the logging policy chose the action, that all rewards are in their range, and that no record was \
         left out or repeated because of its reward"
    )]
    Refuted {
        /// What the records show, and why it is impossible.
        what: String,
    },
    /// The optimiser could not continue.
    #[error("the optimiser stopped: {0}")]
    Optimiser(String),
    /// An engine, or work that it did in another process, failed.
    #[error("{0}")]
    Engine(String),
    /// The observer asked to stop.
    #[error("stopped on request")]
    Stopped,
}

impl Error {
    pub(crate) fn value(row: usize, column: impl Display, allowed: impl Display, value: impl Display) -> Self {
        Error::Value { row, column: column.to_string(), allowed: allowed.to_string(), value: value.to_string() }
    }

    pub(crate) fn size(what: impl Display, expected: impl Display, found: usize) -> Self {
        Error::Size { what: what.to_string(), expected: expected.to_string(), found }
    }

    pub(crate) fn setting(name: impl Display, allowed: impl Display, value: impl Display) -> Self {
        Error::Setting { name: name.to_string(), allowed: allowed.to_string(), value: value.to_string() }
    }
}

/// `Ok` or the crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Checks a real setting against a condition, and names the allowed range if it fails.
pub(crate) fn check_setting(name: &str, value: f64, holds: bool, allowed: &str) -> Result<()> {
    if holds && value.is_finite() {
        Ok(())
    } else if value.is_infinite() {
        Err(Error::setting(name, format!("finite and {allowed}"), value))
    } else {
        Err(Error::setting(name, allowed, value))
    }
}
