"""Surefoot against Vowpal Wabbit's ADF on logs whose candidates have features, from the same files.

Users and articles have 8 features; a request offers 6 of 200 articles; rewards are logistic in their products; a softmax
logged. Writes bench/results/candidates.md. Values are exact over requests that nothing was learned from.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import speed
import vowpalwabbit

ROOT = Path(__file__).resolve().parents[2]
TYPES = ["mtr", "dr", "ips"]
FEATURES, ARTICLES, OFFERED, TEST = 8, 200, 6, 4000


class World:
    """Requests with candidates, and the expected reward of each."""

    def __init__(self, seed, replaced_after=0):
        self.rng = np.random.default_rng(seed)
        self.replaced_after = replaced_after
        self.taste = self.rng.normal(size=(FEATURES, FEATURES)) / FEATURES * 1.5
        self.popularity = 0.3 * self.rng.normal(size=FEATURES)
        # What the logger knows: the taste, badly.
        self.guess = 0.5 * self.taste + 0.1 * self.rng.normal(size=self.taste.shape)
        self.catalogue = self.new_catalogue()

    def new_catalogue(self):
        return self.rng.normal(size=(ARTICLES, FEATURES))

    def requests(self, n):
        users = self.rng.normal(size=(n, FEATURES))
        articles = np.empty((n, OFFERED, FEATURES))
        for i in range(n):
            if self.replaced_after and i % self.replaced_after == 0:
                self.catalogue = self.new_catalogue()
            articles[i] = self.catalogue[self.rng.choice(ARTICLES, OFFERED, replace=False)]
        logits = articles @ self.popularity + np.einsum("nd,de,nke->nk", users, self.taste, articles)
        guess = np.einsum("nd,de,nke->nk", users, self.guess, articles)
        logger = np.exp(guess - guess.max(1, keepdims=True))
        return users, articles, 1 / (1 + np.exp(-logits)), logger / logger.sum(1, keepdims=True)


def numbers(prefix, values):
    return " ".join(f"{prefix}{j}:{v:.6g}" for j, v in enumerate(values))


def write(path, users, articles, logged=None):
    """Vowpal Wabbit's text, with the cost and the propensity of what was chosen."""
    with open(path, "w") as out:
        for i, (user, offered) in enumerate(zip(users, articles)):
            print(f"shared 'e{i} |user {numbers('u', user)}", file=out)
            for b, article in enumerate(offered):
                label = ""
                if logged is not None and logged[0][i] == b:
                    label = f"0:{-logged[2][i]:g}:{logged[1][i]:.9g} "
                print(f"{label}|article {numbers('a', article)}", file=out)
            print(file=out)


