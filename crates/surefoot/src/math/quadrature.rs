//! All probabilities of the perturbed argmax at once, or one with its gradient.
//!
//! `pi(a) = int phi(z - s_a) prod_{b != a} Phi(z - s_b) dz = int F(z) g(z - s_a) dz`. Here `F(z) = prod_b Phi(z - s_b)`
//! is the distribution function of the maximum, and `g = phi/Phi` is the hazard. The integrand is entire and decays on
//! both sides, so the trapezoid rule converges geometrically. All actions share one grid of `G` points in `z`.
//!
//! The grid lies on a [lattice](super::lattice), and so do the scores, up to remainders. Scores in the same cell of the
//! lattice differ only in the powers of their remainders. So `ln F = sum_b ln Phi(z - s_b)` needs only the *sums* of
//! those powers, one set per cell, not the scores themselves. In the same way, all integrals against the hazards of a
//! cell are one polynomial in the remainder. This takes `O(K + C G)` operations with `C` cells (a few dozen), where one
//! action at a time would take `O(K G)`.

mod narrow;
mod rule;

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use super::kernels::{lane_sum, largest, total, wide};
use super::real::Real;
pub(crate) use rule::trapezoid_step;
use rule::{Kept, Rule, Shelf, rule};

/// For a search with minibatches: `ln Phi` to 3e-7, the hazard to 7e-7, tolerances down to 1e-6.
pub(crate) type Single = Quadrature<f32, 6, 16>;
/// For logged and reported values: `ln Phi` to 1e-13, the hazard to 2e-13, tolerances down to 2e-13.
pub(crate) type Double = Quadrature<f64, 12, 8>;

/// Number types that have a quadrature.
pub(crate) trait Integrate: Real {
    type Quadrature: Debug + Send + Sync;

    fn quadrature(actions: usize, tolerance: f64) -> Self::Quadrature;
    fn propensity(quadrature: &mut Self::Quadrature, scores: &[Self], action: usize) -> Self;
    fn gradient(quadrature: &mut Self::Quadrature, scores: &[Self], action: usize, gradient: &mut [Self]) -> Self;

    /// The same for many records, with `k` scores and `k` entries of `gradients` per record.
    fn gradients(
        quadrature: &mut Self::Quadrature,
        k: usize,
        scores: &[Self],
        actions: &[u32],
        probabilities: &mut [Self],
        gradients: &mut [Self],
    );
}

macro_rules! integrate {
    ($real:ty, $quadrature:ty, $coefs:literal) => {
        impl Kept<$coefs> for $real {
            fn shelf() -> &'static Shelf<Self, $coefs> {
                static SHELF: Shelf<$real, $coefs> = Mutex::new(Vec::new());
                &SHELF
            }
        }

        impl Integrate for $real {
            type Quadrature = $quadrature;

            fn quadrature(actions: usize, tolerance: f64) -> $quadrature {
                <$quadrature>::new(actions, tolerance)
            }

            fn propensity(quadrature: &mut $quadrature, scores: &[Self], action: usize) -> Self {
                quadrature.propensity(scores, action)
            }

            fn gradient(quadrature: &mut $quadrature, scores: &[Self], action: usize, gradient: &mut [Self]) -> Self {
                quadrature.gradient(scores, action, gradient)
            }

            fn gradients(
                quadrature: &mut $quadrature,
                k: usize,
                scores: &[Self],
                actions: &[u32],
                probabilities: &mut [Self],
                gradients: &mut [Self],
            ) {
                quadrature.gradients(k, scores, actions, probabilities, gradients);
            }
        }
    };
}
integrate!(f32, Single, 6);
integrate!(f64, Double, 12);

/// A rule, with working memory for one row.
#[derive(Debug)]
pub(crate) struct Quadrature<R, const COEFS: usize, const LANES: usize> {
    rule: Arc<Rule<R, COEFS>>,
    /// The position of each score: its cell, counted downwards from the largest score, and its remainder there in
    /// steps.
    cells: Vec<i32>,
    remainders: Vec<R>,
    /// The sums of the powers of the remainders in each cell. In `f64`, because many equal scores, all rounded in the
    /// same direction, would drift in `f32`.
    sums: Vec<[f64; COEFS]>,
    moments: Vec<[R; COEFS]>,
    /// The last cell that contains a score that is not idle.
    deepest: i32,
    /// The grid, from the top down: the index of the lowest of some neighbouring points, and the values there of `F` or
    /// of the integrand.
    grid: Vec<(i32, [R; LANES])>,
    /// For each cell, the integral against a hazard as a polynomial in the remainder.
    integrals: [Vec<R>; COEFS],
}

