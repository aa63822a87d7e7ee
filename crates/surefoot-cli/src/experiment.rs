//! From settings to a world, a first policy, a learner and the sizes of the rounds.

use std::sync::Arc;

use rayon::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use surefoot::certificate::Spending;
use surefoot::learn::{Crm, Window};
use surefoot::optim::{Adam, Lbfgs, Optimiser};
use surefoot::simulate::{Certify, Outcome, Plan, Schedule, SimulatedRound};
use surefoot::worlds::{Dataset, Environment, LabelBandit, Synthetic, SyntheticSettings, Truth};
use surefoot::{Algorithm, Contexts, FeatureMap, Gate, Learner, LinearGaussian, Protocol};
use surefoot_terminal::{Failure, Result, progress};

use crate::options::Config;
use crate::sets;

/// Everything that a run needs.
#[derive(Debug)]
pub(crate) struct Experiment {
    world: Arc<World>,
    first: LinearGaussian,
    plan: Plan,
    sizes: Vec<usize>,
}

/// A world that can be simulated, and what policies make of its contexts.
#[derive(Debug)]
pub(crate) struct World {
    place: Place,
    features: FeatureMap,
}

#[derive(Debug)]
enum Place {
    Labels(Box<LabelBandit>),
    Synthetic(Synthetic),
}

/// Interactions in a synthetic world, unless told otherwise.
const SYNTHETIC_INTERACTIONS: usize = 10_000;

/// The most: they are held in memory.
const MOST_INTERACTIONS: usize = 10_000_000;

impl World {
    /// The world of a configuration. Features of a data set are made here, once, and not by every policy anew whenever it
    /// is asked.
    pub(crate) fn new(config: &Config, dataset: Option<&Dataset>) -> Result<Self> {
        let world = World::unmapped(config, dataset)?;
        Ok(match world.place {
            Place::Labels(labels) if !world.features.is_identity() => World {
                place: Place::Labels(Box::new(labels.with_features(&world.features)?)),
                features: FeatureMap::identity(world.features.output()),
            },
            _ => world,
        })
    }

