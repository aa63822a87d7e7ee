//! Worlds in which everything is known.

use std::path::Path;
use std::sync::Arc;

use numpy::PyArray1;
use pyo3::prelude::*;
use surefoot::{
    Contexts, Dataset, Environment, FeatureMap, Finite, LabelBandit, Labelled, LinearGaussian, Synthetic,
    SyntheticSettings, Truth, Turn,
};

use crate::arrays::{Hold, actions, contexts, numbers, slice_of, to_python};
use crate::failure::{Result, setting};
use crate::logs::PyLogs;
use crate::policy::{PyFeatures, PyPolicy};

/// A world in which a policy can be deployed.
#[pyclass(frozen, name = "Environment", module = "surefoot")]
#[derive(Debug, Clone)]
pub(crate) struct PyEnvironment {
    world: World,
    /// What policies make of its contexts.
    features: FeatureMap,
}

#[derive(Debug, Clone)]
enum World {
    Labels(Arc<LabelBandit>),
    Synthetic(Arc<Synthetic>),
    Finite(Arc<Finite>),
}

/// Interactions of a world without an end.
const ENDLESS: usize = 10_000_000;

impl PyEnvironment {
    pub(crate) fn environment(&self) -> &dyn Environment {
        match &self.world {
            World::Labels(world) => world.as_ref(),
            World::Synthetic(world) => world.as_ref(),
            World::Finite(world) => world.as_ref(),
        }
    }

    pub(crate) fn first(&self, alpha: f64, exploration: f64) -> Result<LinearGaussian> {
        let features = self.features.clone();
        let first = match &self.world {
            World::Labels(world) => world.first_policy(features, alpha)?,
            World::Synthetic(world) => world.first_policy(features, alpha)?,
            World::Finite(_) => {
                return Err(setting("the first policy of a finite world", "given", "not"));
            }
        };
        Ok(first.with_exploration(exploration)?)
    }

    /// A bandit of labels, whose features are made once; those of a policy that is to be saved are its own.
    fn labels(data: &Dataset, noise: f64, seed: u64, features: &str, intercept: bool, mapped: bool) -> Result<Self> {
        let world = LabelBandit::new(data, noise, seed)?;
        let map = FeatureMap::named(features, world.logging_split().contexts(), seed)?;
        let map = if intercept { map.with_intercept() } else { map };
        let (world, features) = match mapped && !map.is_identity() {
            true => (world.with_features(&map)?, FeatureMap::identity(map.output())),
            false => (world, map),
        };
        Ok(PyEnvironment { world: World::Labels(Arc::new(world)), features })
    }
}

#[pymethods]
#[expect(non_snake_case, reason = "X, as scikit-learn calls it")]
impl PyEnvironment {
    #[staticmethod]
    #[pyo3(signature = (name, *, noise = 0.2, seed = 1, features = "raw", intercept = false, premade = true))]
    fn dataset(
        py: Python<'_>,
        name: &str,
        noise: f64,
        seed: u64,
        features: &str,
        intercept: bool,
        premade: bool,
    ) -> Result<Self> {
        py.detach(|| {
            let data = if name == "digits" { surefoot_data::digits() } else { surefoot_data::load(Path::new(name))? };
            PyEnvironment::labels(&data.unit_rows(), noise, seed, features, intercept, premade)
        })
    }

    #[staticmethod]
    #[pyo3(signature = (X, y, X_test, y_test, *, name = "labels", noise = 0.2, seed = 1, features = "raw", intercept = false, premade = true))]
    #[expect(clippy::too_many_arguments, reason = "four arrays, and settings with defaults")]
    fn labelled(
        py: Python<'_>,
        X: &Bound<'_, PyAny>,
        y: &Bound<'_, PyAny>,
        X_test: &Bound<'_, PyAny>,
        y_test: &Bound<'_, PyAny>,
        name: &str,
        noise: f64,
        seed: u64,
        features: &str,
        intercept: bool,
        premade: bool,
    ) -> Result<Self> {
        let train = Labelled::new(contexts(X, Hold::On)?, actions(y)?)?;
        let test = Labelled::new(contexts(X_test, Hold::On)?, actions(y_test)?)?;
        py.detach(|| {
            let data = Dataset::new(name, train, test)?.unit_rows();
            PyEnvironment::labels(&data, noise, seed, features, intercept, premade)
        })
    }

