//! `surefoot study`: what the theory says, against what is seen.

mod gate;
mod trade;

use clap::Subcommand;

use crate::failure::Result;

/// Show what the theory says against what is seen, over many seeds
#[derive(Debug, Subcommand)]
pub(crate) enum Study {
    Gate(Box<gate::Gate>),
    Trade(Box<trade::Trade>),
}

impl Study {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Study::Gate(gate) => gate.run(),
            Study::Trade(trade) => trade.run(),
        }
    }
}
