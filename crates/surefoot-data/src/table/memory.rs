//! Batches that are already in memory, such as those of a data frame.
//!
//! They are cut into batches of [`ROWS`] rows without a copy. Columns are converted to the types of
//! [`plain`](super::plain) on the way.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field};

use super::plain::{Rows, is_readable, is_readable_struct, refused};
use super::{ROWS, Tables};
use crate::error::{Error, Result};

pub(crate) fn read(place: &str, batches: Arc<[RecordBatch]>) -> Tables {
    Box::new(Batches { place: place.into(), batches, batch: 0, taken: 0, row: 0 })
}

struct Batches {
    place: String,
    batches: Arc<[RecordBatch]>,
    /// The current batch, and how many of its rows were read.
    batch: usize,
    taken: usize,
    /// The number of rows read from all batches.
    row: usize,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let batch = self.batches.get(self.batch)?;
            let rows = (batch.num_rows() - self.taken).min(ROWS);
            if rows == 0 {
                (self.batch, self.taken) = (self.batch + 1, 0);
                continue;
            }
            let found = normal(&self.place, self.row, &batch.slice(self.taken, rows));
            (self.taken, self.row) = (self.taken + rows, self.row + rows);
            return Some(found);
        }
    }
}

/// Converts a batch whose first row is row `first` of the table.
fn normal(place: &str, first: usize, batch: &RecordBatch) -> Result<RecordBatch> {
    batch.schema_ref().fields().iter().try_for_each(|field| check(place, field.name(), field))?;
    // Converted text has offsets of 32 bits.
    let rows = Rows::new(place, first as u64, i32::MAX as u64, malformed);
    let table = rows.table(batch, &mut None)?;
    let mut names = HashSet::new();
    match table.schema_ref().fields().iter().find(|field| !names.insert(field.name())) {
        Some(field) => Err(malformed(place, format!("it has two columns {}", field.name()))),
        None => Ok(table),
    }
}

fn check(place: &str, name: &str, field: &Field) -> Result<()> {
    let inner = match field.data_type() {
        DataType::Struct(fields) => {
            return fields.iter().try_for_each(|field| check(place, &format!("{name}.{}", field.name()), field));
        }
        DataType::List(inner) | DataType::LargeList(inner) | DataType::FixedSizeList(inner, _) => inner.data_type(),
        other => other,
    };
    let list = inner != field.data_type();
    if is_readable(inner) || list && is_readable_struct(inner) {
        Ok(())
    } else {
        Err(refused(place, name, field.data_type()))
    }
}

fn malformed(place: &str, reason: String) -> Error {
    Error::Malformed { place: place.into(), reason }
}
