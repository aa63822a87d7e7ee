//! The same data gives the same policy from every format that can hold it, and the policy decides on records of every
//! format.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array};
use surefoot::Learner;
use surefoot::learn::Lambda;
use surefoot::observer::Silent;
use surefoot_data::lint::{Lint, LintSettings};
use surefoot_data::{
    ColumnNames, EncodingSettings, Field, Format, Grouping, LearnRequest, Learned, LogReader, NamedPart, Prior,
    ReadRequest, RecordPolicy, Scan, Scorer, convert, learn, write_table,
};
use tempfile::TempDir;

use crate::actions::Draws;

const CITIES: [&str; 3] = ["Oslo", "Rome", "Turin"];

/// Records of two numbers, a small one and a large one, and a text. Every number is one of 32 bits, which the formats
/// without columns have.
fn columns(n: usize, many: bool) -> Vec<(&'static str, ArrayRef)> {
    let mut draws = Draws(7);
    let (mut action, mut reward, mut x, mut age) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut city, mut code) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let a = draws.below(3);
        x.push((draws.below(1024) as f64 + 1.0) / 256.0 - 2.001_953_125);
        age.push(20 + i64::from(draws.below(50) as u32));
        let c = draws.below(3);
        city.push(CITIES[c]);
        code.push(format!("k{}", draws.below(200)));
        let good = a == c || (a == 0 && age[age.len() - 1] > 55);
        action.push(a as u32);
        reward.push(f64::from(draws.next() < if good { 0.8 } else { 0.2 }));
    }
    let mut columns: Vec<(&'static str, ArrayRef)> = vec![
        ("action", Arc::new(UInt32Array::from(action))),
        ("pscore", Arc::new(Float64Array::from(vec![1.0 / 3.0; n]))),
        ("reward", Arc::new(Float64Array::from(reward))),
        ("x", Arc::new(Float64Array::from(x))),
        ("age", Arc::new(Int64Array::from(age))),
        ("city", Arc::new(StringArray::from(city))),
    ];
    if many {
        columns.push(("code", Arc::new(StringArray::from(code))));
    }
    columns
}

fn reader(path: &Path) -> LogReader {
    LogReader::new(vec![path.to_owned()], None, ColumnNames::default())
}

/// The records as a file of each format.
fn files(folder: &TempDir, n: usize, many: bool) -> Vec<PathBuf> {
    let table = RecordBatch::try_from_iter(columns(n, many)).unwrap();
    let source = LogReader::in_memory("logs".into(), vec![table], ColumnNames::default());
    let file = |format: Format| {
        let path = folder.path().join(format!("logs.{}", format.extension()));
        convert(&source, &path, format, &[]).unwrap();
        path
    };
    // Open Bandit Pipeline's arrays cannot hold texts.
    Format::ALL.into_iter().filter(|format| *format != Format::Obp).map(file).collect()
}

fn learned(reader: &LogReader, encoding: EncodingSettings) -> Learned {
    let request = LearnRequest {
        read: ReadRequest { encoding, ..ReadRequest::default() },
        prior: Prior::Uniform,
        prior_is_older: false,
        learner: Learner { lambda: Lambda::Fixed(0.5), ..Learner::default() },
        held_back: 0.2,
        exploration: 0.05,
        intercept: true,
    };
    learn(reader, &request, &mut Silent).unwrap()
}

#[test]
fn every_format_gives_the_same_policy() {
    let folder = TempDir::new().unwrap();
    for many in [false, true] {
        let mut first: Option<Learned> = None;
        for path in files(&folder, 3000, many) {
            let found = learned(&reader(&path), EncodingSettings::default());
            let mut expected = vec!["x", "age", "city"];
            expected.extend(many.then_some("code"));
            assert_eq!(found.summary.columns, expected, "{}", path.display());
            assert_eq!(found.summary.features, if many { 5 + 256 } else { 5 });
            let first = first.get_or_insert_with(|| found.clone());
            let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
            let (one, other) = (&found.summary, &first.summary);
            let place = path.display();
            assert!(near(one.at_least.unwrap(), other.at_least.unwrap()), "{place}: {one:?} {other:?}");
            assert!(near(one.better_by.unwrap(), other.better_by.unwrap()), "{place}: {one:?} {other:?}");
            assert!(near(one.estimate[0], other.estimate[0]), "{place}: {one:?} {other:?}");
        }
    }
}

