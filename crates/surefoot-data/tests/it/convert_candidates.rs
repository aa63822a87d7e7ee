//! Candidates go out in every format that can hold them, and come back.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use surefoot_data::{ColumnNames, Format, LogReader, convert};

use crate::common::Folder;

const DSJSON: &str = r#"{"_label_cost":-1.0,"_label_probability":0.5,"_label_Action":2,"_labelIndex":1,"Timestamp":"t1","Version":"1","EventId":"e1","a":[2,1,3],"c":{"new":1.0,"user":{"age":31.0,"city":"St. Moritz"},"_multi":[{"art":{"topic":"news","x[0]":0.5},"_tag":"n1"},{"price":2.5,"art":{"topic":"sport"},"_tag":"s1"},{"art":{"topic":"news"},"_tag":"n2"}]},"p":[0.5,0.25,0.25],"VWState":{"m":"v1"}}
{"_label_cost":0.0,"_label_probability":0.25,"_label_Action":1,"_labelIndex":0,"Timestamp":"t2","Version":"1","EventId":"e2","a":[1,2],"c":{"user":{"age":40.0},"_multi":[{"price":1.0,"_tag":"s2"},{"price":3.0,"_tag":"s1"}]},"p":[0.25,0.75],"VWState":{"m":"v1"}}
"#;

fn reader(path: &Path) -> LogReader {
    LogReader::new(vec![path.to_owned()], None, ColumnNames::default())
}

fn converted(folder: &Folder, from: &Path, name: &str) -> PathBuf {
    let path = folder.path().join(name);
    convert(&reader(from), &path, Format::of(&path).unwrap(), &[]).unwrap();
    path
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn dsjson_is_written_as_it_was_read_and_through_other_formats() {
    let folder = Folder::new();
    let from = folder.write("logs.dsjson", DSJSON);
    assert_eq!(text(&converted(&folder, &from, "same.dsjson")), DSJSON);
    for name in ["logs.jsonl", "logs.parquet", "logs.jsonl.zst"] {
        let through = converted(&folder, &from, name);
        assert_eq!(text(&converted(&folder, &through, "again.dsjson")), DSJSON, "{name}");
    }
}

#[test]
fn vowpal_wabbit_s_text_has_a_line_per_candidate_and_comes_back() {
    let folder = Folder::new();
    let lines = "shared 'e1 |user age:31 city=Rome \n'n1 |art topic=news x:0.5 \n2:-1:0.5 's1 |art topic=sport | price:2.5 \n\n\
                 shared |\n1:0:0.25 |art a \n|\n\n";
    let from = folder.write("logs.vw", lines);
    assert_eq!(text(&converted(&folder, &from, "same.vw")), lines);
    for name in ["logs.jsonl", "logs.parquet", "logs.dsjson"] {
        let through = converted(&folder, &from, name);
        assert_eq!(text(&converted(&folder, &through, "again.vw")), lines, "{name}");
    }
}

#[test]
fn fields_of_candidates_become_named_features() {
    let folder = Folder::new();
    let rows = [
        json!({"action": "b", "pscore": 0.5, "reward": 1.0, "age": 31, "candidates": [
            {"id": "a", "topic": "news", "price": 2.5, "new": true, "emb": [0.5, 0.0]},
            {"id": "b", "topic": "art", "price": 0, "new": false, "tags": ["x", "y"]},
        ]}),
        json!({"action": "c", "pscore": 0.25, "reward": 0.0, "age": 40, "candidates": [{"id": "a", "price": 3}, {"id": "c"}]}),
    ];
    let from = folder.write("logs.jsonl", rows.map(|row| format!("{row}\n")).concat());
    let out = text(&converted(&folder, &from, "logs.dsjson"));
    let out: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        out[0]["c"]["_multi"],
        json!([
            {"_tag": "a", "topic": "news", "price": 2.5, "new": 1.0, "emb[0]": 0.5},
            {"_tag": "b", "topic": "art", "tags": "x", "tags=y": 1.0},
        ])
    );
    assert_eq!((&out[0]["_labelIndex"], &out[1]["_labelIndex"]), (&json!(1), &json!(1)));
    assert_eq!(out[1]["c"]["_multi"], json!([{"_tag": "a", "price": 3.0}, {"_tag": "c"}]));
    // In formats with columns, identities stay the actions.
    let again = text(&converted(&folder, &from, "again.jsonl"));
    let again: Vec<Value> = again.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&again[0]["action"], &again[1]["action"]), (&json!("b"), &json!("c")));
    assert_eq!(
        again[0]["candidates"][0],
        json!({"id": "a", "topic": "news", "price": 2.5, "new": true, "emb": [0.5, 0.0]})
    );
}

