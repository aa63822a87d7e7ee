//! Feature maps of policies.

use std::sync::Arc;

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use surefoot::FeatureMap;
use surefoot::features::{Boosting, SoftmaxFeatures};

use crate::arrays::{Hold, column, contexts, numbers, slice_of, to_python};
use crate::failure::{Result, run};
use crate::logs::PyLogs;

/// A feature map: how a context becomes the features of a policy.
///
/// It must be fixed before the data that is learned from. Create one with :meth:`raw`, :meth:`fourier`, :meth:`named`
/// or :meth:`trees`.
///
///     >>> import surefoot
///     >>> surefoot.Features.raw(3, intercept=True)
///     <surefoot.Features raw: 3 -> 4>
#[pyclass(frozen, name = "Features", module = "surefoot", eq)]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PyFeatures(pub(crate) FeatureMap);

#[pymethods]
impl PyFeatures {
    /// Contexts unchanged. With ``intercept``, a last feature is added that is always 1.
    ///
    ///     >>> import surefoot
    ///     >>> surefoot.Features.raw(2, intercept=True).transform([[3.0, 4.0]]).tolist()
    ///     [[3.0, 4.0, 1.0]]
    #[staticmethod]
    #[pyo3(signature = (n_features, *, intercept = false))]
    fn raw(n_features: usize, intercept: bool) -> Self {
        PyFeatures(with_intercept(FeatureMap::identity(n_features), intercept))
    }

    /// Random Fourier features: :math:`\sqrt{2/D} \cos(W'x + b)`, with ``count`` for :math:`D`.
    ///
    /// Their inner products approximate the kernel :math:`e^{-|x - y|^2/(2 \sigma^2)}`, where :math:`\sigma` is the
    /// bandwidth. :func:`surefoot.rule_of_thumb` suggests one.
    ///
    ///     >>> import surefoot
    ///     >>> surefoot.Features.fourier(3, 200, 1.0, seed=1)
    ///     <surefoot.Features fourier, bandwidth 1.0000: 3 -> 200>
    #[staticmethod]
    #[pyo3(signature = (n_features, count, bandwidth, *, seed = 1, intercept = false))]
    fn fourier(n_features: usize, count: usize, bandwidth: f64, seed: u64, intercept: bool) -> Result<Self> {
        Ok(PyFeatures(with_intercept(FeatureMap::fourier(n_features, count, bandwidth, seed)?, intercept)))
    }

    /// Features by name: ``"raw"``, ``"rff:NUMBER[:BANDWIDTH]"`` or ``"kernel:NUMBER[:BANDWIDTH]"``.
    ///
    /// Kernel features are the leading principal components :math:`\Lambda^{-1/2} V' k(L, x)` of the kernel, with
    /// landmarks :math:`L` from the known contexts and :math:`k(L, L) = V \Lambda V'`. The default bandwidth is the
    /// rule of thumb for the known contexts, and half of it for a kernel. The known contexts must not be from the data
    /// that is learned from.
    ///
    ///     >>> import numpy as np, surefoot
    ///     >>> known = np.random.default_rng(1).normal(size=(100, 3))
    ///     >>> surefoot.Features.named("kernel:8:1.5", known)
    ///     <surefoot.Features kernel, bandwidth 1.5000: 3 -> 8>
    #[staticmethod]
    #[pyo3(signature = (name, known, *, seed = 1, intercept = false))]
    fn named(py: Python<'_>, name: &str, known: &Bound<'_, PyAny>, seed: u64, intercept: bool) -> Result<Self> {
        let known = contexts(known, Hold::Call)?;
        let map = run(py, || FeatureMap::named(name, &known, seed))?;
        Ok(PyFeatures(with_intercept(map, intercept)))
    }

