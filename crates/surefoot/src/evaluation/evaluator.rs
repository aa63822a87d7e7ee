//! One pass over the records.

use rayon::prelude::*;

use super::anytime::Anytime;
use super::bernstein::bernstein;
use super::bootstrap::{BUCKETS, Buckets, percentiles, replicates};
use super::estimator::Estimator;
use super::moments::Moments;
use super::settings::EvaluationSettings;
use super::stripe::{BLOCK, ColumnPlan, STRIPES, Stripe};
use super::weights::WeightSums;
use super::{Contrast, Estimate, Evaluation, LIMIT, Modelled, Observed, Weights};
use crate::certificate::Protocol;
use crate::error::{Error, Result};
use crate::policy::probability;

/// The running sums for the evaluation of one policy. Records are added batch by batch.
///
/// ```
/// use surefoot::evaluation::{Estimator, EvaluationSettings, Observed};
/// use surefoot::Evaluator;
///
/// let settings = EvaluationSettings { estimators: vec![Estimator::SelfNormalised], ..Default::default() };
/// let mut evaluator = Evaluator::new(&settings)?;
/// evaluator.add(&Observed { p: &[0.5, 0.5], q: &[0.25, 0.5], c: &[-1.0, 0.0], model: None, custom: &[] })?;
/// evaluator.add(&Observed { p: &[0.1], q: &[0.2], c: &[-0.5], model: None, custom: &[] })?;
/// let evaluation = evaluator.finish()?;
/// assert_eq!(evaluation.records, 3);
/// assert!((evaluation.estimates[0].value - (-2.0 - 0.25) / 3.5).abs() < 1e-15);
/// # Ok::<(), surefoot::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Evaluator {
    settings: EvaluationSettings,
    plan: ColumnPlan,
    stripes: Vec<Stripe>,
    /// The index in the stream of the first record.
    first: usize,
    /// The number of full blocks in the stripes.
    blocks: usize,
    pending: Pending,
}

/// The records after the last full block.
#[derive(Debug, Clone, Default)]
struct Pending {
    p: Vec<f64>,
    q: Vec<f64>,
    c: Vec<f64>,
    model: Option<(Vec<f64>, Vec<f64>)>,
    custom: Vec<f64>,
}

impl Pending {
    fn extend(&mut self, records: &Observed<'_>) {
        self.p.extend(records.p);
        self.q.extend(records.q);
        self.c.extend(records.c);
        self.custom.extend(records.custom);
        if let (Some((logged, mean)), Some(model)) = (&mut self.model, records.model) {
            logged.extend(model.logged);
            mean.extend(model.mean);
        }
    }

    fn view(&self) -> Observed<'_> {
        let model = self.model.as_ref().map(|(logged, mean)| Modelled { logged, mean });
        Observed { p: &self.p, q: &self.q, c: &self.c, model, custom: &self.custom }
    }

    fn clear(&mut self) {
        let Pending { p, q, c, model, custom } = self;
        let model = model.iter_mut().flat_map(|(logged, mean)| [logged, mean]);
        [p, q, c, custom].into_iter().chain(model).for_each(Vec::clear);
    }
}

/// The sums of all stripes.
struct Joined {
    moments: Moments,
    anytime: Anytime,
    buckets: Buckets,
    weights: WeightSums,
    zeros: usize,
}

impl Evaluator {
    /// Starts with no records.
    pub fn new(settings: &EvaluationSettings) -> Result<Self> {
        settings.check()?;
        let plan = ColumnPlan::new(settings);
        let stripes = (0..STRIPES).map(|_| Stripe::new(&plan)).collect();
        let model = settings.estimators.iter().any(Estimator::needs_model).then(Default::default);
        let pending = Pending { model, ..Pending::default() };
        Ok(Evaluator { settings: settings.clone(), plan, stripes, first: 0, blocks: 0, pending })
    }

    /// The number of records so far.
    pub fn records(&self) -> usize {
        self.blocks * BLOCK + self.pending.p.len()
    }

    /// Adds the next records. An error names the row in the whole stream and leaves the evaluator unchanged.
    pub fn add(&mut self, records: &Observed<'_>) -> Result<()> {
        self.check(records)?;
        let mut rest = *records;
        if !self.pending.p.is_empty() {
            let taken = rest.len().min(BLOCK - self.pending.p.len());
            self.pending.extend(&rest.slice(0..taken));
            rest = rest.slice(taken..rest.len());
            if self.pending.p.len() < BLOCK {
                return Ok(());
            }
            self.stripes[self.blocks % STRIPES].add(&self.plan, &self.pending.view());
            self.pending.clear();
            self.blocks += 1;
        }
        let (whole, first, plan) = (rest.len() / BLOCK, self.blocks, &self.plan);
        let add = |(stripe, sums): (usize, &mut Stripe)| {
            for b in (0..whole).filter(|b| (first + b) % STRIPES == stripe) {
                sums.add(plan, &rest.slice(b * BLOCK..(b + 1) * BLOCK));
            }
        };
        if whole > 1 {
            self.stripes.par_iter_mut().enumerate().for_each(add);
        } else {
            self.stripes.iter_mut().enumerate().for_each(add);
        }
        self.blocks += whole;
        self.pending.extend(&rest.slice(whole * BLOCK..rest.len()));
        Ok(())
    }

