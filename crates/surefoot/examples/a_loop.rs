//! A loop under way: deploy, log, learn, redeploy, and say after each round what is proven.
//!
//! `cargo run --release -p surefoot --example a_loop`

#![allow(clippy::print_stdout)] // An example talks.

use surefoot::observer::Silent;
use surefoot::worlds::{Environment, Synthetic, SyntheticSettings, Turn};
use surefoot::{FeatureMap, Gate, Lambda, Learner, Policy, Session};

fn main() -> surefoot::Result<()> {
    // A simulated world. In production this is your service, and `Logs::new` takes what it logged.
    let world = Synthetic::new(SyntheticSettings::default())?;
    let first = world.first_policy(FeatureMap::identity(10), 0.2)?.with_exploration(0.05)?;
    let learner = Learner { lambda: Lambda::Auto, held_back: 1.0, ..Learner::default() };
    let mut session = Session::new(learner, Gate::Improvement, first)?;
    for round in 0..5 {
        let logs = world.collect(session.running(), Turn { round, start: 1000 * round, n: 1000 })?;
        // A round is prepared, learned from and committed. A service would run the job on another thread.
        let collected_by = session.running().identity().expect("linear Gaussian policies have a fingerprint");
        let job = session.prepare(logs, collected_by, true)?;
        let report = session.commit(job.run(&mut Silent)?)?;
        let proven = report.proven.and_then(|proven| proven.ladder).map_or(0.0, |ladder| ladder.upper);
        let verdict = if report.promoted { "promoted" } else { "kept the incumbent" };
        let truth = world.truth(round + 1)?.risk(session.running())?;
        println!("round {round}: {verdict}; risk at most {proven:.3} with 95 % confidence, truly {truth:.3}");
    }
    Ok(())
}
