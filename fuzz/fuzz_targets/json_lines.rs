//! Whatever the bytes are: batches or an error, no panic. What is read, `serde_json` reads too, and as many lines.

#![no_main]

use libfuzzer_sys::fuzz_target;
use surefoot_data::{Format, ROWS, read_table_bytes};

fuzz_target!(|bytes: &[u8]| {
    let Ok(tables) = read_table_bytes("fuzz", bytes.to_vec(), Format::JsonLines) else { return };
    let mut rows = 0;
    for table in tables {
        let Ok(table) = table else { return };
        assert!(table.num_rows() <= ROWS);
        rows += table.num_rows();
    }
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.iter().all(|byte| b" \t\r".contains(byte)));
    let mut others = 0;
    for line in lines {
        others += 1;
        match serde_json::from_slice::<serde_json::Value>(line) {
            Ok(value) => assert!(value.is_object()),
            // An integer of 400 digits, which comes as text.
            Err(error) => assert!(error.to_string().starts_with("number out of range"), "{error}"),
        }
    }
    assert_eq!(rows, others);
});
