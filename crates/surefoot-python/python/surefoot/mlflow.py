"""MLflow: a policy as a pyfunc model, which returns decisions together with the propensities to log.

The artifact is the policy file, not a pickle. :func:`load_model` returns the policy itself, for example to continue
learning from it or to certify it; ``mlflow.pyfunc.load_model`` returns a model that makes decisions.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot import __version__
from surefoot._surefoot import Policy
from surefoot.logs import score

try:
    import mlflow.pyfunc
    import pandas
    import pyarrow
    from mlflow.models import Model, ModelSignature
    from mlflow.pyfunc.model import PythonModel
    from mlflow.types.schema import ParamSchema, ParamSpec
except ImportError as error:
    raise ImportError("surefoot.mlflow needs MLflow, pandas and pyarrow: pip install mlflow pandas pyarrow") from error

if TYPE_CHECKING:
    from mlflow.models.model import ModelInfo

__all__ = ["PolicyModel", "load_model", "log_model", "save_model"]

_ARTIFACT = "policy"
_FILE = "policy.safetensors"
#: The code of the model, which MLflow stores in place of a pickle.
_CODE = """from mlflow.models import set_model
from surefoot.mlflow import PolicyModel

set_model(PolicyModel())
"""
#: The names of the column with event ids, as in all logs.
_IDS = ("event_id", "EventId")


class PolicyModel(PythonModel):
    """The model that MLflow runs: it takes records and returns decisions.

    A policy that was learned from raw records (:func:`surefoot.learn`) takes a data frame of raw records. Any other
    policy takes a data frame of its features: numeric columns in the order in which it was learned. The result is a
    data frame with one row per record: ``event_id``, ``action``, ``pscore`` and ``policy_version``. Log all of them.
    """

    policy: Policy

    def load_context(self, context: Any) -> None:
        """Reads the policy's file."""
        self.policy = Policy.load(os.path.join(context.artifacts[_ARTIFACT], _FILE))

    def predict(
        self, context: Any, model_input: pandas.DataFrame, params: dict[str, Any] | None = None
    ) -> pandas.DataFrame:
        """Makes a decision for each record.

        ``params["seed"]`` is the seed of the draws. If records have an ``event_id``, its default is 1, and an event
        always gets the same decision. Otherwise each call uses a new seed by default, so that calls do not repeat the
        same draws. ``params["probabilities"]`` adds a column with the probabilities of all actions.
        """
        frame = pandas.DataFrame(model_input)
        params = params or {}
        ids = next((name for name in _IDS if name in frame.columns), None)
        seed = params.get("seed")
        if seed is None:
            seed = 1 if ids is not None else secrets.randbits(63)
        wanted = bool(params.get("probabilities", False))
        if self.policy.inputs is not None:
            decided = pyarrow.table(score(frame, self.policy, seed=int(seed), probabilities=wanted))
            return decided.to_pandas()
        return _decide(self.policy, frame, ids, int(seed), wanted)


def _decide(policy: Policy, frame: pandas.DataFrame, ids: str | None, seed: int, wanted: bool) -> pandas.DataFrame:
    """Decisions of a policy that takes features, not raw records."""
    named = [str(i) for i in range(len(frame))] if ids is None else [str(name) for name in frame[ids]]
    keys = np.arange(len(frame), dtype=np.uint64)
    if ids is not None:
        hashed = (hashlib.blake2b(name.encode(), digest_size=8).digest() for name in named)
        keys = np.array([int.from_bytes(digest, "little") for digest in hashed], dtype=np.uint64)
        frame = frame.drop(columns=ids)
    features = frame.to_numpy(dtype=np.float32)
    action, pscore = policy.sample(features, seed=seed, keys=keys)
    out = {"event_id": named, "action": action, "pscore": pscore, "policy_version": policy.fingerprint}
    if wanted:
        out["probabilities"] = policy.predict_proba(features).tolist()
    return pandas.DataFrame(out)


def _settings(policy: Any, given: dict[str, Any], folder: str) -> dict[str, Any]:
    """The arguments for MLflow that :func:`save_model` and :func:`log_model` share."""
    policy = getattr(policy, "policy_", getattr(policy, "policy", policy))
    if not isinstance(policy, Policy):
        raise TypeError(f"policy should be a Policy, or have one, as a fitted estimator has, but is {policy!r}")
    place = Path(folder) / _ARTIFACT
    place.mkdir()
    # A folder of its own, since a policy may write its basis beside itself.
    policy.save(place / _FILE)
    code = Path(folder) / "surefoot_policy.py"
    code.write_text(_CODE)
    params = ParamSchema([ParamSpec("seed", "long", None), ParamSpec("probabilities", "boolean", False)])
    about = {"fingerprint": policy.fingerprint, "n_actions": policy.n_actions}
    settings = {
        "python_model": str(code),
        "artifacts": {_ARTIFACT: str(place)},
        "signature": ModelSignature(params=params),
        **given,
        "metadata": {"surefoot": about, **(given.get("metadata") or {})},
    }
    if "conda_env" not in given:
        # Otherwise MLflow would guess the requirements by running the model.
        settings.setdefault("pip_requirements", [f"surefoot[mlflow]=={__version__}"])
    return settings


def save_model(policy: Any, path: str | os.PathLike[str], **settings: Any) -> None:
    """Writes a policy as an MLflow model to a new folder.

    ``policy`` is a :class:`~surefoot.Policy` that can be saved, a fitted learner, or the result of
    :func:`surefoot.learn`. All other arguments are those of ``mlflow.pyfunc.save_model``, such as ``signature``,
    ``input_example``, ``metadata`` or ``pip_requirements``.

    >>> import tempfile, mlflow.pyfunc, numpy as np, pandas, surefoot
    >>> from surefoot.mlflow import load_model, save_model
    >>> policy = surefoot.Policy.gaussian(np.eye(2), 0.1)
    >>> path = tempfile.mkdtemp() + "/model"
    >>> save_model(policy, path)
    >>> load_model(path).fingerprint == policy.fingerprint
    True
    >>> decided = mlflow.pyfunc.load_model(path).predict(pandas.DataFrame({"x": [5.0, 0.0], "y": [0.0, 5.0]}))
    >>> decided["action"].tolist(), decided["pscore"].round(6).tolist()
    ([0, 1], [1.0, 1.0])
    """
    with tempfile.TemporaryDirectory() as folder:
        mlflow.pyfunc.save_model(path=os.fspath(path), **_settings(policy, settings, folder))


def log_model(policy: Any, name: str = "policy", **settings: Any) -> ModelInfo:
    """Logs a policy as a model of the active run. The arguments are those of :func:`save_model` and of
    ``mlflow.pyfunc.log_model``, such as ``registered_model_name``."""
    with tempfile.TemporaryDirectory() as folder:
        logged: ModelInfo = mlflow.pyfunc.log_model(name=name, **_settings(policy, settings, folder))
    return logged


def load_model(path: str | os.PathLike[str]) -> Policy:
    """Loads the policy of a model from a folder, or from a URI that MLflow knows, such as ``models:/name/1``."""
    folder = mlflow.artifacts.download_artifacts(artifact_uri=os.fspath(path))
    flavour = Model.load(folder).flavors["python_function"]
    return Policy.load(Path(folder) / flavour["artifacts"][_ARTIFACT]["path"] / _FILE)
