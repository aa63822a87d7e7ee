//! Builds a world, a first policy, a learner and the sizes of the rounds from settings.

use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use surefoot::learn::LearnerSettings;
use surefoot::simulate::{Certify, Outcome, Plan, Schedule, SimulatedRound};
use surefoot::worlds::{
    Articles, ArticlesSettings, Dataset, Environment, LabelBandit, Synthetic, SyntheticSettings, Truth,
};
use surefoot::{Contexts, FeatureMap, LinearGaussian};
use surefoot_terminal::{Failure, Result, progress};

use crate::options::Config;
use crate::sets;

/// The parts of a run.
#[derive(Debug)]
pub struct Experiment {
    world: Arc<World>,
    first: LinearGaussian,
    plan: Plan,
    sizes: Vec<usize>,
}

/// A world that can be simulated, and the feature map of its policies.
#[derive(Debug)]
pub struct World {
    place: Place,
    features: FeatureMap,
}

#[derive(Debug)]
enum Place {
    Labels(Box<LabelBandit>),
    Synthetic(Synthetic),
    Articles(Articles),
}

/// The number of requests after which `changing-articles` replaces all articles.
const REPLACED_AFTER: usize = 2000;

/// The default number of interactions in a synthetic world.
const SYNTHETIC_INTERACTIONS: usize = 10_000;

/// The largest number of interactions; all are held in memory.
const MOST_INTERACTIONS: usize = 10_000_000;

impl World {
    /// The world of a configuration. Features of a data set are computed here once, and not by every policy at every
    /// call; but a portfolio makes features of its own from the raw contexts.
    pub(crate) fn new(config: &Config, dataset: Option<&Dataset>) -> Result<Self> {
        let world = World::unmapped(config, dataset)?;
        let once = config.algorithm != "portfolio" && !world.features.is_identity();
        Ok(match world.place {
            Place::Labels(labels) if once => World {
                place: Place::Labels(Box::new(labels.with_features(&world.features)?)),
                features: FeatureMap::identity(world.features.output()),
            },
            _ => world,
        })
    }

    /// Like `new`, with raw contexts: policies compute the features, and can be saved with them.
    pub fn unmapped(config: &Config, dataset: Option<&Dataset>) -> Result<Self> {
        let (place, known) = match dataset {
            Some(data) => {
                let labels = LabelBandit::new(data, config.noise, config.seed)?;
                let known = labels.logging_split().contexts().clone();
                (Place::Labels(Box::new(labels)), known)
            }
            None if config.dataset.ends_with("articles") => {
                if config.features != "raw" {
                    let message = format!("features should be raw for articles, but is {}", config.features);
                    return Err(Failure::new(message).hint("features of users are crossed with those of articles"));
                }
                let replaced_after = if config.dataset == "articles" { 0 } else { REPLACED_AFTER };
                let seed = config.seed;
                let articles = Articles::new(ArticlesSettings { replaced_after, seed, ..ArticlesSettings::default() })?;
                let features = FeatureMap::identity(articles.settings().features);
                return Ok(World { place: Place::Articles(articles), features });
            }
            None => {
                let base = match config.dataset.as_str() {
                    "drift" => SyntheticSettings { drift: config.drift.to_radians(), ..SyntheticSettings::drifting() },
                    _ => SyntheticSettings::default(),
                };
                let synthetic = Synthetic::new(SyntheticSettings {
                    actions: config.actions,
                    features: config.dimensions,
                    margin: config.margin,
                    ambiguous: config.ambiguous,
                    seed: config.seed,
                    ..base
                })?;
                let known = synthetic.known_contexts()?;
                (Place::Synthetic(synthetic), known)
            }
        };
        Ok(World { features: feature_map(config, &known)?, place })
    }

    fn environment(&self) -> &dyn Environment {
        match &self.place {
            Place::Labels(labels) => labels.as_ref(),
            Place::Synthetic(synthetic) => synthetic,
            Place::Articles(articles) => articles,
        }
    }

    fn first_policy(&self, alpha: f64) -> Result<LinearGaussian> {
        let features = self.features.clone();
        Ok(match &self.place {
            Place::Labels(labels) => labels.first_policy(features, alpha)?,
            Place::Synthetic(synthetic) => synthetic.first_policy(features, alpha)?,
            // It prefers no candidate, whatever alpha is.
            Place::Articles(articles) => articles.first_policy()?,
        })
    }

    /// The number of interactions of a configuration.
    fn interactions(&self, config: &Config) -> Result<usize> {
        let (available, hint) = match &self.place {
            Place::Labels(labels) => (labels.interactions(), "each record of a data set is met once; 0 takes them all"),
            Place::Synthetic(_) | Place::Articles(_) if config.interactions == 0 => return Ok(SYNTHETIC_INTERACTIONS),
            Place::Synthetic(_) | Place::Articles(_) => (MOST_INTERACTIONS, "all interactions are held in memory"),
        };
        match config.interactions {
            0 => Ok(available),
            wanted if wanted <= available => Ok(wanted),
            wanted => {
                let message = format!("interactions should be at most {available}, but is {wanted}");
                Err(Failure::new(message).hint(hint))
            }
        }
    }
}

/// The data set of a configuration, with rows of norm 1, so that all seeds share it. Synthetic worlds have none.
pub fn dataset(config: &Config) -> Result<Option<Dataset>> {
    let data = match config.dataset.as_str() {
        "synthetic" | "drift" | "articles" | "changing-articles" => return Ok(None),
        name => sets::load(name, &sets::folder())?,
    };
    Ok(Some(data.unit_rows()))
}

