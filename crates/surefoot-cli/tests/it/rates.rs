//! `surefoot study rates`, made small.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What the binary writes to standard output when all goes well.
fn run(arguments: &str) -> String {
    let binary = env!("CARGO_BIN_EXE_surefoot");
    let folder = env!("CARGO_TARGET_TMPDIR");
    let output = Command::new(binary).current_dir(folder).args(arguments.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const SMALL: &str = "study rates --rounds 6 --size 60 --seeds 2 --quiet";

#[test]
fn the_theory_holds_and_seq_adj_ls_approaches_the_best_policy_for_any_number_of_threads() {
    let [one, two] = [1, 2].map(|threads| run(&format!("{SMALL} --json --threads {threads}")));
    assert_eq!(one, two);
    let result: Value = serde_json::from_str(&one).unwrap();
    // 4 methods, 2 seeds, the first policy and 6 others; the propositions are about the others, of 2 methods each.
    assert_eq!((&result["lemma_of_all"]["held"], &result["lemma_of_all"]["of"]), (&56.into(), &56.into()));
    for proposition in ["proposition_3_3", "proposition_4_2"] {
        assert_eq!((&result[proposition]["held"], &result[proposition]["of"]), (&24.into(), &24.into()));
    }
    let methods = result["methods"].as_array().unwrap();
    assert_eq!(methods.len(), 4);
    let gap = |method: &Value, k: usize| method["suboptimality"][k].as_f64().unwrap();
    let adjusted = methods.iter().find(|m| m["name"] == "SeqAdjLS, 1/sqrt(m)").unwrap();
    assert!(gap(adjusted, 6) < 0.6 * gap(adjusted, 0) && gap(adjusted, 6) > 0.0, "{adjusted}");
    assert!(adjusted["slope"].as_f64().unwrap() < -0.1, "{adjusted}");
    // All begin with the same policy, and the floor keeps its promise.
    assert!(methods.iter().all(|m| gap(m, 0) == gap(adjusted, 0)));
    for run in methods.iter().flat_map(|m| m["runs"].as_array().unwrap()) {
        let floor = run["facts"]["coverage"].as_f64().unwrap();
        assert!(run["points"].as_array().unwrap().iter().all(|p| p["coverage"].as_f64().unwrap() >= floor - 1e-9));
    }
}

#[test]
fn the_table_has_the_powers_of_two_and_the_last_round_and_the_figure_both_formats() {
    let text = run("study rates --rounds 3 --size 20 --seeds 1 --quiet --output rates-small");
    let first = |line: &str| line.split_whitespace().next().and_then(|k| k.parse::<usize>().ok());
    assert_eq!(text.lines().filter_map(first).take(3).collect::<Vec<_>>(), [1, 2, 3], "{text}");
    assert!(text.contains("Lemma 4.3 held") && text.contains("Figure: rates-small.svg and rates-small.png"), "{text}");
    for end in ["svg", "png"] {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("rates-small.{end}"));
        assert!(fs::metadata(&path).unwrap().len() > 1000);
        fs::remove_file(path).unwrap();
    }
}
