//! The evidence of a linear regression per action, and its maximum over the precisions of the prior.

use std::ops::Range;

use rayon::prelude::*;

use crate::math::moments::Moments;

/// One regression per action, `r - offset = <phi, theta_a> + e`, with `theta_a ~ N(0, s^2 diag(1/d))` and
/// `e ~ N(0, s^2)`.
#[derive(Debug)]
pub(super) struct Regressions<'a> {
    /// The second moments of `(phi, 1, r)`, per action.
    pub(super) moments: Vec<&'a Moments>,
    /// `sum phi (r - offset)`, per action.
    pub(super) products: Vec<Vec<f64>>,
    /// `sum (r - offset)^2` over all actions.
    pub(super) square: f64,
    /// The number of records.
    pub(super) records: f64,
    /// The smallest noise, `s^2`.
    pub(super) least_noise: f64,
    /// What is known of the coefficients before, if anything.
    pub(super) known: Option<Known>,
}

/// A direction `m` of the coefficients: `r - offset = o + c <phi, m_a> + <phi, theta_a> + e`, with numbers `o` and `c` that
/// are fitted together with `theta`, by generalised least squares.
///
/// Alone, by plain least squares, `c` would be too small: a policy that has learned chooses an action of a low `<phi, m_a>` only
/// where the rest of the model says that it is good all the same.
#[derive(Debug)]
pub(super) struct Known {
    /// `m_a`, per action.
    direction: Vec<Vec<f64>>,
    /// `sum phi`, per action.
    sums: Vec<Vec<f64>>,
    /// `sum phi <phi, m_a>`, per action.
    predicted: Vec<Vec<f64>>,
}

impl Known {
    /// From a direction, feature-major.
    pub(super) fn new(direction: &[f64], moments: &[Moments]) -> Self {
        let (k, p) = (moments.len(), direction.len() / moments.len());
        let direction: Vec<Vec<f64>> = (0..k).map(|a| (0..p).map(|f| direction[f * k + a]).collect()).collect();
        let sums = moments.iter().map(|moments| (0..p).map(|f| moments.at(p, f)).collect()).collect();
        let predicted = moments.iter().zip(&direction).map(|(moments, m)| moments.times(m)).collect();
        Known { direction, sums, predicted }
    }
}

/// The regressions at one prior.
#[derive(Debug, Clone)]
pub(super) struct Solved {
    /// The logarithm of the evidence.
    pub(super) evidence: f64,
    /// The variance of the noise, `s^2`.
    pub(super) noise: f64,
    /// The coefficients, per action: `c m_a + E[theta_a]`.
    pub(super) means: Vec<Vec<f64>>,
    /// `o`.
    pub(super) shift: f64,
}

