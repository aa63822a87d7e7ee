"""Candidates with features, from the forms in which Python has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from surefoot.errors import refused, wrong_value

#: The column of a table of candidates that says which rows are one record.
EVENT_ID = "event_id"

_FORMS = (
    "an array [n, k, d], a list with a matrix for each row of X, a pair (features of all candidates, counts), or a table with "
    f"a row for each candidate and the column {EVENT_ID}"
)


def stacked(X: Any, candidates: Any) -> tuple[Any, Any, list[int]]:
    """The contexts, the features of all candidates, one row each, and the number of candidates of each record."""
    if isinstance(candidates, tuple):
        if len(candidates) != 2:
            raise refused("candidates", _FORMS, f"a tuple of {len(candidates)}")
        return X, candidates[0], _counts(candidates[1])
    if _columns(candidates) is not None:
        return _of_table(X, candidates)
    if hasattr(candidates, "tocsr"):
        raise refused("candidates", _FORMS, "a sparse matrix alone: give (matrix, counts)")
    if isinstance(candidates, np.ndarray) and candidates.dtype != object:
        if candidates.ndim != 3:
            raise refused("candidates", _FORMS, f"an array with {candidates.ndim} dimensions")
        n, k, d = candidates.shape
        return X, candidates.reshape(n * k, d), [k] * n
    return X, *_of_records(candidates)


def _counts(counts: Any) -> list[int]:
    numbers = np.asarray(counts)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise refused(
            "the counts of candidates", "whole numbers, one for each row of X", f"{numbers.dtype}{list(numbers.shape)}"
        )
    wrong = np.flatnonzero(numbers < 1)
    if len(wrong):
        raise wrong_value(int(wrong[0]), "the number of candidates", "at least 1", int(numbers[wrong[0]]))
    found: list[int] = numbers.tolist()
    return found


def _of_records(candidates: Any) -> tuple[Any, list[int]]:
    """A matrix for each record."""
    try:
        records = list(candidates)
    except TypeError:
        raise refused("candidates", _FORMS, type(candidates).__name__) from None
    if records and all(hasattr(record, "tocsr") for record in records):
        import scipy.sparse

        parts: list[Any] = records
    else:
        parts = [_matrix(row, record) for row, record in enumerate(records)]
    width = parts[0].shape[1] if parts else 0
    for row, part in enumerate(parts):
        if part.shape[0] == 0:
            raise wrong_value(row, "the number of candidates", "at least 1", 0)
        if part.shape[1] != width:
            raise wrong_value(row, "the features of its candidates", f"{width}, as in row 0", part.shape[1])
    counts = [part.shape[0] for part in parts]
    if parts and hasattr(parts[0], "tocsr"):
        return scipy.sparse.vstack(parts, format="csr"), counts
    return np.concatenate(parts) if parts else np.empty((0, 1)), counts


def _matrix(row: int, record: Any) -> Any:
    try:
        matrix = np.asarray(record, dtype=np.float32)
    except (TypeError, ValueError):
        raise wrong_value(
            row, "candidates", "a matrix of numbers, a row for each candidate", "no such matrix"
        ) from None
    if matrix.ndim != 2:
        allowed = "a matrix, a row for each candidate"
        found = "empty" if matrix.size == 0 else f"an array with {matrix.ndim} dimensions"
        raise wrong_value(row, "candidates", allowed, found)
    return matrix


def _columns(table: Any) -> list[str] | None:
    """The names of the columns of a table."""
    # In an Arrow table, the attribute `columns` holds the data.
    names = getattr(table, "column_names", getattr(table, "columns", None))
    return None if names is None else [str(name) for name in names]


def _ids(table: Any, what: str) -> Any:
    ids = np.asarray(table[EVENT_ID])
    missing = [row for row, event in enumerate(ids.tolist()) if event is None or event != event]
    if missing:
        raise wrong_value(missing[0], f"{EVENT_ID} of {what}", "given", "missing")
    return ids


def without_ids(table: Any) -> Any:
    """A table without its column of event ids; anything else as it is."""
    names = _columns(table)
    if names is None or EVENT_ID not in names:
        return table
    others = [name for name in names if name != EVENT_ID]
    return table.select(others) if hasattr(table, "select") else table[others]


def _of_table(X: Any, table: Any) -> tuple[Any, Any, list[int]]:
    """A table with a row for each candidate. If the contexts have event ids too, records are found by them."""
    if EVENT_ID not in (_columns(table) or []):
        raise refused(
            "the table of candidates", f"with a column {EVENT_ID}, which says which rows are one record", "without"
        )
    ids = _ids(table, "the candidates")
    starts = np.concatenate([[0], np.flatnonzero(ids[1:] != ids[:-1]) + 1]) if len(ids) else np.empty(0, int)
    counts = np.diff(np.append(starts, len(ids)))
    groups: dict[Any, int] = {}
    for group, (start, event) in enumerate(zip(starts.tolist(), ids[starts].tolist())):
        if groups.setdefault(event, group) != group:
            allowed = "one event after the other, with all rows of an event next to each other"
            raise wrong_value(start, f"{EVENT_ID} of the candidates", allowed, f"{event} again")
    features = without_ids(table)
    if EVENT_ID not in (_columns(X) or []):
        return X, features, counts.tolist()
    wanted: list[Any] = _ids(X, "X").tolist()
    seen: set[Any] = set()
    for row, event in enumerate(wanted):
        if event in seen:
            raise wrong_value(row, f"{EVENT_ID} of X", "an event that no other row has", f"{event} again")
        seen.add(event)
        if event not in groups:
            raise wrong_value(row, f"{EVENT_ID} of X", "an event that has candidates", event)
    for event, group in groups.items():
        if event not in seen:
            row = int(starts[group])
            raise wrong_value(row, f"{EVENT_ID} of the candidates", f"an {EVENT_ID} of X", event)
    order = [groups[event] for event in wanted]
    if order != list(range(len(order))):
        rows = np.concatenate([np.arange(starts[g], starts[g] + counts[g]) for g in order])
        features = _take(features, rows)
    return without_ids(X), features, counts[order].tolist()


def _take(table: Any, rows: Any) -> Any:
    """Some rows of a table."""
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    return table.take(rows) if hasattr(table, "take") else table[rows.tolist()]
