"""Connections of the blocking client, by the standard library: kept open and used again, by any number of threads."""

from __future__ import annotations

import http.client
import os
import ssl
import threading
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from surefoot.client._messages import Answer, Call
from surefoot.client._server import Server
from surefoot.client.errors import ServiceError, TooSlowError, UnreachableError

#: Connections that were not used for so long are closed: the server closes them after 30 s.
_IDLE = 20.0
#: How many unused connections are kept.
_KEPT = 32


class Connections:
    """A pool. Its size is the number of threads that ask at the same time."""

    def __init__(self, server: Server, timeout: float) -> None:
        self._server = server
        self._timeout = timeout
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    def send(self, call: Call[Any]) -> Answer:
        """Sends a call once. A connection that the server closed meanwhile is replaced by a new one."""
        kept = self._take() if call.repeatable else None
        if kept is not None:
            try:
                return self._exchange(kept, call)
            except TooSlowError:
                raise
            except UnreachableError:
                # The others are as old.
                self.close()
        return self._exchange(self._open(call), call)

    def stream(self, call: Call[Any], timeout: float) -> http.client.HTTPResponse:
        """Sends a call on a connection of its own, whose answer is read as it comes."""
        connection = self._connection(timeout)
        try:
            connection.connect()
            # The answer owns the connection, and closes it.
            self._ask(connection, call, {"Connection": "close"})
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as reason:
            connection.close()
            raise self._failed(call, reason) from reason

    def close(self) -> None:
        """Closes what is not in use."""
        with self._lock:
            closed, self._idle = self._idle, []
        for _, connection in closed:
            connection.close()

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        server = self._server
        if server.tls is None:
            return http.client.HTTPConnection(server.host, server.port, timeout=timeout)
        return http.client.HTTPSConnection(server.host, server.port, timeout=timeout, context=server.tls)

    def _open(self, call: Call[Any]) -> http.client.HTTPConnection:
        connection = self._connection(self._timeout)
        try:
            connection.connect()
        except OSError as reason:
            connection.close()
            raise self._failed(call, reason, undone=True) from reason
        return connection

    def _take(self) -> http.client.HTTPConnection | None:
        """A connection that is open, if there is one."""
        with self._lock:
            if self._process != os.getpid():
                # After a fork both processes have the same connections: they stay with the parent.
                self._process, self._idle = os.getpid(), []
            while self._idle:
                used, connection = self._idle.pop()
                if time.monotonic() - used < _IDLE:
                    return connection
                connection.close()
        return None

    def _ask(
        self, connection: http.client.HTTPConnection, call: Call[Any], more: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        headers = {**self._server.headers, **more}
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        connection.request(call.method, self._server.prefix + call.path, call.body, headers)

    def _exchange(self, connection: http.client.HTTPConnection, call: Call[Any]) -> Answer:
        try:
            self._ask(connection, call)
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as reason:
            connection.close()
            raise self._failed(call, reason) from reason
        except BaseException:
            # Ctrl-C between a request and its answer: nobody may read that answer as another's.
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            with self._lock:
                keep = len(self._idle) < _KEPT and self._process == os.getpid()
                if keep:
                    self._idle.append((time.monotonic(), connection))
            if not keep:
                connection.close()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, body)

    def _failed(self, call: Call[Any], reason: Exception, *, undone: bool = False) -> ServiceError:
        return failed(self._server, call, reason, slow=isinstance(reason, TimeoutError), undone=undone)


def failed(server: Server, call: Call[Any], reason: Exception, *, slow: bool, undone: bool) -> ServiceError:
    """The error for an answer that did not come."""
    what = f"{call.method} {server.url}{server.prefix}{call.path}"
    if slow and not undone:
        return TooSlowError(f"{what}: no answer in time")
    # A certificate that cannot be checked now cannot be checked later.
    untrusted = isinstance(reason, ssl.SSLCertVerificationError)
    why = str(reason) or type(reason).__name__
    return UnreachableError(f"{what}: {why}", undone=undone, passing=not untrusted)
