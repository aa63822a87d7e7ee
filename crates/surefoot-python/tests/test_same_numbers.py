"""The numbers are those of the command line, bit for bit."""

from __future__ import annotations

import inspect
import json
import re

import pandas
import pyarrow
import pytest
from conftest import REPO

import surefoot

LOGS = str(REPO / "examples/logs.csv")
# The defaults of `surefoot simulate`.
PAPER = {"posterior": "isotropic", "exploration": 0.0}


@pytest.mark.parametrize(
    ("flags", "world", "learner"),
    [
        ([], {}, surefoot.Portfolio(**PAPER)),
        (["--algorithm", "seq-adj-ls"], {}, surefoot.SeqAdjLS(**PAPER)),
        (
            ["--members", "linear,search", "--thompson-v", "0.3", "--gate", "improvement"],
            {},
            surefoot.Portfolio(members=["linear", "search"], v=0.3, gate="improvement", **PAPER),
        ),
        (
            [
                "--algorithm",
                "seq-ls",
                "--posterior",
                "shaped",
                "--lambda",
                "0.4",
                "--exploration",
                "0.05",
                "--seed",
                "3",
            ],
            {"seed": 3},
            surefoot.SeqLS(posterior="shaped", lam=0.4, exploration=0.05, seed=3),
        ),
        (["--algorithm", "scrm", "--features", "rff:50"], {"features": "rff:50"}, surefoot.SCRM(**PAPER)),
        (["--algorithm", "batch-ls", "--optimiser", "lbfgs"], {}, surefoot.BatchLS(optimiser="lbfgs", **PAPER)),
        (
            ["--algorithm", "seq-adj-ls", "--gate", "improvement", "--spending", "even"],
            {},
            surefoot.SeqAdjLS(gate="improvement", spending="even", **PAPER),
        ),
        (
            ["--algorithm", "seq-adj-ls", "--features", "kernel:20", "--intercept"],
            {"features": "kernel:20", "intercept": True},
            surefoot.SeqAdjLS(**PAPER),
        ),
    ],
)
def test_a_simulated_loop(command, flags, world, learner):
    common = ["--dataset", "digits", "--rounds", "3", "--interactions", "1200", "--certify", "--json", "--quiet"]
    expected = command("simulate", *common, *flags)
    environment = surefoot.Environment.dataset("digits", **{"seed": 1, **world})
    run = surefoot.simulate(environment, learner, rounds=3, interactions=1200, certify=True)
    assert -run.first_reward == expected["initial"]["true_risk"]
    assert -run.best_reward == expected["initial"]["optimal_risk"]
    for ours, theirs in zip(run.rounds, expected["rounds"], strict=True):
        for name in ("round", "n", "true_risk", "accuracy", "kl", "lambda", "sharpness", "mean_cost"):
            assert ours[name] == theirs[name], name
        for name in ("greedy_accuracy", "best_coverage", "reward", "coverage"):
            assert ours[name] == theirs[name], name
        assert (ours["objective"] or [None])[-1] == theirs["objective"]
        assert (ours["certificate"] and ours["certificate"].to_dict()) == theirs.get("certificate")
        assert ours["ladder"].to_dict() == theirs["ladder"]
        timeless = [[{**m, "seconds": 0} for m in report.get("members", [])] for report in (ours, theirs)]
        assert timeless[0] == timeless[1]
        assert ours["hand_over"] == theirs.get("hand_over")
        if "gate" in theirs:
            assert ours["promoted"] == theirs["gate"]["promoted"]
            assert ours["decided_by"].to_dict() == theirs["gate"]["certificate"]


def test_the_default_of_simulate(command):
    expected = command("simulate", "--interactions", "1000", "--json", "--quiet")
    run = surefoot.simulate(surefoot.Environment.dataset("digits", seed=1), interactions=1000)
    assert [report["true_risk"] for report in run.rounds] == [report["true_risk"] for report in expected["rounds"]]
    assert run.hand_over is not None


def test_a_world_that_drifts(command):
    flags = [
        "--dataset",
        "drift",
        "--drift",
        "10",
        "--actions",
        "4",
        "--dimensions",
        "6",
        "--algorithm",
        "shift-adj-ls",
    ]
    expected = command("simulate", *flags, "--rounds", "3", "--interactions", "900", "--certify", "--json", "--quiet")
    environment = surefoot.Environment.synthetic(n_actions=4, n_features=6, drift=10.0, seed=1)
    run = surefoot.simulate(environment, surefoot.Shift(**PAPER), rounds=3, interactions=900, certify=True)
    for ours, theirs in zip(run.rounds, expected["rounds"], strict=True):
        assert ours["true_risk"] == theirs["true_risk"]
        assert ours["certificate"].to_dict() == theirs["certificate"]


