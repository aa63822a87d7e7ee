"""The blocking client."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar

from surefoot.client import _reading
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
from surefoot.client._http import Connections
from surefoot.client._messages import Answer, Call, encoded
from surefoot.client._policies import PolicyLike, save_policy
from surefoot.client._reading import Json
from surefoot.client._rewards import RewardSender
from surefoot.client._server import Server, seconds, segment
from surefoot.client._steps import Send, Steps, Tries, persistent
from surefoot.client.errors import ServiceError

T = TypeVar("T")


class Client:
    """A loop of a running ``surefoot serve``. It needs nothing but the standard library, and may be used by many threads.

    Every decision has an id, made here unless it is given, so a request that is sent again is the same event: it is decided
    once. Acts that must not be done twice (:meth:`challenge`, :meth:`close_round`, :meth:`rollback`, :meth:`retrain`,
    :meth:`erase`) are sent once, and tried again only if there was no connection.

    Parameters
    ----------
    url : str
        The address of the server, such as ``http://127.0.0.1:8080``.
    loop : str
        The name of the loop.
    key : str, optional
        The caller's key. Over ``http://`` it can be read on the way.
    ca : path, optional
        A file with the certificates to trust, in PEM, instead of those of the system.
    timeout : float
        How many seconds to wait for a connection, and for the next bytes of an answer.
    patience : float
        For how many seconds to try again if the connection is lost, or the server cannot do it now (408, 429, 502, 503 or
        504). Waits double, are partly random, and are at least as long as the server asks.

    >>> import surefoot
    >>> shop = surefoot.Client("http://127.0.0.1:9", "shop", patience=0.2)
    >>> shop.decide({"age": 31})  # no server runs here
    Traceback (most recent call last):
    surefoot.client.errors.UnreachableError: POST http://127.0.0.1:9/v1/loops/shop/decisions: Connection refused
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
        self.loop = loop
        self.patience = seconds("patience", patience)
        self._path = f"/v1/loops/{segment(loop)}"
        self._server = Server.at(url, key, ca)
        self._connections = Connections(self._server, seconds("timeout", timeout))

    def __repr__(self) -> str:
        return f"Client({self._server.url + self._server.prefix!r}, {self.loop!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes connections that are not in use."""
        self._connections.close()

    def _run(self, steps: Steps[T]) -> T:
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
                    answer = self._connections.send(step.call)
                else:
                    time.sleep(step.seconds)
            except ServiceError as reason:
                error = reason

    def _ask(self, call: Call[T]) -> T:
        return self._run(persistent(call, Tries(self.patience)))

    # Deciding and rewarding.

    def decide(
        self,
        context: Mapping[str, Any],
        *,
        event_id: str | None = None,
        eligible: Sequence[Action] | None = None,
        baseline: Mapping[str, Any] | None = None,
        candidates: Sequence[Mapping[str, Any]] | None = None,
        defer: bool = False,
    ) -> Decision:
        """Decides on an event. The same ``event_id`` always gets the same decision.

        ``context`` has the features by name. ``eligible`` are the actions that may be chosen, all if absent. ``baseline`` is
        for a loop in apprentice mode: ``{"action": ..., "propensity": ...}`` of your own policy. ``candidates`` are for a
        loop over candidates: each has an ``id`` and features. With ``defer``, rewards count only after :meth:`activate`.
        """
        request: dict[str, Any] = {"context": context, "event_id": event_id, "eligible": eligible}
        request |= {"baseline": baseline, "candidates": candidates, "defer": defer or None}
        return self._ask(decide_call(self._path, request))

    def decide_many(self, requests: Iterable[DecisionRequest]) -> list[Decision]:
        """Decides on many events, in as few requests as possible. Answers are in the order of the requests.

        Each request is a mapping with ``context``, and with the other arguments of :meth:`decide` if needed. If some
        cannot be done, all others are, and :class:`~surefoot.client.BatchError` has an answer or an error for each.
        """
        lines = [encoded(request_body(one), f"request {i}: ") for i, one in enumerate(requests)]
        return self._run(
            batch(f"{self._path}/decisions", lines, lambda line: decision(line, line["status"]), self.patience)
        )

    def activate(self, event: str | Decision) -> Activation:
        """Says that a deferred decision is shown: ``"activated"``, ``"duplicate"`` or ``"late"``."""
        event_id = event.event_id if isinstance(event, Decision) else event
        return self._ask(activate_call(self._path, event_id))

    def reward(self, event: str | Decision, reward: float, *, reward_id: str | None = None) -> Outcome:
        """Sends a reward of an event: ``"joined"``, ``"duplicate"``, ``"late"`` or ``"parked"``.

        Without ``reward_id`` it is the only reward of its event. When this returns, it is on the disk of the server.
        """
        event_id = event.event_id if isinstance(event, Decision) else event
        return self._ask(reward_call(self._path, Reward(event_id, reward, reward_id)))

    def reward_many(self, rewards: Iterable[Reward]) -> list[Outcome]:
        """Sends many rewards, in as few requests as possible. Errors are as those of :meth:`decide_many`."""
        lines = [reward_line(one) for one in rewards]
        return self._run(batch(f"{self._path}/rewards", lines, lambda line: line["outcome"], self.patience))

    def rewards(self, *, most_waiting: int = 10_000, wait: float = 1.0, close_within: float = 30.0) -> RewardSender:
        """A context manager whose ``send(event, reward)`` returns at once; a thread sends batches in the background.

        It tries again until it is closed, and then for ``close_within`` seconds. At the end, everything is on the disk of
        the server, or :class:`~surefoot.client.RewardsError` has what is not. At most ``most_waiting`` rewards wait; a full
        queue makes ``send`` wait for ``wait`` seconds. What waits is lost with the process: what must not be is sent by
        :meth:`reward`.
        """
        return RewardSender(
            self._run,
            self._path,
            most_waiting=most_waiting,
            wait=seconds("wait", wait),
            close_within=seconds("close_within", close_within),
        )

    # Reading.

    def loops(self) -> list[Json]:
        """Where all loops of the server stand."""
        return self._ask(_reading.many("/v1/loops"))

    def status(self) -> Json:
        """Where the loop stands: its round, its policy, whether it learns."""
        return self._ask(_reading.one(self._path))

    def rules(self) -> Json:
        """What the loop has fixed before its first decision."""
        return self._ask(_reading.one(f"{self._path}/rules"))

    def decisions(self, start: int = 0, limit: int = 100) -> list[Json]:
        """Stored decisions in their order, at most 1,000, from number ``start`` on."""
        return self._ask(_reading.decisions(self._path, start, limit))

    def decision(self, event_id: str) -> Json:
        """A stored decision with its rewards."""
        return self._ask(_reading.one(f"{self._path}/decisions/{segment(event_id)}"))

    def rounds(self) -> list[Json]:
        """The rounds with what was learned from them."""
        return self._ask(_reading.many(f"{self._path}/rounds"))

    def logs(self, round: int, format: Literal["parquet", "jsonl"] = "parquet") -> bytes:
        """The log of a round that has ended, as a file that :func:`surefoot.open_logs` reads."""
        return self._ask(_reading.logs(self._path, round, format))

    def certificates(self) -> list[Json]:
        """All certificates, in the order in which they were made."""
        return self._ask(_reading.many(f"{self._path}/certificates"))

    def ledger(self) -> str:
        """The ledger, one JSON object per line."""
        return self._ask(_reading.plain(f"{self._path}/ledger"))

    def acts(self) -> list[Json]:
        """What operators did."""
        return self._ask(_reading.many(f"{self._path}/acts"))

    def lint(self) -> Json:
        """What ``surefoot lint --json`` says about the rounds that were learned from."""
        return self._ask(_reading.one(f"{self._path}/lint"))

    def challengers(self) -> list[Json]:
        """What became of the policies that callers brought."""
        return self._ask(_reading.many(f"{self._path}/challengers"))

    def save_policy(self, fingerprint: str, folder: str | os.PathLike[str]) -> Path:
        """Writes a policy of the loop to a folder, with the files that it names; :meth:`surefoot.Policy.load` reads it."""
        return self._run(save_policy(self._path, fingerprint, folder, self.patience))

    def evaluate(
        self,
        policy: PolicyLike,
        *,
        delta: float = 0.05,
        model: Literal["none", "linear"] = "none",
        replicates: int = 1000,
        seed: int = 1,
    ) -> Json:
        """What ``surefoot evaluate --json`` says about a policy, or a policy file, on the rounds that were learned from."""
        return self._ask(_reading.evaluate(self._path, policy, delta, model, replicates, seed))

    def events(self) -> Iterator[Json]:
        """What happens in the loop, as it happens. It ends with :class:`~surefoot.client.UnreachableError`."""
        call = _reading.events(self._path)
        with self._connections.stream(call, _reading.QUIET) as response:
            if response.status != 200:
                headers = {name.lower(): value for name, value in response.getheaders()}
                raise call.error(Answer(response.status, headers, response.read()))
            try:
                for line in response:
                    yield from _reading.event(line)
            except OSError as reason:
                raise _reading.lost(self._server, call, reason) from reason
        raise _reading.lost(self._server, call, None)

    def metrics(self) -> str:
        """The metrics of all loops, in Prometheus' text format."""
        return self._ask(_reading.plain("/metrics"))

    # Operating.

    def challenge(self, policy: PolicyLike) -> Json:
        """Brings a policy, or a policy file, as a challenger. The gate judges it by rounds that begin after this."""
        return self._ask(_reading.challenge(self._path, policy))

    def erase(self, event_id: str | None = None, *, column: str | None = None, value: Any = None) -> Json:
        """Erases the records of an event, or of all events whose context has this value in this column."""
        return self._ask(_reading.erase(self._path, event_id, column, value))

    def close_round(self) -> Json:
        """Ends the round. Whoever does it must not have looked at its rewards."""
        return self._ask(_reading.act(f"{self._path}/rounds/current/close", repeatable=False))

    def pause(self) -> Json:
        """Holds the policy that decides. Learning goes on."""
        return self._ask(_reading.act(f"{self._path}/pause"))

    def resume(self) -> Json:
        """Deploys what is learned again, from the next round on."""
        return self._ask(_reading.act(f"{self._path}/resume"))

    def rollback(self, policy: str) -> Json:
        """Ends the round, and holds a policy that decided before; it is named by its fingerprint."""
        return self._ask(_reading.act(f"{self._path}/rollback", {"policy": policy}, repeatable=False))

    def retrain(self) -> Json:
        """Learns again from a round whose learning failed."""
        return self._ask(_reading.act(f"{self._path}/retrain", repeatable=False))
