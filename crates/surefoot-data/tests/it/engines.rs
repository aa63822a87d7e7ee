//! Engines: what other processes compute has the same bits, whatever the order and whoever does it again.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::{ArrayRef, Float32Array, Float64Array, Int32Array, RecordBatch};
use rayon::prelude::*;
use surefoot::FeatureMap;
use surefoot::policy::{Policy, Softmax};
use surefoot_data::shards::{Engine, run};
use surefoot_data::{
    Actions, ColumnNames, Encoding, Error, EvaluateRequest, Field, Format, Inputs, Lineage, LogReader, NamedPolicy,
    Part, PolicyReader, RecordPolicy, Result, SelectRequest, evaluate, select, write_mixture, write_policy_with,
    write_table,
};

use crate::common::Folder;

/// Two shards and a bit.
const RECORDS: usize = 2 * 131_072 + 5_000;

/// Does every shard twice, on several threads and in the wrong order, and keeps the second result.
#[derive(Debug, Default)]
struct Fake {
    shards: AtomicUsize,
}

impl Engine for Fake {
    fn map(&self, task: &str, shards: &[&[u8]], payload: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.shards.fetch_add(shards.len(), Ordering::Relaxed);
        let twice = |shard: &&[u8]| run(task, shard, payload).and_then(|_| run(task, shard, payload));
        let mut results: Vec<Vec<u8>> = shards.par_iter().rev().map(twice).collect::<Result<_>>()?;
        results.reverse();
        Ok(results)
    }
}

/// A log in two files, and its reader.
fn log(folder: &Folder) -> Vec<PathBuf> {
    let write = |name: &str, records: std::ops::Range<usize>| {
        let x = |i: usize| (i * 7919 % 1000) as f32 / 500.0 - 1.0;
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("x", Arc::new(records.clone().map(x).collect::<Float32Array>())),
            ("action", Arc::new(records.clone().map(|i| i32::from(i % 2 == 1)).collect::<Int32Array>())),
            ("pscore", Arc::new(Float64Array::from(vec![0.5; records.len()]))),
            ("reward", Arc::new(records.map(|i| f64::from(u8::from(i % 3 == 0))).collect::<Float64Array>())),
        ];
        let table = RecordBatch::try_from_iter(columns).unwrap();
        let path = folder.path().join(name);
        let schema = table.schema();
        // In batches, so that row groups end elsewhere.
        let mut tables =
            (0..table.num_rows()).step_by(9_999).map(|i| Ok(table.slice(i, 9_999.min(table.num_rows() - i))));
        write_table(&path, Format::Parquet, &schema, &mut tables).unwrap();
        path
    };
    vec![write("1.parquet", 0..100_000), write("2.parquet", 100_000..RECORDS)]
}

/// A policy, and a mixture of two.
fn policies(folder: &Folder) -> Vec<NamedPolicy> {
    let field = Field::Number { column: "x".into(), mean: 0.0, scale: 1.0, indicator: false };
    let inputs = Inputs::new(Actions::Count(2), Encoding::new(vec![field]).unwrap(), [0.0, 1.0], Lineage::default());
    let mut parts = Vec::new();
    for (file, weight) in [("1.safetensors", 0.3), ("2.safetensors", 0.7)] {
        let policy = Softmax::new(FeatureMap::identity(1), 2, vec![weight, -1.0], 1.0).unwrap();
        write_policy_with(&folder.path().join(file), &policy, Some(&inputs)).unwrap();
        parts.push(Part { file: file.into(), fingerprint: policy.identity().unwrap(), weight });
    }
    write_mixture(&folder.path().join("mixture.json"), parts).unwrap();
    let open = |name: &str| {
        let policy = RecordPolicy::open_file(&folder.path().join(name), &mut PolicyReader::default()).unwrap();
        NamedPolicy { name: name.into(), policy }
    };
    vec![
        open("1.safetensors"),
        NamedPolicy { name: "uniform".into(), policy: RecordPolicy::Uniform },
        open("mixture.json"),
    ]
}

fn reader(paths: &[PathBuf]) -> LogReader {
    LogReader::new(paths.to_vec(), None, ColumnNames::default()).with_actions(Some(Actions::Count(2)))
}

#[test]
fn evaluation_and_selection_have_the_same_bits() {
    let folder = Folder::new();
    let (paths, policies) = (log(&folder), policies(&folder));
    let (alone, engine) = (reader(&paths), Arc::new(Fake::default()));
    let shared = alone.clone().with_engine(Some(engine.clone()));

    let request = EvaluateRequest { policies: policies.clone(), replicates: 50, ..EvaluateRequest::default() };
    let text = |reader| serde_json::to_string(&evaluate(reader, &request, |_| ()).unwrap()).unwrap();
    assert_eq!(text(&shared), text(&alone));
    assert_eq!(engine.shards.load(Ordering::Relaxed), 1 + 2, "the shards of two files");

    let request = SelectRequest { policies, prior: None, reward_range: [0.0, 1.0], delta: 0.05 };
    let text = |reader| serde_json::to_string(&select(reader, &request, |_| ()).unwrap()).unwrap();
    assert_eq!(text(&shared), text(&alone));
}

#[test]
fn a_file_that_another_process_sees_changed_is_an_error() {
    /// Changes the file before the workers read it.
    #[derive(Debug)]
    struct Late(PathBuf);
    impl Engine for Late {
        fn map(&self, task: &str, shards: &[&[u8]], payload: &[u8]) -> Result<Vec<Vec<u8>>> {
            fs::copy(self.0.with_file_name("2.parquet"), &self.0).unwrap();
            shards.iter().map(|shard| run(task, shard, payload)).collect()
        }
    }
    let folder = Folder::new();
    let paths = log(&folder);
    let request = EvaluateRequest { policies: policies(&folder), replicates: 0, ..EvaluateRequest::default() };
    let late = reader(&paths).with_engine(Some(Arc::new(Late(paths[0].clone()))));
    let error = evaluate(&late, &request, |_| ()).unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");
}

#[test]
fn strange_results_and_shards_are_errors() {
    #[derive(Debug)]
    struct Strange(usize);
    impl Engine for Strange {
        fn map(&self, _: &str, shards: &[&[u8]], _: &[u8]) -> Result<Vec<Vec<u8>>> {
            Ok(vec![vec![0; self.0]; shards.len()])
        }
    }
    let folder = Folder::new();
    let (paths, policies) = (log(&folder), policies(&folder));
    let request = EvaluateRequest { policies, replicates: 0, ..EvaluateRequest::default() };
    for (bytes, expected) in [
        (8, "the engine: should return 2 numbers per record, but returned 8 bytes"),
        (0, "the engine: should read as many records as there are, but has read fewer"),
    ] {
        let reader = reader(&paths).with_engine(Some(Arc::new(Strange(bytes))));
        assert_eq!(evaluate(&reader, &request, |_| ()).unwrap_err().to_string(), expected);
    }
    for (task, shard) in [("nonsense", "{}"), ("evaluate", "{}"), ("evaluate", "")] {
        assert!(run(task, shard.as_bytes(), b"").is_err(), "{task} {shard}");
    }
}
