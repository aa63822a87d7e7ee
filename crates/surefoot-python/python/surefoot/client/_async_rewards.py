"""Rewards that a task of asyncio sends in the background."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

from surefoot.client._decisions import Decision, Reward
from surefoot.client._outbox import Outbox, send_once
from surefoot.client._steps import Steps
from surefoot.errors import refused


class AsyncRewardSender:
    """The same as :class:`~surefoot.client.RewardSender`: made by :meth:`surefoot.AsyncClient.rewards`."""

    def __init__(
        self,
        run: Callable[[Steps[Any]], Awaitable[Any]],
        path: str,
        *,
        most_waiting: int,
        wait: float,
        close_within: float,
    ) -> None:
        self._run = run
        self._path = path
        self._wait = wait
        self._close_within = close_within
        self._outbox = Outbox(most_waiting)
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> AsyncRewardSender:
        if self._task is not None:
            raise refused("a sender of rewards", "used once", "used again")
        self._task = asyncio.create_task(self._work(), name="surefoot-rewards")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __len__(self) -> int:
        """The number of rewards that wait."""
        return len(self._outbox)

    async def send(self, event: str | Decision, reward: float, *, reward_id: str | None = None) -> None:
        """As :meth:`surefoot.client.RewardSender.send`."""
        if self._task is None:
            raise refused("a sender of rewards", "used in an async with statement", "not")
        given = Reward(event.event_id if isinstance(event, Decision) else event, reward, reward_id)
        async with self._changed:
            if not await self._until(lambda: not self._outbox.full or self._outbox.closing, self._wait):
                raise self._outbox.no_room(given)
            self._outbox.put(given)
            self._changed.notify_all()

    async def aclose(self) -> None:
        """As :meth:`surefoot.client.RewardSender.close`."""
        if self._task is None:
            return
        async with self._changed:
            if not self._outbox.closing:
                self._outbox.close(self._close_within)
            self._changed.notify_all()
        broken: Exception | None = None
        try:
            await self._task
        except Exception as error:
            broken = error
        left = self._outbox.left()
        if left is not None:
            raise left from broken
        if broken is not None:
            raise broken

    async def _until(self, true: Callable[[], bool], wait: float) -> bool:
        """Waits for something, under the lock. Returns whether it came in time."""
        try:
            await asyncio.wait_for(self._changed.wait_for(true), wait)
        except asyncio.TimeoutError:
            return true()
        return True

    async def _work(self) -> None:
        while await self._step():
            pass

    async def _step(self) -> bool:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._outbox) > 0 or self._outbox.closing)
            sent = self._outbox.batch()
        if not sent:
            return False
        answers = await self._run(send_once(self._path, sent))
        async with self._changed:
            wait = self._outbox.settle(sent, answers)
            self._changed.notify_all()
            if wait > 0 and wait < math.inf:
                # Closing ends a wait that began before it: the last attempts begin at once.
                before = self._outbox.closing
                await self._until(lambda: self._outbox.closing != before, wait)
        return wait < math.inf
