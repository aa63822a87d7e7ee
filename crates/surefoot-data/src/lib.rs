//! Files for Surefoot: log files, labelled data sets, policies, rounds of logs and certificates.
//!
//! - [`LogReader`] reads log files of any [`Format`] batch by batch, and knows what their columns mean. A [`Check`]
//!   rejects records that no policy can have logged. [`Scan`] collects what is known only after all records were seen.
//!   [`convert()`] writes records in another format.
//! - [`Encoding`] turns raw columns into features. [`Rounds`] are encoded records to learn from. [`learn()`] learns a
//!   policy from them.
//! - [`RecordPolicy`] is a target policy for off-policy evaluation. [`evaluate()`] and [`select()`] evaluate such
//!   policies. A [`Scorer`] makes decisions with one.
//! - [`digits`] is UCI's *Optical Recognition of Handwritten Digits*, 3,823 and 1,797 images of 8 x 8 pixels.
//! - [`load`] reads an `.npz` file, a folder of idx files (MNIST, Fashion-MNIST or EMNIST), or a folder with the binary
//!   files of CIFAR-10 or CIFAR-100. [`write_npz`] writes an `.npz` file.
//! - [`catalogue`] describes the data sets of the paper's experiments: where they come from, how large they are, and
//!   how to check their files. It downloads nothing; see `docs/data.md`.
//! - [`write_policy`] and [`read_policy`], [`write_round`] and [`read_round`], [`write_certificates`] and
//!   [`read_certificates`] save what a loop produces, bit for bit. The formats are described in `docs/formats.md`.
//! - [`lint`] finds errors in logs, and tells which policies the logs can evaluate.
//!
//! ```
//! let digits = surefoot_data::digits();
//! assert_eq!((digits.train().len(), digits.test().len(), digits.classes()), (3_823, 1_797, 10));
//! ```
//!
//! The values of a data set are not changed: nothing is centred, normalised or shuffled. If at most a quarter of the
//! entries of the contexts are non-zero, they are stored in sparse form. A file is read twice, so that no other copy of
//! it is held in memory. A file that is broken, or that states a wrong size, gives an [`Error`] that says where.
//! Reading it never panics, and never takes more memory than its bytes can account for (except for the weights of
//! random Fourier features, which are generated from a seed).
//!
//! Not supported: dates as features.

mod cache;
pub mod catalogue;
mod certificate_file;
mod cifar;
mod column;
mod convert;
mod encoding;
mod error;
mod evaluate;
mod files;
mod idx;
mod inputs;
mod layout;
mod learn;
mod learned_files;
pub mod lint;
mod logs;
mod mapped_file;
mod mixture_file;
mod moments;
mod npy;
mod npz;
mod packed;
mod policy_archive;
mod policy_file;
mod record_policy;
mod round_file;
mod rounds;
mod run_folder;
mod saved_session;
mod scan;
mod score;
mod select;
pub mod shards;
mod source;
mod stores;
mod table;
mod tensors;

use std::fs::{self, File};
use std::io::{BufReader, Cursor};
use std::path::Path;

pub use cache::Storage;
pub use certificate_file::{Certificates, read_certificates, write_certificates};
pub use convert::{Converted, convert};
pub use encoding::{
    CandidateInputs, ContextReader, Encoding, EncodingFit, EncodingSettings, Field, Identity, NamedPart,
    Rows as EncodedRows,
};
pub use error::{Error, Result};
pub use evaluate::{EvaluateRequest, Evaluated, EvaluatedPolicy, ModelRequest, NamedEstimate, NamedPolicy, evaluate};
pub use files::{check_not_read, check_output, end_unless_interrupted, interrupted, replace, replace_all};
pub use inputs::{Inputs, Lineage};
pub use learn::{
    CandidateSummary, ContenderSummary, LearnRequest, LearnSummary, Learned, MemberSummary, Prior, Reveals,
    RoundSummary, Vocabulary, family, learn, learn_from,
};
pub use learned_files::{certificates_path, check_learned_to, write_certified, write_learned_to};
pub use logs::{ActionIs, Actions, Batches, Catalogue, Check, ColumnNames, LogBatch, LogReader, Records};
pub use mixture_file::{Part, check_mixture_to, read_mixture, write_mixture};
pub use npz::write_npz;
pub use policy_file::{PolicyReader, files_beside, read_policy, write_policy, write_policy_with};
pub use record_policy::{Cells, RecordPolicy};
pub use round_file::{SavedRound, read_round, write_round};
pub use rounds::{ReadRequest, Rounds, fit_encodings};
pub use run_folder::{RunFiles, check_new_folder, read_session, write_learned, write_session};
pub use saved_session::SavedSession;
pub use scan::{Grouping, Scan};
pub use score::Scorer;
pub use select::{ProvenReward, SelectRequest, Selected, SelectedCandidate, select};
use surefoot::worlds::Dataset;
pub use table::{Format, ROWS, Tables, read_table, read_table_bytes, write_table, write_table_to};

