//! The part of a quadrature that depends only on the number of actions and the tolerance: made once and kept.

use std::sync::{Arc, Mutex, PoisonError};

use crate::math::lattice::Lattice;
use crate::math::normal::tail_point;
use crate::math::real::Real;
use crate::math::tables::{STEP_ACTIONS, STEP_TOLERANCES, STEPS};

/// The trapezoid step that keeps the error of `actions` actions, and of their gradients, below `tolerance`, and the
/// table entry that it belongs to.
///
/// The step shrinks as the number of actions grows and as the tolerance shrinks. Between two entries of the table the
/// smaller step is used. Below its smallest tolerance, which is at the rounding error of the sum, the last entry is
/// used. Beyond its largest `K` the step, which shrinks like the width of the distribution of a maximum,
/// `1/sqrt(ln K)`, is made to shrink even faster.
fn step(actions: usize, tolerance: f64) -> (usize, f64, f64) {
    let row = STEP_TOLERANCES.iter().position(|&t| t <= tolerance).unwrap_or(STEP_TOLERANCES.len() - 1);
    let last = STEP_ACTIONS.len() - 1;
    match STEP_ACTIONS.iter().position(|&k| k as usize >= actions) {
        Some(column) => (STEP_ACTIONS[column] as usize, STEP_TOLERANCES[row], STEPS[row][column]),
        None => {
            let actions = actions.next_power_of_two();
            let h = STEPS[row][last] * f64::from(STEP_ACTIONS[last]).ln() / (actions as f64).ln();
            (actions, STEP_TOLERANCES[row], h)
        }
    }
}

/// The step of the trapezoid rule for an error of the probabilities of this many actions, and of their gradients.
pub(crate) fn trapezoid_step(actions: usize, error: f64) -> f64 {
    step(actions, error).2
}

/// The constants for a number of actions and a tolerance. All indices count steps `h` from the largest score.
#[derive(Debug)]
pub(crate) struct Rule<R, const COEFS: usize> {
    pub(super) h: R,
    pub(super) per_h: R,
    pub(super) lattice: Lattice<R, COEFS>,
    /// The walk ends where `F` is below this.
    pub(super) tau: R,
    /// The index at which the walk down the grid starts, and the last index that it may reach.
    pub(super) start: i32,
    pub(super) bottom: i32,
    /// The reach of one action's density.
    pub(super) reach: i32,
    /// From this distance on, a factor of `F` counts as 1 and its hazard as 0.
    pub(super) zero: i32,
    /// Scores in this cell or below are too far from all grid points.
    pub(super) idle: i32,
}

impl<R: Real, const COEFS: usize> Rule<R, COEFS> {
    /// Steps `h`. Each truncation error is at most `tau`: above the grid, below it, in factors next to 1, and beyond
    /// the reach of one action.
    fn new(actions: usize, h: f64, tau: f64, lanes: i32) -> Self {
        let index = |x: f64| (x / h).ceil() as i32;
        // A union bound over the actions: above this point the maximum exceeds `z` with probability at most `tau`.
        let start = index(tail_point(tau / actions as f64));
        let bottom = -index(tail_point(tau));
        let zero = start + 1;
        let lowest = bottom - lanes + 1;
        Rule {
            h: R::of(h),
            per_h: R::of(1.0 / h),
            lattice: Lattice::new(h, lowest, zero, zero + 2 * lanes),
            tau: R::of(tau),
            start,
            bottom,
            reach: index(tail_point(tau / 2.0)),
            zero,
            idle: zero - lowest,
        }
    }
}

/// Rules that were already made. Making a rule takes longer than integrating a row. There are few, because steps come
/// from a table.
pub(super) type Shelf<R, const COEFS: usize> = Mutex<Vec<((usize, u64), Arc<Rule<R, COEFS>>)>>;

/// Number types whose rules are kept.
pub(crate) trait Kept<const COEFS: usize>: Real + 'static {
    fn shelf() -> &'static Shelf<Self, COEFS>;
}

/// Half of the tolerance is for the step; `tau` is given, or an eighth of the tolerance.
pub(super) fn rule<R: Kept<COEFS>, const COEFS: usize>(
    actions: usize,
    tolerance: f64,
    tau: Option<f64>,
    lanes: i32,
) -> Arc<Rule<R, COEFS>> {
    let (actions, half, h) = step(actions, tolerance / 2.0);
    let tau = tau.unwrap_or(half / 4.0);
    let key = (actions, tau.to_bits());
    let mut shelf = R::shelf().lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, rule)) = shelf.iter().find(|(k, _)| *k == key) {
        return Arc::clone(rule);
    }
    let rule = Arc::new(Rule::new(actions, h, tau, lanes));
    shelf.push((key, Arc::clone(&rule)));
    rule
}
