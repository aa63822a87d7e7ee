//! The binary as its users run it: results, settings, files and threads.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rayon::prelude::*;
use serde_json::Value;

const ALGORITHMS: [&str; 7] = ["batch-ls", "seq-ls", "seq-adj-ls", "shift-ls", "shift-adj-ls", "crm", "scrm"];
const POSTERIORS: [&str; 3] = ["isotropic", "per-feature", "shaped"];

/// Runs the binary in a folder; arguments are separated by spaces.
fn run_in(folder: &Path, arguments: &str) -> Output {
    let binary = env!("CARGO_BIN_EXE_surefoot");
    Command::new(binary).current_dir(folder).args(arguments.split_whitespace()).output().unwrap()
}

/// What the binary writes to standard output when all goes well.
fn run(arguments: &str) -> String {
    output(&run_in(Path::new(env!("CARGO_TARGET_TMPDIR")), arguments))
}

fn output(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The text without the lines that tell how long it took: the rest depends on the settings alone.
fn timeless(text: &str) -> String {
    let (times, rest): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.contains("\"seconds\""));
    assert!(!times.is_empty(), "{text}");
    rest.join("\n")
}

/// A folder of its own for a test, empty.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn number(value: &Value) -> f64 {
    value.as_f64().filter(|v| v.is_finite()).unwrap_or_else(|| panic!("no finite number: {value}"))
}

/// Fails unless the numbers of a result make sense.
fn check(result: &Value, rounds: usize, interactions: u64) {
    assert!((-1.0..0.0).contains(&number(&result["initial"]["optimal_risk"])), "{result}");
    let list = result["rounds"].as_array().unwrap();
    assert_eq!(list.len(), rounds, "{result}");
    for (i, round) in list.iter().enumerate() {
        assert_eq!(round["round"], i + 1);
        assert!((-1.0..=0.0).contains(&number(&round["true_risk"])), "{round}");
        assert!((0.0..=1.0).contains(&number(&round["accuracy"])), "{round}");
        assert!((-1.0..=0.0).contains(&number(&round["mean_cost"])), "{round}");
        assert!(number(&round["kl"]) >= 0.0, "{round}");
        assert!(number(&round["lambda"]) > 0.0, "{round}");
        number(&round["objective"]);
        assert!(number(&round["seconds"]) >= 0.0, "{round}");
    }
    assert_eq!(list.iter().map(|round| round["n"].as_u64().unwrap()).sum::<u64>(), interactions);
}

#[test]
fn every_algorithm_learns_every_posterior_in_every_world() {
    let mut settings = Vec::new();
    for algorithm in ALGORITHMS {
        for posterior in POSTERIORS {
            for world in ["digits", "synthetic", "drift"] {
                settings.push(format!("--algorithm {algorithm} --posterior {posterior} --dataset {world}"));
            }
        }
    }
    settings.par_iter().for_each(|settings| {
        let small = "--interactions 150 --rounds 3 --epochs 2 --threads 1 --json";
        let result = json(&run(&format!("simulate {settings} {small}")));
        check(&result, 3, 150);
        let kl: Vec<f64> = result["rounds"].as_array().unwrap().iter().map(|round| number(&round["kl"])).collect();
        assert!(kl.iter().all(|&kl| kl > 0.0), "{settings} learns nothing: {kl:?}");
    });
}

#[test]
fn the_number_of_threads_changes_no_byte() {
    for settings in [
        "--posterior isotropic --batch-size 512 --epochs 3",
        "--posterior shaped --batch-size 512 --epochs 3",
        "--posterior isotropic --optimiser lbfgs --iterations 15",
        "--posterior shaped --optimiser lbfgs --iterations 15",
        "--posterior shaped --features rff:60 --batch-size 512 --epochs 3",
        "--posterior shaped --features kernel:60 --batch-size 512 --epochs 3",
        "--algorithm scrm --crm-weights self-normalised --batch-size 512 --epochs 3",
        "--dataset drift --algorithm shift-adj-ls --exploration 0.1 --batch-size 512 --epochs 3",
    ] {
        let with =
            |threads| run(&format!("simulate {settings} --interactions 1200 --rounds 2 --json --threads {threads}"));
        assert_eq!(timeless(&with(1)), timeless(&with(2)), "{settings}");
    }
}

