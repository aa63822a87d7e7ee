"""Surefoot's side: the binary, as anybody would call it."""

import hashlib
import json
import tempfile
from pathlib import Path

import meter
import numpy as np
import pyarrow
import pyarrow.parquet
from world import guesses

PAPER = ["--posterior", "isotropic"]
SHAPED = ["--algorithm", "seq-adj-ls", "--posterior", "shaped"]
# The flags of `surefoot simulate` for each learner.
MEMBERS = {
    "Surefoot, portfolio": ["--algorithm", "portfolio"],
    "Surefoot, thompson": ["--algorithm", "thompson"],
    "Surefoot, thompson, kernel features": ["--algorithm", "thompson", "--features", "kernel:500"],
    "Surefoot, SeqAdjLS shaped": SHAPED,
    "Surefoot, SeqAdjLS shaped, kernel features": [*SHAPED, "--features", "kernel:500"],
    "SeqAdjLS, as in the paper": ["--algorithm", "seq-adj-ls", *PAPER],
    "SeqLS, as in the paper": ["--algorithm", "seq-ls", *PAPER],
    "SCRM": ["--algorithm", "scrm", *PAPER],
}
# The flags of `surefoot learn`.
OFFLINE = {
    "Surefoot, portfolio": ["--algorithm", "portfolio"],
    "Surefoot, thompson": ["--algorithm", "thompson"],
    "Surefoot, SeqAdjLS shaped": SHAPED,
}


class Refused(Exception):
    """The binary refuses a command; it says why."""


class Surefoot:
    def __init__(self, binary):
        self.binary = str(binary)
        self.fingerprint = hashlib.sha256(Path(binary).read_bytes()).hexdigest()[:12]

    def run(self, *arguments):
        """What a command prints as JSON, its processor time and its peak memory."""
        done, cpu, peak = meter.run([self.binary, *(str(argument) for argument in arguments)])
        if done.returncode != 0:
            raise Refused(
                done.stderr.strip().splitlines()[0] if done.stderr.strip() else f"exit code {done.returncode}"
            )
        return json.loads(done.stdout) if done.stdout.startswith("{") else None, cpu, peak

    def simulate(self, world, flags):
        """A run in the world. Fields that an older binary does not write stay empty."""
        alpha = {"uniform": 0, "weak": 0.2}[world.start]
        common = [
            "--dataset",
            world.data.path,
            "--alpha",
            alpha,
            "--seed",
            world.seed,
            "--certify",
            "--json",
            "--quiet",
        ]
        found, cpu, peak = self.run("simulate", *common, "--threads", 1, "--interactions", world.interactions, *flags)
        rounds = found["rounds"]
        last = rounds[-1]
        final = found.get("hand_over") or last.get("hand_over") or last
        reward = last.get("reward")
        if reward is None:
            reward = -sum(r["n"] * r["mean_cost"] for r in rounds) / sum(r["n"] for r in rounds)
        bounds = [(r["true_risk"], upper(r.get("ladder"))) for r in rounds]
        bounds = [(truth, bound) for truth, bound in bounds if bound is not None]
        certified = upper(final.get("certified")) if "certified" in final else upper(last.get("ladder"))
        handed = -0.2 - 0.6 * final["accuracy"]
        violations = sum(bound < truth for truth, bound in bounds)
        if final is not last and certified is not None:
            bounds.append((handed, certified))
            violations += certified < handed
        return {
            "value": final["accuracy"],
            "greedy": final.get("greedy_accuracy"),
            "reward": reward,
            "certified": None if certified is None else guesses(-certified),
            "violations": int(violations),
            "statements": len(bounds),
            "cpu": cpu,
            "mb": peak,
            "rounds": len(rounds),
        }

    def learn(self, world, log, flags, scale):
        """`surefoot learn` on a log, and the value of the saved policy."""
        x, action, propensity, reward = log
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            columns = {"action": action, "pscore": propensity, "reward": reward}
            write(folder / "log.parquet", x, columns)
            write(folder / "test.parquet", world.data.test, {"event_id": np.arange(len(world.data.test)).astype(str)})
            policy = folder / "next.safetensors"
            common = ["--actions", world.actions, "--out", policy, "--seed", world.seed, "--threads", 1]
            found, cpu, peak = self.run("learn", folder / "log.parquet", *common, "--json", "--quiet", *flags)
            scores = folder / "scores.parquet"
            self.run("score", policy, folder / "test.parquet", "--probabilities", "--out", scores)
            p = pyarrow.parquet.read_table(scores).column("probabilities").combine_chunks()
            p = p.flatten().to_numpy().reshape(-1, world.actions)
        value, greedy = world.truth(p)
        proven = found.get("at_least")
        proven = None if proven is None else scale(proven)
        violations = int(proven is not None and proven > value)
        return {
            "value": value,
            "greedy": greedy,
            "reward": None,
            "certified": proven,
            "violations": violations,
            "statements": int(proven is not None),
            "cpu": cpu,
            "mb": peak,
        }

    def certify(self, action, propensity, reward, p):
        """The proven mean reward of a policy that was fixed before the records, with confidence 95 %."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.parquet"
            columns = {"action": action, "pscore": propensity, "reward": reward}
            # Probabilities must add up to 1.
            p = p / p.sum(1, keepdims=True)
            write(path, np.empty((len(p), 0)), columns | {f"pi_{a}": p[:, a] for a in range(p.shape[1])})
            flags = ["--policy", "columns:pi_", "--actions", p.shape[1], "--json", "--quiet"]
            return self.run("select", path, *flags)[0]["candidates"][0]["at_least"]


def upper(statement):
    """The bound on the risk: a number, or the field of a certificate."""
    return statement["upper"] if isinstance(statement, dict) else statement


def write(path, x, columns):
    names = {f"x{i}": np.ascontiguousarray(x[:, i]) for i in range(x.shape[1])}
    pyarrow.parquet.write_table(pyarrow.table(columns | names), path)
