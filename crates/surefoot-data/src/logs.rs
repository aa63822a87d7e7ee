//! LOGS: what the columns of a log file mean.
//!
//! A [`LogReader`] reads one or several files, or a table in memory, batch by batch. It finds the columns by their
//! names: those given in [`ColumnNames`], or else the usual ones. Values are returned unchanged, even invalid ones, so
//! that they can be reported. A [`Check`] rejects records that no policy can have logged.

mod actions;
mod batch;
mod candidates;
mod check;
mod join;
mod long;
mod passes;
mod roles;
mod shards;
mod sources;

pub use actions::Actions;
pub use batch::LogBatch;
pub(crate) use candidates::{Candidates, ID, IDENTITIES, identity_field, takes_places};
pub use check::{Check, Records};
pub use join::Catalogue;
pub use roles::{ActionIs, ColumnNames};
pub(crate) use roles::{COST, Role};
pub(crate) use shards::SHARD;

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use arrow_array::RecordBatch;
use batch::Position;
use long::{Grouped, is_long};
use passes::Passes;
use sources::Source;

use crate::cache::FileEntry;
use crate::error::{Error, Result};
use crate::shards::Engine;
use crate::table::{Format, Labels, Tables, memory, read_object_as, read_table_as};

/// Reads records from one or several files, or from a table in memory.
#[derive(Debug, Clone)]
pub struct LogReader {
    sources: Vec<Source>,
    format: Option<Format>,
    columns: Arc<ColumnNames>,
    /// Whether to return records that the logger asks to skip.
    skipped: bool,
    /// All actions, if the user gave them.
    given: Option<Actions>,
    /// Whether records may have no action, propensity or reward.
    unlabelled: bool,
    /// The features of candidates by identity, if they are not in the records.
    catalogue: Option<Arc<Catalogue>>,
    stop: Stop,
    watch: Watch,
    passes: Arc<Passes>,
    /// If only some rows are read: the number of each file among those of a log, and its rows.
    within: Option<Arc<Vec<Part>>>,
    /// Who computes what other processes can compute.
    engine: Option<Arc<dyn Engine>>,
}

/// A callback that hears how far each pass is, if there is one.
#[derive(Clone, Default)]
struct Watch(Option<Arc<Watched>>);

struct Watched {
    call: Box<Watcher>,
    /// The number of passes that were begun.
    passes: AtomicUsize,
    /// The number of all records; 0 until a pass has read them.
    all: AtomicU64,
}

/// Takes the number of the pass, the number of records that it has read, and the number of all records, if it is known.
type Watcher = dyn Fn(usize, u64, Option<u64>) + Send + Sync;

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch({})", self.0.is_some())
    }
}

/// Some rows of a file, and its number among those of a log.
type Part = (usize, Range<usize>);

/// A callback that is asked before each batch whether to stop, if there is one.
#[derive(Clone, Default)]
struct Stop(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stop({})", self.0.is_some())
    }
}

impl LogReader {
    /// Reads these files in order, as one log. Without `format`, the extension of each file tells its format.
    ///
    /// A folder stands for its files in the order of their names, which must all be of one format; it is listed here,
    /// so that all passes read the same files. A URL (`s3://bucket/key`, also `gs`, `az`, `http` and `https`) is an object
    /// of a store, or a prefix of objects, which is listed like a folder. The path `-` is the standard input, for which
    /// `format` is needed. A file that is compressed with gzip or zstd is read like any other.
    pub fn new(paths: Vec<PathBuf>, format: Option<Format>, columns: ColumnNames) -> Self {
        LogReader { format, ..LogReader::of(sources::of_paths(paths, format), columns) }
    }

    /// Reads a table in memory, such as a data frame, without copying it; `name` is its name in errors.
    pub fn in_memory(name: String, batches: Vec<RecordBatch>, columns: ColumnNames) -> Self {
        LogReader::of(vec![Source::Table(name, batches.into())], columns)
    }

    fn of(sources: Vec<Source>, columns: ColumnNames) -> Self {
        LogReader {
            sources,
            format: None,
            columns: Arc::new(columns),
            skipped: false,
            given: None,
            unlabelled: false,
            catalogue: None,
            stop: Stop::default(),
            watch: Watch::default(),
            passes: Arc::default(),
            within: None,
            engine: None,
        }
    }

    /// Reads some rows of Parquet files: of each path its number among the files of a log, and its rows.
    pub(crate) fn rows_of(paths: Vec<PathBuf>, rows: Vec<Part>, columns: ColumnNames) -> Self {
        let sources = paths.into_iter().map(Source::File).collect();
        LogReader { format: Some(Format::Parquet), within: Some(Arc::new(rows)), ..LogReader::of(sources, columns) }
    }

