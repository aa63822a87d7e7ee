//! The error of a command.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

/// A message, and a hint if there is something to try.
#[derive(Debug)]
pub struct Failure {
    message: String,
    hint: Option<String>,
}

/// The result of a command.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure with this message.
    pub fn new(message: impl Display) -> Self {
        Failure { message: message.to_string(), hint: None }
    }

    /// Adds a hint: something to try.
    #[must_use]
    pub fn hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// A failure of an operation on a file; `what` completes "cannot be", for example `read`.
    pub fn file(path: &Path, what: &str, error: impl Display) -> Self {
        Failure::new(format!("{}: cannot be {what}: {error}", path.display()))
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.message)?;
        match &self.hint {
            Some(hint) => writeln!(f, "hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl From<surefoot::Error> for Failure {
    fn from(error: surefoot::Error) -> Self {
        let failure = Failure::new(&error);
        let surefoot::Error::Setting { name, allowed, .. } = &error else {
            return failure;
        };
        match (name.as_str(), allowed.as_str()) {
            ("lambda", "in (0, 1)") => failure
                .hint("the adjusted estimator needs a lambda between 0 and 1; seq-ls and shift-ls take any above 0"),
            ("the number of doubling rounds", _) => failure.hint(
                "rounds of doubling size use up the interactions quickly; try fewer --rounds or --schedule equal",
            ),
            ("the number of rounds", _) => failure.hint("each round needs at least one interaction"),
            ("gate", _) => failure.hint("for example --gate non-inferiority:0.01"),
            _ => failure,
        }
    }
}

impl From<surefoot_data::Error> for Failure {
    fn from(error: surefoot_data::Error) -> Self {
        let sets: Vec<&str> = surefoot_data::catalogue::all().iter().map(|entry| entry.key).collect();
        let sets = sets.join(", ");
        Failure::new(error).hint(format!(
            "a data set is digits, {sets} (see surefoot data), a file ending in .npz, or a folder with the files of \
             MNIST, EMNIST, CIFAR-100 or CIFAR-10; simulated worlds are synthetic and drift"
        ))
    }
}
