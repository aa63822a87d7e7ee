//! The set of actions: nothing may be called certified if it depends on the records that the numbers come from.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt32Array};
use surefoot::Learner;
use surefoot::audit::ActionsFrom;
use surefoot::observer::Silent;
use surefoot_data::{
    Actions, ColumnNames, EvaluateRequest, LearnRequest, LearnSummary, LogReader, NamedPolicy, Prior, ReadRequest,
    RecordPolicy, Rounds, SelectRequest, evaluate, learn, select,
};

/// SplitMix64.
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() * n as f64) as usize
    }
}

const NAMES: usize = 2000;
const RECORDS: usize = 2000;
/// What every policy earns.
const REWARD: f64 = 0.3;

/// A world in which every action earns the same, logged by the uniform policy over all names: each name occurs about
/// once, and a third of them never. Over the names that occur, every weight is too large.
fn world(seed: u64, records: usize, names: usize, named: bool) -> LogReader {
    let mut draws = Draws(seed);
    let chosen: Vec<usize> = (0..records).map(|_| draws.below(names)).collect();
    let reward: Vec<f64> = (0..records).map(|_| f64::from(draws.next() < REWARD)).collect();
    let x: Vec<f64> = (0..records).map(|_| draws.next()).collect();
    let action: ArrayRef = match named {
        true => Arc::new(StringArray::from_iter_values(chosen.iter().map(|a| format!("item{a:04}")))),
        false => Arc::new(UInt32Array::from_iter_values(chosen.iter().map(|&a| a as u32))),
    };
    let columns: [(&str, ArrayRef); 4] = [
        ("action", action),
        ("pscore", Arc::new(Float64Array::from(vec![1.0 / names as f64; records]))),
        ("reward", Arc::new(Float64Array::from(reward))),
        ("x", Arc::new(Float64Array::from(x))),
    ];
    let table = RecordBatch::try_from_iter(columns).unwrap();
    LogReader::in_memory("logs".into(), vec![table], ColumnNames::default())
}

fn all_names(names: usize) -> Actions {
    Actions::named((0..names).map(|a| format!("item{a:04}")).collect()).unwrap()
}

fn learned(reader: &LogReader) -> LearnSummary {
    try_learned(reader).unwrap()
}

fn try_learned(reader: &LogReader) -> surefoot_data::Result<LearnSummary> {
    let learner = Learner { lambda: surefoot::learn::Lambda::Fixed(0.5), ..Learner::default() };
    let mut request = LearnRequest {
        read: ReadRequest::default(),
        prior: Prior::Uniform,
        prior_is_older: false,
        learner,
        held_back: 0.2,
        exploration: 0.0,
        intercept: true,
        contenders: Vec::new(),
    };
    request.learner.optimiser =
        surefoot::learn::LearnerSettings { epochs: 1, ..Default::default() }.learner().unwrap().0.optimiser;
    Ok(learn(reader, &request, &mut Silent)?.summary)
}

#[test]
fn names_that_only_judging_records_have_certify_nothing() {
    for seed in 0..20 {
        let found = match try_learned(&world(seed, RECORDS, NAMES, true)) {
            Ok(found) => found,
            // Weights that are too large may already contradict themselves.
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains("the logs contradict the assumptions"), "seed {seed}: {said}");
                assert!(said.contains("give all actions, option actions"), "seed {seed}: {said}");
                continue;
            }
        };
        assert!(!found.certified && found.at_least.is_none() && found.better_by.is_none(), "seed {seed}");
        assert!(found.warnings[0].starts_with("NOT certified: some actions do not occur in the records set aside"));
    }
}

#[test]
fn with_all_names_no_run_certifies_more_than_there_is() {
    for seed in 0..20 {
        let found = learned(&world(seed, RECORDS, NAMES, true).with_actions(Some(all_names(NAMES))));
        assert!(found.certified && found.actions == NAMES, "seed {seed}");
        let at_least = found.at_least.unwrap_or(0.0);
        assert!(at_least <= REWARD + 1e-9, "seed {seed}: {at_least}");
    }
}