    /// Checks that other processes can read parts of the files.
    pub(crate) fn check_parts(&self) -> Result<()> {
        let refused = |place: String, found: &str| {
            let reason =
                format!("should be Parquet, with an engine, but is {found}: surefoot convert makes Parquet of it");
            Err(Error::Malformed { place, reason })
        };
        for source in &self.sources {
            match source {
                Source::File(path) => match self.format.map_or_else(|| sources::format(path), Ok)? {
                    Format::Parquet => {}
                    other => return refused(source.place(), other.name()),
                },
                Source::Refused { place, reason } => {
                    return Err(Error::Malformed { place: place.clone(), reason: reason.clone() });
                }
                Source::Table(..) => return refused(source.place(), "a table in memory"),
            }
        }
        match self.catalogue {
            None => Ok(()),
            Some(_) => Err(Error::setting("the catalogue", "absent, with an engine", "given")),
        }
    }

    /// The names of its columns.
    pub(crate) fn columns(&self) -> &ColumnNames {
        &self.columns
    }

    /// The rows that are read of a source, if not all, and its number among the files of the log.
    fn part(&self, source: usize) -> (usize, Option<Range<usize>>) {
        match self.within.as_ref().and_then(|within| within.get(source)) {
            Some((file, rows)) => (*file, Some(rows.clone())),
            None => (source, None),
        }
    }

    /// Asks `stop` before each batch of every pass; if it returns true, the pass ends with [`Error::Stopped`].
    ///
    /// ```
    /// use surefoot_data::{ColumnNames, Error, LogReader};
    ///
    /// let reader = LogReader::new(vec!["logs.csv".into()], None, ColumnNames::default()).stopped_by(|| true);
    /// assert!(matches!(reader.batches().next(), Some(Err(Error::Stopped))));
    /// ```
    #[must_use]
    pub fn stopped_by(mut self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.stop = Stop(Some(Arc::new(stop)));
        self
    }

    /// Tells `watch` after each batch how far a pass is: its number, counted from 0, the number of records that it has read,
    /// and the number of all records, once a pass has read them.
    #[must_use]
    pub fn watched_by(mut self, watch: impl Fn(usize, u64, Option<u64>) + Send + Sync + 'static) -> Self {
        let (passes, all) = (AtomicUsize::new(0), AtomicU64::new(0));
        self.watch = Watch(Some(Arc::new(Watched { call: Box::new(watch), passes, all })));
        self
    }

    /// Sets the actions. Without them they come from records or from a policy. The set of actions must not depend on the
    /// records that something is proven on, so some results need it.
    #[must_use]
    pub fn with_actions(mut self, actions: Option<Actions>) -> Self {
        self.given = actions;
        self
    }

    /// Reads contexts to decide on: records that may have no action, propensity or reward, in every format.
    #[must_use]
    pub fn without_labels(mut self) -> Self {
        self.unlabelled = true;
        self
    }

    /// Joins the features of a catalogue to the candidates of every record, by identity. If records have no candidates,
    /// these are the eligible actions, or all identities of the catalogue.
    #[must_use]
    pub fn with_catalogue(mut self, catalogue: Option<Arc<Catalogue>>) -> Self {
        self.catalogue = catalogue;
        self
    }

    /// Has an engine compute what other processes can compute of an evaluation or a selection.
    #[must_use]
    pub fn with_engine(mut self, engine: Option<Arc<dyn Engine>>) -> Self {
        self.engine = engine;
        self
    }

    /// Who computes what other processes can compute.
    pub(crate) fn engine(&self) -> Option<&dyn Engine> {
        self.engine.as_deref()
    }

    /// All tables, as they are in the files.
    fn tables(&self) -> Result<Tables> {
        let open = |source: &Source| Ok(self.open(source, Labels::Optional)?.0);
        let tables: Vec<Tables> = self.sources.iter().map(open).collect::<Result<_>>()?;
        Ok(Box::new(tables.into_iter().flatten()))
    }

    /// The tables of a file, and whether they may have different columns.
    fn open(&self, source: &Source, labels: Labels) -> Result<(Tables, bool)> {
        match source {
            Source::File(path) => {
                let format = self.format.map_or_else(|| sources::format(path), Ok)?;
                let opened = self.passes.open(path, format)?;
                let tables = match &opened.object {
                    Some(object) => read_object_as(path, object, format, labels, opened.expanded)?,
                    None => read_table_as(&source.place(), &opened.path, format, labels, opened.expanded)?,
                };
                Ok((tables, format.is_ragged()))
            }
            Source::Refused { place, reason } => Err(Error::Malformed { place: place.clone(), reason: reason.clone() }),
            Source::Table(name, batches) => Ok((memory::read(name, batches.clone()), false)),
        }
    }

