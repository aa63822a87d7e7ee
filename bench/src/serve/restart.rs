//! A restart with many decisions in the store: they are written by the store itself, and then the service is started.

use std::fs;
use std::time::Instant;

use surefoot_serve::store::{DecisionRow, Reader as _, RoundRow, SqliteStore, Store as _};

use super::bodies::Bodies;
use super::load::once;
use super::{Rows, Serve, empty};
use crate::report::number;
use crate::work::Result;

/// Decisions per commit.
const TOGETHER: u64 = 10_000;

pub(super) fn measure(serve: &Serve, rows: &mut Rows) -> Result<String> {
    let (folder, file) = empty(&serve.paths.data.join("restart"), "1h")?;
    // The service writes the rules and the first policy.
    drop(serve.start(&file, &folder)?);
    let path = folder.join("bench/loop.sqlite");
    fill(&mut SqliteStore::open(&path)?, serve.stored)?;
    let size = fs::metadata(&path)?.len() as f64 / 1e9;
    let mut seconds = Vec::new();
    for _ in 0..serve.turns {
        let began = Instant::now();
        let server = serve.start(&file, &folder)?;
        let (status, _) = once(server.address, b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n")?;
        if status != 200 {
            return Err(format!("the service is not ready: {status}").into());
        }
        seconds.push(began.elapsed().as_secs_f64());
    }
    rows.push([
        format!("restart with {} decisions in the store ({} GB)", serve.stored, number(size)),
        format!("ready in **{} s**", number(super::median(&mut seconds))),
        "aim 10 s".into(),
    ]);
    fs::remove_dir_all(&folder)?;
    Ok(String::new())
}

fn fill(store: &mut SqliteStore, count: u64) -> Result<()> {
    let bodies = Bodies::new();
    let running = store.session()?.running;
    store.begin()?;
    let (closed, learned, erased) = (None, None, false);
    store.put_round(&RoundRow { round: 0, policy: running, first: 0, opened_at: 0, closed, learned, erased })?;
    for number in 0..count {
        let (event_id, request) = bodies.stored(number);
        let (action, propensity) = ((number % 10) as u32, 0.1);
        let decided_at = number.cast_signed();
        store.add_decision(&DecisionRow {
            number,
            event_id,
            request,
            action,
            propensity,
            round: 0,
            policy: running,
            decided_at,
            activated_at: Some(decided_at),
        })?;
        if number % TOGETHER == TOGETHER - 1 {
            store.commit()?;
            store.begin()?;
        }
    }
    Ok(store.commit()?)
}
