//! OBJECTIVE: `mean h + KL/(lambda N)` and its variants, with value and gradient in `(mu, ln sigma)`.

mod criterion;
mod joint;
mod pass;
mod search;
mod sums;

pub use criterion::Criterion;
pub(crate) use joint::{JointObjective, divergence_of_means};
pub(crate) use pass::{Added, Probabilities, ReadSearch, Slopes};
pub(crate) use search::Search;
pub use sums::Partial;

use std::sync::Arc;

use crate::error::{Error, Result, check_setting};
use crate::estimator::{Custom, Regularizer};
use crate::logs::Logs;
use crate::policy::{Posterior, Scale, same_basis};

/// An objective over the records of some rounds, for posteriors of a given shape.
#[derive(Debug)]
pub struct Objective<'a> {
    rounds: &'a [Arc<Logs>],
    /// The number of records before each round, and at the end the number of all records.
    offsets: Vec<usize>,
    /// The number of records of all shards.
    total: usize,
    criterion: Criterion,
    custom: Option<&'a Custom>,
    anchor: &'a Posterior,
    /// The properties that are not parameters: actions, basis, the kind of scale, and the scale itself if it is not
    /// learned.
    shape: &'a Posterior,
    learn_scale: bool,
    kl_weight: f64,
    exploration: f64,
    tolerance: f64,
}

/// The parts of an [`Objective`].
#[derive(Debug, Clone, Copy)]
pub struct ObjectiveParts<'a> {
    /// The rounds to learn from, as features of the posterior, in its basis.
    pub rounds: &'a [Arc<Logs>],
    /// The number of records of all shards, if these rounds are one shard; `None` if they are all rounds.
    pub total: Option<usize>,
    /// The criterion.
    pub criterion: Criterion,
    /// A custom estimator; if there is one, its mean replaces the criterion.
    pub custom: Option<&'a Custom>,
    /// The posterior from which the divergence is measured, in the same basis.
    pub anchor: &'a Posterior,
    /// A posterior with the shape of the result.
    pub shape: &'a Posterior,
    /// Whether the scale is learned too, or stays as it is in `shape`.
    pub learn_scale: bool,
    /// `lambda` of the term `KL/(lambda N)`; `None` leaves the term out.
    pub lambda: Option<f64>,
    /// The exploration floor of the policy and of the anchor.
    pub exploration: f64,
    /// The absolute error of the propensities.
    pub tolerance: f64,
}

impl<'a> Objective<'a> {
    /// Checks that the parts fit each other.
    pub fn new(parts: ObjectiveParts<'a>) -> Result<Self> {
        let ObjectiveParts {
            rounds,
            total,
            criterion,
            custom,
            anchor,
            shape,
            learn_scale,
            lambda,
            exploration,
            tolerance,
        } = parts;
        criterion.check()?;
        if let Some(lambda) = lambda {
            check_setting("lambda", lambda, lambda > 0.0, "in (0, inf)")?;
        }
        check_setting("exploration", exploration, (0.0..1.0).contains(&exploration), "in [0, 1)")?;
        check_setting("the tolerance", tolerance, tolerance > 0.0 && tolerance <= 0.01, "in (0, 0.01]")?;
        let (p, k) = (shape.features(), shape.actions());
        if (anchor.features(), anchor.actions()) != (p, k) || !same_basis(anchor.basis(), shape.basis()) {
            let expected = format!("{p} features x {k} actions, in the posterior's basis");
            return Err(Error::size("the anchor", expected, anchor.mean().len()));
        }
        let mut offsets = vec![0];
        for logs in rounds {
            if logs.contexts().features() != p {
                let expected = format!("{p} features, as the policy");
                return Err(Error::size("contexts", expected, logs.contexts().features()));
            }
            if logs.actions() != k {
                return Err(Error::size("the logs", format!("{k} actions, as the policy"), logs.actions()));
            }
            if !logs.is_complete() && custom.is_none() && !criterion.skips_zero_costs() {
                let allowed = "one that needs no records of cost 0, as in the rounds before";
                return Err(Error::setting("the criterion", allowed, "self-normalised"));
            }
            offsets.push(offsets[offsets.len() - 1] + logs.len());
        }
        let records = offsets[rounds.len()];
        if records == 0 {
            return Err(Error::size("the rounds", "at least 1 record", records));
        }
        let total = total.unwrap_or(records);
        if total < records {
            return Err(Error::size("all shards", format!("at least {records} records, as this one"), total));
        }
        let kl_weight = lambda.map_or(0.0, |lambda| (1.0 - exploration) / (lambda * total as f64));
        Ok(Objective {
            rounds,
            offsets,
            total,
            criterion,
            custom,
            anchor,
            shape,
            learn_scale,
            kl_weight,
            exploration,
            tolerance,
        })
    }

