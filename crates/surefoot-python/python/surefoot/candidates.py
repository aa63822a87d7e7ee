"""Candidates of your own, which compete with the learners of :func:`surefoot.learn`.

A candidate is a policy or a model of rewards. Models are fitted to the records that are learned from, and never to those
that are held back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot._surefoot import Policy
from surefoot.errors import refused

__all__ = ["RewardPerAction"]

Distribution = Callable[..., Any]
Fit = Callable[[list[Any], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]], Distribution]

#: The share of decisions that a candidate made of a model draws uniformly, as a share of ``exploration``. It is that of the
#: portfolio's own reward models when they are handed over.
_FLOOR = 0.2


def _stacked(parts: list[Any]) -> Any:
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.vstack(parts)
    import scipy.sparse

    return scipy.sparse.vstack(parts, format="csr")


class RewardPerAction:
    """A scikit-learn model of the reward for each action, and the policy that takes the best action.

    ``model`` is a classifier, whose classes are rewards, or a regressor; it is copied for each action. An action with fewer
    than ``least`` records, or with one reward only, is predicted by the mean reward of its records, and without any by the
    mean of all.

    >>> import numpy as np
    >>> class Mean:
    ...     def fit(self, X, y):
    ...         self.mean = y.mean()
    ...         return self
    ...     def predict(self, X):
    ...         return np.full(len(X), self.mean)
    >>> X, action = np.ones((40, 1)), np.arange(40) % 2
    >>> fit = RewardPerAction(Mean(), n_actions=2, exploration=0.1)
    >>> fit([X], action, np.full(40, 0.5), (action == 1) * (np.arange(40) % 4 > 1) * 1.0)(X[:1]).round(3).tolist()
    [[0.05, 0.95]]
    """

    def __init__(self, model: Any, *, n_actions: int, exploration: float, least: int = 5) -> None:
        self.model, self.n_actions, self.exploration, self.least = model, n_actions, exploration, least

    def __call__(
        self, parts: list[Any], action: NDArray[np.int64], pscore: NDArray[np.float64], reward: NDArray[np.float64]
    ) -> Distribution:
        X = _stacked(parts)
        predictors = [self._fitted(X, reward, action == a) for a in range(self.n_actions)]

        def distribution(X: Any, eligible: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
            rewards = np.column_stack([predict(X) for predict in predictors])
            allowed = np.ones(rewards.shape, bool) if eligible is None else eligible
            best = np.where(allowed, rewards, -np.inf).argmax(axis=1)
            p: NDArray[np.float64] = self.exploration * allowed / allowed.sum(axis=1, keepdims=True)
            p[np.arange(len(p)), best] += 1.0 - self.exploration
            return p

        return distribution

    def _fitted(
        self, X: Any, reward: NDArray[np.float64], rows: NDArray[np.bool_]
    ) -> Callable[[Any], NDArray[np.float64]]:
        own = reward[rows]
        if len(own) < self.least or own.min() == own.max():
            constant = float(own.mean() if len(own) else reward.mean())
            return lambda X: np.full(X.shape[0], constant)
        model: Any
        try:
            from sklearn.base import clone

            model = clone(self.model)
        except (ImportError, TypeError):
            model = copy.deepcopy(self.model)
        if not hasattr(model, "predict_proba"):
            model = model.fit(X[rows], own)
            return lambda X: np.asarray(model.predict(X), dtype=float)
        # Classifiers want classes: the places of the rewards in the list of those that occur.
        rewards, classes = np.unique(own, return_inverse=True)
        model = model.fit(X[rows], classes)
        return lambda X: np.asarray(model.predict_proba(X), dtype=float) @ rewards


def fits(candidates: Sequence[Any] | Mapping[str, Any], n_actions: int, exploration: float) -> list[tuple[str, Fit]]:
    """The candidates by name, each as a function that fits it."""
    named: list[tuple[str | None, Any]] = (
        list(candidates.items()) if isinstance(candidates, Mapping) else [(None, candidate) for candidate in candidates]
    )
    found: list[tuple[str, Fit]] = []
    for number, (given, candidate) in enumerate(named, 1):
        name = str(given or getattr(candidate, "__name__", type(candidate).__name__))
        if given is None and any(name == other for other, _ in found):
            name = f"{name} ({number})"
        found.append((name, _fit_of(candidate, n_actions, exploration)))
    return found


def _fit_of(candidate: Any, n_actions: int, exploration: float) -> Fit:
    if isinstance(candidate, RewardPerAction):
        return candidate
    if isinstance(candidate, Policy):
        if candidate.n_actions != n_actions:
            raise refused("a candidate", f"a policy over {n_actions} actions", f"one over {candidate.n_actions}")
        return lambda *_: lambda X, eligible=None: candidate.predict_proba(X, eligible=eligible)
    if hasattr(candidate, "fit") and (hasattr(candidate, "predict") or hasattr(candidate, "predict_proba")):
        return RewardPerAction(candidate, n_actions=n_actions, exploration=_FLOOR * exploration)
    if callable(candidate):
        return lambda *_: candidate
    allowed = "a Policy, a function of contexts, or a classifier or regressor of scikit-learn"
    raise refused("a candidate", allowed, type(candidate).__name__)
