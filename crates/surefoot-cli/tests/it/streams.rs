//! Standard error that is full or closed, pipes as input, odd names, signals, and outputs that cannot be written.

#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const SUREFOOT: &str = env!("CARGO_BIN_EXE_surefoot");

/// A new folder with `logs.csv`.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("streams-{test}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let mut csv = String::from("x,action,pscore,reward,policy_version\n");
    for i in 0..300 {
        writeln!(csv, "{},{},0.5,{},v{}", i % 7, i % 2, i % 3 % 2, i / 150).unwrap();
    }
    fs::write(folder.join("logs.csv"), csv).unwrap();
    folder
}

/// Runs a line of shell in which `surefoot` is the binary.
fn shell(folder: &Path, line: &str) -> Output {
    let line = line.replace("surefoot", SUREFOOT);
    Command::new("bash").current_dir(folder).args(["-c", &line]).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn standard_error_may_be_full_or_closed() {
    let folder = folder("stderr");
    for to in ["/dev/full", "&-"] {
        let failed = shell(&folder, &format!("surefoot lint nothing.csv 2>{to}"));
        assert_eq!(failed.status.code(), Some(1), "{to}");
        let wrong = shell(&folder, &format!("surefoot lint --no-such-option 2>{to}"));
        assert_eq!(wrong.status.code(), Some(2), "{to}");
        let plot = "surefoot simulate --dataset synthetic --rounds 1 --interactions 50 --plot risk";
        let done = shell(&folder, &format!("{plot} 2>{to}"));
        assert_eq!(done.status.code(), Some(0), "{to}: {}", text(&done.stdout));
        assert!(text(&done.stdout).contains("true risk"));
    }
    let full = shell(&folder, "surefoot lint logs.csv >/dev/full");
    assert_eq!(full.status.code(), Some(1));
    assert_eq!(text(&full.stderr), "error: standard output: No space left on device (os error 28)\n");
}

#[test]
fn pipes_are_read_like_files() {
    let folder = folder("pipes");
    let learn = |from: &str, out: &str| {
        let options = format!("--format csv --epochs 1 --out {out}.safetensors");
        let done =
            shell(&folder, &from.replace("LEARN", "TMPDIR=. surefoot learn OPTIONS").replace("OPTIONS", &options));
        assert!(done.status.success(), "{from}: {}", text(&done.stderr));
        fs::read(folder.join(format!("{out}.safetensors"))).unwrap()
    };
    let expected = learn("LEARN logs.csv", "file");
    assert!(learn("cat logs.csv | LEARN /dev/stdin", "stdin") == expected);
    assert!(learn("LEARN <(cat logs.csv)", "substitution") == expected);
    assert!(learn("mkfifo pipe && (cat logs.csv > pipe &) && LEARN pipe", "fifo") == expected);
    assert!(learn("LEARN /dev/stdin < logs.csv", "redirected") == expected);
    let left: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!left.iter().any(|path| path.to_string_lossy().contains(".surefoot-")), "{left:?}");

    let unnamed = shell(&folder, "cat logs.csv | surefoot lint /dev/stdin");
    assert_eq!(unnamed.status.code(), Some(1));
    assert!(text(&unnamed.stderr).contains("/dev/stdin: the format is unknown"), "{}", text(&unnamed.stderr));
}

