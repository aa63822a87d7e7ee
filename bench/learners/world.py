"""The worlds of the comparison, and the loop that rivals run in them.

A classification set becomes a bandit: the action is a guess of the label. A right guess brings a reward of 1 with
probability 0.8, a wrong guess with probability 0.2.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
from meter import Meter
from scipy.special import log_ndtr, ndtr, softmax

NOISE = 0.2
WEAK = 0.2
STARTS = {
    "uniform": "The first policy is uniform.",
    "weak": "The first policy is `N(0.2 W, I)`; `W` is a softmax fitted to the 5 % of the labels known before.",
    "offline": "All records are one log of a softmax with the weights `0.2 W`.",
}


def argmax_probabilities(mean, deviation, points=160):
    """The probability of each action to have the largest of independent normal scores, by a sum over a grid."""
    deviation = np.broadcast_to(deviation, mean.shape)
    out = np.empty(mean.shape)
    step = max(1, 4_000_000 // (points * mean.shape[1]))
    for first in range(0, len(mean), step):
        m, s = mean[first : first + step, None, :], deviation[first : first + step, None, :]
        low, high = (m - 6 * s).max(2), (m + 6 * s).max(2)
        edges = low[:, :, None] + (high - low)[:, :, None] * np.linspace(0, 1, points + 1)[:, None]
        middle = (edges[:, 1:] + edges[:, :-1]) / 2
        log_cdf = log_ndtr((middle - m) / s)
        others = np.exp(log_cdf.sum(2, keepdims=True) - log_cdf)
        p = (np.diff(ndtr((edges - m) / s), axis=1) * others).sum(1)
        out[first : first + step] = p / p.sum(1, keepdims=True)
    return out


def draw(p, rng):
    """An action per row of probabilities."""
    total = p.cumsum(1)
    return (total < rng.random((len(p), 1)) * total[:, -1:]).sum(1).clip(0, p.shape[1] - 1)


def sizes(n, schedule):
    """The sizes of rounds: `("equal", 10)` or `("growing", 13)`, which grow by the factor 1.35."""
    kind, rounds = schedule
    weights = np.ones(rounds) if kind == "equal" else 1.35 ** np.arange(rounds)
    return np.diff(np.round(n * np.concatenate([[0], weights.cumsum() / weights.sum()])).astype(int))


@dataclass
class World:
    """A set as a bandit, with the logging policy of the first round."""

    data: object
    start: str
    seed: int
    weights: np.ndarray
    interactions: int = 0
    luck: np.ndarray = field(init=False)

    def __post_init__(self):
        if self.interactions:
            self.data.stream = self.data.stream[: self.interactions]
            self.data.label = self.data.label[: self.interactions]
        # The same luck for every rival.
        self.luck = np.random.default_rng([self.seed, 1]).random(len(self.data.label))

    @property
    def actions(self):
        return self.data.classes

    def first(self, x):
        """The probabilities of the first policy."""
        if self.start == "uniform":
            return np.full((len(x), self.actions), 1 / self.actions)
        scores = WEAK * (x @ self.weights)
        return softmax(scores, axis=1) if self.start == "offline" else argmax_probabilities(scores, 1.0)

    def reward(self, rows, action):
        chance = np.where(self.data.label[rows] == action, 1 - NOISE, NOISE)
        return (self.luck[rows] < chance).astype(float)

    def truth(self, p):
        """The value of a policy and of its most probable actions, on the test split."""
        label = self.data.test_label
        return float(p[np.arange(len(p)), label].mean()), float((p.argmax(1) == label).mean())


class Rival:
    """A learner that is not ours. `learn` gets the records of one round; `probabilities` is the policy that it deploys.

    A subclass may learn after every record (`online`): then it has `interact` instead of `learn` alone.
    """

    online = False
    schedule = ("equal", 10)

    def begin(self, x, actions, seed):
        """Forgets everything. `x` are the contexts that are known before."""
        self.known, self.actions, self.rng = x, actions, np.random.default_rng([seed, 2])
        self.explore = True

    def probabilities(self, x):
        raise NotImplementedError

    def decide(self, x):
        """Actions for a round. A subclass that can draw them without their probabilities does so."""
        return draw(self.probabilities(x), self.rng)

    def learn(self, x, action, propensity, reward):
        raise NotImplementedError


def play(rival, world, certify):
    """Runs a rival through the stream, and measures it.

    The certificate is for the policy at nine tenths of the stream, or at the start of the last round if that is
    earlier, by the records after it: the policy was fixed before them. `certify(action, propensity, reward, p)` bounds
    its mean reward.
    """
    data, meter, n = world.data, Meter(), len(world.data.label)
    rival.begin(data.known, world.actions, world.seed)
    ends = sizes(n, rival.schedule).cumsum()
    begins = [0, *ends[:-1]]
    fixed = max(begin for begin in begins if begin <= 0.9 * n + 1)
    records, total = [], 0.0
    for begin, end in zip(begins, ends):
        rows = np.arange(begin, end)
        x = data.stream[rows]
        if begin == fixed:
            frozen, frozen_value = (
                rival.probabilities(data.stream[fixed:]),
                world.truth(rival.probabilities(data.test))[0],
            )
        if begin == 0 and not (rival.online and world.start == "uniform"):
            p = world.first(x)
            action = draw(p, np.random.default_rng([world.seed, 3]))
            propensity = p[np.arange(len(x)), action]
        elif not rival.online:
            with meter:
                action = rival.decide(x)
            # Few rivals need propensities; certificates do.
            propensity = rival.probabilities(x)[np.arange(len(x)), action] if begin >= fixed else None
        else:
            action = None
        if action is None:
            with meter:
                action, propensity, reward = rival.interact(x, lambda i, a, rows=rows: world.reward(rows[i], a))
        else:
            reward = world.reward(rows, action)
            with meter:
                rival.learn(x, action, propensity, reward)
        total += reward.sum()
        if begin >= fixed:
            records.append((action, propensity, reward))
    value, greedy = world.truth(rival.probabilities(data.test))
    proven = guesses(certify(*(np.concatenate(column) for column in zip(*records)), frozen))
    return {
        "value": value,
        "greedy": greedy,
        "reward": float(total / n),
        "certified": proven,
        "violations": int(proven > frozen_value),
        "statements": 1,
        **meter.used(),
    }


def log_of(world):
    """The records of an offline log: contexts, actions, propensities and rewards."""
    x = world.data.stream
    p = world.first(x)
    action = draw(p, np.random.default_rng([world.seed, 3]))
    rows = np.arange(len(x))
    return x, action, p[rows, action], world.reward(rows, action)


def learn_offline(rival, world, log, certify, scale):
    """Learns from one log, without exploration. The certificate is for the policy learned from the first 80 % of the
    records, by the rest. `scale` maps a mean reward to the scale of `truth`."""
    x, action, propensity, reward = log
    cut, meter = len(x) * 4 // 5, Meter()
    known = getattr(world.data, "known", x[:1000])
    rival.begin(known, world.actions, world.seed)
    rival.explore = False
    with meter:
        rival.learn(x, action, propensity, reward)
    value, greedy = world.truth(rival.probabilities(world.data.test))
    # After what is measured: the certificate gives back memory that the process had at the start.
    rival.begin(known, world.actions, world.seed)
    rival.explore = False
    rival.learn(x[:cut], action[:cut], propensity[:cut], reward[:cut])
    proven = scale(certify(action[cut:], propensity[cut:], reward[cut:], rival.probabilities(x[cut:])))
    held_back = world.truth(rival.probabilities(world.data.test))[0]
    return {
        "value": value,
        "greedy": greedy,
        "reward": None,
        "certified": proven,
        "violations": int(proven > held_back),
        "statements": 1,
        **meter.used(),
    }


def guesses(reward):
    """The share of right guesses that gives this mean reward."""
    return (reward - NOISE) / (1 - 2 * NOISE)


class Shop:
    """An offline world of 50 actions. A context has 20 numbers and 10 categories of four levels, given as flags.
    Rewards follow a logistic model with one weight vector per action, and the logger is a softmax that knows little of
    it.

    The scales were chosen such that the logger has a value of 0.305, and the best policy 0.88.
    """

    name, start, actions = "shop", "offline", 50

    def __init__(self, records, seed):
        rng = np.random.default_rng([seed, 50])
        self.seed = seed
        slope = rng.standard_normal((60, self.actions))
        self.slope = 0.32 * slope
        self.offset = 0.3 * rng.standard_normal(self.actions) - 1.65
        logger = 0.05 * slope + 0.35 * rng.standard_normal((60, self.actions))
        x, test = self.contexts(rng, records), self.contexts(rng, 20_000)
        p = softmax(x @ logger, axis=1)
        action = draw(p, rng)
        rows = np.arange(records)
        chance = self.chances(x)[rows, action]
        self.log = x.astype(np.float32), action, p[rows, action], (rng.random(records) < chance).astype(float)
        self.data = SimpleNamespace(test=test.astype(np.float32), known=x[:1000].astype(np.float32))
        self.rewards = self.chances(test)
        self.best = float(self.rewards.max(1).mean())
        self.logged = float((softmax(test @ logger, axis=1) * self.rewards).sum(1).mean())

    @staticmethod
    def contexts(rng, n):
        flags = np.eye(4)[rng.integers(4, size=(n, 10))]
        return np.hstack([rng.standard_normal((n, 20)), flags.reshape(n, 40)])

    def chances(self, x):
        return 1 / (1 + np.exp(-(x @ self.slope + self.offset)))

    def truth(self, p):
        """The mean reward of a policy and of its most probable actions, on 20,000 new contexts."""
        return float((p * self.rewards).sum(1).mean()), float(self.rewards[np.arange(len(p)), p.argmax(1)].mean())
