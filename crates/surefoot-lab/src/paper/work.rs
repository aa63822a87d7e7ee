//! Runs the cells that have not been run, and shows the time left.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::ProgressBar;
use surefoot::simulate::Certify;
use surefoot::worlds::Dataset;
use surefoot_terminal::{Failure, Result, progress};

use super::Size;
use super::cells::{Cell, Record, Store};
use super::sets::{Set, Source};
use crate::experiment::{Experiment, World};
use crate::options::Config;

/// The key of a world: the set, the features and the seed.
type Key = (Set, String, u64);

/// A cell, with everything that determines its result.
struct Job<'a> {
    cell: Cell,
    source: &'a Source,
    config: Config,
}

impl Job<'_> {
    /// The key of its world; cells with the same key share a world.
    fn world(&self) -> Key {
        (self.cell.set, self.config.features.clone(), self.cell.seed)
    }

    /// The approximate milliseconds of a round, measured on one core. Used only for the progress bar.
    fn cost(&self, round: usize, records: usize, classes: usize) -> u64 {
        let learned_from = match self.config.algorithm.as_str() {
            "scrm" => records >> (self.config.rounds - 1 - round).min(60),
            _ => records * (round + 1) / self.config.rounds,
        };
        let small_batches = if self.config.batch_size < 512 { 2 } else { 1 };
        let dense_and_chosen = if self.config.posterior == "shaped" { 3 } else { 1 };
        let nanoseconds = (700 + 7 * classes) * small_batches * dense_and_chosen;
        30 + (learned_from * self.config.epochs * nanoseconds / 1_000_000) as u64
    }
}

/// The inputs of a batch of runs.
pub(super) struct Work<'a> {
    pub(super) sources: &'a [Source],
    pub(super) size: &'a Size,
    pub(super) store: &'a Store,
    /// The data folder.
    pub(super) folder: &'a Path,
    /// Whether finished cells are run again.
    pub(super) fresh: bool,
}

impl Work<'_> {
    /// The cells that have to be run.
    fn missing(&self, cells: &[Cell]) -> Vec<Job<'_>> {
        let mut jobs: Vec<Job<'_>> = Vec::new();
        for &cell in cells {
            let Some(source) = self.sources.iter().find(|source| source.set == cell.set) else { continue };
            let config = self.size.config(source, &cell);
            let known = !self.fresh && self.store.get(&source.fingerprint, &config).is_some();
            // Sets may share their data, and results may share cells.
            if !known && !jobs.iter().any(|job| job.source.fingerprint == source.fingerprint && job.config == config) {
                jobs.push(Job { cell, source, config });
            }
        }
        // Seed by seed, so that an interrupted run has some seeds of every method. Cells that share a world are
        // adjacent.
        jobs.sort_by_key(|job| (job.cell.seed, job.world()));
        jobs
    }

    /// Runs the cells that are missing, and stores each as soon as it is done.
    pub(super) fn run(&self, cells: &[Cell], quiet: bool) -> Result<()> {
        let jobs = self.missing(cells);
        let mut data: HashMap<Set, Dataset> = HashMap::new();
        for job in &jobs {
            if let Entry::Vacant(place) = data.entry(job.cell.set) {
                place.insert(job.source.load(self.folder)?);
            }
        }
        let cost = |job: &Job<'_>, round: usize| {
            let set = &data[&job.cell.set];
            job.cost(round, set.train().len(), set.classes())
        };
        let total: u64 = jobs.iter().map(|job| (0..job.config.rounds).map(|k| cost(job, k)).sum::<u64>()).sum();
        let bar = progress::share(total, quiet);
        let done = Mutex::new(0);
        let worlds = Worlds::default();
        let count = jobs.len();
        let work = |job: &Job<'_>| -> Result<()> {
            let world = worlds.get(job, &data[&job.cell.set])?;
            let certify = if self.size.certifies_each(&job.cell) { Certify::Each } else { Certify::Last };
            let experiment = Experiment::in_world(&job.config, world)?.certifying(certify);
            let outcome = experiment.run(|round| bar.inc(cost(job, round.round - 1)))?;
            self.store.append(&Record::new(
                &job.source.fingerprint,
                &job.config,
                experiment.beginning()?,
                &outcome,
            )?)?;
            tell(&bar, &done, count, job);
            Ok(())
        };
        let results = in_order(&jobs, work);
        bar.finish_and_clear();
        results
    }
}

fn tell(bar: &ProgressBar, done: &Mutex<usize>, count: usize, job: &Job<'_>) {
    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
    *done += 1;
    let Cell { alpha, rounds, method, seed, .. } = job.cell;
    let cell = format!("{}, alpha {alpha}, k {rounds}, {}, seed {seed}", job.cell.set.title(), method.label());
    bar.set_message(format!("{done} of {count} runs, the last: {cell}"));
}

/// Runs the jobs in order, one per thread at a time. No job is started after an error.
fn in_order<T: Sync>(jobs: &[T], work: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
    let next = Mutex::new((0, None::<Failure>));
    let lock = || next.lock().unwrap_or_else(PoisonError::into_inner);
    rayon::scope(|scope| {
        for _ in 0..rayon::current_num_threads() {
            scope.spawn(|_| {
                loop {
                    let job = {
                        let mut next = lock();
                        let job = jobs.get(next.0).filter(|_| next.1.is_none());
                        next.0 += 1;
                        job
                    };
                    let Some(job) = job else { return };
                    if let Err(failure) = work(job) {
                        lock().1.get_or_insert(failure);
                    }
                }
            });
        }
    });
    let failure = lock().1.take();
    failure.map_or(Ok(()), Err)
}

/// The worlds of the last cells, cached because computing features costs as much as a short run.
#[derive(Default)]
struct Worlds {
    last: Mutex<VecDeque<(Key, Arc<World>)>>,
}

impl Worlds {
    fn get(&self, job: &Job<'_>, data: &Dataset) -> Result<Arc<World>> {
        let key = job.world();
        let find = || {
            let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            last.iter().find(|(known, _)| *known == key).map(|(_, world)| Arc::clone(world))
        };
        if let Some(world) = find() {
            return Ok(world);
        }
        // Two threads may create the same world; both results are correct.
        let world = Arc::new(World::new(&job.config, Some(data))?);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.push_front((key, Arc::clone(&world)));
        last.truncate(2 * rayon::current_num_threads());
        Ok(world)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_taken_in_order_and_none_after_an_error() {
        let all: Vec<usize> = (0..50).collect();
        let seen = |fails: usize, threads: usize| {
            let seen = Mutex::new(Vec::new());
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let result = pool.install(|| {
                in_order(&all, |&job| {
                    seen.lock().unwrap().push(job);
                    if job >= fails { Err(Failure::new(job)) } else { Ok(()) }
                })
            });
            (seen.into_inner().unwrap(), result.map_err(|failure| failure.to_string()))
        };
        assert_eq!(seen(50, 1), (all.clone(), Ok(())));
        assert_eq!(seen(3, 1), ((0..=3).collect(), Err("error: 3\n".into())));
        let (mut two, result) = seen(50, 2);
        two.sort_unstable();
        assert_eq!((two, result), (all.clone(), Ok(())));
        assert!(seen(3, 2).0.len() <= 6);
    }
}