def used():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def surefoot(binary, train, test, rewards, folder, flags=()):
    policy = folder / "policy.safetensors"
    before = used()
    said = subprocess.run(
        [binary, "learn", train, "--out", policy, "--json", "--threads", "1", *flags],
        check=True,
        capture_output=True,
        text=True,
    )
    seconds = used() - before
    learned = json.loads(said.stdout)
    lines = subprocess.run(
        [binary, "score", policy, test, "--probabilities", "--json"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    p = np.array([json.loads(line)["probabilities"] for line in lines])
    value = float((p * rewards).sum(1).mean())
    greedy = float(rewards[np.arange(len(rewards)), p.argmax(1)].mean())
    return {"value": value, "greedy": greedy, "certified": learned.get("at_least"), "seconds": seconds}


def vw(kind, train, test, rewards, folder):
    """One pass over the file by the library itself, then predictions."""
    model = folder / "vw.model"
    script = "import sys, vowpalwabbit; w = vowpalwabbit.Workspace(sys.argv[1]); w.finish()"
    flags = f"--cb_adf --cb_type {kind} -q ua -d {train} -f {model} --quiet"
    before = used()
    subprocess.run([sys.executable, "-c", script, flags], check=True)
    start = used() - before
    before = used()
    subprocess.run(
        [sys.executable, "-c", "import vowpalwabbit; vowpalwabbit.Workspace('--quiet').finish()"], check=True
    )
    seconds = start - (used() - before)
    loaded = vowpalwabbit.Workspace(f"-i {model} -t --quiet")
    blocks = Path(test).read_text().strip().split("\n\n")
    chosen = [int(np.argmin(loaded.predict(block.split("\n")))) for block in blocks]
    loaded.finish()
    value = float(rewards[np.arange(len(rewards)), chosen].mean())
    return {"value": value, "greedy": value, "certified": None, "seconds": seconds}


def compare(binary, seeds, records, replaced_after):
    rows = {}
    for seed in seeds:
        with tempfile.TemporaryDirectory() as name:
            folder, world = Path(name), World(seed, replaced_after)
            users, articles, rewards, p = world.requests(records)
            chosen = np.array([world.rng.choice(OFFERED, p=row) for row in p])
            at = np.arange(records), chosen
            reward = (world.rng.random(records) < rewards[at]).astype(float)
            write(folder / "train.vw", users, articles, (chosen, p[at], reward))
            users, articles, truth, logger = world.requests(TEST)
            write(folder / "test.vw", users, articles)
            found = {
                "logger": {"value": float((logger * truth).sum(1).mean())},
                "best possible": {"value": float(truth.max(1).mean())},
                "Surefoot": surefoot(binary, folder / "train.vw", folder / "test.vw", truth, folder),
            }
            for kind in TYPES:
                found[f"VW ADF, {kind}"] = vw(kind, folder / "train.vw", folder / "test.vw", truth, folder)
        for method, row in found.items():
            rows.setdefault(method, []).append(row)
            print(seed, replaced_after, method, {k: v and round(v, 4) for k, v in row.items()}, flush=True)
    return rows


def mean(rows, key, digits=3):
    values = [row[key] for row in rows if row.get(key) is not None]
    return f"{np.mean(values):.{digits}f}" if values else ""


def table(rows):
    order = ["logger", *(m for m in rows if m.startswith("VW")), "Surefoot", "best possible"]
    lines = [
        "| method | value | greedy | certified | below the truth | CPU s |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for method in order:
        found = rows[method]
        held = [row["certified"] <= row["value"] for row in found if row.get("certified") is not None]
        below = f"{sum(held)} of {len(held)}" if held else ""
        cells = [
            mean(found, "value"),
            mean(found, "greedy"),
            mean(found, "certified"),
            below,
            mean(found, "seconds", 1),
        ]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def values(binary, seeds, records):
    """The part of the page about what is learned."""
    fixed = compare(binary, seeds, records, 0)
    changing = compare(binary, seeds, records, 2000)
    share = np.mean([row["value"] for row in changing["Surefoot"]]) / np.mean(
        [row["value"] for row in fixed["Surefoot"]]
    )
    return f"""# Candidates with features

Written by `make bench-candidates`. Users and articles have {FEATURES} features, a request offers {OFFERED} of {ARTICLES}
articles, rewards are logistic in their products, and a softmax logged {records:,} records. All methods read the same
file in Vowpal Wabbit's text. *Value* is the expected reward over {TEST:,} new requests, *greedy* that of the most probable
candidate. *Certified* is proven with confidence 95 %. Means over {len(seeds)} seeds; processor seconds of learning, on one
thread, reading included. Vowpal Wabbit {vowpalwabbit.__version__}, `--cb_adf -q ua`, one pass.

## A fixed catalogue

{table(fixed)}

## All articles are replaced every 2,000 requests

The articles of the new requests were never seen. Surefoot brings {100 * share:.0f} % of its value with a fixed catalogue.

{table(changing)}

{time.strftime("%Y-%m-%d")}.

"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--surefoot", type=Path, default=ROOT / "target/release/surefoot")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--many", type=int, default=1_000_000, help="records of the comparison of times; 0 for none")
    parser.add_argument("--only-times", action="store_true", help="keep the values that the page has")
    parser.add_argument("--quick", action="store_true", help="small sizes, for a test of the commands")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results/candidates.md")
    args = parser.parse_args()
    if args.quick:
        args.seeds, args.records, args.many, args.out = 1, 2000, 5000, ROOT / "bench/data/candidates-quick.md"
    if args.only_times:
        text = args.out.read_text().split(speed.TITLE)[0]
    else:
        text = values(args.surefoot, range(1, args.seeds + 1), args.records)
    if args.many:
        with tempfile.TemporaryDirectory() as folder:
            text += speed.section(args.surefoot, args.surefoot.with_name("surefoot-bench"), args.many, folder)
    args.out.parent.mkdir(exist_ok=True)
    args.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
