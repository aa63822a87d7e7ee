//! One pass over the logs: the evaluators of all policies, and the flaws of the logs.

use surefoot::evaluation::{EvaluationSettings, Modelled, Observed};
use surefoot::{Evaluator, RewardRange};

use super::elsewhere::Elsewhere;
use super::{NamedPolicy, RewardModel};
use crate::error::{Error, Result, at};
use crate::lint::Screen;
use crate::logs::{Actions, Check, LogBatch, LogReader, Records};
use crate::record_policy::RecordPolicy;
use crate::rounds::given_with_candidates;
use crate::scan::{Grouping, Scan};

/// A warning about a policy that was learned from logs: if it was learned from these logs, the results are too
/// optimistic.
pub(crate) fn learned(policy: &RecordPolicy) -> Option<String> {
    let text = "was learned from logs: if these logs are among them, its results here are too optimistic";
    policy.was_learned().then(|| text.into())
}

/// The actions that the user gave or that the policies know, or else those in the logs. All that know their actions must
/// agree.
///
/// A uniform policy needs actions that do not come from the logs. Over the actions that happen to occur, it is not a
/// fixed policy: it depends on the records, and its value is overestimated.
pub(crate) fn actions_of(policies: &[NamedPolicy], reader: &LogReader) -> Result<Actions> {
    let Some(first) = reader.batches().next().transpose()? else {
        return Ok(Scan::of(reader, &Grouping::File)?.actions);
    };
    if first.has_candidates() {
        if let Some(given) = reader.given_actions() {
            return Err(given_with_candidates(given));
        }
        // The numbers of candidates are found batch by batch.
        return places(&first);
    }
    let mut known: Option<(&str, Actions)> =
        reader.given_actions().map(|actions| ("the option actions", reader.named(actions)));
    for NamedPolicy { name, policy } in policies {
        let Some(actions) = policy.actions(&first)? else { continue };
        match &known {
            Some((other, found)) if *found != actions => {
                return Err(Error::Malformed {
                    place: name.to_owned(),
                    reason: format!(
                        "should have the same actions as {other}, {}, but has {}",
                        found.described(),
                        actions.described()
                    ),
                });
            }
            Some(_) => {}
            None => known = Some((name, actions)),
        }
    }
    match known {
        Some((_, actions)) => Ok(actions),
        None => {
            let scan = Scan::of(reader, &Grouping::File)?;
            let uniform = policies.iter().find(|named| named.policy.needs_actions());
            match uniform.filter(|_| !scan.eligible) {
                None => Ok(scan.actions),
                Some(NamedPolicy { name, .. }) => Err(Error::Malformed {
                    place: name.clone(),
                    reason:
                        "the uniform policy needs all actions, and not only those that occur in the logs: give them \
                        (option actions), or log the eligible actions of every record"
                            .into(),
                }),
            }
        }
    }
}

/// The error about the missing column of an action, if the columns of a policy say which actions there are: the action
/// is not wrong, the columns are incomplete.
fn unknown_action(policies: &[NamedPolicy], reader: &LogReader, actions: &Actions, batch: &LogBatch) -> Option<Error> {
    let (Actions::Names(_), None) = (actions, reader.given_actions()) else { return None };
    policies.iter().find_map(|named| match &named.policy {
        RecordPolicy::Given(cells) => cells.without_column(batch),
        _ => None,
    })
}

/// The actions of a batch whose records have candidates: their places.
fn places(batch: &LogBatch) -> Result<Actions> {
    Ok(Actions::Count(batch.candidates()?.map_or(2, |candidates| candidates.most.max(2))))
}

/// The result of a pass over the logs.
pub(crate) struct Seen {
    /// An evaluator for each policy.
    pub(crate) evaluators: Vec<Evaluator>,
    /// The number of skipped records.
    pub(crate) skipped: usize,
    /// Flaws of the logs for which nothing may be called certified.
    pub(crate) flaws: Vec<String>,
}

/// Goes over the logs once. `on_batch` is called with the number of records of each batch.
pub(crate) fn observe(
    model: &RewardModel,
    policies: &[NamedPolicy],
    reader: &LogReader,
    actions: &Actions,
    reward_range: [f64; 2],
    settings: &EvaluationSettings,
    mut on_batch: impl FnMut(usize),
) -> Result<Seen> {
    let place = reader.place();
    let range = RewardRange::new(reward_range[0], reward_range[1])?;
    let mut elsewhere = Elsewhere::new(policies, reader, actions, reward_range)?;
    let mut evaluators: Vec<Evaluator> =
        policies.iter().map(|_| Evaluator::new(settings)).collect::<surefoot::Result<_>>()?;
    let mut check = Check::new(actions.clone(), range);
    let mut screen = Screen::default();
    let mut batches = reader.batches();
    for batch in batches.by_ref() {
        let batch = batch?;
        let records = check
            .records(&batch)
            .map_err(|error| unknown_action(policies, reader, actions, &batch).unwrap_or(error))?;
        screen.add(&batch, &records)?;
        let actions = match batch.has_candidates() {
            true => &places(&batch)?,
            false => actions,
        };
        let predicted = model.predict(&batch, actions, range)?;
        for (i, (NamedPolicy { policy, .. }, evaluator)) in policies.iter().zip(&mut evaluators).enumerate() {
            let computed = elsewhere.as_mut().map(|elsewhere| elsewhere.propensity(i, &batch)).transpose()?.flatten();
            add(evaluator, policy, &batch, &records, actions, predicted.as_deref(), computed)?;
        }
        on_batch(batch.len());
    }
    Ok(Seen { evaluators, skipped: batches.skipped(), flaws: screen.flaws(&place, actions, |_| "")? })
}

/// Adds the records of a batch to the evaluator of a policy, whose probabilities of the logged actions may have been computed
/// already.
fn add(
    evaluator: &mut Evaluator,
    policy: &RecordPolicy,
    batch: &LogBatch,
    records: &Records,
    actions: &Actions,
    predicted: Option<&[f64]>,
    computed: Option<Vec<f64>>,
) -> Result<()> {
    let (q, c) = (&records.propensity[..], &records.cost[..]);
    let Some(predicted) = predicted else {
        let p = computed.map_or_else(|| policy.propensity(batch, records, actions), Ok)?;
        return at(batch.place(), evaluator.add(&Observed { p: &p, q, c, model: None, custom: &[] }));
    };
    let k = actions.len();
    let distribution = policy.distribution(batch, records.eligible.as_ref(), actions)?;
    let place = |row: usize| row * k + records.action[row] as usize;
    let p: Vec<f64> = (0..batch.len()).map(|row| distribution[place(row)]).collect();
    let logged: Vec<f64> = (0..batch.len()).map(|row| predicted[place(row)]).collect();
    let rows = distribution.chunks_exact(k).zip(predicted.chunks_exact(k));
    let mean: Vec<f64> = rows.map(|(p, c)| p.iter().zip(c).map(|(p, c)| p * c).sum()).collect();
    let model = Some(Modelled { logged: &logged, mean: &mean });
    at(batch.place(), evaluator.add(&Observed { p: &p, q, c, model, custom: &[] }))
}
