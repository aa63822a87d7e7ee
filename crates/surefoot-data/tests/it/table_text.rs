//! Reading and writing CSV, JSON lines, dsjson and Vowpal Wabbit's text: what comes out of good files, and what comes back
//! of what is written. Bad files are in `table_corpus.rs`.

use std::path::PathBuf;
use std::sync::Arc;

use crate::common::Folder;
use arrow_array::builder::{Float32Builder, Float64Builder, ListBuilder, StringBuilder, UInt32Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array,
};
use arrow_schema::DataType;
use surefoot_data::{Format, ROWS, read_table, read_table_bytes, write_table};

/// A line a column: its name, its type and what it holds.
fn shown(tables: &[RecordBatch]) -> String {
    let mut out = String::new();
    for table in tables {
        for (field, column) in table.schema().fields().iter().zip(table.columns()) {
            let cells: Vec<String> = (0..column.len()).map(|row| cell(column, row)).collect();
            out += &format!("{}: {}\n", field.name(), cells.join(" | "));
        }
    }
    out
}

fn cell(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return "-".into();
    }
    match column.data_type() {
        DataType::Utf8 => format!("{:?}", column.as_string::<i32>().value(row)),
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).to_string(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float64 => format!("{:?}", column.as_primitive::<Float64Type>().value(row)),
        DataType::Float32 => format!("{:?}f", column.as_primitive::<Float32Type>().value(row)),
        DataType::List(_) => {
            let items = column.as_list::<i32>().value(row);
            let cells: Vec<String> = (0..items.len()).map(|i| cell(&items, i)).collect();
            format!("[{}]", cells.join(", "))
        }
        DataType::Struct(fields) => {
            let parts = fields.iter().zip(column.as_struct().columns());
            let parts: Vec<String> =
                parts.map(|(field, part)| format!("{}: {}", field.name(), cell(part, row))).collect();
            format!("{{{}}}", parts.join(", "))
        }
        other => panic!("{other} should not come out of a text"),
    }
}

fn good(file: &str, format: Format) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(file);
    shown(&read_table(&path, format).unwrap().map(Result::unwrap).collect::<Vec<_>>())
}

fn text(text: &str, format: Format) -> Result<Vec<RecordBatch>, surefoot_data::Error> {
    read_table_bytes("text", text.into(), format)?.collect()
}

/// Writes tables and returns the text, or the error without the folder.
fn written(format: Format, tables: &[RecordBatch]) -> Result<String, String> {
    let folder = Folder::new();
    let path = folder.path().join("log");
    let mut batches = tables.iter().cloned().map(Ok);
    match write_table(&path, format, &tables[0].schema(), &mut batches) {
        Ok(rows) => {
            assert_eq!(rows, tables.iter().map(|table| table.num_rows() as u64).sum::<u64>());
            Ok(std::fs::read_to_string(path).unwrap())
        }
        Err(error) => {
            assert!(!path.exists());
            Err(error.to_string().replace(&format!("{}/", folder.path().display()), ""))
        }
    }
}

fn table(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

fn texts(items: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(items.to_vec()))
}

fn numbers(items: &[f64]) -> ArrayRef {
    Arc::new(Float64Array::from(items.to_vec()))
}

fn actions(items: &[u32]) -> ArrayRef {
    Arc::new(UInt32Array::from(items.to_vec()))
}

macro_rules! lists {
    ($name:ident, $builder:ty, $item:ty) => {
        fn $name(rows: &[Option<&[$item]>]) -> ArrayRef {
            let mut out = ListBuilder::new(<$builder>::new());
            for row in rows {
                row.iter().copied().flatten().for_each(|item| out.values().append_value(*item));
                out.append(row.is_some());
            }
            Arc::new(out.finish())
        }
    };
}
lists!(action_lists, UInt32Builder, u32);
lists!(number_lists, Float64Builder, f64);
lists!(value_lists, Float32Builder, f32);
lists!(name_lists, StringBuilder, &str);

