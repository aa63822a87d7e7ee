//! CUSTOM ESTIMATORS: user-defined replacements for a [`Regularizer`](crate::estimator::Regularizer).

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::error::{Error, Result};

/// A user-defined estimator `h(p, q, c)`, evaluated on many records at once.
///
/// It must be 0 where the cost is 0, because a search skips such records. Certificates do not depend on how a policy
/// was learned, and so not on this estimator.
pub trait CustomEstimator: Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// `h` of each record, and its derivative in `p`.
    fn h_and_slope(&self, p: &[f64], q: &[f64], c: &[f64]) -> Result<(Vec<f64>, Vec<f64>)>;
}

/// A shared [`CustomEstimator`]. Two values are equal if they share the same estimator. Files store only its name.
#[derive(Debug, Clone)]
pub struct Custom(Arc<dyn CustomEstimator>);

impl Custom {
    /// Wraps a user-defined estimator.
    pub fn new(estimator: impl CustomEstimator + 'static) -> Self {
        Custom(Arc::new(estimator))
    }

    /// The sum of `h` and the slopes; checks that all are finite and of the right number.
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
