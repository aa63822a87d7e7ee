//! Where records come from: files, folders of files, objects of a store, the standard input, or a table in memory.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;

use crate::error::{Error, Result};
use crate::stores::{self, Object, is_url};
use crate::table::Format;

/// Where the records come from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    File(PathBuf),
    /// A path that cannot be read, and why not.
    Refused {
        place: String,
        reason: String,
    },
    /// Batches in memory, and their name in errors.
    Table(String, Arc<[RecordBatch]>),
}

impl Source {
    pub(super) fn place(&self) -> String {
        match self {
            Source::File(path) => place(path),
            Source::Refused { place, .. } => place.clone(),
            Source::Table(name, _) => name.clone(),
        }
    }
}

pub(super) fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

/// The name of a file in errors.
pub(super) fn place(path: &Path) -> String {
    if is_standard_input(path) { "standard input".into() } else { path.display().to_string() }
}

/// The format that the name of a file implies.
pub(super) fn format(path: &Path) -> Result<Format> {
    match is_standard_input(path) {
        true => Err(Error::Malformed {
            place: place(path),
            reason: format!("the format should be given (option format), {}, but is not", Format::names()),
        }),
        false => Format::of(path),
    }
}

/// The files of all paths in order. A folder stands for its files.
pub(super) fn of_paths(paths: Vec<PathBuf>, format: Option<Format>) -> Vec<Source> {
    let mut sources: Vec<Source> = Vec::new();
    for path in paths {
        let again = is_standard_input(&path)
            && sources.iter().any(|source| matches!(source, Source::File(path) if is_standard_input(path)));
        if again {
            sources.push(Source::Refused {
                place: place(&path),
                reason: "should be read once, but is named twice".into(),
            });
            continue;
        }
        let found = match is_folder(&path) {
            Ok(true) => files(&path, format),
            Ok(false) => Ok(vec![path.clone()]),
            Err(reason) => Err(reason),
        };
        match found {
            Ok(files) => sources.extend(files.into_iter().map(Source::File)),
            Err(reason) => sources.push(Source::Refused { place: place(&path), reason }),
        }
    }
    sources
}

/// Whether a path is a folder, or a prefix of objects: one that ends in `/`, or that is no object itself.
fn is_folder(path: &Path) -> std::result::Result<bool, String> {
    if !is_url(path) {
        return Ok(!is_standard_input(path) && path.is_dir());
    }
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Ok(true);
    }
    match Object::find(path).map_err(|error| error.without_place())? {
        Some(_) => Ok(false),
        None if path.starts_with("http:") || path.starts_with("https:") => Ok(false),
        // If there is nothing, the error of reading it says so.
        None => stores::list(path).map(|names| !names.is_empty()).map_err(|error| error.without_place()),
    }
}

/// What is in a folder.
enum Entry {
    File,
    Folder,
    Other,
}

/// The names in a folder, in any order.
fn entries(folder: &Path) -> std::result::Result<Vec<(OsString, Entry)>, String> {
    if is_url(folder) {
        let entry = |name: String| match name.strip_suffix('/') {
            Some(folder) => (folder.into(), Entry::Folder),
            None => (name.into(), Entry::File),
        };
        let names = stores::list(folder).map_err(|error| error.without_place())?;
        return Ok(names.into_iter().map(entry).collect());
    }
    let unread = |reason: std::io::Error| format!("cannot be listed: {reason}");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(unread)? {
        let name = entry.map_err(unread)?.file_name();
        let data =
            fs::metadata(folder.join(&name)).map_err(|reason| format!("{}: {}", shown(&name), unread(reason)))?;
        let kind = match () {
            () if data.is_dir() => Entry::Folder,
            () if data.is_file() => Entry::File,
            () => Entry::Other,
        };
        found.push((name, kind));
    }
    Ok(found)
}

/// The files of a folder in the order of their names, by bytes. Files whose names start with `.` or `_` are left out:
/// programs put notes such as `_SUCCESS` beside what they write.
fn files(folder: &Path, format: Option<Format>) -> std::result::Result<Vec<PathBuf>, String> {
    let mut names: Vec<OsString> = Vec::new();
    for (name, kind) in entries(folder)? {
        match (name.as_encoded_bytes().first().copied(), kind) {
            (Some(b'.'), _) => {}
            (_, Entry::Folder) => {
                let reason = "should be a folder of log files, without folders in it, but has the folder";
                return Err(format!("{reason} {}", shown(&name)));
            }
            (Some(b'_'), _) => {}
            (_, Entry::Other) => {
                return Err(format!("should be a folder of files, but {} is a pipe or a device", shown(&name)));
            }
            (_, Entry::File) => names.push(name),
        }
    }
    names.sort();
    let mut one: Option<(Format, &OsString)> = None;
    for name in &names {
        let found = match (Format::of(Path::new(name)), format) {
            (Ok(found), _) => found,
            (Err(_), Some(given)) => given,
            (Err(_), None) => {
                let reason = "should be a folder of log files of one format, but the format of";
                return Err(format!("{reason} {} is unknown; its files can be named one by one", shown(name)));
            }
        };
        let (wanted, because) = match (format, one) {
            (Some(given), _) => (given, "as the format that is given".to_owned()),
            (None, Some((first, before))) => (first, format!("as {}", shown(before))),
            (None, None) => (found, String::new()),
        };
        if found != wanted {
            let reason = format!("should be a folder of log files of one format, but {} is {found}", shown(name));
            return Err(format!("{reason} and not {wanted}, {because}"));
        }
        one.get_or_insert((found, name));
    }
    match names.is_empty() {
        true => Err("should be a folder of log files, but has none".into()),
        false => Ok(names.into_iter().map(|name| folder.join(name)).collect()),
    }
}

fn shown(name: &OsString) -> String {
    name.display().to_string()
}
