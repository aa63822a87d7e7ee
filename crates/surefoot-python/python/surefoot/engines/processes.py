"""Processes on this machine."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from types import TracebackType

from surefoot.engines._engine import Work, positive, run_shard, set_threads
from surefoot.errors import SurefootError

__all__ = ["Processes"]

#: The number of processes that may end on the same shard.
TRIES = 3


class Processes:
    """Processes on this machine, each with shards of its own.

    A process that was killed is replaced, and its shards run again. If three processes end on the same shard, that is an error.
    Processes are started anew (``spawn``), so a script needs ``if __name__ == "__main__":`` around what it does. They end with
    :meth:`close`, at the end of a ``with``, or with the process that started them.

    Parameters
    ----------
    workers : int, optional
        The number of processes; by default the number of cores.
    threads : int
        The number of threads of each process.
    work : callable
        What runs on each shard; another function than :func:`run_shard` is for tests.

    Examples
    --------
    >>> from surefoot.engines import Processes
    >>> with Processes(workers=2) as engine:  # doctest: +SKIP
    ...     learned = surefoot.learn("logs/", engine=engine)
    """

    def __init__(self, workers: int | None = None, *, threads: int = 1, work: Work = run_shard) -> None:
        count = positive("workers", (os.cpu_count() or 1) if workers is None else workers)
        self._threads, self._work = positive("threads", threads), work
        # One pool per process, so that a shard stays with its process.
        self._pools: list[ProcessPoolExecutor | None] = [None] * count
        # By the hash of a shard, which takes less room than the shard.
        self._places: dict[int, int] = {}

    def __call__(self, task: str, shards: list[bytes], payload: bytes) -> list[bytes]:
        places = [self._places.setdefault(hash(shard), len(self._places) % len(self._pools)) for shard in shards]
        results = [b""] * len(shards)
        left, ended = list(range(len(shards))), Counter[int]()
        while left:
            futures: dict[int, Future[bytes]] = {}
            try:
                for i in left:
                    futures[i] = self._submit(places[i], task, shards[i], payload)
                left = self._collect(futures, places, results, ended)
            except BaseException:
                for future in futures.values():
                    future.cancel()
                raise
        return results

    def _submit(self, place: int, task: str, shard: bytes, payload: bytes) -> Future[bytes]:
        for _ in range(TRIES):
            pool = self._pools[place]
            if pool is None:
                pool = ProcessPoolExecutor(1, get_context("spawn"), _begin, (self._threads,))
                self._pools[place] = pool
            try:
                return pool.submit(self._work, task, shard, payload)
            except BrokenProcessPool:
                # Its process was killed since the last call.
                self._pools[place] = None
        raise _hopeless()

    def _collect(
        self, futures: dict[int, Future[bytes]], places: list[int], results: list[bytes], ended: Counter[int]
    ) -> list[int]:
        """Waits for all results, and returns the shards without one: those of processes that were killed."""
        left: list[int] = []
        lost: set[int] = set()
        for i, future in futures.items():
            try:
                results[i] = future.result()
            except BrokenProcessPool:
                left.append(i)
                # A process takes its shards in order, so the first without a result is the one that it ended on.
                if places[i] not in lost:
                    lost.add(places[i])
                    self._pools[places[i]] = None
                    ended[i] += 1
                    if ended[i] == TRIES:
                        raise _hopeless() from None
        return left

    def close(self) -> None:
        """Ends the processes, each after the shard that it works on. Another call starts new ones."""
        for place, pool in enumerate(self._pools):
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)
            self._pools[place] = None

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _begin(threads: int) -> None:
    """Prepares a process: Ctrl-C is for its parent, and it ends if its parent was killed."""
    set_threads(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _hopeless() -> SurefootError:
    return SurefootError(
        f"a shard should be done by one of {TRIES} processes, but all of them ended: is the memory too small, or does the script"
        ' run without `if __name__ == "__main__":`?'
    )
