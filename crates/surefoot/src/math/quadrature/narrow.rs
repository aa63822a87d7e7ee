//! The quadrature for few actions: a register holds the scores of one action in many records, and `Phi` is computed
//! directly.
//!
//! It takes `O(K G)` operations with a small constant: no sums across lanes and no table lookups. Up to about 16
//! actions this is faster than the moments of the lattice, whose cells would hold one score each.

use super::{Rule, wide};
use crate::math::normal::cdf_pdf;
use crate::math::real::Real;

/// The number of records that are worked on together.
const LANES: usize = 16;
/// The largest number of actions.
pub(super) const MOST: usize = 16;

type Lanes<R> = [R; LANES];

/// Probabilities and gradients of one action per record, as in [`Quadrature::gradient`](super::Quadrature::gradient),
/// with `k` scores and `k` entries of `out` per record.
pub(super) fn gradients<R: Real, const COEFS: usize>(
    rule: &Rule<R, COEFS>,
    k: usize,
    scores: &[R],
    actions: &[u32],
    probabilities: &mut [R],
    out: &mut [R],
) {
    let blocks = scores.chunks(LANES * k).zip(out.chunks_mut(LANES * k));
    for ((scores, out), (actions, p)) in blocks.zip(actions.chunks(LANES).zip(probabilities.chunks_mut(LANES))) {
        // Lanes without a record get scores of 0.
        let (mut s, mut g) = ([[R::ZERO; LANES]; MOST], [[R::ZERO; LANES]; MOST]);
        let mut chosen = [0; LANES];
        for (lane, (row, &action)) in scores.chunks_exact(k).zip(actions).enumerate() {
            chosen[lane] = action;
            for (b, &score) in row.iter().enumerate() {
                s[b][lane] = score;
            }
        }
        let all = wide(
            #[inline(always)]
            || integrate(rule, k, &mut s, chosen, &mut g),
        );
        for (lane, (row, &action)) in out.chunks_exact_mut(k).zip(actions).enumerate() {
            let mut sum = R::ZERO;
            for (b, out) in row.iter_mut().enumerate() {
                *out = g[b][lane];
                sum += *out;
            }
            row[action as usize] -= sum;
            p[lane] = all[lane];
        }
    }
}

/// The probabilities; `g[b]` becomes `-int f(z) g(z - s_b) dz` with the integrand `f` of each.
#[inline(always)]
fn integrate<R: Real, const COEFS: usize>(
    rule: &Rule<R, COEFS>,
    k: usize,
    s: &mut [Lanes<R>; MOST],
    chosen: [u32; LANES],
    g: &mut [Lanes<R>; MOST],
) -> Lanes<R> {
    let (mut top, mut own) = (s[0], [R::ZERO; LANES]);
    let mut check = [R::ZERO; LANES];
    for (b, s) in s[..k].iter().enumerate() {
        for i in 0..LANES {
            top[i] = if s[i] > top[i] { s[i] } else { top[i] };
            own[i] = if chosen[i] == b as u32 { s[i] } else { own[i] };
            // 0 as long as all scores are finite, NaN otherwise; added to all results.
            check[i] += s[i] * R::ZERO;
        }
    }
    // Beyond this, `Phi` is 1 and its density 0 on any grid; a difference of finite scores may be infinite.
    let far = R::of(-100.0);
    for s in &mut s[..k] {
        for i in 0..LANES {
            let below = s[i] - top[i];
            s[i] = if below < far { far } else { below };
        }
    }
    let mut nearest = R::of(-f64::from(rule.idle)) * rule.h;
    for i in 0..LANES {
        own[i] -= top[i];
        nearest = if own[i] > nearest { own[i] } else { nearest };
    }
    let reach = R::of(f64::from(rule.reach)) * rule.h;
    let start = R::of(f64::from(rule.start)) * rule.h;
    let mut z = if start < nearest + reach { start } else { nearest + reach };
    let mut p = check;
    for g in g.iter_mut() {
        *g = check;
    }
    // The truncated tail below is `F` for a probability, and about `F g/K` for a gradient, where the hazard `g` reaches
    // 8.
    let tau = rule.tau * R::of((k as f64 / 8.0).min(1.0));
    let mut hazards = [[R::ZERO; LANES]; MOST];
    let mut weight = [R::ZERO; LANES];
    loop {
        let (mut f, mut hazard) = ([R::ONE; LANES], [R::ZERO; LANES]);
        for (b, (s, (hazards, g))) in s[..k].iter().zip(hazards.iter_mut().zip(g.iter_mut())).enumerate() {
            // Works on copies, so that the compiler knows that they do not overlap.
            let (s, mut sum, mut all) = (*s, *g, *hazards);
            for i in 0..LANES {
                // Adds the contribution of the previous point in the same pass.
                sum[i] -= weight[i] * all[i];
                let (phi, density) = cdf_pdf(z - s[i]);
                all[i] = density / phi;
                f[i] *= phi;
            }
            for i in 0..LANES {
                hazard[i] = if chosen[i] == b as u32 { all[i] } else { hazard[i] };
            }
            (*g, *hazards) = (sum, all);
        }
        let mut open = false;
        for i in 0..LANES {
            weight[i] = if f[i] < tau { R::ZERO } else { rule.h * f[i] * hazard[i] };
            p[i] += weight[i];
            open |= f[i] >= tau && z + reach >= own[i];
        }
        if !open {
            return p;
        }
        z -= rule.h;
    }
}
