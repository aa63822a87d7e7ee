"""Fingerprints of rounds of logs, by docs/formats.md: a tree over chunks of records."""

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


def leaf(records):
    content = b""
    for context, action, propensity, cost in records:
        # Minus 0 is 0.
        content += struct.pack("<Idd", action, propensity + 0.0, cost + 0.0)
        content += b"".join(struct.pack("<If", f, v) for f, v in enumerate(context) if v != 0)
        content += struct.pack("<I", 2**32 - 1)
    return digest("logs chunk", content)


def tree(leaves):
    if len(leaves) < 2:
        return leaves[0] if leaves else None
    half = 1
    while 2 * half < len(leaves):
        half *= 2
    return digest("node", tree(leaves[:half]) + tree(leaves[half:]))


def fingerprint(n):
    records = [record(i) for i in range(n)]
    root = tree([leaf(records[i : i + CHUNK]) for i in range(0, n, CHUNK)])
    counts = struct.pack("<QQQQ", 3, 2, n, 0)
    return digest("logs", counts + text(root.hex() if root else "")).hex()


def cases():
    return [{"records": n, "fingerprint": fingerprint(n)} for n in [0, 1, 8192, 8193, 20000, 50000]]
