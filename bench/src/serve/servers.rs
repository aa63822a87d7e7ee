//! SERVERS: the service in a process of its own, and axum alone, which parses the same requests, writes the same answers,
//! and neither draws nor stores anything.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::report::say;
use crate::work::Result;

/// Answer like the service, by axum alone: nothing is drawn or stored
#[derive(Debug, Args)]
pub(crate) struct Alone {}

/// The fields of a request for a decision.
#[derive(Deserialize)]
struct Request {
    event_id: String,
    context: Map<String, Value>,
}

/// The fields of a decision, with the same sizes.
#[derive(Serialize)]
struct Answer {
    event_id: String,
    action: u32,
    propensity: f64,
    policy_version: &'static str,
    round: u64,
    reward_until: &'static str,
    ledger_head: &'static str,
}

const PRINT: &str = "9f2c6a0b1d3e4f5a9f2c6a0b1d3e4f5a9f2c6a0b1d3e4f5a9f2c6a0b1d3e4f5a";

async fn answer(Json(request): Json<Request>) -> (StatusCode, [(&'static str, &'static str); 1], Json<Answer>) {
    let action = (request.context.len() % 10) as u32;
    let answer = Answer {
        event_id: request.event_id,
        action,
        propensity: 0.123_456_789,
        policy_version: PRINT,
        round: 0,
        reward_until: "2026-01-31T13:00:00.000Z",
        ledger_head: PRINT,
    };
    (StatusCode::CREATED, [("surefoot-ledger-head", PRINT)], Json(answer))
}

impl Alone {
    pub(crate) fn run(&self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
            say(&format!("listening on http://{}", listener.local_addr()?))?;
            let listener = axum::serve::ListenerExt::tap_io(listener, |stream: &mut tokio::net::TcpStream| {
                let _ = stream.set_nodelay(true);
            });
            Ok(axum::serve(listener, Router::new().route("/v1/loops/bench/decisions", post(answer))).await?)
        })
    }
}

/// A server process, which is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Axum alone.
    pub(crate) fn alone() -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("alone").stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let out = process.stdout.take().ok_or("no output")?;
        Self::of(process, out)
    }

    /// The service, with the loops of a file, in a folder or in a database.
    pub(crate) fn serve(surefoot: &Path, file: &Path, data: &Path, database: Option<&str>) -> Result<Self> {
        let mut command = Command::new(surefoot);
        command.arg("serve").arg(file).arg("--data").arg(data).args(["--listen", "127.0.0.1:0"]);
        command.args(database.into_iter().flat_map(|database| ["--postgres", database]));
        let mut process = command.stderr(Stdio::piped()).spawn()?;
        let out = process.stderr.take().ok_or("no output")?;
        Self::of(process, out)
    }

    /// Another server, which listens on this address.
    pub(crate) fn other(process: Child, address: SocketAddr) -> Self {
        Server { process, address }
    }

    fn of(process: Child, out: impl std::io::Read) -> Result<Self> {
        let address = BufReader::new(out).lines().map_while(Result::ok).find_map(|line| {
            let (_, rest) = line.split_once("listening on http://")?;
            rest.split([',', ' ']).next()?.parse().ok()
        });
        // The process ends with this, also where it never listened.
        let server = Server { process, address: address.unwrap_or_else(|| ([127, 0, 0, 1], 0).into()) };
        address.map_or(Err("the server does not say where it listens".into()), |_| Ok(server))
    }

    /// The memory of the process, in MB. Linux only.
    pub(crate) fn memory(&self) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse::<f64>().ok().map(|kilobytes| kilobytes / 1e3)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGKILL: the service needs no other end.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
