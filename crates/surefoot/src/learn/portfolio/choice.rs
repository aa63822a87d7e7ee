//! Which policy is best by the newest records, as for one log: by doubly robust estimates.

use std::sync::Arc;

use super::comparison::Comparison;
use super::member::Member;
use super::tasks::Rewards;
use super::{MemberReport, PREDICTS_BETTER};
use crate::error::Result;
use crate::logs::Logs;
use crate::policy::Policy;

/// What members predict for records that none has seen.
pub(super) struct Predictions<'a> {
    members: &'a [Member],
    unseen: &'a [Arc<Logs>],
    compared: Comparison,
    /// Minus the sum of the squared errors of each member that predicts.
    errors: Vec<Option<f64>>,
}

impl<'a> Predictions<'a> {
    pub(super) fn new(members: &'a [Member], unseen: &'a [Arc<Logs>]) -> Result<Self> {
        let mut compared = Comparison::new(members.len());
        let mut errors = vec![Some(0.0); members.len()];
        for part in unseen.iter().flat_map(|logs| logs.pieces()) {
            let values = members.iter().map(|member| member.predicts(&part)).collect::<Result<Vec<_>>>()?;
            compared.add(&values);
            for (sum, own) in errors.iter_mut().zip(&values) {
                *sum = sum.zip(own.as_ref()).map(|(sum, own)| own.iter().fold(sum, |sum, value| sum + value));
            }
        }
        Ok(Predictions { members, unseen, compared, errors })
    }

    /// The estimated risk of each policy on these records: the doubly robust estimate `-mean(sum_a p_a rhat_a + w (r - rhat))`,
    /// with the reward model of the member whose predictions have the smallest squared error; with `rhat = 0` if no member
    /// predicts rewards.
    ///
    /// Far from the policy that collected, importance weighting alone says next to nothing: a few records carry all the
    /// weight. Weights are limited to the root of the number of records, so that no single record decides.
    pub(super) fn estimated_risks(&self, policies: &[&dyn Policy]) -> Result<Vec<f64>> {
        let records: usize = self.unseen.iter().map(|logs| logs.len()).sum();
        let most = (records as f64).sqrt();
        let task = Rewards { policies, predictor: self.best_predictor().and_then(Member::predictor), most };
        let mut rewards = vec![0.0; policies.len()];
        for part in self.unseen.iter().flat_map(|logs| logs.pieces()) {
            for (sum, own) in rewards.iter_mut().zip(part.over(&task)?.unwrap_or_default()) {
                own.iter().for_each(|reward| *sum += reward);
            }
        }
        Ok(rewards.into_iter().map(|sum| -sum / records as f64).collect())
    }

    /// The best member by these records, by its place.
    ///
    /// Of the reward models it is the one that predicts best, or the `usual` one if none is clearly better: errors of
    /// predictions differ far less by chance than estimates of policies. Between that one and members that predict nothing,
    /// the doubly robust estimates in the reports decide.
    pub(super) fn best(&self, usual: usize, reports: &[MemberReport]) -> usize {
        let model = self.compared.leader(usual, PREDICTS_BETTER);
        let stands = reports.iter().enumerate().filter(|&(place, _)| place == model || self.errors[place].is_none());
        let scores = stands.filter_map(|(place, report)| Some((place, report.modelled?)));
        scores.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(usual, |(place, _)| place)
    }

    /// The member whose predictions have the smallest squared error, if any predicts. Of equals, it is the first.
    fn best_predictor(&self) -> Option<&'a Member> {
        let mut best: Option<(&Member, f64)> = None;
        for (member, errors) in self.members.iter().zip(&self.errors) {
            if let Some(sum) = *errors
                && best.is_none_or(|(_, most)| sum > most)
            {
                best = Some((member, sum));
            }
        }
        best.map(|(member, _)| member)
    }
}
