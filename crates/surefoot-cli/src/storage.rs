//! The memory that a command may take, and where it stores encoded records.

use std::path::PathBuf;

use clap::Args;
use surefoot_data::Storage;

/// The memory of a command, and its cache.
#[derive(Debug, Clone, Args)]
pub(crate) struct StorageFlags {
    /// Memory that the command may take, such as 500MB or 8GB. Encoded records that need more than a third of it are stored
    /// in files, in --cache or in the folder of temporary files; the result is the same, bit for bit
    #[arg(long, value_name = "SIZE", default_value = "2GB", value_parser = size, help_heading = "Memory")]
    memory: u64,
    /// Folder in which encoded records are kept, and used again as long as the log files and the settings of features are the
    /// same. Whoever can read it can read the features of every record
    #[arg(long, value_name = "FOLDER", help_heading = "Memory")]
    cache: Option<PathBuf>,
}

impl StorageFlags {
    pub(crate) fn storage(&self) -> Storage {
        Storage { memory: Some(self.memory), cache: self.cache.clone() }
    }
}

/// Parses a size: a number, and a unit.
fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 8] = [
        ("TiB", (1u64 << 40) as f64),
        ("GiB", (1u64 << 30) as f64),
        ("MiB", (1u64 << 20) as f64),
        ("TB", 1e12),
        ("GB", 1e9),
        ("MB", 1e6),
        ("kB", 1e3),
        ("B", 1.0),
    ];
    let bad = || format!("should be a number and a unit, such as 500MB, 2GB or 1.5GiB, but is {text}");
    let (unit, bytes) = UNITS.into_iter().find(|(unit, _)| text.ends_with(unit)).ok_or_else(bad)?;
    let number: f64 = text[..text.len() - unit.len()].trim().parse().map_err(|_| bad())?;
    let bytes = number * bytes;
    if !(1e6..=1e18).contains(&bytes) {
        return Err(format!("should be from 1MB to 1000000TB, but is {text}"));
    }
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("2GB"), Ok(2_000_000_000));
        assert_eq!(size("1.5GiB"), Ok(3 << 29));
        assert_eq!(size("500 MB"), Ok(500_000_000));
        for bad in ["2", "GB", "-1GB", "2gb", "1kB", "NaNGB"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
