//! WATCH: who looks on while a loop runs, and may stop it.

use std::ops::ControlFlow;

use crate::simulation::SimulatedRound;

/// Looks on while a search or a loop runs: shows how far it is, and may stop it.
///
/// What is stopped gives [`Error::Stopped`](crate::Error::Stopped), and changes nothing: the state that came in is as it was.
pub trait Watch: Send {
    /// A share of a round's search is done, from 0 to 1; asked once a step.
    fn searching(&mut self, share: f64) -> ControlFlow<()> {
        let _ = share;
        ControlFlow::Continue(())
    }

    /// A round of a simulated loop is over.
    fn round(&mut self, round: &SimulatedRound) -> ControlFlow<()> {
        let _ = round;
        ControlFlow::Continue(())
    }
}

/// Nobody: nothing is shown, and nothing stops.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Watch for Unwatched {}
