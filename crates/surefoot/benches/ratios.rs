//! `make bench`: each figure is a ratio of two ways to do the same work, timed in turn in one run, because times on a
//! shared machine mean little.
#![allow(clippy::print_stdout, clippy::needless_pass_by_value, missing_docs)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use surefoot::{
    Contexts, Criterion, FeatureMap, LinearGaussian, Logs, Objective, ObjectiveParts, Policy, Posterior, Regularizer,
    Scale,
};

/// Times two pieces of work in turn, nine times each, and prints the ratio of their medians.
fn compare<'a>(what: &str, slow: (&str, &'a mut dyn FnMut()), fast: (&str, &'a mut dyn FnMut())) {
    let (mut slow_times, mut fast_times) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        for (work, times) in [(&mut *slow.1, &mut slow_times), (&mut *fast.1, &mut fast_times)] {
            let clock = Instant::now();
            work();
            times.push(clock.elapsed().as_secs_f64());
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (a, b) = (median(&mut slow_times), median(&mut fast_times));
    println!("{what:<58} {:>8.2} x   ({}: {:.2} ms, {}: {:.2} ms)", a / b, slow.0, 1e3 * a, fast.0, 1e3 * b);
}

/// Numbers between -1 and 1 without a generator.
fn wave(n: usize) -> impl Iterator<Item = f64> {
    (0..n).map(|i| (i as f64 * 12.9898).sin() * 43758.5453).map(|v| 2.0 * (v - v.floor()) - 1.0)
}

fn contexts(n: usize, p: usize, filled: f64) -> Contexts {
    let values = wave(n * p).zip(wave(n * p).skip(7).chain([0.0; 7]));
    let values = values.map(|(v, keep)| if (keep + 1.0) / 2.0 < filled { v as f32 } else { 0.0 });
    Contexts::dense(values.collect(), p).unwrap()
}

fn policy(p: usize, k: usize) -> LinearGaussian {
    let mean = wave(p * k).map(|v| 2.0 * v).collect();
    LinearGaussian::new(FeatureMap::identity(p), Posterior::new(k, mean, Scale::Shared(1.0)).unwrap()).unwrap()
}

/// The paper's way: `mean over e of prod_{b != a} Phi(e + s_a - s_b)`, one action at a time.
fn monte_carlo(scores: &[f64], samples: &[f64], out: &mut [f64]) {
    let cdf = |t: f64| 0.5 * libm::erfc(-t * std::f64::consts::FRAC_1_SQRT_2);
    for a in 0..scores.len() {
        let product =
            |e: &f64| (0..scores.len()).filter(|&b| b != a).map(|b| cdf(e + scores[a] - scores[b])).product::<f64>();
        out[a] = samples.iter().map(product).sum::<f64>() / samples.len() as f64;
    }
}

fn propensities() {
    for (k, rows) in [(10, 200), (100, 10)] {
        let (x, policy) = (contexts(rows, 20, 1.0), policy(20, k));
        let samples: Vec<f64> = wave(32).map(|v| 2.0 * v).collect();
        let scores: Vec<Vec<f64>> = (0..rows).map(|r| wave(k).map(|v| v * (r % 5) as f64).collect()).collect();
        let mut out = vec![0.0; k];
        compare(
            &format!("all propensities of {k} actions, one thread"),
            ("Monte Carlo, 32 samples", &mut || {
                scores.iter().for_each(|s| monte_carlo(black_box(s), &samples, &mut out));
                black_box(&out);
            }),
            ("quadrature to 1e-10", &mut || {
                black_box(policy.distribution(black_box(&x), None).unwrap());
            }),
        );
    }
}

fn objective(x: Contexts, k: usize, zeros: f64) -> impl Fn() + Sync {
    let n = x.len();
    let q = policy(x.features(), k).posterior().clone();
    let action = (0..n).map(|i| (i % k) as u32).collect();
    let cost = wave(n).map(|v| if (v + 1.0) / 2.0 < zeros { 0.0 } else { -1.0 }).collect();
    let rounds = [Arc::new(Logs::new(k, x, action, vec![1.0 / k as f64; n], cost).unwrap())];
    let batch: Vec<u32> = (0..n as u32).collect();
    move || {
        let objective = Objective::new(ObjectiveParts {
            rounds: &rounds,
            criterion: Criterion::Mean { regularizer: Regularizer::LsAdjusted { lambda: 0.1 } },
            anchor: &q,
            shape: &q,
            learn_scale: true,
            lambda: Some(0.1),
            exploration: 0.0,
            tolerance: 1e-6,
        })
        .unwrap();
        let x = objective.parameters(&q);
        let mut gradient = vec![0.0; x.len()];
        black_box(objective.evaluate(&x, &batch, &mut gradient));
    }
}

fn main() {
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let (one, two) = (pool(1), pool(2));
    one.install(|| {
        propensities();
        let x = contexts(2000, 784, 0.2);
        compare(
            "objective and gradient, 2,000 x 784, 20 % non-zero, K = 10",
            ("dense", &mut objective(x.clone(), 10, 0.0)),
            ("sparse", &mut objective(x.to_sparse(), 10, 0.0)),
        );
        compare(
            "the same, costs of which 90 % are zero",
            ("no zeros", &mut objective(x.to_sparse(), 10, 0.0)),
            ("skipped", &mut objective(x.to_sparse(), 10, 0.9)),
        );
    });
    let x = contexts(8000, 200, 1.0);
    let work = objective(x, 100, 0.0);
    compare(
        "objective and gradient, 8,000 x 200 dense, K = 100",
        ("one thread", &mut || one.install(&work)),
        ("two threads", &mut || two.install(&work)),
    );
}
