//! The same bits on every instruction set: compares each kernel as dispatched with AVX2 and with the version for all machines.

use super::*;
use crate::contexts::Contexts;
use crate::math::quadrature::{Double, Integrate, Single};
use crate::math::random::{Purpose, stream};
use proptest::prelude::*;
use rand::RngExt;

/// Numbers in `(-size, size)`.
fn numbers<R: Real>(seed: u64, n: usize, size: f64) -> Vec<R> {
    let mut rng = stream(seed, Purpose::Shuffle, n as u64);
    (0..n).map(|_| R::of(size * (2.0 * rng.random::<f64>() - 1.0))).collect()
}

/// Dense rows, about a third of whose entries are non-zero.
fn contexts(seed: u64, n: usize, p: usize) -> Contexts {
    let values = numbers::<f32>(seed, n * p, 3.0).into_iter().map(|v| if v > 1.0 { v } else { 0.0 }).collect();
    Contexts::dense(values, p).unwrap()
}

/// Runs `f` on every level; `f` puts all its results into the vector.
fn same<R: Real>(f: impl Fn(&mut Vec<R>)) {
    let run = || {
        let mut out = Vec::new();
        f(&mut out);
        // Widening is exact.
        out.iter().map(|x| x.to_f64().to_bits()).collect::<Vec<u64>>()
    };
    assert!(!same_on_every_level(run).is_empty());
}

fn same_sums<R: Real>(seed: u64, n: usize, p: usize, k: usize) {
    let dense = contexts(seed, n, p);
    let sparse = dense.to_sparse();
    let rows: Vec<Row<'_>> = sparse.iter().collect();
    same::<R>(|out| {
        out.resize(n * k, R::ONE);
        sparse_scores(&rows, &numbers(seed, p * k, 2.0), k, out);
    });
    same::<R>(|out| {
        *out = numbers(seed, p * k, 1.0);
        sparse_accumulate(&rows, &numbers(seed, n * k, 2.0), k, out);
    });
    for row in [dense.row(0), sparse.row(0)] {
        same::<R>(|out| out.push(sum_of_squares(row, &numbers(seed, p, 1.0))));
        same::<R>(|out| {
            *out = numbers(seed, p, 1.0);
            add_squares(row, R::of(0.3), out);
        });
    }
    let [x, anchor, precision] = [1, 2, 3].map(|i| numbers::<R>(seed + i, p * k, 2.0));
    same::<R>(|out| {
        out.clone_from(&x);
        add(&anchor, out);
    });
    same::<R>(|out| {
        out.clone_from(&x);
        let sum = pull(R::of(0.7), &x, &anchor, &precision, out);
        out.push(R::of(sum));
    });
}

fn same_integrals<R: Integrate>(seed: u64, n: usize, k: usize, spread: f64) {
    let scores = numbers::<R>(seed, n * k, spread);
    let actions: Vec<u32> = (0..n as u32).map(|i| i * 7 % k as u32).collect();
    for tolerance in [1e-3, 1e-6, 1e-10] {
        same::<R>(|out| {
            let mut quadrature = R::quadrature(k, tolerance);
            out.resize(n * (k + 1), R::ZERO);
            let (p, gradients) = out.split_at_mut(n);
            R::gradients(&mut quadrature, k, &scores, &actions, p, gradients);
        });
        same::<R>(|out| {
            let mut quadrature = R::quadrature(k, tolerance);
            out.resize(k, R::ZERO);
            let p = R::gradient(&mut quadrature, &scores[..k], 0, out);
            out.extend([p, R::propensity(&mut quadrature, &scores[..k], 1)]);
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sums_have_the_same_bits_on_every_instruction_set(
        seed: u64, n in 1usize..30, p in 1usize..70, k in 1usize..40,
    ) {
        let seed = seed >> 1;
        same_sums::<f32>(seed, n, p, k);
        same_sums::<f64>(seed, n, p, k);
    }

    #[test]
    fn integrals_have_the_same_bits_on_every_instruction_set(
        seed: u64, n in 1usize..40, k in prop_oneof![2usize..=16, 17usize..200], spread in 0.0..12.0,
    ) {
        same_integrals::<f32>(seed, n, k, spread);
        same_integrals::<f64>(seed, n, k, spread);
        let (short, long) = (numbers(seed, k, spread), numbers(seed, k, spread));
        same::<f32>(|out| {
            out.resize(k, 0.0);
            Single::new(k, 1e-6).distribution(&short, out);
        });
        same::<f64>(|out| {
            out.resize(k, 0.0);
            Double::new(k, 1e-10).distribution(&long, out);
        });
    }

    #[test]
    fn hazards_have_the_same_bits_on_every_instruction_set(seed: u64, k in 1usize..70, z in -40.0..40.0) {
        let scores = numbers(seed, k, 20.0);
        for kernel in [hazards, cdfs] {
            same::<f64>(|out| {
                out.resize(k, 0.0);
                kernel(z, &scores, out);
            });
        }
    }
}

#[test]
fn the_largest_is_found_wherever_it_is() {
    for n in 1..70 {
        for place in 0..n {
            let mut x: Vec<f32> = numbers(1, n, 1.0);
            x[place] = 5.0;
            assert_eq!(largest(&x), 5.0);
        }
    }
    assert_eq!(total([1.0, 2.0, 3.0, 4.0]), 10.0);
    assert_eq!(total([1.5]), 1.5);
}

#[test]
fn the_pull_of_an_anchor_is_that_of_the_definition() {
    for n in [0, 1, 15, 16, 17, 40] {
        let [x, anchor, precision, before] = [1, 2, 3, 4].map(|i| numbers::<f64>(i, n, 2.0));
        let mut out = before.clone();
        let sum = pull(0.7, &x, &anchor, &precision, &mut out);
        let expected: f64 = (0..n).map(|i| precision[i] * (x[i] - anchor[i]).powi(2)).sum();
        assert!((sum - expected).abs() < 1e-13, "{n}: {sum} {expected}");
        for i in 0..n {
            assert!((out[i] - before[i] - 0.7 * precision[i] * (x[i] - anchor[i])).abs() < 1e-14);
        }
    }
}

#[test]
fn the_gaussian_kernel_has_the_same_bits() {
    for n in [1, 7, 64, 100] {
        let products = numbers::<f64>(3, n, 2.0);
        let squares: Vec<f64> = numbers::<f64>(4, n, 3.0).into_iter().map(f64::abs).collect();
        same::<f64>(|out| {
            out.clone_from(&products);
            gaussian_kernel(1.5, &squares, 0.7, out);
        });
    }
}
