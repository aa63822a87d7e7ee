//! Arrays of one `.npz` file that are read side by side, a few rows at a time.
//!
//! An `.npz` file is a zip archive with one array after the other. Each array gets its own handle on the file, so that
//! only the rows of a batch are in memory, whatever the size of the arrays. An array in Fortran's order, whose rows are
//! spread over all of it, is copied to a temporary file first.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write as _};

use flate2::CrcReader;
use flate2::read::DeflateDecoder;
use zip::{CompressionMethod, ZipArchive};

use crate::error::{Error, Result};
use crate::npy::Header;
use crate::npz::{Item, fortran_place, integer};
use crate::source::{Packing, Source, display_shape};

/// numpy's name for arrays of Python objects.
const OBJECTS: &str = "|O";

/// A file of arrays.
pub(super) struct Archive<R, O> {
    place: String,
    size: u64,
    open: O,
    archive: ZipArchive<R>,
}

impl<R: Read + Seek + Send + 'static, O: Fn() -> io::Result<R>> Archive<R, O> {
    pub(super) fn open(place: &str, open: O) -> Result<Self> {
        let failed = |reason| Error::Io { place: place.to_owned(), reason };
        let mut input = open().map_err(failed)?;
        let size = input.seek(SeekFrom::End(0)).map_err(failed)?;
        let archive = ZipArchive::new(input).map_err(|reason| zip(place, &reason))?;
        Ok(Archive { place: place.to_owned(), size, open, archive })
    }

    /// A required array.
    pub(super) fn needed(&mut self, name: &'static str) -> Result<Array> {
        let array = self.array(name)?.map(Array::no_objects).transpose()?;
        array.ok_or_else(|| {
            let mut names: Vec<String> =
                self.archive.file_names().flatten().map(|name| name.replace(".npy", "")).collect();
            names.sort_unstable();
            let found = if names.is_empty() { "nothing".into() } else { names.join(", ") };
            Error::MissingArray { path: self.place.clone().into(), array: name, found }
        })
    }

    /// An optional array. numpy saves Python's `None` as an object of no dimensions, which counts as absent.
    pub(super) fn optional(&mut self, name: &'static str) -> Result<Option<Array>> {
        let there = |array: &Array| !(array.header.descr == OBJECTS && array.header.shape.is_empty());
        self.array(name)?.filter(there).map(Array::no_objects).transpose()
    }

    /// An optional integer of no dimensions.
    pub(super) fn count(&mut self, name: &'static str) -> Result<Option<i128>> {
        let Some(mut array) = self.optional(name)? else { return Ok(None) };
        array.check_shape(&[], "(), a single number")?;
        let item = Item::new(&array.header, array.source.place(), "an integer type", integer)?;
        array.begin(item.width)?;
        let count = item.number(array.rows(1)?);
        array.end()?;
        Ok(Some(count))
    }

    fn array(&mut self, name: &'static str) -> Result<Option<Array>> {
        let place = format!("{}: {name}", self.place);
        let Some(index) = self.archive.index_for_name(&format!("{name}.npy")) else { return Ok(None) };
        let entry = self.archive.by_index_raw(index).map_err(|reason| zip(&place, &reason))?;
        let Some(start) = entry.data_start().filter(|_| !entry.encrypted()) else {
            return Err(zip(&place, &"it is encrypted"));
        };
        let failed = |reason| Error::Io { place: place.clone(), reason };
        let mut input = (self.open)().map_err(failed)?;
        input.seek(SeekFrom::Start(start)).map_err(failed)?;
        let packed = input.take(entry.compressed_size());
        let bytes: Box<dyn Read + Send> = match entry.compression() {
            CompressionMethod::Stored => Box::new(packed),
            CompressionMethod::Deflated => Box::new(DeflateDecoder::new(packed)),
            other => return Err(zip(&place, &format!("the compression method {other} is not one that NumPy writes"))),
        };
        let entry = Entry { bytes: CrcReader::new(bytes), sum: entry.crc32() };
        let mut source = Source::new(entry, place, Packing::Zip, self.size);
        let header = Header::read(&mut source)?;
        Ok(Some(Array { header, source, row: 0, expected: 0, buffer: Vec::new(), columns: None }))
    }

    /// Whether the file has an array with this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.archive.index_for_name(&format!("{name}.npy")).is_some()
    }
}

/// The bytes of an array; their checksum is verified at the end.
struct Entry {
    bytes: CrcReader<Box<dyn Read + Send>>,
    sum: u32,
}

impl Read for Entry {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(buffer)?;
        if read == 0 && !buffer.is_empty() && self.bytes.crc().sum() != self.sum {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the check sum is wrong"));
        }
        Ok(read)
    }
}

