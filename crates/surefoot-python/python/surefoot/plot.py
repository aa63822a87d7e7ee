r"""Plots with matplotlib: of a loop, importance weights, propensities and evaluations.

Each function draws into ``ax``, or into a new figure if there is none, and returns the axes. Nothing is shown: save the
plot with ``ax.figure.savefig``. Lines differ in dashes and markers too, so that they can be distinguished without
colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot._results import Evaluation, History, Simulation, _percent
from surefoot._surefoot import Logs, Policy
from surefoot.errors import refused
from surefoot.evaluation import _own_actions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["evaluation", "reliability", "risk", "weights"]

# Okabe and Ito's colours, which colour-blind readers can distinguish.
_BLUE, _ORANGE, _GREEN, _RED, _PURPLE, _SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
_COLOURS = (_BLUE, _RED, _GREEN, _PURPLE, _ORANGE, _SKY)
_MARKERS = "osD^vP"
_GREY, _LIGHT = "#555555", "#DDDDDD"


def _axes(ax: Axes | None, size: tuple[float, float] = (7.0, 4.2)) -> Axes:
    """The given axes, or new ones, without the top and right spines."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("surefoot.plot needs matplotlib: pip install matplotlib") from error
    if ax is None:
        _, ax = pyplot.subplots(figsize=size, layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_axisbelow(True)
    return ax


def _legend(ax: Axes, title: str | None = None) -> None:
    """Draws the legend beside the axes, where it covers nothing."""
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, borderaxespad=0.3, title=title)


def risk(run: Simulation | History | Any, ax: Axes | None = None) -> Axes:
    r"""The reward of each policy of a loop: true, certified and logged.

    The horizontal axis is the number :math:`r` of rounds that a policy was learned from. The plot shows the policy's
    true reward, its certified lower bound (if it is not vacuous), and the mean reward logged when it ran, in round
    :math:`r + 1`. The dashed line is the best possible reward. If there is a gate, promotions are marked.

    ``run`` is a :class:`~surefoot.Simulation`, a fitted learner or its ``history_``. The last two have no true rewards.

    >>> import surefoot
    >>> from surefoot import plot
    >>> world = surefoot.Environment.synthetic(seed=1)
    >>> run = surefoot.simulate(world, surefoot.SeqAdjLS(lam=0.4), rounds=3, interactions=1500, certify=True)
    >>> ax = plot.risk(run)
    >>> [line.get_label() for line in ax.get_lines()]
    ['best possible', 'true', 'certified: at least', 'logged, when it ran']
    """
    history, first, best = run, None, None
    if isinstance(run, Simulation):
        history, first, best = run.rounds, run.first_reward, run.best_reward
    elif hasattr(run, "history_"):
        history = run.history_
    if not isinstance(history, History):
        raise refused("run", "a Simulation, a fitted estimator or its history_", type(run).__name__)
    if not len(history):
        raise refused("run", "of at least 1 round", "empty")
    ax = _axes(ax)
    n = len(history)
    after = np.arange(1, n + 1)
    if best is not None:
        ax.axhline(best, color=_GREY, linestyle="--", linewidth=1.2, label="best possible")
    known = history[0].get("true_reward") is not None
    rewards = np.array([report["true_reward"] for report in history] if known else [])
    if known:
        x, y = (after, rewards) if first is None else (np.arange(n + 1), np.array([first, *rewards]))
        ax.plot(x, y, color=_BLUE, marker="o", label="true")
    proven = [report.get("ladder") or report.get("certificate") for report in history]
    certified = np.array([np.nan if c is None or c.vacuous else c.at_least for c in proven])
    if any(c is not None for c in proven):
        ax.plot(after, certified, color=_RED, marker="s", linestyle="-.", label="certified: at least")
    logged = [report["mean_reward"] for report in history]
    ax.plot(after - 1, logged, color=_GREEN, marker="x", linestyle=":", label="logged, when it ran")
    # Without a gate every policy is promoted, and all would be marked.
    gated = any(report.get("decided_by") is not None for report in history)
    if gated:
        promoted = np.array([bool(report["promoted"]) for report in history])
        heights = rewards if known else np.where(np.isnan(certified), np.asarray(logged), certified)
        ring: dict[str, Any] = {"marker": "o", "markersize": 13, "markerfacecolor": "none", "markeredgecolor": "black"}
        ax.plot(after[promoted], heights[promoted], linestyle="none", label="promoted", **ring)
    ax.set_xlabel("rounds learned from")
    ax.set_ylabel("reward of the policy")
    ax.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    ax.grid(axis="y", color=_LIGHT)
    _legend(ax)
    return ax


