//! Data sets as `.npz`. For any bytes the reader gives a value or an error, and does not panic.

#![no_main]

mod file;

use libfuzzer_sys::fuzz_target;
use surefoot_data::load;

fuzz_target!(|bytes: &[u8]| {
    drop(load(&file::written("set.npz", bytes)));
});
