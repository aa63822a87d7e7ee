//! Single values that are wrong, or look made up.

use super::*;
use crate::lint::Row;

#[test]
fn bad_propensities_are_errors_with_their_rows() {
    let mut log = log(1, 1000, uniform(2));
    (log.propensity[3], log.propensity[500], log.propensity[501]) = (0.0, 1.2, 1.5);
    let mut cells: Vec<Option<f64>> = log.propensity.iter().copied().map(Some).collect();
    (cells[7], cells[8]) = (None, Some(f64::INFINITY));
    let table = log.table(vec![("pscore", Arc::new(Float64Array::from(cells)))]);
    let report = report(&table);
    assert_eq!(
        report.of("propensity"),
        [
            "error: 1 record without a propensity",
            "error: 1 record with a propensity that is not a finite number",
            "error: 1 record with a propensity of 0 or below, though the action was chosen",
            "error: 2 records with a propensity above 1; it is not clipped to 1, because the true value is unknown",
        ]
    );
    let rows = &report.findings[3].rows;
    let row = |row: usize, found: &str| Row { file: "logs".into(), row, found: found.into() };
    assert_eq!(rows[..], [row(500, "1.2"), row(501, "1.5")]);
}

#[test]
fn percentages_and_logarithms_are_recognised() {
    let mut log = log(1, 1000, softmax(3, 1.0));
    let right = log.propensity.clone();
    log.propensity.iter_mut().for_each(|q| *q *= 100.0);
    assert!(log.report().hint("propensity").contains("if they are percentages, divide them by 100"));
    log.propensity = right.iter().map(|q| q.ln()).collect();
    assert!(log.report().hint("propensity").contains("if they are logarithms, log their exponentials"));
    log.propensity = right;
    assert_eq!(log.report().of("propensity"), [""; 0]);
}

#[test]
fn constant_propensities_are_uniform_or_suspicious_or_useless() {
    let mut log = log(1, 1000, uniform(4));
    assert_eq!(
        log.report().of("constant-propensity"),
        ["note: every propensity is 0.25: the logging policy is uniform"]
    );
    log.propensity.fill(0.3);
    assert_eq!(
        log.report().of("constant-propensity"),
        ["warning: every propensity is 0.3, which is not 1 over the number of actions, 4"]
    );
    log.propensity.fill(1.0);
    assert_eq!(
        log.report().of("constant-propensity"),
        ["error: every propensity is 1: the logging policy is deterministic"]
    );
}

#[test]
fn rounded_propensities_are_suspicious() {
    let mut log = log(1, 4000, softmax(4, 0.5));
    assert_eq!(log.report().of("round-propensities"), [""; 0]);
    log.propensity.iter_mut().for_each(|q| *q = (*q * 100.0).round() / 100.0);
    assert_eq!(log.report().of("round-propensities").len(), 1);
}

#[test]
fn few_propensities_are_worth_a_note() {
    let said = log(1, 1000, greedy(4, 0.2)).report().of("few-propensities").concat();
    assert_eq!(said, "note: only 2 different propensities (0.05, 0.85): typical of an epsilon-greedy policy");
    assert_eq!(log(1, 1000, softmax(3, 1.0)).report().of("few-propensities"), [""; 0]);
}

#[test]
fn distributions_must_be_some_and_agree_with_the_propensity() {
    let mut log = log(1, 1000, softmax(3, 0.5));
    let report_of = |log: &Log| report(&log.table(vec![("probabilities", lists(log.p.clone()))]));
    assert_eq!(report_of(&log).checks(Severity::Warning), [""; 0]);
    // What 32-bit numbers lose is nothing.
    log.p.iter_mut().flatten().for_each(|p| *p = f64::from(*p as f32));
    assert_eq!(report_of(&log).checks(Severity::Warning), [""; 0]);
    log.p[1] = vec![0.5, 0.6, 0.0];
    log.p[2] = vec![1.5, -0.5, 0.0];
    log.p[3] = vec![0.5, 0.5];
    log.propensity[4] *= 0.999;
    let report = report_of(&log);
    assert_eq!(
        report.of("distribution"),
        [
            "error: 1 record with a distribution of the wrong length",
            "error: 1 record with a probability outside [0, 1]",
            "error: 1 record with probabilities that do not sum to 1",
        ]
    );
    assert_eq!(
        report.of("distribution-propensity"),
        ["error: 1 record whose probability of the chosen action differs from the propensity"]
    );
}

#[test]
fn an_action_must_be_eligible_and_a_set_has_no_action_twice() {
    let log = log(1, 1000, uniform(3));
    let mut eligible = vec![vec![2, 0, 1]; 1000];
    assert_eq!(report(&log.table(vec![("eligible", sets(eligible.clone()))])).checks(Severity::Warning), [""; 0]);
    eligible[5].retain(|&a| a != log.action[5]);
    eligible[6].push(0);
    let report = report(&log.table(vec![("eligible", sets(eligible))]));
    assert_eq!(report.of("not-eligible"), ["error: 1 record with an action that was not eligible"]);
    assert_eq!(report.of("eligible-twice"), ["error: 1 record with the same action twice among the eligible ones"]);
}

