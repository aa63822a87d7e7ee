//! Policy files. For any bytes the reader gives a value or an error, and does not panic.

#![no_main]

mod file;

use libfuzzer_sys::fuzz_target;
use surefoot_data::read_policy;

fuzz_target!(|bytes: &[u8]| {
    drop(read_policy(&file::written("policy.safetensors", bytes)));
});
