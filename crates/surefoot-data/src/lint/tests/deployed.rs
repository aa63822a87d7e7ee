//! Policies of Surefoot: those that took the decisions, and one that the logs are asked about.

use std::sync::Arc;

use surefoot::policy::{Posterior, Scale};
use surefoot::{Contexts, FeatureMap, LinearGaussian, Policy};

use super::*;
use crate::encoding::{Encoding, Field};
use crate::inputs::{Inputs, Lineage};
use crate::logs::Actions;
use crate::record_policy::RecordPolicy;

/// A policy over three actions with these weights of `x`.
fn policy(weights: [f64; 3]) -> RecordPolicy {
    let posterior = Posterior::new(3, weights.to_vec(), Scale::Shared(1.0)).unwrap();
    let policy = Arc::new(LinearGaussian::new(FeatureMap::identity(1), posterior).unwrap());
    let field = Field::Number { column: "x".into(), mean: 0.0, scale: 1.0, indicator: false };
    let encoding = Encoding::new(vec![field]).unwrap();
    let lineage = Lineage { prior: None, logs: vec![], learner: None, made_by: "a test".into() };
    RecordPolicy::Encoded { policy, inputs: Arc::new(Inputs::new(Actions::Count(3), encoding, [0.0, 1.0], lineage)) }
}

fn drawn(seed: u64, n: usize, judged: &RecordPolicy) -> Log {
    let RecordPolicy::Encoded { policy, .. } = judged else { unreachable!() };
    log(seed, n, |x| policy.distribution(&Contexts::dense(vec![x as f32], 1).unwrap(), None).unwrap())
}

fn ask(log: &Log, version: impl Fn(usize) -> &'static str, settings: LintSettings) -> Report {
    let versions = texts((0..log.x.len()).map(version));
    report_with(&log.table(vec![("policy_version", versions)]), settings, &ColumnNames::default(), 100)
}

#[test]
fn propensities_come_out_again_from_the_policy_that_took_the_decisions() {
    let (one, other) = (policy([1.0, 0.0, -1.0]), policy([-1.0, 0.5, 1.0]));
    let mut log = drawn(1, 500, &one);
    let settings = |deployed| LintSettings { deployed, ..LintSettings::default() };
    let said = ask(&log, |_| "v1", settings(vec![(None, one.clone())]));
    assert_eq!(said.of("deployed"), ["note: the deployed policy: the propensities of 500 records are reproduced"]);

    log.propensity[3] *= 1.001;
    let version = |i: usize| if i < 400 { "v1" } else { "v2" };
    let said = ask(&log, version, settings(vec![(Some("v1".into()), one.clone())]));
    assert_eq!(
        said.of("deployed"),
        [
            "error: version v1: 1 of 400 records with a propensity that differs from the policy's",
            "note: 100 records of versions without a given policy"
        ]
    );
    let wrong = &said.findings[0].rows[0];
    assert!(wrong.row == 3 && wrong.found.starts_with(&format!("{} instead of 0.", log.propensity[3])), "{wrong:?}");

    // Some of another policy's propensities are the same by chance, where x is 0.
    let said = ask(&log, version, settings(vec![(Some("v2".into()), other), (Some("v3".into()), one)]));
    assert!(said.of("deployed")[0].starts_with("error: version v2: "), "{:?}", said.findings);
    assert_eq!(said.of("deployed")[1], "warning: version v3: no record could be compared");
}

#[test]
fn a_record_that_a_policy_cannot_understand_is_left_out_and_counted() {
    let (one, other) = (policy([0.5, 0.0, -0.5]), policy([0.0, 0.2, 0.3]));
    let mut log = drawn(2, 3000, &one);
    (log.action[5], log.propensity[6]) = (3, -1.0);
    let settings = LintSettings { policies: vec![("new".into(), other)], ..LintSettings::default() };
    let said = ask(&log, |_| "v1", settings);
    let left_out = "note: new: 2 records left out, with wrong values or with actions that the policy does not know";
    assert_eq!(said.of("policy-weight"), [left_out]);
    let support = &said.summary.policies[1];
    assert!(support.records == 2998 && support.z.abs() < 4.0, "{support:?}");
}
