//! Parquet and Open Bandit Pipeline's arrays: what others wrote, what comes back of what is written, and what cannot be
//! written. `files/make.py` wrote the files. Bad files are in `table_corpus.rs`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::Folder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int32Type, Int64Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, Float64Array, Int64Array, ListArray, RecordBatch, StringArray,
    UInt32Array,
};
use arrow_schema::DataType;
use surefoot_data::{Format, ROWS, Result, read_table, read_table_bytes, write_table};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name)
}

fn read(path: &Path) -> Result<Vec<RecordBatch>> {
    let format = Format::of(path)?;
    let batches = read_table(path, format)?.collect::<Result<Vec<_>>>();
    // The same from memory.
    let bytes = read_table_bytes(&path.display().to_string(), fs::read(path).unwrap(), format)?.collect();
    let both: [Result<Vec<RecordBatch>>; 2] = [batches, bytes];
    let [batches, bytes] = both.map(|batches| batches.map_err(|error| error.to_string()));
    assert_eq!(batches, bytes);
    read_table(path, format)?.collect()
}

/// The only batch of a file.
fn one(name: &str) -> RecordBatch {
    let [batch] = <[RecordBatch; 1]>::try_from(read(&file(name)).unwrap()).unwrap();
    batch
}

/// A column in words: what it holds, row by row.
fn shown(batch: &RecordBatch, column: &str) -> Vec<String> {
    let column = batch.column_by_name(column).unwrap_or_else(|| panic!("{column}: {:?}", batch.schema()));
    (0..column.len()).map(|row| value(column, row)).collect()
}

fn value(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return "-".into();
    }
    match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
        DataType::List(_) => {
            let list = column.as_list::<i32>().value(row);
            format!("[{}]", (0..list.len()).map(|i| value(&list, i)).collect::<Vec<_>>().join(" "))
        }
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).to_string(),
        DataType::Float32 => column.as_primitive::<Float32Type>().value(row).to_string(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).to_string(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Int8 => column.as_primitive::<arrow_array::types::Int8Type>().value(row).to_string(),
        DataType::UInt64 => column.as_primitive::<arrow_array::types::UInt64Type>().value(row).to_string(),
        other => panic!("{other}"),
    }
}

#[test]
fn pyarrow_s_columns_come_as_they_are_with_text_as_utf8_and_lists_as_lists() {
    let batch = one("parquet/pyarrow-snappy.parquet");
    let types: Vec<String> = batch.schema().fields().iter().map(|field| field.data_type().to_string()).collect();
    assert_eq!(types[..5], ["UInt32", "Float64", "Float64", "Utf8", "Utf8"]);
    assert_eq!(shown(&batch, "action"), ["0", "2", "1"]);
    assert_eq!(shown(&batch, "pscore"), ["0.5", "0.25", "1"]);
    assert_eq!(shown(&batch, "event_id"), ["a", "-", "Zürich"]);
    assert_eq!(shown(&batch, "device"), ["x", "y", "x"]);
    assert_eq!(shown(&batch, "context"), ["[1 2]", "[3 4]", "[5 6]"]);
    assert_eq!(shown(&batch, "eligible"), ["[0 1]", "[2]", "-"]);
    assert_eq!(shown(&batch, "skip"), ["true", "-", "false"]);
}

#[test]
fn sparse_lists_and_lists_of_names_come_as_lists() {
    let batch = one("parquet/pyarrow-sparse.parquet");
    assert_eq!(shown(&batch, "context_indices"), ["[0 7]", "[]", "[3]"]);
    assert_eq!(shown(&batch, "context_values"), ["[1 -1]", "[]", "[0.5]"]);
    assert_eq!(shown(&batch, "context_names"), ["[a b]", "[]", "[a]"]);
}

