use std::io::{Read, Seek, Write};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::Tables;
use crate::error::{Error, Result};

pub(crate) fn read(place: &str, _input: impl Read + Seek + Send + 'static) -> Result<Tables> {
    Err(Error::Malformed { place: place.into(), reason: "this format is not read yet".into() })
}

pub(crate) fn write(
    place: &str,
    _out: &mut dyn Write,
    _schema: &SchemaRef,
    _tables: &mut dyn Iterator<Item = Result<RecordBatch>>,
) -> Result<()> {
    Err(Error::Malformed { place: place.into(), reason: "this format is not written yet".into() })
}
