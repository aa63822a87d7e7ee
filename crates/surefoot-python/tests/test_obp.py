"""Open Bandit Pipeline: there and back, and its own estimators beside ours."""

from __future__ import annotations

import sys
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.sparse
from conftest import REPO, records

import surefoot
from surefoot import obp


def feedback_of(rng: np.random.Generator, n: int = 300, k: int = 3) -> dict[str, Any]:
    made = records(rng, n=n, k=k)
    return {
        "n_rounds": n,
        "n_actions": k,
        "context": made["X"].astype(float),
        "action_context": np.eye(k),
        "action": made["action"],
        "position": None,
        "reward": made["reward"],
        "pscore": rng.uniform(0.1, 1.0, n),
    }


def test_there_and_back(rng: np.random.Generator) -> None:
    feedback = feedback_of(rng)
    back = obp.to_feedback(obp.from_feedback(feedback))
    assert back["n_rounds"] == 300 and back["n_actions"] == 3
    assert back["position"] is None and back["action_context"] is None
    for name in ("context", "action", "reward", "pscore"):
        np.testing.assert_array_equal(back[name], feedback[name])
    assert back["context"].dtype == np.float64 and back["action"].dtype == np.int64


def test_back_and_there(world: surefoot.Environment) -> None:
    logs = world.collect(world.first_policy(alpha=1.0), 200)
    again = obp.from_feedback(obp.to_feedback(logs))
    np.testing.assert_array_equal(again.X, logs.X)
    np.testing.assert_array_equal(again.pscore, logs.pscore)


def test_sparse_contexts_become_dense(rng: np.random.Generator) -> None:
    X = scipy.sparse.random(20, 6, density=0.3, format="csr", random_state=1, dtype=np.float32)
    logs = surefoot.Logs(X, rng.integers(2, size=20), np.full(20, 0.5), np.ones(20))
    np.testing.assert_array_equal(obp.to_feedback(logs)["context"], X.toarray())


def test_rewards_keep_their_range(rng: np.random.Generator) -> None:
    feedback = feedback_of(rng)
    feedback["reward"] = feedback["reward"] * 7 - 2
    logs = obp.from_feedback(feedback, reward_range=(-2.0, 5.0))
    np.testing.assert_allclose(obp.to_feedback(logs)["reward"], feedback["reward"], atol=1e-12)
    with pytest.raises(surefoot.DataError):
        obp.from_feedback(feedback)


def test_number_of_actions(rng: np.random.Generator) -> None:
    feedback = feedback_of(rng)
    assert obp.from_feedback(feedback, n_actions=9).n_actions == 9
    del feedback["n_actions"]
    assert obp.from_feedback(feedback).n_actions == 3


def test_positions(rng: np.random.Generator) -> None:
    feedback = feedback_of(rng)
    alone = obp.from_feedback(feedback)
    assert obp.from_feedback(feedback, position=0).fingerprint == alone.fingerprint
    assert obp.from_feedback({**feedback, "position": np.zeros(300, int)}).fingerprint == alone.fingerprint
    several = {**feedback, "position": np.arange(300) % 3}
    with pytest.raises(surefoot.SettingError, match=r"position should be given, one of \[0, 1, 2\]"):
        obp.from_feedback(several)
    second = obp.from_feedback(several, position=1)
    np.testing.assert_array_equal(second.action, feedback["action"][1::3])
    np.testing.assert_array_equal(second.X, feedback["context"][1::3].astype(np.float32))
    with pytest.raises(surefoot.SettingError, match=r"one of \[0, 1, 2\], but is 3"):
        obp.from_feedback(several, position=3)
    with pytest.raises(surefoot.SettingError, match="has no positions, but is 2"):
        obp.from_feedback(feedback, position=2)


@pytest.mark.parametrize("name", ["context", "action", "reward", "pscore"])
def test_what_is_missing_is_named(rng: np.random.Generator, name: str) -> None:
    whole = feedback_of(rng)
    for feedback in ({**whole, name: None}, {other: whole[other] for other in whole if other != name}):
        with pytest.raises(surefoot.SettingError, match=f"^{name} should be .*missing$") as raised:
            obp.from_feedback(feedback)
        assert raised.value.setting == name


