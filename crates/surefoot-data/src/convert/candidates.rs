//! Candidates in a conversion: lists of structs, with one type per field for all batches, or lists of named features.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, UInt32Builder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, StructArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};

use super::{Kind, cast};
use crate::column::Column;
use crate::error::{Error, Result};
use crate::logs::{IDENTITIES, LogBatch, identity_field};
use crate::table::candidates::{Candidates, named};

/// The fields of candidates in the order in which they first appear, and the type of each.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(String, Kind)>);

impl Fields {
    /// Adds the fields of a batch.
    pub(super) fn add(&mut self, column: &Column<'_>) -> Result<()> {
        let (_, items) = items(column)?;
        for (field, array) in items.fields().iter().zip(items.columns()) {
            let name = field.name().as_str();
            let inner = inner(column, name, array);
            let kind = Kind::of(&inner);
            match self.0.iter_mut().find(|(known, _)| known == name) {
                None => self.0.push((name.to_owned(), kind)),
                Some((_, known)) => *known = known.or(kind).ok_or_else(|| inner.mixed())?,
            }
        }
        Ok(())
    }

    /// Leaves out the identity: the field of this name, or else the first with a usual one.
    pub(super) fn leave_out_identity(&mut self, name: Option<&str>) {
        let usual = || IDENTITIES.into_iter().find(|usual| self.0.iter().any(|(name, _)| name == usual));
        let identity = name.or_else(usual).map(str::to_owned);
        self.0.retain(|(name, _)| Some(name) != identity.as_ref());
    }

    fn structs(&self) -> arrow_schema::Fields {
        self.0.iter().map(|(name, kind)| Field::new(name, kind.data_type(), true)).collect()
    }

    /// The type of the column: lists of named features, or of structs.
    pub(super) fn data_type(&self, named: bool) -> DataType {
        match named {
            true => Candidates::data_type(),
            false => DataType::List(Arc::new(Field::new("item", DataType::Struct(self.structs()), true))),
        }
    }

    /// The column of a batch.
    pub(super) fn array(
        &self,
        batch: &LogBatch,
        column: &Column<'_>,
        wanted: &DataType,
        named_features: bool,
    ) -> Result<ArrayRef> {
        let (lists, items) = items(column)?;
        let broken = |reason: arrow_schema::ArrowError| Error::Malformed {
            place: batch.place().to_owned(),
            reason: reason.to_string(),
        };
        let first = lists.value_offsets()[0];
        if named_features {
            let fields: Vec<&str> = items.fields().iter().map(|field| field.name().as_str()).collect();
            let identity = identity_field(batch, &fields);
            let mut builder = Candidates::default();
            for i in 0..lists.len() {
                let range = lists.value_offsets()[i] - first..lists.value_offsets()[i + 1] - first;
                let one = |j: i32| {
                    named(&items, j as usize, identity).map_err(|(field, allowed, found)| {
                        let place = j - (lists.value_offsets()[i] - first);
                        column.error(
                            i,
                            format!("candidates whose {field} is {allowed}"),
                            format!("{found} in candidate {place}"),
                        )
                    })
                };
                let found = lists.is_valid(i).then(|| range.map(one).collect::<Result<Vec<_>>>()).transpose()?;
                builder.push(found.as_deref());
            }
            return Ok(builder.column());
        }
        let DataType::List(item) = wanted else { return Err(column.mixed()) };
        let array = |(name, kind): &(String, Kind)| match items.column_by_name(name) {
            None => Ok(arrow_array::new_null_array(&kind.data_type(), items.len())),
            Some(array) => cast(&inner(column, name, array), &kind.data_type(), items.len()),
        };
        let arrays = self.0.iter().map(array).collect::<Result<Vec<ArrayRef>>>()?;
        let items = match arrays.is_empty() {
            true => StructArray::new_empty_fields(items.len(), items.nulls().cloned()),
            false => StructArray::try_new(self.structs(), arrays, items.nulls().cloned()).map_err(broken)?,
        };
        let offsets = lists.value_offsets().iter().map(|offset| offset - first).collect::<Vec<i32>>();
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let lists = ListArray::try_new(Arc::clone(item), offsets, Arc::new(items), lists.nulls().cloned());
        Ok(Arc::new(lists.map_err(broken)?))
    }
}

/// The lists of a column of candidates, and the structs in them.
fn items<'a>(column: &Column<'a>) -> Result<(&'a ListArray, StructArray)> {
    let wrong = || column.mistyped("lists of objects (lists of structs)");
    let lists: &ListArray = column.array.as_list_opt().ok_or_else(wrong)?;
    let items: &StructArray = lists.values().as_struct_opt().ok_or_else(wrong)?;
    // A slice of a list column still holds the entries of the whole column.
    let (first, last) = (lists.value_offsets()[0] as usize, lists.value_offsets()[lists.len()] as usize);
    Ok((lists, items.slice(first, last - first)))
}

/// A field of candidates as a column; rows are those of candidates.
fn inner<'a>(column: &Column<'a>, name: &'a str, array: &'a ArrayRef) -> Column<'a> {
    Column { place: column.place, start: 0, rows: None, places: None, name, array }
}

/// Whether the actions of a batch are identities of candidates.
pub(super) fn are_named(batch: &LogBatch) -> Result<bool> {
    Ok(batch.candidates()?.is_some_and(|candidates| candidates.are_named(batch)))
}

/// The eligible candidates of each record, by their places in the file, in the order of the logged distribution.
pub(super) fn eligible(batch: &LogBatch, there: impl Fn(usize) -> bool) -> Result<ArrayRef> {
    let mut builder = ListBuilder::new(UInt32Builder::new());
    if let Some(candidates) = batch.candidates()? {
        for i in 0..candidates.len() {
            if there(i) {
                candidates.order.get(i).iter().for_each(|&a| builder.values().append_value(candidates.in_file(i, a)));
            }
            builder.append(there(i));
        }
    }
    Ok(Arc::new(builder.finish()))
}
