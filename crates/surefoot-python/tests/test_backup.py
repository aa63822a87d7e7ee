"""Backup and restore as docs/operating.md has them, rehearsed on real stores: under load, while stopped, and on PostgreSQL."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import REPO, binary
from service import Service

import surefoot
from surefoot.client import Decision, Reward

CONTEXTS = [{"x": i % 3 - 1, "device": "phone"} for i in range(150)]


def one_round(client: surefoot.Client, name: str) -> list[Decision]:
    """Collects a round of 150 records with their rewards."""
    decisions = client.decide_many(
        {"context": context, "event_id": f"{name}-{i}"} for i, context in enumerate(CONTEXTS)
    )
    client.reward_many(Reward(one.event_id, float(one.action == "red")) for one in decisions)
    return decisions


def learned(client: surefoot.Client, rounds: int) -> None:
    while sum("learned_at" in one for one in client.rounds()) < rounds:
        assert client.status()["failed"] is None
        time.sleep(0.05)


@contextmanager
def visitors(client: surefoot.Client) -> Iterator[None]:
    """Asks for decisions all the time."""
    end = threading.Event()

    def visit() -> None:
        while not end.is_set():
            client.reward(client.decide(CONTEXTS[0]), 1.0)

    threads = [threading.Thread(target=visit) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        end.set()
        for thread in threads:
            thread.join()


def the_lines_of_the_handbook(folder: Path) -> None:
    if shutil.which("sqlite3") is None:
        pytest.skip("sqlite3 is not here")
    page = (REPO / "docs/operating.md").read_text()
    (lines,) = re.findall(r"```sh backup\n(.*?)```", page, re.DOTALL)
    subprocess.run(["sh", "-eu", "-c", lines], cwd=folder, check=True)


def python_alone(folder: Path) -> None:
    (folder / "backup/shop").mkdir(parents=True)
    source = sqlite3.connect(folder / "surefoot-data/shop/loop.sqlite")
    source.execute("VACUUM INTO ?", [str(folder / "backup/shop/loop.sqlite")])
    source.close()
    shutil.copytree(folder / "surefoot-data/shop/policies", folder / "backup/shop/policies")


def exported(folder: Path, *loop: str) -> Path:
    """A new run folder of a loop."""
    out = folder / f"run-{time.monotonic_ns()}"
    subprocess.run([binary(), "serve", "export", *loop, "--out", out], cwd=folder, check=True, capture_output=True)
    return out


def verified(folder: Path, *loop: str) -> None:
    """Exports a loop and verifies it."""
    done = subprocess.run([binary(), "verify", exported(folder, *loop)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def same_answers(client: surefoot.Client, decisions: list[Decision]) -> None:
    """Asks again: every decision is there, with its propensity and its reward."""
    again = client.decide_many(
        {"context": context, "event_id": one.event_id} for one, context in zip(decisions, CONTEXTS)
    )
    assert all(one.again for one in again)
    assert [(one.action, one.propensity) for one in again] == [(one.action, one.propensity) for one in decisions]
    rewards = [Reward(one.event_id, float(one.action == "red")) for one in decisions]
    assert client.reward_many(rewards) == ["duplicate"] * len(rewards)


@pytest.mark.parametrize("back_up", [the_lines_of_the_handbook, python_alone])
def test_a_backup_of_a_running_loop_is_restored(tmp_path: Path, back_up: Callable[[Path], None]) -> None:
    service = Service(tmp_path, data="surefoot-data", window="1s", records=150, gate="improvement")
    try:
        with surefoot.Client(service.url, "shop") as client:
            before = one_round(client, "before")
            learned(client, 1)
            with visitors(client):
                back_up(tmp_path)
            after = client.decide(CONTEXTS[0], event_id="after")
            client.close_round()
            one_round(client, "lost")
            learned(client, client.status()["round"])
            head = client.status()["ledger_head"]
    finally:
        service.kill()
    # The machine is gone; its backup is put in its place.
    shutil.rmtree(tmp_path / "surefoot-data")
    shutil.copytree(tmp_path / "backup", tmp_path / "surefoot-data")
    service.start()
    try:
        with surefoot.Client(service.url, "shop") as client:
            same_answers(client, before)
            assert not client.decide(CONTEXTS[0], event_id=after.event_id).again, "what came after the backup is lost"
            rounds = client.rounds()[0]
            assert rounds["records"] == 150 and "learned_at" in rounds
            one_round(client, "restored")
            learned(client, 2)
    finally:
        service.kill()
    verified(tmp_path, "surefoot-data/shop")
    out = exported(tmp_path, "surefoot-data/shop")
    told = subprocess.run([binary(), "verify", out, "--head", head], check=False, capture_output=True, text=True)
    assert told.returncode != 0 and head in told.stdout + told.stderr, "whoever kept a head can tell"


def test_a_copy_of_a_killed_server_is_a_backup(tmp_path: Path) -> None:
    service = Service(tmp_path, data="surefoot-data", window="1s", records=150, gate="improvement")
    try:
        with surefoot.Client(service.url, "shop") as client:
            before = one_round(client, "before")
    finally:
        service.kill()
    shutil.copytree(tmp_path / "surefoot-data", tmp_path / "backup")
    shutil.rmtree(tmp_path / "surefoot-data")
    shutil.move(tmp_path / "backup", tmp_path / "surefoot-data")
    service.start()
    try:
        with surefoot.Client(service.url, "shop") as client:
            same_answers(client, before)
            learned(client, 1)
    finally:
        service.kill()
    verified(tmp_path, "surefoot-data/shop")


def programs() -> Path:
    """PostgreSQL's programs, as `make test` installs them."""
    found = sorted(REPO.glob(".venv-postgres/lib/*/site-packages/pgserver/pginstall/bin"))
    if not found:
        pytest.skip("no pgserver in .venv-postgres: make test installs it where the package index can be reached")
    return found[0].resolve()


