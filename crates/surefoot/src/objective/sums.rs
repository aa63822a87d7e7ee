//! Sums over records that can be merged.

use crate::math::kernels::add;
use crate::math::real::Real;

/// The contribution of some records to the value and the gradient of an objective.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sums<R> {
    pub(super) value: f64,
    /// The gradient in the mean; valid if `begun`, that is, once the first block was added.
    pub(super) mean: Vec<R>,
    pub(super) begun: bool,
    /// The gradient in the logarithm of a shared scale.
    pub(super) shrink: f64,
    /// The gradient in the logarithm of each feature's scale, divided by its variance.
    pub(super) squares: Vec<R>,
}

impl<R: Real> Sums<R> {
    /// Empty sums for `means` means and `scales` scales per feature; 0 scales if they are not learned.
    pub(super) fn new(means: usize, scales: usize) -> Self {
        Sums { value: 0.0, mean: vec![R::ZERO; means], begun: false, shrink: 0.0, squares: vec![R::ZERO; scales] }
    }

    /// Empties the sums. The first block will overwrite the means.
    pub(super) fn clear(&mut self) {
        (self.value, self.shrink, self.begun) = (0.0, 0.0, false);
        self.squares.fill(R::ZERO);
    }

    /// Adds the sums of the records that come next.
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

/// The contribution of a shard's records to the value and the gradient of an [`Objective`](super::Objective). Two of
/// them can be merged. The divergence is not a sum over records, so it is added once at the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Partial(pub(super) Sums<f64>);

impl Partial {
    /// Adds the sums of the next shard.
    ///
    /// # Panics
    /// If they are from an objective with other parameters.
    pub fn merge(&mut self, next: &Partial) {
        assert_eq!(self.0.mean.len(), next.0.mean.len(), "sums of the same objective");
        self.0.merge(&next.0);
    }
}
