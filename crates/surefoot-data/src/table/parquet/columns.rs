//! Which columns a file has, and how each becomes one of a table.
//!
//! | in the file | in the table |
//! | --- | --- |
//! | booleans, integers, floats | as they are; half floats as `Float32` |
//! | text, bytes | `Utf8`; bytes must be UTF-8 |
//! | times | text by RFC 3339, `2025-01-31T12:00:00.5Z`, without `Z` if the file does not say that it is UTC |
//! | dates | text, `2025-01-31` |
//! | decimals | the nearest `Float64` |
//! | nothing but nulls | text, all null |
//! | lists of these | lists of these |
//! | structs | one column for each field, named with a dot: `user.age` |
//!
//! Maps, lists of lists or structs, times of day, intervals and the like are refused by name: leaving them out is for the
//! caller to say.
//!
//! Text is asked for as views, which repeat a text of a dictionary without a copy, so that what it comes to is known before
//! it is written out.

use std::collections::HashSet;
use std::sync::Arc;

use ::parquet::arrow::{ProjectionMask, parquet_to_arrow_schema};
use ::parquet::basic::Type;
use ::parquet::schema::types::SchemaDescriptor;
use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions as temporal;
use arrow_array::types::{
    Date32Type, Decimal128Type, Decimal256Type, Float16Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{
    Array, ArrayRef, Float32Array, Float64Array, ListArray, PrimitiveArray, RecordBatch, RecordBatchOptions,
    StringArray, make_array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};

use super::limits::LARGEST_PAGE;
use super::{guarded, unreadable};
use crate::error::{Error, Result};

/// What a column may be.
const ALLOWED: &str = "numbers, booleans, text, times, dates or decimals, or lists of these";

/// The columns of a table that is read.
#[derive(Debug)]
pub(super) struct Columns {
    /// Known from the first batch on.
    schema: Option<SchemaRef>,
}

impl Columns {
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
        let mut walk = Walk { place, file: schema, ignore, next: 0, leaves: Vec::new(), names: HashSet::new() };
        for field in arrow.fields() {
            walk.field(field.name(), field)?;
        }
        if walk.leaves.is_empty() {
            return Err(unreadable(place, "it has no columns"));
        }
        let mask = ProjectionMask::leaves(schema, walk.leaves);
        Ok((Columns { schema: None }, mask, arrow.fields().iter().map(viewed).collect()))
    }

    /// A batch as it is to be, whose first row is the file's `first`.
    pub(super) fn normal(&mut self, place: &str, first: u64, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut rows = Rows { place, first, text: 0, columns: Vec::new() };
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            rows.flatten(field.name(), column, None)?;
        }
        let schema = self.schema.get_or_insert_with(|| {
            let fields = rows.columns.iter().map(|(name, column)| Field::new(name, column.data_type().clone(), true));
            Arc::new(Schema::new(fields.collect::<Fields>()))
        });
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = rows.columns.into_iter().map(|(_, column)| column).collect();
        RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(|error| unreadable(place, error))
    }
}

/// Refuses a schema that could not be read again.
pub(super) fn check_written(place: &str, schema: &Schema) -> Result<()> {
    for field in schema.fields() {
        let inner = match field.data_type() {
            DataType::List(inner) | DataType::LargeList(inner) | DataType::FixedSizeList(inner, _) => inner,
            _ => field,
        };
        let kept = matches!(inner.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        if !kept && !plain(inner.data_type()) {
            return Err(refused(place, field.name(), field.data_type()));
        }
    }
    Ok(())
}

/// A walk over the columns of a file, leaf by leaf.
struct Walk<'a> {
    place: &'a str,
    file: &'a SchemaDescriptor,
    ignore: &'a dyn Fn(&str) -> bool,
    /// The next leaf, and those to be read.
    next: usize,
    leaves: Vec<usize>,
    names: HashSet<String>,
}