#[test]
fn csv_is_text_without_the_index_of_a_data_frame_and_with_nulls_for_empty_fields() {
    let expected = r#"timestamp: "2019-11-24 00:00:02.927498+00:00" | "2019-11-24 00:00:18.729846+00:00"
item_id: "29" | "33"
position: "1" | "3"
click: "0" | "0"
propensity_score: "0.029411764705882353" | "0.0625"
user_feature_0: "81ce123cbb5bd8ce818f60fb3586bba5" | "4ae385d792f81dde128124a925a830de"
"#;
    assert_eq!(good("csv/good-open-bandit.csv", Format::Csv), expected);
    let expected = r#"action: "1" | "2"
reward: "0.5" | -
note, long: "says \"no\",\r\ntwice" | -
eligible: "[0,1]" | "x y "
"#;
    assert_eq!(good("csv/good-quoted.csv", Format::Csv), expected);
    assert_eq!(good("csv/good-header-only.csv", Format::Csv), "action: \nreward: \n");
    assert_eq!(good("csv/good-last-line-open.csv", Format::Csv), "action: \"1\" | - | \"3\"\n");
}

#[test]
fn json_lines_have_the_fields_of_all_lines_flattened() {
    let expected = r#"action: 3.0 | 1.0 | -
reward: 0.5 | - | -
clicked: true | - | -
name: "a" | "bé" | -
x: [1.0, 2.5] | [] | -
tags: ["u", "v"] | - | -
user.age: 30.0 | - | -
user.home.city: "Rome" | - | -
later: - | -0.0 | -
"#;
    assert_eq!(good("jsonl/good-kinds.jsonl", Format::JsonLines), expected);
}

#[test]
fn integers_that_would_be_rounded_come_as_text() {
    let expected = r#"event_id: "9007199254740993" | "5"
n: 9007199254740992.0 | -9007199254740992.0
ids: ["1", "12345678901234567890123"] | []
seen: 7.0 | 7.5
"#;
    assert_eq!(good("jsonl/good-exact-digits.jsonl", Format::JsonLines), expected);
    let expected = r#"action: "buy" | "1.50" | "1e2"
e: ["1", "two"] | ["3"] | -
"#;
    assert_eq!(good("jsonl/good-mixed.jsonl", Format::JsonLines), expected);
}

#[test]
fn lines_without_fields_are_rows_and_a_field_that_is_always_null_is_a_column() {
    let tables = text("{}\n{}\n", Format::JsonLines).unwrap();
    assert_eq!((tables[0].num_rows(), tables[0].num_columns()), (2, 0));
    assert_eq!(written(Format::JsonLines, &tables).unwrap(), "{}\n{}\n");
    let tables = text("{\"a\": null}\n", Format::JsonLines).unwrap();
    assert_eq!(tables[0].column(0).data_type(), &DataType::Float64);
    assert_eq!(shown(&tables), "a: -\n");
    assert!(text("\n \n", Format::JsonLines).unwrap().is_empty());
}

#[test]
fn batches_end_after_their_rows_and_no_row_is_lost() {
    let count = 2 * ROWS + 17;
    let lines = |line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
    let files = [
        (Format::Csv, "action,x\n".to_owned() + &lines(&|i| format!("{i},1\n"))),
        (Format::JsonLines, lines(&|i| format!("{{\"action\":\"{i}\"}}\n"))),
        (
            Format::Dsjson,
            lines(&|i| format!("{{\"_label_cost\":0,\"EventId\":\"{i}\",\"a\":[1],\"p\":[1],\"c\":{{}}}}\n")),
        ),
        (Format::Vw, lines(&|i| format!("1:0:0.5 '{i} | a\n"))),
    ];
    for (format, file) in files {
        let tables = text(&file, format).unwrap();
        let rows: Vec<usize> = tables.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(rows, [ROWS, ROWS, 17], "{format}");
        let ids: Vec<String> = tables
            .iter()
            .flat_map(|table| table.column(0).as_string::<i32>().iter().flatten().map(str::to_owned))
            .collect();
        assert!(ids.iter().enumerate().all(|(i, id)| *id == i.to_string()), "{format}");
    }
}

#[test]
fn lines_with_other_fields_each_make_small_batches_instead_of_large_ones() {
    let file: String = (0..6000).map(|i| format!("{{\"a{i}\":1,\"b{i}\":2}}\n")).collect();
    let tables = text(&file, Format::JsonLines).unwrap();
    assert!(tables.iter().all(|table| table.num_rows() * table.num_columns() <= 1 << 22));
    assert_eq!(tables.iter().map(RecordBatch::num_rows).sum::<usize>(), 6000);
    assert_eq!(tables.iter().map(RecordBatch::num_columns).sum::<usize>(), 12_000);
}

