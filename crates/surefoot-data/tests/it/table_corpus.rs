//! The files of `tests/files`, one folder per format, named after it: every good file is read, and every file
//! `bad-NAME.EXT` is refused with the text of `bad-NAME.error`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use surefoot_data::{Format, Result, read_table, read_table_bytes};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name)
}

/// The names in a folder.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|reason| panic!("{}: {reason}", folder.display()));
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The batches of a file, or the text of the error, with the file's name for its path. They are the same from memory.
fn read(path: &Path, format: Format) -> std::result::Result<Vec<RecordBatch>, String> {
    let place = path.display().to_string();
    let name = path.file_name().unwrap().to_str().unwrap();
    let text = |tables: Result<Vec<RecordBatch>>| {
        tables.map_err(|error| {
            let text = error.to_string();
            format!("{name}{}\n", text.strip_prefix(&place).unwrap_or_else(|| panic!("{place} is not named: {text}")))
        })
    };
    let found = text(read_table(path, format).and_then(Iterator::collect));
    let bytes = fs::read(path).unwrap();
    assert_eq!(text(read_table_bytes(&place, bytes, format).and_then(Iterator::collect)), found, "{name} from memory");
    found
}

/// Checks a folder, and returns its files that are not as they should be.
fn wrong(format: Format) -> Vec<String> {
    let folder = folder(format.name());
    let mut wrong = Vec::new();
    let (texts, files): (BTreeSet<String>, BTreeSet<String>) =
        names(&folder).into_iter().partition(|name| name.ends_with(".error"));
    let bad: BTreeSet<&str> = files.iter().map(String::as_str).filter(|name| name.starts_with("bad-")).collect();
    assert!(!bad.is_empty(), "{format} has no bad file");
    assert!(bad.len() < files.len(), "{format} has no good file");
    let expected: BTreeSet<String> =
        bad.iter().map(|name| Path::new(name).with_extension("error").display().to_string()).collect();
    assert_eq!(expected.len(), bad.len(), "two bad files of {format} have one name");
    wrong.extend(texts.difference(&expected).map(|name| format!("{format}/{name} has no file")));
    for name in &files {
        let path = folder.join(name);
        assert_eq!(Format::of(&path).unwrap(), format, "{name}");
        let expected = fs::read_to_string(path.with_extension("error")).unwrap_or_else(|_| "no text\n".into());
        match (read(&path, format), bad.contains(name.as_str())) {
            (Err(text), true) if text == expected => {}
            (Err(text), true) => wrong.push(format!("{format}/{name} should give: {expected}but gives: {text}")),
            (Err(text), false) => wrong.push(format!("{format}/{name} should be read, but gives: {text}")),
            (Ok(_), true) => wrong.push(format!("{format}/{name} should be refused, but is read\n")),
            (Ok(_), false) => {}
        }
    }
    wrong
}

#[test]
fn every_good_file_is_read_and_every_bad_one_is_refused_with_its_text() {
    let wrong = Format::ALL.map(wrong).concat();
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

#[test]
fn every_folder_is_that_of_a_format() {
    let folders: BTreeSet<String> = names(&folder("")).into_iter().filter(|name| folder(name).is_dir()).collect();
    assert_eq!(folders, Format::ALL.map(|format| format.name().to_owned()).into());
}
