//! Simulated environments with known rewards.

use std::path::Path;
use std::sync::Arc;

use numpy::PyArray1;
use pyo3::prelude::*;
use surefoot::contexts::Labelled;
use surefoot::worlds::{Dataset, Environment, Finite, LabelBandit, Synthetic, SyntheticSettings, Truth, Turn};
use surefoot::{Contexts, FeatureMap, LinearGaussian};

use crate::arrays::{Hold, actions, contexts, numbers2, to_python};
use crate::failure::{Result, run, setting};
use crate::features::PyFeatures;
use crate::logs::PyLogs;
use crate::policy::PyPolicy;

/// A simulated environment in which policies can be deployed and their true rewards are known.
///
/// Create one with :meth:`dataset`, :meth:`labelled`, :meth:`synthetic` or :meth:`finite`. Rewards are in :math:`[0,
/// 1]`. It is deterministic: the same policy at the same position collects the same records.
///
///     >>> import surefoot
///     >>> world = surefoot.Environment.synthetic(seed=1)
///     >>> world
///     <surefoot.Environment synthetic: 10 features, 5 actions>
///     >>> world.collect(world.first_policy(), 100)
///     <surefoot.Logs: 100 records, 10 features, 5 actions>
#[pyclass(frozen, name = "Environment", module = "surefoot")]
#[derive(Debug, Clone)]
pub(crate) struct PyEnvironment {
    world: World,
    /// The feature map of its policies.
    features: FeatureMap,
}

#[derive(Debug, Clone)]
enum World {
    Labels(Arc<LabelBandit>),
    Synthetic(Arc<Synthetic>),
    Finite(Arc<Finite>),
}

