//! Data sets as `.npz` files, numpy's archives of arrays, with a training and a test split.

use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::Path;

use surefoot::Contexts;
use surefoot::contexts::{ContextsBuilder, Labelled, Row};
use surefoot::worlds::Dataset;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use crate::error::{Error, Result, at};
use crate::files::replace_with;
use crate::npy::{Header, Kind};
use crate::source::{Packing, Source, display_shape};

/// The archive, and its name in errors.
struct Npz<'a, R> {
    path: &'a Path,
    size: u64,
    archive: ZipArchive<R>,
}

/// Reads a data set from an archive of `size` bytes.
pub(crate) fn read<R: Read + Seek>(name: &str, path: &Path, reader: R, size: u64) -> Result<Dataset> {
    let archive = ZipArchive::new(reader)
        .map_err(|reason| Error::Zip { place: path.display().to_string(), reason: reason.to_string() })?;
    let mut npz = Npz { path, size, archive };
    let scale = npz.scale()?;
    let train = npz.split("x_train", "y_train", scale.as_deref())?;
    let test = npz.split("x_test", "y_test", scale.as_deref())?;
    at(&path.display().to_string(), Dataset::new(name, train, test))
}

/// Writes a data set as an `.npz` file with the arrays `x_train`, `y_train`, `x_test` and `y_test`, which
/// [`load`](crate::load) and numpy read: features as `f32`, labels as `u32`.
///
/// Values are read back bit for bit, except that [`load`](crate::load) reads -0 as 0. The same data gives the same
/// bytes. An existing file is replaced once the new one is complete.
pub fn write_npz(path: &Path, data: &Dataset) -> Result<()> {
    replace_with(path, |file| {
        let mut archive = ZipWriter::new(BufWriter::new(file));
        for (x, y, split) in [("x_train", "y_train", data.train()), ("x_test", "y_test", data.test())] {
            write_contexts(&mut archive, x, split.contexts())?;
            let labels = split.labels();
            start(&mut archive, y, "<u4", &[labels.len()])?;
            for labels in labels.chunks(1 << 14) {
                archive.write_all(&labels.iter().flat_map(|label| label.to_le_bytes()).collect::<Vec<u8>>())?;
            }
        }
        archive.finish()?.flush()
    })
}

fn write_contexts<W: Write + Seek>(archive: &mut ZipWriter<W>, array: &str, contexts: &Contexts) -> io::Result<()> {
    start(archive, array, "<f4", &[contexts.len(), contexts.features()])?;
    let mut values = vec![0.0; contexts.features()];
    let mut bytes = Vec::with_capacity(4 * values.len());
    for i in 0..contexts.len() {
        match contexts.row(i) {
            Row::Dense(row) => values.copy_from_slice(row),
            // The stored values are f32, so converting through f64 changes nothing.
            row => {
                values.fill(0.0);
                row.for_each(|feature, value| values[feature] = value as f32);
            }
        }
        bytes.clear();
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        archive.write_all(&bytes)?;
    }
    Ok(())
}

/// Starts an array of four-byte items.
fn start<W: Write + Seek>(archive: &mut ZipWriter<W>, array: &str, descr: &str, shape: &[usize]) -> io::Result<()> {
    let header = Header { descr: descr.into(), fortran: false, shape: shape.to_vec() }.bytes();
    let size = shape.iter().fold(4, |size: u64, &n| size.saturating_mul(n as u64));
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        // A fixed time, so that the same data gives the same bytes.
        .last_modified_time(DateTime::default())
        // Sizes that may not fit 32 bits, with room for what does not compress.
        .large_file(size > u64::from(u32::MAX / 2));
    archive.start_file(format!("{array}.npy"), options)?;
    archive.write_all(&header)
}

