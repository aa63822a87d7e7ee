"""A Spark session."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

from surefoot.engines._engine import Work, positive, run_shard, set_threads
from surefoot.errors import SurefootError

__all__ = ["Spark"]


class Spark:
    """A Spark session, of a cluster or of Spark Connect. Each map is one job with one task per shard, by ``mapInArrow``.

    There is no RDD and no broadcast, so it also runs where these are not allowed, as on shared and serverless clusters. The payload
    is part of the function that Spark sends. Spark runs the tasks of a lost executor again. A job costs about two seconds, so
    learners with few passes suit it best. Needs ``surefoot[spark]``, and Surefoot on the executors.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        The session.
    threads : int
        The number of threads of each task; set ``spark.task.cpus`` to the same number.
    work : callable
        What runs on each shard; another function than :func:`run_shard` is for tests.

    Examples
    --------
    >>> spark = pyspark.sql.SparkSession.builder.remote("sc://cluster").getOrCreate()  # doctest: +SKIP
    >>> learned = surefoot.learn("/volumes/logs", engine=surefoot.engines.Spark(spark))  # doctest: +SKIP
    """

    def __init__(self, session: Any, *, threads: int = 1, work: Work = run_shard) -> None:
        self._session, self._work = session, work
        self._threads = positive("threads", threads)

    def __call__(self, task: str, shards: list[bytes], payload: bytes) -> list[bytes]:
        if not shards:
            return []
        # One partition per row: the row is the number of a shard.
        numbers = self._session.range(0, len(shards), 1, len(shards))
        run = _task(self._work, task, shards, payload, self._threads)
        rows = numbers.mapInArrow(run, "shard long, result binary, failure binary").collect()
        rows.sort(key=lambda row: row["shard"])
        for row in rows:
            if row["failure"] is not None:
                raise pickle.loads(bytes(row["failure"]))
        return [bytes(row["result"]) for row in rows]


def _task(
    work: Work, task: str, shards: list[bytes], payload: bytes, threads: int
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function that Spark sends. An error of ours is a result: Spark need not try it again, and its text stays as it is."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        set_threads(threads)
        schema = pyarrow.schema([("shard", "int64"), ("result", "binary"), ("failure", "binary")])
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result: bytes | None = None
                failure: bytes | None = None
                try:
                    result = work(task, shards[number], payload)
                except SurefootError as error:
                    failure = pickle.dumps(error)
                yield pyarrow.RecordBatch.from_pylist(
                    [{"shard": number, "result": result, "failure": failure}], schema=schema
                )

    return run