#[test]
fn nothing_takes_more_memory_than_a_line_may_have() {
    let long = "x".repeat((64 << 20) + 1);
    let error = text(&long, Format::JsonLines).unwrap_err().to_string();
    assert_eq!(error, "text, line 1: should have at most 67108864 bytes, but has more");
    let open = format!("a\n\"{}", "line\n".repeat(14_000_000));
    let error = text(&open, Format::Csv).unwrap_err().to_string();
    assert_eq!(error, "text, line 2: should have at most 67108864 bytes, but has more");
    let fields: Vec<String> = (0..1000).map(|i| format!("\"f{i}\":1")).collect();
    let names = format!("{{\"{}\":{{{}}}}}", "n".repeat(1 << 20), fields.join(","));
    let error = text(&names, Format::JsonLines).unwrap_err().to_string();
    assert_eq!(error, "text, line 1: the whole names of all fields should take at most 67108864 bytes, but take more");
    let error = text(&format!("{{\"a\":[1],\"p\":[1],\"_label_cost\":0,\"c\":{names}}}"), Format::Dsjson).unwrap_err();
    assert_eq!(
        error.to_string(),
        "text, line 1: the whole names of all fields should take at most 67108864 bytes, but take more"
    );
}

#[test]
fn a_hundred_thousand_columns_are_no_trouble() {
    let names: Vec<String> = (0..100_000).map(|i| format!("f{i}")).collect();
    let file = format!("{0}\n{0}\n{0}\n", names.join(","));
    let tables = text(&file, Format::Csv).unwrap();
    assert_eq!((tables[0].num_rows(), tables[0].num_columns()), (2, 100_000));
    let lists: Vec<String> = names.iter().map(|name| format!("\"{name}\":[1]")).collect();
    let tables = text(&format!("{{{}}}\n", lists.join(",")), Format::JsonLines).unwrap();
    assert_eq!((tables[0].num_rows(), tables[0].num_columns()), (1, 100_000));
}

#[test]
fn nothing_follows_an_error() {
    let mut tables = read_table_bytes("text", b"{}\n[]\n{}\n".to_vec(), Format::JsonLines).unwrap();
    assert!(tables.next().unwrap().is_err());
    assert!(tables.next().is_none());
}

#[test]
fn dsjson_counts_actions_from_one_and_the_columns_from_zero() {
    let expected = r#"event_id: "e1" | "e2"
timestamp: "2024-05-01T12:00:00Z" | -
action: 1 | 0
pscore: 0.5 | 0.25
reward: 1.0 | 0.0
policy_version: "m7" | -
eligible: [1, 0, 2] | [0, 2]
probabilities: [0.5, 0.25, 0.25] | [0.25, 0.75]
pdrop: - | 0.1
skip: false | true
context_names: ["GUser.id=rnc"] | ["GUser.id=rnc"]
context_values: [1.0f] | [1.0f]
"#;
    assert_eq!(good("dsjson/good-decisions.dsjson", Format::Dsjson), expected);
}

/// Lines of what a good file of dsjson gives.
fn columns(file: &str, names: &[&str]) -> Vec<String> {
    let all = good(file, Format::Dsjson);
    names
        .iter()
        .flat_map(|name| all.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))))
        .map(str::to_owned)
        .collect()
}

