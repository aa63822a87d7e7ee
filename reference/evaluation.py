"""Estimates of a policy's risk from N records, with their intervals, and a cross-fitted cost model.

    w = p/q;  u = chat(x, policy), v = chat(x, logged action)

    weighted                        mean h(p, q, c)
    self-normalised                 sum w c / sum w
    direct-method                   mean u
    doubly-robust                   mean [ u + w (c - v) ]
    self-normalised-doubly-robust   mean u + sum w (c - v) / sum w
    switch                          mean [ u + w 1[w <= tau] (c - v) ]

The standard error of a ratio A/B is that of the mean of (a - (A/B) b)/B. The interval that holds at any time has the
upper end of a certificate at half of delta, and the lower end of one for the costs -1 - c.
"""

import mpmath as mp
import numpy as np

import certificates
import regularizers

DIGITS = 40
LAMBDAS = [0.9, 0.3, 0.1, 0.02]

ESTIMATORS = [
    *({"estimator": "weighted", "name": name, **params} for name, params in regularizers.SETTINGS),
    {"estimator": "self-normalised"},
    {"estimator": "direct-method"},
    {"estimator": "doubly-robust"},
    {"estimator": "self-normalised-doubly-robust"},
    {"estimator": "switch", "tau": 0.0},
    {"estimator": "switch", "tau": 1.3},
    {"estimator": "switch", "tau": 50.0},
]


def terms(estimator, log):
    """Terms whose mean is the estimate, and whose deviation is that of its linearisation."""
    p, q, c, u, v = ([mp.mpf(x) for x in log[key]] for key in ("p", "q", "c", "mean", "logged"))
    n, w = len(p), [x / y for x, y in zip(p, q)]
    kind = estimator["estimator"]
    if kind == "weighted":
        params = {key: x for key, x in estimator.items() if key not in ("estimator", "name")}
        return [regularizers.bind(estimator["name"], params, y, z)(x) for x, y, z in zip(p, q, c)]
    if kind == "direct-method":
        return u
    if kind in ("doubly-robust", "switch"):
        tau = estimator.get("tau", mp.inf)
        return [a + (x * (z - b) if x <= tau else 0) for a, b, x, z in zip(u, v, w, c)]
    base, excess = ([mp.mpf(0)] * n, c) if kind == "self-normalised" else (u, [z - b for z, b in zip(c, v)])
    ratio, mean = mp.fdot(w, excess) / mp.fsum(w), mp.fsum(w) / n
    return [a + ratio + x * (e - ratio) / mean for a, x, e in zip(base, w, excess)]


def deviation(values):
    mean = mp.fsum(values) / len(values)
    return mp.sqrt(mp.fsum((x - mean) ** 2 for x in values) / (len(values) - 1))


def reach(estimator, log, largest):
    """The length of the range of the terms, by search over the records that are possible, or None if there is none."""
    kind = estimator["estimator"]
    if kind.startswith("self-normalised"):
        return None
    if kind == "direct-method":
        return 1.0
    if kind != "weighted":
        return 1.0 + 2.0 * min(largest, estimator.get("tau", np.inf))
    params = {key: x for key, x in estimator.items() if key not in ("estimator", "name")}
    found = mp.mpf(0)
    for w in [*np.geomspace(1e-3, largest, 400), *(x for x in (mp.sqrt(params.get("lambda", 1)),) if x <= largest)]:
        for p in (1e-3, 0.1, 0.5, 1.0):
            q = p / mp.mpf(w)
            if p == 1.0 or q <= 1:
                found = max(found, -regularizers.bind(estimator["name"], params, q, -1)(p))
    return float(found)


def bernstein(values, length, delta):
    """Maurer and Pontil (2009), Theorem 4, at delta/2 for each side."""
    n, price, mean = len(values), mp.log(4 / mp.mpf(delta)), mp.fsum(values) / len(values)
    half = deviation(values) * mp.sqrt(2 * price / n) + 7 * length * price / (3 * (n - 1))
    return [float(mean - half), float(mean + half)]


def anytime(log, delta):
    flipped = {**log, "c": [float(-1 - mp.mpf(c)) for c in log["c"]]}
    ends = [certificates.bound("ls", "fixed", "psi", LAMBDAS, delta / 2, side)["upper"] for side in (flipped, log)]
    return [max(-1.0, -1 - ends[0]), min(0.0, ends[1])]