#[test]
fn every_form_of_input_gives_the_same_policy_in_every_format() {
    let folder = folder("forms");
    let run = |line: &str| {
        let done = shell(&folder, line);
        assert!(done.status.success(), "{line}: {}", text(&done.stderr));
    };
    for (format, end) in
        [("csv", "csv"), ("jsonl", "jsonl"), ("parquet", "parquet"), ("dsjson", "dsjson"), ("vw", "vw"), ("obp", "npz")]
    {
        let ignored = if matches!(format, "vw" | "obp") { "--ignore policy_version" } else { "" };
        run(&format!("mkdir {format} && surefoot convert logs.csv --out {format}/logs.{end} {ignored}"));
        run(&format!(
            "surefoot convert logs.csv --out {format}.{end}.zst {ignored} && gzip -c {format}/logs.{end} > {format}.gz"
        ));
        let learned = |from: &str| {
            run(&from.replace("LEARN", "TMPDIR=. surefoot learn --epochs 1 --out p.safetensors"));
            fs::read(folder.join("p.safetensors")).unwrap()
        };
        let expected = learned(&format!("LEARN {format}/logs.{end}"));
        for from in [
            format!("LEARN {format}"),
            format!("LEARN {format}/"),
            format!("LEARN {format}.{end}.zst"),
            format!("LEARN {format}.gz --format {format}"),
            format!("cat {format}/logs.{end} | LEARN - --format {format}"),
            format!("LEARN - --format {format} < {format}/logs.{end}"),
            format!("cat {format}.gz | LEARN - --format {format}"),
        ] {
            assert!(learned(&from) == expected, "{from}");
        }
    }
    let left: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!left.iter().any(|path| path.to_string_lossy().contains(".surefoot-")), "{left:?}");
    run(
        "surefoot lint csv.csv.zst && surefoot lint csv && cat logs.csv | surefoot evaluate - --format csv --policy logged",
    );
    run("surefoot learn csv --epochs 1 --out p.safetensors");
    run(
        "surefoot convert csv --out both.jsonl.gz && zcat both.jsonl.gz | surefoot score p.safetensors - --format jsonl",
    );
}

#[test]
fn escape_codes_in_names_of_columns_are_shown_and_not_sent_to_the_terminal() {
    let folder = folder("escapes");
    fs::write(folder.join("bad.csv"), "\u{1b}[31mred,\u{202e}x,action\n1,2,0\n").unwrap();
    let failed = shell(&folder, "surefoot learn bad.csv");
    assert_eq!(failed.status.code(), Some(1));
    let said = text(&failed.stderr);
    assert!(said.contains("\\u{1b}[31mred, \\u{202e}x"), "{said}");
    assert!(!said.contains(['\u{1b}', '\u{202e}']));
    let moved = fs::read_to_string(folder.join("logs.csv")).unwrap().replace("x,action", "\u{1b}[31mred,action");
    fs::write(folder.join("renamed.csv"), moved).unwrap();
    let named = shell(&folder, "surefoot learn renamed.csv --categorical $'\\e[31mred' --epochs 1");
    assert!(named.status.success(), "{}", text(&named.stderr));
    let said = text(&named.stdout);
    assert!(said.contains("7 values of \\u{1b}[31mred"), "{said}");
    assert!(!said.contains('\u{1b}'));
}

