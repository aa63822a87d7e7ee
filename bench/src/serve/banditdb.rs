//! Against BanditDB, in turn, with the same contexts: decisions, decisions with their rewards, what is on disk after the process is
//! killed, and the logged propensities.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;
use surefoot_serve::store::{Reader as _, SqliteStore};

use super::bodies::{ACTIONS, Bodies, FEATURES};
use super::load::{Answered, Follow, Load, Request, once, post};
use super::servers::Server;
use super::{CONNECTIONS, Paths, empty, median};
use crate::report::{number, publish, table};
use crate::work::Result;

/// The service against BanditDB: decisions, rewards, what a killed process has kept, propensities
#[derive(Debug, Args)]
pub(crate) struct Banditdb {
    #[command(flatten)]
    paths: Paths,
    /// Its binary
    #[arg(long)]
    banditdb: PathBuf,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How often both are measured, in turn
    #[arg(long, default_value_t = 5)]
    turns: usize,
}

/// The algorithms of BanditDB: the name of the campaign, and its own name.
const ALGORITHMS: [(&str, &str); 2] = [("thompson", "thompson_sampling"), ("linucb", "linucb")];

/// What one server did in all turns.
#[derive(Default)]
struct Done {
    decisions: Vec<f64>,
    pairs: Vec<f64>,
    refused: u64,
    answered: u64,
    kept: u64,
}

impl Banditdb {
    pub(crate) fn run(&self) -> Result<()> {
        let folder = self.paths.data.join("banditdb");
        let mut ours = Done::default();
        let mut theirs = ALGORITHMS.map(|_| Done::default());
        let mut logged = ALGORITHMS.map(|_| Vec::new());
        for _ in 0..self.turns {
            self.ours(&mut ours)?;
            for (((name, algorithm), done), logged) in ALGORITHMS.iter().zip(&mut theirs).zip(&mut logged) {
                self.theirs(&folder, name, algorithm, done, logged)?;
            }
        }
        let mut rows = vec![row("Surefoot, SQLite", &ours, "exact")];
        for (((name, _), done), logged) in ALGORITHMS.iter().zip(&theirs).zip(&logged) {
            let mean = logged.iter().sum::<f64>() / logged.len().max(1) as f64;
            let spread = logged.iter().map(|p| (p - mean).powi(2)).sum::<f64>() / logged.len().max(1) as f64;
            let said = format!("mean {}, deviation {}", number(mean), number(spread.sqrt()));
            rows.push(row(&format!("BanditDB, {name}"), done, &said));
        }
        let about = format!(
            "The same {FEATURES} numbers per context, {ACTIONS} actions, {CONNECTIONS} connections, {} turns of {} s each, in turn. \
             *Pairs* are decisions that are followed by their reward. The processes are killed (SIGKILL) when the last decision has been \
             answered; *kept* are the answered decisions that the store or the write-ahead log then has. BanditDB's campaigns have seen no \
             reward when propensities are read from its log, so by symmetry Thompson sampling chooses every arm with probability {}.",
            self.turns,
            self.seconds,
            number(1.0 / ACTIONS as f64)
        );
        let body =
            table(["server", "decisions /s", "pairs /s", "refused", "answered", "kept", "logged propensity"], &rows);
        publish(&self.paths.out, "banditdb", "The service against BanditDB", &format!("{about}\n\n{body}"))
    }

    fn send(&self, to: SocketAddr, first: u64, request: Request, follow: Option<Follow>) -> Result<Answered> {
        let time = Duration::from_secs(self.seconds);
        Load { to, connections: CONNECTIONS, time, rate: None, first, request, follow }.run()
    }

