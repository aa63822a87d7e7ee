"""Calls that read or operate a loop: their paths and bodies, for both clients."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from surefoot.client._messages import Answer, Call, encoded, parsed, text
from surefoot.client._policies import PolicyLike, upload
from surefoot.client._server import Server
from surefoot.client.errors import UnreachableError
from surefoot.errors import refused

#: An object of JSON, with the names of ``/openapi.json``.
Json = dict[str, Any]
#: How long events may be silent, in seconds: the server says something at least every 15.
QUIET = 60.0


def _object(answer: Answer) -> Json:
    found = parsed(answer)
    if not isinstance(found, dict):
        raise ValueError("the answer should be an object")
    return found


def _objects(answer: Answer) -> list[Json]:
    found = parsed(answer)
    if not isinstance(found, list):
        raise ValueError("the answer should be a list")
    return found


def one(path: str) -> Call[Json]:
    return Call("GET", path, _object)


def many(path: str) -> Call[list[Json]]:
    return Call("GET", path, _objects)


def plain(path: str) -> Call[str]:
    return Call("GET", path, text)


def decisions(path: str, start: int, limit: int) -> Call[list[Json]]:
    return many(f"{path}/decisions?{urlencode({'from': start, 'limit': limit})}")


def logs(path: str, round: int, format: str) -> Call[bytes]:
    return Call("GET", f"{path}/rounds/{int(round)}/logs?{urlencode({'format': format})}", lambda answer: answer.body)


def evaluate(path: str, policy: PolicyLike, delta: float, model: str, replicates: int, seed: int) -> Call[Json]:
    asked = urlencode({"delta": delta, "model": model, "replicates": replicates, "seed": seed})
    # It changes nothing, so it may be asked again.
    return upload(f"{path}/evaluations?{asked}", policy, repeatable=True)


def challenge(path: str, policy: PolicyLike) -> Call[Json]:
    return upload(f"{path}/policies", policy, repeatable=False)


def act(path: str, body: Mapping[str, Any] | None = None, *, repeatable: bool = True) -> Call[Json]:
    return Call("POST", path, _object, None if body is None else encoded(body), repeatable=repeatable)


def erase(path: str, event_id: str | None, column: str | None, value: Any) -> Call[Json]:
    if (event_id is None) == (column is None):
        raise refused("erase", "given either an event_id or a column with a value", f"{event_id!r} and {column!r}")
    body = {"event_id": event_id} if column is None else {"column": column, "value": value}
    return act(f"{path}/erasures", body, repeatable=False)


def events(path: str) -> Call[None]:
    return Call("GET", f"{path}/events", lambda answer: None)


def event(line: bytes | str) -> Iterator[Json]:
    """The event of a line of server-sent events; the server writes one line per event."""
    written = line if isinstance(line, str) else line.decode()
    if written.startswith("data:"):
        found: Json = json.loads(written.removeprefix("data:"))
        yield found


def lost(server: Server, call: Call[Any], reason: Exception | None) -> UnreachableError:
    """The error for events that end."""
    why = f": {reason}" if reason is not None and str(reason) else ""
    return UnreachableError(f"{call.method} {server.url}{server.prefix}{call.path}: the events have ended{why}")