#[test]
fn features_of_a_run_that_is_saved_are_those_of_one_that_is_not() {
    let folder = folder("features");
    for (i, features) in ["rff:50", "kernel:50 --intercept"].iter().enumerate() {
        let settings = format!("--features {features} --interactions 300 --rounds 2 --epochs 2 --json");
        let risks = |run: &str| -> Vec<f64> {
            let rounds = json(run)["rounds"].as_array().unwrap().clone();
            rounds.iter().map(|round| number(&round["true_risk"])).collect()
        };
        let saved = risks(&output(&run_in(&folder, &format!("simulate {settings} --save run-{i}"))));
        let free = risks(&run(&format!("simulate {settings}")));
        assert!(saved.len() == 2 && saved.iter().zip(&free).all(|(a, b)| (a - b).abs() < 1e-6), "{saved:?} {free:?}");
    }
}

#[test]
fn another_seed_gives_another_result() {
    let with = |seed| json(&run(&format!("simulate --interactions 60 --rounds 1 --epochs 1 --json --seed {seed}")));
    assert_ne!(with(1)["rounds"][0]["true_risk"], with(2)["rounds"][0]["true_risk"]);
}

#[test]
fn flags_win_over_the_file_and_the_file_over_the_defaults() {
    let folder = folder("precedence");
    let file = "rounds = 3\nlambda = 0.7\nepochs = 2\nalgorithm = \"seq-ls\"\ninteractions = 60\n";
    fs::write(folder.join("settings.toml"), file).unwrap();
    let result = json(&output(&run_in(&folder, "simulate --config settings.toml --rounds 2 --lambda 0.3 --json")));
    let config = &result["config"];
    assert_eq!((config["rounds"].as_u64(), config["lambda"].as_f64()), (Some(2), Some(0.3)), "flags");
    assert_eq!((config["epochs"].as_u64(), config["algorithm"].as_str()), (Some(2), Some("seq-ls")), "the file");
    assert_eq!((config["noise"].as_f64(), config["posterior"].as_str()), (Some(0.2), Some("isotropic")), "defaults");
    // What the result claims is also what was done.
    check(&result, 2, 60);
    assert_eq!(result["rounds"][0]["lambda"], 0.3);
    let flags = "--rounds 2 --lambda 0.3 --epochs 2 --algorithm seq-ls --interactions 60";
    assert_eq!(result["rounds"][1]["kl"], json(&run(&format!("simulate {flags} --json")))["rounds"][1]["kl"]);
}

#[test]
fn the_configuration_of_a_result_gives_that_result_again() {
    let folder = folder("again");
    for settings in [
        "--seed 5 --noise 0.1 --alpha 0.5 --posterior shaped --exploration 0.02 --lambda 1/sqrt(m) --start anchor",
        "--features kernel:30 --exploration 0.1",
        "--features rff:30:1.5 --intercept --optimiser lbfgs --iterations 5 --schedule 20,30,50",
        "--algorithm scrm --crm-weights self-normalised --crm-penalty 0.5 --crm-divergence --crm-fixed-scale --crm-window all",
        "--dataset drift --actions 3 --dimensions 4 --margin 0.5 --ambiguous 0.2 --algorithm shift-ls --batch-size 20 \
         --learning-rate 0.02 --decay cosine",
    ] {
        let first = run(&format!("simulate {settings} --interactions 100 --rounds 3 --epochs 2 --json"));
        let config = json(&first)["config"].as_object().unwrap().clone();
        // Texts, numbers and truth values are written in TOML as in JSON.
        let file: String = config.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        fs::write(folder.join("again.toml"), &file).unwrap();
        let second = output(&run_in(&folder, "simulate --config again.toml --json"));
        assert_eq!(timeless(&first), timeless(&second), "{file}");
    }
}

