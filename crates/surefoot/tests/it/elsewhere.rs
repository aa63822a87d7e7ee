//! Rounds whose contexts are held elsewhere: every learner gives the same bits, for shards of any size.

use std::ops::Range;
use std::sync::Arc;

use surefoot::learn::{Contender, LearnerSettings, retrain, retrain_among};
use surefoot::logs::{Holder, Part, SPAN};
use surefoot::observer::Silent;
use surefoot::policy::Policy;
use surefoot::work::{Shard, perform};
use surefoot::worlds::{Environment, Synthetic, SyntheticSettings, Turn};
use surefoot::{FeatureMap, LinearGaussian, Logs, Result};

/// Shards in this process.
#[derive(Debug)]
struct Shards(Vec<(Range<usize>, Shard)>);

impl Holder for Shards {
    fn map(&self, task: &str, records: Range<usize>, payload: &[u8]) -> Result<Vec<Part>> {
        let asked = self.0.iter().filter(|(own, _)| own.start < records.end && records.start < own.end);
        // From the last to the first: the order of the work does not matter.
        let done: Result<Vec<Part>> = asked
            .rev()
            .map(|(own, shard)| Ok(Part { records: own.clone(), result: perform(task, payload, shard)? }))
            .collect();
        done.map(|mut parts| {
            parts.reverse();
            parts
        })
    }
}

/// The same records, with their contexts in shards of this size.
fn elsewhere(logs: &Logs, size: usize) -> Logs {
    let shard = |first: usize| {
        let records = first..(first + size).min(logs.len());
        let contexts = logs.contexts().slice(records.clone());
        let (action, propensity, cost) = (logs.action(), logs.propensity(), logs.cost());
        let own = Logs::new(
            logs.actions(),
            contexts,
            action[records.clone()].to_vec(),
            propensity[records.clone()].to_vec(),
            cost[records.clone()].to_vec(),
        );
        (records, Shard::new(own.unwrap(), first))
    };
    let shards: Vec<_> = (0..logs.len()).step_by(size).map(shard).collect();
    let leaves: Vec<_> = shards.iter().flat_map(|(_, shard)| shard.logs().leaves()).collect();
    let columns = (logs.action().to_vec().into(), logs.propensity().to_vec().into(), logs.cost().to_vec().into());
    Logs::elsewhere(logs.actions(), logs.contexts().features(), columns, &leaves, Arc::new(Shards(shards))).unwrap()
}

/// Two rounds of several spans, the second one not a multiple of anything.
fn rounds(sparse: bool) -> (LinearGaussian, Vec<Logs>) {
    let world = Synthetic::new(SyntheticSettings::default()).unwrap();
    let first = world.first_policy(FeatureMap::identity(10), 0.2).unwrap();
    let round = |round: usize, n: usize| {
        let logs = world.collect(&first, Turn { round, start: 4 * SPAN * round, n }).unwrap();
        let contexts = if sparse { logs.contexts().to_sparse() } else { logs.contexts().clone() };
        let (action, propensity, cost) = (logs.action(), logs.propensity(), logs.cost());
        Logs::new(logs.actions(), contexts, action.to_vec(), propensity.to_vec(), cost.to_vec()).unwrap()
    };
    (first.clone(), vec![round(0, SPAN + 17), round(1, 2 * SPAN + 1001)])
}

fn settings(algorithm: &str) -> LearnerSettings {
    LearnerSettings {
        algorithm: algorithm.into(),
        members: if algorithm == "portfolio" { "linear,logistic,trees" } else { "usual" }.into(),
        lambda: "0.4".into(),
        optimiser: "lbfgs".into(),
        iterations: 4,
        ..LearnerSettings::default()
    }
}

#[test]
fn learners_and_certificates_have_the_same_bits_for_shards_of_any_size() {
    for sparse in [false, true] {
        let (first, rounds) = rounds(sparse);
        for algorithm in ["thompson", "seq-adj-ls", "crm", "portfolio"] {
            let mut learner = settings(algorithm).learner().unwrap().0;
            learner.held_back = 0.4;
            let alone = retrain(&learner, &first, &rounds, &mut Silent).unwrap();
            let sizes: &[usize] = if algorithm == "portfolio" { &[SPAN] } else { &[SPAN, 2 * SPAN, 8 * SPAN] };
            for &size in sizes {
                let held: Vec<Logs> = rounds.iter().map(|logs| elsewhere(logs, size)).collect();
                let prints = |rounds: &[Logs]| rounds.iter().map(Logs::fingerprint).collect::<Vec<_>>();
                assert_eq!(prints(&held), prints(&rounds));
                let found = retrain(&learner, &first, &held, &mut Silent).unwrap();
                assert_eq!(found.policy.identity(), alone.policy.identity(), "{algorithm}, shards of {size}");
                assert_eq!((found.proven, found.better), (alone.proven.clone(), alone.better.clone()));
                assert_eq!((found.estimate, found.round.coverage), (alone.estimate.clone(), alone.round.coverage));
                assert_eq!(found.round.members, alone.round.members);
            }
        }
    }
}

