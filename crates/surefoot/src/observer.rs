//! OBSERVER: receives the progress of a search, and may stop it.

use std::ops::ControlFlow;

/// Receives the progress of learning, and may stop a search.
///
/// A stopped search returns [`Error::Stopped`](crate::Error::Stopped) and has no other effect: the state passed in is
/// unchanged.
pub trait Observer: Send {
    /// Called when a part of the work begins, with its name.
    fn begins(&mut self, part: &str) {
        let _ = part;
    }

    /// Called at every step with the fraction of a round's search that is done, from 0 to 1. The result may stop the
    /// search.
    fn searching(&mut self, share: f64) -> ControlFlow<()> {
        let _ = share;
        ControlFlow::Continue(())
    }
}

/// Ignores all progress and never stops a search.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {}
