//! From settings to a world, a first policy, a learner and the sizes of the rounds.

use rayon::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use surefoot::{
    Adam, Algorithm, Certify, Crm, Dataset, Environment, FeatureMap, Gate, LabelBandit, Lambda, Lbfgs, Learner,
    LinearGaussian, Optimiser, Outcome, Plan, Schedule, Shape, Sharpness, SimulatedRound, Spending, Synthetic,
    SyntheticSettings, Terms, Truth, Window,
};

use crate::failure::{Failure, Result};
use crate::options::Config;
use crate::{progress, sets};

/// Everything that a run needs.
#[derive(Debug)]
pub(crate) struct Experiment {
    world: World,
    first: LinearGaussian,
    plan: Plan,
    sizes: Vec<usize>,
}

/// A world that can be simulated.
#[derive(Debug)]
enum World {
    Labels(LabelBandit),
    Synthetic(Synthetic),
}

/// Interactions in a synthetic world, unless told otherwise.
const SYNTHETIC_INTERACTIONS: usize = 10_000;

/// The most: they are held in memory.
const MOST_INTERACTIONS: usize = 10_000_000;

impl World {
    fn environment(&self) -> &dyn Environment {
        match self {
            World::Labels(labels) => labels,
            World::Synthetic(synthetic) => synthetic,
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
    pub(crate) fn new(config: &Config, dataset: Option<&Dataset>) -> Result<Self> {
        let world = match dataset {
            Some(data) => World::Labels(LabelBandit::new(data, config.noise, config.seed)?),
            None => {
                let base = match config.dataset.as_str() {
                    "drift" => SyntheticSettings { drift: config.drift.to_radians(), ..SyntheticSettings::drifting() },
                    _ => SyntheticSettings::default(),
                };
                World::Synthetic(Synthetic::new(SyntheticSettings {
                    actions: config.actions,
                    features: config.dimensions,
                    margin: config.margin,
                    ambiguous: config.ambiguous,
                    seed: config.seed,
                    ..base
                })?)
            }
        };
        let first = match &world {
            World::Labels(labels) => {
                let map = feature_map(config, labels.logging_split().contexts())?;
                labels.first_policy(map, config.alpha)?
            }
            World::Synthetic(synthetic) => {
                let map = feature_map(config, &synthetic.known_contexts()?)?;
                synthetic.first_policy(map, config.alpha)?
            }
        };
        let available = match &world {
            World::Labels(labels) => labels.interactions(),
            World::Synthetic(_) if config.interactions == 0 => SYNTHETIC_INTERACTIONS,
            World::Synthetic(_) => config.interactions.min(MOST_INTERACTIONS),
        };
        if config.interactions > available {
            let message = format!("interactions should be at most {available}, but is {}", config.interactions);
            let hint = match world {
                World::Labels(_) => "each record of a data set is met once; 0 takes them all",
                World::Synthetic(_) => "all interactions are held in memory",
            };
            return Err(Failure::new(message).hint(hint));
        }
        let total = if config.interactions == 0 { available } else { config.interactions };
        let sizes = schedule(config)?.sizes(total)?;
        Ok(Experiment {
            first: first.with_exploration(config.exploration)?,
            plan: Plan {
                learner: learner(config, sizes.len())?,
                gate: gate(&config.gate)?,
                certify: if config.certify { Certify::Each } else { Certify::Never },
            },
            sizes,
            world,
        })
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

    /// Runs the loop.
    pub(crate) fn run(&self, on_round: impl FnMut(&SimulatedRound)) -> Result<Outcome> {
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
#[derive(Debug, Clone, Copy, Serialize)]
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

fn feature_map(config: &Config, known: &surefoot::Contexts) -> Result<FeatureMap> {
    let input = known.features();
    let parts: Vec<&str> = config.features.split(':').collect();
    let bad = || {
        unknown("features", &config.features, "raw, rff:NUMBER or rff:NUMBER:BANDWIDTH")
            .hint("for example --features rff:1500")
    };
    let map = match parts[..] {
        ["raw"] => FeatureMap::identity(input),
        ["rff", count] => {
            let count = count.parse().map_err(|_| bad())?;
            FeatureMap::fourier(input, count, FeatureMap::rule_of_thumb(known), config.seed)?
        }
        ["rff", count, bandwidth] => {
            let (count, bandwidth) = (count.parse().map_err(|_| bad())?, bandwidth.parse().map_err(|_| bad())?);
            FeatureMap::fourier(input, count, bandwidth, config.seed)?
        }
        _ => return Err(bad()),
    };
    Ok(if config.intercept { map.with_intercept() } else { map })
}

fn lambda(text: &str) -> Result<Lambda> {
    let allowed =
        "auto, auto-once, a number, 1/sqrt(m), theorem-4.4:ALPHA:GAMMA or corollary-4.5:ALPHA:GAMMA:BETA1:BETA2";
    let bad = || unknown("lambda", text, allowed);
    let number = |text: &str| text.parse::<f64>().map_err(|_| bad());
    let parts: Vec<&str> = text.split(':').collect();
    Ok(match parts[..] {
        ["auto"] => Lambda::Auto,
        ["auto-once"] => Lambda::Once,
        ["1/sqrt(m)"] => Lambda::InverseSqrt,
        ["theorem-4.4", alpha, gamma] => Lambda::Rate { alpha: number(alpha)?, gamma: number(gamma)? },
        ["corollary-4.5", alpha, gamma, beta1, beta2] => Lambda::VaryingRate {
            alpha: number(alpha)?,
            gamma: number(gamma)?,
            beta1: number(beta1)?,
            beta2: number(beta2)?,
        },
        [value] => Lambda::Fixed(number(value)?),
        _ => return Err(bad()),
    })
}

/// The rule of a gate.
fn gate(text: &str) -> Result<Gate> {
    let bad = || {
        unknown("gate", text, "always, improvement, non-inferiority:MARGIN or certified-risk")
            .hint("for example --gate non-inferiority:0.01")
    };
    Ok(match text.split(':').collect::<Vec<_>>()[..] {
        ["always"] => Gate::Always,
        ["improvement"] => Gate::Improvement,
        ["non-inferiority", margin] => Gate::NonInferiority { margin: margin.parse().map_err(|_| bad())? },
        ["certified-risk"] => Gate::CertifiedRisk,
        _ => return Err(bad()),
    })
}

/// What is held back: by default a round where candidates are compared by what it says of them.
fn held_back(config: &Config, algorithm: Algorithm) -> Result<f64> {
    match config.held_back.0.as_str() {
        "auto"
            if (["auto", "auto-once"].contains(&config.lambda.0.as_str()) && algorithm.smooths())
                || config.gate != "always" =>
        {
            Ok(1.0)
        }
        "auto" => Ok(0.0),
        share => share.parse().map_err(|_| unknown("held-back", share, "auto or a number of rounds")),
    }
}

fn learner(config: &Config, rounds: usize) -> Result<Learner> {
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
    let shape = match config.posterior.as_str() {
        "isotropic" => Shape::Isotropic,
        "per-feature" => Shape::PerFeature,
        "shaped" => Shape::Principal,
        name => return Err(unknown("posterior", name, "isotropic, per-feature or shaped")),
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
    Ok(Learner {
        algorithm,
        lambda: lambda(&config.lambda.0)?,
        sharpness: match config.sharpness.0.as_str() {
            "auto" => Sharpness::Auto,
            number => {
                Sharpness::Fixed(number.parse().map_err(|_| unknown("sharpness", number, "auto or a number above 0"))?)
            }
        },
        shape,
        start: named("start", &config.start, "warm or anchor")?,
        precision: named("precision", &config.precision, "single or double")?,
        optimiser,
        held_back: held_back(config, algorithm)?,
        trade: config.trade,
        terms: Terms {
            delta: config.delta,
            spending: match config.spending.as_str() {
                "forever" => Spending::Forever,
                "even" => Spending::Even { rounds },
                name => return Err(unknown("spending", name, "forever or even")),
            },
            ..Terms::default()
        },
        seed: config.seed,
        ..Learner::default()
    })
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
