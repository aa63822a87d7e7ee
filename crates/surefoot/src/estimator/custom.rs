//! OWN ESTIMATORS: what a user brings in place of a [`Regularizer`](crate::estimator::Regularizer).

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::error::{Error, Result};

/// An estimator `h(p, q, c)` of the user's own, for many records at once.
///
/// It has to be 0 where the cost is 0, as such records are left out of a search. What is certified of a policy does not
/// depend on how it was learned, and so not on this.
pub trait CustomEstimator: Debug + Send + Sync {
    /// What it is called.
    fn name(&self) -> &str;

    /// `h` of each record, and its derivative in `p`.
    fn h_and_slope(&self, p: &[f64], q: &[f64], c: &[f64]) -> Result<(Vec<f64>, Vec<f64>)>;
}

/// A shared [`CustomEstimator`]; two are equal if they are the same one. Files only know its name.
#[derive(Debug, Clone)]
pub struct Custom(Arc<dyn CustomEstimator>);

impl Custom {
    /// Of somebody's own.
    pub fn new(estimator: impl CustomEstimator + 'static) -> Self {
        Custom(Arc::new(estimator))
    }

    /// The sum of `h` and its slopes, all finite and of the right number.
    pub(crate) fn checked(&self, p: &[f64], q: &[f64], c: &[f64]) -> Result<(f64, Vec<f64>)> {
        let (h, slopes) = self.h_and_slope(p, q, c)?;
        for (column, values) in [("h", &h), ("dh/dp", &slopes)] {
            if values.len() != p.len() {
                let expected = format!("{} entries, one for each record", p.len());
                return Err(Error::size(format!("{column} of {}", self.name()), expected, values.len()));
            }
            if let Some(row) = values.iter().position(|v| !v.is_finite()) {
                return Err(Error::value(row, format!("{column} of {}", self.name()), "finite", values[row]));
            }
        }
        Ok((h.iter().sum(), slopes))
    }
}

impl Deref for Custom {
    type Target = dyn CustomEstimator;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref()
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Serialize for Custom {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