    /// The same, whose contexts stay as they are: policies make the features, and can be saved with them.
    pub(crate) fn unmapped(config: &Config, dataset: Option<&Dataset>) -> Result<Self> {
        let (place, known) = match dataset {
            Some(data) => {
                let labels = LabelBandit::new(data, config.noise, config.seed)?;
                let known = labels.logging_split().contexts().clone();
                (Place::Labels(Box::new(labels)), known)
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
        }
    }

    fn first_policy(&self, alpha: f64) -> Result<LinearGaussian> {
        let features = self.features.clone();
        Ok(match &self.place {
            Place::Labels(labels) => labels.first_policy(features, alpha)?,
            Place::Synthetic(synthetic) => synthetic.first_policy(features, alpha)?,
        })
    }

    /// How many interactions a configuration asks for.
    fn interactions(&self, config: &Config) -> Result<usize> {
        let (available, hint) = match &self.place {
            Place::Labels(labels) => (labels.interactions(), "each record of a data set is met once; 0 takes them all"),
            Place::Synthetic(_) if config.interactions == 0 => return Ok(SYNTHETIC_INTERACTIONS),
            Place::Synthetic(_) => (MOST_INTERACTIONS, "all interactions are held in memory"),
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

/// The data set of a configuration, with unit rows so that all seeds share it; synthetic worlds have none.
pub(crate) fn dataset(config: &Config) -> Result<Option<Dataset>> {
    let data = match config.dataset.as_str() {
        "synthetic" | "drift" => return Ok(None),
        name => sets::load(name, &sets::folder())?,
    };
    Ok(Some(data.unit_rows()))
}

impl Experiment {
    /// In a world of its own.
    pub(crate) fn new(config: &Config, dataset: Option<&Dataset>) -> Result<Self> {
        Experiment::in_world(config, Arc::new(World::new(config, dataset)?))
    }

    /// In a world that others may share: those whose configurations have the same data, noise, seed and features.
    pub(crate) fn in_world(config: &Config, world: Arc<World>) -> Result<Self> {
        let first = world.first_policy(config.alpha)?.with_exploration(config.exploration)?;
        let sizes = schedule(config)?.sizes(world.interactions(config)?)?;
        let certify = if config.certify { Certify::Each } else { Certify::Never };
        let plan = Plan { learner: learner(config, sizes.len())?, gate: gate(&config.gate)?, certify };
        Ok(Experiment { world, first, plan, sizes })
    }

    /// The number of rounds.
    pub(crate) fn rounds(&self) -> usize {
        self.sizes.len()
    }

    /// What is known about the world before the first round, and the first policy there.
    pub(crate) fn beginning(&self) -> Result<Beginning> {
        let truth = self.truth(0)?;
        let (true_risk, accuracy) = truth.evaluate(&self.first)?;
        Ok(Beginning { true_risk, accuracy, optimal_risk: truth.optimal_risk() })
    }

    /// What is known about the world at a round.
    pub(crate) fn truth(&self, round: usize) -> Result<Truth> {
        Ok(self.world.environment().truth(round)?)
    }

    /// The same, with certificates for other rounds than the settings ask for.
    pub(crate) fn certifying(mut self, certify: Certify) -> Self {
        self.plan.certify = certify;
        self
    }

    /// Runs the loop.
    pub(crate) fn run(&self, on_round: impl FnMut(&SimulatedRound) + Send) -> Result<Outcome> {
        let environment = self.world.environment();
        Ok(surefoot::simulate(environment, self.first.clone(), &self.plan, &self.sizes, on_round)?)
    }
}

/// Runs each configuration with so many seeds, from its own on; returns what `run` makes of each experiment and its
/// outcome.
pub(crate) fn over_seeds<T: Send>(
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
pub(crate) struct Beginning {
    pub(crate) true_risk: f64,
    pub(crate) accuracy: f64,
    pub(crate) optimal_risk: f64,
}

/// A setting that does not say one of the things it can say.
fn unknown(flag: &str, value: &str, allowed: &str) -> Failure {
    Failure::new(format!("{flag} should be {allowed}, but is {value}"))
}

/// A value of an enum of the core, by its name; a file may say anything.
fn named<T: DeserializeOwned>(flag: &str, value: &str, allowed: &str) -> Result<T> {
    serde_json::from_value(serde_json::Value::String(value.to_owned())).map_err(|_| unknown(flag, value, allowed))
}

fn feature_map(config: &Config, known: &Contexts) -> Result<FeatureMap> {
    let example = "for example --features rff:1500, or --features kernel:500";
    let map = FeatureMap::named(&config.features, known, config.seed).map_err(|e| match &e {
        surefoot::Error::Setting { name, .. } if name == "features" => Failure::from(e).hint(example),
        _ => Failure::from(e),
    })?;
    Ok(if config.intercept { map.with_intercept() } else { map })
}

/// The learner of a configuration.
pub(crate) fn learner(config: &Config, rounds: usize) -> Result<Learner> {
    let crm = Crm {
        gamma: match config.crm_weights.0.as_str() {
            "self-normalised" => None,
            gamma => {
                let bad = || unknown("crm-weights", gamma, "a number or self-normalised");
                Some(gamma.parse().map_err(|_| bad())?)
            }
        },
        penalty: config.crm_penalty,
        divergence: config.crm_divergence,
        learn_scale: !config.crm_fixed_scale,
        window: named::<Window>("crm-window", &config.crm_window, "newest or all")?,
    };
    let algorithm = match config.algorithm.as_str() {
        "crm" => Algorithm::Crm(crm),
        "scrm" => Algorithm::Scrm(crm),
        name => {
            let allowed = "batch-ls, seq-ls, seq-adj-ls, shift-ls, shift-adj-ls, crm or scrm";
            named("algorithm", name, allowed)?
        }
    };
    let optimiser = match config.optimiser.as_str() {
        "adam" => {
            let adam = Adam {
                learning_rate: config.learning_rate,
                decay: named("decay", &config.decay, "none, linear or cosine")?,
                epochs: config.epochs,
                batch_size: config.batch_size,
                ..Adam::default()
            };
            Optimiser::Adam(adam)
        }
        "lbfgs" => Optimiser::Lbfgs(Lbfgs { iterations: config.iterations, ..Lbfgs::default() }),
        name => return Err(unknown("optimiser", name, "adam or lbfgs")),
    };
    let learner = Learner {
        algorithm,
        lambda: config.lambda.0.parse()?,
        sharpness: config.sharpness.0.parse()?,
        family: config.posterior.parse()?,
        start: named("start", &config.start, "warm or anchor")?,
        precision: named("precision", &config.precision, "single or double")?,
        optimiser,
        trade: config.trade,
        protocol: Protocol {
            delta: config.delta,
            spending: match config.spending.as_str() {
                "forever" => Spending::Forever,
                "even" => Spending::Even { rounds },
                name => return Err(unknown("spending", name, "forever or even")),
            },
            ..Protocol::default()
        },
        seed: config.seed,
        ..Learner::default()
    };
    let held_back = match config.held_back.0.as_str() {
        "auto" => learner.usually_held_back(gate(&config.gate)?),
        rounds => rounds.parse().map_err(|_| unknown("held-back", rounds, "auto or a number of rounds"))?,
    };
    Ok(Learner { held_back, ..learner })
}

/// The rule of a gate.
fn gate(text: &str) -> Result<Gate> {
    text.parse().map_err(|e| Failure::from(e).hint("for example --gate non-inferiority:0.01"))
}

fn schedule(config: &Config) -> Result<Schedule> {
    let doubling = config.algorithm == "scrm";
    Ok(match config.schedule.as_str() {
        "auto" if doubling => Schedule::Doubling(config.rounds),
        "auto" | "equal" => Schedule::Equal(config.rounds),
        "doubling" => Schedule::Doubling(config.rounds),
        list => {
            let bad = || unknown("schedule", list, "auto, equal, doubling, or a list of sizes such as 100,200,400");
            let sizes = list.split(',').map(|n| n.trim().parse().map_err(|_| bad()));
            Schedule::Sizes(sizes.collect::<Result<_>>()?)
        }
    })
}