impl<R: Kept<COEFS>, const COEFS: usize, const LANES: usize> Quadrature<R, COEFS, LANES> {
    #[allow(clippy::cast_possible_wrap)] // 8 or 16.
    const STRIDE: i32 = LANES as i32;

    /// For at most this many actions; `tolerance` is the absolute error of each probability and each entry of a
    /// gradient.
    pub(crate) fn new(actions: usize, tolerance: f64) -> Self {
        Self::with_rule(rule(actions, tolerance, None, Self::STRIDE))
    }

    /// For propensities far below the tolerance: the finest step, and a grid that reaches to where `F` is 1e-26.
    pub(crate) fn deep(actions: usize) -> Self {
        Self::with_rule(rule(actions, 0.0, Some(1e-26), Self::STRIDE))
    }

    fn with_rule(rule: Arc<Rule<R, COEFS>>) -> Self {
        Quadrature {
            rule,
            cells: Vec::new(),
            remainders: Vec::new(),
            sums: Vec::new(),
            moments: Vec::new(),
            deepest: 0,
            grid: Vec::new(),
            integrals: std::array::from_fn(|_| Vec::new()),
        }
    }

    /// The probabilities of all actions. Here and below, scores must be finite; otherwise every result is NaN.
    pub(crate) fn distribution(&mut self, scores: &[R], out: &mut [R]) {
        if scores.len() == 1 {
            out[0] = R::ONE;
            return;
        }
        wide(
            #[inline(always)]
            || {
                if !self.place(scores) {
                    return out.fill(R::of(f64::NAN));
                }
                self.walk(self.rule.start, self.rule.bottom);
                self.integrate();
                for (b, out) in out.iter_mut().enumerate() {
                    *out = self.rule.h * self.integral(b);
                }
            },
        );
    }

    /// The probability of one action.
    pub(crate) fn propensity(&mut self, scores: &[R], action: usize) -> R {
        if scores.len() == 1 {
            return R::ONE;
        }
        wide(
            #[inline(always)]
            || self.weigh(scores, action),
        )
    }

    /// The probability of one action; `gradient[b]` becomes its derivative in `s_b`.
    ///
    /// For `b != a` it is `-int f(z) g(z - s_b) dz` with the integrand `f` of `pi(a)`. The entries sum to 0, because
    /// adding a constant to all scores changes nothing.
    pub(crate) fn gradient(&mut self, scores: &[R], action: usize, gradient: &mut [R]) -> R {
        if scores.len() == 1 {
            gradient[0] = R::ZERO;
            return R::ONE;
        }
        wide(
            #[inline(always)]
            || {
                let p = self.weigh(scores, action);
                // In that case the grid still holds the row before.
                if p.to_f64().is_nan() {
                    gradient.fill(p);
                    return p;
                }
                self.integrate();
                let mut sum = R::ZERO;
                for (b, g) in gradient.iter_mut().enumerate() {
                    *g = -self.rule.h * self.integral(b);
                    sum += *g;
                }
                gradient[action] -= sum;
                p
            },
        )
    }

    /// The same for many records: see [`Integrate::gradients`].
    pub(crate) fn gradients(
        &mut self,
        k: usize,
        scores: &[R],
        actions: &[u32],
        probabilities: &mut [R],
        gradients: &mut [R],
    ) {
        if k <= narrow::MOST {
            return narrow::gradients(&self.rule, k, scores, actions, probabilities, gradients);
        }
        let rows = scores.chunks_exact(k).zip(gradients.chunks_exact_mut(k));
        for ((scores, gradient), (&action, p)) in rows.zip(actions.iter().zip(probabilities)) {
            *p = self.gradient(scores, action as usize, gradient);
        }
    }

    /// Puts the integrand of an action's probability on the grid, and returns its integral.
    #[inline(always)]
    fn weigh(&mut self, scores: &[R], action: usize) -> R {
        if !self.place(scores) {
            return R::of(f64::NAN);
        }
        let (cell, remainder) = (self.cells[action], self.remainders[action]);
        if cell >= self.rule.idle {
            self.grid.clear();
            return R::ZERO;
        }
        self.walk(self.rule.start.min(self.rule.reach - cell + 1), self.rule.bottom.max(-self.rule.reach - cell - 1));
        let mut sums = [R::ZERO; LANES];
        for (lowest, weights) in &mut self.grid {
            if *lowest + cell >= self.rule.zero {
                *weights = [R::ZERO; LANES];
                continue;
            }
            let mut hazard = [R::ZERO; LANES];
            for j in (0..COEFS).rev() {
                let c = self.rule.lattice.hazard::<LANES>(j, *lowest + cell);
                for (hazard, &c) in hazard.iter_mut().zip(c) {
                    *hazard = *hazard * remainder + c;
                }
            }
            for ((weight, hazard), sum) in weights.iter_mut().zip(hazard).zip(&mut sums) {
                *weight *= hazard;
                *sum += *weight;
            }
        }
        self.rule.h * total(sums)
    }

