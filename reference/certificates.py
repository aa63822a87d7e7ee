"""Upper bounds on the risk of a policy, from N records and one factor a record.

    w     = d/q, smoothing "ls";  d/q - 1, "adjusted", 0 < l < 1
    L     = E_d ln(1 - l w c), d ~ Bernoulli(p): a posterior, d says whether its predictor takes the logged action
    L     = ln(1 - l w c) at d = p: a fixed policy
    inner = [ -sum L + KL + ln(size/delta) + ln(number of lambdas) ]/(l N)
    upper = (1 - exp(-l inner))/l, form "psi";  inner, "plain"

"ls" bounds R(policy), "adjusted" R(policy) - R(what was deployed).
"""

import mpmath as mp
import numpy as np

import objective
import posteriors
import propensity
import regularizers

DIGITS = 40
SMOOTHINGS, JUDGED, FORMS = ("ls", "adjusted"), ("posterior", "fixed"), ("psi", "plain")


def factor(smoothing, lam, d, q, c):
    """1 - l w c"""
    weight = d / q if smoothing == "ls" else d / q - 1
    return 1 - lam * weight * c


def log_factor(smoothing, judged, lam, p, q, c):
    """L"""
    outcomes = ((0, 1 - p), (1, p)) if judged == "posterior" else ((p, 1),)
    return mp.fsum(chance * mp.log(factor(smoothing, lam, d, q, c)) for d, chance in outcomes)


def psi(lam, x):
    return (1 - mp.exp(-lam * x)) / lam


def bound(smoothing, judged, form, lambdas, delta, log, kls=(), size=1):
    """Estimate and upper bound for every lambda; the smallest upper bound and its lambda."""
    with mp.workdps(DIGITS):
        records = [tuple(map(mp.mpf, record)) for record in zip(log["p"], log["q"], log["c"])]
        price = mp.fsum(map(mp.mpf, kls)) + mp.log(size / mp.mpf(delta)) + mp.log(len(lambdas))
        estimates, uppers = [], []
        for lam in map(mp.mpf, lambdas):
            total = mp.fsum(log_factor(smoothing, judged, lam, *record) for record in records)
            estimates.append(-total / (lam * len(records)))
            inner = estimates[-1] + price / (lam * len(records))
            uppers.append(psi(lam, inner) if form == "psi" else inner)
        best, *others = sorted(uppers)
        assert all(other - best > 1e-9 * abs(best) for other in others), uppers
        return {
            "estimates": [float(x) for x in estimates],
            "uppers": [float(x) for x in uppers],
            "upper": float(best),
            "lambda": lambdas[uppers.index(best)],
        }


# ---------------------------------------------------------------- cases

GRIDS = {
    "ls": {
        1: [0.3],
        2: [0.01, 1.0],
        3: [0.003, 0.1, 3.0],
        4: [20.0, 0.05, 0.0001, 1e-6],
        5: [1e-6, 0.001, 0.1, 1.0, 50.0],
    },
    "adjusted": {
        1: [0.3],
        2: [0.01, 0.5],
        3: [0.003, 0.1, 0.9],
        4: [0.99, 0.05, 0.0001, 1e-6],
        5: [1e-6, 0.001, 0.1, 0.5, 0.999],
    },
}
DELTAS, KLS, SIZES = (0.05, 0.5, 1e-6, 0.01), (0.7, 0.0, 12.5, 340.0), (1, 10, 1000, 1000000)


def powers(random, n):
    """Between 1e-12 and 1, in four digits, the smallest first."""
    return np.array([1e-12] + [float(f"{10**x:.4g}") for x in random.uniform(-12, 0, n - 1)])


