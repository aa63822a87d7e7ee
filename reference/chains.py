"""Bounds by mixtures of martingales, and chains of rounds.

A mixture: the root in R of  sum_g v_g exp( S_g - N_g ln(1 - l_g R) ) = exp(price)/delta,  S_g = sum L as in certificates.py.

A chain over rounds a, .., T, with n_k records of round k and N_k = n_a + .. + n_k:

    X      = c (1 + (N_k/n_k) (p/q - 1)),  S = sum ln(1 - l X),  dropped where l (N_k/n_k - 1) >= 0.99 at any of its rounds
    weight = 6 delta part/(pi^2 (a + 1)^2) times the weight of the lambda, divided by the sizes of all its sets

and the bound is the root of the sum over all beginnings a whose length is in LENGTHS, or which are 0 or 1, at 1.
"""

import mpmath as mp
import numpy as np

import certificates

DIGITS = 40
LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
MULTIPLES = {2: 0.08, 1: 0.25, 0.5: 0.25, 0.25: 0.2, 0.125: 0.1, 0.0625: 0.07, 0.03125: 0.05}


def root(terms):
    """R at which sum w exp(S - N ln(1 - l R)) = 1; terms are (w, l, N, S)."""

    def total(r):
        return mp.fsum(w * mp.exp(s - n * mp.log(1 - lam * r)) for w, lam, n, s in terms)

    top = 1 / max(lam for _, lam, _, _ in terms)
    low, high = -mp.mpf(1), top * (1 - mp.mpf(10) ** -30)
    while total(low) >= 1:
        low *= 2
    for _ in range(140):
        middle = (low + high) / 2
        low, high = (low, middle) if total(middle) >= 1 else (middle, high)
    return high


def mixture(smoothing, judged, lambdas, delta, log, kl, size):
    with mp.workdps(DIGITS):
        records = [tuple(map(mp.mpf, record)) for record in zip(log["p"], log["q"], log["c"])]
        weight = mp.mpf(delta) / (len(lambdas) * size) * mp.exp(-mp.mpf(kl))
        terms = []
        for lam in map(mp.mpf, lambdas):
            total = mp.fsum(certificates.log_factor(smoothing, judged, lam, *record) for record in records)
            terms.append((weight, lam, len(records), total))
        return float(root(terms))


def mixtures(random):
    for smoothing in certificates.SMOOTHINGS:
        for judged in certificates.JUDGED:
            for kind, n, length, delta in (("ordinary", 60, 3, 0.05), ("edges", 120, 4, 0.01), ("ordinary", 400, 5, 0.3)):
                log = certificates.random_log(random, kind, n)
                lambdas = certificates.GRIDS[smoothing][length]
                kl, size = (1.5, 1) if judged == "posterior" else (0.0, 7)
                given = {"smoothing": smoothing, "judged": judged, "lambdas": lambdas, "delta": delta, "kl": kl, "size": size}
                yield {**given, **log, "upper": mixture(log=log, **given)}


def variance(rounds, a):
    """Of a cost, from the round before a, or from the records before the first that counts in round 0."""
    known = rounds[a - 1]["c"] if a > 0 else rounds[0]["c"][: rounds[0]["first"]]
    mean = (mp.mpf("0.5") - mp.fsum(map(mp.mpf, known))) / (len(known) + 1)
    return mean * (1 - mean)


def chain(rounds, part, delta):
    with mp.workdps(DIGITS):
        terms = []
        for a in range(len(rounds)):
            if len(rounds) - a not in LENGTHS and a > 1:
                continue
            share = mp.mpf(delta) * mp.mpf(part) * 6 / (mp.pi * (a + 1)) ** 2
            counted = [len(r["c"]) - r["first"] for r in rounds[a:]]
            reference = mp.sqrt(2 * mp.log(1 / share) / (counted[0] * variance(rounds, a)))
            for multiple, weight in MULTIPLES.items():
                lam, total, records, price = reference * multiple, mp.mpf(0), 0, mp.mpf(1)
                fits = True
                for own, r in zip(counted, rounds[a:]):
                    records += own
                    ratio = mp.mpf(records) / own
                    fits = fits and lam * (ratio - 1) < mp.mpf("0.99")
                    price *= r["size"]
                    for p, q, c in list(zip(r["p"], r["q"], r["c"]))[r["first"] :]:
                        x = mp.mpf(c) * (1 + ratio * (mp.mpf(p) / mp.mpf(q) - 1))
                        total += mp.log(1 - lam * x) if fits else 0
                if fits:
                    terms.append((share * weight / price, lam, records, total))
        return float(root(terms))


def chains(random):
    for sizes, sets, part, delta in (
        ([40], [1], 0.8, 0.05),
        ([60, 50], [1, 1], 0.8, 0.05),
        ([200, 300, 250], [1, 1, 1], 0.8, 0.1),
        ([30, 500, 500, 40, 500], [2, 1, 3, 1, 4], 0.3, 0.05),
        ([100] * 9, [1] * 9, 0.8, 0.05),
    ):
        rounds = []
        for i, (n, size) in enumerate(zip(sizes, sets)):
            log = certificates.random_log(random, "ordinary", n)
            near = np.array(log["q"]) * random.uniform(0.6, 1.4, n)
            log["p"] = np.round(np.minimum(near, 1.0), 4).tolist()
            log["c"] = np.where(random.random(n) < 0.4, 0.0, -1.0).tolist()
            rounds.append({**log, "first": n // 3 if i in (0, 2) else 0, "size": size})
        yield {"rounds": rounds, "part": part, "delta": delta, "upper": chain(rounds, part, delta)}


def verify():
    """Telescoping: the means of X, weighted by their numbers, sum up to N times the risk of the last policy."""
    with mp.workdps(DIGITS):
        risks, sizes = [mp.mpf(x) / 7 for x in (-1, -3, -2, -6)], [5, 3, 11]
        total, n = mp.mpf(0), 0
        for k, own in enumerate(sizes):
            n += own
            total += own * (risks[k] + mp.mpf(n) / own * (risks[k + 1] - risks[k]))
        assert abs(total - n * risks[-1]) < 1e-35


def cases():
    verify()
    random = np.random.default_rng(71)
    return {"mixtures": list(mixtures(random)), "chains": list(chains(random))}