#[test]
fn dsjson_features_are_named_by_where_they_are() {
    let found = columns("dsjson/good-features.dsjson", &["context_names", "context_values", "eligible", "reward"]);
    let expected = [
        r#"["age", "name=Ann", "GUser.id=rnc", "GUser.new", "GUser.x[0]", "GUser.x[2]", "GUser.tags=a", "GUser.tags=b", "GUser.deep.er", "FromUrl.weather=sunny", "FromUrl.hour"]"#,
        "[3.0f, 1.0f, 1.0f, 1.0f, 0.5f, 2.0f, 1.0f, 1.0f, 0.1f, 1.0f, 9.0f]",
        "[0]",
        "-0.5",
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_propensity_is_that_of_the_distribution_whether_or_not_the_label_has_the_pass_probability_in_it() {
    let found = columns("dsjson/good-pass-probability-in-label.dsjson", &["pscore", "pdrop"]);
    assert_eq!(found, ["0.5 | 0.5", "0.2 | 0.2"]);
}

#[test]
fn a_probability_above_one_is_not_cut_to_one() {
    let found = columns("dsjson/good-probability-above-one.dsjson", &["pscore", "probabilities"]);
    assert_eq!(found, ["1.2", "[1.2, 0.0, -0.2]"]);
}

#[test]
fn probabilities_of_single_precision_agree_with_their_label() {
    assert_eq!(columns("dsjson/good-single-precision.dsjson", &["pscore"]), ["0.3333333"]);
}

#[test]
fn one_action_of_several_says_nothing_of_what_could_be_chosen() {
    let found = columns("dsjson/good-others-not-known.dsjson", &["action", "pscore", "eligible", "probabilities"]);
    assert_eq!(found, ["1", "0.5", "-", "-"]);
}

#[test]
fn vw_lines_give_actions_costs_and_features_with_their_namespaces() {
    let expected = r#"event_id: - | "e2" | "tag" | - | -
action: 0 | 1 | 2 | 1 | 3
pscore: 0.25 | 0.75 | 1.2 | 0.3 | 1.0
reward: -0.5 | 1.0 | 0.0 | 0.4 | -2.0
eligible: - | - | - | [0, 1, 3] | -
context_names: ["user^age", "user^city=Rome", "device^mobile"] | ["a", "b"] | ["x"] | ["user^age", "user^new"] | []
context_values: [3.0f, 1.0f, 1.0f] | [2.0f, 0.5f] | [1.0f] | [2.0f, 0.5f] | []
"#;
    assert_eq!(good("vw/good-lines.vw", Format::Vw), expected);
    let expected = "event_id: - | -\naction: 0 | 1\npscore: 0.5 | 0.5\nreward: 0.0 | -1.0\neligible: - | -\n\
                    context_names: [\"a\"] | [\"b\"]\ncontext_values: [2.0f] | [1.0f]\n";
    assert_eq!(good("vw/good-windows.vw", Format::Vw), expected);
}

#[test]
fn vw_decisions_of_several_lines_have_the_place_of_the_label_as_action() {
    let expected = r#"event_id: "e1" | - | - | -
action: 0 | 1 | 0 | 1
pscore: 0.5 | 0.25 | 0.5 | 0.5
reward: 1.0 | -0.5 | 0.0 | -1.0
eligible: [0, 1, 2] | [0, 1] | - | [0, 1]
context_names: ["user^age"] | ["x"] | ["single"] | ["z"]
context_values: [3.0f] | [1.0f] | [1.0f] | [1.0f]
candidates: [{id: -, names: ["action^a"], values: [1.0f]}, {id: -, names: ["action^b"], values: [1.0f]}, {id: -, names: ["c"], values: [1.0f]}] | [{id: -, names: ["a"], values: [1.0f]}, {id: "b", names: ["x^y"], values: [1.0f]}] | - | [{id: -, names: ["one"], values: [1.0f]}, {id: -, names: ["two"], values: [1.0f]}]
"#;
    assert_eq!(good("vw/good-adf.vw", Format::Vw), expected);
}

#[test]
fn vw_decisions_of_several_lines_need_no_shared_line_and_no_label() {
    let expected = r#"event_id: - | - | -
action: 1 | 0 | -
pscore: 0.5 | 0.25 | -
reward: 1.0 | 0.0 | -
eligible: [0, 1, 2] | [0, 1] | [0, 1]
context_names: [] | [] | []
context_values: [] | [] | []
candidates: [{id: "n1", names: ["news^x", "news^words"], values: [1.0f, 12.0f]}, {id: "n2", names: ["news^y"], values: [1.0f]}, {id: -, names: ["b"], values: [1.0f]}] | [{id: -, names: ["news^x"], values: [1.0f]}, {id: -, names: ["news^y"], values: [1.0f]}] | [{id: -, names: ["news^x"], values: [1.0f]}, {id: -, names: ["news^z"], values: [1.0f]}]
"#;
    assert_eq!(good("vw/good-adf-unshared.vw", Format::Vw), expected);
    let found = good("vw/good-adf-without-label.vw", Format::Vw);
    assert!(found.contains("action: - | 0\npscore: - | 0.5\n"), "{found}");
    // One group of lines from the first to the last of the file is no decision of several lines.
    let found = good("vw/good-unlabelled-lines.vw", Format::Vw);
    assert!(found.contains("action: - | - | -\n") && !found.contains("candidates"), "{found}");
    assert!(found.contains(r#"context_names: ["news^x"] | ["news^y"] | ["news^z"]"#), "{found}");
}

#[test]
fn vw_lines_without_labels_are_decisions_however_many_there_are() {
    let tables = text(&"| a\n".repeat(3 * 4096 + 5), Format::Vw).unwrap();
    assert_eq!(tables.iter().map(RecordBatch::num_rows).sum::<usize>(), 3 * 4096 + 5);
    assert!(tables.iter().all(|table| table.column_by_name("candidates").is_none()));
}

#[test]
fn dsjson_objects_with_features_or_identities_are_candidates() {
    let file = "dsjson/good-candidates.dsjson";
    let expected = [
        r#"1 | 2 | 0 | -"#,
        "[1, 0, 2] | [2, 0] | - | [0, 1]",
        r#"[{id: "n1", names: ["news.topic=x", "news.words"], values: [1.0f, 12.0f]}, {id: "7", names: ["news.topic=y"], values: [1.0f]}, {id: -, names: ["price"], values: [2.0f]}] | [{id: "n1", names: [], values: []}, {id: "n2", names: [], values: []}, {id: "n3", names: [], values: []}] | - | [{id: -, names: ["news.topic=x"], values: [1.0f]}, {id: -, names: ["news.topic=z"], values: [1.0f]}]"#,
    ];
    assert_eq!(columns(file, &["action", "eligible", "candidates"]), expected);
    // Without a cost, the decision has no label.
    assert_eq!(columns("dsjson/good-no-label.dsjson", &["action", "pscore", "reward"]), ["-", "-", "-"]);
}

#[test]
fn json_arrays_of_objects_are_lists_of_structs() {
    let expected = r#"user.age: 3.0 | - | - | -
candidates: [{id: "n1", news.topic: "x", news.words: 12.0, new: -, e: -}, {id: "n2", news.topic: -, news.words: -, new: true, e: -}] | [{id: "n3", news.topic: -, news.words: -, new: -, e: [0.5, 1.0]}] | [] | -
action: "n2" | "n3" | - | "n1"
"#;
    assert_eq!(good("jsonl/good-candidates.jsonl", Format::JsonLines), expected);
    assert_eq!(good("jsonl/good-array-of-objects.jsonl", Format::JsonLines), "user.x: [{a: 1.0}]\n");
    assert_eq!(shown(&text("{\"c\": [{}, {}]}\n", Format::JsonLines).unwrap()), "c: [{}, {}]\n");
}

#[test]
fn objects_with_other_fields_each_make_small_batches_and_no_array_of_them_fills_the_memory() {
    let line = |i: usize| format!("{{\"c\":[{{\"a{i}\":1}},{{\"b{i}\":2}}]}}\n");
    let tables = text(&(0..3000).map(line).collect::<String>(), Format::JsonLines).unwrap();
    assert!(tables.len() > 1);
    assert_eq!(tables.iter().map(RecordBatch::num_rows).sum::<usize>(), 3000);
    for outer in ["", "\"x\":{"] {
        let close = if outer.is_empty() { "" } else { "}" };
        let items: Vec<String> = (0..10_000).map(|i| format!("{{{outer}\"a{i}\":1{close}}}")).collect();
        let error = text(&format!("{{\"c\":[{}]}}\n", items.join(",")), Format::JsonLines).unwrap_err().to_string();
        let expected = "text, line 1: c should have at most 4194304 fields in all its objects, but has 100000000";
        assert_eq!(error, expected);
    }
}

#[test]
fn any_columns_can_be_written_as_csv_and_json_lines() {
    let table = table(vec![
        ("action", actions(&[7, 0])),
        ("big", Arc::new(Int64Array::from(vec![Some(i64::MAX), None]))),
        ("p", numbers(&[0.1 + 0.2, 1e300])),
        ("f", Arc::new(Float32Array::from(vec![0.1, -0.0]))),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), None]))),
        ("t, \"quoted\"", texts(&[Some("a,\"b\"\r\nc"), Some("\u{1}é")])),
        ("l", number_lists(&[Some(&[0.5, 2.0]), None])),
        ("n", name_lists(&[Some(&["a\"", "b"]), Some(&[])])),
    ]);
    let csv = written(Format::Csv, std::slice::from_ref(&table)).unwrap();
    let large = format!("1{}", "0".repeat(300));
    let expected = format!(
        "action,big,p,f,b,\"t, \"\"quoted\"\"\",l,n\n\
         7,9223372036854775807,0.30000000000000004,0.1,true,\"a,\"\"b\"\"\r\nc\",\"[0.5,2.0]\",\"[\"\"a\\\"\"\"\",\"\"b\"\"]\"\n\
         0,,{large},-0,,\u{1}é,,[]\n"
    );
    assert_eq!(csv, expected);
    let back = text(&csv, Format::Csv).unwrap();
    let of = |name: &str| back[0].column_by_name(name).unwrap().as_string::<i32>().clone();
    let bits: Vec<u64> = of("p").iter().flatten().map(|text| text.parse::<f64>().unwrap().to_bits()).collect();
    assert_eq!(bits, [(0.1_f64 + 0.2).to_bits(), 1e300_f64.to_bits()]);
    assert_eq!(of("f").value(1).parse::<f32>().unwrap().to_bits(), (-0.0_f32).to_bits());
    assert_eq!(of("t, \"quoted\"").value(0), "a,\"b\"\r\nc");
    assert_eq!(of("n").value(0), "[\"a\\\"\",\"b\"]");

    let json = written(Format::JsonLines, &[table]).unwrap();
    let expected = r#"{"action":7,"big":9223372036854775807,"p":0.30000000000000004,"f":0.1,"b":true,"t, \"quoted\"":"a,\"b\"\r\nc","l":[0.5,2.0],"n":["a\"","b"]}
{"action":0,"p":1e300,"f":-0.0,"t, \"quoted\"":"\u0001é","n":[]}
"#;
    assert_eq!(json, expected);
    let expected = r#"action: 7.0 | 0.0