    /// An evaluator for the records from index `first` of a stream on; `first` must be a multiple of
    /// [`SHARD`](Evaluator::SHARD). It can be [merged](Evaluator::merge) into the evaluator of the records before it.
    pub fn starting_at(settings: &EvaluationSettings, first: usize) -> Result<Self> {
        if !first.is_multiple_of(Self::SHARD) {
            let allowed = format!("a multiple of {}", Self::SHARD);
            return Err(Error::setting("the first record of a shard", allowed, first));
        }
        Ok(Evaluator { first, ..Self::new(settings)? })
    }

    /// Shards of a stream start at multiples of this many records.
    pub const SHARD: usize = BUCKETS;

    /// Adds the sums of another evaluator with the same settings, which has seen the records that come next. The result
    /// depends only on where the stream was cut, not on which evaluator added which records when.
    pub fn merge(&mut self, next: &Evaluator) -> Result<()> {
        if self.settings != next.settings {
            return Err(Error::setting("the settings of both evaluators", "the same", "not"));
        }
        if !self.pending.p.is_empty() || next.first != self.first + self.records() {
            let allowed = format!("at record {}, where this one ends", self.first + self.records());
            return Err(Error::setting("the beginning of the next shard", allowed, next.first));
        }
        for (own, other) in self.stripes.iter_mut().zip(&next.stripes) {
            own.merge(&self.plan, other);
        }
        self.blocks += next.blocks;
        self.pending = next.pending.clone();
        Ok(())
    }

    fn check(&self, records: &Observed<'_>) -> Result<()> {
        let Observed { p, q, c, model, custom } = *records;
        let n = p.len();
        let fits = |column: &str, found: usize| match found == n {
            true => Ok(()),
            false => Err(Error::size(column, format!("{n} entries, one for each p"), found)),
        };
        fits("q", q.len())?;
        fits("c", c.len())?;
        let count = self.settings.estimators.iter().filter(|e| matches!(e, Estimator::Custom { .. })).count();
        if custom.len() != n * count {
            let expected = format!("{n} records x {count} of the estimators");
            return Err(Error::size("the custom terms", expected, custom.len()));
        }
        if let Some(i) = custom.iter().position(|h| !h.is_finite()) {
            let (row, column) = (self.records() + i / count, format!("custom term {}", i % count));
            return Err(Error::value(row, column, "finite", custom[i]));
        }
        let first = self.records();
        let largest = self.settings.largest_weight.map_or(f64::MAX, |largest| largest * (1.0 + 1e-9));
        let sound = |p: f64, q: f64, c: f64| {
            let p = probability(p);
            (0.0..=1.0).contains(&p) && q > 0.0 && q <= 1.0 && (-1.0..=0.0).contains(&c) && p / q <= largest
        };
        if let Some(i) = (0..n).find(|&i| !sound(p[i], q[i], c[i])) {
            let (row, p, q, c) = (first + i, probability(p[i]), q[i], c[i]);
            return Err(if !(0.0..=1.0).contains(&p) {
                Error::value(row, "the probability of the logged action", "in [0, 1]", p)
            } else if !(q > 0.0 && q <= 1.0) {
                Error::value(row, "propensity", "in (0, 1]", q)
            } else if !(-1.0..=0.0).contains(&c) {
                Error::value(row, "cost", "in [-1, 0]", c)
            } else {
                let allowed = self.settings.largest_weight.map_or("finite".into(), |w| format!("at most {w}"));
                Error::value(row, "the weight p/q", allowed, p / q)
            });
        }
        if self.pending.model.is_none() {
            return Ok(());
        }
        let Some(Modelled { logged, mean }) = model else {
            let needs = self.settings.estimators.iter().find(|estimator| estimator.needs_model());
            let needs = needs.expect("there is room for a model since one is needed");
            return Err(Error::setting("the cost model", format!("given, as {needs} needs one"), "not"));
        };
        for (column, values) in [("the predicted cost of the logged action", logged), ("the predicted cost", mean)] {
            fits(column, values.len())?;
            // A mean over actions may leave the range by the rounding of its sum.
            if let Some(i) = values.iter().position(|x| !(-1.0 - 1e-8..=1e-8).contains(x)) {
                return Err(Error::value(first + i, column, "in [-1, 0]", values[i]));
            }
        }
        Ok(())
    }

