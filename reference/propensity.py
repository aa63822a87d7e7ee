"""Propensities of the linear Gaussian policy, one integral at a time, in log space.

    pi(a)          =   int phi(z - s_a) prod_{b != a} Phi(z - s_b) dz
    d pi(a)/d s_b  = - int phi(z - s_a) phi(z - s_b) prod_{c != a,b} Phi(z - s_c) dz,   b != a
    d pi(a)/d s_a  =   int phi(z - s_a) prod_{b != a} Phi(z - s_b) sum_{b != a} (phi/Phi)(z - s_b) dz
                   = - sum_{b != a} d pi(a)/d s_b

The logarithm of the first two integrands is concave with second derivative <= -1. So each has one
mode; outside the window where it is within DEPTH of its maximum it is negligible, and inside it a
composite Gauss-Legendre rule converges to machine precision *relative* to the integral.
"""

import mpmath as mp
import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

import normal

DEPTH = 46.0
PANELS, ORDER = 14, 16
LN_SQRT_2PI = 0.5 * np.log(2 * np.pi)


class Integrand:
    """ln prod_{i in densities} phi(z - s_i) prod_{others} Phi(z - s_i), with s measured from s_a."""

    def __init__(self, scores, densities):
        scores = np.asarray(scores, dtype=float)
        self.origin = scores[densities[0]]
        self.dense = scores[list(densities)] - self.origin
        self.others = np.delete(scores, list(densities)) - self.origin

    def log(self, z):
        """z: an array; one row of scores a point."""
        z = np.atleast_1d(z)[:, None]
        log_phi = -0.5 * (z - self.dense) ** 2 - LN_SQRT_2PI
        return log_phi.sum(axis=1) + log_ndtr(z - self.others).sum(axis=1)

    def hazards(self, z):
        """phi/Phi at z - s_b for every other action."""
        t = np.atleast_1d(z)[:, None] - self.others
        return np.exp(-0.5 * t * t - LN_SQRT_2PI - log_ndtr(t))

    def slope(self, z):
        """Derivative of the logarithm: falling, with one zero."""
        return float(self.hazards(z).sum() - (z - self.dense).sum())

    def window(self):
        """Mode and the two points where the logarithm has fallen by DEPTH."""
        reach = 2.0
        lowest = self.dense.min() - 1.0
        highest = max(self.dense.max(), self.others.max(initial=-np.inf)) + 1.0
        while self.slope(highest) > 0:
            highest += reach
        mode = brentq(self.slope, lowest, highest, xtol=1e-6)
        peak = self.log(mode)[0]
        depth = lambda z: self.log(z)[0] - peak + DEPTH
        far = np.sqrt(2 * DEPTH) + 1e-3
        low = brentq(depth, mode - far, mode, xtol=1e-3)
        high = brentq(depth, mode, mode + far, xtol=1e-3)
        return low, mode, high

    def nodes(self, panels=PANELS):
        x, w = np.polynomial.legendre.leggauss(ORDER)
        low, _, high = self.window()
        edges = np.linspace(low, high, panels + 1)
        half = np.diff(edges)[:, None] / 2
        middle = (edges[:-1] + edges[1:])[:, None] / 2
        return (middle + half * x).ravel(), (half * w).ravel()

    def integral(self, panels=PANELS, with_hazards=False):
        z, w = self.nodes(panels)
        log = self.log(z)
        if with_hazards:
            log = log + np.log(self.hazards(z).sum(axis=1))
        top = log.max()
        return float(np.exp(top + np.log(np.dot(w, np.exp(log - top)))))


def propensity(scores, a, panels=PANELS):
    """pi(a)."""
    return Integrand(scores, [a]).integral(panels)


def gradient(scores, a, b, panels=PANELS):
    """d pi(a)/d s_b. The window of pi(a) serves the sum of hazards too, unless a dominates the others:
    with few actions each term therefore has a window of its own.
    """
    if a == b and len(scores) <= 100:
        return -sum(gradient(scores, a, c, panels) for c in range(len(scores)) if c != a)
    if a == b:
        return Integrand(scores, [a]).integral(panels, with_hazards=True)
    return -Integrand(scores, [a, b]).integral(panels)


