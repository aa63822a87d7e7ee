//! Decisions while a round is being learned from, and while none is: a steady load, rounds that are closed by hand, and
//! every request counted by the moment at which it was due.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::bodies::Bodies;
use super::load::{Load, Sample, once, post, quantile};
use super::{CONNECTIONS, Rows, Serve, empty};
use crate::report::number;
use crate::work::Result;

/// Rounds that are learned from.
const ROUNDS: usize = 3;
/// Decisions a second, each with its reward.
const RATE: f64 = 1000.0;
/// How long each round is collected, without learning beside it.
const QUIET: Duration = Duration::from_secs(10);

pub(super) fn measure(serve: &Serve, rows: &mut Rows) -> Result<String> {
    let (folder, file) = empty(&serve.paths.data.join("learning"), "1s")?;
    let server = serve.start(&file, &folder)?;
    let to = server.address;
    let bodies = Bodies::new();
    let watcher = std::thread::spawn(move || watch(to));
    let (mut next, mut samples) = (0, Vec::new());
    while !watcher.is_finished() {
        let load = Load {
            to,
            connections: CONNECTIONS,
            time: Duration::from_secs(2),
            rate: Some(RATE),
            first: next,
            request: bodies.single(),
            follow: Some(bodies.rewarded()),
        };
        let answered = load.run()?;
        next = answered.next;
        samples.extend(answered.samples);
    }
    let busy = watcher.join().map_err(|_| "the watcher ended")??;
    let within = |sample: &&Sample| busy.iter().any(|(from, to)| (*from..*to).contains(&sample.due));
    let learning = quantile(samples.iter().filter(within), 0.99);
    let quiet = quantile(samples.iter().filter(|sample| !within(sample)), 0.99);
    let seconds: f64 = busy.iter().map(|(from, to)| (*to - *from).as_secs_f64()).sum();
    rows.push([
        format!("p99 while a round is learned from ({RATE:.0} decisions and as many rewards /s)"),
        format!("{} ms", number(learning)),
        format!("**{}** times that when none is, {} ms; aim 2", number(learning / quiet), number(quiet)),
    ]);
    Ok(format!(
        "{ROUNDS} rounds of some {:.0} records were learned from, in {} s.\n\n",
        RATE * QUIET.as_secs_f64(),
        number(seconds)
    ))
}

/// Closes rounds, and returns when they were learned from.
fn watch(to: SocketAddr) -> Result<Vec<(Instant, Instant)>> {
    let mut spans = Vec::new();
    for _ in 0..ROUNDS {
        std::thread::sleep(QUIET);
        let mut close = Vec::new();
        post("/v1/loops/bench/rounds/current/close", "application/json", b"", &mut close);
        let (status, answer) = once(to, &close)?;
        if status >= 300 {
            return Err(format!("the round is not closed: {}", String::from_utf8_lossy(&answer)).into());
        }
        let mut began = None;
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let (_, answer) = once(to, b"GET /v1/loops/bench HTTP/1.1\r\nhost: x\r\n\r\n")?;
            let status: Value = serde_json::from_slice(&answer)?;
            if let Some(reason) = status["failed"].as_str() {
                return Err(format!("learning failed: {reason}").into());
            }
            match (status["learning"].as_bool(), began) {
                (Some(true), None) => began = Some(Instant::now()),
                (Some(false), Some(from)) => {
                    spans.push((from, Instant::now()));
                    break;
                }
                _ => {}
            }
        }
    }
    Ok(spans)
}
