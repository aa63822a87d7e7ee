//! A synthetic world with known optimal policy, margin and coverage; its contexts may drift.

use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use super::{Environment, Truth, Turn, interact};
use crate::contexts::{Contexts, Labelled, Row};
use crate::error::{Error, Result, check_setting};
use crate::features::FeatureMap;
use crate::logs::Logs;
use crate::math::linear::scores;
use crate::math::random::{Purpose, record_stream, stream};
use crate::policy::{LinearGaussian, Policy, Posterior, Scale, Softmax, SoftmaxTraining};

/// Settings of a [`Synthetic`] world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SyntheticSettings {
    /// The number of actions: from 2 to 10,000.
    pub actions: usize,
    /// The number of features: from 2 to 10,000.
    pub features: usize,
    /// The gap `Delta` in expected cost between the best action and all others: in `(0, 1]`.
    pub margin: f64,
    /// The share of contexts (at round 0) with only half of that gap: those next to a border between two actions. In
    /// `[0, 1)`.
    pub ambiguous: f64,
    /// The angle in radians by which the mean of the contexts rotates per round; 0 for a stationary world.
    pub drift: f64,
    /// The length of that mean; 0 spreads the contexts evenly over all directions.
    pub concentration: f64,
    /// The seed of the world, its contexts and its rewards.
    pub seed: u64,
}

impl Default for SyntheticSettings {
    fn default() -> Self {
        SyntheticSettings {
            actions: 5,
            features: 10,
            margin: 0.6,
            ambiguous: 0.1,
            drift: 0.0,
            concentration: 0.0,
            seed: 0,
        }
    }
}

impl SyntheticSettings {
    /// A world with drift: the mean of its contexts makes a quarter turn in five rounds.
    pub fn drifting() -> Self {
        SyntheticSettings { drift: std::f64::consts::PI / 10.0, concentration: 2.0, ..Self::default() }
    }
}

/// Contexts are unit vectors, and the best action is linear in them: `a*(x) = argmax_a <x, theta_a>`. It has expected
/// cost `-(1 + Delta)/2` and the others `-(1 - Delta)/2`; in ambiguous contexts the best action has `-1/2`.
///
/// A context of round `k` is the sum of a standard normal vector and `concentration` times a unit vector, divided by
/// its own norm. The unit vector rotates by `drift` per round in the plane of the first two features. Costs given
/// contexts never change.
#[derive(Debug, Clone)]
pub struct Synthetic {
    settings: SyntheticSettings,
    /// `theta`, feature-major.
    theta: Vec<f64>,
    /// The gap between the two largest scores below which a context is ambiguous.
    border: f64,
}

/// The number of contexts over which the truth is averaged.
const TRUTH_SIZE: usize = 4000;

impl Synthetic {
    /// The largest number of actions and of features: with both, `theta` takes 800 MB and a truth half of that.
    pub const LARGEST: usize = 10_000;

    /// Draws a world.
    pub fn new(settings: SyntheticSettings) -> Result<Self> {
        let SyntheticSettings { actions, features, margin, ambiguous, drift, concentration, seed } = settings;
        for (name, size) in [("the number of actions", actions), ("the number of features", features)] {
            if !(2..=Self::LARGEST).contains(&size) {
                return Err(Error::setting(name, format!("from 2 to {}", Self::LARGEST), size));
            }
        }

        check_setting("the margin", margin, margin > 0.0 && margin <= 1.0, "in (0, 1]")?;
        check_setting("the ambiguous share", ambiguous, (0.0..1.0).contains(&ambiguous), "in [0, 1)")?;
        check_setting("the drift", drift, true, "finite")?;
        check_setting("the concentration", concentration, concentration >= 0.0, "at least 0")?;
        let normals = StandardNormal.sample_iter(stream(seed, Purpose::World, 0));
        let theta = normals.take(features * actions).collect();
        let mut world = Synthetic { settings, theta, border: 0.0 };
        let mut gaps: Vec<f64> = world.ranked(&world.draw(0, TRUTH_SIZE, u64::MAX)?).iter().map(|r| r.1).collect();
        gaps.sort_by(f64::total_cmp);
        let share = (ambiguous * TRUTH_SIZE as f64).round() as usize;
        world.border = gaps.get(share).map_or(f64::INFINITY, |gap| if share == 0 { 0.0 } else { *gap });
        Ok(world)
    }

    /// Its settings.
    pub fn settings(&self) -> &SyntheticSettings {
        &self.settings
    }

    /// Contexts that occur neither in a round nor in the truth, for anything that must be fixed before the data.
    pub fn known_contexts(&self) -> Result<Contexts> {
        self.draw(0, 1000, u64::MAX - 1)
    }

