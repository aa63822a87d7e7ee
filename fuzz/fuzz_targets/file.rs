//! A file with the bytes of one case, for readers that take a path.

use std::path::{Path, PathBuf};

/// Writes the bytes to a file of this name, in a folder of this process, and returns its path.
pub fn written(name: &str, bytes: &[u8]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("surefoot-fuzz-{}", std::process::id()));
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).expect("a folder for the case");
    std::fs::write(&path, bytes).expect("the file of the case");
    path
}
