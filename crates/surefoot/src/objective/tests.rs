//! Tests of the search in `f32` against `f64`, and of the boundaries of a batch.

use super::*;
use crate::contexts::Contexts;
use crate::estimator::Regularizer;
use crate::logs::{CHUNK, Eligible};
use crate::math::quadrature::Integrate;
use crate::math::random::{Purpose, stream};
use proptest::prelude::*;
use rand::RngExt;

/// A random problem.
struct Problem {
    rounds: Vec<Arc<Logs>>,
    anchor: Posterior,
    shape: Posterior,
}

#[derive(Debug, Clone, Copy)]
struct Kind {
    seed: u64,
    n: usize,
    p: usize,
    k: usize,
    sparse: bool,
    shared: bool,
    eligible: bool,
}

impl Problem {
    fn new(Kind { seed, n, p, k, sparse, shared, eligible }: Kind) -> Self {
        let mut rng = stream(seed, Purpose::Shuffle, 0);
        let mut number = |from: f64, to: f64| from + (to - from) * rng.random::<f64>();
        let mut posterior = || {
            let mean = (0..p * k).map(|_| number(-1.0, 1.0)).collect();
            let scale = match shared {
                true => Scale::Shared(number(0.3, 1.5)),
                false => Scale::PerFeature((0..p).map(|_| number(0.3, 1.5)).collect()),
            };
            Posterior::new(k, mean, scale).unwrap()
        };
        let (anchor, shape) = (posterior(), posterior());
        // Two rounds, of which the first is short, with entries of 0 in the contexts and costs of 0.
        let rounds = [n / 3, n - n / 3].map(|n| {
            let mut value = || if number(0.0, 1.0) < 0.3 { 0.0 } else { number(-1.0, 1.0) };
            let x = Contexts::dense((0..n * p).map(|_| value() as f32).collect(), p).unwrap();
            let cost = (0..n).map(|_| value().min(0.0)).collect();
            let action: Vec<u32> = (0..n).map(|_| number(0.0, k as f64) as u32).collect();
            let q = (0..n).map(|_| number(0.2, 1.0)).collect();
            let sets = action.iter().map(|&a| {
                let keep = number(0.0, 1.0);
                (0..k as u32).filter(|&b| b == a || number(0.0, 1.0) < keep).collect::<Vec<u32>>()
            });
            let sets = Eligible::new(sets.collect::<Vec<_>>()).unwrap();
            let x = if sparse { x.to_sparse() } else { x };
            let logs = Logs::new(k, x, action, q, cost).unwrap();
            Arc::new(if eligible { logs.with_eligible(sets).unwrap() } else { logs })
        });
        Problem { rounds: rounds.to_vec(), anchor, shape }
    }

    fn objective(&self, criterion: Criterion, exploration: f64) -> Objective<'_> {
        Objective::new(ObjectiveParts { exploration, ..self.parts(criterion) }).unwrap()
    }

    fn parts(&self, criterion: Criterion) -> ObjectiveParts<'_> {
        ObjectiveParts {
            rounds: &self.rounds,
            total: None,
            criterion,
            custom: None,
            anchor: &self.anchor,
            shape: &self.shape,
            learn_scale: true,
            lambda: Some(0.3),
            exploration: 0.0,
            tolerance: 1e-6,
        }
    }
}

fn criteria() -> [Criterion; 4] {
    [
        Criterion::Mean { regularizer: Regularizer::LsAdjusted { lambda: 0.3 } },
        Criterion::Mean { regularizer: Regularizer::Ls { lambda: 0.3 } },
        Criterion::Penalised { regularizer: Regularizer::ImplicitExploration { gamma: 0.01 }, penalty: 0.5 },
        Criterion::SelfNormalised { penalty: 0.5 },
    ]
}

