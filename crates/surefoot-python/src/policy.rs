//! Policies.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use numpy::{PyArray1, PyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use surefoot::features::{Cross, Joint};
use surefoot::learn::Family;
use surefoot::logs::Eligible;
use surefoot::policy::{Basis, Class, Decision, Mixture, Posterior, Scale, Softmax, Uniform};
use surefoot::{FeatureMap, LinearGaussian, Policy};
use surefoot_data::{Inputs, PolicyReader, family, write_certified, write_policy_with};

use crate::arrays::{Hold, actions, column, contexts_and_sets, matrix, numbers, numbers2, slice_of};
use crate::certificate::{PyCertificate, file_of};
use crate::custom::CustomPolicy;
use crate::failure::{Result, run, setting};
use crate::features::PyFeatures;
use crate::json;

/// Actions, and the probabilities with which they were chosen.
type Decisions<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<f64>>);

/// A policy: a distribution :math:`\pi(a|x)` over actions for each context.
///
/// Create one with a static method, or learn one. A linear Gaussian policy draws a linear predictor anew for each
/// decision and takes its best action. With :math:`s_a = \langle x, \mu_a \rangle / \sqrt{x' \Sigma x}`,
///
/// .. math:: \pi(a|x) = \int \phi(z - s_a) \prod_{b \ne a} \Phi(z - s_b)\, dz.
///
/// Only linear Gaussian policies can be learned, compared with a prior, and certified after they were learned. All
/// policies but mixtures and callables can be saved and pickled.
///
///     >>> import surefoot
///     >>> policy = surefoot.Policy.standard(surefoot.Features.raw(2), 4)
///     >>> policy.kind, policy.n_actions
///     ('gaussian', 4)
///     >>> policy.predict_proba([[1.0, 2.0]]).round(6).tolist()
///     [[0.25, 0.25, 0.25, 0.25]]
#[pyclass(frozen, name = "Policy", module = "surefoot", from_py_object)]
#[derive(Debug, Clone)]
pub(crate) struct PyPolicy {
    policy: Arc<dyn Policy>,
    pub(crate) inputs: Option<Arc<Inputs>>,
}

impl<P: Policy + 'static> From<P> for PyPolicy {
    fn from(policy: P) -> Self {
        PyPolicy { policy: Arc::new(policy), inputs: None }
    }
}

impl PyPolicy {
    pub(crate) fn shared(policy: &Arc<dyn Policy>) -> Self {
        PyPolicy { policy: Arc::clone(policy), inputs: None }
    }

    pub(crate) fn with_inputs(mut self, inputs: Inputs) -> Self {
        self.inputs = Some(Arc::new(inputs));
        self
    }

    pub(crate) fn policy(&self) -> &Arc<dyn Policy> {
        &self.policy
    }

    /// The policy, for sets of what can be chosen: a policy over candidates is for any number of them.
    pub(crate) fn for_sets(&self, sets: Option<&Eligible>) -> Result<Arc<dyn Policy>> {
        let most = sets.filter(|sets| sets.features().is_some()).map(|sets| sets.most().max(2));
        self.for_most(most)
    }

    /// The same for this number of candidates, if it is a policy over candidates.
    pub(crate) fn for_most(&self, most: Option<usize>) -> Result<Arc<dyn Policy>> {
        match (self.policy.as_gaussian().filter(|policy| policy.joint().is_some()), most) {
            (Some(policy), Some(most)) if policy.actions() != most => Ok(Arc::new(policy.with_most_candidates(most)?)),
            _ => Ok(Arc::clone(&self.policy)),
        }
    }

    /// The linear Gaussian policy; an error for any other kind.
    pub(crate) fn gaussian(&self, what: &str) -> Result<&LinearGaussian> {
        let gaussian = self.policy.as_gaussian();
        gaussian.ok_or_else(|| setting(what, "a linear Gaussian policy", format!("a {} one", self.kind())))
    }
}