big: "9223372036854775807" | -
p: 0.30000000000000004 | 1e300
f: 0.1 | -0.0
b: true | -
t, "quoted": "a,\"b\"\r\nc" | "\u{1}é"
l: [0.5, 2.0] | -
n: ["a\"", "b"] | []
"#;
    assert_eq!(shown(&text(&json, Format::JsonLines).unwrap()), expected);
}

#[test]
fn a_column_of_nulls_alone_keeps_its_rows() {
    let table = table(vec![("a", texts(&[None, Some("x"), None]))]);
    let csv = written(Format::Csv, &[table]).unwrap();
    assert_eq!(csv, "a\n\"\"\nx\n\"\"\n");
    assert_eq!(shown(&text(&csv, Format::Csv).unwrap()), "a: - | \"x\" | -\n");
}

#[test]
fn what_csv_and_json_lines_cannot_hold_is_refused() {
    let one = |name: &str, column: ArrayRef| [table(vec![(name, column)])];
    let json = |tables: &[RecordBatch]| written(Format::JsonLines, tables).unwrap_err();
    assert_eq!(
        json(&one("p", numbers(&[1.0, f64::NAN]))),
        "log, row 1: p should be finite, as JSON has no other number, but is not"
    );
    let csv = |tables: &[RecordBatch]| written(Format::Csv, tables).unwrap_err();
    let expected = "log: names of columns should not be empty or have space around them, but one is \" a\"";
    assert_eq!(csv(&one(" a", numbers(&[1.0]))), expected);
    assert_eq!(
        csv(&one("l", number_lists(&[Some(&[f64::INFINITY])]))),
        "log, row 0: l should be a list of finite numbers, but is one that is not"
    );
    let twice = [table(vec![("a", numbers(&[1.0])), ("a", numbers(&[1.0]))])];
    assert_eq!(csv(&twice), "log: should have every column once, but has a twice");
    assert_eq!(json(&twice), "log: should have every column once, but has a twice");
    let dates: ArrayRef = Arc::new(arrow_array::Date32Array::from(vec![1]));
    assert_eq!(
        csv(&one("d", dates)),
        "log: the type of column d should be a truth, a number, text, or a list of these, but is Date32"
    );
    let other = [one("a", numbers(&[1.0])), one("b", numbers(&[1.0]))].concat();
    assert_eq!(csv(&other), "log: all batches should have the columns (a: Float64), but one has (b: Float64)");
}