    #[staticmethod]
    #[pyo3(signature = (*, actions = 5, features = 10, margin = 0.6, ambiguous = 0.1, drift = None, seed = 1, map = "raw", intercept = false))]
    #[expect(clippy::too_many_arguments, reason = "settings with defaults")]
    fn synthetic(
        actions: usize,
        features: usize,
        margin: f64,
        ambiguous: f64,
        drift: Option<f64>,
        seed: u64,
        map: &str,
        intercept: bool,
    ) -> Result<Self> {
        let base = match drift {
            Some(degrees) => SyntheticSettings { drift: degrees.to_radians(), ..SyntheticSettings::drifting() },
            None => SyntheticSettings::default(),
        };
        let world = Synthetic::new(SyntheticSettings { actions, features, margin, ambiguous, seed, ..base })?;
        let map = FeatureMap::named(map, &world.known_contexts()?, seed)?;
        let features = if intercept { map.with_intercept() } else { map };
        Ok(PyEnvironment { world: World::Synthetic(Arc::new(world)), features })
    }

    #[staticmethod]
    #[pyo3(signature = (X, rewards, *, seed = 1))]
    fn finite(X: &Bound<'_, PyAny>, rewards: numpy::PyReadonlyArray2<'_, f64>, seed: u64) -> Result<Self> {
        let contexts: Contexts = contexts(X, Hold::On)?;
        let (features, k) = (contexts.features(), rewards.as_array().ncols());
        let truth = Truth::table(contexts, k, rewards.as_array().iter().map(|r| -r).collect())?;
        let world = Finite::new(vec![truth], seed)?;
        Ok(PyEnvironment { world: World::Finite(Arc::new(world)), features: FeatureMap::identity(features) })
    }

    #[getter]
    fn n_actions(&self) -> usize {
        self.environment().actions()
    }

    #[getter]
    fn features(&self) -> PyFeatures {
        PyFeatures(self.features.clone())
    }

    #[getter]
    fn n_features(&self) -> usize {
        self.features.input()
    }

    /// How many interactions there are; of a world without an end, the most that are held in memory.
    #[getter]
    pub(crate) fn interactions(&self) -> usize {
        match &self.world {
            World::Labels(world) => world.interactions(),
            _ => ENDLESS,
        }
    }

    #[getter]
    fn kind(&self) -> &'static str {
        match &self.world {
            World::Labels(_) => "labels",
            World::Synthetic(_) => "synthetic",
            World::Finite(_) => "finite",
        }
    }

    #[pyo3(signature = (*, alpha = 0.2, exploration = 0.0))]
    fn first_policy(&self, py: Python<'_>, alpha: f64, exploration: f64) -> Result<PyPolicy> {
        Ok(py.detach(|| self.first(alpha, exploration))?.into())
    }

    #[pyo3(signature = (policy, n, *, round = 0, start = 0))]
    fn collect(&self, py: Python<'_>, policy: &PyPolicy, n: usize, round: usize, start: usize) -> Result<PyLogs> {
        let turn = Turn { round, start, n };
        let logs = py.detach(|| self.environment().collect(policy.policy(), turn))?;
        PyLogs::new(logs, (0.0, 1.0))
    }

    /// The true reward of a policy, and how often it takes the best action.
    #[pyo3(signature = (policy, *, round = 0))]
    fn evaluate(&self, py: Python<'_>, policy: &PyPolicy, round: usize) -> Result<(f64, f64)> {
        let (risk, accuracy) = py.detach(|| self.environment().truth(round)?.evaluate(policy.policy()))?;
        Ok((-risk, accuracy))
    }

    #[pyo3(signature = (*, round = 0))]
    fn best_reward(&self, py: Python<'_>, round: usize) -> Result<f64> {
        Ok(-py.detach(|| self.environment().truth(round))?.optimal_risk())
    }

    /// The contexts on which rewards are known, and the best action in each.
    #[pyo3(signature = (*, round = 0))]
    fn truth<'py>(&self, py: Python<'py>, round: usize) -> Result<(Bound<'py, PyAny>, Bound<'py, PyArray1<u32>>)> {
        let truth = py.detach(|| self.environment().truth(round))?;
        Ok((to_python(py, truth.contexts())?, PyArray1::from_slice(py, truth.best())))
    }

    fn __repr__(&self) -> String {
        format!("<surefoot.Environment {}: {} features, {} actions>", self.kind(), self.n_features(), self.n_actions())
    }
}

/// The bandwidth that is usual for contexts: their median distance.
#[pyfunction]
#[pyo3(signature = (X))]
#[expect(non_snake_case, reason = "as scikit-learn calls it")]
pub(crate) fn rule_of_thumb(X: &Bound<'_, PyAny>) -> Result<f64> {
    Ok(FeatureMap::rule_of_thumb(&contexts(X, Hold::Call)?))
}

/// Costs of rewards.
#[pyfunction]
pub(crate) fn costs<'py>(
    py: Python<'py>,
    reward: &Bound<'py, PyAny>,
    reward_range: (f64, f64),
) -> Result<Bound<'py, PyArray1<f64>>> {
    let range = surefoot::RewardRange::new(reward_range.0, reward_range.1)?;
    let rewards = numbers(reward, "reward")?;
    Ok(PyArray1::from_vec(py, range.costs(slice_of(&rewards)?)?))
}
