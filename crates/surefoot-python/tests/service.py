"""A real server for the tests of the clients, a proxy that makes trouble before it, and both clients in one form."""

from __future__ import annotations

import asyncio
import http.client
import inspect
import subprocess
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from conftest import binary

import surefoot

LOOP = """
[[loop]]
name = "shop"
actions = ["red", "green"]
features = [{ name = "x", kind = "number" }, { name = "device", kind = "category", values = ["phone", "desktop"] }]
reward = { window = "%s" }
round = { records = %d }
learner = { algorithm = "seq-adj-ls", epochs = 1 }
gate = "%s"
"""


class Service:
    """A server process on a port of its own, which can be killed and started again."""

    def __init__(
        self,
        folder: Path,
        *,
        data: str = "data",
        before: str = "",
        window: str = "1h",
        records: int = 100_000,
        gate: str = "always",
        loops: str = "",
    ) -> None:
        self.folder = folder
        self._data = data
        (folder / "shop.toml").write_text(before + (loops or LOOP % (window, records, gate)))
        self._listen = "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        command = [binary(), "serve", "shop.toml", "--data", self._data, "--listen", self._listen]
        self._process = subprocess.Popen(command, cwd=self.folder, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        assert line.startswith("listening on "), line
        self.url = line.removeprefix("listening on ").split(",")[0]
        self._listen = self.url.split("//")[1]

    def kill(self) -> None:
        """``kill -9``."""
        self._process.kill()
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()


class Between:
    """A proxy before a server. ``plan`` says what happens to the next requests; without a plan they are passed on.

    ``cut`` closes the connection before the server sees the request, ``lost`` after it has answered, ``hang`` never answers,
    a number is the status of an answer of the proxy's own, and ``busy`` is the server's own 503, which asks to wait 0 s.
    """

    def __init__(self, target: str) -> None:
        self.plan: deque[str | int] = deque()
        self.seen: list[tuple[str, bytes]] = []
        host = target.split("//")[1]
        outer = self
        released = self._released = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer.seen.append((self.path, body))
                fault = outer.plan.popleft() if outer.plan else ""
                if fault == "cut":
                    self.close_connection = True
                    return
                if fault == "hang":
                    released.wait()
                    self.close_connection = True
                    return
                if fault == "busy":
                    problem = b'{"type":"urn:surefoot:overloaded","title":"x","status":503,"detail":"later"}'
                    self._answer(503, {"Content-Type": "application/problem+json", "Retry-After": "0"}, problem)
                    return
                if isinstance(fault, int):
                    self._answer(fault, {"Content-Type": "text/html"}, b"<html>a proxy</html>")
                    return
                connection = http.client.HTTPConnection(host, timeout=30)
                try:
                    connection.request(self.command, self.path, body, dict(self.headers))
                    answer = connection.getresponse()
                    content = answer.read()
                except OSError:
                    self._answer(502, {}, b"")
                    return
                finally:
                    connection.close()
                if fault == "lost":
                    self.close_connection = True
                    return
                self._answer(answer.status, dict(answer.getheaders()), content)

            do_GET = do_POST

            def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    if name.lower() not in ("content-length", "date", "server"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()


class Awaited:
    """An :class:`surefoot.AsyncClient` that blocks: its loop runs in a thread, so that its tasks go on."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

        async def made() -> surefoot.AsyncClient:
            return surefoot.AsyncClient(*arguments, **settings)

        self._client = self._result(made())

    def _result(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def __getattr__(self, name: str) -> Any:
        return _blocking(getattr(self._client, name), self._result)

    def rewards(self, **settings: Any) -> Any:
        async def made() -> Any:
            return self._client.rewards(**settings)

        return _AwaitedSender(self._result(made()), self._result)

    def events(self) -> Any:
        events = self._client.events()
        try:
            while True:
                yield self._result(events.__anext__())
        finally:
            self._result(events.aclose())

    def close(self) -> None:
        self._result(self._client.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _AwaitedSender:
    def __init__(self, sender: Any, result: Any) -> None:
        self._sender, self._result = sender, result

    def __enter__(self) -> _AwaitedSender:
        self._result(self._sender.__aenter__())
        return self

    def __exit__(self, *error: Any) -> None:
        self._result(self._sender.__aexit__(*error))

    def __len__(self) -> int:
        return len(self._sender)

    def send(self, *arguments: Any, **settings: Any) -> None:
        self._result(self._sender.send(*arguments, **settings))


def _blocking(method: Any, result: Any) -> Any:
    def call(*arguments: Any, **settings: Any) -> Any:
        found = method(*arguments, **settings)
        return result(found) if inspect.isawaitable(found) else found

    return call
