//! Candidates: planted faults are found, and correct logs have none.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};

use super::{Random, numbers, report, report_with, sets, texts};
use crate::lint::{LintSettings, Report, Severity};
use crate::logs::ColumnNames;
use crate::table::candidates::{Candidate, Candidates};

/// A record: its candidates, the place of the chosen one, its propensity and its reward.
struct Record {
    articles: Vec<Candidate>,
    action: usize,
    p: f64,
    reward: f64,
}

/// How the logger chooses by the qualities of the candidates.
type Logger = fn(&[f64]) -> Vec<f64>;

fn softmax(quality: &[f64]) -> Vec<f64> {
    let weights: Vec<f64> = quality.iter().map(|q| (2.0 * q).exp()).collect();
    let all: f64 = weights.iter().sum();
    weights.iter().map(|w| w / all).collect()
}

fn greedy(quality: &[f64]) -> Vec<f64> {
    let best = quality.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0;
    let share = 0.06 / quality.len() as f64;
    (0..quality.len()).map(|a| share + if a == best { 0.94 } else { 0.0 }).collect()
}

/// Three to six of 40 articles, each with a quality, a price and a topic that stay what they are.
fn records(seed: u64, n: usize, logger: Logger) -> Vec<Record> {
    let mut random = Random(seed);
    let article = |a: usize| {
        let mut own = Random(1000 + a as u64);
        let quality = own.next() as f32;
        let topic = ["news", "sport", "art"][(own.next() * 3.0) as usize];
        let features = vec![
            ("quality".to_owned(), quality),
            ("price".to_owned(), own.next() as f32),
            (format!("topic={topic}"), 1.0),
        ];
        Candidate { id: Some(format!("a{a}")), features }
    };
    let record = |_| {
        let (m, first) = (3 + (random.next() * 4.0) as usize, (random.next() * 40.0) as usize);
        let articles: Vec<Candidate> = (0..m).map(|k| article((first + 7 * k) % 40)).collect();
        let quality: Vec<f64> = articles.iter().map(|article| f64::from(article.features[0].1)).collect();
        let p = logger(&quality);
        let action = random.draw(&p);
        Record { articles, action, p: p[action], reward: f64::from(random.next() < quality[action]) }
    };
    (0..n).map(record).collect()
}

fn table(records: &[Record]) -> RecordBatch {
    let mut lists = Candidates::default();
    records.iter().for_each(|record| lists.push(Some(&record.articles)));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("action", Arc::new(UInt32Array::from_iter_values(records.iter().map(|record| record.action as u32)))),
        ("pscore", numbers(records.iter().map(|record| record.p))),
        ("reward", numbers(records.iter().map(|record| record.reward))),
        ("candidates", lists.column()),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// What is found in correct records after a change of each.
fn changed(seed: u64, change: impl FnMut(&mut Record)) -> Report {
    let mut records = records(seed, 2000, softmax);
    records.iter_mut().for_each(change);
    report(&table(&records))
}

fn push(record: &mut Record, name: &str, value: impl Fn(usize, &Record) -> f32) {
    let values: Vec<f32> = (0..record.articles.len()).map(|k| value(k, record)).collect();
    for (article, value) in record.articles.iter_mut().zip(values) {
        article.features.push((name.to_owned(), value));
    }
}

#[test]
fn correct_logs_have_no_warning_whatever_the_logger_and_wherever_the_chosen_one_is() {
    for logger in [softmax as Logger, greedy] {
        for seed in 0..8 {
            let mut records = records(seed, 2000, logger);
            let found = report(&table(&records)).checks(Severity::Warning);
            assert!(found.is_empty(), "seed {seed}: {found:?}");
            // The service puts the chosen candidate first.
            for record in &mut records {
                record.articles[..=record.action].rotate_right(1);
                record.action = 0;
            }
            let found = report(&table(&records)).checks(Severity::Warning);
            assert!(found.is_empty(), "seed {seed}, first: {found:?}");
            records.iter_mut().flat_map(|record| &mut record.articles).for_each(|article| article.id = None);
            let found = report(&table(&records)).checks(Severity::Warning);
            assert!(found.is_empty(), "seed {seed}, without identities: {found:?}");
        }
    }
}

#[test]
fn batches_do_not_matter() {
    let table = table(&records(3, 500, softmax));
    let whole = report(&table);
    for rows in [1, 7, 400] {
        assert_eq!(report_with(&table, LintSettings::default(), &ColumnNames::default(), rows), whole);
    }
}

#[test]
fn a_mark_of_the_choice_is_found_and_named() {
    let report_of = changed(1, |record| push(record, "clicked", |k, record| f32::from(u8::from(k == record.action))));
    let found = report_of.of("candidate-leak");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("error: the candidate with the largest clicked was chosen in 2,000 of 2,000 records"));
    assert!(report_of.hint("candidate-leak").contains("known before the choice"));
    // A mark with noise, and one of those that were not chosen.
    let mut random = Random(9);
    let noisy = changed(1, |record| {
        let noise: Vec<f32> = (0..6).map(|_| random.next() as f32).collect();
        push(record, "score", move |k, record| noise[k] + if k == record.action { 0.4 } else { 0.0 });
    });
    assert!(noisy.of("candidate-leak")[0].contains("largest score"), "{:?}", noisy.findings);
    let not = changed(1, |record| push(record, "passed", |k, record| f32::from(u8::from(k != record.action))));
    assert!(not.of("candidate-leak")[0].contains("smallest passed"), "{:?}", not.findings);
}

