"""What is sent and how answers are read. Nothing here touches the network: both clients share it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Generic, TypeVar

from surefoot.client.errors import (
    NotAllowedError,
    NotFoundError,
    RefusedError,
    ServiceError,
    UnavailableError,
    UnexpectedError,
)
from surefoot.errors import DataError

T = TypeVar("T")

JSON = "application/json"
NDJSON = "application/x-ndjson"
#: Statuses of something that may be over soon. Of these, 502 and 504 are those of a proxy.
_PASSING = (408, 429, 502, 503, 504)


@dataclass(frozen=True)
class Answer:
    """What came back; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request, and how its answer is read."""

    method: str
    path: str
    read: Callable[[Answer], T]
    body: bytes | None = None
    content_type: str = JSON
    #: Whether it may be sent again if nobody knows whether it was done: then the server does it once.
    repeatable: bool = True

    def result(self, answer: Answer) -> T:
        """The result, or the error that the answer tells."""
        if not 200 <= answer.status < 300:
            raise self.error(answer)
        try:
            return self.read(answer)
        except (AttributeError, KeyError, TypeError, ValueError) as reason:
            raise self.unexpected(answer) from reason

    def unexpected(self, answer: Answer) -> UnexpectedError:
        begins = answer.body[:80].decode("utf-8", "replace")
        message = f"{self.method} {self.path}: the answer should be one of Surefoot, but is {answer.status} {begins!r}"
        return UnexpectedError(message, status=answer.status)

    def error(self, answer: Answer) -> ServiceError:
        """The error of an answer that is not a success."""
        problem: Any = None
        if answer.headers.get("content-type", "").startswith("application/problem+json"):
            try:
                problem = json.loads(answer.body)
            except ValueError:
                problem = None
        if isinstance(problem, dict):
            return problem_error(f"{self.method} {self.path}", problem, _retry_after(answer.headers))
        if answer.status in _PASSING:
            message = f"{self.method} {self.path}: {answer.status}, from a proxy before the server"
            return UnavailableError(message, status=answer.status, retry_after=_retry_after(answer.headers))
        return self.unexpected(answer)


def problem_error(what: str, problem: Mapping[str, Any], retry_after: float | None = None) -> ServiceError:
    """The error of a problem, as RFC 9457 has them."""
    status = int(problem.get("status", 0))
    kind = str(problem.get("type", "")).removeprefix("urn:surefoot:")
    classes: dict[int, type[ServiceError]] = {401: NotAllowedError, 403: NotAllowedError, 404: NotFoundError}
    chosen = UnavailableError if status in _PASSING else classes.get(status, RefusedError)
    message = f"{what}: {status} {problem.get('title', '')}: {problem.get('detail', '')}"
    return chosen(message, status=status, kind=kind, retry_after=retry_after)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, by a header that has seconds or a date."""
    text = headers.get("retry-after")
    if text is None:
        return None
    if text.strip().isdigit():
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=timezone.utc)
    return max(0.0, (at - datetime.now(timezone.utc)).total_seconds())


def encoded(value: Any, where: str = "") -> bytes:
    """JSON in one line. NumPy's numbers and arrays are numbers and lists."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain).encode()
    except (TypeError, ValueError) as reason:
        message = f"{where}the request should be JSON with finite numbers: {reason}"
        raise DataError(message, allowed="JSON with finite numbers", value=str(reason)) from reason


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a value of type {type(value).__name__}")


def parsed(answer: Answer) -> Any:
    """The JSON of an answer."""
    return json.loads(answer.body)


def text(answer: Answer) -> str:
    """The text of an answer."""
    return answer.body.decode()


def time_of(written: str) -> datetime:
    """A time as the server writes it."""
    return datetime.fromisoformat(written.replace("Z", "+00:00"))
