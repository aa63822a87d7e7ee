"""`make bench-rivals`: Surefoot against the paper's way of computing, both sides in turn, in one run."""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

import paper
import worker

ROOT = Path(__file__).resolve().parents[2]
RIVALS = Path(__file__).resolve().parent
VERSIONS = {"published": "PyTorch, as published", "tuned": "PyTorch, rewritten"}
WAYS = {"products": "Monte Carlo, product of cdfs", "counting": "Monte Carlo, counting"}


def command(*arguments):
    """What a program says; if it fails, so do we."""
    return subprocess.run([str(a) for a in arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


class Worker:
    """A process that works when it is told to."""

    def __init__(self, *arguments):
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process = subprocess.Popen([str(a) for a in arguments], **pipes)
        self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"a worker ended early: {' '.join(self.process.args)}")
        return json.loads(line)

    def ask(self, line="go"):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Bench:
    def __init__(self, options):
        self.quick, self.threads, self.mnist = options.quick, options.threads, options.mnist
        self.data, self.results = ROOT / "bench/data", options.out
        self.rows, self.notes = [], []
        self.data.mkdir(exist_ok=True)
        self.results.mkdir(exist_ok=True, parents=True)
        command("cargo", "build", "--release", "--locked", "--package", "surefoot-bench")
        target = json.loads(command("cargo", "metadata", "--format-version=1", "--no-deps"))["target_directory"]
        self.binary = Path(target) / "release/surefoot-bench"

    def ours(self, *arguments):
        return Worker(self.binary, *arguments)

    def theirs(self, *arguments):
        return Worker(sys.executable, RIVALS / "worker.py", *arguments)

    def compare(self, work, threads, ours, rivals, times, target, chart=True):
        """Times our worker and the rivals in turn. Only the first rival, the published way, has the target. Returns the
        last answers, by name."""
        workers = {"ours": ours, **rivals}
        answers = {name: [] for name in workers}
        for _ in range(2 if self.quick else times):
            for name, w in workers.items():
                answers[name].append(w.ask())
        for w in workers.values():
            w.close()
        # Of propensities, the sides do as many as they can in a reasonable time: the time is that of one context.
        seconds = {name: [a["seconds"] / a.get("contexts", 1) for a in all] for name, all in answers.items()}
        middle = {name: statistics.median(all) for name, all in seconds.items()}
        for i, name in enumerate(rivals):
            row = dict(work=work, threads=threads, rival=name, ours=middle["ours"], theirs=middle[name])
            row |= dict(ratio=middle[name] / middle["ours"], quickest=min(seconds[name]) / min(seconds["ours"]))
            row |= dict(target=target if i == 0 else None, chart=chart, times=[seconds["ours"], seconds[name]])
            self.rows.append(row)
            print(f"{work}, {plural(threads)}, {name}: {row['ratio']:.1f} x", file=sys.stderr)
        return {name: all[-1] for name, all in answers.items()}

    def collect(self, name, data):
        """The folder that all workers read."""
        folder = self.data / name
        command(self.binary, "collect", "--data", data, "--out", folder)
        arrays = worker.load(folder)
        x, action, label, cost = (arrays[column] for column in ["x", "action", "label", "cost"])
        n, p = x.shape
        self.notes.append(
            f"{name}: {n:,} x {p}, {share(x != 0)} non-zero, K = {1 + label.max()}. The first policy takes the best action in "
            f"{share(action == label)} of the records, and {share(cost == 0)} of them cost nothing: we and the rewritten rival "
            "skip those, the published way does not."
        )
        return folder

    def epochs(self, name, folder, target):
        for batch in [128, 1024]:
            for threads in self.threads:
                flags = ["epoch", "--data", folder, "--threads", threads, "--batch", batch]
                rivals = {title: self.theirs(*flags, "--version", version) for version, title in VERSIONS.items()}
                work = f"epoch, {name}, batch {batch:,}"
                self.compare(work, threads, self.ours(*flags), rivals, 5, target, chart=batch == 128)

    def runs(self, name, data, folder):
        rounds = 2 if self.quick else 10
        for threads in self.threads:
            means = {title: self.data / f"{version}.f64" for version, title in VERSIONS.items()}
            rivals = {
                title: self.theirs(
                    "run", "--data", folder, "--threads", threads, "--version", version, "--out", means[title],
                    "--rounds", rounds,
                )
                for version, title in VERSIONS.items()
            }
            ours = self.ours("run", "--data", data, "--threads", threads, "--rounds", rounds)
            answers = self.compare(f"whole run, {name}", threads, ours, rivals, 2, 60)
            risks = [f"ours {answers['ours']['risk']:.4f}"]
            for title, mean in means.items():
                sigma = answers[title]["sigma"]
                found = command(self.binary, "risk", "--data", folder, "--mean", mean, "--sigma", sigma)
                risks.append(f"{title} {json.loads(found)['risk']:.4f}")
            self.notes.append(f"Whole run, {plural(threads)}, exact risk at its end (-0.8 is best): {'; '.join(risks)}.")

    def propensities(self, folder):
        contexts = {"products": 2, "counting": 32}
        out = {name: self.data / f"{name}.f64" for name in ["ours", *WAYS]}
        for threads in self.threads:
            flags = ["propensities", "--data", folder, "--threads", threads]
            ours = self.ours(*flags, "--contexts", 2048, "--out", out["ours"])
            rivals = {
                title: self.theirs(*flags, "--contexts", contexts[way], "--way", way, "--out", out[way])
                for way, title in WAYS.items()
            }
            for w in [ours, *rivals.values()]:
                w.ask("values")
            self.compare("propensities of 100 actions", threads, ours, rivals, 5, 5000)
        data = worker.load(folder)
        x = data["x"][:2048].double()
        mean = torch.from_numpy(np.fromfile(folder / "mean.f64").reshape(data["mean"].shape))
        truth = paper.exact(x @ mean / x.norm(dim=1, keepdim=True)).numpy()
        errors = []
        for name, file in out.items():
            p = np.fromfile(file).reshape(-1, truth.shape[1])
            errors.append(f"{WAYS.get(name, name)} {np.abs(p - truth[: len(p)]).max():.1e}")
        self.notes.append(f"Propensities, largest error against a fine trapezoid rule: {'; '.join(errors)}.")

    def write(self):
        machine = json.loads(command(self.binary, "machine"))
        machine["load"] = ", ".join(f"{load:.1f}" for load in os.getloadavg()) + " at the end"
        machine |= {"torch": torch.__version__, "numpy": np.__version__, "python": sys.version.split()[0]}
        report = {"machine": machine, "notes": self.notes, "rows": self.rows}
        (self.results / "rivals.json").write_text(json.dumps(report, indent=1) + "\n")
        lines = ["# Surefoot against the paper's way of computing", ""]
        lines += ["Ratios are of medians; where that of the quickest times is far from it, the machine was busy.", ""]
        lines += ["| work | rival | threads | ours | theirs | ratio | of the quickest | aim |", "| --- " * 8 + "|"]
        for r in self.rows:
            aim = f"{r['target']:,}" if r["target"] else ""
            ratios = [f"**{r['ratio']:,.1f}**", f"{r['quickest']:,.1f}"]
            cells = [r["work"], r["rival"], r["threads"], time(r["ours"]), time(r["theirs"]), *ratios, aim]
            lines.append(f"| {' | '.join(map(str, cells))} |")
        lines += ["", *(f"- {note}" for note in self.notes), "", *(f"- {k}: {v}" for k, v in machine.items())]
        (self.results / "rivals.md").write_text("\n".join(lines) + "\n")
        print("\n".join(lines))


def plural(threads):
    return "1 thread" if threads == 1 else f"{threads} threads"


def share(which):
    return f"{which.float().mean():.0%}"


def time(seconds):
    for unit, factor in [("s", 1), ("ms", 1e3), ("µs", 1e6)]:
        if seconds * factor >= 1:
            break
    return f"{seconds * factor:.3g} {unit}"


def digits(rng, n):
    """As many pixels as MNIST has, as many of them lit; a class is which ones are lit more often."""
    often = 0.21 * (1 + rng.uniform(-0.5, 0.5, (10, 784)))
    y = rng.integers(10, size=n)
    x = rng.integers(1, 256, (n, 784), dtype=np.uint8)
    x[rng.random((n, 784), dtype=np.float32) >= often[y]] = 0
    return x, y


def features(rng, n):
    """As many features and classes as a network's last layer gives for CIFAR-100; a class is a direction."""
    centres = 0.2 * rng.standard_normal((100, 500), dtype=np.float32)
    y = rng.integers(100, size=n)
    return centres[y] + rng.standard_normal((n, 500), dtype=np.float32), y


def make(file, kind, rows):
    """A data set of which 57,000 records are left to learn from, once a twentieth is spent on the first policy."""
    train, test = rows
    x, y = kind(np.random.default_rng(1), train + test)
    np.savez(file, x_train=x[:train], y_train=y[:train], x_test=x[train:], y_test=y[train:])
    return file


def absolute(path):
    """Programs run in the root of the repository, whoever calls."""
    return Path(path).resolve()


def main():
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--mnist", type=absolute, help="a folder with MNIST's four idx files; otherwise random data of its shape")
    flags.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    flags.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    flags.add_argument("--only", choices=["epochs", "runs", "propensities"], nargs="+", help="leave out the rest")
    flags.add_argument("--out", type=absolute, default=ROOT / "bench/results")
    options = flags.parse_args()
    only = options.only or ["epochs", "runs", "propensities"]
    bench = Bench(options)
    rows = (4000, 1000) if options.quick else (60_000, 10_000)
    small = "MNIST" if options.mnist else "MNIST-sized"
    data = options.mnist or make(bench.data / "mnist.npz", digits, rows)
    mnist = bench.collect(small, data)
    cifar = bench.collect("CIFAR-100-sized", make(bench.data / "cifar.npz", features, rows))
    if "epochs" in only:
        bench.epochs(small, mnist, 60)
        bench.epochs("CIFAR-100-sized", cifar, 120)
    if "runs" in only:
        bench.runs(small, data, mnist)
    if "propensities" in only:
        bench.propensities(cifar)
    bench.write()
    if options.out == ROOT / "bench/results":
        command(bench.binary, "chart")


if __name__ == "__main__":
    main()
