//! Which policy is best by the newest records, as for one log: by doubly robust estimates.

use std::sync::Arc;

use super::comparison::Comparison;
use super::member::Member;
use super::tasks::Trial;
use super::{MemberReport, PREDICTS_BETTER};
use crate::error::Result;
use crate::logs::Logs;
use crate::policy::Policy;

/// What records that no member has seen say about policies, and about the predictions of members.
pub(super) struct Estimates {
    predictions: Comparison,
    /// Which members predict rewards.
    predicts: Vec<bool>,
    risks: Vec<f64>,
}

impl Estimates {
    pub(super) fn new(policies: &[&dyn Policy], members: &[Member], unseen: &[Arc<Logs>]) -> Result<Self> {
        let predictors: Vec<_> = members.iter().map(Member::predictor).collect();
        let predicts: Vec<bool> = predictors.iter().map(Option::is_some).collect();
        let records: usize = unseen.iter().map(|logs| logs.len()).sum();
        // So that no single record decides.
        let trial = Trial { policies, predictors, most: (records as f64).sqrt() };
        let mut predictions = Comparison::new(members.len());
        let mut sums = vec![(0.0, vec![0.0; policies.len()]); members.len()];
        for part in unseen.iter().flat_map(|logs| logs.pieces()) {
            let tried = part.over(&trial)?.unwrap_or_default();
            for ((errors, rewards), own) in sums.iter_mut().zip(&tried) {
                own.errors.iter().for_each(|error| *errors += error);
                let each = rewards.iter_mut().zip(&own.rewards);
                each.for_each(|(sum, rewards)| rewards.iter().for_each(|reward| *sum += reward));
            }
            let compared = tried.into_iter().zip(&predicts).map(|(tried, predicts)| predicts.then_some(tried.errors));
            predictions.add(&compared.collect::<Vec<_>>());
        }
        // Of equals, the first.
        let better = |best: usize, next: usize| if sums[next].0 > sums[best].0 { next } else { best };
        let best = (0..members.len()).filter(|&place| predicts[place]).reduce(better).unwrap_or(0);
        let risks = sums[best].1.iter().map(|sum| -sum / records as f64).collect();
        Ok(Estimates { predictions, predicts, risks })
    }

    /// The estimated risk of each policy: the doubly robust estimate `-mean(sum_a p_a rhat_a + w (r - rhat))`, with the reward
    /// model of the member whose predictions have the smallest squared error; with `rhat = 0` if no member predicts rewards.
    ///
    /// Far from the policy that collected, importance weighting alone says next to nothing: a few records carry all the
    /// weight. Weights are limited to the root of the number of records.
    pub(super) fn risks(&self) -> &[f64] {
        &self.risks
    }

    /// The best member, by its place.
    ///
    /// Of the reward models it is the one that predicts best, or the `usual` one if none is clearly better: errors of
    /// predictions differ far less by chance than estimates of policies. Between that one and members that predict nothing,
    /// the doubly robust estimates in the reports decide.
    pub(super) fn best(&self, usual: usize, reports: &[MemberReport]) -> usize {
        let model = self.predictions.leader(usual, PREDICTS_BETTER);
        let stands = reports.iter().enumerate().filter(|&(place, _)| place == model || !self.predicts[place]);
        let scores = stands.filter_map(|(place, report)| Some((place, report.modelled?)));
        scores.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(usual, |(place, _)| place)
    }
}
