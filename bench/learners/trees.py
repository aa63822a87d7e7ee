"""Boosted trees (LightGBM): one model of the reward per action, and inverse-gap weighting."""

import lightgbm
import numpy as np
from world import Rival

SETTINGS = {
    "objective": "binary",
    "learning_rate": 0.1,
    "num_leaves": 15,
    "min_data_in_leaf": 10,
    "verbose": -1,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
}


class Trees(Rival):
    """All models are fitted again in every round. An action whose predicted reward is `gap` below the best has the
    probability `1/(K + gamma gap)`, and the best action has the rest; `gamma` is `width sqrt(K n)`."""

    def __init__(self, schedule, width=4.0, trees=60):
        self.schedule, self.width, self.trees = schedule, width, trees

    def begin(self, x, actions, seed):
        super().begin(x, actions, seed)
        self.rounds = []

    def learn(self, x, action, propensity, reward):
        self.rounds.append((x, action, reward))
        x, action, reward = (np.concatenate(column) for column in zip(*self.rounds))
        self.n, self.mean, self.models = len(x), reward.mean(), []
        for a in range(self.actions):
            rows = action == a
            enough = rows.sum() >= 20 and 0 < reward[rows].sum() < rows.sum()
            self.models.append(self.fit(x[rows], reward[rows]) if enough else None)

    def fit(self, x, reward):
        settings = SETTINGS | {"seed": 1}
        return lightgbm.train(settings, lightgbm.Dataset(x, reward, free_raw_data=True), self.trees)

    def probabilities(self, x):
        columns = [np.full(len(x), self.mean) if model is None else model.predict(x) for model in self.models]
        predicted = np.stack(columns, 1)
        best = predicted.argmax(1)
        if not self.explore:
            return np.eye(self.actions)[best]
        gap = predicted.max(1, keepdims=True) - predicted
        p = 1 / (self.actions + self.width * np.sqrt(self.actions * self.n) * gap)
        rows = np.arange(len(x))
        p[rows, best] = 0
        p[rows, best] = 1 - p.sum(1)
        return p


RIVALS = {
    "LightGBM, inverse-gap weighting": lambda: Trees(("equal", 10)),
    "LightGBM, inverse-gap weighting, 13 growing rounds": lambda: Trees(("growing", 13)),
}
OFFLINE = {"LightGBM per action": lambda: Trees(("equal", 1))}
