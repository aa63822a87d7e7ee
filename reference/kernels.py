"""Kernel features Lambda^(-1/2) V' k(L, x), from eigenpairs in 30-digit arithmetic."""

import mpmath as mp
import numpy as np

DIGITS = 30


def kernel(x, y, bandwidth):
    square = mp.fsum((mp.mpf(a) - mp.mpf(b)) ** 2 for a, b in zip(x, y))
    return mp.exp(-square / (2 * mp.mpf(bandwidth) ** 2))


def features(landmarks, contexts, count, bandwidth):
    """One row a context: the leading components first, the largest entry of each eigenvector positive."""
    size = len(landmarks)
    gram = mp.matrix([[kernel(x, y, bandwidth) for y in landmarks] for x in landmarks])
    values, vectors = mp.eigsy(gram)
    leading = sorted(range(size), key=lambda j: -values[j])[:count]
    rows = []
    for x in contexts:
        similar = [kernel(landmark, x, bandwidth) for landmark in landmarks]
        row = []
        for j in leading:
            vector = [vectors[i, j] for i in range(size)]
            sign = mp.sign(max(vector, key=abs))
            row.append(float(sign * mp.fdot(vector, similar) / mp.sqrt(values[j])))
        rows.append(row)
    return rows


def points(random, count, size):
    """Numbers that single precision holds, a third of them 0."""
    values = np.round(64 * random.normal(size=(count, size))) / 64
    return [[float(v) for v in row] for row in np.where(random.uniform(size=(count, size)) > 1 / 3, values, 0.0)]


def cases():
    random = np.random.default_rng(70)
    rows = []
    for size, known, count, bandwidth in ((1, 4, 2, 1.5), (3, 12, 5, 0.8), (3, 12, 12, 1.0), (8, 20, 15, 2.5)):
        landmarks, contexts = points(random, known, size), points(random, 5, size)
        with mp.workdps(DIGITS):
            expected = features(landmarks, contexts, count, bandwidth)
        rows.append({"landmarks": landmarks, "contexts": contexts, "bandwidth": bandwidth, "features": expected})
    return rows
