//! The subcommands.

pub(crate) mod convert;
pub(crate) mod data;
pub(crate) mod demo;
pub(crate) mod evaluate;
pub(crate) mod learn;
pub(crate) mod lint;
pub(crate) mod mcp;
pub(crate) mod score;
pub(crate) mod select;
pub(crate) mod serve;
pub(crate) mod simulate;
pub(crate) mod verify;

use serde::Serialize;
use surefoot::Certificate;
use surefoot_terminal::Failure;

/// A result as it is written with `--json`: with the version of the program.
#[derive(Debug, Serialize)]
struct Versioned<T> {
    version: &'static str,
    #[serde(flatten)]
    result: T,
}

impl<T> Versioned<T> {
    fn new(result: T) -> Self {
        Versioned { version: env!("CARGO_PKG_VERSION"), result }
    }
}

/// The failure if a run cannot be saved in a folder.
fn folder_failure(error: surefoot_data::Error) -> Failure {
    Failure::new(error).hint("a saved run is never overwritten: choose another folder, or remove this one")
}

/// A line with the assumptions of the certificates, which the user has to take on trust. Certificates speak of costs in
/// [-1, 0]; if the range of the rewards is given, the line speaks of them.
fn on_trust<'a>(certificates: impl Iterator<Item = &'a Certificate>, rewards: Option<[f64; 2]>) -> String {
    let mut all: Vec<String> = Vec::new();
    for assumption in certificates.flat_map(|certificate| &certificate.assumptions) {
        let assumption = match rewards {
            None => assumption.clone(),
            Some([lowest, highest]) => assumption
                .replace("costs are in [-1, 0]", &format!("rewards are in [{lowest}, {highest}]"))
                .replace("cost", "reward"),
        };
        if !all.contains(&assumption) {
            all.push(assumption);
        }
    }
    format!("\non trust: {}", all.join("; "))
}

/// A number with its noun, in the plural where needed.
fn count(n: usize, noun: &str) -> String {
    match (n, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (n, Some(stem)) => format!("{n} {stem}ies"),
        (n, None) => format!("{n} {noun}s"),
    }
}
