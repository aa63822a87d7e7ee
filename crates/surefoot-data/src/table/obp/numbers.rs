//! Columns of numbers of any type, and lists of them, row by row.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

/// A column of a batch as numbers: one per row, or a list per row.
pub(super) struct Column<'a> {
    numbers: Vec<Option<f64>>,
    array: &'a ArrayRef,
    /// The range of each row's entries, if the column has lists.
    lists: Option<Vec<Range<usize>>>,
}

impl<'a> Column<'a> {
    pub(super) fn new(array: &'a ArrayRef) -> Option<Self> {
        let ranges = |offsets: Vec<usize>| offsets.windows(2).map(|pair| pair[0]..pair[1]).collect::<Vec<_>>();
        if let Some(list) = array.as_list_opt::<i32>() {
            let offsets = list.offsets().iter().map(|&offset| usize::try_from(offset).unwrap_or(0)).collect();
            return Some(Column { numbers: numbers(list.values())?, array, lists: Some(ranges(offsets)) });
        }
        if let Some(list) = array.as_list_opt::<i64>() {
            let offsets = list.offsets().iter().map(|&offset| usize::try_from(offset).unwrap_or(0)).collect();
            return Some(Column { numbers: numbers(list.values())?, array, lists: Some(ranges(offsets)) });
        }
        if let Some(list) = array.as_fixed_size_list_opt() {
            let width = usize::try_from(list.value_length()).unwrap_or(0);
            let lists = (0..list.len()).map(|row| row * width..(row + 1) * width).collect();
            return Some(Column { numbers: numbers(list.values())?, array, lists: Some(lists) });
        }
        Some(Column { numbers: numbers(array)?, array, lists: None })
    }

    /// The numbers of a row; `None` if the row or one of its numbers is null.
    pub(super) fn row(&self, row: usize) -> Option<Vec<f64>> {
        if self.array.is_null(row) {
            return None;
        }
        let range = self.lists.as_ref().map_or(row..row + 1, |lists| lists[row].clone());
        self.numbers[range].iter().copied().collect()
    }
}

/// The numbers of an array; `None` if its type is not numeric.
fn numbers(array: &ArrayRef) -> Option<Vec<Option<f64>>> {
    macro_rules! numbers {
        ($($name:ident: $type:ty),*) => {
            match array.data_type() {
                $(DataType::$name => {
                    let values = array.as_primitive::<$type>();
                    values.iter().map(|value| value.map(|value| value as f64)).collect()
                })*
                DataType::Boolean => {
                    array.as_boolean().iter().map(|value| value.map(|value| f64::from(u8::from(value)))).collect()
                }
                _ => return None,
            }
        };
    }
    Some(numbers!(
        Float64: Float64Type, Float32: Float32Type, Int8: Int8Type, Int16: Int16Type, Int32: Int32Type,
        Int64: Int64Type, UInt8: UInt8Type, UInt16: UInt16Type, UInt32: UInt32Type, UInt64: UInt64Type
    ))
}
