"""Linear Thompson sampling: one Bayesian linear regression per action, and a sample of its weights per decision."""

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from world import Rival, argmax_probabilities


class Thompson(Rival):
    """Rewards are regressed on the context and a constant. `fourier` random Fourier features may come beside them.

    The prior of the weights is `N(0, I/ridge)` in units of the noise, and samples deviate by `width` times that.
    """

    def __init__(self, schedule, width=0.15, ridge=1.0, fourier=0):
        self.schedule, self.width, self.ridge, self.fourier = schedule, width, ridge, fourier

    def begin(self, x, actions, seed):
        super().begin(x, actions, seed)
        p = x.shape[1]
        if self.fourier:
            some = self.rng.permutation(len(x))[:1000]
            half = len(some) // 2
            distance = np.linalg.norm(x[some[:half]] - x[some[half : 2 * half]], axis=1)
            bandwidth = 0.5 * np.median(distance[distance > 0])
            self.frequency = self.rng.standard_normal((p, self.fourier)).astype(np.float32) / bandwidth
            self.phase = self.rng.uniform(0, 2 * np.pi, self.fourier).astype(np.float32)
        p += 1 + self.fourier
        self.squares = np.zeros((actions, p, p))
        self.products = np.zeros((actions, p))

    def features(self, x):
        parts = [x, np.ones((len(x), 1), x.dtype)]
        if self.fourier:
            parts.append(np.sqrt(2 / self.fourier) * np.cos(x @ self.frequency + self.phase))
        return np.hstack(parts).astype(np.float64)

    def learn(self, x, action, propensity, reward):
        z = self.features(x)
        for a in range(self.actions):
            rows = z[action == a]
            self.squares[a] += rows.T @ rows
            self.products[a] += rows.T @ reward[action == a]
        p = z.shape[1]
        self.factors = [cho_factor(square + self.ridge * np.eye(p), lower=True) for square in self.squares]
        self.mean = np.stack([cho_solve(f, b) for f, b in zip(self.factors, self.products)], 1)

    def scores(self, x):
        """The means and deviations of all scores."""
        z = self.features(x)
        columns = [np.linalg.norm(solve_triangular(f[0], z.T, lower=True), axis=0) for f in self.factors]
        return z @ self.mean, self.width * np.stack(columns, 1)

    def decide(self, x):
        mean, deviation = self.scores(x)
        return (mean + deviation * self.rng.standard_normal(mean.shape)).argmax(1)

    def probabilities(self, x):
        if not self.explore:
            return np.eye(self.actions)[(self.features(x) @ self.mean).argmax(1)]
        return argmax_probabilities(*self.scores(x))


RIVALS = {
    "Thompson sampling, linear": lambda: Thompson(("equal", 10)),
    "Thompson sampling, linear, 100 rounds": lambda: Thompson(("equal", 100)),
    "Thompson sampling, 300 Fourier features": lambda: Thompson(("equal", 10), fourier=300),
    "Thompson sampling, 300 Fourier features, 13 growing rounds": lambda: Thompson(("growing", 13), fourier=300),
}
OFFLINE = {
    "ridge regression per action, 300 Fourier features": lambda: Thompson(("equal", 1), fourier=300),
}
