"""Rewards on their way to a server: a bounded queue from which nothing disappears without a word."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence

from surefoot.client._batches import answer_of, parts
from surefoot.client._decisions import Outcome, Reward, lines, reward_line
from surefoot.client._steps import Send, Steps, Tries
from surefoot.client.errors import RewardsError, ServiceError
from surefoot.errors import refused

#: How many rewards one request carries.
TOGETHER = 500


class Outbox:
    """Rewards that wait, and those that were refused. It sends nothing itself, and is used under the lock of its owner."""

    def __init__(self, most_waiting: int) -> None:
        if most_waiting < 1:
            raise refused("most_waiting", "at least 1", most_waiting)
        self._most = most_waiting
        self._waiting: deque[tuple[Reward, bytes]] = deque()
        self._refused: list[tuple[Reward, ServiceError]] = []
        self._tries = Tries(math.inf)
        #: When to give up; only after :meth:`close`.
        self._until = math.inf
        self.closing = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether there is no room. What was refused needs room too, since somebody has to be told."""
        return len(self._waiting) + len(self._refused) >= self._most

    def put(self, reward: Reward) -> None:
        """Takes a reward, for which there must be room."""
        if self.closing:
            raise RewardsError("the sender of rewards is closed", unsent=[reward], refused=[])
        self._waiting.append((reward, reward_line(reward)))

    def no_room(self, reward: Reward) -> RewardsError:
        """The error for a reward that found no room in time."""
        message = f"the reward of event {reward.event_id!r} was not taken: {len(self._waiting)} rewards wait already"
        if self._refused:
            message += f", and {len(self._refused)} were refused, the first with: {self._refused[0][1]}"
        return RewardsError(message, unsent=[reward], refused=list(self._refused))

    def close(self, within: float) -> None:
        """Takes no more, and gives up on what could not be sent within so many seconds."""
        self.closing = True
        self._until = time.monotonic() + within
        self._tries = Tries(math.inf)

    def batch(self) -> list[tuple[Reward, bytes]]:
        """The rewards to send next, the oldest first. They wait until they are settled."""
        first = [self._waiting[place] for place in range(min(TOGETHER, len(self._waiting)))]
        fitting = next(parts([line for _, line in first]), [])
        return first[: len(fitting)]

    def settle(self, sent: Sequence[tuple[Reward, bytes]], answers: Sequence[Outcome | ServiceError]) -> float:
        """Keeps what may be sent again, in its order. Returns how long to wait; infinite to give up."""
        for _ in sent:
            self._waiting.popleft()
        again: list[tuple[Reward, bytes]] = []
        wait: float | None = 0.0
        for one, answer in zip(sent, answers):
            if isinstance(answer, ServiceError) and answer.passing:
                if not again:
                    wait = self._tries.wait_after(answer)
                again.append(one)
            elif isinstance(answer, ServiceError):
                self._refused.append((one[0], answer))
        self._waiting.extendleft(reversed(again))
        if not again:
            self._tries.failed = 0
            return 0.0
        assert wait is not None
        return wait if time.monotonic() + wait <= self._until else math.inf

    def left(self) -> RewardsError | None:
        """The error for what is not on the disk of the server."""
        unsent, refusals = [reward for reward, _ in self._waiting], list(self._refused)
        if not unsent and not refusals:
            return None
        message = f"{len(unsent)} rewards could not be sent, and {len(refusals)} were refused"
        if refusals:
            message += f", the first with: {refusals[0][1]}"
        return RewardsError(message, unsent=unsent, refused=refusals)


def send_once(path: str, sent: Sequence[tuple[Reward, bytes]]) -> Steps[list[Outcome | ServiceError]]:
    """Sends rewards once. An error of the request is one of each of its rewards."""
    call = lines(f"{path}/rewards", b"".join(line + b"\n" for _, line in sent))
    try:
        answered = call.result((yield Send(call)))
    except ServiceError as error:
        return [error] * len(sent)
    return [answer_of(call.path, line, lambda line: line["outcome"]) for line in answered]
