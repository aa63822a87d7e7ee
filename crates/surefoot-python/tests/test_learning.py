"""Learners: scikit-learn's conventions, and what a round promises."""

from __future__ import annotations

import pickle
import threading
import time
import warnings

import numpy as np
import pytest
import scipy.sparse
from conftest import records
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import surefoot

LEARNERS = [surefoot.SeqAdjLS, surefoot.SeqLS, surefoot.Shift, surefoot.SCRM, surefoot.BatchLS]


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_learns_from_rounds(learner, world):
    first = world.first_policy(alpha=0.0)
    estimator = learner(prior=first, lam=0.4)
    start = 0
    for round, n in enumerate([500, 1000, 2000]):
        running = estimator.policy_ if round and learner is not surefoot.BatchLS else first
        estimator.partial_fit(world.collect(running, n, round=round, start=start))
        start += n
    assert estimator.n_rounds_ == 3 and len(estimator.history_) == 3
    true = world.evaluate(estimator.policy_)[0]
    assert true > world.evaluate(first)[0] + 0.05
    # Proven, of this seed too.
    assert estimator.certificate_.at_least <= true
    assert estimator.history_.to_pandas().shape[0] == 3


@pytest.mark.parametrize("learner", LEARNERS)
def test_parameters_are_scikit_learns(learner):
    estimator = learner(lam=0.3, seed=5)
    assert clone(estimator).get_params() == estimator.get_params()
    assert estimator.set_params(epochs=3).epochs == 3
    with pytest.raises(ValueError, match="epoch"):
        estimator.set_params(epochz=3)


def test_the_same_rounds_as_arrays_frames_and_matrices_give_the_same_bits(rng):
    import pandas
    import polars
    import pyarrow

    r = records(rng)
    columns = {f"f{i}": r["X"][:, i] for i in range(4)}
    rest = (r["action"], r["pscore"], r["reward"])
    dense = surefoot.SeqLS(lam=0.4, n_actions=3).fit(r["X"], *rest).policy_
    for same in [
        r["X"].astype(np.float64),
        np.asfortranarray(r["X"]),
        pandas.DataFrame(columns),
        polars.DataFrame(columns),
        pyarrow.table(columns),
        r["X"].tolist(),
    ]:
        other = surefoot.SeqLS(lam=0.4, n_actions=3).fit(same, *rest).policy_
        assert other.fingerprint == dense.fingerprint, type(same)
    # Sparse products are summed in another order.
    sparse = surefoot.SeqLS(lam=0.4, n_actions=3).fit(scipy.sparse.csr_matrix(r["X"]), *rest).policy_
    np.testing.assert_allclose(sparse.mean, dense.mean, atol=1e-4)


def test_fit_with_rounds_learns_from_all_at_once(rng):
    r = records(rng, 600)
    rounds = np.repeat([10, 20], 300)
    together = surefoot.SeqLS(lam=0.4).fit(**r, rounds=rounds)
    assert together.n_rounds_ == 2 and together.history_[0]["records"] == 600
    logs = [
        surefoot.Logs(**{name: column[rows] for name, column in r.items()}) for rows in (slice(300), slice(300, 600))
    ]
    assert surefoot.SeqLS(lam=0.4).fit(logs).policy_.fingerprint == together.policy_.fingerprint
    with pytest.raises(ValueError, match="follow one another"):
        surefoot.SeqLS().fit(**r, rounds=np.tile([0, 1], 300))
    # A loop goes on from there.
    more = records(rng, 100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", surefoot.PropensityWarning)
        assert together.partial_fit(**more).n_rounds_ == 3


def test_decisions_come_with_their_propensities(rng):
    r = records(rng)
    estimator = surefoot.SeqLS(lam=0.4).fit(**r)
    p = estimator.predict_proba(r["X"])
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-8)
    assert np.array_equal(estimator.predict(r["X"]), p.argmax(axis=1))
    action, pscore = estimator.sample(r["X"], seed=3)
    np.testing.assert_allclose(pscore, p[np.arange(len(p)), action], atol=1e-8)
    again, _ = estimator.sample(r["X"], seed=3)
    assert np.array_equal(action, again)
    # Without a seed they are counted through.
    one, two = estimator.sample(r["X"])[0], estimator.sample(r["X"])[0]
    assert not np.array_equal(one, two)
    # How often each action is drawn is what its probability says.
    counts = np.bincount(estimator.sample(np.repeat(r["X"][:1], 20_000, axis=0), seed=1)[0], minlength=3)
    assert np.all(np.abs(counts / 20_000 - p[0]) < 5 * np.sqrt(0.25 / 20_000))


