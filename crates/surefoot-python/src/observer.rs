//! Progress reports to Python, and interruption by Ctrl-C.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use surefoot::observer::Observer;

use crate::failure::raised;

/// Calls Python a few times per second, not at every step.
pub(crate) struct Onlooker {
    /// An object with the methods `searching(share)` and `round(report)`.
    shown: Option<Py<PyAny>>,
    asked: Instant,
}

const PAUSE: Duration = Duration::from_millis(50);

impl Onlooker {
    pub(crate) fn new(shown: Option<Py<PyAny>>) -> Self {
        Onlooker { shown, asked: Instant::now() }
    }

    pub(crate) fn ask(&mut self, show: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<()>) -> ControlFlow<()> {
        self.asked = Instant::now();
        let asked = Python::attach(|py| {
            py.check_signals()?;
            self.shown.as_ref().map_or(Ok(()), |shown| show(shown.bind(py)))
        });
        match asked {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                raised(error);
                ControlFlow::Break(())
            }
        }
    }
}

impl Observer for Onlooker {
    fn searching(&mut self, share: f64) -> ControlFlow<()> {
        if self.asked.elapsed() < PAUSE {
            return ControlFlow::Continue(());
        }
        self.ask(|shown| shown.call_method1("searching", (share,)).map(|_| ()))
    }
}
