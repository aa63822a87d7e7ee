#!/usr/bin/env python3
"""Learning from files against learning from memory: time, peak memory, and that the result is the same.

    python bench/scale.py --surefoot target/release/surefoot --records 10000000

The log is Parquet with 20 features, 10 actions and about 5 % of the records with a reward, made once. Every line is a run of
`surefoot learn`; ratios are of runs one after the other, in CPU seconds, as other work on the machine changes the time.

At the end the default settings learn from `--default` records: a folder with a million records again and again, by links.
Their policy is saved, and verified; `evaluate`, `lint` and `score` read the same folder.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import tempfile
import time
from pathlib import Path

FEATURES, ACTIONS, PIECE = 20, 10, 1_000_000


def write(path: Path, records: int) -> None:
    """Rewards are rare, and depend on context and action; the logging policy is a flat softmax."""
    import numpy
    import pyarrow
    import pyarrow.parquet

    draw = numpy.random.default_rng(1)
    weights = draw.normal(size=(FEATURES, ACTIONS))
    writer = None
    for start in range(0, records, PIECE):
        n = min(PIECE, records - start)
        x = draw.normal(size=(n, FEATURES)).astype(numpy.float32)
        scores = numpy.exp(x @ (0.1 * weights))
        q = 0.8 * scores / scores.sum(axis=1, keepdims=True) + 0.2 / ACTIONS
        action = (q.cumsum(axis=1) > draw.random((n, 1)) * q.sum(axis=1, keepdims=True)).argmax(axis=1)
        rows = numpy.arange(n)
        reward = draw.random(n) < 0.1 / (1 + numpy.exp(-(x @ weights)[rows, action] / 3))
        columns = {f"x{i}": x[:, i] for i in range(FEATURES)}
        columns |= {
            "action": action.astype(numpy.int32),
            "propensity": q[rows, action],
            "reward": reward.astype(numpy.int8),
        }
        table = pyarrow.table(columns)
        writer = writer or pyarrow.parquet.ParquetWriter(path, table.schema, use_dictionary=False)
        writer.write_table(table, row_group_size=1 << 17)
    writer.close()


def make(path: Path, records: int) -> None:
    """Writes a log that does not exist, in a process of its own: a child begins with the peak memory of its parent."""
    if not path.exists():
        writing = multiprocessing.get_context("spawn").Process(target=write, args=(path, records))
        writing.start()
        writing.join()
        assert writing.exitcode == 0


def measured(command: list[str | Path]) -> tuple[float, float]:
    """CPU seconds, and peak memory in MB."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    assert status == 0, command
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def run(surefoot: str, log: Path, out: Path, *flags: str) -> tuple[float, float, bytes]:
    """CPU seconds, peak memory in MB, and the policy file."""
    command = [surefoot, "learn", log, "--actions", str(ACTIONS), "--quiet", "--out", out / "p.safetensors", *flags]
    seconds, peak = measured(command)
    return seconds, peak, (out / "p.safetensors").read_bytes()


def by_default(surefoot: str, data: Path, records: int) -> None:
    """All commands at their default settings, on a million records again and again."""
    piece = data / f"scale-{PIECE}.parquet"
    make(piece, PIECE)
    with tempfile.TemporaryDirectory(dir=data) as folder:
        at = Path(folder)
        (at / "logs").mkdir()
        for i in range(records // PIECE):
            os.link(piece, at / "logs" / f"{i:04}.parquet")
        # Encoded records without a cache are temporary files.
        os.environ["TMPDIR"] = folder
        log, policy = at / "logs", at / "p.safetensors"
        actions = ["--actions", str(ACTIONS)]
        print(f"\n{records} records, default settings\n")
        print("| command | CPU seconds | wall seconds | peak memory, MB |\n| --- | --- | --- | --- |")
        for name, command in [
            ("learn", ["learn", log, *actions, "--quiet", "--out", policy]),
            ("evaluate", ["evaluate", log, "--policy", policy, "--quiet"]),
            ("lint", ["lint", log, *actions, "--quiet"]),
            ("select", ["select", log, "--policy", policy, "--policy", "uniform", *actions, "--quiet"]),
            ("score", ["score", policy, log, "--out", at / "decisions.parquet"]),
        ]:
            began = time.monotonic()
            seconds, peak = measured([surefoot, *command])
            print(f"| {name} | {seconds:.0f} | {time.monotonic() - began:.0f} | {peak:.0f} |", flush=True)


def saved(surefoot: str, log: Path, data: Path) -> None:
    """A run that is saved, and verified."""
    with tempfile.TemporaryDirectory(dir=data) as folder:
        os.environ["TMPDIR"] = folder
        _, peak, _ = run(surefoot, log, Path(folder), "--algorithm", "thompson", "--save", f"{folder}/run")
        print(f"\nlearn --save (thompson): peak {peak:.0f} MB", flush=True)
        seconds, peak = measured([surefoot, "verify", f"{folder}/run", "--quiet"])
        print(f"verify: {seconds:.1f} CPU seconds, peak {peak:.0f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--surefoot", default="target/release/surefoot")
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--default", type=int, default=100_000_000, help="records for the default settings; 0 for none")
    parser.add_argument("--data", type=Path, default=Path("bench/data"), help="where the log is kept")
    given = parser.parse_args()
    given.data.mkdir(parents=True, exist_ok=True)
    log = given.data / f"scale-{given.records}.parquet"
    make(log, given.records)
    print(
        f"{given.records} records, {FEATURES} features, {ACTIONS} actions, {log.stat().st_size / 1e9:.2f} GB of Parquet\n"
    )
    print("| learner | records in | CPU seconds | peak memory, MB | against memory |\n| --- | --- | --- | --- | --- |")
    for name, flags in [
        ("reward model", ["--algorithm", "thompson"]),
        ("search, 2 epochs", ["--algorithm", "seq-adj-ls", "--lambda", "0.5", "--epochs", "2"]),
    ]:
        with tempfile.TemporaryDirectory(dir=given.data) as folder:
            out, cache = Path(folder), f"{folder}/cache"
            held, peak, policy = run(given.surefoot, log, out, *flags, "--memory", "1TB")
            print(f"| {name} | memory | {held:.1f} | {peak:.0f} | 1 |", flush=True)
            for where in ["files, made anew", "files, used again"]:
                taken, peak, same = run(given.surefoot, log, out, *flags, "--memory", "2GB", "--cache", cache)
                assert same == policy, "the same policy, byte for byte"
                print(f"| {name} | {where} | {taken:.1f} | {peak:.0f} | {held / taken:.2f} |", flush=True)
    saved(given.surefoot, log, given.data)
    if given.default:
        by_default(given.surefoot, given.data, given.default)


if __name__ == "__main__":
    main()
