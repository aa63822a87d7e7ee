//! The ladder: every policy that was deployed is a prior for what came after it.

use super::{Case, Certificate, Evidence, Judgement, Protocol, Share, Since, Smoothing, Theorem};
use crate::error::{Error, Result};
use crate::logs::Logs;
use crate::policy::LinearGaussian;

/// From where on a policy was fixed, and how many others were fixed at the same time for it to be chosen from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedSince {
    /// The round in which it was learned, counted from 0; its share of delta is that round's.
    pub round: usize,
    /// The first record that it has not seen.
    pub since: Since,
    /// The size of the set that it was chosen from; 1 if there was no choice. What is learned in round 0 shares a set
    /// with the first policy, which was fixed before it.
    pub size: usize,
}

/// The parts of a round's share that go to each kind of rung: most to the top one, which alone feels it. Beside a
/// divergence, a few nats are nothing.
pub(super) const OWN: f64 = 0.8;
pub(super) const LS: f64 = 0.1;
pub(super) const DIFFERENCE: f64 = 0.05;
pub(super) const RUNNING: f64 = 0.05;

/// The best certificate of a policy's risk over the rungs of the ladder.
///
/// The policy `deployed[j]` was fixed before round `j`, so it is a lawful prior for the records of rounds `j` and
/// later, and the divergence from it is far smaller than from the first. Each rung `j` has a share of delta, and holds
/// for all posteriors and all later rounds; on it stand Theorem 3.2, and Theorem 4.1 added to what has been running
/// since. The top rung, if the policy has records that it has not seen (`fixed_since`), is the policy itself on those:
/// nothing is paid for it but the choice among its set.
pub fn ladder(
    policy: &LinearGaussian,
    fixed_since: Option<FixedSince>,
    deployed: &[LinearGaussian],
    rounds: &[Logs],
    protocol: &Protocol,
) -> Result<Certificate> {
    let evidence: Vec<Evidence> = rounds.iter().map(|logs| Evidence::new(policy, logs)).collect::<Result<_>>()?;
    ladder_of(policy, fixed_since, deployed, rounds, protocol, &evidence)
}

/// The same, from what each round says of the policy.
pub(crate) fn ladder_of(
    policy: &LinearGaussian,
    fixed_since: Option<FixedSince>,
    deployed: &[LinearGaussian],
    rounds: &[Logs],
    protocol: &Protocol,
    evidence: &[Evidence],
) -> Result<Certificate> {
    if deployed.len() != rounds.len() {
        let expected = format!("{} policies, one for each round", rounds.len());
        return Err(Error::size("what was deployed", expected, deployed.len()));
    }
    let running: Vec<Evidence> = rounds.iter().map(Evidence::running).collect();
    let mut best: Option<Certificate> = None;
    let mut consider = |found: Certificate| {
        if best.as_ref().is_none_or(|best| found.upper < best.upper) {
            best = Some(found);
        }
    };
    for (j, prior) in deployed.iter().enumerate() {
        // A policy that was kept for several rounds is one rung: the lowest has most records.
        if j > 0 && *prior == deployed[j - 1] {
            continue;
        }
        let case = |part| Case { rounds, since: Since::round(j), protocol, share: Share::of_round(j, part) };
        consider(Judgement::posterior(Theorem::Ls, policy, prior)?.certificate(&case(LS), &evidence[j..])?);
        let adjusted = Judgement::posterior(Theorem::Adjusted, policy, prior)?;
        let difference = adjusted.certificate(&case(DIFFERENCE), &evidence[j..])?;
        let running = Judgement::fixed(Theorem::Running, None, 1)?.certificate(&case(RUNNING), &running[j..])?;
        consider(Certificate::combined(difference, running)?);
    }
    if let Some(FixedSince { round, since, size }) = fixed_since {
        let case = Case { rounds, since, protocol, share: Share::of_round(round, OWN) };
        let mut own = case.counted().map(|_| evidence[since.round..].to_vec())?;
        own[0] = own[0].since(since.record);
        if own.iter().any(|e| e.records() > 0) {
            consider(Certificate::of_fixed(Smoothing::Ls, policy, size, &case, &own)?);
        }
    }
    best.ok_or_else(|| Error::size("the ladder", "at least one round", 0))
}
