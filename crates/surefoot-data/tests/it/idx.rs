//! Reading folders of idx files: what is understood, and the text of every error.

use crate::common::{Folder, contents, gz, idx};
use surefoot_data::load;

const FILES: [&str; 4] =
    ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"];

/// Small images such as MNIST's: three of 28 x 28 for training, two for testing, mostly black.
fn files() -> [Vec<u8>; 4] {
    let image = |seed: usize| (0..784).map(move |i| if i % 9 == seed { (31 * i % 256) as u8 } else { 0 });
    [
        idx(&[3, 28, 28], &(0..3).flat_map(image).collect::<Vec<u8>>()),
        idx(&[3], &[5, 0, 4]),
        idx(&[2, 28, 28], &(5..7).flat_map(image).collect::<Vec<u8>>()),
        idx(&[2], &[7, 2]),
    ]
}

/// A folder with the four files, one of them replaced.
fn folder_but(file: &str, bytes: &[u8]) -> Folder {
    let folder = Folder::new();
    for (name, content) in FILES.into_iter().zip(files()) {
        if !file.starts_with(name) {
            folder.write(name, content);
        }
    }
    folder.write(file, bytes);
    folder
}

#[test]
fn plain_and_gzipped_files_under_all_their_names_give_the_same_data() {
    let mut seen = Vec::new();
    for (dotted, packed) in [(false, false), (false, true), (true, false), (true, true)] {
        let folder = Folder::new();
        for (name, content) in FILES.into_iter().zip(files()) {
            let name = if dotted { name.replace("-idx", ".idx") } else { name.to_owned() };
            if packed {
                folder.write(&format!("{name}.gz"), gz(&content));
            } else {
                folder.write(&name, content);
            }
        }
        let set = load(folder.path()).unwrap();
        assert_eq!(set.name(), folder.path().file_name().unwrap().to_str().unwrap());
        assert_eq!((set.train().len(), set.test().len(), set.classes()), (3, 2, 8));
        assert!(set.train().contexts().is_sparse());
        seen.push(contents(&set));
    }
    assert!(seen.iter().all(|other| *other == seen[0]));
    let [(rows, labels), _] = &seen[0];
    assert_eq!(labels, &[5, 0, 4]);
    assert_eq!((rows[1][0], rows[1][1], rows[1][10]), (0.0, 31.0 / 255.0, 54.0 / 255.0));
}

#[test]
fn missing_files_are_all_named() {
    let folder = Folder::new();
    folder.write("train-images.idx3-ubyte.gz", gz(&files()[0]));
    folder.write("t10k-labels-idx1-ubyte", &files()[3]);
    let text = load(folder.path()).unwrap_err().to_string();
    assert_eq!(
        text,
        format!(
            "{}: no train-labels-idx1-ubyte, t10k-images-idx3-ubyte (each may also be gzipped, as .gz, or have '.idx' \
             for '-idx' in its name)",
            folder.path().display()
        )
    );
}

/// The error that one replaced file gives.
fn error_of(file: &str, bytes: &[u8]) -> String {
    folder_but(file, bytes).error("")
}

#[test]
fn a_wrong_magic_number_is_shown() {
    assert_eq!(
        error_of(FILES[2], &idx(&[2], &[7, 2])),
        "t10k-images-idx3-ubyte: the magic number, bytes 0 to 3, should be 00 00 08 03, unsigned bytes in 3 \
         dimensions, but is 00 00 08 01"
    );
    assert_eq!(
        error_of(FILES[1], &[0, 0, 0x0d, 1, 0, 0, 0, 0]),
        "train-labels-idx1-ubyte: the magic number, bytes 0 to 3, should be 00 00 08 01, unsigned bytes in 1 \
         dimension, but is 00 00 0d 01"
    );
}

#[test]
fn truncated_and_overlong_files_are_counted() {
    assert_eq!(
        error_of(FILES[0], &files()[0][..10]),
        "train-images-idx3-ubyte: should have 16 bytes, as its header says, but ends after 10"
    );
    assert_eq!(
        error_of(FILES[0], &files()[0][..100]),
        "train-images-idx3-ubyte: should have 2368 bytes, as its header says, but ends after 100"
    );
    let packed = "train-images-idx3-ubyte.gz";
    assert_eq!(
        error_of(packed, &gz(&files()[0][..2360])),
        "train-images-idx3-ubyte.gz: should have 2368 bytes, as its header says, but ends after 2360"
    );
    let longer = [&files()[0][..], &[0]].concat();
    let more = "should have 2368 bytes, as its header says, but has more";
    assert_eq!(error_of(FILES[0], &longer), format!("train-images-idx3-ubyte: {more}"));
    assert_eq!(error_of(packed, &gz(&longer)), format!("{packed}: {more}"));
}

#[test]
fn sizes_that_the_file_cannot_hold_are_refused_before_memory_is_taken() {
    let huge = idx(&[u32::MAX, u32::MAX, u32::MAX], &[]);
    assert_eq!(
        error_of(FILES[0], &huge),
        "train-images-idx3-ubyte: the shape should be what memory and a file of 16 bytes can hold, but is (4294967295, \
         4294967295, 4294967295)"
    );
    let text = error_of("t10k-images-idx3-ubyte.gz", &gz(&huge));
    assert!(text.contains("the shape should be what memory and a file of"), "{text}");
}

#[test]
fn broken_gzip_is_told_apart_from_a_short_file() {
    let name = "t10k-labels-idx1-ubyte.gz";
    let start = format!("{name}: not a readable gzip stream: ");
    let whole = gz(&files()[3]);
    let mut wrong_sum = whole.clone();
    wrong_sum[whole.len() - 5] ^= 1;
    for broken in [&b"no gzip"[..], &whole[..whole.len() - 9], &wrong_sum] {
        let text = error_of(name, broken);
        assert!(text.starts_with(&start), "{text}");
    }
}

#[test]
fn labels_must_be_as_many_as_images() {
    let folder = folder_but(FILES[3], &idx(&[3], &[7, 2, 1]));
    assert_eq!(
        folder.error(""),
        "t10k-labels-idx1-ubyte: the shape should be (2,), one label for each image of t10k-images-idx3-ubyte, but is \
         (3,)"
    );
}

#[test]
fn images_that_make_no_data_set_are_refused_by_the_core() {
    let text = error_of(FILES[2], &idx(&[2, 28, 0], &[]));
    assert_eq!(text, "t10k-images-idx3-ubyte: the number of features should be from 1 to 4294967295, but is 0");
    let text = error_of(FILES[2], &idx(&[2, 4, 7], &[0; 56]));
    assert!(text.ends_with(": the test split should have 784 features, as the training split, but has 28"), "{text}");
}

#[test]
fn no_single_changed_byte_and_no_cut_makes_it_panic() {
    let plain = idx(&[2, 3, 1], &[1, 2, 3, 4, 5, 6]);
    for (name, file) in [(FILES[0].to_owned(), plain.clone()), (format!("{}.gz", FILES[0]), gz(&plain))] {
        let folder = folder_but(&name, &[]);
        for i in 0..file.len() {
            for change in [1, 0x10, 0x80, 0xff] {
                let mut broken = file.clone();
                broken[i] ^= change;
                folder.write(&name, broken);
                let _ = load(folder.path());
            }
            folder.write(&name, &file[..i]);
            assert!(load(folder.path()).is_err());
        }
    }
}
