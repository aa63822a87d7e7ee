"""Learning on an engine gives the files of the command line, byte for byte, whatever happens to the workers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import surefoot
from engines import standin
from engines.logs import ACTIONS, FLAGS, LEARNERS, write
from surefoot.engines import Engine, run_shard

Made = Callable[..., Engine]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    write(folder / "1.parquet", "a", 90_000, seed=1)
    write(folder / "2.parquet", "b", 70_000, seed=2)
    return folder


def learn(log: Path, name: str, out: Path, engine: Engine | None, **settings: Any) -> dict[str, bytes]:
    """The files of the policy and its certificates."""
    learned = surefoot.learn(log, LEARNERS[name], actions=ACTIONS, engine=engine, **settings)
    out.mkdir()
    learned.save(out / "policy.safetensors")
    return files(out)


@pytest.fixture(scope="session")
def expected(log: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """The files without an engine, for each learner."""
    folder = tmp_path_factory.mktemp("expected")
    return {name: learn(log, name, folder / name, None) for name in LEARNERS}


@pytest.mark.parametrize("name", LEARNERS)
def test_the_command_line_writes_the_same_files(
    name: str, command: Any, log: Path, expected: dict[str, dict[str, bytes]], tmp_path: Path
):
    policy = str(tmp_path / "policy.safetensors")
    command("learn", str(log), "--actions", str(ACTIONS), "--out", policy, "--quiet", *FLAGS[name], parse=False)
    assert files(tmp_path) == expected[name]
    assert {"policy.safetensors", "policy.certificates.json"} <= set(expected[name])


class Counted:
    """An engine of this process that counts its maps."""

    def __init__(self) -> None:
        self.maps = self.shards = 0

    def __call__(self, task: str, shards: list[bytes], payload: bytes) -> list[bytes]:
        self.maps += 1
        self.shards = max(self.shards, len(shards))
        return [run_shard(task, shard, payload) for shard in shards]


@pytest.mark.parametrize("name", LEARNERS)
def test_any_function_is_an_engine(name: str, log: Path, expected: dict[str, dict[str, bytes]], tmp_path: Path):
    engine = Counted()
    assert learn(log, name, tmp_path / "out", engine) == expected[name]
    assert engine.shards >= 2 and engine.maps >= 3


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("processes", "reward model"),
        ("processes", "search"),
        ("ray", "search"),
        ("spark", "reward model"),
        ("dask", "reward model"),
    ],
)
def test_every_engine_learns_the_same_files(
    kind: str,
    name: str,
    log: Path,
    expected: dict[str, dict[str, bytes]],
    tmp_path: Path,
    request: pytest.FixtureRequest,
):
    engine = request.getfixturevalue(kind)()
    assert learn(log, name, tmp_path / "out", engine) == expected[name]


@pytest.mark.parametrize("kind", ["processes", "ray"])
def test_workers_that_are_killed_in_the_middle_of_a_pass_change_nothing(
    kind: str, log: Path, expected: dict[str, dict[str, bytes]], tmp_path: Path, request: pytest.FixtureRequest
):
    killed = tmp_path / "killed"
    killed.mkdir()
    engine = request.getfixturevalue(kind)(work=partial(standin.mortal, str(killed)))
    assert learn(log, "search", tmp_path / "out", engine) == expected["search"]
    assert len(list(killed.iterdir())) == 2


@pytest.mark.parametrize("name", LEARNERS)
def test_the_certificates_verify(name: str, command: Any, log: Path, tmp_path: Path):
    """The files of an engine in the folder of a saved run: `surefoot verify` takes them for its own."""
    run = tmp_path / "run"
    to = ["--out", str(tmp_path / "policy.safetensors"), "--save", str(run)]
    command("learn", str(log), "--actions", str(ACTIONS), *to, "--quiet", *FLAGS[name], parse=False)
    ours = learn(log, name, tmp_path / "out", Counted())
    saved = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert ours["policy.safetensors"] in saved.values()
    for path, content in saved.items():
        if content == ours["policy.safetensors"]:
            path.write_bytes(ours["policy.safetensors"])
    assert surefoot.verify(run)
    command("verify", str(run), parse=False)


DRIVER = """
import os, signal, sys
from pathlib import Path
import surefoot
from engines.logs import ACTIONS, LEARNERS
from surefoot.engines import Processes

def main(log, out, cache, killed_at):
    engine, maps = Processes(2), 0

    def counted(task, shards, payload):
        nonlocal maps
        maps += 1
        if maps == int(killed_at):
            os.kill(os.getpid(), signal.SIGKILL)
        return engine(task, shards, payload)

    learned = surefoot.learn(log, LEARNERS["search"], actions=ACTIONS, engine=counted, cache=cache)
    learned.save(Path(out) / "policy.safetensors")
    print(maps)

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


def test_a_driver_that_is_killed_is_started_again(log: Path, expected: dict[str, dict[str, bytes]], tmp_path: Path):
    """It goes on where it was, with fewer maps than from the beginning."""
    script, out = tmp_path / "driver.py", tmp_path / "out"
    script.write_text(DRIVER)
    out.mkdir()
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])

    def run(cache: str, killed_at: int) -> subprocess.CompletedProcess[str]:
        call = [sys.executable, script, log, out, tmp_path / cache, str(killed_at)]
        return subprocess.run(call, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)

    for killed_at in (2, 6):
        done = run("cache", killed_at)
        assert done.returncode == -9, done.stderr
        assert not files(out)
    again = run("cache", -1)
    assert again.returncode == 0, again.stderr
    assert files(out) == expected["search"]
    assert int(again.stdout) < int(run("other", -1).stdout)


def test_a_shard_that_is_deleted_is_made_again(
    processes: Made, log: Path, expected: dict[str, dict[str, bytes]], tmp_path: Path
):
    """By processes that know nothing of a shard but its description."""
    cache, engine = tmp_path / "cache", processes()
    maps, deleted = 0, 0

    def forgetful(task: str, shards: list[bytes], payload: bytes) -> list[bytes]:
        nonlocal maps, deleted
        maps += 1
        if maps in (2, 5):
            engine.close()  # type: ignore[attr-defined]
            for path in list(cache.rglob("*")):
                if path.is_file():
                    path.unlink()
                    deleted += 1
        return engine(task, shards, payload)

    assert learn(log, "search", tmp_path / "out", forgetful, cache=cache) == expected["search"]
    assert deleted > 2


def test_what_an_engine_cannot_do_is_refused_before_the_work(log: Path, tmp_path: Path):
    engine = Counted()
    with pytest.raises(surefoot.SurefootError, match="lbfgs"):
        surefoot.learn(log, surefoot.SeqAdjLS(lam=0.4), actions=ACTIONS, engine=engine)
    with pytest.raises(surefoot.SurefootError, match="Parquet"):
        surefoot.learn(Path(__file__).parents[4] / "examples/logs.csv", ignore=["pi_*"], engine=engine)
    with pytest.raises(surefoot.SettingError, match="the engine should be a function"):
        surefoot.learn(log, engine="ray")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="an engine is for files"):
        surefoot.learn(surefoot.open_logs(log).rounds(), engine=engine)
