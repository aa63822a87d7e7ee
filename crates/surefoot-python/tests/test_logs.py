"""Files and data frames: the same records whatever holds them."""

from __future__ import annotations

import functools
import http.server
import shutil
import threading

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from conftest import REPO

import surefoot

LOGS = REPO / "examples/logs.csv"


@pytest.fixture(scope="module")
def frame() -> pandas.DataFrame:
    return pandas.read_csv(LOGS)


def test_a_frame_is_the_file_it_was_read_from(frame):
    expected = surefoot.learn(LOGS, ignore=["pi_*"])
    sources = [
        frame,
        polars.read_csv(LOGS),
        pyarrow.table(frame),
        frame.assign(country=frame["country"].astype("category"), age=frame["age"].astype("Int8")),
        polars.read_csv(LOGS).with_columns(polars.col("device").cast(polars.Categorical)),
    ]
    for source in sources:
        learned = surefoot.learn(source, ignore=["pi_*"])
        np.testing.assert_allclose(learned.policy.mean, expected.policy.mean, atol=1e-12)
        assert learned.at_least == pytest.approx(expected.at_least, abs=1e-12)


def test_files_of_every_format_say_the_same(tmp_path):
    names = surefoot.open_logs(LOGS).scan()["actions"]
    source = surefoot.open_logs(LOGS, actions=names)
    expected = surefoot.evaluate(source, "uniform", replicates=0)
    formats = surefoot.formats()
    assert len(set(formats)) == len(formats) > 1
    for format in formats:
        path = tmp_path / format
        texts = ["event_id", "country", "device", "age", "policy_version"] if format == "obp" else []
        source.convert(path, format=format, ignore=["pi_*", *texts])
        actions = len(names) if format in ("dsjson", "vw", "obp") else names
        found = surefoot.evaluate(surefoot.open_logs(path, format=format, actions=actions), "uniform", replicates=0)
        assert found.records == 6000
        assert [e.value for e in found.estimates] == pytest.approx([e.value for e in expected.estimates], abs=1e-12), (
            format
        )


def test_records_come_out_as_they_went_in(frame):
    back = pyarrow.table(surefoot.open_logs(frame).to_arrow()).to_pandas()
    pandas.testing.assert_frame_equal(back, frame, check_dtype=False)
    scan = surefoot.open_logs(frame).scan()
    assert scan["groups"] == [("v1", 3000), ("v2", 3000)] and scan["actions"] == ["banner", "coupon", "nothing"]


def test_what_is_learned_scores_raw_records_and_survives_its_file(frame, tmp_path):
    learned = surefoot.learn(frame, ignore=["pi_*"])
    learned.save(tmp_path / "next.safetensors")
    back = surefoot.Policy.load(tmp_path / "next.safetensors")
    assert back.fingerprint == learned.policy.fingerprint
    assert back.inputs["actions"]["names"] == ["banner", "coupon", "nothing"]
    contexts = frame[["event_id", "country", "device", "age"]]
    one = pandas.DataFrame.from_arrow(surefoot.score(contexts, back, seed=4, probabilities=True))
    other = pandas.DataFrame.from_arrow(surefoot.score(contexts.iloc[::-1], learned.policy, seed=4))
    # An event gets the same decision wherever it stands.
    assert one.set_index("event_id")["action"].equals(other.set_index("event_id")["action"].loc[one["event_id"]])
    p = np.vstack(one["probabilities"])
    names = np.array(back.inputs["actions"]["names"])
    np.testing.assert_allclose(
        p[p.shape[0] * [True], [list(names).index(a) for a in one["action"]]], one["pscore"], atol=1e-8
    )
    written = surefoot.read_certificates(tmp_path / "next.certificates.json")
    assert [(kind, c.upper) for _, kind, c in written] == [
        ("ladder", learned.certificate.upper),
        ("gate", learned.better.upper),
    ]


