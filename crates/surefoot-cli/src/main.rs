//! The binary `surefoot`: one file a subcommand.

mod commands;
mod experiment;
mod logs;
mod options;
mod sets;
mod statistics;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Sequential off-policy learning: from the logs of a deployed policy to the next one.
#[derive(Debug, Parser)]
#[command(
    name = "surefoot",
    version,
    max_term_width = 100,
    after_help = "Data goes to standard output, progress and errors to standard error.\n\n\
                  Exit codes: 0 done, 1 the work failed (bad data, bad settings, files, a certificate \
                  that does not hold), 2 the command line is wrong.",
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Convert(commands::convert::Convert),
    Data(commands::data::Data),
    Demo(commands::demo::Demo),
    Evaluate(Box<commands::evaluate::Evaluate>),
    Learn(Box<commands::learn::Learn>),
    Lint(Box<commands::lint::Lint>),
    Paper(commands::paper::Paper),
    Score(commands::score::Score),
    Select(commands::select::Select),
    Simulate(Box<commands::simulate::Simulate>),
    #[command(subcommand)]
    Study(commands::study::Study),
    Verify(commands::verify::Verify),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Convert(convert) => convert.run(),
        Command::Data(data) => data.run(),
        Command::Demo(demo) => demo.run(),
        Command::Evaluate(evaluate) => evaluate.run(),
        Command::Learn(learn) => learn.run(),
        Command::Lint(lint) => lint.run(),
        Command::Paper(paper) => paper.run(),
        Command::Score(score) => score.run(),
        Command::Select(select) => select.run(),
        Command::Simulate(simulate) => simulate.run(),
        Command::Study(study) => study.run(),
        Command::Verify(verify) => verify.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprint!("{failure}");
            ExitCode::FAILURE
        }
    }
}
