//! Whatever the bytes are: batches or an error, no panic, and no more rows in a batch than there may be.

#![no_main]

use libfuzzer_sys::fuzz_target;
use surefoot_data::{Format, ROWS, read_table_bytes};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(tables) = read_table_bytes("fuzz", bytes.to_vec(), Format::Parquet) {
        for table in tables {
            assert!(table.is_err() || table.is_ok_and(|table| table.num_rows() <= ROWS));
        }
    }
});
