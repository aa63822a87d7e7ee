//! `surefoot study`: what the theory says, against what is seen.

mod coverage;
mod gate;
mod rates;
mod shift;
mod trade;

use clap::Subcommand;
use surefoot_terminal::Result;

/// Compare what the theory says with what is seen where the truth is known
#[derive(Debug, Subcommand)]
pub(crate) enum Study {
    Coverage(coverage::Coverage),
    Gate(Box<gate::Gate>),
    Rates(rates::Rates),
    Shift(Box<shift::Shift>),
    Trade(Box<trade::Trade>),
}

impl Study {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Study::Coverage(coverage) => coverage.run(),
            Study::Gate(gate) => gate.run(),
            Study::Rates(rates) => rates.run(),
            Study::Shift(shift) => shift.run(),
            Study::Trade(trade) => trade.run(),
        }
    }
}
