//! What a file may ask for: everything that the Parquet reader would believe is held against the bytes there are.
//!
//! A Parquet file says how large it becomes, and its run lengths can say a billion in two bytes. The bounds, each far above
//! what writers write:
//! - a page becomes at most [`LARGEST_PAGE`], and at most [`UNPACKED`] for each of its bytes;
//! - rows, the values of a page, and the list entries of a batch are at most [`FREE`] and [`A_BYTE`] for each byte of the
//!   file, and at most [`MOST`] in a page or batch;
//! - text that is repeated by reference is at most [`LARGEST_PAGE`] a batch when written out.
//!
//! One is missing: `GZipCodec::decompress` unpacks all there is, whatever the page says, and only then compares. A file of
//! 0.3 MB took 0.4 GB so; gzip makes at most 1,032 bytes of one.

use std::fmt::Display;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;

use super::delta;
use super::thrift::{PAGE_HEADER, Tag, walk};

/// Bytes of a page, unpacked. Writers make pages of 1 MB.
pub(super) const LARGEST_PAGE: u64 = 1 << 28;

/// Bytes that one of a page can become: zstd, which packs most, takes 4 or more for a block of 128 KiB.
const UNPACKED: u64 = 1 << 15;

/// Rows or entries that any file may have.
const FREE: u64 = 1 << 20;
const A_BYTE: u64 = 1 << 12;
const MOST: u64 = 1 << 27;

/// How many rows a file of this size may have.
pub(super) fn most_rows(file_size: u64) -> u64 {
    file_size.saturating_mul(A_BYTE).saturating_add(FREE)
}

/// How many entries the lists of a batch may have, and how many they have so far.
#[derive(Debug)]
pub(super) struct Budget {
    most: u64,
    taken: AtomicU64,
}

impl Budget {
    pub(super) fn new(file_size: u64) -> Arc<Self> {
        Arc::new(Budget { most: most_rows(file_size).min(MOST), taken: AtomicU64::new(0) })
    }

    /// A new batch begins.
    pub(super) fn reset(&self) {
        self.taken.store(0, Ordering::Relaxed);
    }

    fn take(&self, entries: u64) -> Result<()> {
        match self.taken.fetch_add(entries, Ordering::Relaxed).saturating_add(entries) {
            taken if taken > self.most => wrong(format!("the lists of a batch have {taken} entries or more")),
            _ => Ok(()),
        }
    }
}

/// The row groups of a file, whose pages are looked at before they are unpacked and before they are decoded.
#[derive(Debug)]
pub(super) struct Groups<R> {
    pub(super) input: Arc<R>,
    pub(super) metadata: Arc<ParquetMetaData>,
    pub(super) budget: Arc<Budget>,
}

impl<R: ChunkReader + 'static> RowGroups for Groups<R> {
    fn num_rows(&self) -> usize {
        self.row_groups().fold(0, |sum, group| sum.saturating_add(usize::try_from(group.num_rows()).unwrap_or(0)))
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>> {
        let (input, metadata, budget) = (self.input.clone(), self.metadata.clone(), self.budget.clone());
        Ok(Box::new(Chunks { groups: Groups { input, metadata, budget }, column, next: 0 }))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.metadata.row_groups().iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The chunks of one column.
struct Chunks<R> {
    groups: Groups<R>,
    column: usize,
    next: usize,
}

impl<R: ChunkReader + 'static> PageIterator for Chunks<R> {}

impl<R: ChunkReader + 'static> Iterator for Chunks<R> {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        let group = self.groups.metadata.row_groups().get(self.next)?;
        self.next += 1;
        let chunk = group.column(self.column);
        let (offset, length) = chunk.byte_range();
        let input = self.groups.input.clone();
        let rows = usize::try_from(group.num_rows()).unwrap_or(0);
        let inner = match SerializedPageReader::new(input.clone(), chunk, rows, None) {
            Ok(inner) => inner,
            Err(error) => return Some(Err(error)),
        };
        Some(Ok(Box::new(Pages {
            inner,
            input,
            offset,
            left: length,
            looked: false,
            kind: chunk.column_type(),
            levels: [chunk.column_descr().max_rep_level(), chunk.column_descr().max_def_level()],
            budget: self.groups.budget.clone(),
        })))
    }
}

/// The pages of one chunk.
struct Pages<R: ChunkReader> {
    inner: SerializedPageReader<R>,
    input: Arc<R>,
    /// Where the next page begins, and what is left of the chunk from there.
    offset: u64,
    left: u64,
    /// Whether the reader has yet to take the page before that.
    looked: bool,
    kind: Type,
    /// The highest repetition and definition level.
    levels: [i16; 2],
    budget: Arc<Budget>,
}

