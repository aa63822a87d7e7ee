"""What all engines share: their type, the work on one shard, and the check of results."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

from surefoot.errors import SurefootError, refused

__all__ = ["Engine", "Work", "checked", "positive", "run_shard", "set_threads"]

#: The work on one shard: ``work(task, shard, payload)``.
Work = Callable[[str, bytes, bytes], bytes]


class Engine(Protocol):
    """Runs a task on shards, with one payload for all, and returns the results in the order of the shards."""

    def __call__(self, task: str, shards: list[bytes], payload: bytes) -> list[bytes]: ...


def run_shard(task: str, shard: bytes, payload: bytes) -> bytes:
    """The work on one shard. It has no state: the same arguments give the same bytes, on every machine and every time."""
    from surefoot import _surefoot

    return _surefoot.run_shard(task, shard, payload)


def checked(engine: Any) -> Engine:
    """The engine with a check of its results: one per shard, as bytes."""
    if not callable(engine) or isinstance(engine, type):
        allowed = "a function of a task, shards and a payload, such as surefoot.engines.Processes()"
        raise refused("the engine", allowed, repr(engine))

    def map(task: str, shards: list[bytes], payload: bytes) -> list[bytes]:
        found = engine(task, shards, payload)
        results = list(found) if isinstance(found, (list, tuple)) else [found]
        if len(results) != len(shards) or not all(isinstance(result, bytes) for result in results):
            kinds = ", ".join(sorted({type(result).__name__ for result in results})) or "nothing"
            message = f"the results of the engine should be {len(shards)} of bytes, but are {len(results)} of {kinds}"
            raise SurefootError(message)
        return results

    return map


def positive(name: str, value: int) -> int:
    """The value, if it is a whole number from 1 on."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise refused(name, "a whole number, at least 1", repr(value))
    return value


def set_threads(threads: int) -> None:
    """Sets the number of threads of a worker, which has not started them yet."""
    os.environ["RAYON_NUM_THREADS"] = str(threads)
