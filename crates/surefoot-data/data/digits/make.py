"""Turns UCI's optical digits (optdigits.dat: 5,620 lines of 64 values and a label) into digits.npz.

    python3 make.py path/to/optdigits.dat

Needs nothing but Python: an .npy header is one line, and writing it here keeps the bytes the same whatever numpy is
installed. The compressed bytes still depend on Python's zlib; the arrays do not.
"""

import hashlib
import struct
import sys
import zipfile
from pathlib import Path

TRAIN, TEST, PIXELS = 3_823, 1_797, 64  # the lines of UCI's optdigits.tra, then those of its optdigits.tes
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can hold


def npy(shape, data):
    """An array of unsigned bytes in numpy's format 1.0, whose header ends at a multiple of 64 bytes."""
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(data)


def main(source):
    rows = [[int(v) for v in line.split(",")] for line in Path(source).read_text().split()]
    assert len(rows) == TRAIN + TEST, f"{TRAIN + TEST} lines expected, {len(rows)} found"
    assert all(len(row) == PIXELS + 1 for row in rows)
    assert all(0 <= v <= 16 for row in rows for v in row[:PIXELS]) and all(0 <= row[PIXELS] <= 9 for row in rows)

    target = Path(__file__).with_name("digits.npz")
    with zipfile.ZipFile(target, "w") as archive:
        for split, part in [("train", rows[:TRAIN]), ("test", rows[TRAIN:])]:
            pixels = npy((len(part), PIXELS), [v for row in part for v in row[:PIXELS]])
            labels = npy((len(part),), [row[PIXELS] for row in part])
            for name, data in [(f"x_{split}.npy", pixels), (f"y_{split}.npy", labels)]:
                entry = zipfile.ZipInfo(name, EPOCH)
                entry.create_system = 3  # Unix, wherever this runs
                archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)
    print(hashlib.sha256(target.read_bytes()).hexdigest(), target.name)


if __name__ == "__main__":
    main(sys.argv[1])
