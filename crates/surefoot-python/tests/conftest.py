"""What the tests share."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot

REPO = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def binary() -> Path:
    """The binary of the command line; ``SUREFOOT`` names it."""
    name = os.environ.get("SUREFOOT")
    found = shutil.which(str(REPO / name)) if name else None
    found = found or shutil.which(str(REPO / "target/debug/surefoot"))
    if found is None:
        pytest.skip("no surefoot binary: build it, or name it in SUREFOOT")
    return Path(found)


@pytest.fixture(scope="session")
def command(binary: Path) -> Callable[..., Any]:
    """The command line, whose numbers are ours."""

    def run(*arguments: str, parse: bool = True) -> Any:
        done = subprocess.run([binary, *arguments], cwd=REPO, capture_output=True, text=True, check=True)
        return json.loads(done.stdout) if parse else done.stdout

    return run


@pytest.fixture(scope="session")
def world() -> surefoot.Environment:
    return surefoot.Environment.synthetic(seed=3)


@pytest.fixture
def interrupt() -> Iterator[Callable[[float], None]]:
    """Ctrl-C in so many seconds. A process in the background may have been told to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def later(seconds: float) -> None:
        threading.Timer(seconds, signal.raise_signal, [signal.SIGINT]).start()

    yield later
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def records(rng: np.random.Generator, n: int = 400, p: int = 4, k: int = 3) -> dict[str, Any]:
    """Records of a uniform logger, in which the first features tell what is good."""
    X = rng.normal(size=(n, p)).astype(np.float32)
    action = rng.integers(k, size=n)
    good = X[:, :k].argmax(axis=1)
    reward = (rng.random(n) < np.where(action == good, 0.8, 0.2)).astype(float)
    return {"X": X, "action": action, "pscore": np.full(n, 1.0 / k), "reward": reward}
