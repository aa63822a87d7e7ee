"""Evaluation of logged records: surefoot against Open Bandit Pipeline, on the same file, in one run.

    python evaluate.py FILE

FILE is the Parquet file that `surefoot-bench logs` keeps. Five estimators that both have, each with an interval: the
bootstrap with 100 replicates, which is the package's own default; surefoot's intervals that hold at any time come on top.
Surefoot's time is that of the whole command, reading included; the package's begins when its arrays are in memory. Memory is the
largest resident size of either process. Writes bench/results/evaluate.md.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NAMES = ["ips", "snips", "clipped:10", "clipped:100", "power-mean:0.1"]
REPLICATES = 100


def worker(path: str) -> None:
    """What the package needs for it: arrays, then its estimators."""
    sys.path.insert(0, str(HERE))
    import numpy as np
    import pyarrow.parquet as pq

    from without_torch import estimators

    file = pq.ParquetFile(path)
    n, actions = file.metadata.num_rows, 10
    action, pscore, reward = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n)
    pi = np.empty((n, actions, 1))
    start = 0
    for batch in file.iter_batches(batch_size=65536):
        rows = slice(start, start + batch.num_rows)
        action[rows] = batch.column("action").to_numpy()
        pscore[rows] = batch.column("pscore").to_numpy()
        reward[rows] = batch.column("reward").to_numpy()
        for a in range(actions):
            pi[rows, a, 0] = batch.column(f"pi_{a}").to_numpy()
        start += batch.num_rows
    given = dict(reward=reward, action=action, pscore=pscore, position=np.zeros(n, dtype=np.int64), action_dist=pi)
    values, begin = {}, time.perf_counter()
    for name, estimator in estimators(NAMES).items():
        value = float(estimator.estimate_policy_value(**given))
        interval = estimator.estimate_interval(**given, n_bootstrap_samples=REPLICATES, random_state=1)
        values[name] = [value, *list(interval.values())[1:]]
    print(json.dumps({"seconds": time.perf_counter() - begin, "values": values}))


def measured(command: list[str]) -> tuple[float, float, dict]:
    """Seconds, largest resident size in GB, and what the command printed."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command[0]} failed")
    return time.perf_counter() - begin, usage.ru_maxrss / 1e6, json.loads(printed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return worker(arguments.file)

    ours = [str(ROOT / "target/release/surefoot"), "evaluate", arguments.file, "--policy", "columns:pi_", "--json"]
    ours += ["--quiet", "--replicates", str(REPLICATES), "--estimators", ",".join(NAMES)]
    lint = [str(ROOT / "target/release/surefoot"), "lint", arguments.file, "--json", "--quiet"]
    times = {threads: [] for threads in (1, 2)}
    lints = []
    for _ in range(3):
        for threads in times:
            seconds, memory, found = measured([*ours, "--threads", str(threads)])
            times[threads].append(seconds)
        lints.append(measured_any(lint))
    _, their_memory, theirs = measured([sys.executable, __file__, arguments.file, "--worker"])
    worst = 0.0
    for name, estimate in zip(NAMES, found["policies"][0]["estimates"]):
        worst = max(worst, abs(estimate["value"] - theirs["values"][name][0]))
    assert worst < 1e-9, f"the values differ by {worst}"
    one, two = min(times[1]), min(times[2])
    lint_seconds, lint_memory = min(lints)
    text = f"""# Evaluating logged records

Written by `make bench-evaluate`: {found["records"]:,} records, K = 10, the policy's probabilities in the file; five estimators
({", ".join(NAMES)}), each with an interval of {REPLICATES} bootstrap replicates. The same run, the same file, the same values (largest
difference {worst:.0e}). Surefoot's time is that of the whole command, reading Parquet included, and best of three; Open Bandit
Pipeline's (`obp==0.5.7`) that of its estimators alone, its arrays being in memory already.

| | seconds | memory, GB | times as fast |
| --- | --- | --- | --- |
| Open Bandit Pipeline | {theirs["seconds"]:.1f} | {their_memory:.2f} | 1 |
| surefoot evaluate, one thread | {one:.2f} | {memory:.3f} | {theirs["seconds"] / one:.0f} |
| surefoot evaluate, two threads | {two:.2f} | {memory:.3f} | {theirs["seconds"] / two:.0f} |
| surefoot lint, one pass over the same file | {lint_seconds:.2f} | {lint_memory:.3f} | |
"""
    (ROOT / "bench/results/evaluate.md").write_text(text)
    print(text)


def measured_any(command: list[str]) -> tuple[float, float]:
    """Seconds and memory of a command that may find something wrong."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    return time.perf_counter() - begin, usage.ru_maxrss / 1e6


if __name__ == "__main__":
    main()
