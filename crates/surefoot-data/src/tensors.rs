//! Safetensors files with one JSON object in their metadata: the format of policies, bases and rounds.
//!
//! The object is the text of the only entry of `__metadata__`, [`KEY`]. With two entries, their order would be that of
//! a hash map, and the same content would not give the same bytes.

use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use bytemuck::Pod;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use surefoot::Fingerprint;
use surefoot::contexts::Column;

use crate::error::{Error, Result};
use crate::files::{Together, read};
use crate::mapped_file::MappedFile;
use crate::source::display_shape;

const KEY: &str = "surefoot";

/// The number of bytes that hold the length of the header.
const LENGTH: usize = 8;

/// A number that a tensor may hold.
pub(crate) trait Item: Copy {
    const TYPE: Dtype;
    const NAME: &str;
    const WIDTH: usize = size_of::<Self>();
    fn put(self, bytes: &mut Vec<u8>);
    /// Reads an item from exactly `WIDTH` bytes.
    fn get(bytes: &[u8]) -> Self;
}

macro_rules! items {
    ($($type:ty: $name:ident),*) => {$(
        impl Item for $type {
            const TYPE: Dtype = Dtype::$name;
            const NAME: &str = stringify!($name);
            fn put(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
            fn get(bytes: &[u8]) -> Self {
                <$type>::from_le_bytes(std::array::from_fn(|i| bytes[i]))
            }
        }
    )*};
}

items!(f32: F32, f64: F64, u32: U32, u64: U64);

/// A tensor to be written. Its items are made when they are written, so that a large one is not held.
pub(crate) struct Tensor<'a> {
    name: &'static str,
    dtype: Dtype,
    shape: Vec<usize>,
    length: usize,
    write: Box<WriteItems<'a>>,
}

type WriteItems<'a> = dyn FnOnce(&mut dyn Write) -> io::Result<()> + 'a;

/// The number of bytes that are written at once.
const CHUNK: usize = 1 << 16;

impl<'a> Tensor<'a> {
    /// A tensor with as many items as the shape implies.
    pub(crate) fn new<T: Item>(
        name: &'static str,
        shape: &[usize],
        items: impl IntoIterator<Item = T, IntoIter: 'a> + 'a,
    ) -> Self {
        let length = shape.iter().product::<usize>() * T::WIDTH;
        let write = move |out: &mut dyn Write| {
            let (mut bytes, mut written) = (Vec::with_capacity(CHUNK), 0);
            for item in items {
                item.put(&mut bytes);
                if bytes.len() >= CHUNK {
                    out.write_all(&bytes)?;
                    written += bytes.len();
                    bytes.clear();
                }
            }
            debug_assert_eq!(written + bytes.len(), length, "{name}");
            out.write_all(&bytes)
        };
        Tensor { name, dtype: T::TYPE, shape: shape.to_vec(), length, write: Box::new(write) }
    }
}

/// The bytes before the items, and the tensors in the order in which they follow: as the safetensors crate writes them, which
/// would hold all of them at once.
fn prepared<'a>(
    path: &Path,
    header: &impl Serialize,
    mut tensors: Vec<Tensor<'a>>,
) -> Result<(Vec<u8>, Vec<Tensor<'a>>)> {
    let place = || path.display().to_string();
    let text = serde_json::to_string(header).map_err(|reason| Error::Json { place: place(), reason })?;
    // Those with the widest items come first, so that every item is where numbers of its size can be.
    tensors.sort_by(|a, b| b.dtype.cmp(&a.dtype).then(a.name.cmp(b.name)));
    let mut end = 0;
    let infos = tensors.iter().map(|tensor| {
        let start = end;
        end += tensor.length;
        let info = TensorInfo { dtype: tensor.dtype, shape: tensor.shape.clone(), data_offsets: (start, end) };
        (tensor.name.to_owned(), info)
    });
    let metadata = Metadata::new(Some([(KEY.to_owned(), text)].into_iter().collect()), infos.collect());
    let metadata = metadata.map_err(|reason| Error::Safetensors { place: place(), reason: reason.to_string() })?;
    let mut text = serde_json::to_vec(&metadata).map_err(|reason| Error::Json { place: place(), reason })?;
    text.resize(text.len().next_multiple_of(LENGTH), b' ');
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text);
    Ok((bytes, tensors))
}

/// The bytes of a file with this metadata and these tensors.
pub(crate) fn bytes(path: &Path, header: &impl Serialize, tensors: Vec<Tensor<'_>>) -> Result<Vec<u8>> {
    let (mut bytes, tensors) = prepared(path, header, tensors)?;
    let written = tensors.into_iter().try_for_each(|tensor| (tensor.write)(&mut bytes));
    written.map_err(|reason| Error::Write { place: path.display().to_string(), reason })?;
    Ok(bytes)
}

