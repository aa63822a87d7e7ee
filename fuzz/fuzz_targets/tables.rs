//! The readers of all log formats. For any bytes they give batches of at most `ROWS` rows or an error, and they do not
//! panic.
//!
//! The first byte chooses the format, by its place among the sorted names: `make fuzz` numbers the folders of the seeds
//! in the same way. `serde_json` also reads every line that is read as JSON lines.

#![no_main]

use libfuzzer_sys::fuzz_target;
use surefoot_data::{Format, ROWS, read_table_bytes};

fuzz_target!(
    // The hook of libfuzzer-sys aborts before a panic of a library can be caught. One that is not caught still aborts.
    init: std::panic::set_hook(Box::new(|_| ())),
    |bytes: &[u8]| {
        let Some((&first, bytes)) = bytes.split_first() else { return };
        let mut formats = Format::ALL;
        formats.sort_by_key(|format| format.name());
        let format = formats[usize::from(first) % formats.len()];
        let Ok(tables) = read_table_bytes("fuzz", bytes.to_vec(), format) else { return };
        let (mut rows, mut failed) = (0, false);
        for table in tables {
            match table {
                Ok(table) => {
                    assert!(table.num_rows() <= ROWS);
                    rows += table.num_rows();
                }
                Err(_) => failed = true,
            }
        }
        if format == Format::JsonLines && !failed {
            compare(bytes, rows);
        }
    }
);

/// Checks that `serde_json` reads as many lines.
fn compare(bytes: &[u8], rows: usize) {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.iter().all(|byte| b" \t\r".contains(byte)));
    let mut others = 0;
    for line in lines {
        others += 1;
        match serde_json::from_slice::<serde_json::Value>(line) {
            Ok(value) => assert!(value.is_object()),
            // An integer of 400 digits is read as text.
            Err(error) => assert!(error.to_string().starts_with("number out of range"), "{error}"),
        }
    }
    assert_eq!(rows, others);
}
