"""The portfolio, and candidates of the user's own."""

from __future__ import annotations

import pickle

import numpy as np
import pandas
import pytest
from conftest import REPO

import surefoot

LOGS = str(REPO / "examples/logs.csv")


def frame(n=3000, seed=0):
    """Three actions; the right one depends on the sign of a product, which no linear model can tell."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    right = (x[:, 0] * x[:, 1] > 0).astype(int)
    action = rng.integers(3, size=n)
    reward = (rng.random(n) < np.where(action == right, 0.9, 0.1)).astype(float)
    return pandas.DataFrame({"a": x[:, 0], "b": x[:, 1], "action": action, "pscore": 1 / 3, "reward": reward})


def right(X):
    """The best policy. Numbers are standardised, which keeps the signs of these contexts nearly."""
    p = np.full((len(X), 3), 0.02)
    p[np.arange(len(X)), (X[:, 0] * X[:, 1] > 0).astype(int)] = 0.96
    return p


def loop(learner, rounds, world):
    for round in rounds:
        running = learner.policy_ if round else learner.prior
        learner.partial_fit(world.collect(running, 300, round=round, start=300 * round))
    return learner


def test_a_pickled_portfolio_goes_on_bit_for_bit():
    world = surefoot.Environment.synthetic(seed=3)
    whole = loop(surefoot.Portfolio(prior=world.first_policy(alpha=0.0)), range(4), world)
    half = loop(surefoot.Portfolio(prior=world.first_policy(alpha=0.0)), range(2), world)
    again = loop(pickle.loads(pickle.dumps(half)), range(2, 4), world)
    assert again.policy_.fingerprint == whole.policy_.fingerprint
    assert again.hand_over_.fingerprint == whole.hand_over_.fingerprint
    assert again.hand_over_certificate_ == whole.hand_over_certificate_


def test_a_saved_portfolio_is_verified_and_goes_on(tmp_path):
    world = surefoot.Environment.synthetic(seed=3)
    learner = loop(surefoot.Portfolio(prior=world.first_policy(alpha=0.0)), range(2), world)
    learner.save_run(tmp_path / "run")
    assert surefoot.verify(tmp_path / "run").verified
    again = surefoot.Portfolio(prior=learner.prior).load_run(tmp_path / "run")
    assert again.hand_over_.fingerprint == learner.hand_over_.fingerprint
    assert loop(again, [2], world).policy_.fingerprint == loop(learner, [2], world).policy_.fingerprint


def test_reports_have_members_and_coverage():
    world = surefoot.Environment.synthetic(seed=3)
    learner = loop(surefoot.Portfolio(prior=world.first_policy(alpha=0.0)), range(2), world)
    report = learner.history_[-1]
    assert {member["member"] for member in report["members"]} == {"kernel", "linear", "search", "trees"}
    assert sum(member["leads"] for member in report["members"]) == 1
    coverage = report["coverage"]
    assert coverage["records"] == 300 and 0 < coverage["effective"] <= 300
    assert (coverage["alive"] < 5) == (report["warning"] is not None and "actions" in report["warning"])


def test_wrong_members_are_refused():
    with pytest.raises(surefoot.SettingError, match="members should be usual, all, or some of"):
        surefoot.Portfolio(members="forest").fit(np.ones((4, 1)), [0, 1, 0, 1], [0.5] * 4, [0.0, 1.0, 0.0, 1.0])


def test_learn_has_the_table_of_members():
    learned = surefoot.learn(LOGS, ignore=["pi_*"])
    assert [member["leads"] for member in learned.members].count(True) == 1
    assert learned.winner == next(member["member"] for member in learned.members if member["leads"])
    assert f"learner {learned.winner}, estimated, chosen" in str(learned)


def test_a_better_policy_of_the_users_own_wins_and_is_certified():
    learned = surefoot.learn(frame(), surefoot.Portfolio(members="linear"), candidates={"mine": right}, actions=3)
    assert learned.winner == "mine" and learned.candidates[0]["leads"]
    assert not any(member["leads"] for member in learned.members)
    assert learned.policy.kind == "callable"
    # The truth is 0.96 x 0.9 + 0.04 x 0.1 = 0.868.
    assert 0.55 < learned.at_least < 0.868
    assert "candidate mine, estimated, chosen" in str(learned)
    with pytest.raises(surefoot.SettingError, match="the candidate mine"):
        learned.save("nowhere.safetensors")


def test_a_worse_policy_loses_and_costs_nothing():
    alone = surefoot.learn(frame(), actions=3)
    beside = surefoot.learn(
        frame(), candidates=[surefoot.Policy.uniform(3), lambda X: np.full((len(X), 3), 1 / 3)], actions=3
    )
    assert beside.policy.fingerprint == alone.policy.fingerprint
    assert beside.at_least == alone.at_least
    assert [candidate["name"] for candidate in beside.candidates] == ["Policy", "<lambda>"]


def test_models_are_fitted_to_records_that_are_not_held_back():
    seen = []

    class Spy:
        def fit(self, X, y):
            seen.append(len(y))
            self.mean = y.mean()
            return self

        def predict(self, X):
            return np.full(len(X), self.mean)

    learned = surefoot.learn(frame(), surefoot.Portfolio(members="linear"), candidates=[Spy()], actions=3)
    # 300 records are set aside and 540 held back; a fifth of the other 2,160 chooses.
    assert learned.held_back == 540 and sum(seen) in (1728, 1728 + 2160)


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_a_model_of_scikit_learn_joins(kind):
    ensemble = pytest.importorskip("sklearn.ensemble")
    make = {"classifier": ensemble.RandomForestClassifier, "regressor": ensemble.RandomForestRegressor}[kind]
    model = make(n_estimators=30, min_samples_leaf=10, random_state=1)
    learned = surefoot.learn(frame(), surefoot.Portfolio(members="linear"), candidates=[model], actions=3)
    assert learned.winner == type(model).__name__
    assert learned.at_least > 0.6
    x = np.array([[1.0, 1.0], [1.0, -1.0]], dtype=np.float32)
    assert learned.policy.predict_proba(x).argmax(axis=1).tolist() == [1, 0]


def test_what_is_no_candidate_is_refused():
    with pytest.raises(surefoot.SettingError, match="a candidate should be a Policy, a function of contexts"):
        surefoot.learn(frame(), candidates=[3], actions=3)
    with pytest.raises(surefoot.SettingError, match="one over 2"):
        surefoot.learn(frame(), candidates=[surefoot.Policy.uniform(2)], actions=3)
    with pytest.raises(surefoot.SettingError, match="a portfolio, if there are candidates"):
        surefoot.learn(frame(), surefoot.SeqAdjLS(), candidates=[right], actions=3)
    with pytest.raises(surefoot.SettingError, match="above 0, if there are candidates"):
        surefoot.learn(frame(), held_back=0.0, candidates=[right], actions=3)
    with pytest.raises(surefoot.SurefootError, match="shape"):
        surefoot.learn(frame(), candidates=[lambda X: np.ones((len(X), 2))], actions=3)