#[test]
fn actions_that_all_occur_among_the_records_set_aside_are_certified() {
    for (named, k) in [(true, 3), (false, 3)] {
        let found = learned(&world(1, 400, k, named));
        assert!(found.certified && found.actions == k, "{found:?}");
        let given = if named { all_names(4) } else { Actions::Count(4) };
        let found = learned(&world(1, 400, k, named).with_actions(Some(given)));
        assert!(found.certified && found.actions == 4, "{found:?}");
    }
    // Numbers: one more than the largest is not known before the records either.
    assert!(!learned(&world(2, 400, 2000, false)).certified);
    assert!(learned(&world(2, 400, 2000, false).with_actions(Some(Actions::Count(2000)))).certified);

    let from = |reader: &LogReader, set_aside| {
        Rounds::read(reader, &ReadRequest { set_aside, ..ReadRequest::default() }, None).unwrap().actions_from
    };
    assert_eq!(from(&world(1, 400, 3, true), 0.1), ActionsFrom::SetAside);
    assert_eq!(from(&world(1, 400, 3, true), 0.0), ActionsFrom::AllRecords);
    assert_eq!(from(&world(1, 400, 3, true).with_actions(Some(all_names(3))), 0.0), ActionsFrom::Given);
}

#[test]
fn a_given_list_is_all_that_there_is() {
    let reader = world(1, 400, 3, true).with_actions(Some(all_names(2)));
    let said = Rounds::read(&reader, &ReadRequest::default(), None).unwrap_err().to_string();
    assert!(said.contains("action should be one of item0000, item0001, but is \"item0002\""), "{said}");
}

#[test]
fn the_uniform_policy_needs_actions_that_the_logs_do_not_tell() {
    let uniform = || vec![NamedPolicy { name: "even".into(), policy: RecordPolicy::Uniform }];
    let evaluated = |reader: &LogReader| {
        let request = EvaluateRequest { policies: uniform(), replicates: 0, ..EvaluateRequest::default() };
        evaluate(reader, &request, |_| ())
    };
    let selected = |reader: &LogReader| {
        let request = SelectRequest { policies: uniform(), prior: None, reward_range: [0.0, 1.0], delta: 0.05 };
        select(reader, &request, |_| ())
    };
    let expected = "even: the uniform policy needs all actions, and not only those that occur in the logs: give them \
        (option actions), or log the eligible actions of every record";
    for named in [true, false] {
        let reader = world(1, RECORDS, NAMES, named);
        assert_eq!(evaluated(&reader).unwrap_err().to_string(), expected);
        assert_eq!(selected(&reader).unwrap_err().to_string(), expected);
    }
    for seed in 0..20 {
        let reader = world(seed, RECORDS, NAMES, true).with_actions(Some(all_names(NAMES)));
        let found = evaluated(&reader).unwrap().policies.remove(0).anytime;
        assert!(found.lower <= REWARD && found.upper >= REWARD, "seed {seed}: {found:?}");
        let found = selected(&reader).unwrap();
        assert!(found.mixture.at_least <= REWARD, "seed {seed}: {found:?}");
    }
    // Where every record lists its eligible actions, uniform over these is a fixed policy.
    let eligible: ArrayRef = Arc::new(StringArray::from(vec!["[0, 1]"; 2]));
    let columns: [(&str, ArrayRef); 4] = [
        ("action", Arc::new(UInt32Array::from(vec![0, 0]))),
        ("pscore", Arc::new(Float64Array::from(vec![0.5, 0.5]))),
        ("reward", Arc::new(Float64Array::from(vec![1.0, 0.0]))),
        ("eligible", eligible),
    ];
    let table = RecordBatch::try_from_iter(columns).unwrap();
    let reader = LogReader::in_memory("logs".into(), vec![table], ColumnNames::default());
    assert_eq!(evaluated(&reader).unwrap().records, 2);
}

#[test]
fn a_text_gives_the_actions() {
    let names = |names: &[&str]| Actions::Names(names.iter().map(|&name| name.into()).collect());
    assert_eq!("3".parse::<Actions>().unwrap(), Actions::Count(3));
    assert_eq!("b, a".parse::<Actions>().unwrap(), names(&["b", "a"]));
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("names.txt");
    std::fs::write(&path, "x, y\nz\n\n").unwrap();
    assert_eq!(format!("@{}", path.display()).parse::<Actions>().unwrap(), names(&["x, y", "z"]));
    let said = |text: &str| text.parse::<Actions>().unwrap_err().to_string();
    assert_eq!(said("1"), "actions should be a number of at least 2, or a list of names, but is 1");
    assert_eq!(said("a,b,a"), "actions should be at least 2 different names, none empty, but is one with \"a\" twice");
    assert_eq!(said("a,"), "actions should be at least 2 different names, none empty, but is one with \"\" in it");
    assert_eq!(said("a"), "actions should be at least 2 different names, none empty, but is a");
    assert!(said("@no such file").starts_with("no such file: cannot be read: "));
}
