//! Safetensors files with one JSON object in their metadata: the format of policies, bases and rounds.
//!
//! The object is the text of the only entry of `__metadata__`, [`KEY`]. With two entries, their order would be that of
//! a hash map, and the same content would not give the same bytes.

use std::borrow::Cow;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use safetensors::tensor::Metadata;
use safetensors::{Dtype, View, serialize};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use surefoot::Fingerprint;

use crate::error::{Error, Result};
use crate::files::Together;
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

/// A tensor to be written.
#[derive(Debug)]
pub(crate) struct Tensor {
    name: &'static str,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Tensor {
    /// A tensor with as many items as the shape implies.
    pub(crate) fn new<T: Item>(name: &'static str, shape: &[usize], items: impl IntoIterator<Item = T>) -> Self {
        let mut bytes = Vec::with_capacity(shape.iter().product::<usize>() * T::WIDTH);
        items.into_iter().for_each(|item| item.put(&mut bytes));
        debug_assert_eq!(bytes.len(), shape.iter().product::<usize>() * T::WIDTH, "{name}");
        Tensor { name, dtype: T::TYPE, shape: shape.to_vec(), bytes }
    }
}

impl View for Tensor {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// The bytes of a file with this metadata and these tensors.
pub(crate) fn bytes(path: &Path, header: &impl Serialize, tensors: Vec<Tensor>) -> Result<Vec<u8>> {
    let place = || path.display().to_string();
    let text = serde_json::to_string(header).map_err(|reason| Error::Json { place: place(), reason })?;
    let metadata = [(KEY.to_owned(), text)].into_iter().collect();
    let named = tensors.into_iter().map(|tensor| (tensor.name, tensor));
    serialize(named, Some(metadata)).map_err(|reason| Error::Safetensors { place: place(), reason: reason.to_string() })
}

/// Adds a file with this metadata and these tensors to the files that are written together.
pub(crate) fn write(together: &mut Together, path: &Path, header: &impl Serialize, tensors: Vec<Tensor>) -> Result<()> {
    let bytes = bytes(path, header, tensors)?;
    together.file(path, |file| file.write_all(&bytes))
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
    bytes: Vec<u8>,
    /// The position of the first item.
    start: usize,
}

impl Tensors {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).map_err(|reason| Error::io(path, reason))?;
        let place = path.display().to_string();
        let bad = |reason: String| Error::Safetensors { place: place.clone(), reason };
        let Some((length, rest)) = bytes.split_first_chunk::<LENGTH>() else {
            return Err(bad(format!("it has {} bytes, and its header alone takes more", bytes.len())));
        };
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
        Ok(Tensors { place, metadata, bytes, start })
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

    fn get<T: Item>(
        &self,
        name: &str,
        fits: impl Fn(&[usize]) -> bool,
        allowed: impl Fn() -> String,
    ) -> Result<Vec<T>> {
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
        Ok(self.bytes[self.start + from..self.start + to].chunks_exact(T::WIDTH).map(T::get).collect())
    }
}
