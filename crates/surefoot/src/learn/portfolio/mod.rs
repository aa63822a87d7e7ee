//! PORTFOLIO: several learners beside each other. In each round one of them, the leader, makes the next policy.
//!
//! 1. Every member learns from the records that are not held back ([`Member`]).
//! 2. Reward models are compared by their predictions for records that are new, before they learn from them.
//! 3. The records held back judge the policies of all members. Their verdict chooses the leader of the *next* round. So a
//!    policy never depends on the records that certify it, and no certificate pays for the choice.
//! 4. The leader gives two policies: one to collect the next round, which explores, and one to hand over, which does not.
//!
//! Members that lose are fitted again only when the number of records has doubled.

mod checkpoint;
mod choice;
mod comparison;
mod member;
mod settings;
mod verdict;

pub use checkpoint::PortfolioCheckpoint;
pub use settings::{Goal, MemberKind, Members, Portfolio};

use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use self::comparison::Comparison;
use self::member::Member;
use self::verdict::judge;
use super::{Choice, Learner, State};
use crate::error::{Error, Result};
use crate::logs::Logs;
use crate::observer::Observer;
use crate::policy::{LinearGaussian, Policy};

/// What a portfolio remembers between rounds. Clones share the data.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    members: Vec<Member>,
    /// The squared errors of the predictions of reward models.
    predictions: Comparison,
    /// The rewards of the policies that would be handed over.
    rewards: Comparison,
    /// The member that makes the next policy, by its place.
    leader: usize,
    /// The number of records that were seen in the round before.
    seen: usize,
}

/// A reward model takes the lead from another if it predicts better by this many standard errors.
const PREDICTS_BETTER: f64 = 1.0;

/// A policy takes the lead if it brings more reward by this many standard errors. Importance weights have heavy tails, so
/// that fewer would often be wrong.
const BRINGS_MORE: f64 = 3.0;

/// The two policies of a member.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pair {
    /// Collects the next round.
    pub(super) collects: LinearGaussian,
    /// Is handed over when learning ends.
    pub(super) hand_over: LinearGaussian,
}

/// A member of a portfolio in one round. Two reports are equal if they differ only in the time that was needed.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct MemberReport {
    /// The member.
    pub member: MemberKind,
    /// Whether it made the policy of this round.
    pub leads: bool,
    /// The number of records that its policy was learned from.
    pub records: usize,
    /// The estimated risk of its policy, handed over, on the records held back in this round; `None` without any.
    pub estimate: Option<f64>,
    /// The same by the doubly robust estimator, with the reward model that predicts best. Only if the newest records choose
    /// the leader, which they do by it.
    pub modelled: Option<f64>,
    /// The upper bound of that risk, with all of delta for this member alone. It is a score and not a lasting statement.
    pub upper: Option<f64>,
    /// Seconds for fitting; 0 if it was not fitted in this round.
    pub seconds: f64,
}

impl PartialEq for MemberReport {
    fn eq(&self, other: &Self) -> bool {
        let content = |report: &Self| {
            let Self { member, leads, records, estimate, modelled, upper, .. } = report;
            (*member, *leads, *records, *estimate, *modelled, *upper)
        };
        content(self) == content(other)
    }
}

impl Memory {
    fn new(portfolio: &Portfolio, first: &LinearGaussian, learner: &Learner) -> Result<Self> {
        let members: Vec<Member> = portfolio
            .members
            .kinds()
            .filter_map(|kind| Member::new(kind, first, learner).transpose())
            .collect::<Result<_>>()?;
        if members.is_empty() {
            let allowed = format!("one that can learn from {} features", first.features().output());
            return Err(Error::setting("members", allowed, portfolio.members));
        }
        // A first policy that prefers some actions knows something. Only a search begins with what it knows.
        let flat = first.posterior().mean().iter().all(|&mean| mean == 0.0);
        let begins = match (flat, first.joint()) {
            (false, _) => MemberKind::Search,
            (true, None) => MemberKind::Kernel,
            (true, Some(_)) => MemberKind::Linear,
        };
        let leader = members.iter().position(|member| member.kind() == begins).unwrap_or(0);
        let none = Comparison::new(members.len());
        Ok(Memory { members, predictions: none.clone(), rewards: none, leader, seen: 0 })
    }

    /// The estimated risks of other policies, on records that no member has seen.
    pub(super) fn estimated_risks(&self, policies: &[&dyn Policy], unseen: &[Arc<Logs>]) -> Result<Vec<f64>> {
        choice::estimated_risks(policies, &self.members, unseen)
    }

    /// The lambda and the sharpness that its search chose, if it has one.
    pub(super) fn kept(&self) -> Option<(f64, f64)> {
        self.members.iter().find_map(Member::kept)
    }

