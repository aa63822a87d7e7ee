"""Evaluation and selection on an engine: the same numbers, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import surefoot
from engines.logs import ACTIONS, LEARNERS, write
from engines.test_learn import Counted
from surefoot.engines import Engine

Made = Callable[..., Engine]


@pytest.fixture(scope="session")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A log of several shards, and policies: learned from an older log, with a basis, and as a file; and others."""
    folder = tmp_path_factory.mktemp("judged")
    write(folder / "old.parquet", "a", 5_000, seed=1)
    write(folder / "new.parquet", "b", 300_000, seed=2)
    search, model = (
        surefoot.learn(folder / "old.parquet", LEARNERS[name], actions=ACTIONS) for name in ("search", "reward model")
    )
    model.save(folder / "model.safetensors")
    policies = {"search": search.policy, "uniform": "uniform", "model": str(folder / "model.safetensors")}
    return folder / "new.parquet", policies


def same(one: dict[str, surefoot.Evaluation], other: dict[str, surefoot.Evaluation]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert vars(one[name]) == vars(other[name]), name


def test_every_engine_gives_the_same_numbers(make: Made, judged: tuple[Path, dict[str, Any]]):
    log, policies = judged
    expected = surefoot.evaluate(log, policies, actions=ACTIONS)
    same(surefoot.evaluate(log, policies, actions=ACTIONS, engine=make()), expected)


def test_selection_gives_the_same_numbers(judged: tuple[Path, dict[str, Any]]):
    log, policies = judged
    engine = Counted()
    ours = surefoot.select(log, policies, actions=ACTIONS, engine=engine)
    assert vars(ours) == vars(surefoot.select(log, policies, actions=ACTIONS))
    assert engine.maps >= 1 and engine.shards >= 2


def test_policies_that_are_cheap_need_no_engine(judged: tuple[Path, dict[str, Any]]):
    engine = Counted()
    surefoot.evaluate(judged[0], "uniform", actions=ACTIONS, engine=engine)
    assert engine.maps == 0


def test_what_an_engine_cannot_do_is_refused(judged: tuple[Path, dict[str, Any]], tmp_path: Path):
    log, policies = judged
    with pytest.raises(surefoot.SurefootError, match="the reward model should be none"):
        surefoot.evaluate(log, policies["search"], model="linear", actions=ACTIONS, engine=Counted())
    surefoot.open_logs(log).convert(tmp_path / "log.csv")
    with pytest.raises(surefoot.SurefootError, match="Parquet"):
        surefoot.evaluate(tmp_path / "log.csv", policies["search"], actions=ACTIONS, engine=Counted())


def test_a_wrong_record_is_found_where_it_is(judged: tuple[Path, dict[str, Any]], tmp_path: Path):
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(judged[0])
    propensity = table["pscore"].to_numpy().copy()
    propensity[200_000] = 1.5
    place = table.schema.get_field_index("pscore")
    pyarrow.parquet.write_table(table.set_column(place, "pscore", pyarrow.array(propensity)), tmp_path / "log.parquet")
    found = []
    for engine in (None, Counted()):
        with pytest.raises(surefoot.DataError) as caught:
            surefoot.evaluate(tmp_path / "log.parquet", judged[1]["search"], actions=ACTIONS, engine=engine)
        found.append((str(caught.value), caught.value.row))
    assert found[0] == found[1]
    assert found[0][1] == 200_000
