"""Candidates with features: from files and frames, and as arrays in learners, logs and policies."""

import json
import pickle

import numpy as np
import pandas
import polars
import pytest
import scipy.sparse

import surefoot

TASTES = 3


@pytest.fixture(scope="module")
def rows():
    """Requests with four articles each. A user likes articles of the same taste; the logger is uniform."""
    rng = np.random.default_rng(5)
    found = []
    for i in range(900):
        user = rng.normal(size=TASTES)
        articles = rng.normal(size=(4, TASTES))
        chosen = int(rng.integers(4))
        likes = 1 / (1 + np.exp(-2 * articles[chosen] @ user))
        candidates = [{f"a{j}": round(float(v), 4) for j, v in enumerate(article)} for article in articles]
        found.append(
            {
                "event_id": f"e{i}",
                **{f"u{j}": round(float(v), 4) for j, v in enumerate(user)},
                "candidates": candidates,
                "action": chosen,
                "pscore": 0.25,
                "reward": float(rng.random() < likes),
            }
        )
    return found


def test_a_frame_with_lists_of_objects_learns_what_the_file_does(rows, tmp_path):
    path = tmp_path / "logs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    from_file, from_frame = surefoot.learn(path), surefoot.learn(pandas.DataFrame(rows))
    assert from_file.policy.fingerprint == from_frame.policy.fingerprint
    assert from_file.certified and from_file.at_least is not None
    assert from_file.estimate[0] > from_file.logged[0] + 0.1


def test_candidates_without_features_in_common_are_refused_in_words(rows):
    broken = pandas.DataFrame([{**row, "candidates": []} for row in rows])
    with pytest.raises(surefoot.SurefootError, match="candidate"):
        surefoot.learn(broken)


def request(n, k, seed=3):
    """Users, articles, uniform choices and rewards: a user likes articles of the same taste."""
    rng = np.random.default_rng(seed)
    users, articles = rng.normal(size=(n, TASTES)), rng.normal(size=(n, k, TASTES))
    action = rng.integers(k, size=n)
    likes = 1 / (1 + np.exp(-2 * (articles[np.arange(n), action] * users).sum(1)))
    return users, articles, action, np.full(n, 1 / k), (rng.random(n) < likes).astype(float)


def rewarded(learner, n=500, k=4, seed=11):
    """The expected reward of what a learner samples."""
    users, articles, *_ = request(n, k, seed)
    likes = 1 / (1 + np.exp(-2 * np.einsum("nd,nkd->nk", users, articles)))
    return float((learner.predict_proba(users, candidates=articles) * likes).sum(1).mean())


def long(articles, order=None):
    """A row for each candidate, as a frame."""
    n, k, d = articles.shape
    rows = pandas.DataFrame(articles.reshape(n * k, d), columns=[f"a{j}" for j in range(d)])
    rows.insert(1, "event_id", np.repeat([f"e{i}" for i in range(n)], k))
    return rows if order is None else pandas.concat([rows[i * k : (i + 1) * k] for i in order], ignore_index=True)


@pytest.mark.parametrize("algorithm", [surefoot.Portfolio, surefoot.SeqAdjLS])
def test_a_loop_learns_from_candidates_that_differ_in_every_record(algorithm):
    learner = algorithm(n_actions=5, lam=0.9, held_back=0.3)
    users, articles, action, pscore, reward = request(1500, 4)
    learner.partial_fit(users, action, pscore, reward, candidates=articles)
    assert rewarded(learner) > 0.6
    # A round with another number of candidates, collected by the policy: no warning about its propensities.
    users, articles, *_ = request(600, 5, seed=4)
    action, pscore = learner.sample(users, candidates=articles)
    assert (learner.predict_proba(users, candidates=articles)[np.arange(600), action] - pscore).max() < 1e-9
    likes = 1 / (1 + np.exp(-2 * (articles[np.arange(600), action] * users).sum(1)))
    reward = (np.random.default_rng(1).random(600) < likes).astype(float)
    learner.partial_fit(users, action, pscore, reward, candidates=articles)
    assert learner.n_rounds_ == 2 and learner.certificate_ is not None
    assert (learner.predict(users, candidates=articles) < 5).all()
    assert 0 < learner.score(users, action, pscore, reward, candidates=articles) < 1


