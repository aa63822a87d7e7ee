//! Every format with every command at its default settings, on logs of every shape that users bring.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rayon::prelude::*;
use surefoot_data::Format;

use crate::logs::Draws;

/// The shape of a log.
struct Shape {
    name: &'static str,
    records: usize,
    actions: usize,
    columns: usize,
    /// The value of a column, from a draw.
    value: fn(usize, f64) -> f64,
    constant_rewards: bool,
}

const DENSE: Shape = Shape {
    name: "dense",
    records: 120,
    actions: 3,
    columns: 3,
    value: |_, draw| (4.0 * draw - 2.0).round() + 0.25,
    constant_rewards: false,
};

const SHAPES: [Shape; 11] = [
    DENSE,
    Shape { name: "sparse", columns: 12, value: |_, draw| if draw < 0.1 { 1.0 + draw } else { 0.0 }, ..DENSE },
    // Most eigenvalues of its second moments are 0.
    Shape { name: "wide", columns: 64, value: |c, draw| if c % 16 == 0 { draw } else { 0.0 }, ..DENSE },
    Shape { name: "one-column", columns: 1, ..DENSE },
    Shape { name: "zero-column", value: |c, draw| if c == 1 { 0.0 } else { draw }, ..DENSE },
    Shape { name: "constant-column", value: |c, draw| if c == 1 { 2.5 } else { draw }, ..DENSE },
    Shape { name: "constant-rewards", constant_rewards: true, ..DENSE },
    Shape { name: "one-action", actions: 1, ..DENSE },
    Shape { name: "records-1", records: 1, ..DENSE },
    Shape { name: "records-2", records: 2, ..DENSE },
    Shape { name: "records-10", records: 10, ..DENSE },
];

/// Writes the log as CSV, and as JSON lines with all columns in one list, as Open Bandit Pipeline has them.
fn write(folder: &Path, shape: &Shape) {
    let mut draws = Draws(7);
    let names: Vec<String> = (0..shape.columns).map(|c| format!("x{c}")).collect();
    let (mut csv, mut lists) = (format!("event_id,action,pscore,reward,{}\n", names.join(",")), String::new());
    let pscore = 1.0 / shape.actions as f64;
    for i in 0..shape.records {
        let x: Vec<f64> = (0..shape.columns).map(|c| (shape.value)(c, draws.next())).collect();
        let action = (draws.next() * shape.actions as f64) as usize;
        let chance = if (x[0] > 0.5) == (action == 0) { 0.7 } else { 0.3 };
        let reward = u8::from(shape.constant_rewards || draws.next() < chance);
        let values: Vec<String> = x.iter().map(ToString::to_string).collect();
        writeln!(csv, "e{i},{action},{pscore},{reward},{}", values.join(",")).unwrap();
        let fields = format!("\"action\": {action}, \"pscore\": {pscore}, \"reward\": {reward}");
        writeln!(lists, "{{{fields}, \"context\": [{}]}}", values.join(", ")).unwrap();
    }
    fs::write(folder.join("logs.csv"), csv).unwrap();
    fs::write(folder.join("lists.jsonl"), lists).unwrap();
}

/// Runs a command, and returns its error if it fails as it should. A panic, or an error without words, is a fault.
fn run(folder: &Path, arguments: &str) -> Option<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    let run = command.current_dir(folder).args(arguments.split_whitespace()).output().unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    match run.status.code() {
        Some(0) => None,
        Some(1) if said.starts_with("error: ") && !said.contains("panicked") => Some(said),
        code => panic!("{}, {arguments}: {code:?}: {said}", folder.display()),
    }
}

#[test]
fn every_format_works_with_every_command_on_default_settings() {
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("matrix");
    let _ = fs::remove_dir_all(&all);
    SHAPES.par_iter().for_each(|shape| {
        let folder: PathBuf = all.join(shape.name);
        fs::create_dir_all(&folder).unwrap();
        write(&folder, shape);
        for format in Format::ALL.map(Format::extension) {
            let from = if format == Format::Obp.extension() { "lists.jsonl" } else { "logs.csv" };
            if format != Format::Csv.extension() {
                assert_eq!(run(&folder, &format!("convert {from} --out logs.{format}")), None, "{}", shape.name);
            }
            // A choice among one action is none.
            let uniform = match shape.actions {
                1 => String::new(),
                k => format!("--actions {k} --policy uniform"),
            };
            let commands = [
                format!("learn logs.{format} --out {format}.safetensors --quiet"),
                format!("evaluate logs.{format} {uniform} --policy logged --quiet"),
                format!("select logs.{format} {uniform} --policy logged --quiet"),
                format!("lint logs.{format}"),
                format!("score {format}.safetensors logs.{format} --out decisions-{format}.csv"),
                format!("convert logs.{format} --out again-{format}.jsonl"),
            ];
            for command in commands {
                let said = run(&folder, &command);
                let name = command.split(' ').next().unwrap();
                // From one record nothing is left to learn, and a log of one action has no choice in it.
                let allowed = match (shape.name, name) {
                    ("records-1", "learn") => Some("no record is left to learn from"),
                    ("records-1", "score") => Some("cannot be read"),
                    ("one-action", "lint") => Some("the logs have errors"),
                    _ => None,
                };
                match (said, allowed) {
                    (None, None) => {}
                    (Some(said), Some(words)) => assert!(said.contains(words), "{command}: {said}"),
                    (said, allowed) => panic!("{}: {command}: {said:?}, but {allowed:?}", shape.name),
                }
            }
        }
    });
}
