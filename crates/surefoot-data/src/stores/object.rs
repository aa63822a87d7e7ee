//! An object that is read.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::{Error as StoreError, GetOptions, GetRange, ObjectMeta, ObjectStoreExt};

use super::client::{Location, wait};
use crate::error::{Error, Result};

/// How often reading goes on after a connection was cut, per block.
const TRIES: u32 = 4;

/// An object, as it was when it was opened.
#[derive(Debug, Clone)]
pub(crate) struct Object(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    at: Location,
    meta: ObjectMeta,
}

impl Object {
    /// Asks the store for the object. `None` if there is none with this name, but perhaps others under it.
    pub(crate) fn find(path: &Path) -> Result<Option<Self>> {
        let at = Location::of(path)?;
        let asked = at.clone();
        let found =
            wait(async move { asked.store.head(&asked.key).await }).map_err(|reason| Error::io(path, reason))?;
        match found {
            Ok(meta) => Ok(Some(Object(Arc::new(Opened { at, meta })))),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(Error::io(path, explained(&error))),
        }
    }

    /// Like [`Object::find`], for an object that should exist.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        match Object::find(path)? {
            Some(object) => Ok(object),
            None => {
                // The answer about an object does not tell whether the bucket exists; the list of its objects does.
                let is_web = Location::of(path)?.is_web;
                let under = if is_web { Vec::new() } else { list(path)? };
                let what =
                    if under.is_empty() { "there is no such object" } else { "it is a prefix, and not an object" };
                Err(Error::io(path, io::Error::new(io::ErrorKind::NotFound, what)))
            }
        }
    }

    pub(crate) fn size(&self) -> u64 {
        self.0.meta.size
    }

    /// The tag of this version, or the time of its last change if the store has no tags.
    pub(crate) fn version(&self) -> String {
        let meta = &self.0.meta;
        meta.e_tag.clone().unwrap_or_else(|| meta.last_modified.to_rfc3339())
    }

    /// Fails if the object is not what it was when it was opened.
    pub(crate) fn unchanged(&self) -> Result<()> {
        let path = Path::new(&self.0.at.place);
        let now = Object::open(path)?;
        match self.0.difference(&now.0.meta) {
            None => Ok(()),
            Some(how) => Err(Error::Changed { place: self.0.at.place.clone(), how }),
        }
    }

    /// The whole content.
    pub(crate) fn read(&self) -> Result<Vec<u8>> {
        let (opened, size) = (self.0.clone(), self.size());
        let whole = wait(async move { opened.fetch(0..size).await }).and_then(|bytes| bytes);
        whole.map(Vec::from).map_err(|reason| Error::io(Path::new(&self.0.at.place), reason))
    }

    /// Some bytes, later.
    pub(super) fn fetch(&self, range: Range<u64>) -> impl Future<Output = io::Result<Bytes>> + Send + 'static {
        let opened = self.0.clone();
        async move { opened.fetch(range).await }
    }
}

/// Why a part of an object did not come.
enum Failure {
    /// Asking again may help.
    Cut(String),
    Final(io::Error),
}

impl Opened {
    /// How another version differs from this one; `None` if it is the same.
    fn difference(&self, now: &ObjectMeta) -> Option<String> {
        let before = &self.meta;
        let text = |tag: &Option<String>| tag.clone().unwrap_or("none".into());
        if now.size != before.size {
            Some(format!("it had {} bytes and now has {}", before.size, now.size))
        } else if now.e_tag != before.e_tag {
            Some(format!("its tag was {} and now is {}", text(&before.e_tag), text(&now.e_tag)))
        } else if before.e_tag.is_none() && now.last_modified != before.last_modified {
            Some(format!("it was last changed at {} and now at {}", before.last_modified, now.last_modified))
        } else {
            None
        }
    }