    fn ours(&self, done: &mut Done) -> Result<()> {
        let (folder, file) = empty(&self.paths.data.join("banditdb-ours"), "1h")?;
        let server = Server::serve(&self.paths.surefoot, &file, &folder, None)?;
        let bodies = Bodies::new();
        let pairs = self.send(server.address, 0, bodies.single(), Some(bodies.rewarded()))?;
        let decisions = self.send(server.address, pairs.next, bodies.single(), None)?;
        drop(server);
        done.pairs.push(pairs.rate());
        done.decisions.push(decisions.rate());
        done.refused += pairs.refused + decisions.refused;
        done.answered += (pairs.samples.len() + decisions.samples.len()) as u64;
        done.kept += SqliteStore::open(&folder.join("bench/loop.sqlite"))?.ends()?.decisions;
        Ok(())
    }

    fn theirs(&self, folder: &Path, name: &str, algorithm: &str, done: &mut Done, logged: &mut Vec<f64>) -> Result<()> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
        let server = started(&self.banditdb, folder)?;
        let arms: Vec<String> = (0..ACTIONS).map(|arm| format!("\"{arm}\"")).collect();
        let campaign = format!(
            "{{\"campaign_id\":\"{name}\",\"arms\":[{}],\"feature_dim\":{FEATURES},\"algorithm\":\"{algorithm}\"}}",
            arms.join(",")
        );
        let mut create = Vec::new();
        post("/campaign", "application/json", campaign.as_bytes(), &mut create);
        let (status, answer) = once(server.address, &create)?;
        if status >= 300 {
            return Err(format!("no campaign: {status} {}", String::from_utf8_lossy(&answer)).into());
        }
        let (contexts, campaign) = (Bodies::new().lists(), name.to_owned());
        let predict: Request = Arc::new(move |number, out| {
            let context = &contexts[number as usize % contexts.len()];
            let body = format!("{{\"campaign_id\":\"{campaign}\",\"context\":{context}}}");
            post("/predict", "application/json", body.as_bytes(), out);
        });
        let decisions = self.send(server.address, 0, Arc::clone(&predict), None)?;
        drop(server);
        done.decisions.push(decisions.rate());
        let log = fs::read_to_string(folder.join("bandit_wal.jsonl"))?;
        done.answered += decisions.samples.len() as u64;
        for event in log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let Some(event) = event.get("Predicted") else { continue };
            done.kept += 1;
            let arm = event["arm_id"].as_str().unwrap_or_default();
            logged.extend(event["arm_propensities"][arm].as_f64());
        }
        // Again from the start, with rewards.
        let server = started(&self.banditdb, folder)?;
        let reward: Follow = Arc::new(|number, answer, out| {
            let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
            let right = (number % ACTIONS as u64).to_string();
            let reward = u8::from(answer["arm_id"].as_str() == Some(&right));
            let body = format!("{{\"interaction_id\":{},\"reward\":{reward}}}", answer["interaction_id"]);
            post("/reward", "application/json", body.as_bytes(), out);
        });
        let pairs = self.send(server.address, 0, predict, Some(reward))?;
        done.pairs.push(pairs.rate());
        done.refused += pairs.refused + decisions.refused;
        Ok(())
    }
}

/// BanditDB on a free port, when it answers.
fn started(program: &Path, folder: &Path) -> Result<Server> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let address: SocketAddr = ([127, 0, 0, 1], port).into();
    let mut command = Command::new(program);
    command.env("DATA_DIR", folder).env("PORT", port.to_string()).env("RUST_LOG", "error");
    // Its default is 1,000 requests a second.
    command.env("BANDITDB_RATE_LIMIT_PER_SEC", "4000000000").stdout(Stdio::null()).stderr(Stdio::null());
    let server = Server::other(command.spawn()?, address);
    let began = Instant::now();
    while TcpStream::connect(address).is_err() {
        if began.elapsed() > Duration::from_secs(30) {
            return Err("BanditDB does not answer".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(server)
}

fn row(name: &str, done: &Done, propensity: &str) -> [String; 7] {
    let rate = |rates: &[f64]| format!("{:.0}", median(&mut rates.to_vec()));
    let lost = format!("{} ({} lost)", done.kept, done.answered.saturating_sub(done.kept));
    let (refused, answered) = (done.refused.to_string(), done.answered.to_string());
    [name.into(), rate(&done.decisions), rate(&done.pairs), refused, answered, lost, propensity.into()]
}