impl Experiment {
    /// An experiment in a world of its own.
    pub fn new(config: &Config, dataset: Option<&Dataset>) -> Result<Self> {
        Experiment::in_world(config, Arc::new(World::new(config, dataset)?))
    }

    /// An experiment in a world that may be shared by all configurations with the same data, noise, seed and features.
    pub fn in_world(config: &Config, world: Arc<World>) -> Result<Self> {
        let first = world.first_policy(config.alpha)?.with_exploration(config.exploration)?;
        let schedule = Schedule::named(&config.schedule, config.rounds, &config.algorithm)?;
        let sizes = schedule.sizes(world.interactions(config)?)?;
        let certify = if config.certify { Certify::Each } else { Certify::Never };
        let (learner, gate) = settings(config, sizes.len()).learner()?;
        let plan = Plan { learner, gate, certify };
        Ok(Experiment { world, first, plan, sizes })
    }

    /// The number of rounds.
    pub fn rounds(&self) -> usize {
        self.sizes.len()
    }

    /// The first policy and the truth of the world, before the first round.
    pub fn beginning(&self) -> Result<Beginning> {
        let truth = self.truth(0)?;
        let (true_risk, accuracy) = truth.evaluate(&self.first)?;
        Ok(Beginning { true_risk, accuracy, optimal_risk: truth.optimal_risk() })
    }

    /// The truth of the world at a round.
    pub(crate) fn truth(&self, round: usize) -> Result<Truth> {
        Ok(self.world.environment().truth(round)?)
    }

    /// The same experiment, with certificates in the given rounds.
    pub(crate) fn certifying(mut self, certify: Certify) -> Self {
        self.plan.certify = certify;
        self
    }

    /// Runs the loop.
    pub fn run(&self, on_round: impl FnMut(&SimulatedRound) + Send) -> Result<Outcome> {
        let environment = self.world.environment();
        Ok(surefoot::simulate(environment, self.first.clone(), &self.plan, &self.sizes, on_round)?)
    }
}

/// Runs each configuration with `seeds` seeds, starting from its own seed. Returns the result of `run` on each
/// experiment and its outcome.
pub fn over_seeds<T: Send>(
    configs: &[Config],
    seeds: u64,
    quiet: bool,
    run: impl Fn(&Config, &Experiment, Outcome) -> Result<T> + Sync,
) -> Result<Vec<Vec<T>>> {
    let data = dataset(&configs[0])?;
    let jobs: Vec<(&Config, u64)> = configs.iter().flat_map(|c| (0..seeds).map(move |s| (c, s))).collect();
    let bar = progress::bar(configs.iter().map(|c| c.rounds * seeds as usize).sum(), quiet);
    let results = jobs.par_iter().map(|&(config, seed)| {
        let config = Config { seed: config.seed.wrapping_add(seed), ..config.clone() };
        let experiment = Experiment::new(&config, data.as_ref())?;
        let outcome = experiment.run(|_| bar.inc(1))?;
        run(&config, &experiment, outcome)
    });
    let results: Result<Vec<T>> = results.collect();
    bar.finish_and_clear();
    let mut results = results?.into_iter();
    Ok(configs.iter().map(|_| results.by_ref().take(seeds as usize).collect()).collect())
}

/// The first policy, before anything is learned.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Beginning {
    /// Its true risk.
    pub true_risk: f64,
    /// The probability that it takes the best action.
    pub accuracy: f64,
    /// The lowest risk of any policy in the world.
    pub optimal_risk: f64,
}

fn feature_map(config: &Config, known: &Contexts) -> Result<FeatureMap> {
    let example = "for example --features rff:1500, or --features kernel:500";
    let map = FeatureMap::named(&config.features, known, config.seed).map_err(|e| match &e {
        surefoot::Error::Setting { name, .. } if name == "features" => Failure::from(e).hint(example),
        _ => Failure::from(e),
    })?;
    Ok(if config.intercept { map.with_intercept() } else { map })
}

/// The settings of the learner in a configuration.
fn settings(config: &Config, rounds: usize) -> LearnerSettings {
    LearnerSettings {
        algorithm: config.algorithm.clone(),
        lambda: config.lambda.0.clone(),
        posterior: config.posterior.clone(),
        sharpness: config.sharpness.0.clone(),
        choice: config.choice.clone(),
        start: config.start.clone(),
        optimiser: config.optimiser.clone(),
        epochs: config.epochs,
        batch_size: config.batch_size,
        learning_rate: config.learning_rate,
        decay: config.decay.clone(),
        precision: config.precision.clone(),
        iterations: config.iterations,
        held_back: config.held_back.0.clone(),
        trade: config.trade,
        delta: config.delta,
        spending: config.spending.clone(),
        rounds: Some(rounds),
        gate: config.gate.clone(),
        seed: config.seed,
        crm_weights: config.crm_weights.0.clone(),
        crm_penalty: config.crm_penalty,
        crm_divergence: config.crm_divergence,
        crm_fixed_scale: config.crm_fixed_scale,
        crm_window: config.crm_window.clone(),
        members: config.members.clone(),
        thompson_v: config.thompson_v.0.clone(),
        hand_over_v: config.hand_over_v,
        // A simulation reports both policies.
        ..LearnerSettings::default()
    }
}