    /// The number of records, `N`.
    pub fn records(&self) -> usize {
        self.offsets[self.rounds.len()]
    }

    /// The parameters `(mu, ln sigma)` of a posterior: the mean, then the logarithms of the scales if they are learned.
    pub fn parameters(&self, posterior: &Posterior) -> Vec<f64> {
        let mut x = posterior.mean().to_vec();
        if self.learn_scale {
            match posterior.scale() {
                Scale::Shared(sigma) => x.push(sigma.ln()),
                Scale::PerFeature(sigmas) => x.extend(sigmas.iter().map(|s| s.ln())),
            }
        }
        x
    }

    /// The posterior with these parameters.
    pub fn posterior(&self, x: &[f64]) -> Result<Posterior> {
        let (mean, logs) = x.split_at(self.means());
        let sigma = |log: &f64| log.exp().clamp(*Posterior::SCALES.start(), *Posterior::SCALES.end());
        let scale = match self.shape.scale() {
            fixed if !self.learn_scale => fixed.clone(),
            Scale::Shared(_) => Scale::Shared(sigma(&logs[0])),
            Scale::PerFeature(_) => Scale::PerFeature(logs.iter().map(sigma).collect()),
        };
        self.shape.with(mean.to_vec(), scale)
    }

    fn means(&self) -> usize {
        self.shape.mean().len()
    }

    /// The objective over a batch of records, which are given by their positions in the rounds, and its gradient.
    ///
    /// Unless the criterion is self-normalised, records of cost 0 count only in the size of the batch: their contexts
    /// and propensities are not read. Sums are split at positions that depend on the batch only, so the result is the
    /// same for any number of threads. Only a custom estimator can fail. The contexts must be in this process.
    ///
    /// # Panics
    /// If `x` or `gradient` does not have the length of [`parameters`](Objective::parameters), or a position is not
    /// below [`records`](Objective::records).
    pub fn evaluate(&self, x: &[f64], batch: &[usize], gradient: &mut [f64]) -> Result<f64> {
        Search::new(self).evaluate(x, batch, gradient)
    }

    /// The contribution of these records to the objective over all shards, without the divergence, in one pass.
    ///
    /// Records are processed in chunks of [`CHUNK`](crate::logs::CHUNK), whose sums are added by one fixed tree, for any
    /// number of threads. The sums of shards are [merged](Partial::merge) in their order. The criterion must be a mean over records; for others it fails.
    ///
    /// # Panics
    /// If `x` does not have the length of [`parameters`](Objective::parameters).
    pub fn partial(&self, x: &[f64]) -> Result<Partial> {
        if self.mean_of().is_none() {
            let allowed = "a mean over records, to be added up over shards";
            return Err(Error::setting("the criterion", allowed, "another"));
        }
        Search::new(self).partial(x)
    }

    /// The objective and its gradient from the sums of all shards. Adds the divergence once.
    ///
    /// # Panics
    /// If `x` or `gradient` does not have the length of [`parameters`](Objective::parameters).
    pub fn finish(&self, x: &[f64], sums: &Partial, gradient: &mut [f64]) -> f64 {
        Search::new(self).total(x, sums, gradient)
    }

    /// Whether records of cost 0 are left out.
    fn skips_zero_costs(&self) -> bool {
        self.custom.is_some() || self.criterion.skips_zero_costs()
    }

    /// The estimator `h`, if the value is its mean and each record's slope depends on its own propensity only.
    fn mean_of(&self) -> Option<&Regularizer> {
        self.criterion.mean_of().filter(|_| self.custom.is_none())
    }

    /// The value over `n` records and its derivative in each `p`. The terms of records that are not listed are 0.
    fn joint(&self, n: usize, p: &[f64], q: &[f64], c: &[f64]) -> Result<(f64, Vec<f64>)> {
        let Some(custom) = self.custom.filter(|_| !p.is_empty()) else {
            return Ok(self.criterion.evaluate(n, p, q, c));
        };
        let (sum, slopes) = custom.checked(p, q, c)?;
        Ok((sum / n as f64, slopes.into_iter().map(|slope| slope / n as f64).collect()))
    }

    fn locate(&self, i: usize) -> (&'a Logs, usize) {
        let round = self.offsets.partition_point(|&o| o <= i) - 1;
        (self.rounds[round].as_ref(), i - self.offsets[round])
    }
}

#[cfg(test)]
mod tests;
