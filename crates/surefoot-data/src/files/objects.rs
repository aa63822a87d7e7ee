//! Objects of a store that are written together with files.
//!
//! Their content is in temporary files until everything else is in place. Then they are sent, in order, so that the object that
//! names the others comes last. If one cannot be written, those that were sent get back what was there before.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::temporaries;
use crate::error::{Error, Result};
use crate::stores::{self, Object};

/// An object to be written.
pub(super) struct Outgoing {
    pub(super) path: PathBuf,
    pub(super) content: File,
}

/// An object that was sent, or that is being sent.
pub(super) struct Sent {
    path: PathBuf,
    before: Before,
}

/// What was there before.
enum Before {
    Absent,
    Content(File),
    /// Something, of which no copy was made.
    Kept,
}

/// Sends all objects, while an interrupt has to wait. `last` says whether nothing that can fail follows.
pub(super) fn send(objects: Vec<Outgoing>, last: bool, sent: &mut Vec<Sent>) -> Result<()> {
    let count = objects.len();
    let before: Vec<Before> = (objects.iter().enumerate())
        .map(|(i, object)| before(&object.path, last && i + 1 == count))
        .collect::<Result<_>>()?;
    if count == 0 {
        return Ok(());
    }
    let _all = temporaries();
    for (Outgoing { path, content }, before) in objects.into_iter().zip(before) {
        // It may have arrived although the answer says that it has not.
        sent.push(Sent { path: path.clone(), before });
        stores::put(&path, &content)?;
    }
    Ok(())
}

/// What is there now. A copy is not needed of what is replaced last: an object is replaced as a whole or not at all.
fn before(path: &Path, last: bool) -> Result<Before> {
    match Object::find(path)? {
        None => Ok(Before::Absent),
        Some(_) if last => Ok(Before::Kept),
        Some(object) => {
            let content = object.read()?;
            let copied = || {
                let mut file = tempfile::tempfile()?;
                file.write_all(&content)?;
                Ok(file)
            };
            let failed = |reason| Error::Write { place: path.display().to_string(), reason };
            copied().map(Before::Content).map_err(failed)
        }
    }
}

impl Sent {
    /// Restores what was there. The error that was the reason is reported, and none of this.
    pub(super) fn undo(&self) {
        match &self.before {
            Before::Absent => stores::remove(&self.path),
            Before::Content(content) => drop(stores::put(&self.path, content)),
            Before::Kept => {}
        }
    }
}

/// The files of a folder as objects under a prefix: first those of its folders, then its own, in the reverse order of their
/// names. So the certificates of a run come last.
pub(super) fn under(prefix: &Path, folder: &Path) -> io::Result<Vec<Outgoing>> {
    let (mut own, mut all) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = prefix.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => all.extend(under(&path, &entry.path())?),
            false => own.push(Outgoing { path, content: File::open(entry.path())? }),
        }
    }
    own.sort_by(|a, b| b.path.cmp(&a.path));
    all.extend(own);
    Ok(all)
}