/// Decisions with all that dsjson has a place for.
fn decisions() -> RecordBatch {
    table(vec![
        ("event_id", texts(&[Some("e 1"), None, Some("\"3\"")])),
        ("timestamp", texts(&[Some("2024-05-01"), None, None])),
        ("action", actions(&[1, 0, 4])),
        ("pscore", numbers(&[0.1 + 0.2, 1.0, 0.25])),
        ("reward", numbers(&[0.7, 0.0, -1e-300])),
        ("policy_version", texts(&[Some("v1"), Some(""), None])),
        ("eligible", action_lists(&[Some(&[1, 5, 0]), Some(&[0]), None])),
        ("probabilities", number_lists(&[Some(&[0.1 + 0.2, 0.7, 0.0]), Some(&[1.0]), None])),
        ("pdrop", Arc::new(Float64Array::from(vec![Some(0.25), None, Some(0.0)]))),
        ("skip", Arc::new(BooleanArray::from(vec![true, false, false]))),
        (
            "context_names",
            name_lists(&[
                Some(&["age", "city=Rome", "city=Oslo", "city", "a.b[0]", "k==", "x=1"]),
                Some(&[]),
                Some(&["\"\n", "", "^=^"]),
            ]),
        ),
        (
            "context_values",
            value_lists(&[
                Some(&[0.1, 1.0, 1.0, 1.0, -3.5, 1.0, 2.0]),
                Some(&[]),
                Some(&[f32::MIN_POSITIVE, f32::MAX, 1.0]),
            ]),
        ),
    ])
}

