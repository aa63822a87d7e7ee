//! A pass over all records: the value and the gradient at one point, in this process or where the contexts are held.
//!
//! A criterion that is a mean takes one pass. Any other needs all propensities before the first slope, and takes two.

use super::search::{Point, Record, Search};
use super::sums::{Partial, Sums};
use super::{Criterion, Objective, ObjectiveParts};
use crate::error::{Error, Result};
use crate::estimator::Regularizer;
use crate::logs::{CHUNK, Logs, Task, numbers};
use crate::math::linear::BLOCK;
use crate::policy::{Posterior, Scale};
use crate::wire::{Reader, Writer};

impl Search<'_, '_, f64> {
    /// The objective over all records, and its gradient. Nothing is stored per record, unless the criterion needs all
    /// propensities.
    pub(crate) fn pass(&self, x: &[f64], gradient: &mut [f64]) -> Result<f64> {
        let o = self.objective;
        if o.mean_of().is_some() {
            let sums = self.partial(x)?;
            return Ok(self.total(x, &sums, gradient));
        }
        let point = self.point(x);
        let (mut p, mut q, mut c) = (Vec::new(), Vec::new(), Vec::new());
        for logs in o.rounds {
            let task = Probabilities { search: self, x, point: &point };
            p.extend(logs.over(&task)?.unwrap_or_default());
            let weighing = (0..logs.len()).filter(|&i| self.weighs(logs, i));
            weighing.for_each(|i| {
                q.push(logs.propensity()[i]);
                c.push(logs.cost()[i]);
            });
        }
        if p.len() != q.len() {
            return Err(Error::size("the propensities of a pass", format!("{} entries", q.len()), p.len()));
        }
        let (value, slopes) = o.joint(o.records(), &p, &q, &c)?;
        let (mut all, mut done) = (self.sums(), 0);
        for logs in o.rounds {
            let slopes = Slopes::new(&slopes[done..], logs, |i| self.weighs(logs, i));
            done += slopes.len();
            if let Some(sums) = logs.over(&Added { search: self, x, point: &point, slopes: Some(&slopes), shard: 0 })? {
                all.merge(&sums);
            }
        }
        Ok(value + self.finish(x, &point, &[&all], gradient))
    }

    /// See [`Objective::partial`].
    pub(super) fn partial(&self, x: &[f64]) -> Result<Partial> {
        let (mut all, point) = (self.sums(), self.point(x));
        for logs in self.objective.rounds {
            if let Some(sums) = logs.over(&Added { search: self, x, point: &point, slopes: None, shard: 0 })? {
                all.merge(&sums);
            }
        }
        Ok(Partial(all))
    }

    /// See [`Objective::finish`].
    pub(super) fn total(&self, x: &[f64], Partial(sums): &Partial, gradient: &mut [f64]) -> f64 {
        sums.value + self.finish(x, &self.point(x), &[sums], gradient)
    }

    /// Whether a record contributes more than its count.
    fn weighs(&self, logs: &Logs, i: usize) -> bool {
        logs.cost()[i] != 0.0 || !self.objective.skips_zero_costs()
    }

    fn active<'l>(&self, logs: &'l Logs) -> Vec<Record<'l>> {
        (0..logs.len()).filter(|&i| self.weighs(logs, i)).map(|i| (logs, i)).collect()
    }

    /// Writes what another process needs to make the same search, at the same point.
    fn write(&self, x: &[f64], out: &mut Writer) {
        let o = self.objective;
        // The slopes of an estimator of the user's own are computed here. Like the mean, it needs no records of cost 0.
        let criterion = match o.custom {
            None => o.criterion,
            Some(_) => Criterion::Mean { regularizer: Regularizer::Ips },
        };
        out.text(&serde_json::to_string(&criterion).expect("a criterion is plain data"));
        out.count(o.total);
        out.double(o.exploration);
        out.double(o.tolerance);
        out.flag(o.learn_scale);
        out.counts(&[o.shape.features(), o.shape.actions()]);
        match o.shape.scale() {
            Scale::Shared(sigma) => {
                out.flag(false);
                out.double(*sigma);
            }
            Scale::PerFeature(sigmas) => {
                out.flag(true);
                out.doubles(sigmas);
            }
        }
        out.doubles(x);
    }
}

