"""The rivals' side of the comparisons: reads its data, then does its work once for every line `go`, as ours does."""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

import paper


def load(folder):
    """The arrays of a folder, as tensors."""
    folder = Path(folder)
    sizes = json.loads((folder / "sizes.json").read_text())
    types = {".f32": np.float32, ".f64": np.float64, ".u32": np.uint32}
    arrays = {file.stem: np.fromfile(file, types[file.suffix]) for file in folder.iterdir() if file.suffix in types}
    for name in ["x", "test_x"]:
        arrays[name] = arrays[name].reshape(-1, sizes["features"])
    arrays["mean"] = arrays["mean"].reshape(-1, sizes["actions"])
    single = {np.dtype(np.float64): np.float32, np.dtype(np.uint32): np.int64}
    return {name: torch.from_numpy(a.astype(single.get(a.dtype, a.dtype))) for name, a in arrays.items()}


def warm(version, data):
    """A step on little data: what PyTorch loads when it is first used is not what we measure."""
    logs = paper.Logs(data["x"][:8], torch.ones(8), data["action"][:8], torch.ones(8))
    paper.epoch(version(data["mean"], torch.zeros(())), logs, data["mean"], 8)


def epoch(data, options):
    version = paper.VERSIONS[options.version]
    warm(version, data)
    logs = paper.Logs(
        data["x"], data["x"].norm(dim=1), data["action"], paper.weights(data["propensity"], data["cost"])
    )

    def work(_):
        model = version(data["mean"], torch.zeros(()))
        paper.epoch(model, logs, data["mean"], options.batch)
        return {}

    return work


def run(data, options):
    version = paper.VERSIONS[options.version]
    warm(version, data)

    def work(_):
        mean, sigma, accuracy = paper.run(version, data, options.rounds)
        mean.numpy().astype("<f8").tofile(options.out)
        return {"sigma": float(sigma), "accuracy": float(accuracy)}

    return work


def propensities(data, options):
    x = data["x"][: options.contexts]

    def work(line):
        scores = x @ data["mean"] / x.norm(dim=1, keepdim=True)
        p = paper.WAYS[options.way](scores, 10_000)
        if line == "values":
            p.numpy().astype("<f8").tofile(options.out)
        return {"contexts": len(x)}

    return work


WORKS = {"epoch": epoch, "run": run, "propensities": propensities}


def main():
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("work", choices=WORKS)
    flags.add_argument("--data", required=True)
    flags.add_argument("--threads", type=int, default=1)
    flags.add_argument("--batch", type=int, default=128)
    flags.add_argument("--rounds", type=int, default=10)
    flags.add_argument("--contexts", type=int, default=4)
    flags.add_argument("--version", choices=paper.VERSIONS)
    flags.add_argument("--way", choices=paper.WAYS)
    flags.add_argument("--out")
    options = flags.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    work = WORKS[options.work](load(options.data), options)

    def say(answer):
        print(json.dumps(answer), flush=True)

    say({"ready": True})
    for line in sys.stdin:
        clock = time.perf_counter()
        answer = work(line.strip())
        say({"seconds": time.perf_counter() - clock, **answer})


if __name__ == "__main__":
    main()
