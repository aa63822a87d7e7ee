"""A Dask cluster."""

from __future__ import annotations

from typing import Any

from surefoot.engines._engine import Work, positive, run_shard, set_threads
from surefoot.errors import SurefootError

__all__ = ["Dask"]


class Dask:
    """A Dask cluster, by one future per shard. Dask runs the futures of a lost worker again. Needs ``surefoot[dask]``.

    Parameters
    ----------
    client : distributed.Client
        The client of the cluster. It should not be asynchronous.
    threads : int
        The number of threads that a worker uses for a shard.
    work : callable
        What runs on each shard; another function than :func:`run_shard` is for tests.

    Examples
    --------
    >>> engine = surefoot.engines.Dask(distributed.Client("scheduler:8786"))  # doctest: +SKIP
    >>> learned = surefoot.learn("/shared/logs", engine=engine)  # doctest: +SKIP
    """

    def __init__(self, client: Any, *, threads: int = 1, work: Work = run_shard) -> None:
        self._client, self._work = client, work
        self._threads = positive("threads", threads)

    def __call__(self, task: str, shards: list[bytes], payload: bytes) -> list[bytes]:
        # A task of its own, so that the payload travels once per worker, and is made again if a worker is lost.
        sent = self._client.submit(_same, payload, pure=False)
        calls = [
            self._client.submit(_run, self._work, self._threads, task, shard, sent, pure=False) for shard in shards
        ]
        try:
            return list(self._client.gather(calls))
        except SurefootError:
            # The first error in the order of the shards, whichever came first.
            return [call.result() for call in calls]


def _same(payload: bytes) -> bytes:
    return payload


def _run(work: Work, threads: int, task: str, shard: bytes, payload: bytes) -> bytes:
    set_threads(threads)
    return work(task, shard, payload)
