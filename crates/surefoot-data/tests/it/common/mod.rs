//! What the tests share: files made from scratch, byte by byte, since many of them must be broken.

#![allow(dead_code, unreachable_pub, reason = "each test file uses some of these")]

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use surefoot::worlds::Dataset;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// A folder that is gone when the test is over.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The text of the error that loading gives, the folder left out.
    pub fn error(&self, name: &str) -> String {
        let text = surefoot_data::load(&self.path().join(name)).unwrap_err().to_string();
        text.replace(&format!("{}/", self.path().display()), "")
    }
}

/// An array in numpy's format 1.0.
pub fn npy(descr: &str, order: &str, shape: &str, items: &[u8]) -> Vec<u8> {
    npy_with_header(&format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"), items)
}

pub fn npy_with_header(header: &str, items: &[u8]) -> Vec<u8> {
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), items].concat()
}

/// Unsigned bytes in C order.
pub fn bytes(shape: &str, items: &[u8]) -> Vec<u8> {
    npy("'|u1'", "False", shape, items)
}

pub fn npz(arrays: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, array) in arrays {
        archive.start_file(format!("{name}.npy"), SimpleFileOptions::default()).unwrap();
        archive.write_all(array).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// Four arrays that make a data set, some of them replaced, added or (when empty) left out.
pub fn npz_but(changes: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut arrays = vec![
        ("x_train", bytes("(3, 2)", &[1, 2, 3, 4, 5, 6])),
        ("y_train", bytes("(3,)", &[0, 1, 2])),
        ("x_test", bytes("(2, 2)", &[7, 8, 9, 10])),
        ("y_test", bytes("(2,)", &[2, 0])),
    ];
    for (name, array) in changes {
        arrays.retain(|(other, _)| other != name);
        if !array.is_empty() {
            arrays.push((name, array.clone()));
        }
    }
    npz(&arrays)
}

/// An idx file of unsigned bytes.
pub fn idx(shape: &[u32], items: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, 8, u8::try_from(shape.len()).unwrap()];
    file.extend(shape.iter().flat_map(|size| size.to_be_bytes()));
    file.extend(items);
    file
}

pub fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// All rows in dense form and all labels, of the training and then of the test split.
pub fn contents(set: &Dataset) -> [(Vec<Vec<f32>>, Vec<u32>); 2] {
    [set.train(), set.test()].map(|split| {
        let dense = split.contexts().to_dense();
        let rows = dense.iter().map(|row| row.values().to_vec()).collect();
        (rows, split.labels().to_vec())
    })
}
