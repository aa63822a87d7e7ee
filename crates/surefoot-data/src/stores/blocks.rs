//! The content of an object, in blocks that are fetched when they are needed, and one ahead.
//!
//! A Parquet file is read at as many places at once as it has columns, so some blocks are kept. They are those that were used
//! last.

use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::client::start;
use super::object::Object;

/// The number of bytes per block.
const BLOCK: u64 = 1 << 20;

/// The number of blocks that are kept.
const KEPT: usize = 96;

/// The content of an object.
#[derive(Debug, Clone)]
pub(crate) struct Blocks(Arc<Content>);

#[derive(Debug)]
struct Content {
    object: Object,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    blocks: HashMap<u64, Arc<Block>>,
    /// When each was last asked for.
    used: HashMap<u64, u64>,
    clock: u64,
}

/// A block that is fetched, or that came.
#[derive(Debug, Default)]
struct Block {
    content: Mutex<Option<Result<Bytes, (io::ErrorKind, String)>>>,
    came: Condvar,
}

impl Blocks {
    pub(crate) fn new(object: Object) -> Self {
        Blocks(Arc::new(Content { object, known: Mutex::default() }))
    }

    /// Reads from a place on.
    pub(crate) fn reader(&self, at: u64) -> Reader {
        Reader { blocks: self.clone(), at }
    }

    fn size(&self) -> u64 {
        self.0.object.size()
    }

    /// The block with this number, after it came.
    fn block(&self, number: u64) -> io::Result<Bytes> {
        let block = {
            let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
            let block = self.begun(&mut known, number)?;
            // Whoever reads one block after the other will ask for the next one.
            let sequential = number == 0 || known.blocks.contains_key(&(number - 1));
            if sequential && (number + 1) * BLOCK < self.size() {
                self.begun(&mut known, number + 1)?;
            }
            block
        };
        let mut content = block.content.lock().unwrap_or_else(PoisonError::into_inner);
        while content.is_none() {
            content = block.came.wait(content).unwrap_or_else(PoisonError::into_inner);
        }
        match content.as_ref() {
            Some(Ok(bytes)) => Ok(bytes.clone()),
            Some(Err((kind, reason))) => Err(io::Error::new(*kind, reason.clone())),
            None => Err(io::Error::other("the block did not come")),
        }
    }

    /// The block with this number, which is fetched if it is not known.
    fn begun(&self, known: &mut Known, number: u64) -> io::Result<Arc<Block>> {
        known.clock += 1;
        let now = known.clock;
        known.used.insert(number, now);
        if let Some(block) = known.blocks.get(&number) {
            return Ok(block.clone());
        }
        if known.blocks.len() >= KEPT
            && let Some(oldest) = known.used.iter().min_by_key(|(_, used)| **used).map(|(number, _)| *number)
        {
            known.blocks.remove(&oldest);
            known.used.remove(&oldest);
        }
        let block = Arc::new(Block::default());
        let range = number * BLOCK..((number + 1) * BLOCK).min(self.size());
        let (fetched, into) = (self.0.object.fetch(range), Arc::clone(&block));
        start(async move {
            let content = fetched.await.map_err(|error| (error.kind(), error.to_string()));
            *into.content.lock().unwrap_or_else(PoisonError::into_inner) = Some(content);
            into.came.notify_all();
        })?;
        known.blocks.insert(number, Arc::clone(&block));
        Ok(block)
    }
}

/// Reads the content from some place on.
#[derive(Debug)]
pub(crate) struct Reader {
    blocks: Blocks,
    at: u64,
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.blocks.size() || buffer.is_empty() {
            return Ok(0);
        }
        let block = self.blocks.block(self.at / BLOCK)?;
        let rest = &block[(self.at % BLOCK) as usize..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Reader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let place = match to {
            SeekFrom::Start(place) => Some(place),
            SeekFrom::End(by) => self.blocks.size().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = place.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a place before the beginning"))?;
        Ok(self.at)
    }
}

impl Length for Blocks {
    fn len(&self) -> u64 {
        self.size()
    }
}

impl ChunkReader for Blocks {
    type T = io::BufReader<Reader>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(io::BufReader::with_capacity(1 << 12, self.reader(start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        // A part of one block is not copied.
        let (number, place) = (start / BLOCK, (start % BLOCK) as usize);
        if length > 0 && place + length <= BLOCK as usize && start < self.size() {
            let block = self.block(number)?;
            return match block.len() < place + length {
                true => Err(ParquetError::EOF(format!("no {length} bytes at {start}"))),
                false => Ok(block.slice(place..place + length)),
            };
        }
        let mut bytes = Vec::with_capacity(length);
        let count = self.reader(start).take(length as u64).read_to_end(&mut bytes)?;
        match count == length {
            true => Ok(bytes.into()),
            false => Err(ParquetError::EOF(format!("{length} bytes at {start} should be there, but {count} are"))),
        }
    }
}