#[test]
fn digits_from_a_file_give_the_same_rounds_as_those_that_ship() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../surefoot-data/data/digits/digits.npz");
    let folder = folder("npz");
    fs::copy(file, folder.join("copy.npz")).unwrap();
    let settings = "--interactions 200 --rounds 2 --epochs 2 --json";
    let shipped = run(&format!("simulate --dataset digits {settings}"));
    let copied = output(&run_in(&folder, &format!("simulate --dataset copy.npz {settings}")));
    assert_eq!(json(&copied)["config"]["dataset"], "copy.npz");
    let name = |text: &str, from: &str| text.replace(&format!("\"dataset\": \"{from}\""), "\"dataset\": \"\"");
    assert_eq!(name(&timeless(&shipped), "digits"), name(&timeless(&copied), "copy.npz"));
}

/// Fails unless both files of a figure are what their names say.
fn check_figure(folder: &Path, stem: &str) {
    let svg = fs::read_to_string(folder.join(format!("{stem}.svg"))).unwrap();
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
    let png = fs::read(folder.join(format!("{stem}.png"))).unwrap();
    assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n");
    assert_eq!(fs::read_dir(folder).unwrap().count(), 2, "no other file stays");
}

#[test]
fn a_plot_is_written_as_svg_and_png_and_named_on_standard_error() {
    let folder = folder("plot");
    let run =
        run_in(&folder, "simulate --algorithm seq-ls --interactions 40 --rounds 2 --epochs 1 --plot risk.v1 --json");
    check(&json(&output(&run)), 2, 40);
    check_figure(&folder, "risk.v1");
    assert_eq!(String::from_utf8(run.stderr).unwrap(), "wrote risk.v1.svg and risk.v1.png\n");
}

#[test]
fn the_table_has_a_row_for_the_start_and_one_for_each_round() {
    let flags = "simulate --algorithm seq-ls --interactions 90 --rounds 3 --epochs 1";
    let (table, result) = (run(flags), json(&run(&format!("{flags} --json"))));
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    let risk = |value: &Value| format!("{:.4}", number(value));
    assert_eq!(rows[1][..2], ["0", &risk(&result["initial"]["true_risk"])]);
    for (i, round) in result["rounds"].as_array().unwrap().iter().enumerate() {
        assert_eq!(rows[i + 2][..3], [&(i + 1).to_string(), "30", &risk(&round["true_risk"])], "{table}");
    }
    assert_eq!(rows[5..], [vec![], vec!["best", "possible", "risk", "-0.8000"]], "{table}");
}

#[test]
fn errors_go_to_standard_error_and_leave_standard_output_empty() {
    for (arguments, code) in [("simulate --json --noise 0.7", 1), ("simulate --json --noise much", 2)] {
        let run = run_in(Path::new(env!("CARGO_TARGET_TMPDIR")), arguments);
        assert_eq!((run.status.code(), &run.stdout[..]), (Some(code), &b""[..]));
        assert!(run.stderr.starts_with(b"error: "));
    }
}

#[test]
fn the_demonstration_compares_its_methods_and_draws_them() {
    let folder = folder("demo");
    let results = json(&output(&run_in(&folder, "demo --seeds 1 --rounds 2 --output methods --json")));
    let results = results["methods"].as_array().unwrap();
    let names: Vec<&str> = results.iter().map(|result| result["method"].as_str().unwrap()).collect();
    assert_eq!(names, ["batch LS (never redeploys)", "SeqLS", "SeqAdjLS", "SCRM", "Surefoot"]);
    for result in results {
        assert_eq!(result["config"]["rounds"], 2);
        let [run] = &result["runs"].as_array().unwrap()[..] else { panic!("one seed: {result}") };
        assert_eq!(run["seed"], 1);
        assert_eq!(run["initial"], results[0]["runs"][0]["initial"], "all from the same first policy");
        let risks: Vec<f64> = run["true_risk"].as_array().unwrap().iter().map(number).collect();
        assert!(risks.len() == 2 && risks.iter().all(|risk| (-0.8..=-0.2).contains(risk)), "{result}");
        assert!((0.0..=1.0).contains(&number(&run["mean_reward"])), "{result}");
    }
    check_figure(&folder, "methods");
    // Of one seed there is no deviation.
    let table = output(&run_in(&folder, "demo --seeds 1 --rounds 1 --output one.png"));
    assert!(table.contains("bandit feedback: 1 round, 1 seed, ") && !table.contains('±'), "{table}");
    assert!(table.contains("Figure: one.svg and one.png\n"), "{table}");
    assert!(!fs::read_to_string(folder.join("one.svg")).unwrap().contains("deviation"));
}

