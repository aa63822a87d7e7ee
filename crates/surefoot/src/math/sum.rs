//! Sums that do not lose small terms.

/// A compensated sum (Neumaier), whose error does not grow with the number of terms.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Sum {
    pub(crate) total: f64,
    pub(crate) lost: f64,
}

impl Sum {
    pub(crate) fn add(&mut self, x: f64) {
        let total = self.total + x;
        self.lost += if self.total.abs() >= x.abs() { (self.total - total) + x } else { (x - total) + self.total };
        self.total = total;
    }

    /// Adds another sum.
    pub(crate) fn join(&mut self, other: Sum) {
        self.add(other.total);
        self.add(other.lost);
    }

    pub(crate) fn value(self) -> f64 {
        self.total + self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_terms_next_to_large_ones_are_not_lost() {
        let (mut a, mut b) = (Sum::default(), Sum::default());
        [1e16, 1.0, -1e16].into_iter().for_each(|x| a.add(x));
        (0..1000).for_each(|_| b.add(1e-3));
        assert_eq!(a.value(), 1.0);
        a.join(b);
        assert!((a.value() - 2.0).abs() < 1e-15);
    }
}
