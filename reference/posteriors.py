"""KL divergences between the posteriors N(mu, S x I_K), with dense covariance matrices."""

import numpy as np


def dense(posterior):
    """Mean (length p K, feature-major) and covariance S x I_K, both in the original coordinates.

    A posterior has a mean p x K in the coordinates of its own basis U, and scales sigma (one, or one a
    feature): S = U diag(sigma^2) U'.
    """
    mean = np.array(posterior["mean"], dtype=float)
    features, actions = mean.shape
    basis = np.eye(features) if posterior["basis"] is None else np.array(posterior["basis"], dtype=float)
    scales = np.broadcast_to(np.array(posterior["scales"], dtype=float), features)
    shape = basis @ np.diag(scales**2) @ basis.T
    return (basis @ mean).ravel(), np.kron(shape, np.eye(actions))


def kl(q, p):
    """KL(q || p) = 1/2 [ tr(Sp^-1 Sq) - d - ln det(Sp^-1 Sq) + (mq - mp)' Sp^-1 (mq - mp) ]."""
    (mean_q, cov_q), (mean_p, cov_p) = dense(q), dense(p)
    difference = mean_q - mean_p
    trace = np.trace(np.linalg.solve(cov_p, cov_q))
    log_det = np.linalg.slogdet(cov_q)[1] - np.linalg.slogdet(cov_p)[1]
    square = difference @ np.linalg.solve(cov_p, difference)
    return float(0.5 * (trace - len(difference) - log_det + square))


def nested(matrix):
    return [[float(x) for x in row] for row in matrix]


def rotation(random, features):
    """A random orthonormal matrix."""
    matrix, upper = np.linalg.qr(random.normal(size=(features, features)))
    return matrix * np.sign(np.diag(upper))


def cases():
    random = np.random.default_rng(30)
    rows = []
    for features in (1, 3, 5):
        for actions in (2, 4):
            first, second = rotation(random, features), rotation(random, features)

            def posterior(per_feature, basis=None):
                count = features if per_feature else 1
                return {
                    "mean": nested(np.round(random.normal(size=(features, actions)), 6)),
                    "scales": [float(s) for s in np.round(np.exp(random.uniform(-1.5, 0.7, count)), 6)],
                    "basis": None if basis is None else nested(basis),
                }

            pairs = {
                "isotropic||isotropic": (posterior(False), posterior(False)),
                "per-feature||isotropic": (posterior(True), posterior(False)),
                "isotropic||per-feature": (posterior(False), posterior(True)),
                "per-feature||per-feature": (posterior(True), posterior(True)),
                "basis||isotropic": (posterior(True, first), posterior(False)),
                "isotropic||basis": (posterior(False), posterior(True, first)),
                "basis||per-feature": (posterior(True, first), posterior(True)),
                "per-feature||basis": (posterior(True), posterior(True, first)),
                "basis||same-basis": (posterior(True, first), posterior(True, first)),
                "basis||other-basis": (posterior(True, first), posterior(True, second)),
                "isotropic-basis||other-basis": (posterior(False, first), posterior(True, second)),
            }
            same = posterior(True, first)
            pairs["basis||itself"] = (same, same)
            for name, (q, p) in pairs.items():
                rows.append({"name": name, "actions": actions, "q": q, "p": p, "kl": kl(q, p)})
    return rows
