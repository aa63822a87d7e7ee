//! CERTIFICATE: proven bounds on a policy's risk, computed from logs and policies alone.
//!
//! | statement | function | bounds | price |
//! | --- | --- | --- | --- |
//! | Theorem 3.2 (with one round: batch LS) | [`Certificate::risk`] | `R(pi_Q)` | `KL(Q, P)` |
//! | Theorem 4.1 | [`Certificate::difference`] | `R(pi_Q) - Rbar`, `Rbar` the mean risk of the logging policies | `KL(Q, P)` |
//! | Theorem C.1, and its adjusted form | [`Certificate::shift`] | the mean over rounds of `R_k(pi_{Q_k})`, contexts may drift | `sum_k KL(Q_k, Q_{k-1})` |
//! | a policy fixed before the records, or one of a finite set | [`Certificate::fixed`] | `R(pi)`, or `R(pi) - Rbar` | `ln` of the set's size |
//! | the logging policies | [`Certificate::running`] | `Rbar` | none |
//! | Theorem 4.1 plus the bound on the logging policies | [`Certificate::combined`] | `R(pi_Q)` | both, each at its share of delta |
//! | the last of several policies, on the rounds of all of them | [`Certificate::chain`] | `R(pi)` | `ln` of the sets' sizes |
//! | the best rung of the ladder | [`ladder`] | `R(pi)` | see there |
//!
//! All statements are one inequality (`certificate/bound.rs`, with its proof). It holds for all rounds and all
//! posteriors at once. A grid of lambdas costs the logarithm of its size. Statements made over many rounds share delta
//! by a rule ([`Spending`]). This module imports neither the optimiser nor the learner: it relies on the logs and
//! policies alone.

mod bound;
mod case;
mod chain;
mod evidence;
mod gate;
mod ladder;
mod protocol;
mod stakes;
mod statement;
mod verify;

pub use bound::Smoothing;
pub(crate) use bound::{Bound, Subject, bound};
pub use case::{Case, Since};
pub use chain::Link;
pub(crate) use evidence::{Evidence, Factor, LogSum, Wanted, Weighed};
pub use gate::{Challenger, Gate, Verdict};
pub use ladder::{FixedSince, ladder};
pub(crate) use ladder::{Linked, risk_and_ladder};
pub(crate) use protocol::Parts;
pub use protocol::{Combine, Form, Protocol, Share, Spending};
pub use statement::{Quantity, Theorem};
pub use verify::{Mismatch, verify};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, check_setting};
use crate::fingerprint::Fingerprint;
use crate::logs::Logs;
use crate::policy::{LinearGaussian, Policy, Posterior, same_basis};

/// A proven upper bound, with every number that is needed to recompute it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Certificate {
    /// The theorem.
    pub theorem: Theorem,
    /// The quantity that it bounds.
    pub bounds: Quantity,
    /// The upper bound, numerical error included.
    pub upper: f64,
    /// Whether the bound is vacuous: 0 or more. A cost is never above 0, and a difference of 0 is not an improvement.
    pub vacuous: bool,
    /// The failure probability of the family of statements that this one belongs to, over all rounds.
    pub delta: f64,
    /// This statement's share of delta.
    pub share: Share,
    /// The rule that divides delta among rounds.
    pub spending: Spending,
    /// The form of the bound.
    pub form: Form,
    /// How the bounds at several lambdas become one.
    #[serde(default, skip_serializing_if = "Combine::is_union")]
    pub combine: Combine,
    /// The lambda whose bound alone is best.
    pub lambda: f64,
    /// The grid of lambdas of the protocol. A policy that was fixed before its records has lambdas of its own, which
    /// follow from the number of records, the share of delta and the records before.
    pub lambdas: Vec<f64>,
    /// The number of records, `N`.
    pub records: usize,
    /// `-(1/(lambda N)) sum_i E ln(factor_i)`: the smoothed estimate of the bounded quantity.
    pub estimate: f64,
    /// The divergence in the bound; 0 for fixed policies.
    pub kl: f64,
    /// The number of policies that this one was chosen from, all fixed before the records; 1 for posteriors.
    pub size: usize,
    /// The allowance for quadrature and rounding errors, added before `psi`.
    pub numerical: f64,
    /// The target policy; one per round for Theorem C.1 and for a chain, the target last; none for the bound on the
    /// logging policies.
    pub policies: Vec<Option<Fingerprint>>,
    /// The priors of the posteriors: one, or one per round.
    pub priors: Vec<Fingerprint>,
    /// The first record that counts.
    pub since: Since,
    /// The rounds of the counted records, from `since.round` on.
    pub logs: Vec<Fingerprint>,
    /// For a chain: how each counted round is linked to the policy that follows it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// The certificates that were added up, for a combined certificate.
    pub parts: Vec<Certificate>,
    /// The assumptions about the logs, which the logs cannot show.
    pub assumptions: Vec<String>,
}