    /// The leaves of boosted trees, grown on logged records.
    ///
    /// Each tree has one feature per leaf: :math:`1/\sqrt{T}` for the contexts in the leaf, with :math:`T` trees, and 0
    /// for others. A tree splits on features of the context, where this improves the squared error of the rewards of
    /// all actions together; a record counts for its own action only. The records must be older than the data that
    /// certifies a policy with these features.
    ///
    /// Parameters
    /// ----------
    /// logs : Logs
    ///     The records.
    /// n_trees : int
    ///     The number of trees.
    /// n_leaves : int
    ///     The largest number of leaves of a tree.
    /// shrinkage : float
    ///     The share of a leaf's mean residual that its tree predicts, in :math:`(0, 1]`.
    /// least_records : int
    ///     The smallest number of records of a leaf.
    /// ridge : float
    ///     The ridge :math:`\lambda` of a leaf's mean residual :math:`G_a/(n_a + \lambda)`.
    /// share : float
    ///     The share of the features on which a tree may split, in :math:`(0, 1]`.
    /// seed : int
    ///     The seed by which they are drawn for each tree.
    /// intercept : bool
    ///     Whether a last feature is added that is always 1.
    ///
    /// Examples
    /// --------
    ///
    ///     >>> import surefoot
    ///     >>> X = [[i / 200] for i in range(200)]
    ///     >>> reward = [float((i > 100) == (i % 2 == 1)) for i in range(200)]
    ///     >>> logs = surefoot.Logs(X, action=[i % 2 for i in range(200)], pscore=[0.5] * 200, reward=reward)
    ///     >>> features = surefoot.Features.trees(logs, n_trees=1, n_leaves=2)
    ///     >>> features.transform([[0.3], [0.7]]).toarray().tolist()
    ///     [[1.0, 0.0], [0.0, 1.0]]
    #[staticmethod]
    #[pyo3(signature = (
        logs, *, n_trees = 40, n_leaves = 16, shrinkage = 0.2, least_records = 20, ridge = 3.0, share = 0.5, seed = 1,
        intercept = false
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments")]
    fn trees(
        py: Python<'_>,
        logs: &PyLogs,
        n_trees: usize,
        n_leaves: usize,
        shrinkage: f64,
        least_records: usize,
        ridge: f64,
        share: f64,
        seed: u64,
        intercept: bool,
    ) -> Result<Self> {
        let boosting = Boosting { trees: n_trees, leaves: n_leaves, shrinkage, least_records, ridge, share, seed };
        let logs = &logs.logs;
        let reward: Vec<f64> = logs.cost().iter().map(|cost| -cost).collect();
        let map = run(py, || FeatureMap::trees(&boosting, logs.actions(), logs.contexts(), logs.action(), &reward))?;
        Ok(PyFeatures(with_intercept(map, intercept)))
    }

    /// Kernel features from their parts, for unpickling.
    #[staticmethod]
    #[pyo3(signature = (landmarks, bandwidth, projection, intercept, beside = false))]
    fn _kernel(
        landmarks: &Bound<'_, PyAny>,
        bandwidth: f64,
        projection: &Bound<'_, PyAny>,
        intercept: bool,
        beside: bool,
    ) -> Result<Self> {
        let projection = numbers(projection, "projection")?;
        let landmarks = contexts(landmarks, Hold::On)?;
        let map = FeatureMap::kernel_from_parts(landmarks, bandwidth, slice_of(&projection)?.to_vec())?;
        Ok(PyFeatures(with_contexts(with_intercept(map, intercept), beside)))
    }

    /// Tree features from their parts, for unpickling.
    #[staticmethod]
    fn _trees(
        n_features: usize,
        feature: &Bound<'_, PyAny>,
        threshold: &Bound<'_, PyAny>,
        intercept: bool,
        beside: bool,
    ) -> Result<Self> {
        let (feature, threshold) =
            (column::<u32>(feature, "feature", "uint32")?, column::<f32>(threshold, "threshold", "float32")?);
        let (feature, threshold) = (slice_of(&feature)?.to_vec(), slice_of(&threshold)?.to_vec());
        let map = FeatureMap::trees_from_parts(n_features, feature, threshold)?;
        Ok(PyFeatures(with_contexts(with_intercept(map, intercept), beside)))
    }

    /// The same features after the contexts themselves, for unpickling.
    fn _with_contexts(&self) -> Self {
        PyFeatures(self.0.clone().with_contexts())
    }

    /// The same features after the probabilities of a softmax, for unpickling.
    fn _with_softmax(&self, weights: &Bound<'_, PyAny>, constants: &Bound<'_, PyAny>) -> Result<Self> {
        let (weights, constants) = (numbers(weights, "weights")?, numbers(constants, "constants")?);
        let softmax =
            SoftmaxFeatures::new(self.0.input(), slice_of(&weights)?.to_vec(), slice_of(&constants)?.to_vec())?;
        Ok(PyFeatures(self.0.clone().with_softmax(Arc::new(softmax))?))
    }

