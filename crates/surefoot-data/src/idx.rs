//! The idx files of MNIST and its relatives: images in one file, their labels in another.

use std::path::Path;

use surefoot::contexts::{ContextsBuilder, Labelled};

use crate::error::{Error, Result, at};
use crate::source::{Source, display_shape};

/// idx's code for unsigned bytes, the only type of these files.
const UNSIGNED_BYTES: u8 = 0x08;

/// The feature value of each of the 256 possible bytes of a pixel.
pub(crate) fn brightness() -> [f32; 256] {
    std::array::from_fn(|byte| byte as f32 / 255.0)
}

/// Reads a split.
pub(crate) fn split(images: &Path, labels: &Path) -> Result<Labelled> {
    let brightness = brightness();
    let place = images.display().to_string();
    // Read twice, to count and then to build, so that only the result stays in memory.
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

/// Calls `visit` with the items of an idx file of `D` dimensions, and returns their sizes.
fn array<const D: usize>(path: &Path, mut visit: impl FnMut(&[u8]) -> Result<()>) -> Result<[usize; D]> {
    let mut source = Source::open(path)?;

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
