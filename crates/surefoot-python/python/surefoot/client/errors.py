"""Errors of the clients. Each says what was asked, what is allowed and what came, in the words of the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from surefoot.errors import SurefootError

__all__ = [
    "BatchError",
    "NotAllowedError",
    "NotFoundError",
    "RefusedError",
    "RewardsError",
    "ServiceError",
    "TooSlowError",
    "UnavailableError",
    "UnexpectedError",
    "UnreachableError",
]


class ServiceError(SurefootError):
    """The base class of all errors of :class:`surefoot.Client`.

    ``status`` is the status of HTTP and ``kind`` the short name of the problem, if the server answered. ``passing`` says
    whether it may be over soon: the client has then tried again, as long as it has patience.
    """

    status: int | None = None
    kind: str = ""
    passing: bool = False
    #: How many seconds the server asks to wait.
    retry_after: float | None = None

    def __str__(self) -> str:
        return str(self.args[0])


class RefusedError(ServiceError, ValueError):
    """The server does not do this: a wrong context, a reward out of range, a loop in another state."""


class NotAllowedError(ServiceError, PermissionError):
    """The key is missing or unknown, or has not the role for this."""


class NotFoundError(ServiceError, LookupError):
    """There is no such loop, event, round or policy."""


class UnavailableError(ServiceError):
    """The server, or a proxy before it, cannot do this now: too much is asked, or the store does not work."""

    passing = True


class UnreachableError(ServiceError, ConnectionError):
    """There is no connection to the server, or it was lost. ``undone`` is true if nothing can have been done."""

    passing = True
    undone: bool = False


class TooSlowError(ServiceError, TimeoutError):
    """The server did not answer in time. Nobody knows whether it did what was asked."""

    passing = True


class UnexpectedError(ServiceError):
    """The answer is not one of Surefoot: another server, or a proxy."""


class BatchError(ServiceError):
    """Some lines of a batch were not done. ``answers`` has an answer or an error for each line, in their order."""

    answers: Sequence[Any]


class RewardsError(ServiceError):
    """Rewards of a background sender that are not on the disk of the server.

    ``unsent`` are rewards that could not be sent: they may be sent again. ``refused`` are pairs of a reward and the error
    that the server answered.
    """

    unsent: Sequence[Any]
    refused: Sequence[tuple[Any, ServiceError]]
