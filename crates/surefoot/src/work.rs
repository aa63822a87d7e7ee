//! WORK: the part of learning that reads contexts, for processes that hold some of them.
//!
//! A round may be divided into shards, whose contexts are held by other processes ([`Logs::elsewhere`]). Learners and certificates
//! then send their tasks there by a [`Holder`](crate::logs::Holder), and [`perform`] does one task for one shard. It is the same
//! code that works on records in this process, and sums are merged by the same tree, so that every result has the same bits.
//!
//! A task and its result are bytes, which mean something to the same version of this crate only.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::features::{FeatureMap, SoftmaxFeatures};
use crate::fingerprint::Fingerprint;
use crate::learn::{Calibration, Errors, Predictor, Trial};
use crate::logs::{Asked, AskedView, Logs, RowsTask, Task, answered};
use crate::model::{Coefficients, LogisticTask, RewardModel, StatisticsTask};
use crate::objective::{Added, Probabilities, ReadSearch, Slopes};
use crate::policy::{LinearGaussian, Policy, Propensities, SecondMoments, in_view, read_view};
use crate::wire::Reader;

/// A part of a round, with its contexts.
#[derive(Debug)]
pub struct Shard {
    logs: Logs,
    first: usize,
    /// The newest view of the contexts. A search has the same view in every pass.
    viewed: Mutex<Option<(Fingerprint, Viewed)>>,
}

/// Features of some of the records.
#[derive(Debug, Clone)]
struct Viewed {
    logs: Logs,
    /// The first of these records in the shard.
    from: usize,
}

impl Shard {
    /// These records, of which the first has the number `first` in its round: a multiple of [`SPAN`](crate::logs::SPAN).
    pub fn new(logs: Logs, first: usize) -> Self {
        Shard { logs, first, viewed: Mutex::new(None) }
    }

    /// The records.
    pub fn logs(&self) -> &Logs {
        &self.logs
    }

    /// The part of a range of the round's records that is in the shard, counted from its first.
    fn own(&self, records: &Range<usize>) -> Range<usize> {
        let own = |record: usize| record.clamp(self.first, self.first + self.logs.len()) - self.first;
        own(records.start)..own(records.end)
    }

    /// The records that a task is about, with the features in place of their contexts.
    fn asked(&self, asked: &Asked<'_>) -> Result<Logs> {
        let own = self.own(&asked.records);
        if own.is_empty() {
            let allowed = format!("some of {} to {}", self.first, self.first + self.logs.len());
            return Err(Error::setting("the records of a task", allowed, format!("{:?}", asked.records)));
        }
        let Some(view) = &asked.view else { return Ok(self.logs.slice(own)) };
        let Viewed { logs, from } = self.viewed(view)?;
        match own.start >= from && own.end - from <= logs.len() {
            true => Ok(logs.slice(own.start - from..own.end - from)),
            false => Err(Error::setting("the records of a task", "among those that were mapped", "others")),
        }
    }

    fn viewed(&self, view: &AskedView<'_>) -> Result<Viewed> {
        let AskedView { map, leave_out, mapped } = view;
        let name = Fingerprint::of_bytes(&[*map, format!("{leave_out} {mapped:?}").as_bytes()].concat());
        let mut known = self.viewed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, viewed)) = known.as_ref().filter(|(known, _)| *known == name) {
            return Ok(viewed.clone());
        }
        // What is not needed any more is given back first.
        *known = None;
        let (features, basis) = read_view(map)?;
        let own = self.own(mapped);
        let from = own.start;
        let logs = self.logs.slice(own);
        let logs = logs.map_contexts(*leave_out, |contexts| in_view(&features, basis.as_ref(), contexts))?;
        let viewed = Viewed { logs, from };
        *known = Some((name, viewed.clone()));
        Ok(viewed)
    }
}

/// Does a task for the records of one shard that it is about. It changes nothing, and may be done again.
pub fn perform(task: &str, payload: &[u8], shard: &Shard) -> Result<Vec<u8>> {
    let mut from = Reader::new(payload);
    let asked = Asked::read(&mut from)?;
    let logs = shard.asked(&asked)?;
    let from = &mut from;
    match task {
        StatisticsTask::NAME => {
            let (actions, map) = (from.count()?, FeatureMap::read(from)?);
            from.end()?;
            answered(&StatisticsTask { map: &map, actions }, &logs)
        }
        LogisticTask::NAME => {
            let (map, actions) = (FeatureMap::read(from)?, from.count()?);
            let coefficients = Coefficients::read(from, actions.saturating_mul(map.output()))?;
            from.end()?;
            answered(&LogisticTask { map: &map, actions, coefficients: &coefficients }, &logs)
        }
        SecondMoments::NAME => {
            let map = FeatureMap::read(from)?;
            from.end()?;
            answered(&SecondMoments { map: &map }, &logs)
        }
        Propensities::NAME => {
            let (weighing, policy) = (from.flag()?, LinearGaussian::read(from)?);
            from.end()?;
            answered(&Propensities { policy: &policy, weighing }, &logs)
        }
        RowsTask::NAME => {
            let (step, first) = (from.count()?, from.count()?);
            from.end()?;
            if step == 0 {
                return Err(Error::setting("the step of a task", "above 0", step));
            }
            answered(&RowsTask { step, first, shard: shard.first }, &logs)
        }
        Errors::NAME => {
            let (map, model) = (FeatureMap::read(from)?, RewardModel::read(from)?);
            from.end()?;
            answered(&Errors(Predictor::Features(&map, &model)), &logs)
        }
        Trial::NAME => {
            let most = from.double()?;
            let model = |from: &mut Reader<'_>| -> Result<Option<(FeatureMap, RewardModel)>> {
                Ok(if from.flag()? { Some((FeatureMap::read(from)?, RewardModel::read(from)?)) } else { None })
            };
            let models = (0..from.count()?).map(|_| model(from)).collect::<Result<Vec<_>>>()?;
            let policies = (0..from.count()?).map(|_| LinearGaussian::read(from)).collect::<Result<Vec<_>>>()?;
            from.end()?;
            let policies: Vec<&dyn Policy> = policies.iter().map(|policy| policy as &dyn Policy).collect();
            let models = models.iter().map(Option::as_ref);
            let predictors = models.map(|model| model.map(|(map, model)| Predictor::Features(map, model))).collect();
            answered(&Trial { policies: &policies, predictors, most }, &logs)
        }
        Calibration::NAME => {
            let all = (0..from.count()?).map(|_| SoftmaxFeatures::read(from)).collect::<Result<Vec<_>>>()?;
            from.end()?;
            answered(&Calibration(&all), &logs)
        }
        Added::NAME => {
            let search = ReadSearch::read(from)?;
            let slopes = if from.flag()? { Some(Slopes::read(from)?) } else { None };
            from.end()?;
            search.with(&logs, |search, x, point| {
                answered(&Added { search, x, point, slopes: slopes.as_ref(), shard: shard.first }, &logs)
            })
        }
        Probabilities::NAME => {
            let search = ReadSearch::read(from)?;
            from.end()?;
            search.with(&logs, |search, x, point| answered(&Probabilities { search, x, point }, &logs))
        }
        _ => Err(Error::setting("a task", "one that this version knows", task)),
    }
}
