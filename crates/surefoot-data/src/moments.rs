//! Mean and variance of a stream of numbers.

/// Running count, mean and sum of squared deviations (Welford).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moments {
    pub(crate) count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    pub(crate) fn add(&mut self, x: f64) {
        self.count += 1.0;
        let step = x - self.mean;
        self.mean += step / self.count;
        self.squares += step * (x - self.mean);
    }

    /// The moments of this many zeros.
    pub(crate) fn zeros(count: f64) -> Self {
        Moments { count, ..Moments::default() }
    }

    /// Merges two sets of moments (Chan, Golub and LeVeque).
    pub(crate) fn merge(&mut self, other: &Moments) {
        if other.count == 0.0 {
            return;
        }
        let count = self.count + other.count;
        let step = other.mean - self.mean;
        self.squares += other.squares + step * step * self.count * other.count / count;
        self.mean += step * other.count / count;
        self.count = count;
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then_some(self.mean)
    }

    /// With divisor `n - 1`.
    pub(crate) fn variance(&self) -> Option<f64> {
        (self.count > 1.0).then(|| self.squares / (self.count - 1.0))
    }

    pub(crate) fn standard_error(&self) -> Option<f64> {
        self.variance().map(|variance| (variance / self.count).sqrt())
    }

    /// The standard deviation with divisor `n`; 1 where all values are equal.
    pub(crate) fn scale(&self) -> f64 {
        let deviation = (self.squares / self.count.max(1.0)).sqrt();
        if deviation > 0.0 && deviation.is_finite() { deviation } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
