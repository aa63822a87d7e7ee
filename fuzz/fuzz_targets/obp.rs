//! Whatever the bytes are: batches or an error, no panic that is not caught, and no more rows in a batch than there may be.

#![no_main]

use libfuzzer_sys::fuzz_target;
use surefoot_data::{Format, ROWS, read_table_bytes};

fuzz_target!(
    // The hook of libfuzzer-sys aborts before a panic can be caught; one that is not caught still aborts.
    init: std::panic::set_hook(Box::new(|_| ())),
    |bytes: &[u8]| {
        if let Ok(tables) = read_table_bytes("fuzz", bytes.to_vec(), Format::Obp) {
            for table in tables {
                assert!(table.is_err() || table.is_ok_and(|table| table.num_rows() <= ROWS));
            }
        }
    }
);
