"""What every engine promises, by work that needs no log."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import surefoot
from engines import standin
from surefoot.engines import Engine, run_shard
from surefoot.engines._engine import checked

Made = Callable[..., Engine]
MEGABYTE = bytes(range(256)) * 4096


def test_results_are_in_the_order_of_the_shards(make: Made):
    shards = standin.shards(9)
    expected = [standin.work("digest", shard, MEGABYTE) for shard in shards]
    engine = make(work=standin.work)
    assert engine("digest", shards, MEGABYTE) == expected
    assert engine("digest", shards[::-1], MEGABYTE) == expected[::-1]
    assert engine("digest", shards[2:5], MEGABYTE) == expected[2:5]
    assert engine("digest", [], MEGABYTE) == []


def test_the_work_is_done_by_others_with_one_thread_each(make: Made):
    engine = make(work=standin.work)
    found = set(engine("process", standin.shards(16), b""))
    assert str(os.getpid()).encode() not in found
    assert set(engine("threads", standin.shards(4), b"")) == {b"1"}


def test_an_error_comes_back_as_it_was_raised(make: Made):
    engine = make(work=standin.work)
    with pytest.raises(surefoot.DataError) as caught:
        engine("fail", standin.shards(), b"")
    assert str(caught.value) == "row 1: propensity should be in (0, 1], but is 2"
    assert (caught.value.row, caught.value.column) == (1, "propensity")
    # The engine works on.
    assert len(engine("digest", standin.shards(), b"")) == 8


def test_workers_that_are_killed_twice_give_the_same_results(make: Made, tmp_path: Path):
    shards, payload = standin.shards(), str(tmp_path).encode()
    engine = make(work=standin.work)
    found = engine("die", shards, payload)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed-0", "killed-1"]
    assert found == [standin.work("die", shard, payload) for shard in shards]


@pytest.mark.parametrize("kind", ["processes", "ray"])
def test_a_shard_stays_with_its_worker(kind: str, request: pytest.FixtureRequest):
    engine = request.getfixturevalue(kind)(work=standin.work)
    shards = standin.shards(5)
    first = engine("process", shards, b"")
    assert len(set(first)) == 2
    assert engine("process", shards[::-1], b"other") == first[::-1]
    assert engine("process", shards[3:], b"") == first[3:]


@pytest.mark.parametrize("kind", ["processes", "ray"])
def test_a_shard_that_kills_every_worker_is_an_error(kind: str, request: pytest.FixtureRequest):
    engine = request.getfixturevalue(kind)(work=standin.work)
    with pytest.raises(surefoot.SurefootError, match=r"processes, but all of them ended|Ray did not bring it back"):
        engine("always-die", standin.shards(), b"")
    # The engine works on.
    assert len(engine("digest", standin.shards(), b"")) == 8


def test_wrong_settings_are_refused():
    from surefoot.engines import Processes

    with pytest.raises(surefoot.SettingError, match="workers should be a whole number, at least 1, but is 0"):
        Processes(0)
    with pytest.raises(surefoot.SettingError, match=r"threads should be a whole number, at least 1, but is 1\.5"):
        Processes(1, threads=1.5)  # type: ignore[arg-type]
    for wrong in ("ray", Processes, None):
        with pytest.raises(
            surefoot.SettingError, match="the engine should be a function of a task, shards and a payload"
        ):
            checked(wrong)


def test_wrong_results_are_refused():
    for wrong, shown in (
        ([], "0 of nothing"),
        ([b"a"], "1 of bytes"),
        ([b"a", "b"], "2 of bytes, str"),
        (None, "1 of NoneType"),
    ):
        with pytest.raises(surefoot.SurefootError, match=f"should be 2 of bytes, but are {shown}"):
            checked(lambda task, shards, payload, wrong=wrong: wrong)("digest", standin.shards(2), b"")


def test_a_shard_of_nobody_is_an_error():
    with pytest.raises(surefoot.SurefootError, match="a shard: cannot be understood"):
        run_shard("nonsense", b"{}", b"")