#[test]
fn what_needs_the_contexts_here_is_an_error_and_no_panic() {
    let (first, rounds) = rounds(false);
    let held = vec![elsewhere(&rounds[0], SPAN)];
    let adam = LearnerSettings { optimiser: "adam".into(), ..settings("seq-adj-ls") }.learner().unwrap().0;
    let said = retrain(&adam, &first, &held, &mut Silent).unwrap_err().to_string();
    assert!(said.starts_with("the optimiser should be lbfgs, with an engine"), "{said}");
    let said = first.propensity(held[0].contexts(), held[0].action(), None).unwrap_err().to_string();
    assert_eq!(said, "the contexts should be in this process, but is held by an engine, which cannot do this work");

    #[derive(Debug)]
    struct Own(LinearGaussian);
    impl Contender for Own {
        fn name(&self) -> &str {
            "own"
        }
        fn fit(&self, _: &[Arc<Logs>]) -> Result<Arc<dyn Policy>> {
            Ok(Arc::new(self.0.clone()))
        }
    }
    let mut learner = settings("portfolio").learner().unwrap().0;
    learner.held_back = 0.4;
    let own: [Arc<dyn Contender>; 1] = [Arc::new(Own(first.clone()))];
    let said = retrain_among(&learner, &first, &held, &own, &mut Silent).unwrap_err().to_string();
    assert_eq!(said, "candidates of your own should be absent, with an engine, but is own");
}

#[test]
fn results_that_are_missing_or_broken_are_errors() {
    #[derive(Debug)]
    struct Broken(Shards, fn(Vec<Part>) -> Vec<Part>);
    impl Holder for Broken {
        fn map(&self, task: &str, records: Range<usize>, payload: &[u8]) -> Result<Vec<Part>> {
            self.0.map(task, records, payload).map(self.1)
        }
    }
    let (first, rounds) = rounds(false);
    let learner = settings("thompson").learner().unwrap().0;
    let said = |change: fn(Vec<Part>) -> Vec<Part>| {
        let logs = &rounds[1];
        let own = Logs::new(
            5,
            logs.contexts().clone(),
            logs.action().to_vec(),
            logs.propensity().to_vec(),
            logs.cost().to_vec(),
        );
        let shards = Shards(vec![(0..logs.len(), Shard::new(own.unwrap(), 0))]);
        let columns = (logs.action().to_vec().into(), logs.propensity().to_vec().into(), logs.cost().to_vec().into());
        let held = Logs::elsewhere(5, 10, columns, &logs.leaves(), Arc::new(Broken(shards, change))).unwrap();
        retrain(&learner, &first, &[held], &mut Silent).unwrap_err().to_string()
    };
    let lost = said(|_| Vec::new());
    assert!(lost.starts_with("it should return results for records 0 to "), "{lost}");
    let cut = said(|mut parts| {
        parts[0].result.pop();
        parts
    });
    assert!(cut.starts_with("the bytes of a task should have at least "), "{cut}");
    let long = said(|mut parts| {
        parts[0].result.push(0);
        parts
    });
    assert_eq!(long, "the bytes of a task should have no more, but has 1");

    let shard = Shard::new(rounds[0].clone(), 0);
    for payload in [&[][..], &[1, 2, 3], &[0; 64]] {
        for task in ["statistics", "rows", "search", "propensities", "rewards", "no such task"] {
            assert!(perform(task, payload, &shard).is_err());
        }
    }
    let leaves = rounds[0].leaves();
    let one = || vec![0; 1].into();
    let columns = (one(), vec![1.0].into(), vec![0.0].into());
    let said = Logs::elsewhere(2, 3, columns, &leaves[..2], Arc::new(Shards(Vec::new()))).unwrap_err().to_string();
    assert_eq!(said, "the fingerprints of chunks should have 1 entries, but has 2");
}
