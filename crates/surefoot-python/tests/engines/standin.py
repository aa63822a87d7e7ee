"""Work for workers that needs no log: it repeats, counts, fails or dies."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from pathlib import Path

import surefoot.engines


def work(task: str, shard: bytes, payload: bytes) -> bytes:
    """The digest of its arguments, or what the task says."""
    about = json.loads(shard)
    match task:
        case "process":
            return str(os.getpid()).encode()
        case "threads":
            return os.environ["RAYON_NUM_THREADS"].encode()
        case "fail" if about["number"] % 2:
            message = f"row {about['number']}: propensity should be in (0, 1], but is 2"
            raise surefoot.DataError(message, row=about["number"], column="propensity")
        case "die" if about["number"] == 3:
            die(Path(payload.decode()), times=2)
        case "always-die" if about["number"] == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        case "sleep":
            Path(payload.decode(), str(os.getpid())).touch()
            time.sleep(600)
    return hashlib.sha256(task.encode() + shard + payload).digest()


def die(folder: Path, times: int) -> None:
    """Kills this process, if fewer than so many have died before."""
    for number in range(times):
        try:
            (folder / f"killed-{number}").touch(exist_ok=False)
        except FileExistsError:
            continue
        os.kill(os.getpid(), signal.SIGKILL)


def shards(count: int = 8) -> list[bytes]:
    return [json.dumps({"number": number}).encode() for number in range(count)]


_calls = 0


def mortal(folder: str, task: str, shard: bytes, payload: bytes) -> bytes:
    """The real work, in a process that is killed in the middle of a call, after all its shards were encoded, if fewer than two
    were killed before."""
    global _calls
    _calls += task != "encode"
    if _calls == 4:
        for number in range(2):
            try:
                Path(folder, f"killed-{number}").touch(exist_ok=False)
            except FileExistsError:
                continue
            threading.Timer(0.01, os.kill, [os.getpid(), signal.SIGKILL]).start()
            surefoot.engines.run_shard(task, shard, payload)
            time.sleep(60)
    return surefoot.engines.run_shard(task, shard, payload)
