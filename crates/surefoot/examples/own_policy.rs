//! A policy of your own: two methods, and it can be deployed, evaluated and certified.
//!
//! `cargo run --release -p surefoot --example own_policy`

#![allow(clippy::print_stdout)] // An example talks.

use surefoot::certificate::{Case, Smoothing};
use surefoot::evaluation::{EvaluationSettings, Observed};
use surefoot::logs::Eligible;
use surefoot::policy::Uniform;
use surefoot::worlds::{Environment, Synthetic, SyntheticSettings, Turn};
use surefoot::{Certificate, Contexts, Evaluator, Policy, Protocol, Result};

/// Takes one action nine times in ten, chosen by the sign of the first feature; the others share the rest.
#[derive(Debug)]
struct BySign {
    actions: usize,
}

impl Policy for BySign {
    fn actions(&self) -> usize {
        self.actions
    }

    fn distribution(&self, contexts: &Contexts, _: Option<&Eligible>) -> Result<Vec<f64>> {
        let rest = 0.1 / (self.actions - 1) as f64;
        let mut all = Vec::with_capacity(contexts.len() * self.actions);
        for row in contexts.iter() {
            let favourite = usize::from(row.values()[0] > 0.0);
            all.extend((0..self.actions).map(|action| if action == favourite { 0.9 } else { rest }));
        }
        Ok(all)
    }
}

fn main() -> Result<()> {
    let world = Synthetic::new(SyntheticSettings::default())?;
    let logs = world.collect(&Uniform::new(world.actions())?, Turn { round: 0, start: 0, n: 20_000 })?;
    let policy = BySign { actions: world.actions() };

    // Off-policy evaluation: every estimator in one pass.
    let p = policy.propensity(logs.contexts(), logs.action(), logs.eligible())?;
    let mut evaluator = Evaluator::new(&EvaluationSettings::default())?;
    evaluator.add(&Observed { p: &p, q: logs.propensity(), c: logs.cost(), model: None, custom: &[] })?;
    let evaluation = evaluator.finish()?;
    println!("estimated risk {:.3} ± {:.3}", evaluation.estimates[0].value, evaluation.estimates[0].standard_error);

    // A certificate: the policy was fixed before the records, so nothing else is asked of it.
    let (rounds, protocol) = ([logs], Protocol::default());
    let proven = Certificate::fixed(Smoothing::Ls, &policy, 1, &Case::whole(&rounds, &protocol))?;
    println!("risk at most {:.3} with 95 % confidence; truly {:.3}", proven.upper, world.truth(0)?.risk(&policy)?);
    Ok(())
}