    /// The actions that the user gave.
    pub(crate) fn given_actions(&self) -> Option<&Actions> {
        self.given.as_ref()
    }

    /// The field of candidates that the user named as their identity.
    pub(crate) fn identity(&self) -> Option<String> {
        self.columns.identity.clone()
    }

    /// The actions as a policy should store them. Actions that are counted from 1 become names, so that nobody later
    /// counts them from 0.
    pub(crate) fn named(&self, actions: &Actions) -> Actions {
        match actions {
            Actions::Count(k) if self.columns.from_one => Actions::Names((1..=*k).map(|a| a.to_string()).collect()),
            actions => actions.clone(),
        }
    }

    /// Also returns the records that the logger asks to skip.
    pub(crate) fn with_skipped(mut self) -> Self {
        self.skipped = true;
        self
    }

    /// Fails if a file is not what it was when it was first opened.
    fn unchanged(&self, source: &Source) -> Result<()> {
        match source {
            Source::File(path) => self.passes.unchanged(path),
            Source::Refused { .. } | Source::Table(..) => Ok(()),
        }
    }

    /// The error if a later pass finds what an earlier one did not.
    pub(crate) fn changed(&self) -> Error {
        let changed = self.sources.iter().find_map(|source| self.unchanged(source).err());
        changed.unwrap_or_else(|| Error::Changed { place: self.place(), how: "its records differ".into() })
    }

    /// The number of bytes of all files. `None` for a table in memory.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let size = |source: &Source| match source {
            Source::File(path) => self.passes.size(path),
            Source::Refused { .. } | Source::Table(..) => None,
        };
        self.sources.iter().map(size).try_fold(0u64, |sum, size| Some(sum.saturating_add(size?)))
    }

    /// What a cache says of all files; `None` if some records come from a pipe or from memory.
    pub(crate) fn entries(&self) -> Result<Option<Vec<FileEntry>>> {
        let entry = |source: &Source| match source {
            Source::File(path) => {
                let format = self.format.map_or_else(|| sources::format(path), Ok)?;
                self.passes.entry(path, format)
            }
            Source::Refused { .. } | Source::Table(..) => Ok(None),
        };
        self.sources.iter().map(entry).collect()
    }

    /// Everything but the files that decides how records are read, as a text.
    pub(crate) fn described(&self) -> String {
        let LogReader { format, columns, skipped, given, unlabelled, catalogue, .. } = self;
        format!("{format:?} {columns:?} {skipped} {given:?} {unlabelled} {}", catalogue.is_some())
    }

    /// Its name in errors: the first file, or the table.
    pub fn place(&self) -> String {
        self.sources.first().map(Source::place).unwrap_or_default()
    }

    /// The batches of all files in order, without the records that the logger asks to skip.
    pub fn batches(&self) -> Batches<'_> {
        Batches {
            reader: self,
            file: 0,
            tables: None,
            start: 0,
            row: 0,
            skipped: 0,
            unlabelled: 0,
            ragged: false,
            columns: Arc::clone(&self.columns),
            candidates: None,
            pass: self.watch.0.as_ref().map_or(0, |watched| watched.passes.fetch_add(1, Relaxed)),
        }
    }
}

impl LogReader {
    /// Works on all batches in order, while a thread reads those that come next.
    pub(crate) fn read_ahead(&self, mut work: impl FnMut(LogBatch) -> Result<()>) -> Result<()> {
        std::thread::scope(|scope| {
            let (to, from) = std::sync::mpsc::sync_channel(AHEAD);
            scope.spawn(move || {
                for batch in self.batches() {
                    if to.send(batch).is_err() {
                        // The work has ended, with an error.
                        break;
                    }
                }
            });
            from.into_iter().try_for_each(|batch| work(batch?))
        })
    }
}

/// The number of batches that are read ahead.
const AHEAD: usize = 2;

/// The batches of a [`LogReader`].
#[expect(missing_debug_implementations, reason = "what reads a table has none")]
pub struct Batches<'a> {
    reader: &'a LogReader,
    /// The index of the current file.
    file: usize,
    tables: Option<Tables>,
    /// The number of rows read from it.
    start: usize,
    /// The number of records returned so far, over all files.
    row: usize,
    skipped: usize,
    unlabelled: usize,
    ragged: bool,
    columns: Arc<ColumnNames>,
    /// Whether the records have candidates, once that is known.
    candidates: Option<bool>,
    /// The number of the pass.
    pass: usize,
}