impl Regressions<'_> {
    /// Solves all regressions at the prior precisions `d`, in units of the noise's precision.
    ///
    /// With `A_a = G_a + diag(d)`, `m_a = A_a^-1 b_a` and `E = sum r^2 - sum_a <b_a, m_a>`, the evidence at noise `s^2` is
    /// `-1/2 [ sum_a (ln det A_a - ln det diag(d)) + N ln(2 pi s^2) + E/s^2 ]`. The noise is the one that maximises it,
    /// `E/N`, or the smallest one allowed. `None` if a matrix is not positive definite in floating-point numbers.
    pub(super) fn at(&self, d: &[f64]) -> Option<Solved> {
        if let Some(known) = &self.known {
            return self.around(known, d);
        }
        let prior: f64 = d.iter().map(|d| d.ln()).sum();
        let pairs: Vec<_> = self.moments.iter().zip(&self.products).collect();
        // An action without records has the prior's mean and adds nothing to the evidence.
        let solve = |&(moments, b): &(&&Moments, &Vec<f64>)| match moments.at(d.len(), d.len()) > 0.0 {
            true => moments.solve(d, [b]).map(|([mean], determinant)| (mean, determinant)),
            false => Some((vec![0.0; d.len()], prior)),
        };
        let solved: Vec<Option<(Vec<f64>, f64)>> = pairs.into_par_iter().map(|pair| solve(&pair)).collect();
        let (mut determinants, mut explained, mut means) = (0.0, 0.0, Vec::with_capacity(solved.len()));
        for (solved, b) in solved.into_iter().zip(&self.products) {
            let (mean, determinant) = solved?;
            determinants += determinant - prior;
            explained += mean.iter().zip(b).map(|(m, b)| m * b).sum::<f64>();
            means.push(mean);
        }
        self.solved(determinants, self.square - explained, means, 0.0)
    }

    /// The same around what is known. The sums over records of products of `1`, `<phi, m>` and `r`, less what `theta`
    /// explains of each, are the normal equations of `o` and `c`.
    fn around(&self, known: &Known, d: &[f64]) -> Option<Solved> {
        let prior: f64 = d.iter().map(|d| d.ln()).sum();
        let solve = |a: usize| match self.moments[a].at(d.len(), d.len()) > 0.0 {
            true => self.moments[a].solve(d, [&self.products[a], &known.sums[a], &known.predicted[a]]),
            false => Some((std::array::from_fn(|_| vec![0.0; d.len()]), prior)),
        };
        let solved: Vec<Option<([Vec<f64>; 3], f64)>> = (0..self.moments.len()).into_par_iter().map(solve).collect();
        let solved = solved.into_iter().collect::<Option<Vec<_>>>()?;
        let (mut determinants, mut left) = (0.0, self.square);
        let (mut ones, mut one_m, mut m_m) = (self.records, 0.0, 0.0);
        let (mut one_r, mut m_r) = (0.0, 0.0);
        for (a, ([r, one, m], determinant)) in solved.iter().enumerate() {
            let (sums, predicted, products) = (&known.sums[a], &known.predicted[a], &self.products[a]);
            determinants += determinant - prior;
            left -= dot(products, r);
            ones -= dot(sums, one);
            one_m += dot(&known.direction[a], sums) - dot(sums, m);
            m_m += dot(&known.direction[a], predicted) - dot(predicted, m);
            one_r -= dot(sums, r);
            m_r += dot(&known.direction[a], products) - dot(predicted, r);
        }
        let determinant = ones * m_m - one_m * one_m;
        let both = ((one_r * m_m - m_r * one_m) / determinant, (m_r * ones - one_r * one_m) / determinant);
        // A direction that predicts nothing new, or the wrong way, is not used.
        let usable = determinant > 1e-9 * ones * m_m && both.1 > 0.0;
        let (o, c) = if usable { both } else { (if ones > 0.0 { one_r / ones } else { 0.0 }, 0.0) };
        left += o * (o * ones + c * one_m - 2.0 * one_r) + c * (o * one_m + c * m_m - 2.0 * m_r);
        let mean = |(a, ([r, one, m], _)): (usize, &([Vec<f64>; 3], f64))| -> Vec<f64> {
            (0..d.len()).map(|f| c * known.direction[a][f] + r[f] - o * one[f] - c * m[f]).collect()
        };
        self.solved(determinants, left, solved.iter().enumerate().map(mean).collect(), o)
    }

    fn solved(&self, determinants: f64, left: f64, means: Vec<Vec<f64>>, shift: f64) -> Option<Solved> {
        let left = left.max(0.0);
        let noise = (left / self.records).max(self.least_noise);
        let spread = self.records * (2.0 * std::f64::consts::PI * noise).ln() + left / noise;
        let evidence = -0.5 * (determinants + spread);
        evidence.is_finite().then_some(Solved { evidence, noise, means, shift })
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The first step of the search, as a factor of a precision. Later steps are its square roots.
const FIRST_STEP: f64 = 4.0;
/// The search ends when steps of this factor bring nothing.
const LAST_STEP: f64 = 1.4;
/// A step that brings less evidence is not taken: the evidence may rise without end, ever more slowly, where a kind of
/// features explains nothing.
const LEAST_GAIN: f64 = 0.01;
/// How far a precision may be from its start, as a factor.
const FARTHEST: f64 = 1e8;

/// Searches for one prior precision per kind of features, from `start`, that maximise the evidence. Goes up one
/// coordinate at a time, in steps that become smaller. `None` if the evidence is nowhere finite.
pub(super) fn maximise(
    kinds: &[Range<usize>],
    start: &[f64],
    solve: impl Fn(&[f64]) -> Option<Solved>,
) -> Option<(Vec<f64>, Solved)> {
    let spread = |at: &[f64]| -> Vec<f64> {
        kinds.iter().zip(at).flat_map(|(kind, &d)| std::iter::repeat_n(d, kind.len())).collect()
    };
    let mut at = start.to_vec();
    let mut best = None;
    while best.is_none() {
        best = solve(&spread(&at));
        if best.is_none() {
            // A larger precision makes the matrices better conditioned.
            at.iter_mut().for_each(|d| *d *= 1e2);
            if at.iter().zip(start).any(|(d, start)| *d > FARTHEST * start) {
                return None;
            }
        }
    }
    let mut best = best?;
    let mut step = FIRST_STEP;
    while step > LAST_STEP {
        let mut moved = false;
        for kind in 0..kinds.len() {
            for factor in [step, 1.0 / step] {
                let mut first = true;
                loop {
                    let mut next = at.clone();
                    next[kind] *= factor;
                    let within = (1.0 / FARTHEST..=FARTHEST).contains(&(next[kind] / start[kind]));
                    match solve(&spread(&next)).filter(|solved| within && solved.evidence > best.evidence + LEAST_GAIN)
                    {
                        Some(solved) => (best, at, moved, first) = (solved, next, true, false),
                        None => break,
                    }
                }
                if !first {
                    break;
                }
            }
        }
        if !moved {
            step = step.sqrt();
        }
    }
    Some((spread(&at), best))
}