def test_rounds_are_logs_to_learn_from(frame):
    settings = {
        "by": "policy-version",
        "set_aside": 0.1,
        "reward_range": (0.0, 1.0),
        "features": None,
        "ignore": ["pi_*"],
    }
    more = {"categorical": [], "vocabulary": 64, "hash_bits": 8, "standardise": True, "prior": None}
    rounds = surefoot.open_logs(frame).rounds(**settings, **more)
    assert len(rounds) == 2 and [len(rounds[i]) for i in range(2)] == [2700, 3000] and len(rounds[-1]) == 3000
    with pytest.raises(IndexError):
        rounds[2]
    assert rounds.names == ["v1", "v2"] and len(rounds.feature_names) == rounds[0].n_features
    X, action = rounds.set_aside
    assert X.shape[0] == len(action) == 300
    learner = surefoot.SeqLS(lam=0.4).fit([rounds[0], rounds[1]])
    assert learner.n_rounds_ == 2


def test_wrong_logs_are_refused_with_their_place(frame, tmp_path):
    wrong = frame.copy()
    wrong.loc[17, "pscore"] = 0.0
    with pytest.raises(surefoot.DataError, match="logs, row 17: pscore should be") as caught:
        surefoot.learn(wrong)
    assert (caught.value.column, caught.value.row, caught.value.place) == ("pscore", 17, "logs, row 17")
    report = surefoot.lint(wrong)
    assert not report.ok and report.errors[0].rows[0]["row"] == 17
    assert report.to_pandas()["severity"].tolist()[0] == "error"
    with pytest.raises(surefoot.DataError, match="no column"):
        surefoot.learn(frame.drop(columns="pscore"))
    with pytest.raises(surefoot.FileError, match=r"nowhere\.csv") as nowhere:
        surefoot.learn(tmp_path / "nowhere.csv")
    assert isinstance(nowhere.value, OSError)
    with pytest.raises(surefoot.SettingError, match="a path, a list of paths"):
        surefoot.open_logs(3)
    with pytest.raises(surefoot.FileError, match=r"should end in \.parquet"):
        surefoot.lint(tmp_path / "logs.txt")
    renamed = frame.rename(columns={"pscore": "chance", "action": "shown"})
    assert surefoot.lint(renamed, propensity="chance", action="shown").ok


def test_a_prior_that_knows_the_logs_certifies_nothing(frame, tmp_path):
    first = surefoot.learn(frame[frame["policy_version"] == "v1"], ignore=["pi_*"])
    again = surefoot.learn(frame, prior=first.policy, ignore=["pi_*"])
    assert not again.certified and again.at_least is None and "NOT certified" in again.warnings[0]
    newer = frame[frame["policy_version"] == "v2"]
    assert surefoot.learn(newer, prior=first.policy, prior_is_older=True, ignore=["pi_*"]).certified
    estimated = surefoot.learn(frame, prior="estimated", ignore=["pi_*"])
    assert estimated.certified and "reward of the new policy" in str(estimated)


def test_policies_on_raw_records_are_selected_from(frame):
    source = surefoot.open_logs(frame)
    learned = surefoot.learn(frame, ignore=["pi_*"])
    assert surefoot.evaluate(frame, learned, estimators="ips").records == 6000
    with pytest.raises(TypeError, match="knows its format"):
        surefoot.lint(source, action="other")
    with pytest.raises(surefoot.SettingError, match="gate"):
        surefoot.learn(frame, surefoot.SeqLS(gate="improvement"))
    with pytest.raises(surefoot.NotFittedError):
        surefoot.evaluate(frame, surefoot.SeqLS())
    found = surefoot.select(source, {"uniform": "uniform", "pi": "columns:pi_"})
    assert found.names == ["uniform", "pi"] and found.records == 6000
    with pytest.raises(surefoot.SettingError, match="how records become its features"):
        surefoot.evaluate(source, surefoot.Policy.uniform(3))


def test_a_prior_that_was_learned_from_these_rounds_certifies_nothing(frame):
    rounds = surefoot.open_logs(frame).rounds(ignore=["pi_*"])
    first = surefoot.learn(rounds)
    assert first.certified
    again = surefoot.learn(rounds, prior=first.policy)
    assert not again.certified and again.at_least is None
    with pytest.raises(surefoot.SettingError, match="learns from all rounds"):
        surefoot.learn(rounds, surefoot.SCRM())


