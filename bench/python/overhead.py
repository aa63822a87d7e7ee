"""What the Python package costs over the command line, on a run of MNIST's size, in one run.

    python overhead.py [--mnist FOLDER] [--runs N]

Three ways to the same policies, bit for bit, in turns: the command line's `simulate`; the package's `simulate`, one call; and a
loop by hand, in which arrays go from NumPy to Rust and back in every round, with `collect`, `partial_fit` and a policy. What is
compared is the time that learning takes, as each sees it from outside: processes that start, data that is read and risks that
are evaluated are in none of them. Without a folder the data is random, of MNIST's shape and sparsity. Writes
bench/results/python.md.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np

import surefoot

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROUNDS = 10
SETTINGS = {"lam": 0.4, "epochs": 10, "batch_size": 1024}


def random_digits(folder: str) -> str:
    """A data set of MNIST's shape: 19 % of the pixels are not 0."""
    rng = np.random.default_rng(0)
    path = f"{folder}/random-digits.npz"
    arrays = {}
    for part, n in (("train", 60_000), ("test", 10_000)):
        pixels = rng.integers(1, 256, size=(n, 784), dtype=np.uint8)
        arrays[f"x_{part}"] = pixels * (rng.random((n, 784)) < 0.19)
        arrays[f"y_{part}"] = rng.integers(0, 10, size=n)
    np.savez(path, **arrays)
    return path


def command_line(data: str) -> tuple[float, float]:
    """Seconds of all rounds, and the last true risk."""
    flags = [f"--{name}={value}" for name, value in (("lambda", 0.4), ("epochs", 10), ("batch-size", 1024), ("held-back", 0))]
    binary = [str(ROOT / "target/release/surefoot"), "simulate", "--dataset", data, "--rounds", str(ROUNDS)]
    done = subprocess.run([*binary, *flags, "--json", "--quiet"], capture_output=True, text=True, check=True)
    rounds = json.loads(done.stdout)["rounds"]
    return sum(r["seconds"] for r in rounds), rounds[-1]["true_risk"]


def one_call(world: surefoot.Environment) -> tuple[float, float]:
    learner = surefoot.SeqAdjLS(held_back=0, **SETTINGS)
    run = surefoot.simulate(world, learner, rounds=ROUNDS)
    return sum(r["seconds"] for r in run.rounds), run.rounds[-1]["true_risk"]


def by_hand(world: surefoot.Environment) -> tuple[float, float, float]:
    """Seconds of all rounds as Python sees them, those that learning took in Rust, and the last true risk."""
    first = world.first_policy(alpha=0.2)
    learner = surefoot.SeqAdjLS(prior=first, held_back=0, certify=False, **SETTINGS)
    n, start, seconds = world.interactions // ROUNDS, 0, 0.0
    sizes = [n + (j < world.interactions % ROUNDS) for j in range(ROUNDS)]
    inside = 0.0
    for round, n in enumerate(sizes):
        clock = time.perf_counter()
        logs = world.collect(learner.policy_ if round else first, n, round=round, start=start)
        seconds += time.perf_counter() - clock
        # What a user has are arrays: that they are made here is no part of it.
        X, action, pscore, reward = logs.X, logs.action, logs.pscore, logs.reward
        clock = time.perf_counter()
        learner.partial_fit(X, action, pscore, reward)
        seconds += time.perf_counter() - clock
        inside += learner.history_[-1]["seconds"]
        start += n
    return seconds, inside, -world.evaluate(learner.policy_)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mnist")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = options.mnist or random_digits(folder)
        world = surefoot.Environment.dataset(data, seed=1)
        times: dict[str, list[float]] = {"command": [], "call": [], "hand": [], "inside": []}
        risks = set()
        for _ in range(options.runs):
            seconds, risk = command_line(data)
            times["command"].append(seconds)
            risks.add(risk)
            seconds, risk = one_call(world)
            times["call"].append(seconds)
            risks.add(risk)
            seconds, inside, risk = by_hand(world)
            times["hand"].append(seconds)
            times["inside"].append(inside)
            risks.add(risk)
    best = {name: min(all_times) for name, all_times in times.items()}
    middle = {name: statistics.median(all_times) for name, all_times in times.items()}
    row = lambda name, key: (
        f"| {name} | {best[key]:.3f} | {middle[key]:.3f} | {100 * (best[key] / best['command'] - 1):+.1f} % "
        f"| {100 * (middle[key] / middle['command'] - 1):+.1f} % |"
    )
    lines = [
        "# The Python package against the command line",
        "",
        f"Written by `make bench-python`: {'MNIST' if options.mnist else 'random data of its shape'}, {world.interactions:,} "
        f"interactions in {ROUNDS} rounds, SeqAdjLS with lambda 0.4, 10 epochs, batches of 1,024; {options.runs} runs of each "
        "in turns.",
        "",
        "| | seconds, best | seconds, median | over the command line, best | median |",
        "| --- | --- | --- | --- | --- |",
        row("`surefoot simulate`", "command"),
        row("`surefoot.simulate(...)`, one call", "call"),
        row("`collect` and `partial_fit` on NumPy arrays, by hand", "hand"),
        "",
        f"Of the loop by hand, {best['inside']:.3f} s of the best run were spent in Rust's learning. The last true risk was "
        + ("the same number in all runs, to the last bit." if len(risks) == 1 else f"NOT the same: {sorted(risks)}."),
        "",
    ]
    text = "\n".join(lines)
    print(text)
    (ROOT / "bench/results/python.md").write_text(text)


if __name__ == "__main__":
    main()
