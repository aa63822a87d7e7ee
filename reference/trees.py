"""Boosted trees with one value per action in each leaf: every cut of every leaf is tried, with all its records."""

from collections import Counter
from math import fsum

import numpy as np

LEAF = 2**32 - 1
MOST_BINS = 64
MARGIN = 1e-6


def cuts(values):
    """The middles between neighbouring bins of one feature."""
    counts = Counter(values)
    distinct = sorted(counts)
    if len(distinct) <= MOST_BINS:
        groups = {value: i for i, value in enumerate(distinct)}
    else:
        usual = min(distinct, key=lambda value: (-counts[value], value))
        low = [value for value in values if value < usual]
        high = [value for value in values if value > usual]
        share = int((MOST_BINS - 1) * len(low) / (len(low) + len(high)) + 0.5)
        below = max(1, min(share, MOST_BINS - 1 - bool(high))) if low else 0
        groups = {usual: (1, 0)}
        for side, part, bins in ((0, low, below), (2, high, MOST_BINS - 1 - below)):
            for value in set(part):
                groups[value] = (side, sum(v < value for v in part) * bins // len(part))
    pairs = [(a, b) for a, b in zip(distinct, distinct[1:]) if groups[a] != groups[b]]
    return [(a + b) / 2 for a, b in pairs]


def score(records, residual, action, ridge):
    """The sum of G_a^2 / (n_a + ridge) over actions."""
    terms = []
    for a in set(action[i] for i in records):
        own = [residual[i] for i in records if action[i] == a]
        terms.append(fsum(own) ** 2 / (len(own) + ridge))
    return fsum(terms)


def best_split(records, contexts, all_cuts, residual, action, least, ridge):
    """Gain, feature and threshold of the best split, the first one of those that divide the records alike."""
    before = score(records, residual, action, ridge)
    found = {}
    for feature, feature_cuts in enumerate(all_cuts):
        for cut in feature_cuts:
            left = tuple(i for i in records if contexts[i][feature] <= cut)
            right = tuple(i for i in records if contexts[i][feature] > cut)
            if min(len(left), len(right)) < least:
                continue
            parts = frozenset((left, right))
            if parts not in found:
                gain = score(left, residual, action, ridge) + score(right, residual, action, ridge) - before
                found[parts] = (gain, feature, cut)
    ranked = sorted(found.values(), key=lambda split: -split[0])
    # Two implementations agree on the best split only if no other one is as good up to rounding.
    assert len(ranked) < 2 or ranked[0][0] - ranked[1][0] > MARGIN, ranked[:2]
    assert not ranked or abs(ranked[0][0]) > MARGIN
    return ranked[0] if ranked and ranked[0][0] > 0 else None


def tree(contexts, all_cuts, residual, action, leaves, least, ridge):
    """A tree as nested tuples; a leaf is the tuple of its records."""
    root = {"records": tuple(range(len(contexts)))}
    open_leaves = [root]
    count = 1
    while count < leaves:
        for leaf in open_leaves:
            if "split" not in leaf:
                leaf["split"] = best_split(leaf["records"], contexts, all_cuts, residual, action, least, ridge)
        ranked = sorted((leaf for leaf in open_leaves if leaf["split"]), key=lambda leaf: -leaf["split"][0])
        if not ranked:
            break
        assert len(ranked) < 2 or ranked[0]["split"][0] - ranked[1]["split"][0] > MARGIN
        leaf = ranked[0]
        _, feature, cut = leaf["split"]
        sides = ([], [])
        for i in leaf["records"]:
            sides[contexts[i][feature] > cut].append(i)
        leaf["parts"] = [{"records": tuple(side)} for side in sides]
        open_leaves = [other for other in open_leaves if other is not leaf] + leaf["parts"]
        count += 1
    return root


def nodes(part):
    """The nodes of a tree, each before its left and then its right part."""
    if "parts" not in part:
        return [(LEAF, 0.0)]
    return [part["split"][1:]] + nodes(part["parts"][0]) + nodes(part["parts"][1])


def leaves_of(part):
    return [part] if "parts" not in part else leaves_of(part["parts"][0]) + leaves_of(part["parts"][1])


def leaf_of(part, x):
    while "parts" in part:
        part = part["parts"][x[part["split"][1]] > part["split"][2]]
    return part


def boost(contexts, action, reward, actions, trees, leaves, shrinkage, least, ridge):
    means = [fsum(r for r, b in zip(reward, action) if b == a) / max(1, action.count(a)) for a in range(actions)]
    residual = [r - means[a] for r, a in zip(reward, action)]
    all_cuts = [cuts([x[feature] for x in contexts]) for feature in range(len(contexts[0]))]
    grown = []
    for _ in range(trees):
        root = tree(contexts, all_cuts, residual, action, leaves, least, ridge)
        assert "parts" in root
        grown.append(root)
        for leaf in leaves_of(root):
            for a in range(actions):
                own = [i for i in leaf["records"] if action[i] == a]
                value = shrinkage * fsum(residual[i] for i in own) / (len(own) + ridge)
                for i in own:
                    residual[i] -= value
    return grown


def points(random, count, size):
    """Numbers that single precision holds, as do their middles; the last feature is often 0, and one has few values."""
    values = np.round(256 * random.normal(size=(count, size))) / 256
    values[:, 0] = np.round(2 * values[:, 0])
    values[:, -1] = np.where(random.uniform(size=count) < 0.5, 0.0, values[:, -1])
    return [[float(v) for v in row] for row in values]


def cases():
    random = np.random.default_rng(71)
    rows = []
    for n, size, actions, trees, leaves, shrinkage, least, ridge in (
        (50, 2, 2, 3, 4, 0.5, 4, 1.0),
        (150, 3, 3, 4, 6, 0.2, 8, 3.0),
        (400, 4, 5, 3, 9, 1.0, 15, 0.5),
    ):
        contexts, others = points(random, n, size), points(random, 8, size)
        action = [int(a) for a in random.integers(actions, size=n)]
        best = [int(x[1] > 0.3) + 2 * (x[-1] > 0) for x in contexts]
        noise = random.uniform(size=n)
        reward = [round((0.6 * (b % actions == a) + 0.4 * v) * 4096) / 4096 for b, a, v in zip(best, action, noise)]
        grown = boost(contexts, action, reward, actions, trees, leaves, shrinkage, least, ridge)
        flat = [node for root in grown for node in nodes(root)]
        numbers = {id(leaf): i for i, leaf in enumerate(leaf for root in grown for leaf in leaves_of(root))}
        rows.append(
            {
                "actions": actions,
                "contexts": contexts,
                "action": action,
                "reward": reward,
                "trees": trees,
                "leaves": leaves,
                "shrinkage": shrinkage,
                "least_records": least,
                "ridge": ridge,
                "features": [feature for feature, _ in flat],
                "thresholds": [threshold for _, threshold in flat],
                "others": others,
                "leaf": [[numbers[id(leaf_of(root, x))] for root in grown] for x in others],
            }
        )
    return rows
