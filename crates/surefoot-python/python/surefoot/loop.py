"""Simulation of the whole loop, where the truth is known, and verification."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

from surefoot import _surefoot
from surefoot._progress import watch
from surefoot._results import History, Simulation, Verification
from surefoot._surefoot import Certificate, Environment, Logs, Policy

__all__ = ["simulate", "verify"]

#: The default number of interactions in an environment without an end.
INTERACTIONS = 10_000


def simulate(
    environment: Environment,
    learner: Any = None,
    *,
    rounds: int | None = None,
    schedule: str | Sequence[int] = "auto",
    interactions: int = 0,
    alpha: float = 0.2,
    first: Policy | None = None,
    certify: bool = False,
    progress: bool | None = None,
) -> Simulation:
    """Runs the loop: deploy a policy, log, learn the next one, evaluate it, and deploy again.

    The numbers are those of ``surefoot simulate`` with the same settings.

    Parameters
    ----------
    environment : Environment
        The environment.
    learner : Portfolio, SeqAdjLS, SeqLS, Shift, SCRM or BatchLS, optional
        The learner; it is not changed. Its ``prior`` is ignored; ``first`` is used instead. By default ``Portfolio()`` without
        an exploration floor, as on the command line.
    rounds : int, optional
        The number of rounds. By default 20 for a portfolio, and 10 for all others.
    schedule : {"auto", "equal", "growing", "doubling"} or list of int
        The sizes of the rounds. ``"auto"`` is growing for a portfolio, doubling for SCRM and equal for all others.
    interactions : int
        The total number of interactions. 0 means every record of a data set, or 10,000 in a synthetic environment.
    alpha : float
        The quality of the first policy: 0 is uniform, 1 is as trained on 5 % of the data.
    first : Policy, optional
        The first policy, in place of the one that ``alpha`` gives.
    certify : bool
        Whether to certify the policy after each round.

    >>> import surefoot
    >>> world = surefoot.Environment.dataset("digits", seed=1)
    >>> run = surefoot.simulate(world, surefoot.SeqAdjLS(lam=0.4), rounds=3, interactions=1500)
    >>> run.rewards[-1] > run.rewards[0]
    True
    """
    from surefoot.learning import Portfolio

    learner = Portfolio(posterior="isotropic", exploration=0.0) if learner is None else learner
    settings = learner.get_params(deep=False)
    if first is None:
        first = environment.first_policy(alpha=alpha, exploration=settings["exploration"])
    endless = environment.kind != "labels"
    total = interactions or (INTERACTIONS if endless and isinstance(schedule, str) else environment.interactions)
    given = schedule if isinstance(schedule, str) else list(schedule)
    sizes = _surefoot.sizes(total, rounds, given, algorithm=learner._name())
    with watch(len(sizes), progress, "rounds") as shown:
        certified: Literal["each", "never"] = "each" if certify else "never"
        found = _surefoot.simulate(
            environment, first, learner._learner(len(sizes)), sizes, certify=certified, watch=shown
        )
    for report in found["rounds"]:
        report["true_reward"], report["mean_reward"] = -report["true_risk"], -report["mean_cost"]
    reward, accuracy = environment.evaluate(first)
    return Simulation(
        rounds=History(found["rounds"]),
        first_reward=reward,
        first_accuracy=accuracy,
        best_reward=environment.best_reward(),
        policies=found["policies"],
        learned=found["learned"],
        logs=found["logs"],
        hand_over=found["hand_over"],
        confidence=1.0 - settings["delta"],
    )


def verify(
    claimed: str | os.PathLike[str] | Certificate | Sequence[tuple[int, str, Certificate]],
    policies: Sequence[Policy] | None = None,
    rounds: Sequence[Logs] | None = None,
    *,
    deployed: Sequence[Policy | None] | None = None,
    head: str | Sequence[str] = (),
) -> Verification:
    """Verifies certificates from policies and logs alone, as ``surefoot verify`` does.

    Parameters
    ----------
    claimed : path, Certificate, or list of (int, str, Certificate)
        A folder written by ``surefoot simulate --save``, ``surefoot learn --save`` or ``save_run``, which needs no
        other argument; one certificate; or a list of certificates as :func:`read_certificates` returns it.
    policies : list of Policy
        All policies that the certificates refer to, in any order.
    rounds : list of Logs
        All rounds of the loop, the oldest first.
    deployed : list of Policy, optional
        The policies that collected each round. If given, the logged propensities are recomputed and compared, and every
        prior must be one of these policies.
    head : str or list of str, optional
        Heads of the ledger that were handed over before some rounds were collected (``ledger_head_`` of a learner). Each must be
        in the ledger of the folder.

    Returns
    -------
    Verification
        It is true if everything was verified; otherwise ``differences`` lists what was not.

    Examples
    --------
    >>> import surefoot
    >>> world = surefoot.Environment.synthetic(seed=1)
    >>> first, better = world.first_policy(alpha=0.0), world.first_policy(alpha=1.0)
    >>> logs = world.collect(first, 2000)
    >>> honest = surefoot.certify(better, [logs], prior=first)
    >>> surefoot.verify(honest, [first, better], [logs], deployed=[first]).verified
    True
    >>> forged = surefoot.Certificate.from_json(honest.to_json().replace('"records":2000', '"records":4000'))
    >>> surefoot.verify(forged, [first, better], [logs]).differences
    ['round 1, certificate: records: the certificate says 4000, but logs and policies give 2000']
    """
    if isinstance(claimed, (str, os.PathLike)):
        return Verification._of(_surefoot._verify_run(claimed, [head] if isinstance(head, str) else list(head)))
    if policies is None or rounds is None:
        raise TypeError("policies and rounds should be given, unless a folder is verified")
    if isinstance(claimed, Certificate):
        about = claimed.to_dict()
        kind = "certificate" if about["share"]["round"] is None else "ladder"
        claimed = [(about["since"]["round"] + len(about["logs"]), kind, claimed)]
    collected_by = [None if policy is None else policy.fingerprint for policy in deployed or [None] * len(rounds)]
    if len(collected_by) != len(rounds):
        raise TypeError("deployed should have one policy for each round")
    known = {policy.fingerprint: policy for policy in [*policies, *(policy for policy in deployed or [] if policy)]}
    heads = [head] if isinstance(head, str) else list(head)
    found = _surefoot._verify(list(claimed), list(known.values()), list(rounds), collected_by, heads)
    return Verification._of(found)
