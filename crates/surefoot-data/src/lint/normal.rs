//! Tail probabilities and quantiles of the normal distribution, and running moments.

use std::f64::consts::FRAC_1_SQRT_2;

/// The two-sided tail probability of `z`.
pub(super) fn beyond(z: f64) -> f64 {
    libm::erfc(z.abs() * FRAC_1_SQRT_2)
}

/// The `z` with this two-sided tail probability, by bisection: `beyond` decreases, and 40 exceeds every quantile that
/// an `f64` probability can have.
pub(super) fn limit(chance: f64) -> f64 {
    let (mut lo, mut hi) = (0.0, 40.0);
    for _ in 0..60 {
        let middle = 0.5 * (lo + hi);
        if beyond(middle) > chance { lo = middle } else { hi = middle }
    }
    hi
}

/// Running count, mean and sum of squared deviations (Welford).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    pub(super) count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    pub(super) fn add(&mut self, x: f64) {
        self.count += 1.0;
        let step = x - self.mean;
        self.mean += step / self.count;
        self.squares += step * (x - self.mean);
    }

    /// Merges two sets of moments (Chan, Golub and LeVeque).
    pub(super) fn merge(&mut self, other: &Moments) {
        if other.count == 0.0 {
            return;
        }
        let count = self.count + other.count;
        let step = other.mean - self.mean;
        self.squares += other.squares + step * step * self.count * other.count / count;
        self.mean += step * other.count / count;
        self.count = count;
    }

    pub(super) fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then_some(self.mean)
    }

    /// With divisor `n - 1`.
    pub(super) fn variance(&self) -> Option<f64> {
        (self.count > 1.0).then(|| self.squares / (self.count - 1.0))
    }

    pub(super) fn standard_error(&self) -> Option<f64> {
        self.variance().map(|variance| (variance / self.count).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_tables() {
        assert!((limit(0.05) - 1.959_964).abs() < 1e-6);
        assert!((limit(1e-4) - 3.890_592).abs() < 1e-6);
        assert!((beyond(-1.959_964) - 0.05).abs() < 1e-7);
    }

    #[test]
    fn moments_in_parts_are_those_of_the_whole() {
        let x: Vec<f64> = (0..20).map(|i| f64::from(i * i % 7)).collect();
        let of = |x: &[f64]| {
            let mut moments = Moments::default();
            x.iter().for_each(|&x| moments.add(x));
            moments
        };
        let mut parts = of(&x[..6]);
        parts.merge(&of(&x[6..]));
        let whole = of(&x);
        assert_eq!(parts.count, whole.count);
        assert!((parts.mean - whole.mean).abs() < 1e-12 && (parts.squares - whole.squares).abs() < 1e-9);
    }
}