    /// A first policy `N(alpha W, I)`; `alpha = 0` is the uniform policy, whose coverage is `1/K`. `W` is `theta`
    /// itself. With Fourier or kernel features, in which the world is not linear, `W` is a softmax fitted to the best
    /// actions of [`known_contexts`](Synthetic::known_contexts).
    pub fn first_policy(&self, features: FeatureMap, alpha: f64) -> Result<LinearGaussian> {
        check_setting("alpha", alpha, alpha >= 0.0, "at least 0")?;
        let k = self.settings.actions;
        let mut mean = vec![0.0; features.output() * k];
        let weights = if features.is_linear() {
            self.theta.clone()
        } else {
            let contexts = self.known_contexts()?;
            let best = self.ranked(&contexts).iter().map(|r| r.0 as u32).collect();
            let training = SoftmaxTraining { seed: self.settings.seed, ..SoftmaxTraining::default() };
            Softmax::train(features.clone(), &Labelled::new(contexts, best)?, k, &training)?.weights().to_vec()
        };
        mean.iter_mut().zip(weights).for_each(|(m, w)| *m = alpha * w);
        LinearGaussian::new(features, Posterior::new(k, mean, Scale::Shared(1.0))?)
    }

    /// `N(b theta, s^2 I)`: it approaches the optimal policy as `b/s` grows, at a finite divergence.
    pub fn comparator(&self, b: f64, s: f64) -> Result<LinearGaussian> {
        check_setting("b", b, b >= 0.0, "at least 0")?;
        let mean = self.theta.iter().map(|theta| b * theta).collect();
        let posterior = Posterior::new(self.settings.actions, mean, Scale::Shared(s))?;
        LinearGaussian::new(FeatureMap::identity(self.settings.features), posterior)
    }

    /// Contexts `start..start + n` of a sequence at a round.
    fn contexts(&self, round: usize, start: usize, n: usize, sequence: u64) -> Result<Contexts> {
        let p = self.settings.features;
        let base = stream(self.settings.seed, Purpose::Contexts, sequence);
        let angle = self.settings.drift * round as f64;
        let mut values = Vec::with_capacity(n * p);
        for i in 0..n {
            let mut rng = record_stream(&base, (start + i) as u64);
            let mut x: Vec<f64> = StandardNormal.sample_iter(&mut rng).take(p).collect();
            x[0] += self.settings.concentration * angle.cos();
            x[1] += self.settings.concentration * angle.sin();
            let norm = x.iter().map(|v| v * v).sum::<f64>().sqrt();
            values.extend(x.iter().map(|v| (v / norm) as f32));
        }
        Contexts::dense(values, p)
    }

    fn draw(&self, round: usize, n: usize, sequence: u64) -> Result<Contexts> {
        self.contexts(round, 0, n, sequence)
    }

    /// The best action of each context, and the gap between its score and the second largest.
    fn ranked(&self, contexts: &Contexts) -> Vec<(usize, f64)> {
        let k = self.settings.actions;
        let rows: Vec<Row<'_>> = contexts.iter().collect();
        let mut s = vec![0.0; rows.len() * k];
        scores(&rows, &self.theta, k, &mut s);
        let rank = |s: &[f64]| {
            let best = (1..k).fold(0, |best, a| if s[a] > s[best] { a } else { best });
            let second = (0..k).filter(|&a| a != best).map(|a| s[a]).fold(f64::NEG_INFINITY, f64::max);
            (best, s[best] - second)
        };
        s.chunks_exact(k).map(rank).collect()
    }

    /// `E[c|x, a]` for a context with this best action and gap.
    fn cost(&self, (best, gap): (usize, f64), action: usize) -> f64 {
        let half = self.settings.margin / 2.0;
        if action != best {
            half - 0.5
        } else if gap < self.border {
            -0.5
        } else {
            -0.5 - half
        }
    }
}

impl Environment for Synthetic {
    fn actions(&self) -> usize {
        self.settings.actions
    }

    fn collect(&self, policy: &dyn Policy, turn: Turn) -> Result<Logs> {
        let contexts = self.contexts(turn.round, turn.start, turn.n, 0)?;
        let ranked = self.ranked(&contexts);
        interact(policy, contexts, None, turn, self.settings.seed, |i, a| self.cost(ranked[i], a))
    }

    /// From a sample of 4,000 contexts of that round.
    fn truth(&self, round: usize) -> Result<Truth> {
        let contexts = self.draw(round, TRUTH_SIZE, u64::MAX)?;
        let k = self.settings.actions;
        let costs = self.ranked(&contexts).iter().flat_map(|&r| (0..k).map(move |a| self.cost(r, a))).collect();
        Truth::table(contexts, k, costs)
    }
}
