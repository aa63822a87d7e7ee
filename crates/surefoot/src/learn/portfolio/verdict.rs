//! What records that a policy has not seen say about it.

use std::sync::Arc;

use crate::certificate::{Evidence, Factor, Protocol, Smoothing, Subject, Wanted, Weighed, bound};
use crate::error::Result;
use crate::logs::Logs;
use crate::policy::Policy;

/// The smoothing of rewards that are compared. A policy far from the one that collected is estimated too low, so it leads
/// only if it is clearly better.
const SMOOTHING: f64 = 0.1;

/// At this lambda an estimate is nearly unbiased; the bound does not use it.
const NEARLY_UNBIASED: f64 = 1e-3;

/// The verdict on a policy.
pub(super) struct Verdict {
    /// The estimated risk.
    pub(super) estimate: f64,
    /// An upper bound of the risk, with all of delta for this policy alone.
    pub(super) upper: f64,
    /// The smoothed rewards of the records whose cost is not 0.
    pub(super) rewards: Vec<f64>,
}

/// Judges a policy by records that it has not seen.
pub(super) fn judge(policy: &dyn Policy, unseen: &[Arc<Logs>], protocol: &Protocol) -> Result<Verdict> {
    let lambdas: Vec<f64> = protocol.lambdas.iter().copied().chain([NEARLY_UNBIASED]).collect();
    let wanted = [Wanted::new(Factor::FIXED, &lambdas)];
    let (mut evidence, mut rewards) = (Evidence::none(&wanted), Vec::new());
    for logs in unseen {
        let weighed = Weighed::new(policy, logs)?;
        evidence.merge(&weighed.evidence(&wanted));
        rewards.extend(weighed.smoothed(SMOOTHING));
    }
    let upper = bound(&evidence, Smoothing::Ls, Subject::Fixed { size: 1 }, protocol, protocol.delta)?.upper;
    let plain = evidence.at(Factor::FIXED)[lambdas.len() - 1].logs.value();
    let estimate = -plain / (NEARLY_UNBIASED * evidence.records() as f64);
    Ok(Verdict { estimate, upper, rewards })
}
