"""Decisions and rewards: what callers give, and what they get."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypedDict

from surefoot.client._messages import NDJSON, Answer, Call, encoded, parsed, time_of
from surefoot.client._server import segment
from surefoot.errors import refused

Action = str | int
#: What became of a reward.
Outcome = Literal["joined", "duplicate", "late", "parked"]
#: What became of an activation.
Activation = Literal["activated", "duplicate", "late"]


class _Context(TypedDict):
    context: Mapping[str, Any]


class DecisionRequest(_Context, total=False):
    """One request of :meth:`surefoot.Client.decide_many`. Only ``context`` is required."""

    event_id: str
    eligible: Sequence[Action]
    baseline: Mapping[str, Any]
    candidates: Sequence[Mapping[str, Any]]
    defer: bool


@dataclass(frozen=True)
class Decision:
    """A decision that is on the disk of the server."""

    event_id: str
    #: The chosen action, by name or number; the id of the chosen candidate in a loop over candidates.
    action: Action
    #: The probability with which it was chosen.
    propensity: float
    #: The fingerprint of the policy that chose it; ``None`` if your own policy did.
    policy_version: str | None
    #: The round that it belongs to.
    round: int
    #: Until when its rewards count.
    reward_until: datetime
    #: Whether its rewards count only after :meth:`surefoot.Client.activate`.
    deferred: bool
    #: Whether nobody should follow it.
    shadow: bool
    #: The head of the ledger, for ``surefoot verify --head``.
    ledger_head: str
    #: Whether it was stored before, and found again.
    again: bool


@dataclass(frozen=True)
class Reward:
    """A reward of an event. Several rewards of one event need ids of their own."""

    event_id: str
    reward: float
    reward_id: str | None = None

    def _body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"event_id": self.event_id, "reward": self.reward}
        return body if self.reward_id is None else {**body, "reward_id": self.reward_id}


def new_id() -> str:
    """An id for an event. The client makes it, so that a request that is sent again is the same event."""
    return uuid.uuid4().hex


def request_body(request: Mapping[str, Any]) -> dict[str, Any]:
    """A request with an id. Fields that are ``None`` are absent."""
    if not isinstance(request, Mapping) or not isinstance(request.get("context"), Mapping):
        raise refused("request", "a mapping with a context, which is a mapping of features by name", repr(request)[:80])
    given = {name: value for name, value in request.items() if value is not None}
    return {"event_id": new_id(), **given}


def decision(answered: Mapping[str, Any], status: int) -> Decision:
    """A decision as the server answers it."""
    return Decision(
        event_id=answered["event_id"],
        action=answered["action"],
        propensity=float(answered["propensity"]),
        policy_version=answered["policy_version"],
        round=answered["round"],
        reward_until=time_of(answered["reward_until"]),
        deferred=answered.get("deferred", False),
        shadow=answered.get("shadow", False),
        ledger_head=answered["ledger_head"],
        again=status == 200,
    )


def decide_call(path: str, request: Mapping[str, Any]) -> Call[Decision]:
    def read(answer: Answer) -> Decision:
        return decision(parsed(answer), answer.status)

    return Call("POST", f"{path}/decisions", read, encoded(request_body(request)))


def activate_call(path: str, event_id: str) -> Call[Activation]:
    def read(answer: Answer) -> Activation:
        outcome: Activation = parsed(answer)["outcome"]
        return outcome

    return Call("POST", f"{path}/decisions/{segment(event_id)}/activate", read)


def reward_call(path: str, given: Reward) -> Call[Outcome]:
    def read(answer: Answer) -> Outcome:
        outcome: Outcome = parsed(answer)["outcome"]
        return outcome

    return Call("POST", f"{path}/rewards", read, encoded(given._body()))


def reward_line(given: Reward) -> bytes:
    """A reward as a line of a batch."""
    return encoded(given._body(), f"the reward of event {given.event_id!r}: ")


def lines(method_path: str, body: bytes) -> Call[list[dict[str, Any]]]:
    """A batch: one object per line, and as many lines of answers."""
    wanted = body.count(b"\n")

    def read(answer: Answer) -> list[dict[str, Any]]:
        found = [_line(line) for line in answer.body.splitlines() if line]
        if len(found) != wanted:
            raise ValueError(f"{wanted} lines were sent, but {len(found)} came back")
        return found

    def _line(line: bytes) -> dict[str, Any]:
        answered: dict[str, Any] = parsed(Answer(200, {}, line))
        answered["status"] = int(answered["status"])
        return answered

    return Call("POST", method_path, read, body, NDJSON)
