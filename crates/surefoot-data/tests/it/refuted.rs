//! Logs that contradict the assumptions of a certificate are refused, and logs with flaws are not called certified.

use std::fmt::Write as _;

use surefoot::Learner;
use surefoot::evaluation::Bias;
use surefoot::learn::Lambda;
use surefoot::observer::Silent;
use surefoot_data::{
    Actions, ColumnNames, EvaluateRequest, LearnRequest, LearnSummary, LogReader, NamedPolicy, Prior, ReadRequest,
    RecordPolicy, SelectRequest, evaluate, learn, select,
};

use crate::common::Folder;

/// Records of a uniform logging policy over two actions, the first of which is better. Each of the columns gives the
/// text of a cell.
fn logs(n: usize, columns: &[(&str, &dyn Fn(usize) -> String)]) -> (Folder, LogReader) {
    let mut csv = format!("x,action,reward,{}\n", columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(","));
    for i in 0..n {
        let mixed = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let (action, luck) = (mixed % 2, (mixed / 2) % 10);
        let reward = u64::from(luck < if action == 0 { 7 } else { 3 });
        write!(csv, "{},{action},{reward}", (mixed / 64) % 7).unwrap();
        columns.iter().for_each(|(_, cell)| write!(csv, ",{}", cell(i)).unwrap());
        csv.push('\n');
    }
    let folder = Folder::new();
    let path = folder.write("logs.csv", csv);
    let reader = LogReader::new(vec![path], None, ColumnNames::default());
    (folder, reader.with_actions(Some(Actions::Count(2))))
}

fn learned(reader: &LogReader) -> Result<LearnSummary, String> {
    let request = LearnRequest {
        read: ReadRequest::default(),
        prior: Prior::Uniform,
        prior_is_older: false,
        learner: Learner { lambda: Lambda::Fixed(0.5), ..Learner::default() },
        held_back: 0.2,
        exploration: 0.05,
        intercept: true,
        contenders: Vec::new(),
    };
    learn(reader, &request, &mut Silent).map(|learned| learned.summary).map_err(|e| e.to_string())
}

fn policies() -> Vec<NamedPolicy> {
    vec![NamedPolicy { name: "even".into(), policy: RecordPolicy::Uniform }]
}

fn evaluated(reader: &LogReader) -> Result<surefoot_data::Evaluated, String> {
    let request = EvaluateRequest { policies: policies(), replicates: 0, ..EvaluateRequest::default() };
    evaluate(reader, &request, |_| ()).map_err(|e| e.to_string())
}

fn selected(reader: &LogReader) -> Result<surefoot_data::Selected, String> {
    let request = SelectRequest { policies: policies(), prior: None, reward_range: [0.0, 1.0], delta: 0.05 };
    select(reader, &request, |_| ()).map_err(|e| e.to_string())
}

#[test]
fn propensities_too_small_for_two_actions_are_refused_everywhere() {
    let (_folder, reader) = logs(400, &[("pscore", &|_| "0.05".into())]);
    let all = [
        learned(&reader).map(|_| ()).unwrap_err(),
        evaluated(&reader).map(|_| ()).unwrap_err(),
        selected(&reader).map(|_| ()).unwrap_err(),
    ];
    for said in all {
        assert!(said.contains("the logs contradict the assumptions of a certificate"), "{said}");
        assert!(said.contains("the mean of 1/propensity is"), "{said}");
        assert!(said.contains("check that each propensity is the probability with which the logging policy chose"));
    }
}

#[test]
fn right_logs_are_certified() {
    let (_folder, reader) = logs(2000, &[("pscore", &|_| "0.5".into()), ("event_id", &|i| i.to_string())]);
    let learned = learned(&reader).unwrap();
    assert!(learned.certified && learned.at_least.unwrap() > 0.4, "{learned:?}");
    assert!(evaluated(&reader).unwrap().certified && selected(&reader).unwrap().certified);
}

#[test]
fn records_that_occur_twice_are_not_certified() {
    let (folder, reader) = logs(2000, &[("pscore", &|_| "0.5".into()), ("event_id", &|_| "same".into())]);
    let place = folder.path().join("logs.csv");
    let said = format!(
        "NOT certified: 1,999 records with an id that an earlier record has (the first is {}, row 1, with the id same), \
         so records are not independent: keep the first record of each id",
        place.display()
    );
    let learned = learned(&reader).unwrap();
    assert!(!learned.certified);
    assert_eq!(learned.warnings[0], said);
    let evaluated = evaluated(&reader).unwrap();
    assert_eq!((evaluated.certified, &evaluated.warnings[0]), (false, &said));
    assert_eq!((evaluated.policies[0].certified, &evaluated.policies[0].warnings[0]), (false, &said));
    let selected = selected(&reader).unwrap();
    assert_eq!((selected.certified, &selected.warnings[0]), (false, &said));
}

#[test]
fn rounds_in_the_wrong_order_are_not_certified() {
    let version = |i: usize| if i < 1000 { "v1".to_owned() } else { "v2".into() };
    let columns = |time: &dyn Fn(usize) -> String| {
        let (_folder, reader) =
            logs(2000, &[("pscore", &|_| "0.5".into()), ("policy_version", &version), ("timestamp", time)]);
        learned(&reader).unwrap()
    };
    assert!(columns(&|i| i.to_string()).certified);
    // Within a round the order does not matter, and neither do rounds that overlap.
    assert!(columns(&|i| (i / 1000 * 1000 + (i * 7) % 1500).to_string()).certified);
    let swapped = columns(&|i| ((i + 1000) % 2000).to_string());
    assert!(!swapped.certified);
    assert!(swapped.warnings[0].starts_with("NOT certified: round v1 began at 1000 ("), "{:?}", swapped.warnings);
    assert!(swapped.warnings[0].contains("after round v2, which follows it in the logs and began at 0 ("));
}

#[test]
fn one_estimate_is_recommended_and_every_bias_is_named() {
    let (_folder, reader) = logs(2000, &[("pscore", &|_| "0.5".into())]);
    let policy = evaluated(&reader).unwrap().policies.remove(0);
    let recommended = policy.recommended.unwrap();
    let chosen = policy.estimates.iter().find(|estimate| estimate.name == recommended).unwrap();
    assert_eq!(chosen.bias, Bias::Vanishes);
    assert!(policy.reason.starts_with("its bias vanishes"), "{}", policy.reason);
    let of = |bias: Bias| policy.estimates.iter().filter(|estimate| estimate.bias == bias).count();
    assert_eq!((of(Bias::None), of(Bias::Vanishes), of(Bias::Unknown)), (1, 1, 0));
    let (_folder, few) = logs(20, &[("pscore", &|_| "0.5".into())]);
    let policy = evaluated(&few).unwrap().policies.remove(0);
    assert_eq!(policy.recommended, None);
    assert!(policy.reason.starts_with("the effective sample size is 20 of 20 records"), "{}", policy.reason);
}
