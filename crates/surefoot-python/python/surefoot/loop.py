"""The loop closed, where the truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from surefoot import _surefoot
from surefoot._progress import watch
from surefoot._results import History, Simulation
from surefoot._surefoot import Environment, Policy

__all__ = ["simulate"]

#: Interactions in a world without an end, unless told otherwise.
INTERACTIONS = 10_000


def simulate(
    environment: Environment,
    learner: Any,
    *,
    rounds: int = 10,
    schedule: str | Sequence[int] = "auto",
    interactions: int = 0,
    alpha: float = 0.2,
    first: Policy | None = None,
    certify: bool = False,
    progress: bool | None = None,
) -> Simulation:
    """Deploys, logs, learns, judges and deploys again: the numbers are those of ``surefoot simulate`` with the same settings.

    Parameters
    ----------
    environment : Environment
        The world.
    learner : SeqAdjLS, SeqLS, Shift, SCRM or BatchLS
        What turns logs into policies; it is not changed. Its ``prior`` is not used: ``first`` is.
    rounds : int
        How many.
    schedule : {"auto", "equal", "doubling"} or list of int
        The sizes of the rounds; ``"auto"`` is doubling for SCRM and equal for all others.
    interactions : int
        How many in all; 0 for every record of a data set, or 10,000 in a synthetic world.
    alpha : float
        The quality of the first policy: 0 is uniform, 1 is as trained on 5 % of the data.
    first : Policy, optional
        The first policy itself.
    certify : bool
        Whether what is proven about each round's policy is told.

    >>> import surefoot
    >>> world = surefoot.Environment.dataset("digits", seed=1)
    >>> run = surefoot.simulate(world, surefoot.SeqAdjLS(lam=0.4), rounds=3, interactions=1500)
    >>> run.rewards[-1] > run.rewards[0]
    True
    """
    settings = learner.get_params(deep=False)
    if first is None:
        first = environment.first_policy(alpha=alpha, exploration=settings["exploration"])
    if schedule == "auto":
        schedule = "doubling" if learner._name() == "scrm" else "equal"
    endless = environment.kind != "labels"
    total = interactions or (INTERACTIONS if endless and isinstance(schedule, str) else environment.interactions)
    sizes = _surefoot.sizes(total, rounds, schedule if isinstance(schedule, str) else list(schedule))
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
        confidence=1.0 - settings["delta"],
    )
