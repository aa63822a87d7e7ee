//! Without the feature `stores`: there are no objects, and every URL is refused.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use bytes::Bytes;
use parquet::file::reader::{ChunkReader, Length};

use crate::error::{Error, Result};

#[derive(Debug, Clone)]
pub(crate) struct Object(Infallible);

#[derive(Debug, Clone)]
pub(crate) struct Blocks(Infallible);

#[derive(Debug)]
pub(crate) struct Reader(Infallible);

fn refused<T>(path: &Path) -> Result<T> {
    let reason =
        "should be a path, because this program was built without object stores (feature stores), but is a URL";
    Err(Error::Malformed { place: path.display().to_string(), reason: reason.into() })
}

impl Object {
    pub(crate) fn find(path: &Path) -> Result<Option<Self>> {
        refused(path)
    }

    pub(crate) fn open(path: &Path) -> Result<Self> {
        refused(path)
    }

    pub(crate) fn size(&self) -> u64 {
        match self.0 {}
    }

    pub(crate) fn version(&self) -> String {
        match self.0 {}
    }

    pub(crate) fn unchanged(&self) -> Result<()> {
        match self.0 {}
    }

    pub(crate) fn read(&self) -> Result<Vec<u8>> {
        match self.0 {}
    }
}

impl Blocks {
    pub(crate) fn new(object: Object) -> Self {
        match object.0 {}
    }

    pub(crate) fn reader(&self, _: u64) -> Reader {
        match self.0 {}
    }
}

impl Read for Reader {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }
}

impl Seek for Reader {
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        match self.0 {}
    }
}

impl Length for Blocks {
    fn len(&self) -> u64 {
        match self.0 {}
    }
}

impl ChunkReader for Blocks {
    type T = Reader;

    fn get_read(&self, _: u64) -> parquet::errors::Result<Self::T> {
        match self.0 {}
    }

    fn get_bytes(&self, _: u64, _: usize) -> parquet::errors::Result<Bytes> {
        match self.0 {}
    }
}

pub(crate) fn list(path: &Path) -> Result<Vec<String>> {
    refused(path)
}

pub(crate) fn check_writable(path: &Path) -> Result<()> {
    refused(path)
}

pub(crate) fn put(path: &Path, _: &File) -> Result<()> {
    refused(path)
}

pub(crate) fn remove(_: &Path) {}
