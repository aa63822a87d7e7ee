"""The standard normal distribution in 40 digits."""

import mpmath as mp

DIGITS = 40


def cdf(t):
    """Phi(t) = erfc(-t/sqrt 2)/2."""
    return mp.erfc(-t / mp.sqrt(2)) / 2


def ln_cdf(t):
    """ln Phi(t); above 0 as ln(1 - Phi(-t)), which keeps the digits."""
    return mp.log(cdf(t)) if t < 0 else mp.log1p(-cdf(-t))


def density(t):
    """phi(t) = e^{-t^2/2}/sqrt(2 pi)."""
    return mp.exp(-t * t / 2) / mp.sqrt(2 * mp.pi)


def hazard(t):
    """phi(t)/Phi(t)."""
    return density(t) / cdf(t)


def cases():
    points = [k / 4 for k in range(-160, 161)]
    points += [k / 64 for k in range(-64, 65)]
    points += [s * 10.0**-k for s in (-1, 1) for k in (2, 3, 4, 6, 8, 12, 16, 20, 300)]
    points += [-1000.0, -200.0, -100.0, -50.0, -38.5, -37.7, -37.1, -26.3, -14.17, -8.3, -5.67, -3.1]
    points += [3.1, 5.67, 8.2, 8.3, 14.17, 26.3, 37.1, 38.6, 100.0]
    rows = []
    with mp.workdps(DIGITS):
        for t in sorted(set(points)):
            x = mp.mpf(t)
            row = {"t": t, "cdf": cdf(x), "ln_cdf": ln_cdf(x), "hazard": hazard(x)}
            rows.append({key: float(value) for key, value in row.items()})
    return rows
