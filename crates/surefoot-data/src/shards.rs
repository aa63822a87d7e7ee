//! SHARDS: rounds whose contexts other processes hold, by an engine such as Ray or Spark.
//!
//! The driver reads the log, and cuts every round into shards: a shard says from which rows of which files its records come,
//! and how they are read and encoded (`Shard`). It is a text, from which any process can make the encoded columns again, at
//! any time (`open.rs`). So workers need no file system in common, and a lost worker or a removed file costs time only.
//!
//! The driver holds the actions, propensities and costs. Learners and certificates ask for the rest shard by shard
//! ([`surefoot::work`]), with an [`Engine`] that has the work done somewhere.

mod cut;
mod open;

pub(crate) use cut::{Columns, Cutter, Shards, encode};
pub(crate) use open::made_by;
pub use open::run;

use std::fmt::Debug;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use surefoot::Fingerprint;
use surefoot::logs::{Holder, Part};

use crate::cache::FileEntry;
use crate::encoding::Encoding;
use crate::error::{Error, Result};
use crate::logs::{Actions, ColumnNames};
use crate::scan::Grouping;

/// Has work done for shards, somewhere.
pub trait Engine: Debug + Send + Sync {
    /// Calls [`run`] with this task and this payload for every shard, in any process, and returns the results in the order of
    /// the shards. Work that was lost may be done again.
    fn map(&self, task: &str, shards: &[&[u8]], payload: &[u8]) -> Result<Vec<Vec<u8>>>;

    /// The number of records per shard, a power of two times [`SPAN`](surefoot::logs::SPAN); `None` for the usual one. No
    /// result depends on it.
    fn records(&self) -> Option<usize> {
        None
    }
}

/// The task that makes the columns of a shard and describes them.
const ENCODE: &str = "encode";

/// The task that removes the files of a shard.
const FORGET: &str = "forget";

/// How the records of a log are read and encoded.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// Another version of the software may encode in another way.
    pub(crate) made_by: String,
    /// The files, as they were when the driver read them.
    pub(crate) files: Vec<FileEntry>,
    pub(crate) columns: ColumnNames,
    pub(crate) grouping: Grouping,
    pub(crate) actions: Actions,
    pub(crate) reward_range: [f64; 2],
    pub(crate) encoding: Encoding,
    /// Where a worker keeps the columns; otherwise in a folder of temporary files.
    pub(crate) cache: Option<PathBuf>,
}

/// Some records of a round, and where they come from.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shard {
    #[serde(serialize_with = "write_plan", deserialize_with = "read_plan")]
    pub(crate) plan: Arc<Plan>,
    /// The name of the round; all records belong to it if it is not given.
    pub(crate) round: Option<String>,
    /// The records of the round.
    pub(crate) records: Range<usize>,
    /// The rows of the files among which they are.
    pub(crate) rows: Vec<FileRows>,
    /// Whether the rows are stored in dense form, once that is known for the round.
    pub(crate) dense: Option<bool>,
}

/// Consecutive rows of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileRows {
    /// The place of the file in the plan.
    pub(crate) file: usize,
    pub(crate) rows: Range<usize>,
}

/// What a worker says of the columns that it has made.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded {
    /// The number of values that are not 0.
    filled: usize,
    /// The fingerprints of the chunks.
    leaves: Vec<Fingerprint>,
}

fn write_plan<S: Serializer>(plan: &Arc<Plan>, out: S) -> std::result::Result<S::Ok, S::Error> {
    plan.as_ref().serialize(out)
}

fn read_plan<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Arc<Plan>, D::Error> {
    Plan::deserialize(from).map(Arc::new)
}

impl Shard {
    fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a shard is plain data")
    }
}

/// The shards of a round, and the engine.
#[derive(Debug)]
struct Held {
    engine: Arc<dyn Engine>,
    /// The records of each shard, and its text.
    shards: Vec<(Range<usize>, Vec<u8>)>,
}

impl Holder for Held {
    fn map(&self, task: &str, records: Range<usize>, payload: &[u8]) -> surefoot::Result<Vec<Part>> {
        let asked = |(own, _): &&(Range<usize>, Vec<u8>)| own.start < records.end && records.start < own.end;
        let some: Vec<&(Range<usize>, Vec<u8>)> = self.shards.iter().filter(asked).collect();
        let texts: Vec<&[u8]> = some.iter().map(|(_, text)| text.as_slice()).collect();
        let results = mapped(self.engine.as_ref(), task, &texts, payload).map_err(|error| match error {
            Error::Core(error) => error,
            Error::Stopped => surefoot::Error::Stopped,
            error => surefoot::Error::Engine(error.to_string()),
        })?;
        let part = |((own, _), result): (&(Range<usize>, Vec<u8>), Vec<u8>)| Part { records: own.clone(), result };
        Ok(some.into_iter().zip(results).map(part).collect())
    }
}

/// The results of an engine, one per shard.
pub(crate) fn mapped(engine: &dyn Engine, task: &str, shards: &[&[u8]], payload: &[u8]) -> Result<Vec<Vec<u8>>> {
    let results = engine.map(task, shards, payload)?;
    match results.len() == shards.len() {
        true => Ok(results),
        false => {
            let text = format!(
                "the engine should return {} results, one per shard, but returned {}",
                shards.len(),
                results.len()
            );
            Err(Error::Core(surefoot::Error::Engine(text)))
        }
    }
}