#[test]
fn times_dates_decimals_halves_and_bytes_become_what_a_table_has() {
    let batch = one("parquet/pyarrow-types.parquet");
    for (column, expected) in [
        ("i8", ["1", "-", "-3"]),
        ("u64", ["1", "2", "9223372036854775808"]),
        ("half", ["0.5", "-2", "65504"]),
        ("bytes", ["a", "", "é"]),
        ("nothing", ["-", "-", "-"]),
        ("time_ms", ["2025-01-31T12:00:00.500Z", "-", "1969-12-31T23:59:59Z"]),
        ("time_us", ["2025-01-31T12:00:00.500", "-", "1969-12-31T23:59:59"]),
        ("time_ns", ["2025-01-31T12:00:00.500Z", "-", "1969-12-31T23:59:59Z"]),
        ("date", ["2025-01-31", "-", "1969-12-31"]),
        ("money", ["0.1", "-", "-12345678901234568"]),
        ("wide", ["0.0000000001", "-", "1.5"]),
        ("days", ["[2025-01-31]", "-", "[]"]),
    ] {
        assert_eq!(shown(&batch, column), expected, "{column}");
    }
}

#[test]
fn the_features_of_actions_are_candidates_of_every_record_unless_they_only_number_them() {
    let batch = one("obp/candidates.npz");
    let lists = batch.column_by_name("candidates").unwrap().as_list::<i32>();
    assert_eq!((lists.len(), lists.value_length(4)), (5, 3));
    let items = lists.value(4);
    let items = items.as_struct();
    assert_eq!(items.column(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["0", "1", "2"]);
    let last = items.column(1).as_list::<i32>().value(2);
    assert_eq!(last.as_primitive::<Float32Type>().values(), &[3.0, 1.0]);
    assert!(one("obp/synthetic.npz").column_by_name("candidates").is_none());
}

#[test]
fn lists_of_structs_are_read_with_the_fields_of_inner_structs() {
    let batch = one("parquet/pyarrow-candidates.parquet");
    let lists = batch.column_by_name("candidates").unwrap().as_list::<i32>();
    assert_eq!((0..3).map(|i| lists.value_length(i)).collect::<Vec<_>>(), [2, 1, 2]);
    let items = lists.values().as_struct();
    assert_eq!(items.column_names(), ["id", "news.topic", "news.words", "e"]);
    let topics: Vec<Option<&str>> = items.column(1).as_string::<i32>().iter().collect();
    assert_eq!(topics, [Some("x"), None, None, Some("x"), None]);
    let words: Vec<Option<i32>> = items.column(2).as_primitive::<Int32Type>().iter().collect();
    assert_eq!(words, [Some(12), None, Some(3), Some(12), None]);
    let other = one("parquet/pyarrow-list-of-structs.parquet");
    assert_eq!(other.column(0).as_list::<i32>().values().as_struct().column_names(), ["i", "v"]);
}

#[test]
fn structs_become_columns_with_dots_whose_nulls_reach_down() {
    let batch = one("parquet/pyarrow-nested.parquet");
    assert_eq!(shown(&batch, "action"), ["0", "1", "1"]);
    assert_eq!(shown(&batch, "user.age"), ["3", "-", "-"]);
    assert_eq!(shown(&batch, "user.home.zip"), ["8000", "-", "-"]);
}

#[test]
fn every_encoding_of_text_is_read() {
    let batch = one("parquet/pyarrow-delta.parquet");
    let names = ["apple", "apply", "-", "apples", ""];
    let expected: Vec<&str> = names.into_iter().cycle().take(200).collect();
    assert_eq!(shown(&batch, "name"), expected);
    assert_eq!(shown(&batch, "text"), (0..200).map(|i| "b".repeat(i % 7)).collect::<Vec<_>>());
    assert_eq!(shown(&batch, "number"), (0..200).map(|i| i.to_string()).collect::<Vec<_>>());
}

#[test]
fn row_groups_are_read_in_their_order_into_one_batch() {
    let batch = one("parquet/pyarrow-groups.parquet");
    assert_eq!(shown(&batch, "action"), (0..100).map(|i| (i % 5).to_string()).collect::<Vec<_>>());
    assert_eq!(shown(&batch, "text"), (0..100).map(|i| format!("t{}", i % 3)).collect::<Vec<_>>());
}

#[test]
fn polars_categories_arrays_and_long_text_are_read() {
    let batch = one("parquet/polars-zstd.parquet");
    assert_eq!(shown(&batch, "action"), ["0", "2", "1"]);
    assert_eq!(shown(&batch, "reward"), ["1", "0", "-"]);
    assert_eq!(shown(&batch, "kind"), ["a", "b", "a"]);
    assert_eq!(shown(&batch, "note"), ["a text that is longer than twelve bytes", "-", "short"]);
    assert_eq!(shown(&batch, "context"), ["[1 2]", "[3 4]", "[5 6]"]);
    assert_eq!(shown(&batch, "pi"), ["[0.5 0.25 0.25]", "[0.5 0.25 0.25]", "[0 1 0]"]);
    assert_eq!(read(&file("parquet/polars-empty.parquet")).unwrap(), []);
}

#[test]
fn open_bandit_pipeline_s_feedback_is_read_with_none_as_not_there() {
    let batch = one("obp/synthetic.npz");
    assert_eq!(shown(&batch, "action"), ["0", "2", "1", "1", "0"]);
    assert_eq!(shown(&batch, "reward"), ["1", "0", "0", "1", "0"]);
    assert!(batch.column_by_name("position").is_none() && batch.column_by_name("expected_reward").is_none());
    let probabilities = batch["probabilities"].as_list::<i32>();
    let pscore = batch["pscore"].as_primitive::<Float64Type>();
    for (row, action) in [0, 2, 1, 1, 0].into_iter().enumerate() {
        let row_of = probabilities.value(row);
        let values = row_of.as_primitive::<Float64Type>().values().to_vec();
        assert!((values.iter().sum::<f64>() - 1.0).abs() < 1e-12 && values.len() == 3);
        assert_eq!(values[action], pscore.value(row));
    }
    let context = batch["context"].as_list::<i32>();
    assert!((0..5).all(|row| context.value(row).len() == 2));
}

#[test]
fn lists_are_taken_at_the_position_which_is_no_column() {
    let batch = one("obp/positions.npz");
    assert!(batch.column_by_name("position").is_none());
    for row in 0..5 {
        let values =
            |column: &str| batch[column].as_list::<i32>().value(row).as_primitive::<Float64Type>().values().to_vec();
        let (logged, mut other) = (values("probabilities"), values("action_dist"));
        assert!((logged.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        other.reverse();
        assert_eq!(logged, other);
    }
}

#[test]
fn four_arrays_of_any_types_are_enough() {
    let batch = one("obp/least.npz");
    assert_eq!(shown(&batch, "action"), ["0", "2", "1", "1", "0"]);
    assert_eq!(shown(&batch, "reward"), ["1", "0", "1", "1", "0"]);
    assert_eq!(shown(&batch, "pscore"), ["0.5"; 5]);
    assert_eq!(shown(&batch, "context"), ["[1]", "[2]", "[3]", "[4]", "[5]"]);
}

#[test]
fn what_was_read_can_be_written_and_read_again() {
    let folder = Folder::new();
    for name in ["synthetic", "positions", "least", "good-context-fortran"] {
        let batch = one(&format!("obp/{name}.npz"));
        let path = folder.path().join(format!("{name}.npz"));
        write(&path, std::slice::from_ref(&batch)).unwrap();
        assert_eq!(read(&path).unwrap(), [batch], "{name}");
    }
}

/// Batches of so many rows, with the columns that both formats have.
fn records(batches: usize, rows: usize) -> Vec<RecordBatch> {
    (0..batches)
        .map(|batch| {
            let row = |i: usize| batch * rows + i;
            let action = UInt32Array::from_iter_values((0..rows).map(|i| (row(i) % 3) as u32));
            let pscore = Float64Array::from_iter_values((0..rows).map(|i| 1.0 / (2 + row(i) % 5) as f64));
            let reward = Float64Array::from_iter_values((0..rows).map(|i| row(i) as f64 / 7.0));
            let entry = |i: usize| Some((0..2).map(move |j| Some((i * 2 + j) as f32 / 3.0)));
            let context = ListArray::from_iter_primitive::<Float32Type, _, _>((0..rows).map(|i| entry(row(i))));
            let dist = |i: usize| Some([0.5, 0.25, 0.25 / (1 + i) as f64].map(Some));
            let pi = ListArray::from_iter_primitive::<Float64Type, _, _>((0..rows).map(|i| dist(row(i))));
            RecordBatch::try_from_iter([
                ("action", Arc::new(action) as ArrayRef),
                ("pscore", Arc::new(pscore)),
                ("reward", Arc::new(reward)),
                ("context", Arc::new(context)),
                ("probabilities", Arc::new(pi)),
            ])
            .unwrap()
        })
        .collect()
}

fn write(path: &Path, batches: &[RecordBatch]) -> Result<u64> {
    let schema = batches[0].schema();
    write_table(path, Format::of(path)?, &schema, &mut batches.iter().cloned().map(Ok))
}

#[test]
fn what_is_written_is_read_in_batches_of_rows() {
    let folder = Folder::new();
    let (batches, rows) = (25, 1000);
    let written = records(batches, rows);
    for name in ["log.parquet", "log.npz"] {
        let path = folder.path().join(name);
        assert_eq!(write(&path, &written).unwrap(), 25_000, "{name}");
        let read = read(&path).unwrap();
        assert!(read.iter().all(|batch| batch.num_rows() <= ROWS), "{name}");
        assert_eq!(read.len(), (batches * rows).div_ceil(ROWS), "{name}");
        for column in ["action", "pscore", "reward", "context", "probabilities"] {
            let all = |batches: &[RecordBatch]| {
                batches.iter().flat_map(|batch| shown(batch, column)).collect::<Vec<String>>()
            };
            assert!(all(&read) == all(&written), "{name}: {column}");
        }
        // The same records give the same bytes.
        let again = folder.path().join(format!("again-{name}"));
        write(&again, &written).unwrap();
        assert_eq!(fs::read(&path).unwrap(), fs::read(&again).unwrap(), "{name}");
    }
}

#[test]
fn parquet_keeps_text_booleans_nulls_and_lists_of_every_kind() {
    let folder = Folder::new();
    let item = Arc::new(arrow_schema::Field::new_list_field(DataType::Float64, true));
    let fixed = FixedSizeListArray::new(item, 2, Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, 4.0])), None);
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("text", Arc::new(StringArray::from(vec![Some("é"), None])) as ArrayRef, true),
        ("flag", Arc::new(BooleanArray::from(vec![None, Some(true)])), true),
        ("number", Arc::new(Int64Array::from(vec![Some(i64::MIN), None])), true),
        ("list", Arc::new(fixed), true),
    ])
    .unwrap();
    let path = folder.path().join("log.pq");
    write(&path, &[batch]).unwrap();
    let [batch] = <[RecordBatch; 1]>::try_from(read(&path).unwrap()).unwrap();
    assert_eq!(shown(&batch, "text"), ["é", "-"]);
    assert_eq!(shown(&batch, "flag"), ["-", "true"]);
    assert_eq!(shown(&batch, "number"), ["-9223372036854775808", "-"]);
    assert_eq!(shown(&batch, "list"), ["[1 2]", "[3 4]"]);
}

