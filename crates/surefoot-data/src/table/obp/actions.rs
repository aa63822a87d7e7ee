//! The candidates of all records as `action_context`, which has one row per action: they must be the same in every record.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};

use super::numbers::Column;
use super::write::no_place;
use crate::error::{Error, Result};

/// The features of all actions.
#[derive(Debug, Default)]
pub(super) struct ActionContext {
    /// The number of actions, and their features, row by row, once a record has been added.
    known: Option<(usize, Vec<f64>)>,
}

impl ActionContext {
    /// Adds the candidates of some records, the first of which has the number `first`.
    pub(super) fn add(&mut self, place: &str, first: u64, array: &ArrayRef) -> Result<()> {
        let mistyped = || no_place(place, "candidates", array.data_type());
        let lists = array.as_list_opt::<i32>().ok_or_else(mistyped)?;
        let items = lists.values().as_struct_opt().ok_or_else(mistyped)?;
        let fields = items.fields().iter().zip(items.columns());
        let columns: Vec<(&str, Column<'_>)> = fields
            .map(|(field, array)| {
                let name = format!("candidates.{}", field.name());
                let column = Column::new(array).ok_or_else(|| no_place(place, &name, array.data_type()))?;
                Ok((field.name().as_str(), column))
            })
            .collect::<Result<_>>()?;
        for (i, row) in (0..lists.len()).zip(first..) {
            let wrong = |column: String, allowed: &str, found: &str| {
                let place = format!("{place}, row {row}");
                Error::Field { place, column, allowed: allowed.into(), found: found.into() }
            };
            let range = lists.value_offsets()[i] as usize..lists.value_offsets()[i + 1] as usize;
            let mut features = Vec::new();
            for j in range.clone() {
                for (name, column) in &columns {
                    let missing = || wrong(format!("candidates.{name}"), "a number everywhere", "null");
                    features.extend(column.row(j).ok_or_else(missing)?);
                }
            }
            let found = (range.len(), features);
            if *self.known.get_or_insert_with(|| found.clone()) != found {
                let allowed = "the same as in row 0, since action_context has a row for each action";
                return Err(wrong("candidates".into(), allowed, "others"));
            }
        }
        Ok(())
    }

    /// The number of actions.
    pub(super) fn actions(&self) -> usize {
        self.known.as_ref().map_or(0, |(actions, _)| *actions)
    }

    pub(super) fn shape(&self) -> [usize; 2] {
        let actions = self.actions();
        [actions, self.values().len() / actions.max(1)]
    }

    /// The features of all actions, row by row.
    pub(super) fn values(&self) -> &[f64] {
        self.known.as_ref().map_or(&[], |(_, features)| features)
    }
}
