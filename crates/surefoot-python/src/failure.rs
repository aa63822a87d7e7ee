//! Conversion of Rust's errors to the Python exceptions of `surefoot/errors.py`.

use std::cell::RefCell;
use std::process;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use rayon::{ThreadPool, ThreadPoolBuilder};

/// An error on the way to or from Python.
#[derive(Debug)]
pub(crate) enum Failure {
    Core(surefoot::Error),
    Data(surefoot_data::Error),
    Python(PyErr),
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

thread_local! {
    /// An exception raised by Python code that the core called, or the interrupt that stopped the core.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Passes an exception through the core, which only learns that it was stopped. The first exception counts.
pub(crate) fn raised(error: PyErr) -> surefoot::Error {
    RAISED.with_borrow_mut(|raised| {
        raised.get_or_insert(error);
    });
    surefoot::Error::Stopped
}

/// Runs without Python's lock. If Python code raised an exception meanwhile, it is returned instead of any result.
pub(crate) fn run<T: Send, E: Into<Failure> + Send>(
    py: Python<'_>,
    work: impl FnOnce() -> std::result::Result<T, E> + Send,
) -> Result<T> {
    let watched = || {
        // Left by another call on this thread.
        RAISED.take();
        let done = work();
        (done, RAISED.take())
    };
    let (done, raised) = match pool_of_fork()? {
        None => py.detach(watched),
        Some(pool) => py.detach(|| pool.install(watched)),
    };
    match raised {
        Some(error) => Err(Failure::Python(error)),
        None => done.map_err(Into::into),
    }
}

/// The process in which the package was loaded.
pub(crate) static LOADED_IN: OnceLock<u32> = OnceLock::new();

/// A thread pool for a forked process: the threads of its parent do not exist there, and waiting for them would not
/// end.
fn pool_of_fork() -> Result<Option<Arc<ThreadPool>>> {
    static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);
    let here = process::id();
    if LOADED_IN.get().is_none_or(|&loaded| loaded == here) {
        return Ok(None);
    }
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, pool)) = pool.as_ref().filter(|(process, _)| *process == here) {
        return Ok(Some(Arc::clone(pool)));
    }
    let made = ThreadPoolBuilder::new().build().map_err(|e| setting("the threads of a forked process", "made", e))?;
    let (_, made) = pool.insert((here, Arc::new(made)));
    Ok(Some(Arc::clone(made)))
}

impl From<surefoot::Error> for Failure {
    fn from(error: surefoot::Error) -> Self {
        Failure::Core(error)
    }
}

impl From<surefoot_data::Error> for Failure {
    fn from(error: surefoot_data::Error) -> Self {
        match error {
            surefoot_data::Error::Core(error) => Failure::Core(error),
            error => Failure::Data(error),
        }
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Failure::Python(error)
    }
}

/// An error about a setting that the binding itself rejects.
pub(crate) fn setting(name: &str, allowed: &str, value: impl ToString) -> Failure {
    Failure::Core(surefoot::Error::Setting { name: name.into(), allowed: allowed.into(), value: value.to_string() })
}

/// An error about a size that the binding itself rejects.
pub(crate) fn size(what: impl ToString, expected: impl ToString, found: usize) -> Failure {
    Failure::Core(surefoot::Error::Size { what: what.to_string(), expected: expected.to_string(), found })
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        Python::attach(|py| match failure {
            Failure::Python(error) => error,
            Failure::Core(error) => core(py, &error),
            Failure::Data(error) => data(py, &error),
        })
    }
}

/// Creates an exception of a class of `surefoot.errors`, with the error's details as attributes.
fn instance(py: Python<'_>, class: &str, text: String, known: &Bound<'_, PyDict>) -> PyErr {
    let made = py
        .import("surefoot.errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call((text,), Some(known)));
    made.map_or_else(|error| error, PyErr::from_value)
}

fn core(py: Python<'_>, error: &surefoot::Error) -> PyErr {
    use surefoot::Error::{Refuted, Setting, Size, Value};
    let none = PyDict::new(py);
    let known = |pairs: &[(&str, &str)]| pairs.into_py_dict(py).unwrap_or_else(|_| none.clone());
    let text = error.to_string();
    match error {
        Value { row, column, allowed, value } => {
            let about = known(&[("column", column), ("allowed", allowed), ("value", value)]);
            about.set_item("row", row).map_or_else(|e| e, |()| instance(py, "DataError", text, &about))
        }
        Size { what, expected, found } => {
            let about = known(&[("what", what), ("expected", expected)]);
            about.set_item("found", found).map_or_else(|e| e, |()| instance(py, "SizeError", text, &about))
        }
        Setting { name, allowed, value } => {
            let about = known(&[("setting", name), ("allowed", allowed), ("value", value)]);
            instance(py, "SettingError", text, &about)
        }
        Refuted { .. } => instance(py, "DataError", text, &none),
        _ => instance(py, "OptimiserError", text, &none),
    }
}

fn data(py: Python<'_>, error: &surefoot_data::Error) -> PyErr {
    use surefoot_data::Error::{Content, Field, Io, MissingColumn, Write};
    let about = PyDict::new(py);
    let text = error.to_string();
    let put = |key: &str, value: &str| about.set_item(key, value);
    let (class, filled) = match error {
        Field { place, column, allowed, found } => {
            let all = [("place", place), ("column", column), ("allowed", allowed), ("value", found)];
            let row = place.rsplit_once(", row ").and_then(|(_, row)| row.parse::<usize>().ok());
            let filled = all.iter().try_for_each(|(key, value)| put(key, value));
            ("DataError", filled.and_then(|()| about.set_item("row", row)))
        }
        MissingColumn { place, column, .. } => {
            ("DataError", [("place", place), ("column", column)].iter().try_for_each(|(key, value)| put(key, value)))
        }
        Io { place, .. } | Write { place, .. } => ("FileError", put("place", place)),
        Content { place, reason: surefoot::Error::Value { row, column, allowed, value } } => {
            let all = [("place", place), ("column", column), ("allowed", allowed), ("value", value)];
            let filled = all.iter().try_for_each(|(key, value)| put(key, value));
            ("DataError", filled.and_then(|()| about.set_item("row", row)))
        }
        Content { place, reason: surefoot::Error::Refuted { .. } } => ("DataError", put("place", place)),
        _ => ("FileError", Ok(())),
    };
    filled.map_or_else(|e| e, |()| instance(py, class, text, &about))
}