def test_eligible_actions_are_the_only_ones(rng):
    # Every second record has two eligible actions, and a logger that draws one of them.
    r = records(rng)
    mask = np.ones((400, 3), dtype=bool)
    mask[1::2, 2] = False
    r["action"][1::2], r["pscore"][1::2] = rng.integers(0, 2, 200), 0.5
    estimator = surefoot.SeqLS(lam=0.4).fit(**r, eligible=mask)
    p = estimator.predict_proba(r["X"], eligible=mask)
    assert np.all(p[~mask] == 0.0)
    lists = [np.flatnonzero(row).tolist() for row in mask]
    assert np.array_equal(p, estimator.predict_proba(r["X"], eligible=lists))
    assert np.array_equal(p, estimator.predict_proba(r["X"], eligible=mask.tolist()))
    with pytest.raises(surefoot.SettingError, match="a matrix of truth values"):
        estimator.predict_proba(r["X"], eligible=mask.astype(int))
    with pytest.raises(surefoot.DataError, match="which is not eligible"):
        surefoot.evaluate(surefoot.Logs(**r, eligible=mask), np.full((400, 3), 1 / 3))


def test_wrong_input_is_refused_with_its_place(rng):
    r = records(rng)

    def fails(error, **changed):
        with pytest.raises(error) as caught:
            surefoot.SeqLS(n_actions=3).fit(**{**r, **changed})
        return caught.value

    wrong = r["pscore"].copy()
    wrong[7] = 0.0
    error = fails(surefoot.DataError, pscore=wrong)
    assert (error.row, error.column, error.value) == (7, "propensity", "0")
    assert isinstance(error, ValueError)
    assert "row 0: reward should be in [0, 1]" in str(fails(surefoot.DataError, reward=r["reward"] + 2))
    nan = r["X"].copy()
    nan[3, 2] = np.nan
    assert "row 3: feature 2 should be finite, but is NaN" in str(fails(surefoot.DataError, X=nan))
    assert "row 0: action should be a whole number" in str(fails(surefoot.DataError, action=r["action"] + 0.5))
    assert "row 0: action should be a whole number" in str(fails(surefoot.DataError, action=r["action"] - 5))
    fails(surefoot.SizeError, pscore=r["pscore"][:-1])
    assert "2 dimensions" in str(fails(surefoot.SizeError, X=r["X"][:, 0]))
    fails(surefoot.SettingError, X=np.full((400, 2), "text"))
    with pytest.raises(TypeError, match="pscore and reward"):
        surefoot.SeqLS().fit(r["X"], r["action"])
    with pytest.raises(surefoot.SettingError, match="lambda should be") as caught:
        surefoot.SeqLS(lam="autos").fit(**r)
    assert caught.value.setting == "lambda"
    assert pickle.loads(pickle.dumps(caught.value)).setting == "lambda"


def test_what_was_not_fitted_says_so():
    with pytest.raises(surefoot.NotFittedError):
        surefoot.SeqAdjLS().predict(np.ones((1, 2)))


def test_a_failed_round_changes_nothing(rng):
    estimator = surefoot.SeqLS(lam=0.4).fit(**records(rng))
    before = estimator.policy_.fingerprint
    with pytest.raises(surefoot.SizeError):
        estimator.partial_fit(**records(rng, p=5))
    assert estimator.policy_.fingerprint == before and estimator.n_rounds_ == 1
    with pytest.raises(surefoot.SettingError):
        estimator.set_params(lam="x").fit(**records(rng))
    assert estimator.policy_.fingerprint == before