#[pymethods]
#[expect(non_snake_case, reason = "X, as scikit-learn calls it")]
impl PyPolicy {
    /// The uniform policy over all actions, or over the eligible ones.
    ///
    ///     >>> import surefoot
    ///     >>> surefoot.Policy.uniform(4).predict_proba([[1.0]]).tolist()
    ///     [[0.25, 0.25, 0.25, 0.25]]
    #[staticmethod]
    fn uniform(n_actions: usize) -> Result<Self> {
        Ok(Uniform::new(n_actions)?.into())
    }

    /// The linear Gaussian policy :math:`\mathcal N(0, I)`, which prefers no action: the usual prior.
    ///
    /// ``exploration`` is the share :math:`\varepsilon` of decisions that are drawn uniformly, by this policy and by
    /// all policies learned from it.
    ///
    ///     >>> import surefoot
    ///     >>> surefoot.Policy.standard(surefoot.Features.raw(2), 4, exploration=0.05).exploration
    ///     0.05
    #[staticmethod]
    #[pyo3(signature = (features, n_actions, *, exploration = 0.0))]
    fn standard(features: &PyFeatures, n_actions: usize, exploration: f64) -> Result<Self> {
        // Absurd sizes are errors, and must not end the interpreter.
        let room = features.0.output().checked_mul(n_actions).and_then(|n| Vec::<f64>::new().try_reserve_exact(n).ok());
        if room.is_none() {
            let text =
                format!("a policy of {} features and {n_actions} actions does not fit in memory", features.0.output());
            return Err(pyo3::exceptions::PyMemoryError::new_err(text).into());
        }
        let posterior = Posterior::standard(features.0.output(), n_actions)?;
        Ok(LinearGaussian::new(features.0.clone(), posterior)?.with_exploration(exploration)?.into())
    }

    /// The linear Gaussian policy over candidates that prefers none of them: the usual prior if every record has its own
    /// candidates, with features.
    ///
    /// The score of a candidate is linear in joint features: its own features and, with ``cross``, their products with all
    /// features of the context. If these are more than :math:`2^b`, where :math:`b` is ``cross_bits``, they are hashed into
    /// so many. ``n_actions`` is the largest number of candidates of a record that learning allows; it changes no
    /// probability.
    ///
    ///     >>> import surefoot
    ///     >>> policy = surefoot.Policy.over_candidates(surefoot.Features.raw(1), 2, 3)
    ///     >>> policy.predict_proba([[1.0]], candidates=[[[0.5, 1.0], [1.0, 0.5]]]).round(6).tolist()
    ///     [[0.5, 0.5]]
    #[staticmethod]
    #[pyo3(signature = (features, n_candidate_features, n_actions, *, cross = true, cross_bits = 18, exploration = 0.0))]
    fn over_candidates(
        features: &PyFeatures,
        n_candidate_features: usize,
        n_actions: usize,
        cross: bool,
        cross_bits: u8,
        exploration: f64,
    ) -> Result<Self> {
        let (x, b) = (features.0.output(), n_candidate_features);
        let joint = match cross {
            true => Joint::full(x, b, cross_bits)?,
            false => Joint::new(x, b, vec![0..b; 1], Vec::new(), cross_bits)?,
        };
        let posterior = Posterior::over_candidates(vec![0.0; joint.output()], Scale::Shared(1.0))?;
        let policy = LinearGaussian::over_candidates(features.0.clone(), joint, n_actions, posterior)?;
        Ok(policy.with_exploration(exploration)?.into())
    }

