//! The paper's experiments, small, and what is kept of the large ones.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const RESULTS: [&str; 9] =
    ["table1", "table2", "figure1", "figure2", "figure3", "figure4", "scrm", "certified", "best"];

fn paper(arguments: &str, output: &Path) -> Output {
    let run = Command::new(env!("CARGO_BIN_EXE_surefoot"))
        .arg("paper")
        .args(arguments.split_whitespace())
        .arg("--output")
        .arg(output)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    run
}

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("surefoot-paper-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The lines of a CSV file by the names of its columns.
fn rows(path: &Path) -> Vec<HashMap<String, String>> {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let header = lines.next().unwrap();
    lines.map(|line| header.iter().cloned().zip(line).collect()).collect()
}

fn number(row: &HashMap<String, String>, column: &str) -> Option<f64> {
    row[column].parse().ok()
}

/// All CSV files without the seconds, which differ from run to run.
fn tables(folder: &Path) -> Vec<Vec<HashMap<String, String>>> {
    let without_seconds = |mut row: HashMap<String, String>| {
        row.remove("seconds").unwrap();
        row
    };
    RESULTS.iter().map(|r| rows(&folder.join(format!("{r}.csv"))).into_iter().map(without_seconds).collect()).collect()
}

#[test]
fn everything_runs_at_small_size_goes_on_where_it_was_cut_and_depends_on_the_seed_alone() {
    let (one, two) = (Folder::new("one"), Folder::new("two"));
    let first = paper("all --quick --quiet --threads 1", &one.0);
    let text = String::from_utf8(first.stdout).unwrap();
    for part in ["Table 1", "Table 2", "Figure 1", "Figure 4", "SCRM", "What is proven", "Surefoot", "digits that ship"]
    {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    for result in RESULTS {
        let ends = if result == "scrm" { &["csv", "md"][..] } else { &["csv", "md", "svg", "png"] };
        assert!(ends.iter().all(|end| one.0.join(format!("{result}.{end}")).is_file()), "{result}");
    }
    // What is done is not done again.
    let cells = fs::read_to_string(one.0.join("cells.jsonl")).unwrap();
    paper("all --quick --quiet", &one.0);
    assert_eq!(fs::read_to_string(one.0.join("cells.jsonl")).unwrap(), cells);
    // Another run, cut in the middle of a line, goes on and comes to the same on two threads.
    fs::create_dir_all(&two.0).unwrap();
    fs::write(two.0.join("cells.jsonl"), &cells[..cells.len() / 2]).unwrap();
    let json = paper("all --quick --quiet --threads 2 --json", &two.0);
    assert_eq!(tables(&one.0), tables(&two.0));
    let lines = |folder: &Folder| fs::read_to_string(folder.0.join("cells.jsonl")).unwrap().lines().count();
    assert_eq!(lines(&one), lines(&two));
    let answers: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(answers["results"].as_array().unwrap().len(), RESULTS.len());
    assert_eq!(answers["results"][0]["rows"][0]["method"], "seq-ls");
    // All settings and seeds are in the output.
    let cell: Value = serde_json::from_str(cells.lines().next().unwrap()).unwrap();
    assert!(cell["config"]["seed"].is_u64() && !cell["config"]["lambda"].is_null() && !cell["data"].is_null());
    // A fresh run runs what it needs again, and loses nothing.
    paper("table2 --quick --quiet --seeds 1 --fresh", &one.0);
    assert_eq!(lines(&one), lines(&two) + 3 * 4 * 3);
    assert!(rows(&one.0.join("table2.csv")).iter().all(|row| row["seeds"] == "1"));
}

/// The large runs that are kept in the repository.
fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../paper")
}

#[test]
fn the_documented_setting_comes_within_two_hundredths_of_the_paper_on_mnist() {
    let rows = rows(&kept().join("results/table1.csv"));
    let mut seen = 0;
    for row in
        rows.iter().filter(|row| row["set"] == "mnist" && ["seq-ls", "seq-adj-ls"].contains(&row["method"].as_str()))
    {
        let (risk, paper) = (number(row, "risk").unwrap(), number(row, "paper").unwrap());
        assert!((risk - paper).abs() <= 0.02, "k {}, {}: {risk}, paper {paper}", row["rounds"], row["method"]);
        seen += 1;
    }
    assert_eq!(seen, 8);
}

#[test]
fn in_the_runs_that_are_kept_no_mean_of_certificates_is_below_the_mean_of_what_they_bound() {
    for result in RESULTS {
        let rows = rows(&kept().join(format!("results/{result}.csv")));
        assert!(!rows.is_empty());
        for row in rows {
            if let Some(certified) = number(&row, "certified_true_risk") {
                assert!(certified > number(&row, "true_risk").unwrap(), "{result}: {row:?}");
            }
        }
    }
}

#[test]
fn the_page_shows_the_tables_and_figures_as_they_were_written() {
    let page = fs::read_to_string(kept().join("README.md")).unwrap();
    for result in RESULTS {
        let table = fs::read_to_string(kept().join(format!("results/{result}.md"))).unwrap();
        for line in table.lines().filter(|line| line.starts_with('|')) {
            assert!(page.contains(line), "{result}: {line}");
        }
        assert!(result == "scrm" || page.contains(&format!("(results/{result}.svg)")), "{result}");
    }
}
