//! The service under load, on this machine: durable decisions against axum alone, times, batches, rewards, learning beside
//! it, and a restart with many decisions in the store.

mod banditdb;
mod bodies;
mod learning;
mod load;
mod restart;
mod servers;
mod soak;

pub(crate) use banditdb::Banditdb;
pub(crate) use servers::Alone;
pub(crate) use soak::Soak;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use self::bodies::{Bodies, config};
use self::load::{Answered, Load, Request};
use self::servers::Server;
use crate::report::{number, publish, table};
use crate::work::Result;

/// The service under load: against axum alone, in batches, while it learns, after a restart
#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    paths: Paths,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How often axum alone and the service are measured, in turn
    #[arg(long, default_value_t = 5)]
    turns: usize,
    /// Decisions in the store that is restarted
    #[arg(long, default_value_t = 10_000_000)]
    stored: u64,
    /// A running PostgreSQL to measure beside SQLite, as surefoot serve --postgres takes it; the loop `bench` in it must be new
    #[arg(long, value_name = "DATABASE")]
    postgres: Option<String>,
    /// Only these parts: load, learning, restart
    #[arg(long, value_delimiter = ',', default_value = "load,learning,restart")]
    only: Vec<String>,
}

/// What is measured, and where.
#[derive(Debug, Args)]
struct Paths {
    /// Binary to measure
    #[arg(long, default_value = "target/release/surefoot")]
    surefoot: PathBuf,
    /// Folder of the stores, on the disk to be measured
    #[arg(long, default_value = "bench/data/serve")]
    data: PathBuf,
    /// Folder of the report
    #[arg(long, default_value = "bench/results")]
    out: PathBuf,
}

/// Connections of the load.
const CONNECTIONS: usize = 64;
/// Lines of a batch.
const BATCH: u64 = 100;

/// A line of the report: what, what was measured, what it is compared with.
type Rows = Vec<[String; 3]>;

impl Serve {
    pub(crate) fn run(&self) -> Result<()> {
        let (mut rows, mut notes): (Rows, Vec<String>) = (Vec::new(), Vec::new());
        let parts: [(&str, Part); 3] =
            [("load", Serve::load), ("learning", learning::measure), ("restart", restart::measure)];
        for (name, part) in parts {
            if self.only.iter().any(|only| only == name) {
                notes.push(part(self, &mut rows)?);
            }
        }
        let body = table(["what", "measured", "against"], &rows);
        let about = format!(
            "Contexts of 40 numbers, 10 actions, {CONNECTIONS} connections that stay open, the generator of the load on the \
             same {} cores, the store on a disk. Each figure is the median of {} turns of {} s.",
            std::thread::available_parallelism()?,
            self.turns,
            self.seconds
        );
        publish(&self.paths.out, "serve", "The service under load", &format!("{about}\n\n{body}\n{}", notes.concat()))
    }

    fn start(&self, file: &Path, folder: &Path) -> Result<Server> {
        Server::serve(&self.paths.surefoot, file, folder, None)
    }

    fn send(&self, server: &Server, first: u64, rate: Option<f64>, request: Request) -> Result<Answered> {
        let time = Duration::from_secs(self.seconds);
        let load = Load { to: server.address, connections: CONNECTIONS, time, rate, first, request, follow: None };
        let answered = load.run()?;
        if answered.refused > 0 {
            return Err(format!("{} requests were refused", answered.refused).into());
        }
        Ok(answered)
    }

    /// Decisions, single and in batches, and rewards.
    fn load(&self, rows: &mut Rows) -> Result<String> {
        let (folder, file) = empty(&self.paths.data.join("load"), "1h")?;
        let (service, alone) = (self.start(&file, &folder)?, Server::alone()?);
        let shared = self
            .postgres
            .as_deref()
            .map(|database| Server::serve(&self.paths.surefoot, &file, &folder.join("shared"), Some(database)));
        let shared = shared.transpose()?;
        let bodies = Bodies::new();
        let mut next = 0;
        let [mut singles, mut alones, mut half, mut batches, mut rewards, mut pace] = [(); 6].map(|()| Vec::new());
        let (mut p50, mut p99, mut alone_p99) = (Vec::new(), Vec::new(), Vec::new());
        let (mut shares, mut shared_next) = (Vec::new(), 0);
        for _ in 0..self.turns {
            alones.push(self.send(&alone, 0, None, bodies.single())?.rate());
            let done = self.send(&service, next, None, bodies.single())?;
            singles.push(done.rate());
            let decided = next..done.next;
            next = done.next;
            if let Some(shared) = &shared {
                let done = self.send(shared, shared_next, None, bodies.single())?;
                shares.push(done.rate());
                shared_next = done.next;
            }
            pace.push(median(&mut singles.clone()) / 2.0);
            let steady = self.send(&service, next, pace.last().copied(), bodies.single())?;
            next = steady.next;
            half.push(steady.rate());
            p50.push(steady.quantile(0.5));
            p99.push(steady.quantile(0.99));
            // The machine has pauses of its own.
            alone_p99.push(self.send(&alone, 0, pace.last().copied(), bodies.single())?.quantile(0.99));
            // A batch has numbers of its own.
            let first = next.div_ceil(BATCH);
            let batched = self.send(&service, first, None, bodies.batch(BATCH))?;
            batches.push(batched.rate() * BATCH as f64);
            next = batched.next * BATCH;
            rewards.push(self.send(&service, decided.start, None, bodies.reward())?.rate());
        }
        let of = |values: &[f64]| median(&mut values.to_vec());
        let ratio = |ours: &[f64], theirs: &[f64]| {
            let mut ratios: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
            number(median(&mut ratios))
        };
        let per_second = |values: &[f64]| format!("{:.0} /s", of(values));
        rows.push([
            "durable decisions, SQLite".into(),
            per_second(&singles),
            format!("**{}** of axum alone, {}; aim 0.8", ratio(&singles, &alones), per_second(&alones)),
        ]);
        if !shares.is_empty() {
            rows.push([
                "durable decisions, PostgreSQL, one server".into(),
                per_second(&shares),
                format!("**{}** of SQLite; aim 0.5", ratio(&shares, &singles)),
            ]);
        }
        rows.push([
            format!("times at half of the median of the turns so far ({})", per_second(&half)),
            format!("p50 {} ms, p99 **{} ms**", number(of(&p50)), number(of(&p99))),
            format!("aim 25 ms; axum alone at the same rate: p99 {} ms", number(of(&alone_p99))),
        ]);
        rows.push([
            format!("decisions in NDJSON batches of {BATCH}"),
            per_second(&batches),
            format!("**{}** times the single ones; aim 10", ratio(&batches, &singles)),
        ]);
        rows.push([
            "rewards joined".into(),
            per_second(&rewards),
            format!("**{}** of the single decisions; aim 1", ratio(&rewards, &singles)),
        ]);
        Ok(String::new())
    }
}

/// A part of the measurements: it adds lines to the report, and returns what is to be said of them.
type Part = fn(&Serve, &mut Rows) -> Result<String>;

/// The median of some values.
fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// An empty folder for stores, and the file of the loop in it.
fn empty(folder: &Path, window: &str) -> Result<(PathBuf, PathBuf)> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let file = folder.join("loops.toml");
    fs::write(&file, config(window))?;
    Ok((folder.to_owned(), file))
}