/// The number of interactions of an environment without an end.
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

    /// A bandit from labelled data whose features are computed once; a policy that is to be saved computes its own.
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
    /// A classification data set as a bandit: the right label gives a reward of 1 with probability ``1 - noise``, any
    /// other label with probability ``noise``.
    ///
    /// 5 % of the training records are reserved for the first policy. Each of the others is used once. True rewards are
    /// computed on the test records. Rows are divided by their norms.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     ``"digits"``, which is built in; the path of a data set; or a name that ``surefoot data`` lists. The latter
    ///     is looked for in the folder that ``SUREFOOT_DATA`` names, or in ``data``.
    /// noise : float
    ///     The probability that a reward is flipped.
    /// seed : int
    ///     The seed for the order of the records, the rewards, and random features.
    /// features : str
    ///     The feature map of policies: ``"raw"``, ``"rff:NUMBER[:BANDWIDTH]"`` or ``"kernel:NUMBER[:BANDWIDTH]"``.
    /// intercept : bool
    ///     Whether to add a constant feature.
    /// premade : bool
    ///     Whether features are computed once, for the whole environment. With ``False``, policies compute them
    ///     themselves and take raw contexts, also after they were saved and loaded.
    ///
    /// Examples
    /// --------
    ///
    ///     >>> import surefoot
    ///     >>> surefoot.Environment.dataset("digits")
    ///     <surefoot.Environment labels: 64 features, 10 actions>
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
        run(py, || {
            let folder = std::env::var_os("SUREFOOT_DATA").filter(|folder| !folder.is_empty());
            let data = surefoot_data::load_named(name, Path::new(&folder.unwrap_or_else(|| "data".into())))?;
            PyEnvironment::labels(&data.unit_rows(), noise, seed, features, intercept, premade)
        })
    }

    /// Labelled arrays as a bandit: like :meth:`dataset`, for data in memory.
    ///
    /// Labels are whole numbers from 0 on. The other arguments are those of :meth:`dataset`.
    ///
    ///     >>> import numpy as np, surefoot
    ///     >>> X = np.random.default_rng(1).normal(size=(500, 3))
    ///     >>> y = (X[:, 0] > 0).astype(int)
    ///     >>> surefoot.Environment.labelled(X[:400], y[:400], X[400:], y[400:])
    ///     <surefoot.Environment labels: 3 features, 2 actions>
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
        run(py, || {
            let data = Dataset::new(name, train, test)?.unit_rows();
            PyEnvironment::labels(&data, noise, seed, features, intercept, premade)
        })
    }

    /// An environment whose best action is linear in the context: :math:`a^*(x) = \arg\max_a \langle x, \theta_a
    /// \rangle`, with unit vectors :math:`x`.
    ///
    /// The best action gives a reward of 1 with probability :math:`(1 + \Delta)/2`, all others with :math:`(1 -
    /// \Delta)/2`. In ambiguous contexts the best action has probability :math:`1/2`.
    ///
    /// Parameters
    /// ----------
    /// n_actions, n_features : int
    ///     The numbers of actions and of features.
    /// margin : float
    ///     The gap :math:`\Delta` in :math:`(0, 1]`.
    /// ambiguous : float
    ///     The share of contexts whose gap is half of that: those next to a decision boundary between two actions.
    /// drift : float, optional
    ///     The angle, in degrees, by which the mean of the contexts turns per round. Without it, contexts do not drift.
    /// seed : int
    ///     The seed of the environment, its contexts and rewards.
    /// features : str
    ///     The feature map of policies: ``"raw"``, ``"rff:NUMBER[:BANDWIDTH]"`` or ``"kernel:NUMBER[:BANDWIDTH]"``.
    /// intercept : bool
    ///     Whether to add a constant feature.
    ///
    /// Examples
    /// --------
    ///
    ///     >>> import surefoot
    ///     >>> world = surefoot.Environment.synthetic(n_actions=3, n_features=4, seed=1)
    ///     >>> round(world.best_reward(), 2)
    ///     0.77
    #[staticmethod]
    #[pyo3(signature = (*, n_actions = 5, n_features = 10, margin = 0.6, ambiguous = 0.1, drift = None, seed = 1, features = "raw", intercept = false))]
    #[expect(clippy::too_many_arguments, reason = "settings with defaults")]
    fn synthetic(
        n_actions: usize,
        n_features: usize,
        margin: f64,
        ambiguous: f64,
        drift: Option<f64>,
        seed: u64,
        features: &str,
        intercept: bool,
    ) -> Result<Self> {
        let base = match drift {
            Some(degrees) => SyntheticSettings { drift: degrees.to_radians(), ..SyntheticSettings::drifting() },
            None => SyntheticSettings::default(),
        };
        let world = Synthetic::new(SyntheticSettings {
            actions: n_actions,
            features: n_features,
            margin,
            ambiguous,
            seed,
            ..base
        })?;
        let map = FeatureMap::named(features, &world.known_contexts()?, seed)?;
        let features = if intercept { map.with_intercept() } else { map };
        Ok(PyEnvironment { world: World::Synthetic(Arc::new(world)), features })
    }

    /// An environment with finitely many contexts, drawn uniformly with replacement, and known expected rewards: true
    /// rewards are exact.
    ///
    /// ``X`` has one context per row, and ``rewards`` has the expected rewards `[n, K]` of all actions, in :math:`[0,
    /// 1]`.
    ///
    ///     >>> import numpy as np, surefoot
    ///     >>> world = surefoot.Environment.finite([[1.0], [2.0]], np.array([[1.0, 0.0], [0.0, 0.5]]))
    ///     >>> world.best_reward()
    ///     0.75
    ///     >>> world.evaluate(surefoot.Policy.uniform(2))
    ///     (0.375, 0.5)
    #[staticmethod]
    #[pyo3(signature = (X, rewards, *, seed = 1))]
    fn finite(X: &Bound<'_, PyAny>, rewards: &Bound<'_, PyAny>, seed: u64) -> Result<Self> {
        let rewards = numbers2(rewards, "rewards")?;
        let contexts: Contexts = contexts(X, Hold::On)?;
        let (features, k) = (contexts.features(), rewards.as_array().ncols());
        let truth = Truth::table(contexts, k, rewards.as_array().iter().map(|r| -r).collect())?;
        let world = Finite::new(vec![truth], seed)?;
        Ok(PyEnvironment { world: World::Finite(Arc::new(world)), features: FeatureMap::identity(features) })
    }

    /// The number of actions.
    #[getter]
    fn n_actions(&self) -> usize {
        self.environment().actions()
    }

    /// The feature map of the policies of this environment.
    #[getter]
    fn features(&self) -> PyFeatures {
        PyFeatures(self.features.clone())
    }

    /// The number of features of a context.
    #[getter]
    fn n_features(&self) -> usize {
        self.features.input()
    }

    /// The number of interactions. For an environment without an end, the largest number that is kept in memory.
    #[getter]
    pub(crate) fn interactions(&self) -> usize {
        match &self.world {
            World::Labels(world) => world.interactions(),
            _ => ENDLESS,
        }
    }

    /// The kind: ``"labels"``, ``"synthetic"`` or ``"finite"``.
    #[getter]
    fn kind(&self) -> &'static str {
        match &self.world {
            World::Labels(_) => "labels",
            World::Synthetic(_) => "synthetic",
            World::Finite(_) => "finite",
        }
    }

    /// The first policy of a loop: :math:`\mathcal N(\alpha W, I)`.
    ///
    /// :math:`W` is a softmax fitted to records that are in no round; in a synthetic environment with raw contexts it
    /// is :math:`\theta` itself. With ``alpha=0`` the policy prefers no action. ``exploration`` is the share of
    /// decisions that are drawn uniformly. A finite environment has no first policy.
    ///
    ///     >>> import surefoot
    ///     >>> world = surefoot.Environment.synthetic(seed=1)
    ///     >>> world.first_policy(alpha=0.0).predict_proba([[1.0] * 10]).round(6).tolist()
    ///     [[0.2, 0.2, 0.2, 0.2, 0.2]]
    #[pyo3(signature = (*, alpha = 0.2, exploration = 0.0))]
    fn first_policy(&self, py: Python<'_>, alpha: f64, exploration: f64) -> Result<PyPolicy> {
        Ok(run(py, || self.first(alpha, exploration))?.into())
    }

    /// Deploys a policy for ``n`` interactions, and returns the logs.
    ///
    /// ``round`` is the index of the round, from 0 on, and ``start`` is the number of interactions before it. Records
    /// of a data set are used once, and a drifting environment differs between rounds.
    ///
    ///     >>> import surefoot
    ///     >>> world = surefoot.Environment.synthetic(seed=1)
    ///     >>> world.collect(surefoot.Policy.uniform(5), 3).pscore.tolist()
    ///     [0.2, 0.2, 0.2]
    #[pyo3(signature = (policy, n, *, round = 0, start = 0))]
    fn collect(&self, py: Python<'_>, policy: &PyPolicy, n: usize, round: usize, start: usize) -> Result<PyLogs> {
        let turn = Turn { round, start, n };
        let logs = run(py, || self.environment().collect(policy.policy(), turn))?;
        PyLogs::new(logs, (0.0, 1.0))
    }

    /// The true reward of a policy in a round, and the probability that it takes the best action:
    /// :math:`E\,\pi(a^*(x)|x)`.
    ///
    ///     >>> import surefoot
    ///     >>> world = surefoot.Environment.synthetic(seed=1)
    ///     >>> reward, accuracy = world.evaluate(surefoot.Policy.uniform(5))
    ///     >>> round(accuracy, 6)
    ///     0.2
    #[pyo3(signature = (policy, *, round = 0))]
    fn evaluate(&self, py: Python<'_>, policy: &PyPolicy, round: usize) -> Result<(f64, f64)> {
        let (risk, accuracy) = run(py, || self.environment().truth(round)?.evaluate(policy.policy()))?;
        Ok((-risk, accuracy))
    }

    /// The expected reward of always taking the best action.
    ///
    ///     >>> import surefoot
    ///     >>> round(surefoot.Environment.synthetic(seed=1).best_reward(), 6)
    ///     0.77
    #[pyo3(signature = (*, round = 0))]
    fn best_reward(&self, py: Python<'_>, round: usize) -> Result<f64> {
        Ok(-run(py, || self.environment().truth(round))?.optimal_risk())
    }

    /// The contexts with known rewards, and the best action in each.
    ///
    ///     >>> import surefoot
    ///     >>> X, best = surefoot.Environment.synthetic(seed=1).truth()
    ///     >>> X.shape[1], len(X) == len(best)
    ///     (10, True)
    #[pyo3(signature = (*, round = 0))]
    fn truth<'py>(&self, py: Python<'py>, round: usize) -> Result<(Bound<'py, PyAny>, Bound<'py, PyArray1<u32>>)> {
        let truth = run(py, || self.environment().truth(round))?;
        Ok((to_python(py, truth.contexts())?, PyArray1::from_slice(py, truth.best())))
    }

    fn __repr__(&self) -> String {
        format!("<surefoot.Environment {}: {} features, {} actions>", self.kind(), self.n_features(), self.n_actions())
    }
}

/// The usual bandwidth for Fourier and kernel features: the median distance between contexts.
///
/// It is computed from at most 1,000 pairs, and is 1 if all contexts are equal. Features must be fixed before the data
/// that is learned from, so compute it on earlier contexts.
///
///     >>> import surefoot
///     >>> surefoot.rule_of_thumb([[0.0, 0.0], [3.0, 4.0]])
///     5.0
#[pyfunction]
#[pyo3(signature = (X))]
#[expect(non_snake_case, reason = "as scikit-learn calls it")]
pub(crate) fn rule_of_thumb(X: &Bound<'_, PyAny>) -> Result<f64> {
    Ok(FeatureMap::rule_of_thumb(&contexts(X, Hold::Call)?))
}
