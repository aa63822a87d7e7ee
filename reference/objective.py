"""Learning objectives, their values and gradients, on small logs.

pi_i = (1 - e) pi_Q(a_i|x_i) + e/|eligible_i|,   s_a = <x, mu_a>/sqrt(sum_f sigma_f^2 x_f^2)
"""

import numpy as np
from scipy.special import ndtr

import posteriors
import propensity
import regularizers


# ---------------------------------------------------------------- propensities of a whole log


def rule(reach=9.5, panels=40, order=16):
    """Composite Gauss-Legendre nodes e and weights times phi(e), on [-reach, reach]."""
    x, w = np.polynomial.legendre.leggauss(order)
    edges = np.linspace(-reach, reach, panels + 1)
    half = np.diff(edges)[:, None] / 2
    e = ((edges[:-1] + edges[1:])[:, None] / 2 + half * x).ravel()
    return e, (half * w).ravel() * density(e)


def density(t):
    return np.exp(-0.5 * t * t) / np.sqrt(2 * np.pi)


NODES, WEIGHTS = rule()


def chosen_propensity(scores, actions, eligible):
    """pi(a_i) = E_e prod_{b != a} Phi(e + s_a - s_b) and its gradient over all scores, a row a record.

    d pi(a)/d s_b = -E_e phi(e + s_a - s_b) prod_{c != a,b} Phi(e + s_a - s_c);  d/d s_a = -(their sum).
    """
    n, k = scores.shape
    row = np.arange(n)
    gap = scores[row, actions][:, None] - scores
    t = NODES[None, None, :] + gap[:, :, None]
    cdf = np.where(eligible[:, :, None], ndtr(t), 1.0)
    cdf[row, actions] = 1.0
    value = np.prod(cdf, axis=1) @ WEIGHTS
    gradient = np.zeros((n, k))
    for b in range(k):
        rest = np.prod(np.delete(cdf, b, axis=1), axis=1)
        here = eligible[:, b] & (actions != b)
        gradient[:, b] = np.where(here, -(density(t[:, b]) * rest) @ WEIGHTS, 0.0)
    gradient[row, actions] = -gradient.sum(axis=1)
    return value, gradient


def policy(log, mean, log_scales, exploration):
    """pi_i, and functions' gradients: pull(dJ/dpi) -> (dJ/dmu, dJ/dlog scales)."""
    x = log["contexts"]
    square = np.exp(2 * log_scales) * x**2  # sigma_f^2 x_f^2; one scale is broadcast
    deviation = np.sqrt(square.sum(axis=1))
    safe = np.where(deviation > 0, deviation, 1.0)[:, None]
    scores = (x @ mean) / safe
    value, slope = chosen_propensity(scores, log["actions"], log["eligible"])
    pi = (1 - exploration) * value + exploration / log["eligible"].sum(axis=1)

    def pull(outer):
        by_score = (1 - exploration) * outer[:, None] * slope
        by_mean = x.T @ (by_score / safe)
        by_feature = -(by_score * scores).sum(axis=1) @ (square / safe**2)
        return by_mean, (by_feature if len(log_scales) > 1 else by_feature.sum(keepdims=True))

    return pi, pull


def kl(mean, log_scales, anchor_mean, anchor_scales):
    """KL(N(mu, diag(sigma^2) x I), N(mu0, diag(s0^2) x I)) and its gradient over mu and log sigma.

    1/2 [ K sum_f (v_f - 1 - ln v_f) + sum_f |mu_f - mu0_f|^2/s0_f^2 ],  v_f = sigma_f^2/s0_f^2
    """
    features, actions = mean.shape
    scales = np.broadcast_to(np.exp(log_scales), features)
    anchor = np.broadcast_to(anchor_scales, features)
    ratio = (scales / anchor) ** 2
    difference = mean - anchor_mean
    weighted = difference / anchor[:, None] ** 2
    value = 0.5 * (actions * np.sum(ratio - 1 - np.log(ratio)) + np.sum(weighted * difference))
    by_feature = actions * (ratio - 1)
    return value, weighted, (by_feature if len(log_scales) > 1 else by_feature.sum(keepdims=True))


# ---------------------------------------------------------------- what is averaged


def regularized(pi, q, c, name, params):
    """(1/n) sum_i h(pi_i, q_i, c_i) and its derivative over pi_i."""
    pairs = [regularizers.evaluate(name, params, *map(float, r)) for r in zip(pi, q, c)]
    h, slope = np.array(pairs).T
    return h.mean(), slope / len(pi)