#[test]
fn what_is_written_as_dsjson_comes_back() {
    let dsjson = written(Format::Dsjson, &[decisions()]).unwrap();
    let first = r#"{"_label_cost":-0.7,"_label_probability":0.30000000000000004,"_label_Action":2,"_labelIndex":1,"_skipLearn":true,"Timestamp":"2024-05-01","Version":"1","EventId":"e 1","a":[2,6,1],"c":{"age":0.1,"city=Rome":1.0,"city=Oslo":1.0,"city":1.0,"a":{"b[0]":-3.5},"k":"=","x=1":2.0,"_multi":[{},{},{},{},{},{}]},"p":[0.30000000000000004,0.7,0.0],"VWState":{"m":"v1"},"pdrop":0.25}"#;
    assert_eq!(dsjson.lines().next().unwrap(), first);
    let back = text(&dsjson, Format::Dsjson).unwrap();
    assert_eq!(shown(&back), shown(&[decisions()]));
    assert_eq!(back[0].schema(), decisions().schema());
    assert_eq!(written(Format::Dsjson, &back).unwrap(), dsjson);
}

#[test]
fn the_chosen_action_comes_first_in_dsjson_and_a_distribution_over_all_is_over_all() {
    let table = table(vec![
        ("action", actions(&[2])),
        ("pscore", numbers(&[0.5])),
        ("reward", numbers(&[1.0])),
        ("probabilities", number_lists(&[Some(&[0.2, 0.3, 0.5])])),
        ("context", value_lists(&[Some(&[0.0, 2.5])])),
        ("vip", Arc::new(BooleanArray::from(vec![true]))),
        ("city", texts(&[Some("Rome")])),
    ]);
    let dsjson = written(Format::Dsjson, &[table]).unwrap();
    let found = shown(&text(&dsjson, Format::Dsjson).unwrap());
    assert!(found.contains("eligible: [2, 0, 1]\nprobabilities: [0.5, 0.2, 0.3]\n"), "{found}");
    assert!(
        found.contains("context_names: [\"context[1]\", \"vip\", \"city=Rome\"]\ncontext_values: [2.5f, 1.0f, 1.0f]\n")
    );
    assert!(dsjson.contains("\"city\":\"Rome\""), "{dsjson}");
}

/// One decision with a column replaced or added.
fn decision_with(name: &str, column: ArrayRef) -> [RecordBatch; 1] {
    let mut columns = vec![("action", actions(&[1])), ("pscore", numbers(&[0.5])), ("reward", numbers(&[1.0]))];
    columns.retain(|(other, _)| *other != name);
    columns.push((name, column));
    [table(columns)]
}

