//! The linear Gaussian policy (LIG), with exact propensities.

use super::candidates::{Over, OverCandidates};
use super::{
    Class, Decision, Policy, Posterior, Scale, Softmax, SoftmaxTraining, check_action, check_contexts, check_keys,
    decision_stream, each_row, place, probability,
};
use crate::contexts::Labelled;
use crate::contexts::{Contexts, Row};
use crate::error::{Error, Result, check_setting};
use crate::features::{FeatureMap, Joint};
use crate::fingerprint::{Fingerprint, Hasher};
use crate::logs::Eligible;
use crate::math::linear::scores;
use crate::math::perturbed::{Propensity, sample};
use crate::math::quadrature::Double;
use crate::math::random::record_stream;
use rand::RngExt;

/// The absolute error of the probabilities from [`Policy::distribution`].
pub(super) const TOLERANCE: f64 = 1e-10;

/// `pi_Q(a|x) = P_{theta ~ Q}(argmax_b <phi(x), theta_b> = a)` for a Gaussian `Q`, mixed with the uniform policy:
/// `pi = (1 - e) pi_Q + e/K`.
///
/// The exploration floor `e` keeps the probability of every action at `e/K` or above, so that no action is lost for
/// good. The mixed policy also belongs to a posterior: prior and posterior both give weight `e` to predictors drawn
/// uniformly. Its divergence is `(1 - e) KL(Q, P)`, and every bound holds for it. With a set of eligible actions, the
/// argmax and the floor are over that set.
///
/// A policy [over candidates](LinearGaussian::over_candidates) has one vector of weights for joint features of context and
/// candidate. The score of candidate `b` is `<phi_b, mu>`, with the deviation `sqrt(phi_b' S phi_b)`, independent over
/// candidates. If the features of different candidates do not overlap, as with one block per action, it is the policy
/// above. Otherwise it is no `pi_Q`, and has no divergence: it is certified as a fixed policy.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearGaussian {
    features: FeatureMap,
    /// For a policy over candidates.
    over: Option<Over>,
    posterior: Posterior,
    exploration: f64,
}

impl LinearGaussian {
    /// A policy without an exploration floor.
    pub fn new(features: FeatureMap, posterior: Posterior) -> Result<Self> {
        if features.output() != posterior.features() {
            let expected = format!("{} features, as the feature map", features.output());
            return Err(Error::size("the posterior", expected, posterior.features()));
        }
        if posterior.is_over_candidates() {
            return Err(Error::setting("the posterior", "over actions", "over candidates"));
        }
        Ok(LinearGaussian { features, over: None, posterior, exploration: 0.0 })
    }

    /// A policy over candidates with features, at most `actions` per record, without an exploration floor. `features` maps
    /// the context before it is crossed with the candidates.
    ///
    /// ```
    /// use surefoot::features::Joint;
    /// use surefoot::logs::Eligible;
    /// use surefoot::policy::{Posterior, Scale};
    /// use surefoot::{Contexts, FeatureMap, LinearGaussian, Policy};
    ///
    /// let joint = Joint::full(1, 2, 18)?; // a user with one feature, articles with two
    /// let posterior = Posterior::over_candidates(vec![0.0, 0.0, 3.0, -3.0], Scale::Shared(1.0))?;
    /// let policy = LinearGaussian::over_candidates(FeatureMap::identity(1), joint, 2, posterior)?;
    /// let articles = Eligible::candidates(vec![0, 2], Contexts::dense(vec![1.0, 0.0, 0.0, 1.0], 2)?)?;
    /// let p = policy.distribution(&Contexts::dense(vec![1.0], 1)?, Some(&articles))?;
    /// assert!(p[0] > 0.99 && (p[0] + p[1] - 1.0).abs() < 1e-9);
    /// # Ok::<(), surefoot::Error>(())
    /// ```
    pub fn over_candidates(features: FeatureMap, joint: Joint, actions: usize, posterior: Posterior) -> Result<Self> {
        if features.output() != joint.contexts() {
            let expected = format!("{} context features, as the feature map", features.output());
            return Err(Error::size("the joint features", expected, joint.contexts()));
        }
        if joint.output() != posterior.features() || !posterior.is_over_candidates() {
            let expected = format!("{} weights, one per joint feature", joint.output());
            return Err(Error::size("the posterior", expected, posterior.mean().len()));
        }
        check_candidates(actions)?;
        Ok(LinearGaussian { features, over: Some(Over::new(joint, actions)), posterior, exploration: 0.0 })
    }

