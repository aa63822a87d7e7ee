"""The two constant tables of the library: the Mills ratio and the trapezoid steps.

Writes `crates/surefoot/src/math/tables.rs`.
"""

import subprocess
from pathlib import Path

import mpmath as mp
import numpy as np
from scipy.special import log_ndtr

ACTIONS = [2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000]
TOLERANCES = [float(t) for e in range(4, 13) for t in (f"1e-{e}", f"5e-{e + 1}")] + [1e-13]
GRADIENT_MARGIN = 0.88


# ---------------------------------------------------------------- the Mills ratio


def mills(a):
    """M(a) = Phi(-a)/phi(a) = sqrt(pi/2) e^{a^2/2} erfc(a/sqrt 2), in the working precision."""
    a = mp.mpf(a)
    if a > 1e4:  # M(a) = 1/a (1 - 1/a^2 + 3/a^4 - 15/a^6 ..)
        return (1 - 1 / a**2 + 3 / a**4 - 15 / a**6 + 105 / a**8) / a
    return mp.sqrt(mp.pi / 2) * mp.exp(a * a / 2) * mp.erfc(a / mp.sqrt(2))


def fit_mills(c, degree):
    """P(v) = (a + c) M(a) with v = (a - c)/(a + c), interpolated at the Chebyshev points of [-1, 1].

    The monomial coefficients, low order first, rounded to float64. P lies between c M(0) and 1 or a
    little above it, so a small absolute error is a small relative error.
    """
    n = degree + 1
    theta = [mp.pi * (2 * j + 1) / (2 * n) for j in range(n)]
    value = []
    for t in theta:
        v = mp.cos(t)
        a = c * (1 + v) / (1 - v)
        value.append((a + c) * mills(a))
    series = [
        (1 if k == 0 else 2) * mp.fsum(f * mp.cos(k * t) for f, t in zip(value, theta)) / n
        for k in range(n)
    ]
    power = [mp.mpf(0)] * n
    before, chebyshev = [mp.mpf(0)] * n, [mp.mpf(1)] + [mp.mpf(0)] * (n - 1)  # T_{-1} := 0, T_0
    for k in range(n):
        power = [p + series[k] * t for p, t in zip(power, chebyshev)]
        twice = [(1 if k == 0 else 2) * t for t in [mp.mpf(0)] + chebyshev[:-1]]
        before, chebyshev = chebyshev, [t - b for t, b in zip(twice, before)]
    return [float(p) for p in power]


def mills_by_table(a, c, coefficients):
    """P(v)/(a + c) in float64, by Horner's rule."""
    v = (a - c) / (a + c)
    value = np.zeros_like(a)
    for p in reversed(coefficients):
        value = value * v + p
    return value / (a + c)


def mills_by_table_f32(a, c, coefficients):
    """The same in float32, as the library sums it: four polynomials in v^4."""
    single = np.float32
    a, c = a.astype(single), single(c)
    inverse = single(1) / (a + c)
    v = (a - c) * inverse
    v2 = v * v
    sums = [np.zeros_like(v) for _ in range(4)]
    for i in range(len(coefficients) - 4, -1, -4):
        sums = [sums[j] * (v2 * v2) + single(coefficients[i + j]) for j in range(4)]
    return ((sums[0] + sums[1] * v) + v2 * (sums[2] + sums[3] * v)) * inverse


