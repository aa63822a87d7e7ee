"""Propensities of candidates with a deviation each, one integral at a time, with 25 digits.

    pi(a) = int phi((z - m_a)/v_a)/v_a prod_{b != a} Phi((z - m_b)/v_b) dz

The range is cut where any factor changes: at m_b - 9 v_b, .., m_b + 9 v_b for each b.
"""

import mpmath as mp
import numpy as np


def propensity(means, deviations, a):
    with mp.workdps(25):
        m, v = [mp.mpf(x) for x in means], [mp.mpf(x) for x in deviations]

        def f(z):
            t = (z - m[a]) / v[a]
            product = mp.exp(-t * t / 2) / mp.sqrt(2 * mp.pi) / v[a]
            for b in range(len(m)):
                if b != a:
                    product *= mp.ncdf((z - m[b]) / v[b])
            return product

        low, high = m[a] - 13 * v[a], m[a] + 13 * v[a]
        cuts = {m[b] + step * v[b] for b in range(len(m)) for step in (-9, -5, -2, 0, 2, 5, 9)}
        edges = [low] + sorted(cut for cut in cuts if low < cut < high) + [high]
        return float(mp.quad(f, edges, method="gauss-legendre", maxdegree=5))


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
