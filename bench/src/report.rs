//! The common parts of reports: tables, the machine, the versions.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use clap::Args;
use serde_json::{Map, Value};

use crate::work::Result;

/// Writes a line to standard output.
pub(crate) fn say(text: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{text}")?)
}

/// A Markdown table.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let row = |cells: &[&str]| format!("| {} |\n", cells.join(" | "));
    let body = rows.iter().map(|cells| row(&cells.each_ref().map(String::as_str)));
    row(&header) + &row(&["---"; N]) + &body.collect::<String>()
}

/// A number with the digits that are meaningful for a ratio or a time.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        0.01.. => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}

/// Writes a report to `folder/name.md`, with the machine and the versions, and prints it.
pub(crate) fn publish(folder: &Path, name: &str, title: &str, body: &str) -> Result<()> {
    let facts: String = machine().iter().map(|(what, value)| format!("- {what}: {value}\n")).collect();
    fs::create_dir_all(folder)?;
    fs::write(folder.join(format!("{name}.md")), format!("# {title}\n\n{body}\n{facts}"))?;
    say(body)
}

/// Print the machine, the versions and the date, as JSON
#[derive(Debug, Args)]
pub(crate) struct Machine;

impl Machine {
    pub(crate) fn run(&self) -> Result<()> {
        let facts: Map<String, Value> =
            machine().into_iter().map(|(what, value)| (what.into(), value.into())).collect();
        say(&Value::from(facts).to_string())
    }
}

fn machine() -> [(&'static str, String); 6] {
    let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let entry = |key: &str| about.lines().find_map(|line| line.strip_prefix(key)?.split_once(": ")).map(|(_, v)| v);
    let flags = entry("flags").unwrap_or_default();
    let widest = ["avx512f", "avx2"].into_iter().find(|flag| flags.split(' ').any(|found| found == *flag));
    let commit = match output("git", &["status", "--porcelain", "--untracked-files=no"]).as_str() {
        "" => output("git", &["rev-parse", "--short", "HEAD"]),
        _ => output("git", &["rev-parse", "--short", "HEAD"]) + " with changes",
    };
    [
        ("processor", entry("model name").unwrap_or(std::env::consts::ARCH).to_owned()),
        ("cores", std::thread::available_parallelism().map_or("unknown".into(), |n| n.to_string())),
        ("instructions", widest.unwrap_or(std::env::consts::ARCH).to_owned()),
        ("rustc", output("rustc", &["--version"]).trim_start_matches("rustc ").to_owned()),
        ("surefoot", format!("{} at {commit}", env!("CARGO_PKG_VERSION"))),
        ("date", output("date", &["-u", "+%F"])),
    ]
}

/// The output of a program; empty if it cannot be run.
fn output(program: &str, arguments: &[&str]) -> String {
    let found = Command::new(program).args(arguments).output();
    found.map(|found| String::from_utf8_lossy(&found.stdout).trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_markdown() {
        let text = table(["what", "x"], &[["a".into(), number(1234.5)], ["b".into(), number(0.05)]]);
        assert_eq!(text, "| what | x |\n| --- | --- |\n| a | 1234 |\n| b | 0.050 |\n");
    }
}
