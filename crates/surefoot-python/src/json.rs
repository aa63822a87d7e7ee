//! Values that the core serialises, as plain Python objects.

use pyo3::intern;
use pyo3::prelude::*;
use serde::Serialize;

use crate::failure::{Result, setting};

pub(crate) fn text(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| setting("a value", "one that JSON can hold", e))
}

/// Converts a value; numbers are exact to the last bit.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &impl Serialize) -> Result<Bound<'py, PyAny>> {
    Ok(py.import(intern!(py, "json"))?.call_method1(intern!(py, "loads"), (text(value)?,))?)
}
