#!/usr/bin/env python3
"""Engines against one process: whole learning, one pass, and the overhead of a pass.

    python bench/engines.py --records 10000000

All are on one thread per process. The log is Parquet with 20 features, 10 actions and a reward in every record, so that every
record weighs. The work is a search by L-BFGS. One process and two workers learn in turn, from encoded records, and must learn
the same policy, byte for byte. The overhead is that of a map with nothing to do: 1 MB there, 1 MB back from each of 8 shards.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

os.environ["RAYON_NUM_THREADS"] = "1"

import numpy
import pyarrow
import pyarrow.parquet

import surefoot
from surefoot.engines import Engine, Processes, Ray
from surefoot.engines._engine import checked

FEATURES, ACTIONS, PIECE, MEGABYTE = 20, 10, 1_000_000, bytes(1 << 20)


def write(path: Path, records: int) -> None:
    """A logging policy that is a flat softmax, and a reward below 1 in every record."""
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
        good = 1 / (1 + numpy.exp(-(x @ weights)[rows, action] / 3))
        columns = {f"x{i}": x[:, i] for i in range(FEATURES)}
        columns |= {
            "action": action.astype(numpy.int32),
            "propensity": q[rows, action],
            "reward": numpy.where(draw.random(n) < good, 0.9, 0.1),
        }
        table = pyarrow.table(columns)
        writer = writer or pyarrow.parquet.ParquetWriter(path, table.schema, use_dictionary=False)
        writer.write_table(table, row_group_size=1 << 17)
    assert writer is not None
    writer.close()


def learn(log: Path, cache: Path, engine: Engine | None) -> tuple[float, float, bytes]:
    """Seconds to read and encode, seconds to learn and certify, and the policy file."""
    start = time.perf_counter()
    rounds = surefoot.open_logs(log, actions=ACTIONS).rounds(
        cache=cache, map=None if engine is None else checked(engine)
    )
    read = time.perf_counter()
    learner = surefoot.SeqAdjLS(lam=0.4, optimiser="lbfgs", iterations=5)
    learned = surefoot.learn(rounds, learner, progress=False)
    end = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        learned.save(Path(folder) / "policy.safetensors")
        return read - start, end - read, (Path(folder) / "policy.safetensors").read_bytes()


def echo(task: str, shard: bytes, payload: bytes) -> bytes:
    """No work: as many bytes as came."""
    return payload


def overhead(engine: Engine, passes: int) -> float:
    """The median seconds of a map with nothing to do."""
    shards = [f"shard {i}".encode() for i in range(8)]
    seconds = []
    for _ in range(passes):
        start = time.perf_counter()
        assert engine("echo", shards, MEGABYTE) == [MEGABYTE] * 8
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[passes // 10 :])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--passes", type=int, default=100, help="for the overhead")
    parser.add_argument("--data", type=Path, default=Path("bench/data"), help="where the log is kept")
    parser.add_argument("--out", type=Path, default=Path("bench/results/engines.md"))
    parser.add_argument("--only-overhead", action="store_true")
    given = parser.parse_args()
    import ray

    ray.init(num_cpus=8, include_dashboard=False, logging_level="error", log_to_driver=False)
    lines = [
        "# Engines against one process",
        "",
        f"Written by `make bench-engines`: {given.records:,} records that all weigh, {FEATURES} features, {ACTIONS} actions; a",
        f"search by L-BFGS with 5 iterations, and its certificates; one thread per process, {given.turns} turns of each, in turn. Medians.",
        f"{platform.machine()}, {os.cpu_count()} cores, Ray {ray.__version__}, {date.today()}.",
        "",
    ]
    engines: dict[str, Any] = {
        "two processes": lambda work: Processes(2, **work),
        "two Ray actors": lambda work: Ray(2, **work),
    }
    if not given.only_overhead:
        lines += ["| | seconds to encode | seconds to learn | against one process |", "| --- | --- | --- | --- |"]
        given.data.mkdir(parents=True, exist_ok=True)
        log = given.data / f"engines-{given.records}.parquet"
        if not log.exists():
            write(log, given.records)
        found: dict[str, list[tuple[float, float, bytes]]] = {"one process": [], **{name: [] for name in engines}}
        for _ in range(given.turns):
            for name, runs in found.items():
                with tempfile.TemporaryDirectory(dir=given.data) as folder:
                    if name == "one process":
                        runs.append(learn(log, Path(folder), None))
                        continue
                    with engines[name]({}) as engine:
                        runs.append(learn(log, Path(folder), engine))
        assert len({policy for runs in found.values() for *_, policy in runs}) == 1, "the same policy, byte for byte"
        alone = found["one process"]
        for name, runs in found.items():
            ratio = statistics.median(one[1] / run[1] for one, run in zip(alone, runs))
            encode, search = (statistics.median(run[i] for run in runs) for i in (0, 1))
            lines.append(f"| {name} | {encode:.1f} | {search:.1f} | {ratio:.2f} |")
        lines += ["", "All learned the same policy, byte for byte.", ""]
    lines += ["| overhead of a pass: 1 MB to and from each of 8 shards | milliseconds |", "| --- | --- |"]
    for name, make in engines.items():
        with make({"work": echo}) as engine:
            lines.append(f"| {name} | {1e3 * overhead(engine, given.passes):.0f} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if not given.only_overhead:
        given.out.write_text(text)


if __name__ == "__main__":
    main()
