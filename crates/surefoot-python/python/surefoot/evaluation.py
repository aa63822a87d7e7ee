r"""Off-policy evaluation: the reward of a target policy, estimated from the logs of another policy.

Estimators have names with an optional parameter, as on the command line. Here :math:`w = p/q` is the importance weight
and :math:`c` a cost:

=====================  ==========================================================================================
``ips``                :math:`w c`
``snips``              :math:`\sum w c / \sum w`
``clipped:MAX``        :math:`\min(w, \mathrm{max})\, c`
``es:BETA``            :math:`p\, c / q^\beta`
``ix:GAMMA``           :math:`p\, c / (q + \gamma)`
``power-mean:LAMBDA``  :math:`w c / (1 - \lambda + \lambda w)`
``shrinkage:LAMBDA``   :math:`\lambda w c / (w^2 + \lambda)`
``ls:LAMBDA``          :math:`-\frac1\lambda \ln(1 - \lambda w c)`
``dm``                 :math:`\hat c(x, \pi)`, the reward model alone
``dr``                 :math:`\hat c(x, \pi) + w (c - \hat c(x, a))`
``sndr``               the same with self-normalised weights
``switch:TAU``         ``dr`` where :math:`w \le \tau`, ``dm`` elsewhere
=====================  ==========================================================================================

An estimator may also be a callable ``h(p, q, c)`` of your own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from surefoot import _surefoot
from surefoot._results import Estimate, Evaluation, Selection
from surefoot._surefoot import Logs, LogSource, Policy
from surefoot.engines._engine import Engine, checked
from surefoot.errors import refused
from surefoot.logs import open_logs

__all__ = ["check_estimator", "evaluate", "select"]

Estimators = Sequence[str | Callable[..., Any]]


def _judged(policy: Any) -> Any:
    """The policy of a fitted learner, or of a result of :func:`surefoot.learn`."""
    if hasattr(policy, "partial_fit"):
        return policy._fitted() if hasattr(policy, "_fitted") else policy
    return policy.policy if hasattr(policy, "better") else policy


def _opened(logs: Any, columns: Mapping[str, Any]) -> Logs | LogSource:
    if not isinstance(logs, Logs):
        return open_logs(logs, **columns)
    if columns:
        raise TypeError(f"{', '.join(columns)}: the columns of files and data frames, but Logs are arrays")
    return logs


def _own_actions(policy: Any, logs: Any) -> Any:
    """The target policy, over the actions of the logs."""
    policy = _judged(policy)
    if callable(policy) and not isinstance(policy, Policy):
        return Policy.custom(policy, logs.n_actions)
    if isinstance(policy, str) and policy == "uniform" and logs._counted:
        allowed = "given, as the uniform policy needs all actions, and not only those that occur in the logs"
        raise refused("n_actions of the logs", allowed, None)
    if isinstance(policy, str) and policy == "uniform":
        return Policy.uniform(logs.n_actions)
    if isinstance(policy, str) and policy == "logged":
        return logs.pscore
    if isinstance(policy, str):
        raise refused("the policy", "uniform, logged, a policy, a callable or probabilities", policy)
    shape: tuple[int, ...] = getattr(policy, "shape", ())
    # Open Bandit Pipeline's action_dist has a third dimension, the position in a list.
    return policy[:, :, 0] if len(shape) == 3 and shape[2] == 1 else policy


@overload
def evaluate(
    logs: Any,
    policy: Mapping[str, Any],
    *,
    estimators: Estimators | None = None,
    model: Any = None,
    delta: float = 0.05,
    replicates: int = 1000,
    seed: int = 1,
    largest_weight: float | None = None,
    reward_range: tuple[float, float] | None = None,
    ignore: Sequence[str] = (),
    engine: Engine | None = None,
    **columns: Any,
) -> dict[str, Evaluation]: ...


@overload
def evaluate(
    logs: Any,
    policy: Any,
    *,
    estimators: Estimators | None = None,
    model: Any = None,
    delta: float = 0.05,
    replicates: int = 1000,
    seed: int = 1,
    largest_weight: float | None = None,
    reward_range: tuple[float, float] | None = None,
    ignore: Sequence[str] = (),
    engine: Engine | None = None,
    **columns: Any,
) -> Evaluation: ...


def evaluate(
    logs: Any,
    policy: Any,
    *,
    estimators: Estimators | None = None,
    model: Any = None,
    delta: float = 0.05,
    replicates: int = 1000,
    seed: int = 1,
    largest_weight: float | None = None,
    reward_range: tuple[float, float] | None = None,
    ignore: Sequence[str] = (),
    engine: Engine | None = None,
    **columns: Any,
) -> Evaluation | dict[str, Evaluation]:
    r"""Evaluates a policy on logs with several estimators, with confidence intervals.

    Parameters
    ----------
    logs : Logs, LogSource, path, paths or data frame
        Arrays in memory, or files and data frames, which are read batch by batch.
    policy : Policy, estimator, callable, array or str
        The target policy: a policy, a fitted learner, a callable ``X -> probabilities``, the probabilities of all
        actions ``(n, K)``, the probabilities of the logged actions ``(n,)``, ``"uniform"`` or ``"logged"``. For files
        and data frames: a policy that applies to raw records, the path of one, ``"columns:PREFIX"``,
        ``"list:COLUMN"``, ``"uniform"`` or ``"logged"``. With a dictionary of policies, the result is a dictionary of
        evaluations.
    estimators : list of str or callable, optional
        By default all that need no reward model or, with a reward model, all.
    model : "linear", array or None
        The reward model: ``"linear"`` is cross-fitted to the logs, an array has predicted rewards ``(n, K)``. For
        files and data frames also ``"columns:PREFIX"`` or ``"list:COLUMN"``.
    delta : float
        The failure probability of each interval.
    replicates : int
        The number of bootstrap replicates.
    largest_weight : float, optional
        The largest possible importance weight, if known. With it, unbounded estimators get Bernstein intervals.
    engine : Engine, optional
        Who computes the probabilities of policies that were learned, the larger part of the work: an engine of
        :mod:`surefoot.engines`. The logs are Parquet files, which the workers read under the same paths, and there is no
        reward model. The numbers are the same, bit for bit.
    columns
        For files and data frames: arguments of :func:`surefoot.open_logs`, such as ``actions`` or ``catalogue``.

    Examples
    --------
    >>> import numpy as np, surefoot
    >>> logs = surefoot.Logs(np.ones((4, 1)), [0, 1, 1, 0], [0.5, 0.5, 0.25, 0.75], [1.0, 0.0, 1.0, 1.0], n_actions=2)
    >>> found = surefoot.evaluate(logs, np.tile([0.5, 0.5], (4, 1)), estimators=["ips", "snips"])
    >>> round(found["IPS"].value, 6), round(found["SNIPS"].value, 6)
    (0.916667, 0.785714)

    An estimator of your own is a function of three arrays:

    >>> def halved(p, q, c):
    ...     return p * c / (2 * q)
    >>> round(surefoot.evaluate(logs, "uniform", estimators=[halved])["halved"].value, 6)
    0.458333
    """
    settings: dict[str, Any] = {
        "delta": delta,
        "replicates": replicates,
        "seed": seed,
        "largest_weight": largest_weight,
    }
    estimators = [estimators] if isinstance(estimators, str) else estimators
    chosen: list[Any] | None = None if estimators is None else list(estimators)
    logs = _opened(logs, columns)
    if isinstance(logs, Logs) and (reward_range is not None or ignore):
        raise TypeError("reward_range and ignore are for files and data frames: Logs have their own")
    if isinstance(logs, Logs) and engine is not None:
        raise TypeError("an engine is for files, but Logs are arrays in this process")
    if isinstance(logs, LogSource):
        policies = policy if isinstance(policy, Mapping) else {"policy": policy}
        policies = {name: _judged(p) for name, p in policies.items()}
        found = logs._evaluate(
            dict(policies),
            reward_range=reward_range or (0.0, 1.0),
            estimators=chosen,
            model="none" if model is None else model,
            ignore=list(ignore),
            map=None if engine is None else checked(engine),
            **settings,
        )
        all_found = {name: Evaluation._of(one, name) for name, one in found.items()}
        return all_found if isinstance(policy, Mapping) else Evaluation._of(found["policy"])
    if isinstance(policy, Mapping):
        each = {"estimators": estimators, "model": model, **settings}
        return {name: _named(evaluate(logs, one, **each), name) for name, one in policy.items()}
    found = _surefoot.evaluate(logs, _own_actions(policy, logs), estimators=chosen, model=model, **settings)
    return Evaluation._of(found)


def _named(evaluation: Evaluation, name: str) -> Evaluation:
    return Evaluation(**{**vars(evaluation), "name": name})


def select(
    logs: Any,
    policies: Mapping[str, Any],
    *,
    prior: Sequence[float] | None = None,
    delta: float = 0.05,
    estimators: Estimators = ("snips",),
    model: Any = None,
    replicates: int = 1000,
    seed: int = 1,
    reward_range: tuple[float, float] | None = None,
    engine: Engine | None = None,
    **columns: Any,
) -> Selection:
    r"""Chooses among several policies, with bounds that hold simultaneously for all of them and for their mixtures.

    All policies must have been fixed before the records. With
    :math:`S_j(\lambda) = \sum_i \ln(1 - \lambda p_{ij} c_i/q_i)` and prior weights :math:`w^0`, the best mixture has
    weights :math:`w_j \propto w^0_j e^{S_j(\lambda)}`. For :class:`Logs` the result also has ``contrasts``: the
    estimated gain of each policy over the first, for each of the ``estimators``, with paired bootstrap intervals. For files
    and data frames, ``columns`` are arguments of :func:`surefoot.open_logs`, and ``engine`` is as in :func:`evaluate`.

    >>> import surefoot
    >>> world = surefoot.Environment.synthetic(seed=1)
    >>> logs = world.collect(surefoot.Policy.uniform(5), 2000)
    >>> fixed = {"uniform": "uniform", "first": world.first_policy(alpha=2.0)}
    >>> surefoot.select(logs, fixed).best
    'first'
    """
    names = list(policies)
    logs = _opened(logs, columns)
    if isinstance(logs, LogSource):
        lo, hi = reward_range or (0.0, 1.0)
        known = {name: _judged(p) for name, p in policies.items()}
        selection = logs._select(
            known,
            reward_range=(lo, hi),
            prior=None if prior is None else list(prior),
            delta=delta,
            map=None if engine is None else checked(engine),
        )
        found: dict[str, Any] = {"selection": selection, "contrasts": []}
    elif engine is not None:
        raise TypeError("an engine is for files, but Logs are arrays in this process")
    else:
        lo, hi = logs.reward_range
        asked = [_own_actions(policy, logs) for policy in policies.values()]
        found = _surefoot.select(
            logs,
            asked,
            prior=None if prior is None else list(prior),
            estimators=list(estimators),
            model=model,
            delta=delta,
            replicates=replicates,
            seed=seed,
        )
        selection = found["selection"]
    shown = [e if isinstance(e, str) else getattr(e, "__name__", "h") for e in estimators]
    contrasts = {}
    for name, rows in zip(names, found["contrasts"]):
        ends: Callable[[Any], tuple[float, float] | None] = lambda i: (
            None if i is None else (-i["upper"] * (hi - lo), -i["lower"] * (hi - lo))
        )
        contrasts[name] = [
            Estimate(e, -row["value"] * (hi - lo), float("nan"), ends(row["bootstrap"]), None)
            for e, row in zip(shown, rows)
        ]
    candidates = selection["candidates"]
    return Selection(
        records=selection["records"],
        confidence=selection["confidence"],
        names=names,
        estimates=[candidate["estimate"] for candidate in candidates],
        at_least=[candidate["at_least"] for candidate in candidates],
        weights=[candidate["weight"] for candidate in candidates],
        best=names[[candidate["name"] for candidate in candidates].index(selection["chosen"])],
        mixture_at_least=selection["mixture"]["at_least"],
        contrasts=contrasts,
        certified=selection["certified"],
        warnings=selection["warnings"],
    )


def check_estimator(h: Callable[..., Any], slope: Callable[..., Any] | None = None) -> bool:
    r"""Checks an estimator ``h(p, q, c)`` of your own. The same checks run wherever the estimator is used.

    It must take arrays and return a finite number for each record, which depends on that record alone and is 0 where
    the cost is 0. ``slope``, if given, must be its derivative in ``p``. Returns whether the estimator is *pessimistic*,
    :math:`p c/q \le h \le 0`: whether it never rates a policy better than importance weighting does.

    >>> import numpy as np, surefoot
    >>> surefoot.check_estimator(lambda p, q, c: p * c / np.maximum(q, 0.1))
    True
    >>> surefoot.check_estimator(lambda p, q, c: 2 * p * c / q)
    False
    >>> surefoot.check_estimator(lambda p, q, c: np.mean(p * c / q))
    Traceback (most recent call last):
    surefoot.errors.SettingError: the shape of what <lambda> returns should be [36], a number for each record, but is []
    """
    return _surefoot.check_estimator(h, slope)