/// A search at a point, as another process reads it.
#[derive(Debug)]
pub(crate) struct ReadSearch {
    criterion: Criterion,
    total: usize,
    exploration: f64,
    tolerance: f64,
    learn_scale: bool,
    shape: Posterior,
    x: Vec<f64>,
}

impl ReadSearch {
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self> {
        let text = from.text()?;
        let criterion = serde_json::from_str(text).map_err(|_| Error::setting("the criterion", "a known one", text))?;
        let (total, exploration, tolerance, learn_scale) =
            (from.count()?, from.double()?, from.double()?, from.flag()?);
        let [features, actions] = from.counts()?[..] else {
            return Err(Error::setting("the shape of a posterior", "features and actions", "not"));
        };
        let scale = if from.flag()? { Scale::PerFeature(from.doubles()?) } else { Scale::Shared(from.double()?) };
        let x = from.doubles()?;
        let scales = match &scale {
            _ if !learn_scale => 0,
            Scale::Shared(_) => 1,
            Scale::PerFeature(sigmas) => sigmas.len(),
        };
        let means = features.saturating_mul(actions);
        if x.len() != means.saturating_add(scales) {
            return Err(Error::size("the parameters", format!("{means} means and {scales} scales"), x.len()));
        }
        let shape = Posterior::new(actions, vec![0.0; means], scale)?;
        Ok(ReadSearch { criterion, total, exploration, tolerance, learn_scale, shape, x })
    }

    /// Does `work` with the search over the records of a shard.
    pub(crate) fn with<T>(
        &self,
        logs: &Logs,
        work: impl FnOnce(&Search<'_, '_, f64>, &[f64], &Point<'_, f64>) -> Result<T>,
    ) -> Result<T> {
        let rounds = [std::sync::Arc::new(logs.clone())];
        let objective = Objective::new(ObjectiveParts {
            rounds: &rounds,
            total: Some(self.total),
            criterion: self.criterion,
            custom: None,
            anchor: &self.shape,
            shape: &self.shape,
            learn_scale: self.learn_scale,
            lambda: None,
            exploration: self.exploration,
            tolerance: self.tolerance,
        })?;
        let search = Search::new(&objective);
        work(&search, &self.x, &search.point(&self.x))
    }
}

/// The slopes of a criterion in the propensities of a round's records that weigh.
#[derive(Debug)]
pub(crate) struct Slopes {
    slopes: Vec<f64>,
    /// The first chunk with records, and the number of slopes before each chunk, and of all.
    first: usize,
    before: Vec<usize>,
}

impl Slopes {
    /// Takes as many slopes as there are records that weigh.
    fn new(slopes: &[f64], logs: &Logs, weighs: impl Fn(usize) -> bool) -> Self {
        let (start, mut before, mut count) = (logs.first(), Vec::new(), 0);
        for i in 0..logs.len() {
            if i == 0 || (start + i).is_multiple_of(CHUNK) {
                before.push(count);
            }
            count += usize::from(weighs(i));
        }
        before.push(count);
        Slopes { slopes: slopes[..count].to_vec(), first: start / CHUNK, before }
    }

    fn len(&self) -> usize {
        self.slopes.len()
    }

    /// The slopes of a chunk.
    fn of(&self, chunk: usize) -> Result<&[f64]> {
        let at = chunk.checked_sub(self.first).and_then(|at| self.before.get(at..at + 2));
        let found = at.and_then(|ends| self.slopes.get(ends[0]..ends[1]));
        found.ok_or_else(|| Error::setting("the slopes of a pass", "those of the records", "of others"))
    }

