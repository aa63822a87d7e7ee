"""Vowpal Wabbit. It decides and learns record by record, and explores by itself."""

import numpy as np
import vowpalwabbit
from world import Rival, draw


class Vw(Rival):
    """`flags` with `K` for the number of actions. With `adf`, every action is an example of its own: a name, crossed
    with the context. The cost of a record is 1 minus its reward: `--regcb` expects costs in [0, 1]."""

    online = True

    def __init__(self, flags):
        self.flags, self.adf = flags, "_adf" in flags
        self.explores = "explore" in flags

    def begin(self, x, actions, seed):
        super().begin(x, actions, seed)
        flags = self.flags.replace("K", str(actions))
        self.model = vowpalwabbit.Workspace(f"{flags} --random_seed {seed} --quiet")

    def text(self, x):
        """The features of a context, as Vowpal Wabbit reads them."""
        columns = np.flatnonzero(x)
        return " ".join(f"{column}:{value:.6g}" for column, value in zip(columns, x[columns]))

    def example(self, text, action=None, reward=0.0, propensity=1.0):
        label = "" if action is None else f"{1 - reward:g}:{propensity:.9g} "
        if not self.adf:
            return f"{'' if action is None else f'{action + 1}:{label}'}|x {text}"
        lines = [f"{f'0:{label}' if a == action else ''}|a {a}" for a in range(self.actions)]
        return [f"shared |x {text}", *lines]

    def predict(self, example):
        """The probabilities of all actions."""
        found = self.model.predict(example)
        if not self.explores:
            # An action, counted from 1; or a score per action, the lowest is best.
            best = found - 1 if isinstance(found, int) else int(np.argmin(found))
            return np.eye(self.actions)[best]
        p = np.array(found, dtype=float)
        return p / p.sum()

    def probabilities(self, x):
        return np.stack([self.predict(self.example(self.text(row))) for row in x])

    def learn(self, x, action, propensity, reward):
        for row, a, q, r in zip(x, action, propensity, reward):
            self.model.learn(self.example(self.text(row), a, r, q))

    def interact(self, x, reward_of):
        chosen = []
        for i, row in enumerate(x):
            text = self.text(row)
            p = self.predict(self.example(text))
            a = int(draw(p[None], self.rng)[0])
            r = float(reward_of(i, a))
            self.model.learn(self.example(text, a, r, p[a]))
            chosen.append((a, p[a], r))
        action, propensity, reward = (np.array(column) for column in zip(*chosen))
        return action, propensity, reward


PLAIN, ADF = "--cb_explore K", "--cb_explore_adf -q xa --ignore_linear x"
REGCB, CROSSED = "--mellowness 0.001", "--interactions xxa"
# Flags of each variant. Those with quadratic features are for sets of at most 64 features.
VARIANTS = {
    "bag 5": f"{PLAIN} --bag 5",
    "cover 3": f"{PLAIN} --cover 3",
    "adf, bag 5": f"{ADF} --bag 5",
    "adf, cover 3, nounif": f"{ADF} --cover 3 --nounif --psi 0.01",
    "adf, squarecb": f"{ADF} --squarecb",
    "adf, regcb": f"{ADF} --regcb {REGCB}",
    "adf, regcbopt": f"{ADF} --regcbopt {REGCB}",
    "adf, squarecb, quadratic": f"{ADF} --squarecb {CROSSED}",
    "adf, regcb, quadratic": f"{ADF} --regcb {REGCB} {CROSSED}",
    "adf, regcbopt, quadratic": f"{ADF} --regcbopt {REGCB} {CROSSED}",
}
PREFIX = "Vowpal Wabbit, "
OFFLINE_FLAGS = {"dr": "--cb K --cb_type dr", "dr, quadratic": "--cb K --cb_type dr -q xx"}
OFFLINE_FLAGS |= {"adf, mtr": "--cb_adf -q xa --ignore_linear x", "adf, mtr, quadratic": f"--cb_adf -q xa {CROSSED}"}


def default(features):
    """The default of the table. With quadratic features it had the best mean value of all on the small sets."""
    return PREFIX + ("adf, regcb, quadratic" if features <= 64 else "adf, regcb")


def made(variants):
    return {PREFIX + name: (lambda flags=flags: Vw(flags)) for name, flags in variants.items()}


RIVALS, OFFLINE = made(VARIANTS), made(OFFLINE_FLAGS)
