//! Work on shards, and engines that are written in Python.

use std::fmt;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use surefoot_data::Error;
use surefoot_data::shards::{self, Engine};

use crate::failure::{Result, raised, run};

/// Does a task for one shard of a log. Engines call it, in any process; see :func:`surefoot.learn`.
///
/// It has no effect but its result, so that it may be done again at any time. Shards that were used are kept open in this
/// process, so that an engine that sends the same shards to the same worker is faster.
///
/// Parameters
/// ----------
/// task : str
///     The name of the task.
/// shard : bytes
///     The shard, as the engine got it.
/// payload : bytes
///     What the task needs, as the engine got it.
///
/// Examples
/// --------
/// The simplest engine does everything in this process:
///
///     >>> from surefoot import _surefoot
///     >>> def engine(task, shards, payload):
///     ...     return [_surefoot.run_shard(task, shard, payload) for shard in shards]
#[pyfunction]
pub(crate) fn run_shard<'py>(py: Python<'py>, task: &str, shard: &[u8], payload: &[u8]) -> Result<Bound<'py, PyBytes>> {
    let done = run(py, || shards::run(task, shard, payload))?;
    Ok(PyBytes::new(py, &done))
}

/// A callable `map(task, shards, payload)`, which returns one result per shard.
pub(crate) struct PyEngine(pub(crate) Py<PyAny>);

impl fmt::Debug for PyEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PyEngine")
    }
}

impl Engine for PyEngine {
    fn map(&self, task: &str, shards: &[&[u8]], payload: &[u8]) -> surefoot_data::Result<Vec<Vec<u8>>> {
        let done = Python::attach(|py| -> PyResult<Vec<Vec<u8>>> {
            py.check_signals()?;
            let shards = PyList::new(py, shards.iter().map(|shard| PyBytes::new(py, shard)))?;
            let results = self.0.bind(py).call1((task, shards, PyBytes::new(py, payload)))?;
            let each = results.try_iter()?.map(|result| Ok(result?.extract::<&[u8]>()?.to_vec()));
            each.collect()
        });
        done.map_err(|error| Error::Core(raised(error)))
    }
}
