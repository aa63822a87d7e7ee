//! Files of settings (TOML). For any bytes the reader gives a value or an error, and does not panic.

#![no_main]

mod file;

use libfuzzer_sys::fuzz_target;
use surefoot_lab::Options;

fuzz_target!(|bytes: &[u8]| {
    drop(Options::default().with_file(Some(&file::written("settings.toml", bytes))));
});