def evaluations(random):
    for n, largest, delta in ((12, 25.0, 0.05), (80, 25.0, 0.1), (400, 25.0, 0.05)):
        log = {
            "p": np.where(random.random(n) < 0.2, 0.0, np.round(random.random(n), 4)).tolist(),
            "q": np.round(random.uniform(0.05, 0.95, n), 4).tolist(),
            "c": np.where(random.random(n) < 0.3, 0.0, -np.round(random.random(n) * 64) / 64).tolist(),
            "logged": (-np.round(random.random(n), 3)).tolist(),
            "mean": (-np.round(random.random(n), 3)).tolist(),
        }
        with mp.workdps(DIGITS):
            rows = []
            for estimator in ESTIMATORS:
                values = terms(estimator, log)
                length = reach(estimator, log, largest)
                rows.append(
                    {
                        "estimator": estimator,
                        "value": float(mp.fsum(values) / n),
                        "standard_error": float(deviation(values) / mp.sqrt(n)),
                        "bernstein": length and bernstein(values, length, delta),
                    }
                )
            w = [mp.mpf(x) / mp.mpf(y) for x, y in zip(log["p"], log["q"])]
            weights = {
                "mean": float(mp.fsum(w) / n),
                "standard_error": float(deviation(w) / mp.sqrt(n)),
                "z": float(hall(w)),
                "verdict": verdict(w),
                "largest": float(max(w)),
                "effective": float(mp.fsum(w) ** 2 / mp.fsum(x * x for x in w)),
                "zero": sum(x == 0 for x in w) / n,
            }
        given = {"lambdas": LAMBDAS, "delta": delta, "largest_weight": largest}
        yield {**given, **log, "estimates": rows, "weights": weights, "anytime": anytime(log, delta)}


def fold(record, folds):
    """The finaliser of SplitMix64."""
    mask = 2**64 - 1
    x = (record + 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return (x ^ (x >> 31)) % folds


def ridge(x, c, penalty):
    """Least squares with sqrt(penalty) times the identity as further rows, which have no intercept."""
    n, p = x.shape
    rows = np.block([[x, np.ones((n, 1))], [np.sqrt(penalty) * np.eye(p), np.zeros((p, 1))]])
    return np.linalg.lstsq(rows, np.concatenate([c, np.zeros(p)]), rcond=None)[0]


def models(random):
    for n, features, actions, folds, penalty in ((60, 2, 3, 3, 1.0), (300, 5, 4, 5, 0.01), (9, 3, 6, 2, 10.0)):
        x = np.round(random.normal(0, 1, (n, features)) * 8) / 8
        a = random.integers(0, actions, n)
        c = np.where(random.random(n) < 1 / (1 + np.exp(-x[:, 0] - 0.5 * a)), -1.0, -0.125)
        own = np.array([fold(i, folds) for i in range(n)])
        predicted = np.empty((n, actions))
        for f in range(folds):
            for b in range(actions):
                kept = (own != f) & (a == b)
                fit = ridge(x[kept], c[kept], penalty) if kept.any() else np.append(np.zeros(features), c[own != f].mean())
                predicted[own == f, b] = x[own == f] @ fit[:-1] + fit[-1]
        yield {
            "features": features,
            "actions": actions,
            "folds": folds,
            "penalty": penalty,
            "contexts": x.ravel().tolist(),
            "action": a.tolist(),
            "cost": c.tolist(),
            "predicted": np.clip(predicted, -1, 0).ravel().tolist(),
        }


def hall(w):
    """By how many standard errors the mean weight is off 1, with the skewness taken out (Hall 1992)."""
    n, mean = len(w), mp.fsum(w) / len(w)
    second, third = (mp.fsum((x - mean) ** k for x in w) / n for k in (2, 3))
    off, skew = (mean - 1) / mp.sqrt(second), third / second ** mp.mpf("1.5")
    return mp.sqrt(n) * (((1 + skew * off / 3) ** 3 - 1) / skew + skew / (6 * n))


def verdict(w):
    """Whether the mean weight is 1, at one false alarm in ten thousand."""
    if mp.fsum(w) ** 2 / mp.fsum(x * x for x in w) < 100:
        return "cannot-tell"
    off = mp.fsum(w) / len(w) - 1
    if abs(hall(w)) <= 3.9 or abs(off) <= 2e-3:
        return "fits"
    if off > 0:
        return "above"
    return "below" if max(w) < mp.fsum(w) / 1000 else "below-or-rare"


def cases():
    random = np.random.default_rng(90)
    return {"evaluations": list(evaluations(random)), "models": list(models(random))}
