//! The settings of a portfolio.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, check_setting};
use crate::policy::{LinearGaussian, Policy};

/// The settings of a portfolio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Portfolio {
    /// The learners in it. `None` is for the usual ones: all of them for [one log](Portfolio::one_log), and all but
    /// [`Logistic`](MemberKind::Logistic) otherwise, which brings nothing while learning goes on.
    pub members: Option<Members>,
    /// How widely reward models explore, above 0: 1 samples from their posterior. `None` is the
    /// [usual](Portfolio::usual_v) one.
    pub v: Option<f64>,
    /// The same for the policy that is handed over.
    pub hand_over: f64,
    /// Which of the two policies is the result, where there is one: [`retrain`](crate::learn::retrain) returns it. A
    /// session runs one, and reports both.
    pub goal: Goal,
    /// Whether the records are one log of policies that do not learn from it: [`retrain`](crate::learn::retrain) sets it. Then
    /// kernel features have the contexts beside them. A policy that explores would lose actions by that: one that was tried
    /// in a few wrong contexts would have a low score wherever contexts point the same way.
    pub one_log: bool,
}

/// What a policy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// To be handed over: it explores as little as it can.
    #[default]
    Policy,
    /// To bring reward while learning goes on: it collects the next logs, and explores.
    Reward,
}

impl FromStr for Goal {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "policy" => Ok(Goal::Policy),
            "reward" => Ok(Goal::Reward),
            _ => Err(Error::setting("goal", "policy or reward", text)),
        }
    }
}

impl Default for Portfolio {
    fn default() -> Self {
        Portfolio { members: None, v: None, hand_over: Portfolio::HAND_OVER, goal: Goal::default(), one_log: false }
    }
}

impl Portfolio {
    /// Thompson sampling: one reward model, on the features of the first policy.
    pub fn thompson() -> Self {
        Portfolio { members: Some(Members::LINEAR), ..Portfolio::default() }
    }

    /// The learners in it.
    pub fn members(&self) -> Members {
        self.members.unwrap_or(if self.one_log { Members::ALL } else { Members::IN_A_LOOP })
    }

    /// How widely reward models explore: to collect, and when they are handed over.
    pub(super) fn widths(&self, first: &LinearGaussian) -> [f64; 2] {
        [self.v.unwrap_or_else(|| Portfolio::usual_v(first.actions())), self.hand_over]
    }

    pub(crate) fn check(&self) -> Result<()> {
        for (name, v) in [("thompson-v", self.v.unwrap_or(1.0)), ("hand-over-v", self.hand_over)] {
            check_setting(name, v, v > 0.0, "above 0")?;
        }
        Ok(())
    }

    /// How widely the policy that is handed over explores, if nothing else is given.
    pub const HAND_OVER: f64 = 0.1;

    /// The share of the exploration floor that the policy of a reward model keeps when it is handed over: it is not there
    /// to collect logs, but some of them may be learned from all the same.
    pub const HAND_OVER_FLOOR: f64 = 0.2;

    /// How widely reward models explore with this many actions: 0.5 for up to 10, then less in proportion to their number, and 0.1
    /// from 50 on. With 6 to 10 actions, 1 costs 0.03 to 0.07 of reward, and 0.25 loses actions for good on some sets;
    /// with 47 and 100, 0.1 is better than 0.5.
    pub fn usual_v(actions: usize) -> f64 {
        (5.0 / actions as f64).clamp(0.1, 0.5)
    }
}

/// A member of a portfolio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MemberKind {
    /// A reward model on kernel features, whose landmarks are contexts of earlier records.
    Kernel,
    /// A reward model on the features of the first policy.
    Linear,
    /// The same with logistic regressions, for rewards that are clicks.
    Logistic,
    /// The search of SeqAdjLS, with the first policy as prior.
    Search,
    /// A reward model on the leaves of boosted trees, which were grown from earlier records.
    Trees,
}

impl MemberKind {
    const ALL: [MemberKind; 5] =
        [MemberKind::Kernel, MemberKind::Linear, MemberKind::Logistic, MemberKind::Search, MemberKind::Trees];

    fn name(self) -> &'static str {
        match self {
            MemberKind::Kernel => "kernel",
            MemberKind::Linear => "linear",
            MemberKind::Logistic => "logistic",
            MemberKind::Search => "search",
            MemberKind::Trees => "trees",
        }
    }
}

impl fmt::Display for MemberKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of members, never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Members(u8);

impl Members {
    /// All members.
    pub const ALL: Members = Members(0b11111);

    /// The usual members while learning goes on.
    const IN_A_LOOP: Members = Members(0b11111 & !(1 << MemberKind::Logistic as u8));

    /// The reward model on the features of the first policy, alone.
    pub const LINEAR: Members = Members(1 << MemberKind::Linear as u8);

    /// One member alone.
    pub fn only(kind: MemberKind) -> Self {
        Members(1 << kind as u8)
    }

    /// The members, in a fixed order.
    pub fn kinds(self) -> impl Iterator<Item = MemberKind> {
        MemberKind::ALL.into_iter().filter(move |&kind| self.0 & (1 << kind as u8) != 0)
    }
}

impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.kinds().map(MemberKind::name).collect();
        f.pad(&names.join(","))
    }
}

impl FromStr for Members {
    type Err = Error;

    /// Parses a list such as `kernel,linear`, or `all`.
    fn from_str(text: &str) -> Result<Self> {
        if text == "all" {
            return Ok(Members::ALL);
        }
        let mut set = 0;
        for name in text.split(',').map(str::trim) {
            let Some(kind) = MemberKind::ALL.into_iter().find(|kind| kind.name() == name) else {
                return Err(Error::setting(
                    "members",
                    format!("usual, all, or some of {}, separated by commas", Members::ALL),
                    text,
                ));
            };
            set |= 1 << kind as u8;
        }
        Ok(Members(set))
    }
}

impl TryFrom<String> for Members {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Members> for String {
    fn from(members: Members) -> String {
        members.to_string()
    }
}
