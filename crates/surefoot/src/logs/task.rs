//! Work on the records of a round: in this process, or where their contexts are held.
//!
//! A [`Task`] gives a result for each chunk of records, and says how results are merged. [`Logs::over`] adds them up in the one
//! order of [`spans`](super::spans). If the contexts are [held elsewhere](Holder), it sends the task there, shard by shard, and
//! merges what comes back by the same tree. So every learner and every certificate is written once.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::Logs;
use super::spans::{chunks, join, spans, tree, within};
use crate::contexts::{Column, Contexts};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::wire::{Reader, Writer};

/// Holds the contexts of a round in other processes, as shards, and has tasks done there.
///
/// A shard has a power of two of [spans](super::SPAN), at a multiple of its size; the last one may end early. A task is
/// stateless, so that it may be done again at any time. [`perform`](crate::work::perform) does it for one shard.
pub trait Holder: Debug + Send + Sync {
    /// Does a task for every shard with some of these records, and returns the results in the order of the shards.
    fn map(&self, task: &str, records: Range<usize>, payload: &[u8]) -> Result<Vec<Part>>;
}

/// The result of a task for one shard.
#[derive(Debug, Clone)]
pub struct Part {
    /// The records of the shard, counted from the first of the round.
    pub records: Range<usize>,
    /// What [`perform`](crate::work::perform) returned.
    pub result: Vec<u8>,
}

/// Remembers the results of passes, so that an interrupted search goes on where it was. A result that is lost is computed
/// again.
pub trait Journal: Debug + Send + Sync {
    /// The result that was kept under a name, if there is one.
    fn find(&self, name: Fingerprint) -> Option<Vec<u8>>;

    /// Keeps a result. It need not succeed.
    fn keep(&self, name: Fingerprint, result: &[u8]);
}

/// Where the contexts are, and which features of them the logs stand for.
#[derive(Debug, Clone, Default)]
pub(super) struct Elsewhere {
    holder: Option<Arc<dyn Holder>>,
    journal: Option<Arc<dyn Journal>>,
    view: Option<Arc<View>>,
}

/// Features in place of the contexts.
#[derive(Debug)]
struct View {
    /// The map, for whoever reads it.
    map: Vec<u8>,
    /// Whether records of cost 0 have none.
    leave_out: bool,
    /// The records that were mapped.
    mapped: Range<usize>,
}

/// Work on records whose results can be merged.
pub(crate) trait Task: Sync {
    /// The name by which another process knows it.
    const NAME: &'static str;

    /// Whether results are small and take long, so that they are kept for an interrupted search.
    const KEPT: bool = false;

    type Output: Send;

    /// Writes everything that another process needs. Fails if the task can be done in this process only.
    fn write(&self, out: &mut Writer) -> Result<()>;

    /// The result for at most [`CHUNK`](super::CHUNK) records.
    fn chunk(&self, logs: &Logs) -> Result<Self::Output>;

    /// Adds the result of the records that come next.
    fn merge(&self, sum: &mut Self::Output, next: Self::Output);

    fn write_output(&self, output: &Self::Output, out: &mut Writer);

    fn read_output(&self, from: &mut Reader<'_>) -> Result<Self::Output>;

    /// Whether several chunks are worked on at once. Otherwise there is one result per level of the tree.
    fn parallel(&self) -> bool {
        true
    }

    /// Adds the next chunk: what [`chunk`](Task::chunk) and [`merge`](Task::merge) do, maybe with less memory.
    fn add(&self, sum: &mut Self::Output, logs: &Logs) -> Result<()> {
        self.merge(sum, self.chunk(logs)?);
        Ok(())
    }
}

impl Logs {
    /// The records of a round whose contexts, with this many features, are held elsewhere. `leaves` are the fingerprints of
    /// its chunks: those of its shards, one after the other ([`Logs::leaves`]).
    pub fn elsewhere(
        actions: usize,
        features: usize,
        (action, propensity, cost): (Column<u32>, Column<f64>, Column<f64>),
        leaves: &[Fingerprint],
        holder: Arc<dyn Holder>,
    ) -> Result<Self> {
        let contexts = Contexts::absent(features, action.len())?;
        let mut logs = Self::of_columns(actions, contexts, action, propensity, cost)?;
        let chunks = logs.len().div_ceil(super::CHUNK);
        if leaves.len() != chunks {
            return Err(Error::size("the fingerprints of chunks", format!("{chunks} entries"), leaves.len()));
        }
        logs.fingerprint = logs.root(leaves).into();
        logs.elsewhere.holder = Some(holder);
        Ok(logs)
    }

    /// Whether the contexts are held elsewhere.
    pub fn is_elsewhere(&self) -> bool {
        self.elsewhere.holder.is_some()
    }

    /// Fails if the contexts are held elsewhere, and `what` needs them in this process.
    pub(crate) fn check_here(&self, what: &str) -> Result<()> {
        match self.is_elsewhere() {
            false => Ok(()),
            true => Err(Error::setting("the contexts", format!("in this process, for {what}"), "held by an engine")),
        }
    }