def test_an_interrupt_is_heard_and_changes_nothing(rng, interrupt):
    r = records(rng, 20_000, p=50, k=10)
    estimator = surefoot.SeqLS(lam=0.4, epochs=10_000, batch_size=64)
    interrupt(0.5)
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(**r)
    assert not hasattr(estimator, "policy_")
    assert estimator.set_params(epochs=1).fit(**r).n_rounds_ == 1


def test_other_threads_run_meanwhile(rng):
    r = records(rng, 20_000, p=50, k=10)
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    surefoot.SeqLS(lam=0.4, epochs=20).fit(**r)
    stop.set()
    thread.join()
    assert counted[0] > 10


def test_what_is_kept_is_copied_however_it_was_handed_over(rng):
    import pyarrow

    r = records(rng)
    frozen = r["X"].copy()
    view = frozen[:]
    frozen.flags.writeable = False
    unpickled = pickle.loads(pickle.dumps(r["X"]))
    flat = r["X"].reshape(-1).copy()
    table = pyarrow.table({"x": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(flat), 4)})
    for X, written in [(r["X"], r["X"]), (frozen, view), (unpickled, unpickled), (table, flat)]:
        logs = surefoot.Logs(**{**r, "X": X})
        before = logs.X.copy()
        written[:] = 99.0
        assert np.array_equal(logs.X, before)


def test_what_is_only_looked_at_is_not_changed(rng):
    r = records(rng)
    before = {name: column.copy() for name, column in r.items()}
    estimator = surefoot.SeqLS(lam=0.4).fit(**r)
    estimator.predict_proba(r["X"])
    estimator.sample(r["X"])
    assert all(np.array_equal(before[name], r[name]) for name in r)


def test_a_policy_that_was_not_deployed_is_noticed(rng):
    estimator = surefoot.SeqAdjLS(lam=0.4).fit(**records(rng))
    with pytest.warns(surefoot.PropensityWarning, match="row"):
        estimator.partial_fit(**records(rng))
    # Wherever it begins.
    X = records(rng, 2000)["X"]
    action, pscore = estimator.sample(X)
    pscore[1900:] = 0.9
    with pytest.warns(surefoot.PropensityWarning, match="row 19"):
        estimator.partial_fit(X, action, pscore, np.ones(2000))


def test_a_warning_that_is_an_error_leaves_the_round_in(rng):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator = surefoot.SeqAdjLS(lam=0.4)
        with pytest.raises(surefoot.CertificateWarning):
            estimator.partial_fit(**records(rng, 10))
    assert estimator.n_rounds_ == 1


def test_a_forked_process_has_threads_of_its_own(rng):
    import multiprocessing

    estimator = surefoot.SeqLS(lam=0.4).fit(**records(rng, 2000))
    X = np.tile(records(rng, 2000)["X"], (20, 1))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map_async(estimator.predict_proba, [X, X]).get(timeout=60)
    assert np.array_equal(found[0], estimator.predict_proba(X))


def test_settings_of_a_loop_under_way_stay(rng):
    estimator = surefoot.SeqLS(lam=0.4).fit(**records(rng))
    estimator.set_params(lam=0.1)
    with pytest.raises(surefoot.SettingError, match="lam of a loop under way"):
        estimator.partial_fit(**records(rng))
    # A pickle goes on with the settings of the loop, and asks the same.
    back = pickle.loads(pickle.dumps(estimator.set_params(lam="nonsense")))
    with pytest.raises(surefoot.SettingError, match="lam of a loop under way"):
        back.partial_fit(**records(rng))
    with pytest.warns(surefoot.PropensityWarning):
        assert back.set_params(lam=0.4, progress=False).partial_fit(**records(rng)).n_rounds_ == 2
    prior = surefoot.Policy.standard(surefoot.Features.raw(4), 3, exploration=0.1)
    for wrong in ({"exploration": 0.3}, {"n_actions": 7}, {"slope": np.add}):
        with pytest.raises(surefoot.SettingError):
            surefoot.SeqLS(prior=prior, **wrong).fit(surefoot.Logs(**records(rng)))


