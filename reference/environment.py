"""What is known of a policy when the environment is: risk, coverage, gaps and the constants of the theory."""

import math
from fractions import Fraction

import numpy as np


def gap(expected, u):
    """The largest Delta with P_x( min_{a != a*} E[c|x,a] - E[c|x,a*] >= Delta ) >= 1 - u."""
    margins = []
    for row in expected:
        best, second = sorted(row)[:2]
        margins.append(second - best)
    needed = math.ceil((1 - Fraction(str(u))) * len(margins))
    return sorted(margins, reverse=True)[needed - 1]


def case(name, expected, policy):
    """c is -1 or 0, so E[c^2] = -E[c]."""
    contexts = range(len(expected))
    optimal = [int(np.argmin(row)) for row in expected]
    risk = np.mean([sum(p * c for p, c in zip(policy[x], expected[x])) for x in contexts])
    coverage = min(policy[x][optimal[x]] for x in contexts)
    # L(pi*, pi) = E_x[ E_pi[c^2] + E_pi*[c^2 (1/pi(a|x) - 2)] ]
    distance = np.mean(
        [
            sum(p * -c for p, c in zip(policy[x], expected[x]))
            + -expected[x][optimal[x]] * (1 / policy[x][optimal[x]] - 2)
            for x in contexts
        ]
    )
    gaps = []
    for u in (0.0, 0.2, 0.5):
        delta = gap(expected, u)
        gaps.append(
            {
                "u": u,
                "delta": float(delta),
                "gamma": float(3 / (delta * (1 - u) * coverage)),
                "gamma_k": float(1 + (0.25 + 1 / coverage) / (delta * (1 - u))),
            }
        )
    return {
        "name": name,
        "expected_cost": expected,
        "policy": policy,
        "optimal": optimal,
        "risk": float(risk),
        "optimal_risk": float(np.mean([min(row) for row in expected])),
        "coverage": float(coverage),
        "gaps": gaps,
        "distance": float(distance),
    }


def distributions(random, n, actions, concentration):
    """Rows of probabilities in 1/1024ths, so that they sum to one exactly."""
    rows = []
    for _ in range(n):
        parts = np.maximum(1, np.floor(1024 * random.dirichlet([concentration] * actions)))
        parts[np.argmax(parts)] += 1024 - parts.sum()
        rows.append([float(x) / 1024 for x in parts])
    return rows


def cases():
    random = np.random.default_rng(60)
    n, actions = 6, 3
    rows = []
    for name, concentration in (("broad", 5.0), ("narrow", 0.5)):
        expected = [[round(float(-c), 3) for c in row] for row in random.random((n, actions))]
        rows.append(case(name, expected, distributions(random, n, actions, concentration)))
    expected = [[-0.8 if a == x % actions else -0.1 for a in range(actions)] for x in range(n)]
    rows.append(case("equal-gaps", expected, [[0.25, 0.25, 0.5]] * 3 + [[0.5, 0.25, 0.25]] * 3))
    return rows
