//! The sums over the records, in stripes.
//!
//! Blocks of records are assigned to stripes in turn. A stripe adds its blocks in order on whatever thread it runs, and
//! the stripes are merged in order at the end. So any number of threads gives the same bits. A stripe owns the
//! bootstrap buckets of its records.

use super::Observed;
use super::anytime::Anytime;
use super::bootstrap::BUCKETS;
use super::estimator::{Column, Formula};
use super::moments::Moments;
use super::settings::EvaluationSettings;
use super::weights::WeightSums;
use crate::policy::probability;

/// The number of records per block.
pub(super) const BLOCK: usize = 1 << 10;
/// The number of stripes.
pub(super) const STRIPES: usize = BUCKETS / BLOCK;

/// The columns to add up: the distinct columns of all estimators, and the formulas that combine them.
#[derive(Debug, Clone)]
pub(super) struct ColumnPlan {
    pub(super) columns: Vec<Column>,
    pub(super) formulas: Vec<Formula<usize>>,
    /// The pairs of columns whose co-moments some estimator needs, the smaller index first.
    pub(super) pairs: Vec<(usize, usize)>,
    pub(super) lambdas: Vec<f64>,
}

impl ColumnPlan {
    /// The index of the weights among the columns.
    pub(super) const WEIGHT: usize = 0;

    pub(super) fn new(settings: &EvaluationSettings) -> Self {
        let mut columns = vec![Column::Weight];
        let formulas = settings.estimators.iter().map(|estimator| {
            estimator.columns().map(|column| {
                columns.iter().position(|&known| known == column).unwrap_or_else(|| {
                    columns.push(column);
                    columns.len() - 1
                })
            })
        });
        let formulas: Vec<Formula<usize>> = formulas.collect();
        let mut pairs = vec![(Self::WEIGHT, Self::WEIGHT)];
        for formula in &formulas {
            for i in formula.iter() {
                pairs.extend(formula.iter().filter(|&j| i <= j).map(|j| (i, j)));
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        ColumnPlan { columns, formulas, pairs, lambdas: settings.protocol.lambdas.clone() }
    }
}

/// The sums over the blocks of one stripe.
#[derive(Debug, Clone)]
pub(super) struct Stripe {
    pub(super) moments: Moments,
    pub(super) anytime: Anytime,
    /// The sums of each column in the stripe's [`BLOCK`] buckets.
    pub(super) buckets: Vec<Vec<f64>>,
    pub(super) weights: WeightSums,
    pub(super) zeros: usize,
    room: Room,
}

/// Working memory for a block.
#[derive(Debug, Clone, Default)]
struct Room {
    p: Vec<f64>,
    w: Vec<f64>,
    columns: Vec<Vec<f64>>,
    factors: Vec<f64>,
}

impl Stripe {
    pub(super) fn new(plan: &ColumnPlan) -> Self {
        Stripe {
            moments: Moments::new(plan.columns.len(), plan.pairs.len()),
            anytime: Anytime::new(plan.lambdas.len()),
            buckets: vec![vec![0.0; BLOCK]; plan.columns.len()],
            weights: WeightSums::default(),
            zeros: 0,
            room: Room { columns: vec![Vec::new(); plan.columns.len()], ..Room::default() },
        }
    }

    /// Adds a block of records that were already checked.
    pub(super) fn add(&mut self, plan: &ColumnPlan, records: &Observed<'_>) {
        let Room { p, w, columns, factors } = &mut self.room;
        p.clear();
        p.extend(records.p.iter().map(|&p| probability(p)));
        w.clear();
        w.extend(p.iter().zip(records.q).map(|(p, q)| p / q));
        w.iter().for_each(|&w| self.weights.add(w));
        self.zeros += w.iter().filter(|&&w| w == 0.0).count();
        self.anytime.add(w, records.c, &plan.lambdas, factors);
        let records = Observed { p, ..*records };
        for ((column, out), buckets) in plan.columns.iter().zip(&mut *columns).zip(&mut self.buckets) {
            out.resize(w.len(), 0.0);
            column.fill(&records, w, out);
            buckets.iter_mut().zip(&*out).for_each(|(sum, x)| *sum += x);
        }
        self.moments.join(&Moments::of_block(columns, &plan.pairs), &plan.pairs);
    }

    /// Adds the sums of the same stripe over the next records.
    pub(super) fn merge(&mut self, plan: &ColumnPlan, next: &Stripe) {
        self.moments.join(&next.moments, &plan.pairs);
        self.anytime.join(&next.anytime);
        for (own, other) in self.buckets.iter_mut().zip(&next.buckets) {
            own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
        }
        self.weights = self.weights.and(&next.weights);
        self.zeros += next.zeros;
    }
}
