//! `logs`: the time to read a large log, compared with the Parquet reader alone.

use std::fs::{self, File};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, ListArray, RecordBatch, UInt32Array};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use clap::Args;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use surefoot_data::{Format, ROWS, read_table, write_table};

use crate::report::{number, publish, table};
use crate::work::{Result, timed};

/// Read a large log in Parquet, compare with the Parquet reader alone, and write `logs.md`
#[derive(Debug, Args)]
pub(crate) struct Logs {
    #[arg(long, default_value_t = 10_000_000)]
    records: usize,
    /// The folder for the log, which is kept for the next time
    #[arg(long, default_value = "bench/data")]
    data: PathBuf,
    #[arg(long, default_value = "bench/results")]
    out: PathBuf,
}

pub(crate) const ACTIONS: usize = 10;

const TIMES: usize = 3;

/// How the probabilities of a policy are stored.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    /// One column per action, `pi_0` to `pi_9`.
    ColumnNames,
    /// One column of lists, `pi`.
    Lists,
}

impl Logs {
    pub(crate) fn run(&self) -> Result<()> {
        fs::create_dir_all(&self.data)?;
        let mut rows = Vec::new();
        for (form, name) in [(Form::ColumnNames, "columns pi_0 .. pi_9"), (Form::Lists, "one column of lists")] {
            let file = if form == Form::ColumnNames { "logs" } else { "logs-lists" };
            let path = self.data.join(format!("{file}-{}.parquet", self.records));
            if !path.exists() {
                let (seconds, done) = timed(|| match form {
                    Form::ColumnNames => logs_file(&path, self.records),
                    Form::Lists => write(&path, self.records, form),
                });
                done?;
                eprintln!("{}: written in {} s", path.display(), number(seconds));
            }
            let mut best = [f64::INFINITY; 2];
            for _ in 0..TIMES {
                for (best, read) in best.iter_mut().zip([alone, ours]) {
                    let (seconds, found) = timed(|| read(&path));
                    if found? != self.records {
                        return Err(format!("{}: not {} records", path.display(), self.records).into());
                    }
                    *best = best.min(seconds);
                }
            }
            let [alone, ours] = best;
            let speed =
                |seconds: f64| format!("{} s, {} M/s", number(seconds), number(self.records as f64 / seconds / 1e6));
            let size = format!("{:.0} MB", fs::metadata(&path)?.len() as f64 / 1e6);
            rows.push([name.into(), size, speed(alone), speed(ours), format!("**{:.0} %**", 100.0 * alone / ours)]);
        }
        let body = table(["the probabilities are in", "file", "the reader alone", "read_table", "speed of it"], &rows);
        let settings = format!(
            "{} records of {ACTIONS} actions: timestamp, action, pscore, reward and the probabilities of a policy, all of them \
             decoded in batches of {ROWS}. The best of {TIMES} readings, in turn, one thread, the file in the page cache.",
            self.records
        );
        publish(&self.out, "logs", "Reading a log", &format!("{settings}\n\n{body}"))
    }
}

pub(crate) fn alone(path: &Path) -> Result<usize> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?.with_batch_size(ROWS).build()?;
    let mut rows = 0;
    for batch in reader {
        rows += black_box(batch?).num_rows();
    }
    Ok(rows)
}

fn ours(path: &Path) -> Result<usize> {
    let mut rows = 0;
    for batch in read_table(path, Format::Parquet)? {
        rows += black_box(batch?).num_rows();
    }
    Ok(rows)
}

/// Writes a log in Parquet: `timestamp` in milliseconds, `action`, `pscore`, `reward` in {0, 1}, and the probabilities
/// of a target policy as the columns `pi_0` to `pi_9`. The same number of records gives the same file.
pub(crate) fn logs_file(path: &Path, records: usize) -> Result<()> {
    write(path, records, Form::ColumnNames)
}

fn write(path: &Path, records: usize, form: Form) -> Result<()> {
    let schema = schema(form);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut batches = (0..records).step_by(ROWS).map(|first| {
        let rows = ROWS.min(records - first);
        Ok(batch(&schema, &mut rng, first, rows, form))
    });
    write_table(path, Format::Parquet, &schema, &mut batches)?;
    Ok(())
}

fn schema(form: Form) -> SchemaRef {
    let mut fields = vec![
        Field::new("timestamp", DataType::Int64, false),
        Field::new("action", DataType::UInt32, false),
        Field::new("pscore", DataType::Float64, false),
        Field::new("reward", DataType::Float64, false),
    ];
    match form {
        Form::ColumnNames => {
            fields.extend((0..ACTIONS).map(|a| Field::new(format!("pi_{a}"), DataType::Float64, false)));
        }
        Form::Lists => fields.push(Field::new_list("pi", Field::new_list_field(DataType::Float64, false), false)),
    }
    Arc::new(Schema::new(fields))
}

fn batch(schema: &SchemaRef, rng: &mut ChaCha8Rng, first: usize, rows: usize, form: Form) -> RecordBatch {
    let mut pi = vec![0.0; rows * ACTIONS];
    let (mut action, mut pscore, mut reward) = (Vec::new(), Vec::new(), Vec::new());
    for pi in pi.chunks_exact_mut(ACTIONS) {
        pi.fill_with(|| (2.0 * rng.random::<f64>()).exp());
        let sum: f64 = pi.iter().sum();
        pi.iter_mut().for_each(|p| *p /= sum);
        // The logging policy is half uniform; the last action gets the remainder of the rounding.
        let logged = |p: f64| 0.5 * p + 0.5 / ACTIONS as f64;
        let mut left = rng.random::<f64>();
        let chosen = pi.iter().position(|&p| {
            left -= logged(p);
            left < 0.0
        });
        let chosen = chosen.unwrap_or(ACTIONS - 1);
        action.push(chosen as u32);
        pscore.push(logged(pi[chosen]));
        reward.push(f64::from(u8::from(rng.random::<f64>() < 0.02 * (1 + chosen) as f64)));
    }
    let time = (first..first + rows).map(|row| 1_700_000_000_000 + 20 * row.cast_signed() as i64);
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(time)),
        Arc::new(UInt32Array::from(action)),
        Arc::new(Float64Array::from(pscore)),
        Arc::new(Float64Array::from(reward)),
    ];
    match form {
        Form::ColumnNames => columns.extend((0..ACTIONS).map(|a| -> ArrayRef {
            Arc::new(
                pi.iter().skip(a).step_by(ACTIONS).copied().collect::<Vec<f64>>().into_iter().collect::<Float64Array>(),
            )
        })),
        Form::Lists => {
            let item = Arc::new(Field::new_list_field(DataType::Float64, false));
            let offsets = OffsetBuffer::from_repeated_length(ACTIONS, rows);
            columns.push(Arc::new(ListArray::new(item, offsets, Arc::new(Float64Array::from(pi)), None)));
        }
    }
    RecordBatch::try_new(schema.clone(), columns).expect("the columns are those of the schema")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_the_same_every_time_and_read_the_same_by_both() {
        let folder = tempfile::tempdir().unwrap();
        let [first, again] = ["a.parquet", "b.parquet"].map(|name| folder.path().join(name));
        logs_file(&first, ROWS + 1).unwrap();
        logs_file(&again, ROWS + 1).unwrap();
        assert_eq!(fs::read(&first).unwrap(), fs::read(&again).unwrap());
        assert_eq!((alone(&first).unwrap(), ours(&first).unwrap()), (ROWS + 1, ROWS + 1));
        write(&again, 10, Form::Lists).unwrap();
        assert_eq!((alone(&again).unwrap(), ours(&again).unwrap()), (10, 10));
    }
}