/// The value and the gradient at the posterior `shape`.
fn evaluate<R: Integrate>(objective: &Objective<'_>, batch: &[usize]) -> (f64, Vec<f64>) {
    let x: Vec<R> = objective.parameters(objective.shape).iter().map(|&x| R::of(x)).collect();
    let mut gradient = vec![R::ONE; x.len()];
    let search = Search::<R>::new(objective);
    let value = search.evaluate(&x, batch, &mut gradient).unwrap();
    // Again, in workspaces that have been used.
    let mut again = vec![R::ZERO; x.len()];
    assert_eq!(search.evaluate(&x, batch, &mut again).unwrap().to_bits(), value.to_bits());
    assert_eq!(again, gradient);
    (value, gradient.iter().map(|g| g.to_f64()).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn single_precision_finds_the_gradient_of_double_precision(
        seed: u64, n in 1usize..150, p in 1usize..9, k in prop_oneof![2usize..7, 15usize..25],
        sparse: bool, shared: bool, eligible: bool,
    ) {
        let problem = Problem::new(Kind { seed, n, p, k, sparse, shared, eligible });
        let batch: Vec<usize> = (0..n).rev().collect();
        for criterion in criteria() {
            for exploration in [0.0, 0.1] {
                let objective = problem.objective(criterion, exploration);
                let (value, gradient) = evaluate::<f64>(&objective, &batch);
                let (rounded, rounded_gradient) = evaluate::<f32>(&objective, &batch);
                prop_assert!((rounded - value).abs() <= 1e-4 * (1.0 + value.abs()), "{criterion:?} {rounded} {value}");
                let largest = gradient.iter().fold(0.0f64, |m, g| m.max(g.abs()));
                for (f, g) in rounded_gradient.iter().zip(&gradient) {
                    prop_assert!((f - g).abs() <= 1e-4 * largest, "{criterion:?}: {f} {g} of {largest}");
                }
            }
        }
    }
}

#[test]
fn a_batch_gives_the_same_bits_on_every_number_of_threads() {
    fn check<R: Integrate>(objective: &Objective<'_>) {
        let batch: Vec<usize> = (0..1000).collect();
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let (value, gradient) = pool.install(|| evaluate::<R>(objective, &batch));
            (value.to_bits(), gradient.into_iter().map(f64::to_bits).collect::<Vec<u64>>())
        };
        let alone = on(1);
        assert!(alone == on(2) && alone == on(3));
    }
    for (sparse, k, p) in [(false, 3, 5), (true, 20, 5), (true, 12, 3000)] {
        let problem = Problem::new(Kind { seed: 1, n: 1000, p, k, sparse, shared: false, eligible: false });
        for criterion in criteria() {
            check::<f32>(&problem.objective(criterion, 0.1));
            check::<f64>(&problem.objective(criterion, 0.1));
        }
    }
}

/// The parts of a batch and their blocks end at odd positions. The mean over a batch is the mean over its records.
#[test]
fn a_batch_is_the_mean_of_its_records() {
    let problem = Problem::new(Kind { seed: 2, n: 300, p: 4, k: 3, sparse: false, shared: true, eligible: false });
    let objective = problem.objective(criteria()[0], 0.0);
    for n in [1, 63, 64, 65, 128, 129, 257, 300] {
        let batch: Vec<usize> = (0..n).map(|i| (i * 7) % 300).collect();
        let (value, gradient) = evaluate::<f64>(&objective, &batch);
        let each: Vec<_> = batch.iter().map(|&i| evaluate::<f64>(&objective, &[i])).collect();
        let mean: f64 = each.iter().map(|(value, _)| value).sum::<f64>() / n as f64;
        assert!((value - mean).abs() < 1e-12);
        for (i, g) in gradient.iter().enumerate() {
            let mean: f64 = each.iter().map(|(_, gradient)| gradient[i]).sum::<f64>() / n as f64;
            assert!((g - mean).abs() < 1e-12);
        }
    }
}

/// Also if a slope depends on all records, and those are in several parts.
#[test]
fn the_gradient_of_every_criterion_is_the_finite_difference() {
    let problem = Problem::new(Kind { seed: 5, n: 400, p: 3, k: 3, sparse: false, shared: false, eligible: true });
    let batch: Vec<usize> = (0..400).collect();
    for criterion in criteria() {
        let objective = Objective::new(ObjectiveParts { tolerance: 1e-12, ..problem.parts(criterion) }).unwrap();
        let (_, gradient) = evaluate::<f64>(&objective, &batch);
        let x = objective.parameters(&problem.shape);
        let at = |i: usize, e: f64| {
            let mut x = x.clone();
            x[i] += e;
            objective.evaluate(&x, &batch, &mut vec![0.0; x.len()]).unwrap()
        };
        for (i, g) in gradient.iter().enumerate() {
            let e = 1e-5;
            let difference = (at(i, e) - at(i, -e)) / (2.0 * e);
            assert!((g - difference).abs() < 1e-7, "{criterion:?}: {i}: {g} {difference}");
        }
    }
}

#[test]
fn a_batch_in_which_nothing_weighs_leaves_the_divergence() {
    let problem = Problem::new(Kind { seed: 3, n: 90, p: 3, k: 4, sparse: true, shared: false, eligible: false });
    let cost = problem.rounds.iter().flat_map(|logs| logs.cost());
    let free: Vec<usize> = cost.enumerate().filter(|(_, c)| **c == 0.0).map(|(i, _)| i).collect();
    assert!(free.len() > 3);
    for criterion in &criteria()[..3] {
        let objective = problem.objective(*criterion, 0.0);
        for batch in [&free[..], &free[..1], &[]] {
            let (value, gradient) = evaluate::<f64>(&objective, batch);
            let kl = problem.shape.kl(&problem.anchor).unwrap();
            assert!((value - kl / (0.3 * 90.0)).abs() < 1e-12, "{value}");
            let pull = |i: usize| {
                let far = problem.shape.mean()[i] - problem.anchor.mean()[i];
                far / problem.anchor.scale().get(i / 4).powi(2) / (0.3 * 90.0)
            };
            assert!((0..12).all(|i| (gradient[i] - pull(i)).abs() < 1e-12));
        }
    }
}