def _propensities(logs: Logs, policy: Any) -> NDArray[np.float64]:
    """The probabilities that a policy gives the logged actions."""
    known = _own_actions(policy, logs)
    if isinstance(known, Policy):
        return known.propensity(logs.X, logs.action, eligible=logs.eligible)
    p = np.asarray(known, dtype=np.float64)
    if p.shape == (len(logs),):
        return p
    return _matrix(logs, p)[np.arange(len(logs)), logs.action]


def _matrix(logs: Logs, p: NDArray[np.float64]) -> NDArray[np.float64]:
    if p.shape != (len(logs), logs.n_actions):
        raise refused("the shape of the policy's probabilities", f"({len(logs)}, {logs.n_actions})", p.shape)
    return p


def weights(logs: Logs, policy: Any, ax: Axes | None = None) -> Axes:
    r"""The tail of the importance weights :math:`w = \pi(a|x)/q`: the share of records with a weight of at least this.

    Both axes are logarithmic. A line that falls slowly is a heavy tail: a few records then dominate the estimate. The
    title gives the effective sample size :math:`(\sum w)^2 / \sum w^2`, and the largest weight is marked. ``policy`` is
    anything that :func:`surefoot.evaluate` accepts.

    >>> import surefoot
    >>> from surefoot import plot
    >>> world = surefoot.Environment.synthetic(seed=1)
    >>> logs = world.collect(surefoot.Policy.uniform(5), 1000)
    >>> plot.weights(logs, "uniform").get_title()
    'effective sample size 1,000 of 1,000'
    """
    w = np.sort(_propensities(logs, policy) / logs.pscore)[::-1]
    n, positive = len(w), w[w > 0.0]
    if not len(positive):
        raise refused("the policy", "one that can take an action that was logged", "one that takes none of them")
    ax = _axes(ax)
    shares = np.arange(1, len(positive) + 1) / n
    effective = float(w.sum() ** 2 / (w**2).sum())
    ax.axvline(1.0, color=_GREY, linestyle="--", linewidth=1.2, label="weight 1")
    # At each weight, the share of weights that are at least as large: the line falls just after it.
    ax.plot(positive, shares, drawstyle="steps-post", color=_BLUE, label="records")
    ax.plot(positive[:1], shares[:1], "D", color=_RED, label=f"largest: {positive[0]:.3g}", clip_on=False, zorder=3)
    ax.set_xscale("log")
    ax.set_yscale("log")
    # The tail is on the right; the smallest weights do not matter.
    ax.set_xlim(max(positive[-1], 1e-4 * positive[0]) / 1.5, 1.5 * max(positive[0], 1.0))
    ax.set_xlabel("importance weight w")
    ax.set_ylabel("share of records with a weight of at least w")
    ax.set_title(f"effective sample size {effective:,.0f} of {n:,}")
    if len(positive) < n:
        note = f"weight 0: {100 * (1 - len(positive) / n):.1f} %"
        ax.plot([], [], linestyle="none", label=note)
    ax.grid(color=_LIGHT)
    _legend(ax)
    return ax


