r"""Conversion to and from Open Bandit Pipeline's feedback and ``action_dist``. The package itself is not needed.

In Open Bandit Pipeline, logs are a dictionary, ``bandit_feedback``, and a policy is given by its probabilities for each
record, ``action_dist[i, a, k]`` :math:`= \pi(a | x_i, k)`, where :math:`k` is a position in a list of length
``len_list``.

>>> import surefoot
>>> from surefoot import obp
>>> world = surefoot.Environment.synthetic(seed=1)
>>> feedback = obp.to_feedback(world.collect(surefoot.Policy.uniform(5), 2000))
>>> sorted(feedback)
['action', 'action_context', 'context', 'n_actions', 'n_rounds', 'position', 'pscore', 'reward']
>>> logs = obp.from_feedback(feedback)
>>> logs
<surefoot.Logs: 2000 records, 10 features, 5 actions>
>>> dist = obp.action_dist(world.first_policy(alpha=2.0), feedback["context"])
>>> dist.shape
(2000, 5, 1)
>>> surefoot.evaluate(logs, dist)["IPS"].value == surefoot.evaluate(logs, obp.from_action_dist(dist))["IPS"].value
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot._surefoot import Logs, Policy
from surefoot.errors import refused

__all__ = ["action_dist", "from_action_dist", "from_feedback", "to_feedback"]

#: The tolerance for the sum of a distribution, as everywhere in Surefoot.
_SUM = 1e-6


def from_feedback(
    feedback: Mapping[str, Any],
    *,
    position: int | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    n_actions: int | None = None,
) -> Logs:
    """Converts a ``bandit_feedback`` of Open Bandit Pipeline to logs.

    Parameters
    ----------
    feedback : dict
        It has ``context``, ``action``, ``reward`` and ``pscore``, and optionally ``n_actions`` and ``position``. All
        other entries, such as ``expected_reward`` or ``pi_b``, are ignored.
    position : int, optional
        The position whose records are used. Required if there are several, since each position has its own policy.
    reward_range : (float, float)
        The lowest and the highest possible reward.
    n_actions : int, optional
        The number of actions, in place of the feedback's.

    >>> import numpy as np
    >>> from surefoot import obp
    >>> feedback = {"n_rounds": 4, "n_actions": 3, "context": np.eye(4), "action": np.array([0, 2, 1, 2]),
    ...             "position": np.array([0, 1, 0, 1]), "reward": np.ones(4), "pscore": np.full(4, 1 / 3)}
    >>> obp.from_feedback(feedback)
    Traceback (most recent call last):
    surefoot.errors.SettingError: position should be given, one of [0, 1], as the feedback has several, but is None
    >>> obp.from_feedback(feedback, position=1).action.tolist()
    [2, 2]
    """
    missing = [name for name in ("context", "action", "reward", "pscore") if feedback.get(name) is None]
    if "pscore" in missing:
        allowed = "the probability with which each action was taken: without it nothing can be learned from logs"
        raise refused("pscore", allowed, "missing")
    if missing:
        raise refused(missing[0], "in the feedback", "missing")
    columns = [feedback["context"], *(np.asarray(feedback[name]) for name in ("action", "pscore", "reward"))]
    rounds = feedback.get("n_rounds")
    if rounds is not None and int(rounds) != len(columns[1]):
        raise refused("n_rounds", f"{len(columns[1])}, the number of actions that were logged", rounds)
    rows = _of_position(feedback.get("position"), position, len(columns[1]))
    if rows is not None:
        columns = [column[rows] for column in columns]
    known = feedback.get("n_actions")
    if n_actions is None and known is not None:
        n_actions = int(known)
    return Logs(*columns, n_actions=n_actions, reward_range=reward_range)


def _of_position(positions: Any, wanted: int | None, n: int) -> NDArray[np.bool_] | None:
    """The mask of the records at a position; ``None`` for all records."""
    if positions is None:
        if wanted in (None, 0):
            return None
        raise refused("position", "None or 0, as the feedback has no positions", wanted)
    positions = np.asarray(positions)
    if positions.shape != (n,):
        raise refused("the shape of the feedback's position", f"({n},), one for each record", positions.shape)
    there = np.unique(positions).tolist()
    if wanted is None:
        if len(there) <= 1:
            return None
        raise refused("position", f"given, one of {there}, as the feedback has several", None)
    if wanted not in there:
        raise refused("position", f"one of {there}", wanted)
    rows: NDArray[np.bool_] = positions == wanted
    return rows


def to_feedback(logs: Logs) -> dict[str, Any]:
    """Converts logs to a ``bandit_feedback`` of Open Bandit Pipeline.

    Contexts become a dense array. Open Bandit Pipeline does not support eligible actions, so they are left out; the
    propensities are still right.

    >>> import surefoot
    >>> from surefoot import obp
    >>> logs = surefoot.Logs([[1.0], [2.0]], action=[0, 1], pscore=[0.5, 0.25], reward=[1.0, 0.0])
    >>> feedback = obp.to_feedback(logs)
    >>> feedback["action"], feedback["pscore"], feedback["position"]
    (array([0, 1]), array([0.5 , 0.25]), None)
    """
    X: Any = logs.X
    context = X.toarray() if hasattr(X, "toarray") else X
    return {
        "n_rounds": len(logs),
        "n_actions": logs.n_actions,
        "context": np.asarray(context, dtype=np.float64),
        "action_context": None,
        "action": logs.action.astype(np.int64),
        "position": None,
        "reward": logs.reward,
        "pscore": logs.pscore,
    }


def action_dist(policy: Policy | Callable[[Any], ArrayLike] | Any, X: Any, len_list: int = 1) -> NDArray[np.float64]:
    r"""The probabilities of a policy in each context, in the form of Open Bandit Pipeline: ``(n, K, len_list)``.

    ``policy`` is a policy, a fitted learner or a callable ``X -> probabilities``. It chooses the action for one
    position. With ``len_list`` above 1, every position has the same probabilities, independently of the others.

    >>> import numpy as np, surefoot
    >>> from surefoot import obp
    >>> obp.action_dist(surefoot.Policy.uniform(4), np.ones((2, 1)))[:, :, 0]
    array([[0.25, 0.25, 0.25, 0.25],
           [0.25, 0.25, 0.25, 0.25]])
    """
    if int(len_list) != len_list or len_list < 1:
        raise refused("len_list", "a whole number from 1 on", len_list)
    policy = getattr(policy, "policy_", policy)
    if hasattr(policy, "predict_proba"):
        p = np.asarray(policy.predict_proba(X), dtype=np.float64)
    elif callable(policy):
        p = np.asarray(policy(X), dtype=np.float64)
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        if p.ndim != 2 or p.shape[0] != n:
            raise refused("the shape of what a policy returns", f"({n}, number of actions)", p.shape)
        _check_distributions(p)
    else:
        raise refused("policy", "a Policy, a fitted estimator or a callable X -> probabilities", repr(policy))
    return np.repeat(p[:, :, np.newaxis], int(len_list), axis=2)


def _check_distributions(p: NDArray[np.float64]) -> None:
    wrong = (p < 0.0).any(axis=1) | ~(np.abs(p.sum(axis=1) - 1.0) <= _SUM)
    if wrong.any():
        row = int(wrong.argmax())
        raise refused(f"row {row} of what a policy returns", "a distribution, which sums to 1", p[row].tolist())


def from_action_dist(action_dist: ArrayLike, position: int | ArrayLike | None = None) -> NDArray[np.float64]:
    """Converts an ``action_dist`` of Open Bandit Pipeline to a matrix ``(n, K)`` for :func:`surefoot.evaluate`.

    If it has several positions, ``position`` chooses: a number, or one for each record, as in ``bandit_feedback``.

    >>> import numpy as np
    >>> from surefoot import obp
    >>> dist = np.stack([np.eye(2), 1 - np.eye(2)], axis=2)
    >>> obp.from_action_dist(dist, position=[0, 1])
    array([[1., 0.],
           [1., 0.]])
    """
    dist = np.asarray(action_dist, dtype=np.float64)
    if dist.ndim != 3:
        raise refused("the shape of action_dist", "(n_rounds, n_actions, len_list)", dist.shape)
    n, _, len_list = dist.shape
    if position is None:
        if len_list != 1:
            raise refused("position", f"given, as action_dist has {len_list} of them", None)
        position = 0
    at = np.asarray(position)
    if at.shape not in ((), (n,)) or at.dtype.kind not in "iu":
        raise refused("position", f"a whole number, or one for each of {n} records", f"{at.dtype} of shape {at.shape}")
    if at.size and not (0 <= at.min() and at.max() < len_list):
        outside = at[(at < 0) | (at >= len_list)].flat[0]
        raise refused("position", f"from 0 to {len_list - 1}", outside)
    return np.ascontiguousarray(dist[np.arange(n), :, np.broadcast_to(at, n)])