/// UCI's *Optical Recognition of Handwritten Digits*: 64 pixels with values from 0 to 16, 10 classes, UCI's own split.
///
/// E. Alpaydin and C. Kaynak, 1998, [doi:10.24432/C50P49](https://doi.org/10.24432/C50P49), CC BY 4.0.
pub fn digits() -> Dataset {
    let bytes = include_bytes!("../data/digits/digits.npz");
    npz::read("digits", Path::new("digits.npz"), Cursor::new(&bytes[..]), bytes.len() as u64)
        .expect("the digits are part of the crate")
}

/// Reads a data set, and names it after its file or folder.
///
/// - A file ending in `.npz` has the arrays `x_train`, `y_train`, `x_test` and `y_test`. Features are `u8`, `i8`,
///   `i16`, `f32` or `f64` in at least two dimensions; all dimensions but the first are flattened. Labels are of any
///   integer type. An optional array `scale`, `f32` or `f64`, has one factor per feature, which multiplies its column.
/// - A folder has `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-images-idx3-ubyte` and
///   `t10k-labels-idx1-ubyte`, each also with `.idx` for `-idx`; or the same files of EMNIST Balanced, with
///   `emnist-balanced-train-` and `emnist-balanced-test-` before `images` and `labels`. EMNIST's images are transposed,
///   and stay so: the order of the pixels does not matter to learners that are linear in them.
/// - Or a folder has CIFAR-100's `train.bin` and `test.bin`, with the fine labels taken, or CIFAR-10's
///   `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`.
///
/// The names of the files in a folder may end in `.gz`. The files may also be in the folder that the authors' archive
/// unpacks to (`gzip`, `cifar-100-binary`, `cifar-10-batches-bin`). Pixels are divided by 255.
///
/// ```no_run
/// let mnist = surefoot_data::load("data/mnist".as_ref())?;
/// assert_eq!(mnist.name(), "mnist");
/// # Ok::<(), surefoot_data::Error>(())
/// ```
pub fn load(path: &Path) -> Result<Dataset> {
    let about = fs::metadata(path).map_err(|reason| Error::io(path, reason))?;
    // A path such as `.` has a name only after it is resolved.
    let resolved = path.canonicalize().map_err(|reason| Error::io(path, reason))?;
    let named = if path.file_name().is_some() { path } else { &resolved };
    let name = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    if about.is_dir() {
        return layout::read(&name(named.file_name()), path);
    }
    if !path.extension().is_some_and(|end| end.eq_ignore_ascii_case("npz")) {
        return Err(Error::NotUnderstood { path: path.to_owned() });
    }
    load_npz(&name(named.file_stem()), path)
}

/// Loads a data set by its name: `digits`, a path, or the key of a set of the [`catalogue`], which is looked for in the
/// data folder.
///
/// ```
/// assert_eq!(surefoot_data::load_named("digits", "data".as_ref())?.classes(), 10);
/// # Ok::<(), surefoot_data::Error>(())
/// ```
pub fn load_named(name: &str, folder: &Path) -> Result<Dataset> {
    let path = Path::new(name);
    match catalogue::find(name) {
        _ if name == "digits" => Ok(digits()),
        Some(entry) if !path.exists() => entry.load(folder),
        _ => load(path),
    }
}

/// Reads an `.npz` file and gives the data set this name.
fn load_npz(name: &str, path: &Path) -> Result<Dataset> {
    let file = File::open(path).map_err(|reason| Error::io(path, reason))?;
    let size = file.metadata().map_err(|reason| Error::io(path, reason))?.len();
    npz::read(name, path, BufReader::new(file), size)
}
