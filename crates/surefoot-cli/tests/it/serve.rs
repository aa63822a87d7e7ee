//! The live loop, with the real binary: from a log to a server that decides, and out again.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

fn surefoot(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    command.current_dir(folder);
    command
}

/// A loop that is made from the example's log decides on it, and leaves as a run folder that is verified.
#[test]
fn a_loop_made_from_a_log_decides_and_leaves_as_a_run_folder() {
    let folder = tempfile::tempdir().unwrap();
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/logs.csv");
    let made = surefoot(folder.path())
        .args(["serve", "init", "--ignore", "pi_*", "--out", "shop.toml"])
        .arg(log)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut server = surefoot(folder.path())
        .args(["serve", "shop.toml", "--data", "data", "--listen", "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.strip_prefix("listening on http://").and_then(|rest| rest.split(',').next()).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let body = r#"{"event_id":"e1","context":{}}"#;
    let head =
        "POST /v1/loops/shop/decisions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json";
    write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(answer.starts_with("HTTP/1.1 201") && answer.contains("\"propensity\":"), "{answer}");
    let exported = surefoot(folder.path()).args(["serve", "export", "data/shop", "--out", "run"]).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&exported.stdout),
        "wrote 0 rounds with 0 records and 0 certificates to run\n",
        "{}",
        String::from_utf8_lossy(&exported.stderr)
    );
}

/// What is wrong with a file of loops is said with its place, and nothing is opened.
#[test]
fn a_wrong_file_of_loops_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.toml"), "[[loop]]\nname = \"shop\"\n").unwrap();
    let refused = surefoot(folder.path()).args(["serve", "shop.toml"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("shop.toml") && said.contains("missing field `reward`") && said.contains("hint:"), "{said}");
    assert!(!folder.path().join("surefoot-data").exists());
}

/// A loop keeps its rules from its first start on, so a start that fails must not be the first.
#[test]
fn a_start_that_fails_fixes_no_rules() {
    let folder = tempfile::tempdir().unwrap();
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/logs.csv");
    let init = |flags: &[&str]| {
        surefoot(folder.path()).args(["serve", "init", "--out", "shop.toml"]).args(flags).arg(&log).output().unwrap()
    };
    let said = |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(init(&["--ignore", "pi_*"]).status.success());
    let again = init(&["--ignore", "pi_*"]);
    assert!(said(&again).contains("shop.toml: already exists") && said(&again).contains("--force"), "{}", said(&again));
    let named = init(&["--force", "--name", "my shop"]);
    assert!(said(&named).contains("name should be 1 to 64 letters"), "{}", said(&named));
    assert!(init(&["--force", "--ignore", "pi_*"]).status.success());

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let serve = || surefoot(folder.path()).args(["serve", "shop.toml", "--listen", &address]).output().unwrap();
    let refused = serve();
    assert!(said(&refused).contains("cannot listen on") && !said(&refused).contains("hint:"), "{}", said(&refused));
    assert!(!folder.path().join("surefoot-data").exists());
}
