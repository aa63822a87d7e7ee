"""A log that is large enough for several shards, and what the command line learns from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

import surefoot

#: The learners, and the flags of the command line that mean the same.
LEARNERS: dict[str, Any] = {
    "reward model": surefoot.Portfolio(members=["linear"]),
    "search": surefoot.SeqAdjLS(lam=0.4, optimiser="lbfgs", epochs=3),
}
FLAGS = {
    "reward model": ["--members", "linear"],
    "search": ["--algorithm", "seq-adj-ls", "--lambda", "0.4", "--optimiser", "lbfgs", "--epochs", "3"],
}
ACTIONS = 3


def write(path: Path, version: str, records: int, seed: int) -> None:
    """Row groups end anywhere, and not where shards do."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(records, 2)).astype(np.float32)
    home = rng.choice(["city", "land", "sea"], size=records)
    q = rng.dirichlet(np.full(ACTIONS, 3.0), size=records) * 0.7 + 0.1
    action = (q.cumsum(axis=1) > rng.random((records, 1))).argmax(axis=1)
    good = np.where(home == "sea", 2, (x[:, 0] > 0).astype(int))
    table = {
        "event_id": [f"{version}{i}" for i in range(records)],
        "policy_version": [version] * records,
        "age": x[:, 0],
        "visits": x[:, 1],
        "home": home,
        "action": action,
        "pscore": q[np.arange(records), action],
        "reward": (rng.random(records) < np.where(action == good, 0.6, 0.1)).astype(float),
    }
    pyarrow.parquet.write_table(pyarrow.table(table), path, row_group_size=20_001)
