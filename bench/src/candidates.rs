//! The time of learning from candidates with features: of reading, of the reward model, and of the search.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use surefoot::learn::{Algorithm, Lambda, State};
use surefoot::model::JointModel;
use surefoot::optim::{Lbfgs, Optimiser};
use surefoot::policy::{Posterior, Scale};
use surefoot::{FeatureMap, Learner, LinearGaussian, Logs};
use surefoot_data::{ColumnNames, EncodingSettings, LogReader, ReadRequest, Rounds};

use crate::report::say;
use crate::work::{Result, threads};

/// Time learning from a log whose candidates have features; candidates/speed.py compares
#[derive(Debug, Args)]
pub(crate) struct Candidates {
    /// The log
    logs: PathBuf,
    #[arg(long, default_value_t = 8)]
    hash_bits: u32,
    #[arg(long, default_value_t = 18)]
    cross_bits: u8,
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

/// The processor seconds of this process so far (Linux only): other processes do not count.
fn processor_seconds() -> Result<f64> {
    const TICKS: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat")?;
    // The name of the process, in parentheses, may contain spaces.
    let fields = text.rsplit_once(')').ok_or("/proc/self/stat has no name")?.1.split_whitespace();
    let ticks = fields.skip(11).take(2).map(str::parse::<f64>).sum::<std::result::Result<f64, _>>()?;
    Ok(ticks / TICKS)
}

/// Runs some work, and returns its processor seconds and its result.
fn timed<T>(work: impl FnOnce() -> T) -> Result<(f64, T)> {
    let start = processor_seconds()?;
    let out = work();
    Ok((processor_seconds()? - start, out))
}

impl Candidates {
    pub(crate) fn run(self) -> Result<()> {
        threads(self.threads)?.install(|| self.measure())
    }

    fn measure(self) -> Result<()> {
        let reader = LogReader::new(vec![self.logs], None, ColumnNames::default());
        let encoding =
            EncodingSettings { hash_bits: self.hash_bits, cross_bits: self.cross_bits, ..EncodingSettings::default() };
        let (reading, read) =
            timed(|| Rounds::read(&reader, &ReadRequest { encoding, ..ReadRequest::default() }, None))?;
        let read = read?;
        let joint = read.joint.ok_or("the log has no candidates with features")?;
        let (map, actions) = (FeatureMap::identity(read.encoding.width()), read.actions.len());
        let rounds: Vec<Arc<Logs>> = read.rounds.into_iter().map(Arc::new).collect();
        let (fitting, model) = timed(|| JointModel::fit(&map, &joint, &rounds))?;
        let passes = model?.passes();
        let weights = joint.output();
        let hashed = joint.is_hashed();
        let posterior = Posterior::over_candidates(vec![0.0; weights], Scale::Shared(1.0))?;
        let first = LinearGaussian::over_candidates(map, joint, actions, posterior)?;
        let learner = Learner {
            algorithm: Algorithm::SeqAdjLs,
            lambda: Lambda::Fixed(0.9),
            optimiser: Optimiser::Lbfgs(Lbfgs { iterations: 3, ..Lbfgs::default() }),
            ..Learner::default()
        };
        let (searching, step) = timed(|| learner.step(&State::new(first), &rounds[0]))?;
        let evaluations = step?.1.trace.evaluations;
        say(&json!({
            "records": rounds.iter().map(|logs| logs.len()).sum::<usize>(),
            "weights": weights,
            "hashed": hashed,
            "reading": reading,
            "model": {"seconds": fitting, "passes": passes},
            "search": {"seconds": searching, "passes": evaluations},
        })
        .to_string())
    }
}