impl<R: ChunkReader> Pages<R> {
    /// Looks at the header of the next page, if there is one, unless that was done already.
    ///
    /// `decode_page` makes room for as many bytes as the header says that the page becomes, and the decoders of snappy and
    /// lz4 write zeros to all of them: `bad-bomb`, of 372 bytes, took 2 GiB and seconds (apache/arrow-rs#10734). `GenericRecordReader`
    /// decodes the list of a row as a whole: `bad-list`, of 139 bytes and one row, asked for 8 GB.
    fn check_next(&mut self) -> Result<()> {
        if self.looked || self.left == 0 {
            return Ok(());
        }
        let read = self.input.get_read(self.offset)?.take(self.left);
        let Some(header) = Header::read(read) else {
            return Err(ParquetError::General("a page has no valid header".into()));
        };
        let left = self.left - header.length;
        let (packed, unpacked) = match (u64::try_from(header.packed), u64::try_from(header.unpacked)) {
            (Ok(packed), Ok(unpacked)) if packed <= left => (packed, unpacked),
            _ => return wrong(format!("a page of {} bytes is in a chunk with {left} left", header.packed)),
        };
        if unpacked > LARGEST_PAGE.min(packed.saturating_mul(UNPACKED)) {
            return wrong(format!("a page of {packed} bytes should become {unpacked}"));
        }
        let Some(values) = u64::try_from(header.values).ok().filter(|&values| values <= self.budget.most) else {
            return wrong(format!("a page of {packed} bytes should have {} values", header.values));
        };
        if self.levels[0] > 0 {
            self.budget.take(values)?;
        }
        self.offset += header.length + packed;
        self.left = left - packed;
        self.looked = true;
        Ok(())
    }

    /// Looks at what the decoders of the page would make room for at once.
    ///
    /// `DictDecoder::set_dict` and that of `ByteViewArrayColumnValueDecoder` do so for as many values as the header says:
    /// `bad-dictionary`, of 107 bytes, asked for 32 GiB. For the others see [`delta`].
    fn check_page(&self, page: &Page) -> Result<()> {
        if let Page::DictionaryPage { buf, num_values, .. } = page {
            let least = if self.kind == Type::BYTE_ARRAY { 4 } else { 1 };
            return match *num_values as usize {
                values if values > buf.len() / least => {
                    wrong(format!("a dictionary of {} bytes should have {values} values", buf.len()))
                }
                _ => Ok(()),
            };
        }
        let most = page.num_values() as usize;
        let size = match page.encoding() {
            // The reader itself holds the lengths of these against the page.
            Encoding::DELTA_LENGTH_BYTE_ARRAY => {
                self.values(page).and_then(|bytes| delta::count(bytes, most)).map(|_| 0)
            }
            Encoding::DELTA_BYTE_ARRAY => self.values(page).and_then(|bytes| delta::size(bytes, most)),
            _ => return Ok(()),
        };
        match size {
            Some(size) if size <= LARGEST_PAGE => Ok(()),
            Some(size) => wrong(format!("a page of {} bytes has {size} bytes of text", page.buffer().len())),
            None => wrong("a page of text has no valid lengths"),
        }
    }

    /// What follows the levels in a page.
    fn values<'a>(&self, page: &'a Page) -> Option<&'a [u8]> {
        let mut bytes: &[u8] = page.buffer();
        match page {
            Page::DataPage { num_values, def_level_encoding, rep_level_encoding, .. } => {
                for (most, encoding) in self.levels.into_iter().zip([rep_level_encoding, def_level_encoding]) {
                    if most == 0 {
                        continue;
                    }
                    #[expect(deprecated, reason = "old files have it")]
                    let size = if *encoding == Encoding::BIT_PACKED {
                        let width = u64::from(16 - most.cast_unsigned().leading_zeros());
                        (u64::from(*num_values) * width).div_ceil(8)
                    } else {
                        u64::from(u32::from_le_bytes(*bytes.split_off(..4)?.first_chunk()?))
                    };
                    bytes.split_off(..usize::try_from(size).ok()?)?;
                }
            }
            Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
                bytes.split_off(..*def_levels_byte_len as usize)?;
                bytes.split_off(..*rep_levels_byte_len as usize)?;
            }
            Page::DictionaryPage { .. } => {}
        }
        Some(bytes)
    }
}

impl<R: ChunkReader> Iterator for Pages<R> {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl<R: ChunkReader> PageReader for Pages<R> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.check_next()?;
        self.looked = false;
        let page = self.inner.get_next_page()?;
        if let Some(page) = &page {
            self.check_page(page)?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.check_next()?;
        self.inner.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.get_next_page().map(drop)
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.check_next()?;
        self.inner.at_record_boundary()
    }
}

/// What of a page's header tells its size.
struct Header {
    length: u64,
    unpacked: i64,
    packed: i64,
    values: i64,
}

impl Header {
    /// `None` if it is none, or of an index, which no writer writes: `SerializedPageReader::peek_next_page` passes over the
    /// header of such a page, but takes the page itself for the next header.
    fn read(input: impl Read) -> Option<Self> {
        let (mut kind, mut unpacked, mut packed) = (None, None, None);
        let (mut data, mut dictionary, mut data_v2) = (None, None, None);
        let length = walk(input, &PAGE_HEADER, &mut |tag, value| {
            match tag {
                Tag::Kind => kind = Some(value),
                Tag::Unpacked => unpacked = Some(value),
                Tag::Packed => packed = Some(value),
                Tag::Data => data = Some(value),
                Tag::Dictionary => dictionary = Some(value),
                Tag::DataV2 => data_v2 = Some(value),
                Tag::Element | Tag::Children => {}
            }
            Some(())
        })?;
        let values = match kind? {
            0 => data?,
            2 => dictionary?,
            3 => data_v2?,
            _ => return None,
        };
        Some(Header { length, unpacked: unpacked?, packed: packed?, values })
    }
}

fn wrong<T>(reason: impl Display) -> Result<T> {
    Err(ParquetError::General(format!("{reason}, which is implausible")))
}
