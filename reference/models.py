"""Reward models in the space of records: a Gaussian over all rewards, with dense covariance matrices.

Per action, r - offset ~ N(0, s^2 (I + Phi D^-1 Phi')), which is the regression with theta ~ N(0, s^2 D^-1) and the
coefficients integrated out. The means of the coefficients are D^-1 Phi' (I + Phi D^-1 Phi')^-1 (r - offset).
"""

import numpy as np
from scipy.optimize import minimize

import posteriors
import propensity

LEAST_NOISE = 0.1


def covariance(phi, precision):
    return np.eye(len(phi)) + (phi / precision) @ phi.T


def fit(phi, action, reward, actions, precision, offset):
    """Coefficients (p x K), noise and log evidence of `reward - offset` at one prior precision a feature."""
    target = reward - offset
    means, square, log_det = np.zeros((phi.shape[1], actions)), 0.0, 0.0
    for a in range(actions):
        rows = action == a
        if rows.any():
            matrix, t = covariance(phi[rows], precision), target[rows]
            weights = np.linalg.solve(matrix, t)
            means[:, a] = (phi[rows] / precision).T @ weights
            square += t @ weights
            log_det += np.linalg.slogdet(matrix)[1]
    count = len(reward)
    noise = max(square / count, LEAST_NOISE * np.var(reward), 1e-6)
    evidence = -0.5 * (log_det + count * np.log(2 * np.pi * noise) + square / noise)
    return means, noise, evidence


def shared_fit(phi, action, reward, actions, precision, offset):
    """The shared part from all records, then the parts of the actions from what is left."""
    one = np.zeros(len(action), dtype=int)
    shared = fit(phi, one, reward, 1, precision, offset)[0]
    target = reward - offset - (phi @ shared)[:, 0]
    # The noise is bounded by the variance of the rewards, not by that of what is left.
    means, square, log_det = np.zeros((phi.shape[1], actions)), 0.0, 0.0
    for a in range(actions):
        rows = action == a
        if rows.any():
            matrix = covariance(phi[rows], precision)
            weights = np.linalg.solve(matrix, target[rows])
            means[:, a] = (phi[rows] / precision).T @ weights
            square += target[rows] @ weights
            log_det += np.linalg.slogdet(matrix)[1]
    count = len(reward)
    noise = max(square / count, LEAST_NOISE * np.var(reward), 1e-6)
    evidence = -0.5 * (log_det + count * np.log(2 * np.pi * noise) + square / noise)
    return means + shared, noise, evidence


def directed_fit(phi, action, reward, actions, precision, direction):
    """Around `o + c <phi, direction_a>`, by generalised least squares with the covariance of all records at once."""
    same = action[:, None] == action[None, :]
    matrix = np.eye(len(action)) + np.where(same, (phi / precision) @ phi.T, 0.0)
    predicted = (phi @ direction)[np.arange(len(action)), action]
    common = np.stack([np.ones(len(action)), predicted], axis=1)
    weights = np.linalg.solve(matrix, common)
    shift, factor = np.linalg.solve(common.T @ weights, weights.T @ reward)
    if factor <= 0:
        common = common[:, :1]
        shift, factor = (weights[:, 0] @ reward) / (weights[:, 0] @ common[:, 0]), 0.0
    left = reward - shift - factor * predicted
    weights = np.linalg.solve(matrix, left)
    means = np.zeros((phi.shape[1], actions))
    for a in range(actions):
        rows = action == a
        means[:, a] = (phi[rows] / precision).T @ weights[rows]
    count, square = len(reward), left @ weights
    noise = max(square / count, LEAST_NOISE * np.var(reward), 1e-6)
    evidence = -0.5 * (np.linalg.slogdet(matrix)[1] + count * np.log(2 * np.pi * noise) + square / noise)
    return means + factor * direction, noise, evidence, shift


def logistic_fit(phi, action, reward, actions, precision, direction):
    """The largest posterior density of logistic regressions around `o + c <phi, direction_a>`, by Newton's method for all
    coefficients at once. Returns coefficients (p x K) and `o`."""
    count, features = phi.shape
    design = np.zeros((count, 2 + actions * features))
    design[:, 0] = 1.0
    if direction is not None:
        design[:, 1] = (phi @ direction)[np.arange(count), action]
    for i, a in enumerate(action):
        design[i, 2 + a * features : 2 + (a + 1) * features] = phi[i]
    # `o` and `c` have the prior of one record of the mean reward.
    rate = np.clip(reward.mean(), 1e-4, 1 - 1e-4)
    weak = rate * (1 - rate) * np.array([1.0, np.mean(design[:, 1] ** 2) if direction is not None else 1.0])
    penalty = np.concatenate([weak, np.tile(precision, actions)])
    centre = np.zeros(design.shape[1])
    centre[0] = np.log(rate / (1 - rate))

    def loss(at):
        scores = design @ at
        return np.logaddexp(0, scores).sum() - reward @ scores + 0.5 * penalty @ (at - centre) ** 2

    at = centre.copy()
    for _ in range(200):
        chance = 1 / (1 + np.exp(-(design @ at)))
        gradient = design.T @ (chance - reward) + penalty * (at - centre)
        hessian = (design.T * (chance * (1 - chance))) @ design + np.diag(penalty)
        step, size = np.linalg.solve(hessian, gradient), 1.0
        while loss(at - size * step) > loss(at) and size > 1e-6:
            size /= 2
        at = at - size * step
    if at[1] < 0:
        return logistic_fit(phi, action, reward, actions, precision, None)
    means = at[2:].reshape(actions, features).T
    return means + (at[1] * direction if direction is not None else 0.0), float(at[0])


