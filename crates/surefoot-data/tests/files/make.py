"""Writes the files that others made, with pyarrow 26, polars 2 and numpy 2: `python make.py`, in this folder.

The bytes depend on the versions; the tests only on what is in the files. `bad-*` files are made from good ones or by
hand, but for `bad-endless-*`, which a fuzzer found: they kept the Parquet reader busy for seconds or for good.
"""

import datetime as dt
import decimal
import gzip
import struct

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

UTC = dt.timezone.utc
TIMES = [dt.datetime(2025, 1, 31, 12, 0, 0, 500_000, tzinfo=UTC), None, dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)]


def parquet(name, columns, types=None, **options):
    table = pa.table(columns, schema=pa.schema(types) if types else None)
    pq.write_table(table, f"parquet/{name}.parquet", **options)


def good_parquet():
    base = {"action": pa.array([0, 2, 1], pa.uint32()), "pscore": [0.5, 0.25, 1.0], "reward": [1.0, 0.0, -0.5]}
    parquet("pyarrow-snappy", {
        **base,
        "event_id": ["a", None, "Zürich"],
        "device": pa.array(["x", "y", "x"]).dictionary_encode(),
        "context": pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2)),
        "eligible": pa.array([[0, 1], [2], None], pa.list_(pa.uint32())),
        "skip": [True, None, False],
    }, compression="snappy")
    parquet("pyarrow-sparse", {
        **base,
        "context_indices": pa.array([[0, 7], [], [3]], pa.list_(pa.uint32())),
        "context_values": pa.array([[1.0, -1.0], [], [0.5]], pa.list_(pa.float32())),
        "context_names": pa.array([["a", "b"], [], ["a"]], pa.large_list(pa.large_string())),
    }, compression="gzip", data_page_version="2.0")
    parquet("pyarrow-types", {
        "i8": pa.array([1, None, -3], pa.int8()),
        "u64": pa.array([1, 2, 2**63], pa.uint64()),
        "half": pa.array(np.array([0.5, -2.0, 65504.0], np.float16)),
        "bytes": pa.array([b"a", b"", "é".encode()]),
        "nothing": pa.nulls(3),
        "time_ms": pa.array(TIMES, pa.timestamp("ms", "UTC")),
        "time_us": pa.array([t and t.replace(tzinfo=None) for t in TIMES], pa.timestamp("us")),
        "time_ns": pa.array(TIMES, pa.timestamp("ns", "Europe/Zurich")),
        "date": pa.array([dt.date(2025, 1, 31), None, dt.date(1969, 12, 31)]),
        "money": pa.array([decimal.Decimal("0.10"), None, decimal.Decimal("-12345678901234567.89")]),
        "wide": pa.array([decimal.Decimal("1e-10"), None, decimal.Decimal("1.5")], pa.decimal256(50, 20)),
        "days": pa.array([[dt.date(2025, 1, 31)], None, []], pa.list_(pa.date32())),
    }, compression="lz4")
    parquet("pyarrow-nested", {
        "action": [0, 1, 1],
        "user": pa.array([{"age": 3, "home": {"zip": "8000"}}, None, {"age": None, "home": None}],
                         pa.struct([("age", pa.int64()), ("home", pa.struct([("zip", pa.string())]))])),
    }, compression="none")
    parquet("pyarrow-list-of-structs", {"c": [[{"i": 1, "v": 2.0}]]})
    parquet("pyarrow-candidates", {
        "event_id": ["e1", "e2", "e3"],
        "age": [30, 40, 50],
        "candidates": pa.array([
            [{"id": "n1", "news": {"topic": "x", "words": 12}, "e": [0.5, 1.0]}, {"id": "n2", "news": None, "e": [0.0, 2.0]}],
            [{"id": "n3", "news": {"topic": None, "words": 3}, "e": [1.0, 1.0]}],
            [{"id": "n1", "news": {"topic": "x", "words": 12}, "e": [0.5, 1.0]}, {"id": "n3", "news": None, "e": [1.0, 1.0]}],
        ], pa.list_(pa.struct([
            ("id", pa.string()),
            ("news", pa.struct([("topic", pa.string()), ("words", pa.int32())])),
            ("e", pa.list_(pa.float32())),
        ]))),
        "action": ["n2", "n3", "n1"],
        "pscore": [0.5, 1.0, 0.25],
        "reward": [1.0, 0.0, 1.0],
    })
    parquet("pyarrow-delta", {
        "name": ["apple", "apply", None, "apples", ""] * 40,
        "text": ["b" * (i % 7) for i in range(200)],
        "number": list(range(200)),
    }, use_dictionary=False, column_encoding={
        "name": "DELTA_BYTE_ARRAY", "text": "DELTA_LENGTH_BYTE_ARRAY", "number": "DELTA_BINARY_PACKED",
    }, compression="zstd", data_page_version="2.0", data_page_size=256)
    parquet("pyarrow-groups", {"action": [i % 5 for i in range(100)], "text": [f"t{i % 3}" for i in range(100)]},
            row_group_size=7, compression="snappy")
    pl.DataFrame({
        "action": pl.Series([0, 2, 1], dtype=pl.UInt32),
        "pscore": [0.5, 0.25, 1.0],
        "reward": [1.0, 0.0, None],
        "kind": pl.Series(["a", "b", "a"], dtype=pl.Categorical),
        "note": ["a text that is longer than twelve bytes", None, "short"],
        "context": pl.Series([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=pl.Array(pl.Float32, 2)),
        "pi": [[0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [0.0, 1.0, 0.0]],
    }).write_parquet("parquet/polars-zstd.parquet", compression="zstd")
    pl.DataFrame({"action": pl.Series([], dtype=pl.UInt32)}).write_parquet("parquet/polars-empty.parquet")


def bad_parquet():
    parquet("bad-map", {"m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))})
    parquet("bad-structs-in-structs", {"c": [[{"i": [{"v": 2.0}]}]]})
    parquet("bad-time-of-day", {"t": [dt.time(12)]})
    parquet("bad-fixed-bytes", {"b": pa.array([b"abc"], pa.binary(3))})
    parquet("bad-utf8", {"b": [b"\xff"]})
    parquet("bad-year", {"t": pa.array([2**62], pa.timestamp("ms"))})
    parquet("bad-twice", {"a.b": [1], "a": [{"b": 1}]})
    parquet("bad-no-columns", {})
    file = open("parquet/pyarrow-snappy.parquet", "rb").read()
    footer = struct.unpack("<I", file[-8:-4])[0]

    def bad(name, content):
        open(f"parquet/bad-{name}.parquet", "wb").write(content)

    bad("empty", b"")
    bad("short", b"PAR1PAR1")
    bad("magic", b"CSV1" + file[4:])
    bad("encrypted", file[:-4] + b"PARE")
    bad("truncated", file[:-20])
    bad("footer-too-long", file[:-8] + struct.pack("<I", len(file)) + b"PAR1")
    bad("footer-cut", file[:-8] + struct.pack("<I", footer // 2) + b"PAR1")
    bad("chunk-outside", file[:4] + file[-8 - footer:])
    zeros = bytearray(file)
    zeros[4:40] = bytes(36)
    bad("page-header", bytes(zeros))
    # A schema in which every element has one child, 600 deep: {1: 1, 2: [{4: "a", 5: 1}, ..]}.
    element = bytes([0x48, 1, ord("a"), 0x15, 2, 0])
    deep = bytes([0x15, 2, 0x19, 0xFC]) + bytes([0xD8, 0x04]) + element * 600 + bytes([0])
    bad("deep", b"PAR1" + deep + struct.pack("<I", len(deep)) + b"PAR1")
    bomb()
    by_hand()


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def by_hand():
    """Files of one column `a` that count more than they hold, for which the Parquet reader makes room."""
    most = 2**31 - 1

    def struct_of(fields):
        """Thrift's compact protocol: a number is an i64, bytes are text, a list is one of structs, or
        empty and of numbers, (n,) is one of n structs that are not there."""
        out, last = b"", 0
        for field, value in fields.items():
            kind, value = {
                int: lambda v: (6, varint(2 * v)),
                bytes: lambda v: (8, varint(len(v)) + v),
                list: lambda v: (9, bytes([16 * len(v) + (12 if v else 5)]) + b"".join(map(struct_of, v))),
                tuple: lambda v: (9, b"\xfc" + varint(*v)),
                dict: lambda v: (12, struct_of(v)),
            }[type(value)](value)
            out, last = out + bytes([16 * (field - last) + kind]) + value, field
        return out + b"\0"

    def page(count, data, encoding=0, dictionary=False, unpacked=None):
        of_kind = {7: {1: count, 2: encoding}} if dictionary else {5: {1: count, 2: encoding, 3: 3, 4: 3}}
        return struct_of({1: 2 * dictionary, 2: unpacked or len(data), 3: len(data), **of_kind}) + data

    def write(name, kind, rows, data, dictionary=b"", repetition=0, codec=0, children=1, groups=None):
        body = b"PAR1" + dictionary + data
        size = len(dictionary + data)
        column = {1: kind, 2: [], 3: [], 4: codec, 5: rows, 6: size, 7: size, 9: 4 + len(dictionary)}
        column.update({11: 4} if dictionary else {})
        schema = [{4: b"r", 5: children}, {1: kind, 3: repetition, 4: b"a"}]
        groups = groups or [{1: [{2: 0, 3: column}], 2: size, 3: rows}]
        footer = struct_of({1: 1, 2: schema, 3: rows, 4: groups})
        open(f"parquet/bad-{name}.parquet", "wb").write(body + footer + struct.pack("<I", len(footer)) + b"PAR1")

    def run(count, value):
        return varint(2 * count) + bytes([value])

    def levels(*runs):
        return struct.pack("<I", len(b"".join(runs))) + b"".join(runs)

    def lengths(count, first, steps=()):
        """Blocks of one miniblock: the first with these steps and a width of 32 bits, the others of no steps."""
        packed = b"".join(struct.pack("<I", step) for step in steps)
        blocks = b"\0\x20" + packed + bytes(4 * (128 - len(steps))) if steps else b"\0\0"
        return varint(128) + varint(1) + varint(count) + varint(2 * first) + blocks + b"\0\0" * (count // 128)

    number, text = 2, 6
    three = struct.pack("<3q", 1, 2, 3)
    write("children", number, 3, page(3, three), children=most)
    write("groups", number, 3, page(3, three), groups=(most,))
    indices = bytes([1]) + run(3, 0)
    for name, count in ("dictionary", most), ("dictionary-short", 2**20):
        write(name, text, 3, page(3, indices, 8), page(count, b"\1\0\0\0x", dictionary=True))
    n = 10**9
    entries = levels(run(1, 0), run(n - 1, 1)) + levels(run(n, 1)) + bytes([1]) + run(n, 0)
    write("list", number, 1, page(n, entries, 8), page(1, three[:8], dictionary=True), repetition=2)
    write("lengths", text, 3, page(3, varint(128) + varint(1) + varint(2**40) + b"\0\0\0", 6))
    # A text of 1 MiB, 8,000 times: the first shares nothing, the others all.
    n, size = 8000, 2**20
    shared = lengths(n, 0, [size]) + lengths(n, size, [2**32 - size]) + b"x" * size
    write("shared", text, n, page(n, gzip.compress(shared, mtime=0), 7, unpacked=len(shared)), codec=2)


def bomb():
    """A page of a few bytes that says that it becomes 2 GB."""
    parquet("bad-bomb", {"a": pa.array([1, 2, 3], pa.int64())}, use_dictionary=False, compression="snappy",
            write_statistics=False)
    path = "parquet/bad-bomb.parquet"
    file = open(path, "rb").read()

    # The header of the page begins with {1: 0, 2: unpacked, 3: packed, .., both sizes in one byte: the first takes five
    # bytes now, and the page gives four of its own for them, so that the chunk stays as long as it was.
    assert file[4:7] == b"\x15\x00\x15" and file[7] < 128 and file[8] == 0x15 and file[9] < 128, file[4:12]
    longer = b"\x15\x00\x15" + varint(2 * (2**31 - 1)) + bytes([0x15, file[9] - 2 * 4])
    footer = len(file) - 8 - struct.unpack("<I", file[-8:-4])[0]
    open(path, "wb").write(file[:4] + longer + file[10:footer - 4] + file[footer:])


def feedback(**changes):
    """What Open Bandit Pipeline's synthetic data sets return, small."""
    n, actions = 5, 3
    draw = np.random.RandomState(1)
    pi_b = draw.dirichlet(np.ones(actions), n)[:, :, None]
    action = np.array([0, 2, 1, 1, 0])
    all_of_it = dict(
        n_rounds=n,
        n_actions=actions,
        context=draw.normal(size=(n, 2)),
        action_context=np.eye(actions, dtype=int),
        action=action,
        position=None,
        reward=np.array([1, 0, 0, 1, 0]),
        expected_reward=draw.uniform(size=(n, actions)),
        pi_b=pi_b,
        pscore=pi_b[np.arange(n), action, 0],
    )
    return {**all_of_it, **changes}


def obp(name, save=np.savez, **changes):
    arrays = {key: value for key, value in feedback(**changes).items() if not isinstance(value, str)}
    save(f"obp/{name}.npz", **arrays)


def of_two_positions():
    lists = np.random.RandomState(2).dirichlet(np.ones(3), (5, 2)).transpose(0, 2, 1)
    return dict(pi_b=np.ascontiguousarray(lists), action_dist=np.ascontiguousarray(lists[:, ::-1]))


def good_obp():
    obp("synthetic")
    obp("positions", np.savez_compressed, position=np.ones(5, int), **of_two_positions())
    obp("candidates", action_context=np.array([[0.5, 1.0], [0.0, -2.0], [3.0, 1.0]]))
    obp("least", n_rounds="", n_actions="", action_context="", expected_reward="", pi_b=None, position=np.full(5, 7),
        reward=np.array([True, False, True, True, False]), pscore=np.full(5, 0.5, np.float32),
        action=np.array([0, 2, 1, 1, 0], ">u2"), context=np.array([[1], [2], [3], [4], [5]], np.int8))


def bad_obp():
    obp("bad-no-action", action="")
    obp("bad-action-none", action=None)
    obp("bad-action-objects", action=np.array([0, 1, 2, None, "a"], dtype=object))
    obp("bad-action-floats", action=np.array([0.0, 2.0, 1.0, 1.0, 0.0]))
    obp("bad-action-negative", action=np.array([0, -2, 1, 1, 0]))
    obp("bad-action-high", action=np.array([0, 2, 3, 1, 0]))
    obp("bad-action-shape", action=np.zeros((5, 1), int))
    obp("bad-n-rounds", n_rounds=6)
    obp("bad-n-actions", n_actions=4)
    obp("bad-n-actions-shape", n_actions=np.array([3]))
    obp("bad-pscore-none", pscore=None)
    obp("bad-pscore-short", pscore=np.ones(4))
    obp("bad-reward-text", reward=np.array(list("abcde")))
    obp("bad-context-flat", context=np.ones(5))
    obp("good-context-fortran", context=np.asfortranarray(np.ones((5, 2)) * [1, 2]))
    obp("bad-context-large", context=np.full((5, 2), 1e300))
    obp("bad-context-complex", context=np.ones((5, 2), complex))
    obp("bad-action-context-short", action_context=np.ones((2, 2)))
    obp("bad-action-context-nan", action_context=np.array([[1.0], [np.nan], [2.0]]))
    obp("bad-position-high", position=np.ones(5, int))
    obp("bad-positions-several", position=np.array([0, 1, 0, 1, 1]), **of_two_positions())
    obp("bad-positions-without-lists", position=np.array([2, 2, 0, 2, 2]), pi_b=None)
    obp("bad-positions-unknown", pi_b=np.full((5, 3, 2), 1 / 3))
    obp("bad-pi-b-flat", pi_b=np.full((5, 3), 1 / 3))
    obp("bad-pi-b-objects", pi_b=np.array([None] * 5, dtype=object))
    file = open("obp/synthetic.npz", "rb").read()
    open("obp/bad-truncated.npz", "wb").write(file[:-30])
    open("obp/bad-empty.npz", "wb").write(b"")
    open("obp/bad-text.npz", "wb").write(b"action,reward\n0,1\n")
    # One bit of the last context: numpy stores arrays as they are.
    place = file.index(feedback()["context"].tobytes()) + 79
    open("obp/bad-sum.npz", "wb").write(file[:place] + bytes([file[place] ^ 1]) + file[place + 1:])


if __name__ == "__main__":
    good_parquet()
    bad_parquet()
    good_obp()
    bad_obp()