def test_the_score_is_checked_like_all_else(rng):
    r = records(rng)
    estimator = surefoot.SeqLS(lam=0.4).fit(**r)
    w = estimator.policy_.propensity(r["X"], r["action"]) / r["pscore"]
    assert estimator.score(**r) == pytest.approx(np.sum(w * r["reward"]) / np.sum(w))
    assert estimator.score(surefoot.Logs(**r)) == estimator.score(**r)
    with pytest.raises(surefoot.SizeError):
        estimator.score(**{**r, "reward": r["reward"][:1]})
    with pytest.raises(surefoot.SizeError):
        estimator.score(**{**r, "pscore": r["pscore"][:, None]})
    with pytest.raises(surefoot.SettingError, match="the type of reward"):
        estimator.score(**{**r, "reward": np.full(400, "1")})


def test_absurd_sizes_are_errors(rng):
    with pytest.raises(MemoryError):
        surefoot.SeqLS().fit(np.ones((3, 2)), [0, 1, 2**31], [0.5] * 3, [1, 0, 1])
    with pytest.raises(surefoot.SettingError, match="keys"):
        surefoot.Policy.uniform(2).sample(np.ones((1, 1)), seed=1, keys=[-1])


def test_names_of_columns_are_compared_in_every_kind_of_table(rng):
    import pandas
    import pyarrow

    r = records(rng)
    frame = pandas.DataFrame(r["X"], columns=list("abcd"))
    estimator = surefoot.SeqLS(lam=0.4).fit(**{**r, "X": frame})
    assert np.array_equal(estimator.predict(pyarrow.table(frame)), estimator.predict(r["X"]))
    for swapped in (frame[list("bacd")], pyarrow.table(frame[list("bacd")])):
        with pytest.raises(ValueError, match="feature names"):
            estimator.predict(swapped)
    assert estimator.predict_proba(frame.iloc[:0]).shape == (0, 3)


def test_the_index_of_a_frame_is_no_feature(rng):
    import pandas

    r = records(rng)
    frame = pandas.DataFrame(r["X"], columns=list("abcd"))
    shuffled = frame.sample(frac=1, random_state=1)
    assert surefoot.Logs(**{**r, "X": shuffled}).n_features == 4
    logs = frame.assign(action=r["action"], pscore=r["pscore"], reward=r["reward"]).sample(frac=1, random_state=1)
    assert len(surefoot.open_logs(logs).rounds(by="file").feature_names) == 4
    with pytest.raises(surefoot.SizeError, match="at least 1 column"):
        surefoot.Logs(**{**r, "X": pandas.DataFrame(index=range(400))})
    lists = pandas.DataFrame({"x": [row.tolist() for row in r["X"]]})
    assert np.array_equal(surefoot.Logs(**{**r, "X": lists}).X, r["X"])
    with pytest.raises(surefoot.SettingError, match="without a mask"):
        surefoot.Logs(**{**r, "X": np.ma.masked_greater(r["X"], 0)})


def test_logs_that_certify_nothing_are_called_so(rng):
    with pytest.warns(surefoot.CertificateWarning, match="cannot certify"):
        surefoot.SeqAdjLS(lam=0.4, n_actions=3).fit(**records(rng, 10))


def test_a_number_of_actions_that_comes_from_the_records_certifies_nothing(rng):
    r = records(rng, 2000)
    with pytest.warns(surefoot.CertificateWarning, match="NOT certified: n_actions was inferred"):
        learner = surefoot.SeqLS(lam=0.4).fit(**r)
    assert learner.certificate_ is None and learner.history_[0]["ladder"] is None
    with pytest.warns(surefoot.CertificateWarning, match="NOT certified"):
        back = pickle.loads(pickle.dumps(learner)).partial_fit(r["X"], *learner.sample(r["X"]), r["reward"])
    assert back.certificate_ is None
    with pytest.raises(surefoot.SettingError, match="n_actions should be given, because the gate improvement"):
        surefoot.SeqLS(gate="improvement").fit(**r)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known = surefoot.SeqLS(lam=0.4, n_actions=3).fit(**r)
        assert known.certificate_ is not None and known.policy_ == learner.policy_
        assert surefoot.SeqLS(lam=0.4, n_actions=3).fit(surefoot.Logs(**r)).certificate_ is not None
        assert surefoot.SeqLS(lam=0.4).fit(surefoot.Logs(**r, n_actions=3)).certificate_ is not None