    /// The same records, with a journal of passes over them. It must belong to these records alone.
    #[must_use]
    pub fn with_journal(mut self, journal: Option<Arc<dyn Journal>>) -> Self {
        self.elsewhere.journal = journal;
        self
    }

    /// Whether whoever does a task must know which features stand in place of the contexts.
    pub(crate) fn needs_view(&self) -> bool {
        self.is_elsewhere() || self.elsewhere.journal.is_some()
    }

    /// Notes by which map `features` features are in place of the contexts; where the contexts are held, the map is applied.
    pub(crate) fn viewed(mut self, map: Vec<u8>, features: usize, leave_out: bool) -> Result<Self> {
        if self.is_elsewhere() {
            self.contexts = Contexts::absent(features, self.len())?;
            self.fingerprint = Default::default();
        }
        self.elsewhere.view = Some(Arc::new(View { map, leave_out, mapped: self.range.clone() }));
        Ok(self)
    }

    /// Whether contexts of records of cost 0 were left out, where they are held.
    pub(super) fn leaves_out(&self) -> bool {
        self.is_elsewhere() && self.elsewhere.view.as_ref().is_some_and(|view| view.leave_out)
    }

    /// Parts of at most a chunk, to hold the results of no more; one part if the contexts are held elsewhere.
    pub(crate) fn pieces(&self) -> Vec<Self> {
        if self.is_elsewhere() {
            return vec![self.clone()];
        }
        let start = self.range.start;
        chunks(self.range.clone()).map(|records| self.slice(records.start - start..records.end - start)).collect()
    }

    /// The result of a task for all records; `None` without records.
    pub(crate) fn over<T: Task>(&self, task: &T) -> Result<Option<T::Output>> {
        if self.is_empty() {
            return Ok(None);
        }
        let journal = self.elsewhere.journal.as_ref().filter(|_| T::KEPT);
        if journal.is_none() && !self.is_elsewhere() {
            return self.here(task).map(Some);
        }
        let payload = self.payload(task)?;
        let name = Fingerprint::of_bytes(&[T::NAME.as_bytes(), &payload].concat());
        let kept = journal.and_then(|journal| journal.find(name));
        if let Some(kept) = kept.and_then(|kept| read(task, &kept).ok()) {
            return Ok(Some(kept));
        }
        let done = match &self.elsewhere.holder {
            None => self.here(task)?,
            Some(holder) => self.merged(task, holder.map(T::NAME, self.range.clone(), &payload)?)?,
        };
        if let Some(journal) = journal {
            journal.keep(name, &written(task, &done));
        }
        Ok(Some(done))
    }

    fn payload<T: Task>(&self, task: &T) -> Result<Vec<u8>> {
        let mut out = Writer::default();
        out.counts(&[self.range.start, self.range.end]);
        out.flag(self.elsewhere.view.is_some());
        if let Some(view) = &self.elsewhere.view {
            out.bytes(&view.map);
            out.flag(view.leave_out);
            out.counts(&[view.mapped.start, view.mapped.end]);
        }
        task.write(&mut out)?;
        Ok(out.finish())
    }

    /// The result in this process.
    fn here<T: Task>(&self, task: &T) -> Result<T::Output> {
        let merge = |sum: &mut T::Output, next| task.merge(sum, next);
        tree(spans(&self.range), task.parallel(), &|span| self.span(task, span), &merge)
    }

    /// The sum over the chunks of a span, one after the other.
    fn span<T: Task>(&self, task: &T, span: usize) -> Result<T::Output> {
        let chunks: Vec<Range<usize>> = chunks(within(&self.range, span)).collect();
        let of = |records: &Range<usize>| {
            let first = records.start - self.range.start;
            (self.slice(first..records.end - self.range.start), first)
        };
        let failed = |first: usize| move |error| shifted(error, first);
        let chunk = |records: &Range<usize>| {
            let (logs, first) = of(records);
            task.chunk(&logs).map_err(failed(first))
        };
        let mut sum = None;
        if task.parallel() && chunks.len() > 1 {
            let done: Vec<Result<T::Output>> = chunks.par_iter().map(chunk).collect();
            for next in done {
                match &mut sum {
                    None => sum = Some(next?),
                    Some(sum) => task.merge(sum, next?),
                }
            }
        } else {
            for records in &chunks {
                match &mut sum {
                    None => sum = Some(chunk(records)?),
                    Some(sum) => {
                        let (logs, first) = of(records);
                        task.add(sum, &logs).map_err(failed(first))?;
                    }
                }
            }
        }
        Ok(sum.expect("a span of the records has one"))
    }

