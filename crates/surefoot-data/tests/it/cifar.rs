//! Reading CIFAR's binary files and EMNIST's names: what is understood, and the text of every error.

use std::fs;

use crate::common::{Folder, contents, gz, idx};
use surefoot_data::load;

/// A record: its labels, and an image whose planes are of one colour each, the first pixel apart.
fn record(labels: &[u8], [red, green, blue]: [u8; 3]) -> Vec<u8> {
    let mut bytes = labels.to_vec();
    for colour in [red, green, blue] {
        bytes.push(labels[labels.len() - 1]);
        bytes.extend([colour; 1023]);
    }
    bytes
}

/// CIFAR-100's two files: three records and two.
fn hundred() -> [(&'static str, Vec<u8>); 2] {
    [
        (
            "train.bin",
            [record(&[0, 7], [1, 2, 3]), record(&[19, 99], [0, 0, 0]), record(&[4, 0], [9, 8, 255])].concat(),
        ),
        ("test.bin", [record(&[1, 3], [5, 5, 5]), record(&[2, 98], [6, 0, 6])].concat()),
    ]
}

/// CIFAR-10's six files, of one record each but the last, which has two.
fn ten() -> Vec<(String, Vec<u8>)> {
    let batch = |i: u8| (format!("data_batch_{i}.bin"), record(&[10 - i], [i, 0, i]));
    let test = ("test_batch.bin".into(), [record(&[0], [1, 1, 1]), record(&[9], [2, 2, 2])].concat());
    (1..=5).map(batch).chain([test]).collect()
}

fn folder_of<N: AsRef<str>>(files: &[(N, Vec<u8>)]) -> Folder {
    let folder = Folder::new();
    for (name, bytes) in files {
        folder.write(name.as_ref(), bytes);
    }
    folder
}

/// The error of CIFAR-100's files, one of them replaced.
fn error_of(file: &str, bytes: &[u8]) -> String {
    let folder = folder_of(&hundred());
    let _ = fs::remove_file(folder.path().join(file.trim_end_matches(".gz")));
    folder.write(file, bytes);
    folder.error("")
}

#[test]
fn the_fine_labels_and_all_planes_of_cifar_100_are_read() {
    let folder = folder_of(&hundred());
    let set = load(folder.path()).unwrap();
    assert_eq!(set.name(), folder.path().file_name().unwrap().to_str().unwrap());
    assert_eq!((set.classes(), set.train().contexts().features()), (100, 3072));
    let [(rows, labels), (_, tested)] = contents(&set);
    assert_eq!((&labels[..], &tested[..]), (&[7, 99, 0][..], &[3, 98][..]));
    let planes = |row: &[f32]| [0, 1023, 1024, 2047, 2048, 3071].map(|i| (row[i] * 255.0).round() as u8);
    assert_eq!(planes(&rows[0]), [7, 1, 7, 2, 7, 3]);
    assert_eq!(planes(&rows[2]), [0, 9, 0, 8, 0, 255]);
    assert_eq!((rows[2][3071], rows[0][1]), (1.0, 1.0 / 255.0));
}

#[test]
fn the_batches_of_cifar_10_are_one_split_in_their_order() {
    let set = load(folder_of(&ten()).path()).unwrap();
    assert_eq!((set.train().len(), set.test().len(), set.classes()), (5, 2, 10));
    let [(rows, labels), (_, tested)] = contents(&set);
    assert_eq!((&labels[..], &tested[..]), (&[9, 8, 7, 6, 5][..], &[0, 9][..]));
    assert_eq!(rows.iter().map(|row| (row[1] * 255.0).round()).collect::<Vec<_>>(), [1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn gzipped_files_and_those_in_the_folder_of_the_archive_give_the_same_data() {
    let plain = contents(&load(folder_of(&hundred()).path()).unwrap());
    let packed = hundred().map(|(name, bytes)| (format!("{name}.gz"), gz(&bytes)));
    assert_eq!(contents(&load(folder_of(&packed).path()).unwrap()), plain);
    let inner = |name: &str, files: &[(String, Vec<u8>)]| {
        let folder = Folder::new();
        fs::create_dir(folder.path().join(name)).unwrap();
        files.iter().for_each(|(file, bytes)| drop(folder.write(&format!("{name}/{file}"), bytes)));
        contents(&load(folder.path()).unwrap())
    };
    assert_eq!(inner("cifar-100-binary", &packed), plain);
    assert_eq!(inner("cifar-10-batches-bin", &ten()), contents(&load(folder_of(&ten()).path()).unwrap()));
}

#[test]
fn more_records_than_are_read_at_once_are_counted_through() {
    let many: Vec<u8> = (0..50).flat_map(|i| record(&[0, i], [i, 0, 0])).collect();
    let folder = folder_of(&[("train.bin", many.clone()), ("test.bin", many.clone())]);
    let set = load(folder.path()).unwrap();
    assert_eq!(set.train().labels(), (0..50).collect::<Vec<u32>>());
    let mut wrong = many;
    wrong[45 * 3074 + 1] = 100;
    assert_eq!(error_of("test.bin", &wrong), "test.bin: record 45: the fine label should be from 0 to 99, but is 100");
}

#[test]
fn labels_out_of_range_are_named_with_their_record() {
    let mut bytes = hundred()[0].1.clone();
    bytes[3074] = 20;
    let coarse = "train.bin: record 1: the coarse label should be from 0 to 19, but is 20";
    assert_eq!(error_of("train.bin", &bytes), coarse);
    assert_eq!(error_of("train.bin.gz", &gz(&bytes)), coarse.replace(".bin", ".bin.gz"));
    let mut files = ten();
    files[2].1[0] = 10;
    assert_eq!(folder_of(&files).error(""), "data_batch_3.bin: record 0: the label should be from 0 to 9, but is 10");
}

#[test]
fn files_that_are_empty_or_end_within_a_record_are_refused() {
    let whole = &hundred()[1].1;
    let should = "should be records of 3074 bytes, at least one, but";
    for (file, packed) in [("test.bin", false), ("test.bin.gz", true)] {
        let error = |bytes: &[u8]| error_of(file, &if packed { gz(bytes) } else { bytes.to_vec() });
        assert_eq!(error(&[]), format!("{file}: {should} is empty"));
        assert_eq!(error(&whole[..3073]), format!("{file}: {should} ends after 3073 bytes of record 0"));
        assert_eq!(error(&[&whole[..], &[0]].concat()), format!("{file}: {should} ends after 1 bytes of record 2"));
    }
    let text = error_of("test.bin.gz", &gz(whole)[..40]);
    assert!(text.starts_with("test.bin.gz: not a readable gzip stream: "), "{text}");
}

#[test]
fn missing_files_are_all_named() {
    let mut files = ten();
    files.remove(5);
    files.remove(1);
    let folder = folder_of(&files);
    assert_eq!(
        load(folder.path()).unwrap_err().to_string(),
        format!("{}: no data_batch_2.bin, test_batch.bin (each may also be gzipped, as .gz)", folder.path().display())
    );
}

#[test]
fn a_folder_without_any_known_file_is_told_what_would_be_understood() {
    let folder = Folder::new();
    folder.write("notes.txt", "none");
    assert_eq!(
        load(folder.path()).unwrap_err().to_string(),
        format!(
            "{}: should be a folder with the idx files of MNIST (train-images-idx3-ubyte, ...) or those of EMNIST \
             Balanced (emnist-balanced-train-images-idx3-ubyte, ...) or the binary files of CIFAR-100 (train.bin, ...) \
             or those of CIFAR-10 (data_batch_1.bin, ...), but has none of these",
            folder.path().display()
        )
    );
}

#[test]
fn no_single_changed_byte_and_no_cut_makes_it_panic() {
    let [(train, plain), test] = hundred();
    for (name, file) in [(train.to_owned(), plain.clone()), (format!("{train}.gz"), gz(&plain))] {
        let folder = folder_of(std::slice::from_ref(&test));
        // Pixels are all alike: the first ones of a record stand for the rest.
        let tried = |i: &usize| name.ends_with(".gz") || i % 3074 < 4;
        for i in (0..file.len()).filter(tried) {
            for change in [1, 0x10, 0x80, 0xff] {
                let mut broken = file.clone();
                broken[i] ^= change;
                folder.write(&name, broken);
                let _ = load(folder.path());
            }
            folder.write(&name, &file[..i]);
            assert_eq!(load(folder.path()).is_err(), i == 0 || i % 3074 != 0 || name.ends_with(".gz"), "{i}");
        }
    }
}

#[test]
fn emnist_is_found_under_its_own_names_and_taken_as_it_is() {
    let files = [
        ("emnist-balanced-train-images-idx3-ubyte", idx(&[2, 2, 2], &[0, 255, 51, 0, 0, 0, 0, 255])),
        ("emnist-balanced-train-labels-idx1-ubyte", idx(&[2], &[46, 0])),
        ("emnist-balanced-test-images-idx3-ubyte", idx(&[1, 2, 2], &[255, 0, 0, 0])),
        ("emnist-balanced-test-labels-idx1-ubyte", idx(&[1], &[3])),
    ];
    let set = load(folder_of(&files).path()).unwrap();
    assert_eq!(set.classes(), 47);
    let plain = contents(&set);
    assert_eq!(plain[0], (vec![vec![0.0, 1.0, 0.2, 0.0], vec![0.0, 0.0, 0.0, 1.0]], vec![46, 0]));
    let packed = files.each_ref().map(|(name, bytes)| (format!("{name}.gz"), gz(bytes)));
    assert_eq!(contents(&load(folder_of(&packed).path()).unwrap()), plain);
    let text = folder_of(&files[..3]).error("");
    assert!(text.contains(": no emnist-balanced-test-labels-idx1-ubyte (each may also"), "{text}");
}
