//! Saved runs, and what `surefoot verify` says of them: in order, and after every kind of change.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use surefoot::{Logs, Policy};
use surefoot_data::{read_policy, read_round, write_policy, write_round};

/// Runs the binary in a folder; arguments are separated by spaces.
fn run_in(folder: &Path, arguments: &str) -> Output {
    let binary = env!("CARGO_BIN_EXE_surefoot");
    Command::new(binary).current_dir(folder).args(arguments.split_whitespace()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn output(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// A folder of its own for a test, with a small run saved in `run`.
fn saved(test: &str, settings: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("verify-{test}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let small = "--interactions 240 --rounds 3 --epochs 2 --quiet --save run";
    let algorithm = if settings.contains("--algorithm") { "" } else { "--algorithm seq-adj-ls" };
    output(&run_in(&folder, &format!("simulate {small} {algorithm} {settings}")));
    folder
}

/// The errors of a verification that must fail.
fn failure(folder: &Path) -> String {
    let run = run_in(folder, "verify run --quiet");
    assert_eq!(run.status.code(), Some(1), "{}", text(&run.stdout));
    text(&run.stderr)
}

#[test]
fn a_saved_run_of_every_kind_is_verified() {
    for (i, settings) in [
        "--posterior shaped --exploration 0.05",
        "--algorithm batch-ls --lambda 0.4 --features rff:20 --intercept",
        "--posterior shaped --features kernel:100",
        "--dataset synthetic --features kernel:50:1.5 --intercept",
        "--algorithm scrm",
        "--algorithm shift-adj-ls --dataset drift",
        "--dataset synthetic --gate improvement",
        "--dataset synthetic --gate certified-risk --posterior per-feature",
        "--dataset synthetic --gate non-inferiority:0.01",
        "--algorithm portfolio --alpha 0 --schedule equal",
        "--algorithm portfolio --dataset synthetic --members trees,kernel --gate improvement",
        "--algorithm thompson --features kernel:30",
    ]
    .iter()
    .enumerate()
    {
        let folder = saved(&format!("kind-{i}"), settings);
        let table = output(&run_in(&folder, "verify run"));
        assert!(table.contains("240 logged propensities are reproduced from 3 rounds of logs"), "{settings}: {table}");
        assert!(!table.contains("DIFFERS"), "{settings}: {table}");
        let result: Value = serde_json::from_str(&output(&run_in(&folder, "verify run --json"))).unwrap();
        assert_eq!((&result["verified"], &result["propensities"]), (&true.into(), &240.into()));
        let certificates = result["certificates"].as_array().unwrap();
        assert!(certificates.len() >= 3, "{settings}: {result}");
        let on_trust = certificates.iter().any(|c| c["on_trust"] == true);
        assert!(on_trust || !table.contains("verified, on trust"), "{table}");
        assert!(table.contains("\non trust:\n  rounds end by a rule that does not look at their costs"), "{table}");
        assert_eq!(table.matches("  verified").count(), certificates.len(), "{table}");
        assert!(table.contains("\ndelta 0.05: the statements of each kind hold together with probability 95 %\n"));
        // The head is the hash of the last line, as any tool computes it.
        let ledger = fs::read_to_string(folder.join("run/ledger.jsonl")).unwrap();
        let head = surefoot::Fingerprint::of_bytes(ledger.lines().last().unwrap().as_bytes());
        assert!(table.contains(&format!("\nhead of the ledger: {head}\n")), "{table}");
        output(&run_in(&folder, &format!("verify run --head {head}")));
        if settings.contains("--gate") {
            assert!(certificates.iter().any(|c| c["kind"] == "gate"), "{settings}: {result}");
        }
    }
}

#[test]
fn a_policy_that_was_not_deployed_before_the_records_is_fixed_on_trust_only() {
    let on_trust = |settings: &str| {
        let folder = saved("trust", settings);
        let result: Value = serde_json::from_str(&output(&run_in(&folder, "verify run --json"))).unwrap();
        let all = result["certificates"].as_array().unwrap().clone();
        all.iter().filter(|c| c["on_trust"] == true).map(|c| c["theorem"].clone()).collect::<Vec<Value>>()
    };
    // Nothing is held back, so that no policy is called fixed.
    assert_eq!(on_trust("--lambda 0.4"), Vec::<Value>::new());
    let held_back = on_trust("--lambda auto");
    assert!(!held_back.is_empty() && held_back.iter().all(|theorem| theorem == "chain"), "{held_back:?}");
}

#[test]
fn the_same_run_is_saved_with_the_same_bytes() {
    let settings = "--posterior shaped --features kernel:30";
    let [a, b] = ["bytes-a", "bytes-b"].map(|test| saved(test, settings));
    let files = |folder: &Path| {
        let list = |part: &str| fs::read_dir(folder.join("run").join(part)).unwrap().map(|e| e.unwrap().path());
        let mut all: Vec<(PathBuf, Vec<u8>)> = ["rounds", "policies", ""]
            .into_iter()
            .flat_map(list)
            .filter(|path| path.is_file())
            .map(|path| (path.strip_prefix(folder).unwrap().to_owned(), fs::read(&path).unwrap()))
            .collect();
        all.sort();
        all
    };
    let (a, b) = (files(&a), files(&b));
    // Four policies, their features, their basis, three rounds, the session, the ledger, the certificates.
    assert_eq!(a.len(), 12);
    assert!(a == b);
}

#[test]
fn parts_that_lie_elsewhere_are_verified_together() {
    let folder = saved("parts", "");
    fs::rename(folder.join("run/certificates.json"), folder.join("c.json")).unwrap();
    let logs = "--logs run/rounds/000.safetensors run/rounds/001.safetensors run/rounds/002.safetensors";
    let policies = "--policies run/policies/003.safetensors run/policies/001.safetensors run/policies/000.safetensors \
                    run/policies/002.safetensors";
    // Without a ledger, the file of the certificates tells the reward range.
    let verified = output(&run_in(&folder, &format!("verify --certificates c.json {logs} {policies}")));
    assert!(verified.contains("at least 0.") && !verified.contains("cost at most"), "{verified}");

    // In another order the rounds are not those of the certificates.
    let logs = "--logs run/rounds/001.safetensors run/rounds/000.safetensors run/rounds/002.safetensors";
    let run = run_in(&folder, &format!("verify --certificates c.json {logs} {policies}"));
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).contains("the logs of round 1: the certificate says "), "{}", text(&run.stderr));
}

#[test]
fn a_folder_that_is_not_empty_is_not_written_to() {
    let folder = saved("twice", "");
    let run = run_in(&folder, "simulate --interactions 240 --rounds 3 --save run");
    assert_eq!(run.status.code(), Some(1));
    assert_eq!(
        text(&run.stderr),
        "error: run: the folder should be new or empty, but is not\n\
         hint: a saved run is never overwritten: choose another folder, or remove this one\n"
    );
    output(&run_in(&folder, "verify run"));
}

#[test]
fn changed_bytes_of_a_round_are_seen_by_its_fingerprint() {
    let folder = saved("bytes", "");
    let path = folder.join("run/rounds/001.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let cost = read_round(&path).unwrap().logs.cost().iter().find(|&&c| c != 0.0).unwrap().to_le_bytes();
    let at = bytes.windows(8).position(|w| w == cost).unwrap();
    bytes[at..at + 8].copy_from_slice(&(-0.5f64).to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let error = failure(&folder);
    let start = "error: run/rounds/001.safetensors: the content should have the fingerprint ";
    assert!(error.starts_with(start), "{error}");
}

/// A round with other costs or propensities, written as if they had been logged.
fn forge(path: &Path, change: impl Fn(&mut Vec<f64>, &mut Vec<f64>)) {
    let round = read_round(path).unwrap();
    let logs = round.logs;
    let (mut propensity, mut cost) = (logs.propensity().to_vec(), logs.cost().to_vec());
    change(&mut propensity, &mut cost);
    let forged = Logs::new(logs.actions(), logs.contexts().clone(), logs.action().to_vec(), propensity, cost).unwrap();
    write_round(path, &forged, round.policy).unwrap();
}

#[test]
fn costs_that_were_forged_with_their_fingerprint_change_every_certificate_on_them() {
    let folder = saved("costs", "");
    forge(&folder.join("run/rounds/001.safetensors"), |_, cost| cost.iter_mut().for_each(|c| *c = -1.0));
    let run = run_in(&folder, "verify run");
    let (table, error) = (text(&run.stdout), text(&run.stderr));
    assert_eq!(run.status.code(), Some(1));
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    // The first round is as it was.
    assert!(rows.iter().any(|row| row.first() == Some(&"1") && row.contains(&"verified")), "{table}");
    assert!(rows.iter().all(|row| row.first() != Some(&"2") || row.contains(&"DIFFERS")), "{table}");
    assert!(error.contains("round 2, certificate: upper: the certificate says -"), "{error}");
    assert!(error.contains("round 2, certificate: the logs of round 2: the certificate says "), "{error}");
    assert!(table.contains("NOT verified: "), "{table}");
}

#[test]
fn propensities_that_the_policy_did_not_have_are_counted() {
    let folder = saved("propensities", "");
    forge(&folder.join("run/rounds/002.safetensors"), |propensity, _| {
        propensity[7] *= 1.0 - 2e-6;
        propensity[9] *= 1.0 - 2e-9;
        propensity[11] *= 0.5;
    });
    let error = failure(&folder);
    let expected = "run/rounds/002.safetensors: 2 of 80 logged propensities differ from those of its logging policy \
                    run/policies/002.safetensors; the first is record 7: logged ";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_policy_that_was_exchanged_is_missed() {
    let folder = saved("exchanged", "");
    let policy = |k: usize| folder.join(format!("run/policies/00{k}.safetensors"));
    let (old, new) = (read_policy(&policy(1)).unwrap(), read_policy(&policy(3)).unwrap());
    write_policy(&policy(1), &new).unwrap();
    let error = failure(&folder);
    let print = old.identity().unwrap();
    let collected = format!("run/rounds/001.safetensors: its logging policy {print} is not among the given policies");
    assert!(error.contains(&collected), "{error}");
    let judged =
        format!("round 1, certificate: cannot be recomputed: a policy should be among those given, but is {print}");
    assert!(error.contains(&judged), "{error}");
}

/// Changes the certificates of a run.
fn edit(folder: &Path, change: impl Fn(&mut Value)) {
    let path = folder.join("run/certificates.json");
    let mut document: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut document["certificates"]);
    fs::write(path, serde_json::to_vec(&document).unwrap()).unwrap();
}

#[test]
fn every_edited_number_of_a_certificate_is_named() {
    let folder = saved("edited", "");
    let original = fs::read(folder.join("run/certificates.json")).unwrap();
    for (field, value) in [
        ("upper", Value::from(-0.9)),
        ("estimate", Value::from(-0.9)),
        ("kl", Value::from(0.001)),
        ("numerical", Value::from(0.5)),
        ("lambda", Value::from(0.5)),
        ("records", Value::from(1_000_000)),
        ("vacuous", Value::from("flipped")),
        ("size", Value::from(2)),
        ("bounds", Value::from("difference")),
        ("assumptions", Value::from(Vec::<String>::new())),
    ] {
        edit(&folder, |all| {
            let place = &mut all[0]["certificate"][field];
            *place = if value == "flipped" { (!place.as_bool().unwrap()).into() } else { value.clone() };
        });
        let error = failure(&folder);
        assert!(error.contains(&format!("round 1, certificate: {field}: the certificate says ")), "{field}: {error}");
        fs::write(folder.join("run/certificates.json"), &original).unwrap();
    }
    // What a certificate was made under is no result, but changes it.
    for (field, value) in [("delta", 0.5.into()), ("form", "plain".into()), ("lambdas", vec![0.1, 0.2].into())] {
        let value: Value = value;
        edit(&folder, |all| all[0]["certificate"][field] = value.clone());
        let error = failure(&folder);
        assert!(error.contains("round 1, certificate: upper: the certificate says "), "{field}: {error}");
        fs::write(folder.join("run/certificates.json"), &original).unwrap();
    }
    edit(&folder, |all| all[0]["round"] = 2.into());
    assert!(failure(&folder).contains("round 2, certificate: round: says 2, but its records end with round 1"));
    fs::write(folder.join("run/certificates.json"), &original).unwrap();
    edit(&folder, |all| all[0]["certificate"]["since"]["round"] = u64::MAX.into());
    assert!(failure(&folder).contains("cannot be recomputed: the logs should have at least 18446744073709551615"));
    fs::write(folder.join("run/certificates.json"), &original).unwrap();
    edit(&folder, |all| all[0]["certificate"]["kl"] = "small".into());
    let error = failure(&folder);
    assert!(error.starts_with("error: run/certificates.json: cannot be understood: invalid type: string"), "{error}");
}

#[test]
fn a_prior_that_came_after_the_records_is_refused_though_all_numbers_agree() {
    let folder = saved("late", "");
    let last = read_policy(&folder.join("run/policies/003.safetensors")).unwrap();
    let rounds: Vec<Logs> =
        (0..3).map(|k| read_round(&folder.join(format!("run/rounds/00{k}.safetensors"))).unwrap().logs).collect();
    let posterior = last.as_gaussian().unwrap();
    let protocol = surefoot::Protocol::default();
    let forged =
        surefoot::Certificate::risk(posterior, posterior, &surefoot::certificate::Case::whole(&rounds, &protocol))
            .unwrap();
    edit(&folder, |all| {
        let place = all.as_array_mut().unwrap().iter_mut().rfind(|c| c["kind"] == "certificate").unwrap();
        place["certificate"] = serde_json::to_value(&forged).unwrap();
    });
    let error = failure(&folder);
    let print = posterior.fingerprint();
    for said in [
        format!("round 3, certificate: the prior {print} was not deployed in round 1 or before"),
        "round 3, certificate: ledger: its certificate of 3 rounds is another one".into(),
        "round 3, certificate: priors: should be [".into(),
    ] {
        assert!(error.contains(&said), "{error}");
    }
    assert!(!error.contains("upper"), "all numbers agree: {error}");
}

#[test]
fn every_missing_file_is_named() {
    let folder = saved("missing", "--posterior shaped");
    let gone = |name: &str| {
        let (from, to) = (folder.join("run").join(name), folder.join("aside"));
        fs::rename(&from, &to).unwrap();
        let error = failure(&folder);
        fs::rename(&to, &from).unwrap();
        error
    };
    let error = gone("certificates.json");
    assert!(error.starts_with("error: run: no certificates.json\nhint: "), "{error}");
    assert_eq!(
        gone("rounds/001.safetensors"),
        "error: run/rounds/001.safetensors: is missing, but run/rounds/002.safetensors exists\n"
    );
    let error = gone("rounds/002.safetensors");
    assert!(error.contains("the logs should have at least 3 rounds, as the certificate, but has 2"), "{error}");
    let error = gone("policies/001.safetensors");
    assert!(error.contains("run/rounds/001.safetensors: its logging policy "), "{error}");
    let basis =
        fs::read_dir(folder.join("run/policies")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let basis = basis.into_iter().find(|name| name.starts_with("basis-")).unwrap();
    let error = gone(&format!("policies/{basis}"));
    assert!(error.starts_with("error: 3 files cannot be used:\n"), "{error}");
    assert!(error.contains(&format!("run/policies/{basis}: cannot be read: ")), "{error}");
    let error = gone("policies");
    assert!(error.starts_with("error: run/policies: cannot be read: "), "{error}");
    output(&run_in(&folder, "verify run"));
}

#[test]
fn a_statement_under_terms_of_its_own_is_named() {
    let folder = saved("family", "");
    let path = folder.join("run/certificates.json");
    let mut file: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    file["certificates"][3]["certificate"]["delta"] = 0.2.into();
    file["certificates"][1]["certificate"]["share"] = serde_json::json!({ "round": null, "part": 1.0 });
    fs::write(&path, file.to_string()).unwrap();
    let error = failure(&folder);
    assert!(
        error.contains("delta, lambdas, form or spending: should be those of the first certificate, but are not"),
        "{error}"
    );
    assert!(error.contains("share: a ladder should have a share of a round"), "{error}");
}

#[test]
fn certificates_have_the_reward_range_of_the_ledger() {
    let folder = saved("range", "--lambda 0.4");
    let path = folder.join("run/certificates.json");
    let mut document: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(document["reward_range"], serde_json::json!([0.0, 1.0]));
    document["reward_range"] = serde_json::json!([0.0, 100.0]);
    fs::write(path, serde_json::to_vec(&document).unwrap()).unwrap();
    let said = failure(&folder);
    assert!(said.contains("the reward range should be 0 to 1, as in the ledger, but is 0 to 100"), "{said}");
}
