//! `surefoot data`: small files in a folder of their own, and what is said of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Runs the binary in a folder; arguments are separated by spaces.
fn run_in(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    command.current_dir(folder).args(arguments.split_whitespace()).env_remove("SUREFOOT_DATA").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What a run that succeeds writes.
fn output(run: &Output) -> String {
    assert!(run.status.success(), "{}{}", text(&run.stdout), text(&run.stderr));
    text(&run.stdout)
}

/// What a run that fails complains of.
fn failure(run: &Output) -> String {
    assert_eq!(run.status.code(), Some(1), "{}{}", text(&run.stdout), text(&run.stderr));
    text(&run.stderr)
}

/// A new folder for a test.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("data-{test}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// An idx file of unsigned bytes.
fn idx(shape: &[u32], items: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, 8, u8::try_from(shape.len()).unwrap()];
    file.extend(shape.iter().flat_map(|size| size.to_be_bytes()));
    file.extend(items);
    file
}

/// Files with EMNIST's names and the right sizes, of which no hash is known; every image has one bright pixel.
fn emnist(data: &Path) {
    let folder = data.join("emnist");
    fs::create_dir_all(&folder).unwrap();
    for (split, rows) in [("train", 112_800_u32), ("test", 18_800)] {
        let mut pixels = vec![0; rows as usize * 784];
        pixels.chunks_exact_mut(784).enumerate().for_each(|(i, image)| image[i % 47] = 255);
        let labels: Vec<u8> = (0..rows).map(|i| (i % 47) as u8).collect();
        let path = |kind: &str| folder.join(format!("emnist-balanced-{split}-{kind}-ubyte"));
        fs::write(path("images-idx3"), idx(&[rows, 28, 28], &pixels)).unwrap();
        fs::write(path("labels-idx1"), idx(&[rows], &labels)).unwrap();
    }
}

/// CIFAR-10's files, of two records each.
fn cifar_10(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let names = (1..=5).map(|i| format!("data_batch_{i}.bin")).chain(["test_batch.bin".into()]);
    for (i, name) in (0..).zip(names) {
        let record = |class: u8| [vec![class], vec![40 * i + class; 3072]].concat();
        fs::write(folder.join(name), [record(1), record(9)].concat()).unwrap();
    }
}