/// Adds a file with this metadata and these tensors to the files that are written together.
pub(crate) fn write(
    together: &mut Together,
    path: &Path,
    header: &impl Serialize,
    tensors: Vec<Tensor<'_>>,
) -> Result<()> {
    let (bytes, tensors) = prepared(path, header, tensors)?;
    together.file(path, |file| {
        file.write_all(&bytes)?;
        tensors.into_iter().try_for_each(|tensor| (tensor.write)(file))
    })
}

/// The fields that every format starts with.
#[derive(Debug, Deserialize)]
struct Head {
    format: String,
    version: u64,
}

/// Parses the JSON of one of our formats, after checking its format and version.
pub(crate) fn json<H: DeserializeOwned>(place: &str, text: &[u8], format: &str, version: u64) -> Result<H> {
    let bad = |reason| Error::Json { place: place.to_owned(), reason };
    let head: Head = serde_json::from_slice(text).map_err(bad)?;
    let header = |part: &str, allowed: String, found: String| {
        Err(Error::Header { place: place.to_owned(), part: part.into(), allowed, found })
    };
    if head.format != format {
        return header("the format", format.to_owned(), head.format);
    }
    if head.version != version {
        return header("the version of the format", version.to_string(), head.version.to_string());
    }
    serde_json::from_slice(text).map_err(bad)
}

/// Checks that the content of a file still has the fingerprint in it.
pub(crate) fn check_fingerprint(place: &str, claimed: Fingerprint, found: Fingerprint) -> Result<()> {
    if claimed != found {
        return Err(Error::Fingerprint { place: place.to_owned(), claimed, found });
    }
    Ok(())
}

/// A file of tensors that has been read.
#[derive(Debug)]
pub(crate) struct Tensors {
    place: String,
    metadata: Metadata,
    content: Content,
    /// The position of the first item.
    start: usize,
}

/// The bytes of a file.
#[derive(Debug)]
enum Content {
    Read(Vec<u8>),
    Mapped(MappedFile),
}

impl Content {
    fn bytes(&self) -> &[u8] {
        match self {
            Content::Read(bytes) => bytes,
            Content::Mapped(file) => file.bytes(),
        }
    }
}

