//! Reading `.npz` files: what is understood, and the text of every error.

use std::fs;

use crate::common::{Folder, bytes, contents, npy, npy_with_header, npz, npz_but};
use surefoot::Contexts;
use surefoot::contexts::Labelled;
use surefoot::worlds::Dataset;
use surefoot_data::{load, write_npz};

/// Items in little-endian and in big-endian order.
macro_rules! items {
    ($t:ty: $($v:expr),*) => {
        [
            [$(<$t>::to_le_bytes($v)),*].concat(),
            [$(<$t>::to_be_bytes($v)),*].concat(),
        ]
    };
}

fn rows_of(x_train: Vec<u8>) -> Vec<Vec<f32>> {
    let folder = Folder::new();
    let path = folder.write("set.npz", npz_but(&[("x_train", x_train)]));
    let [train, _] = contents(&load(&path).unwrap());
    train.0
}

#[test]
fn a_file_is_a_data_set_named_after_its_stem() {
    let folder = Folder::new();
    let set = load(&folder.write("my.set.npz", npz_but(&[]))).unwrap();
    assert_eq!((set.name(), set.classes()), ("my.set", 3));
    let [train, test] = contents(&set);
    assert_eq!(train, (vec![vec![1.0, 2.0], vec![3.0, 4.0], vec![5.0, 6.0]], vec![0, 1, 2]));
    assert_eq!(test, (vec![vec![7.0, 8.0], vec![9.0, 10.0]], vec![2, 0]));
}

#[test]
fn features_of_all_types_are_taken_as_they_are_in_both_byte_orders() {
    for (code, [little, big]) in [
        ("u1", items!(u8: 1, 2, 3, 0, 5, 255)),
        ("i1", items!(i8: 1, -2, 3, 0, 5, -128)),
        ("i2", items!(i16: 1, -2, 3, 0, 5, -32768)),
        ("f4", items!(f32: 1.0, -0.5, 3.0, 0.0, 5.0, 1e30)),
        ("f8", items!(f64: 1.0, -0.5, 3.0, 0.0, 5.0, 1e30)),
    ] {
        let last = match code {
            "u1" => 255.0,
            "i1" => -128.0,
            "i2" => -32768.0,
            _ => 1e30,
        };
        let second = match code {
            "u1" => 2.0,
            "i1" | "i2" => -2.0,
            _ => -0.5,
        };
        for (order, items) in [("<", little), (">", big)] {
            let rows = rows_of(npy(&format!("'{order}{code}'"), "False", "(3, 2)", &items));
            assert_eq!(rows, [[1.0, second], [3.0, 0.0], [5.0, last]], "{order}{code}");
        }
    }
}

#[test]
fn labels_may_be_of_any_integer_type() {
    let folder = Folder::new();
    for (code, [little, big]) in [
        ("u1", items!(u8: 0, 2, 1)),
        ("i1", items!(i8: 0, 2, 1)),
        ("u2", items!(u16: 0, 2, 1)),
        ("i2", items!(i16: 0, 2, 1)),
        ("u4", items!(u32: 0, 2, 1)),
        ("i4", items!(i32: 0, 2, 1)),
        ("u8", items!(u64: 0, 2, 1)),
        ("i8", items!(i64: 0, 2, 1)),
    ] {
        for (order, items) in [("<", little), (">", big)] {
            let labels = npy(&format!("'{order}{code}'"), "False", "(3,)", &items);
            let set = load(&folder.write("set.npz", npz_but(&[("y_train", labels)]))).unwrap();
            assert_eq!(set.train().labels(), [0, 2, 1], "{order}{code}");
        }
    }
}