def test_a_search_that_holds_nothing_back_says_that_nothing_is_certified():
    users, articles, action, pscore, reward = request(200, 3)
    with pytest.warns(surefoot.CertificateWarning, match="give held_back"):
        learner = surefoot.SeqLS(n_actions=3, lam=0.9).partial_fit(users, action, pscore, reward, candidates=articles)
    assert learner.certificate_ is None


def test_all_forms_of_candidates_are_the_same_logs():
    users, articles, action, pscore, reward = request(30, 4)
    frame = pandas.DataFrame(users, columns=["u0", "u1", "u2"])
    named = frame.assign(event_id=[f"e{i}" for i in range(30)])
    flat, counts = articles.reshape(120, TASTES), np.full(30, 4)
    forms = [
        (users, articles),
        (users, articles.tolist()),
        (users, list(articles)),
        (users, (flat, counts)),
        (users, long(articles)),
        (users, polars.from_pandas(long(articles))),
        (users, polars.from_pandas(long(articles)).to_arrow()),
        (named, long(articles, order=np.random.default_rng(0).permutation(30))),
        (polars.from_pandas(named), polars.from_pandas(long(articles, order=range(29, -1, -1)))),
        (polars.from_pandas(named).to_arrow(), polars.from_pandas(long(articles, order=range(29, -1, -1))).to_arrow()),
    ]
    made = [surefoot.Logs(X, action, pscore, reward, candidates=form) for X, form in forms]
    assert len({logs.fingerprint for logs in made}) == 1
    rows, back = made[0].candidates
    np.testing.assert_array_equal(rows, flat.astype(np.float32))
    assert back.tolist() == counts.tolist() and made[0].n_candidate_features == TASTES and made[0].eligible is None
    sparse = surefoot.Logs(users, action, pscore, reward, candidates=(scipy.sparse.csr_matrix(flat), counts))
    each = [scipy.sparse.csr_matrix(record) for record in articles]
    assert sparse.fingerprint == surefoot.Logs(users, action, pscore, reward, candidates=each).fingerprint
    assert scipy.sparse.issparse(sparse.candidates[0])
    again = pickle.loads(pickle.dumps(sparse[3:20]))
    assert again.fingerprint == sparse[3:20].fingerprint and again.candidates[1].sum() == 17 * 4


def test_frames_with_event_ids_learn_what_arrays_do():
    users, articles, action, pscore, reward = request(400, 3)
    arrays = surefoot.Portfolio(n_actions=3).partial_fit(users, action, pscore, reward, candidates=articles)
    named = pandas.DataFrame(users, columns=["u0", "u1", "u2"]).assign(event_id=[f"e{i}" for i in range(400)])
    frames = surefoot.Portfolio(n_actions=3).partial_fit(named, action, pscore, reward, candidates=long(articles))
    assert frames.policy_ == arrays.policy_ and list(frames.feature_names_in_) == ["u0", "u1", "u2"]
    p = frames.predict_proba(named[:5], candidates=long(articles[:5]))
    np.testing.assert_array_equal(p, arrays.predict_proba(users[:5], candidates=articles[:5]))
    with pytest.raises(ValueError, match="feature names"):
        frames.predict_proba(named[:5].rename(columns={"u0": "v0"}), candidates=long(articles[:5]))


def wrong(n=6, k=3, **changes):
    users, articles, action, pscore, reward = request(n, k)
    given = {"X": users, "action": action, "pscore": pscore, "reward": reward, "candidates": articles, **changes}
    with pytest.raises(surefoot.SurefootError) as caught:
        surefoot.SeqLS(n_actions=k).partial_fit(**given)
    return caught.value


