"""Engines: who does the work of a pass over a large log.

An engine is one function, ``engine(task, shards, payload)``. It runs :func:`run_shard` with the task and the payload on each of
the shards, anywhere and in any order, and returns the results in the order of the shards. A shard is described by a few hundred
bytes, so a worker finds its records itself. The work has no state, so a worker that is lost is replaced, and its shards run
again: the results have the same bits. Any callable is an engine; these are there already:

=====================  ===============================================================================================
:class:`Processes`     processes on this machine
:class:`Ray`           actors of a Ray cluster, each with shards of its own, which it keeps mapped
:class:`Spark`         a Spark session, also of Spark Connect, by ``mapInArrow``
:class:`Dask`          a Dask cluster, by futures
=====================  ===============================================================================================

Workers need the log files under the same paths, and Surefoot in the same version.

>>> from surefoot.engines import run_shard
>>> def here(task, shards, payload):
...     return [run_shard(task, shard, payload) for shard in shards]
"""

from __future__ import annotations

from surefoot.engines._engine import Engine, run_shard
from surefoot.engines.dask import Dask
from surefoot.engines.processes import Processes
from surefoot.engines.ray import Ray
from surefoot.engines.spark import Spark

__all__ = ["Dask", "Engine", "Processes", "Ray", "Spark", "run_shard"]
