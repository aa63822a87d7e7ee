//! Objects that are written.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use object_store::{MultipartUpload, ObjectStoreExt};

use super::client::{Location, wait};
use super::object::explained;
use crate::error::{Error, Result};

/// An object is sent in parts of so many bytes, and as a whole if it has no more.
const PART: usize = 8 << 20;

/// Checks that an object can be written: the bucket exists, and the credentials allow it. Nothing is written: an upload is
/// begun and given up.
pub(crate) fn check_writable(path: &Path) -> Result<()> {
    let at = writable(path)?;
    let cannot = |reason| Error::Write { place: path.display().to_string(), reason };
    let begun = wait(async move {
        let mut upload = at.store.put_multipart(&at.key).await.map_err(|error| explained(&error))?;
        // The store removes what was given up, or its owner has rules for that.
        let _ = upload.abort().await;
        Ok(())
    });
    begun.and_then(|begun| begun).map_err(cannot)
}

fn writable(path: &Path) -> Result<Location> {
    let at = Location::of(path)?;
    let refused = |reason: &str| Err(Error::Malformed { place: at.place.clone(), reason: reason.into() });
    if at.is_web {
        return refused("should be a file, or an object of s3, gs or az: nothing is written to web servers");
    }
    if at.key.is_root() || at.place.ends_with('/') {
        return refused("should be the name of an object, but is a prefix");
    }
    Ok(at)
}

/// Writes an object from a file. It appears complete or not at all.
pub(crate) fn put(path: &Path, content: &File) -> Result<()> {
    let at = writable(path)?;
    send(at, content).map_err(|reason| Error::Write { place: path.display().to_string(), reason })
}

fn send(at: Location, mut content: &File) -> io::Result<()> {
    content.seek(SeekFrom::Start(0))?;
    let first = part(content)?;
    if first.len() < PART {
        return wait(async move { at.store.put(&at.key, first.into()).await })?.map(drop).map_err(|e| explained(&e));
    }
    let at = Arc::new(at);
    let begun = Arc::clone(&at);
    let upload = wait(async move { begun.store.put_multipart(&begun.key).await })?;
    let mut upload = upload.map_err(|error| explained(&error))?;
    let mut next = Ok(first);
    loop {
        // What goes wrong on either side ends the upload, so that no parts are kept.
        let (back, done) = wait(step(upload, next))?;
        upload = back;
        match done? {
            true => return Ok(()),
            false => next = part(content),
        }
    }
}

/// Sends a part, or completes the upload after the last one. Says whether it is complete.
async fn step(
    mut upload: Box<dyn MultipartUpload>,
    next: io::Result<Bytes>,
) -> (Box<dyn MultipartUpload>, io::Result<bool>) {
    let done = match next {
        Err(reason) => Err(reason),
        Ok(part) if part.is_empty() => upload.complete().await.map(|_| true).map_err(|error| explained(&error)),
        Ok(part) => upload.put_part(part.into()).await.map(|()| false).map_err(|error| explained(&error)),
    };
    if done.is_err() {
        let _ = upload.abort().await;
    }
    (upload, done)
}

/// The next part of a file; empty at its end.
fn part(content: &File) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    content.take(PART as u64).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

/// Removes an object. There is nothing to do about an error: an earlier one is reported.
pub(crate) fn remove(path: &Path) {
    if let Ok(at) = writable(path) {
        let _ = wait(async move { at.store.delete(&at.key).await });
    }
}