#[test]
fn certificates_are_told_with_each_round_and_are_above_the_truth() {
    let settings = "simulate --algorithm seq-adj-ls --posterior shaped --rounds 4 --certify --json -q";
    let result = json(&run(settings));
    assert_eq!((&result["config"]["lambda"], &result["config"]["choice"]), (&"auto".into(), &"previous".into()));
    // The first round takes the largest lambda.
    let mut chosen = Value::from(0.9);
    for round in result["rounds"].as_array().unwrap() {
        for kind in ["certificate", "ladder"] {
            let certificate = &round[kind];
            assert!(number(&certificate["upper"]) > number(&round["true_risk"]), "{certificate}");
            assert_eq!((&certificate["delta"], &certificate["vacuous"]), (&0.05.into(), &false.into()));
            assert!(certificate["theorem"].is_string() && number(&certificate["lambda"]) > 0.0);
        }
        assert_eq!(round["certificate"]["theorem"], "3.2");
        // What is certified chooses for the next round, and the records of all rounds certify most.
        let candidates = round["candidates"].as_array().unwrap();
        let best = candidates.iter().min_by(|a, b| number(&a["upper"]).total_cmp(&number(&b["upper"]))).unwrap();
        assert_eq!((candidates.len(), &round["lambda"]), (4, &chosen));
        chosen = best["lambda"].clone();
        let ladder = &round["ladder"];
        assert_eq!((&ladder["theorem"], &ladder["combine"]), (&"chain".into(), &"mixture".into()));
        assert_eq!(ladder["links"].as_array().map(Vec::len), round["round"].as_u64().map(|k| k as usize));
        assert!(ladder["links"].as_array().unwrap().iter().all(|link| link["size"] == 1), "{ladder}");
    }
    // Records that choose for their own round are paid for, and so is each link of the chain.
    let newest = json(&run(&format!("{settings} --choice newest")));
    for round in newest["rounds"].as_array().unwrap() {
        let candidates = round["candidates"].as_array().unwrap();
        let best = candidates.iter().min_by(|a, b| number(&a["upper"]).total_cmp(&number(&b["upper"]))).unwrap();
        assert_eq!((candidates.len(), &best["lambda"]), (4, &round["lambda"]));
        let links = round["ladder"]["links"].as_array();
        assert!(links.is_none_or(|links| links.iter().all(|link| link["size"] == 4)), "{round}");
    }
    let without = json(&run("simulate --rounds 1 --json -q"));
    assert!(without["rounds"][0].get("certificate").is_none() && without["rounds"][0].get("gate").is_none());
    assert_eq!(timeless(&run(&format!("{settings} --threads 1"))), timeless(&run(&format!("{settings} --threads 2"))));
}

#[test]
fn a_gate_keeps_what_is_running_until_a_candidate_is_certified_to_be_better() {
    let result = json(&run("simulate --alpha 0 --gate improvement --json -q"));
    let mut running = number(&result["initial"]["true_risk"]);
    let (mut promoted, mut kept) = (0, 0);
    for round in result["rounds"].as_array().unwrap() {
        let (gate, risk) = (&round["gate"], number(&round["true_risk"]));
        if gate["promoted"] == true {
            promoted += 1;
            assert!(number(&gate["certificate"]["upper"]) < 0.0 && risk < running, "{round}");
        } else {
            kept += 1;
            assert!(number(&gate["certificate"]["upper"]) >= 0.0 && risk == running, "{round}");
        }
        running = risk;
    }
    assert!(promoted > 1 && kept > 1, "{promoted} {kept}");
    let output = run_in(Path::new(env!("CARGO_TARGET_TMPDIR")), "simulate --gate maybe");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("gate should be always, improvement, non-inferiority:MARGIN")
    );
}