/// An array that is being read.
pub(super) struct Array {
    pub(super) header: Header,
    source: Source<Entry>,
    /// The number of bytes of a row and of the whole array; set by `begin`.
    row: usize,
    expected: u64,
    buffer: Vec<u8>,
    /// The items of an array in Fortran's order.
    columns: Option<Columns>,
}

impl Array {
    pub(super) fn place(&self) -> &str {
        self.source.place()
    }

    fn no_objects(self) -> Result<Self> {
        if self.header.descr != OBJECTS {
            return Ok(self);
        }
        let found = format!("{OBJECTS}, Python objects, which are not unpickled");
        Err(Error::Type { place: self.place().to_owned(), allowed: "a type of numbers", found })
    }

    /// Rejects any shape but this one; `allowed` describes it in words.
    pub(super) fn check_shape(&self, shape: &[usize], allowed: &str) -> Result<()> {
        if self.header.shape == shape {
            return Ok(());
        }
        Err(self.shape(allowed.into()))
    }

    pub(super) fn shape(&self, allowed: String) -> Error {
        Error::Shape { place: self.place().to_owned(), allowed, found: display_shape(&self.header.shape) }
    }

    /// Checks that the file can hold the array, given the width of its items, and returns the number of bytes per row.
    pub(super) fn begin(&mut self, width: usize) -> Result<usize> {
        let count = self.source.count(&self.header.shape, width)?;
        // The number of items was checked, so a partial product does not overflow; in bytes it may, if there are no
        // rows.
        self.row = self.header.shape.iter().skip(1).product::<usize>().saturating_mul(width);
        self.expected = self.source.taken() + (count * width) as u64;
        if self.header.fortran && self.header.shape.len() > 1 {
            self.columns = Some(Columns::copy(&mut self.source, &self.header.shape, count, width)?);
        }
        Ok(self.row)
    }

    /// The bytes of the next `rows` rows, which must exist.
    pub(super) fn rows(&mut self, rows: usize) -> Result<&[u8]> {
        self.buffer.resize(rows * self.row, 0);
        match &mut self.columns {
            None => self.source.take(&mut self.buffer, self.expected)?,
            Some(columns) => columns.rows(rows, &mut self.buffer).map_err(|reason| {
                let place = self.source.place().to_owned();
                Error::Io { place, reason }
            })?,
        }
        Ok(&self.buffer)
    }

    pub(super) fn end(&mut self) -> Result<()> {
        match self.columns {
            None => self.source.end(self.expected),
            // It was read to its end.
            Some(_) => Ok(()),
        }
    }
}

/// An array in Fortran's order, whose rows are spread over the whole array, in a temporary file.
struct Columns {
    file: File,
    /// The number of rows of the array, and of those that were read.
    rows: usize,
    row: usize,
    width: usize,
    /// The shape of a row, and the number of its items.
    shape: Vec<usize>,
    items: usize,
    buffer: Vec<u8>,
}

impl Columns {
    /// Copies `count` items of `width` bytes, which must be all that the source still has.
    fn copy(source: &mut Source<Entry>, shape: &[usize], count: usize, width: usize) -> Result<Self> {
        let place = source.place().to_owned();
        let failed = |reason| Error::Io { place: place.clone(), reason };
        let mut file = BufWriter::with_capacity(1 << 16, tempfile::tempfile().map_err(failed)?);
        source.items(count, width, |_, bytes| file.write_all(bytes).map_err(failed))?;
        let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        let items = if count == 0 { 0 } else { count / shape[0] };
        Ok(Columns { file, rows: shape[0], row: 0, width, shape: shape[1..].to_vec(), items, buffer: Vec::new() })
    }

    /// The next `rows` rows in C's order.
    fn rows(&mut self, rows: usize, into: &mut [u8]) -> io::Result<()> {
        let (width, row) = (self.width, self.items * self.width);
        self.buffer.resize(rows * width, 0);
        for item in 0..self.items {
            let start = (fortran_place(item, &self.shape) * self.rows + self.row) * width;
            self.file.seek(SeekFrom::Start(start as u64))?;
            self.file.read_exact(&mut self.buffer)?;
            for (i, bytes) in self.buffer.chunks_exact(width).enumerate() {
                into[i * row + item * width..][..width].copy_from_slice(bytes);
            }
        }
        self.row += rows;
        Ok(())
    }
}

fn zip(place: &str, reason: &impl ToString) -> Error {
    Error::Zip { place: place.to_owned(), reason: reason.to_string() }
}
