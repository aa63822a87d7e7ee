//! The ladder: every deployed policy serves as a prior for the records collected from its round on.

use serde::{Deserialize, Serialize};

use super::case::RoundEvidence;
use super::evidence::{Evidence, Factor, Wanted, Weighed};
use super::{Case, Certificate, Judgement, Link, Parts, Protocol, Share, Since, Smoothing, Theorem};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::logs::Logs;
use crate::policy::{LinearGaussian, Policy};

/// When a policy was fixed, and from how many candidates fixed at that time it was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedSince {
    /// The round in which it was learned, counted from 0. It uses that round's share of delta.
    pub round: usize,
    /// The first record that it has not seen.
    pub since: Since,
    /// The size of the set that it was chosen from; 1 if there was no choice. The policies learned in round 0 share a
    /// set with the first policy, which was fixed before that round.
    pub size: usize,
}

/// How the rounds of a loop are linked, for the chain on the ladder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Linked<'a> {
    /// One link per round; the last one leads to the certified policy.
    pub(crate) links: &'a [Option<Link>],
    /// Whether a gate decides which policy is deployed.
    pub(crate) gated: bool,
}

/// The best certificate of a policy's risk over the rungs of the ladder.
///
/// The policy `deployed[j]` was fixed before round `j`. So it is a valid prior for the records of rounds `j` and later,
/// and the divergence from it is far smaller than the divergence from the first policy. Each rung `j` has a share of
/// delta and holds for all posteriors and all later rounds. It uses Theorem 3.2, and Theorem 4.1 added to the bound on
/// the logging policies since round `j`.
///
/// Such a rung needs a divergence. It is skipped if the policy is not a posterior, or has no divergence from
/// `deployed[j]`.
///
/// The top rung exists if there are records that the policy has not seen. It bounds the policy as a fixed policy on
/// those records, and pays only for the choice from its set. A [`Session`](crate::Session) has a better one: the chain of
/// its policies, for which it knows how each round is linked to the next policy.
pub fn ladder<P: AsRef<dyn Policy>>(
    policy: &dyn Policy,
    fixed_since: Option<FixedSince>,
    deployed: &[P],
    rounds: &[Logs],
    protocol: &Protocol,
) -> Result<Certificate> {
    let best = Ladder::new(policy, fixed_since, deployed, rounds, protocol, None)?.best()?;
    let needs = "a prior of the policy's kind, or records that the policy has not seen";
    best.ok_or_else(|| Error::setting("the ladder", format!("one with {needs}"), "one without either"))
}

/// Theorem 3.2 with the first policy as prior, if there is a divergence from it, and the [`ladder`], if it has a rung, from
/// one pass.
pub(crate) fn risk_and_ladder<P: AsRef<dyn Policy>>(
    policy: &dyn Policy,
    fixed_since: Option<FixedSince>,
    deployed: &[P],
    rounds: &[Logs],
    protocol: &Protocol,
    linked: Linked<'_>,
) -> Result<(Option<Certificate>, Option<Certificate>)> {
    let linked = protocol.mixes().then_some(linked);
    let ladder = Ladder::new(policy, fixed_since, deployed, rounds, protocol, linked)?;
    let risk = match deployed.first().and_then(|first| related(policy, first.as_ref())) {
        None => None,
        Some((policy, first)) => {
            let judgement = Judgement::posterior(Theorem::Ls, policy, first)?;
            Some(judgement.certificate(&Case::whole(rounds, protocol), &ladder.evidence.since_round(0))?)
        }
    };
    Ok((risk, ladder.best()?))
}

/// A policy, the loop that it comes from, and the evidence of each round, split where the policy was fixed.
struct Ladder<'a, P> {
    policy: &'a dyn Policy,
    fixed_since: Option<FixedSince>,
    deployed: &'a [P],
    rounds: &'a [Logs],
    protocol: &'a Protocol,
    linked: Option<Linked<'a>>,
    evidence: RoundEvidence,
}

impl<'a, P: AsRef<dyn Policy>> Ladder<'a, P> {
    fn new(
        policy: &'a dyn Policy,
        fixed_since: Option<FixedSince>,
        deployed: &'a [P],
        rounds: &'a [Logs],
        protocol: &'a Protocol,
        linked: Option<Linked<'a>>,
    ) -> Result<Self> {
        if deployed.len() != rounds.len() {
            let expected = format!("{} policies, one for each round", rounds.len());
            return Err(Error::size("the list of deployed policies", expected, deployed.len()));
        }
        let evidence = RoundEvidence { parts: Vec::new() };
        let mut ladder = Ladder { policy, fixed_since, deployed, rounds, protocol, linked, evidence };
        let mut wanted: Vec<Wanted> =
            [Factor::LS, Factor::ADJUSTED].iter().map(|&factor| Wanted::new(factor, &protocol.lambdas)).collect();
        if let Some(case) = ladder.unseen()? {
            wanted.push(case.at_stakes(Smoothing::Ls)?);
        }
        ladder.evidence = RoundEvidence::new(policy, rounds, fixed_since.map(|fixed| fixed.since), &wanted)?;
        Ok(ladder)
    }