    /// The kind of features: ``"raw"``, ``"fourier"``, ``"kernel"`` or ``"trees"``.
    ///
    ///     >>> import surefoot
    ///     >>> surefoot.Features.fourier(3, 16, 1.0).kind
    ///     'fourier'
    #[getter]
    fn kind(&self) -> &'static str {
        if self.0.fourier_settings().is_some() {
            "fourier"
        } else if self.0.kernel_parts().is_some() {
            "kernel"
        } else if self.0.tree_parts().is_some() {
            "trees"
        } else {
            "raw"
        }
    }

    /// The number of features of a context.
    #[getter]
    fn n_features_in(&self) -> usize {
        self.0.input()
    }

    /// The number of features after the map.
    #[getter]
    fn n_features_out(&self) -> usize {
        self.0.output()
    }

    /// The features of contexts, as ``float32``; a SciPy CSR matrix if they are sparse.
    ///
    ///     >>> import surefoot
    ///     >>> surefoot.Features.fourier(3, 16, 1.0).transform([[1.0, 0.0, 0.0]]).shape
    ///     (1, 16)
    #[pyo3(name = "transform", signature = (X))]
    #[expect(non_snake_case, reason = "as scikit-learn calls it")]
    fn transform<'py>(&self, py: Python<'py>, X: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        let x = contexts(X, Hold::Call)?;
        let made = run(py, || self.0.apply(&x))?;
        to_python(py, &made)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> Result<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let class = py.get_type::<PyFeatures>();
        if let Some(softmax) = self.0.softmax() {
            let rebuild = py.import("surefoot._rebuild")?.getattr("beside_softmax")?;
            let parts = (
                PyFeatures(self.0.clone().without_softmax()),
                PyArray1::from_slice(py, softmax.weights()),
                PyArray1::from_slice(py, softmax.constants()),
            );
            return Ok((rebuild, parts.into_pyobject(py)?));
        }
        let intercept = self.0.intercept();
        if let Some((count, bandwidth, seed)) = self.0.fourier_settings() {
            let rebuild = py.import("surefoot._rebuild")?.getattr("fourier")?;
            let parts = (self.0.input(), count, bandwidth, seed, intercept, self.0.contexts());
            return Ok((rebuild, parts.into_pyobject(py)?));
        }
        if let Some(kernel) = self.0.kernel_parts() {
            let parts = (
                to_python(py, kernel.landmarks())?,
                kernel.bandwidth(),
                PyArray1::from_slice(py, kernel.projection()),
                intercept,
                self.0.contexts(),
            );
            return Ok((class.getattr("_kernel")?, parts.into_pyobject(py)?));
        }
        if let Some(trees) = self.0.tree_parts() {
            let parts = (
                trees.input(),
                PyArray1::from_slice(py, trees.features()),
                PyArray1::from_slice(py, trees.thresholds()),
                intercept,
                self.0.contexts(),
            );
            return Ok((class.getattr("_trees")?, parts.into_pyobject(py)?));
        }
        let rebuild = py.import("surefoot._rebuild")?.getattr("raw")?;
        Ok((rebuild, (self.0.input(), intercept).into_pyobject(py)?))
    }

    fn __repr__(&self) -> String {
        let kind = match (self.0.fourier_settings(), self.0.kernel_parts(), self.0.tree_parts()) {
            (Some((_, bandwidth, _)), _, _) => format!("fourier, bandwidth {bandwidth:.4}"),
            (_, Some(kernel), _) => format!("kernel, bandwidth {:.4}", kernel.bandwidth()),
            (_, _, Some(trees)) => format!("trees, {} of them", trees.trees()),
            _ => "raw".into(),
        };
        format!("<surefoot.Features {kind}: {} -> {}>", self.0.input(), self.0.output())
    }
}

fn with_contexts(map: FeatureMap, contexts: bool) -> FeatureMap {
    if contexts { map.with_contexts() } else { map }
}

fn with_intercept(map: FeatureMap, intercept: bool) -> FeatureMap {
    if intercept { map.with_intercept() } else { map }
}
