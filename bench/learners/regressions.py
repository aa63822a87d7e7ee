"""scikit-learn's regressions per action, and Open Bandit Pipeline's IPWLearner. Both explore by epsilon-greedy."""

import importlib
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from world import Rival


class Greedy(Rival):
    """Takes the action with the best score, and a uniform one in a share `epsilon` of its decisions."""

    epsilon = 0.05
    schedule = ("equal", 10)

    def begin(self, x, actions, seed):
        super().begin(x, actions, seed)
        self.rounds = []

    def learn(self, x, action, propensity, reward):
        if propensity is None:
            propensity = self.probabilities(x)[np.arange(len(x)), action]
        self.rounds.append((x, action, propensity, reward))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.fit(*(np.concatenate(column) for column in zip(*self.rounds)))

    def fit(self, x, action, propensity, reward):
        raise NotImplementedError

    def scores(self, x):
        raise NotImplementedError

    def probabilities(self, x):
        best = np.eye(self.actions)[self.scores(x).argmax(1)]
        return (1 - self.epsilon) * best + self.epsilon / self.actions if self.explore else best


class PerAction(Greedy):
    """One regression of the reward per action. An action without records of both rewards has the mean reward."""

    def __init__(self, model):
        self.model = model

    def fit(self, x, action, propensity, reward):
        self.mean, self.models = reward.mean(), []
        for a in range(self.actions):
            rows = action == a
            both = 0 < reward[rows].sum() < rows.sum()
            self.models.append(self.model().fit(x[rows], reward[rows]) if both else None)

    def scores(self, x):
        return np.stack([self.predict(model, x) for model in self.models], 1)

    def predict(self, model, x):
        if model is None:
            return np.full(len(x), self.mean)
        return model.predict_proba(x)[:, 1] if hasattr(model, "predict_proba") else model.predict(x)


class Ipw(Greedy):
    """Open Bandit Pipeline's IPWLearner: a classifier of actions, weighted by reward over propensity."""

    def fit(self, x, action, propensity, reward):
        learner = ipw_learner()(n_actions=self.actions, base_classifier=LogisticRegression(C=10, max_iter=200))
        # Records of weight 0 do not count, and the classifier is faster without them.
        rows = reward > 0
        learner.fit(x[rows], action[rows], reward[rows], propensity[rows])
        self.learner = learner

    def scores(self, x):
        return self.learner.predict(x)[:, :, 0]


def ipw_learner():
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rivals"))
    # This puts a stand-in for PyTorch, which the package imports, into its place.
    importlib.import_module("without_torch")
    from obp.policy import IPWLearner

    return IPWLearner


def logistic():
    return LogisticRegression(C=1, max_iter=200)


RIVALS = {
    "logistic regression per action, epsilon-greedy": lambda: PerAction(logistic),
    "ridge regression per action, epsilon-greedy": lambda: PerAction(Ridge),
    "IPWLearner (OBP), epsilon-greedy": Ipw,
}
OFFLINE = {
    "logistic regression per action": lambda: PerAction(logistic),
    "ridge regression per action": lambda: PerAction(Ridge),
    "IPWLearner (OBP)": Ipw,
}
