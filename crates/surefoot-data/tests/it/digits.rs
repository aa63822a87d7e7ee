//! The data set that ships with the crate, and those that may lie beside the workspace.

use std::path::Path;

use surefoot_data::{digits, load};

#[test]
fn the_shipped_digits_are_ucis() {
    let digits = digits();
    assert_eq!(digits.name(), "digits");
    assert_eq!((digits.train().len(), digits.test().len(), digits.classes()), (3_823, 1_797, 10));
    assert_eq!(digits.train().contexts().features(), 64);

    // The first line of UCI's optdigits.tes.
    #[rustfmt::skip]
    let first = [
        0, 0,  5, 13,  9,  1, 0, 0,
        0, 0, 13, 15, 10, 15, 5, 0,
        0, 3, 15,  2,  0, 11, 8, 0,
        0, 4, 12,  0,  0,  8, 8, 0,
        0, 5,  8,  0,  0,  9, 8, 0,
        0, 4, 11,  0,  1, 12, 7, 0,
        0, 2, 14,  5, 10, 12, 0, 0,
        0, 0,  6, 13, 10,  0, 0, 0,
    ];
    let row = digits.test().contexts().to_dense();
    assert_eq!(row.row(0).values(), first.map(|pixel| f32::from(pixel as u8)));
    assert_eq!(digits.test().labels()[0], 0);

    // The class distribution in UCI's optdigits.names.
    let counts = |labels: &[u32]| {
        let mut counts = [0; 10];
        labels.iter().for_each(|&label| counts[label as usize] += 1);
        counts
    };
    assert_eq!(counts(digits.train().labels()), [376, 389, 380, 389, 387, 376, 377, 387, 380, 382]);
    assert_eq!(counts(digits.test().labels()), [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
}

#[test]
fn the_large_sets_beside_the_workspace_are_read_where_they_are_present() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    for (name, train, test, features, classes) in
        [("emnist47-subset", 38_399, 4_700, 784, 47), ("cifar100-resnet50-128", 50_000, 10_000, 128, 100)]
    {
        let path = folder.join(name).with_extension("npz");
        if !path.exists() {
            eprintln!("SKIPPED {name}: no file {}", path.display());
            continue;
        }
        let set = load(&path).unwrap();
        assert_eq!(set.name(), name);
        assert_eq!((set.train().len(), set.test().len(), set.classes()), (train, test, classes));
        assert_eq!(set.train().contexts().features(), features);
    }
}