fn with(changes: &[(&str, ArrayRef)]) -> RecordBatch {
    let batch = &records(1, 2)[0];
    let schema = batch.schema();
    let kept =
        schema.fields().iter().zip(batch.columns()).map(|(field, column)| (field.name().as_str(), column.clone()));
    let kept = kept.filter(|(name, _)| changes.iter().all(|(other, _)| other != name));
    let added = changes.iter().filter(|(_, column)| !column.is_empty()).map(|(name, column)| (*name, column.clone()));
    RecordBatch::try_from_iter_with_nullable(kept.chain(added).map(|(name, column)| (name, column, true))).unwrap()
}

fn lists<const N: usize>(rows: [&[f32]; N]) -> ArrayRef {
    let rows = rows.map(|row| Some(row.iter().copied().map(Some).collect::<Vec<_>>()));
    Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(rows))
}

fn indices<const N: usize>(rows: [&[u32]; N]) -> ArrayRef {
    let rows = rows.map(|row| Some(row.iter().copied().map(Some).collect::<Vec<_>>()));
    Arc::new(ListArray::from_iter_primitive::<UInt32Type, _, _>(rows))
}

#[test]
fn number_columns_are_features_behind_sparse_ones_made_dense() {
    let folder = Folder::new();
    let path = folder.path().join("log.npz");
    let none = || lists([]);
    let batch = with(&[
        ("context", none()),
        ("probabilities", none()),
        ("context_indices", indices([&[2, 0], &[]])),
        ("context_values", lists([&[0.5, 4.0], &[]])),
        ("age", Arc::new(Int64Array::from(vec![30, 40]))),
        ("member", Arc::new(BooleanArray::from(vec![true, false]))),
        ("position", Arc::new(UInt32Array::from(vec![3, 1]))),
    ]);
    write(&path, &[batch]).unwrap();
    let [batch] = <[RecordBatch; 1]>::try_from(read(&path).unwrap()).unwrap();
    assert_eq!(shown(&batch, "context"), ["[4 0 0.5 30 1 3]", "[0 0 0 40 0 1]"]);
}

