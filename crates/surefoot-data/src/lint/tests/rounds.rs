//! Versions, time, and contexts that change.

use super::*;

fn versions(n: usize, of: impl Fn(usize) -> &'static str) -> (&'static str, ArrayRef) {
    ("policy_version", texts((0..n).map(of)))
}

#[test]
fn versions_are_counted_and_should_not_come_back() {
    let log = log(1, 3000, uniform(2));
    let said = report(&log.table(vec![versions(3000, |i| if i < 1000 { "a" } else { "b" })]));
    assert_eq!(said.summary.versions, Some(2));
    assert_eq!(said.of("policy-version"), ["note: learn would see 2 rounds of 1,000, 2,000 records"]);
    let said = report(&log.table(vec![versions(3000, |i| if i < 1000 || i == 2500 { "a" } else { "b" })]));
    assert_eq!(
        said.of("policy-version")[0],
        "warning: versions interleave: 1 record of a version that began before the version of the preceding record"
    );
    let said = report(&log.table(vec![versions(3000, |i| if i == 7 { "" } else { "a" })]));
    assert_eq!(said.of("policy-version")[0], "warning: 1 record without a policy version");
    assert_eq!(log.report().summary.versions, None);
}

#[test]
fn timestamps_should_not_go_back() {
    let log = log(1, 3, uniform(2));
    let back = |times: [&str; 3]| report(&log.table(vec![("timestamp", texts(times))])).of("timestamp").len();
    assert_eq!(back(["1", "5", "20"]), 0);
    assert_eq!(back(["1", "5", "4.5"]), 1);
    assert_eq!(back(["2024-01-01T00:00:09Z", "2024-01-01T00:00:10.5Z", "2024-01-02T00:00:00Z"]), 0);
    assert_eq!(back(["2024-01-01T00:00:09Z", "2023-12-31T23:59:59Z", "2024-01-02T00:00:00Z"]), 1);
    // Nobody knows.
    assert_eq!(back(["2024-01-01T00:00:09+02:00", "2024-01-01T00:00:08Z", "soon"]), 0);
}

#[test]
fn records_may_be_left_out_evenly_only() {
    let log = log(1, 1000, uniform(2));
    let said = |p: Vec<f64>| report(&log.table(vec![("pdrop", numbers(p))]));
    assert_eq!(said(vec![0.0; 1000]).of("pdrop"), [""; 0]);
    assert!(said(vec![0.5; 1000]).of("pdrop")[0].starts_with("note: "));
    let mut p = vec![0.5; 1000];
    (p[3], p[4]) = (0.25, 1.0);
    let said = said(p).of("pdrop");
    assert!(said[0].starts_with("error: 1 record with a pdrop that is not in [0, 1)"), "{said:?}");
    assert!(said[1].starts_with("error: 1 record with another pdrop than the first"), "{said:?}");
}

#[test]
fn skipped_records_are_counted() {
    let log = log(1, 1000, uniform(2));
    let skip = numbers((0..1000).map(|i| f64::from(u8::from(i % 10 == 0))));
    let said = report(&log.table(vec![("skip", skip)]));
    assert_eq!((said.summary.records, said.summary.skipped), (900, 100));
    assert_eq!(said.of("skip"), ["note: 100 records skipped on request of the logger, and not counted"]);
}

#[test]
fn contexts_that_change_between_versions_are_found() {
    let mut log = log(1, 3000, uniform(2));
    let version = || versions(3000, |i| ["a", "b", "c"][i / 1000]);
    let place = |i: usize| if i >= 2000 && i % 10 < 3 { "cart" } else { ["home", "page"][i % 2] };
    assert_eq!(report(&log.table(vec![version()])).of("drift"), [""; 0]);
    log.x[1000..2000].iter_mut().for_each(|x| *x += 0.3);
    let said = report(&log.table(vec![version(), ("place", texts((0..3000).map(place)))])).of("drift").concat();
    assert!(
        said.starts_with("warning: the distribution of 2 columns changes: place is another category in 30% of"),
        "{said}"
    );
    assert!(said.contains("deviations higher in version b than in the others"), "{said}");
}

#[test]
fn contexts_that_change_from_half_to_half_are_found() {
    let mut log = log(1, 3000, uniform(2));
    let context = |log: &Log| ("context", lists(log.x.iter().map(|x| vec![1.0, *x])));
    assert_eq!(report(&log.table(vec![context(&log)])).of("drift"), [""; 0]);
    (0..).zip(&mut log.x).for_each(|(i, x)| *x += f64::from(i) / 3000.0);
    let said = report(&log.table(vec![context(&log)])).of("drift").concat();
    assert!(said.contains("context[1] is 0.5"), "{said}");
    assert!(said.contains("deviations higher in the second half than in the first half"), "{said}");
}

#[test]
fn a_small_change_is_not_worth_a_word() {
    let mut log = log(1, 100_000, uniform(2));
    log.x[50_000..].iter_mut().for_each(|x| *x += 0.08);
    assert_eq!(log.report().of("drift"), [""; 0]);
}
