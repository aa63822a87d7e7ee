//! A process of its own that is killed at any moment, and started again.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use surefoot::Session;
use surefoot::audit::audit;
use surefoot::observer::Silent;
use surefoot_data::RunFiles;
use surefoot_serve::config::ServerConfig;
use surefoot_serve::{Limits, export, open_all, run};

use crate::common::{SHOP, visit};

/// The folder of a server process.
const FOLDER: &str = "SUREFOOT_TEST_SERVER";
/// Its database, if it has one.
pub(crate) const DATABASE: &str = "SUREFOOT_TEST_DATABASE";

fn config() -> String {
    SHOP.replace("\"1s\"", "\"60ms\"")
}

/// Not a test: the process that is killed runs this test alone, with a folder in its environment.
#[test]
fn a_server_of_its_own() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let mut config = ServerConfig::parse("shop.toml", &config()).unwrap();
    config.postgres = std::env::var(DATABASE).ok();
    let loops = open_all(&config, "shop.toml", Path::new(&folder), 1).unwrap();
    let ready = |address| {
        let mut out = std::io::stdout();
        writeln!(out, "\nlistening on {address}").and_then(|()| out.flush()).unwrap();
    };
    run(loops, Vec::new(), "127.0.0.1:0".parse().unwrap(), Limits::default(), ready).unwrap();
}

/// A server, which is killed when it is dropped.
pub(crate) struct Server {
    process: Child,
    address: String,
    /// Kept open: the harness of the tests writes to it after a minute, and would end if nobody could read that.
    _output: Lines<BufReader<ChildStdout>>,
}

/// What starts a server that stores in a folder.
pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "kills::a_server_of_its_own", "--nocapture"]).env(FOLDER, folder).stdout(Stdio::piped());
    command
}

impl Server {
    pub(crate) fn start(folder: &Path) -> Self {
        Self::of(command(folder))
    }

    /// A server that is started by a command like the one above.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let said = lines.by_ref().map_while(Result::ok);
        let address = said.filter_map(|line| Some(line.strip_prefix("listening on ")?.to_owned())).next();
        Server { process, address: address.expect("the server says where it listens"), _output: lines }
    }

    /// The id of its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends a request. `None` if no whole answer came.
    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!(
            "{method} /v1/loops/shop{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, serde_json::from_str(body).ok()?))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGKILL.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What the caller was told.
#[derive(Default)]
struct Told {
    decided: HashMap<usize, Value>,
    joined: HashMap<usize, f64>,
    next: usize,
}

impl Told {
    /// Asks for decisions and sends rewards until no answer comes.
    fn drive(&mut self, server: &Server) {
        while let Some((status, answer)) = server.send("POST", "/decisions", &visit(self.next)) {
            // 200 if it was stored before the kill, and its answer was lost.
            assert!(status == 201 || status == 200, "{status} {answer}");
            let reward = f64::from(u8::from(answer["action"] == "green"));
            self.decided.insert(self.next, answer);
            let path = format!("/decisions/e{}/rewards", self.next);
            self.next += 1;
            let Some((status, answer)) = server.send("POST", &path, &json!({ "reward": reward })) else { return };
            assert!(status == 201 || status == 200, "{status} {answer}");
            if answer["outcome"] == "joined" {
                self.joined.insert(self.next - 1, reward);
            }
        }
    }

    /// Everything that was told is still true.
    fn check(&self, server: &Server) {
        for (i, answer) in &self.decided {
            let (status, stored) = server.send("GET", &format!("/decisions/e{i}"), &Value::Null).unwrap();
            assert_eq!(status, 200);
            for field in ["action", "propensity", "policy_version", "round", "reward_until"] {
                assert_eq!(stored[field], answer[field], "{field} of event {i}");
            }
            if let Some(reward) = self.joined.get(i) {
                let rewards = stored["rewards"].as_array().unwrap();
                assert_eq!((rewards.len(), &rewards[0]["reward"]), (1, &json!(reward)));
                assert_eq!(rewards[0]["status"], "joined");
            }
        }
    }
}

/// `SUREFOOT_KILLS=3000` kills more often.
#[test]
fn what_was_acknowledged_survives_kills_and_what_was_learned_comes_out_again() {
    let kills: u64 = std::env::var("SUREFOOT_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let folder = tempfile::tempdir().unwrap();
    let mut told = Told::default();
    for kill in 0..kills {
        let server = Server::start(folder.path());
        let process = server.id().to_string();
        let killer = std::thread::spawn(move || {
            // Moments that differ from kill to kill, some in the middle of learning.
            std::thread::sleep(Duration::from_millis(20 + (kill * 37) % 180));
            Command::new("kill").args(["-9", &process]).status().unwrap()
        });
        told.drive(&server);
        assert!(killer.join().unwrap().success());
    }
    let server = Server::start(folder.path());
    // At least one: the last decision may be stored, and its answer lost.
    loop {
        let (_, answer) = server.send("POST", "/decisions", &visit(told.next)).unwrap();
        told.decided.insert(told.next, answer);
        told.next += 1;
        if told.next >= 130 {
            break;
        }
    }
    let (mut began, mut waiting) = (Instant::now(), Value::Null);
    loop {
        let (_, status) = server.send("GET", "", &Value::Null).unwrap();
        if status["waiting_rounds"] != waiting {
            (began, waiting) = (Instant::now(), status["waiting_rounds"].clone());
        }
        assert!(status["failed"].is_null() && began.elapsed() < Duration::from_secs(120), "{status}");
        if status["waiting_rounds"] == 0 {
            assert_eq!(status["decisions"], told.next, "no event has two decisions");
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    eprintln!("{kills} kills, {} decisions and {} rewards that were told", told.decided.len(), told.joined.len());
    told.check(&server);
    drop(server);
    replayed(folder.path());
}

/// Exports the loop, verifies the export, and learns everything again from its records: the ledger, which names every policy
/// and every certificate by its hash, must be the same.
fn replayed(folder: &Path) {
    let to = folder.join("run");
    export(&folder.join("shop"), &to).unwrap();
    let report = audit(&RunFiles::of(&to).unwrap().read().unwrap(), &[], || ());
    assert!(report.verified, "{:?}", report.all_differences());
    let stored = surefoot_data::read_session(&to).unwrap();
    assert!(stored.logs().len() >= 3);
    let again = Session::new(stored.learner().clone(), stored.gate(), stored.first().clone()).unwrap();
    let mut again = again.with_terms(stored.ledger().opening().terms.clone()).unwrap();
    for (logs, by) in stored.logs().iter().zip(stored.deployed()) {
        let job = again.prepare(logs.clone(), Arc::clone(by).identity(), true).unwrap();
        again.commit(job.run(&mut Silent).unwrap()).unwrap();
    }
    assert_eq!(again.ledger().to_string(), stored.ledger().to_string());
}
