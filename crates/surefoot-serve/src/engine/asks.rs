//! What callers ask of a loop, and what they get.

use serde::{Deserialize, Serialize};
use surefoot::logs::Eligible;
use surefoot::{Contexts, Fingerprint};

use crate::clock::Time;
use crate::error::Error;
use crate::store::Learned;

/// Something that is asked of a loop.
#[derive(Debug, Clone)]
pub enum Ask {
    /// Decisions, in order.
    Decide(Vec<DecideAsk>),
    /// Rewards, in order.
    Reward(Vec<RewardAsk>),
    /// A deferred decision is shown: the id of its event.
    Activate(String),
    /// An act of an operator.
    Admin(AdminAsk),
    /// A challenger of the caller's own.
    Challenge(ChallengeAsk),
    /// Records to erase.
    Erase(EraseAsk),
    /// A round was learned from.
    Learned(Box<Learned>),
    /// A round could not be learned from.
    LearningFailed {
        /// The round.
        round: u64,
        /// Why.
        reason: String,
    },
}

/// A decision that is asked for. Everything in it was checked against the rules of the loop.
#[derive(Debug, Clone)]
pub struct DecideAsk {
    /// The id of the event.
    pub event_id: String,
    /// What was asked, as JSON: as it came, or with keys in order and without the event.
    pub request: String,
    /// The features of the context: one row.
    pub context: Contexts,
    /// The eligible actions, strictly increasing, if not all are.
    pub eligible: Option<Vec<u32>>,
    /// The candidates, in a loop over candidates.
    pub candidates: Option<CandidateAsk>,
    /// For an apprentice: what the caller's own policy has chosen.
    pub baseline: Option<Baseline>,
    /// Whether its rewards count only if the caller says that it is shown.
    pub defer: bool,
}

/// The candidates of a decision.
#[derive(Debug, Clone)]
pub struct CandidateAsk {
    /// Their ids, in order.
    pub ids: Vec<String>,
    /// Their features: one record.
    pub encoded: Eligible,
}

/// The choice of the caller's own policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Baseline {
    /// The action.
    pub action: u32,
    /// The probability that it had.
    pub propensity: f64,
}

/// A reward that was sent.
#[derive(Debug, Clone, PartialEq)]
pub struct RewardAsk {
    /// The id of the event.
    pub event_id: String,
    /// The id of the reward among those of the event.
    pub reward_id: String,
    /// The reward.
    pub value: f64,
}

/// An act of an operator.
#[derive(Debug, Clone, PartialEq)]
pub struct AdminAsk {
    /// The name of the operator's key.
    pub by: String,
    /// What to do.
    pub command: Command,
}

/// A challenger of the caller's own. Its file is among the policies of the loop.
#[derive(Debug, Clone, PartialEq)]
pub struct ChallengeAsk {
    /// The name of the operator's key.
    pub by: String,
    /// The policy.
    pub policy: Fingerprint,
}

/// Records to erase.
#[derive(Debug, Clone, PartialEq)]
pub struct EraseAsk {
    /// The name of the operator's key.
    pub by: String,
    /// The ids of their events.
    pub events: Vec<String>,
}

/// What was erased.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Erased {
    /// The number of decisions.
    pub decisions: u64,
    /// The number of rewards.
    pub rewards: u64,
    /// The rounds of the decisions.
    pub rounds: Vec<u64>,
}

/// What an operator can do.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// End the round that is being collected.
    Close,
    /// Hold the policy that decides: no other is deployed. Learning goes on.
    Pause,
    /// Deploy what the session says again, from the next round on.
    Resume,
    /// End the round, and hold a policy that decided before, from the next round on.
    Rollback(Fingerprint),
    /// Learn again from a round whose learning failed.
    Retrain,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// To decisions.
    Decided(Vec<Result<Decided, Refusal>>),
    /// To rewards.
    Rewarded(Vec<Result<Rewarded, Refusal>>),
    /// To an activation.
    Activated(Result<Activation, Refusal>),
    /// To a challenger: the first round that judges it.
    Challenged(Result<u64, Refusal>),
    /// To an erasure.
    Erased(Result<Erased, Refusal>),
    /// To everything else.
    Done(Result<(), Refusal>),
}

/// A decision that is on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// Whether it was decided before, and found again.
    pub again: bool,
    /// The chosen action; the place of the chosen candidate in a loop over candidates.
    pub action: u32,
    /// The id of that candidate.
    pub candidate: Option<String>,
    /// The probability that it had.
    pub propensity: f64,
    /// The policy that chose it.
    pub policy: Option<Fingerprint>,
    /// The round that it belongs to.
    pub round: u64,
    /// Until when its rewards count.
    pub reward_until: Time,
    /// Whether they count only if it is activated until then.
    pub deferred: bool,
}

/// What became of an activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// The decision is active: its rewards count.
    Activated,
    /// It was active before.
    Duplicate,
    /// Its window has passed: it keeps the default reward.
    Late,
}

/// What became of a reward that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RewardOutcome {
    /// It counts.
    Joined,
    /// It was sent before, and counts once.
    Duplicate,
    /// It came after the window of its decision: it is kept, and never counts.
    Late,
    /// Its decision has not come, or was deferred and is not active: it is kept, and counts if that happens within the
    /// window.
    Parked,
}

/// A reward that is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewarded {
    /// What became of it.
    pub outcome: RewardOutcome,
}

/// Why something was not done. Nothing was stored for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status of HTTP.
    pub status: u16,
    /// A short name.
    pub kind: &'static str,
    /// What is allowed, and what came.
    pub detail: String,
}

impl Refusal {
    /// What was asked is not allowed.
    pub fn unprocessable(kind: &'static str, detail: impl Into<String>) -> Self {
        Refusal { status: 422, kind, detail: detail.into() }
    }

    /// It would be allowed in another state of the loop.
    pub fn conflict(kind: &'static str, detail: impl Into<String>) -> Self {
        Refusal { status: 409, kind, detail: detail.into() }
    }

    /// The store does not work at the moment.
    pub fn unavailable(error: &Error) -> Self {
        Refusal { status: 503, kind: "store-unavailable", detail: error.to_string() }
    }

    /// There is no decision on this event.
    pub fn no_decision(event_id: &str) -> Self {
        Refusal { status: 404, kind: "no-such-event", detail: format!("there is no decision on an event {event_id:?}") }
    }

    /// There is too much to do.
    pub fn overloaded() -> Self {
        let detail = "more is asked than can be done: nothing was drawn or stored for this request, ask again later";
        Refusal { status: 503, kind: "overloaded", detail: detail.into() }
    }
}

impl Ask {
    /// The number of decisions or rewards in it.
    pub fn len(&self) -> usize {
        match self {
            Ask::Decide(asks) => asks.len(),
            Ask::Reward(asks) => asks.len(),
            _ => 1,
        }
    }

    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The answer if nothing of it was done.
    pub(crate) fn refused(&self, refusal: &Refusal) -> Answer {
        match self {
            Ask::Decide(asks) => Answer::Decided(vec![Err(refusal.clone()); asks.len()]),
            Ask::Reward(asks) => Answer::Rewarded(vec![Err(refusal.clone()); asks.len()]),
            Ask::Activate(_) => Answer::Activated(Err(refusal.clone())),
            Ask::Erase(_) => Answer::Erased(Err(refusal.clone())),
            Ask::Challenge(_) => Answer::Challenged(Err(refusal.clone())),
            _ => Answer::Done(Err(refusal.clone())),
        }
    }
}
