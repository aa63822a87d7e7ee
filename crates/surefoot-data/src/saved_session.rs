//! SAVED SESSIONS: the state of a session as a document. It names policies and rounds, which are stored elsewhere, by
//! their fingerprints.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use surefoot::audit::Ledger;
use surefoot::certificate::{Challenger, FixedSince};
use surefoot::learn::PortfolioCheckpoint;
use surefoot::session::Checkpoint;
use surefoot::{Fingerprint, Gate, Learner, LinearGaussian, Policy, Session};

use crate::error::{Error, Result};
use crate::round_file::SavedRound;
use crate::tensors::json;

const FORMAT: &str = "surefoot-session";
const VERSION: u64 = 1;

/// The state of a session, besides its policies, its rounds and its ledger.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedSession {
    format: String,
    version: u64,
    learner: Learner,
    gate: Gate,
    first: Fingerprint,
    learned: Vec<Named>,
    /// `None` if the running policy is unknown.
    incumbent: Option<Named>,
    started: Option<usize>,
    challengers: Vec<Named>,
    kept: Option<(f64, f64)>,
    /// The policies that would have been handed over after each round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hand_overs: Vec<Option<Fingerprint>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    portfolio: Option<PortfolioCheckpoint<Fingerprint>>,
}

/// The fingerprint of a policy, and the time since which it was fixed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    policy: Fingerprint,
    fixed_since: Option<FixedSince>,
}

impl SavedSession {
    /// The state of this session.
    pub fn of(session: &Session) -> Self {
        let Checkpoint { first, learned, hand_overs, incumbent, started, challengers, kept, portfolio, .. } =
            session.checkpoint();
        let named = |challenger: &Challenger| Named {
            policy: challenger.policy.identity().expect("what is in a session has an identity"),
            fixed_since: challenger.fixed_since,
        };
        SavedSession {
            format: FORMAT.into(),
            version: VERSION,
            learner: session.learner().clone(),
            gate: session.gate(),
            first: first.fingerprint(),
            learned: learned.iter().map(named).collect(),
            incumbent: incumbent.as_ref().map(named),
            started,
            challengers: challengers.iter().map(named).collect(),
            kept,
            hand_overs: match portfolio {
                None => Vec::new(),
                Some(_) => hand_overs.iter().map(|policy| policy.as_ref().map(|policy| policy.fingerprint())).collect(),
            },
            portfolio: portfolio.map(|portfolio| portfolio.map(|policy| policy.fingerprint())),
        }
    }

    /// All policies that the state of a session names, some of them more than once.
    pub fn policies(session: &Session) -> Vec<Arc<dyn Policy>> {
        let Checkpoint { first, deployed, learned, hand_overs, incumbent, challengers, own, portfolio, .. } =
            session.checkpoint();
        let members = portfolio.iter().flat_map(PortfolioCheckpoint::policies);
        let mut all: Vec<Arc<dyn Policy>> = vec![Arc::new(first)];
        all.extend(members.map(|policy| Arc::new(policy.clone()) as Arc<dyn Policy>));
        all.extend(deployed.into_iter().flatten());
        all.extend(learned.into_iter().chain(incumbent).chain(challengers).map(|challenger| challenger.policy));
        all.extend(hand_overs.into_iter().flatten().map(|policy| policy as Arc<dyn Policy>));
        all.extend(own);
        all
    }

    /// The text of the document.
    pub fn to_json(&self, place: &str) -> Result<String> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|reason| Error::Json { place: place.into(), reason })
    }

    /// Reads the document.
    pub fn from_json(place: &str, text: &[u8]) -> Result<Self> {
        json(place, text, FORMAT, VERSION)
    }

    /// The session with its rounds, its ledger and its policies, which `find` finds. It continues bit for bit as the saved
    /// one would.
    pub fn resume(
        self,
        place: &str,
        rounds: Vec<SavedRound>,
        ledger: Ledger,
        find: &dyn Fn(Fingerprint) -> Result<Arc<dyn Policy>>,
    ) -> Result<Session> {
        let challenger = |named: &Named| -> Result<Challenger> {
            Ok(Challenger { policy: find(named.policy)?, fixed_since: named.fixed_since })
        };
        let all = |named: &[Named]| named.iter().map(challenger).collect::<Result<Vec<_>>>();
        let gaussian = |print: Fingerprint| -> Result<LinearGaussian> {
            let policy = find(print)?;
            policy.as_gaussian().cloned().ok_or_else(|| Error::Malformed {
                place: place.into(),
                reason: format!("the policy {print} should be linear Gaussian"),
            })
        };
        let hand_over =
            |print: &Option<Fingerprint>| -> Result<_> { Ok(print.map(gaussian).transpose()?.map(Arc::new)) };
        let hand_overs = match self.hand_overs.is_empty() {
            true => vec![None; rounds.len()],
            false => self.hand_overs.iter().map(hand_over).collect::<Result<_>>()?,
        };
        let checkpoint = Checkpoint {
            first: gaussian(self.first)?,
            hand_overs,
            portfolio: self.portfolio.map(|portfolio| portfolio.map(gaussian).transpose()).transpose()?,
            deployed: rounds.iter().map(|round| round.policy.map(find).transpose()).collect::<Result<_>>()?,
            logs: rounds.into_iter().map(|round| round.logs).collect(),
            learned: all(&self.learned)?,
            incumbent: self.incumbent.as_ref().map(challenger).transpose()?,
            started: self.started,
            challengers: all(&self.challengers)?,
            own: ledger.challenges().map(|(_, policy)| find(policy)).collect::<Result<_>>()?,
            kept: self.kept,
            ledger,
        };
        Session::resume(self.learner, self.gate, checkpoint)
            .map_err(|reason| Error::Content { place: place.into(), reason })
    }
}
