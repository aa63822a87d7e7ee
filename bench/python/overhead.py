"""What the Python package costs over the command line, on a run of MNIST's size, in one run.

    python overhead.py [--mnist FOLDER] [--runs N]

Three ways to the same policies, bit for bit, in turns: the command line's `simulate`; the package's `simulate`, one call; and a
loop by hand, in which arrays go from NumPy to Rust in every round. What is compared is the time of collecting and learning: processes
that start, data that is read and risks that are evaluated are in none of them. Runs of separate processes differ by some per cent, so
the binding itself is also measured from inside: how much longer `partial_fit` takes than the learning in it. One thread, which is
steadier. Without a folder the data is random, of MNIST's shape and sparsity. Writes bench/results/python.md.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

# Before Rust's threads are made.
os.environ["RAYON_NUM_THREADS"] = "1"

import numpy as np

import surefoot

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROUNDS = 10
SETTINGS = {"posterior": "isotropic", "exploration": 0.0, "lam": 0.4, "epochs": 10, "batch_size": 1024}


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
    flags = [
        f"--{name}={value}" for name, value in (("lambda", 0.4), ("epochs", 10), ("batch-size", 1024), ("held-back", 0))
    ]
    binary = [str(ROOT / "target/release/surefoot"), "simulate", "--dataset", data, "--rounds", str(ROUNDS)]
    done = subprocess.run([*binary, *flags, "--json", "--quiet"], capture_output=True, text=True, check=True)
    rounds = json.loads(done.stdout)["rounds"]
    return sum(r["seconds"] for r in rounds), rounds[-1]["true_risk"]


def one_call(world: surefoot.Environment) -> tuple[float, float]:
    learner = surefoot.SeqAdjLS(held_back=0, **SETTINGS)
    run = surefoot.simulate(world, learner, rounds=ROUNDS)
    return sum(r["seconds"] for r in run.rounds), run.rounds[-1]["true_risk"]


def by_hand(world: surefoot.Environment) -> tuple[float, float, float, float]:
    """Seconds of all rounds, of `partial_fit` as Python sees it, of the learning in it, and the last true risk."""
    first = world.first_policy(alpha=0.2)
    learner = surefoot.SeqAdjLS(prior=first, held_back=0, certify=False, **SETTINGS)
    n, left = divmod(world.interactions, ROUNDS)
    start, seconds, outside, inside = 0, 0.0, 0.0, 0.0
    for round, n in enumerate([n + (j < left) for j in range(ROUNDS)]):
        clock = time.perf_counter()
        logs = world.collect(learner.policy_ if round else first, n, round=round, start=start)
        seconds += time.perf_counter() - clock
        # What a user has are arrays: that they are made here is no part of it.
        X, action, pscore, reward = logs.X, logs.action, logs.pscore, logs.reward
        clock = time.perf_counter()
        learner.partial_fit(X, action, pscore, reward)
        took = time.perf_counter() - clock
        seconds, outside, inside = seconds + took, outside + took, inside + learner.history_[-1]["seconds"]
        start += n
    return seconds, outside, inside, -world.evaluate(learner.policy_)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mnist")
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    times: dict[str, list[float]] = {"command": [], "call": [], "hand": [], "outside": [], "inside": []}
    risks = set()
    with tempfile.TemporaryDirectory() as folder:
        data = options.mnist or random_digits(folder)
        world = surefoot.Environment.dataset(data, seed=1)
        for _ in range(options.runs):
            for name, run in (("command", lambda: command_line(data)), ("call", lambda: one_call(world))):
                seconds, risk = run()
                times[name].append(seconds)
                risks.add(risk)
            seconds, outside, inside, risk = by_hand(world)
            risks.add(risk)
            for name, took in (("hand", seconds), ("outside", outside), ("inside", inside)):
                times[name].append(took)
    middle = {name: statistics.median(all_times) for name, all_times in times.items()}

    def over(one: str, other: str) -> str:
        """The median of the ratios within a turn, and the middle half of them."""
        ratios = [100 * (a / b - 1) for a, b in zip(times[one], times[other])]
        low, median, high = statistics.quantiles(ratios, n=4)
        return f"{median:+.1f} % ({low:+.1f} .. {high:+.1f})"

    what = "MNIST" if options.mnist else "random data of MNIST's shape"
    same = "the same in all runs, to the last bit" if len(risks) == 1 else f"NOT the same: {sorted(risks)}"
    lines = [
        "# The Python package against the command line",
        "",
        f"Written by `make bench-python`: {what}, {world.interactions:,} interactions in {ROUNDS} rounds, SeqAdjLS with lambda 0.4, "
        f"10 epochs, batches of 1,024; one thread, {options.runs} turns of each. Medians, and the middle half of the ratios within a "
        "turn.",
        "",
        "| | seconds | over |",
        "| --- | --- | --- |",
        f"| `surefoot simulate` | {middle['command']:.3f} | |",
        f"| `surefoot.simulate(...)`, one call | {middle['call']:.3f} | the command line: {over('call', 'command')} |",
        f"| `collect` and `partial_fit` on arrays, by hand | {middle['hand']:.3f} | the command line: {over('hand', 'command')} |",
        f"| `partial_fit` alone, as Python sees it | {middle['outside']:.3f} | the learning in it: {over('outside', 'inside')} |",
        "",
        f"The last true risk was {same}.",
        "",
    ]
    text = "\n".join(lines)
    print(text)
    (ROOT / "bench/results/python.md").write_text(text)


if __name__ == "__main__":
    main()