def test_what_depends_on_the_actions_needs_all_of_them(frame):
    names = surefoot.open_logs(frame).scan()["actions"]
    with pytest.raises(surefoot.FileError, match="the uniform policy needs all actions"):
        surefoot.evaluate(frame, "uniform")
    with pytest.raises(surefoot.FileError, match="the uniform policy needs all actions"):
        surefoot.select(frame, {"even": "uniform"})
    given = surefoot.open_logs(frame, actions=[*names, "never shown"])
    assert surefoot.evaluate(given, "uniform", replicates=0).weights.mean < 0.9
    with pytest.raises(TypeError, match="knows its format"):
        surefoot.learn(given, actions=3)
    for wrong in (3.5, "a,b"):
        with pytest.raises(surefoot.SettingError, match="a number or a list of names"):
            surefoot.open_logs(frame, actions=wrong)
    # An action that only the judging records have.
    late = frame.copy()
    late.loc[late.index[-1], "action"] = "never shown"
    found = surefoot.learn(late, surefoot.SeqLS(lam=0.4, epochs=1), ignore=["pi_*"])
    assert not found.certified and found.at_least is None and found.better_by is None
    assert "some actions do not occur in the records set aside" in found.warnings[0]
    with pytest.warns(surefoot.CertificateWarning, match="NOT certified"):
        surefoot.SeqLS(lam=0.4, epochs=1).fit(surefoot.open_logs(late).rounds(ignore=["pi_*"])[0])
    settings = {"ignore": ["pi_*"], "actions": [*names, "never shown"]}
    found = surefoot.learn(late, surefoot.SeqLS(lam=0.4, epochs=1), **settings)
    assert found.certified and found.columns == ["country", "device", "age"]


def test_events_without_ids_get_their_own(frame):
    policy = surefoot.learn(frame, surefoot.SeqLS(lam=0.4, epochs=1), ignore=["pi_*"]).policy
    one = frame[["country", "device", "age"]][:1]
    decided = [surefoot.score(one, policy).to_pandas().iloc[0] for _ in range(200)]
    assert len({row["event_id"] for row in decided}) == 200
    chosen = [row["action"] for row in decided]
    for row in {row["action"]: row for row in decided}.values():
        error = (row["pscore"] * (1 - row["pscore"]) / 200) ** 0.5
        assert abs(chosen.count(row["action"]) / 200 - row["pscore"]) < 6 * error


def test_an_interrupt_is_heard_between_batches_and_nothing_is_left_of_it(frame, interrupt):
    many = pandas.concat([frame] * 60, ignore_index=True)
    source = surefoot.open_logs(many, actions=surefoot.open_logs(frame).scan()["actions"])
    for call in (
        lambda: surefoot.evaluate(source, "uniform"),
        lambda: surefoot.lint(source),
        lambda: source.scan(),
        lambda: source.rounds(ignore=["pi_*"]),
    ):
        interrupt(0.01)
        with pytest.raises(KeyboardInterrupt):
            for _ in range(1000):
                call()
    # The next error is its own.
    with pytest.raises(ZeroDivisionError):
        surefoot.Policy.custom(lambda X: 1 / 0, 2).predict_proba([[1.0]])


def test_logs_are_read_from_a_url(tmp_path):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    shutil.copy(LOGS, tmp_path)
    handler = functools.partial(Quiet, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        learned = surefoot.learn(f"{url}/{LOGS.name}", ignore=["pi_*"])
        assert learned.policy.fingerprint == surefoot.learn(LOGS, ignore=["pi_*"]).policy.fingerprint
        with pytest.raises(surefoot.FileError, match="there is no such object"):
            surefoot.learn(f"{url}/none.csv")
        server.shutdown()


def test_records_in_files_are_learned_from_as_those_in_memory(tmp_path):
    expected = surefoot.learn(LOGS, ignore=["pi_*"])
    for _ in range(2):
        learned = surefoot.learn(LOGS, ignore=["pi_*"], memory=10**9, cache=tmp_path / "cache")
        assert learned.policy.fingerprint == expected.policy.fingerprint
        assert learned.at_least == expected.at_least
    assert len(list((tmp_path / "cache").iterdir())) == 1
