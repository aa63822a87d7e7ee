//! PACKED: log files that are compressed with gzip or zstd.
//!
//! The name (`logs.csv.gz`, `logs.dsjson.zst`) or the first bytes tell that a file is compressed. It is read as a
//! stream, so its size does not matter. A stream that is damaged or that ends too early is an error, never the end of
//! the log. So is one that expands far more than records can.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::error::{Error, Result};
use crate::stores::Blocks;

/// The number of bytes that any stream may expand to: 256 MiB.
const FREE: u64 = 1 << 28;

/// The number of bytes per compressed byte that a stream may expand to beyond [`FREE`]. Logs expand to some 5 to 50.
const MOST_PER_BYTE: u64 = 500;

/// The number of first bytes that tell how a file is compressed.
const MAGIC: u64 = 4;

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    const ALL: [Packing; 2] = [Packing::Gzip, Packing::Zstd];

    fn name(self) -> &'static str {
        match self {
            Packing::Gzip => "gzip",
            Packing::Zstd => "zstd",
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Packing::Gzip => "gz",
            Packing::Zstd => "zst",
        }
    }

    /// The first bytes of a stream.
    fn magic(self) -> &'static [u8] {
        match self {
            Packing::Gzip => &[0x1f, 0x8b],
            Packing::Zstd => &[0x28, 0xb5, 0x2f, 0xfd],
        }
    }

    /// The compression that the extension of a name implies.
    pub(crate) fn of_name(path: &Path) -> Option<Self> {
        let end = path.extension()?.to_str()?;
        Packing::ALL.into_iter().find(|packing| end.eq_ignore_ascii_case(packing.extension()))
    }

    /// The compression of a file. Its first bytes tell; no log format begins with those of a compressed stream.
    pub(crate) fn of_file(place: &str, path: &Path) -> Result<Option<Self>> {
        let failed = |reason| Error::Io { place: place.to_owned(), reason };
        // What is read from a pipe is gone.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Ok(Packing::of_name(path));
        }
        let mut start = Vec::new();
        File::open(path).map_err(failed)?.take(MAGIC).read_to_end(&mut start).map_err(failed)?;
        Packing::of_start(place, path, &start)
    }

    /// The compression of an object.
    pub(crate) fn of_object(place: &str, path: &Path, blocks: &Blocks) -> Result<Option<Self>> {
        let mut start = Vec::new();
        let read = blocks.reader(0).take(MAGIC).read_to_end(&mut start);
        read.map_err(|reason| Error::Io { place: place.to_owned(), reason })?;
        Packing::of_start(place, path, &start)
    }

    /// The compression of what starts with these bytes.
    fn of_start(place: &str, path: &Path, start: &[u8]) -> Result<Option<Self>> {
        let found = Packing::ALL.into_iter().find(|packing| start.starts_with(packing.magic()));
        match Packing::of_name(path) {
            Some(named) if found != Some(named) => {
                let found = match found {
                    Some(other) => format!("is compressed with {}", other.name()),
                    None if start.is_empty() => "is empty".into(),
                    None => "is not".into(),
                };
                let reason = format!("should be compressed with {}, as its name says, but {found}", named.name());
                Err(Error::Malformed { place: place.to_owned(), reason })
            }
            _ => Ok(found),
        }
    }
}

/// The path without the extension of a compressed file.
pub(crate) fn unpacked_name(path: &Path) -> PathBuf {
    if Packing::of_name(path).is_some() { path.with_extension("") } else { path.to_owned() }
}

/// The largest number of bytes that a stream has expanded to so far, shared by all passes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expanded(Arc<AtomicU64>);

impl Expanded {
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The content of a compressed file, as a stream.
pub(crate) fn unpack(
    input: impl Read + Send + 'static,
    packing: Packing,
    expanded: Expanded,
) -> io::Result<impl BufRead + Send + 'static> {
    let packed = Arc::new(AtomicU64::new(0));
    let input = BufReader::with_capacity(1 << 16, Counted { input, count: packed.clone() });
    let input: Box<dyn Read + Send> = match packing {
        Packing::Gzip => Box::new(MultiGzDecoder::new(input)),
        Packing::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(input)?),
    };
    Ok(BufReader::with_capacity(1 << 16, Unpacked { input, packing, packed, taken: 0, expanded }))
}

/// Counts the bytes that are read.
struct Counted<R> {
    input: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read(buffer)?;
        self.count.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// A stream that is decompressed, within the limit.
struct Unpacked {
    input: Box<dyn Read + Send>,
    packing: Packing,
    /// The number of compressed bytes that were read.
    packed: Arc<AtomicU64>,
    /// The number of bytes that they gave.
    taken: u64,
    expanded: Expanded,
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let name = self.packing.name();
        let n = self.input.read(buffer).map_err(|reason| match reason.kind() {
            ErrorKind::Interrupted => reason,
            kind => io::Error::new(kind, format!("the {name} stream is damaged or ends too early: {reason}")),
        })?;
        self.taken += n as u64;
        self.expanded.0.fetch_max(self.taken, Ordering::Relaxed);
        let packed = self.packed.load(Ordering::Relaxed);
        if self.taken > packed.saturating_mul(MOST_PER_BYTE).max(FREE) {
            let reason = format!(
                "the {name} stream should expand to at most {MOST_PER_BYTE} bytes per byte beyond {FREE}, but {packed} \
                 bytes of it expand to {} or more; decompress it first if it is a log",
                self.taken
            );
            return Err(io::Error::new(ErrorKind::InvalidData, reason));
        }
        Ok(n)
    }
}

/// Writes through a compressor, if there is one.
pub(crate) fn pack<W: Write + Send, T>(
    out: W,
    packing: Option<Packing>,
    write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<T>,
) -> io::Result<T> {
    let mut out = out;
    let done = match packing {
        None => write(&mut out)?,
        Some(Packing::Gzip) => {
            let mut packed = GzEncoder::new(&mut out, Compression::default());
            let done = write(&mut packed)?;
            packed.finish()?;
            done
        }
        Some(Packing::Zstd) => {
            let mut packed = zstd::stream::write::Encoder::new(&mut out, 0)?;
            packed.include_checksum(true)?;
            let done = write(&mut packed)?;
            packed.finish()?;
            done
        }
    };
    out.flush()?;
    Ok(done)
}
