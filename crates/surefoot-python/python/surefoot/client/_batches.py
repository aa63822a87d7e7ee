"""Batches: many decisions or rewards, as lines of a few requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from surefoot.client._decisions import lines
from surefoot.client._messages import problem_error
from surefoot.client._steps import Steps, Tries, Wait, persistent
from surefoot.client.errors import BatchError, ServiceError

T = TypeVar("T")

#: The largest number of lines of a request, and of bytes. The server takes 1,000 and 4 MiB.
MOST_LINES = 1000
MOST_BYTES = 3 << 20


def parts(all_lines: Sequence[bytes]) -> Iterator[list[int]]:
    """The places of lines that fit into one request each."""
    part: list[int] = []
    size = 0
    for place, line in enumerate(all_lines):
        if part and (len(part) == MOST_LINES or size + len(line) > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(place)
        size += len(line) + 1
    if part:
        yield part


def answer_of(path: str, answered: dict[str, Any], read: Callable[[dict[str, Any]], T]) -> T | ServiceError:
    """What a line of an answer says."""
    if answered["status"] >= 300:
        return problem_error(f"a line of POST {path}", answered)
    return read(answered)


def batch(
    path: str, all_lines: Sequence[bytes], read: Callable[[dict[str, Any]], T], patience: float
) -> Steps[list[T]]:
    """Sends all lines. Lines that the server could not do are sent again, and no others."""
    found: dict[int, T | ServiceError] = {}
    for part in parts(all_lines):
        tries = Tries(patience)
        while part:
            body = b"".join(all_lines[place] + b"\n" for place in part)
            try:
                answered = yield from persistent(lines(path, body), tries)
                found.update((place, answer_of(path, line, read)) for place, line in zip(part, answered))
            except ServiceError as error:
                if not found:
                    raise
                # Nobody knows what became of these and of all later lines.
                found.update((place, error) for place in range(part[0], len(all_lines)) if place not in found)
                return whole(path, found)
            refusals = [(place, answer) for place in part if isinstance(answer := found[place], ServiceError)]
            again = [(place, error) for place, error in refusals if error.passing]
            wait = tries.wait_after(again[0][1]) if again else None
            if wait is None:
                break
            part = [place for place, _ in again]
            yield Wait(wait)
    return whole(path, found)


def whole(path: str, found: dict[int, T | ServiceError]) -> list[T]:
    """All answers in their order, or an error that has them."""
    answers = [found[place] for place in range(len(found))]
    good: list[T] = [answer for answer in answers if not isinstance(answer, ServiceError)]
    if len(good) == len(answers):
        return good
    first = next(place for place, answer in enumerate(answers) if isinstance(answer, ServiceError))
    count = len(answers) - len(good)
    message = f"{count} of {len(answers)} lines were not done; the first is line {first}: {answers[first]}"
    raise BatchError(message, answers=answers)
