//! The catalogue: what is found, what a check says, and the real files where they are at hand.

use std::fs;
use std::path::Path;

use crate::common::{Folder, gz, idx};
use surefoot_data::catalogue::{self, Presence};

/// Files with the names and sizes of EMNIST, of which no hash is known: every image has one bright pixel.
fn emnist(folder: &Folder, train: u32) {
    fs::create_dir_all(folder.path().join("emnist")).unwrap();
    for (split, rows) in [("train", train), ("test", 18_800)] {
        let mut pixels = vec![0; rows as usize * 784];
        pixels.chunks_exact_mut(784).enumerate().for_each(|(i, image)| image[i % 47] = 255);
        let labels: Vec<u8> = (0..rows).map(|i| (i % 47) as u8).collect();
        let name = |kind: &str| format!("emnist/emnist-balanced-{split}-{kind}-ubyte.gz");
        folder.write(&name("images-idx3"), gz(&idx(&[rows, 28, 28], &pixels)));
        folder.write(&name("labels-idx1"), gz(&idx(&[rows], &labels)));
    }
}

#[test]
fn keys_are_unique_and_stand_ins_say_what_they_are() {
    let keys: Vec<&str> = catalogue::all().iter().map(|entry| entry.key).collect();
    assert_eq!(keys, ["mnist", "fashion-mnist", "emnist", "emnist-subset", "cifar-100", "cifar-100-resnet50"]);
    for entry in catalogue::all() {
        assert_eq!(catalogue::find(entry.key).unwrap().key, entry.key);
        assert_eq!(entry.stand_in.is_some(), entry.stands_in_for.is_some());
        assert!(entry.stands_in_for.is_none_or(|key| catalogue::find(key).is_some()));
        assert!(entry.files.iter().all(|file| file.sha256.is_none_or(|sha| sha.len() == 64)));
        assert_eq!(entry.steps(), entry.files.len() + 1);
    }
    assert!(catalogue::find("imagenet").is_none());
}

#[test]
fn what_is_missing_is_named_and_how_to_get_it() {
    let folder = Folder::new();
    let cifar = catalogue::find("cifar-100").unwrap();
    assert_eq!(cifar.presence(folder.path()), Presence::Missing);
    fs::create_dir(folder.path().join("cifar-100")).unwrap();
    folder.write("cifar-100/train.bin", []);
    assert_eq!(cifar.presence(folder.path()), Presence::Incomplete(vec!["cifar-100/test.bin".into()]));
    assert_eq!(cifar.find(folder.path()), None);
    let expected = format!(
        "cifar-100: not there: {} should have cifar-100/test.bin; to get it: {}",
        folder.path().display(),
        cifar.how_to_get
    );
    assert_eq!(cifar.load(folder.path()).unwrap_err().to_string(), expected);
    assert_eq!(cifar.check(folder.path()).unwrap_err().to_string(), expected);
    assert_eq!(cifar.fingerprint(folder.path()).unwrap_err().to_string(), expected);
    folder.write("cifar-100/test.bin.gz", []);
    assert_eq!(cifar.find(folder.path()), Some(folder.path().join("cifar-100")));
}

#[test]
fn a_set_of_the_right_shape_is_loaded_under_its_key_and_one_of_another_is_not() {
    let folder = Folder::new();
    let entry = catalogue::find("emnist").unwrap();
    emnist(&folder, 112_800);
    let data = entry.load(folder.path()).unwrap();
    assert_eq!((data.name(), data.train().len(), data.classes()), ("emnist", 112_800, 47));
    let mut steps = 0;
    let report = entry.check_with(folder.path(), || steps += 1).unwrap();
    assert_eq!((report.differences.len(), steps), (0, entry.steps()), "{:?}", report.differences);
    assert_eq!((report.files[0].size, report.files[0].known), (88_435_216, false));
    assert_eq!(report.shape, Some(entry.shape));
    assert_eq!(report.fingerprint, entry.fingerprint(folder.path()).unwrap());

    emnist(&folder, 1_000);
    let place = folder.path().join("emnist");
    let shape = format!(
        "{}: the shape should be 112,800 / 18,800 x 784, 47 classes, but is 1,000 / 18,800 x 784, 47 classes",
        place.display()
    );
    assert_eq!(entry.load(folder.path()).unwrap_err().to_string(), shape);
    let report = entry.check(folder.path()).unwrap();
    let file = place.join("emnist-balanced-train-images-idx3-ubyte.gz");
    let size = format!("{}: should have 88,435,216 bytes, unpacked, but has 784,016", file.display());
    assert_eq!((&report.differences[0], &report.differences[2]), (&size, &shape));
}

#[test]
fn a_fingerprint_is_that_of_the_lines_of_sha256sum_packed_or_not() {
    let folder = Folder::new();
    fs::create_dir(folder.path().join("cifar-100")).unwrap();
    folder.write("cifar-100/train.bin", "abc");
    folder.write("cifar-100/test.bin.gz", gz(b""));
    let entry = catalogue::find("cifar-100").unwrap();
    // printf abc >train.bin; : >test.bin; sha256sum train.bin test.bin | sha256sum
    let expected = "7c83639ef113d470ae6f5c4e58c3802d70df892d7cacbd21b0093a24e50546fb";
    assert_eq!(entry.fingerprint(folder.path()).unwrap(), expected);
    let report = entry.check(folder.path()).unwrap();
    assert_eq!(report.shape, None);
    assert_eq!(report.differences.len(), 3, "{:?}", report.differences);
    assert!(report.differences[2].ends_with("but ends after 3 bytes of record 0"), "{:?}", report.differences);
}

#[test]
fn a_changed_file_of_the_right_size_is_found_by_its_hash() {
    let folder = Folder::new();
    let entry = catalogue::find("emnist-subset").unwrap();
    folder.write(entry.files[0].name, vec![0; entry.files[0].size as usize]);
    let report = entry.check(folder.path()).unwrap();
    let expected = format!("the SHA-256 should be {}, but is ", entry.files[0].sha256.unwrap());
    assert!(report.differences[0].contains(&expected), "{:?}", report.differences);
    assert!(report.differences[1].contains("not a readable zip archive"), "{:?}", report.differences);
}

#[test]
fn the_real_files_are_as_they_should_be_where_they_are_at_hand() {
    let Some(folder) = std::env::var_os("SUREFOOT_DATA") else {
        eprintln!("skipped: SUREFOOT_DATA does not name a folder with the real files");
        return;
    };
    for entry in catalogue::all() {
        if entry.find(Path::new(&folder)).is_none() {
            eprintln!("skipped: no {} in {}", entry.key, Path::new(&folder).display());
            continue;
        }
        let report = entry.check(Path::new(&folder)).unwrap();
        assert!(report.differences.is_empty(), "{:?}", report.differences);
    }
}