def random_log(random, kind, n):
    """p, q and c of n records; "same" judges what was deployed, "absent" what never takes a logged action."""
    p, q = np.round(random.random(n), 4), np.round(random.uniform(0.05, 0.95, n), 4)
    c = np.where(random.random(n) < 0.25, 0.0, -np.round(random.uniform(0.001, 1, n), 3))
    if kind == "edges":
        p = np.where(random.random(n) < 0.4, p, random.integers(0, 2, n))
        q = np.where(random.random(n) < 0.7, q, 1.0)
        c = np.where(random.random(n) < 0.5, 0.0, -1.0)
    elif kind == "tiny":
        p, q = np.where(random.random(n) < 0.5, p, powers(random, n)), powers(random, n)
        c[0] = -1.0
    elif kind == "same":
        p = q
    elif kind == "idle":
        c = np.zeros(n)
    elif kind == "absent":
        p = np.zeros(n)
    return {"p": p.tolist(), "q": q.tolist(), "c": c.tolist()}


def joined(logs):
    return {key: [x for log in logs for x in log[key]] for key in ("p", "q", "c")}


def bounds(random):
    settings = (
        ("ordinary", 60, 1),
        ("ordinary", 200, 5),
        ("edges", 40, 2),
        ("edges", 100, 4),
        ("tiny", 30, 3),
        ("tiny", 80, 5),
        ("same", 50, 3),
        ("idle", 20, 2),
        ("absent", 20, 1),
    )
    for smoothing in SMOOTHINGS:
        for judged in JUDGED:
            for form in FORMS:
                for i, (kind, n, length) in enumerate(settings):
                    lambdas, delta, log = GRIDS[smoothing][length], DELTAS[i % 4], random_log(random, kind, n)
                    kl, size = (KLS[i % 4], 1) if judged == "posterior" else (0.0, SIZES[i % 4])
                    given = {"smoothing": smoothing, "judged": judged, "form": form, "lambdas": lambdas, "delta": delta}
                    yield {**given, "kl": kl, "size": size, **log, **bound(**given, log=log, kls=[kl], size=size)}


def shift(random):
    """Every round judges the policy that was learned from it; the KLs add up."""
    for smoothing in SMOOTHINGS:
        for form in FORMS:
            for kinds, sizes, length in (
                (("ordinary", "edges", "ordinary"), (30, 8, 17), 3),
                (("edges", "tiny", "same", "ordinary"), (1, 20, 5, 40), 5),
                (("ordinary",), (25,), 1),
            ):
                logs = [random_log(random, kind, n) for kind, n in zip(kinds, sizes)]
                kls = [round(float(x), 4) for x in random.exponential(2.0, len(logs))]
                given = {"smoothing": smoothing, "form": form, "lambdas": GRIDS[smoothing][length], "delta": 0.05}
                rounds = [{**log, "kl": kl} for log, kl in zip(logs, kls)]
                yield {**given, "rounds": rounds, **bound(judged="posterior", **given, log=joined(logs), kls=kls)}


def running(random):
    """What has been deployed, from its own records: p = q."""
    for form in FORMS:
        for n, length, delta in ((20, 1, 0.05), (60, 3, 0.01), (100, 5, 0.1)):
            log = random_log(random, "same", n)
            given = {"form": form, "lambdas": GRIDS["ls"][length], "delta": delta}
            found = bound("ls", "fixed", **given, log=log)
            yield {**given, "q": log["q"], "c": log["c"], "upper": found["upper"], "lambda": found["lambda"]}


def chances(log, posterior, exploration):
    """(1 - e) pi(a_i|x_i) + e/K; a context of zeros scores every action 0."""
    mean, scales = posterior["mean"], np.array(posterior["scales"])
    values = []
    for x, a in zip(log["contexts"], log["actions"]):
        deviation = np.sqrt(np.sum(scales**2 * x**2))
        scores = x @ mean / (deviation if deviation > 0 else 1.0)
        values.append((1 - exploration) * propensity.propensity(scores, a) + exploration / mean.shape[1])
    return values


def flat(posterior):
    scales = posterior["scales"]
    return {"mean": posterior["mean"].ravel().tolist(), "scale": scales[0] if len(scales) == 1 else scales}


