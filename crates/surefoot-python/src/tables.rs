//! Log files and data frames.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use surefoot::RewardRange;
use surefoot_data::lint::{Lint, LintSettings};
use surefoot_data::shards::Engine;
use surefoot_data::{
    ActionIs, Actions, Catalogue, ColumnNames, EncodingSettings, EvaluateRequest, Format, Grouping, LogReader,
    ModelRequest, NamedPolicy, PolicyReader, ReadRequest, RecordPolicy, Rounds, Scan, Scorer, SelectRequest, Storage,
    convert, evaluate, select,
};

use crate::arrays::table;
use crate::arrow::PyArrowTable;
use crate::evaluation::in_rewards;
use crate::failure::{Result, raised, run, setting};
use crate::json;
use crate::policy::PyPolicy;
use crate::rounds::{PyRounds, action_names};
use crate::shards::PyEngine;

/// Log files or a data frame, read batch by batch in as many passes as needed. Created by :func:`surefoot.open_logs`.
///
///     >>> import pandas, surefoot
///     >>> frame = pandas.DataFrame({"action": ["a", "b"], "pscore": [0.5, 0.5], "reward": [1.0, 0.0], "age": [31, 55]})
///     >>> surefoot.open_logs(frame)
///     <surefoot.LogSource logs>
#[pyclass(frozen, name = "LogSource", module = "surefoot")]
#[derive(Debug, Clone)]
pub(crate) struct PySource {
    reader: LogReader,
}

/// A reader that stops between batches after Ctrl-C.
fn hearing(reader: LogReader) -> LogReader {
    reader.stopped_by(|| Python::attach(|py| py.check_signals()).map_err(raised).is_err())
}

/// A target policy for raw records: one of Surefoot's own, or one whose probabilities are in the logs.
fn judged(policy: &Bound<'_, PyAny>) -> Result<RecordPolicy> {
    if let Ok(policy) = policy.extract::<PyRef<'_, PyPolicy>>() {
        let Some(inputs) = &policy.inputs else {
            let allowed = "one that says how records become its features, as those that were learned from logs do";
            return Err(setting("the policy", allowed, "one of features"));
        };
        return Ok(RecordPolicy::Encoded { policy: Arc::clone(policy.policy()), inputs: Arc::clone(inputs) });
    }
    let text: String = policy.str()?.extract()?;
    Ok(RecordPolicy::open(&text, &mut PolicyReader::default())?)
}

fn all_judged(policies: &Bound<'_, PyDict>) -> Result<Vec<NamedPolicy>> {
    policies.iter().map(|(name, policy)| Ok(NamedPolicy { name: name.extract()?, policy: judged(&policy)? })).collect()
}

/// The names of the formats of log files.
///
///     >>> import surefoot
///     >>> {"parquet", "csv"} <= set(surefoot.formats())
///     True
#[pyfunction]
pub(crate) fn formats() -> Vec<&'static str> {
    Format::ALL.map(Format::name).to_vec()
}

fn of_name(format: &str) -> Result<Format> {
    format.parse().map_err(|_| setting("format", &Format::ALL.map(Format::name).join(", "), format))
}

/// All actions: their number, or their names.
fn all_actions(actions: &Bound<'_, PyAny>) -> Result<Actions> {
    if let Ok(count) = actions.extract::<usize>() {
        return Ok(Actions::counted(count)?);
    }
    let names = actions.extract::<Vec<String>>();
    Ok(Actions::named(names.map_err(|_| setting("actions", "a number or a list of names", actions))?)?)
}

/// A catalogue, from a file or a table.
fn catalogue(py: Python<'_>, given: Option<&Bound<'_, PyAny>>, key: Option<&str>) -> Result<Option<Arc<Catalogue>>> {
    let Some(given) = given.filter(|given| !given.is_none()) else {
        return match key {
            Some(key) => Err(setting("catalogue_key", "given with a catalogue", key)),
            None => Ok(None),
        };
    };
    let reader = if given.hasattr("__arrow_c_stream__")? {
        LogReader::in_memory("catalogue".into(), table(given)?.0, ColumnNames::default())
    } else {
        let path = given.extract::<PathBuf>();
        let path = path
            .map_err(|_| setting("catalogue", "a path, or a table that speaks Arrow's C stream", given.get_type()))?;
        py.detach(|| LogReader::new(vec![path], None, ColumnNames::default()))
    };
    Ok(Some(Arc::new(run(py, || Catalogue::read(&reader, key))?)))
}

