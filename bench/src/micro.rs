//! `micro`: two ways to do the same work, timed alternately. A new comparison is one more function in [`COMPARISONS`].

use std::hint::black_box;
use std::path::PathBuf;

use clap::Args;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use surefoot::{Policy, internals};

use crate::report::{number, publish, table};
use crate::work::{Result, Task, dense, policy, threads, timed};

/// Compare two ways of doing the same work, and write `micro.md`
#[derive(Debug, Args)]
pub(crate) struct Micro {
    #[arg(long, default_value = "bench/results")]
    out: PathBuf,
    /// Small sizes, for a test of the command
    #[arg(long)]
    quick: bool,
}

/// The settings and the results of the comparisons.
struct Bench {
    quick: bool,
    rows: Vec<[String; 4]>,
}

const COMPARISONS: [fn(&mut Bench) -> Result<()>; 5] = [propensities, products, sparse, zeros, two_threads];

impl Micro {
    pub(crate) fn run(&self) -> Result<()> {
        let mut bench = Bench { quick: self.quick, rows: Vec::new() };
        for comparison in COMPARISONS {
            comparison(&mut bench)?;
        }
        let body = table(["work", "slow", "fast", "ratio"], &bench.rows);
        publish(&self.out, "micro", "Two ways to do the same work", &body)
    }
}

impl Bench {
    /// The size of a workload: `full`, or small with `--quick`.
    fn size(&self, full: usize) -> usize {
        if self.quick { full / 200 + 1 } else { full }
    }

    /// Times two workloads alternately, and records the ratio of the medians.
    fn compare<'a>(
        &mut self,
        what: &str,
        (slow_name, slow): (&str, &'a mut dyn FnMut() -> Result<()>),
        (fast_name, fast): (&str, &'a mut dyn FnMut() -> Result<()>),
    ) -> Result<()> {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..if self.quick { 1 } else { 7 } {
            for (work, times) in [&mut *slow, &mut *fast].into_iter().zip(&mut times) {
                let (seconds, done) = timed(work);
                done?;
                times.push(seconds);
            }
        }
        let [slow, fast] = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        });
        eprintln!("{what}: {} x", number(slow / fast));
        let side = |name: &str, seconds: f64| format!("{name}: {} ms", number(1e3 * seconds));
        let row = [what.to_owned(), side(slow_name, slow), side(fast_name, fast), number(slow / fast)];
        self.rows.push(row);
        Ok(())
    }
}

/// The paper's method, `mean over e of prod_{b != a} Phi(e + s_a - s_b)` for one action after the other, against ours.
fn propensities(bench: &mut Bench) -> Result<()> {
    let cdf = |t: f64| 0.5 * libm::erfc(-t * std::f64::consts::FRAC_1_SQRT_2);
    let samples: Vec<f64> = (0..32).map(|i| (f64::from(i) - 15.5) / 8.0).collect();
    for (k, rows) in [(10, 400), (100, 20)] {
        let scores: Vec<f64> = (0..k).map(|a| f64::from((37 * a) % k) / f64::from(k)).collect();
        let policy = policy(k as usize, scores.clone())?;
        let x = dense(rows, 1, 1.0)?;
        let product = |a: usize, e: f64| -> f64 {
            (0..scores.len()).filter(|&b| b != a).map(|b| cdf(e + scores[a] - scores[b])).product()
        };
        let mean = |a: usize| samples.iter().map(|&e| product(a, e)).sum::<f64>() / samples.len() as f64;
        let pool = threads(1)?;
        bench.compare(
            &format!("all propensities, K = {k}"),
            ("Monte Carlo, 32 samples", &mut || {
                for a in (0..rows).flat_map(|_| 0..scores.len()) {
                    black_box(mean(black_box(a)));
                }
                Ok(())
            }),
            ("quadrature to 1e-10", &mut || {
                black_box(pool.install(|| policy.distribution(black_box(&x), None))?);
                Ok(())
            }),
        )?;
    }
    Ok(())
}

/// Scores and gradients as in a search, block by block from rows in memory, against the same number of operations in
/// large square products, which reach the peak of this machine. The ratio is our share of the peak.
fn products(bench: &mut Bench) -> Result<()> {
    const SIDE: usize = 1024;
    let (n, p, k) = (bench.size(21_475), 500, 100);
    let x = dense(n, p, 1.0)?;
    let w = vec![0.5; p * k];
    let (mut scores, mut gradient) = (vec![0.0; n * k], vec![0.0; p * k]);
    let (a, mut c) = (vec![0.5f32; SIDE * SIDE], vec![0.0; SIDE * SIDE]);
    let square = || MatRef::from_row_major_slice(&a, SIDE, SIDE);
    // 4 n p k operations, and 2 SIDE^3 per square product: two products, with an error of 1 in 100,000.
    let squares = (2 * n * p * k / SIDE.pow(3)).max(1);
    bench.compare(
        "scores and gradients, 500 features, K = 100, share of the peak",
        ("large square products", &mut || {
            for _ in 0..squares {
                let c = MatMut::from_row_major_slice_mut(&mut c, SIDE, SIDE);
                matmul(c, Accum::Replace, black_box(square()), square(), 1.0, Par::Seq);
            }
            Ok(())
        }),
        ("blocks of rows", &mut || {
            internals::products(black_box(&x), &w, k, &mut scores, &mut gradient);
            black_box(&gradient);
            Ok(())
        }),
    )
}

fn sparse(bench: &mut Bench) -> Result<()> {
    let x = dense(bench.size(20_000), 784, 0.2)?;
    let (full, thin) = (Task::new(x.clone(), 10, 1.0)?, Task::new(x.to_sparse(), 10, 1.0)?);
    let pool = threads(1)?;
    bench.compare(
        "epoch, 20,000 x 784, 20 % non-zero, K = 10, batch 1,024",
        ("dense", &mut || pool.install(|| full.epoch(1024))),
        ("sparse", &mut || pool.install(|| thin.epoch(1024))),
    )
}

fn zeros(bench: &mut Bench) -> Result<()> {
    let x = dense(bench.size(20_000), 784, 0.2)?.to_sparse();
    let (none, most) = (Task::new(x.clone(), 10, 1.0)?, Task::new(x, 10, 0.1)?);
    let pool = threads(1)?;
    bench.compare(
        "the same, sparse, if 90 % of the costs are zero",
        ("no zeros", &mut || pool.install(|| none.epoch(1024))),
        ("skipped", &mut || pool.install(|| most.epoch(1024))),
    )
}

fn two_threads(bench: &mut Bench) -> Result<()> {
    let n = bench.size(57_000);
    let task = Task::new(dense(n, 500, 1.0)?, 100, 1.0)?;
    let (one, two) = (threads(1)?, threads(2)?);
    for (name, batch) in [("batch 1,024", 1024), ("one batch", n)] {
        bench.compare(
            &format!("epoch, 57,000 x 500 dense, K = 100, {name}"),
            ("one thread", &mut || one.install(|| task.epoch(batch))),
            ("two threads", &mut || two.install(|| task.epoch(batch))),
        )?;
    }
    Ok(())
}