#[test]
fn names_of_files_need_not_be_utf_8() {
    let folder = folder("names");
    let odd = |name: &str| folder.join(OsStr::from_bytes(&[b"odd-\xff-", name.as_bytes()].concat()));
    fs::copy(folder.join("logs.csv"), odd("logs.csv")).unwrap();
    let run = |arguments: &[&OsStr]| {
        let done = Command::new(SUREFOOT).current_dir(&folder).args(arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", text(&done.stderr));
        serde_json::from_slice::<serde_json::Value>(&done.stdout).unwrap()
    };
    let (logs, policy, converted) = (odd("logs.csv"), odd("p.safetensors"), odd("c.jsonl"));
    let flag = OsStr::new;
    let learned = run(&[
        flag("learn"),
        logs.as_os_str(),
        flag("--out"),
        policy.as_os_str(),
        flag("--epochs"),
        flag("1"),
        flag("--json"),
    ]);
    assert!(learned["policy"].as_str().unwrap().ends_with("odd-\u{fffd}-p.safetensors"));
    assert!(policy.exists() && odd("p.certificates.json").exists());
    let written = run(&[flag("convert"), logs.as_os_str(), flag("--out"), converted.as_os_str(), flag("--json")]);
    assert!(written["file"].as_str().unwrap().ends_with("odd-\u{fffd}-c.jsonl"));
    let scored = Command::new(SUREFOOT).arg("score").args([&policy, &converted]).output().unwrap();
    assert!(scored.status.success(), "{}", text(&scored.stderr));
    assert_eq!(text(&scored.stdout).lines().count(), 301);
    let listed = run(&[flag("data"), flag("list"), flag("--data"), odd("none").as_os_str(), flag("--json")]);
    assert!(listed["folder"].as_str().unwrap().ends_with("odd-\u{fffd}-none"));
}

#[test]
fn outputs_are_tested_before_the_work() {
    let folder = folder("outputs");
    fs::create_dir(folder.join("taken")).unwrap();
    fs::create_dir(folder.join("figure.svg")).unwrap();
    // The logs do not exist either, but the output comes first.
    let cases = [
        ("learn nothing.csv --out no/p.safetensors", "no/p.safetensors: cannot be written: there is no folder no"),
        ("learn nothing.csv --out taken", "taken: cannot be written: it should be the name of a file, but is a folder"),
        ("learn nothing.csv --save logs.csv/run", "logs.csv/run: cannot be written: Not a directory (os error 20)"),
        ("score nothing.safetensors nothing.csv --out no/d.csv", "no/d.csv: cannot be written: there is no folder no"),
        ("convert nothing.csv --out no/d.jsonl", "no/d.jsonl: cannot be written: there is no folder no"),
        (
            "simulate --dataset nothing --save logs.csv/run",
            "logs.csv/run: cannot be written: Not a directory (os error 20)",
        ),
        (
            "evaluate nothing.csv --policy uniform --figure figure",
            "figure.svg: cannot be written: it should be the name of a file, but is a folder",
        ),
        (
            "select nothing.csv --policy uniform --mixture no/m.json",
            "no/m.json: cannot be written: there is no folder no",
        ),
    ];
    for (arguments, expected) in cases {
        let failed = shell(&folder, &format!("surefoot {arguments}"));
        assert_eq!(failed.status.code(), Some(1), "{arguments}");
        let said = text(&failed.stderr);
        assert_eq!(said.lines().next().unwrap(), format!("error: {expected}"), "{arguments}");
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 3, "nothing is left behind");
}

#[test]
fn an_interrupt_removes_temporary_files() {
    for signal in ["INT", "TERM", "HUP"] {
        let folder = folder(&format!("interrupt-{signal}"));
        let temporaries = || {
            let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
            names.filter(|name| name.to_string_lossy().starts_with(".surefoot-")).count()
        };
        // A test may run where signals are ignored. Standard input stays open, so the command waits for its end.
        let mut child = Command::new("env")
            .args(["--default-signal=INT,TERM,HUP", SUREFOOT, "convert", "/dev/stdin", "--format", "csv"])
            .args(["--out", "out.jsonl"])
            .current_dir(&folder)
            .env("TMPDIR", ".")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Waiting for a child closes its input, unless it was taken.
        let input = child.stdin.take();
        while temporaries() == 0 {
            assert!(child.try_wait().unwrap().is_none(), "it should wait for its input");
            std::thread::sleep(Duration::from_millis(5));
        }
        let killed = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal}");
        drop(input);
        assert_eq!(temporaries(), 0, "{signal}");
        assert!(!folder.join("out.jsonl").exists());
    }
}

/// Wherever memory ends, the files are those from before or all new. The kernel refuses more address space than a limit,
/// and the process ends at once.
#[test]
fn without_memory_the_old_files_stay_or_the_new_ones_are_whole() {
    let folder = folder("memory");
    let files = || {
        let mut all: Vec<(PathBuf, Vec<u8>)> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("next."))
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect();
        all.sort();
        all
    };
    let learn = |limit: &str, seed: u64| {
        let settings =
            format!("--algorithm seq-adj-ls --posterior isotropic --epochs 1 --seed {seed} --threads 1 --quiet");
        // A backtrace needs memory, and a process that has none waits for it forever.
        let limits = format!("export RUST_BACKTRACE=0; ulimit -v {limit}");
        shell(&folder, &format!("{limits}; surefoot learn logs.csv {settings} --out next.safetensors"))
    };
    assert!(learn("unlimited", 2).status.success());
    let new = files();
    assert!(learn("unlimited", 1).status.success());
    let old = files();
    assert!(old != new && old.len() == 2);
    let (mut failed, mut done) = (0, 0);
    for limit in (0..100).map(|step| 20_000 + 1_500 * step) {
        let run = learn(&limit.to_string(), 2);
        let found = files();
        match run.status.success() {
            true => {
                assert!(found == new, "{limit}: not all is new");
                assert!(learn("unlimited", 1).status.success());
                done += 1;
            }
            false => {
                assert!(found == old, "{limit}: {}", text(&run.stderr));
                failed += 1;
            }
        }
    }
    assert!(failed > 5 && done > 5, "{failed} without memory, {done} with enough");
}