#[test]
fn sets_that_are_there_incomplete_or_missing_are_told_apart() {
    let folder = folder("list");
    let data = folder.join("data");
    fs::create_dir_all(data.join("mnist")).unwrap();
    fs::write(data.join("mnist/train-images-idx3-ubyte.gz"), []).unwrap();
    fs::write(data.join("cifar100-resnet50-128.npz"), []).unwrap();
    let listed: Value = serde_json::from_str(&output(&run_in(&folder, "data list --json"))).unwrap();
    let states: Vec<(&str, &str)> = listed["sets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| (s["key"].as_str().unwrap(), s["state"].as_str().unwrap()))
        .collect();
    assert_eq!(
        states,
        [
            ("mnist", "incomplete"),
            ("fashion-mnist", "missing"),
            ("emnist", "missing"),
            ("emnist-subset", "missing"),
            ("cifar-100", "stand-in"),
            ("cifar-100-resnet50", "there"),
        ]
    );
    let table = output(&run_in(&folder, "data"));
    assert_eq!(table, output(&run_in(&folder, "data list --data data")));
    assert!(
        table.contains("mnist is incomplete, without mnist/train-labels-idx1-ubyte, mnist/t10k-images-idx3-ubyte"),
        "{table}"
    );
    let command = Command::new(env!("CARGO_BIN_EXE_surefoot"))
        .current_dir(&folder)
        .args(["data", "list"])
        .env("SUREFOOT_DATA", "elsewhere")
        .output();
    assert!(output(&command.unwrap()).contains("looked for in elsewhere"));
}

#[test]
fn a_check_names_what_is_wrong_and_minds_the_missing_only_if_named() {
    let folder = folder("check");
    let missing = output(&run_in(&folder, "data check"));
    assert_eq!(missing.matches("missing").count(), 6, "{missing}");
    let run = run_in(&folder, "data check mnist --quiet");
    assert!(text(&run.stdout).contains(" missing") && !text(&run.stdout).contains("WRONG"), "{}", text(&run.stdout));
    let named = failure(&run);
    assert!(named.starts_with("error: mnist: not there: data should have mnist/train-images-idx3-ubyte, "), "{named}");

    fs::create_dir_all(folder.join("data/cifar-100")).unwrap();
    fs::write(folder.join("data/cifar-100/train.bin"), [0; 3074]).unwrap();
    let incomplete = failure(&run_in(&folder, "data check"));
    assert!(incomplete.contains("should have cifar-100/test.bin; to get it: download"), "{incomplete}");
    fs::write(folder.join("data/cifar-100/test.bin"), [0, 100].repeat(1537)).unwrap();
    let run = run_in(&folder, "data check cifar-100 --json");
    let wrong = failure(&run);
    assert!(wrong.starts_with("error: 3 differences:\n"), "{wrong}");
    assert!(wrong.contains("train.bin: should have 153,700,000 bytes, unpacked, but has 3,074"), "{wrong}");
    assert!(wrong.contains("test.bin: record 0: the fine label should be from 0 to 99, but is 100"), "{wrong}");
    let checked: Value = serde_json::from_str(&text(&run.stdout)).unwrap();
    assert_eq!((&checked["right"], &checked["sets"][0]["verdict"]), (&Value::Bool(false), &Value::from("wrong")));
}

#[test]
fn a_set_is_checked_simulated_and_converted_by_its_key() {
    let folder = folder("key");
    let absent = failure(&run_in(&folder, "simulate --dataset emnist"));
    assert!(absent.contains("emnist: not there: data should have emnist/emnist-balanced-train-images"), "{absent}");
    emnist(&folder.join("data"));
    let checked = output(&run_in(&folder, "data check emnist"));
    assert!(
        checked.contains("112,800 / 18,800 x 784, 47 classes  sizes and shape are right, no hash is known"),
        "{checked}"
    );
    let small = "--interactions 100 --rounds 1 --epochs 1 --lambda 0.5 --json --quiet";
    let by_key: Value =
        serde_json::from_str(&output(&run_in(&folder, &format!("simulate --dataset emnist {small}")))).unwrap();
    let by_path: Value =
        serde_json::from_str(&output(&run_in(&folder, &format!("simulate --dataset data/emnist {small}")))).unwrap();
    assert_eq!(by_key["rounds"][0]["true_risk"], by_path["rounds"][0]["true_risk"]);
    let written = output(&run_in(&folder, "data convert emnist emnist.npz"));
    assert_eq!(written, "wrote emnist.npz: 112,800 / 18,800 x 784, 47 classes\n");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn anything_that_is_read_can_be_converted_and_nothing_is_replaced_unasked() {
    let folder = folder("convert");
    cifar_10(&folder.join("pictures"));
    assert_eq!(output(&run_in(&folder, "data convert pictures p.npz")), "wrote p.npz: 10 / 2 x 3,072, 10 classes\n");
    let (from, to) = ["pictures", "p.npz"].map(|name| surefoot_data::load(&folder.join(name)).unwrap()).into();
    let contents = |data: &surefoot::worlds::Dataset| {
        let dense = data.train().contexts().to_dense();
        dense.iter().flat_map(|row| row.values().to_vec()).collect::<Vec<f32>>()
    };
    assert_eq!(contents(&from), contents(&to));
    assert_eq!(from.train().labels(), to.train().labels());

    let there = failure(&run_in(&folder, "data convert digits p.npz"));
    assert_eq!(there, "error: p.npz: already exists\nhint: --force replaces it\n");
    let replaced: Value =
        serde_json::from_str(&output(&run_in(&folder, "data convert digits p.npz --force --json"))).unwrap();
    assert_eq!((&replaced["train"], &replaced["features"]), (&Value::from(3_823), &Value::from(64)));
    let other = failure(&run_in(&folder, "data convert digits p.csv"));
    assert_eq!(other, "error: the file to write should end in .npz, but is p.csv\n");
    assert!(failure(&run_in(&folder, "data convert nowhere q.npz")).contains("hint: a data set is digits, mnist, "));
    let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn the_script_puts_local_files_where_they_are_looked_for() {
    let folder = folder("script");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/get-data");
    let get = |arguments: &str| {
        let python =
            Command::new("python3").arg(&script).args(arguments.split_whitespace()).current_dir(&folder).output();
        python.ok().filter(|run| run.status.code() != Some(127))
    };
    let Some(help) = get("--help") else {
        eprintln!("skipped: there is no python3 to run scripts/get-data with");
        return;
    };
    assert!(output(&help).contains("--from FILE_OR_FOLDER"));
    fs::create_dir_all(folder.join("cifar-100-binary")).unwrap();
    fs::write(folder.join("cifar-100-binary/train.bin"), [0; 3074]).unwrap();
    let lacking = failure(&get("--from cifar-100-binary cifar-100").unwrap());
    assert_eq!(lacking, "error: cifar-100: cifar-100-binary: no test.bin\n");
    assert!(!folder.join("data").exists());
    fs::write(folder.join("cifar-100-binary/test.bin"), [1; 3074]).unwrap();
    output(&get("--from cifar-100-binary cifar-100").unwrap());
    assert_eq!(fs::read(folder.join("data/cifar-100/test.bin")).unwrap(), [1; 3074]);
    fs::write(folder.join("any.npz"), [2; 10]).unwrap();
    let said = output(&get("--from any.npz --to . emnist-subset").unwrap());
    assert_eq!(said, "emnist-subset: emnist47-subset.npz\nnow run: surefoot data check --data .\n");
    assert_eq!(fs::read(folder.join("emnist47-subset.npz")).unwrap(), [2; 10]);
    assert_eq!(fs::read_dir(folder.join("data/cifar-100")).unwrap().count(), 2);
    assert_eq!(get("imagenet").unwrap().status.code(), Some(2));
}
