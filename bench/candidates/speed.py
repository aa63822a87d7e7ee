"""The time of learning with many hashed joint features, beside one pass of Vowpal Wabbit over the same file.

Users and articles have tokens, a request offers 10 articles, and the products of all tokens of the user with all tokens of an
article are hashed into 2^18 weights by both.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

OFFERED, TOKENS, USERS, ARTICLES = 10, 5, 2000, 2000
BITS, COLUMN_BITS = 18, 11
CHUNK = 10_000
TITLE = "## Time with"

VW = """
import resource, sys, time, vowpalwabbit
start = time.perf_counter()
vowpalwabbit.Workspace(sys.argv[1]).finish()
usage = resource.getrusage(resource.RUSAGE_SELF)
print(time.perf_counter() - start, usage.ru_utime + usage.ru_stime)
"""


def write(path, records, seed=1):
    """A log of a uniform policy, in Vowpal Wabbit's text. Rewards are logistic in the products of tokens."""
    rng = np.random.default_rng(seed)
    taste = rng.normal(size=(USERS, 4)) @ rng.normal(size=(4, ARTICLES)) / 4
    user_names = np.array([f"u{i}" for i in range(USERS)])
    article_names = np.array([f"a{i}" for i in range(ARTICLES)])
    with open(path, "w") as out:
        for start in range(0, records, CHUNK):
            n = min(CHUNK, records - start)
            users = rng.integers(USERS, size=(n, TOKENS))
            articles = rng.integers(ARTICLES, size=(n, OFFERED, TOKENS))
            chosen = rng.integers(OFFERED, size=n)
            of_chosen = articles[np.arange(n), chosen]
            logits = taste[users[:, :, None], of_chosen[:, None, :]].sum((1, 2)) / TOKENS - 0.5
            reward = rng.random(n) < 1 / (1 + np.exp(-logits))
            user_texts = [" ".join(row) for row in user_names[users].tolist()]
            for i, offered in enumerate(article_names[articles].tolist()):
                lines = [f"|article {' '.join(tokens)}" for tokens in offered]
                at = chosen[i]
                lines[at] = f"0:{-int(reward[i])}:{1 / OFFERED} {lines[at]}"
                out.write(f"shared |user {user_texts[i]}\n" + "\n".join(lines) + "\n\n")


def vw(path, flags=""):
    """Wall and processor seconds of one pass, without starting Python."""
    command = f"--cb_adf --cb_type mtr -q ua -b {BITS} -d {path} --quiet {flags}"
    said = subprocess.run([sys.executable, "-c", VW, command], check=True, capture_output=True, text=True).stdout
    wall, cpu = map(float, said.split())
    return {"wall": wall, "cpu": cpu}


def surefoot(binary, path, threads):
    """Processor seconds of reading, and of the passes of the reward model and of the search."""
    command = [binary, "candidates", path, "--hash-bits", str(COLUMN_BITS), "--cross-bits", str(BITS)]
    said = subprocess.run([*command, "--threads", str(threads)], check=True, capture_output=True, text=True).stdout
    return json.loads(said)


def whole(binary, path, folder, threads, flags=()):
    """Wall and processor seconds of the command that learns, with reading, choosing and certifying."""
    command = [binary, "learn", path, "--out", folder / "policy.safetensors", "--json", "--threads", str(threads)]
    command += ["--hash-bits", str(COLUMN_BITS), "--cross-bits", str(BITS), *flags]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": time.perf_counter() - start, "cpu": cpu}


def section(learner, bench, records, folder):
    """The section of the page."""
    path = Path(folder) / "many.vw"
    write(path, records)
    size = path.stat().st_size / 1e6
    pass_of_vw = vw(path)
    cached = vw(path, f"--cache_file {path}.cache --passes 2 -k")
    ours = surefoot(bench, path, 1)
    model = whole(learner, path, Path(folder), 1, ("--members", "linear"))
    again = vw(path)
    one = min(pass_of_vw["cpu"], again["cpu"])
    fit, search = ours["model"], ours["search"]
    rows = [
        ("Vowpal Wabbit, one pass over the text", f"{one:.1f}", "1", f"{one:.1f}", "1"),
        ("Surefoot reads the text", f"{ours['reading']:.1f}", "", "", f"{ours['reading'] / one:.2f}"),
        *(
            (
                name,
                f"{found['seconds']:.1f}",
                f"{found['passes']}",
                f"{found['seconds'] / found['passes']:.2f}",
                f"{found['seconds'] / found['passes'] / one:.2f}",
            )
            for name, found in (("reward model of joint features", fit), ("search of joint features", search))
        ),
        (
            "`learn --members linear`, with all that it reads and certifies",
            f"{model['cpu']:.1f}",
            "",
            "",
            f"{model['cpu'] / one:.2f}",
        ),
    ]
    lines = ["| | s | passes | s per pass | of a pass of Vowpal Wabbit |", "| --- | --- | --- | --- | --- |"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    table = "\n".join(lines)
    return f"""{TITLE} 2^{BITS} hashed joint features

{records:,} requests with {OFFERED} candidates each: {TOKENS} tokens of the user, {TOKENS} of every candidate, and all their
products, {TOKENS * TOKENS + TOKENS} joint features per candidate that are not 0. One file of {size:,.0f} MB in Vowpal Wabbit's
text; one thread; processor seconds (those of Vowpal Wabbit are the less of two runs, {pass_of_vw["cpu"]:.1f} and {again["cpu"]:.1f};
two passes with a cache file took {cached["cpu"]:.1f}). The reward model's passes are over the
chosen candidates, the search's over all candidates of the records with a reward.

{table}

{time.strftime("%Y-%m-%d")}.
"""