#[test]
fn an_eligible_part_of_the_candidates_keeps_its_places() {
    let folder = Folder::new();
    let row = json!({"action": 2, "pscore": 0.75, "reward": 1.0, "eligible": [2, 0], "probabilities": [0.75, 0.25],
        "candidates": [{"x": 1}, {"x": 2}, {"x": 3}]});
    let from = folder.write("logs.jsonl", format!("{row}\n"));
    let out: Value = serde_json::from_str(&text(&converted(&folder, &from, "logs.dsjson"))).unwrap();
    assert_eq!((&out["a"], &out["p"], &out["_labelIndex"]), (&json!([3, 1]), &json!([0.75, 0.25]), &json!(2)));
    let again: Value = serde_json::from_str(&text(&converted(&folder, &from, "again.jsonl"))).unwrap();
    assert_eq!((&again["action"], &again["eligible"]), (&json!(2), &json!([2, 0])));
    let refused = convert(&reader(&from), &folder.path().join("logs.vw"), Format::Vw, &[]).unwrap_err().to_string();
    assert!(refused.contains("eligible should be all candidates, as this format lists no others"), "{refused}");
}

#[test]
fn formats_without_a_place_for_candidates_say_so() {
    let folder = Folder::new();
    let from = folder.write("logs.dsjson", DSJSON);
    let path = folder.path().join("out.csv");
    let refused = convert(&reader(&from), &path, Format::Csv, &[]).unwrap_err().to_string();
    let said =
        "has no place for candidates with features: parquet, jsonl, dsjson and vw have, or the column candidates";
    assert!(refused.contains(said), "{refused}");
    assert!(!path.exists());
    convert(&reader(&from), &folder.path().join("out.csv"), Format::Csv, &["candidates".into()]).unwrap();
}

#[test]
fn candidates_that_are_the_same_in_all_records_are_open_bandit_pipeline_s_action_context() {
    let folder = Folder::new();
    let record = |action: &str, b: f64| {
        let candidates = json!([{"id": "x", "a": 1.0, "b": 2.0}, {"id": "y", "a": -1.0, "b": b}]);
        json!({"action": action, "pscore": 0.5, "reward": 1.0, "age": 30, "candidates": candidates}).to_string()
    };
    let from = folder.write("logs.jsonl", [record("y", 0.5), record("x", 0.5)].join("\n"));
    let arrays = converted(&folder, &from, "logs.npz");
    let again = converted(&folder, &arrays, "again.npz");
    for path in [&arrays, &again] {
        let rows: Vec<Value> = text(&converted(&folder, path, "out.jsonl"))
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!((&rows[0]["action"], &rows[1]["action"]), (&json!(1), &json!(0)));
        let features: Vec<&Value> = rows[1]["candidates"].as_array().unwrap().iter().map(|c| &c["context"]).collect();
        assert_eq!(features, [&json!([1.0, 2.0]), &json!([-1.0, 0.5])]);
    }
    let from = folder.write("others.jsonl", [record("y", 0.5), record("x", 0.25)].join("\n"));
    let refused = convert(&reader(&from), &folder.path().join("others.npz"), Format::Obp, &[]).unwrap_err().to_string();
    let said = "row 1: candidates should be the same as in row 0, since action_context has a row for each action";
    assert!(refused.contains(said), "{refused}");
}