#[test]
fn actions_that_are_counted_from_one_are_asked_about() {
    let mut log = log(1, 1000, uniform(3));
    log.action.iter_mut().for_each(|a| *a += 1);
    let found = log.report();
    assert_eq!(found.of("from-one").len(), 1);
    assert_eq!((found.summary.actions, found.checks(Severity::Warning)), (3, vec!["from-one"]));
    let columns = ColumnNames { from_one: true, ..ColumnNames::default() };
    let said = report_with(&log.table(vec![]), LintSettings::default(), &columns, 100);
    assert_eq!((said.summary.actions, said.checks(Severity::Warning)), (3, vec![]));
    log.action[0] = 0;
    let said = report_with(&log.table(vec![]), LintSettings::default(), &columns, 100);
    assert_eq!(said.of("action"), ["error: 1 record with action 0, but actions are counted from 1"]);
}

#[test]
fn actions_may_be_names_and_should_all_be_chosen() {
    let log = log(1, 1000, uniform(3));
    let name = |a: &u32| ["left", "right", "up"][*a as usize];
    let said = report(&log.table(vec![("action", texts(log.action.iter().map(name)))]));
    assert_eq!((said.summary.actions, said.checks(Severity::Warning)), (3, vec![]));
    let numbers = Arc::new(UInt32Array::from_iter_values(log.action.iter().map(|a| a * 2)));
    let said = report(&log.table(vec![("action", numbers)]));
    assert_eq!(said.of("coverage"), ["warning: 2 of 5 actions never chosen: 1, 3"]);
    let mixed =
        report(&log.table(vec![("action", texts(log.action.iter().map(|a| if *a == 0 { "0" } else { name(a) })))]));
    assert_eq!(mixed.checks(Severity::Warning), ["mixed-actions"]);
}

#[test]
fn bad_rewards_are_errors_and_costs_are_recognised() {
    let mut log = log(1, 1000, uniform(2));
    assert_eq!(log.report().of("reward"), [""; 0]);
    (log.reward[3], log.reward[4]) = (f64::NAN, 2.0);
    let said = log.report();
    assert_eq!(
        said.of("reward"),
        [
            "error: 1 record with a reward that is not a finite number",
            "error: 1 record with a reward outside [0, 1]; rewards go from 0 to 2"
        ]
    );
    assert_eq!(said.hint("reward"), "if such rewards are possible, use --reward-range 0,2 or a wider range");
    log.reward = (0..1000).map(|i| -f64::from(i % 2)).collect();
    assert!(log.report().hint("reward").starts_with("no reward is above 0: if they are costs"));
    let costs = log.table(vec![("cost", numbers(log.reward.clone()))]);
    let costs = costs.project(&[0, 1, 2, 4]).unwrap();
    let said = report(&costs);
    assert_eq!((said.of("reward"), said.summary.mean_reward), (vec![], Some(0.5)));
    log.reward.fill(0.5);
    assert_eq!(log.report().of("constant-reward").len(), 1);
}

#[test]
fn records_that_came_twice_are_found_and_estimated_when_they_are_many() {
    let log = log(1, 6000, uniform(2));
    let id = |i: usize| format!("id-{}", if i.is_multiple_of(3) { i / 6 * 6 } else { i });
    let table = log.table(vec![("event_id", texts((0..6000).map(id)))]);
    let said = report(&table);
    assert_eq!(said.of("event-id"), ["error: 1,000 records with an id that an earlier record has"]);
    let few = LintSettings { ids: 700, ..LintSettings::default() };
    let said = report_with(&table, few, &ColumnNames::default(), 8192);
    let about = said.findings.iter().find(|finding| finding.check == "event-id").unwrap();
    assert!((800..1200).contains(&about.count), "{about:?}");
    assert!(about.message.ends_with("(one in 8 ids was checked)"), "{about:?}");
    let unique = report(&log.table(vec![("event_id", texts((0..6000).map(|i| i.to_string())))]));
    assert_eq!(unique.of("event-id"), [""; 0]);
}

#[test]
fn batches_of_any_size_give_the_same_report() {
    let mut log = log(9, 3000, softmax(4, 0.5));
    (log.propensity[10], log.reward[20]) = (2.0, -1.0);
    let version = texts((0..3000).map(|i| if i < 1700 { "a" } else { "b" }));
    let place = texts((0..3000).map(|i| ["home", "cart", "page"][i * i % 3]));
    let table = log.table(vec![
        ("policy_version", version),
        ("place", place),
        ("probabilities", lists(log.p.clone())),
        ("event_id", texts((0..3000).map(|i| (i % 2900).to_string()))),
    ]);
    let whole = report_with(&table, LintSettings::default(), &ColumnNames::default(), 3000);
    for rows in [1, 7, 64, 1000] {
        assert_eq!(report_with(&table, LintSettings::default(), &ColumnNames::default(), rows), whole);
    }
    let one = table.project(&[0, 1, 2, 3, 5]).unwrap();
    let whole = report_with(&one, LintSettings::default(), &ColumnNames::default(), 3000);
    assert_eq!(report_with(&one, LintSettings::default(), &ColumnNames::default(), 13), whole);
}

#[test]
fn no_records_are_an_error() {
    assert_eq!(Lint::new(LintSettings::default()).finish(0).checks(Severity::Error), ["records"]);
}
