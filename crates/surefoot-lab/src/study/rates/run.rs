//! One method in one world: the results after each round, and the bounds of the theory.

use serde::Serialize;
use surefoot::learn::State;
use surefoot::optim::{Lbfgs, Optimiser};
use surefoot::policy::Uniform;
use surefoot::worlds::{Environment, Profile, Synthetic, SyntheticSettings, Truth, Turn};
use surefoot::{Algorithm, Lambda, Learner, LinearGaussian, Policy};
use surefoot_terminal::Result;

/// The number of actions. The world is small, so that the rounds reach the range in which rates are visible.
pub(super) const ACTIONS: usize = 3;
/// The number of features, small for the same reason.
pub(super) const FEATURES: usize = 4;
/// The exploration floor of all policies. Every action, and so the best one, has a probability of at least `FLOOR/K`.
pub(super) const FLOOR: f64 = 0.2;
/// The failure probability of the propositions.
pub(super) const DELTA: f64 = 0.05;

/// `b/s` of the comparators `N(b theta, s^2 I)`; 0 is the first policy itself.
const SHARPNESS: [f64; 10] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 15.0, 40.0];

/// The rule for `lambda`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Rule {
    /// `1/sqrt(k m)` for the policy that is learned from `k` rounds, as Proposition 3.3's rate needs.
    InverseSqrtOfAll,
    /// `1/sqrt(m)` in all rounds.
    InverseSqrt,
    /// The lambda of Theorem 4.4.
    Theorem,
}

/// An algorithm and its lambda.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Method {
    pub(super) name: &'static str,
    pub(super) algorithm: Algorithm,
    pub(super) rule: Rule,
}

pub(super) const METHODS: [Method; 4] = [
    Method { name: "SeqLS, 1/sqrt(km)", algorithm: Algorithm::SeqLs, rule: Rule::InverseSqrtOfAll },
    Method { name: "SeqLS, 1/sqrt(m)", algorithm: Algorithm::SeqLs, rule: Rule::InverseSqrt },
    Method { name: "SeqAdjLS, 1/sqrt(m)", algorithm: Algorithm::SeqAdjLs, rule: Rule::InverseSqrt },
    Method { name: "SeqAdjLS, Theorem 4.4", algorithm: Algorithm::SeqAdjLs, rule: Rule::Theorem },
];

/// The size of the study.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Size {
    /// The number of rounds.
    pub(super) rounds: usize,
    /// The number of records per round, `m`.
    pub(super) records: usize,
    /// The exponent of Theorem 4.4.
    pub(super) alpha: f64,
}

impl Method {
    pub(super) fn adjusted(&self) -> bool {
        matches!(self.algorithm, Algorithm::SeqAdjLs)
    }

    /// The lambda for the policy that is learned from `k` rounds.
    fn lambda(&self, size: Size, k: usize, gamma: f64) -> Result<f64> {
        let rule = match self.rule {
            Rule::InverseSqrtOfAll => return Ok(Lambda::InverseSqrt.value(k * size.records)?),
            Rule::InverseSqrt => Lambda::InverseSqrt,
            Rule::Theorem => Lambda::Rate { alpha: size.alpha, gamma },
        };
        Ok(rule.value(size.records)?)
    }
}

/// The true quantities of a world.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Facts {
    /// The share `u` of the contexts that may have a smaller margin.
    pub(super) u: f64,
    /// The margin `Delta_u`.
    pub(super) margin: f64,
    /// The margin `Delta_0` of all contexts.
    pub(super) least_margin: f64,
    /// The coverage `C*` that the floor guarantees.
    pub(super) coverage: f64,
    /// `3/(Delta_u (1 - u) C*)`.
    pub(super) gamma: f64,
    /// The lowest risk of all policies.
    pub(super) optimal_risk: f64,
    /// The lowest risk of all policies under the floor.
    pub(super) floored_risk: f64,
    /// `L(pi, pi)` of the best policy under the floor; without a floor it is 0.
    pub(super) floored_distance: f64,
}

impl Facts {
    fn new(truth: &Truth, u: f64) -> Result<Self> {
        let k = truth.actions() as f64;
        let coverage = FLOOR / k;
        let uniform = truth.risk(&Uniform::new(truth.actions())?)?;
        let floored_risk = (1.0 - FLOOR) * truth.optimal_risk() + FLOOR * uniform;
        Ok(Facts {
            u,
            margin: truth.margin(u)?,
            least_margin: truth.margin(0.0)?,
            coverage,
            gamma: truth.gamma(u, coverage)?,
            optimal_risk: truth.optimal_risk(),
            floored_risk,
            // sum_a c^2 - E_pi[c^2], with c^2 = -c.
            floored_distance: floored_risk - k * uniform,
        })
    }
}

/// A policy with which the propositions compare, in place of the optimum, whose divergence is infinite.
struct Comparator<'a> {
    sharpness: f64,
    profile: Profile<'a>,
    kl: f64,
    /// The sum over rounds of `S_j` or `L` against the deployed policy.
    sum: f64,
}

