//! `surefoot study`: theory against practice.

mod rates;

use clap::Subcommand;

use crate::failure::Result;

/// Compare what the theory says with what happens where the truth is known
#[derive(Debug, Subcommand)]
pub(crate) enum Study {
    Rates(rates::Rates),
}

impl Study {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Study::Rates(rates) => rates.run(),
        }
    }
}