    /// The linear Gaussian policy :math:`\mathcal N(\mu, U \mathrm{diag}(\sigma^2) U' \otimes I_K)`.
    ///
    /// Parameters
    /// ----------
    /// mean : array of float64
    ///     The means :math:`\mu`, `[p, K]`: one column per action.
    /// scale : float or array
    ///     The standard deviations :math:`\sigma`: one number, or one per feature (or axis).
    /// features : Features, optional
    ///     The feature map. By default contexts are used unchanged.
    /// exploration : float
    ///     The share of decisions that are drawn uniformly.
    /// basis : array of float64, optional
    ///     The orthonormal axes :math:`U`, `[p, p]`. By default the features are the axes.
    ///
    /// Examples
    /// --------
    ///
    ///     >>> import numpy as np, surefoot
    ///     >>> policy = surefoot.Policy.gaussian(np.array([[1.0, 0.0], [0.0, 1.0]]), 1.0, exploration=0.1)
    ///     >>> policy.predict_proba([[1.0, 0.0]]).round(4).tolist()
    ///     [[0.7342, 0.2658]]
    #[staticmethod]
    #[pyo3(signature = (mean, scale, *, features = None, exploration = 0.0, basis = None))]
    #[pyo3(name = "gaussian")]
    fn gaussian_of(
        mean: &Bound<'_, PyAny>,
        scale: &Bound<'_, PyAny>,
        features: Option<&PyFeatures>,
        exploration: f64,
        basis: Option<&Bound<'_, PyAny>>,
    ) -> Result<Self> {
        let mean = numbers2(mean, "mean")?;
        let (p, k) = (mean.shape()[0], mean.shape()[1]);
        let map = features.map_or_else(|| FeatureMap::identity(p), |features| features.0.clone());
        let posterior = Posterior::new(k, mean.as_array().iter().copied().collect(), scales(scale)?)?;
        let posterior = in_basis(posterior, basis, p)?;
        Ok(LinearGaussian::new(map, posterior)?.with_exploration(exploration)?.into())
    }

    /// The softmax policy :math:`\pi(a|x) \propto e^{\alpha \langle x, w_a \rangle}`, with weights `[p, K]`: one column
    /// per action.
    ///
    ///     >>> import numpy as np, surefoot
    ///     >>> surefoot.Policy.softmax(np.array([[np.log(3.0), 0.0]])).predict_proba([[1.0]]).round(6).tolist()
    ///     [[0.75, 0.25]]
    #[staticmethod]
    #[pyo3(signature = (weights, *, alpha = 1.0, features = None))]
    fn softmax(weights: &Bound<'_, PyAny>, alpha: f64, features: Option<&PyFeatures>) -> Result<Self> {
        let weights = numbers2(weights, "weights")?;
        let (p, k) = (weights.shape()[0], weights.shape()[1]);
        let map = features.map_or_else(|| FeatureMap::identity(p), |features| features.0.clone());
        let weights = weights.as_array().iter().copied().collect();
        Ok(Softmax::new(map, k, weights, alpha)?.into())
    }

    /// A callable as a policy. It takes contexts, and returns the probabilities `[n, K]` of all actions.
    ///
    /// If not all actions are eligible, it also gets a mask `[n, K]`, and must give actions that are not eligible a
    /// probability of 0. Rows must sum to 1.
    ///
    ///     >>> import numpy as np, surefoot
    ///     >>> policy = surefoot.Policy.custom(lambda X: np.tile([0.25, 0.75], (len(X), 1)), 2)
    ///     >>> policy.propensity([[1.0], [2.0]], [0, 1]).tolist()
    ///     [0.25, 0.75]
    #[staticmethod]
    fn custom(py: Python<'_>, distribution: Py<PyAny>, n_actions: usize) -> Result<Self> {
        if !distribution.bind(py).is_callable() {
            return Err(setting("a custom policy", "a callable X -> probabilities", distribution.bind(py).repr()?));
        }
        // The limits on the number of actions are defined in one place.
        Uniform::new(n_actions)?;
        Ok(CustomPolicy { distribution, actions: n_actions }.into())
    }

    /// A mixture: one of several policies is drawn for each decision, :math:`\pi(a|x) = \sum_j w_j \pi_j(a|x)`. Weights
    /// sum to 1.
    ///
    ///     >>> import numpy as np, surefoot
    ///     >>> parts = [surefoot.Policy.uniform(2), surefoot.Policy.softmax(np.array([[np.log(3.0), 0.0]]))]
    ///     >>> surefoot.Policy.mixture(parts, [0.5, 0.5]).predict_proba([[1.0]]).round(6).tolist()
    ///     [[0.625, 0.375]]
    #[staticmethod]
    fn mixture(policies: Vec<PyRef<'_, PyPolicy>>, weights: Vec<f64>) -> Result<Self> {
        let parts = policies.iter().map(|policy| Arc::clone(policy.policy())).collect();
        Ok(Mixture::new(parts, weights)?.into())
    }