def test_sizes_must_agree(rng: np.random.Generator) -> None:
    with pytest.raises(surefoot.SettingError, match=r"n_rounds should be 300.*but is 299"):
        obp.from_feedback({**feedback_of(rng), "n_rounds": 299})
    with pytest.raises(surefoot.SurefootError):
        obp.from_feedback({**feedback_of(rng), "pscore": np.full(299, 0.5)})


def test_action_dist_of_all_kinds(rng: np.random.Generator) -> None:
    feedback = feedback_of(rng)
    learner = surefoot.SeqLS(lam=0.4, epochs=1).fit(obp.from_feedback(feedback))
    X = feedback["context"]
    p = learner.predict_proba(X)
    for policy in (learner, learner.policy_, learner.predict_proba):
        dist = obp.action_dist(policy, X)
        assert dist.shape == (300, 3, 1)
        np.testing.assert_array_equal(dist[:, :, 0], p)
        np.testing.assert_array_equal(obp.from_action_dist(dist), p)
    wide = obp.action_dist(learner, X, len_list=2)
    assert wide.shape == (300, 3, 2)
    np.testing.assert_array_equal(wide[:, :, 0], wide[:, :, 1])


def test_action_dist_refuses() -> None:
    X = np.ones((4, 2))
    with pytest.raises(surefoot.SettingError, match="len_list should be a whole number"):
        obp.action_dist(surefoot.Policy.uniform(2), X, len_list=0)
    with pytest.raises(surefoot.SettingError, match="policy should be a Policy"):
        obp.action_dist(3, X)
    with pytest.raises(surefoot.SettingError, match=r"\(4, number of actions\), but is \(4,\)"):
        obp.action_dist(lambda X: np.ones(len(X)), X)
    with pytest.raises(surefoot.SettingError, match="row 0 of what a policy returns should be a distribution"):
        obp.action_dist(lambda X: np.full((len(X), 2), 0.4), X)


def test_from_action_dist_takes_positions() -> None:
    dist = np.arange(24.0).reshape(4, 3, 2)
    np.testing.assert_array_equal(obp.from_action_dist(dist, position=1), dist[:, :, 1])
    picked = obp.from_action_dist(dist, position=[0, 1, 1, 0])
    np.testing.assert_array_equal(picked, [dist[0, :, 0], dist[1, :, 1], dist[2, :, 1], dist[3, :, 0]])
    for position, why in ((None, "has 2 of them"), (2, "from 0 to 1, but is 2"), ([0, 1], "one for each of 4 records")):
        with pytest.raises(surefoot.SettingError, match=why):
            obp.from_action_dist(dist, position=position)
    with pytest.raises(surefoot.SettingError, match=r"but is \(4, 3\)"):
        obp.from_action_dist(dist[:, :, 0])


@pytest.fixture(scope="module")
def theirs() -> Any:
    """Open Bandit Pipeline's estimators; it imports PyTorch on the way, which they do not use."""
    sys.path.insert(0, str(REPO / "bench/rivals"))
    try:
        import without_torch
    except ImportError as error:
        pytest.skip(f"Open Bandit Pipeline cannot be imported here: {error}")
    finally:
        sys.path.remove(str(REPO / "bench/rivals"))
        # Nobody else should meet a PyTorch that is none.
        if isinstance(sys.modules.get("torch"), Mock):
            for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
                del sys.modules[name]
    return without_torch


def test_same_estimates(theirs: Any, world: surefoot.Environment) -> None:
    logging, target = world.first_policy(alpha=0.5), world.first_policy(alpha=3.0)
    logs = world.collect(logging, 3000)
    feedback, names = obp.to_feedback(logs), ["ips", "snips", "clipped:2", "power-mean:0.1"]
    dist = obp.action_dist(target, feedback["context"])
    asked = {name: feedback[name] for name in ("reward", "action", "pscore")}
    ours = surefoot.evaluate(logs, target, estimators=names)
    for one, (name, their) in zip(ours.estimates, theirs.estimators(names).items()):
        value = their.estimate_policy_value(action_dist=dist, position=np.zeros(3000, int), **asked)
        assert one.value == pytest.approx(value, abs=1e-8), name
    assert len({round(one.value, 6) for one in ours.estimates}) == len(names)
