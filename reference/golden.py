"""Writes the constant tables and every file of golden values; the same bytes at every run."""

import json
import os
import time
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # sums in one order, whatever the number of cores

import certificates
import chains
import environment
import evaluation
import fingerprints
import kernels
import learners
import models
import normal
import objective
import posteriors
import propensity
import regularizers
import tables
import trees
import unequal

ROOT = Path(__file__).resolve().parent.parent
TABLES = ROOT / "crates/surefoot/src/math/tables.rs"
GOLDEN = ROOT / "crates/surefoot/tests/golden"

FILES = {
    "normal.json": normal.cases,
    "propensities.json": propensity.cases,
    "regularizers.json": regularizers.cases,
    "kl.json": posteriors.cases,
    "objective.json": objective.cases,
    "learners.json": learners.cases,
    "models.json": models.cases,
    "environment.json": environment.cases,
    "certificates.json": certificates.cases,
    "chains.json": chains.cases,
    "kernels.json": kernels.cases,
    "trees.json": trees.cases,
    "unequal.json": unequal.cases,
    "evaluation.json": evaluation.cases,
    "fingerprints.json": fingerprints.cases,
}


def compact(value):
    """One line, sorted keys, floats with all their digits."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def layout(value):
    """JSON with one line a case: lists of objects are broken, everything else stays on its line."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(compact(case) for case in value) + "\n]"
    if isinstance(value, dict):
        return "{\n" + ",\n".join(f"{compact(key)}: {layout_entry(value[key])}" for key in sorted(value)) + "\n}"
    return compact(value)


def layout_entry(value):
    return layout(value) if isinstance(value, list) else compact(value)


def main():
    GOLDEN.mkdir(parents=True, exist_ok=True)
    start = time.time()
    error, worst = tables.write(TABLES)
    print(f"tables.rs: Mills ratio within {error:.1e}, steps within {worst:.2f} of their tolerance")
    for name, cases in FILES.items():
        (GOLDEN / name).write_text(layout(cases()) + "\n")
        print(f"{name}: {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
