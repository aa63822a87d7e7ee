//! The ladder: every policy that was deployed is a prior for what came after it.

use super::case::RoundEvidence;
use super::evidence::{Evidence, Factor, Weighed};
use super::{Case, Certificate, Judgement, Protocol, Share, Since, Smoothing, Theorem};
use crate::error::{Error, Result};
use crate::logs::Logs;
use crate::policy::{LinearGaussian, Policy};

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

/// The factors that the rungs are made of.
const FACTORS: [Factor; 3] = [Factor::LS, Factor::ADJUSTED, Factor::FIXED];

/// The best certificate of a policy's risk over the rungs of the ladder.
///
/// The policy `deployed[j]` was fixed before round `j`, so it is a lawful prior for the records of rounds `j` and
/// later, and the divergence from it is far smaller than from the first. Each rung `j` has a share of delta, and holds
/// for all posteriors and all later rounds; on it stand Theorem 3.2, and Theorem 4.1 added to what has been running
/// since. Such a rung needs a divergence: a policy that is no posterior, or no relative of `deployed[j]`, does without.
/// The top rung, if the policy has records that it has not seen, is the policy itself on those: nothing is paid for it
/// but the choice among its set.
pub fn ladder<P: AsRef<dyn Policy>>(
    policy: &dyn Policy,
    fixed_since: Option<FixedSince>,
    deployed: &[P],
    rounds: &[Logs],
    protocol: &Protocol,
) -> Result<Certificate> {
    let cut = fixed_since.map(|fixed| fixed.since);
    let evidence = RoundEvidence::new(policy, rounds, cut, &FACTORS, &protocol.lambdas)?;
    ladder_of(policy, fixed_since, deployed, rounds, protocol, &evidence)
}

/// The same, from what each round says of the policy by [`FACTORS`], cut where it was fixed.
fn ladder_of<P: AsRef<dyn Policy>>(
    policy: &dyn Policy,
    fixed_since: Option<FixedSince>,
    deployed: &[P],
    rounds: &[Logs],
    protocol: &Protocol,
    evidence: &RoundEvidence,
) -> Result<Certificate> {
    if deployed.len() != rounds.len() {
        let expected = format!("{} policies, one for each round", rounds.len());
        return Err(Error::size("what was deployed", expected, deployed.len()));
    }
    let running: Vec<Evidence> =
        rounds.iter().map(|logs| Weighed::running(logs).evidence(&[Factor::FIXED], &protocol.lambdas)).collect();
    let mut best: Option<Certificate> = None;
    let mut consider = |found: Certificate| {
        if best.as_ref().is_none_or(|best| found.upper < best.upper) {
            best = Some(found);
        }
    };
    for (j, prior) in deployed.iter().map(AsRef::as_ref).enumerate() {
        // A policy that was kept for several rounds is one rung: the lowest has most records.
        if j > 0 && prior.identity().is_some() && prior.identity() == deployed[j - 1].as_ref().identity() {
            continue;
        }
        let Some((own, prior)) = related(policy, prior) else { continue };
        let case = |part| Case { rounds, since: Since::round(j), protocol, share: Share::of_round(j, part) };
        let said = evidence.since_round(j);
        consider(Judgement::posterior(Theorem::Ls, own, prior)?.certificate(&case(LS), &said)?);
        let difference = Judgement::posterior(Theorem::Adjusted, own, prior)?.certificate(&case(DIFFERENCE), &said)?;
        let mut ran = Evidence::none(&[Factor::FIXED], &protocol.lambdas);
        running[j..].iter().for_each(|round| ran.merge(round));
        let running = Judgement::fixed(Theorem::Running, None, 1)?.certificate(&case(RUNNING), &ran)?;
        consider(Certificate::combined(difference, running)?);
    }
    if let Some(FixedSince { round, since, size }) = fixed_since {
        let case = Case { rounds, since, protocol, share: Share::of_round(round, OWN) };
        case.counted()?;
        let unseen = evidence.unseen(since.round);
        if unseen.records() > 0 {
            consider(Certificate::of_fixed(Smoothing::Ls, policy, size, &case, &unseen)?);
        }
    }
    let needs = "a round with a prior of the policy's kind, or records that the policy has not seen";
    best.ok_or_else(|| Error::setting("the ladder", format!("one with {needs}"), "without"))
}

/// Theorem 3.2 with the first policy as prior, if there is a divergence from it, and the [`ladder`], from one pass.
pub(crate) fn risk_and_ladder<P: AsRef<dyn Policy>>(
    policy: &dyn Policy,
    fixed_since: Option<FixedSince>,
    deployed: &[P],
    rounds: &[Logs],
    protocol: &Protocol,
) -> Result<(Option<Certificate>, Certificate)> {
    let cut = fixed_since.map(|fixed| fixed.since);
    let evidence = RoundEvidence::new(policy, rounds, cut, &FACTORS, &protocol.lambdas)?;
    let risk = match deployed.first().and_then(|first| related(policy, first.as_ref())) {
        None => None,
        Some((policy, first)) => {
            let judgement = Judgement::posterior(Theorem::Ls, policy, first)?;
            Some(judgement.certificate(&Case::whole(rounds, protocol), &evidence.since_round(0))?)
        }
    };
    Ok((risk, ladder_of(policy, fixed_since, deployed, rounds, protocol, &evidence)?))
}

/// Both posteriors, if the divergence of the one from the other is known: they are over the same features and actions
/// and have the same exploration floor.
pub(super) fn related<'a>(
    policy: &'a dyn Policy,
    prior: &'a dyn Policy,
) -> Option<(&'a LinearGaussian, &'a LinearGaussian)> {
    let (policy, prior) = (policy.as_gaussian()?, prior.as_gaussian()?);
    let alike = policy.features() == prior.features()
        && policy.actions() == prior.actions()
        && policy.exploration() == prior.exploration();
    alike.then_some((policy, prior))
}
