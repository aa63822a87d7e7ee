"""The client for asyncio. It takes the same steps as the blocking one, and httpx2 carries them out."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from surefoot.client import _reading
from surefoot.client._async_rewards import AsyncRewardSender
from surefoot.client._batches import batch
from surefoot.client._decisions import (
    Action,
    Activation,
    Decision,
    DecisionRequest,
    Outcome,
    Reward,
    activate_call,
    decide_call,
    decision,
    request_body,
    reward_call,
    reward_line,
)
from surefoot.client._http import failed
from surefoot.client._messages import Answer, Call, encoded
from surefoot.client._policies import PolicyLike, save_policy
from surefoot.client._reading import Json
from surefoot.client._server import Server, seconds, segment
from surefoot.client._steps import Send, Steps, Tries, persistent
from surefoot.client.errors import ServiceError

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")


class AsyncClient:
    """The same as :class:`surefoot.Client`, for asyncio: every method is awaited. It needs ``surefoot[async]``.

    Use it in ``async with``, or call :meth:`aclose` at the end. The settings are those of :class:`surefoot.Client`.
    """

    def __init__(
        self,
        url: str,
        loop: str,
        *,
        key: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        timeout: float = 10.0,
        patience: float = 30.0,
    ) -> None:
        try:
            import httpx2
        except ImportError as error:
            raise ImportError("surefoot.AsyncClient needs httpx2: pip install httpx2") from error
        self.loop = loop
        self.patience = seconds("patience", patience)
        self._path = f"/v1/loops/{segment(loop)}"
        self._server = Server.at(url, key, ca)
        self._http = httpx2.AsyncClient(
            base_url=self._server.url + self._server.prefix,
            headers=self._server.headers,
            timeout=seconds("timeout", timeout),
            verify=True if self._server.tls is None else self._server.tls,
            # The server closes connections after 30 s without use.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=20.0),
            # As the blocking client: straight to the server.
            trust_env=False,
        )

    def __repr__(self) -> str:
        return f"AsyncClient({self._server.url + self._server.prefix!r}, {self.loop!r})"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._http.aclose()

    def _request(self, call: Call[Any]) -> httpx2.Request:
        headers = {} if call.body is None else {"Content-Type": call.content_type}
        return self._http.build_request(call.method, call.path, content=call.body, headers=headers)

    async def _send(self, call: Call[Any]) -> Answer:
        import httpx2

        try:
            response = await self._http.send(self._request(call))
        except httpx2.TransportError as reason:
            raise self._failed(call, reason) from reason
        return Answer(response.status_code, response.headers, response.content)

    def _failed(self, call: Call[Any], reason: Exception) -> ServiceError:
        import httpx2

        undone = isinstance(reason, (httpx2.ConnectError, httpx2.ConnectTimeout))
        slow = isinstance(reason, httpx2.TimeoutException)
        # What a certificate is refused for is the reason of the reason.
        deeper: BaseException = reason
        while deeper.__cause__ is not None or deeper.__context__ is not None:
            deeper = deeper.__cause__ or deeper.__context__ or deeper
        cause = deeper if isinstance(deeper, Exception) else reason
        return failed(self._server, call, cause, slow=slow, undone=undone)

    async def _run(self, steps: Steps[T]) -> T:
        """Follows steps to their result."""
        answer: Answer | None = None
        error: ServiceError | None = None
        while True:
            try:
                step = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as done:
                result: T = done.value
                return result
            answer, error = None, None
            try:
                if isinstance(step, Send):
                    answer = await self._send(step.call)
                else:
                    await asyncio.sleep(step.seconds)
            except ServiceError as reason:
                error = reason

    async def _ask(self, call: Call[T]) -> T:
        return await self._run(persistent(call, Tries(self.patience)))

    # Deciding and rewarding.

    async def decide(
        self,
        context: Mapping[str, Any],
        *,
        event_id: str | None = None,
        eligible: Sequence[Action] | None = None,
        baseline: Mapping[str, Any] | None = None,
        candidates: Sequence[Mapping[str, Any]] | None = None,
        defer: bool = False,
    ) -> Decision:
        """As :meth:`surefoot.Client.decide`."""
        request: dict[str, Any] = {"context": context, "event_id": event_id, "eligible": eligible}
        request |= {"baseline": baseline, "candidates": candidates, "defer": defer or None}
        return await self._ask(decide_call(self._path, request))

    async def decide_many(self, requests: Iterable[DecisionRequest]) -> list[Decision]:
        """As :meth:`surefoot.Client.decide_many`."""
        lines = [encoded(request_body(one), f"request {i}: ") for i, one in enumerate(requests)]
        return await self._run(
            batch(f"{self._path}/decisions", lines, lambda line: decision(line, line["status"]), self.patience)
        )

    async def activate(self, event: str | Decision) -> Activation:
        """As :meth:`surefoot.Client.activate`."""
        event_id = event.event_id if isinstance(event, Decision) else event
        return await self._ask(activate_call(self._path, event_id))

    async def reward(self, event: str | Decision, reward: float, *, reward_id: str | None = None) -> Outcome:
        """As :meth:`surefoot.Client.reward`."""
        event_id = event.event_id if isinstance(event, Decision) else event
        return await self._ask(reward_call(self._path, Reward(event_id, reward, reward_id)))

    async def reward_many(self, rewards: Iterable[Reward]) -> list[Outcome]:
        """As :meth:`surefoot.Client.reward_many`."""
        lines = [reward_line(one) for one in rewards]
        return await self._run(batch(f"{self._path}/rewards", lines, lambda line: line["outcome"], self.patience))

    def rewards(
        self, *, most_waiting: int = 10_000, wait: float = 1.0, close_within: float = 30.0
    ) -> AsyncRewardSender:
        """As :meth:`surefoot.Client.rewards`, for ``async with``; ``send`` is awaited."""
        return AsyncRewardSender(
            self._run,
            self._path,
            most_waiting=most_waiting,
            wait=seconds("wait", wait),
            close_within=seconds("close_within", close_within),
        )

    # Reading.

    async def loops(self) -> list[Json]:
        """As :meth:`surefoot.Client.loops`."""
        return await self._ask(_reading.many("/v1/loops"))

    async def status(self) -> Json:
        """As :meth:`surefoot.Client.status`."""
        return await self._ask(_reading.one(self._path))

    async def rules(self) -> Json:
        """As :meth:`surefoot.Client.rules`."""
        return await self._ask(_reading.one(f"{self._path}/rules"))

    async def decisions(self, start: int = 0, limit: int = 100) -> list[Json]:
        """As :meth:`surefoot.Client.decisions`."""
        return await self._ask(_reading.decisions(self._path, start, limit))

    async def decision(self, event_id: str) -> Json:
        """As :meth:`surefoot.Client.decision`."""
        return await self._ask(_reading.one(f"{self._path}/decisions/{segment(event_id)}"))

    async def rounds(self) -> list[Json]:
        """As :meth:`surefoot.Client.rounds`."""
        return await self._ask(_reading.many(f"{self._path}/rounds"))

    async def logs(self, round: int, format: Literal["parquet", "jsonl"] = "parquet") -> bytes:
        """As :meth:`surefoot.Client.logs`."""
        return await self._ask(_reading.logs(self._path, round, format))

    async def certificates(self) -> list[Json]:
        """As :meth:`surefoot.Client.certificates`."""
        return await self._ask(_reading.many(f"{self._path}/certificates"))

    async def ledger(self) -> str:
        """As :meth:`surefoot.Client.ledger`."""
        return await self._ask(_reading.plain(f"{self._path}/ledger"))

    async def acts(self) -> list[Json]:
        """As :meth:`surefoot.Client.acts`."""
        return await self._ask(_reading.many(f"{self._path}/acts"))

    async def lint(self) -> Json:
        """As :meth:`surefoot.Client.lint`."""
        return await self._ask(_reading.one(f"{self._path}/lint"))

    async def challengers(self) -> list[Json]:
        """As :meth:`surefoot.Client.challengers`."""
        return await self._ask(_reading.many(f"{self._path}/challengers"))

    async def save_policy(self, fingerprint: str, folder: str | os.PathLike[str]) -> Path:
        """As :meth:`surefoot.Client.save_policy`."""
        return await self._run(save_policy(self._path, fingerprint, folder, self.patience))

    async def evaluate(
        self,
        policy: PolicyLike,
        *,
        delta: float = 0.05,
        model: Literal["none", "linear"] = "none",
        replicates: int = 1000,
        seed: int = 1,
    ) -> Json:
        """As :meth:`surefoot.Client.evaluate`."""
        return await self._ask(_reading.evaluate(self._path, policy, delta, model, replicates, seed))

    async def events(self) -> AsyncIterator[Json]:
        """As :meth:`surefoot.Client.events`, for ``async for``."""
        import httpx2

        call = _reading.events(self._path)
        request = self._request(call)
        request.extensions["timeout"] = {**request.extensions["timeout"], "read": _reading.QUIET}
        try:
            response = await self._http.send(request, stream=True)
            try:
                if response.status_code != 200:
                    raise call.error(Answer(response.status_code, response.headers, await response.aread()))
                async for line in response.aiter_lines():
                    for event in _reading.event(line):
                        yield event
            finally:
                await response.aclose()
        except httpx2.TransportError as reason:
            raise _reading.lost(self._server, call, reason) from reason
        raise _reading.lost(self._server, call, None)

    async def metrics(self) -> str:
        """As :meth:`surefoot.Client.metrics`."""
        return await self._ask(_reading.plain("/metrics"))

    # Operating.

    async def challenge(self, policy: PolicyLike) -> Json:
        """As :meth:`surefoot.Client.challenge`."""
        return await self._ask(_reading.challenge(self._path, policy))

    async def erase(self, event_id: str | None = None, *, column: str | None = None, value: Any = None) -> Json:
        """As :meth:`surefoot.Client.erase`."""
        return await self._ask(_reading.erase(self._path, event_id, column, value))

    async def close_round(self) -> Json:
        """As :meth:`surefoot.Client.close_round`."""
        return await self._ask(_reading.act(f"{self._path}/rounds/current/close", repeatable=False))

    async def pause(self) -> Json:
        """As :meth:`surefoot.Client.pause`."""
        return await self._ask(_reading.act(f"{self._path}/pause"))

    async def resume(self) -> Json:
        """As :meth:`surefoot.Client.resume`."""
        return await self._ask(_reading.act(f"{self._path}/resume"))

    async def rollback(self, policy: str) -> Json:
        """As :meth:`surefoot.Client.rollback`."""
        return await self._ask(_reading.act(f"{self._path}/rollback", {"policy": policy}, repeatable=False))

    async def retrain(self) -> Json:
        """As :meth:`surefoot.Client.retrain`."""
        return await self._ask(_reading.act(f"{self._path}/retrain", repeatable=False))
