"""The learning algorithms over two rounds, by full-batch Adam."""

import numpy as np

import objective
import posteriors
import regularizers

ADAM = {"learning_rate": 0.02, "steps": 25, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
LAMBDA, GAMMA, PENALTY = 0.3, 0.05, 1.0

ALGORITHMS = {
    # name: (objective, data, anchor)
    "batch-ls": ("ls-linear", "all", "prior"),
    "seq-ls": ("ls-linear", "all", "prior"),
    "seq-adj-ls": ("ls-adjusted", "all", "prior"),
    "shift-ls": ("ls-linear", "newest", "incumbent"),
    "shift-adj-ls": ("ls-adjusted", "newest", "incumbent"),
    "crm": ("crm", "all", "prior"),
    "scrm": ("crm", "newest", "prior"),
}


def adam(gradient, x):
    """x <- x - lr mhat/(sqrt(vhat) + eps), with bias correction, from a zero state."""
    m, v = np.zeros_like(x), np.zeros_like(x)
    for t in range(1, ADAM["steps"] + 1):
        g = gradient(x)
        m = ADAM["beta1"] * m + (1 - ADAM["beta1"]) * g
        v = ADAM["beta2"] * v + (1 - ADAM["beta2"]) * g * g
        m_hat, v_hat = m / (1 - ADAM["beta1"] ** t), v / (1 - ADAM["beta2"] ** t)
        x = x - ADAM["learning_rate"] * m_hat / (np.sqrt(v_hat) + ADAM["epsilon"])
    return x


def linear(log, name):
    """The LS weights are linear in p: (1/n) sum_i w_i pi_i with w_i = h(1, q_i, c_i)."""
    pairs = zip(log["propensities"], log["costs"])
    w = np.array([regularizers.evaluate(name, {"lambda": LAMBDA}, 1.0, float(q), float(c))[0] for q, c in pairs])
    return lambda pi, q, c: (np.mean(w * pi), w / len(w))


def joined(logs):
    return {key: np.concatenate([log[key] for log in logs]) for key in logs[0]}


def learn(algorithm, rounds, prior_mean, features_scaled, basis, exploration, variant):
    """The posterior after every round: mean, log scales, KL to the anchor."""
    kind, data, anchor_kind = ALGORITHMS[algorithm]
    rotate = np.eye(len(prior_mean)) if basis is None else basis.T
    rounds = [{**log, "contexts": log["contexts"] @ rotate.T} for log in rounds]
    mean = rotate @ prior_mean
    log_scales = np.zeros(len(mean) if features_scaled else 1)
    prior = (mean.copy(), np.array([1.0]))
    history = []
    for k in range(len(rounds)):
        log = joined(rounds[: k + 1]) if data == "all" else rounds[k]
        anchor = prior if anchor_kind == "prior" or k == 0 else (mean.copy(), np.exp(log_scales))
        if kind != "crm":
            outer, lam = linear(log, kind), LAMBDA
        elif variant == "self-normalised":
            outer, lam = (lambda pi, q, c: objective.self_normalised(pi, q, c, PENALTY)), None
        else:
            outer = lambda pi, q, c: objective.counterfactual(pi, q, c, GAMMA, PENALTY)
            lam = LAMBDA if variant == "kl" else None

        def gradient(x):
            _, by_mean, by_scale = objective.evaluate(
                log, x[: mean.size].reshape(mean.shape), x[mean.size :], anchor, exploration, outer, lam
            )
            return np.concatenate([by_mean.ravel(), by_scale * (variant != "fixed-scale")])

        x = adam(gradient, np.concatenate([mean.ravel(), log_scales]))
        mean, log_scales = x[: mean.size].reshape(mean.shape), x[mean.size :]
        history.append(
            {
                "mean": posteriors.nested(mean),
                "log_scales": [float(s) for s in log_scales],
                "kl": divergence(mean, log_scales, anchor, basis),
            }
        )
    return history


def divergence(mean, log_scales, anchor, basis):
    """KL to the anchor with dense matrices; both are in the same basis."""
    q = {"mean": mean, "scales": np.exp(log_scales), "basis": basis}
    return posteriors.kl(q, {"mean": anchor[0], "scales": anchor[1], "basis": basis})


def runs():
    """(algorithm, shape, with the basis or without, exploration, variant)."""
    shapes = [("isotropic", False), ("per-feature", True)]
    for algorithm in ALGORITHMS:
        for shape, rotated in shapes:
            yield algorithm, shape, rotated, 0.0, None
    for algorithm in ("seq-ls", "shift-ls", "scrm"):
        yield algorithm, "per-feature", False, 0.0, None
    for shape, rotated in shapes:
        for algorithm in ("seq-ls", "seq-adj-ls", "shift-adj-ls", "scrm"):
            yield algorithm, shape, rotated, 0.1, None
        for variant in ("kl", "fixed-scale", "self-normalised"):
            yield "scrm", shape, rotated, 0.0, variant
        yield "crm", shape, rotated, 0.0, "self-normalised"
    yield "crm", "isotropic", False, 0.1, "kl"


def cases():
    random = np.random.default_rng(50)
    features, actions = 3, 3
    rounds = [objective.random_log(random, n, features, actions, False, zero_row=False) for n in (14, 18)]
    prior_mean = np.round(random.normal(0, 0.4, size=(features, actions)), 3)
    basis = posteriors.rotation(random, features)
    rows = []
    for algorithm, shape, rotated, exploration, variant in runs():
        used = basis if rotated else None
        history = learn(algorithm, rounds, prior_mean, shape == "per-feature", used, exploration, variant)
        kind, _, _ = ALGORITHMS[algorithm]
        rows.append(
            {
                "algorithm": algorithm,
                "shape": shape,
                "basis": rotated,
                "exploration": exploration,
                "variant": variant,
                "lambda": LAMBDA if kind != "crm" or variant == "kl" else None,
                "rounds": history,
            }
        )
    return {
        "adam": ADAM,
        "gamma": GAMMA,
        "penalty": PENALTY,
        "prior": {"mean": posteriors.nested(prior_mean), "scale": 1.0},
        "basis": posteriors.nested(basis),
        "logs": [objective.log_json(log) for log in rounds],
        "cases": rows,
    }
