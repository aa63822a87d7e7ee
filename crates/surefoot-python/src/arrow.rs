//! Arrow tables for Python.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3_arrow::PyTable;

use crate::failure::Result;

/// Records as an Arrow table. pandas, polars, pyarrow and any other user of Arrow's C stream get them without a copy.
///
///     >>> import pandas, surefoot
///     >>> frame = pandas.DataFrame({"action": [0, 1], "pscore": [0.5, 0.5], "reward": [1.0, 0.0]})
///     >>> table = surefoot.open_logs(frame).to_arrow()
///     >>> len(table), table.column_names
///     (2, ['action', 'pscore', 'reward'])
#[pyclass(frozen, name = "ArrowTable", module = "surefoot")]
#[derive(Debug)]
pub(crate) struct PyArrowTable {
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) schema: SchemaRef,
}

#[pymethods]
impl PyArrowTable {
    /// The table as an Arrow C stream.
    ///
    ///     >>> import pandas, pyarrow, surefoot
    ///     >>> frame = pandas.DataFrame({"action": [0, 1], "pscore": [0.5, 0.5], "reward": [1.0, 0.0]})
    ///     >>> pyarrow.table(surefoot.open_logs(frame).to_arrow()).num_rows
    ///     2
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        let table = Bound::new(py, PyTable::try_new(self.batches.clone(), self.schema.clone())?)?;
        Ok(table.call_method1("__arrow_c_stream__", (requested_schema,))?)
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The table as a pandas data frame.
    ///
    ///     >>> import pandas, surefoot
    ///     >>> frame = pandas.DataFrame({"action": [0, 1], "pscore": [0.5, 0.5], "reward": [1.0, 0.0]})
    ///     >>> surefoot.open_logs(frame).to_arrow().to_pandas().shape
    ///     (2, 3)
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> Result<Bound<'py, PyAny>> {
        Ok(slf.py().import("pandas")?.getattr("DataFrame")?.call_method1("from_arrow", (slf,))?)
    }

    /// The table as a polars data frame.
    ///
    ///     >>> import pandas, surefoot
    ///     >>> frame = pandas.DataFrame({"action": [0, 1], "pscore": [0.5, 0.5], "reward": [1.0, 0.0]})
    ///     >>> surefoot.open_logs(frame).to_arrow().to_polars().shape
    ///     (2, 3)
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> Result<Bound<'py, PyAny>> {
        Ok(slf.py().import("polars")?.call_method1("DataFrame", (slf,))?)
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn __repr__(&self) -> String {
        format!("<surefoot.ArrowTable: {} records, {} columns>", self.__len__(), self.schema.fields().len())
    }
}