def test_errors_name_the_record():
    _, articles, action, *_ = request(6, 3)
    broken = articles.copy()
    broken[4, 2, 1] = np.nan
    error = wrong(candidates=broken)
    assert (error.row, error.value) == (4, "NaN") and error.column.startswith("candidate 2, ")
    error = wrong(action=np.where(np.arange(6) == 2, 3, action))
    assert (error.row, error.column) == (2, "action")
    ragged = [*articles[:2], np.empty((0, TASTES)), *articles[3:]]
    assert (wrong(candidates=ragged).row, wrong(candidates=ragged).allowed) == (2, "at least 1")
    narrow = [*articles[:5], articles[5, :, :2]]
    assert str(wrong(candidates=narrow)) == "row 5: the features of its candidates should be 3, as in row 0, but is 2"
    many = [*articles[:3], np.zeros((7, TASTES)), *articles[4:]]
    assert (wrong(candidates=many).row, wrong(candidates=many).value) == (3, "7")
    assert "n_actions" in str(wrong(candidates=many))
    assert wrong(candidates=[*articles[:5], "text"]).row == 5
    assert wrong(candidates=(articles.reshape(18, TASTES), [3, 3, 0, 6, 3, 3])).row == 2
    assert "18" in str(wrong(candidates=(articles.reshape(18, TASTES), [3, 3, 3, 3, 3, 2])))
    assert str(wrong(candidates=articles[:4])) == "candidates should have 6 entries, one for each row of X, but has 4"
    assert "sparse matrix alone" in str(wrong(candidates=scipy.sparse.csr_matrix(articles.reshape(18, TASTES))))
    assert "2 dimensions" in str(wrong(candidates=articles[0]))
    assert "eligible" in str(wrong(eligible=[[0, 1]] * 6))


def test_errors_in_tables_of_candidates_name_the_row():
    users, articles, *_ = request(6, 3)
    table = long(articles)
    named = pandas.DataFrame(users, columns=["u0", "u1", "u2"]).assign(event_id=[f"e{i}" for i in range(6)])
    assert "event_id" in str(wrong(candidates=table.drop(columns="event_id")))
    torn = table.iloc[[0, 1, 3, 2, *range(4, 18)]]
    assert str(wrong(candidates=torn)).startswith(
        "row 3: event_id of the candidates should be one event after the other"
    )
    missing = table.assign(event_id=table.event_id.where(table.index != 7))
    assert (wrong(candidates=missing).row, wrong(candidates=missing).value) == (7, "missing")
    assert (wrong(X=named, candidates=table[3:]).row, wrong(X=named, candidates=table[3:]).value) == (0, "e0")
    fewer = named[:5]
    assert str(wrong(X=fewer, candidates=table)).startswith(
        "row 15: event_id of the candidates should be an event_id of X"
    )
    twice = named.assign(event_id=["e0", "e1", "e2", "e3", "e1", "e5"])
    assert (wrong(X=twice, candidates=table).row, wrong(X=twice, candidates=table).value) == (4, "e1 again")
    words = table.assign(a0="red")
    assert "the type of column a0" in str(wrong(candidates=words))


def test_a_learner_over_candidates_goes_on_from_pickles_and_folders(tmp_path):
    prior = surefoot.Policy.over_candidates(surefoot.Features.raw(TASTES), TASTES, 4, exploration=0.05)
    users, articles, _, _, reward = request(600, 4)
    action, pscore = prior.sample(users, seed=1, candidates=articles)
    learner = surefoot.Portfolio(prior=prior).partial_fit(users, action, pscore, reward, candidates=articles)
    assert pickle.loads(pickle.dumps(learner.policy_)) == learner.policy_
    learner.save_run(tmp_path / "run")
    assert surefoot.verify(tmp_path / "run")
    copies = [pickle.loads(pickle.dumps(learner)), surefoot.Portfolio(prior=prior).load_run(tmp_path / "run")]
    users, articles, *_ = request(600, 4, seed=8)
    action, pscore = learner.sample(users, candidates=articles, seed=1)
    learner.partial_fit(users, action, pscore, reward, candidates=articles)
    for copy in copies:
        copy.partial_fit(users, action, pscore, reward, candidates=articles)
        assert copy.policy_ == learner.policy_


def test_joint_features_of_one_s_own_are_not_multiplied():
    users, articles, action, pscore, reward = request(500, 4)
    products = articles * users[:, None, :]
    learner = surefoot.Portfolio(n_actions=4, cross=False).partial_fit(
        np.zeros((500, 1)), action, pscore, reward, candidates=products
    )
    assert learner.policy_.mean.shape == (TASTES, 1)
    p = learner.predict_proba(np.zeros((500, 1)), candidates=products)
    likes = 1 / (1 + np.exp(-2 * products.sum(2)))
    assert (p * likes).sum(1).mean() > likes.mean() + 0.1