def precise(scores, densities):
    """The same integral with 30 digits."""
    integrand = Integrand(scores, densities)
    low, mode, high = integrand.window()
    with mp.workdps(30):
        s = [mp.mpf(float(x)) for x in scores]
        shift = mp.mpf(float(integrand.origin))
        chosen = set(densities)

        def f(z):
            log = mp.fsum(
                -((z + shift - x) ** 2) / 2 - mp.log(2 * mp.pi) / 2 if i in chosen else normal.ln_cdf(z + shift - x)
                for i, x in enumerate(s)
            )
            return mp.exp(log)

        edges = [mp.mpf(x) for x in np.linspace(low, mode, 6)] + [mp.mpf(x) for x in np.linspace(mode, high, 6)[1:]]
        return float(mp.quad(f, edges, method="gauss-legendre", maxdegree=4))


# ---------------------------------------------------------------- cases


def rounded(scores):
    return [round(float(s), 6) for s in scores]


def score_sets():
    """Name and scores: uniform in +-spread, normal, and some with tiny propensities."""
    random = np.random.default_rng(20)
    for actions in (2, 3, 5, 10, 47, 100, 1000):
        yield f"equal-{actions}", rounded([0.25] * actions)
        for spread in (1, 5, 40):
            yield f"uniform-{spread}-{actions}", rounded(random.uniform(-spread, spread, actions))
        if actions <= 100:
            yield f"normal-2-{actions}", rounded(random.normal(0, 2, actions))
    yield "equal-10000", [0.0] * 10000
    for spread in (1, 5, 40):
        yield f"uniform-{spread}-10000", [round(float(s), 4) for s in random.uniform(-spread, spread, 10000)]
    for below in (7.0, 8.5, 11.0):
        yield f"two-apart-{below:g}", [0.5, 0.5 - below]
    for below in (1.0, 3.0, 5.0, 6.5):
        yield f"one-below-{below:g}-1000", [0.0] * 999 + [-below]
    for actions in (3, 10, 100):
        yield f"one-dominates-{actions}", rounded(np.append(random.uniform(-0.5, 0.5, actions - 1), 9.5))
    yield "two-lead-47", rounded(np.append(random.uniform(-8, -6, 45), [1.0, 1.125]))


def chosen(scores):
    """The actions to check and the pairs whose gradient to check: all if few, else by rank."""
    actions = len(scores)
    if actions <= 5:
        return list(range(actions)), list(range(actions)), list(range(actions))
    order = [int(i) for i in np.argsort(-np.asarray(scores), kind="stable")]
    ranks = [0, 1, 2, 3, 5, 8, actions // 10, actions // 4, actions // 2, 3 * actions // 4, actions - 2, actions - 1]
    checked = list(dict.fromkeys(order[min(r, actions - 1)] for r in ranks))
    few = (0, 1) if actions >= 10000 else (0, 1, 2, actions // 2, actions - 1)
    first = list(dict.fromkeys(order[r] for r in few))
    second = list(dict.fromkeys(order[r] for r in (0, 1, 4, actions // 2, actions - 1)))
    return checked, first, second


def case(name, scores):
    checked, first, second = chosen(scores)
    small = len(scores) <= 3
    value = lambda a: precise(scores, [a]) if small else propensity(scores, a)
    pair = lambda a, b: -precise(scores, [a, b]) if small else gradient(scores, a, b)
    slope = lambda a, b: pair(a, b) if a != b or not small else -sum(pair(a, c) for c in range(len(scores)) if c != a)
    rows = []
    for a in first:
        wrt = list(dict.fromkeys([a] + second))
        rows.append({"action": a, "wrt": wrt, "value": [slope(a, b) for b in wrt]})
    return {
        "name": name,
        "scores": scores,
        "actions": checked,
        "propensity": [value(a) for a in checked],
        "gradient": rows,
    }


def verify():
    """Largest relative difference from 30 digits (few actions) and from twice the panels (many)."""
    worst = 0.0
    random = np.random.default_rng(21)
    for actions, spread in ((2, 11), (3, 2), (5, 5), (10, 1), (10, 8)):
        scores = rounded(random.uniform(-spread, spread, actions))
        for densities in ([0], [1], [1, 0]):
            exact = precise(scores, densities)
            if exact > 1e-300:
                worst = max(worst, abs(Integrand(scores, densities).integral() / exact - 1))
    for actions, spread in ((100, 5), (1000, 1), (1000, 0)):
        scores = rounded(random.uniform(-spread, spread, actions))
        scores[0] -= 4
        for a, b in ((0, 0), (0, 1), (1, 0)):
            worst = max(worst, abs(propensity(scores, a) / propensity(scores, a, 2 * PANELS) - 1))
            worst = max(worst, abs(gradient(scores, a, b) / gradient(scores, a, b, 2 * PANELS) - 1))
    return worst


def cases():
    worst = verify()
    assert worst < 1e-12, worst
    return [case(name, scores) for name, scores in score_sets()]
