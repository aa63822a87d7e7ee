//! Our side of the comparisons.
//!
//! A worker reads its data and prints `{"ready": true}`. Then it does its work once per line `go`, and answers with a
//! line of JSON. So the driver can alternate between two sides in one run.

use std::io::stdin;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use surefoot::learn::State;
use surefoot::logs::Eligible;
use surefoot::policy::{Posterior, Scale};
use surefoot::simulate::{Outcome, Schedule};
use surefoot::worlds::{Environment, LabelBandit, Truth, Turn};
use surefoot::{Contexts, FeatureMap, LinearGaussian, Logs, Policy, simulate};

use crate::folder::{self, Folder, Sizes};
use crate::report::say;
use crate::work::{Result, learner, policy, threads, timed};

/// The paper's settings: the inverse temperature of the first policy, and the probability that a reward is flipped.
const ALPHA: f64 = 0.2;
const NOISE: f64 = 0.2;

fn serve(mut answer: impl FnMut(&str) -> Result<Value>) -> Result<()> {
    say(&json!({"ready": true}).to_string())?;
    for line in stdin().lines() {
        say(&answer(line?.trim())?.to_string())?;
    }
    Ok(())
}

/// A data set as a bandit, and its first policy.
fn world(data: &Path, noise: f64, seed: u64) -> Result<(LabelBandit, LinearGaussian)> {
    let world = LabelBandit::new(&surefoot_data::load(data)?, noise, seed)?;
    let map = FeatureMap::identity(world.logging_split().contexts().features());
    let first = world.first_policy(map, ALPHA)?;
    Ok((world, first))
}

/// Write the inputs of the workers: the contexts and labels of a data set, its first policy and that policy's logs
#[derive(Debug, Args)]
pub(crate) struct Collect {
    /// An `.npz` file, or a folder of idx files
    #[arg(long)]
    data: PathBuf,
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[arg(long)]
    out: PathBuf,
}

/// A policy that always takes the same action.
#[derive(Debug)]
struct Always {
    action: usize,
    actions: usize,
}

impl Policy for Always {
    fn actions(&self) -> usize {
        self.actions
    }

    fn distribution(&self, contexts: &Contexts, _: Option<&Eligible>) -> surefoot::Result<Vec<f64>> {
        let one = (0..self.actions).map(|a| f64::from(u8::from(a == self.action)));
        Ok(one.collect::<Vec<_>>().repeat(contexts.len()))
    }
}

impl Collect {
    pub(crate) fn run(&self) -> Result<()> {
        let (world, first) = world(&self.data, NOISE, self.seed)?;
        let (n, k) = (world.interactions(), world.actions());
        let turn = Turn { round: 0, start: 0, n };
        let logs = world.collect(&first, turn)?;
        let truth = world.truth(0)?;

        // A world does not give labels, but without noise only the right action is rewarded, so every action is tried.
        let honest = LabelBandit::new(&surefoot_data::load(&self.data)?, 0.0, self.seed)?;
        let mut labels = vec![0; n];
        for action in 0..k {
            let guesses = honest.collect(&Always { action, actions: k }, turn)?;
            let right = guesses.cost().iter().zip(&mut labels).filter(|(cost, _)| **cost < 0.0);
            right.for_each(|(_, label)| *label = action as u32);
        }

        let features = logs.contexts().features();
        let folder = Folder::create(&self.out, Sizes { records: n, tests: truth.best().len(), features, actions: k })?;
        folder.write("x.f32", &flat(logs.contexts()), f32::to_le_bytes)?;
        folder.write("label.u32", &labels, u32::to_le_bytes)?;
        folder.write("action.u32", logs.action(), u32::to_le_bytes)?;
        folder.write("propensity.f64", logs.propensity(), f64::to_le_bytes)?;
        folder.write("cost.f64", logs.cost(), f64::to_le_bytes)?;
        folder.write("mean.f64", first.posterior().mean(), f64::to_le_bytes)?;
        folder.write("test_x.f32", &flat(truth.contexts()), f32::to_le_bytes)?;
        folder.write("test_label.u32", truth.best(), u32::to_le_bytes)
    }
}

fn flat(contexts: &Contexts) -> Vec<f32> {
    contexts.to_dense().iter().flat_map(|row| row.values().to_vec()).collect()
}

/// Worker: one epoch of SeqAdjLS over the logs of a folder
#[derive(Debug, Args)]
pub(crate) struct Epoch {
    #[arg(long)]
    data: PathBuf,
    #[arg(long, default_value_t = 1)]
    threads: usize,
    #[arg(long, default_value_t = 128)]
    batch: usize,
}