#[test]
fn many_names_are_hashed_and_weights_are_numbers() {
    let folder = TempDir::new().unwrap();
    let fitted = |text: &str| {
        let path = folder.path().join("logs.vw");
        fs::write(&path, text).unwrap();
        let encoding = EncodingSettings { standardise: false, ..EncodingSettings::default() };
        learned(&reader(&path), encoding).inputs.encoding
    };
    let line = |features: String| format!("1:-1:0.5 |{features}\n2:0:0.5 |{features}\n");
    let few: String = (0..100).map(|_| line(" a:2 b=c:3 d=e".into())).collect();
    let few = fitted(&few);
    let Field::Listed { parts, .. } = &few.fields()[0] else { panic!("not listed") };
    let number = |name: &str| NamedPart::Number { name: name.into(), mean: 0.0, scale: 1.0 };
    let category = NamedPart::OneHot { name: "d".into(), categories: vec!["e".into()] };
    assert_eq!(parts, &[number("a"), number("b=c"), category]);
    let wide: String = (0..1025).map(|i| format!(" f{i}:2")).collect();
    let many: String = (0..100).map(|_| line(wide.clone())).collect();
    assert!(matches!(fitted(&many).fields(), [Field::Named { bits: 10, .. }]));
}

#[test]
fn a_list_is_a_feature_that_is_asked_for_or_an_error() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("logs.jsonl");
    let lines: String = (0..200)
        .map(|i| format!("{{\"action\": {}, \"pscore\": 0.5, \"reward\": 1, \"x\": 1, \"v\": [{i}, 2]}}\n", i % 2))
        .collect();
    fs::write(&path, lines).unwrap();
    let request = |encoding| ReadRequest { encoding, ..ReadRequest::default() };
    let read = |encoding| surefoot_data::Rounds::read(&reader(&path), &request(encoding), None);
    let said = read(EncodingSettings::default()).unwrap_err().to_string();
    let expected = "the column v has lists, and may be a feature or not: name it with features, or ignore it";
    assert!(said.ends_with(expected), "{said}");
    let asked = EncodingSettings { features: Some(vec!["x".into(), "v".into()]), ..EncodingSettings::default() };
    assert_eq!(read(asked).unwrap().encoding.columns(), ["x", "v"]);
    let ignored = EncodingSettings { ignore: vec!["v".into()], ..EncodingSettings::default() };
    assert_eq!(read(ignored).unwrap().encoding.columns(), ["x"]);
}

#[test]
fn ids_and_times_among_the_features_are_reported() {
    let n = 1000;
    let mut all = columns(n, false);
    all.push(("row", Arc::new(Int64Array::from_iter_values(0..1000))));
    all.push(("user", Arc::new(StringArray::from_iter_values((0..n).map(|i| format!("u{i}"))))));
    let table = RecordBatch::try_from_iter(all).unwrap();
    let found =
        learned(&LogReader::in_memory("logs".into(), vec![table], ColumnNames::default()), EncodingSettings::default());
    let about: Vec<&String> = found.summary.warnings.iter().filter(|warning| warning.contains("an id")).collect();
    assert_eq!(
        about,
        [
            "column user looks like an identity (values that are mostly different): it is hashed, and the policy file does \
             not list its values; leave the column out unless it should be a feature",
            "the column row is a feature, but looks like an id or a time: it increases from record to record; ignore it"
        ]
    );
}

/// A policy, for decisions.
fn scorer(folder: &TempDir, seed: u64) -> Scorer {
    files(folder, 3000, false);
    let found = learned(&reader(&folder.path().join("logs.vw")), EncodingSettings::default());
    let policy = RecordPolicy::Encoded { policy: Arc::new(found.policy), inputs: Arc::new(found.inputs) };
    Scorer::new(policy, seed, true).unwrap()
}