def policies(random):
    features = 3
    for actions, rounds, exploration, prior_scales, scales, lambdas in (
        (3, [12, 8], 0.0, [1.0], [0.8], [0.3]),
        (4, [10, 15], 0.1, [1.0], [0.8, 0.5, 1.25], [0.9, 0.1]),
        (3, [20], 0.1, [0.7, 1.1, 0.9], [1.0], [0.1, 0.5, 0.02]),
        (4, [5, 9, 16], 0.0, [1.3, 0.6, 1.0], [1.1, 0.7, 0.85], [0.02, 0.1, 0.3, 0.9]),
        (3, [100, 1], 0.0, [0.5], [0.5], [0.02, 0.1, 0.4, 0.99]),
        (4, [60, 120], 0.1, [0.4], [0.35], [0.02, 0.1, 0.4, 0.99]),
    ):
        log = objective.random_log(random, sum(rounds), features, actions, False)
        start = np.round(random.normal(0, 0.5, (features, actions)), 3)
        prior = {"mean": start, "scales": prior_scales, "basis": None}
        moved = np.round(start + random.normal(0, 0.3, (features, actions)), 3)
        policy = {"mean": moved, "scales": scales, "basis": None}
        kl = (1 - exploration) * posteriors.kl(policy, prior)
        judged = {"p": chances(log, policy, exploration), "q": log["propensities"].tolist(), "c": log["costs"].tolist()}
        given = {"form": "psi", "lambdas": lambdas, "delta": 0.05}
        found = {
            "ls": bound("ls", "posterior", **given, log=judged, kls=[kl]),
            "adjusted": bound("adjusted", "posterior", **given, log=judged, kls=[kl]),
            "fixed-ls": bound("ls", "fixed", **given, log=judged),
            "fixed-adjusted": bound("adjusted", "fixed", **given, log=judged),
        }
        yield {
            "actions": actions,
            "features": features,
            "contexts": log["contexts"].ravel().tolist(),
            "rounds": rounds,
            "exploration": exploration,
            "prior": flat(prior),
            "policy": flat(policy),
            "action": log["actions"].tolist(),
            "kl": kl,
            **judged,
            **given,
            **{name: {key: row[key] for key in ("upper", "lambda")} for name, row in found.items()},
        }


def verify():
    """The factors have the expectations they should, and L is what the learners average."""
    with mp.workdps(DIGITS):
        judged, deployed, costs = ([mp.mpf(x) / 16 for x in row] for row in ((9, 7, 0), (1, 4, 11), (-16, -5, -2)))
        risk, running_risk = (mp.fdot(policy, costs) for policy in (judged, deployed))
        for lam in map(mp.mpf, (1e-6, 0.3, 0.999)):
            for smoothing, target in (("ls", risk), ("adjusted", risk - running_risk)):
                factors = [factor(smoothing, lam, *record) for record in zip(judged, deployed, costs)]
                assert abs(mp.fdot(deployed, factors) - (1 - lam * target)) < 1e-35
            for p, q, c in zip(judged, deployed, costs):
                ls, adjusted = (-log_factor(smoothing, "posterior", lam, p, q, c) / lam for smoothing in SMOOTHINGS)
                rest = mp.log(1 + lam * c) / lam  # free of the policy, so no learner needs it
                assert abs(ls - regularizers.ls_linear(p, q, c, lam)) < 1e-30
                assert abs(adjusted - regularizers.ls_adjusted(p, q, c, lam) + rest) < 1e-30
                assert abs(log_factor("ls", "fixed", lam, p, q, c) / lam + regularizers.ls(p, q, c, lam)) < 1e-30


def cases():
    verify()
    random = np.random.default_rng(70)
    return {
        "bounds": list(bounds(random)),
        "shift": list(shift(random)),
        "running": list(running(random)),
        "policies": list(policies(random)),
    }