    /// The result of all shards.
    fn merged<T: Task>(&self, task: &T, parts: Vec<Part>) -> Result<T::Output> {
        let mut next = self.range.start;
        let mut done = Vec::with_capacity(parts.len());
        for Part { records, result } in parts {
            let own = records.start.max(self.range.start)..records.end.min(self.range.end);
            if own.start != next || own.is_empty() {
                break;
            }
            next = own.end;
            done.push((own, read(task, &result)?));
        }
        if next != self.range.end {
            let expected = format!("results for records {} to {}", self.range.start, self.range.end);
            return Err(Error::Engine(format!("it should return {expected}, but they end at {next}")));
        }
        Ok(join(done, &|sum: &mut T::Output, next| task.merge(sum, next)).expect("there are records"))
    }
}

/// What another process is asked to do with its shard: the records of the round, and the features in place of its contexts.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) records: Range<usize>,
    pub(crate) view: Option<AskedView<'a>>,
}

#[derive(Debug)]
pub(crate) struct AskedView<'a> {
    pub(crate) map: &'a [u8],
    pub(crate) leave_out: bool,
    pub(crate) mapped: Range<usize>,
}

impl<'a> Asked<'a> {
    /// Reads the beginning of a payload.
    pub(crate) fn read(from: &mut Reader<'a>) -> Result<Self> {
        let records = range(from)?;
        let view = match from.flag()? {
            false => None,
            true => Some(AskedView { map: from.bytes()?, leave_out: from.flag()?, mapped: range(from)? }),
        };
        Ok(Asked { records, view })
    }
}

fn range(from: &mut Reader<'_>) -> Result<Range<usize>> {
    match from.counts()?[..] {
        [start, end] if start <= end => Ok(start..end),
        _ => Err(Error::setting("the records of a task", "a range", "not")),
    }
}

/// The result of a task for the records of a shard, as bytes.
pub(crate) fn answered<T: Task>(task: &T, logs: &Logs) -> Result<Vec<u8>> {
    Ok(written(task, &logs.here(task)?))
}

fn written<T: Task>(task: &T, output: &T::Output) -> Vec<u8> {
    let mut out = Writer::default();
    task.write_output(output, &mut out);
    out.finish()
}

fn read<T: Task>(task: &T, bytes: &[u8]) -> Result<T::Output> {
    let mut from = Reader::new(bytes);
    let output = task.read_output(&mut from)?;
    from.end()?;
    Ok(output)
}

/// The error with rows counted from an earlier record.
fn shifted(error: Error, first: usize) -> Error {
    match error {
        Error::Value { row, column, allowed, value } => Error::Value { row: row + first, column, allowed, value },
        error => error,
    }
}

/// A task whose result is one number per record.
pub(crate) mod numbers {
    use super::{Reader, Result, Writer};

    pub(crate) fn write(output: &[f64], out: &mut Writer) {
        out.doubles(output);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Vec<f64>> {
        from.doubles()
    }
}

/// Contexts of some records.
#[derive(Debug)]
pub(crate) struct RowsTask {
    /// Every record at a multiple of it, counted from the first of the logs.
    pub(crate) step: usize,
    /// The first of the logs, counted from the first of the round.
    pub(crate) first: usize,
    /// The first record of the shard, counted in the same way.
    pub(crate) shard: usize,
}

impl Task for RowsTask {
    const NAME: &'static str = "rows";

    type Output = Vec<Contexts>;

    fn write(&self, out: &mut Writer) -> Result<()> {
        out.count(self.step);
        out.count(self.first);
        Ok(())
    }

    fn chunk(&self, logs: &Logs) -> Result<Vec<Contexts>> {
        let before = (self.shard + logs.range.start).saturating_sub(self.first);
        let next = before.next_multiple_of(self.step) - before;
        let rows: Vec<usize> = (next..logs.len()).step_by(self.step).map(|i| logs.row(i)).collect();
        Ok(vec![logs.contexts().select(&rows)])
    }

    fn merge(&self, sum: &mut Vec<Contexts>, next: Vec<Contexts>) {
        sum.extend(next);
    }

    fn write_output(&self, output: &Vec<Contexts>, out: &mut Writer) {
        out.count(output.len());
        output.iter().for_each(|rows| rows.write(out));
    }

    fn read_output(&self, from: &mut Reader<'_>) -> Result<Vec<Contexts>> {
        (0..from.count()?).map(|_| Contexts::read(from)).collect()
    }
}

impl Logs {
    /// The contexts of every `step`-th record, from the first on. They are shared, or copied from where they are held.
    pub(crate) fn rows(&self, step: usize) -> Result<Contexts> {
        if !self.is_elsewhere() {
            return Ok(match step {
                1 => self.contexts.clone(),
                _ => self.contexts.select(&(0..self.len()).step_by(step).collect::<Vec<_>>()),
            });
        }
        let parts = self.over(&RowsTask { step, first: self.range.start, shard: 0 })?.unwrap_or_default();
        Contexts::stacked(&parts)
    }

    /// All contexts; copied from where they are held.
    pub fn gathered(&self) -> Result<Contexts> {
        self.rows(1)
    }
}
