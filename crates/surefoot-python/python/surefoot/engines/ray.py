"""Actors of a Ray cluster."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from surefoot.engines._engine import Work, positive, run_shard, set_threads
from surefoot.errors import SurefootError

__all__ = ["Ray"]


class Ray:
    """Actors of a Ray cluster, each with shards of its own, which it keeps mapped from pass to pass.

    Ray restarts an actor that was lost, on another machine if need be, and runs its calls again (``max_restarts``,
    ``max_task_retries``). The actors end with :meth:`close`, at the end of a ``with``, or with the driver. Needs ``surefoot[ray]``.

    Parameters
    ----------
    workers : int, optional
        The number of actors; by default as many as the CPUs of the cluster allow.
    threads : int
        The number of threads of each actor, and of the CPUs that it asks Ray for.
    options : dict, optional
        Further options of the actors, such as ``{"memory": 2**31}`` or ``{"max_task_retries": 10}``.
    work : callable
        What runs on each shard; another function than :func:`run_shard` is for tests.

    Examples
    --------
    >>> import ray  # doctest: +SKIP
    >>> ray.init(address="auto")  # doctest: +SKIP
    >>> learned = surefoot.learn("s3://bucket/logs/", engine=surefoot.engines.Ray())  # doctest: +SKIP
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        threads: int = 1,
        options: dict[str, Any] | None = None,
        work: Work = run_shard,
    ) -> None:
        import ray

        if not ray.is_initialized():
            ray.init()
        if workers is None:
            workers = max(1, int(ray.cluster_resources().get("CPU", 1)) // positive("threads", threads))
        made = {"num_cpus": positive("threads", threads), "max_restarts": -1, "max_task_retries": 3, **(options or {})}
        actor = ray.remote(_Worker).options(**made)
        self._workers = [actor.remote(threads, work) for _ in range(positive("workers", workers))]
        # By the hash of a shard, which takes less room than the shard.
        self._places: dict[int, int] = {}

    def __call__(self, task: str, shards: list[bytes], payload: bytes) -> list[bytes]:
        import ray

        if not self._workers:
            raise SurefootError("the engine should be open, but was closed")
        places = [self._places.setdefault(hash(shard), len(self._places) % len(self._workers)) for shard in shards]
        # The payload travels once per machine, and not once per shard.
        sent = ray.put(payload)
        calls = [self._workers[place].run.remote(task, shard, sent) for place, shard in zip(places, shards)]
        try:
            try:
                return list(ray.get(calls))
            except ray.exceptions.RayTaskError:
                # The first error in the order of the shards, whichever came first.
                return [ray.get(call) for call in calls]
        except ray.exceptions.RayTaskError as error:
            # What the worker raised, and not how Ray tells it.
            cause = getattr(error, "cause", None)
            raise (cause if isinstance(cause, Exception) else error) from None
        except ray.exceptions.RayActorError as error:
            raise SurefootError(f"a worker was lost, and Ray did not bring it back: {error}") from error

    def close(self) -> None:
        """Ends the actors."""
        import ray

        workers, self._workers = self._workers, []
        for worker in workers:
            ray.kill(worker)

    def __enter__(self) -> Ray:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Worker:
    """An actor: a process that runs shards, and keeps them mapped."""

    def __init__(self, threads: int, work: Work) -> None:
        set_threads(threads)
        self._work = work

    def run(self, task: str, shard: bytes, payload: bytes) -> bytes:
        return self._work(task, shard, payload)
