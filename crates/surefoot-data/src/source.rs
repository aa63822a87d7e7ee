//! A byte stream that tracks its position, so that every error can say where it occurred.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::error::{Error, Result};

/// Deflate, which zip and gzip use, expands one byte to at most 1,032: a symbol for a copy of 258 bytes takes at least
/// 2 bits.
const MOST_BYTES_FROM_ONE: u64 = 1_032;

/// How many bytes are decoded at once.
const CHUNK: usize = 1 << 16;

/// An array or file that is read from start to end.
pub(crate) struct Source<R> {
    reader: R,
    place: String,
    packing: Packing,
    /// The size of the file on disk, compressed or not.
    file_size: u64,
    taken: u64,
}

/// How the bytes are compressed, and thus what a read error means.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Packing {
    None,
    Gzip,
    Zip,
}

impl Source<Box<dyn Read>> {
    /// Opens a file, which is decompressed if its name ends in `.gz`.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|reason| Error::io(path, reason))?;
        let size = file.metadata().map_err(|reason| Error::io(path, reason))?.len();
        let (packing, reader): (Packing, Box<dyn Read>) = if path.extension().is_some_and(|end| end == "gz") {
            (Packing::Gzip, Box::new(MultiGzDecoder::new(BufReader::new(file))))
        } else {
            (Packing::None, Box::new(file))
        };
        Ok(Source::new(reader, path.display().to_string(), packing, size))
    }
}

impl<R: Read> Source<R> {
    pub(crate) fn new(reader: R, place: String, packing: Packing, file_size: u64) -> Self {
        Source { reader, place, packing, file_size, taken: 0 }
    }

    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// The number of bytes read so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Fills the buffer with the next bytes. `expected` is the length of the whole stream, as far as known.
    pub(crate) fn take(&mut self, buffer: &mut [u8], expected: u64) -> Result<()> {
        match self.fill(buffer)? {
            filled if filled == buffer.len() => Ok(()),
            _ => Err(self.length(expected, format!("ends after {}", self.taken))),
        }
    }

    /// Reads bytes until the buffer is full or the stream ends; returns their number.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..])? {
                0 => break,
                n => {
                    filled += n;
                    self.taken += n as u64;
                }
            }
        }
        Ok(filled)
    }

    /// Reads all records of `width` bytes up to the end, and passes them to `visit(index of the first, bytes)` in
    /// pieces. Returns the number of records.
    pub(crate) fn records(&mut self, width: usize, mut visit: impl FnMut(usize, &[u8]) -> Result<()>) -> Result<usize> {
        let mut buffer = vec![0; (CHUNK / width).max(1) * width];
        let mut count = 0;
        loop {
            let filled = self.fill(&mut buffer)?;
            let (whole, left) = (filled / width, filled % width);
            visit(count, &buffer[..whole * width])?;
            count += whole;
            if left > 0 {
                let found = format!("ends after {left} bytes of record {count}");
                return Err(Error::Records { place: self.place.clone(), width, found });
            }
            if filled < buffer.len() {
                return Ok(count);
            }
        }
    }

    /// Reads the next `count` items of `width` bytes, and passes them to `visit(index of the first, bytes)` in pieces.
    /// The stream must end after them. The count must come from [`Source::count`], which checks it.
    pub(crate) fn items(
        &mut self,
        count: usize,
        width: usize,
        mut visit: impl FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let expected = self.taken + count as u64 * width as u64;
        let step = CHUNK / width;
        let mut buffer = vec![0; step * width];
        for first in (0..count).step_by(step) {
            let piece = &mut buffer[..step.min(count - first) * width];
            self.take(piece, expected)?;
            visit(first, piece)?;
        }
        self.end(expected)
    }

    /// Checks that the stream ends here.
    pub(crate) fn end(&mut self, expected: u64) -> Result<()> {
        // This read also makes the decoders verify their checksums.
        match self.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(self.length(expected, "has more".into())),
        }
    }

    /// The number of items of an array with this shape, after checking that a file of this size can hold them. A wrong
    /// header must not cause a large allocation.
    pub(crate) fn count(&self, shape: &[usize], width: usize) -> Result<usize> {
        let too_large = || Error::Shape {
            place: self.place.clone(),
            allowed: format!("what memory and a file of {} bytes can hold", self.file_size),
            found: display_shape(shape),
        };
        // A size of 0 must not hide an overflow in the product of the others, since parts of it are used alone.
        let filled = shape.iter().filter(|&&size| size > 0);
        let product = filled.copied().try_fold(1, usize::checked_mul).ok_or_else(too_large)?;
        let count = if shape.contains(&0) { 0 } else { product };
        let bytes = count.checked_mul(width).ok_or_else(too_large)? as u64;
        match self.packing {
            Packing::None if bytes > self.file_size.saturating_sub(self.taken) => {
                let expected = self.taken.saturating_add(bytes);
                Err(self.length(expected, format!("ends after {}", self.file_size)))
            }
            Packing::Gzip | Packing::Zip if bytes / MOST_BYTES_FROM_ONE > self.file_size => Err(too_large()),
            _ => Ok(count),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            match self.reader.read(buffer) {
                Err(reason) if reason.kind() == io::ErrorKind::Interrupted => {}
                Err(reason) => return Err(self.failed(reason)),
                Ok(n) => return Ok(n),
            }
        }
    }

    fn failed(&self, reason: io::Error) -> Error {
        let place = self.place.clone();
        match self.packing {
            Packing::None => Error::Io { place, reason },
            Packing::Gzip => Error::Gzip { place, reason },
            Packing::Zip => Error::Zip { place, reason: reason.to_string() },
        }
    }

    fn length(&self, expected: u64, found: String) -> Error {
        Error::Length { place: self.place.clone(), expected, found }
    }
}

/// A shape as numpy writes it: `(3, 4)`, and `(3,)` with one dimension.
pub(crate) fn display_shape(shape: &[usize]) -> String {
    match shape {
        [one] => format!("({one},)"),
        _ => {
            let sizes: Vec<String> = shape.iter().map(ToString::to_string).collect();
            format!("({})", sizes.join(", "))
        }
    }
}
