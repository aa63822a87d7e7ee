"""Every estimator against NumPy, every interval against what it promises."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from conftest import records
from hypothesis import given, settings
from hypothesis import strategies as st

import surefoot


def arrays(seed: int, n: int, k: int) -> tuple[surefoot.Logs, np.ndarray, np.ndarray]:
    """Logs of a random logger, the probabilities of a random policy, and predicted rewards."""
    rng = np.random.default_rng(seed)
    logger, judged = rng.dirichlet(np.ones(k), size=n), rng.dirichlet(np.ones(k), size=n)
    logger = 0.9 * logger + 0.1 / k
    action = np.array([rng.choice(k, p=p) for p in logger])
    reward = rng.random(n) * (rng.random(n) < 0.7)
    predicted = rng.random((n, k))
    pscore = logger[np.arange(n), action]
    return surefoot.Logs(rng.normal(size=(n, 2)), action, pscore, reward, n_actions=k), judged, predicted


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 3000), k=st.integers(2, 6))
def test_estimates_are_their_formulas(seed, n, k):
    logs, judged, predicted = arrays(seed, n, k)
    rows = np.arange(n)
    p, q, c = judged[rows, logs.action], logs.pscore, -logs.reward
    w, chat = p / q, -predicted
    mean, off = (judged * chat).sum(axis=1), c - chat[rows, logs.action]
    expected = {
        "ips": np.mean(w * c),
        "snips": np.sum(w * c) / np.sum(w),
        "clipped:3": np.mean(np.minimum(w, 3) * c),
        "es:0.7": np.mean(p * c / q**0.7),
        "ix:0.05": np.mean(p * c / (q + 0.05)),
        "power-mean:0.2": np.mean(w * c / (0.8 + 0.2 * w)),
        "shrinkage:5": np.mean(5 * w * c / (w**2 + 5)),
        "ls:0.3": np.mean(-np.log1p(-0.3 * w * c) / 0.3),
        "dm": np.mean(mean),
        "dr": np.mean(mean + w * off),
        "sndr": np.mean(mean) + np.sum(w * off) / np.sum(w),
        "switch:2": np.mean(mean + np.where(w <= 2, w, 0) * off),
    }
    found = surefoot.evaluate(logs, judged, estimators=list(expected), model=predicted, replicates=0)
    for estimate, value in zip(found.estimates, expected.values()):
        assert estimate.value == pytest.approx(-value, abs=1e-12), estimate.estimator
        assert estimate.bootstrap is None
    terms = w * c
    assert found["IPS"].standard_error == pytest.approx(terms.std(ddof=1) / np.sqrt(n), rel=1e-9)
    assert found.weights.mean == pytest.approx(w.mean(), rel=1e-12)
    assert found.weights.effective == pytest.approx(w.sum() ** 2 / np.sum(w**2), rel=1e-9)
    assert found.weights.largest == w.max()


def test_a_policy_may_be_asked_in_many_ways(rng):
    logs = surefoot.Logs(**records(rng), n_actions=3)
    policy = surefoot.SeqLS(lam=0.4).fit(logs).policy_
    p = policy.predict_proba(logs.X)
    ways = [
        policy,
        p,
        p[:, :, None],
        p[np.arange(400), logs.action],
        policy.predict_proba,
        surefoot.SeqLS(lam=0.4).fit(logs),
    ]
    values = [surefoot.evaluate(logs, way, estimators=["ips"], replicates=0)["IPS"].value for way in ways]
    np.testing.assert_allclose(values, values[0], atol=1e-9)
    uniform = [surefoot.evaluate(logs, way, replicates=0).rows() for way in ("uniform", surefoot.Policy.uniform(3))]
    assert uniform[0] == uniform[1]
    assert surefoot.evaluate(logs, "logged", estimators=["ips"])["IPS"].value == pytest.approx(logs.reward.mean())


def test_probabilities_are_checked_on_the_way_in(rng):
    logs = surefoot.Logs(**records(rng), n_actions=3)
    wrong = np.full((400, 3), 1 / 3)
    wrong[5, 1] = 0.5
    with pytest.raises(surefoot.DataError, match="row 5: the sum of the probabilities should be 1"):
        surefoot.evaluate(logs, wrong)
    wrong[5] = [1.2, -0.2, 0.0]
    with pytest.raises(surefoot.DataError, match=r"row 5: the probability of action 0 should be in \[0, 1\]"):
        surefoot.evaluate(logs, wrong)
    with pytest.raises(surefoot.SettingError, match=r"shape .* should be \[400\]"):
        surefoot.evaluate(logs, wrong[:10])
    with pytest.raises(surefoot.DataError, match="row 1: the sum of the probabilities should be 1"):
        surefoot.evaluate(logs, lambda X: np.where(np.arange(len(X))[:, None] == 1, 0.5, 1 / 3) * np.ones((1, 3)))
    with pytest.raises(surefoot.SettingError, match=r"should be \[400, 3\], but is \[400, 2\]"):
        surefoot.evaluate(logs, lambda X: np.full((len(X), 2), 0.5))
    with pytest.raises(ZeroDivisionError):
        surefoot.evaluate(logs, lambda X: 1 / 0)
    with pytest.raises(surefoot.SettingError, match="DR needs one"):
        surefoot.evaluate(logs, "uniform", estimators=["dr"])
    with pytest.raises(surefoot.SettingError, match="an estimator should be ips, snips"):
        surefoot.evaluate(logs, "uniform", estimators=["ipz"])


def test_own_estimators_stand_beside_ours(rng):
    logs = surefoot.Logs(**records(rng), n_actions=3)

    def mine(p, q, c):
        return p * c / q

    found = surefoot.evaluate(logs, "uniform", estimators=["ips", mine, "snips"])
    one, other = found["IPS"], found["mine"]
    assert (one.value, one.standard_error, one.bootstrap) == (other.value, other.standard_error, other.bootstrap)
    for broken, said in [
        (lambda p, q, c: p, "should be 0, as the cost is"),
        (lambda p, q, c: p * c / q + c[::-1] * c, "a function of that record alone"),
        (lambda p, q, c: np.log(p) * c, "should be finite"),
        (lambda p, q, c: np.ones(3), r"shape .* should be \[36\]"),
        (3, "a callable"),
    ]:
        with pytest.raises(surefoot.SurefootError, match=said):
            surefoot.check_estimator(broken)


def test_results_become_frames_and_notebook_tables(rng):
    logs = surefoot.Logs(**records(rng), n_actions=3)
    found = surefoot.evaluate(logs, {"a": "uniform", "b": "logged"})
    frame = found["a"].to_pandas()
    assert list(frame.columns[:3]) == ["policy", "estimator", "value"]
    assert frame["value"].tolist() == [e.value for e in found["a"].estimates]
    assert found["b"].to_polars().shape == frame.shape
    assert "<table>" in found["a"]._repr_html_() and "IPS" in found["a"]._repr_html_()
    assert "proven, at any time" in str(found["a"])
    with pytest.raises(KeyError):
        found["a"]["nothing"]


def test_the_anytime_interval_covers(world):
    uniform, policy = surefoot.Policy.uniform(5), world.first_policy(alpha=1.0)
    # In a finite world the reward of a policy is known exactly.
    X, _ = world.truth()
    X = X[:200]
    rewards = np.random.default_rng(1).random((200, 5))
    finite = surefoot.Environment.finite(X, rewards, seed=0)
    true = finite.evaluate(policy)[0]
    missed = 0
    for run in range(60):
        logs = surefoot.Environment.finite(X, rewards, seed=run).collect(uniform, 300)
        low, high = surefoot.evaluate(logs, policy, estimators=["ips"], replicates=0).anytime
        missed += not low <= true <= high
    # 3 are expected at the most; that more than 9 miss has a chance of 1 in 1,000.
    assert missed <= scipy.stats.binom.ppf(0.999, 60, 0.05)


def test_the_best_is_selected_and_contrasts_are_differences(rng):
    logs = surefoot.Logs(**records(rng, 3000), n_actions=3)
    policy = surefoot.SeqLS(lam=0.4).fit(surefoot.Logs(**records(rng, 2000))).policy_
    selection = surefoot.select(logs, {"uniform": "uniform", "learned": policy}, estimators=["ips", "snips"])
    assert selection.best == "learned" and sum(selection.weights) == pytest.approx(1.0)
    assert selection.mixture_at_least >= max(selection.at_least) - 1e-9
    values = [surefoot.evaluate(logs, p, estimators=["snips"])["SNIPS"].value for p in (policy, "uniform")]
    contrast = selection.contrasts["learned"][1]
    assert contrast.value == pytest.approx(values[0] - values[1], abs=1e-12)
    assert contrast.bootstrap[0] < contrast.value < contrast.bootstrap[1]
    assert selection.contrasts["uniform"][0].value == 0.0
    assert selection.to_pandas()["policy"].tolist() == ["uniform", "learned"]


def test_rewards_of_any_range_are_told_in_that_range(rng):
    r = records(rng)
    plain = surefoot.evaluate(surefoot.Logs(**r, n_actions=3), "uniform")
    with pytest.raises(surefoot.SettingError, match="n_actions of the logs should be given"):
        surefoot.evaluate(surefoot.Logs(**r), "uniform")
    stars = surefoot.Logs(**{**r, "reward": 1 + 4 * r["reward"]}, n_actions=3, reward_range=(1, 5))
    found = surefoot.evaluate(stars, "uniform")
    assert found["SNIPS"].value == pytest.approx(1 + 4 * plain["SNIPS"].value)
    assert found["IPS"].standard_error == pytest.approx(4 * plain["IPS"].standard_error)
    assert found.anytime == pytest.approx([1 + 4 * end for end in plain.anytime])
    np.testing.assert_allclose(stars.reward, 1 + 4 * r["reward"])


def test_logs_that_refute_themselves_are_refused(rng):
    n = 400
    frame = {"action": rng.integers(0, 2, n), "pscore": np.full(n, 0.05), "reward": rng.integers(0, 2, n) * 1.0}
    logs = surefoot.Logs(rng.normal(size=(n, 2)), frame["action"], frame["pscore"], frame["reward"], n_actions=2)
    import pandas

    for asked in (logs, surefoot.open_logs(pandas.DataFrame(frame), actions=2)):
        with pytest.raises(surefoot.DataError, match="the mean of 1/propensity is"):
            surefoot.evaluate(asked, "uniform", replicates=0)
        with pytest.raises(surefoot.DataError, match="the mean of 1/propensity is"):
            surefoot.select(asked, {"even": "uniform"})
    with pytest.raises(surefoot.DataError, match="the mean of 1/propensity is"):
        surefoot.SeqLS(lam=0.4).partial_fit(rng.normal(size=(n, 2)), frame["action"], frame["pscore"], frame["reward"])


def test_records_that_occur_twice_are_not_certified(rng):
    import pandas

    n = 400
    frame = pandas.DataFrame(
        {"event_id": "same", "action": rng.integers(0, 2, n), "pscore": 0.5, "reward": rng.integers(0, 2, n) * 1.0}
    )
    for flawed in (frame, frame.assign(event_id=[str(i) for i in range(n)])):
        certified = flawed is not frame
        source = surefoot.open_logs(flawed, actions=2)
        found = surefoot.evaluate(source, "uniform", replicates=0)
        assert found.certified == certified
        assert found.recommended == "SNIPS" and found["SNIPS"].bias == "vanishes" and found["IPS"].bias == "none"
        assert ("NOT certified: 399 records" in str(found)) != certified
        chosen = surefoot.select(source, {"even": "uniform"})
        assert chosen.certified == certified and bool(chosen.warnings) != certified
