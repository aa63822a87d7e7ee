"""Propensities of candidates with a deviation each, one integral at a time, in log space.

    pi(a) = int phi((z - m_a)/v_a)/v_a prod_{b != a} Phi((z - m_b)/v_b) dz

by the trapezoid rule, whose step is a fiftieth of the smallest deviation, over 30 deviations of a to both sides.
"""

import numpy as np
from scipy.special import log_ndtr


def propensity(means, deviations, a):
    m, v = np.asarray(means), np.asarray(deviations)
    h = v.min() / 50
    z = m[a] + h * np.arange(-np.ceil(30 * v[a] / h), np.ceil(30 * v[a] / h) + 1)
    t = (z - m[a]) / v[a]
    log = -0.5 * t * t - 0.5 * np.log(2 * np.pi) - np.log(v[a])
    for b in range(len(m)):
        if b != a:
            log += log_ndtr((z - m[b]) / v[b])
    top = log.max()
    return float(np.exp(top) * h * np.exp(log - top).sum())


def cases():
    random = np.random.default_rng(31)
    out = []
    for actions, ratio, spread in [(2, 1, 1), (2, 30, 1), (3, 3, 2), (5, 10, 1), (5, 900, 3), (8, 2, 4), (12, 4, 1)]:
        for _ in range(2):
            deviations = [round(float(x), 6) for x in np.exp(random.uniform(0, np.log(ratio), actions))]
            means = [round(float(x), 6) for x in random.normal(0, spread, actions)]
            p = [propensity(means, deviations, a) for a in range(actions)]
            out.append({"means": means, "deviations": deviations, "propensity": p})
    # Some that are nearly impossible.
    for means, deviations in [([0.0, 6.0], [0.5, 1.0]), ([0.0, 4.0, 5.0], [0.2, 0.1, 1.0]), ([0.0, 9.0], [1.0, 0.25])]:
        p = [propensity(means, deviations, a) for a in range(len(means))]
        out.append({"means": means, "deviations": deviations, "propensity": p})
    return out
