//! Data sets by their names: the digits, the catalogue's, and paths.

use std::path::{Path, PathBuf};

use surefoot::worlds::Dataset;
use surefoot_data::catalogue;
use surefoot_terminal::{Failure, Result};

/// The variable that names the data folder, and the folder if it is not set.
pub(crate) const VARIABLE: &str = "SUREFOOT_DATA";
pub(crate) const FOLDER: &str = "data";

/// The data folder, where no flag says so.
pub(crate) fn folder() -> PathBuf {
    std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()).unwrap_or_else(|| FOLDER.into()).into()
}

/// A data set by its name.
pub(crate) fn load(name: &str, folder: &Path) -> Result<Dataset> {
    surefoot_data::load_named(name, folder).map_err(|error| match error {
        // Its own error already says how to get it.
        surefoot_data::Error::NotThere { .. } => {
            let hint = format!("{VARIABLE} names the data folder; surefoot data lists what is there");
            Failure::new(error).hint(hint)
        }
        error => error.into(),
    })
}

/// The keys of the catalogue.
pub(crate) fn keys() -> Vec<&'static str> {
    catalogue::all().iter().map(|entry| entry.key).collect()
}