impl Tensors {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        Tensors::of(path, Content::Read(read(path)?))
    }

    /// Maps a file, so that its columns are not held.
    pub(crate) fn map(path: &Path) -> Result<Self> {
        Tensors::of(path, Content::Mapped(MappedFile::open(path)?))
    }

    fn of(path: &Path, content: Content) -> Result<Self> {
        let bytes = content.bytes();
        let place = path.display().to_string();
        let bad = |reason: String| Error::Safetensors { place: place.clone(), reason };
        let Some((length, rest)) = bytes.split_first_chunk::<LENGTH>() else {
            return Err(bad(format!("it has {} bytes, and its header alone takes more", bytes.len())));
        };
        // A length has zeros at its end.
        if length.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
            return Err(bad(format!("it begins like text, with \"{}\"", length.escape_ascii())));
        }
        // `SafeTensors::deserialize` adds sizes unchecked, so lengths are compared here; the metadata checks the rest.
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let Some((header, items)) = rest.split_at_checked(length) else {
            return Err(bad(format!("its header should have {length} bytes, but the file has {}", bytes.len())));
        };
        let metadata: Metadata =
            serde_json::from_slice(header).map_err(|reason| bad(format!("its header: {reason}")))?;
        if metadata.data_len() != items.len() {
            let found = match metadata.data_len() < items.len() {
                true => "has more".into(),
                false => format!("ends after {}", bytes.len()),
            };
            let expected = (LENGTH as u64 + length as u64).saturating_add(metadata.data_len() as u64);
            return Err(Error::Length { place, expected, found });
        }
        let start = LENGTH + length;
        Ok(Tensors { place, metadata, content, start })
    }

    /// The name of the file in errors.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// The name of a tensor in errors.
    pub(crate) fn place_of(&self, tensor: &str) -> String {
        format!("{}: {tensor}", self.place)
    }

    /// The JSON object of the metadata.
    pub(crate) fn header<H: DeserializeOwned>(&self, format: &str, version: u64) -> Result<H> {
        let text = self.metadata.metadata().as_ref().and_then(|metadata| metadata.get(KEY));
        let text = text.ok_or_else(|| Error::Header {
            place: self.place.clone(),
            part: "the metadata".into(),
            allowed: format!("one with the entry \"{KEY}\", which {format} files have"),
            found: "without".into(),
        })?;
        json(&self.place_of("metadata"), text.as_bytes(), format, version)
    }

    /// Checks that the file has exactly these tensors.
    pub(crate) fn expect(&self, names: &[&str]) -> Result<()> {
        let sorted = |mut names: Vec<String>| {
            names.sort_unstable();
            names
        };
        let allowed = sorted(names.iter().map(|&name| name.into()).collect());
        let found = sorted(self.metadata.offset_keys());
        if allowed != found {
            let found = if found.is_empty() { "none".into() } else { found.join(", ") };
            return Err(Error::Tensors { place: self.place.clone(), allowed: allowed.join(", "), found });
        }
        Ok(())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.metadata.info(name).is_some()
    }

    /// The items of a tensor, which must have this shape.
    pub(crate) fn items<T: Item>(&self, name: &str, shape: &[usize]) -> Result<Vec<T>> {
        self.get(name, |found| found == shape, || display_shape(shape))
    }

    /// The items of a one-dimensional tensor.
    pub(crate) fn list<T: Item>(&self, name: &str) -> Result<Vec<T>> {
        self.get(name, |found| found.len() == 1, || "of 1 dimension".into())
    }

    /// The shape of a tensor.
    pub(crate) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.metadata.info(name).map(|info| &info.shape[..])
    }

    /// The items of a tensor, which must have this shape; borrowed from the file if it is mapped.
    pub(crate) fn column<T: Item + Pod + Send + Sync>(&self, name: &str, shape: &[usize]) -> Result<Column<T>> {
        let range = self.range::<T>(name, |found| found == shape, || display_shape(shape))?;
        match &self.content {
            // The numbers of a file have the order of bytes of most machines.
            Content::Mapped(file) if cfg!(target_endian = "little") => match file.column(range) {
                Some(column) => Ok(column),
                None => self.items(name, shape).map(Column::from),
            },
            _ => self.items(name, shape).map(Column::from),
        }
    }

    fn get<T: Item>(
        &self,
        name: &str,
        fits: impl Fn(&[usize]) -> bool,
        allowed: impl Fn() -> String,
    ) -> Result<Vec<T>> {
        let range = self.range::<T>(name, fits, allowed)?;
        Ok(self.content.bytes()[range].chunks_exact(T::WIDTH).map(T::get).collect())
    }

    /// Where the items of a tensor are in the file.
    fn range<T: Item>(
        &self,
        name: &str,
        fits: impl Fn(&[usize]) -> bool,
        allowed: impl Fn() -> String,
    ) -> Result<Range<usize>> {
        let place = self.place_of(name);
        let Some(info) = self.metadata.info(name) else {
            let found = self.metadata.offset_keys().join(", ");
            return Err(Error::Tensors { place: self.place.clone(), allowed: format!("some with {name}"), found });
        };
        if info.dtype != T::TYPE {
            return Err(Error::Type { place, allowed: T::NAME, found: info.dtype.to_string() });
        }
        if !fits(&info.shape) {
            return Err(Error::Shape { place, allowed: allowed(), found: display_shape(&info.shape) });
        }
        // The metadata has checked that shape, type and offsets agree and that the offsets are in order; its last
        // offset is the end of the file.
        let (from, to) = info.data_offsets;
        Ok(self.start + from..self.start + to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_that_the_safetensors_crate_writes() {
        use safetensors::tensor::TensorView;

        let (wide, narrow) = ([1.5f64, -2.0, 0.25], [7u32, 8]);
        let header = [1, 2, 3];
        let ours = vec![Tensor::new("b", &[2], narrow), Tensor::new("z", &[3, 1], wide), Tensor::new("a", &[3], wide)];
        let ours = bytes(Path::new("f"), &header, ours).unwrap();
        let raw = |numbers: &[f64]| numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let (wide, narrow): (Vec<u8>, Vec<u8>) = (raw(&wide), narrow.iter().flat_map(|x| x.to_le_bytes()).collect());
        let theirs = [
            ("a", TensorView::new(Dtype::F64, vec![3], &wide).unwrap()),
            ("b", TensorView::new(Dtype::U32, vec![2], &narrow).unwrap()),
            ("z", TensorView::new(Dtype::F64, vec![3, 1], &wide).unwrap()),
        ];
        let metadata = [(KEY.to_owned(), "[1,2,3]".to_owned())].into_iter().collect();
        assert!(ours == safetensors::serialize(theirs, Some(metadata)).unwrap());
    }
}
