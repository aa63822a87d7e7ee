"""A server for the checks beside this file: a real process on a port of its own, in a folder that goes away."""

import contextlib
import pathlib
import subprocess
import tempfile
from collections.abc import Iterator

LOOP = """
[[loop]]
name = "shop"
actions = ["red", "green"]
features = [{ name = "x", kind = "number" }, { name = "device", kind = "category", values = ["phone"] }]
reward = { window = "1s" }
round = { records = 100 }
learner = { algorithm = "seq-adj-ls", epochs = 1 }
gate = "always"
"""


@contextlib.contextmanager
def running(surefoot: pathlib.Path, loops: str = LOOP) -> Iterator[tuple[str, pathlib.Path]]:
    """Starts a server with a loop `shop`, which it may learn from. Gives its address and its folder, and ends it."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "shop.toml").write_text(loops)
        command = [surefoot.resolve(), "serve", "shop.toml", "--data", "data", "--listen", "127.0.0.1:0"]
        server = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        try:
            line = server.stderr.readline()
            address = line.removeprefix("listening on ").split(",")[0]
            if not address.startswith("http"):
                raise SystemExit(f"the server does not start: {line}{server.stderr.read()}")
            yield address, folder
        finally:
            server.kill()
            server.wait()
            server.stderr.close()
