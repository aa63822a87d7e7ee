//! Arrays of objects, such as candidates: a list of structs, with a field for every name in any of the objects.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::super::cells::{cell, check, push_json, push_json_text};
use super::super::json::Json;
use super::super::lines::{LONGEST, field, long_names, malformed};
use super::{Batch, CELLS, flatten};
use crate::error::Result;

/// The objects in the arrays of a column, one row each.
pub(super) struct Objects {
    batch: Batch,
}

impl Objects {
    /// No objects yet; `name` is the name of the column.
    pub(super) fn new(name: &str) -> Self {
        Objects { batch: Batch { within: Some(name.to_owned()), ..Batch::default() } }
    }

    /// The number of objects.
    pub(super) fn len(&self) -> usize {
        self.batch.lines.len()
    }

    /// Whether the objects of an array fit in beside those that are there. The objects of one array always fit, unless
    /// [`Objects::push`] refuses them.
    pub(super) fn has_place_for(&self, items: &[Json<'_>]) -> bool {
        let names = names(items);
        let new = names.iter().filter(|name| !self.batch.names.contains_key(**name)).count();
        self.len() == 0 || cells(self.len() + items.len(), self.batch.columns.len() + new) <= CELLS
    }

    /// Adds the objects of an array.
    pub(super) fn push(&mut self, place: &str, line: u64, items: &[Json<'_>]) -> Result<()> {
        let name = self.batch.within.clone().unwrap_or_default();
        let found = cells(items.len(), names(items).len());
        if found > CELLS {
            let reason = format!("{name} should have at most {CELLS} fields in all its objects, but has {found}");
            return Err(malformed(place, line, reason));
        }
        let mut room = LONGEST;
        for (i, item) in items.iter().enumerate() {
            let Json::Object(fields) = item else {
                return Err(field(
                    place,
                    line,
                    format!("{name}[{i}]"),
                    "an object, as those before it",
                    item.describe(),
                ));
            };
            let mut row = Vec::new();
            flatten(None, fields.clone(), &mut row, &mut room).ok_or_else(|| long_names(place, line))?;
            self.batch.push(place, line, 0, row)?;
        }
        // Fields of inner objects were not counted above.
        let found = cells(self.len(), self.batch.columns.len());
        if found > 4 * CELLS {
            let reason = format!("{name} should have at most {CELLS} fields in all its objects, but has {found}");
            return Err(malformed(place, line, reason));
        }
        Ok(())
    }

    /// The column, with the objects of each row.
    pub(super) fn finish(self, place: &str, lengths: Vec<usize>, known: Vec<bool>) -> Result<ArrayRef> {
        let rows = self.len();
        let table = self.batch.finish(place)?;
        // Objects without fields are items too.
        let items = match table.num_columns() {
            0 => StructArray::new_empty_fields(rows, None),
            _ => StructArray::from(table),
        };
        let item = Arc::new(Field::new("item", items.data_type().clone(), true));
        let (offsets, nulls) = (OffsetBuffer::from_lengths(lengths), NullBuffer::from(known));
        Ok(Arc::new(ListArray::new(item, offsets, Arc::new(items), Some(nulls))))
    }
}

fn cells(rows: usize, columns: usize) -> usize {
    rows.saturating_mul(columns)
}

/// The names of the fields of some objects. Those of inner objects count once.
fn names<'i>(items: &'i [Json<'_>]) -> HashSet<&'i str> {
    let fields = |item: &'i Json<'_>| match item {
        Json::Object(fields) => &fields[..],
        _ => &[],
    };
    items.iter().flat_map(fields).map(|(name, _): &(Cow<'_, str>, Json<'_>)| name.as_ref()).collect()
}

/// Rejects columns that cannot be written. A list of structs is one of objects, whose fields are such columns.
pub(super) fn check_written(place: &str, schema: &SchemaRef) -> Result<()> {
    let objects = |field: &Arc<Field>| match field.data_type() {
        DataType::List(item) => matches!(item.data_type(), DataType::Struct(_)),
        _ => false,
    };
    let (lists, plain): (Vec<Arc<Field>>, Vec<Arc<Field>>) = schema.fields().iter().cloned().partition(objects);
    for list in lists {
        if let DataType::List(item) = list.data_type()
            && let DataType::Struct(fields) = item.data_type()
        {
            check(&format!("{place}: {}", list.name()), &Arc::new(Schema::new(fields.clone())))?;
        }
    }
    check(place, &Arc::new(Schema::new(plain)))
}

/// The structs of a cell, if the column has lists of structs.
pub(super) fn items(column: &ArrayRef, i: usize) -> Option<StructArray> {
    Some(column.as_list_opt::<i32>()?.value(i).as_struct_opt()?.clone())
}

/// Appends structs as an array of objects, without fields that are null; `None` if JSON cannot represent a number.
pub(super) fn push(out: &mut String, items: &StructArray) -> Option<()> {
    out.push('[');
    for j in 0..items.len() {
        if j > 0 {
            out.push(',');
        }
        out.push('{');
        let mut first = true;
        for (field, column) in items.fields().iter().zip(items.columns()) {
            if column.is_null(j) {
                continue;
            }
            if !std::mem::take(&mut first) {
                out.push(',');
            }
            push_json_text(out, field.name());
            out.push(':');
            push_json(out, &cell(column, j)?)?;
        }
        out.push('}');
    }
    out.push(']');
    Some(())
}
