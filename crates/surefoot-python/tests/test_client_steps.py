"""What the clients do next, without a network: waits, batches, the queue of rewards, and how answers are read."""

from __future__ import annotations

import json
import pickle
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest

import surefoot
from surefoot.client import (
    BatchError,
    RefusedError,
    Reward,
    RewardsError,
    ServiceError,
    UnavailableError,
    UnexpectedError,
    UnreachableError,
)
from surefoot.client._batches import MOST_BYTES, MOST_LINES, batch, parts
from surefoot.client._messages import Answer, Call, encoded, parsed
from surefoot.client._outbox import TOGETHER, Outbox
from surefoot.client._policies import named_files
from surefoot.client._server import Server
from surefoot.client._steps import FIRST_WAIT, LONGEST_WAIT, Send, Tries, Wait, persistent

PROBLEM = {"content-type": "application/problem+json"}


def problem(status: int, headers: dict[str, str] | None = None) -> Answer:
    body = {"type": "urn:surefoot:kind", "title": "title", "status": status, "detail": "x should be 1, but is 2"}
    return Answer(status, {**PROBLEM, **(headers or {})}, json.dumps(body).encode())


def get(repeatable: bool = True) -> Call[Any]:
    return Call("GET", "/x", parsed, repeatable=repeatable)


def follow(steps: Any, *answers: Answer | ServiceError) -> tuple[Any, list[float]]:
    """Follows steps with these answers; returns their result and the waits."""
    left, waits = list(answers), []
    step = next(steps)
    while True:
        try:
            if isinstance(step, Wait):
                waits.append(step.seconds)
                step = next(steps)
                continue
            assert isinstance(step, Send) and left, "nothing else should be sent"
            answer = left.pop(0)
            step = steps.throw(answer) if isinstance(answer, ServiceError) else steps.send(answer)
        except StopIteration as done:
            assert not left
            return done.value, waits


def test_waits_double_up_to_a_limit_and_are_partly_random() -> None:
    for draw, share in [(0.0, 0.5), (1.0, 1.0)]:
        tries = Tries(1e9, draw=lambda draw=draw: draw)
        waits = [tries.wait_after(UnavailableError("x")) for _ in range(9)]
        assert waits == pytest.approx([share * min(LONGEST_WAIT, FIRST_WAIT * 2**n) for n in range(9)])


def test_what_the_server_asks_to_wait_is_added() -> None:
    tries = Tries(1e9, draw=lambda: 1.0)
    assert tries.wait_after(UnavailableError("x", retry_after=7.0)) == pytest.approx(7.0 + FIRST_WAIT)


def test_no_attempt_begins_after_patience_has_ended() -> None:
    now = [0.0]
    tries = Tries(1.0, clock=lambda: now[0], draw=lambda: 1.0)
    assert tries.wait_after(UnavailableError("x")) is not None
    assert tries.wait_after(UnavailableError("x", retry_after=2.0)) is None
    now[0] = 0.95
    assert tries.wait_after(UnavailableError("x")) is None


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_what_may_be_over_soon_is_tried_again(status: int) -> None:
    result, waits = follow(persistent(get(), Tries(60)), problem(status), problem(status), Answer(200, {}, b"[1]"))
    assert result == [1] and len(waits) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422])
def test_what_the_caller_did_wrong_is_not_tried_again(status: int) -> None:
    with pytest.raises(ServiceError, match="x should be 1, but is 2") as caught:
        follow(persistent(get(), Tries(60)), problem(status))
    assert caught.value.status == status and caught.value.kind == "kind"


def test_what_must_not_be_done_twice_is_sent_again_only_without_a_connection() -> None:
    undone = UnreachableError("no connection", undone=True)
    assert follow(persistent(get(False), Tries(60)), undone, Answer(200, {}, b"1"))[0] == 1
    for error in (UnreachableError("lost"), UnavailableError("busy")):
        with pytest.raises(type(error)):
            follow(persistent(get(False), Tries(60)), error)


@pytest.mark.parametrize("written", ["3", "date"])
def test_retry_after_is_seconds_or_a_date(written: str) -> None:
    if written == "date":
        written = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=30), usegmt=True)
    error = get().error(problem(503, {"retry-after": written}))
    assert error.retry_after is not None and (error.retry_after == 3.0 or 25 < error.retry_after <= 30)
    assert get().error(problem(503, {"retry-after": "soon"})).retry_after is None


def test_answers_of_others_are_said_to_be_such() -> None:
    for answer in (Answer(200, {}, b"<html>"), Answer(500, {}, b"oops"), Answer(301, {}, b"")):
        with pytest.raises(UnexpectedError, match="should be one of Surefoot"):
            get().result(answer)
    assert isinstance(get().error(Answer(502, {}, b"<html>")), UnavailableError)


def test_errors_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(get().error(problem(422))))
    assert isinstance(error, RefusedError) and isinstance(error, ValueError)
    assert error.status == 422 and "but is 2" in str(error)