def test_logs_with_candidates_are_evaluated_and_a_policy_takes_any_number_of_them():
    users, articles, action, pscore, reward = request(1000, 4)
    learner = surefoot.Portfolio(n_actions=4).partial_fit(users, action, pscore, reward, candidates=articles)
    users, articles, action, pscore, reward = request(800, 6, seed=9)
    logs = surefoot.Logs(users, action, pscore, reward, candidates=articles)
    found = surefoot.evaluate(logs, {"new": learner, "uniform": "uniform"}, estimators=["snips"], replicates=0)
    assert found["new"]["SNIPS"].value > found["uniform"]["SNIPS"].value + 0.1
    assert surefoot.select(logs, {"new": learner, "uniform": "uniform"}).best == "new"
    with pytest.raises(surefoot.SettingError, match="as the records have candidates"):
        surefoot.evaluate(logs, learner, model="linear")
    with pytest.raises(surefoot.SurefootError, match="candidates that have features"):
        learner.predict_proba(users)


def test_options_of_the_command_line_are_keyword_arguments(rows, tmp_path):
    renamed = pandas.DataFrame(rows).rename(columns={"candidates": "offers"})
    plain = surefoot.learn(pandas.DataFrame(rows))
    same = surefoot.learn(renamed, candidates_column="offers")
    assert same.policy.fingerprint == plain.policy.fingerprint
    own = surefoot.learn(renamed, candidates_column="offers", cross="none")
    assert own.policy.mean.shape == (TASTES, 1)
    hashed = surefoot.learn(renamed, candidates_column="offers", cross=["*:*"], cross_bits=3)
    assert hashed.policy.mean.shape == (8, 1)
    with pytest.raises(surefoot.SurefootError, match="a product of features"):
        surefoot.learn(renamed, candidates_column="offers", cross="user:article")
    assert surefoot.lint(renamed, candidates_column="offers").summary["candidates"] == [4, 4]
    estimate = surefoot.evaluate(renamed, plain.policy, candidates_column="offers", estimators=["snips"], replicates=0)
    assert estimate.estimates[0].value > plain.logged[0]
    chosen = surefoot.select(renamed, {"new": plain.policy, "even": "uniform"}, candidates_column="offers")
    assert chosen.best == "new"
    decisions = surefoot.score(renamed, plain.policy, candidates_column="offers").to_pandas()
    assert len(decisions) == len(rows)
    places = surefoot.learn(renamed, candidates_column="offers", positions=True, actions=4)
    assert places.policy.n_candidate_features is None and places.policy.n_actions == 4
    with pytest.raises(surefoot.SettingError, match="action_is should be place or identity, but is name"):
        surefoot.lint(renamed, action_is="name")
    with pytest.raises(TypeError, match="catalogue"):
        surefoot.evaluate(surefoot.Logs([[1.0]], [0], [0.5], [1.0]), "logged", catalogue="articles.csv")


def test_a_catalogue_is_a_frame_or_a_file(tmp_path):
    rng = np.random.default_rng(2)
    articles = pandas.DataFrame(
        {"item_id": [f"n{i}" for i in range(30)], "a": rng.normal(size=30), "b": rng.normal(size=30)}
    )
    rows = []
    for _ in range(500):
        offered, chosen = rng.choice(30, 3, replace=False), int(rng.integers(3))
        reward = float(rng.random() < 1 / (1 + np.exp(-3 * articles.a[offered[chosen]])))
        candidates = [{"id": articles.item_id[article]} for article in offered]
        named = candidates[chosen]["id"]
        rows.append({"u": rng.normal(), "candidates": candidates, "action": named, "pscore": 1 / 3, "reward": reward})
    frame, path = pandas.DataFrame(rows), tmp_path / "articles.parquet"
    articles.to_parquet(path)
    options = {"catalogue_key": "item_id", "action_is": "identity", "ignore": ["id"]}
    of_frame, of_file = (surefoot.learn(frame, catalogue=given, **options) for given in (articles, path))
    assert of_frame.policy.fingerprint == of_file.policy.fingerprint
    assert of_frame.estimate[0] > of_frame.logged[0]
    with pytest.raises(surefoot.SettingError, match="catalogue_key should be given with a catalogue"):
        surefoot.lint(frame, catalogue_key="item_id")
    with pytest.raises(surefoot.SettingError, match="catalogue should be a path"):
        surefoot.lint(frame, catalogue=3.5)