#[test]
fn what_dsjson_cannot_hold_is_refused() {
    let error = |tables: &[RecordBatch]| written(Format::Dsjson, tables).unwrap_err();
    assert_eq!(
        error(&decision_with("eligible", action_lists(&[Some(&[0, 1])]))),
        "log, row 0: eligible should be null without probabilities, as each action needs one in this format, but is there"
    );
    assert_eq!(
        error(&decision_with("probabilities", number_lists(&[Some(&[0.6, 0.4])]))),
        "log, row 0: pscore should be the probability of action 1 in probabilities, 0.4, but is 0.5"
    );
    assert_eq!(
        error(&decision_with("probabilities", number_lists(&[Some(&[1.0])]))),
        "log, row 0: probabilities should be a list with the action that was chosen, 1, but is one without it"
    );
    assert_eq!(
        error(&decision_with("_id", numbers(&[1.0]))),
        "log, row 0: the name of a feature should be a name that does not start with _, which this format has for other \
         things, but is \"_id\""
    );
    assert_eq!(
        error(&decision_with("action", actions(&[70_000]))),
        "log, row 0: action should be below 65536, as every line lists all actions, but is 70000"
    );
    assert_eq!(
        error(&decision_with("action", texts(&[Some("buy")]))),
        "log: the type of column action should be UInt32, actions as numbers, but is Utf8"
    );
    assert_eq!(
        error(&decision_with("pscore", numbers(&[f64::NAN]))),
        "log, row 0: pscore should be finite, but is NaN"
    );
    assert_eq!(
        error(&[table(vec![("action", actions(&[1])), ("reward", numbers(&[1.0]))])]),
        "log: no column pscore; it has action, reward"
    );
    assert_eq!(
        error(&decision_with("x", numbers(&[1e39]))),
        "log, row 0: x should be a number within the range of 32 bits, but is inf"
    );
}

#[test]
fn what_is_written_as_vw_comes_back() {
    let table = table(vec![
        ("event_id", texts(&[Some("e1"), None, Some("'12")])),
        ("action", actions(&[1, 0, 4])),
        ("pscore", numbers(&[0.1 + 0.2, 1.2, 1e-300])),
        ("reward", numbers(&[0.7, 0.0, -1.0])),
        ("eligible", action_lists(&[Some(&[5, 1, 0]), None, Some(&[4, 3])])),
        (
            "context_names",
            name_lists(&[Some(&["age", "u^a", "u^b=c", "^x", "y^", "v^a^b", "u^c"]), Some(&[]), Some(&["'q", "é"])]),
        ),
        (
            "context_values",
            value_lists(&[
                Some(&[0.1, 1.0, 1.0, 1.0, -3.5, 1.0, 2.0]),
                Some(&[]),
                Some(&[f32::MIN_POSITIVE, f32::MAX]),
            ]),
        ),
    ]);
    let vw = written(Format::Vw, std::slice::from_ref(&table)).unwrap();
    assert_eq!(
        vw.lines().take(2).collect::<Vec<_>>(),
        ["6 2:-0.7:0.30000000000000004 1 'e1 | age:0.1 |u a b=c | ^x y^:-3.5 |v a^b |u c:2 ", "1:0:1.2 |",]
    );
    let back = text(&vw, Format::Vw).unwrap();
    assert_eq!(shown(&back), shown(std::slice::from_ref(&table)));
    assert_eq!(back[0].schema(), table.schema());
}

#[test]
fn what_vw_cannot_hold_is_refused() {
    let error = |name: &str, column: ArrayRef| written(Format::Vw, &decision_with(name, column)).unwrap_err();
    for name in ["a b", "a:b", "a|b", "a\u{a0}b", "\n"] {
        assert_eq!(
            error(name, numbers(&[1.0])),
            format!(
                "log, row 0: the name of a feature should be text without spaces, ':' and '|', and not empty, but is {name:?}"
            )
        );
    }
    assert_eq!(
        error("city", texts(&[Some("New York")])),
        "log, row 0: the name of a feature should be text without spaces, ':' and '|', and not empty, but is \
         \"city=New York\""
    );
    assert_eq!(
        error("event_id", texts(&[Some("e 1")])),
        "log, row 0: event_id should be text without spaces and '|', and not empty, but is \"e 1\""
    );
    assert_eq!(
        error("eligible", action_lists(&[Some(&[1])])),
        "log, row 0: eligible should be two actions or more, as this format cannot say that there is one, but is one"
    );
    assert_eq!(
        error("eligible", action_lists(&[Some(&[0, 2])])),
        "log, row 0: eligible should be a list with the action that was chosen, but is one without 1"
    );
    assert_eq!(
        error("pdrop", numbers(&[0.5])),
        "log, row 0: pdrop should be 0, as this format has no place for it, but is 0.5"
    );
    assert_eq!(
        error("skip", Arc::new(BooleanArray::from(vec![true]))),
        "log, row 0: skip should be false, as this format has no place for it, but is true"
    );
}
