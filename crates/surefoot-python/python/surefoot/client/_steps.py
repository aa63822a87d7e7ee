"""What to do next: send a request, or wait. A call is a generator of such steps, which either client follows.

So there is one place that knows when to try again, what a batch is and which of its lines are left, and it needs no network.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from surefoot.client._messages import Call
from surefoot.client.errors import ServiceError, UnreachableError

T = TypeVar("T")

#: The first wait between two attempts, in seconds. The next ones are twice as long each.
FIRST_WAIT = 0.1
#: The longest wait.
LONGEST_WAIT = 5.0


@dataclass(frozen=True)
class Send:
    """Send this, and go on with its :class:`~surefoot.client._messages.Answer`."""

    call: Call[Any]


@dataclass(frozen=True)
class Wait:
    """Do nothing for so many seconds."""

    seconds: float


Step = Send | Wait
Steps = Generator[Step, Any, T]


@dataclass
class Tries:
    """When to try again. No attempt begins after ``patience`` seconds.

    Waits double, and half of each is random: callers that failed together do not come back together. What the server
    asks to wait is added.
    """

    patience: float
    clock: Callable[[], float] = time.monotonic
    draw: Callable[[], float] = random.random
    failed: int = 0
    until: float = field(init=False)

    def __post_init__(self) -> None:
        self.until = self.clock() + self.patience

    def wait_after(self, error: ServiceError) -> float | None:
        """How long to wait after this error; ``None`` if there is no other attempt."""
        if not error.passing:
            return None
        longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(self.failed, 16))
        self.failed += 1
        wait = longest * (0.5 + 0.5 * self.draw()) + (error.retry_after or 0.0)
        return wait if self.clock() + wait <= self.until else None


def persistent(call: Call[T], tries: Tries) -> Steps[T]:
    """Sends a call until it is answered, while that may help."""
    while True:
        try:
            return call.result((yield Send(call)))
        except ServiceError as error:
            undone = isinstance(error, UnreachableError) and error.undone
            wait = tries.wait_after(error) if call.repeatable or undone else None
            if wait is None:
                raise
        yield Wait(wait)
