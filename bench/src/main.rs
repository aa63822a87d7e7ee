//! Surefoot's benchmarks, one subcommand per measurement.
//!
//! Our own (`make bench`): [`micro`], [`growth`], [`memory`] and [`logs`]; [`scale`] (`make bench-scale`). Against rivals (`make bench-rivals`): the
//! workers in [`rivals`], which `rivals/compare.py` times alternately with those written in Python; and [`candidates`], for
//! `candidates/speed.py`. The service under load (`make bench-serve`): [`serve`]. Times on a shared machine mean little, so
//! every comparison is a ratio of two workloads that are measured alternately in one run.

mod candidates;
mod draw;
mod folder;
mod growth;
mod logs;
mod memory;
mod micro;
mod report;
mod rivals;
mod scale;
mod serve;
mod work;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measure Surefoot
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    measure: Measure,
}

#[derive(Debug, Subcommand)]
enum Measure {
    Micro(micro::Micro),
    Growth(growth::Growth),
    Memory(memory::Memory),
    Candidates(candidates::Candidates),
    Logs(logs::Logs),
    Serve(serve::Serve),
    Banditdb(serve::Banditdb),
    Soak(serve::Soak),
    Scale(scale::Scale),
    Alone(serve::Alone),
    Collect(rivals::Collect),
    Epoch(rivals::Epoch),
    Run(rivals::Run),
    Propensities(rivals::Propensities),
    Risk(rivals::Risk),
    Machine(report::Machine),
    Chart(draw::Chart),
}

fn main() -> ExitCode {
    match measure(Cli::parse().measure) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(measure: Measure) -> work::Result<()> {
    match measure {
        Measure::Micro(measure) => measure.run(),
        Measure::Growth(measure) => measure.run(),
        Measure::Memory(measure) => measure.run(),
        Measure::Candidates(measure) => measure.run(),
        Measure::Logs(measure) => measure.run(),
        Measure::Serve(measure) => measure.run(),
        Measure::Banditdb(measure) => measure.run(),
        Measure::Soak(measure) => measure.run(),
        Measure::Scale(measure) => measure.run(),
        Measure::Alone(measure) => measure.run(),
        Measure::Collect(measure) => measure.run(),
        Measure::Epoch(measure) => measure.run(),
        Measure::Run(measure) => measure.run(),
        Measure::Propensities(measure) => measure.run(),
        Measure::Risk(measure) => measure.run(),
        Measure::Machine(measure) => measure.run(),
        Measure::Chart(measure) => measure.run(),
    }
}