#[test]
fn decisions_need_no_labels() {
    let folder = TempDir::new().unwrap();
    let scorer = scorer(&folder, 1);
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let vw = "'e1 | x:0.5 age:30 city=Rome\n\n'e2 | x:-1.5 age:60 city=Oslo\n\nshared 'e3 | age:30\n|\n|\n";
    let json = r#"{"EventId": "e1", "c": {"x": 0.5, "age": 30, "city": "Rome"}}
{"EventId": "e2", "c": {"x": -1.5, "age": 60, "city": "Oslo"}}
{"EventId": "e3", "c": {"age": 30, "_multi": [{}, {}]}}
"#;
    let decide = |path: &Path| {
        let reader = reader(path).without_labels();
        let batch = reader.batches().next().unwrap().unwrap();
        let table = scorer.score(&batch).unwrap();
        let p = table.column(4).as_list::<i32>().clone();
        let p: Vec<Vec<f64>> = (0..3).map(|i| p.value(i).as_primitive::<Float64Type>().values().to_vec()).collect();
        (table.column(0).as_string::<i32>().clone(), table.column(1).as_primitive::<UInt32Type>().clone(), p)
    };
    let (vw, json) = (write("new.vw", vw), write("new.dsjson", json));
    let (one, other) = (decide(&vw), decide(&json));
    assert_eq!(one, other);
    assert_eq!(one.0, StringArray::from(vec!["e1", "e2", "e3"]));
    assert_eq!((one.2[2].len(), one.2[2][2]), (3, 0.0), "two actions are eligible");
    // To learn from them is another matter.
    for (path, reason) in [(vw, "should have records with action, propensity and reward"), (json, "but has no a")] {
        let said = Scan::of(&reader(&path), &Grouping::File).unwrap_err().to_string();
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn events_without_ids_get_new_ones_and_their_own_draws() {
    let folder = TempDir::new().unwrap();
    let scorer = scorer(&folder, 1);
    let path = folder.path().join("one.vw");
    fs::write(&path, "| x:0.5 age:30 city=Oslo\n").unwrap();
    let reader = reader(&path).without_labels();
    let mut chosen: HashMap<u32, usize> = HashMap::new();
    let mut ids = std::collections::HashSet::new();
    let mut p = Vec::new();
    let n = 300;
    for _ in 0..n {
        let batch = reader.batches().next().unwrap().unwrap();
        assert!(scorer.draws_ids(&batch).unwrap());
        let table = scorer.score(&batch).unwrap();
        let action = table.column(1).as_primitive::<UInt32Type>().value(0);
        *chosen.entry(action).or_default() += 1;
        let id = table.column(0).as_string::<i32>().value(0).to_owned();
        p = table.column(4).as_list::<i32>().value(0).as_primitive::<Float64Type>().values().to_vec();
        // The id tells how the decision was drawn.
        fs::write(folder.path().join("again.vw"), format!("'{id} | x:0.5 age:30 city=Oslo\n")).unwrap();
        let again = LogReader::new(vec![folder.path().join("again.vw")], None, ColumnNames::default());
        let batch = again.without_labels().batches().next().unwrap().unwrap();
        assert!(!scorer.draws_ids(&batch).unwrap());
        assert_eq!(scorer.score(&batch).unwrap().column(1).as_primitive::<UInt32Type>().value(0), action);
        assert!(ids.insert(id), "an id twice");
    }
    // Each frequency is within 6 standard errors of the propensity.
    for (action, p) in p.into_iter().enumerate() {
        let found = chosen.get(&(action as u32)).copied().unwrap_or(0) as f64 / n as f64;
        assert!((found - p).abs() < 6.0 * (p * (1.0 - p) / n as f64).sqrt() + 1e-9, "{action}: {found}, not {p}");
    }
}

#[test]
fn lint_finds_logs_in_which_every_decision_had_the_same_draw() {
    let folder = TempDir::new().unwrap();
    let scorer = scorer(&folder, 1);
    let mut draws = Draws(3);
    // The same records, decided with one id for all of them and with one id each.
    let contexts: Vec<String> = (0..1000)
        .map(|_| {
            let (x, age) = (draws.below(1024) as f64 / 256.0 - 2.0, 20 + draws.below(50));
            format!("x:{x} age:{age} city={}", CITIES[draws.below(3)])
        })
        .collect();
    let report = |same: bool| {
        let id = |i: usize| if same { "0".to_owned() } else { format!("e{i}") };
        let text: String = contexts.iter().enumerate().map(|(i, c)| format!("'{} | {c}\n", id(i))).collect();
        let path = folder.path().join("new.vw");
        fs::write(&path, text).unwrap();
        let reader = reader(&path).without_labels();
        let tables: Vec<RecordBatch> = reader.batches().map(|batch| scorer.score(&batch.unwrap()).unwrap()).collect();
        let logged: Vec<RecordBatch> = tables
            .iter()
            .map(|table| {
                let n = table.num_rows();
                let rewards: ArrayRef = Arc::new(Float64Array::from_iter_values((0..n).map(|i| (i % 2) as f64)));
                let keep = [("action", 1), ("pscore", 2), ("probabilities", 4)];
                let columns = keep.map(|(name, at)| (name, Arc::clone(table.column(at))));
                RecordBatch::try_from_iter(columns.into_iter().chain([("reward", rewards)])).unwrap()
            })
            .collect();
        let path = folder.path().join("logged.parquet");
        let schema = logged[0].schema();
        write_table(&path, Format::Parquet, &schema, &mut logged.into_iter().map(Ok)).unwrap();
        let mut lint = Lint::new(LintSettings::default());
        let logs = LogReader::new(vec![path], None, ColumnNames::default());
        logs.batches().for_each(|batch| lint.add(&batch.unwrap()).unwrap());
        let found = serde_json::to_value(lint.finish(0)).unwrap();
        let severe = |finding: &&serde_json::Value| finding["severity"] != "note";
        found["findings"].as_array().unwrap().iter().filter(severe).cloned().collect::<Vec<_>>()
    };
    assert_eq!(report(false), Vec::<serde_json::Value>::new());
    assert!(!report(true).is_empty());
}
