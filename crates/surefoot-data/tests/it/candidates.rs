//! Logs whose candidates have features: what is read, how it is encoded, and what policies over candidates do with it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use surefoot::policy::{Posterior, Scale};
use surefoot::{FeatureMap, LinearGaussian, Logs, RewardRange};
use surefoot_data::{
    ActionIs, Actions, CandidateInputs, Catalogue, Check, ColumnNames, EncodingSettings, EvaluateRequest, Inputs,
    Lineage, LogReader, ModelRequest, NamedPolicy, ReadRequest, RecordPolicy, Rounds, Scan, Scorer, evaluate,
    read_table,
};
use tempfile::TempDir;

/// Numbers in [0, 1) that look random and are always the same.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() * n as f64) as usize
    }
}

struct Article {
    id: String,
    topic: &'static str,
    length: f64,
}

/// A request: a user, some articles, the place of the one that was shown, its propensity and its reward.
struct Request {
    user: f64,
    articles: Vec<usize>,
    shown: usize,
    pscore: f64,
    reward: u8,
}

/// Ten articles about three topics. Old users like sport, and all like long articles.
fn articles() -> Vec<Article> {
    let topics = ["sport", "news", "art"];
    (0..10).map(|i| Article { id: format!("n{i}"), topic: topics[i % 3], length: 1.0 + (i * 7 % 5) as f64 }).collect()
}

fn requests(n: usize) -> Vec<Request> {
    let (all, mut draws) = (articles(), Draws(7));
    (0..n)
        .map(|_| {
            let user = (20.0 + 50.0 * draws.next()).floor();
            let count = 2 + draws.below(3);
            let mut articles: Vec<usize> = Vec::new();
            while articles.len() < count {
                let one = draws.below(10);
                if !articles.contains(&one) {
                    articles.push(one);
                }
            }
            let shown = draws.below(count);
            let liked = &all[articles[shown]];
            let p = 0.1 + 0.1 * liked.length + if liked.topic == "sport" && user > 45.0 { 0.3 } else { 0.0 };
            Request { user, articles, shown, pscore: 1.0 / count as f64, reward: u8::from(draws.next() < p) }
        })
        .collect()
}