#[test]
fn what_open_bandit_pipeline_has_no_place_for_is_refused_by_name() {
    let folder = Folder::new();
    let path = folder.path().join("log.npz");
    let text = || Arc::new(StringArray::from(vec!["a", "b"])) as ArrayRef;
    let nulls = || Arc::new(Float64Array::from(vec![Some(1.0), None])) as ArrayRef;
    let place = "should be what Open Bandit Pipeline's arrays have a place for, but is of type";
    for (changes, expected) in [
        (vec![("event_id", text())], format!(": event_id {place} Utf8")),
        (vec![("action", text())], format!(": action {place} Utf8")),
        (vec![("eligible", indices([&[0], &[1]]))], format!(": eligible {place} List(UInt32)")),
        (vec![("pdrop", nulls())], format!(": pdrop {place} Float64")),
        (vec![("reward", lists([]))], ": no column reward; it has action, pscore, context, probabilities".to_owned()),
        (vec![("reward", nulls())], ", row 1: reward should be a number everywhere, but is null".into()),
        (
            vec![("context", lists([&[1.0], &[1.0, 2.0]]))],
            ", row 1: context should be of 1 entries, as in row 0, but is of 2".into(),
        ),
        (
            vec![("probabilities", lists([&[1.0], &[1.0]]))],
            ", row 1: probabilities should be of 2 entries, one for each action, but is of 1".into(),
        ),
        (vec![("position", text())], format!(": position {place} Utf8")),
        (
            vec![("context_indices", indices([&[1], &[5000]])), ("context_values", lists([&[1.0], &[1.0]]))],
            ", row 1: context_indices should be from 0 to 4095, since the array is dense, but is 5000".into(),
        ),
        (
            vec![("context_indices", indices([&[1], &[]])), ("context_values", lists([&[1.0], &[1.0]]))],
            ", row 1: context_indices should be of 1 entries, as context_values, but is of 0".into(),
        ),
    ] {
        let error = write(&path, &[with(&changes)]).unwrap_err().to_string();
        assert_eq!(error.strip_prefix(&path.display().to_string()).unwrap(), expected);
        assert!(!path.exists());
    }
}