def mills_grid(n=3000):
    """Points a in [0, 1e6] and M(a) rounded to a pair (high, low) of floats."""
    a = np.unique(np.concatenate([[0.0], np.logspace(-8, 6, n // 3), np.linspace(0, 40, 2 * n // 3)]))
    exact = [mills(x) for x in a]
    high = np.array([float(m) for m in exact])
    low = np.array([float(m - mp.mpf(float(m))) for m in exact])
    return a, high, low


def relative_error(a, high, low, c, coefficients):
    return float(np.max(np.abs((mills_by_table(a, c, coefficients) - high - low) / high)))


def best_mills():
    """The shift and degree whose float64 evaluation is nearest to M: (error, c, coefficients)."""
    with mp.workdps(40):
        coarse = mills_grid(900)
        candidates = []
        for degree in (20, 21, 22, 23, 24):
            for c in np.arange(2.0, 7.01, 0.25):
                coefficients = fit_mills(mp.mpf(float(c)), degree)
                error = relative_error(*coarse, float(c), coefficients)
                candidates.append((error, degree, float(c), coefficients))
        candidates.sort(key=lambda k: k[:3])
        fine = mills_grid(6000)
        best = min((relative_error(*fine, c, p), degree, c, p) for _, degree, c, p in candidates[:10])
    return best[0], best[2], best[3]


def best_mills_f32():
    """The shift whose float32 evaluation with 12 coefficients is nearest to M: (error, c, coefficients)."""
    with mp.workdps(30):
        a = mills_grid(900)[0].astype(np.float32)
        exact = np.array([float(mills(float(x))) for x in a])
        fits = ((float(c), fit_mills(mp.mpf(float(c)), 11)) for c in np.arange(1.0, 6.01, 0.25))
        return min((float(np.max(np.abs(mills_by_table_f32(a, c, p) / exact - 1))), c, p) for c, p in fits)


# ---------------------------------------------------------------- the trapezoid steps


def log_abs_phi(x, y):
    """ln |Phi(x + iy)|."""
    return np.real(log_ndtr(x + 1j * y))


class Strip:
    """ln |Phi(x + iy)| on a grid of x and y, and the offsets d that are scanned."""

    def __init__(self):
        self.x = np.arange(-14.0, 20.0, 0.03)
        self.y = np.geomspace(0.2, 9.0, 300)
        self.d = np.arange(-10.0, 12.01, 0.1)
        self.log_phi = log_abs_phi(self.x[None, :], self.y[:, None])

    def log_mass(self, actions, gradient):
        """ln sup_d M_K(y, d) for every y, by a fine Riemann sum in x, where

        M_K(y, d) = e^{y^2/2} int phi(x - d)   |Phi(x + iy)|^{K-1} dx   for a propensity,
        M_K(y, d) = e^{y^2}   int phi(x - d)^2 |Phi(x + iy)|^{K-2} dx   for its gradient.
        """
        density = np.exp(-0.5 * (self.x[:, None] - self.d[None, :]) ** 2) / np.sqrt(2 * np.pi)
        power, others = (2, actions - 2) if gradient else (1, actions - 1)
        exponent = others * self.log_phi
        top = exponent.max(axis=1, keepdims=True)
        mass = np.exp(exponent - top) @ density**power * (self.x[1] - self.x[0])
        return power * self.y**2 / 2 + top[:, 0] + np.log(mass.max(axis=1))

    def steps(self, actions, gradient=False):
        """For every tolerance the largest h with 2 sup_d M_K(y, d)/(e^{2 pi y/h} - 1) <= tolerance for some y."""
        log_mass = self.log_mass(actions, gradient)
        return [
            float(np.max(2 * np.pi * self.y / np.logaddexp(0.0, np.log(2 / tolerance) + log_mass)))
            for tolerance in TOLERANCES
        ]


def steps():
    """The table: 0.88 times the step of the value, never above that of the gradient, 3 decimals down."""
    strip = Strip()
    value = np.array([strip.steps(k) for k in ACTIONS]).T
    gradient = np.array([strip.steps(k, gradient=True) for k in ACTIONS]).T
    return np.floor(1000 * np.minimum(GRADIENT_MARGIN * value, gradient)) / 1000


def check_deviations():
    """Whether larger deviations allow larger steps: with the smallest deviation as the unit, the mass of an integrand on a
    line of the strip, for an action of the deviation r times that of the others, is at most that for equal ones. A larger
    one, r > 1, is a mixture of such integrands."""
    g = np.linspace(-9.0, 9.0, 1201)
    log_weight = -0.5 * g * g - np.log(np.sum(np.exp(-0.5 * g * g)))
    d = np.linspace(-12.0, 12.0, 481)

    def log_mass(actions, y, r):
        powers = (actions - 1) * np.real(log_ndtr(d[:, None] + r * (g[None, :] + 1j * y)))
        return np.max(np.logaddexp.reduce(powers + log_weight, axis=1))

    for actions in (2, 3, 5, 10, 50, 1000, 100000):
        for y in (0.3, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0):
            equal = log_mass(actions, y, 1.0)
            assert all(log_mass(actions, y, r) <= equal for r in (0.01, 0.1, 0.25, 0.5, 0.7, 0.85, 0.95)), (actions, y)


def trapezoid(scores, a, b, lattice, h):
    """h sum_z of the integrands of pi(a) and of -d pi(a)/d s_b, over a wide lattice."""
    t = lattice[:, None] - scores[None, :]
    log_phi = -0.5 * t * t - 0.5 * np.log(2 * np.pi)
    log_cdf = log_ndtr(t)
    others = log_cdf.sum(axis=1) - log_cdf[:, a]
    value = np.exp(others + log_phi[:, a])
    slope = np.exp(others - log_cdf[:, b] + log_phi[:, a] + log_phi[:, b])
    return h * np.array([value.sum(), slope.sum()])


def check_steps(table, seed=0):
    """The largest error/tolerance of the tabulated steps on random scores, tolerances 1e-4 to 1e-12."""
    random = np.random.default_rng(seed)
    worst = 0.0
    for actions in (2, 3, 10, 100, 1000):
        column = ACTIONS.index(actions)
        for spread in (0.0, 0.5, 1.0, 3.0, 10.0):
            scores = random.uniform(-spread, spread, actions)
            order = np.argsort(-scores)
            scores[order[0]] += random.choice([0.0, 2.0, 4.0])
            a, b = order[0], order[1]
            low, high = scores.max() - 14.0, scores.max() + 12.0
            fine = trapezoid(scores, a, b, np.arange(low, high, 0.02), 0.02)
            for row in range(len(TOLERANCES) - 1):
                h = table[row, column]
                lattice = np.arange(low + h * random.random(), high, h)
                error = np.abs(trapezoid(scores, a, b, lattice, h) - fine).max()
                worst = max(worst, error / TOLERANCES[row])
    return worst


# ---------------------------------------------------------------- the Rust file


def rust_float(x):
    return (str(x) if isinstance(x, np.float32) else repr(float(x))).replace("e-0", "e-")


def write(path):
    """Writes the tables as Rust source; returns (error of the Mills ratio, worst error/tolerance)."""
    error, shift, coefficients = best_mills()
    error_f32, shift_f32, coefficients_f32 = best_mills_f32()
    check_deviations()
    table = steps()
    worst = check_steps(table)
    assert worst <= 1, worst
    columns, rows = len(ACTIONS), len(TOLERANCES)
    row = lambda values: "[" + ", ".join(values) + "]"
    text = f"""// Generated by reference/tables.py (`make golden`); do not edit.

//! Constants of the normal distribution function and of the quadrature.

/// The shift `c` of [`MILLS`].
pub(crate) const MILLS_SHIFT: f64 = {shift!r};

/// The Mills ratio `M(a) = Phi(-a)/phi(a) = P(v)/(a + c)` for every `a >= 0`, with
/// `v = (a - c)/(a + c)` and `c` = [`MILLS_SHIFT`]: the coefficients of `P`, low order first.
///
/// Largest relative error by Horner's rule in `f64`, measured on `[0, 1e6]`: {error:.1e}.
pub(crate) const MILLS: [f64; {len(coefficients)}] = {row(map(rust_float, coefficients))};

/// The shift of [`MILLS_F32`].
pub(crate) const MILLS_SHIFT_F32: f32 = {shift_f32!r};

/// The same for `f32`. Largest relative error, measured on `[0, 1e6]`: {error_f32:.1e}.
pub(crate) const MILLS_F32: [f32; {len(coefficients_f32)}] = {row(rust_float(np.float32(p)) for p in coefficients_f32)};

/// The numbers of actions `K` at which [`STEPS`] is tabulated.
pub(crate) const STEP_ACTIONS: [u32; {columns}] = {row(map(str, ACTIONS))};

/// The absolute errors at which [`STEPS`] is tabulated.
pub(crate) const STEP_TOLERANCES: [f64; {rows}] = {row(map(rust_float, TOLERANCES))};

/// Trapezoid steps `h`, one row a tolerance and one column a number of actions.
///
/// The sum `h sum_z f(z)` over `h Z + r`, for any `r`, is within the tolerance of the integral, for
/// `f(z) = phi(z - s_a) prod_(b != a) Phi(z - s_b)` and for the integrands of its gradient. From
/// `|error| <= 2 sup_d M_K(y, d)/(e^(2 pi y/h) - 1)` at the best `y`, with
/// `M_K(y, d) = e^(y^2/2) int phi(x - d) |Phi(x + iy)|^(K-1) dx`; {GRADIENT_MARGIN} times that step,
/// rounded down to three decimals. `h` falls with `K` and with the tolerance: between two entries
/// take the smaller.
pub(crate) const STEPS: [[f64; {columns}]; {rows}] = {row(row(map(rust_float, r)) for r in table)};
"""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    subprocess.run(["rustfmt", "--edition", "2024", str(path)], check=True)
    return error, worst


if __name__ == "__main__":
    root = Path(__file__).resolve().parent.parent
    print(write(root / "crates/surefoot/src/math/tables.rs"))
