"""The regularised importance weights h(p, q, c), straight from their formulas."""

import mpmath as mp

DIGITS = 40


def ips(p, q, c):
    """p c / q"""
    return p * c / q


def clipped_propensity(p, q, c, tau):
    """p c / max(q, tau)"""
    return p * c / max(q, tau)


def clipped_weight(p, q, c, max):
    """min(p/q, max) c"""
    return min(p / q, max) * c


def exponential_smoothing(p, q, c, beta):
    """p c / q^beta"""
    return p * c / q**beta


def implicit_exploration(p, q, c, gamma):
    """p c / (q + gamma)"""
    return p * c / (q + gamma)


def power_mean(p, q, c, lam, s):
    """c ((1 - l) w^s + l)^{1/s}, w = p/q; for s = 0 the limit c w^{1-l}.

    For s < 0 written as c w ((1 - l) + l w^{-s})^{1/s}, which exists at w = 0; s = -1 is the harmonic
    mean w c/(1 - l + l w).
    """
    w = p / q
    if s == 0:
        return c * w ** (1 - lam)
    if s < 0:
        return c * w * ((1 - lam) + lam * w**-s) ** (1 / s)
    return c * ((1 - lam) * w**s + lam) ** (1 / s)


def shrinkage(p, q, c, lam):
    """l w/(w^2 + l) c"""
    w = p / q
    return lam * w / (w * w + lam) * c


def ls(p, q, c, lam):
    """-(1/l) ln(1 - l p c / q)"""
    return -mp.log(1 - lam * p * c / q) / lam


def ls_linear(p, q, c, lam):
    """-(p/l) ln(1 - l c / q)"""
    return -p * mp.log(1 - lam * c / q) / lam


def ls_adjusted(p, q, c, lam):
    """-(p/l) ln(1 - l c / (q (1 + l c))), 0 < l < 1"""
    return -p * mp.log(1 - lam * c / (q * (1 + lam * c))) / lam


FORMULAS = {
    "ips": ips,
    "clipped-propensity": clipped_propensity,
    "clipped-weight": clipped_weight,
    "exponential-smoothing": exponential_smoothing,
    "implicit-exploration": implicit_exploration,
    "power-mean": power_mean,
    "shrinkage": shrinkage,
    "ls": ls,
    "ls-linear": ls_linear,
    "ls-adjusted": ls_adjusted,
}

SETTINGS = [
    ("ips", {}),
    ("clipped-propensity", {"tau": 0.1}),
    ("clipped-propensity", {"tau": 0.001}),
    ("clipped-weight", {"max": 1.5}),
    ("clipped-weight", {"max": 50.0}),
    ("exponential-smoothing", {"beta": 0.0}),
    ("exponential-smoothing", {"beta": 0.7}),
    ("implicit-exploration", {"gamma": 0.05}),
    ("implicit-exploration", {"gamma": 0.5}),
    ("power-mean", {"lambda": 0.2, "s": -1.0}),
    ("power-mean", {"lambda": 0.9, "s": -1.0}),
    ("power-mean", {"lambda": 0.2, "s": -2.0}),
    ("power-mean", {"lambda": 0.3, "s": -0.5}),
    ("power-mean", {"lambda": 0.2, "s": 0.0}),
    ("power-mean", {"lambda": 0.2, "s": 0.5}),
    ("power-mean", {"lambda": 0.2, "s": 1.0}),
    ("shrinkage", {"lambda": 1.0}),
    ("shrinkage", {"lambda": 20.0}),
    ("ls", {"lambda": 0.01}),
    ("ls", {"lambda": 0.3}),
    ("ls", {"lambda": 3.0}),
    ("ls-linear", {"lambda": 0.01}),
    ("ls-linear", {"lambda": 0.3}),
    ("ls-linear", {"lambda": 3.0}),
    ("ls-adjusted", {"lambda": 0.01}),
    ("ls-adjusted", {"lambda": 0.3}),
    ("ls-adjusted", {"lambda": 0.95}),
]


def bind(name, params, q, c):
    """h as a function of p alone, in the working precision."""
    exact = {("lam" if k == "lambda" else k): mp.mpf(v) for k, v in params.items()}
    return lambda p: FORMULAS[name](mp.mpf(p), mp.mpf(q), mp.mpf(c), **exact)


def infinite_at_zero(name, params, c):
    """Whether dh/dp is infinite at p = 0: w^s with 0 <= s < 1."""
    return name == "power-mean" and 0 <= params["s"] < 1 and c != 0


def evaluate(name, params, p, q, c):
    """(h, dh/dp) as floats; the derivative is None where it is infinite."""
    with mp.workdps(DIGITS):
        h = bind(name, params, q, c)
        if c == 0:
            return 0.0, 0.0
        if p == 0 and infinite_at_zero(name, params, c):
            return float(h(0)), None
        slope = mp.diff(h, mp.mpf(p), direction=1 if p == 0 else 0)
        return float(h(p)), float(slope)


def cases():
    rows = []
    for name, params in SETTINGS:
        for p in (0.0, 1e-6, 0.01, 0.3, 1.0):
            for q in (1e-4, 0.05, 0.5, 1.0):
                for c in (-1.0, -0.3, 0.0):
                    h, slope = evaluate(name, params, p, q, c)
                    rows.append({"name": name, "params": params, "p": p, "q": q, "c": c, "h": h, "dh_dp": slope})
    return rows
