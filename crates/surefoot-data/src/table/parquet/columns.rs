//! Which columns a file has, and how each becomes one of a table.
//!
//! Types become those of [`plain`](super::super::plain).
//!
//! Maps, lists of lists, lists of structs in lists of structs, times of day, intervals and the like are refused by name:
//! leaving them out is for the caller to say.
//!
//! Text is asked for as views, which repeat a text of a dictionary without a copy, so that what it comes to is known before
//! it is written out.

use std::collections::HashSet;
use std::sync::Arc;

use ::parquet::arrow::{ProjectionMask, parquet_to_arrow_schema};
use ::parquet::schema::types::SchemaDescriptor;
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};

use super::super::plain::{Rows, is_plain, is_readable, is_readable_struct, refused};
use super::limits::LARGEST_PAGE;
use super::{guarded, unreadable};
use crate::error::Result;

/// The columns of a table that is read.
#[derive(Debug)]
pub(super) struct Selected {
    /// Known from the first batch on.
    schema: Option<SchemaRef>,
}

impl Selected {
    /// Which leaves of the file to read, and as which types.
    pub(super) fn new(
        place: &str,
        schema: &SchemaDescriptor,
        ignore: &dyn Fn(&str) -> bool,
    ) -> Result<(Self, ProjectionMask, Fields)> {
        let arrow = guarded(|| parquet_to_arrow_schema(schema, None)).map_err(|reason| unreadable(place, reason))?;
        let sum: usize = arrow.fields().iter().map(|field| leaves(field.data_type())).sum();
        if sum != schema.num_columns() {
            return Err(unreadable(
                place,
                format!("its schema has {} columns, but {sum} by type", schema.num_columns()),
            ));
        }
        let mut walk = Walk { place, ignore, next: 0, leaves: Vec::new(), names: HashSet::new() };
        for field in arrow.fields() {
            walk.field(field.name(), field)?;
        }
        if walk.leaves.is_empty() {
            return Err(unreadable(place, "it has no columns"));
        }
        let mask = ProjectionMask::leaves(schema, walk.leaves);
        Ok((Selected { schema: None }, mask, arrow.fields().iter().map(viewed).collect()))
    }

    /// A batch as it is to be, whose first row is the file's `first`.
    pub(super) fn normal(&mut self, place: &str, first: u64, batch: &RecordBatch) -> Result<RecordBatch> {
        let unreadable = |place: &str, reason| unreadable(place, reason);
        Rows::new(place, first, LARGEST_PAGE, unreadable).table(batch, &mut self.schema)
    }
}

/// Refuses a schema that could not be read again.
pub(super) fn check_written(place: &str, schema: &Schema) -> Result<()> {
    let kept =
        |kind: &DataType| matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) || is_plain(kind);
    for field in schema.fields() {
        let fits = match entries(field.data_type()) {
            // A struct without fields has no columns in the file, and one that is in no list would come back as columns.
            DataType::Struct(fields) if entries(field.data_type()) != field.data_type() => {
                !fields.is_empty() && fields.iter().all(|field| kept(entries(field.data_type())))
            }
            inner => kept(inner),
        };
        if !fits {
            return Err(refused(place, field.name(), field.data_type()));
        }
    }
    Ok(())
}

/// The type of the entries of lists, or any other type itself.
fn entries(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::List(inner) | DataType::LargeList(inner) | DataType::FixedSizeList(inner, _) => inner.data_type(),
        other => other,
    }
}

/// A walk over the columns of a file, leaf by leaf.
struct Walk<'a> {
    place: &'a str,
    ignore: &'a dyn Fn(&str) -> bool,
    /// The next leaf, and those to be read.
    next: usize,
    leaves: Vec<usize>,
    names: HashSet<String>,
}

impl Walk<'_> {
    fn field(&mut self, name: &str, field: &Field) -> Result<()> {
        if (self.ignore)(name) {
            self.next += leaves(field.data_type());
            return Ok(());
        }
        if let DataType::Struct(fields) = field.data_type() {
            return fields.iter().try_for_each(|field| self.field(&format!("{name}.{}", field.name()), field));
        }
        let inner = match field.data_type() {
            DataType::List(inner) => inner.data_type(),
            other => other,
        };
        let structs = matches!(inner, DataType::Struct(_)) && has_fields(inner);
        if !(is_readable(inner) || structs && is_readable_struct(inner)) {
            return Err(refused(self.place, name, field.data_type()));
        }
        if !self.names.insert(name.to_owned()) {
            return Err(unreadable(self.place, format!("it has two columns {name}")));
        }
        let count = if structs { leaves(inner) } else { 1 };
        self.leaves.extend(self.next..self.next + count);
        self.next += count;
        Ok(())
    }
}

/// Whether a struct has fields; one without has no columns in the file.
fn has_fields(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => !fields.is_empty() && fields.iter().all(|field| has_fields(field.data_type())),
        _ => true,
    }
}

/// How many columns of the file a type is made of.
fn leaves(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| leaves(field.data_type())).sum(),
        DataType::List(inner) | DataType::Map(inner, _) => leaves(inner.data_type()),
        _ => 1,
    }
}

/// The same field with text as views.
fn viewed(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Utf8 => DataType::Utf8View,
        DataType::Binary => DataType::BinaryView,
        DataType::List(inner) => DataType::List(viewed(inner)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(viewed).collect()),
        _ => return field.clone(),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}