def reliability(
    logs: Logs, policy: Any = None, ax: Axes | None = None, bins: int | Sequence[float] | ArrayLike = 10
) -> Axes:
    r"""A reliability diagram: whether actions are taken as often as their propensities say.

    Every action of every record is put into a bin by the probability that ``policy``, the logging policy, claims for
    it. Each bin shows the share of its actions that were taken against their mean claimed probability, with Wilson's
    95 % interval. If the propensities are right, all points are on the diagonal.

    Parameters
    ----------
    logs : Logs
        The logs.
    policy : Policy, estimator, callable or array
        The logging policy, or the probabilities ``(n, K)`` that it claims. It may be left out only if there are two
        actions: then the logged propensities determine all probabilities.
    bins : int or array
        The number of bins, with the same expected number of taken actions in each, or the edges of the bins. The
        outermost bins also include values beyond their edges.

    >>> import surefoot
    >>> from surefoot import plot
    >>> world = surefoot.Environment.synthetic(seed=1)
    >>> deployed = world.first_policy(alpha=1.0)
    >>> ax = plot.reliability(world.collect(deployed, 1000), deployed)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('propensity that is claimed', 'share of times that the action was taken')
    """
    n, k = len(logs), logs.n_actions
    if policy is None:
        if k != 2:
            allowed = f"given: logs tell the probability of one action of {k} only"
            raise refused("policy", allowed, None)
        claimed = np.empty((n, 2))
        claimed[np.arange(n), logs.action] = logs.pscore
        claimed[np.arange(n), 1 - logs.action.astype(np.int64)] = 1.0 - logs.pscore
    else:
        known = _own_actions(policy, logs)
        if isinstance(known, Policy):
            claimed = known.predict_proba(logs.X, eligible=logs.eligible)
        else:
            claimed = _matrix(logs, np.asarray(known, dtype=np.float64))
    taken = np.zeros((n, k), dtype=bool)
    taken[np.arange(n), logs.action] = True
    p, was = claimed.ravel(), taken.ravel()
    place = np.digitize(p, _edges(p, bins)[1:-1])
    count = np.bincount(place)
    full = np.flatnonzero(count)
    count = count[full]
    x = np.bincount(place, weights=p)[full] / count
    share = np.bincount(place, weights=was)[full] / count
    lower, upper = _wilson(share, count)
    ax = _axes(ax, (6.4, 4.6))
    ax.plot([0, 1], [0, 1], color=_GREY, linestyle="--", linewidth=1.2, label="right")
    errors = np.maximum([share - lower, upper - share], 0.0)
    ax.errorbar(x, share, yerr=errors, fmt="o", color=_BLUE, capsize=3, label="taken, 95 %")
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    ax.set_aspect("equal")
    ax.set_xlabel("propensity that is claimed")
    ax.set_ylabel("share of times that the action was taken")
    ax.grid(color=_LIGHT)
    _legend(ax)
    return ax


def _edges(p: NDArray[np.float64], bins: Any) -> NDArray[np.float64]:
    """The edges of bins with the same expected number of taken actions, or the given edges."""
    given = np.asarray(bins, dtype=np.float64)
    if given.ndim == 1:
        if len(given) < 2 or not (np.diff(given) > 0.0).all():
            raise refused("bins", "a number of them, or at least 2 edges that go up", bins)
        return given
    if given.ndim != 0 or given != int(given) or given < 1:
        raise refused("bins", "a whole number from 1 on, or their edges", bins)
    ranked = np.sort(p)
    mass = np.cumsum(ranked)
    at = np.searchsorted(mass, mass[-1] * np.arange(1, int(given)) / given)
    return np.concatenate([[0.0], np.unique(ranked[at]), [1.0]])


def _wilson(share: NDArray[np.float64], n: NDArray[np.intp], z: float = 1.959964) -> tuple[Any, Any]:
    """Wilson's confidence interval for a proportion."""
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return centre - half, centre + half


