//! `surefoot study`: compares the theory with observations.

mod coverage;
mod gate;
mod rates;
mod shift;
mod slack;
mod trade;

use clap::{Args, Subcommand};
use surefoot_terminal::Result;

/// Compare the theory with simulations in worlds where the truth is known
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  surefoot study coverage\n  surefoot study gate --seeds 20")]
pub struct Study {
    #[command(subcommand)]
    which: Which,
}

#[derive(Debug, Subcommand)]
enum Which {
    Coverage(coverage::Coverage),
    Gate(Box<gate::Gate>),
    Rates(rates::Rates),
    Shift(Box<shift::Shift>),
    Slack(Box<slack::Slack>),
    Trade(Box<trade::Trade>),
}

impl Study {
    /// Runs the command.
    pub fn run(self) -> Result<()> {
        match self.which {
            Which::Coverage(coverage) => coverage.run(),
            Which::Gate(gate) => gate.run(),
            Which::Rates(rates) => rates.run(),
            Which::Shift(shift) => shift.run(),
            Which::Slack(slack) => slack.run(),
            Which::Trade(trade) => trade.run(),
        }
    }
}