    /// Finds the cell of each score and sums the moments. Returns false if a score is not finite.
    #[inline(always)]
    fn place(&mut self, scores: &[R]) -> bool {
        let top = largest(scores);
        let idle = self.rule.idle;
        let farthest = R::of(-f64::from(idle));
        self.cells.resize(scores.len(), 0);
        self.remainders.resize(scores.len(), R::ZERO);
        let per_h = self.rule.per_h;
        for ((&s, cell), remainder) in scores.iter().zip(&mut self.cells).zip(&mut self.remainders) {
            let steps = (s - top) * per_h;
            let (n, rest) = (if steps < farthest { farthest } else { steps }).split();
            (*cell, *remainder) = (-n, rest);
        }
        // 0 as long as all scores are finite.
        let check = lane_sum(
            scores,
            scores,
            #[inline(always)]
            |s, _| s * R::ZERO,
        );
        if check != R::ZERO {
            return false;
        }
        self.sums.clear();
        self.sums.resize(idle as usize + 1, [0.0; COEFS]);
        self.deepest = 0;
        for (&cell, &remainder) in self.cells.iter().zip(&self.remainders) {
            let mut power = R::ONE;
            for sum in &mut self.sums[cell as usize] {
                *sum += power.to_f64();
                power *= remainder;
            }
            self.deepest = self.deepest.max(if cell < idle { cell } else { 0 });
        }
        self.moments.clear();
        self.moments.resize(self.deepest as usize + 1, [R::ZERO; COEFS]);
        for (moments, sums) in self.moments.iter_mut().zip(&self.sums) {
            for (moment, &sum) in moments.iter_mut().zip(sums) {
                *moment = R::of(sum);
            }
        }
        true
    }

    /// `F` on the grid from `from` down to `to`, or to where it is negligible.
    #[inline(always)]
    fn walk(&mut self, from: i32, to: i32) {
        let rule = &self.rule;
        self.grid.clear();
        let mut lowest = from + 1;
        while lowest > to {
            lowest -= Self::STRIDE;
            let mut ln_f = [R::ZERO; LANES];
            for cell in 0..=self.deepest.min(rule.zero - 1 - lowest) {
                let moments = &self.moments[cell as usize];
                if moments[0] == R::ZERO {
                    continue;
                }
                for (j, &moment) in moments.iter().enumerate() {
                    let c = rule.lattice.ln_cdf::<LANES>(j, lowest + cell);
                    for (ln_f, &c) in ln_f.iter_mut().zip(c) {
                        *ln_f += moment * c;
                    }
                }
            }
            let mut f = ln_f;
            for f in &mut f {
                *f = f.exp_nonpositive();
            }
            self.grid.push((lowest, f));
            if f[0] < rule.tau {
                break;
            }
        }
    }

    /// The integrals of the values on the grid against the hazard of every cell.
    #[inline(always)]
    fn integrate(&mut self) {
        let rule = &self.rule;
        for integrals in &mut self.integrals {
            integrals.clear();
        }
        for cell in (0..=self.deepest).step_by(LANES) {
            for (j, integrals) in self.integrals.iter_mut().enumerate() {
                let mut sums = [R::ZERO; LANES];
                for (lowest, weights) in self.grid.iter().filter(|(lowest, _)| lowest + cell < rule.zero) {
                    let nodes = rule.lattice.hazards(j, lowest + cell, 2 * LANES);
                    for (i, &weight) in weights.iter().enumerate() {
                        for (sum, &c) in sums.iter_mut().zip(&nodes[i..i + LANES]) {
                            *sum += weight * c;
                        }
                    }
                }
                integrals.extend_from_slice(&sums);
            }
        }
    }

    /// The integral against the hazard of an action.
    #[inline(always)]
    fn integral(&self, action: usize) -> R {
        let (cell, remainder) = (self.cells[action], self.remainders[action]);
        if cell > self.deepest {
            return R::ZERO;
        }
        let mut value = self.integrals[COEFS - 1][cell as usize];
        for integrals in self.integrals.iter().rev().skip(1) {
            value = value * remainder + integrals[cell as usize];
        }
        value
    }
}

#[cfg(test)]
pub(crate) mod tests;
