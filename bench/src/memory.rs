//! `memory`: the memory of a run beyond its data.

use std::path::PathBuf;
use std::{fs, mem};

use clap::Args;
use surefoot::contexts::{Indices, Row};
use surefoot::learn::State;
use surefoot::{Contexts, Logs};

use crate::report::{publish, table};
use crate::work::{Result, Task, learner, policy, sparse, threads};

/// Learn two rounds from sparse logs, compare the peak memory with the size of the data, and write `memory.md`
#[derive(Debug, Args)]
pub(crate) struct Memory {
    #[arg(long, default_value_t = 2_000_000)]
    records: usize,
    #[arg(long, default_value = "bench/results")]
    out: PathBuf,
}

const FEATURES: usize = 1000;
const FILLED: usize = 16;
const ACTIONS: usize = 10;

impl Memory {
    pub(crate) fn run(&self) -> Result<()> {
        let start = peak();
        // The contexts are stored once: a round is a slice of them.
        let contexts = sparse(self.records, FEATURES, FILLED)?;
        let half = self.records / 2;
        let rounds = [contexts.slice(0..half), contexts.slice(half..self.records)];
        let rounds = rounds.map(|part| Task::new(part, ACTIONS, 0.5).map(|task| task.logs));
        let data = held(&contexts) + rounds.iter().flatten().map(columns).sum::<usize>();
        let before = peak();

        let mut state = State::new(policy(ACTIONS, vec![0.0; FEATURES * ACTIONS])?);
        // The means of two policies, and Adam's two moments.
        let model = 4 * mem::size_of_val(state.first().posterior().mean());
        let pool = threads(1)?;
        for logs in rounds {
            let logs = logs?;
            state = pool.install(|| learner(1, 1024, 0).step(&state, &logs))?.0;
        }
        let after = peak();

        let megabytes = |bytes: usize| format!("{:.1} MB", bytes as f64 / 1e6);
        let known = |bytes: Option<usize>| bytes.map_or("not available".to_owned(), megabytes);
        let ratio = after.zip(start).map(|(after, start)| (after - start) as f64 / (data + model) as f64);
        let body = table(
            ["what", "size"],
            &[
                ["data: contexts and columns".into(), megabytes(data)],
                ["state of the model".into(), megabytes(model)],
                ["peak of the process, at its start".into(), known(start)],
                ["peak before learning".into(), known(before)],
                ["peak after two rounds".into(), known(after)],
                [
                    "**(peak - start) / (data + state)**".into(),
                    ratio.map_or("not available".to_owned(), |ratio| format!("**{ratio:.2}**")),
                ],
            ],
        );
        let settings =
            format!("{} records, {FEATURES} features, {FILLED} of them non-zero, {ACTIONS} actions.", self.records);
        publish(&self.out, "memory", "Memory of two rounds", &format!("{settings}\n\n{body}"))
    }
}

/// The bytes of the values, their indices, and the offset and norm of each row.
fn held(contexts: &Contexts) -> usize {
    let row = |row: Row<'_>| {
        mem::size_of_val(row.values())
            + match row {
                Row::Dense(_) => 0,
                Row::Sparse { indices: Indices::Narrow(i), .. } => mem::size_of_val(i) + mem::size_of::<usize>(),
                Row::Sparse { indices: Indices::Wide(i), .. } => mem::size_of_val(i) + mem::size_of::<usize>(),
            }
    };
    contexts.iter().map(|r| row(r) + mem::size_of::<f64>()).sum()
}

fn columns(logs: &Logs) -> usize {
    mem::size_of_val(logs.action()) + mem::size_of_val(logs.propensity()) + mem::size_of_val(logs.cost())
}

/// The peak memory of the process in bytes, if the system reports it.
fn peak() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok().map(|kilobytes: usize| 1024 * kilobytes)
}