def evaluation(found: Evaluation | Mapping[str, Evaluation], ax: Axes | None = None) -> Axes:
    """A forest plot of the evaluations of one or several policies, with one row per estimator.

    Points are estimates, thick lines are bootstrap intervals, and thin lines are Bernstein intervals, with an arrow
    where they extend beyond the plot. The last row is the proven interval, which is anytime-valid.

    >>> import surefoot
    >>> from surefoot import plot
    >>> world = surefoot.Environment.synthetic(seed=1)
    >>> logs = world.collect(surefoot.Policy.uniform(5), 1000)
    >>> candidates = {"uniform": "uniform", "first": world.first_policy(alpha=2.0)}
    >>> ax = plot.evaluation(surefoot.evaluate(logs, candidates, estimators=["ips", "snips"]))
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['IPS', 'SNIPS', 'proven, at any time']
    """
    several = {found.name: found} if isinstance(found, Evaluation) else found
    if not isinstance(several, Mapping) or not several or not all(isinstance(e, Evaluation) for e in several.values()):
        raise refused("found", "an Evaluation, or a dictionary of them", repr(found)[:80])
    rows: list[str] = []
    for one in several.values():
        rows.extend(e.estimator for e in one.estimates if e.estimator not in rows)
    rows.append("proven, at any time")
    place = {name: i for i, name in enumerate(rows)}
    ax = _axes(ax, (8.0, 1.2 + len(rows) * (0.1 + 0.2 * len(several))))
    left, right = _extent(several.values())
    inset = 0.01 * (right - left)
    apart = 0.75 / len(several)
    for i, (name, one) in enumerate(several.items()):
        colour, marker = _COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)]
        shift = (i - (len(several) - 1) / 2) * apart
        for e in one.estimates:
            y = place[e.estimator] + shift
            if e.bernstein is not None:
                ax.plot(e.bernstein, (y, y), color=colour, linewidth=1)
                if e.bernstein[0] < left:
                    ax.plot(left + inset, y, marker="<", markersize=6, color=colour)
                if e.bernstein[1] > right:
                    ax.plot(right - inset, y, marker=">", markersize=6, color=colour)
            if e.bootstrap is not None:
                ax.plot(e.bootstrap, (y, y), color=colour, linewidth=4, solid_capstyle="butt")
        y = place["proven, at any time"] + shift
        ax.plot(one.anytime, (y, y), color=colour, linewidth=4, solid_capstyle="butt")
        ax.plot(one.anytime, (y, y), color=colour, linestyle="none", marker="|", markersize=10, markeredgewidth=2)
        values = [e.value for e in one.estimates]
        heights = [place[e.estimator] + shift for e in one.estimates]
        white: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.7}
        ax.plot(values, heights, linestyle="none", marker=marker, markersize=6.5, color=colour, label=name, **white)
    if len(several) > 1:
        for i in range(len(rows) - 2):
            ax.axhline(i + 0.5, color=_LIGHT, linewidth=0.6, linestyle=":")
    ax.set_xlim(left, right)
    ax.axhline(len(rows) - 1.5, color=_GREY, linewidth=0.8)
    ax.set_yticks(range(len(rows)), rows)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    percent = " and ".join(sorted({_percent(one.confidence) for one in several.values()}))
    ax.set_xlabel(f"reward, with intervals of {percent} (thick: bootstrap; thin: Bernstein)")
    ax.grid(axis="x", color=_LIGHT)
    if len(several) > 1 or next(iter(several)):
        _legend(ax)
    return ax


def _extent(all_found: Iterable[Evaluation]) -> tuple[float, float]:
    """The range of the plot, which leaves out the ends of very wide intervals."""
    ends: list[float] = []
    for one in all_found:
        ends.extend(one.anytime)
        for e in one.estimates:
            ends.extend((e.value, *(e.bootstrap or ())))
    margin = 0.25 * (max(ends) - min(ends))
    return min(ends) - margin, max(ends) + margin
