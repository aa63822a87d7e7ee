//! POLICIES: the policies of a loop, one file each, named by their fingerprints. A file is never changed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use surefoot::{Fingerprint, Policy};
use surefoot_data::{Inputs, PolicyReader, write_policy_with};

use crate::error::{Error, Result};

/// What policies name, and share: a file of its own each.
const SHARED: [&str; 4] = ["basis-", "features-", "trees-", "softmax-"];

/// A policy with its fingerprint.
type Kept = (Fingerprint, Arc<dyn Policy>);

/// The folder of the policies of a loop.
#[derive(Debug, Clone)]
pub(crate) struct Policies {
    folder: PathBuf,
    /// Policies of one loop share features and bases, which are read once.
    reader: Arc<Mutex<PolicyReader>>,
    /// The policy that was last asked for by [`recent`](Self::recent).
    kept: Arc<Mutex<Option<Kept>>>,
    /// The policy that will decide next.
    prepared: Arc<Mutex<Option<Kept>>>,
}

impl Policies {
    /// Opens the folder, and creates it if it does not exist.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let failed = |reason| Error::System { place: folder.display().to_string(), reason };
        std::fs::create_dir_all(folder).map_err(failed)?;
        Ok(Policies { folder: folder.into(), reader: Arc::default(), kept: Arc::default(), prepared: Arc::default() })
    }

    /// Where the files are.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of a policy.
    pub(crate) fn path(&self, policy: Fingerprint) -> PathBuf {
        self.folder.join(format!("{policy}.safetensors"))
    }

    /// The kind and the fingerprint that the name of a file says: a policy has no kind, and what it names has one.
    pub(crate) fn names(name: &str) -> Option<(&str, Fingerprint)> {
        let name = name.strip_suffix(".safetensors").unwrap_or(name);
        let kind = SHARED.iter().find(|kind| name.starts_with(**kind)).unwrap_or(&"");
        Some((kind, name[kind.len()..].parse().ok()?))
    }

    /// Links the files of features and bases into another folder, where policies that name them are read.
    pub(crate) fn lend(&self, folder: &Path) -> Result<()> {
        let failed = |reason| Error::System { place: folder.display().to_string(), reason };
        for entry in std::fs::read_dir(&self.folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let to = folder.join(&*name);
            if Self::names(&name).is_some_and(|(kind, _)| !kind.is_empty()) && !to.exists() {
                std::fs::hard_link(&path, &to).or_else(|_| std::fs::copy(&path, &to).map(|_| ())).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// The file of this name: a fingerprint, or a kind and a fingerprint.
    pub(crate) fn file(&self, name: &str) -> Option<PathBuf> {
        let name = name.strip_suffix(".safetensors").unwrap_or(name);
        Self::names(name)?;
        let path = self.folder.join(format!("{name}.safetensors"));
        path.is_file().then_some(path)
    }

    /// Writes a policy, unless its file exists. It is on disk when this returns.
    pub(crate) fn write(&self, policy: &dyn Policy, inputs: &Inputs) -> Result<()> {
        let Some(print) = policy.identity() else {
            let reason = "a policy without a fingerprint cannot be stored".into();
            return Err(Error::Malformed { place: self.folder.display().to_string(), reason });
        };
        let path = self.path(print);
        if path.is_file() {
            return Ok(());
        }
        Ok(write_policy_with(&path, policy, Some(inputs))?)
    }

    /// A policy that is asked for again and again: it is read once.
    pub(crate) fn recent(&self, policy: Fingerprint) -> Result<Arc<dyn Policy>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((print, found)) = &*kept
            && *print == policy
        {
            return Ok(Arc::clone(found));
        }
        let found = self.read(policy)?;
        *kept = Some((policy, Arc::clone(&found)));
        Ok(found)
    }

    /// Reads the policy that will decide next. That takes long, so that the thread that decides should not do it.
    pub(crate) fn prepare(&self, policy: Fingerprint) -> Result<()> {
        let found = self.read(policy)?;
        *self.prepared.lock().unwrap_or_else(PoisonError::into_inner) = Some((policy, found));
        Ok(())
    }

    /// A policy that was [prepared](Self::prepare), or that is read now.
    pub(crate) fn prepared(&self, policy: Fingerprint) -> Result<Arc<dyn Policy>> {
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        match prepared.take_if(|(print, _)| *print == policy) {
            Some((_, found)) => Ok(found),
            None => {
                drop(prepared);
                self.read(policy)
            }
        }
    }

    /// Reads a policy. Its file is checked against its fingerprint.
    pub(crate) fn read(&self, policy: Fingerprint) -> Result<Arc<dyn Policy>> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let found = reader.read(&self.path(policy))?;
        match found.identity() == Some(policy) {
            true => Ok(found),
            false => Err(Error::Malformed {
                place: self.path(policy).display().to_string(),
                reason: "the file should hold the policy of its name, but holds another".into(),
            }),
        }
    }
}
