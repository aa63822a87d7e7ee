//! A folder with the four idx files in which MNIST and its relatives come.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use surefoot::{ContextsBuilder, Dataset, Labelled};

use crate::error::{Error, Result, at};
use crate::source::{Packing, Source, display_shape};

const FILES: [&str; 4] =
    ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"];

/// idx's code for unsigned bytes, the only type of these files.
const UNSIGNED_BYTES: u8 = 0x08;

/// Reads a data set from a folder.
pub(crate) fn read(name: &str, folder: &Path) -> Result<Dataset> {
    let found = FILES.map(|file| find(folder, file));
    let missing: Vec<&str> = FILES.into_iter().zip(&found).filter(|(_, path)| path.is_none()).map(|(f, _)| f).collect();
    let [Some(train_x), Some(train_y), Some(test_x), Some(test_y)] = found else {
        return Err(Error::MissingFiles { folder: folder.to_owned(), missing: missing.join(", ") });
    };
    let train = split(&train_x, &train_y)?;
    let test = split(&test_x, &test_y)?;
    at(&folder.display().to_string(), Dataset::new(name, train, test))
}

/// The file under any of its names; the plain one first, as it is read fastest.
fn find(folder: &Path, file: &str) -> Option<PathBuf> {
    let dotted = file.replace("-idx", ".idx");
    [file.to_owned(), dotted.clone(), format!("{file}.gz"), format!("{dotted}.gz")]
        .into_iter()
        .map(|name| folder.join(name))
        .find(|path| path.is_file())
}

fn split(images: &Path, labels: &Path) -> Result<Labelled> {
    // Pixels are 256 different bytes, so 256 divisions are enough.
    let brightness: [f32; 256] = std::array::from_fn(|byte| byte as f32 / 255.0);
    let place = images.display().to_string();
    // Read twice, to count and to build: what is built is all that stays in memory.
    let mut filled = 0;
    let [rows, height, width] = array(images, |pixels| {
        filled += pixels.iter().filter(|&&byte| byte != 0).count();
        Ok(())
    })?;
    let mut contexts = at(&place, ContextsBuilder::new(rows, height * width, filled))?;
    array::<3>(images, |pixels| at(&place, contexts.extend(pixels.iter().map(|&byte| brightness[usize::from(byte)]))))?;
    let contexts = at(&place, contexts.finish())?;
    let mut classes = Vec::new();
    let [rows] = array(labels, |bytes| {
        classes.extend(bytes.iter().map(|&byte| u32::from(byte)));
        Ok(())
    })?;
    if rows != contexts.len() {
        return Err(Error::Shape {
            place: labels.display().to_string(),
            allowed: format!("{}, one label for each image of {place}", display_shape(&[contexts.len()])),
            found: display_shape(&[rows]),
        });
    }
    at(&place, Labelled::new(contexts, classes))
}

/// Hands out the items of an idx file of `D` dimensions, and returns their sizes.
fn array<const D: usize>(path: &Path, mut visit: impl FnMut(&[u8]) -> Result<()>) -> Result<[usize; D]> {
    let file = File::open(path).map_err(|reason| Error::io(path, reason))?;
    let size = file.metadata().map_err(|reason| Error::io(path, reason))?.len();
    let (packing, reader): (Packing, Box<dyn Read>) = if path.extension().is_some_and(|end| end == "gz") {
        (Packing::Gzip, Box::new(MultiGzDecoder::new(std::io::BufReader::new(file))))
    } else {
        (Packing::None, Box::new(file))
    };
    let mut source = Source::new(reader, path.display().to_string(), packing, size);

    let header = 4 + 4 * D as u64;
    let mut magic = [0; 4];
    source.take(&mut magic, header)?;
    let [0, 0, UNSIGNED_BYTES, dimensions] = magic else {
        return Err(wrong_magic::<D>(source.place(), magic));
    };
    if usize::from(dimensions) != D {
        return Err(wrong_magic::<D>(source.place(), magic));
    }
    let mut shape = [0; D];
    for size in &mut shape {
        let mut bytes = [0; 4];
        source.take(&mut bytes, header)?;
        *size = u32::from_be_bytes(bytes) as usize;
    }
    let count = source.count(&shape, 1)?;
    source.items(count, 1, |_, bytes| visit(bytes))?;
    Ok(shape)
}

fn wrong_magic<const D: usize>(place: &str, magic: [u8; 4]) -> Error {
    let dimensions = if D == 1 { "dimension" } else { "dimensions" };
    Error::Header {
        place: place.to_owned(),
        part: "the magic number, bytes 0 to 3,".into(),
        allowed: format!("00 00 08 {D:02x}, unsigned bytes in {D} {dimensions}"),
        found: magic.map(|byte| format!("{byte:02x}")).join(" "),
    }
}
