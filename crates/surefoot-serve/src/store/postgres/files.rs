//! The policies of a loop, which all servers need: files that never change, named by their fingerprints. Every server has
//! them in a folder of its own too.

use std::collections::HashSet;
use std::path::Path;

use surefoot_data::replace;

use super::link::Link;
use super::rows;
use crate::error::{Error, Result};

fn system(place: &Path) -> impl Fn(std::io::Error) -> Error {
    let place = place.display().to_string();
    move |reason| Error::System { place: place.clone(), reason }
}

fn names(link: &Link) -> Result<HashSet<String>> {
    Ok(link.query(rows::FILE_NAMES, &[])?.iter().map(|row| row.get(0)).collect())
}

/// Stores the files of a folder that are not stored yet.
pub(super) fn share(link: &Link, folder: &Path) -> Result<()> {
    let known = names(link)?;
    for entry in std::fs::read_dir(folder).map_err(system(folder))? {
        let entry = entry.map_err(system(folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // A file that is being written has another ending.
        if !name.ends_with(".safetensors") || known.contains(&name) {
            continue;
        }
        let content = std::fs::read(entry.path()).map_err(system(&entry.path()))?;
        link.with("written", async |db| db.execute(rows::ADD_FILE, &[&name, &content]).await)?;
    }
    Ok(())
}

/// Writes the stored files to a folder, unless they are there.
pub(super) fn fetch(link: &Link, folder: &Path) -> Result<()> {
    for name in names(link)? {
        // Names are made by this crate; one that leads out of the folder is not.
        let path = folder.join(&name);
        if path.exists() || path.parent() != Some(folder) {
            continue;
        }
        if let Some(row) = link.query(rows::FILE, &[&name])?.first() {
            replace(&path, row.get(0))?;
        }
    }
    Ok(())
}

/// A name that no other server has.
pub(super) fn drawn_name() -> Result<String> {
    let mut drawn = [0; 16];
    let failed = |e| Error::Malformed { place: "PostgreSQL".into(), reason: format!("no random name: {e}") };
    getrandom::fill(&mut drawn).map_err(failed)?;
    Ok(drawn.iter().map(|byte| format!("{byte:02x}")).collect())
}
