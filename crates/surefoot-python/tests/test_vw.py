"""Vowpal Wabbit itself learns from the files that Surefoot writes, where it can be installed."""

import json

import numpy as np
import pytest

import surefoot

vowpalwabbit = pytest.importorskip("vowpalwabbit", reason="SKIPPED: Vowpal Wabbit cannot be installed here")

TASTES, OFFERED = 3, 4


def requests(n, seed):
    """Users, articles, and how likely each user is to like each article."""
    rng = np.random.default_rng(seed)
    users, articles = rng.normal(size=(n, TASTES)), rng.normal(size=(n, OFFERED, TASTES))
    return users, articles, 1 / (1 + np.exp(-3 * np.einsum("nd,nkd->nk", users, articles)))


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A log of a uniform policy, in JSON lines."""
    users, articles, likes = requests(4000, 1)
    rng = np.random.default_rng(2)
    path = tmp_path_factory.mktemp("logs") / "logs.jsonl"
    with path.open("w") as out:
        for i in range(len(users)):
            chosen = int(rng.integers(OFFERED))
            row = {
                "event_id": f"e{i}",
                "user": {f"u{j}": round(float(v), 5) for j, v in enumerate(users[i])},
                "candidates": [
                    {"article": {f"a{j}": round(float(v), 5) for j, v in enumerate(article)}} for article in articles[i]
                ],
                "action": chosen,
                "pscore": 1 / OFFERED,
                "reward": float(rng.random() < likes[i, chosen]),
            }
            out.write(json.dumps(row) + "\n")
    return path


def line(group, letter, row, namespaces):
    start, before = (f"|{group}", letter) if namespaces else ("|", f"{group}.{letter}")
    return " ".join([start, *(f"{before}{j}:{v}" for j, v in enumerate(row))])


def learned_value(flags, namespaces, folder):
    """The expected reward of the policy that Vowpal Wabbit learns from a file."""
    model = folder / "model"
    vowpalwabbit.Workspace(f"--cb_adf -q :: -f {model} --quiet {flags}").finish()
    loaded = vowpalwabbit.Workspace(f"-i {model} -t --quiet")
    users, articles, likes = requests(500, 3)
    found = []
    for user, offered, like in zip(users, articles, likes):
        # Vowpal Wabbit's text keeps the names of fields of objects, `user.u0`; in dsjson objects are namespaces.
        text = ["shared " + line("user", "u", user, namespaces)]
        text += [line("article", "a", article, namespaces) for article in offered]
        found.append(like[int(np.argmin(loaded.predict(text)))])
    loaded.finish()
    return float(np.mean(found)), float(likes.mean()), float(likes.max(1).mean())


@pytest.mark.parametrize(("name", "flags"), [("logs.vw", ""), ("logs.dsjson", "--dsjson")])
def test_vowpal_wabbit_learns_from_what_convert_writes(logs, tmp_path, name, flags):
    path = tmp_path / name
    written, _ = surefoot.open_logs(logs).convert(path)
    assert written == 4000
    value, uniform, best = learned_value(f"-d {path} {flags}", bool(flags), tmp_path)
    assert value > uniform + 0.7 * (best - uniform), (value, uniform, best)


def test_both_formats_are_the_same_records_to_vowpal_wabbit(logs, tmp_path):
    losses = []
    for name, flags in (("logs.vw", ""), ("logs.dsjson", "--dsjson")):
        path = tmp_path / name
        surefoot.open_logs(logs).convert(path)
        learner = vowpalwabbit.Workspace(f"--cb_adf -q :: -d {path} {flags} --quiet")
        losses.append((learner.get_sum_loss(), learner.get_weighted_examples()))
        learner.finish()
    # Names, and so places in the table of weights, differ.
    assert losses[0] == pytest.approx(losses[1], rel=0.02)
