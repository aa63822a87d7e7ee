//! The binary `surefoot`: one file per subcommand.

mod commands;
mod logs;
mod storage;

use std::error::Error;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// Requests are read on one thread and freed on another, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Sequential off-policy learning: learn the next policy from the logs of the deployed one.
#[derive(Debug, Parser)]
#[command(
    name = "surefoot",
    version,
    max_term_width = 100,
    after_help = "Results go to standard output. Progress and errors go to standard error.\n\n\
                  Exit codes: 0 for success; 1 if the work failed (bad data, bad settings, a file that cannot be \
                  read or written, a certificate that does not hold); 2 if the command line is wrong.",
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The subcommands in the order of the help: the demo, the commands on logs, the live loop, the simulation, then the research.
#[derive(Debug, Subcommand)]
enum Command {
    Demo(commands::demo::Demo),
    Lint(Box<commands::lint::Lint>),
    Evaluate(Box<commands::evaluate::Evaluate>),
    Learn(Box<commands::learn::Learn>),
    Select(commands::select::Select),
    Score(commands::score::Score),
    Verify(commands::verify::Verify),
    Convert(commands::convert::Convert),
    Serve(Box<commands::serve::Serve>),
    Mcp(commands::mcp::Mcp),
    Simulate(Box<commands::simulate::Simulate>),
    Data(commands::data::Data),
    Paper(surefoot_lab::Paper),
    Study(surefoot_lab::Study),
}

/// The command line, or its error and the end.
fn parsed() -> Cli {
    let parsed =
        with_negative_numbers(Cli::command()).try_get_matches().and_then(|found| Cli::from_arg_matches(&found));
    parsed.unwrap_or_else(|error| match plain(&error) {
        Some(text) => {
            surefoot_terminal::note(&text);
            std::process::exit(error.exit_code())
        }
        None => error.exit(),
    })
}

/// A value may be a negative number: then the error says what is allowed. Else `-1` would be an unknown flag.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    command.allow_negative_numbers(true).mut_subcommands(with_negative_numbers)
}

/// The text of an error about a number, without the words of Rust's parsers.
fn plain(error: &clap::Error) -> Option<String> {
    let said = error.source().filter(|_| error.kind() == ErrorKind::ValueValidation)?.to_string();
    let allowed = match said.as_str() {
        "invalid float literal" | "cannot parse float from empty string" => "a number",
        "invalid digit found in string" | "cannot parse integer from empty string" => "a whole number, at least 0",
        _ => return None,
    };
    Some(error.render().to_string().replace(&format!(": {said}\n"), &format!(": should be {allowed}\n")))
}

fn main() -> ExitCode {
    let command = parsed().command;
    surefoot_terminal::clean_up_on_interrupt();
    let done = match command {
        Command::Demo(demo) => demo.run(),
        Command::Lint(lint) => lint.run(),
        Command::Evaluate(evaluate) => evaluate.run(),
        Command::Learn(learn) => learn.run(),
        Command::Select(select) => select.run(),
        Command::Score(score) => score.run(),
        Command::Verify(verify) => verify.run(),
        Command::Convert(convert) => convert.run(),
        Command::Serve(serve) => serve.run(),
        Command::Mcp(mcp) => mcp.run(),
        Command::Simulate(simulate) => simulate.run(),
        Command::Data(data) => data.run(),
        Command::Paper(paper) => paper.run(),
        Command::Study(study) => study.run(),
    };
    surefoot_data::end_unless_interrupted();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            surefoot_terminal::note(&failure.to_string());
            ExitCode::FAILURE
        }
    }
}