/// The same requests in each form.
fn written(folder: &Path, requests: &[Request]) -> Vec<(&'static str, LogReader)> {
    let all = articles();
    let (mut dsjson, mut jsonl, mut vw, mut ids) = (String::new(), String::new(), String::new(), String::new());
    let mut long = String::from("event_id,user.age,item_id,article.topic,article.length,chosen,pscore,reward\n");
    for (i, Request { user, articles, shown, pscore, reward }) in requests.iter().enumerate() {
        let each =
            |one: &dyn Fn(&Article) -> String| -> Vec<String> { articles.iter().map(|&a| one(&all[a])).collect() };
        let multi =
            each(&|a| format!(r#"{{"_tag":"{}","article":{{"topic":"{}","length":{:?}}}}}"#, a.id, a.topic, a.length));
        let order: Vec<String> = [*shown]
            .into_iter()
            .chain((0..articles.len()).filter(|place| place != shown))
            .map(|place| (place + 1).to_string())
            .collect();
        let p = vec![pscore.to_string(); articles.len()].join(",");
        let _ = writeln!(
            dsjson,
            r#"{{"_label_cost":{},"EventId":"e{i}","a":[{}],"p":[{p}],"c":{{"user":{{"age":{user:?}}},"_multi":[{}]}}}}"#,
            -i32::from(*reward),
            order.join(","),
            multi.join(",")
        );
        let candidates =
            each(&|a| format!(r#"{{"id":"{}","article":{{"topic":"{}","length":{:?}}}}}"#, a.id, a.topic, a.length));
        let start = format!(r#"{{"event_id":"e{i}","user":{{"age":{user:?}}},"pscore":{pscore},"reward":{reward}"#);
        let chosen = &all[articles[*shown]].id;
        let _ = writeln!(jsonl, r#"{start},"candidates":[{}],"action":"{chosen}"}}"#, candidates.join(","));
        let eligible = each(&|a| format!("\"{}\"", a.id)).join(",");
        let _ = writeln!(ids, r#"{start},"eligible":[{eligible}],"action":"{chosen}"}}"#);
        let _ = writeln!(vw, "shared 'e{i} |user age:{user}");
        for (place, &a) in articles.iter().enumerate() {
            let Article { id, topic, length } = &all[a];
            let label = if place == *shown { format!("0:{}:{pscore} ", -i32::from(*reward)) } else { String::new() };
            let _ = writeln!(vw, "{label}'{id} |article topic={topic} length:{length}");
            let known = if place == *shown { format!("1,{pscore},{reward}") } else { "0,,".into() };
            let _ = writeln!(long, "e{i},{user},{id},{topic},{length},{known}");
        }
        vw.push('\n');
    }
    let mut catalogue = String::from("id,article.topic,article.length\n");
    for Article { id, topic, length } in &all {
        let _ = writeln!(catalogue, "{id},{topic},{length}");
    }
    let reader = |name: &str, text: &str| reader(&file(folder, name, text));
    let frame = {
        let path = file(folder, "frame.jsonl", &jsonl);
        let tables = read_table(&path, surefoot_data::Format::JsonLines).unwrap().map(Result::unwrap).collect();
        LogReader::in_memory("frame".into(), tables, ColumnNames::default())
    };
    let catalogue = Catalogue::read(&reader("articles.csv", &catalogue), None).unwrap();
    vec![
        ("jsonl", reader("w.jsonl", &jsonl)),
        ("frame", frame),
        ("dsjson", reader("w.dsjson", &dsjson)),
        ("vw", reader("w.vw", &vw)),
        ("long", reader("w.csv", &long)),
        ("catalogue", reader("ids.jsonl", &ids).with_catalogue(Some(Arc::new(catalogue)))),
    ]
}

fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

fn reader(path: &Path) -> LogReader {
    LogReader::new(vec![path.to_owned()], None, ColumnNames::default())
}

/// The features of all candidates of all records.
fn features(logs: &Logs) -> Vec<Vec<Vec<f64>>> {
    let sets = logs.eligible().unwrap();
    let width = sets.features().unwrap();
    let one = |i: usize, a: usize| {
        let mut row = vec![0.0; width];
        sets.candidate(i, a).unwrap().for_each(|f, v| row[f] = v);
        row
    };
    (0..logs.len()).map(|i| (0..sets.get(i).len()).map(|a| one(i, a)).collect()).collect()
}

#[test]
fn every_format_gives_the_same_records_with_the_same_features() {
    let folder = TempDir::new().unwrap();
    let requests = requests(300);
    let mut expected = None;
    for (name, reader) in written(folder.path(), &requests) {
        let rounds = Rounds::read(&reader, &ReadRequest::default(), None).unwrap_or_else(|e| panic!("{name}: {e}"));
        let logs = &rounds.rounds[0];
        assert_eq!(logs.len(), 270, "{name}");
        let shown: Vec<u32> = requests[30..].iter().map(|request| request.shown as u32).collect();
        assert_eq!(logs.action(), shown, "{name}");
        let costs: Vec<f64> = requests[30..].iter().map(|request| -f64::from(request.reward)).collect();
        assert_eq!(logs.cost(), costs, "{name}");
        let joint = rounds.joint.as_ref().unwrap();
        // The topics and the length, and the ten articles; the products are of the former with the user.
        assert_eq!((joint.contexts(), joint.candidates(), joint.output()), (1, 14, 14 + 4), "{name}");
        assert_eq!((rounds.actions.len(), rounds.set_aside.as_ref().unwrap().len()), (4, 30), "{name}");
        let found = features(logs);
        let near = |a: &f64, b: &f64| (a - b).abs() < 1e-5;
        match &expected {
            None => {
                let ones = |row: &Vec<f64>| row[4..].iter().filter(|v| **v == 1.0).count() == 1;
                assert!(found.iter().flatten().all(ones));
                expected = Some(found);
            }
            Some(expected) => {
                let mut pairs = expected.iter().flatten().zip(found.iter().flatten());
                // Topics may come before the length or after it.
                let sorted = |row: &[f64]| {
                    let mut row = row[..4].to_vec();
                    row.sort_by(f64::total_cmp);
                    row
                };
                let same = |(a, b): (&Vec<f64>, &Vec<f64>)| {
                    sorted(a).iter().zip(&sorted(b)).all(|(a, b)| near(a, b)) && a[4..] == b[4..]
                };
                assert!(pairs.all(same), "{name}");
            }
        }
    }
}

#[test]
fn evaluation_is_the_same_from_every_format() {
    let folder = TempDir::new().unwrap();
    let mut expected = None;
    for (name, reader) in written(folder.path(), &requests(300)) {
        let request = EvaluateRequest { policies: vec![uniform()], replicates: 0, ..EvaluateRequest::default() };
        let found = evaluate(&reader, &request, |_| {}).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((found.records, found.certified), (300, true), "{name}");
        // The logging policy is the uniform one.
        let weights = found.policies[0].weights;
        assert!((weights.mean - 1.0).abs() < 1e-12 && (weights.largest - 1.0).abs() < 1e-12, "{name}");
        let estimate = found.policies[0].estimates[0].estimate.value;
        assert_eq!(*expected.get_or_insert(estimate), estimate, "{name}");
    }
}

fn uniform() -> NamedPolicy {
    NamedPolicy { name: "uniform".into(), policy: RecordPolicy::Uniform }
}

/// What is said of some lines, or the places of the chosen candidates.
fn actions(text: &str, columns: ColumnNames) -> Result<Vec<u32>, String> {
    let folder = TempDir::new().unwrap();
    let path = file(folder.path(), "logs.jsonl", text);
    let reader = LogReader::new(vec![path], None, columns);
    let mut check = Check::new(Actions::Count(2), RewardRange::new(0.0, 1.0).unwrap());
    let batch = reader.batches().next().unwrap().map_err(|e| e.to_string());
    let records = batch.and_then(|batch| check.records(&batch).map_err(|e| e.to_string()));
    let said = records.map_err(|e| e.replace(&format!("{}/", folder.path().display()), ""));
    said.map(|records| records.action)
}

fn line(candidates: &str, action: &str) -> String {
    format!("{{\"candidates\":{candidates},\"action\":{action},\"pscore\":0.5,\"reward\":1}}\n")
}

#[test]
fn an_action_is_an_identity_or_a_place_and_the_types_tell_which() {
    let plain = ColumnNames::default;
    let texts = r#"[{"id":"b"},{"id":"1"},{"id":"a"}]"#;
    let numbers = r#"[{"id":2},{"id":1},{"id":0}]"#;
    assert_eq!(actions(&line(texts, "\"a\""), plain()), Ok(vec![2]));
    assert_eq!(actions(&line(texts, "\"1\""), plain()), Ok(vec![1]));
    assert_eq!(actions(&line(texts, "1"), plain()), Ok(vec![1]), "a number is a place among texts");
    assert_eq!(actions(&line(numbers, "2"), plain()), Ok(vec![0]), "and an identity among numbers");
    let place = ColumnNames { action_is: Some(ActionIs::Place), ..plain() };
    assert_eq!(actions(&line(numbers, "2"), place.clone()), Ok(vec![2]));
    assert_eq!(actions(&line(numbers, "3"), ColumnNames { from_one: true, ..place }), Ok(vec![2]));
    let named = ColumnNames { identity: Some("sku".into()), ..plain() };
    assert_eq!(actions(&line(r#"[{"sku":"x","id":1},{"sku":"y","id":0}]"#, "\"y\""), named), Ok(vec![1]));
    let without = r#"[{"x":1},{"x":2}]"#;
    assert_eq!(actions(&line(without, "1"), plain()), Ok(vec![1]));
    // Only some of the candidates are eligible: they alone are candidates.
    let some = line(texts, "\"a\"").replace("\"action\"", "\"eligible\":[2,0],\"action\"");
    assert_eq!(actions(&some, plain()), Ok(vec![1]));
}

#[test]
fn what_no_record_with_candidates_can_be_is_refused_with_row_and_field() {
    let said = |candidates: &str, action: &str| actions(&line(candidates, action), ColumnNames::default()).unwrap_err();
    let two = r#"[{"id":"a"},{"id":"b"}]"#;
    assert_eq!(
        said(two, "\"c\""),
        "logs.jsonl, row 0: action should be the identity of a candidate, one of a, b, but is \"c\""
    );
    assert_eq!(
        said(r#"[{"id":"a"},{"id":"a"}]"#, "\"a\""),
        "logs.jsonl, row 0: action should be the identity of one candidate, but is \"a\", which several candidates have"
    );
    assert_eq!(said(two, "2"), "logs.jsonl, row 0: action should be the place of a candidate, from 0 to 1, but is 2");
    assert_eq!(
        actions(&(line(two, "0") + &line("[]", "0")), ColumnNames::default()).unwrap_err(),
        "logs.jsonl, row 1: candidates should be a list with at least one candidate, but is empty"
    );
    assert_eq!(
        said("[1, 2]", "0"),
        "logs.jsonl: the type of column candidates should be lists of objects (lists of structs), but is List(Float64)"
    );
    assert_eq!(
        said(r#"[{"id":"a","_id":"b"}]"#, "0"),
        "logs.jsonl: the field with the identity of a candidate should be unique, or named by an option, but is id or _id"
    );
    let eligible = line(two, "0").replace("\"action\"", "\"eligible\":[0,0],\"action\"");
    assert_eq!(
        actions(&eligible, ColumnNames::default()).unwrap_err(),
        "logs.jsonl, row 0: eligible should be every candidate once, but is \"0\" twice"
    );
    let other = line(two, "0").replace("\"action\"", "\"eligible\":[1],\"action\"");
    assert_eq!(
        actions(&other, ColumnNames::default()).unwrap_err(),
        "logs.jsonl, row 0: action should be the place of a candidate, one of the eligible 1, but is 0"
    );
}

#[test]
fn candidates_that_come_or_go_in_the_middle_of_a_log_are_refused() {
    let folder = TempDir::new().unwrap();
    let bare = r#"{"_label_cost":0,"a":[1,2],"p":[0.5,0.5],"c":{"x":1,"_multi":[{},{}]}}"#.to_owned() + "\n";
    let full = bare.replace("{},{}", r#"{"y":1},{"y":2}"#);
    let first = file(folder.path(), "bare.dsjson", &bare);
    let then = file(folder.path(), "full.dsjson", &full);
    let of = |paths: Vec<PathBuf>, positions| {
        let reader = LogReader::new(paths, None, ColumnNames { positions, ..ColumnNames::default() });
        Scan::of(&reader, &surefoot_data::Grouping::File).map_err(|e| e.to_string())
    };
    let said = of(vec![first.clone(), then.clone()], false).unwrap_err();
    assert!(
        said.ends_with(
            "full.dsjson, row 0: the candidates from this record on should be without features, as those before; or their \
             features are ignored (option positions), but is with features"
        ),
        "{said}"
    );
    assert!(of(vec![then.clone(), first.clone()], false).is_err());
    let scan = of(vec![first, then.clone()], true).unwrap();
    assert_eq!((scan.actions, scan.candidates), (Actions::Count(2), None));
    assert_eq!(of(vec![then], false).unwrap().candidates, Some(2));
}

#[test]
fn decisions_without_a_label_are_left_out_and_counted_but_can_be_scored() {
    let folder = TempDir::new().unwrap();
    let vw = "shared | x\n0:-1:0.5 |a y\n|a z\n\nshared | x\n|a y\n|a z\n\n";
    let path = file(folder.path(), "logs.vw", vw);
    let scan = Scan::of(&reader(&path), &surefoot_data::Grouping::File).unwrap();
    assert_eq!((scan.records, scan.unlabelled), (1, 1));
    let batch = reader(&path).without_labels().batches().next().unwrap().unwrap();
    assert_eq!(batch.len(), 2);
    let none = file(folder.path(), "none.vw", "shared | x\n|a y\n|a z\n");
    let said = Scan::of(&reader(&none), &surefoot_data::Grouping::File).unwrap_err().to_string();
    assert!(said.ends_with("should have records with action, propensity and reward, but has 1 without"), "{said}");
}

#[test]
fn an_identity_can_be_a_named_feature() {
    let folder = TempDir::new().unwrap();
    let line = |cost: u8, ids: [&str; 2]| {
        let [a, b] = ids.map(|id| format!(r#"{{"news":{{"sku":{id},"words":3}}}}"#));
        format!(r#"{{"_label_cost":-{cost},"a":[1,2],"p":[0.5,0.5],"c":{{"x":1,"_multi":[{a},{b}]}}}}"#) + "\n"
    };
    let text: String = (0..40).map(|i| line(i % 2, if i % 3 == 0 { ["\"u\"", "7"] } else { ["7", "\"v\""] })).collect();
    let path = file(folder.path(), "logs.dsjson", &text);
    let columns = ColumnNames { identity: Some("news.sku".into()), ..ColumnNames::default() };
    let rounds = Rounds::read(&LogReader::new(vec![path], None, columns), &ReadRequest::default(), None).unwrap();
    let CandidateInputs { encoding, identity } = rounds.candidates.unwrap();
    assert_eq!((encoding.columns(), identity.as_deref()), (vec!["news.words", "id"], Some("news.sku")));
    assert_eq!(encoding.names()[1..], ["id=7", "id=u", "id=v"]);
}

/// A policy over the candidates of these requests that likes long articles.
fn policy(reader: &LogReader) -> (RecordPolicy, Rounds) {
    let settings = EncodingSettings { crosses: Some(Vec::new()), ..EncodingSettings::default() };
    let rounds = Rounds::read(reader, &ReadRequest { encoding: settings, ..ReadRequest::default() }, None).unwrap();
    let (joint, inputs) = (rounds.joint.clone().unwrap(), rounds.candidates.clone().unwrap());
    let at = inputs.encoding.names().iter().position(|name| name == "article.length").unwrap();
    let mut mean = vec![0.0; joint.output()];
    mean[at] = 2.0;
    let posterior = Posterior::over_candidates(mean, Scale::Shared(0.5)).unwrap();
    let map = FeatureMap::identity(rounds.encoding.width());
    let policy = LinearGaussian::over_candidates(map, joint, rounds.actions.len(), posterior).unwrap();
    let policy = policy.with_exploration(0.05).unwrap();
    let inputs = Inputs::new(rounds.actions.clone(), rounds.encoding.clone(), [0.0, 1.0], Lineage::default());
    let inputs = inputs.with_candidates(rounds.candidates.clone());
    (RecordPolicy::Encoded { policy: Arc::new(policy), inputs: Arc::new(inputs) }, rounds)
}

#[test]
fn a_policy_scores_the_raw_records_of_any_format_alike() {
    let folder = TempDir::new().unwrap();
    let all = written(folder.path(), &requests(200));
    let (policy, _) = policy(&all[0].1);
    let scorer = Scorer::new(policy, 3, true).unwrap();
    let mut expected = None;
    for (name, reader) in &all[..2] {
        let batch = reader.batches().next().unwrap().unwrap();
        let decided = scorer.score(&batch).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(decided.num_rows(), 200);
        assert_eq!(expected.get_or_insert(decided.clone()), &decided, "{name}");
    }
    let decided = expected.unwrap();
    use arrow_array::cast::AsArray;
    use arrow_array::types::Float64Type;
    let ids = decided.column_by_name("action").unwrap().as_string::<i32>();
    let pscore = decided.column_by_name("pscore").unwrap().as_primitive::<Float64Type>();
    let lists = decided.column_by_name("probabilities").unwrap().as_list::<i32>();
    let articles = articles();
    let mut longest = 0;
    for (i, request) in requests(200).iter().enumerate() {
        let p = lists.value(i);
        let p = p.as_primitive::<Float64Type>();
        let place = request.articles.iter().position(|&a| articles[a].id == ids.value(i)).unwrap();
        assert_eq!(p.len(), request.articles.len());
        assert!((p.values().iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!((p.value(place) - pscore.value(i)).abs() < 1e-8);
        let most = request.articles.iter().map(|&a| articles[a].length).fold(0.0, f64::max);
        longest += usize::from(articles[request.articles[place]].length == most);
    }
    assert!(longest > 170, "{longest}");
}

#[test]
fn new_articles_are_scored_by_their_features_and_more_of_them_than_ever_before() {
    let folder = TempDir::new().unwrap();
    let all = written(folder.path(), &requests(200));
    let (policy, rounds) = policy(&all[0].1);
    assert_eq!(rounds.actions.len(), 4);
    let scorer = Scorer::new(policy, 3, true).unwrap();
    let one =
        |id: &str, length: u32| format!(r#"{{"id":"{id}","article":{{"topic":"new","length":{length}}},"odd":1}}"#);
    let many: Vec<String> = (0..7).map(|i| one(&format!("later{i}"), if i == 5 { 9 } else { 1 })).collect();
    let record = format!(r#"{{"user":{{"age":30}},"candidates":[{}]}}"#, many.join(","));
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let decided = scorer.decide("e", record.as_object().unwrap()).unwrap();
    assert_eq!(decided.action, 5);
    assert!(decided.propensity > 0.9, "{}", decided.propensity);
    // A candidate whose identity is missing cannot be named.
    let without = folder.path().join("without.jsonl");
    fs::write(&without, r#"{"event_id":"e","user":{"age":30},"candidates":[{"id":"a"},{"article":{"length":9}}]}"#)
        .unwrap();
    let batch = reader(&without).without_labels().batches().next().unwrap().unwrap();
    let said = scorer.score(&batch).unwrap_err().to_string();
    assert!(said.ends_with("row 0, candidate 1: id should be the identity of the candidate, but is missing"), "{said}");
}

#[test]
fn policies_and_models_of_fixed_actions_say_that_they_do_not_fit() {
    let folder = TempDir::new().unwrap();
    let all = written(folder.path(), &requests(50));
    let said = |policy: &str, model: &str, reader: &LogReader| {
        let policies = vec![NamedPolicy { name: "p".into(), policy: policy.parse().unwrap() }];
        let model = ModelRequest::named(model, &[]).unwrap();
        let request = EvaluateRequest { policies, model, replicates: 0, ..EvaluateRequest::default() };
        evaluate(reader, &request, |_| {}).map(|found| found.policies[0].weights.mean).map_err(|e| e.to_string())
    };
    let error = said("columns:pi_", "none", &all[0].1).unwrap_err();
    assert!(error.starts_with("columns:pi_: a column per action is for fixed actions"), "{error}");
    let error = said("uniform", "linear", &all[0].1).unwrap_err();
    assert!(error.contains("the reward model should be") && error.contains("candidates"), "{error}");
    let given = all[0].1.clone().with_actions(Some(Actions::Count(3)));
    let error = said("uniform", "none", &given).unwrap_err();
    assert!(error.contains("actions should be not given, as every record has its own candidates"), "{error}");
    // The logged distribution of dsjson, in the order of `a`, and a list with a number per candidate.
    assert!((said("logged", "none", &all[2].1).unwrap() - 1.0).abs() < 1e-12);
    let text = fs::read_to_string(folder.path().join("w.jsonl")).unwrap();
    let half: String = text
        .lines()
        .map(|line| {
            let count = line.matches("\"id\"").count();
            line.replace("{\"event_id\"", &format!("{{\"mine\":{:?},\"event_id\"", vec![1.0 / count as f64; count]))
                + "\n"
        })
        .collect();
    let path = file(folder.path(), "mine.jsonl", &half);
    assert!((said("list:mine", "none", &reader(&path)).unwrap() - 1.0).abs() < 1e-12);
    let short = half.replace("\"mine\":[0.5,", "\"mine\":[");
    let error = said("list:mine", "none", &reader(&file(folder.path(), "short.jsonl", &short))).unwrap_err();
    assert!(error.contains("mine should be 2 numbers, one per candidate, but is 1"), "{error}");
    // A policy over candidates needs candidates.
    let (policy, _) = policy(&all[0].1);
    let csv = file(folder.path(), "plain.csv", "user.age,action,pscore,reward\n30,0,0.5,1\n40,1,0.5,0\n");
    let policies = vec![NamedPolicy { name: "p".into(), policy }];
    let request = EvaluateRequest { policies, replicates: 0, ..EvaluateRequest::default() };
    let error = evaluate(&reader(&csv), &request, |_| {}).unwrap_err().to_string();
    assert!(error.contains("the policy chooses among candidates with features, but the records have none"), "{error}");
}

#[test]
fn rows_of_an_event_are_its_candidates_and_what_differs_between_them_is_theirs() {
    let folder = TempDir::new().unwrap();
    let said = |text: &str, columns: ColumnNames| {
        let path = file(folder.path(), "long.csv", text);
        let reader = LogReader::new(vec![path], None, columns);
        let rounds = Rounds::read(&reader, &ReadRequest { set_aside: 0.5, ..ReadRequest::default() }, None);
        rounds.map_err(|e| e.to_string().replace(&format!("{}/", folder.path().display()), ""))
    };
    let good = "event_id,age,sku,price,chosen,pscore,reward\ne1,30,a,1,0,,\ne1,30,b,2,1,0.5,1\ne2,40,c,3,1,0.5,0\ne2,40,a,1,0,,\n\
                e3,50,a,1,true,1,1\n";
    let named = ColumnNames { identity: Some("sku".into()), ..ColumnNames::default() };
    let rounds = said(good, named.clone()).unwrap();
    assert_eq!((rounds.encoding.columns(), rounds.rounds[0].action()), (vec!["age"], &[0][..]));
    assert_eq!(rounds.candidates.unwrap().encoding.columns(), ["price", "id"]);
    let by_reward = ColumnNames { chosen: Some("reward".into()), ..named.clone() };
    let rounds = said(&good.replace(",chosen", ",x"), by_reward);
    assert_eq!(rounds.unwrap().set_aside.unwrap().action(), [1, 0]);
    let wrong = |text: &str| said(text, named.clone()).unwrap_err();
    assert_eq!(
        wrong(&good.replace("e1,30,a,1,0", "e1,30,a,1,1")),
        "long.csv, row 1: chosen should be true for one candidate of an event, but is true for a second one"
    );
    assert_eq!(
        wrong(&good.replace("e1,30,a,1,0", "e1,30,a,1,2")),
        "long.csv, row 0: chosen should be 1 (true) for the chosen candidate and 0 (false) for the others, but is 2"
    );
    assert_eq!(
        wrong(&format!("{good}e1,30,c,1,0,,\n")),
        "long.csv, row 5: event_id should be that of an event whose rows are all next to each other, but is \"e1\", which \
         came before"
    );
    assert_eq!(
        wrong(&good.replace("e2,40,c", ",40,c")),
        "long.csv, row 2: event_id should be the id of the event of this candidate, but is missing"
    );
    // What the user says about columns is held against the rows.
    let given = ColumnNames { candidate_features: Some(vec!["age".into()]), ..named.clone() };
    assert_eq!(
        said(good, given).unwrap_err(),
        "long.csv, row 1: price should be the same for all candidates of an event, as before (or name it as a feature of \
         candidates), but is another than in the row before"
    );
    // An error downstream names the first row of the event.
    assert_eq!(
        wrong(&good.replace("e2,40,c,3,1,0.5,0", "e2,40,c,3,1,1.5,0")),
        "long.csv, row 2: pscore should be in (0, 1], but is 1.5"
    );
}

#[test]
fn an_event_may_continue_in_the_next_batch() {
    let folder = TempDir::new().unwrap();
    let mut text = String::from("event_id,age,id,price,chosen,pscore,reward\n");
    // Seven rows an event: batches of 8,192 rows cut events.
    for event in 0..3000 {
        for place in 0..7 {
            let known = if place == event % 7 { "1,0.142857,1" } else { "0,," };
            let _ =
                writeln!(text, "e{event},{},a{},{},{known}", event % 50, (event + place) % 20, (event * place) % 13);
        }
    }
    let reader = reader(&file(folder.path(), "long.csv", &text));
    let scan = Scan::of(&reader, &surefoot_data::Grouping::File).unwrap();
    assert_eq!((scan.records, scan.candidates, scan.actions), (3000, Some(21_000), Actions::Count(7)));
    let rounds = Rounds::read(&reader, &ReadRequest::default(), None).unwrap();
    let shown: Vec<u32> = (300..3000).map(|event| event % 7).collect();
    assert_eq!(rounds.rounds[0].action(), shown);
}

#[test]
fn a_catalogue_is_joined_by_identity_and_what_it_lacks_is_missing() {
    let folder = TempDir::new().unwrap();
    let catalogue = |text: &str, key: Option<&str>| {
        Catalogue::read(&reader(&file(folder.path(), "articles.csv", text)), key)
            .map(Arc::new)
            .map_err(|e| e.to_string().replace(&format!("{}/", folder.path().display()), ""))
    };
    let good = catalogue("sku,price\na,1\nb,2\nc,3\n", Some("sku")).unwrap();
    let lines: String = (0..20)
        .map(|i| {
            let action = if i % 2 == 0 { "\"a\"" } else { "\"new\"" };
            format!(
                "{{\"x\":{i},\"action\":{action},\"eligible\":[\"a\",\"b\",\"new\"],\"pscore\":0.3,\"reward\":1}}\n"
            )
        })
        .collect();
    let logs = reader(&file(folder.path(), "logs.jsonl", &lines));
    let rounds = Rounds::read(&logs.clone().with_catalogue(Some(good.clone())), &ReadRequest::default(), None).unwrap();
    assert_eq!(&rounds.rounds[0].action()[..2], [0, 2]);
    assert_eq!(rounds.candidates.as_ref().unwrap().encoding.columns(), ["price", "id"]);
    // Without lists of eligible actions, the whole catalogue is eligible.
    let all = lines.replace("\"eligible\":[\"a\",\"b\",\"new\"],", "").replace("\"new\"", "\"c\"");
    let all = reader(&file(folder.path(), "all.jsonl", &all)).with_catalogue(Some(good));
    let rounds = Rounds::read(&all, &ReadRequest::default(), None).unwrap();
    assert_eq!((&rounds.rounds[0].action()[..2], rounds.actions.len()), (&[0, 2][..], 3));
    let other = catalogue("sku,price\n1,1\n", Some("sku")).unwrap();
    let said = Rounds::read(&logs.with_catalogue(Some(other)), &ReadRequest::default(), None).unwrap_err().to_string();
    assert!(said.contains("the identities of the candidates should be those of") && said.contains("\"a\""), "{said}");
    assert_eq!(
        catalogue("id,price\na,1\na,2\n", None).unwrap_err(),
        "articles.csv, row 1: id should be an identity that no other row has, but is \"a\", as in row 0"
    );
    assert_eq!(
        catalogue("price\n1\n", None).unwrap_err(),
        "articles.csv: no column id or _id or _tag or item_id or action_id or action or item_id; it has price"
    );
}

#[test]
fn a_context_without_features_is_a_constant() {
    let folder = TempDir::new().unwrap();
    let text: String = (0..40).map(|i| format!("0:-{}:0.5 |a x:{i}\n|a y\n\n", i % 2)).collect();
    let rounds = Rounds::read(&reader(&file(folder.path(), "logs.vw", &text)), &ReadRequest::default(), None).unwrap();
    let contexts = rounds.rounds[0].contexts();
    assert_eq!((contexts.len(), contexts.features()), (36, 1));
    assert!(contexts.iter().all(|row| row.values() == [1.0]));
    assert_eq!(rounds.joint.unwrap().crosses(), []);
}
