//! Columns: numbers in memory of our own, or in memory that another owner holds.

use std::fmt::{self, Debug, Formatter};
use std::ops::Deref;

/// Memory that another owner holds, such as an array of another language or a file that is mapped. It must not change
/// while it is held.
pub type Memory<T = f32> = Box<dyn AsRef<[T]> + Send + Sync>;

/// One number per record, row or entry. The memory is our own, or another owner holds it.
pub enum Column<T: 'static> {
    /// Memory of our own.
    Owned(Vec<T>),
    /// Memory that another owner holds: nothing is copied.
    Foreign(Memory<T>),
}

impl<T: Clone> Column<T> {
    /// The numbers as an owned vector, which can be changed.
    pub(super) fn own(&mut self) -> &mut Vec<T> {
        if let Column::Foreign(memory) = self {
            *self = Column::Owned((**memory).as_ref().to_vec());
        }
        match self {
            Column::Owned(values) => values,
            Column::Foreign(_) => unreachable!("they have just been copied"),
        }
    }
}

impl<T> Deref for Column<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Column::Owned(values) => values,
            Column::Foreign(memory) => (**memory).as_ref(),
        }
    }
}

impl<T> From<Vec<T>> for Column<T> {
    fn from(values: Vec<T>) -> Self {
        Column::Owned(values)
    }
}

impl<T: Debug> Debug for Column<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.deref().fmt(f)
    }
}