    /// Reads a part. If the connection is cut, reading goes on where it was cut.
    async fn fetch(&self, range: Range<u64>) -> io::Result<Bytes> {
        let mut bytes = Vec::with_capacity(usize::try_from(range.end - range.start).unwrap_or(0));
        let mut tries = 0;
        while bytes.len() as u64 != range.end - range.start {
            let place = range.start + bytes.len() as u64;
            let reason = match self.get(place..range.end, &mut bytes).await {
                Ok(()) => continue,
                Err(Failure::Final(reason)) => return Err(reason),
                Err(Failure::Cut(reason)) => reason,
            };
            tries += 1;
            if tries > TRIES {
                let (place, size) = (range.start + bytes.len() as u64, self.meta.size);
                let reason = format!("at byte {place} of {size}: {reason} ({tries} tries)");
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason));
            }
            tokio::time::sleep(Duration::from_millis(100 << tries)).await;
        }
        Ok(bytes.into())
    }

    /// Adds what the store sends of a part.
    async fn get(&self, range: Range<u64>, bytes: &mut Vec<u8>) -> std::result::Result<(), Failure> {
        let whole = range == (0..self.meta.size);
        let options = GetOptions {
            // A weak tag never matches.
            if_match: self.meta.e_tag.clone().filter(|tag| !tag.starts_with("W/")),
            // Without a range, an object without bytes can be read too, and one of a server that sends no parts.
            range: (!whole).then(|| GetRange::Bounded(range.clone())),
            ..GetOptions::default()
        };
        let changed = |how: &str| {
            let reason = format!("it changed while it was read: {how}; all passes must read the same records");
            Failure::Final(io::Error::new(io::ErrorKind::InvalidData, reason))
        };
        let found = self.at.store.get_opts(&self.at.key, options).await.map_err(|error| match &error {
            StoreError::Precondition { .. } => changed("its tag is another one"),
            StoreError::NotFound { .. } => changed("it was removed"),
            StoreError::Generic { source, .. } if source.to_string().contains("non-partial") => {
                let reason = "the server should send parts of a file, but sends all of it: download it first";
                Failure::Final(io::Error::new(io::ErrorKind::Unsupported, reason))
            }
            StoreError::Generic { .. } => {
                let (place, size) = (range.start, self.meta.size);
                let reason = format!("at byte {place} of {size}: {}", explained(&error));
                Failure::Final(io::Error::new(io::ErrorKind::ConnectionAborted, reason))
            }
            error => Failure::Final(explained(error)),
        })?;
        if let Some(how) = self.difference(&found.meta) {
            return Err(changed(&how));
        }
        let wanted = bytes.len() as u64 + (range.end - range.start);
        let mut stream = found.into_stream();
        loop {
            match stream.try_next().await {
                Ok(Some(piece)) => bytes.extend_from_slice(&piece),
                Ok(None) => break,
                Err(error) => return Err(Failure::Cut(explained(&error).to_string())),
            }
            if bytes.len() as u64 > wanted {
                return Err(changed("the store sent more than was asked for"));
            }
        }
        match bytes.len() as u64 == wanted {
            true => Ok(()),
            false => Err(Failure::Cut("the answer ended too early".into())),
        }
    }
}

/// What is directly under a prefix: the names of objects, and those of further prefixes with a `/` at their end, in the order
/// of their bytes.
pub(crate) fn list(path: &Path) -> Result<Vec<String>> {
    let at = Location::of(path)?;
    if at.is_web {
        let reason = "should be a file, as the files of a web server cannot be listed, but is a folder or is not there";
        return Err(Error::Malformed { place: at.place, reason: reason.into() });
    }
    let (store, key) = (at.store.clone(), at.key.clone());
    let found = wait(async move { store.list_with_delimiter(Some(&key)).await });
    let found = found.map_err(|reason| Error::io(path, reason))?;
    let found = found.map_err(|error| Error::io(path, explained(&error)))?;
    let objects = found.objects.iter().filter_map(|meta| meta.location.filename().map(str::to_owned));
    let prefixes = found.common_prefixes.iter().filter_map(|key| Some(format!("{}/", key.filename()?)));
    let mut names: Vec<String> = objects.chain(prefixes).collect();
    names.sort_unstable();
    Ok(names)
}

/// What a store's error means, in words.
pub(super) fn explained(error: &StoreError) -> io::Error {
    use io::ErrorKind::{NotFound, Other, PermissionDenied};
    // The innermost error has the reason; those around it repeat the address.
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    let inner = inner.to_string();
    match error {
        _ if inner.contains("<Code>NoSuchBucket</Code>") => io::Error::new(NotFound, "there is no such bucket"),
        StoreError::NotFound { .. } => io::Error::new(NotFound, "there is no such object"),
        StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => {
            let reason = "the store denies access: the credentials in the environment are wrong, or do not allow it (S3 also \
                          says so of an object that does not exist, if it may not be listed)";
            io::Error::new(PermissionDenied, reason)
        }
        // The answer of a store is XML with a message.
        _ => {
            let message = inner.split_once("<Message>").and_then(|(_, rest)| rest.split_once("</Message>"));
            io::Error::new(Other, message.map_or(inner.clone(), |(message, _)| message.to_owned()))
        }
    }
}
