//! Contexts in columns that were stored, with the norms of their rows: nothing is copied or computed again.

use std::ops::Range;

use rayon::prelude::*;

use super::column::Column;
use super::storage::{IndexColumn, Indices, Places, Row, Storage, norm};
use super::{Contexts, check_features, not_finite};
use crate::error::{Error, Result};

/// The columns of contexts, as a file stores them.
#[derive(Debug)]
pub struct ContextColumns {
    /// The number of features.
    pub features: usize,
    /// The values: all of each row, or the stored ones of sparse rows.
    pub values: Column<f32>,
    /// The Euclidean norm of each row.
    pub norms: Column<f64>,
    /// For sparse rows: where each row begins in the values, and the number of all values; and the feature of each value.
    pub places: Option<(Column<usize>, IndexColumn)>,
}

/// The number of rows that are checked at once.
const CHUNK: usize = 8192;

impl Contexts {
    /// Contexts in columns. Everything is checked, the norms too.
    pub fn of_columns(columns: ContextColumns) -> Result<Self> {
        let ContextColumns { features, values, norms, places } = columns;
        check_features(features)?;
        let rows = norms.len();
        match &places {
            None if rows.checked_mul(features) != Some(values.len()) => {
                return Err(Error::size("dense contexts", format!("{rows} rows x {features} values"), values.len()));
            }
            None => {}
            Some((offsets, indices)) => check_places(offsets, indices, rows, features, values.len())?,
        }
        let places = places.map(|(offsets, indices)| Places { offsets, indices });
        let contexts: Contexts = Storage::of(features, values, norms, places).into();
        let chunks: Vec<usize> = (0..rows).step_by(CHUNK).collect();
        chunks.into_par_iter().try_for_each(|start| contexts.check_rows(start..(start + CHUNK).min(rows)))?;
        Ok(contexts)
    }

    fn check_rows(&self, rows: Range<usize>) -> Result<()> {
        for i in rows {
            let row = self.row(i);
            let values = row.values();
            if let Row::Sparse { indices, .. } = row {
                check_indices(i, indices, self.features())?;
            }
            if let Some(place) = values.iter().position(|v| !v.is_finite()) {
                return Err(not_finite(i, place, values[place]));
            }
            let found = self.norm(i);
            if found.to_bits() != norm(values).to_bits() {
                return Err(Error::value(i, "norm", norm(values), found));
            }
        }
        Ok(())
    }
}

fn check_places(offsets: &[usize], indices: &IndexColumn, rows: usize, features: usize, values: usize) -> Result<()> {
    if offsets.len() != rows + 1 {
        return Err(Error::size("offsets", format!("{} entries, one more than rows", rows + 1), offsets.len()));
    }
    if indices.len() != values {
        return Err(Error::size("sparse values", format!("{} entries, one for each index", indices.len()), values));
    }
    if matches!(indices, IndexColumn::Narrow(_)) != (features <= IndexColumn::NARROW) {
        let allowed = format!("of 16 bits for at most {} features, else of 32", IndexColumn::NARROW);
        return Err(Error::setting("feature indices", allowed, format!("not, for {features}")));
    }
    let increase = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    if offsets[0] != 0 || !increase || offsets[rows] != values {
        return Err(Error::setting("offsets", format!("increasing from 0 to {values}"), "not so"));
    }
    Ok(())
}

fn check_indices(row: usize, indices: Indices<'_>, features: usize) -> Result<()> {
    let fits = match indices {
        Indices::Narrow(indices) => {
            indices.is_sorted_by(|a, b| a < b) && indices.last().is_none_or(|&last| usize::from(last) < features)
        }
        Indices::Wide(indices) => {
            indices.is_sorted_by(|a, b| a < b) && indices.last().is_none_or(|&last| (last as usize) < features)
        }
    };
    match fits {
        true => Ok(()),
        false => Err(Error::value(row, "feature index", format!("strictly increasing, below {features}"), "not so")),
    }
}
