"""The driver is killed, or interrupted: no process is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

DRIVER = """
import sys
from engines import standin
from surefoot.engines import Processes

if __name__ == "__main__":
    Processes(2, work=standin.work)("sleep", standin.shards(2), sys.argv[1].encode())
"""


def alive(process: int) -> bool:
    try:
        # A process that has ended and waits for its parent is a zombie.
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def eventually(holds: object, seconds: float = 60) -> bool:
    assert callable(holds)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are watched by /proc, which is not here")
def test_processes_end_when_their_driver_is_killed(tmp_path: Path):
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    begun = tmp_path / "begun"
    begun.mkdir()
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    driver = subprocess.Popen([sys.executable, script, begun], env={**os.environ, "PYTHONPATH": paths})
    try:
        assert eventually(lambda: len(list(begun.iterdir())) == 2)
        workers = [int(path.name) for path in begun.iterdir()]
        assert all(alive(worker) for worker in workers)
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        assert eventually(lambda: not any(alive(worker) for worker in workers))
    finally:
        driver.kill()
        driver.wait()


def test_a_script_without_a_main_is_told_so(tmp_path: Path):
    script = tmp_path / "driver.py"
    script.write_text(DRIVER.replace('if __name__ == "__main__":\n    ', "").replace("sleep", "digest"))
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    done = subprocess.run(
        [sys.executable, script, tmp_path], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert done.returncode != 0
    # Not always in the last line: a worker that ends at the same time has words of its own.
    assert 'without `if __name__ == "__main__":`' in done.stderr