impl<R: Read + Seek> Npz<'_, R> {
    fn split(&mut self, x: &'static str, y: &'static str, scale: Option<&[f64]>) -> Result<Labelled> {
        let contexts = self.contexts(x, scale)?;
        let labels = self.labels(y)?;
        if contexts.len() != labels.len() {
            return Err(Error::Shape {
                place: self.place(y),
                allowed: format!("{}, one label for each row of {x}", display_shape(&[contexts.len()])),
                found: display_shape(&[labels.len()]),
            });
        }
        at(&self.place(y), Labelled::new(contexts, labels))
    }

    /// Read twice, to count and then to build, so that only the result stays in memory.
    fn contexts(&mut self, array: &'static str, scale: Option<&[f64]>) -> Result<Contexts> {
        let place = self.place(array);
        let mut filled = 0;
        let [rows, features] = self.values(array, scale, |values| {
            filled += values.iter().filter(|&&value| value != 0.0).count();
            Ok(())
        })?;
        let mut contexts = at(&place, ContextsBuilder::new(rows, features, filled))?;
        self.values(array, scale, |values| at(&place, contexts.extend(values.iter().copied())))?;
        at(&place, contexts.finish())
    }

    /// Calls `visit` with the scaled values of an array in row order; returns the number of rows and features.
    fn values(
        &mut self,
        array: &'static str,
        scale: Option<&[f64]>,
        mut visit: impl FnMut(&[f32]) -> Result<()>,
    ) -> Result<[usize; 2]> {
        let (place, place_of_scale) = (self.place(array), self.place("scale"));
        let (Header { shape, fortran, .. }, item, mut source) = self.open(array, "u8, i8, i16, f32 or f64", real)?;
        if shape.len() < 2 {
            return Err(Error::Shape {
                place,
                allowed: "(rows, features), with at least 2 dimensions".into(),
                found: display_shape(&shape),
            });
        }
        let count = source.count(&shape, item.width)?;
        let features: usize = shape[1..].iter().product();
        if let Some(scale) = scale.filter(|scale| scale.len() != features) {
            return Err(Error::Shape {
                place: place_of_scale,
                allowed: format!("{}, one factor for each feature of {array}", display_shape(&[features])),
                found: display_shape(&[scale.len()]),
            });
        }
        let value = |place: usize, bytes: &[u8]| {
            let value = item.number(bytes) as f32;
            scale.map_or(value, |scale| (f64::from(value) * scale[place % features]) as f32)
        };
        let mut values = Vec::new();
        if fortran {
            // In Fortran order every row is spread over the whole array, so all of it must be in memory.
            let mut bytes = Vec::new();
            source.items(count, item.width, |_, piece| {
                bytes.extend_from_slice(piece);
                Ok(())
            })?;
            for row in (0..count).step_by(features.max(1)) {
                values.clear();
                values.extend((row..row + features).map(|place| {
                    let start = fortran_place(place, &shape) * item.width;
                    value(place, &bytes[start..start + item.width])
                }));
                visit(&values)?;
            }
        } else {
            source.items(count, item.width, |first, bytes| {
                values.clear();
                values.extend((first..).zip(bytes.chunks_exact(item.width)).map(|(place, bytes)| value(place, bytes)));
                visit(&values)
            })?;
        }
        Ok([shape[0], features])
    }

    fn labels(&mut self, array: &'static str) -> Result<Vec<u32>> {
        let allowed = "a label from 0 to 4294967295";
        self.vector(array, "an integer type", integer, allowed, |label| label.try_into().ok())
    }

    fn scale(&mut self) -> Result<Option<Vec<f64>>> {
        if self.archive.index_for_name("scale.npy").is_none() {
            return Ok(None);
        }
        let float = |kind, width| (kind == Kind::Float).then(|| real(kind, width)).flatten();
        let finite = |factor: f64| factor.is_finite().then_some(factor);
        self.vector("scale", "f32 or f64", float, "finite", finite).map(Some)
    }

    /// A one-dimensional array whose items are converted by `accept`; an item that it rejects is an error that names
    /// what is `allowed`.
    fn vector<N: ToString + Copy, F: Fn(&[u8]) -> N, T>(
        &mut self,
        array: &'static str,
        types: &'static str,
        number: impl Fn(Kind, usize) -> Option<F>,
        allowed: &'static str,
        accept: impl Fn(N) -> Option<T>,
    ) -> Result<Vec<T>> {
        let place = self.place(array);
        let (Header { shape, .. }, item, mut source) = self.open(array, types, number)?;
        if shape.len() != 1 {
            return Err(Error::Shape { place, allowed: "of 1 dimension".into(), found: display_shape(&shape) });
        }
        let count = source.count(&shape, item.width)?;
        let mut vector = Vec::new();
        source.items(count, item.width, |first, bytes| {
            for (index, bytes) in (first..).zip(bytes.chunks_exact(item.width)) {
                let number = item.number(bytes);
                vector.push(accept(number).ok_or_else(|| Error::Value {
                    place: place.clone(),
                    index,
                    allowed,
                    value: number.to_string(),
                })?);
            }
            Ok(())
        })?;
        Ok(vector)
    }

    /// The header of an array, the conversion of its items, and the items.
    fn open<N, F: Fn(&[u8]) -> N>(
        &mut self,
        array: &'static str,
        types: &'static str,
        number: impl Fn(Kind, usize) -> Option<F>,
    ) -> Result<(Header, Item<F>, Source<impl Read>)> {
        let place = self.place(array);
        let mut names: Vec<String> = self.archive.file_names().flatten().map(|name| name.replace(".npy", "")).collect();
        names.sort_unstable();
        let entry = match self.archive.by_name(&format!("{array}.npy")) {
            Ok(entry) => entry,
            Err(ZipError::FileNotFound) => {
                return Err(Error::MissingArray {
                    path: self.path.to_owned(),
                    array,
                    found: if names.is_empty() { "nothing".into() } else { names.join(", ") },
                });
            }
            Err(reason) => {
                let reason = reason.to_string();
                return Err(Error::Zip { place, reason });
            }
        };
        let mut source = Source::new(entry, place, Packing::Zip, self.size);
        let header = Header::read(&mut source)?;
        let item = Item::new(&header, source.place(), types, number)?;
        Ok((header, item, source))
    }

    fn place(&self, array: &str) -> String {
        format!("{}: {array}", self.path.display())
    }
}

