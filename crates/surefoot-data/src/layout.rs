//! Folders that contain the files of a data set, with the names that its authors gave them.

use std::path::{Path, PathBuf};

use surefoot::worlds::Dataset;

use crate::error::{Error, Result, at};
use crate::{cifar, idx};

/// The files that make up a data set.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The name of the data set, for error messages.
    of: &'static str,
    train: &'static [&'static str],
    test: &'static [&'static str],
    /// The folder that the authors' archive unpacks to. The files may be in it or in its parent.
    unpacked: Option<&'static str>,
    format: Format,
}

#[derive(Debug)]
enum Format {
    /// A split is a file of images and one of labels.
    Idx,
    /// A split is one or more files of records.
    Cifar(&'static [cifar::Label]),
}

pub(crate) static MNIST: Layout = Layout {
    of: "the idx files of MNIST",
    train: &["train-images-idx3-ubyte", "train-labels-idx1-ubyte"],
    test: &["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"],
    unpacked: None,
    format: Format::Idx,
};

pub(crate) static EMNIST: Layout = Layout {
    of: "those of EMNIST Balanced",
    train: &["emnist-balanced-train-images-idx3-ubyte", "emnist-balanced-train-labels-idx1-ubyte"],
    test: &["emnist-balanced-test-images-idx3-ubyte", "emnist-balanced-test-labels-idx1-ubyte"],
    unpacked: Some("gzip"),
    format: Format::Idx,
};

pub(crate) static CIFAR_100: Layout = Layout {
    of: "the binary files of CIFAR-100",
    train: &["train.bin"],
    test: &["test.bin"],
    unpacked: Some("cifar-100-binary"),
    format: Format::Cifar(cifar::CIFAR_100),
};

static CIFAR_10: Layout = Layout {
    of: "those of CIFAR-10",
    train: &["data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"],
    test: &["test_batch.bin"],
    unpacked: Some("cifar-10-batches-bin"),
    format: Format::Cifar(cifar::CIFAR_10),
};

/// All known layouts. A folder is read by the first layout whose files it has completely.
static LAYOUTS: [&Layout; 4] = [&MNIST, &EMNIST, &CIFAR_100, &CIFAR_10];

/// The layouts that a folder may have, for error messages.
pub(crate) fn known() -> String {
    let each: Vec<String> = LAYOUTS.iter().map(|layout| format!("{} ({}, ...)", layout.of, layout.train[0])).collect();
    each.join(" or ")
}

/// Reads a data set from a folder.
pub(crate) fn read(name: &str, folder: &Path) -> Result<Dataset> {
    let mut nearest: Option<(usize, &Layout)> = None;
    for layout in LAYOUTS {
        let found = layout.files().filter(|file| layout.locate(folder, file).is_some()).count();
        if found == layout.files().count() {
            return layout.read(name, folder);
        }
        if found > nearest.map_or(0, |(most, _)| most) {
            nearest = Some((found, layout));
        }
    }
    match nearest {
        Some((_, layout)) => layout.read(name, folder),
        None => Err(Error::UnknownFolder { folder: folder.to_owned() }),
    }
}

impl Layout {
    /// The files by their plain names.
    pub(crate) fn files(&self) -> impl Iterator<Item = &'static str> {
        self.train.iter().chain(self.test).copied()
    }

    /// The path of a file under any of its names. The plain name is tried first, since it is read fastest.
    pub(crate) fn locate(&self, folder: &Path, file: &str) -> Option<PathBuf> {
        let mut names = vec![file.to_owned()];
        if let Format::Idx = self.format {
            names.push(file.replace("-idx", ".idx"));
        }
        names.extend(names.iter().map(|name| format!("{name}.gz")).collect::<Vec<_>>());
        let folders = [Some(folder.to_owned()), self.unpacked.map(|inner| folder.join(inner))];
        let mut paths = folders.iter().flatten().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
        paths.find(|path| path.is_file())
    }

    /// Other names that the files may have, for error messages.
    fn also(&self) -> &'static str {
        match self.format {
            Format::Idx => "each may also be gzipped, as .gz, or have '.idx' for '-idx' in its name",
            Format::Cifar(_) => "each may also be gzipped, as .gz",
        }
    }

    /// Reads a data set with this layout from a folder.
    pub(crate) fn read(&self, name: &str, folder: &Path) -> Result<Dataset> {
        let missing: Vec<&str> = self.files().filter(|file| self.locate(folder, file).is_none()).collect();
        if !missing.is_empty() {
            return Err(self.missing(folder, &missing));
        }
        let split = |files: &[&str]| {
            let paths: Vec<PathBuf> = files.iter().filter_map(|file| self.locate(folder, file)).collect();
            match (&self.format, &paths[..]) {
                // A file that was there a moment ago is gone.
                _ if paths.len() < files.len() => Err(self.missing(folder, files)),
                (Format::Idx, [images, labels, ..]) => idx::split(images, labels),
                (Format::Cifar(labels), _) => cifar::split(&paths, labels),
                (Format::Idx, _) => Err(self.missing(folder, files)),
            }
        };
        let (train, test) = (split(self.train)?, split(self.test)?);
        at(&folder.display().to_string(), Dataset::new(name, train, test))
    }

    fn missing(&self, folder: &Path, files: &[&str]) -> Error {
        Error::MissingFiles { folder: folder.to_owned(), missing: files.join(", "), also: self.also() }
    }
}
