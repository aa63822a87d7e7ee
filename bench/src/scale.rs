//! `scale`: a pass over mapped records against one in memory, encoding against the Parquet reader alone, and the growth of a pass.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Float64Array, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field, Schema};
use clap::Args;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use surefoot::Logs;
use surefoot::estimator::Regularizer;
use surefoot::objective::{Criterion, Objective, ObjectiveParts};
use surefoot::policy::{Posterior, Scale as Width};
use surefoot_data::{Actions, ColumnNames, Format, LogReader, ROWS, ReadRequest, Rounds, Storage, write_table};

use crate::draw::{Curve, Panel, curves};
use crate::logs::alone;
use crate::report::{number, publish, table};
use crate::work::{Result, timed};

/// Measure passes over mapped records, encoding and growth, and write `scale.md`
#[derive(Debug, Args)]
pub(crate) struct Scale {
    /// Records of the log
    #[arg(long, default_value_t = 1_000_000)]
    records: usize,
    /// Largest number of weighing records of a pass; the log is repeated
    #[arg(long, default_value_t = 1_000_000_000)]
    most: usize,
    /// The folder for the log and the encoded records, which are removed
    #[arg(long, default_value = "bench/data")]
    data: PathBuf,
    #[arg(long, default_value = "bench/results")]
    out: PathBuf,
}

const ACTIONS: usize = 10;
const FEATURES: usize = 20;
const REPEATS: usize = 5;

impl Scale {
    pub(crate) fn run(&self) -> Result<()> {
        fs::create_dir_all(&self.data)?;
        let path = self.data.join(format!("scale-{}-weighing.parquet", self.records));
        if !path.exists() {
            write(&path, self.records)?;
        }
        let cache = self.data.join("scale-cache");
        let measured = self.measured(&path, &cache);
        let _ = fs::remove_dir_all(&cache);
        let body = measured?;
        publish(&self.out, "scale", "Beyond the memory", &body)
    }

    fn measured(&self, path: &Path, cache: &Path) -> Result<String> {
        let (mut reading, mut encoding) = (f64::INFINITY, f64::INFINITY);
        let stored = Storage { memory: None, cache: Some(cache.to_owned()) };
        for _ in 0..REPEATS {
            reading = reading.min(timed(|| alone(path)).0);
            let _ = fs::remove_dir_all(cache);
            let (seconds, rounds) = timed(|| rounds(path, &stored));
            drop(rounds?);
            encoding = encoding.min(seconds);
        }
        // Files without a cache: with one, passes are kept for a search that goes on, and would not be made again.
        let small = Storage { memory: Some(200 * self.records as u64), cache: None };
        let (held, mapped) = (rounds(path, &Storage::default())?, rounds(path, &small)?);
        let [held, mapped] =
            [&held, &mapped].map(|rounds| rounds.rounds.iter().cloned().map(Arc::new).collect::<Vec<_>>());
        // The first pass brings the pages.
        let first = pass(&mapped)?;
        let (mut from_memory, mut from_files) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..REPEATS {
            from_memory = from_memory.min(pass(&held)?);
            from_files = from_files.min(pass(&mapped)?);
        }
        let mut points = Vec::new();
        let mut times = 1;
        while times * self.records <= self.most {
            let repeated: Vec<Arc<Logs>> = std::iter::repeat_n(&mapped, times).flatten().cloned().collect();
            let records: usize = repeated.iter().map(|logs| logs.len()).sum();
            points.push((records as f64, pass(&repeated)?));
            times *= 10;
        }
        fs::create_dir_all(&self.out)?;
        let curve = Curve { label: "mapped files, 20 features".into(), points: points.clone() };
        let panel = Panel { name: "records with a reward".into(), curves: vec![curve] };
        curves("Seconds of a pass; the grey line is linear growth", &[panel])?.write(&self.out.join("scale"))?;
        let ratio = |ours: f64, other: f64| format!("**{:.2}**", other / ours);
        let rows = [
            [
                "encoding Parquet into files, against the Parquet reader alone",
                &number(encoding),
                &number(reading),
                &ratio(encoding, reading),
            ],
            [
                "a pass over mapped records, against records in memory",
                &number(from_files),
                &number(from_memory),
                &ratio(from_files, from_memory),
            ],
            [
                "the first pass over mapped records, against records in memory",
                &number(first),
                &number(from_memory),
                &ratio(first, from_memory),
            ],
        ]
        .map(|row| row.map(str::to_owned));
        let steps: Vec<[String; 3]> = (points.iter().enumerate())
            .map(|(i, &(records, seconds))| {
                let slope = match i.checked_sub(1).map(|before| points[before]) {
                    Some((n, s)) => format!("{:.3}", (seconds / s).ln() / (records / n).ln()),
                    None => "-".into(),
                };
                [format!("{records:.0}"), number(seconds), slope]
            })
            .collect();
        let settings = format!(
            "{} records, {FEATURES} features, {ACTIONS} actions, all of them with a reward. A pass is the objective of SeqAdjLS with its \
             gradient, in double precision. The best of {REPEATS}, in turn; files in the page cache, all cores.",
            self.records
        );
        Ok(format!(
            "{settings}\n\n{}\nThe growth of a pass, over mapped records that are repeated:\n\n{}\n![Seconds of a pass](scale.svg)\n",
            table(["work", "seconds", "of the other", "speed"], &rows),
            table(["weighing records", "seconds", "slope from the line above"], &steps),
        ))
    }
}