    /// Reads a policy from a safetensors file, including how raw records become its features, if the file has that.
    ///
    ///     >>> import pathlib, surefoot, tempfile
    ///     >>> policy = surefoot.Policy.standard(surefoot.Features.raw(2), 4)
    ///     >>> with tempfile.TemporaryDirectory() as folder:
    ///     ...     path = pathlib.Path(folder) / "policy.safetensors"
    ///     ...     policy.save(path)
    ///     ...     surefoot.Policy.load(path).fingerprint == policy.fingerprint
    ///     True
    #[staticmethod]
    fn load(path: PathBuf) -> Result<Self> {
        let (policy, inputs) = PolicyReader::default().read_with(&path)?;
        Ok(PyPolicy { policy, inputs: inputs.map(Arc::new) })
    }

    /// Writes the policy to a safetensors file, exact to the last bit. Mixtures and callables cannot be saved.
    ///
    ///     >>> import pathlib, surefoot, tempfile
    ///     >>> with tempfile.TemporaryDirectory() as folder:
    ///     ...     surefoot.Policy.standard(surefoot.Features.raw(2), 4).save(pathlib.Path(folder) / "policy.safetensors")
    fn save(&self, path: PathBuf) -> Result<()> {
        Ok(write_policy_with(&path, self.policy.as_ref(), self.inputs.as_deref())?)
    }

    /// Writes the policy, and its certificates to a file beside it. Either all files are new, or none is. Use
    /// :meth:`surefoot.Learned.save` instead.
    ///
    ///     >>> import pathlib, surefoot, tempfile
    ///     >>> with tempfile.TemporaryDirectory() as folder:
    ///     ...     surefoot.Policy.uniform(2)._save_certified(pathlib.Path(folder) / "next.safetensors", [])
    ///     ...     sorted(path.name for path in pathlib.Path(folder).iterdir())
    ///     ['next.certificates.json', 'next.safetensors']
    fn _save_certified(
        &self,
        path: PathBuf,
        certificates: Vec<(usize, String, PyRef<'_, PyCertificate>)>,
    ) -> Result<()> {
        let certificates = file_of(certificates, self.inputs.as_ref().map_or([0.0, 1.0], |inputs| inputs.reward))?;
        Ok(write_certified(&path, self.policy.as_ref(), self.inputs.as_deref(), certificates)?)
    }

    /// The kind: ``"gaussian"``, ``"uniform"``, ``"softmax"``, ``"mixture"`` or ``"callable"``.
    #[getter]
    pub(crate) fn kind(&self) -> &'static str {
        match self.policy.class() {
            Class::Custom => "callable",
            class => class.name(),
        }
    }

    /// The ``policy_version`` that its decisions are signed with: its fingerprint, or, for a policy that decides on raw
    /// records, a hash that also covers action names and encoding. ``None`` for a custom policy.
    #[getter]
    fn version(&self) -> Option<String> {
        let print = self.policy.identity()?;
        Some(self.inputs.as_ref().map_or(print, |inputs| inputs.version(print)).to_string())
    }

    /// The number of actions.
    #[getter]
    fn n_actions(&self) -> usize {
        self.policy().actions()
    }

    /// The feature map; ``None`` for a policy without one: a uniform policy, a mixture or a callable.
    #[getter]
    fn features(&self) -> Option<PyFeatures> {
        self.policy.class().features().map(|map| PyFeatures(map.clone()))
    }

    /// The number of features of a candidate, for a policy over candidates; otherwise ``None``.
    #[getter]
    fn n_candidate_features(&self) -> Option<usize> {
        self.policy.as_gaussian().and_then(LinearGaussian::joint).map(Joint::candidates)
    }

    /// The share of decisions that are drawn uniformly: :math:`(1 - \varepsilon)\,\pi_Q + \varepsilon/K`. It is 0 for a
    /// policy that is not linear Gaussian.
    #[getter]
    fn exploration(&self) -> f64 {
        self.gaussian("").map_or(0.0, LinearGaussian::exploration)
    }