#[test]
fn a_file_that_says_that_it_has_other_rows_than_it_has_is_refused() {
    let folder = Folder::new();
    let path = folder.path().join("log.parquet");
    let column = Arc::new(Int64Array::from_iter_values(0..100)) as ArrayRef;
    write(&path, &[RecordBatch::try_from_iter([("a", column)]).unwrap()]).unwrap();
    let bytes = fs::read(&path).unwrap();
    // 100 is the varint 200, 1: of the file in field 3, and of its only row group in field 3.
    let start = bytes.len() - 8 - u32::from_le_bytes(*bytes[bytes.len() - 8..].first_chunk().unwrap()) as usize;
    let places: Vec<usize> = (start..bytes.len() - 3).filter(|&i| bytes[i..i + 3] == [0x16, 200, 1]).collect();
    for (rows, found) in [(101, "100"), (99, "100 or more")] {
        let mut changed = bytes.clone();
        for place in &places {
            changed[place + 1] = (2 * (rows - 64)) | 128;
        }
        fs::write(&path, changed).unwrap();
        let error = read(&path).unwrap_err().to_string();
        let expected = format!("the rows should be {rows}, as the footer says, but are {found}");
        assert!(error.ends_with(&expected), "{error}");
    }
}

#[test]
fn text_that_is_repeated_without_end_is_refused() {
    let folder = Folder::new();
    let path = folder.path().join("log.parquet");
    let long = "x".repeat(1 << 16);
    let column = Arc::new(StringArray::from_iter_values(std::iter::repeat_n(&long, ROWS / 8))) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
    write(&path, &vec![batch; 8]).unwrap();
    assert!(fs::metadata(&path).unwrap().len() < 1 << 17);
    let error = read(&path).unwrap_err().to_string();
    assert!(error.ends_with("a: the text of a batch takes 536870912 bytes or more, which is implausible"), "{error}");
}
