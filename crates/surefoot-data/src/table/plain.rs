//! Conversion of columns of any type to the types that the rest of the crate uses.
//!
//! | in a file or a data frame | in the table |
//! | --- | --- |
//! | booleans, integers, floats | as they are; half floats as `Float32` |
//! | text, bytes, however they are stored | `Utf8`; bytes must be UTF-8 |
//! | dictionaries of these, such as categoricals | their values |
//! | times | text by RFC 3339, `2025-01-31T12:00:00.5Z`, without `Z` if they are not marked as UTC |
//! | dates | text, `2025-01-31` |
//! | decimals | the nearest `Float64` |
//! | null columns | text, all null |
//! | lists of these, including large and fixed-size ones | lists of these |
//! | structs | one column per field, named with a dot: `user.age` |
//! | lists of structs, such as candidates | lists of structs whose fields are such columns |
//!
//! Columns that already have such a type are not copied.

use std::collections::HashSet;
use std::fmt::Display;
use std::mem;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions as temporal;
use arrow_array::types::{
    Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float16Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{
    Array, ArrayRef, Float32Array, Float64Array, GenericBinaryArray, GenericListArray, ListArray, OffsetSizeTrait,
    PrimitiveArray, RecordBatch, RecordBatchOptions, StringArray, StructArray, make_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use arrow_select::take::{TakeOptions, take};

use crate::error::{Error, Result};

/// The types that a column may have.
pub(super) const ALLOWED: &str =
    "numbers, booleans, text, times, dates or decimals, or lists of these or of structs of these";

/// Types that are used without conversion.
pub(super) fn is_plain(data_type: &DataType) -> bool {
    let half = matches!(data_type, DataType::Float16);
    data_type == &DataType::Boolean || data_type.is_integer() || data_type.is_floating() && !half
}

/// Types of a column, or of the entries of a list, that can be converted.
pub(super) fn is_readable(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Null | Float16 | Date32 | Timestamp(..) => true,
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView => true,
        Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => true,
        Dictionary(_, values) => !matches!(**values, Dictionary(..)) && is_readable(values),
        other => is_plain(other),
    }
}

/// Structs in lists that can be converted: their fields are such columns, lists of entries, or structs of these.
pub(super) fn is_readable_struct(data_type: &DataType) -> bool {
    let DataType::Struct(fields) = data_type else { return false };
    fields.iter().all(|field| match field.data_type() {
        inner @ DataType::Struct(_) => is_readable_struct(inner),
        DataType::List(inner) | DataType::LargeList(inner) | DataType::FixedSizeList(inner, _) => {
            is_readable(inner.data_type())
        }
        other => is_readable(other),
    })
}

pub(super) fn refused(place: &str, column: &str, found: &DataType) -> Error {
    Error::Field {
        place: place.to_owned(),
        column: column.to_owned(),
        allowed: ALLOWED.into(),
        found: format!("of type {found}; it can be left out by name"),
    }
}

/// The columns of a batch during the conversion.
pub(super) struct Rows<'a> {
    place: &'a str,
    /// The row of the batch's first record.
    first: u64,
    /// The limit on the bytes of converted text, and their number so far.
    most: u64,
    text: u64,
    malformed: fn(&str, String) -> Error,
    columns: Vec<(String, ArrayRef)>,
}

impl<'a> Rows<'a> {
    /// For a batch whose first row is row `first` of the whole; `malformed` makes the error about what cannot be
    /// converted.
    pub(super) fn new(place: &'a str, first: u64, most: u64, malformed: fn(&str, String) -> Error) -> Self {
        Rows { place, first, most, text: 0, malformed, columns: Vec::new() }
    }