def test_lines_are_divided_by_number_and_size() -> None:
    assert [len(part) for part in parts([b"x"] * (2 * MOST_LINES + 1))] == [MOST_LINES, MOST_LINES, 1]
    large = b"x" * (MOST_BYTES // 2 - 10)
    assert list(parts([large] * 5)) == [[0, 1], [2, 3], [4]]
    assert list(parts([])) == []


def lines(*answered: dict[str, Any]) -> Answer:
    return Answer(200, {}, b"".join(json.dumps(one).encode() + b"\n" for one in answered))


def steps(count: int, patience: float = 60) -> Any:
    return batch("/x", [b"{}"] * count, lambda line: line["n"], patience)


def test_only_the_lines_that_failed_are_sent_again() -> None:
    busy = {"status": 503, "title": "", "detail": "busy"}
    first = lines({"status": 201, "n": 0}, busy, {"status": 200, "n": 2}, busy)
    result, waits = follow(steps(4), first, lines({"status": 201, "n": 1}, {"status": 201, "n": 3}))
    assert result == [0, 1, 2, 3] and len(waits) == 1


def test_a_batch_with_wrong_lines_has_all_answers() -> None:
    wrong = {"status": 422, "title": "no", "detail": "wrong"}
    with pytest.raises(BatchError, match=r"1 of 3 lines were not done; the first is line 1: .*422 no: wrong") as caught:
        follow(steps(3), lines({"status": 201, "n": 0}, wrong, {"status": 201, "n": 2}))
    first, refusal, last = caught.value.answers
    assert (first, last) == (0, 2) and isinstance(refusal, RefusedError)


def test_a_batch_that_breaks_off_has_the_answers_so_far() -> None:
    count = MOST_LINES + 2
    good = lines(*({"status": 201, "n": n} for n in range(MOST_LINES)))
    with pytest.raises(BatchError) as caught:
        follow(steps(count), good, get().error(problem(401)))
    assert caught.value.answers[:MOST_LINES] == list(range(MOST_LINES))
    assert [error.status for error in caught.value.answers[MOST_LINES:]] == [401, 401]
    with pytest.raises(ServiceError) as alone:
        follow(steps(1), get().error(problem(401)))
    assert not isinstance(alone.value, BatchError), "if nothing was done, the reason is the error"


def test_a_batch_with_another_number_of_answers_is_refused() -> None:
    with pytest.raises(UnexpectedError):
        follow(steps(2), lines({"status": 201, "n": 0}))


def test_the_queue_keeps_what_may_be_sent_again_in_its_order() -> None:
    outbox = Outbox(100)
    for n in range(4):
        outbox.put(Reward(str(n), 1.0))
    sent = outbox.batch()
    busy, wrong = UnavailableError("busy"), RefusedError("wrong")
    assert 0 < outbox.settle(sent, ["joined", busy, wrong, busy]) < 1
    outbox.put(Reward("4", 1.0))
    assert [reward.event_id for reward, _ in outbox.batch()] == ["1", "3", "4"]
    left = outbox.left()
    assert left is not None and [reward.event_id for reward, _ in left.refused] == ["2"]
    outbox.close(0.0)
    assert outbox.settle(outbox.batch(), [busy] * 3) == float("inf"), "there is no time left"
    with pytest.raises(RewardsError, match="closed"):
        outbox.put(Reward("5", 1.0))


def test_what_was_refused_takes_room_until_somebody_is_told() -> None:
    outbox = Outbox(2)
    for n in range(2):
        outbox.put(Reward(str(n), 5.0))
    outbox.settle(outbox.batch(), [RefusedError("out of range")] * 2)
    assert outbox.full and len(outbox) == 0
    assert "2 were refused, the first with: out of range" in str(outbox.no_room(Reward("x", 1.0)))


def test_a_batch_of_rewards_has_a_limit() -> None:
    outbox = Outbox(10 * TOGETHER)
    for n in range(TOGETHER + 5):
        outbox.put(Reward(str(n), 1.0))
    assert len(outbox.batch()) == TOGETHER


def test_numbers_and_arrays_of_numpy_are_json() -> None:
    assert encoded({"a": np.float32(0.5), "b": np.arange(2), "c": np.int64(3)}) == b'{"a":0.5,"b":[0,1],"c":3}'
    with pytest.raises(surefoot.DataError, match="finite"):
        encoded({"a": float("nan")})
    with pytest.raises(surefoot.DataError, match="type object"):
        encoded({"a": object()})


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://x", "http://", "http://x:port", "http://k@x", "http://x?q=1"])
def test_a_wrong_address_is_refused(url: str) -> None:
    with pytest.raises(surefoot.SettingError, match="url should be an address such as"):
        Server.at(url, None, None)


def test_a_wrong_key_is_refused_and_not_shown() -> None:
    with pytest.raises(surefoot.SettingError, match="key should be") as caught:
        Server.at("http://x", "a secret", None)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_no_policy_is_refused() -> None:
    with pytest.raises(surefoot.FileError, match="should be a policy file"):
        named_files(b"not a policy", "x")