    /// The means :math:`\mu`, `[p, K]`: one column per action. Over candidates there is one column, and a row for each joint
    /// feature.
    #[getter]
    fn mean<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyArray2<f64>>> {
        let posterior = self.gaussian("a policy with a mean")?.posterior();
        matrix(py, posterior.mean().to_vec(), posterior.actions())
    }

    /// The standard deviations :math:`\sigma`: a number, or an array with one per feature (or axis).
    #[getter]
    fn scale<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        Ok(match self.gaussian("a policy with a scale")?.posterior().scale() {
            Scale::Shared(sigma) => sigma.into_pyobject(py).map_err(PyErr::from)?.into_any(),
            Scale::PerFeature(sigmas) => PyArray1::from_slice(py, sigmas).into_any(),
        })
    }

    /// The axes :math:`U` of the covariance, `[p, p]`; ``None`` if they are the features.
    #[getter]
    fn basis<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyArray2<f64>>>> {
        let Some(basis) = self.gaussian("a policy with a basis")?.posterior().basis() else { return Ok(None) };
        matrix(py, basis.axes().to_vec(), basis.features()).map(Some)
    }

    /// A hash of the policy, by which certificates refer to it; ``None`` if it has none.
    #[getter]
    fn fingerprint(&self) -> Option<String> {
        self.policy.identity().map(|print| print.to_string())
    }

    /// How raw records become features, the names of the actions, and where the policy comes from; ``None`` if the
    /// policy does not apply to raw records.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyAny>>> {
        self.inputs.as_deref().map(|inputs| json::to_python(py, inputs)).transpose()
    }

    /// The probabilities :math:`\pi(a|x)` of all actions, `[n, K]`, exact to :math:`10^{-10}`.
    ///
    /// ``eligible`` restricts the choice: a mask `[n, K]`, or a list of actions for each context. A policy over candidates
    /// needs ``candidates``, in one of the forms that :class:`Logs` takes. A row has then as many entries as the largest
    /// set of candidates, with 0 beyond its own.
    ///
    ///     >>> import surefoot
    ///     >>> surefoot.Policy.uniform(3).predict_proba([[1.0]], eligible=[[0, 2]]).tolist()
    ///     [[0.5, 0.0, 0.5]]
    #[pyo3(signature = (X, *, eligible = None, candidates = None))]
    fn predict_proba<'py>(
        &self,
        py: Python<'py>,
        X: &Bound<'py, PyAny>,
        eligible: Option<&Bound<'py, PyAny>>,
        candidates: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyArray2<f64>>> {
        let (x, sets) = contexts_and_sets(X, Hold::Call, eligible, candidates)?;
        let policy = self.for_sets(sets.as_ref())?;
        let p = run(py, || policy.distribution(&x, sets.as_ref()))?;
        matrix(py, p, policy.actions())
    }

    /// The probability of one action per context, with a relative error of :math:`10^{-9}` for probabilities down to
    /// :math:`10^{-15}`.
    ///
    ///     >>> import surefoot
    ///     >>> surefoot.Policy.uniform(4).propensity([[1.0], [2.0]], [3, 0]).tolist()
    ///     [0.25, 0.25]
    #[pyo3(signature = (X, action, *, eligible = None, candidates = None))]
    fn propensity<'py>(
        &self,
        py: Python<'py>,
        X: &Bound<'py, PyAny>,
        action: &Bound<'py, PyAny>,
        eligible: Option<&Bound<'py, PyAny>>,
        candidates: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyArray1<f64>>> {
        let ((x, sets), action) = (contexts_and_sets(X, Hold::Call, eligible, candidates)?, actions(action)?);
        let policy = self.for_sets(sets.as_ref())?;
        let p = run(py, || policy.propensity(&x, &action, sets.as_ref()))?;
        Ok(PyArray1::from_vec(py, p))
    }

    /// Draws an action in each context. Returns the actions and their propensities; log both.
    ///
    /// The draw for a record depends only on the seed and the record's key, not on its position. Without ``keys``, the
    /// key of a record is its row.
    ///
    ///     >>> import surefoot
    ///     >>> policy = surefoot.Policy.uniform(4)
    ///     >>> action, pscore = policy.sample([[1.0], [2.0], [3.0]], seed=1)
    ///     >>> pscore.tolist()
    ///     [0.25, 0.25, 0.25]
    ///     >>> bool(policy.sample([[3.0]], seed=1, keys=[2])[0][0] == action[2])
    ///     True
    #[pyo3(signature = (X, *, seed, keys = None, eligible = None, candidates = None))]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        X: &Bound<'py, PyAny>,
        seed: u64,
        keys: Option<&Bound<'py, PyAny>>,
        eligible: Option<&Bound<'py, PyAny>>,
        candidates: Option<&Bound<'py, PyAny>>,
    ) -> Result<Decisions<'py>> {
        let (x, sets) = contexts_and_sets(X, Hold::Call, eligible, candidates)?;
        let policy = self.for_sets(sets.as_ref())?;
        let keys: Vec<u64> = match keys.filter(|keys| !keys.is_none()) {
            Some(keys) => self::keys(keys)?,
            None => (0..x.len() as u64).collect(),
        };
        let decisions = run(py, || policy.decide_keyed(&x, sets.as_ref(), seed, &keys))?;
        let split = |of: fn(&Decision) -> f64| decisions.iter().map(of).collect::<Vec<f64>>();
        let chosen = decisions.iter().map(|decision| decision.action).collect();
        Ok((PyArray1::from_vec(py, chosen), PyArray1::from_vec(py, split(|decision| decision.propensity))))
    }

    /// The divergence :math:`\mathrm{KL}(Q, P)` of this policy from a prior, times :math:`1 - \varepsilon` if both
    /// explore.
    ///
    ///     >>> import numpy as np, surefoot
    ///     >>> prior = surefoot.Policy.standard(surefoot.Features.raw(2), 2)
    ///     >>> surefoot.Policy.gaussian(np.eye(2), 1.0).kl(prior)
    ///     1.0
    fn kl(&self, prior: &PyPolicy) -> Result<f64> {
        Ok(self.gaussian("the policy")?.kl(prior.gaussian("the prior")?)?)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> Result<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let rebuild = py.import("surefoot._rebuild")?;
        let inputs = self.inputs.as_deref().map(json::text).transpose()?;
        if self.kind() == "uniform" {
            return Ok((rebuild.getattr("uniform")?, (self.n_actions(), inputs).into_pyobject(py)?));
        }
        if let Class::Softmax(policy) = self.policy.class() {
            let weights = matrix(py, policy.weights().to_vec(), policy.actions())?;
            let parts = (weights, policy.alpha(), PyFeatures(policy.features().clone()), inputs);
            return Ok((rebuild.getattr("softmax")?, parts.into_pyobject(py)?));
        }
        self.gaussian("a policy that is pickled")?;
        let joint = self.gaussian("")?.joint().map(|joint| {
            let pair = |range: &Range<usize>| (range.start, range.end);
            let crosses: Vec<Ends> =
                joint.crosses().iter().flat_map(|c| [pair(&c.context), pair(&c.candidate)]).collect();
            let own: Vec<Ends> = joint.own().iter().map(pair).collect();
            (self.n_actions(), joint.contexts(), joint.candidates(), own, crosses, joint.bits())
        });
        let features = PyFeatures(self.gaussian("")?.features().clone());
        let parts = (self.mean(py)?, self.scale(py)?, features, self.exploration(), self.basis(py)?, inputs, joint);
        Ok((rebuild.getattr("gaussian")?, parts.into_pyobject(py)?))
    }

    // The posterior of a loop that begins with this policy: "per-feature" in place of "shaped" for very many features, and
    // "isotropic" over candidates, whose scales stay as they are.
    fn _posterior(&self, posterior: &str) -> Result<&'static str> {
        let wanted: Family = posterior.parse()?;
        Ok(match family(wanted, self.gaussian("the first policy")?) {
            Family::Isotropic => "isotropic",
            Family::PerFeature => "per-feature",
            _ => "shaped",
        })
    }

    /// A policy over candidates from its parts, for unpickling.
    #[staticmethod]
    fn _over_candidates(
        mean: &Bound<'_, PyAny>,
        scale: &Bound<'_, PyAny>,
        features: &PyFeatures,
        exploration: f64,
        basis: Option<&Bound<'_, PyAny>>,
        joint: JointParts,
    ) -> Result<Self> {
        let (n_actions, contexts, candidates, own, crosses, bits) = joint;
        let range = |&(start, end): &Ends| start..end;
        let crosses = crosses.chunks_exact(2).map(|c| Cross { context: range(&c[0]), candidate: range(&c[1]) });
        let joint = Joint::new(contexts, candidates, own.iter().map(range).collect(), crosses.collect(), bits)?;
        let mean: Vec<f64> = numbers2(mean, "mean")?.as_array().iter().copied().collect();
        let p = mean.len();
        let posterior = in_basis(Posterior::over_candidates(mean, scales(scale)?)?, basis, p)?;
        let policy = LinearGaussian::over_candidates(features.0.clone(), joint, n_actions, posterior)?;
        Ok(policy.with_exploration(exploration)?.into())
    }

    /// A policy with its description of raw records, for unpickling.
    #[staticmethod]
    fn _with_inputs(policy: &PyPolicy, inputs: &str) -> Result<Self> {
        let inputs: Inputs =
            serde_json::from_str(inputs).map_err(|e| setting("the inputs", "as they were saved", e))?;
        Ok(policy.clone().with_inputs(inputs))
    }

    fn __eq__(&self, other: &PyPolicy) -> bool {
        match (self.fingerprint(), other.fingerprint()) {
            (Some(one), Some(two)) => one == two,
            _ => Arc::ptr_eq(&self.policy, &other.policy),
        }
    }

    fn __hash__(&self) -> u64 {
        let print = self.fingerprint();
        print.and_then(|print| u64::from_str_radix(&print[..16], 16).ok()).unwrap_or(self.n_actions() as u64)
    }

    fn __repr__(&self) -> String {
        let print = self.fingerprint().map_or_else(String::new, |print| format!(" {}", &print[..12]));
        format!("<surefoot.Policy {}{print}: {} actions>", self.kind(), self.n_actions())
    }
}