    /// The joint features of a policy over candidates.
    pub fn joint(&self) -> Option<&Joint> {
        self.over.as_ref().map(|over| &*over.joint)
    }

    /// A policy over candidates for records with at most `actions` of them. It gives the same probabilities.
    pub fn with_most_candidates(&self, actions: usize) -> Result<Self> {
        check_candidates(actions)?;
        let Some(over) = &self.over else {
            return Err(Error::setting("the policy", "over candidates", "over actions"));
        };
        Ok(LinearGaussian { over: Some(over.again(actions)), ..self.clone() })
    }

    fn candidates(&self) -> Option<OverCandidates<'_>> {
        let LinearGaussian { features, over, posterior, exploration } = self;
        over.as_ref().map(|over| OverCandidates { features, over, posterior, exploration: *exploration })
    }

    /// The prior that prefers no action: means 0 and scales 1.
    pub fn standard(features: FeatureMap, actions: usize) -> Result<Self> {
        let posterior = Posterior::standard(features.output(), actions)?;
        Self::new(features, posterior)
    }

    /// The prior that prefers the logged actions. Its means are the weights of a softmax that predicts them, its scales
    /// are 1. These records must not be used in certificates.
    pub fn imitating(features: FeatureMap, logged: &Labelled, actions: usize) -> Result<Self> {
        let softmax = Softmax::train(features.clone(), logged, actions, &SoftmaxTraining::default())?;
        let posterior = Posterior::new(actions, softmax.weights().to_vec(), Scale::Shared(1.0))?;
        Self::new(features, posterior)
    }

    /// Sets the exploration floor `e`, in `[0, 1)`.
    pub fn with_exploration(mut self, exploration: f64) -> Result<Self> {
        check_setting("exploration", exploration, (0.0..1.0).contains(&exploration), "in [0, 1)")?;
        self.exploration = exploration;
        Ok(self)
    }

    /// The same policy with another posterior over the same features.
    pub(crate) fn with_posterior(&self, posterior: Posterior) -> Self {
        assert_eq!(posterior.features(), self.posterior.features());
        let over = self.over.as_ref().map(|over| over.again(over.actions));
        LinearGaussian { posterior, over, ..self.clone() }
    }

    /// The same policy for contexts that are mapped to features already. It is not for policies over candidates.
    pub(crate) fn on_features(&self) -> Self {
        LinearGaussian { features: FeatureMap::identity(self.features.output()), ..self.clone() }
    }

    /// The map from contexts to features.
    pub fn features(&self) -> &FeatureMap {
        &self.features
    }

    /// The distribution over predictors, `Q`.
    pub fn posterior(&self) -> &Posterior {
        &self.posterior
    }

    /// The exploration floor, `e`.
    pub fn exploration(&self) -> f64 {
        self.exploration
    }

    /// `KL(Q', P') = (1 - e) KL(Q, P)`: the divergence between the posteriors with the floor, which must be the same in
    /// both.
    pub fn kl(&self, prior: &LinearGaussian) -> Result<f64> {
        if self.over.is_some() || prior.over.is_some() {
            return Err(Error::setting("a policy with a divergence", "over actions", "over candidates"));
        }
        if self.exploration != prior.exploration {
            let allowed = format!("{}, as this policy's", self.exploration);
            return Err(Error::setting("the prior's exploration", allowed, prior.exploration));
        }
        Ok((1.0 - self.exploration) * self.posterior.kl(&prior.posterior)?)
    }

    /// The fingerprint of the policy.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hasher = Hasher::new("linear Gaussian policy");
        self.features.hash(&mut hasher);
        hasher.double(self.exploration);
        self.posterior.hash(&mut hasher);
        self.features.hash_made(&mut hasher);
        // The number of candidates changes no probability.
        if let Some(joint) = self.joint() {
            joint.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The standardised scores `s_a` of each context.
    fn scores(&self, contexts: &Contexts) -> Result<Vec<f64>> {
        let mut x = self.features.apply(contexts)?;
        if let Some(basis) = self.posterior.basis() {
            x = basis.apply(&x)?;
        }
        let k = self.posterior.actions();
        let rows: Vec<Row<'_>> = x.iter().collect();
        let mut out = vec![0.0; rows.len() * k];
        scores(&rows, self.posterior.mean(), k, &mut out);
        for (i, s) in out.chunks_exact_mut(k).enumerate() {
            standardise(s, self.posterior.scale().deviation(rows[i], x.norm(i)));
        }
        Ok(out)
    }

    fn check(&self, contexts: &Contexts, eligible: Option<&Eligible>) -> Result<()> {
        check_contexts(Some(self.features.input()), self.actions(), contexts, eligible)
    }
}

