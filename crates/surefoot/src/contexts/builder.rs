//! Contexts that arrive value by value.

use super::storage::Storage;
use super::{Contexts, check_features, is_sparse_smaller, not_finite};
use crate::error::{Error, Result};

/// Builds contexts from all their values, row after row, such as they come out of a file; zeros included.
///
/// They take the form that [`Contexts::compact`] would give them, and nothing but that is ever held. So the number of
/// non-zero values has to be known beforehand: count first, then read again.
///
/// ```
/// use surefoot::contexts::ContextsBuilder;
///
/// let mut builder = ContextsBuilder::new(2, 4, 1)?;
/// builder.extend([0.0, 0.0, 0.0])?;
/// builder.extend([5.0, 0.0, 0.0, 0.0, 0.0])?;
/// let contexts = builder.finish()?;
/// assert_eq!((contexts.is_sparse(), contexts.norm(0)), (true, 5.0));
/// # Ok::<(), surefoot::Error>(())
/// ```
#[derive(Debug)]
pub struct ContextsBuilder {
    rows: usize,
    storage: Storage,
    /// How far the current row has come.
    column: usize,
}

impl ContextsBuilder {
    /// For so many rows and features, `filled` of whose values are not zero.
    pub fn new(rows: usize, features: usize, filled: usize) -> Result<Self> {
        check_features(features)?;
        if filled > rows.saturating_mul(features) {
            return Err(Error::size("contexts", format!("at most {rows} x {features} non-zero values"), filled));
        }
        let sparse = is_sparse_smaller(rows, features, filled);
        Ok(ContextsBuilder { rows, storage: Storage::with_room(sparse, features, rows, filled), column: 0 })
    }

    /// The next values, which must be finite.
    pub fn extend(&mut self, values: impl IntoIterator<Item = f32>) -> Result<()> {
        for value in values {
            if !value.is_finite() {
                return Err(not_finite(self.storage.norms.len(), self.column, value));
            }
            if value != 0.0 {
                self.storage.push(self.column, value);
            }
            self.column += 1;
            if self.column == self.storage.features {
                self.storage.end_row();
                self.column = 0;
            }
        }
        Ok(())
    }

    /// The contexts; fails if the values were fewer or more than announced.
    pub fn finish(self) -> Result<Contexts> {
        let (rows, features) = (self.storage.norms.len(), self.storage.features);
        if (rows, self.column) != (self.rows, 0) {
            let expected = format!("{} rows x {features} values", self.rows);
            return Err(Error::size("contexts", expected, rows * features + self.column));
        }
        Ok(self.storage.into())
    }
}
