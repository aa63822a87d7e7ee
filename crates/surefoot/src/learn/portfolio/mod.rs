//! PORTFOLIO: several learners beside each other. In each round the best of them make the next policies.
//!
//! 1. Every member learns from the records that are not held back ([`Member`]).
//! 2. Reward models are compared by their predictions for records that are new, before they learn from them.
//! 3. The records held back judge the policies of all members. Their verdict chooses the leader of the *next* round. So a
//!    policy never depends on the records that certify it, and no certificate pays for the choice.
//! 4. There are two answers. A reward model, the *explorer*, gives the policy that collects the next round: it explores where it
//!    knows little. The *leader* gives the policy to hand over. It is the explorer, unless another member clearly brings more.
//!    A search never collects beside a reward model: it explores little, and loses actions for good.
//! 5. Reward models begin with what the first policy knows: its probabilities are features of theirs.
//!
//! Members that lose are fitted again only when the number of records has doubled.

mod checkpoint;
mod choice;
mod comparison;
mod knowledge;
mod learned;
mod member;
mod settings;
mod tasks;
mod verdict;

pub use checkpoint::PortfolioCheckpoint;
pub use settings::{Goal, MemberKind, Members, Portfolio};
pub(crate) use tasks::{Calibration, Errors, Predictor, Trial};

use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use self::choice::Estimates;
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
    /// The member whose policy collects the next round, by its place.
    explorer: usize,
    /// The member whose policy is handed over.
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
    /// Whether its policy is the one to hand over.
    pub leads: bool,
    /// Whether its policy collects the next round.
    pub explores: bool,
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
            let Self { member, leads, explores, records, estimate, modelled, upper, .. } = report;
            (*member, *leads, *explores, *records, *estimate, *modelled, *upper)
        };
        content(self) == content(other)
    }
}

impl Memory {
    fn new(portfolio: &Portfolio, first: &LinearGaussian, learner: &Learner) -> Result<Self> {
        let members: Vec<Member> = portfolio
            .members()
            .kinds()
            .filter_map(|kind| Member::new(kind, first, learner).transpose())
            .collect::<Result<_>>()?;
        if members.is_empty() {
            let allowed = format!("one that can learn from {} features", first.features().output());
            return Err(Error::setting("members", allowed, portfolio.members()));
        }
        let find = |kind: MemberKind| members.iter().position(|member| member.kind() == kind);
        let models = [MemberKind::Kernel, MemberKind::Linear, MemberKind::Logistic, MemberKind::Trees];
        let explorer = models.into_iter().find_map(find).unwrap_or(0);
        // A first policy over candidates that prefers some of them knows something. Only a search begins with what it knows.
        let knows = first.joint().is_some() && first.posterior().mean().iter().any(|&mean| mean != 0.0);
        let leader = if knows { find(MemberKind::Search).unwrap_or(explorer) } else { explorer };
        let none = Comparison::new(members.len());
        Ok(Memory { members, predictions: none.clone(), rewards: none, explorer, leader, seen: 0 })
    }