    /// The evaluation of the records so far. More records may be added afterwards.
    pub fn finish(&self) -> Result<Evaluation> {
        let EvaluationSettings { estimators, protocol, replicates: count, seed, largest_weight } = &self.settings;
        let Joined { moments, anytime, buckets, weights, zeros } = self.joined()?;
        let (records, means, pairs) = (moments.records, moments.means(), &self.plan.pairs);
        let resampled = replicates(&buckets, &self.plan.formulas, *count, *seed);
        let error = |variance: f64| (variance / records as f64).sqrt();
        let estimates =
            estimators.iter().zip(&self.plan.formulas).zip(&resampled).map(|((estimator, formula), values)| {
                let (value, variance) = (formula.value(&means), moments.variance(&formula.slopes(&means), pairs));
                let range = estimator.range(*largest_weight);
                Estimate {
                    estimator: *estimator,
                    value,
                    standard_error: error(variance),
                    bootstrap: percentiles(values, protocol.delta),
                    bernstein: range.and_then(|range| bernstein(value, variance, range, records, protocol.delta)),
                }
            });
        let estimates: Vec<Estimate> = estimates.collect();
        if let Some(estimate) = estimates.iter().find(|e| !e.value.is_finite() || !e.standard_error.is_finite()) {
            return Err(Error::setting(format!("the estimate of {}", estimate.estimator), "finite", estimate.value));
        }
        let (mean, variance) = (means[ColumnPlan::WEIGHT], moments.variance(&[(ColumnPlan::WEIGHT, 1.0)], pairs));
        let (n, standard_error) = (records as f64, error(variance));
        let squares = variance * (n - 1.0) + n * mean * mean;
        Ok(Evaluation {
            records,
            delta: protocol.delta,
            estimates,
            anytime: anytime.interval(records, protocol)?,
            weights: Weights {
                mean,
                standard_error,
                z: Some(weights.z()).filter(|z| z.is_finite()),
                verdict: weights.verdict(LIMIT),
                largest: weights.largest,
                effective: if squares > 0.0 { (n * mean).powi(2) / squares } else { 0.0 },
                zero: zeros as f64 / n,
            },
        })
    }

    /// The risk of this policy minus the risk of another, by each estimator, from the same records and settings. The
    /// two are resampled together, so that common noise cancels.
    pub fn contrast(&self, other: &Evaluator) -> Result<Vec<Contrast>> {
        self.comparable(other)?;
        let EvaluationSettings { estimators, protocol, replicates: count, seed, .. } = &self.settings;
        let formulas = &self.plan.formulas;
        let (one, two) = (self.joined()?, other.joined()?);
        let resampled = |joined: &Joined| replicates(&joined.buckets, formulas, *count, *seed);
        let (means, values) = ((one.moments.means(), two.moments.means()), (resampled(&one), resampled(&two)));
        let contrasts = estimators.iter().zip(formulas).enumerate().map(|(i, (estimator, formula))| {
            let apart: Vec<f64> = values.0[i].iter().zip(&values.1[i]).map(|(one, two)| one - two).collect();
            Contrast {
                estimator: *estimator,
                value: formula.value(&means.0) - formula.value(&means.1),
                bootstrap: percentiles(&apart, protocol.delta),
            }
        });
        Ok(contrasts.collect())
    }

    /// Fails unless both have the same number of records and the same settings.
    pub(super) fn comparable(&self, other: &Evaluator) -> Result<()> {
        if self.settings != other.settings {
            return Err(Error::setting("the settings of both evaluators", "the same", "not"));
        }
        if self.records() != other.records() {
            let expected = format!("{} records, as the one", self.records());
            return Err(Error::size("the other evaluator", expected, other.records()));
        }
        Ok(())
    }

    /// The protocol of its intervals.
    pub(super) fn protocol(&self) -> &Protocol {
        &self.settings.protocol
    }

    /// The sums behind the interval that holds at all times.
    pub(super) fn anytime(&self) -> Result<Anytime> {
        Ok(self.joined()?.anytime)
    }

    fn joined(&self) -> Result<Joined> {
        let records = self.records();
        if records == 0 {
            return Err(Error::size("the logs", "at least 1 record", 0));
        }
        let (columns, pairs) = (self.plan.columns.len(), &self.plan.pairs);
        let used = records.min(BUCKETS);
        let count = (0..used).map(|i| ((records - i - 1) / BUCKETS + 1) as f64).collect();
        let mut joined = Joined {
            moments: Moments::new(columns, pairs.len()),
            anytime: Anytime::new(self.plan.lambdas.len()),
            buckets: Buckets { count, sums: vec![Vec::with_capacity(BUCKETS); columns] },
            weights: WeightSums::default(),
            zeros: 0,
        };
        for (i, stripe) in self.stripes.iter().enumerate() {
            let mut with_pending = None;
            if i == self.blocks % STRIPES && !self.pending.p.is_empty() {
                with_pending.insert(stripe.clone()).add(&self.plan, &self.pending.view());
            }
            let stripe = with_pending.as_ref().unwrap_or(stripe);
            joined.moments.join(&stripe.moments, pairs);
            joined.anytime.join(&stripe.anytime);
            joined.buckets.sums.iter_mut().zip(&stripe.buckets).for_each(|(all, own)| all.extend(own));
            joined.weights = joined.weights.and(&stripe.weights);
            joined.zeros += stripe.zeros;
        }
        joined.buckets.sums.iter_mut().for_each(|sums| sums.truncate(used));
        Ok(joined)
    }
}
