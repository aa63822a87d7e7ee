//! The same numbers as Open Bandit Pipeline, on the sample of the Open Bandit Dataset that its package carries.
//!
//! `make test` installs the package where it can be had; otherwise this says that it is skipped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// A Python that has the package.
fn python() -> Option<PathBuf> {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv-obp/bin/python");
    let python = env::var_os("SUREFOOT_OBP_PYTHON").map_or(installed, PathBuf::from);
    python.exists().then_some(python)
}

#[test]
fn every_estimate_is_that_of_open_bandit_pipeline() {
    let Some(python) = python() else {
        eprintln!("SKIPPED: no obp==0.5.7 in .venv-obp; make test installs it where the package index can be reached");
        return;
    };
    let folder = env::temp_dir().join(format!("surefoot-obp-{}", std::process::id()));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/obp/values.py");
    let made = Command::new(python).arg(script).arg(&folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let text = fs::read_to_string(folder.join("obp.json")).unwrap();
    let expected: BTreeMap<String, BTreeMap<String, f64>> = serde_json::from_str(&text).unwrap();
    assert_eq!(expected.len(), 6, "two policies on three campaigns");
    for (file, values) in &expected {
        let names: Vec<&str> = values.keys().map(String::as_str).collect();
        let found = Command::new(env!("CARGO_BIN_EXE_surefoot"))
            .arg("evaluate")
            .arg(folder.join(format!("{file}.csv")))
            .args(["--policy", "columns:pi_", "--model", "columns:r_", "--json", "--quiet", "--replicates", "0"])
            .args(["--estimators", &names.join(",")])
            .output()
            .unwrap();
        assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
        let found: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
        assert_eq!(found["records"], 10_000);
        let estimates = found["policies"][0]["estimates"].as_array().unwrap();
        for ((name, expected), estimate) in values.iter().zip(estimates) {
            let value = estimate["value"].as_f64().unwrap();
            // Far below the 1e-6 that matter: both add up the same numbers.
            assert!((value - expected).abs() < 1e-12, "{file}, {name}: {value}, but the package says {expected}");
        }
    }
    fs::remove_dir_all(&folder).unwrap();
}
