"""Log files and data frames: reading, linting, learning, scoring and converting."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from surefoot._progress import watch
from surefoot._results import Learned, LintReport
from surefoot._surefoot import ArrowTable, LogSource, Policy, Rounds
from surefoot.engines._engine import Engine, checked
from surefoot.errors import refused

__all__ = ["learn", "lint", "open_logs", "score"]

Source = Any


def open_logs(
    source: Source,
    *,
    format: str | None = None,
    action: str | None = None,
    propensity: str | None = None,
    reward: str | None = None,
    event_id: str | None = None,
    policy_version: str | None = None,
    actions_from_one: bool = False,
    actions: int | Sequence[str] | None = None,
    candidates_column: str | None = None,
    identity: str | None = None,
    action_is: str | None = None,
    positions: bool = False,
    rows_are_candidates: bool = False,
    chosen: str | None = None,
    candidate_features: Sequence[str] | None = None,
    catalogue: Any = None,
    catalogue_key: str | None = None,
) -> LogSource:
    """Opens logs, which are read batch by batch in as many passes as needed.

    ``source`` is the path of a file in one of the formats of :func:`surefoot.formats`, a list of such paths in the
    order in which they were written, or any object with Arrow's C stream, such as a pandas or polars data frame, which
    is not copied. Columns are found by their usual names; the other arguments override these.
    ``actions`` are all actions that there are, their number or their names; without it, they are those that occur.
    Nothing can be proven about a policy over the actions that happen to occur in the same records, so ``"uniform"``
    cannot be evaluated then, and learning certifies only if all actions occur in the records set aside.

    The arguments from ``candidates_column`` on are for records with candidates, whose features differ from record to record,
    as the flags of the same names of the command line (``--candidates`` is ``candidates_column``). ``catalogue`` is a path or
    a data frame. :meth:`LogSource.open` describes them.

    >>> import pandas, surefoot
    >>> frame = pandas.DataFrame({"action": ["a", "b"], "pscore": [0.5, 0.5], "reward": [1.0, 0.0], "age": [31, 55]})
    >>> surefoot.open_logs(frame).scan(by="file")["actions"]
    ['a', 'b']
    """
    given: dict[str, Any] = {
        "format": format,
        "action": action,
        "propensity": propensity,
        "reward": reward,
        "event_id": event_id,
        "policy_version": policy_version,
        "actions_from_one": actions_from_one,
        "actions": list(actions) if isinstance(actions, Sequence) and not isinstance(actions, str) else actions,
        "candidates_column": candidates_column,
        "identity": identity,
        "action_is": action_is,
        "positions": positions,
        "rows_are_candidates": rows_are_candidates,
        "chosen": chosen,
        "candidate_features": None if candidate_features is None else list(candidate_features),
        "catalogue": catalogue,
        "catalogue_key": catalogue_key,
    }
    if isinstance(source, LogSource):
        if any(value is not None and value is not False for value in given.values()):
            raise TypeError("a LogSource knows its format and its columns: name them where it is opened")
        return source
    return LogSource.open(source, **given)


def lint(
    source: Source,
    *,
    policies: Mapping[str, Any] | None = None,
    deployed: Mapping[str | None, Any] | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    **columns: Any,
) -> LintReport:
    """Finds errors in logs, and tells what the logs can support, in one pass.

    ``policies`` are target policies to evaluate later; their importance weights are checked. ``deployed`` maps versions
    of the logging policy (or ``None`` for all records) to policies whose propensities are recomputed and compared.
    ``columns`` are arguments of :func:`open_logs`.

    >>> import pandas, surefoot
    >>> frame = pandas.DataFrame({"action": [0, 1, 0], "pscore": [0.5, 0.0, 1.5], "reward": [1.0, 0.0, 1.0]})
    >>> report = surefoot.lint(frame)
    >>> report.ok
    False
    >>> [finding.check for finding in report.errors]
    ['propensity', 'propensity']
    """
    found = open_logs(source, **columns)._lint(
        reward_range=cast("tuple[float, float]", tuple(reward_range)),
        policies=dict(policies or {}),
        deployed=dict(deployed or {}),
    )
    return LintReport._of(found)


def learn(
    source: Source | Rounds,
    learner: Any = None,
    *,
    prior: str | os.PathLike[str] | Policy = "uniform",
    prior_is_older: bool = False,
    by: str = "policy-version",
    set_aside: float = 0.1,
    held_back: float = 0.2,
    exploration: float = 0.05,
    intercept: bool = True,
    reward_range: tuple[float, float] = (0.0, 1.0),
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    categorical: Sequence[str] = (),
    vocabulary: int = 64,
    hash_bits: int = 8,
    standardise: bool = True,
    cross: str | Sequence[str] | None = None,
    cross_bits: int = 18,
    memory: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    engine: Engine | None = None,
    candidates: Sequence[Any] | Mapping[str, Any] = (),
    progress: bool | None = None,
    **columns: Any,
) -> Learned:
    """Learns the next policy from all rounds in the logs, and certifies it, as ``surefoot learn`` does, bit for bit.

    The first records are set aside: they fix how columns become features, and the prior if it is ``"estimated"``. All
    other records are used to learn and to certify. The policy applies to raw records, also after it was saved.

    Parameters
    ----------
    source : path, paths, data frame, LogSource or Rounds
        The logs.
    learner : Portfolio, BatchLS, SeqLS or SeqAdjLS, optional
        The learner; by default ``Portfolio()``. Its ``prior``, ``features``, ``intercept``, ``exploration``,
        ``held_back`` and ``reward_range`` are ignored; the arguments of this function are used instead.
    prior : {"uniform", "estimated"}, path or Policy
        The first policy that was deployed, or a substitute for it.
    prior_is_older : bool
        If the prior was learned: whether only from logs older than these.
    by : str
        How records are grouped into rounds: ``"policy-version"``, ``"file"``, or a column.
    set_aside, held_back : float
        The share of the first round that only fixes the features, and the share of all records that are held out to
        certify. The newest records are held out.
    ignore : list of str
        Columns that are not features; ``pi_*`` matches all columns that begin with ``pi_``.
    cross : str or list of str, optional
        If records have candidates with features: the products of context features and candidate features, as pairs of
        namespaces such as ``"user:article"``; ``*`` means all, and ``"none"`` is for no products. By default all features
        with all, but not with the identity, unless it is all that a candidate has.
    cross_bits : int
        If the own features of candidates and the products are more than 2 to this power, they are hashed into so many.
    memory : int, optional
        The memory in bytes. Encoded records that need more than a third of it are stored in files, in ``cache`` or in a
        temporary folder. The result is the same, bit for bit. By default there is no limit.
    cache : path, optional
        The folder in which encoded records are kept. They are used again as long as the files and the settings of features
        are the same.
    engine : Engine, optional
        Who does the passes over the records: an engine of :mod:`surefoot.engines`, or any function with its signature. The logs
        are Parquet files, which the workers read under the same paths. The result is the same, bit for bit. By default this
        process does all.
    candidates : list or dict
        Not those of a record, but policies and models of your own, which compete with the members of a portfolio: a :class:`Policy`, a function that
        returns the probabilities of all actions for a matrix of encoded contexts, or a classifier or regressor of
        scikit-learn, which is fitted to the rewards of each action. Models are fitted here, and never to the records that
        are held back; a policy or a function must not have seen these either. The best of all is the result, and its
        certificate does not pay for the number of candidates. A result of your own cannot be saved to a file.
    """
    from surefoot.candidates import fits
    from surefoot.learning import Portfolio

    learner = Portfolio() if learner is None else learner
    if learner.get_params(deep=False).get("gate", "always") != "always":
        raise refused("the gate of a learner that learns from files", "always", learner.gate)
    if isinstance(prior, (str, os.PathLike)) and str(prior) not in ("uniform", "estimated"):
        prior = Policy.load(prior)
    known = prior if isinstance(prior, Policy) else None
    rounds = source
    crosses = [cross] if isinstance(cross, str) else cross
    if isinstance(source, Rounds) and engine is not None:
        raise TypeError("an engine is for files: these rounds were read already, with the engine that was given then")
    if not isinstance(source, Rounds):
        rounds = open_logs(source, **columns).rounds(
            by=by,
            set_aside=set_aside,
            reward_range=cast("tuple[float, float]", tuple(reward_range)),
            features=None if features is None else list(features),
            ignore=list(ignore),
            categorical=list(categorical),
            vocabulary=vocabulary,
            hash_bits=hash_bits,
            standardise=standardise,
            prior=known,
            cross=None if crosses is None else [] if list(crosses) == ["none"] else list(crosses),
            cross_bits=cross_bits,
            memory=memory,
            cache=cache,
            map=None if engine is None else checked(engine),
        )
    try:
        with watch(1, progress, "learning") as shown:
            found = rounds.retrain(
                learner._learner(len(rounds)),
                prior=prior if isinstance(prior, Policy) else str(prior),
                held_back=held_back,
                exploration=exploration,
                intercept=intercept,
                prior_is_older=prior_is_older,
                candidates=fits(candidates, len(rounds.actions), exploration),
                watch=shown,
            )
    finally:
        if engine is not None and cache is None:
            # The workers remove their files. If they cannot, files of temporary folders are left.
            with suppress(Exception):
                rounds.forget()
    own = next((candidate["name"] for candidate in found["contenders"] if candidate["leads"]), None)
    return Learned(
        policy=found["policy"],
        prior=found["prior"],
        certificate=found["proven"],
        better=found["better"],
        certified=found["certified"],
        logged=found["logged"],
        estimate=found["estimate"],
        records=found["total"],
        rounds=found["rounds"],
        held_back=found["held_back"],
        lam=found["lambda"],
        kl=found["kl"],
        columns=found["columns"],
        warnings=found["warnings"],
        members=found["learners"],
        candidates=found["contenders"],
        winner=own or next((member["member"] for member in found["learners"] if member["leads"]), None),
    )


def score(
    source: Source,
    policy: Policy | str | os.PathLike[str],
    *,
    seed: int = 1,
    probabilities: bool = False,
    **columns: Any,
) -> ArrowTable:
    """Decides on raw records: an Arrow table with ``event_id``, ``action``, ``pscore`` and ``policy_version``.

    An event with the same id always gets the same decision, wherever it occurs. An event without an id gets a new random
    one, so its decision cannot be repeated. Log ``event_id`` with the decision. ``to_pandas`` and ``to_polars`` convert the table to
    a data frame; ``pyarrow.table`` accepts it too, since it has Arrow's C stream. ``columns`` are arguments of
    :func:`open_logs`, such as ``event_id``, ``format`` or ``catalogue``.
    """
    return open_logs(source, **columns).score(policy, seed=seed, probabilities=probabilities)