def counterfactual(pi, q, c, gamma, penalty):
    """ubar + penalty sqrt(var/n), u_i = pi_i c_i/(q_i + gamma), var with divisor n - 1."""
    n = len(pi)
    weight = c / (q + gamma)
    u = pi * weight
    error = np.sqrt(u.var(ddof=1) / n)
    by_u = 1 / n + penalty * (u - u.mean()) / (n * (n - 1) * error)
    return u.mean() + penalty * error, by_u * weight


def self_normalised(pi, q, c, penalty):
    """ubar + penalty sqrt(sum_i w_i^2 (c_i - ubar)^2)/sum_i w_i, ubar = sum w_i c_i/sum w_i, w = pi/q."""
    w = pi / q
    total = w.sum()
    mean = (w @ c) / total
    gap = c - mean
    root = np.sqrt(np.sum(w**2 * gap**2))
    mean_by_w = gap / total
    square_by_w = 2 * w * gap**2 - 2 * np.sum(w**2 * gap) * mean_by_w
    error_by_w = square_by_w / (2 * root * total) - root / total**2
    return mean + penalty * root / total, (mean_by_w + penalty * error_by_w) / q


def evaluate(log, mean, log_scales, anchor, exploration, outer, lam):
    """J = outer(pi, q, c) + (1 - e) KL(Q, anchor)/(lambda n), the latter if there is a lambda."""
    pi, pull = policy(log, mean, log_scales, exploration)
    value, by_pi = outer(pi, log["propensities"], log["costs"])
    by_mean, by_scale = pull(by_pi)
    if lam is not None:
        weight = (1 - exploration) / (lam * len(pi))
        divergence, kl_mean, kl_scale = kl(mean, log_scales, *anchor)
        value, by_mean, by_scale = value + weight * divergence, by_mean + weight * kl_mean, by_scale + weight * kl_scale
    return value, by_mean, by_scale


def differences(f, x, step=0.04):
    """Gradient of f at the vector x by central differences and Richardson's extrapolation."""
    gradient = np.zeros(len(x))
    for j in range(len(x)):
        unit = np.eye(len(x))[j]
        table = [(f(x + h * unit) - f(x - h * unit)) / (2 * h) for h in (step, step / 2, step / 4, step / 8)]
        for power in (4, 16, 64):
            table = [(power * b - a) / (power - 1) for a, b in zip(table, table[1:])]
        gradient[j] = table[0]
    return gradient


# ---------------------------------------------------------------- cases