    fn write(&self, out: &mut Writer) {
        out.doubles(&self.slopes);
        out.count(self.first);
        out.counts(&self.before);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Slopes { slopes: from.doubles()?, first: from.count()?, before: from.counts()? })
    }
}

/// The contribution of records to the value and the gradient.
#[derive(Debug)]
pub(crate) struct Added<'s> {
    pub(crate) search: &'s Search<'s, 's, f64>,
    pub(crate) x: &'s [f64],
    pub(crate) point: &'s Point<'s, f64>,
    /// If the criterion is not a mean.
    pub(crate) slopes: Option<&'s Slopes>,
    /// The first record of the shard, counted from the first of the round.
    pub(crate) shard: usize,
}

impl Task for Added<'_> {
    const NAME: &'static str = "search";
    const KEPT: bool = true;

    type Output = Sums<f64>;

    fn write(&self, out: &mut Writer) -> Result<()> {
        self.search.write(self.x, out);
        out.flag(self.slopes.is_some());
        if let Some(slopes) = self.slopes {
            slopes.write(out);
        }
        Ok(())
    }

    fn chunk(&self, logs: &Logs) -> Result<Sums<f64>> {
        let records = self.search.active(logs);
        let slopes = self.slopes.map(|slopes| slopes.of((self.shard + logs.first()) / CHUNK)).transpose()?;
        if let Some(slopes) = slopes.filter(|slopes| slopes.len() != records.len()) {
            return Err(Error::size("the slopes of a chunk", format!("{} entries", records.len()), slopes.len()));
        }
        let room = self.search.added(self.point, &records, slopes, self.search.objective.total);
        let mut sums = self.search.sums();
        sums.merge(&room.sums);
        self.search.leave(vec![room]);
        Ok(sums)
    }

    fn merge(&self, sum: &mut Sums<f64>, next: Sums<f64>) {
        sum.merge(&next);
    }

    fn write_output(&self, output: &Sums<f64>, out: &mut Writer) {
        out.double(output.value);
        out.double(output.shrink);
        out.flag(output.begun);
        out.doubles(&output.mean);
        out.doubles(&output.squares);
    }

    fn read_output(&self, from: &mut Reader<'_>) -> Result<Sums<f64>> {
        let (value, shrink, begun) = (from.double()?, from.double()?, from.flag()?);
        let sums = Sums { value, mean: from.doubles()?, begun, shrink, squares: from.doubles()? };
        let own = self.search.sums();
        if (sums.mean.len(), sums.squares.len()) != (own.mean.len(), own.squares.len()) {
            return Err(Error::size("the gradient of a pass", format!("{} entries", own.mean.len()), sums.mean.len()));
        }
        Ok(sums)
    }
}

/// The probabilities of the logged actions of the records that weigh, as the search computes them.
#[derive(Debug)]
pub(crate) struct Probabilities<'s> {
    pub(crate) search: &'s Search<'s, 's, f64>,
    pub(crate) x: &'s [f64],
    pub(crate) point: &'s Point<'s, f64>,
}

impl Task for Probabilities<'_> {
    const NAME: &'static str = "search propensities";

    type Output = Vec<f64>;

    fn write(&self, out: &mut Writer) -> Result<()> {
        self.search.write(self.x, out);
        Ok(())
    }

    fn chunk(&self, logs: &Logs) -> Result<Vec<f64>> {
        let records = self.search.active(logs);
        Ok(records.chunks(BLOCK).flat_map(|records| self.search.propensities(self.point, records)).collect())
    }

    fn merge(&self, sum: &mut Vec<f64>, next: Vec<f64>) {
        sum.extend(next);
    }

    fn write_output(&self, output: &Vec<f64>, out: &mut Writer) {
        numbers::write(output, out);
    }

    fn read_output(&self, from: &mut Reader<'_>) -> Result<Vec<f64>> {
        numbers::read(from)
    }
}