#[test]
fn fortran_order_and_more_dimensions_give_the_same_rows() {
    // numpy's arange(12).reshape(3, 2, 2), whose rows are 0..4, 4..8 and 8..12.
    let c: Vec<u8> = (0..12).collect();
    let fortran = [0, 4, 8, 2, 6, 10, 1, 5, 9, 3, 7, 11];
    let x_test = bytes("(2, 4)", &[0; 8]);
    let folder = Folder::new();
    for (order, items) in [("False", &c[..]), ("True", &fortran)] {
        let x_train = npy("'|u1'", order, "(3, 2, 2)", items);
        let file = npz_but(&[("x_train", x_train), ("x_test", x_test.clone())]);
        let [train, _] = contents(&load(&folder.write("set.npz", file)).unwrap());
        let expected: Vec<Vec<f32>> = c.chunks(4).map(|row| row.iter().map(|&v| f32::from(v)).collect()).collect();
        assert_eq!(train.0, expected);
    }
    let two = npy("'|u1'", "True", "(3, 2)", &[1, 3, 5, 2, 4, 6]);
    assert_eq!(rows_of(two), [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    let [_, big] = items!(i16: 1, 3, 5, 2, 4, -6);
    assert_eq!(rows_of(npy("'>i2'", "True", "(3, 2)", &big)), [[1.0, 2.0], [3.0, 4.0], [5.0, -6.0]]);
}

#[test]
fn a_scale_multiplies_the_columns_of_both_splits() {
    let folder = Folder::new();
    for (code, [items, _]) in [("<f4", items!(f32: 0.5, 10.0)), ("<f8", items!(f64: 0.5, 10.0))] {
        let scale = npy(&format!("'{code}'"), "False", "(2,)", &items);
        let [train, test] = contents(&load(&folder.write("set.npz", npz_but(&[("scale", scale)]))).unwrap());
        assert_eq!(train.0, [[0.5, 20.0], [1.5, 40.0], [2.5, 60.0]]);
        assert_eq!(test.0, [[3.5, 80.0], [4.5, 100.0]]);
    }
}

#[test]
fn mostly_zero_features_come_in_sparse_form() {
    let folder = Folder::new();
    let mut items = [0; 12];
    items[5] = 1;
    let file = npz_but(&[("x_train", bytes("(3, 4)", &items)), ("x_test", bytes("(2, 4)", &[1; 8]))]);
    let set = load(&folder.write("set.npz", file)).unwrap();
    assert!(set.train().contexts().is_sparse() && !set.test().contexts().is_sparse());
}

#[test]
fn paths_that_are_no_data_set_are_told_what_would_be() {
    let folder = Folder::new();
    folder.write("set.csv", "1,2");
    assert_eq!(
        folder.error("set.csv"),
        "set.csv: should be a file ending in .npz with the arrays x_train, y_train, x_test and y_test, or a folder \
         with the idx files of MNIST (train-images-idx3-ubyte, ...) or those of EMNIST Balanced \
         (emnist-balanced-train-images-idx3-ubyte, ...) or the binary files of CIFAR-100 (train.bin, ...) or those of \
         CIFAR-10 (data_batch_1.bin, ...), but is neither"
    );
    assert_eq!(folder.error("absent.npz"), "absent.npz: cannot be read: No such file or directory (os error 2)");
}

#[test]
fn errors_of_the_archive_name_the_file() {
    let folder = Folder::new();
    folder.write("set.npz", "no zip at all");
    let text = folder.error("set.npz");
    assert!(text.starts_with("set.npz: not a readable zip archive: "), "{text}");
    folder.write("set.npz", npz_but(&[("y_test", vec![])]));
    assert_eq!(folder.error("set.npz"), "set.npz: no array y_test; it holds x_test, x_train, y_train");
    folder.write("set.npz", npz(&[]));
    assert_eq!(folder.error("set.npz"), "set.npz: no array x_train; it holds nothing");

    // One bit of the packed items of the last array: its check sum is wrong.
    let mut file = npz_but(&[("y_test", npy("'|u1'", "False", "(2,)", &[2, 0]))]);
    let directory = file.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
    file[directory - 2] ^= 1;
    folder.write("set.npz", file);
    let text = folder.error("set.npz");
    assert!(text.starts_with("set.npz: y_test: "), "{text}");
}

/// The error that one replaced array gives.
fn error_of(array: &str, content: Vec<u8>) -> String {
    let folder = Folder::new();
    folder.write("set.npz", npz_but(&[(array, content)]));
    folder.error("set.npz")
}

#[test]
fn malformed_headers_are_quoted() {
    assert_eq!(
        error_of("x_test", b"\x93NUMPX\x01\x00..".to_vec()),
        r"set.npz: x_test: the start should be \x93NUMPY, that of an .npy array, but is \x93NUMPX"
    );
    assert_eq!(
        error_of("x_test", b"\x93NUMPY\x09\x00..".to_vec()),
        "set.npz: x_test: the version of the .npy format should be 1, 2 or 3, but is 9"
    );
    assert_eq!(
        error_of("x_test", b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec()),
        "set.npz: x_test: the length of the header should be at most 10000 bytes, but is 4294967295"
    );
    assert_eq!(
        error_of("x_test", npy_with_header("{'shape': 3}\n", &[])),
        "set.npz: x_test: the header should be a dictionary with a simple type as 'descr', 'fortran_order' and \
         'shape', but is {\\'shape\\': 3}"
    );
    assert_eq!(
        error_of("x_test", b"\x93NUMPY\x01\x00\x40\x00{".to_vec()),
        "set.npz: x_test: should have 74 bytes, as its header says, but ends after 11"
    );
}

#[test]
fn wrong_types_and_shapes_are_named() {
    assert_eq!(
        error_of("x_train", npy("'<c8'", "False", "(3, 2)", &[0; 48])),
        "set.npz: x_train: the type should be u8, i8, i16, f32 or f64, but is <c8"
    );
    assert_eq!(
        error_of("y_train", npy("'<f4'", "False", "(3,)", &[0; 12])),
        "set.npz: y_train: the type should be an integer type, but is <f4"
    );
    assert_eq!(error_of("scale", bytes("(2,)", &[1, 1])), "set.npz: scale: the type should be f32 or f64, but is |u1");
    assert_eq!(
        error_of("x_train", bytes("(3,)", &[1, 2, 3])),
        "set.npz: x_train: the shape should be (rows, features), with at least 2 dimensions, but is (3,)"
    );
    assert_eq!(
        error_of("y_train", bytes("(3, 1)", &[1, 2, 3])),
        "set.npz: y_train: the shape should be of 1 dimension, but is (3, 1)"
    );
    assert_eq!(
        error_of("y_train", bytes("()", &[1])),
        "set.npz: y_train: the shape should be of 1 dimension, but is ()"
    );
    assert_eq!(
        error_of("y_test", bytes("(3,)", &[1, 2, 0])),
        "set.npz: y_test: the shape should be (2,), one label for each row of x_test, but is (3,)"
    );
    assert_eq!(
        error_of("scale", npy("'<f4'", "False", "(3,)", &[0; 12])),
        "set.npz: scale: the shape should be (2,), one factor for each feature of x_train, but is (3,)"
    );
}

#[test]
fn sizes_that_the_file_cannot_hold_are_refused_before_memory_is_taken() {
    for shape in ["(4000000000, 4000000000)", "(99999999999, 2)", "(0, 4000000000, 8000000000)"] {
        let text = error_of("x_train", bytes(shape, &[]));
        assert!(text.starts_with("set.npz: x_train: the shape should be what memory and a file of "), "{text}");
        assert!(text.ends_with(&format!("bytes can hold, but is {shape}")), "{text}");
    }
}

#[test]
fn too_few_and_too_many_items_are_counted() {
    assert_eq!(
        error_of("x_test", bytes("(2, 2)", &[1, 2, 3])),
        "set.npz: x_test: should have 74 bytes, as its header says, but ends after 73"
    );
    assert_eq!(
        error_of("x_test", bytes("(2, 2)", &[1, 2, 3, 4, 5])),
        "set.npz: x_test: should have 74 bytes, as its header says, but has more"
    );
}

#[test]
fn labels_outside_their_range_are_named_with_their_entry() {
    let [items, _] = items!(i64: 0, -1, 2);
    assert_eq!(
        error_of("y_train", npy("'<i8'", "False", "(3,)", &items)),
        "set.npz: y_train: entry 1 should be a label from 0 to 4294967295, but is -1"
    );
    let [items, _] = items!(u64: 0, 1, 4294967296);
    assert_eq!(
        error_of("y_train", npy("'<u8'", "False", "(3,)", &items)),
        "set.npz: y_train: entry 2 should be a label from 0 to 4294967295, but is 4294967296"
    );
}

#[test]
fn values_that_are_not_finite_are_named_with_their_place() {
    let [items, _] = items!(f64: 1.0, 2.0, 3.0, 1e300);
    assert_eq!(
        error_of("x_test", npy("'<f8'", "False", "(2, 2)", &items)),
        "set.npz: x_test: row 1: feature 1 should be finite, but is inf"
    );
    let [items, _] = items!(f32: 1.0, f32::NAN);
    assert_eq!(
        error_of("scale", npy("'<f4'", "False", "(2,)", &items)),
        "set.npz: scale: entry 1 should be finite, but is NaN"
    );
}

#[test]
fn arrays_that_make_no_data_set_are_refused_by_the_core() {
    assert_eq!(
        error_of("x_test", bytes("(2, 3)", &[1; 6])),
        "set.npz: the test split should have 2 features, as the training split, but has 3"
    );
    assert_eq!(
        error_of("x_test", bytes("(2, 0)", &[])),
        "set.npz: x_test: the number of features should be from 1 to 4294967295, but is 0"
    );
    let folder = Folder::new();
    folder.write("set.npz", npz_but(&[("x_test", bytes("(0, 2)", &[])), ("y_test", bytes("(0,)", &[]))]));
    assert_eq!(folder.error("set.npz"), "set.npz: the test split should have at least 1 row, but has 0");
}

#[test]
fn no_single_changed_byte_and_no_cut_makes_it_panic() {
    let folder = Folder::new();
    let scale = npy("'<f4'", "False", "(2,)", &[0; 8]);
    let file = npz_but(&[("scale", scale), ("x_train", npy("'|u1'", "True", "(3, 2)", &[1, 2, 3, 4, 5, 6]))]);
    for i in 0..file.len() {
        for change in [1, 0x10, 0x80, 0xff] {
            let mut broken = file.clone();
            broken[i] ^= change;
            let _ = load(&folder.write("set.npz", broken));
        }
        assert!(load(&folder.write("set.npz", &file[..i])).is_err());
    }
}

/// What was written is read again, from a file of this name.
fn written_and_read(data: &Dataset) -> Dataset {
    let folder = Folder::new();
    let path = folder.path().join("copy.npz");
    write_npz(&path, data).unwrap();
    let first = fs::read(&path).unwrap();
    write_npz(&path, data).unwrap();
    assert_eq!(fs::read(&path).unwrap(), first, "the same data should give the same bytes");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing should be left behind");
    load(&path).unwrap()
}

fn bits(data: &Dataset) -> Vec<(Vec<u32>, Vec<u32>)> {
    let bits = |rows: &[Vec<f32>]| rows.iter().flatten().map(|value| value.to_bits()).collect();
    contents(data).iter().map(|(rows, labels)| (bits(rows), labels.clone())).collect()
}

#[test]
fn what_is_written_is_read_bit_for_bit_dense_and_sparse() {
    let odd = [f32::MIN_POSITIVE / 2.0, f32::MAX, -0.1, 1.0 / 3.0, 0.0, -f32::EPSILON];
    let dense = Labelled::new(Contexts::dense(odd.to_vec(), 2).unwrap(), vec![0, 999_999, 2]).unwrap();
    let sparse = Contexts::sparse(vec![0, 1, 1, 3], vec![69_999, 0, 7], vec![1e-40, -2.5, 3.0], 70_000).unwrap();
    let sparse = Labelled::new(sparse, vec![1, 0, 1]).unwrap();
    for split in [dense, sparse] {
        // Any rows in any order are a split too.
        let set = Dataset::new("odd", split.clone(), split.select(&[2, 0])).unwrap();
        let again = written_and_read(&set);
        assert_eq!((again.name(), again.classes()), ("copy", set.classes()));
        assert_eq!(bits(&again), bits(&set));
    }
    let digits = surefoot_data::digits();
    assert_eq!(bits(&written_and_read(&digits)), bits(&digits));
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let folder = Folder::new();
    let path = folder.path().join("no/such/folder.npz");
    let text = write_npz(&path, &surefoot_data::digits()).unwrap_err().to_string();
    assert!(text.starts_with(&format!("{}: cannot be written: ", path.display())), "{text}");
}
