//! OBSERVER: shows how far a search is, and may stop it.

use std::ops::ControlFlow;

/// Is told how far a search is, and may stop it.
///
/// What is stopped gives [`Error::Stopped`](crate::Error::Stopped), and changes nothing: the state that came in is as it was.
pub trait Observer: Send {
    /// A share of a round's search is done, from 0 to 1; asked once a step.
    fn searching(&mut self, share: f64) -> ControlFlow<()> {
        let _ = share;
        ControlFlow::Continue(())
    }
}

/// Nobody: nothing is shown, and nothing stops.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {}