/// The subject of a certificate: its policies and priors, and their price.
struct Judgement {
    theorem: Theorem,
    judged: Subject,
    policies: Vec<Option<Fingerprint>>,
    priors: Vec<Fingerprint>,
}

impl Judgement {
    fn posterior(theorem: Theorem, policy: &LinearGaussian, prior: &LinearGaussian) -> Result<Self> {
        Self::posteriors(theorem, &[(policy, prior)])
    }

    fn posteriors(theorem: Theorem, pairs: &[(&LinearGaussian, &LinearGaussian)]) -> Result<Self> {
        let (mut kl, mut error, mut turned) = (0.0, 0.0, false);
        for (policy, prior) in pairs {
            if policy.features() != prior.features() {
                let (allowed, value) = ("over the features of the policy", "over others");
                return Err(Error::setting("the prior", allowed, value));
            }
            let own = policy.kl(prior)?;
            kl += own;
            error += kl_error(policy.posterior(), prior.posterior(), own);
            turned |= !same_basis(policy.posterior().basis(), prior.posterior().basis());
        }
        Ok(Judgement {
            theorem,
            judged: Subject::Posterior { kl, error, turned },
            policies: pairs.iter().map(|(policy, _)| policy.identity()).collect(),
            priors: pairs.iter().map(|(_, prior)| prior.fingerprint()).collect(),
        })
    }

    fn fixed(theorem: Theorem, policy: Option<&dyn Policy>, size: usize) -> Result<Self> {
        if size == 0 {
            return Err(Error::size("the set of policies", "at least one of them", 0));
        }
        let policies = policy.map(Policy::identity).into_iter().collect();
        Ok(Judgement { theorem, judged: Subject::Fixed { size }, policies, priors: Vec::new() })
    }

    /// Makes the certificate from the evidence of a case.
    fn certificate(self, case: &Case<'_>, evidence: &Evidence) -> Result<Certificate> {
        let theorem = self.theorem;
        let delta = case.share.delta(case.protocol)?;
        let staked = matches!(theorem, Theorem::Fixed | Theorem::FixedAdjusted) && case.protocol.mixes();
        let bound = match theorem {
            Theorem::Fixed | Theorem::FixedAdjusted => {
                let stakes = case.stakes(theorem.smoothing())?;
                let bound = bound::staked(evidence, theorem.smoothing(), self.judged, &stakes, case.protocol, delta)?;
                bound::possible(bound.upper, bound.numerical, theorem.smoothing())?;
                bound
            }
            _ => bound(evidence, theorem.smoothing(), self.judged, case.protocol, delta)?,
        };
        let (kl, size) = match self.judged {
            Subject::Posterior { kl, .. } => (kl, 1),
            Subject::Fixed { size } => (0.0, size),
        };
        Ok(Certificate {
            theorem,
            bounds: theorem.bounds(),
            upper: bound.upper,
            vacuous: bound.upper >= 0.0,
            delta: case.protocol.delta,
            share: case.share,
            spending: case.protocol.spending,
            form: case.protocol.form,
            combine: case.protocol.combine,
            lambda: bound.lambda,
            lambdas: case.protocol.lambdas.clone(),
            records: bound.records,
            estimate: bound.estimate,
            kl,
            size,
            numerical: bound.numerical,
            policies: self.policies,
            priors: self.priors,
            since: case.since,
            logs: case.counted()?.iter().map(Logs::fingerprint).collect(),
            links: Vec::new(),
            parts: Vec::new(),
            assumptions: theorem.assumptions_at_stakes(staked),
        })
    }
}

