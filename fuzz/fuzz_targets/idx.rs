//! Data sets in the idx format: the images; the labels are right. For any bytes the reader gives a value or an error, and does not panic.

#![no_main]

mod file;

use libfuzzer_sys::fuzz_target;
use surefoot_data::load;

fuzz_target!(|bytes: &[u8]| {
    // Two labels in each split.
    let labels = [0, 0, 8, 1, 0, 0, 0, 2, 0, 1];
    for split in ["train", "t10k"] {
        file::written(&format!("idx/{split}-labels-idx1-ubyte"), &labels);
        file::written(&format!("idx/{split}-images-idx3-ubyte"), bytes);
    }
    drop(load(&file::written("idx/read", b"").with_file_name("")));
});
