//! Data sets by name: the digits, the sets of the catalogue, and paths.

use std::path::{Path, PathBuf};

use surefoot::worlds::Dataset;
use surefoot_terminal::{Failure, Result};

/// The environment variable with the data folder.
pub const VARIABLE: &str = "SUREFOOT_DATA";
/// The data folder if the variable is not set.
pub const FOLDER: &str = "data";

/// The data folder if no flag gives it.
pub(crate) fn folder() -> PathBuf {
    std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()).unwrap_or_else(|| FOLDER.into()).into()
}

/// Loads a data set by name.
pub fn load(name: &str, folder: &Path) -> Result<Dataset> {
    surefoot_data::load_named(name, folder).map_err(|error| match error {
        // This error already says how to get the data.
        surefoot_data::Error::NotThere { .. } => {
            let hint = format!("{VARIABLE} names the data folder; surefoot data lists what is there");
            Failure::new(error).hint(hint)
        }
        error => error.into(),
    })
}