def test_learners_and_learn_have_the_same_defaults(command):
    """Those of the command line are read from its help."""
    help = " ".join(command("learn", "--help", parse=False).split())
    of_learn = {name: p.default for name, p in inspect.signature(surefoot.learn).parameters.items()}
    assert of_learn["learner"] is None  # Portfolio()
    own = {name: p.default for name, p in inspect.signature(surefoot.Portfolio).parameters.items()}
    assert "--algorithm <NAME>" in help and "[default: portfolio]" in help
    for flag, name in {"members": "members", "goal": "goal"}.items():
        text = re.search(rf"--{flag} <[^>]*> .*?\[default: ([^\]]*)\]", help)
        assert text is not None and text[1] == own[name], flag
    for learner in (
        surefoot.Portfolio,
        surefoot.SeqAdjLS,
        surefoot.SeqLS,
        surefoot.BatchLS,
        surefoot.Shift,
        surefoot.SCRM,
    ):
        own = {name: p.default for name, p in inspect.signature(learner).parameters.items()}
        # The share of all records that are held back is no multiple of the newest round. Arrays have no names to cross: True
        # is for them what None is for a log.
        assert own["cross"] is True and of_learn["cross"] is None
        for name in set(own) & set(of_learn) - {"prior", "features", "held_back", "cross"}:
            assert own[name] == of_learn[name], name
        flags = {"lambda": "lam", "posterior": "posterior", "exploration": "exploration", "delta": "delta"}
        for flag, name in {**flags, "epochs": "epochs", "seed": "seed"}.items():
            text = re.search(rf"--{flag} <[^>]*> .*?\[default: ([^\]]*)\]", help)
            assert text is not None and text[1] == str(own[name]), flag
        assert ("--no-intercept" in help) == own["intercept"]


def test_a_loop_by_hand_is_a_simulated_one():
    world = surefoot.Environment.dataset("digits", seed=1)
    learner = surefoot.SeqAdjLS(prior=world.first_policy(alpha=0.2), held_back="auto")
    run = surefoot.simulate(world, surefoot.SeqAdjLS(exploration=0.0), rounds=3, interactions=1200, certify=True)
    for round in range(3):
        running = learner.policy_ if round else learner.prior
        learner.partial_fit(world.collect(running, 400, round=round, start=400 * round))
        assert learner.policy_.fingerprint == run.policies[round + 1].fingerprint
        assert learner.certificate_ == run.rounds[round]["ladder"]


def test_learning_from_a_file(command, tmp_path):
    out = tmp_path / "theirs.safetensors"
    expected = command("learn", LOGS, "--ignore", "pi_*", "--out", str(out), "--json", "--quiet")
    learned = surefoot.learn(LOGS, ignore=["pi_*"])
    assert learned.policy.fingerprint == surefoot.Policy.load(out).fingerprint
    assert list(learned.logged) == expected["logged"] and list(learned.estimate) == expected["estimate"]
    assert [{**m, "seconds": 0} for m in learned.members] == [{**m, "seconds": 0} for m in expected["members"]]
    assert learned.at_least == expected["at_least"] and learned.better.at_least == expected["better_by"]
    assert [c["certificate"] for c in expected["certificates"]] == [
        learned.certificate.to_dict(),
        learned.better.to_dict(),
    ]
    assert len(learned.warnings) == len(expected["warnings"])
    # The files are the same too.
    learned.save(tmp_path / "ours.safetensors")
    for end in ("safetensors", "certificates.json"):
        assert (tmp_path / f"ours.{end}").read_bytes() == (tmp_path / f"theirs.{end}").read_bytes()


def test_evaluating_a_file_and_a_frame(command):
    expected = command("evaluate", LOGS, "--policy", "p=columns:pi_", "--policy", "uniform", "--json", "--quiet")
    frame = pandas.read_csv(LOGS)
    for source in (surefoot.open_logs(LOGS), surefoot.open_logs(frame)):
        found = surefoot.evaluate(source, {"p": "columns:pi_", "uniform": "uniform"})
        for policy in expected["policies"]:
            ours = found[policy["name"]]
            assert list(ours.anytime) == [policy["anytime"]["lower"], policy["anytime"]["upper"]]
            assert vars(ours.weights) == policy["weights"]
            for one, other in zip(ours.estimates, policy["estimates"], strict=True):
                assert (one.estimator, one.value, one.standard_error) == (
                    other["name"],
                    other["value"],
                    other["standard_error"],
                )
                assert list(one.bootstrap) == [other["bootstrap"]["lower"], other["bootstrap"]["upper"]]


def test_lint_and_score(command, tmp_path):
    expected = command("lint", LOGS, "--json", "--quiet")
    report = surefoot.lint(LOGS)
    assert report.summary == expected["summary"]
    assert [vars(finding)["message"] for finding in report.findings] == [f["message"] for f in expected["findings"]]
    learned = surefoot.learn(LOGS, ignore=["pi_*"])
    path = tmp_path / "policy.safetensors"
    learned.save(path)
    theirs = command("score", str(path), LOGS, "--json", "--seed", "9", parse=False)
    ours = pyarrow.table(surefoot.score(LOGS, learned.policy, seed=9)).to_pylist()
    assert ours == [json.loads(line) for line in theirs.splitlines()]
