//! Disks and clocks that fail: a clear error or a 503, and nothing lost.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use surefoot_serve::clock::ManualClock;
use surefoot_serve::engine::{Answer, Ask};
use surefoot_serve::request::DecisionRequest;
use surefoot_serve::store::SqliteStore;
use surefoot_serve::{Limits, Loop};

use crate::common::{SHOP, get, open, post, rules, serve, visit};
use crate::kills::{Server, command};

/// Root may write everywhere; this user may not.
const NOBODY: u32 = 65_534;

#[test]
fn a_folder_that_cannot_be_written_is_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    let mut server = command(folder.path());
    if rustix::process::geteuid().is_root() {
        server.uid(NOBODY).gid(NOBODY);
    }
    let ended = match server.stderr(Stdio::piped()).output() {
        Ok(ended) => ended,
        Err(reason) => return eprintln!("SKIPPED: this test cannot be run by another user: {reason}"),
    };
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success());
    let place = folder.path().join("shop").display().to_string();
    assert!(said.contains(&place) && said.contains("Permission denied"), "{said}");
}

/// A server whose files cannot grow beyond so many blocks of 512 bytes: a disk that is full.
fn limited(folder: &Path, blocks: u32) -> Server {
    let inner = command(folder);
    let mut shell = Command::new("sh");
    // Without the trap, the system would end the process.
    shell.args(["-c", &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\""), "sh"]);
    shell.arg(inner.get_program()).args(inner.get_args()).stdout(Stdio::piped());
    shell.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Server::of(shell)
}

#[test]
fn a_full_disk_is_answered_503_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = limited(folder.path(), 4000);
    let mut told = Vec::new();
    let mut refused = 0;
    for i in 0..3000 {
        match server.send("POST", "/decisions", &visit(i)).unwrap() {
            (201, answer) => told.push((i, answer)),
            (503, answer) => {
                assert_eq!(answer["type"], "urn:surefoot:store-unavailable");
                assert!(answer["detail"].as_str().unwrap().contains("the store cannot be"), "{answer}");
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
        if refused == 20 {
            break;
        }
    }
    assert!(refused == 20 && told.len() > 50, "{refused} {}", told.len());
    // What is stored can still be read.
    let (status, _) = server.send("GET", "/decisions/e0", &Value::Null).unwrap();
    assert_eq!(status, 200);
    drop(server);
    // There is room again.
    let server = Server::start(folder.path());
    for (i, answer) in &told {
        let (status, stored) = server.send("POST", "/decisions", &visit(*i)).unwrap();
        assert_eq!((status, &stored["action"], &stored["round"]), (200, &answer["action"], &answer["round"]));
    }
    let (status, _) = server.send("POST", "/decisions", &visit(3000)).unwrap();
    assert_eq!(status, 201);
    let (_, status) = server.send("GET", "", &Value::Null).unwrap();
    assert_eq!(status["decisions"], told.len() + 1, "what was refused was not stored");
}

fn decide(lp: &Loop, i: usize) -> Answer {
    let request: DecisionRequest = serde_json::from_value(visit(i)).unwrap();
    lp.ask_blocking(Ask::Decide(vec![request.check(lp.rules()).unwrap()])).unwrap()
}

fn damage(path: &Path, from: u64, bytes: usize) {
    let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(from)).unwrap();
    file.write_all(&vec![0xa5; bytes]).unwrap();
}

#[test]
fn a_damaged_store_is_not_opened_or_answers_503() {
    let folder = tempfile::tempdir().unwrap();
    let text = SHOP.replace("records = 40", "records = 100000");
    let clock = Arc::new(ManualClock::default());
    let lp = open(folder.path(), &text, &clock);
    (0..2000).for_each(|i| drop(decide(&lp, i)));
    lp.stop();
    drop(lp);
    // What is in the write-ahead log would hide the damage. Whoever closes the store last moves it; the learner may be later.
    while folder.path().join("loop.sqlite-wal").exists() {
        drop(SqliteStore::open(&folder.path().join("loop.sqlite")).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let (store, whole) = (folder.path().join("loop.sqlite"), folder.path().join("whole"));
    std::fs::copy(&store, &whole).unwrap();
    // Its head.
    damage(&store, 0, 100);
    let (rules, first) = rules(&text);
    let error = Loop::open(folder.path(), "shop", rules, first, Arc::clone(&clock) as _, 1).unwrap_err().to_string();
    assert!(error.contains("loop.sqlite: the store cannot be opened: file is not a database"), "{error}");
    // Pages in the middle: what needs them is answered 503, and the rest as before.
    std::fs::copy(&whole, &store).unwrap();
    let pages = std::fs::metadata(&store).unwrap().len() / 4096;
    damage(&store, 4096 * (pages / 2), 4096 * usize::try_from(pages / 4).unwrap());
    let (rules, first) = crate::common::rules(&text);
    let lp = match Loop::open(folder.path(), "shop", rules, first, Arc::clone(&clock) as _, 1) {
        Ok(lp) => Arc::new(lp),
        Err(error) => return assert!(error.to_string().contains("the store cannot be"), "{error}"),
    };
    let to = serve(&lp, &text, Limits::default());
    let answers: Vec<_> = (0..2000).step_by(40).map(|i| post(to, "/v1/loops/shop/decisions", &visit(i))).collect();
    let refused: Vec<_> = answers.iter().filter(|answer| answer.status != 200).collect();
    assert!(!refused.is_empty() && refused.len() < answers.len());
    assert!(refused.iter().all(|answer| answer.status == 503 && answer.text().contains("the store cannot be")));
    assert_eq!(get(to, "/v1/loops/shop").status, 200);
}

#[test]
fn a_clock_that_jumps_back_changes_no_window_that_began() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let lp = open(folder.path(), SHOP, &clock);
    let to = serve(&lp, SHOP, Limits::default());
    let decide = |i: usize| post(to, "/v1/loops/shop/decisions", &visit(i)).json()["reward_until"].clone();
    let reward = |i: usize| {
        let answer = post(to, &format!("/v1/loops/shop/decisions/e{i}/rewards"), &json!({ "reward": 1 }));
        answer.json()["outcome"].clone()
    };
    clock.set(86_400_000);
    assert_eq!(decide(0), "1970-01-02T00:00:01.000Z");
    clock.set(0);
    // The loop stays at the latest time that it has seen: the window is longer for a while, never shorter.
    assert_eq!(decide(1), "1970-01-02T00:00:01.000Z");
    assert_eq!(reward(0), "joined");
    clock.set(86_401_500);
    assert_eq!(reward(1), "late");
    clock.set(0);
    assert_eq!(decide(2), "1970-01-02T00:00:02.500Z");
}