impl Epoch {
    pub(crate) fn run(&self) -> Result<()> {
        let folder = Folder::open(&self.data)?;
        let Sizes { features, actions, .. } = folder.sizes;
        let logs = Logs::new(
            actions,
            Contexts::dense(folder.read("x.f32", f32::from_le_bytes)?, features)?.compact(),
            folder.read("action.u32", u32::from_le_bytes)?,
            folder.read("propensity.f64", f64::from_le_bytes)?,
            folder.read("cost.f64", f64::from_le_bytes)?,
        )?;
        let state = State::new(policy(actions, folder.read("mean.f64", f64::from_le_bytes)?)?);
        let learner = learner(1, self.batch, 0);
        let pool = threads(self.threads)?;
        serve(|_| {
            let (seconds, learned) = timed(|| pool.install(|| learner.step(&state, &logs)));
            Ok(json!({"seconds": seconds, "objective": learned?.1.trace.objective.last()}))
        })
    }
}

/// Worker: a whole sequential run of SeqAdjLS, 10 rounds of 10 epochs
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// An `.npz` file, or a folder of idx files
    #[arg(long)]
    data: PathBuf,
    #[arg(long, default_value_t = 1)]
    threads: usize,
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[arg(long, default_value_t = 10)]
    rounds: usize,
}

impl Run {
    pub(crate) fn run(&self) -> Result<()> {
        let (world, first) = world(&self.data, NOISE, self.seed)?;
        let sizes = Schedule::Equal(self.rounds).sizes(world.interactions())?;
        let learner = learner(10, 128, self.seed);
        let pool = threads(self.threads)?;
        serve(|_| {
            pool.install(|| {
                let Outcome { session, rounds, .. } =
                    simulate(&world, first.clone(), &learner.clone().into(), &sizes, |_| ())?;
                // The simulation computes the truth after every round, which no learner can; only one evaluation is
                // counted.
                let truth = world.truth(sizes.len())?;
                let (evaluation, found) = timed(|| truth.evaluate(session.newest()));
                let (risk, accuracy) = found?;
                let seconds = rounds.iter().map(|round| round.seconds).sum::<f64>() + evaluation;
                Ok(json!({"seconds": seconds, "risk": risk, "accuracy": accuracy}))
            })
        })
    }
}

/// Worker: the probabilities of all actions in the first contexts of a folder; on `values` it writes them to a file
#[derive(Debug, Args)]
pub(crate) struct Propensities {
    #[arg(long)]
    data: PathBuf,
    #[arg(long, default_value_t = 1)]
    threads: usize,
    #[arg(long, default_value_t = 2048)]
    contexts: usize,
    /// The file for `values`
    #[arg(long)]
    out: PathBuf,
}

impl Propensities {
    pub(crate) fn run(&self) -> Result<()> {
        let folder = Folder::open(&self.data)?;
        let Sizes { features, actions, records, .. } = folder.sizes;
        let n = self.contexts.min(records);
        let contexts = Contexts::dense(folder.read("x.f32", f32::from_le_bytes)?, features)?.slice(0..n);
        let policy = policy(actions, folder.read("mean.f64", f64::from_le_bytes)?)?;
        let pool = threads(self.threads)?;
        serve(|line| {
            let (seconds, p) = timed(|| pool.install(|| policy.distribution(&contexts, None)));
            if line == "values" {
                folder::write(&self.out, &p?, f64::to_le_bytes)?;
            }
            Ok(json!({"seconds": seconds, "contexts": n}))
        })
    }
}

/// The exact risk of a policy that a rival learned, on the test split of a folder
#[derive(Debug, Args)]
pub(crate) struct Risk {
    #[arg(long)]
    data: PathBuf,
    /// A file with the mean, feature-major
    #[arg(long)]
    mean: PathBuf,
    #[arg(long)]
    sigma: f64,
}

impl Risk {
    pub(crate) fn run(&self) -> Result<()> {
        let folder = Folder::open(&self.data)?;
        let Sizes { features, actions, .. } = folder.sizes;
        let contexts = Contexts::dense(folder.read("test_x.f32", f32::from_le_bytes)?, features)?.compact();
        let labels = folder.read("test_label.u32", u32::from_le_bytes)?;
        let truth = Truth::two_values(contexts, actions, labels, NOISE - 1.0, -NOISE)?;
        let mean = folder::read(&self.mean, f64::from_le_bytes)?;
        let posterior = Posterior::new(actions, mean, Scale::Shared(self.sigma))?;
        let policy = LinearGaussian::new(FeatureMap::identity(features), posterior)?;
        let (risk, accuracy) = truth.evaluate(&policy)?;
        say(&json!({"risk": risk, "accuracy": accuracy}).to_string())
    }
}
