//! The files of a learned policy, which appear together or not at all.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use surefoot::Logs;

use crate::certificate_file::stage_certificates;
use crate::error::Result;
use crate::files::{Together, check_output};
use crate::learn::Learned;
use crate::policy_file::stage_policy;
use crate::run_folder::{fill_learned, stage_folder};

/// The file of the certificates of a policy: for `next.safetensors`, it is `next.certificates.json`.
pub fn certificates_path(policy: &Path) -> PathBuf {
    let stem = match policy.extension() {
        Some(end) if end == "safetensors" => policy.with_extension(""),
        _ => policy.to_owned(),
    };
    let mut name = OsString::from(stem);
    name.push(".certificates.json");
    name.into()
}

/// Checks that the files of a learned policy can be written. Call it before the work.
pub fn check_learned_to(policy: &Path) -> Result<()> {
    check_output(policy)?;
    check_output(&certificates_path(policy))
}

/// Writes a learned policy, with its basis and its certificates beside it, and the whole run to a new folder if one is
/// given. Either all files are new, or none is.
pub fn write_learned_to(policy: &Path, learned: &Learned, run: Option<(&Path, &[Logs])>) -> Result<()> {
    let mut together = Together::default();
    if let Some((folder, logs)) = run {
        stage_folder(&mut together, folder, |folder| fill_learned(folder, learned, logs))?;
    }
    stage_certificates(&mut together, &certificates_path(policy), learned.statements())?;
    stage_policy(&mut together, policy, &learned.policy, Some(&learned.inputs))?;
    together.commit()
}
