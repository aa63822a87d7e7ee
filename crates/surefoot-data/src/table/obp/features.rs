//! The features of all actions, as the candidates of every record.

use std::sync::Arc;

use arrow_array::types::Float32Type;
use arrow_array::{Array as _, ArrayRef, Float32Array, ListArray, StringArray, StructArray, UInt64Array};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{ArrowError, DataType, Field};
use arrow_select::take::take;

use super::arrays::Array;
use super::{Reals, list};
use crate::error::{Error, Result};

/// The features of each action.
pub(super) struct Features {
    pub(super) actions: usize,
    /// A struct of the number of the action, as a text, and its features.
    items: ArrayRef,
    width: usize,
}

impl Features {
    /// Reads `action_context`. `None` if it is the identity matrix.
    pub(super) fn read(array: Array, actions: Option<i128>) -> Result<Option<Self>> {
        let rows = actions.map_or("n_actions".into(), |count| count.to_string());
        let mut reals = Reals::new(array)?;
        let (k, width) = match reals.array.header.shape[..] {
            [k, width] if actions.is_none_or(|count| count == k as i128) && u32::try_from(k).is_ok() => (k, width),
            _ => return Err(reals.array.shape(format!("({rows}, m), a row for each action"))),
        };
        let place = reals.array.place().to_owned();
        let mut values = Vec::new();
        for _ in 0..k {
            values.extend(reals.next(1)?.map(|value| value as f32));
        }
        reals.array.end()?;
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            let (allowed, value) = ("finite, within what 32 bits hold", values[index].to_string());
            return Err(Error::Value { place, index, allowed, value });
        }
        let one = |i: usize| if i / width == i % width { 1.0 } else { 0.0 };
        if k == width && values.iter().enumerate().all(|(i, value)| *value == one(i)) || width == 0 {
            return Ok(None);
        }
        let ids: ArrayRef = Arc::new((0..k).map(|action| Some(action.to_string())).collect::<StringArray>());
        let features = list::<Float32Type>(&place, k, width, Float32Array::from(values))?;
        let columns = [("id", ids), ("context", features)];
        let field =
            |(name, array): (&str, ArrayRef)| (Arc::new(Field::new(name, array.data_type().clone(), true)), array);
        let items = StructArray::from(columns.into_iter().map(field).collect::<Vec<_>>());
        Ok(Some(Features { actions: k, items: Arc::new(items), width }))
    }

    /// The number of bytes of the candidates of a record.
    pub(super) fn bytes(&self) -> usize {
        self.actions.saturating_mul(self.width.saturating_mul(4).saturating_add(32))
    }

    pub(super) fn data_type(&self) -> DataType {
        DataType::new_list(self.items.data_type().clone(), false)
    }

    /// The candidates of some records.
    pub(super) fn column(&self, rows: usize) -> std::result::Result<ArrayRef, ArrowError> {
        let places = UInt64Array::from_iter_values((0..rows).flat_map(|_| 0..self.actions as u64));
        let items = take(&self.items, &places, None)?;
        let item = Arc::new(Field::new_list_field(items.data_type().clone(), false));
        let offsets = OffsetBuffer::from_repeated_length(self.actions, rows);
        Ok(Arc::new(ListArray::try_new(item, offsets, items, None)?))
    }
}
