"""One session of each engine for all tests. An engine that cannot be had here is skipped, and says why."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from surefoot.engines import Dask, Engine, Processes, Ray, Spark

HERE = Path(__file__).parents[1]
# Workers of every engine import the stand-in for the work.
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
#: Makes an engine of two workers; the argument is the work on a shard.
Made = Callable[..., Engine]


@pytest.fixture(scope="session")
def processes() -> Iterator[Made]:
    made: list[Processes] = []

    def make(**settings: Any) -> Processes:
        made.append(Processes(2, **settings))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


@pytest.fixture(scope="session")
def ray() -> Iterator[Made]:
    ray = pytest.importorskip("ray", reason="Ray cannot be installed here")
    # Enough for the actors of all tests, whatever this machine has.
    ray.init(
        num_cpus=16, object_store_memory=200 << 20, include_dashboard=False, logging_level="error", log_to_driver=False
    )
    yield lambda **settings: Ray(2, **settings)
    ray.shutdown()


@pytest.fixture(scope="session")
def spark() -> Iterator[Made]:
    sql = pytest.importorskip("pyspark.sql", reason="Spark cannot be installed here")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not here")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Two executors, each a process of its own.
    builder = sql.SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.driver.memory", "512m")
    session = builder.config("spark.ui.enabled", "false").config("spark.log.level", "FATAL").getOrCreate()
    yield lambda **settings: Spark(session, **settings)
    session.stop()


@pytest.fixture(scope="session")
def dask() -> Iterator[Made]:
    distributed = pytest.importorskip("distributed", reason="Dask cannot be installed here")
    with distributed.Client(n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0) as client:
        yield lambda **settings: Dask(client, **settings)


@pytest.fixture(params=["processes", "ray", "spark", "dask"])
def make(request: pytest.FixtureRequest) -> Made:
    """Makes an engine, of each kind in turn."""
    found: Made = request.getfixturevalue(request.param)
    return found
