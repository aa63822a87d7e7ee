"""Rewards that a thread sends in the background."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from surefoot.client._decisions import Decision, Reward
from surefoot.client._outbox import Outbox, send_once
from surefoot.client._steps import Steps
from surefoot.errors import refused


class RewardSender:
    """Sends rewards in the background: made by :meth:`surefoot.Client.rewards`, and used in a ``with`` statement."""

    def __init__(
        self, run: Callable[[Steps[Any]], Any], path: str, *, most_waiting: int, wait: float, close_within: float
    ) -> None:
        self._run = run
        self._path = path
        self._wait = wait
        self._close_within = close_within
        self._outbox = Outbox(most_waiting)
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._broken: BaseException | None = None

    def __enter__(self) -> RewardSender:
        if self._thread is not None:
            raise refused("a sender of rewards", "used once", "used again")
        self._thread = threading.Thread(target=self._work, name="surefoot-rewards", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        """The number of rewards that wait."""
        with self._changed:
            return len(self._outbox)

    def send(self, event: str | Decision, reward: float, *, reward_id: str | None = None) -> None:
        """Takes a reward, and sends it soon.

        If the queue is full, it waits for room, and raises :class:`~surefoot.client.RewardsError` if there is none in
        time: this reward was then not taken.
        """
        if self._thread is None:
            raise refused("a sender of rewards", "used in a with statement", "not")
        given = Reward(event.event_id if isinstance(event, Decision) else event, reward, reward_id)
        with self._changed:
            room = self._changed.wait_for(lambda: not self._outbox.full or self._outbox.closing, self._wait)
            if not room:
                raise self._outbox.no_room(given)
            self._outbox.put(given)
            self._changed.notify_all()

    def close(self) -> None:
        """Sends what waits. Raises :class:`~surefoot.client.RewardsError` with what could not be sent or was refused."""
        if self._thread is None:
            return
        with self._changed:
            if not self._outbox.closing:
                self._outbox.close(self._close_within)
            self._changed.notify_all()
        self._thread.join()
        with self._changed:
            left = self._outbox.left()
        if left is not None:
            raise left from self._broken
        if self._broken is not None:
            raise self._broken

    def _work(self) -> None:
        try:
            while self._step():
                pass
        except BaseException as error:
            # It is raised where the sender is closed.
            self._broken = error

    def _step(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: len(self._outbox) > 0 or self._outbox.closing)
            sent = self._outbox.batch()
        if not sent:
            return False
        answers = self._run(send_once(self._path, sent))
        with self._changed:
            wait = self._outbox.settle(sent, answers)
            self._changed.notify_all()
            if wait > 0 and wait < math.inf:
                # Closing ends a wait that began before it: the last attempts begin at once.
                before = self._outbox.closing
                self._changed.wait_for(lambda: self._outbox.closing != before, wait)
        return wait < math.inf
