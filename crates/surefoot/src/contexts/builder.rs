//! Contexts that are built value by value.

use super::storage::Storage;
use super::{Contexts, check_features, is_sparse_smaller, not_finite};
use crate::error::{Error, Result};

/// Builds contexts from all their values, row by row, zeros included, as a file reader delivers them.
///
/// The result has the form that [`Contexts::compact`] would choose, and no other copy is ever held in memory. So the
/// number of non-zero values must be known in advance: count them in a first pass, then read again.
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
    /// The number of values in the current row.
    column: usize,
}

impl ContextsBuilder {
    /// Starts with the number of rows and features, and the number `filled` of non-zero values.
    pub fn new(rows: usize, features: usize, filled: usize) -> Result<Self> {
        check_features(features)?;
        if filled > rows.saturating_mul(features) {
            return Err(Error::size("contexts", format!("at most {rows} x {features} non-zero values"), filled));
        }
        let sparse = is_sparse_smaller(rows, features, filled);
        Ok(ContextsBuilder { rows, storage: Storage::with_room(sparse, features, rows, filled), column: 0 })
    }

    /// Adds the next values, which must be finite.
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

    /// Returns the contexts; fails if there were fewer or more values than announced.
    pub fn finish(self) -> Result<Contexts> {
        let (rows, features) = (self.storage.norms.len(), self.storage.features);
        if (rows, self.column) != (self.rows, 0) {
            let expected = format!("{} rows x {features} values", self.rows);
            return Err(Error::size("contexts", expected, rows * features + self.column));
        }
        Ok(self.storage.into())
    }
}