/// How the items of an array are converted to numbers.
pub(crate) struct Item<F> {
    pub(crate) width: usize,
    big_endian: bool,
    /// Converts the little-endian bytes of an item.
    number: F,
}

impl<N, F: Fn(&[u8]) -> N> Item<F> {
    pub(crate) fn new(
        header: &Header,
        place: &str,
        allowed: &'static str,
        number: impl Fn(Kind, usize) -> Option<F>,
    ) -> Result<Self> {
        let item = header
            .item()
            .and_then(|(kind, width, big_endian)| Some(Item { width, big_endian, number: number(kind, width)? }));
        item.ok_or_else(|| Error::Type { place: place.to_owned(), allowed, found: header.descr.clone() })
    }

    pub(crate) fn number(&self, bytes: &[u8]) -> N {
        if !self.big_endian {
            return (self.number)(bytes);
        }
        let mut turned = [0; 8];
        turned.iter_mut().zip(bytes.iter().rev()).for_each(|(to, from)| *to = *from);
        (self.number)(&turned[..self.width])
    }
}

/// The types allowed for features. The integers are exact in f32.
fn real(kind: Kind, width: usize) -> Option<fn(&[u8]) -> f64> {
    fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
        std::array::from_fn(|i| bytes[i])
    }
    Some(match (kind, width) {
        (Kind::Unsigned, 1) => |b| f64::from(b[0]),
        (Kind::Signed, 1) => |b| f64::from(i8::from_le_bytes(first(b))),
        (Kind::Signed, 2) => |b| f64::from(i16::from_le_bytes(first(b))),
        (Kind::Float, 4) => |b| f64::from(f32::from_le_bytes(first(b))),
        (Kind::Float, 8) => |b| f64::from_le_bytes(first(b)),
        _ => return None,
    })
}

/// The types allowed for labels: all integers of up to 8 bytes. `i128` holds each of them with its sign.
pub(crate) fn integer(kind: Kind, _: usize) -> Option<impl Fn(&[u8]) -> i128> {
    let signed = match kind {
        Kind::Unsigned => false,
        Kind::Signed => true,
        Kind::Boolean | Kind::Float => return None,
    };
    Some(move |bytes: &[u8]| {
        let negative = signed && bytes.last().is_some_and(|&top| top >= 0x80);
        let mut wide = [if negative { 0xff } else { 0 }; 16];
        wide[..bytes.len()].copy_from_slice(bytes);
        i128::from_le_bytes(wide)
    })
}

/// Converts a position in row-major order (the last index varies fastest) to Fortran order (the first one does).
pub(crate) fn fortran_place(mut place: usize, shape: &[usize]) -> usize {
    // Takes the indices off from the last to the first, and multiplies each by its stride.
    let mut stride: usize = shape.iter().product();
    shape.iter().rev().fold(0, |at, &size| {
        stride /= size;
        let index = place % size;
        place /= size;
        at + index * stride
    })
}