impl<'a> Comparator<'a> {
    /// The policy of least divergence for each sharpness.
    fn family(world: &Synthetic, truth: &'a Truth, first: &LinearGaussian) -> Result<Vec<Self>> {
        let theta = world.comparator(1.0, 1.0)?;
        let theta = theta.posterior().mean();
        let (squares, n) = (theta.iter().map(|t| t * t).sum::<f64>(), theta.len() as f64);
        let comparator = |sharpness: f64| {
            let s = (n / (n + sharpness * sharpness * squares)).sqrt();
            let policy = world.comparator(sharpness * s, s)?.with_exploration(FLOOR)?;
            Ok(Comparator { sharpness, profile: truth.profile(&policy)?, kl: policy.kl(first)?, sum: 0.0 })
        };
        SHARPNESS.into_iter().map(comparator).collect()
    }
}

/// A policy, its true quantities and the bounds of the theory.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Point {
    /// The number `k` of rounds that it was learned from.
    pub(super) round: usize,
    /// `R(pi_k) - R(pi*)`, where `pi*` is the best policy under the floor.
    pub(super) suboptimality: f64,
    /// The coverage `C*_k`.
    pub(super) coverage: f64,
    /// `L(pi*, pi_k)` for the deterministic `pi*`.
    pub(super) distance: f64,
    /// The constant and the right-hand side of Lemma 4.3 at the world's `u`.
    pub(super) gamma_k: f64,
    pub(super) lemma: f64,
    /// The right-hand side of Lemma 4.3 at `u = 0`.
    pub(super) lemma_of_all: f64,
    /// The result of the search; `None` for the first policy.
    #[serde(flatten)]
    pub(super) learned: Option<Learned>,
}

/// The search that led to a policy.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Learned {
    pub(super) lambda: f64,
    pub(super) kl: f64,
    /// Whether the search met its tolerance.
    pub(super) converged: bool,
    /// The right-hand side of Proposition 3.3 or 4.2, with the best comparator.
    pub(super) bound: f64,
    /// `b/s` of the best comparator.
    pub(super) comparator: f64,
}

/// The result of one method in one world.
#[derive(Debug, Serialize)]
pub(super) struct Run {
    pub(super) seed: u64,
    pub(super) facts: Facts,
    /// The policies, from the first policy on.
    pub(super) points: Vec<Point>,
}

/// Runs the loop.
pub(super) fn run(method: &Method, size: Size, seed: u64, on_round: impl Fn()) -> Result<Run> {
    let world = Synthetic::new(SyntheticSettings { actions: ACTIONS, features: FEATURES, seed, ..Default::default() })?;
    let truth = world.truth(0)?;
    let facts = Facts::new(&truth, world.settings().ambiguous)?;
    let first = world.comparator(0.0, 1.0)?.with_exploration(FLOOR)?;
    let mut comparators = Comparator::family(&world, &truth, &first)?;
    let mut state = State::new(first);
    let mut profile = truth.profile(state.current())?;
    let mut points = vec![point(&truth, &facts, &profile, 0, None)?];
    for k in 1..=size.rounds {
        let lambda = method.lambda(size, k, facts.gamma)?;
        let learner = Learner {
            algorithm: method.algorithm,
            lambda: Lambda::Fixed(lambda),
            // The theory is about minimisers, so the search is exact.
            optimiser: Optimiser::Lbfgs(Lbfgs { iterations: 30, tolerance: 1e-5, ..Lbfgs::default() }),
            seed,
            ..Learner::default()
        };
        let turn = Turn { round: k - 1, start: (k - 1) * size.records, n: size.records };
        let logs = world.collect(state.deployed() as &dyn Policy, turn)?;
        for comparator in &mut comparators {
            comparator.sum += if method.adjusted() {
                profile.distance_of(&comparator.profile)
            } else {
                profile.pseudo_variance(&comparator.profile)
            };
        }
        let (next, learned) = learner.step(&state, &logs)?;
        state = next;
        profile = truth.profile(state.current())?;
        let weight = if method.adjusted() { lambda / (1.0 - lambda) } else { lambda };
        let price = 2.0 / (lambda * (k * size.records) as f64);
        let bound = |c: &Comparator<'_>| {
            let gap = c.profile.risk() - facts.floored_risk;
            (gap + weight * c.sum / k as f64 + price * (c.kl + (2.0 / DELTA).ln()), c.sharpness)
        };
        let bounds = comparators.iter().map(bound);
        let (bound, comparator) = bounds.fold((f64::INFINITY, 0.0), |best, b| if b.0 < best.0 { b } else { best });
        let learned = Learned { lambda, kl: learned.kl, converged: learned.trace.converged, bound, comparator };
        points.push(point(&truth, &facts, &profile, k, Some(learned))?);
        on_round();
    }
    Ok(Run { seed, facts, points })
}

fn point(truth: &Truth, facts: &Facts, policy: &Profile<'_>, k: usize, learned: Option<Learned>) -> Result<Point> {
    let (risk, coverage) = (policy.risk(), policy.coverage());
    let gamma_k = truth.gamma_k(facts.u, coverage)?;
    let excess = risk - facts.optimal_risk;
    Ok(Point {
        round: k,
        suboptimality: risk - facts.floored_risk,
        coverage,
        distance: policy.distance(),
        gamma_k,
        lemma: gamma_k * excess,
        lemma_of_all: truth.gamma_k(0.0, coverage)? * excess,
        learned,
    })
}