/// A bound on the numerical error of a divergence: the rounding of its `K p` terms, and the rotation of means by bases
/// that are orthonormal to 1e-10.
fn kl_error(policy: &Posterior, prior: &Posterior, kl: f64) -> f64 {
    let terms = policy.mean().len() as f64;
    let basis = if policy.basis().or(prior.basis()).is_some() { 1e-10 } else { 0.0 };
    let narrowest = (0..prior.features()).map(|f| prior.scale().get(f)).fold(f64::INFINITY, f64::min);
    let square = |posterior: &Posterior| posterior.mean().iter().map(|m| (m / narrowest).powi(2)).sum::<f64>();
    (basis + 100.0 * f64::EPSILON) * (terms + kl.abs() + square(policy) + square(prior))
}

impl Certificate {
    /// The settings that it was made with.
    pub fn protocol(&self) -> Protocol {
        Protocol {
            delta: self.delta,
            lambdas: self.lambdas.clone(),
            combine: self.combine,
            form: self.form,
            spending: self.spending,
        }
    }

    /// Theorem 3.2: `R(pi_Q) <= psi_l( Rhat^LS(pi_Q) + (KL(Q, P) + ln(1/delta))/(l N) )`.
    ///
    /// Holds for all posteriors `Q` at once, including those learned from the same records. The prior `P` must have
    /// been fixed before the first record. Over the records of one round it is the bound of batch LS.
    pub fn risk(policy: &LinearGaussian, prior: &LinearGaussian, case: &Case<'_>) -> Result<Self> {
        let evidence = case.evidence(case.on_grid(Factor::LS), |logs| Weighed::new(policy, logs))?;
        Judgement::posterior(Theorem::Ls, policy, prior)?.certificate(case, &evidence)
    }

    /// Theorem 4.1: `R(pi_Q) - Rbar <= psi_l( Rhat^adj(pi_Q) + Chat + (KL(Q, P) + ln(1/delta))/(l N) )`.
    ///
    /// `Rbar` is the mean risk of the logging policies. With the incumbent as prior and only the records that it
    /// collected, `Rbar` is the incumbent's risk. A bound below 0 then proves that the candidate is better than the
    /// running policy.
    pub fn difference(policy: &LinearGaussian, prior: &LinearGaussian, case: &Case<'_>) -> Result<Self> {
        let evidence = case.evidence(case.on_grid(Factor::ADJUSTED), |logs| Weighed::new(policy, logs))?;
        Judgement::posterior(Theorem::Adjusted, policy, prior)?.certificate(case, &evidence)
    }

