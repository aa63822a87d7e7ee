"""Fingerprints of rounds of logs, by docs/formats.md: a tree over chunks of records, with candidates or without."""

import hashlib
import struct

CHUNK = 8192


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def digest(kind, content):
    return hashlib.sha256(text(kind) + content).digest()


def record(i):
    """Record i of the logs of the test: a context of two features, one of them often 0, action, propensity and cost."""
    context = [(i % 7) / 4, -(i % 3) / 2]
    return context, i % 3, (1 + i % 5) / 8, -(i % 2) / 2


def candidates(i):
    """The candidates of record i: from one to three, each with two features, of which one may be 0."""
    return [[(i + a) % 5 / 4, -(a % 2) / 2] for a in range(1 + i % 3)]


def row(features):
    return b"".join(struct.pack("<If", f, v) for f, v in enumerate(features) if v != 0) + struct.pack("<I", 2**32 - 1)


def leaf(numbers, with_candidates):
    content = b""
    for i in numbers:
        context, action, propensity, cost = record(i)
        sets = candidates(i)
        action = i % len(sets) if with_candidates else action
        # Minus 0 is 0.
        content += struct.pack("<Idd", action, propensity + 0.0, cost + 0.0)
        content += row(context)
        if with_candidates:
            content += struct.pack("<Q", len(sets)) + b"".join(map(row, sets))
    return digest("logs chunk", content)


def tree(leaves):
    if len(leaves) < 2:
        return leaves[0] if leaves else None
    half = 1
    while 2 * half < len(leaves):
        half *= 2
    return digest("node", tree(leaves[:half]) + tree(leaves[half:]))


def fingerprint(n, with_candidates):
    root = tree([leaf(range(i, min(i + CHUNK, n)), with_candidates) for i in range(0, n, CHUNK)])
    head = struct.pack("<QQQQ", 3, 2, n, with_candidates)
    if with_candidates:
        head += text("candidates") + struct.pack("<Q", 2)
    return digest("logs", head + text(root.hex() if root else "")).hex()


def cases():
    sizes = [(n, False) for n in [0, 1, 8192, 8193, 20000, 50000]] + [(n, True) for n in [1, 2, 8193, 20000]]
    return [{"records": n, "candidates": c, "fingerprint": fingerprint(n, c)} for n, c in sizes]