#[test]
fn parameters_that_are_not_numbers_are_no_value() {
    let problem = Problem::new(Kind { seed: 4, n: 40, p: 2, k: 3, sparse: false, shared: true, eligible: false });
    for criterion in criteria() {
        let parts = ObjectiveParts { lambda: None, ..problem.parts(criterion) };
        let objective = Objective::new(parts).unwrap();
        let batch: Vec<usize> = (0..40).collect();
        let x = objective.parameters(&problem.shape);
        for i in 0..x.len() {
            let mut x = x.clone();
            x[i] = f64::NAN;
            assert!(objective.evaluate(&x, &batch, &mut vec![0.0; x.len()]).unwrap().is_nan(), "{criterion:?}: {i}");
            let x: Vec<f32> = x.iter().map(|&x| x as f32).collect();
            assert!(
                Search::new(&objective).evaluate(&x, &batch, &mut vec![0.0; x.len()]).unwrap().is_nan(),
                "{criterion:?}: {i}"
            );
        }
    }
}

/// A pass over all records, a batch of all records, and merged shards give the same result, up to rounding. The bits of
/// shards depend on where they are split, and not on the number of threads.
#[test]
fn shards_add_up_to_a_pass_over_all_records() {
    let kind = Kind { seed: 9, n: 3 * CHUNK + 500, p: 3, k: 3, sparse: false, shared: false, eligible: false };
    let problem = Problem::new(kind);
    // One round, so that chunks and shards are split at the same positions.
    let all: Vec<Arc<Logs>> = {
        let rounds = &problem.rounds;
        let column = |of: fn(&Logs) -> &[f64]| rounds.iter().flat_map(|logs| of(logs).to_vec()).collect::<Vec<f64>>();
        let action = rounds.iter().flat_map(|logs| logs.action().to_vec()).collect();
        let x = rounds
            .iter()
            .flat_map(|logs| logs.contexts().iter().flat_map(|row| row.values().to_vec()).collect::<Vec<_>>());
        let x = Contexts::dense(x.collect(), 3).unwrap();
        vec![Arc::new(Logs::new(3, x, action, column(Logs::propensity), column(Logs::cost)).unwrap())]
    };
    let parts = ObjectiveParts { rounds: &all, ..problem.parts(criteria()[0]) };
    let objective = Objective::new(parts).unwrap();
    let x = objective.parameters(&problem.shape);
    let mut gradient = vec![0.0; x.len()];
    let value = Search::<f64>::new(&objective).pass(&x, &mut gradient).unwrap();

    let everything: Vec<usize> = (0..objective.records()).collect();
    let (by_batch, slopes) = evaluate::<f64>(&objective, &everything);
    assert!((value - by_batch).abs() < 1e-12);
    assert!(gradient.iter().zip(&slopes).all(|(a, b)| (a - b).abs() < 1e-12));

    for (threads, cuts) in [(1, vec![CHUNK]), (2, vec![CHUNK, 2 * CHUNK]), (3, vec![2 * CHUNK, 3 * CHUNK])] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let ends = cuts.iter().copied().chain([objective.records()]);
        let starts = [0].into_iter().chain(cuts.iter().copied());
        let shards: Vec<Vec<Arc<Logs>>> =
            starts.zip(ends).map(|(start, end)| vec![Arc::new(all[0].slice(start..end))]).collect();
        let sums = shards.iter().map(|rounds| {
            let shard = Objective::new(ObjectiveParts { rounds, total: Some(objective.records()), ..parts }).unwrap();
            let found = pool.install(|| shard.partial(&x)).unwrap();
            assert_eq!(found, shard.partial(&x).unwrap());
            found
        });
        let sums = sums.reduce(|mut all, next| {
            all.merge(&next);
            all
        });
        let mut merged = vec![0.0; x.len()];
        let total = objective.finish(&x, &sums.unwrap(), &mut merged);
        assert!((total - value).abs() < 1e-14);
        assert!(merged.iter().zip(&gradient).all(|(a, b)| (a - b).abs() < 1e-14));
    }
    let joint = problem.objective(criteria()[3], 0.0);
    assert_eq!(
        joint.partial(&x).unwrap_err().to_string(),
        "the criterion should be a mean over records, to be added up over shards, but is another"
    );
    let short = ObjectiveParts { total: Some(10), ..parts };
    assert_eq!(
        Objective::new(short).unwrap_err().to_string(),
        format!("all shards should have at least {} records, as this one, but has 10", objective.records())
    );
}
