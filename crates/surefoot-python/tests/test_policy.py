"""Policies, certificates and worlds."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import scipy.integrate
import scipy.sparse
import scipy.stats
from conftest import REPO, records

import surefoot


def test_propensities_are_the_integral(rng):
    mean, x = rng.normal(size=(3, 4)), rng.normal(size=3).astype(np.float32)
    policy = surefoot.Policy.gaussian(mean, 0.7)
    scores = x.astype(float) @ mean / (0.7 * np.linalg.norm(x.astype(float)))
    for a in range(4):
        others = np.delete(scores, a)
        density = lambda t, a=a, others=others: (
            scipy.stats.norm.pdf(t - scores[a]) * np.prod(scipy.stats.norm.cdf(t - others))
        )
        expected = scipy.integrate.quad(density, -12, 12, epsabs=1e-12)[0]
        assert policy.propensity(x[None], [a])[0] == pytest.approx(expected, abs=1e-9)


def test_kl_is_the_formula(rng):
    m1, m2, s1, s2 = rng.normal(size=(3, 2)), rng.normal(size=(3, 2)), 0.5, 1.5
    one, two = surefoot.Policy.gaussian(m1, s1), surefoot.Policy.gaussian(m2, s2)
    d = m1.size
    expected = 0.5 * (d * s1**2 / s2**2 + np.sum((m1 - m2) ** 2) / s2**2 - d + 2 * d * np.log(s2 / s1))
    assert one.kl(two) == pytest.approx(expected, rel=1e-12)


def test_a_softmax_is_a_softmax(rng):
    weights, X = rng.normal(size=(3, 4)), rng.normal(size=(10, 3)).astype(np.float32)
    scores = 2.0 * X.astype(float) @ weights
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(surefoot.Policy.softmax(weights, alpha=2.0).predict_proba(X), expected, atol=1e-12)


def test_features_say_their_kind_and_come_back_from_pickles(rng):
    known, r = rng.normal(size=(50, 4)), records(rng)
    trees = surefoot.Features.trees(surefoot.Logs(**r), n_trees=2, n_leaves=3, least_records=2, share=1.0)
    assert repr(trees) == f"<surefoot.Features trees, 2 of them: 4 -> {trees.n_features_out}>"
    for kind, features in {
        "raw": surefoot.Features.raw(4),
        "fourier": surefoot.Features.fourier(4, 20, 1.5, seed=3, intercept=True),
        "kernel": surefoot.Features.named("kernel:10", known),
        "trees": trees,
    }.items():
        maps = [features, features._with_contexts()]
        if kind != "raw":
            maps += [map._with_softmax(rng.normal(size=12), rng.normal(size=3)) for map in maps]
        for map in maps:
            back = pickle.loads(pickle.dumps(map))
            assert (back, back.kind, back.n_features_out) == (map, kind, map.n_features_out)
    leaves = trees.transform(r["X"])
    assert scipy.sparse.issparse(leaves) and (np.diff(leaves.indptr) == 2).all()
    np.testing.assert_allclose(leaves.data, 2**-0.5, rtol=1e-6)
    with pytest.raises(ValueError, match=r"the number of leaves of a tree should be from 2 to 65536, but is 1"):
        surefoot.Features.trees(surefoot.Logs(**r), n_leaves=1)


def test_files_and_pickles_keep_every_bit(rng, tmp_path):
    r = records(rng)
    known = rng.normal(size=(50, 4))
    for features in [
        None,
        surefoot.Features.raw(4, intercept=True),
        surefoot.Features.fourier(4, 20, 1.5, seed=3),
        surefoot.Features.named("kernel:10", known, intercept=True),
        surefoot.Features.trees(surefoot.Logs(**r), n_trees=3, n_leaves=4, least_records=2),
    ]:
        learner = surefoot.SeqAdjLS(lam=0.4, posterior="shaped", exploration=0.1, features=features).fit(**r)
        policy = learner.policy_
        path = tmp_path / "policy.safetensors"
        policy.save(path)
        for back in (surefoot.Policy.load(path), pickle.loads(pickle.dumps(policy))):
            assert back.fingerprint == policy.fingerprint
            assert np.array_equal(back.predict_proba(r["X"]), policy.predict_proba(r["X"]))
        assert policy.exploration == 0.1 and policy.predict_proba(r["X"]).min() >= 0.1 / 3 - 1e-9
    soft = surefoot.Policy.softmax(rng.normal(size=(4, 3)), alpha=2.0)
    for policy in (soft, surefoot.Policy.uniform(3)):
        policy.save(path)
        for back in (surefoot.Policy.load(path), pickle.loads(pickle.dumps(policy))):
            assert (back.kind, back.fingerprint) == (policy.kind, policy.fingerprint)
            assert np.array_equal(back.predict_proba(r["X"]), policy.predict_proba(r["X"]))
            assert back.features == policy.features
        surefoot.Logs(**r).save(path, policy=policy)
    assert soft.features == surefoot.Features.raw(4)
    # What a policy needs to decide on raw records is in the pickle too.
    inputs = surefoot.learn(
        REPO / "examples/logs.csv", surefoot.SeqLS(lam=0.4, epochs=1), ignore=["pi_*"]
    ).policy.__reduce__()[1][5]
    for policy in (surefoot.Policy.uniform(3), surefoot.Policy._with_inputs(surefoot.Policy.uniform(3), inputs)):
        back = pickle.loads(pickle.dumps(policy))
        assert back.fingerprint == policy.fingerprint and back.__reduce__()[1] == policy.__reduce__()[1]
    with pytest.raises(surefoot.FileError, match="policies of class mixture have no file"):
        surefoot.Policy.mixture([soft], [1.0]).save(path)


def test_mixtures_and_policies_of_ones_own(rng):
    X = rng.normal(size=(2000, 2)).astype(np.float32)
    mine = surefoot.Policy.custom(lambda X: np.where(X[:, :1] > 0, [[0.9, 0.1]], [[0.2, 0.8]]), 2)
    mixed = surefoot.Policy.mixture([mine, surefoot.Policy.uniform(2)], [0.5, 0.5])
    np.testing.assert_allclose(mixed.predict_proba(X), 0.5 * mine.predict_proba(X) + 0.25, atol=1e-12)
    action, pscore = mine.sample(X, seed=1)
    np.testing.assert_allclose(pscore, mine.predict_proba(X)[np.arange(2000), action])
    sparse = surefoot.Policy.custom(lambda X: np.full((X.shape[0], 2), 0.5) if scipy.sparse.issparse(X) else 1 / 0, 2)
    assert sparse.predict_proba(scipy.sparse.csr_matrix(X)).shape == (2000, 2)
    masked = surefoot.Policy.custom(lambda X, eligible: eligible / eligible.sum(axis=1, keepdims=True), 2)
    assert masked.predict_proba(X[:1], eligible=[[1]]).tolist() == [[0.0, 1.0]]
    cheating = surefoot.Policy.custom(lambda X, eligible: np.full((len(X), 2), 0.5), 2)
    with pytest.raises(surefoot.DataError, match="action 0, which is not eligible"):
        cheating.predict_proba(X[:1], eligible=[[1]])
    world = surefoot.Environment.finite(X[:50], rng.random((50, 2)))
    logs = world.collect(mine, 500)
    np.testing.assert_allclose(logs.pscore, mine.propensity(logs.X, logs.action))


def test_certificates_can_be_recomputed_and_forgeries_are_found(world, tmp_path):
    learner = surefoot.SeqAdjLS(prior=world.first_policy(alpha=0.3), lam=0.4)
    for round in range(2):
        running = learner.policy_ if round else learner.prior
        learner.partial_fit(world.collect(running, 800, round=round, start=800 * round))
    course = learner._session
    certificate = learner.certificate_
    policies = [*course.deployed, learner.policy_]
    assert surefoot.verify(certificate, policies, course.logs, deployed=course.deployed)
    forged = certificate.to_dict()
    forged["upper"] -= 0.1
    found = surefoot.verify(surefoot.Certificate.from_json(json.dumps(forged)), policies, course.logs)
    assert not found and found.differences[0].startswith("round 2, ladder: upper")
    # Saved as a folder, all of it is checked, as the command does; and the loop goes on.
    learner.save_run(tmp_path / "run")
    checked = surefoot.verify(tmp_path / "run")
    assert checked and checked.propensities == 1600 and len(checked.certificates) == 4
    again = surefoot.SeqAdjLS(prior=world.first_policy(alpha=0.3), lam=0.4).load_run(tmp_path / "run")
    for loop in (learner, again):
        loop.partial_fit(world.collect(loop.policy_, 800, round=2, start=1600))
    assert (again.policy_, again.certificate_) == (learner.policy_, learner.certificate_)
    with pytest.raises(surefoot.SettingError, match="those of this learner"):
        surefoot.SeqAdjLS(prior=world.first_policy(alpha=0.3), lam=0.5).load_run(tmp_path / "run")
    # A loop that has not begun has nothing to continue.
    empty = surefoot._surefoot.Session(learner._learner(), learner.prior, reward_range=(0.0, 1.0))
    empty.save(tmp_path / "empty", [])
    with pytest.raises(surefoot.SettingError, match="the saved loop should be at least one round, but is none"):
        surefoot.SeqAdjLS(prior=learner.prior, lam=0.4).load_run(tmp_path / "empty")
    path = tmp_path / "certificates.json"
    surefoot.write_certificates(path, [(2, "ladder", certificate)])
    assert surefoot.read_certificates(path) == [(2, "ladder", certificate)]
    assert pickle.loads(pickle.dumps(certificate)) == certificate
    # A file says what its costs are in rewards.
    euros = surefoot.Certificate.from_json(certificate.to_json(), reward_range=(0.0, 40.0))
    surefoot.write_certificates(path, [(2, "ladder", euros)])
    ((_, _, read),) = surefoot.read_certificates(path)
    assert read.reward_range == (0.0, 40.0) and read.at_least == euros.at_least != certificate.at_least
    with pytest.raises(surefoot.SettingError, match="the same for all certificates of a file"):
        surefoot.write_certificates(path, [(2, "ladder", euros), (2, "gate", certificate)])
    # Rounds survive their files.
    course.logs[0].save(tmp_path / "round.safetensors", policy=learner.prior)
    assert surefoot.Logs.load(tmp_path / "round.safetensors").fingerprint == course.logs[0].fingerprint


def test_a_fixed_policy_is_certified_by_the_formula(rng):
    r = records(rng, 500)
    logs = surefoot.Logs(**r)
    lam = 0.3
    certificate = surefoot.certify(surefoot.Policy.uniform(3), [logs], lambdas=[lam])
    w = (1 / 3) / r["pscore"]
    estimate = np.mean(-np.log1p(lam * w * r["reward"]) / lam)
    x = estimate + np.log(1 / 0.05) / (lam * 500)
    assert certificate.upper == pytest.approx((1 - np.exp(-lam * x)) / lam, abs=1e-6)
    assert certificate.at_least == -certificate.upper and certificate.bounds == "risk"
    assert "propensity" in certificate.assumptions[0] and "at least" in repr(certificate)


def test_a_posterior_is_certified_by_the_formula(rng):
    r = records(rng, 3000)
    logs = surefoot.Logs(**r)
    prior = surefoot.Policy.standard(surefoot.Features.raw(4), 3)
    learner = surefoot.SeqLS(lam=0.4, held_back=0, prior=prior, posterior="isotropic").fit(logs)
    certificate = surefoot.certify(learner.policy_, [logs], prior=prior, lambdas=[0.4])
    p = learner.policy_.propensity(r["X"], r["action"])
    h = -(p / 0.4) * np.log1p(0.4 * r["reward"] / r["pscore"])
    x = np.mean(h) + (learner.policy_.kl(prior) + np.log(1 / 0.05)) / (0.4 * 3000)
    assert certificate.upper == pytest.approx((1 - np.exp(-0.4 * x)) / 0.4, abs=1e-6)
    assert certificate.kl == pytest.approx(learner.policy_.kl(prior))


def test_worlds_are_what_they_say(rng):
    X, y = rng.normal(size=(300, 5)), rng.integers(3, size=300)
    world = surefoot.Environment.labelled(X[:200], y[:200], X[200:], y[200:], noise=0.1, seed=2)
    assert (world.kind, world.n_actions, world.n_features, world.interactions) == ("labels", 3, 5, 190)
    assert world.best_reward() == pytest.approx(0.9)
    reward, accuracy = world.evaluate(surefoot.Policy.uniform(3))
    assert accuracy == pytest.approx(1 / 3) and reward == pytest.approx(0.9 / 3 + 0.1 * 2 / 3)
    with pytest.raises(surefoot.SettingError, match="at most 190"):
        world.collect(surefoot.Policy.uniform(3), 200)
    assert surefoot.rule_of_thumb(X) > 0
    with pytest.raises(surefoot.SettingError, match="given"):
        surefoot.Environment.finite(X, rng.random((300, 2))).first_policy()
    with pytest.raises(surefoot.FileError):
        surefoot.Environment.dataset("/nowhere")


def test_a_gate_keeps_what_runs_until_something_better_is_proven(world):
    run = surefoot.simulate(world, surefoot.SeqAdjLS(gate="improvement"), rounds=6, interactions=6000, certify=True)
    promoted = [report["promoted"] for report in run.rounds]
    assert any(promoted) and run.rewards[-1] >= run.rewards[0]
    for report, before, after in zip(run.rounds, run.policies, run.policies[1:]):
        assert (before.fingerprint != after.fingerprint) == report["promoted"]
    frame = run.to_pandas()
    assert frame["promoted"].tolist() == promoted and frame.shape[0] == 6
    for wrong in ([], [0, 5], "sometimes"):
        with pytest.raises(surefoot.SettingError):
            surefoot.simulate(world, surefoot.SeqLS(lam=0.4), schedule=wrong)
    listed = surefoot.simulate(world, surefoot.SeqLS(lam=0.4), schedule=[50, 80])
    assert [len(logs) for logs in listed.logs] == [50, 80]
    with pytest.raises(surefoot.SettingError, match="gate should be"):
        surefoot.simulate(world, surefoot.SeqAdjLS(gate="sometimes"), rounds=2)


def test_progress_is_shown_where_it_is_asked_for(world, capsys):
    surefoot.simulate(world, surefoot.SeqLS(lam=0.4), rounds=2, interactions=2000, progress=True)
    shown = capsys.readouterr().err
    assert "rounds" in shown and "100%" in shown and "reward" in shown
    surefoot.simulate(world, surefoot.SeqLS(lam=0.4), rounds=2, interactions=2000)
    assert capsys.readouterr().err == ""