fn check_candidates(actions: usize) -> Result<()> {
    if actions < 2 {
        return Err(Error::setting("the number of candidates", "at least 2", actions));
    }
    Ok(())
}

/// `(1 - e) p + e/k`: the probability of one of `k` actions under the exploration floor `e`.
pub(crate) fn floored(p: f64, e: f64, k: usize) -> f64 {
    probability((1.0 - e) * p + e / k as f64)
}

/// Divides scores by their standard deviation. For a context of zeros both are 0: all scores are equal for every `Q`.
fn standardise(scores: &mut [f64], deviation: f64) {
    let factor = if deviation > 0.0 { 1.0 / deviation } else { 0.0 };
    scores.iter_mut().for_each(|s| *s *= factor);
}

impl AsRef<dyn Policy> for LinearGaussian {
    fn as_ref(&self) -> &(dyn Policy + 'static) {
        self
    }
}

impl Policy for LinearGaussian {
    fn actions(&self) -> usize {
        self.over.as_ref().map_or(self.posterior.actions(), |over| over.actions)
    }

    fn identity(&self) -> Option<Fingerprint> {
        Some(self.fingerprint())
    }

    fn class(&self) -> Class<'_> {
        Class::LinearGaussian(self)
    }

    /// All `K` probabilities by one quadrature per context, each to an absolute error of 1e-10.
    fn distribution(&self, contexts: &Contexts, eligible: Option<&Eligible>) -> Result<Vec<f64>> {
        self.check(contexts, eligible)?;
        if let Some(candidates) = self.candidates() {
            return candidates.distribution(contexts, eligible);
        }
        let k = self.actions();
        let all = |block: &Contexts| self.scores(block);
        let room = || (Double::new(k, TOLERANCE), Vec::new());
        each_row(contexts, eligible, k, (k, 0.0), all, room, |(quadrature, p), _, set, scores, out| {
            p.resize(scores.len(), 0.0);
            quadrature.distribution(scores, p);
            let p = p.iter().map(|&p| floored(p, self.exploration, scores.len()));
            match set {
                None => out.iter_mut().zip(p).for_each(|(out, p)| *out = p),
                Some(set) => set.iter().zip(p).for_each(|(&a, p)| out[a as usize] = p),
            }
        })
    }

    /// Each to a relative error of 1e-9, even if it is tiny.
    fn propensity(&self, contexts: &Contexts, action: &[u32], eligible: Option<&Eligible>) -> Result<Vec<f64>> {
        self.check(contexts, eligible)?;
        if let Some(candidates) = self.candidates() {
            return candidates.propensity(contexts, action, eligible);
        }
        check_action(self.actions(), contexts.len(), action)?;
        let all = |block: &Contexts| self.scores(block);
        let room = || Propensity::new(self.actions());
        each_row(contexts, eligible, self.actions(), (1, 0.0), all, room, |propensity, row, set, scores, out| {
            let p = |a| floored(propensity.of(scores, a), self.exploration, scores.len());
            out[0] = place(set, action[row]).map_or(0.0, p);
        })
    }

    /// Draws by perturbed argmax, without an integral; only the propensity of the chosen action needs one.
    fn decide_keyed(
        &self,
        contexts: &Contexts,
        eligible: Option<&Eligible>,
        seed: u64,
        keys: &[u64],
    ) -> Result<Vec<Decision>> {
        self.check(contexts, eligible)?;
        check_keys(contexts.len(), keys)?;
        let base = decision_stream(seed);
        if let Some(candidates) = self.candidates() {
            return candidates.decide(contexts, eligible, &base, keys);
        }
        let empty = Decision { action: 0, propensity: 0.0 };
        let all = |block: &Contexts| self.scores(block);
        let room = || Propensity::new(self.actions());
        each_row(contexts, eligible, self.actions(), (1, empty), all, room, |propensity, row, set, scores, out| {
            let mut rng = record_stream(&base, keys[row]);
            let k = scores.len();
            let explore = self.exploration > 0.0 && rng.random::<f64>() < self.exploration;
            let a = if explore { rng.random_range(0..k) } else { sample(scores, &mut rng) };
            let action = set.map_or(a as u32, |set| set[a]);
            out[0] = Decision { action, propensity: floored(propensity.of(scores, a), self.exploration, k) };
        })
    }
}
