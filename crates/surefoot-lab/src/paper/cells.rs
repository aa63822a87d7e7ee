//! CELLS: a cell is one run of a method on a set with a seed. Finished cells are stored in a file.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use surefoot::simulate::{Outcome, SimulatedRound};
use surefoot_terminal::{Failure, Result};

use super::methods::Method;
use super::sets::Set;
use crate::experiment::Beginning;
use crate::options::Config;

/// One run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cell {
    pub(super) set: Set,
    pub(super) alpha: f64,
    pub(super) rounds: usize,
    pub(super) method: Method,
    pub(super) seed: u64,
}

/// The result of a cell. `data` and `config` determine it completely.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The version of Surefoot, and the generation of the results.
    pub(super) version: String,
    pub(super) generation: u32,
    /// The fingerprint of the data set's files.
    pub(super) data: String,
    /// All settings, including the seed.
    pub(super) config: serde_json::Value,
    pub(super) initial: Beginning,
    pub(super) rounds: Vec<RoundRecord>,
    /// The mean reward of all interactions.
    pub(super) mean_reward: f64,
    pub(super) seconds: f64,
}

/// Increased whenever the same settings give other results, so that older cells are ignored.
const GENERATION: u32 = 1;

/// One round of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RoundRecord {
    pub(super) n: usize,
    /// The expected cost, with the noise of the rewards.
    pub(super) true_risk: f64,
    /// `E pi(y|x)`; the paper calls its negative the risk.
    pub(super) accuracy: f64,
    /// The certified bound on `true_risk`: the best rung of the ladder.
    pub(super) certified: Option<f64>,
    /// The bound by Theorem 3.2 with the first policy as prior.
    pub(super) certified_first_prior: Option<f64>,
    pub(super) lambda: f64,
    pub(super) sharpness: f64,
}

impl RoundRecord {
    fn new(round: &SimulatedRound) -> Self {
        let proven = round.proven.as_ref();
        RoundRecord {
            n: round.learned.n,
            true_risk: round.true_risk,
            accuracy: round.accuracy,
            certified: proven.and_then(|proven| proven.ladder.as_ref()).map(|ladder| ladder.upper),
            certified_first_prior: proven.and_then(|proven| proven.certificate.as_ref()).map(|c| c.upper),
            lambda: round.learned.lambda,
            sharpness: round.learned.sharpness,
        }
    }
}

impl Record {
    pub(super) fn new(data: &str, config: &Config, initial: Beginning, outcome: &Outcome) -> Result<Self> {
        Ok(Record {
            version: env!("CARGO_PKG_VERSION").into(),
            generation: GENERATION,
            data: data.into(),
            config: serde_json::to_value(config).map_err(Failure::new)?,
            initial,
            rounds: outcome.rounds.iter().map(RoundRecord::new).collect(),
            mean_reward: outcome.mean_reward(),
            seconds: outcome.rounds.iter().map(|round| round.seconds).sum(),
        })
    }
}

/// The finished cells, one per line. Each is appended as soon as it is done, so that an interrupted run loses nothing.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    known: HashMap<String, Record>,
    file: Mutex<File>,
}

