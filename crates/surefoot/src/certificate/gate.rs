//! The gate: it replaces the incumbent by a challenger only if a certificate supports that.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::case::RoundEvidence;
use super::evidence::Factor;
use super::ladder::related;
use super::{Case, Certificate, FixedSince, Judgement, Parts, Protocol, Share, Since, Smoothing, Theorem, ladder};
use crate::error::{Error, Result, check_setting};
use crate::logs::Logs;
use crate::policy::Policy;

/// The rule by which a challenger replaces the running policy (the incumbent).
///
/// Under [`Improvement`](Gate::Improvement) and [`NonInferiority`](Gate::NonInferiority), with probability `1 - delta`
/// over the whole life of the loop, no promotion is a step back (by more than the margin).
/// [`CertifiedRisk`](Gate::CertifiedRisk) only guarantees that the certified risk never gets worse: the incumbent's
/// true risk may be far below its own bound.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Gate {
    /// Every learned policy is deployed.
    #[default]
    Always,
    /// Promotes a challenger whose risk is certified to be below the incumbent's.
    Improvement,
    /// Promotes a challenger whose risk is certified to exceed the incumbent's by at most a margin.
    NonInferiority {
        /// The margin, at least 0.
        margin: f64,
    },
    /// Promotes a challenger whose certified risk is below the incumbent's certified risk.
    CertifiedRisk,
}

/// A policy that was learned and has not been promoted so far.
#[derive(Debug, Clone)]
pub struct Challenger {
    /// The policy.
    pub policy: Arc<dyn Policy>,
    /// When it was fixed, if there are records that it has not seen.
    pub fixed_since: Option<FixedSince>,
}

/// The decision of the gate.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Verdict {
    /// The index of the promoted challenger; `None` if the incumbent stays.
    pub promoted: Option<usize>,
    /// The best certificate of a challenger. It bounds the difference to the incumbent's risk, or the risk itself under
    /// [`CertifiedRisk`](Gate::CertifiedRisk). `None` for the gate that is always open.
    pub certificate: Option<Certificate>,
}

impl Display for Gate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Gate::Always => write!(f, "always"),
            Gate::Improvement => write!(f, "improvement"),
            Gate::NonInferiority { margin } => write!(f, "non-inferiority:{margin}"),
            Gate::CertifiedRisk => write!(f, "certified-risk"),
        }
    }
}

impl FromStr for Gate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let allowed = "always, improvement, non-inferiority:MARGIN or certified-risk";
        let bad = || Error::setting("gate", allowed, text);
        Ok(match text.split(':').collect::<Vec<_>>()[..] {
            ["always"] => Gate::Always,
            ["improvement"] => Gate::Improvement,
            ["non-inferiority", margin] => Gate::NonInferiority { margin: margin.parse().map_err(|_| bad())? },
            ["certified-risk"] => Gate::CertifiedRisk,
            _ => return Err(bad()),
        })
    }
}

impl Gate {
    /// Fails and names the allowed range if a setting is outside it.
    pub fn check(&self) -> Result<()> {
        match *self {
            Gate::NonInferiority { margin } => check_setting("the margin", margin, margin >= 0.0, "at least 0"),
            _ => Ok(()),
        }
    }