def test_very_many_features_have_a_scale_each(rng, tmp_path):
    """Principal axes of 3,000 features would need 72 MB for each policy."""
    X = scipy.sparse.random(40, 3000, density=0.01, random_state=1, format="csr", dtype=np.float32)
    learner = surefoot.SeqLS(lam=0.4, n_actions=2, epochs=1)
    learner.fit(X, rng.integers(2, size=40), np.full(40, 0.5), rng.random(40))
    assert learner.posterior == "shaped" and learner.policy_.basis is None and learner.policy_.scale.shape == (3001,)
    learner.save_run(tmp_path / "run")
    for back in (pickle.loads(pickle.dumps(learner)), clone(learner).load_run(tmp_path / "run")):
        assert back.policy_ == learner.policy_


def test_the_exploration_of_a_prior_is_used(rng):
    logs = surefoot.Logs(**records(rng), n_actions=3)
    for exploration in (0.0, 0.05, 0.2):
        prior = surefoot.Policy.standard(surefoot.Features.raw(4), 3, exploration=exploration)
        for given in ({}, {"exploration": exploration}):
            found = surefoot.SeqLS(prior=prior, lam=0.4, epochs=1, **given).fit(logs).policy_
            assert found.exploration == exploration and found.features == prior.features


def test_a_gate_keeps_the_policy_that_runs_today(world, tmp_path):
    production, gate = world.first_policy(alpha=2.0), {"gate": "improvement", "lam": 0.4}
    logs = world.collect(production, 2000)
    learner = surefoot.SeqAdjLS(prior=production, **gate).partial_fit(logs)
    assert world.evaluate(learner.policy_)[0] >= world.evaluate(production)[0]
    # A prior that did not collect the logs.
    with pytest.raises(surefoot.DataError, match="give the policy that runs today as the first policy"):
        surefoot.SeqAdjLS(prior=world.first_policy(alpha=0.0), **gate).partial_fit(logs)
    # No prior: what runs is unknown, and stays while nothing is certified to be better.
    learner = surefoot.SeqAdjLS(**gate)
    for round in range(2):
        learner.partial_fit(world.collect(production, 200, round=round, start=200 * round))
        assert learner.certificate_ is None and learner.history_[-1]["decided_by"].upper > 0
    assert not hasattr(learner, "policy_")
    learner.save_run(tmp_path / "run")
    assert surefoot.verify(tmp_path / "run")
    for kept in (learner, pickle.loads(pickle.dumps(learner)), clone(learner).load_run(tmp_path / "run")):
        with pytest.raises(surefoot.NotFittedError, match="No policy has passed the gate yet"):
            kept.sample(logs.X)
    with pytest.raises(surefoot.SettingError, match="the running policy is unknown"):
        surefoot.SeqAdjLS(gate="certified-risk").partial_fit(logs)


def test_an_unknown_policy_is_replaced_by_one_that_is_certified_to_be_better(world, tmp_path):
    production = surefoot.Policy.uniform(5)
    learner = surefoot.SeqAdjLS(lam=0.4, gate="improvement", n_actions=5)
    running, worst = production, world.evaluate(production)[0]
    heads = []
    for round in range(4):
        learner.partial_fit(world.collect(running, 3000, round=round, start=3000 * round))
        heads.append(learner.ledger_head_)
        if hasattr(learner, "policy_"):
            running = learner.policy_
            assert world.evaluate(running)[0] > worst
    assert running is not production and learner.certificate_.at_least > 0
    learner.save_run(tmp_path / "run")
    assert surefoot.verify(tmp_path / "run", head=heads)
    again = clone(learner).load_run(tmp_path / "run")
    assert again.policy_ == learner.policy_ and again.certificate_ == learner.certificate_