impl Store {
    /// Opens the file, or creates it. An incomplete last line is dropped. A complete line that cannot be parsed is an
    /// error, because it may contain results.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let text = match fs::read_to_string(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read.map_err(|e| Failure::file(path, "read", e))?,
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let mut known = HashMap::new();
        for (number, line) in whole.lines().enumerate() {
            let record: Record = serde_json::from_str(line).map_err(|e| {
                Failure::new(format!("{}: line {}: not a cell: {e}", path.display(), number + 1))
                    .hint("remove the line, or the file to run everything again")
            })?;
            let rounds = record.rounds.len();
            if record.config["rounds"] != rounds {
                let asked = &record.config["rounds"];
                let place = format!("{}: line {}", path.display(), number + 1);
                return Err(Failure::new(format!("{place}: should have {asked} rounds, but has {rounds}")));
            }
            if record.generation == GENERATION {
                known.insert(key(&record.data, &record.config), record);
            }
        }
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(|e| Failure::file(path, "written", e))?;
        // Two processes that append at once would mix their lines.
        file.try_lock().map_err(|_| {
            Failure::new(format!("{}: another surefoot paper is writing to it", path.display()))
                .hint("wait for it, or choose another --output")
        })?;
        if whole.len() < text.len() {
            file.set_len(whole.len() as u64).map_err(|e| Failure::file(path, "written", e))?;
        }
        Ok(Store { path: path.to_owned(), known, file: Mutex::new(file) })
    }

    /// The result of a configuration on some data, if it has been run.
    pub(super) fn get(&self, data: &str, config: &Config) -> Option<&Record> {
        self.known.get(&key(data, &serde_json::to_value(config).ok()?))
    }

    /// Writes a record at once, whole or not at all. It is known after the next [`open`](Store::open).
    pub(super) fn append(&self, record: &Record) -> Result<()> {
        let line = serde_json::to_string(record).map_err(Failure::new)? + "\n";
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let before = file.metadata().map_err(|e| Failure::file(&self.path, "written", e))?.len();
        file.write_all(line.as_bytes()).and_then(|()| file.flush()).map_err(|e| {
            // The first error is the one to report.
            let _ = file.set_len(before);
            Failure::file(&self.path, "written", e)
        })
    }
}

fn key(data: &str, config: &serde_json::Value) -> String {
    // The keys of a JSON object are sorted, so that equal settings give equal text.
    format!("{data} {config}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    fn record(seed: u64) -> Record {
        let config = Options { seed: Some(seed), rounds: Some(10), ..Options::default() }.complete();
        let round = RoundRecord {
            n: 10,
            true_risk: -0.5,
            accuracy: 1.0 / 3.0,
            certified: None,
            certified_first_prior: Some(-0.1),
            lambda: 0.4,
            sharpness: 1.0,
        };
        Record {
            version: "1".into(),
            generation: GENERATION,
            data: "digits".into(),
            config: serde_json::to_value(&config).unwrap(),
            initial: Beginning { true_risk: -0.2, accuracy: 0.1, optimal_risk: -0.8 },
            rounds: vec![round; 10],
            mean_reward: 0.1 + 0.2,
            seconds: 1.5,
        }
    }

    #[test]
    fn what_is_appended_is_known_again_and_a_cut_line_is_left_out() {
        let path = std::env::temp_dir().join(format!("surefoot-cells-{}.jsonl", std::process::id()));
        let _ = fs::remove_file(&path);
        let store = Store::open(&path).unwrap();
        store.append(&record(1)).unwrap();
        store.append(&record(2)).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        // The third line is cut.
        fs::write(&path, format!("{text}{}", &text[..40])).unwrap();
        let config = |seed| Options { seed: Some(seed), rounds: Some(10), ..Options::default() }.complete();
        assert!(Store::open(&path).unwrap_err().to_string().contains("another surefoot paper"));
        drop(store);
        let store = Store::open(&path).unwrap();
        assert_eq!(store.get("digits", &config(2)), Some(&record(2)));
        assert_eq!((store.get("digits", &config(3)), store.get("other", &config(2))), (None, None));
        store.append(&record(3)).unwrap();
        drop(store);
        assert_eq!(Store::open(&path).unwrap().get("digits", &config(3)), Some(&record(3)));
        // A cell of another generation is ignored.
        fs::write(&path, text.replace("\"generation\":1", "\"generation\":0")).unwrap();
        assert_eq!(Store::open(&path).unwrap().get("digits", &config(1)), None);
        let first = text.lines().next().unwrap();
        for (line, expected) in
            [("{}", "line 1: not a cell"), (&first.replace("\"rounds\":10", "\"rounds\":9"), "should have 9")]
        {
            fs::write(&path, format!("{line}\n")).unwrap();
            let error = Store::open(&path).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        fs::remove_file(&path).unwrap();
    }
}
