//! An estimator of your own: `h(p, q, c)` and its derivative in `p`, minimised in place of the algorithm's.
//!
//! `cargo run --release -p surefoot --example own_estimator`

#![allow(clippy::print_stdout)] // An example talks.

use surefoot::estimator::{Custom, CustomEstimator};
use surefoot::learn::State;
use surefoot::worlds::{Environment, Synthetic, SyntheticSettings, Turn};
use surefoot::{FeatureMap, Lambda, Learner, Result};

/// Importance weights that grow as the square root where they exceed 1.
#[derive(Debug)]
struct Tempered;

impl CustomEstimator for Tempered {
    fn name(&self) -> &str {
        "tempered"
    }

    fn h_and_slope(&self, p: &[f64], q: &[f64], c: &[f64]) -> Result<(Vec<f64>, Vec<f64>)> {
        let each = |i: usize| {
            let w = p[i] / q[i];
            if w <= 1.0 { (w * c[i], c[i] / q[i]) } else { (w.sqrt() * c[i], 0.5 * c[i] / (w.sqrt() * q[i])) }
        };
        Ok((0..p.len()).map(each).unzip())
    }
}

fn main() -> Result<()> {
    let world = Synthetic::new(SyntheticSettings::default())?;
    let first = world.first_policy(FeatureMap::identity(10), 0.2)?;
    let logs = world.collect(&first, Turn { round: 0, start: 0, n: 5000 })?;
    let truth = world.truth(1)?;
    println!("first policy: risk {:.3}", truth.risk(&first)?);
    let ours = Learner { lambda: Lambda::Fixed(0.4), ..Learner::default() };
    let theirs = Learner { custom: Some(Custom::new(Tempered)), ..ours.clone() };
    for (name, learner) in [("adjusted logarithmic smoothing", ours), ("tempered weights", theirs)] {
        let (state, report) = learner.step(&State::new(first.clone()), &logs)?;
        println!("{name}: risk {:.3}, KL {:.1}", truth.risk(state.current())?, report.kl);
    }
    Ok(())
}
