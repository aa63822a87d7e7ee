//! Logs that are larger than the memory.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::logs::Draws;

fn run(folder: &Path, arguments: &str) -> Output {
    let binary = env!("CARGO_BIN_EXE_surefoot");
    Command::new(binary).current_dir(folder).args(arguments.split_whitespace()).output().unwrap()
}

fn passed(run: &Output) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(run.status.success(), "{}{}", text(&run.stdout), text(&run.stderr));
}

fn logs(records: usize) -> String {
    let mut draws = Draws(7);
    let mut text = String::from("action,pscore,reward,x,y,city\n");
    for _ in 0..records {
        let (x, y, action) = (draws.next(), draws.next(), (3.0 * draws.next()) as usize);
        let city = ["a", "b", "c"][(3.0 * draws.next()) as usize];
        let good = action == usize::from(x > 0.5) + usize::from(y > 0.5);
        let reward = u8::from(draws.next() < if good { 0.5 } else { 0.1 });
        writeln!(text, "{action},0.3333333333333333,{reward},{x},{y},{city}").unwrap();
    }
    text
}

const FILES: [&str; 2] = ["policy.safetensors", "policy.certificates.json"];

#[test]
fn a_log_larger_than_the_memory_gives_the_same_files_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("logs.csv"), logs(30_000)).unwrap();
    let read = |name: &str| FILES.map(|file| fs::read(at.join(name).join(file)).unwrap());
    for algorithm in ["thompson", "seq-adj-ls --epochs 2", "seq-adj-ls --lambda 0.5 --optimiser lbfgs"] {
        let learn = |name: &str, flags: &str| {
            let _ = fs::remove_dir_all(at.join(name));
            fs::create_dir(at.join(name)).unwrap();
            passed(&run(
                at,
                &format!("learn logs.csv --actions 3 --algorithm {algorithm} {flags} --out {name}/policy.safetensors"),
            ));
            read(name)
        };
        let whole = learn("whole", "--memory 1TB");
        // 27,000 records of more than 40 bytes are larger than a third of 3 MB.
        assert!(learn("small", "--memory 3MB") == whole, "{algorithm}");
        assert!(learn("cached", "--cache cache") == whole, "{algorithm}");
        assert!(learn("again", "--cache cache --threads 1") == whole, "{algorithm}");
    }
    assert_eq!(fs::read_dir(at.join("cache")).unwrap().count(), 1);
    passed(&run(at, "learn logs.csv --actions 3 --algorithm thompson --cache cache --save run --out p.safetensors"));
    passed(&run(at, "verify run"));
}

#[test]
#[cfg(unix)]
fn an_interrupt_leaves_no_temporary_folder_and_a_cache_that_can_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("logs.csv"), logs(60_000)).unwrap();
    let command = "learn logs.csv --actions 3 --algorithm thompson --cache cache --out p.safetensors";
    let mut child = Command::new(env!("CARGO_BIN_EXE_surefoot"))
        .current_dir(at)
        .args(command.split_whitespace())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // Until something is written, or it has ended.
    while fs::read_dir(at.join("cache")).map_or(0, Iterator::count) == 0 && child.try_wait().unwrap().is_none() {
        sleep(Duration::from_millis(1));
    }
    let id = child.id().to_string();
    let _ = Command::new("kill").args(["-INT", &id]).status().unwrap();
    child.wait().unwrap();
    let names = || -> Vec<String> {
        let entries = fs::read_dir(at.join("cache")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert!(names().iter().all(|name| !name.ends_with(".tmp")), "{:?}", names());
    passed(&run(at, command));
    let stored = fs::read(at.join("p.safetensors")).unwrap();
    assert_eq!(names().len(), 1);
    passed(&run(at, "learn logs.csv --actions 3 --algorithm thompson --memory 1TB --out q.safetensors"));
    assert!(fs::read(at.join("q.safetensors")).unwrap() == stored);
}
