"""A policy as a model of MLflow, in a folder and in a store of files."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import REPO

mlflow = pytest.importorskip("mlflow")
pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")

import surefoot  # noqa: E402
from surefoot.mlflow import load_model, log_model, save_model  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*input example.*")


@pytest.fixture(scope="module")
def frame() -> Any:
    return pandas.read_csv(REPO / "examples/logs.csv")


@pytest.fixture(scope="module")
def learned(frame: Any) -> surefoot.Learned:
    return surefoot.learn(frame.head(2000), ignore=["pi_*"], progress=False)


@pytest.fixture(scope="module")
def plain() -> surefoot.Policy:
    """A policy that takes features."""
    rng = np.random.default_rng(1)
    return surefoot.Policy.gaussian(rng.normal(size=(3, 4)), 0.5, exploration=0.1)


@pytest.fixture(scope="module")
def model(plain: surefoot.Policy, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("models") / "plain"
    save_model(plain, path)
    return mlflow.pyfunc.load_model(str(path))


def features(n: int = 200) -> Any:
    return pandas.DataFrame(np.random.default_rng(2).normal(size=(n, 3)), columns=["a", "b", "c"])


def test_raw_records(frame: Any, learned: surefoot.Learned, tmp_path: Path) -> None:
    assert learned.policy.basis is not None, "a policy with a basis is two files"
    save_model(learned, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.fingerprint == learned.policy.fingerprint and again.inputs == learned.policy.inputs
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    found = model.predict(frame.tail(300), params={"seed": 7, "probabilities": True})
    expected = pyarrow.table(surefoot.score(frame.tail(300), learned.policy, seed=7, probabilities=True)).to_pandas()
    pandas.testing.assert_frame_equal(found, expected)
    assert list(found) == ["event_id", "action", "pscore", "policy_version", "probabilities"]
    assert set(found["action"]) <= {"banner", "coupon", "nothing"} and len(set(found["action"])) > 1
    assert set(found["policy_version"]) == {learned.policy.version} != {learned.policy.fingerprint}


def test_an_event_gets_the_same_decision_again(frame: Any, learned: surefoot.Learned, tmp_path: Path) -> None:
    save_model(learned.policy, tmp_path / "model")
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    records = frame.tail(400)
    whole = model.predict(records)
    assert whole["action"].tolist() == model.predict(records)["action"].tolist()
    alone = [model.predict(records.iloc[[i]])["action"].iloc[0] for i in range(20)]
    assert alone == whole["action"].tolist()[:20]
    assert whole["action"].tolist() != model.predict(records, params={"seed": 8})["action"].tolist()


def test_features(plain: surefoot.Policy, model: Any) -> None:
    X = features()
    found = model.predict(X, params={"seed": 3, "probabilities": True})
    action, pscore = plain.sample(X.to_numpy(np.float32), seed=3)
    assert found["action"].tolist() == action.tolist()
    np.testing.assert_array_equal(found["pscore"], pscore)
    np.testing.assert_array_equal(np.stack(found["probabilities"]), plain.predict_proba(X.to_numpy(np.float32)))
    assert set(found["policy_version"]) == {plain.fingerprint}
    assert "probabilities" not in model.predict(X)


def test_without_ids_no_two_calls_draw_alike(model: Any) -> None:
    one = features(1)
    actions = {int(model.predict(one)["action"].iloc[0]) for _ in range(60)}
    assert len(actions) > 1, "60 requests of one record all got the same draw"
    fixed = {int(model.predict(one, params={"seed": 5})["action"].iloc[0]) for _ in range(10)}
    assert len(fixed) == 1


def test_ids_of_features(model: Any) -> None:
    X = features().assign(event_id=[f"e{i}" for i in range(200)])
    whole = model.predict(X)
    assert whole["event_id"].tolist() == X["event_id"].tolist()
    upside_down = model.predict(X.iloc[::-1])
    assert upside_down["action"].tolist() == whole["action"].tolist()[::-1]
    # Each id has a draw of its own: one record many times is not decided in one way.
    same = pandas.concat([X.iloc[[0]]] * 100).assign(event_id=[f"f{i}" for i in range(100)])
    assert model.predict(same)["action"].nunique() > 1


def test_wrong_features_are_refused(model: Any) -> None:
    with pytest.raises(surefoot.SizeError):
        model.predict(features()[["a", "b"]])


def test_a_store_of_files(plain: surefoot.Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    try:
        with mlflow.start_run():
            info = log_model(plain, metadata={"owner": "us"}, input_example=features(2))
        assert load_model(info.model_uri).fingerprint == plain.fingerprint
        model = mlflow.pyfunc.load_model(info.model_uri)
        assert len(model.predict(features(5))) == 5
        assert model.metadata.metadata["owner"] == "us"
        assert model.metadata.metadata["surefoot"] == {"fingerprint": plain.fingerprint, "n_actions": 4}
    finally:
        mlflow.set_tracking_uri(before)


def test_what_is_written(plain: surefoot.Policy, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        save_model(plain, tmp_path / "model")
    assert not [record for record in caplog.records if "CloudPickle" in record.message]
    assert not list((tmp_path / "model").rglob("*.pkl"))
    assert f"surefoot[mlflow]=={surefoot.__version__}" in (tmp_path / "model/requirements.txt").read_text()
    save_model(plain, tmp_path / "other", pip_requirements=["surefoot"])
    assert "surefoot==" not in (tmp_path / "other/requirements.txt").read_text()


def test_an_estimator_has_a_policy(rng: np.random.Generator, tmp_path: Path) -> None:
    X, action = rng.normal(size=(100, 2)), rng.integers(2, size=100)
    learner = surefoot.SeqLS(lam=0.4, epochs=1).fit(X, action, np.full(100, 0.5), np.ones(100))
    save_model(learner, tmp_path / "model")
    assert load_model(tmp_path / "model").fingerprint == learner.policy_.fingerprint


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    mine = surefoot.Policy.custom(lambda X: [[0.5, 0.5]] * len(X), 2)
    with pytest.raises(surefoot.FileError, match="policies of class custom have no file"):
        save_model(mine, tmp_path / "model")
    with pytest.raises(TypeError, match="policy should be a Policy"):
        save_model("policy", tmp_path / "model")
    assert not (tmp_path / "model").exists()
