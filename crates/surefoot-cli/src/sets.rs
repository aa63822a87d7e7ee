//! Data sets by their names: the digits, the catalogue's, and paths.

use std::path::{Path, PathBuf};

use surefoot::Dataset;
use surefoot_data::catalogue;

use crate::failure::{Failure, Result};

/// The variable that names the data folder, and the folder if it is not set.
pub(crate) const VARIABLE: &str = "SUREFOOT_DATA";
pub(crate) const FOLDER: &str = "data";

/// The data folder, where no flag says so.
pub(crate) fn folder() -> PathBuf {
    std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()).unwrap_or_else(|| FOLDER.into()).into()
}

/// A data set: the digits, what lies at a path, or else a set of the catalogue, which is looked for in the data folder.
pub(crate) fn load(name: &str, folder: &Path) -> Result<Dataset> {
    let path = Path::new(name);
    match catalogue::find(name) {
        _ if name == "digits" => Ok(surefoot_data::digits()),
        // Its own error already says what to do.
        Some(entry) if !path.exists() => entry.load(folder).map_err(|error| {
            let hint = format!("{VARIABLE} names the data folder; surefoot data lists what is there");
            Failure::new(error).hint(hint)
        }),
        _ => Ok(surefoot_data::load(path)?),
    }
}

/// The keys of the catalogue.
pub(crate) fn keys() -> Vec<&'static str> {
    catalogue::all().iter().map(|entry| entry.key).collect()
}
