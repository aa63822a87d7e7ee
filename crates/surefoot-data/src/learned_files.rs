//! The files of a learned policy, which appear together or not at all.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use surefoot::{Logs, Policy};

use crate::certificate_file::{Certificates, stage_certificates};
use crate::error::{Error, Result};
use crate::files::{Together, check_output};
use crate::inputs::Inputs;
use crate::learn::Learned;
use crate::mixture_file::is_mixture;
use crate::policy_file::stage_policy;
use crate::run_folder::{fill_learned, stage_folder};
use crate::table::Format;

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

/// Checks that the files of a learned policy can be written. Call it before the work. A policy with the name of a log
/// or of a mixture would be read as one.
pub fn check_learned_to(policy: &Path) -> Result<()> {
    let taken = match Format::of(policy) {
        Ok(_) => Some("a log file"),
        Err(_) => is_mixture(policy).then_some("a mixture"),
    };
    if let Some(other) = taken {
        let reason = format!("the name of a policy should end in .safetensors, but ends as that of {other}");
        return Err(Error::Malformed { place: policy.display().to_string(), reason });
    }
    check_output(policy)?;
    check_output(&certificates_path(policy))
}

/// Writes a policy, with its basis and its certificates beside it. Either all files are new, or none is.
pub fn write_certified(
    path: &Path,
    policy: &dyn Policy,
    inputs: Option<&Inputs>,
    certificates: Certificates,
) -> Result<()> {
    let mut together = Together::default();
    stage_certified(&mut together, path, policy, inputs, certificates)?;
    together.commit()
}

fn stage_certified(
    together: &mut Together,
    path: &Path,
    policy: &dyn Policy,
    inputs: Option<&Inputs>,
    certificates: Certificates,
) -> Result<()> {
    stage_certificates(together, &certificates_path(path), certificates)?;
    stage_policy(together, path, policy, inputs)
}

/// Writes a learned policy, with its basis and its certificates beside it, and the whole run to a new folder if one is
/// given. Either all files are new, or none is.
pub fn write_learned_to(policy: &Path, learned: &Learned, run: Option<(&Path, &[Logs])>) -> Result<()> {
    let mut together = Together::default();
    if let Some((folder, logs)) = run {
        stage_folder(&mut together, folder, |folder| fill_learned(folder, learned, logs))?;
    }
    stage_certified(&mut together, policy, learned.policy.as_ref(), Some(&learned.inputs), learned.certificates())?;
    together.commit()
}
