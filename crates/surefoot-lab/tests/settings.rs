//! Damaged files of settings: each is an error or valid settings, never a panic.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use surefoot_lab::Options;

const WHOLE: &str =
    "dataset = \"digits\"\nalgorithm = \"seq-adj-ls\"\nrounds = 10\nlambda = \"0.4\"\nseed = 1\ncertify = true\n";

const BYTES: &[u8] = b"0123456789-.=\"'[]{}\n\\#ex\x00\xff";

#[test]
fn damaged_settings_are_errors_or_valid_and_never_panics() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("damaged.toml");
    let read = || Options::default().with_file(Some(&path));
    fs::write(&path, WHOLE).unwrap();
    read().unwrap();
    let mut state = 1u64;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let cases: usize = std::env::var("SUREFOOT_MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(500);
    let mut errors = 0;
    for case in 0..cases {
        let mut bytes = WHOLE.as_bytes().to_vec();
        for _ in 0..1 + below(3) {
            let at = below(bytes.len().max(1)).min(bytes.len());
            let byte = BYTES[below(BYTES.len())];
            match below(4) {
                0 => bytes.truncate(at),
                1 if at < bytes.len() => bytes[at] = byte,
                2 if at < bytes.len() => drop(bytes.remove(at)),
                _ => bytes.insert(at, byte),
            }
        }
        fs::write(&path, &bytes).unwrap();
        match catch_unwind(read) {
            Ok(result) => errors += usize::from(result.is_err()),
            Err(_) => panic!("case {case} panics: {:?}", String::from_utf8_lossy(&bytes)),
        }
    }
    assert!(2 * errors > cases, "only {errors} of {cases} are errors");
}
