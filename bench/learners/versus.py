"""Where Surefoot's portfolio wins and where it loses: against the best rival of every set, start and measure."""

from dataclasses import dataclass

import numpy as np

OURS = "Surefoot, portfolio"
MEASURES = ["value", "reward", "certified"]


@dataclass
class Duel:
    """The portfolio against one rival, seed by seed, on the seeds that both have."""

    set: str
    start: str
    measure: str
    rival: str
    ours: np.ndarray
    theirs: np.ndarray

    @property
    def differences(self):
        return self.ours - self.theirs

    @property
    def difference(self):
        return float(self.differences.mean())

    @property
    def seeds_won(self):
        return int((self.differences > 0).sum())


def fought(runs, measure):
    """The portfolio against every other method, per set and start."""
    found = {}
    for run in runs.values():
        if run["start"] != "limit" and run.get(measure) is not None:
            methods = found.setdefault((run["set"], run["start"]), {})
            methods.setdefault(run["method"], {})[run["seed"]] = run[measure]
    for place, methods in found.items():
        ours = methods.pop(OURS, {})
        for rival, theirs in methods.items():
            seeds = sorted(ours.keys() & theirs.keys())
            if seeds:
                sides = [np.array([side[seed] for seed in seeds]) for side in (ours, theirs)]
                yield Duel(*place, measure, rival, *sides)


def duels(runs, measure):
    """One duel per set and start, with the rival that does best against the portfolio; the worst for us first."""
    hardest = {}
    for duel in sorted(fought(runs, measure), key=lambda duel: duel.difference):
        if not duel.rival.startswith("Surefoot"):
            hardest.setdefault((duel.set, duel.start), duel)
    return list(hardest.values())


def own(runs, measure):
    """Surefoot's other learners: on how many sets and starts they are ahead of the portfolio, and on how many they ran."""
    counts = {}
    for duel in fought(runs, measure):
        if duel.rival.startswith("Surefoot"):
            ahead, all_of_them = counts.get(duel.rival, (0, 0))
            counts[duel.rival] = ahead + (duel.difference < 0), all_of_them + 1
    return counts


def times(runs):
    """How many times the processor time of the best rival by value the portfolio takes, per set and start."""
    ratios = []
    for duel in duels(runs, "value"):
        here = [run for run in runs.values() if (run["set"], run["start"]) == (duel.set, duel.start)]
        ours, theirs = (np.mean([r["cpu"] for r in here if r["method"] == name]) for name in (OURS, duel.rival))
        ratios.append(float(ours / max(theirs, 1e-3)))
    return ratios


def alone(runs):
    """Sets and starts where the portfolio has runs, and no rival has."""
    both = {(duel.set, duel.start) for duel in duels(runs, "value")}
    ours = {(run["set"], run["start"]) for run in runs.values() if run["method"] == OURS}
    return sorted(ours - both)


def broken(runs, group_is):
    """The number of runs with certificates, and of those with one above the value at least."""
    certified = [run for run in runs.values() if run.get("statements") and group_is(run["group"])]
    return len(certified), sum(run["violations"] > 0 for run in certified)