def probabilities(phi, means, noise, precision, actions, v, contexts):
    """The policy of Thompson sampling with the covariance v^2 s^2 (D + Phi'Phi/K)^-1 for every action."""
    spread = v**2 * noise * np.linalg.inv(np.diag(precision) + phi.T @ phi / actions)
    rows = []
    for x in contexts:
        scores = means.T @ x / np.sqrt(x @ spread @ x)
        rows.append([float(propensity.propensity(scores, a)) for a in range(actions)])
    return rows


def best_evidence(phi, action, reward, actions, sizes, offset):
    """The largest evidence over one precision a kind of features, from many starts."""

    def loss(logs):
        return -fit(phi, action, reward, actions, np.repeat(np.exp(logs), sizes), offset)[2]

    starts = [np.array(start) for start in np.ndindex(*(3,) * len(sizes))]
    found = [minimize(loss, 4.0 * start - 2.0, method="Nelder-Mead", options={"xatol": 1e-4}) for start in starts]
    return float(-min(result.fun for result in found))


def cases():
    random = np.random.default_rng(110)
    rows = []
    for features, actions, count, sizes in ((1, 2, 12, [1]), (4, 3, 90, [3, 1]), (6, 5, 200, [2, 3, 1]), (8, 2, 6, [8])):
        phi = np.round(64 * random.normal(size=(count, features))) / 64
        phi[:, -1] = 1.0
        action = random.integers(actions, size=count)
        slopes = random.normal(size=(features, actions))
        chance = 1 / (1 + np.exp(-np.take_along_axis(phi @ slopes, action[:, None], 1)[:, 0]))
        reward = (random.uniform(size=count) < chance).astype(float)
        if count == 90:
            reward = np.round(chance, 3)
        precision = np.round(np.exp(random.uniform(-1.0, 2.0, features)), 3)
        contexts = np.round(64 * random.normal(size=(3, features))) / 64
        offset = reward.mean()
        v = 0.5
        means, noise, evidence = fit(phi, action, reward, actions, precision, offset)
        shared = shared_fit(phi, action, reward, actions, precision, offset)
        direction = np.round(slopes + 0.3 * np.sin(np.arange(slopes.size)).reshape(slopes.shape), 3)
        # With a direction that points the wrong way, for the smallest case.
        direction = -direction if count == 12 else direction
        directed = directed_fit(phi, action, reward, actions, precision, direction)
        rate = np.clip(offset, 1e-4, 1 - 1e-4)
        clicks = logistic_fit(phi, action, reward, actions, rate * (1 - rate) * precision, None)
        directed_clicks = logistic_fit(phi, action, reward, actions, rate * (1 - rate) * precision, direction)
        rows.append(
            {
                "actions": actions,
                "features": posteriors.nested(phi),
                "action": [int(a) for a in action],
                "reward": [float(r) for r in reward],
                "precision": [float(d) for d in precision],
                "sizes": sizes,
                "v": v,
                "contexts": posteriors.nested(contexts),
                "mean": posteriors.nested(means),
                "noise": float(noise),
                "evidence": float(evidence),
                "shared_mean": posteriors.nested(shared[0]),
                "shared_noise": float(shared[1]),
                "shared_evidence": float(shared[2]),
                "direction": posteriors.nested(direction),
                "directed_mean": posteriors.nested(directed[0]),
                "directed_noise": float(directed[1]),
                "directed_evidence": float(directed[2]),
                "directed_offset": float(directed[3]),
                "logistic_mean": posteriors.nested(clicks[0]),
                "logistic_offset": clicks[1],
                "directed_logistic_mean": posteriors.nested(directed_clicks[0]),
                "directed_logistic_offset": directed_clicks[1],
                "probabilities": probabilities(phi, means, noise, precision, actions, v, contexts),
                "best_evidence": best_evidence(phi, action, reward, actions, sizes, offset),
            }
        )
    return rows