    /// The converted batch. All batches have the schema of the first.
    pub(super) fn table(mut self, batch: &RecordBatch, schema: &mut Option<SchemaRef>) -> Result<RecordBatch> {
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            self.flatten(field.name(), column, None)?;
        }
        let schema = schema.get_or_insert_with(|| {
            let fields = self.columns.iter().map(|(name, column)| Field::new(name, column.data_type().clone(), true));
            Arc::new(Schema::new(fields.collect::<Fields>()))
        });
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = self.columns.into_iter().map(|(_, column)| column).collect();
        RecordBatch::try_new_with_options(schema.clone(), columns, &options)
            .map_err(|error| (self.malformed)(self.place, error.to_string()))
    }

    fn broken(&self, reason: impl Display) -> Error {
        (self.malformed)(self.place, reason.to_string())
    }

    /// Adds a column, or the columns of a struct. Where the struct is null, its fields are null too.
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
            column = make_array(data.map_err(|error| self.broken(error))?);
        }
        self.columns.push((name.to_owned(), column));
        Ok(())
    }

    /// The structs of a list. The fields of inner structs become fields of the outer one.
    fn structs(&mut self, name: &str, column: &StructArray) -> Result<ArrayRef> {
        let outer = mem::take(&mut self.columns);
        for (field, array) in column.fields().iter().zip(column.columns()) {
            self.flatten(&format!("{name}.{}", field.name()), array, column.nulls())?;
        }
        let mut names = HashSet::new();
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for (full, array) in mem::replace(&mut self.columns, outer) {
            let short = full.get(name.len() + 1..).unwrap_or_default().to_owned();
            if !names.insert(short.clone()) {
                return Err(self.broken(format!("it has two columns {full}")));
            }
            fields.push(Field::new(short, array.data_type().clone(), true));
            arrays.push(array);
        }
        let nulls = column.nulls().cloned();
        let made = match arrays.is_empty() {
            true => StructArray::new_empty_fields(column.len(), nulls),
            false => StructArray::try_new(fields.into(), arrays, nulls).map_err(|error| self.broken(error))?,
        };
        Ok(Arc::new(made))
    }

    fn value(&mut self, name: &str, column: &ArrayRef) -> Result<ArrayRef> {
        Ok(match column.data_type() {
            DataType::Struct(_) => self.structs(name, column.as_struct())?,
            DataType::Null => Arc::new(StringArray::new_null(column.len())),
            DataType::Float16 => {
                let halves = column.as_primitive::<Float16Type>();
                Arc::new(halves.iter().map(|half| half.map(|half| half.to_f32())).collect::<Float32Array>())
            }
            DataType::Utf8View | DataType::BinaryView => self.views(name, column)?,
            DataType::LargeUtf8 => self.bytes(name, &GenericBinaryArray::from(column.as_string::<i64>().clone()))?,
            DataType::Binary => self.bytes(name, column.as_binary::<i32>())?,
            DataType::LargeBinary => self.bytes(name, column.as_binary::<i64>())?,
            DataType::Dictionary(..) => {
                let dictionary = column.as_any_dictionary();
                let values = take(dictionary.values(), dictionary.keys(), Some(TakeOptions { check_bounds: true }));
                self.value(name, &values.map_err(|error| self.broken(format!("{name}: {error}")))?)?
            }
            DataType::Decimal32(..) => {
                let values = column.as_primitive::<Decimal32Type>();
                self.decimals(name, values, |i| values.value_as_string(i))?
            }
            DataType::Decimal64(..) => {
                let values = column.as_primitive::<Decimal64Type>();
                self.decimals(name, values, |i| values.value_as_string(i))?
            }
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
            DataType::List(inner) if !is_plain(inner.data_type()) => self.list(name, inner, column.as_list::<i32>())?,
            DataType::LargeList(inner) => self.list(name, inner, column.as_list::<i64>())?,
            DataType::FixedSizeList(inner, width) => {
                let lists = column.as_fixed_size_list();
                let width = usize::try_from(*width).unwrap_or(0);
                let offsets = (0..=lists.len()).map(|i| i * width);
                self.lists(name, inner, lists.values(), offsets, lists.nulls())?
            }
            _ => column.clone(),
        })
    }

    fn list<O: OffsetSizeTrait>(&mut self, name: &str, inner: &Field, lists: &GenericListArray<O>) -> Result<ArrayRef> {
        // A slice of a list column still holds the entries of the whole column.
        let offsets = lists.value_offsets();
        let first = offsets[0].as_usize();
        let last = offsets[lists.len()].as_usize();
        let offsets = offsets.iter().map(|offset| offset.as_usize() - first);
        self.lists(name, inner, &lists.values().slice(first, last - first), offsets, lists.nulls())
    }

    /// Lists with the given entries.
    fn lists(
        &mut self,
        name: &str,
        inner: &Field,
        entries: &ArrayRef,
        offsets: impl Iterator<Item = usize>,
        nulls: Option<&NullBuffer>,
    ) -> Result<ArrayRef> {
        let entries = self.value(name, entries)?;
        let offset = |offset: usize| {
            let many =
                |_| self.broken(format!("{name}: the lists of a batch have {offset} entries, which is implausible"));
            i32::try_from(offset).map_err(many)
        };
        let offsets: Vec<i32> = offsets.map(offset).collect::<Result<_>>()?;
        let inner = inner.clone().with_data_type(entries.data_type().clone()).with_nullable(true);
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let lists = ListArray::try_new(inner.into(), offsets, entries, nulls.cloned());
        Ok(Arc::new(lists.map_err(|error| self.broken(error))?))
    }

    fn views(&mut self, name: &str, column: &ArrayRef) -> Result<ArrayRef> {
        // The Parquet reader checks the bytes of a text only if the file marks it as text in the old way.
        let views = match column.as_string_view_opt() {
            Some(text) => text.clone().to_binary_view(),
            None => column.as_binary_view().clone(),
        };
        // The lower half of a view is its length.
        let size = views.views().iter().map(|&view| u64::from(view as u32)).sum();
        self.text(name, views.len(), size, views.iter())
    }

    fn bytes<O: OffsetSizeTrait>(&mut self, name: &str, bytes: &GenericBinaryArray<O>) -> Result<ArrayRef> {
        let offsets = bytes.value_offsets();
        let size = offsets[bytes.len()].as_usize() - offsets[0].as_usize();
        self.text(name, bytes.len(), size as u64, bytes.iter())
    }

    /// Writes out texts, within the limit.
    fn text<'b>(
        &mut self,
        name: &str,
        rows: usize,
        size: u64,
        texts: impl Iterator<Item = Option<&'b [u8]>>,
    ) -> Result<ArrayRef> {
        self.text = self.text.saturating_add(size);
        if self.text > self.most {
            let reason = format!("{name}: the text of a batch takes {} bytes or more, which is implausible", self.text);
            return Err(self.broken(reason));
        }
        let mut builder = StringBuilder::with_capacity(rows, size as usize);
        for (row, bytes) in texts.enumerate() {
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
            // Years with more or fewer than four digits begin with a sign.
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
