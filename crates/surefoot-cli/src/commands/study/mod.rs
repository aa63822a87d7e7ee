//! `surefoot study`: what the theory says, checked by simulation.

mod coverage;

use clap::Subcommand;

use crate::failure::Result;

/// Check by simulation what the theory says
#[derive(Debug, Subcommand)]
pub(crate) enum Study {
    Coverage(coverage::Coverage),
}

impl Study {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Study::Coverage(coverage) => coverage.run(),
        }
    }
}