fn rounds(path: &Path, storage: &Storage) -> Result<Rounds> {
    let reader = LogReader::new(vec![path.to_owned()], None, ColumnNames::default());
    let reader = reader.with_actions(Some(Actions::counted(ACTIONS)?));
    Ok(Rounds::read(&reader, &ReadRequest { storage: storage.clone(), ..ReadRequest::default() }, None)?)
}

/// The seconds of a pass.
fn pass(rounds: &[Arc<Logs>]) -> Result<f64> {
    let features = rounds[0].contexts().features();
    let mean = (0..features * ACTIONS).map(|i| 0.01 * (i % 7) as f64).collect();
    let posterior = Posterior::new(ACTIONS, mean, Width::Shared(0.5))?;
    let objective = Objective::new(ObjectiveParts {
        rounds,
        total: None,
        criterion: Criterion::Mean { regularizer: Regularizer::Ls { lambda: 0.5 } },
        custom: None,
        anchor: &posterior,
        shape: &posterior,
        learn_scale: true,
        lambda: Some(0.5),
        exploration: 0.0,
        tolerance: 1e-6,
    })?;
    let x = objective.parameters(&posterior);
    let (seconds, sums) = timed(|| objective.partial(&x));
    sums?;
    Ok(seconds)
}

/// Writes a log in Parquet: `x0` to `x19`, `action`, `pscore`, and a `reward` that is never the lowest.
fn write(path: &Path, records: usize) -> Result<()> {
    let mut fields: Vec<Field> = (0..FEATURES).map(|i| Field::new(format!("x{i}"), DataType::Float32, false)).collect();
    fields.push(Field::new("action", DataType::UInt32, false));
    fields.extend(["pscore", "reward"].map(|name| Field::new(name, DataType::Float64, false)));
    let schema = Arc::new(Schema::new(fields));
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut batches = (0..records).step_by(ROWS).map(|first| {
        let n = ROWS.min(records - first);
        let mut columns: Vec<ArrayRef> = Vec::new();
        for _ in 0..FEATURES {
            columns.push(Arc::new(
                (0..n).map(|_| rng.random::<f32>() - 0.5).collect::<Vec<f32>>().into_iter().collect::<Float32Array>(),
            ));
        }
        columns.push(Arc::new(UInt32Array::from_iter_values((0..n).map(|_| rng.random_range(0..ACTIONS as u32)))));
        columns.push(Arc::new(Float64Array::from_iter_values((0..n).map(|_| 1.0 / ACTIONS as f64))));
        columns.push(Arc::new(Float64Array::from_iter_values((0..n).map(|_| 0.1 + 0.9 * rng.random::<f64>()))));
        Ok(RecordBatch::try_new(schema.clone(), columns).expect("the columns are those of the schema"))
    });
    write_table(path, Format::Parquet, &schema, &mut batches)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measure_runs() {
        let folder = tempfile::tempdir().unwrap();
        let (data, out) = (folder.path().join("data"), folder.path().join("out"));
        Scale { records: 2000, most: 20_000, data, out: out.clone() }.run().unwrap();
        let text = fs::read_to_string(out.join("scale.md")).unwrap();
        assert!(text.contains("| 18000 |"), "{text}");
    }
}