    /// The estimated risks of other policies, on records that no member has seen.
    pub(super) fn estimated_risks(&self, policies: &[&dyn Policy], unseen: &[Arc<Logs>]) -> Result<Vec<f64>> {
        if policies.is_empty() {
            return Ok(Vec::new());
        }
        Ok(Estimates::new(policies, &self.members, unseen)?.risks().to_vec())
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
        let explorer = self.predictions.leader(self.explorer, PREDICTS_BETTER);
        if self.leader == self.explorer {
            self.leader = explorer;
        }
        self.explorer = explorer;
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
    let Memory { members, rewards, explorer, leader, .. } = &mut memory;
    let mut reports = Vec::with_capacity(members.len());
    let mut policies = 0;
    let newest = state.rounds.last().expect("a round was taken in");
    for (place, member) in members.iter_mut().enumerate() {
        observer.begins(&format!("learning, {}", member.kind()));
        let clock = Instant::now();
        let leads = place == *leader || place == *explorer;
        let fitted = member.fit(&state.rounds, seen, newest, widths, leads, observer)?;
        policies += member.chosen_from();
        reports.push(MemberReport {
            member: member.kind(),
            leads: false,
            explores: false,
            records: member.records(),
            estimate: None,
            modelled: None,
            upper: None,
            seconds: if fitted { clock.elapsed().as_secs_f64() } else { 0.0 },
        });
    }
    let (collects, before) = (*explorer, *leader);
    if members.len() > 1 {
        observer.begins("comparing");
    }
    if !unseen.is_empty() && members.len() > 1 {
        let mut values = Vec::new();
        for (member, report) in members.iter().zip(&mut reports) {
            let verdict = judge(&member.pair()?.hand_over, unseen, &learner.protocol)?;
            (report.estimate, report.upper) = (Some(verdict.estimate), Some(verdict.upper));
            values.push(Some(verdict.rewards));
        }
        rewards.fade();
        rewards.add(&values);
        *leader = rewards.leader(*explorer, BRINGS_MORE);
        if members[*leader].kind() != MemberKind::Search {
            *explorer = *leader;
        }
    }
    // If the newest records choose, the certificate pays for the number of policies.
    let by_newest = learner.choice == Choice::Newest && !unseen.is_empty();
    let estimates = if by_newest {
        let policies: Vec<&dyn Policy> =
            members.iter().map(|member| Ok(&member.pair()?.hand_over as &dyn Policy)).collect::<Result<_>>()?;
        let estimates = Estimates::new(&policies, members, unseen)?;
        reports.iter_mut().zip(estimates.risks()).for_each(|(report, &risk)| report.modelled = Some(risk));
        Some(estimates)
    } else {
        None
    };
    let searches = || members.iter().position(|member| member.kind() == MemberKind::Search);
    let leads = match (learner.choice, &estimates) {
        (Choice::Newest, Some(estimates)) => estimates.best(*explorer, &reports),
        // Nothing is held back to certify a reward model. A search has a bound on the records that it learned from.
        (Choice::Newest, None) => searches().unwrap_or(before),
        (Choice::Previous, _) => before,
    };
    let collects = if learner.choice == Choice::Newest { leads } else { collects };
    // One number for both policies.
    let chosen_from =
        if by_newest { policies } else { members[leads].chosen_from().max(members[collects].chosen_from()) };
    for (place, report) in reports.iter_mut().enumerate() {
        (report.leads, report.explores) = (place == leads, place == collects);
    }
    let (collects, hand_over) = (members[collects].pair()?.collects.clone(), members[leads].pair()?.hand_over.clone());
    let pair = Pair { collects, hand_over };
    state.portfolio = Some(Arc::new(memory));
    Ok(Stepped { pair, members: reports, chosen_from })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::Algorithm;
    use crate::worlds::{Environment, Synthetic, SyntheticSettings, Turn};
    use crate::{Contexts, FeatureMap};

    fn learner(members: &str) -> Learner {
        let portfolio = Portfolio { members: Some(members.parse().unwrap()), ..Portfolio::default() };
        Learner { algorithm: Algorithm::Portfolio(portfolio), held_back: 0.3, ..Learner::default() }
    }

    fn world() -> Synthetic {
        Synthetic::new(SyntheticSettings::default()).unwrap()
    }

    #[test]
    fn a_search_that_leads_is_handed_over_and_a_reward_model_collects() {
        let (world, learner) = (world(), learner("linear,search"));
        let first = world.first_policy(FeatureMap::identity(10), 0.2).unwrap();
        let logs = |round: usize| world.collect(&first, Turn { round, start: 200 * round, n: 200 }).unwrap();
        let (state, _) = learner.step(&State::new(first.clone()), &logs(0)).unwrap();
        let memory = state.portfolio.as_ref().unwrap();
        assert_eq!((memory.explorer, memory.leader), (0, 0));
        let led = Arc::new(Memory { leader: 1, ..Memory::clone(memory) });
        let (next, report) = learner.step(&State { portfolio: Some(led), ..state }, &logs(1)).unwrap();
        let [linear, search] = [0, 1].map(|place| next.portfolio.as_ref().unwrap().members[place].pair().unwrap());
        assert_eq!((&next.deployed, &next.current), (&linear.collects, &linear.collects));
        assert_eq!(next.hand_over.as_ref(), Some(&search.hand_over));
        assert_ne!(search.hand_over, linear.hand_over);
        let roles: Vec<_> = report.members.iter().map(|member| (member.leads, member.explores)).collect();
        assert_eq!(roles, [(false, true), (true, false)]);
    }

    #[test]
    fn very_many_features_have_a_linear_model_that_goes_on_from_a_checkpoint() {
        // One feature says which of 5 actions is right, and the others say nothing.
        let (n, p) = (400, 4000);
        let round = |round: usize| {
            let row = |i: usize| [(i % 5) as u32, (5 + (round * n + i) * 7 % (p - 5)) as u32];
            let offsets = (0..=n).map(|i| 2 * i).collect();
            let contexts = Contexts::sparse(offsets, (0..n).flat_map(row).collect(), vec![1.0; 2 * n], p).unwrap();
            let action: Vec<u32> = (0..n).map(|i| (i / 5 % 5) as u32).collect();
            let cost = (0..n).map(|i| if i % 5 == i / 5 % 5 { -1.0 } else { 0.0 }).collect();
            Logs::new(5, contexts, action, vec![0.2; n], cost).unwrap()
        };
        let learner = learner("linear");
        let first = LinearGaussian::standard(FeatureMap::identity(p), 5).unwrap();
        let (state, _) = learner.step(&State::new(first), &round(0)).unwrap();
        let (next, report) = learner.step(&state, &round(1)).unwrap();
        assert_eq!(report.members[0].member, MemberKind::Linear);
        let policy = next.hand_over.as_ref().unwrap();
        let right: f64 = (0..5)
            .map(|a| {
                let x = Contexts::sparse(vec![0, 1], vec![a], vec![1.0], p).unwrap();
                policy.distribution(&x, None).unwrap()[a as usize]
            })
            .sum();
        assert!(right > 4.9, "{right}");
        let Algorithm::Portfolio(portfolio) = &learner.algorithm else { unreachable!("it is a portfolio") };
        let checkpoint = state.portfolio.as_ref().unwrap().checkpoint();
        let restored = Memory::restore(checkpoint, portfolio, &learner, &state).unwrap();
        let (again, _) = learner.step(&State { portfolio: Some(Arc::new(restored)), ..state }, &round(1)).unwrap();
        assert_eq!(again.hand_over, next.hand_over);
    }

    #[test]
    fn reward_models_begin_with_what_the_first_policy_knows() {
        let world = world();
        let truth = world.truth(1).unwrap();
        let map = FeatureMap::identity(10);
        let [flat, weak] = [0.0, 0.2].map(|alpha| world.first_policy(map.clone(), alpha).unwrap());
        // The same few records of a uniform policy, and another first policy.
        let logs = world.collect(&flat, Turn { round: 0, start: 0, n: 60 }).unwrap();
        for members in ["kernel", "linear", "trees"] {
            let risk = |first: &LinearGaussian| {
                let (state, _) = learner(members).step(&State::new(first.clone()), &logs).unwrap();
                truth.risk(state.hand_over.as_ref().unwrap()).unwrap()
            };
            let (with, without) = (risk(&weak), risk(&flat));
            assert!(with < without - 0.05, "{members}: {with}, and {without} without");
        }
    }
}