#[test]
fn a_feature_that_is_the_place_is_found_and_an_order_is_noted() {
    for from in [0.0, 1.0] {
        let found = changed(2, |record| push(record, "rank", |k, _| k as f32 + from)).of("candidate-place");
        assert_eq!(found, ["warning: rank is the place of the candidate in its record, in all of 2,000 records"]);
    }
    let sorted = changed(2, |record| push(record, "score", |k, _| 9.0 - k as f32 * 1.5)).of("candidate-place");
    assert_eq!(sorted, ["note: the candidates of all of 2,000 records are listed in the order of score"]);
}

#[test]
fn candidates_that_repeat_are_found() {
    let mut n = 0;
    let report_of = changed(3, |record| {
        n += 1;
        if n % 100 == 0 {
            record.articles.push(record.articles[0].clone());
        }
    });
    assert_eq!(report_of.of("candidates"), ["error: 20 records list a candidate twice, by its identity"]);
    let alike = changed(3, |record| {
        record.articles.push(record.articles[0].clone());
        record.articles.iter_mut().for_each(|article| article.id = None);
    });
    let found = alike.of("candidates");
    assert_eq!(found, ["warning: 2,000 records list two candidates with the same features and no identity"]);
}

#[test]
fn identities_whose_features_move_are_found() {
    let mut random = Random(5);
    let price = changed(4, |record| record.articles.iter_mut().for_each(|a| a.features[1].1 = random.next() as f32));
    let found = price.of("candidate-moves");
    assert_eq!(found, ["note: 40 of 40 identities have features that differ between records: price (40)"]);
    let mut random = Random(5);
    let other = changed(4, |record| {
        record
            .articles
            .iter_mut()
            .for_each(|article| article.id = Some(format!("a{}", (random.next() * 30.0) as usize)));
    });
    assert!(other.of("candidate-moves")[0].starts_with("warning: 30 of 30 identities have other features"));
}

#[test]
fn places_that_are_taken_for_identities_are_found() {
    let placed = changed(6, |record| {
        (0..).zip(&mut record.articles).for_each(|(k, article): (usize, _)| article.id = Some(k.to_string()));
    });
    let found = placed.of("places");
    let message =
        "warning: the identities of candidates are their places in the list of each record, in all of 2,000 records";
    assert_eq!(found, [message]);
    let names = ColumnNames { positions: true, ..ColumnNames::default() };
    let asked = report_with(&table(&records(6, 200, softmax)), LintSettings::default(), &names, 8192).of("places");
    assert_eq!(asked, ["warning: the places of candidates are taken for their identities, as asked"]);
    // Lists 0 to m - 1 of different lengths, without candidates.
    let records = records(6, 200, softmax);
    let columns = |from: u32| -> Vec<(&str, ArrayRef)> {
        vec![
            ("action", Arc::new(UInt32Array::from_iter_values(records.iter().map(|r| r.action as u32 + from)))),
            ("pscore", numbers(records.iter().map(|record| record.p))),
            ("reward", numbers(records.iter().map(|record| record.reward))),
            ("eligible", sets(records.iter().map(|r| (from..from + r.articles.len() as u32).collect()))),
        ]
    };
    let found = |from| report(&RecordBatch::try_from_iter(columns(from)).unwrap()).of("places");
    assert_eq!(found(0).len(), 1);
    assert!(found(0)[0].contains("0 to m - 1, with m from 3 to 6"));
    assert!(found(1).is_empty());
}

#[test]
fn an_action_that_is_none_of_the_candidates_is_found() {
    let records = records(7, 60, softmax);
    let table = table(&records);
    let mut names: Vec<String> =
        records.iter().map(|record| record.articles[record.action].id.clone().unwrap()).collect();
    names[17] = "unknown".into();
    let schema = table.schema();
    let columns = schema.fields().iter().zip(table.columns()).map(|(field, column)| {
        let column = if field.name() == "action" { texts(names.clone()) } else { column.clone() };
        (field.name().clone(), column)
    });
    let found = report(&RecordBatch::try_from_iter(columns.collect::<Vec<_>>()).unwrap()).of("candidates");
    assert_eq!(found, ["error: the action of 1 record is none of their candidates"]);
}