@pytest.mark.parametrize("learner", LEARNERS)
def test_pickles_predict_and_go_on_as_if_nothing_had_happened(learner, world):
    posterior = "shaped" if learner is surefoot.SeqAdjLS else "isotropic"
    estimator = learner(prior=world.first_policy(alpha=0.2), lam="auto-doubling", posterior=posterior)
    estimator.partial_fit(world.collect(estimator.prior, 400))
    back = pickle.loads(pickle.dumps(estimator))
    X, _ = world.truth()
    assert np.array_equal(back.predict_proba(X[:50]), estimator.predict_proba(X[:50]))
    assert back.certificate_ == estimator.certificate_
    assert clone(back).get_params()["lam"] == "auto-doubling"
    for round in (1, 2):
        running = estimator.policy_ if learner is not surefoot.BatchLS else estimator.prior
        logs = world.collect(running, 400, round=round, start=400 * round)
        one, other = estimator.partial_fit(logs), back.partial_fit(pickle.loads(pickle.dumps(logs)))
        assert one.policy_.fingerprint == other.policy_.fingerprint
        assert one.certificate_ == other.certificate_
    # The same decisions come next, too.
    assert np.array_equal(estimator.sample(X[:50])[0], back.sample(X[:50])[0])


def test_an_estimator_of_ones_own_learns_what_ours_learns(rng):
    r = records(rng)

    def ls_lin(p, q, c):
        return -(p / 0.4) * np.log1p(-0.4 * c / q)

    ours = surefoot.SeqLS(lam=0.4, precision="double", held_back=0).fit(**r).policy_
    theirs = surefoot.SeqLS(lam=0.4, precision="double", held_back=0, estimator=ls_lin).fit(**r).policy_
    np.testing.assert_allclose(theirs.mean, ours.mean, atol=1e-6)
    exact = lambda p, q, c: -np.log1p(-0.4 * c / q) / 0.4
    given = surefoot.SeqLS(lam=0.4, precision="double", held_back=0, estimator=ls_lin, slope=exact).fit(**r).policy_
    np.testing.assert_allclose(given.mean, ours.mean, atol=1e-9)
    with pytest.raises(surefoot.SettingError, match="the derivative of ls_lin"):
        surefoot.SeqLS(estimator=ls_lin, slope=lambda p, q, c: c).fit(**r)

    def broken(p, q, c):
        if len(p) > 50:
            raise ZeroDivisionError("mine")
        return p * c / q

    with pytest.raises(ZeroDivisionError, match="mine"):
        surefoot.SeqLS(lam=0.4, estimator=broken).fit(**r)


def test_the_number_of_threads_changes_no_bit(rng):
    import subprocess
    import sys

    script = (
        "import surefoot; w = surefoot.Environment.synthetic(seed=3);"
        "print(surefoot.SeqAdjLS().fit(w.collect(surefoot.Policy.uniform(5), 3000)).policy_.fingerprint)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"RAYON_NUM_THREADS": n, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for n in ("1", "2", "3")
    }
    assert len(found) == 1


class FromLabels(surefoot.SeqLS):
    """The estimator as scikit-learn's checks call it: each label is the action of a logger without choice, and was right."""

    def fit(self, X, y):
        action = np.unique(np.asarray(y), return_inverse=True)[1]
        pscore = np.ones(len(action))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", surefoot.CertificateWarning)
            return super().fit(X, action, pscore, np.ones(len(action)))

    def partial_fit(self, X, y, classes=None):
        return self.fit(X, y)

    def score(self, X, y):
        return float(np.mean(self.predict(X) == y))


#: What scikit-learn asks for, and a bandit's learner does not do.
REASONS = {
    name: "the input is refused, with an error of Surefoot's own, whose words are not those that are looked for"
    for name in (
        "check_n_features_in_after_fitting",
        "check_complex_data",
        "check_estimators_empty_data_messages",
        "check_fit2d_predict1d",
    )
}


@parametrize_with_checks([FromLabels(lam=0.4, certify=False)], expected_failed_checks=lambda _: REASONS)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