def random_log(random, n, features, actions, eligible_sets, zero_row=True, zeros=True):
    """A log with some zeros in the contexts, one context of zeros only and some costs of 0."""
    contexts = np.round(random.normal(size=(n, features)) * 1024) / 1024  # exact in single precision
    if zeros:
        contexts[random.random((n, features)) < 0.2] = 0.0
    contexts[np.all(contexts == 0, axis=1), 0] = 0.5
    if zero_row:
        contexts[n // 2] = 0.0
    eligible = np.ones((n, actions), dtype=bool)
    if eligible_sets:
        for i in range(n):
            if i % 4 != 3:
                keep = random.choice(actions, size=random.integers(2, actions + 1), replace=False)
                eligible[i] = np.isin(np.arange(actions), keep)
    logged = np.array([random.choice(np.flatnonzero(e)) for e in eligible])
    costs = np.round(-random.random(n), 3)
    costs[random.random(n) < 0.25] = 0.0
    costs[0], costs[1] = -1.0, 0.0
    return {
        "contexts": contexts,
        "actions": logged,
        "eligible": eligible,
        "propensities": np.round(random.uniform(0.05, 0.9, n), 3),
        "costs": costs,
    }


def log_json(log):
    full = log["eligible"].all()
    return {
        "contexts": posteriors.nested(log["contexts"]),
        "actions": [int(a) for a in log["actions"]],
        "propensities": [float(q) for q in log["propensities"]],
        "costs": [float(c) for c in log["costs"]],
        "eligible": None if full else [[int(a) for a in np.flatnonzero(e)] for e in log["eligible"]],
    }


def settings():
    random = np.random.default_rng(40)
    for name, actions, shape, exploration, eligible in (
        ("A", 3, "isotropic", 0.0, False),
        ("B", 4, "per-feature", 0.1, True),
        ("C", 3, "per-feature", 0.0, True),
        ("D", 4, "isotropic", 0.1, False),
    ):
        features = 3
        yield {
            "name": name,
            "log": random_log(random, 12, features, actions, eligible),
            "mean": np.round(random.normal(size=(features, actions)), 3),
            "log_scales": np.round(random.uniform(-0.8, 0.3, 1 if shape == "isotropic" else features), 3),
            "shape": shape,
            "prior_mean": np.round(random.normal(0, 0.5, size=(features, actions)), 3),
            "prior_scale": {"A": 1.0, "B": 1.0, "C": 0.5, "D": 1.3}[name],
            "exploration": exploration,
            "lambda": {"A": 0.3, "B": 0.3, "C": 0.05, "D": 1.0}[name],
        }


def kinds(every):
    """(kind, parameters, has a KL term, function of pi, q, c)."""
    for name, params in regularizers.SETTINGS:
        if every or name.startswith("ls"):
            outer = lambda pi, q, c, name=name, params=params: regularized(pi, q, c, name, params)
            yield {"kind": "regularized", "regularizer": name, "params": params}, True, outer
    for penalty in (0.1, 1.0):
        for with_kl in (False, True):
            outer = lambda pi, q, c, penalty=penalty: counterfactual(pi, q, c, 0.05, penalty)
            yield {"kind": "crm", "gamma": 0.05, "penalty": penalty}, with_kl, outer
            outer = lambda pi, q, c, penalty=penalty: self_normalised(pi, q, c, penalty)
            yield {"kind": "crm-self-normalised", "penalty": penalty}, with_kl, outer


def case(setting, kind, with_kl, outer):
    mean, log_scales = setting["mean"], setting["log_scales"]
    lam = setting["lambda"] if with_kl else None
    anchor = (setting["prior_mean"], np.array([setting["prior_scale"]]))

    def at(x):
        return evaluate(
            setting["log"], x[: mean.size].reshape(mean.shape), x[mean.size :], anchor, setting["exploration"], outer, lam
        )

    x = np.concatenate([mean.ravel(), log_scales])
    value, by_mean, by_scale = at(x)
    gradient = np.concatenate([by_mean.ravel(), by_scale])
    if kind.get("regularizer") != "clipped-weight":  # its kink may lie within a step
        numeric = differences(lambda y: at(y)[0], x)
        assert np.allclose(gradient, numeric, rtol=1e-8, atol=1e-9), (kind, np.abs(gradient - numeric).max())
    return {
        **kind,
        "setting": setting["name"],
        "lambda": lam,
        "value": float(value),
        "gradient_mean": posteriors.nested(by_mean),
        "gradient_log_scales": [float(g) for g in by_scale],
    }


def verify(setting):
    """The quadrature for whole logs agrees with the one-integral-at-a-time one, the KL with the dense one."""
    log, random = setting["log"], np.random.default_rng(41)
    scores = random.normal(0, 1.5, log["eligible"].shape)
    value, slope = chosen_propensity(scores, log["actions"], log["eligible"])
    for i, (s, a, e) in enumerate(zip(scores, log["actions"], log["eligible"])):
        index = list(np.flatnonzero(e))
        position = index.index(a)
        assert abs(value[i] / propensity.propensity(s[e], position) - 1) < 1e-12
        for b in index:
            exact = propensity.gradient(s[e], position, index.index(b))
            assert abs(slope[i, b] / exact - 1) < 1e-11
    q = {"mean": setting["mean"], "scales": np.exp(setting["log_scales"]), "basis": None}
    p = {"mean": setting["prior_mean"], "scales": [setting["prior_scale"]], "basis": None}
    short = kl(setting["mean"], setting["log_scales"], setting["prior_mean"], np.array([setting["prior_scale"]]))[0]
    assert abs(short / posteriors.kl(q, p) - 1) < 1e-12


def cases():
    shared, rows = [], []
    for setting in settings():
        verify(setting)
        shared.append(
            {
                **{k: setting[k] for k in ("name", "shape", "prior_scale", "exploration")},
                "log": log_json(setting["log"]),
                "mean": posteriors.nested(setting["mean"]),
                "log_scales": [float(s) for s in setting["log_scales"]],
                "prior_mean": posteriors.nested(setting["prior_mean"]),
            }
        )
        for kind, with_kl, outer in kinds(every=setting["name"] in "AB"):
            rows.append(case(setting, kind, with_kl, outer))
    return {"settings": shared, "cases": rows}
