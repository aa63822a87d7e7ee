//! Which policy is best by the newest records, as for one log: by doubly robust estimates.

use std::sync::Arc;

use super::comparison::Comparison;
use super::member::Member;
use super::tasks::Rewards;
use super::{MemberReport, PREDICTS_BETTER};
use crate::error::Result;
use crate::logs::Logs;
use crate::policy::Policy;

/// The estimated risk of each policy on records that none has seen: the doubly robust estimate
/// `-mean(sum_a p_a rhat_a + w (r - rhat))`, with the reward model of the member whose predictions for these records have
/// the smallest squared error; with `rhat = 0` if no member predicts rewards.
///
/// Far from the policy that collected, importance weighting alone says next to nothing: a few records carry all the weight.
/// Weights are limited to the root of the number of records, so that no single record decides.
pub(super) fn estimated_risks(policies: &[&dyn Policy], members: &[Member], unseen: &[Arc<Logs>]) -> Result<Vec<f64>> {
    let best = best_predictor(members, unseen)?;
    let records: usize = unseen.iter().map(|logs| logs.len()).sum();
    let most = (records as f64).sqrt();
    let task = Rewards { policies, predictor: best.and_then(Member::predictor), most };
    let mut rewards = vec![0.0; policies.len()];
    for part in unseen.iter().flat_map(|logs| logs.pieces()) {
        for (sum, own) in rewards.iter_mut().zip(part.over(&task)?.unwrap_or_default()) {
            own.iter().for_each(|reward| *sum += reward);
        }
    }
    Ok(rewards.into_iter().map(|sum| -sum / records as f64).collect())
}

/// The best member by records that none has seen, by its place.
///
/// Of the reward models it is the one that predicts best, or the `usual` one if none is clearly better: errors of predictions
/// differ far less by chance than estimates of policies. Between that one and members that predict nothing, the doubly robust
/// estimates in the reports decide.
pub(super) fn best(members: &[Member], usual: usize, reports: &[MemberReport], unseen: &[Arc<Logs>]) -> Result<usize> {
    let mut predictions = Comparison::new(members.len());
    let mut predicts = vec![false; members.len()];
    for part in unseen.iter().flat_map(|logs| logs.pieces()) {
        let values = members.iter().map(|member| member.predicts(&part)).collect::<Result<Vec<_>>>()?;
        predicts.iter_mut().zip(&values).for_each(|(predicts, values)| *predicts |= values.is_some());
        predictions.add(&values);
    }
    let model = predictions.leader(usual, PREDICTS_BETTER);
    let stands = reports.iter().enumerate().filter(|&(place, _)| place == model || !predicts[place]);
    let scores = stands.filter_map(|(place, report)| Some((place, report.modelled?)));
    Ok(scores.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(usual, |(place, _)| place))
}

/// The member whose predictions have the smallest squared error, if any predicts.
fn best_predictor<'a>(members: &'a [Member], unseen: &[Arc<Logs>]) -> Result<Option<&'a Member>> {
    let mut best: Option<(&Member, f64)> = None;
    for member in members {
        // Values are minus squared errors.
        let mut sum = Some(0.0);
        for part in unseen.iter().flat_map(|logs| logs.pieces()) {
            let values = member.predicts(&part)?;
            sum = sum.zip(values).map(|(sum, values)| values.iter().fold(sum, |sum, value| sum + value));
        }
        if let Some(sum) = sum
            && best.is_none_or(|(_, most)| sum > most)
        {
            best = Some((member, sum));
        }
    }
    Ok(best.map(|(member, _)| member))
}