impl Walk<'_> {
    fn field(&mut self, name: &str, field: &Field) -> Result<()> {
        let leaves = leaves(field.data_type());
        if (self.ignore)(name) {
            self.next += leaves;
            return Ok(());
        }
        if let DataType::Struct(fields) = field.data_type() {
            return fields.iter().try_for_each(|field| self.field(&format!("{name}.{}", field.name()), field));
        }
        let inner = match field.data_type() {
            DataType::List(inner) => inner.data_type(),
            other => other,
        };
        let file = (leaves == 1).then(|| self.file.column(self.next));
        // The reader makes room for as many bytes a value as the file says.
        let wide = |file: &Arc<::parquet::schema::types::ColumnDescriptor>| {
            file.physical_type() == Type::FIXED_LEN_BYTE_ARRAY && !(1..=32).contains(&file.type_length())
        };
        if !readable(inner) || file.is_none_or(|file| wide(&file)) {
            return Err(refused(self.place, name, field.data_type()));
        }
        if !self.names.insert(name.to_owned()) {
            return Err(unreadable(self.place, format!("it has two columns {name}")));
        }
        self.leaves.push(self.next);
        self.next += 1;
        Ok(())
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

/// Types that are taken as they are.
fn plain(data_type: &DataType) -> bool {
    let half = matches!(data_type, DataType::Float16);
    data_type == &DataType::Boolean || data_type.is_integer() || data_type.is_floating() && !half
}

/// Types of a column or of the entries of a list that can be understood.
fn readable(data_type: &DataType) -> bool {
    plain(data_type)
        || matches!(
            data_type,
            DataType::Null
                | DataType::Float16
                | DataType::Utf8
                | DataType::Binary
                | DataType::Date32
                | DataType::Timestamp(..)
                | DataType::Decimal128(..)
                | DataType::Decimal256(..)
        )
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

fn refused(place: &str, column: &str, found: &DataType) -> Error {
    Error::Field {
        place: place.to_owned(),
        column: column.to_owned(),
        allowed: ALLOWED.into(),
        found: format!("of type {found}; it can be left out by name"),
    }
}

/// The columns of a batch as they become those of a table.
struct Rows<'a> {
    place: &'a str,
    first: u64,
    /// Bytes of text so far.
    text: u64,
    columns: Vec<(String, ArrayRef)>,
}

impl Rows<'_> {
    /// Adds a column, or those of a struct, whose nulls are those of its fields as well.
    fn flatten(&mut self, name: &str, column: &ArrayRef, above: Option<&NullBuffer>) -> Result<()> {
        let nulls = NullBuffer::union(column.nulls(), above);
        if let Some(parts) = column.as_struct_opt() {
            for (field, column) in parts.fields().iter().zip(parts.columns()) {
                self.flatten(&format!("{name}.{}", field.name()), column, nulls.as_ref())?;
            }
            return Ok(());
        }
        let mut column = self.value(name, column)?;
        if above.is_some() && !matches!(column.data_type(), DataType::Null) {
            let data = column.to_data().into_builder().nulls(nulls).build();
            column = make_array(data.map_err(|error| unreadable(self.place, error))?);
        }
        self.columns.push((name.to_owned(), column));
        Ok(())
    }

    fn value(&mut self, name: &str, column: &ArrayRef) -> Result<ArrayRef> {
        Ok(match column.data_type() {
            DataType::Null => Arc::new(StringArray::new_null(column.len())),
            DataType::Float16 => {
                let halves = column.as_primitive::<Float16Type>();
                Arc::new(halves.iter().map(|half| half.map(|half| half.to_f32())).collect::<Float32Array>())
            }
            DataType::Utf8View | DataType::BinaryView => self.text(name, column)?,
            DataType::Decimal128(..) => {
                let values = column.as_primitive::<Decimal128Type>();
                self.decimals(name, values, |i| values.value_as_string(i))?
            }
            DataType::Decimal256(..) => {
                let values = column.as_primitive::<Decimal256Type>();
                self.decimals(name, values, |i| values.value_as_string(i))?
            }
            DataType::Date32 => {
                let date = |days| temporal::date32_to_datetime(days).map(|time| format!("{:?}", time.date()));
                self.times(name, column.as_primitive::<Date32Type>(), date)?
            }
            DataType::Timestamp(unit, zone) => {
                let utc = if zone.is_some() { "Z" } else { "" };
                macro_rules! times {
                    ($type:ty, $read:ident) => {
                        self.times(name, column.as_primitive::<$type>(), |t| {
                            temporal::$read(t).map(|time| format!("{time:?}{utc}"))
                        })?
                    };
                }
                match unit {
                    TimeUnit::Second => times!(TimestampSecondType, timestamp_s_to_datetime),
                    TimeUnit::Millisecond => times!(TimestampMillisecondType, timestamp_ms_to_datetime),
                    TimeUnit::Microsecond => times!(TimestampMicrosecondType, timestamp_us_to_datetime),
                    TimeUnit::Nanosecond => times!(TimestampNanosecondType, timestamp_ns_to_datetime),
                }
            }
            DataType::List(inner) if !plain(inner.data_type()) => {
                let list: &ListArray = column.as_list();
                let values = self.value(name, list.values())?;
                let inner = inner.as_ref().clone().with_data_type(values.data_type().clone()).with_nullable(true);
                let list = ListArray::try_new(inner.into(), list.offsets().clone(), values, list.nulls().cloned());
                Arc::new(list.map_err(|error| unreadable(self.place, error))?)
            }
            _ => column.clone(),
        })
    }

    /// Writes views out, if that is not too much.
    fn text(&mut self, name: &str, column: &ArrayRef) -> Result<ArrayRef> {
        // The reader looks at the bytes of a text only if the file calls it text in the old way.
        let views = match column.as_string_view_opt() {
            Some(text) => text.clone().to_binary_view(),
            None => column.as_binary_view().clone(),
        };
        // The lower half of a view is the length.
        let size: u64 = views.views().iter().map(|&view| u64::from(view as u32)).sum();
        self.text = self.text.saturating_add(size);
        if self.text > LARGEST_PAGE {
            let reason = format!("{name}: the text of a batch takes {} bytes or more, which is implausible", self.text);
            return Err(unreadable(self.place, reason));
        }
        let mut builder = StringBuilder::with_capacity(views.len(), size as usize);
        for (row, bytes) in views.iter().enumerate() {
            let text = bytes.map(std::str::from_utf8).transpose();
            let wrong = |_| self.wrong(name, row, "UTF-8", bytes.unwrap_or_default().escape_ascii().to_string());
            builder.append_option(text.map_err(wrong)?);
        }
        Ok(Arc::new(builder.finish()))
    }

    fn decimals<T: arrow_array::ArrowPrimitiveType>(
        &self,
        name: &str,
        values: &PrimitiveArray<T>,
        text: impl Fn(usize) -> String,
    ) -> Result<ArrayRef> {
        let number = |i: usize| match values.is_valid(i) {
            true => text(i).parse().map(Some).map_err(|_| self.wrong(name, i, "a decimal", text(i))),
            false => Ok(None),
        };
        Ok(Arc::new((0..values.len()).map(number).collect::<Result<Float64Array>>()?))
    }

    fn times<T: arrow_array::ArrowPrimitiveType>(
        &self,
        name: &str,
        values: &PrimitiveArray<T>,
        text: impl Fn(T::Native) -> Option<String>,
    ) -> Result<ArrayRef> {
        let time = |(i, value): (usize, Option<T::Native>)| {
            // Years of more or fewer than four digits begin with a sign.
            let four_digits = |text: &String| text.starts_with(|first: char| first.is_ascii_digit());
            let wrong = |value| self.wrong(name, i, "in the years 0 to 9999", format!("{value:?}"));
            value.map(|value| text(value).filter(four_digits).ok_or_else(|| wrong(value))).transpose()
        };
        Ok(Arc::new(values.iter().enumerate().map(time).collect::<Result<StringArray>>()?))
    }

    fn wrong(&self, column: &str, row: usize, allowed: &str, found: String) -> Error {
        let place = format!("{}, row {}", self.place, self.first + row as u64);
        Error::Field { place, column: column.to_owned(), allowed: allowed.into(), found }
    }
}