/// The first and the one after the last of some features.
type Ends = (usize, usize);

/// Joint features: the largest number of candidates, the numbers of features of contexts and of candidates, own features,
/// crosses with a range of the context before each range of the candidate, and bits.
type JointParts = (usize, usize, usize, Vec<Ends>, Vec<Ends>, u8);

/// One standard deviation, or one per feature.
fn scales(scale: &Bound<'_, PyAny>) -> Result<Scale> {
    Ok(match scale.extract::<f64>() {
        Ok(shared) => Scale::Shared(shared),
        Err(_) => Scale::PerFeature(slice_of(&numbers(scale, "scale")?)?.to_vec()),
    })
}

/// The posterior in a basis of `p` axes, if one is given.
fn in_basis(posterior: Posterior, basis: Option<&Bound<'_, PyAny>>, p: usize) -> Result<Posterior> {
    let Some(axes) = basis.filter(|basis| !basis.is_none()) else { return Ok(posterior) };
    let axes = Basis::new(numbers2(axes, "basis")?.as_array().iter().copied().collect(), p)?;
    Ok(posterior.with_basis(Arc::new(axes))?)
}

/// The keys of draws: whole numbers from 0 on.
fn keys(values: &Bound<'_, PyAny>) -> Result<Vec<u64>> {
    let array = values.py().import("numpy")?.call_method1("asarray", (values,))?;
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    let negative = || array.call_method0("min")?.lt(0);
    if !["i", "u"].contains(&kind.as_str()) || (kind == "i" && array.len()? > 0 && negative()?) {
        return Err(setting("keys", "whole numbers from 0 on", array.getattr("dtype")?));
    }
    Ok(slice_of(&column::<u64>(&array, "keys", "uint64")?)?.to_vec())
}
