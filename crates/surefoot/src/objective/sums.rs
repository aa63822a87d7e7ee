//! Sums over records that add up.

use crate::math::kernels::add;
use crate::math::real::Real;

/// What some records add to the value and the gradient of an objective.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sums<R> {
    pub(super) value: f64,
    /// In the mean, once the first block is in;
    pub(super) mean: Vec<R>,
    pub(super) begun: bool,
    /// in the logarithm of a shared scale;
    pub(super) shrink: f64,
    /// and in that of each feature's, divided by its variance.
    pub(super) squares: Vec<R>,
}

impl<R: Real> Sums<R> {
    /// For means of this length, and as many scales of features as are sought.
    pub(super) fn new(means: usize, scales: usize) -> Self {
        Sums { value: 0.0, mean: vec![R::ZERO; means], begun: false, shrink: 0.0, squares: vec![R::ZERO; scales] }
    }

    /// Empty again; the means are written over by the first block.
    pub(super) fn clear(&mut self) {
        (self.value, self.shrink, self.begun) = (0.0, 0.0, false);
        self.squares.fill(R::ZERO);
    }

    /// Adds what the records that come next add.
    pub(super) fn merge(&mut self, next: &Sums<R>) {
        self.value += next.value;
        self.shrink += next.shrink;
        add(&next.squares, &mut self.squares);
        match (self.begun, next.begun) {
            (_, false) => {}
            (true, true) => add(&next.mean, &mut self.mean),
            (false, true) => self.mean.copy_from_slice(&next.mean),
        }
        self.begun |= next.begun;
    }
}

/// What the records of a shard add to the value and the gradient of an [`Objective`](super::Objective). Two of them add up;
/// the divergence, which is no sum over records, is added once at the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Partial(pub(super) Sums<f64>);

impl Partial {
    /// Adds those of the shard that comes next.
    ///
    /// # Panics
    /// If it is of an objective with other parameters.
    pub fn merge(&mut self, next: &Partial) {
        assert_eq!(self.0.mean.len(), next.0.mean.len(), "sums of the same objective");
        self.0.merge(&next.0);
    }
}
