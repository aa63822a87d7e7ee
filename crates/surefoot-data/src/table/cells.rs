//! The cells of a record batch, for the formats that write them as text.

use std::collections::HashSet;
use std::fmt::Write as _;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};

use crate::error::{Error, Result};

/// The content of a cell.
#[derive(Debug)]
pub(super) enum Cell<'a> {
    Null,
    Bool(bool),
    Integer(i64),
    Unsigned(u64),
    Single(f32),
    Double(f64),
    Text(&'a str),
    List(ArrayRef),
}

/// A cell; `None` if the type of the column is not [`writable`].
pub(super) fn cell(column: &dyn Array, row: usize) -> Option<Cell<'_>> {
    if column.is_null(row) {
        return Some(Cell::Null);
    }
    Some(match column.data_type() {
        DataType::Boolean => Cell::Bool(column.as_boolean_opt()?.value(row)),
        DataType::Int8 => Cell::Integer(column.as_primitive_opt::<Int8Type>()?.value(row).into()),
        DataType::Int16 => Cell::Integer(column.as_primitive_opt::<Int16Type>()?.value(row).into()),
        DataType::Int32 => Cell::Integer(column.as_primitive_opt::<Int32Type>()?.value(row).into()),
        DataType::Int64 => Cell::Integer(column.as_primitive_opt::<Int64Type>()?.value(row)),
        DataType::UInt8 => Cell::Unsigned(column.as_primitive_opt::<UInt8Type>()?.value(row).into()),
        DataType::UInt16 => Cell::Unsigned(column.as_primitive_opt::<UInt16Type>()?.value(row).into()),
        DataType::UInt32 => Cell::Unsigned(column.as_primitive_opt::<UInt32Type>()?.value(row).into()),
        DataType::UInt64 => Cell::Unsigned(column.as_primitive_opt::<UInt64Type>()?.value(row)),
        DataType::Float32 => Cell::Single(column.as_primitive_opt::<Float32Type>()?.value(row)),
        DataType::Float64 => Cell::Double(column.as_primitive_opt::<Float64Type>()?.value(row)),
        DataType::Utf8 => Cell::Text(column.as_string_opt::<i32>()?.value(row)),
        DataType::LargeUtf8 => Cell::Text(column.as_string_opt::<i64>()?.value(row)),
        DataType::Utf8View => Cell::Text(column.as_string_view_opt()?.value(row)),
        DataType::List(_) => Cell::List(column.as_list_opt::<i32>()?.value(row)),
        DataType::LargeList(_) => Cell::List(column.as_list_opt::<i64>()?.value(row)),
        DataType::FixedSizeList(_, _) => Cell::List(column.as_fixed_size_list_opt()?.value(row)),
        _ => return None,
    })
}

/// Whether cells of this type can be written: booleans, numbers, texts and lists of them.
fn writable(kind: &DataType, in_list: bool) -> bool {
    match kind {
        DataType::Float16 => false,
        DataType::Boolean | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            !in_list && writable(item.data_type(), true)
        }
        kind => kind.is_integer() || kind.is_floating(),
    }
}

/// Rejects columns whose type cannot be written as text, and duplicate column names.
pub(super) fn check(place: &str, schema: &SchemaRef) -> Result<()> {
    let mut names = HashSet::new();
    for field in schema.fields() {
        if !writable(field.data_type(), false) {
            return Err(Error::Field {
                place: place.to_owned(),
                column: format!("the type of column {}", field.name()),
                allowed: "a truth, a number, text, or a list of these".into(),
                found: field.data_type().to_string(),
            });
        }
        if !names.insert(field.name()) {
            return Err(twice(place, field.name()));
        }
    }
    Ok(())
}

pub(super) fn twice(place: &str, name: &str) -> Error {
    Error::Malformed { place: place.to_owned(), reason: format!("should have every column once, but has {name} twice") }
}

/// Rejects a batch whose columns are not those of the schema.
pub(super) fn same_columns(place: &str, schema: &SchemaRef, table: &RecordBatch) -> Result<()> {
    let own = table.schema();
    let columns = |schema: &SchemaRef| -> Vec<String> {
        schema.fields().iter().map(|field| format!("{}: {}", field.name(), field.data_type())).collect()
    };
    let same = own.fields().len() == schema.fields().len()
        && own
            .fields()
            .iter()
            .zip(schema.fields())
            .all(|(one, other)| one.name() == other.name() && one.data_type() == other.data_type());
    if same {
        return Ok(());
    }
    let reason = format!(
        "all batches should have the columns ({}), but one has ({})",
        columns(schema).join(", "),
        columns(&own).join(", ")
    );
    Err(Error::Malformed { place: place.to_owned(), reason })
}

/// Appends a cell as JSON; `None` if JSON cannot represent the number.
///
/// Floats have a point or an exponent, integers neither, so both are read back as what they were.
pub(super) fn push_json(out: &mut String, cell: &Cell<'_>) -> Option<()> {
    match cell {
        Cell::Null => out.push_str("null"),
        Cell::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Cell::Integer(value) => write!(out, "{value}").ok()?,
        Cell::Unsigned(value) => write!(out, "{value}").ok()?,
        Cell::Single(value) if value.is_finite() => write!(out, "{value:?}").ok()?,
        Cell::Double(value) if value.is_finite() => write!(out, "{value:?}").ok()?,
        Cell::Single(_) | Cell::Double(_) => return None,
        Cell::Text(text) => push_json_text(out, text),
        Cell::List(items) => {
            out.push('[');
            for i in 0..items.len() {
                if i > 0 {
                    out.push(',');
                }
                push_json(out, &self::cell(items, i)?)?;
            }
            out.push(']');
        }
    }
    Some(())
}

/// Appends a text in quotes.
pub(super) fn push_json_text(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..'\u{20}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// An error of the operating system while writing.
pub(super) fn unwritten(place: &str, reason: std::io::Error) -> Error {
    Error::Write { place: place.to_owned(), reason }
}

/// A cell that the format cannot hold.
pub(super) fn unfit(place: &str, row: u64, column: &str, allowed: &str, found: impl Into<String>) -> Error {
    Error::Field {
        place: format!("{place}, row {row}"),
        column: column.to_owned(),
        allowed: allowed.to_owned(),
        found: found.into(),
    }
}