@contextmanager
def postgres(folder: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """A database of its own, which does not run as root. Gives a function that runs one of its programs."""
    user: dict[str, Any] = {}
    folder.mkdir(mode=0o755)
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    bin = programs()

    def run(program: str, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        command = [bin / program, *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, **more, **user)

    run("initdb", "-U", "postgres", "-A", "trust", "-D", "data")
    server = subprocess.Popen(
        [bin / "postgres", "-D", "data", "-k", folder, "-c", "listen_addresses="],
        cwd=folder,
        stderr=subprocess.DEVNULL,
        **user,
    )
    try:
        while subprocess.run([bin / "pg_isready", "-h", folder], capture_output=True, check=False).returncode != 0:
            assert server.poll() is None, "PostgreSQL should start"
            time.sleep(0.05)
        yield run
    finally:
        server.kill()
        server.wait()


def test_a_dump_of_postgresql_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    programs()
    # A socket's path must be short, and others must be able to reach it.
    folder = Path(f"/tmp/surefoot-{os.getpid()}-{time.monotonic_ns()}")
    folder.mkdir()
    try:
        with postgres(folder / "db") as run:
            place = f"host={folder / 'db'} user=postgres dbname="
            monkeypatch.setenv("SUREFOOT_POSTGRES", place + "postgres")
            service = Service(folder, window="1s", records=150, gate="improvement")
            try:
                with surefoot.Client(service.url, "shop") as client:
                    before = one_round(client, "before")
                    learned(client, 1)
                    with visitors(client):
                        dump = run("pg_dump", "--schema", "surefoot_shop", place + "postgres").stdout
            finally:
                service.kill()
            run("createdb", "-h", str(folder / "db"), "-U", "postgres", "restored")
            run("psql", "--quiet", "--set", "ON_ERROR_STOP=1", place + "restored", input=dump)
            # Another machine: not even the copies of the policies are there.
            shutil.rmtree(folder / "data")
            monkeypatch.setenv("SUREFOOT_POSTGRES", place + "restored")
            service.start()
            try:
                with surefoot.Client(service.url, "shop") as client:
                    same_answers(client, before)
                    one_round(client, "restored")
                    learned(client, 2)
            finally:
                service.kill()
            verified(folder, "shop", "--postgres", place + "restored")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
