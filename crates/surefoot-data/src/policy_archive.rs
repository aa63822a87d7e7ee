//! Policies as bytes, for another process: an archive of their files, as they are written and read elsewhere.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Read as _, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use crate::error::{Error, Result};
use crate::mixture_file::{Part, write_mixture};
use crate::policy_file::{PolicyReader, write_policy_with};
use crate::record_policy::RecordPolicy;

/// The name of the archive in errors.
const PLACE: &str = "policies of an engine";

/// The file with the names of the policies' files, and with what the sender adds.
const INDEX: &str = "index.json";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Index<T> {
    policies: Vec<String>,
    with: T,
}

/// Packs policies that have files, with some settings. The same policies and settings give the same bytes.
pub(crate) fn pack<T: Serialize>(policies: &[&RecordPolicy], with: T) -> Result<Vec<u8>> {
    let folder = folder()?;
    let mut names = Vec::new();
    for (i, policy) in policies.iter().enumerate() {
        names.push(write(folder.path(), &format!("policy-{i}"), policy)?);
    }
    let index = serde_json::to_vec(&Index { policies: names, with }).map_err(unread)?;
    // In the order of their names.
    let mut files = BTreeMap::from([(INDEX.to_owned(), index)]);
    for entry in fs::read_dir(folder.path()).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        files.insert(entry.file_name().display().to_string(), fs::read(entry.path()).map_err(failed)?);
    }
    // The bytes of a policy hardly become fewer, and the time of packing is no content.
    let plain = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .last_modified_time(DateTime::default())
        .large_file(true);
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        archive.start_file(name, plain).map_err(broken)?;
        archive.write_all(&bytes).map_err(failed)?;
    }
    Ok(archive.finish().map_err(broken)?.into_inner())
}

/// Opens what [`pack`] has packed.
pub(crate) fn unpack<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<(Vec<RecordPolicy>, T)> {
    let folder = folder()?;
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(broken)?;
    for i in 0..archive.len() {
        let mut file = archive.by_index(i).map_err(broken)?;
        let name = file.name().map_err(broken)?.into_owned();
        if Path::new(&name).file_name().is_none_or(|plain| plain != name.as_str()) {
            return Err(Error::Malformed {
                place: PLACE.into(),
                reason: format!("{name} should be the name of a file"),
            });
        }
        let mut content = Vec::new();
        file.read_to_end(&mut content).map_err(failed)?;
        fs::write(folder.path().join(name), content).map_err(failed)?;
    }
    let index = fs::read(folder.path().join(INDEX)).map_err(failed)?;
    let Index { policies, with } = serde_json::from_slice(&index).map_err(unread)?;
    let mut reader = PolicyReader::default();
    let open = |name: &String| RecordPolicy::open_file(&folder.path().join(name), &mut reader);
    Ok((policies.iter().map(open).collect::<Result<_>>()?, with))
}

/// Writes the files of a policy, and returns the name of the first.
fn write(folder: &Path, name: &str, policy: &RecordPolicy) -> Result<String> {
    match policy {
        RecordPolicy::Encoded { policy, inputs } => {
            let name = format!("{name}.safetensors");
            write_policy_with(&folder.join(&name), policy.as_ref(), Some(inputs))?;
            Ok(name)
        }
        RecordPolicy::Mixture(mixed) => {
            let mut parts = Vec::new();
            for (i, (weight, part)) in mixed.iter().enumerate() {
                let RecordPolicy::Encoded { policy, .. } = part else { return Err(no_file(part)) };
                let fingerprint = policy.identity().ok_or_else(|| no_file(part))?;
                parts.push(Part { file: write(folder, &format!("{name}-{i}"), part)?, fingerprint, weight: *weight });
            }
            let name = format!("{name}.json");
            write_mixture(&folder.join(&name), parts)?;
            Ok(name)
        }
        RecordPolicy::Given(_) | RecordPolicy::Uniform | RecordPolicy::Logged => Err(no_file(policy)),
    }
}

fn no_file(policy: &RecordPolicy) -> Error {
    Error::Malformed { place: PLACE.into(), reason: format!("should be policies that have files, but has {policy:?}") }
}

fn folder() -> Result<TempDir> {
    TempDir::with_prefix("surefoot-").map_err(failed)
}

fn failed(reason: std::io::Error) -> Error {
    Error::Io { place: PLACE.into(), reason }
}

#[expect(clippy::needless_pass_by_value, reason = "it is the shape that map_err wants")]
fn broken(reason: zip::result::ZipError) -> Error {
    Error::Malformed { place: PLACE.into(), reason: reason.to_string() }
}

fn unread(reason: serde_json::Error) -> Error {
    Error::Json { place: PLACE.into(), reason }
}
