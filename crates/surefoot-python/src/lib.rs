//! The Python package: a thin layer over the core.
//!
//! All computation happens in Rust, without Python's lock, and arrays are used in place. The public interface and its
//! documentation are in `python/surefoot`.

#![expect(clippy::needless_pass_by_value, reason = "Python hands over values")]

mod arrays;
mod arrow;
mod certificate;
mod custom;
mod environment;
mod evaluation;
mod failure;
mod features;
mod json;
mod learning;
mod logs;
mod observer;
mod policy;
mod rounds;
mod shards;
mod simulation;
mod tables;

/// The Rust part of the package.
#[pyo3::pymodule]
mod _surefoot {
    #[expect(non_upper_case_globals, reason = "Python calls it so")]
    #[pymodule_export]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn init(_module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        crate::failure::LOADED_IN.get_or_init(std::process::id);
        Ok(())
    }

    #[pymodule_export]
    use crate::arrow::PyArrowTable;
    #[pymodule_export]
    use crate::certificate::{PyCertificate, certify, read_file, verify_run, verify_statements, write_file};
    #[pymodule_export]
    use crate::custom::check_estimator;
    #[pymodule_export]
    use crate::environment::{PyEnvironment, rule_of_thumb};
    #[pymodule_export]
    use crate::evaluation::{evaluate, select};
    #[pymodule_export]
    use crate::features::PyFeatures;
    #[pymodule_export]
    use crate::learning::{PyLearner, PySession};
    #[pymodule_export]
    use crate::logs::PyLogs;
    #[pymodule_export]
    use crate::policy::PyPolicy;
    #[pymodule_export]
    use crate::rounds::PyRounds;
    #[pymodule_export]
    use crate::shards::run_shard;
    #[pymodule_export]
    use crate::simulation::{simulate, sizes};
    #[pymodule_export]
    use crate::tables::{PySource, formats};
}