impl Batches<'_> {
    /// Tells the callback how far the pass is.
    fn tell(&self, ended: bool) {
        if let Some(watched) = &self.reader.watch.0 {
            if ended {
                watched.all.store(self.row as u64, Relaxed);
            }
            let all = watched.all.load(Relaxed);
            (watched.call)(self.pass, self.row as u64, Some(all).filter(|&all| all > 0));
        }
    }

    /// The number of records skipped so far.
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// The number of decisions without a label that were left out so far.
    pub fn unlabelled(&self) -> usize {
        self.unlabelled
    }

    fn open(&mut self, source: &Source) -> Result<Tables> {
        let labels = match self.reader.part(self.file).1 {
            Some(rows) => Labels::RequiredWithin { start: rows.start, end: rows.end },
            None if self.reader.unlabelled => Labels::Optional,
            None => Labels::Required,
        };
        let (tables, ragged) = self.reader.open(source, labels)?;
        self.ragged = ragged;
        let (mut tables, given) = (tables.peekable(), &self.reader.columns);
        self.columns = Arc::clone(given);
        match tables.peek() {
            Some(Ok(table)) if is_long(table, given) => {
                self.columns = Arc::new(Grouped::columns(given));
                Ok(Box::new(Grouped::new(&source.place(), Box::new(tables), given)))
            }
            _ => Ok(Box::new(tables)),
        }
    }

    fn batch(&mut self, source: &Source, table: RecordBatch) -> Result<LogBatch> {
        let rows = table.num_rows();
        let position = Position { file: self.reader.part(self.file).0, start: self.start, row: self.row };
        let mut batch = LogBatch::new(source.place(), position, table, &self.columns, self.ragged)?;
        self.start += rows;
        batch.take_rows();
        batch.leave_out_candidates();
        if let Some(catalogue) = self.reader.catalogue.as_ref().filter(|_| !self.columns.positions) {
            let joined = catalogue.join(&batch)?;
            batch = batch.with_table(joined)?;
        }
        if rows > 0 {
            self.same_kind(&batch)?;
        }
        if !self.reader.skipped {
            batch.leave_out_skipped()?;
        }
        self.skipped += rows - batch.len();
        let labelled = batch.len();
        if !self.reader.unlabelled {
            batch.leave_out_unlabelled()?;
        }
        self.unlabelled += labelled - batch.len();
        self.row += batch.len();
        Ok(batch)
    }

    /// Checks that either all records have candidates or none.
    fn same_kind(&mut self, batch: &LogBatch) -> Result<()> {
        let (found, first) = (batch.has_candidates(), *self.candidates.get_or_insert(batch.has_candidates()));
        if found == first {
            return Ok(());
        }
        let (file, row) = batch.place_of(0);
        let said = |candidates: bool| if candidates { "with features" } else { "without features" };
        Err(Error::Field {
            place: format!("{file}, row {row}"),
            column: "the candidates from this record on".into(),
            allowed: format!("{}, as those before; or their features are ignored (option positions)", said(first)),
            found: said(found).into(),
        })
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<LogBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let source = self.reader.sources.get(self.file)?;
            if self.reader.stop.0.as_ref().is_some_and(|stop| stop()) {
                self.file = self.reader.sources.len();
                return Some(Err(Error::Stopped));
            }
            if self.tables.is_none() {
                match self.open(source) {
                    Ok(tables) => {
                        let first = self.reader.part(self.file).1.map_or(0, |rows| rows.start);
                        (self.tables, self.start) = (Some(tables), first);
                    }
                    Err(error) => {
                        self.file = self.reader.sources.len();
                        return Some(Err(error));
                    }
                }
            }
            match self.tables.as_mut().and_then(Iterator::next) {
                Some(table) => {
                    let batch = table.and_then(|table| self.batch(source, table));
                    match batch {
                        Ok(_) => self.tell(false),
                        Err(_) => self.file = self.reader.sources.len(),
                    }
                    // A file that changes may look malformed.
                    return Some(batch.map_err(|error| match self.reader.unchanged(source) {
                        Err(changed @ Error::Changed { .. }) => changed,
                        _ => error,
                    }));
                }
                None => {
                    if let Err(error) = self.reader.unchanged(source) {
                        self.file = self.reader.sources.len();
                        return Some(Err(error));
                    }
                    (self.tables, self.file) = (None, self.file + 1);
                    if self.file == self.reader.sources.len() {
                        self.tell(true);
                    }
                }
            }
        }
    }
}
