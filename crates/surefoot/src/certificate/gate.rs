//! The gate: a candidate replaces the incumbent only if it is shown to be no step back.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::case::RoundEvidence;
use super::evidence::Factor;
use super::ladder::related;
use super::{Case, Certificate, FixedSince, Judgement, Protocol, Share, Since, Smoothing, Theorem, ladder};
use crate::error::{Error, Result, check_setting};
use crate::logs::Logs;
use crate::policy::Policy;

/// The rule by which a candidate replaces what is running. Under the second and the third, with probability `1 - delta`
/// over the whole life of the loop, no promotion is a step back (by more than the margin). Under the last one only what
/// is certified never steps back: the incumbent's risk may be far below its own bound.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gate {
    /// Whatever was learned is deployed.
    #[default]
    Always,
    /// Its risk is certified to be below the incumbent's.
    Improvement,
    /// Its risk is certified to exceed the incumbent's by less than a margin, at least 0.
    NonInferiority {
        /// The margin.
        margin: f64,
    },
    /// Its certified risk is below the incumbent's certified risk.
    CertifiedRisk,
}

/// A policy that was learned and not promoted so far.
#[derive(Debug, Clone)]
pub struct Challenger {
    /// The policy.
    pub policy: Arc<dyn Policy>,
    /// From where on it was fixed, if there are records that it has not seen.
    pub fixed_since: Option<FixedSince>,
}

/// What the gate says.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The challenger that is promoted, by its place; `None` if the incumbent stays.
    pub promoted: Option<usize>,
    /// The best certificate of a challenger: of the difference to the incumbent's risk, or of its risk where that is
    /// what decides. The gate that is always open has none.
    pub certificate: Option<Certificate>,
}

/// The shares of a round's delta that go to challengers on records they have not seen, and to posteriors.
pub(super) const UNSEEN: f64 = 0.8;
pub(super) const POSTERIOR: f64 = 0.2;

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
    /// Fails, and names the range, if a setting is outside it.
    pub fn check(&self) -> Result<()> {
        match *self {
            Gate::NonInferiority { margin } => check_setting("the margin", margin, margin >= 0.0, "at least 0"),
            _ => Ok(()),
        }
    }

    /// Judges the challengers of an incumbent, the newest last, by all rounds so far. `deployed` is what collected each
    /// of them; the incumbent has collected all since round `started`. One that has collected nothing yet cannot be
    /// compared with, and stays.
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
            // Strictly below 0: that nothing changes is no improvement.
            Gate::Improvement => certificate.upper < 0.0,
            Gate::NonInferiority { margin } => certificate.upper <= margin,
            Gate::CertifiedRisk => certificate.upper < ladder(incumbent)?.upper,
        };
        Ok(Verdict { promoted: passes.then_some(place), certificate: Some(certificate) })
    }
}

/// The best bound on the challenger's risk minus the incumbent's, which has collected all since round `started`: as a
/// posterior with the incumbent as prior (Theorem 4.1), or as a fixed policy on the records that it has not seen.
fn improvement(
    challenger: &Challenger,
    incumbent: &dyn Policy,
    started: usize,
    rounds: &[Logs],
    protocol: &Protocol,
) -> Result<Certificate> {
    let policy = challenger.policy.as_ref();
    let case = |since, share| Case { rounds, since, protocol, share };
    let begun = case(Since::round(started), Share::of_round(started, POSTERIOR));
    let counted = begun.counted()?;
    // Records before the incumbent's first would compare with others. When it started may depend on records that the
    // challenger has not seen, if those reach into earlier rounds: all the starts that there could have been are paid
    // for.
    let unseen = challenger.fixed_since.map(|FixedSince { round, since, size }| {
        let size = size * (round.saturating_sub(since.round) + 1);
        (size, case(since.max(Since::round(started)), Share::of_round(round, UNSEEN)))
    });
    if let Some((_, case)) = &unseen {
        case.counted()?;
    }
    let cut = unseen.as_ref().map(|(_, case)| Since { round: case.since.round - started, record: case.since.record });
    let factors = [Factor::ADJUSTED, Factor::FIXED_ADJUSTED];
    let evidence = RoundEvidence::new(policy, counted, cut, &factors, &protocol.lambdas)?;
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
    let needs = "one of the incumbent's kind, or with records that it has not seen";
    match (fixed, posterior) {
        (Some(fixed), Some(posterior)) => Ok(if fixed.upper < posterior.upper { fixed } else { posterior }),
        (found, other) => found.or(other).ok_or_else(|| Error::setting("a challenger", needs, "another")),
    }
}
