//! Passes of a search that are kept in files, so that an interrupted search goes on where it was.
//!
//! A search is a function of its settings and of the sums of each pass. So it is started again from the beginning, and finds the
//! sums of its first passes in the files: it comes to the point at which it was interrupted in no time, with the same bits.

use std::fs;
use std::path::PathBuf;

use surefoot::Fingerprint;
use surefoot::logs::Journal;

use crate::files::replace;

/// A folder with one file per pass, named by everything that decides about its result.
#[derive(Debug)]
pub(crate) struct PassFiles(PathBuf);

impl PassFiles {
    /// The folder is made when there is something to keep.
    pub(crate) fn new(folder: PathBuf) -> Self {
        PassFiles(folder)
    }
}

/// The number of bytes of a digest.
const DIGEST: usize = 64;

impl Journal for PassFiles {
    fn find(&self, name: Fingerprint) -> Option<Vec<u8>> {
        let mut bytes = fs::read(self.0.join(name.to_string())).ok()?;
        let result = bytes.split_off(DIGEST.min(bytes.len()));
        (bytes == Fingerprint::of_bytes(&result).to_string().as_bytes()).then_some(result)
    }

    fn keep(&self, name: Fingerprint, result: &[u8]) {
        if fs::create_dir_all(&self.0).is_err() {
            return;
        }
        let bytes = [Fingerprint::of_bytes(result).to_string().as_bytes(), result].concat();
        // A pass that could not be kept is made again.
        let _ = replace(&self.0.join(name.to_string()), &bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_found_as_it_was_kept_and_not_if_somebody_changed_it() {
        let folder = tempfile::tempdir().unwrap();
        let (files, name) = (PassFiles::new(folder.path().join("passes")), Fingerprint::of_bytes(b"a pass"));
        assert_eq!(files.find(name), None);
        files.keep(name, &[1, 2, 3]);
        assert_eq!(files.find(name), Some(vec![1, 2, 3]));
        let path = folder.path().join("passes").join(name.to_string());
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() += 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!(files.find(name), None);
        fs::write(&path, b"short").unwrap();
        assert_eq!(files.find(name), None);
    }
}