    /// Theorem C.1, with one pair of policy and prior per round. The policy is learned from that round, and the prior
    /// was fixed before it. The distribution of the contexts may differ between rounds. Rounds are weighted by their
    /// number of records.
    pub fn shift(smoothing: Smoothing, pairs: &[(&LinearGaussian, &LinearGaussian)], case: &Case<'_>) -> Result<Self> {
        let rounds = case.counted()?;
        if pairs.len() != rounds.len() {
            let expected = format!("{} pairs of policy and prior, one for each round", rounds.len());
            return Err(Error::size("Theorem C.1", expected, pairs.len()));
        }
        if case.since.record > 0 {
            return Err(Error::setting("the first record", "0 for Theorem C.1", case.since.record));
        }
        let wanted = [case.on_grid(Factor { smoothing, fixed: false })];
        let mut evidence = Evidence::none(&wanted);
        for ((policy, _), logs) in pairs.iter().zip(rounds) {
            evidence.merge(&Weighed::new(*policy, logs)?.evidence(&wanted));
        }
        let theorem = match smoothing {
            Smoothing::Ls => Theorem::Shift,
            Smoothing::Adjusted => Theorem::ShiftAdjusted,
        };
        Judgement::posteriors(theorem, pairs)?.certificate(case, &evidence)
    }

    /// Bounds a policy that was fixed before the records and chosen from a set of `size` such policies. It pays no
    /// divergence. The factors contain the policy's own probabilities, so they vary far less than those of single
    /// predictors.
    pub fn fixed(smoothing: Smoothing, policy: &dyn Policy, size: usize, case: &Case<'_>) -> Result<Self> {
        let evidence = case.evidence(case.at_stakes(smoothing)?, |logs| Weighed::new(policy, logs))?;
        Self::of_fixed(smoothing, policy, size, case, &evidence)
    }

    fn of_fixed(
        smoothing: Smoothing,
        policy: &dyn Policy,
        size: usize,
        case: &Case<'_>,
        evidence: &Evidence,
    ) -> Result<Self> {
        let theorem = match smoothing {
            Smoothing::Ls => Theorem::Fixed,
            Smoothing::Adjusted => Theorem::FixedAdjusted,
        };
        Judgement::fixed(theorem, Some(policy), size)?.certificate(case, evidence)
    }

    /// Bounds the logging policies: `Rbar <= psi_l( -(1/(l N)) sum_i ln(1 - l c_i) + ln(1/delta)/(l N) )`. `Rbar` is
    /// the mean over the records of the risk of the policy that collected each record.
    pub fn running(case: &Case<'_>) -> Result<Self> {
        let evidence = case.evidence(case.on_grid(Factor::FIXED), |logs| Ok(Weighed::running(logs)))?;
        Judgement::fixed(Theorem::Running, None, 1)?.certificate(case, &evidence)
    }

    /// Adds a difference to the bound on the logging policies over the same records, each at its own share of delta.
    /// The sum bounds the risk itself.
    pub fn combined(difference: Certificate, running: Certificate) -> Result<Self> {
        let fits = difference.bounds == Quantity::Difference
            && running.bounds == Quantity::RunningRisk
            && (difference.since, &difference.logs) == (running.since, &running.logs)
            && (difference.delta, difference.spending) == (running.delta, running.spending)
            && difference.share.round == running.share.round;
        if !fits {
            let allowed = "a difference and the running risk over the same records, at shares of one delta";
            return Err(Error::setting("a combined certificate", allowed, "another"));
        }
        // The failure probabilities add up: two statements that each use all of delta cannot be combined at delta.
        let part = difference.share.part + running.share.part;
        check_setting("the part of delta that both use", part, part <= 1.0, "at most 1")?;
        let upper = difference.upper + running.upper;
        let upper = upper + 2.0 * f64::EPSILON * upper.abs();
        let numerical = difference.numerical + running.numerical;
        bound::possible(upper, numerical, Smoothing::Ls)?;
        Ok(Certificate {
            theorem: Theorem::Combined,
            bounds: Quantity::Risk,
            upper,
            vacuous: upper >= 0.0,
            share: Share { round: difference.share.round, part },
            estimate: difference.estimate + running.estimate,
            numerical,
            assumptions: if difference.theorem == Theorem::FixedAdjusted {
                difference.assumptions.clone()
            } else {
                Theorem::Combined.assumptions()
            },
            parts: vec![difference.clone(), running],
            ..difference
        })
    }
}

#[cfg(test)]
mod tests;