fn engine(map: Option<Py<PyAny>>) -> Option<Arc<dyn Engine>> {
    map.map(|map| Arc::new(PyEngine(map)) as Arc<dyn Engine>)
}

fn grouping(by: &str) -> Grouping {
    by.parse().unwrap_or_else(|never| match never {})
}

#[pymethods]
impl PySource {
    /// Opens log files or a table.
    ///
    /// Parameters
    /// ----------
    /// source : path, list of paths, or table
    ///     Files, the oldest first, or any object with Arrow's C stream, which is not copied. Files may be compressed
    ///     (``.gz``, ``.zst``). A folder stands for its files in the order of their names, and ``"-"`` for the standard
    ///     input.
    /// format : str, optional
    ///     The format of the files, one of :func:`surefoot.formats`. By default it is taken from the extension of the name.
    /// action, propensity, reward, event_id, policy_version : str, optional
    ///     The names of columns that do not have one of their usual names.
    /// actions_from_one : bool
    ///     Whether numeric actions are counted from 1.
    /// actions : int or list of str, optional
    ///     All actions that there are: their number, or their names. By default those of a policy, or else those that
    ///     occur: then ``"uniform"`` cannot be evaluated, and learning certifies only if all of them occur in the records
    ///     set aside.
    /// candidates_column : str, optional
    ///     The column of the candidates of each record, lists of objects with their features: ``candidates``.
    /// identity : str, optional
    ///     The field of a candidate that is its identity: ``id``, ``_id``, ``_tag``, ``item_id`` or ``action_id``.
    /// action_is : {"place", "identity"}, optional
    ///     How the action names the chosen candidate. By default by its identity, if action and identities are both texts or
    ///     both numbers, and otherwise by its place.
    /// positions : bool
    ///     Whether the features of candidates are ignored, and their places are the actions.
    /// rows_are_candidates : bool
    ///     Whether every row is a candidate, and rows next to each other with the same event id are one record. By default
    ///     if there are event ids and a column ``chosen``.
    /// chosen : str, optional
    ///     If rows are candidates: the column that is 1 or true for the chosen one, or the column of the reward or the
    ///     propensity, if only the chosen one has it: ``chosen``.
    /// candidate_features : list of str, optional
    ///     If rows are candidates: the columns that are features of candidates. By default those that differ between the
    ///     rows of a record.
    /// catalogue : path or table, optional
    ///     The features of candidates, one row for each identity.
    /// catalogue_key : str, optional
    ///     The column of the identity in the catalogue.
    ///
    /// Examples
    /// --------
    ///
    ///     >>> import pandas, surefoot
    ///     >>> frame = pandas.DataFrame({"shown": [0, 1], "pscore": [0.5, 0.5], "click": [1, 0]})
    ///     >>> surefoot.LogSource.open(frame, action="shown").scan()["records"]
    ///     2
    #[staticmethod]
    #[pyo3(signature = (
        source, *, format = None, action = None, propensity = None, reward = None, event_id = None, policy_version = None,
        actions_from_one = false, actions = None, candidates_column = None, identity = None, action_is = None, positions = false,
        rows_are_candidates = false, chosen = None, candidate_features = None, catalogue = None, catalogue_key = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "each names a column")]
    fn open(
        source: &Bound<'_, PyAny>,
        format: Option<&str>,
        action: Option<String>,
        propensity: Option<String>,
        reward: Option<String>,
        event_id: Option<String>,
        policy_version: Option<String>,
        actions_from_one: bool,
        actions: Option<&Bound<'_, PyAny>>,
        candidates_column: Option<String>,
        identity: Option<String>,
        action_is: Option<&str>,
        positions: bool,
        rows_are_candidates: bool,
        chosen: Option<String>,
        candidate_features: Option<Vec<String>>,
        catalogue: Option<&Bound<'_, PyAny>>,
        catalogue_key: Option<&str>,
    ) -> Result<Self> {
        let actions = actions.map(all_actions).transpose()?;
        let catalogue = self::catalogue(source.py(), catalogue, catalogue_key)?;
        let how = |how: &str| how.parse::<ActionIs>().map_err(|_| setting("action_is", "place or identity", how));
        let columns = ColumnNames {
            event_id,
            action,
            propensity,
            reward,
            policy_version,
            from_one: actions_from_one,
            candidates: candidates_column,
            identity,
            action_is: action_is.map(how).transpose()?,
            positions,
            rows_are_candidates,
            chosen,
            candidate_features,
        };
        let made =
            |reader: LogReader| PySource { reader: hearing(reader).with_actions(actions).with_catalogue(catalogue) };
        if source.hasattr("__arrow_c_stream__")? {
            format.map(of_name).transpose()?;
            return Ok(made(LogReader::in_memory("logs".into(), table(source)?.0, columns)));
        }
        let format: Option<Format> = format.map(of_name).transpose()?;
        let paths = match source.extract::<PathBuf>() {
            Ok(path) => vec![path],
            Err(_) => source.extract::<Vec<PathBuf>>().map_err(|_| {
                let allowed = "a path, a list of paths, or a table that speaks Arrow's C stream";
                setting("logs", allowed, source.get_type())
            })?,
        };
        if paths.is_empty() {
            return Err(setting("logs", "at least one file", "none"));
        }
        // A URL is listed.
        Ok(made(source.py().detach(|| LogReader::new(paths, format, columns))))
    }

    /// All records that are not skipped, unchanged: a table with Arrow's C stream.
    ///
    ///     >>> import pandas, surefoot
    ///     >>> frame = pandas.DataFrame({"action": [0, 1], "pscore": [0.5, 0.5], "reward": [1.0, 0.0]})
    ///     >>> pandas.DataFrame.from_arrow(surefoot.open_logs(frame).to_arrow()).shape
    ///     (2, 3)
    fn to_arrow(&self, py: Python<'_>) -> Result<PyArrowTable> {
        let read = || self.reader.batches().map(|batch| Ok(batch?.table().clone())).collect();
        let batches: Vec<RecordBatch> = run(py, || -> surefoot_data::Result<_> { read() })?;
        let Some(schema) = batches.first().map(RecordBatch::schema) else {
            return Err(crate::failure::size("the logs", "at least 1 record", 0));
        };
        if let Some(other) = batches.iter().find(|batch| batch.schema() != schema) {
            let names =
                |schema: &SchemaRef| schema.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>().join(", ");
            let allowed = format!("the same in all batches: {}", names(&schema));
            return Err(setting("the columns of the logs", &allowed, names(&other.schema())));
        }
        Ok(PyArrowTable { batches, schema })
    }

    /// Counts records and actions in one pass, and finds the rounds.
    ///
    /// ``by`` says how records are grouped into rounds: ``"policy-version"``, ``"file"``, or a column. The result has
    /// ``records``, ``skipped``, ``groups`` (each with its number of records, in order of appearance), ``interleaved``
    /// (whether the records of a group continue after another group has begun) and the names of the ``actions``.
    ///
    ///     >>> import pandas, surefoot
    ///     >>> frame = pandas.DataFrame({"action": [0, 1], "pscore": [0.5, 0.5], "reward": [1.0, 0.0], "day": ["mon", "tue"]})
    ///     >>> surefoot.open_logs(frame).scan(by="day")["groups"]
    ///     [('mon', 1), ('tue', 1)]
    #[pyo3(signature = (*, by = "policy-version"))]
    fn scan<'py>(&self, py: Python<'py>, by: &str) -> Result<Bound<'py, PyDict>> {
        let scan = run(py, || Scan::of(&self.reader, &grouping(by)))?;
        let found = PyDict::new(py);
        found.set_item("records", scan.records)?;
        found.set_item("skipped", scan.skipped)?;
        found.set_item("groups", scan.groups)?;
        found.set_item("interleaved", scan.interleaved)?;
        found.set_item("actions", action_names(&scan.actions))?;
        Ok(found)
    }

    /// Lints the logs: ``summary`` and ``findings``. See :func:`surefoot.lint`.
    ///
    ///     >>> import pandas, surefoot
    ///     >>> frame = pandas.DataFrame({"action": [0, 1], "pscore": [0.5, 0.0], "reward": [1.0, 0.0]})
    ///     >>> found = surefoot.open_logs(frame)._lint(reward_range=(0.0, 1.0), policies={}, deployed={})
    ///     >>> found["findings"][0]["check"]
    ///     'propensity'
    #[pyo3(signature = (*, reward_range, policies, deployed))]
    fn _lint<'py>(
        &self,
        py: Python<'py>,
        reward_range: (f64, f64),
        policies: &Bound<'py, PyDict>,
        deployed: &Bound<'py, PyDict>,
    ) -> Result<Bound<'py, PyAny>> {
        RewardRange::new(reward_range.0, reward_range.1)?;
        let deployed = deployed.iter().map(|(version, policy)| Ok((version.extract()?, judged(&policy)?)));
        let settings = LintSettings {
            rewards: [reward_range.0, reward_range.1],
            policies: all_judged(policies)?.into_iter().map(|named| (named.name, named.policy)).collect(),
            deployed: deployed.collect::<Result<_>>()?,
            ..LintSettings::default()
        };
        let report = run(py, || -> surefoot_data::Result<_> {
            let (mut lint, mut batches) = (Lint::new(settings), self.reader.batches());
            batches.by_ref().try_for_each(|batch| lint.add(&batch?))?;
            Ok(lint.finish(batches.skipped()))
        })?;
        json::to_python(py, &report)
    }

    /// Evaluates several policies in one pass: an evaluation for each name, as in :func:`surefoot.evaluate`.
    ///
    /// ``policies`` are policies that apply to raw records, paths of such policies, ``"columns:PREFIX"``,
    /// ``"list:COLUMN"``, ``"uniform"`` or ``"logged"``. The reward ``model`` is ``"none"``, ``"linear"``,
    /// ``"columns:PREFIX"`` or ``"list:COLUMN"``; ``ignore`` are columns that the linear model does not use. ``map`` is an
    /// engine (:mod:`surefoot.engines`).
    ///
    ///     >>> import pandas, surefoot
    ///     >>> frame = pandas.DataFrame({"action": [0, 1], "pscore": [0.25, 0.5], "reward": [1.0, 0.0]})
    ///     >>> settings = dict(model="none", ignore=[], delta=0.05, replicates=0, seed=1, largest_weight=None)
    ///     >>> found = surefoot.open_logs(frame, actions=2)._evaluate(
    ///     ...     {"even": "uniform"}, reward_range=(0.0, 1.0), estimators=["ips"], **settings
    ///     ... )
    ///     >>> found["even"]["estimates"][0]["value"]
    ///     1.0
    #[pyo3(signature = (
        policies, *, reward_range, estimators, model, ignore, delta, replicates, seed, largest_weight, map = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "settings, by their names")]
    fn _evaluate<'py>(
        &self,
        py: Python<'py>,
        policies: &Bound<'py, PyDict>,
        reward_range: (f64, f64),
        estimators: Option<Vec<String>>,
        model: &str,
        ignore: Vec<String>,
        delta: f64,
        replicates: usize,
        seed: u64,
        largest_weight: Option<f64>,
        map: Option<Py<PyAny>>,
    ) -> Result<Bound<'py, PyDict>> {
        let names = |names: Vec<String>| names.iter().map(|name| Ok(name.parse()?)).collect::<Result<_>>();
        let request = EvaluateRequest {
            policies: all_judged(policies)?,
            reward_range: reward_range.into(),
            model: ModelRequest::named(model, &ignore)?,
            estimators: estimators.map(names).transpose()?,
            delta,
            replicates,
            largest_weight,
            seed,
        };
        let reader = self.reader.clone().with_engine(engine(map));
        let evaluated = run(py, || evaluate(&reader, &request, |_| ()))?;
        let found = PyDict::new(py);
        for policy in &evaluated.policies {
            found.set_item(&policy.name, in_rewards(py, evaluated.records, evaluated.confidence, policy, &[])?)?;
        }
        Ok(found)
    }

    /// Bounds for several policies that hold simultaneously, in one pass. All policies must have been fixed before the
    /// records. See :func:`surefoot.select`.
    ///
    ///     >>> import pandas, surefoot
    ///     >>> logged = {"action": [0, 1] * 50, "pscore": 0.5, "reward": [1.0, 0.0] * 50}
    ///     >>> frame = pandas.DataFrame({**logged, "pi_0": 1.0, "pi_1": 0.0})
    ///     >>> found = surefoot.open_logs(frame)._select(
    ///     ...     {"even": "uniform", "first": "columns:pi_"}, reward_range=(0.0, 1.0), prior=None, delta=0.05
    ///     ... )
    ///     >>> found["chosen"]
    ///     'first'
    #[pyo3(signature = (policies, *, reward_range, prior, delta, map = None))]
    fn _select<'py>(
        &self,
        py: Python<'py>,
        policies: &Bound<'py, PyDict>,
        reward_range: (f64, f64),
        prior: Option<Vec<f64>>,
        delta: f64,
        map: Option<Py<PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        let request =
            SelectRequest { policies: all_judged(policies)?, prior, reward_range: reward_range.into(), delta };
        let reader = self.reader.clone().with_engine(engine(map));
        json::to_python(py, &run(py, || select(&reader, &request, |_| ()))?)
    }

    /// All records in memory, encoded, as rounds to learn from. Use :func:`surefoot.learn` instead.
    ///
    /// Parameters
    /// ----------
    /// by : str
    ///     How records are grouped into rounds: ``"policy-version"``, ``"file"``, or a column.
    /// set_aside : float
    ///     The share of the first round that only fixes the features.
    /// reward_range : (float, float)
    ///     The lowest and the highest possible reward.
    /// features : list of str or None
    ///     The feature columns. ``None``: all columns that have no other role.
    /// ignore, categorical : list of str
    ///     Columns that are not features, and columns to treat as categories even if all their values are numbers.
    /// vocabulary, hash_bits : int
    ///     The largest number of categories that get a feature each, and the base-2 logarithm of the number of features
    ///     of a column with more categories, which is hashed.
    /// standardise : bool
    ///     Whether numbers are centred and divided by their standard deviation.
    /// prior : Policy or None
    ///     A policy that applies to raw records, if they are to be encoded as it does.
    /// cross : list of str or None
    ///     The products of context features and candidate features, as pairs of namespaces. ``None``: of all.
    /// cross_bits : int
    ///     If own features of candidates and products are more than 2 to this power, they are hashed into so many.
    /// memory : int or None
    ///     The memory in bytes. Encoded records that need more than a third of it are stored in files. ``None``: no limit.
    /// cache : path or None
    ///     The folder in which encoded records are kept, and used again for the same files.
    /// map : callable or None
    ///     An engine: ``map(task, shards, payload)`` returns ``run_shard(task, shard, payload)`` of each shard, in their order.
    ///     The features of the records stay where it calls that.
    ///
    /// Examples
    /// --------
    ///
    ///     >>> import pandas, surefoot
    ///     >>> frame = pandas.DataFrame({"action": [0, 1] * 50, "pscore": 0.5, "reward": [1.0, 0.0] * 50, "age": range(100)})
    ///     >>> surefoot.open_logs(frame).rounds(
    ///     ...     by="file", set_aside=0.1, reward_range=(0.0, 1.0), features=None, ignore=[], categorical=[], vocabulary=64,
    ///     ...     hash_bits=8, standardise=True, prior=None,
    ///     ... )
    ///     <surefoot.Rounds: 90 records in 1 rounds, 1 features, 2 actions>
    #[pyo3(signature = (
        *, by = "policy-version", set_aside = 0.1, reward_range = (0.0, 1.0), features = None, ignore = Vec::new(),
        categorical = Vec::new(), vocabulary = 64, hash_bits = 8, standardise = true, prior = None, cross = None, cross_bits = 18,
        memory = None, cache = None, map = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "settings, by their names")]
    fn rounds(
        &self,
        py: Python<'_>,
        by: &str,
        set_aside: f64,
        reward_range: (f64, f64),
        features: Option<Vec<String>>,
        ignore: Vec<String>,
        categorical: Vec<String>,
        vocabulary: usize,
        hash_bits: u32,
        standardise: bool,
        prior: Option<&PyPolicy>,
        cross: Option<Vec<String>>,
        cross_bits: u8,
        memory: Option<u64>,
        cache: Option<PathBuf>,
        map: Option<Py<PyAny>>,
    ) -> Result<PyRounds> {
        let known = match prior.map(|prior| prior.inputs.as_deref()) {
            Some(None) => {
                return Err(setting(
                    "the prior",
                    "a policy that says how records become its features",
                    "one of features",
                ));
            }
            known => known.flatten(),
        };
        let request = ReadRequest {
            grouping: grouping(by),
            reward_range: reward_range.into(),
            encoding: EncodingSettings {
                features,
                ignore,
                categorical,
                vocabulary,
                hash_bits,
                standardise,
                crosses: cross,
                cross_bits,
            },
            set_aside,
            storage: Storage { memory, cache },
            engine: engine(map),
        };
        Ok(PyRounds { rounds: run(py, || Rounds::read(&self.reader, &request, known))? })
    }

    /// The decisions of a policy on raw records: a table with Arrow's C stream, with ``event_id``, ``action``,
    /// ``pscore`` and ``policy_version``. See :func:`surefoot.score`.
    ///
    /// With ``probabilities``, it also has the probabilities of all actions. An event with the same id always gets the
    /// same decision, wherever it occurs.
    ///
    ///     >>> import pandas, surefoot
    ///     >>> frame = pandas.DataFrame({"action": [0, 1] * 50, "pscore": 0.5, "reward": [1.0, 0.0] * 50, "age": range(100)})
    ///     >>> policy = surefoot.learn(frame, surefoot.SeqLS(lam=0.4)).policy
    ///     >>> new = pandas.DataFrame({"event_id": ["x", "y"], "age": [17, 71]})
    ///     >>> table = pandas.DataFrame.from_arrow(surefoot.open_logs(new).score(policy, seed=1))
    ///     >>> list(table.columns)
    ///     ['event_id', 'action', 'pscore', 'policy_version']
    #[pyo3(signature = (policy, *, seed, probabilities = false))]
    fn score(&self, py: Python<'_>, policy: &Bound<'_, PyAny>, seed: u64, probabilities: bool) -> Result<PyArrowTable> {
        let scorer = Scorer::new(judged(policy)?, seed, probabilities)?;
        let reader = self.reader.clone().without_labels();
        let score = || reader.batches().map(|batch| scorer.score(&batch?)).collect();
        let decided: Vec<RecordBatch> = run(py, || -> surefoot_data::Result<_> { score() })?;
        Ok(PyArrowTable { batches: decided, schema: scorer.schema().clone() })
    }

    /// Writes the records to a file of another format. Returns the number of records, and the columns that were
    /// renamed.
    ///
    /// By default the ``format`` is taken from the extension of the path. Columns in ``ignore`` are left out.
    ///
    ///     >>> import pandas, pathlib, surefoot, tempfile
    ///     >>> frame = pandas.DataFrame({"action": [0, 1], "pscore": [0.5, 0.5], "reward": [1.0, 0.0]})
    ///     >>> with tempfile.TemporaryDirectory() as folder:
    ///     ...     surefoot.open_logs(frame).convert(pathlib.Path(folder) / "logs.csv")
    ///     (2, [])
    #[pyo3(signature = (path, *, format = None, ignore = Vec::new()))]
    fn convert(
        &self,
        py: Python<'_>,
        path: PathBuf,
        format: Option<&str>,
        ignore: Vec<String>,
    ) -> Result<(u64, Vec<(String, String)>)> {
        let format = match format {
            Some(name) => of_name(name)?,
            None => Format::of(&path)?,
        };
        let done = run(py, || convert(&self.reader, &path, format, &ignore))?;
        Ok((done.records, done.renamed))
    }

    fn __repr__(&self) -> String {
        format!("<surefoot.LogSource {}>", self.reader.place())
    }
}