    /// The records that the policy has not seen, if they make a rung. A chain contains that rung, unless there is a gate:
    /// a policy that stays for many rounds is fixed since long, and a chain pays for every decision of the gate.
    fn unseen(&self) -> Result<Option<Case<'a>>> {
        let part = match self.linked {
            None => Parts::FIXED,
            Some(Linked { gated: true, .. }) => Parts::FIXED_GATED,
            Some(Linked { gated: false, .. }) => return Ok(None),
        };
        let Some(FixedSince { round, since, .. }) = self.fixed_since else { return Ok(None) };
        let case = Case { rounds: self.rounds, since, protocol: self.protocol, share: Share::of_round(round, part) };
        case.counted()?;
        Ok(Some(case))
    }

    fn best(&self) -> Result<Option<Certificate>> {
        let Ladder { policy, deployed, rounds, protocol, evidence, .. } = self;
        let on_grid = [Wanted::new(Factor::FIXED, &protocol.lambdas)];
        let running: Vec<Evidence> = rounds.iter().map(|logs| Weighed::running(logs).evidence(&on_grid)).collect();
        let mut best: Option<Certificate> = None;
        let mut consider = |found: Certificate| {
            if best.as_ref().is_none_or(|best| found.upper < best.upper) {
                best = Some(found);
            }
        };
        let mut last: Option<(&dyn Policy, Option<Fingerprint>)> = None;
        for (j, prior) in deployed.iter().map(AsRef::as_ref).enumerate() {
            // A policy that was deployed for several rounds gives one rung: the lowest, which has the most records.
            // A fingerprint hashes all parameters, so it is computed once for rounds that share a policy in memory.
            let before = last;
            let print = match before {
                Some((policy, print)) if std::ptr::eq(policy, prior) => print,
                _ => prior.identity(),
            };
            last = Some((prior, print));
            if print.is_some() && before.is_some_and(|(_, before)| before == print) {
                continue;
            }
            let Some((own, prior)) = related(*policy, prior) else { continue };
            let case = |part| Case { rounds, since: Since::round(j), protocol, share: Share::of_round(j, part) };
            let said = evidence.since_round(j);
            consider(Judgement::posterior(Theorem::Ls, own, prior)?.certificate(&case(Parts::LS), &said)?);
            let difference =
                Judgement::posterior(Theorem::Adjusted, own, prior)?.certificate(&case(Parts::DIFFERENCE), &said)?;
            let mut ran = Evidence::none(&on_grid);
            running[j..].iter().for_each(|round| ran.merge(round));
            let running = Judgement::fixed(Theorem::Running, None, 1)?.certificate(&case(Parts::RUNNING), &ran)?;
            consider(Certificate::combined(difference, running)?);
        }
        if let (Some(case), Some(FixedSince { since, size, .. })) = (self.unseen()?, self.fixed_since) {
            let unseen = evidence.unseen(since.round);
            if unseen.records() > 0 {
                consider(Certificate::of_fixed(Smoothing::Ls, *policy, size, &case, &unseen)?);
            }
        }
        if let Some(found) = self.chain()? {
            consider(found);
        }
        Ok(best)
    }

    fn chain(&self) -> Result<Option<Certificate>> {
        let Some(Linked { links, gated }) = self.linked else { return Ok(None) };
        let mut next: Vec<&dyn Policy> = Vec::with_capacity(self.rounds.len());
        self.deployed.iter().skip(1).for_each(|policy| next.push(policy.as_ref()));
        next.push(self.policy);
        let part = if gated { Parts::CHAIN_GATED } else { Parts::CHAIN };
        Certificate::chain(&next, links, part, self.rounds, self.protocol)
    }
}

/// Both posteriors, if the divergence between them is known: they have the same features, actions and exploration
/// floor.
pub(super) fn related<'a>(
    policy: &'a dyn Policy,
    prior: &'a dyn Policy,
) -> Option<(&'a LinearGaussian, &'a LinearGaussian)> {
    let (policy, prior) = (policy.as_gaussian()?, prior.as_gaussian()?);
    // Scores of candidates are not those of a posterior.
    let alike = policy.joint().is_none()
        && prior.joint().is_none()
        && policy.features() == prior.features()
        && policy.actions() == prior.actions()
        && policy.exploration() == prior.exploration();
    alike.then_some((policy, prior))
}
