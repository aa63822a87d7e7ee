//! Logs and policies in object stores: against a real S3 server on this machine, through a proxy that cuts and refuses, and
//! against a web server of the test's own.
#![cfg(all(unix, feature = "stores"))]

mod between;
mod reading;
mod server;
mod web;
mod writing;

use std::path::Path;
use std::process::{Command, Output};

use server::Store;

/// A new folder with `logs.csv`, in two parts in `parts/` too.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let line = |i: usize| format!("{},{},{},0.5,{},v{}\n", i % 7, i * 13 % 11, i % 2, i % 3 % 2, i / 1500);
    let (header, rows) = ("x,y,action,pscore,reward,policy_version\n", 3000);
    let part = |from: usize, to: usize| format!("{header}{}", (from..to).map(line).collect::<String>());
    std::fs::write(folder.path().join("logs.csv"), part(0, rows)).unwrap();
    std::fs::create_dir(folder.path().join("parts")).unwrap();
    std::fs::write(folder.path().join("parts/0.csv"), part(0, 1000)).unwrap();
    std::fs::write(folder.path().join("parts/1.csv"), part(1000, rows)).unwrap();
    folder
}

/// Runs the binary in a folder, with the environment of a store at this port.
fn run_at(folder: &Path, port: u16, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    command.current_dir(folder).args(arguments.split_whitespace());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AWS_")) {
        command.env_remove(name);
    }
    let endpoint = format!("http://127.0.0.1:{port}");
    command.env("AWS_ENDPOINT", endpoint).env("AWS_ALLOW_HTTP", "true").env("AWS_REGION", "us-east-1");
    command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
    command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
    command.output().unwrap()
}

fn run(folder: &Path, store: &Store, arguments: &str) -> Output {
    run_at(folder, store.port, arguments)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The output of a run that should pass.
fn passed(run: &Output) -> String {
    assert!(run.status.success(), "{}{}", text(&run.stdout), text(&run.stderr));
    text(&run.stdout)
}

/// The error of a run that should fail.
fn failed(run: &Output) -> String {
    assert_eq!(run.status.code(), Some(1), "{}{}", text(&run.stdout), text(&run.stderr));
    text(&run.stderr)
}