    /// Judges the challengers of an incumbent, the newest last, on all rounds so far. `deployed` holds the logging
    /// policy of each round. The incumbent has collected every round since round `started`. If it has not collected a
    /// round yet, [`Improvement`](Gate::Improvement) and [`NonInferiority`](Gate::NonInferiority) have nothing to
    /// compare with, and it stays.
    pub fn judge<P: AsRef<dyn Policy>>(
        &self,
        challengers: &[Challenger],
        incumbent: &Challenger,
        started: Option<usize>,
        deployed: &[P],
        rounds: &[Logs],
        protocol: &Protocol,
    ) -> Result<Verdict> {
        self.check()?;
        let ladder = |c: &Challenger| ladder(c.policy.as_ref(), c.fixed_since, deployed, rounds, protocol);
        let mut best: Option<(usize, Certificate)> = None;
        for (place, challenger) in challengers.iter().enumerate() {
            let found = match (self, started) {
                (Gate::Always, _) => {
                    return Ok(Verdict { promoted: challengers.len().checked_sub(1), certificate: None });
                }
                (Gate::CertifiedRisk, _) => Some(ladder(challenger)?),
                (_, None) => None,
                (_, Some(started)) => {
                    Some(improvement(challenger, incumbent.policy.as_ref(), started, rounds, protocol)?)
                }
            };
            if let Some(found) = found
                && best.as_ref().is_none_or(|(_, best)| found.upper < best.upper)
            {
                best = Some((place, found));
            }
        }
        let Some((place, certificate)) = best else {
            return Ok(Verdict { promoted: None, certificate: None });
        };
        let passes = match *self {
            Gate::Always => true,
            // Strictly below 0: no change is not an improvement.
            Gate::Improvement => certificate.upper < 0.0,
            Gate::NonInferiority { margin } => certificate.upper <= margin,
            Gate::CertifiedRisk => certificate.upper < ladder(incumbent)?.upper,
        };
        Ok(Verdict { promoted: passes.then_some(place), certificate: Some(certificate) })
    }
}

/// The best bound on the challenger's risk minus the incumbent's, on the records that the incumbent collected since
/// round `started`. The challenger is bounded as a posterior with the incumbent as prior (Theorem 4.1), and as a fixed
/// policy on the records that it has not seen.
fn improvement(
    challenger: &Challenger,
    incumbent: &dyn Policy,
    started: usize,
    rounds: &[Logs],
    protocol: &Protocol,
) -> Result<Certificate> {
    let policy = challenger.policy.as_ref();
    let case = |since, share| Case { rounds, since, protocol, share };
    let begun = case(Since::round(started), Share::of_round(started, Parts::POSTERIOR));
    let counted = begun.counted()?;
    // Records before the incumbent's first round would compare with another policy. If the unseen records reach into
    // earlier rounds, the incumbent's start may depend on them. So the certificate pays for every start that was
    // possible.
    let unseen = challenger.fixed_since.map(|FixedSince { round, since, size }| {
        let size = size * (round.saturating_sub(since.round) + 1);
        (size, case(since.max(Since::round(started)), Share::of_round(round, Parts::UNSEEN)))
    });
    if let Some((_, case)) = &unseen {
        case.counted()?;
    }
    let cut = unseen.as_ref().map(|(_, case)| Since { round: case.since.round - started, record: case.since.record });
    let mut wanted = vec![begun.on_grid(Factor::ADJUSTED)];
    if let Some((_, case)) = &unseen {
        wanted.push(case.at_stakes(Smoothing::Adjusted)?);
    }
    let evidence = RoundEvidence::new(policy, counted, cut, &wanted)?;
    let posterior = match related(policy, incumbent) {
        None => None,
        Some((policy, incumbent)) => {
            let judgement = Judgement::posterior(Theorem::Adjusted, policy, incumbent)?;
            Some(judgement.certificate(&begun, &evidence.since_round(0))?)
        }
    };
    let fixed = match (unseen, cut) {
        (Some((size, case)), Some(cut)) if evidence.unseen(cut.round).records() > 0 => {
            Some(Certificate::of_fixed(Smoothing::Adjusted, policy, size, &case, &evidence.unseen(cut.round))?)
        }
        _ => None,
    };
    let needs = "a policy of the incumbent's kind, or one with records that it has not seen";
    match (fixed, posterior) {
        (Some(fixed), Some(posterior)) => Ok(if fixed.upper < posterior.upper { fixed } else { posterior }),
        (found, other) => found.or(other).ok_or_else(|| Error::setting("a challenger", needs, "another")),
    }
}