    /// Compares the predictions of the reward models for the records that are new among those seen, and lets the best one
    /// lead if a reward model leads.
    fn compare_predictions(&mut self, seen: &[Arc<Logs>]) -> Result<()> {
        let records = seen.iter().map(|logs| logs.len()).sum();
        let mut left = std::mem::replace(&mut self.seen, records);
        self.predictions.fade();
        for logs in seen {
            let known = left.min(logs.len());
            left -= known;
            if known == logs.len() {
                continue;
            }
            let new = logs.slice(known..logs.len());
            let values = self.members.iter().map(|member| member.predicts(&new)).collect::<Result<Vec<_>>>()?;
            self.predictions.add(&values);
        }
        self.leader = self.predictions.leader(self.leader, PREDICTS_BETTER);
        Ok(())
    }
}

/// The result of a round.
pub(super) struct Stepped {
    pub(super) pair: Pair,
    pub(super) members: Vec<MemberReport>,
    /// The number of policies among which the records held back chose.
    pub(super) chosen_from: usize,
}

/// Learns from the rounds that are seen, and judges by those that are not.
pub(super) fn step(
    portfolio: &Portfolio,
    learner: &Learner,
    state: &mut State,
    seen: &[Arc<Logs>],
    unseen: &[Arc<Logs>],
    observer: &mut dyn Observer,
) -> Result<Stepped> {
    portfolio.check()?;
    let widths = portfolio.widths(&state.first);
    let mut memory = match state.portfolio.take() {
        // The verdict of the round before chooses now, so none of its records may certify.
        Some(_) if unseen.len() > 1 => {
            let allowed = "at most 1, because a portfolio is judged by its newest round";
            return Err(Error::setting("the number of rounds held back", allowed, learner.held_back));
        }
        Some(memory) => Arc::unwrap_or_clone(memory),
        None => {
            let mut memory = Memory::new(portfolio, &state.first, learner)?;
            let (_, earlier) = state.rounds.split_last().expect("a round was taken in");
            memory.members.iter_mut().try_for_each(|member| member.remember(earlier))?;
            memory
        }
    };
    memory.compare_predictions(seen)?;
    let Memory { members, rewards, leader, .. } = &mut memory;
    let mut reports = Vec::with_capacity(members.len());
    let mut policies = 0;
    let newest = state.rounds.last().expect("a round was taken in");
    for (place, member) in members.iter_mut().enumerate() {
        let clock = Instant::now();
        let fitted = member.fit(&state.rounds, seen, newest, widths, place == *leader, observer)?;
        policies += member.chosen_from();
        reports.push(MemberReport {
            member: member.kind(),
            leads: place == *leader,
            records: member.records(),
            estimate: None,
            modelled: None,
            upper: None,
            seconds: if fitted { clock.elapsed().as_secs_f64() } else { 0.0 },
        });
    }
    let before = *leader;
    if !unseen.is_empty() && members.len() > 1 {
        let mut values = Vec::new();
        for (member, report) in members.iter().zip(&mut reports) {
            let verdict = judge(&member.pair()?.hand_over, unseen, &learner.protocol)?;
            (report.estimate, report.upper) = (Some(verdict.estimate), Some(verdict.upper));
            values.push(Some(verdict.rewards));
        }
        rewards.fade();
        rewards.add(&values);
        *leader = rewards.leader(*leader, BRINGS_MORE);
    }
    // If the newest records choose, the certificate pays for the number of policies.
    let by_newest = learner.choice == Choice::Newest && !unseen.is_empty();
    if by_newest {
        let policies: Vec<&dyn Policy> =
            members.iter().map(|member| Ok(&member.pair()?.hand_over as &dyn Policy)).collect::<Result<_>>()?;
        let risks = choice::estimated_risks(&policies, members, unseen)?;
        reports.iter_mut().zip(risks).for_each(|(report, risk)| report.modelled = Some(risk));
    }
    let searches = || members.iter().position(|member| member.kind() == MemberKind::Search);
    let leads = match learner.choice {
        Choice::Newest if by_newest => lowest(&reports).unwrap_or(before),
        // Nothing is held back to certify a reward model. A search has a bound on the records that it learned from.
        Choice::Newest => searches().unwrap_or(before),
        Choice::Previous => before,
    };
    reports.iter_mut().enumerate().for_each(|(place, report)| report.leads = place == leads);
    let chosen_from = if by_newest { policies } else { members[leads].chosen_from() };
    let pair = members[leads].pair()?.clone();
    state.portfolio = Some(Arc::new(memory));
    Ok(Stepped { pair, members: reports, chosen_from })
}

/// The member with the lowest doubly robust estimate.
fn lowest(reports: &[MemberReport]) -> Option<usize> {
    let scores = reports.iter().enumerate().filter_map(|(place, report)| Some((place, report.modelled?)));
    scores.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(place, _)| place)
}
