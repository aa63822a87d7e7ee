//! Logged decisions as rows of the table in `table.rs`, with named features, for the formats without columns of their
//! own (dsjson and Vowpal Wabbit's text).

use std::io::Write;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float32Builder, Float64Builder, ListBuilder, StringBuilder, UInt32Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, UInt32Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::candidates::{Candidate, Candidates, named};
use super::cells::{Cell, cell, check, same_columns, unfit, unwritten};
use crate::error::{Error, Result};

/// One logged decision.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Decision {
    pub(super) event_id: Option<String>,
    pub(super) timestamp: Option<String>,
    pub(super) policy_version: Option<String>,
    pub(super) action: u32,
    pub(super) pscore: f64,
    pub(super) reward: f64,
    pub(super) eligible: Option<Vec<u32>>,
    pub(super) probabilities: Option<Vec<f64>>,
    pub(super) pdrop: Option<f64>,
    pub(super) skip: bool,
    /// Whether action, propensity and reward are unknown.
    pub(super) unlabelled: bool,
    /// Names and values of the non-zero features.
    pub(super) features: Vec<(String, f32)>,
    /// The candidates, if they have features or identities; the action is then a place among them.
    pub(super) candidates: Option<Vec<Candidate>>,
}

/// The columns of [`Decisions::finish`] that both formats have.
pub(super) const ALWAYS: [&str; 7] =
    ["event_id", "action", "pscore", "reward", "eligible", "context_names", "context_values"];
/// The columns that only dsjson has.
pub(super) const DSJSON: [&str; 5] = ["timestamp", "policy_version", "probabilities", "pdrop", "skip"];

/// Converts a cost to a reward or back. Written this way, a cost of 0 gives a reward of 0, not -0.
pub(super) fn negated(value: f64) -> f64 {
    0.0 - value
}

/// Decisions that are collected into a batch.
#[derive(Default)]
pub(super) struct Decisions {
    event_id: StringBuilder,
    timestamp: StringBuilder,
    policy_version: StringBuilder,
    action: UInt32Builder,
    pscore: Float64Builder,
    reward: Float64Builder,
    eligible: ListBuilder<UInt32Builder>,
    probabilities: ListBuilder<Float64Builder>,
    pdrop: Float64Builder,
    skip: BooleanBuilder,
    names: ListBuilder<StringBuilder>,
    values: ListBuilder<Float32Builder>,
    candidates: Candidates,
}

impl Decisions {
    pub(super) fn len(&self) -> usize {
        use arrow_array::builder::ArrayBuilder;
        self.action.len()
    }

    pub(super) fn push(&mut self, decision: &Decision) {
        self.event_id.append_option(decision.event_id.as_deref());
        self.timestamp.append_option(decision.timestamp.as_deref());
        self.policy_version.append_option(decision.policy_version.as_deref());
        let labelled = !decision.unlabelled;
        self.action.append_option(labelled.then_some(decision.action));
        self.pscore.append_option(labelled.then_some(decision.pscore));
        self.reward.append_option(labelled.then_some(decision.reward));
        self.eligible.values().append_slice(decision.eligible.as_deref().unwrap_or_default());
        self.eligible.append(decision.eligible.is_some());
        self.probabilities.values().append_slice(decision.probabilities.as_deref().unwrap_or_default());
        self.probabilities.append(decision.probabilities.is_some());
        self.pdrop.append_option(decision.pdrop);
        self.skip.append_value(decision.skip);
        self.candidates.push(decision.candidates.as_deref());
        for (name, value) in &decision.features {
            self.names.values().append_value(name);
            self.values.values().append_value(*value);
        }
        self.names.append(true);
        self.values.append(true);
    }

    /// The batch, with the columns that the format supports, and with `candidates` if a decision has some. Starts a new
    /// batch.
    pub(super) fn finish(&mut self, place: &str, columns: &[&str]) -> Result<RecordBatch> {
        let mut all: Vec<(&str, ArrayRef)> = vec![
            ("event_id", Arc::new(self.event_id.finish())),
            ("timestamp", Arc::new(self.timestamp.finish())),
            ("action", Arc::new(self.action.finish())),
            ("pscore", Arc::new(self.pscore.finish())),
            ("reward", Arc::new(self.reward.finish())),
            ("policy_version", Arc::new(self.policy_version.finish())),
            ("eligible", Arc::new(self.eligible.finish())),
            ("probabilities", Arc::new(self.probabilities.finish())),
            ("pdrop", Arc::new(self.pdrop.finish())),
            ("skip", Arc::new(self.skip.finish())),
            ("context_names", Arc::new(self.names.finish())),
            ("context_values", Arc::new(self.values.finish())),
        ];
        all.retain(|(name, _)| columns.contains(name));
        all.extend(self.candidates.finish().map(|column| ("candidates", column)));
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) =
            all.into_iter().map(|(name, array)| (Field::new(name, array.data_type().clone(), true), array)).unzip();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
            .map_err(|error| Error::Malformed { place: place.to_owned(), reason: error.to_string() })
    }
}

/// Columns that are not features.
const KNOWN: [&str; 15] = [
    "candidates",
    "event_id",
    "timestamp",
    "policy_version",
    "action",
    "pscore",
    "reward",
    "eligible",
    "probabilities",
    "pdrop",
    "skip",
    "context",
    "context_indices",
    "context_names",
    "context_values",
];

/// Passes the rows of batches to a function as decisions. Features by index get the names `context[0]`, `context[1]`
/// and so on. Every other column is a feature: a number by its name, a boolean as 1 if it is true, a text as
/// `name=text` with value 1.
fn each(
    place: &str,
    schema: &SchemaRef,
    tables: &mut dyn Iterator<Item = Result<RecordBatch>>,
    mut visit: impl FnMut(u64, Decision) -> Result<()>,
) -> Result<()> {
    types(place, schema)?;
    let mut row = 0;
    for table in tables {
        let table = table?;
        same_columns(place, schema, &table)?;
        let columns = Rows { place, schema, table: &table };
        for i in 0..table.num_rows() {
            visit(row, columns.decision(i, row)?)?;
            row += 1;
        }
    }
    Ok(())
}

/// Why a decision cannot be written: the column, what is allowed, what was found.
pub(super) type Unfit<A, B> = (A, B, String);

/// Writes one line per decision. `line` appends it to an empty text, with the end of the line.
pub(super) fn write_lines<A: AsRef<str>, B: AsRef<str>>(
    place: &str,
    out: &mut dyn Write,
    schema: &SchemaRef,
    tables: &mut dyn Iterator<Item = Result<RecordBatch>>,
    line: impl Fn(&mut String, &Decision) -> std::result::Result<(), Unfit<A, B>>,
) -> Result<()> {
    let mut text = String::new();
    each(place, schema, tables, |row, decision| {
        text.clear();
        line(&mut text, &decision)
            .map_err(|(column, allowed, found)| unfit(place, row, column.as_ref(), allowed.as_ref(), found))?;
        out.write_all(text.as_bytes()).map_err(|reason| unwritten(place, reason))
    })
}

/// Rejects columns whose types differ from the table in `table.rs`, and a table without the columns that every format
/// needs.
fn types(place: &str, schema: &SchemaRef) -> Result<()> {
    let plain = schema.fields().iter().filter(|field| field.name() != "candidates").cloned().collect::<Vec<_>>();
    check(place, &Arc::new(Schema::new(plain)))?;
    for field in schema.fields() {
        let (name, kind) = (field.name().as_str(), field.data_type());
        let list = |item: DataType| matches!(kind, DataType::List(of) if *of.data_type() == item);
        let (allowed, fits) = match name {
            "event_id" | "timestamp" | "policy_version" => ("text", *kind == DataType::Utf8),
            "action" => ("UInt32, actions as numbers", *kind == DataType::UInt32),
            "pscore" | "reward" | "pdrop" => ("Float64", *kind == DataType::Float64),
            "skip" => ("Boolean", *kind == DataType::Boolean),
            "eligible" | "context_indices" => ("a list of UInt32", list(DataType::UInt32)),
            "probabilities" => ("a list of Float64", list(DataType::Float64)),
            "context" | "context_values" => ("a list of Float32", list(DataType::Float32)),
            "context_names" => ("a list of text", list(DataType::Utf8)),
            "candidates" => ("a list of structs of id, names and values", *kind == Candidates::data_type()),
            _ => ("a truth, a number or text, as a feature", !kind.is_nested()),
        };
        if !fits {
            return Err(Error::Field {
                place: place.to_owned(),
                column: format!("the type of column {name}"),
                allowed: allowed.to_owned(),
                found: kind.to_string(),
            });
        }
    }
    for needed in ["action", "pscore", "reward"] {
        if schema.column_with_name(needed).is_none() {
            let found: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            return Err(Error::MissingColumn {
                place: place.to_owned(),
                column: needed.to_owned(),
                found: found.join(", "),
            });
        }
    }
    Ok(())
}

/// A batch whose columns have the right types.
struct Rows<'a> {
    place: &'a str,
    schema: &'a SchemaRef,
    table: &'a RecordBatch,
}

impl Rows<'_> {
    fn decision(&self, i: usize, row: u64) -> Result<Decision> {
        let required =
            |name: &str, value: Option<f64>| value.ok_or_else(|| unfit(self.place, row, name, "a number", "null"));
        let action = self.cell("action", i).and_then(|cell| match cell {
            Cell::Unsigned(action) => u32::try_from(action).ok(),
            _ => None,
        });
        let skip = matches!(self.cell("skip", i), Some(Cell::Bool(true)));
        Ok(Decision {
            event_id: self.text("event_id", i),
            timestamp: self.text("timestamp", i),
            policy_version: self.text("policy_version", i),
            action: action.ok_or_else(|| unfit(self.place, row, "action", "a number", "null"))?,
            pscore: required("pscore", self.number("pscore", i, row)?)?,
            reward: required("reward", self.number("reward", i, row)?)?,
            eligible: self.list::<UInt32Type>("eligible", i, row)?,
            probabilities: self.numbers("probabilities", i, row)?,
            pdrop: self.number("pdrop", i, row)?,
            skip,
            unlabelled: false,
            features: self.features(i, row)?,
            candidates: self.candidates(i, row)?,
        })
    }

    fn cell(&self, name: &str, i: usize) -> Option<Cell<'_>> {
        cell(self.table.column_by_name(name)?, i)
    }

    fn text(&self, name: &str, i: usize) -> Option<String> {
        match self.cell(name, i) {
            Some(Cell::Text(text)) => Some(text.to_owned()),
            _ => None,
        }
    }

    fn number(&self, name: &str, i: usize, row: u64) -> Result<Option<f64>> {
        match self.cell(name, i) {
            Some(Cell::Double(value)) if value.is_finite() => Ok(Some(value)),
            Some(Cell::Double(value)) => Err(unfit(self.place, row, name, "finite", value.to_string())),
            _ => Ok(None),
        }
    }

    fn numbers(&self, name: &str, i: usize, row: u64) -> Result<Option<Vec<f64>>> {
        let found = self.list::<Float64Type>(name, i, row)?;
        let strange = found.iter().flatten().find(|value| !value.is_finite());
        match strange {
            Some(value) => Err(unfit(self.place, row, name, "finite", value.to_string())),
            None => Ok(found),
        }
    }

    fn list<T: arrow_array::types::ArrowPrimitiveType>(
        &self,
        name: &str,
        i: usize,
        row: u64,
    ) -> Result<Option<Vec<T::Native>>> {
        let Some(Cell::List(items)) = self.cell(name, i) else { return Ok(None) };
        if items.null_count() > 0 {
            return Err(unfit(self.place, row, name, "a list without nulls", "one with a null"));
        }
        Ok(items.as_primitive_opt::<T>().map(|items| items.values().to_vec()))
    }

    /// All non-zero features.
    fn features(&self, i: usize, row: u64) -> Result<Vec<(String, f32)>> {
        let mut features = Vec::new();
        let mut add = |name: String, value: f32| {
            if !value.is_finite() {
                return Err(unfit(self.place, row, &name, "a number within the range of 32 bits", value.to_string()));
            }
            if value != 0.0 {
                features.push((name, value));
            }
            Ok(())
        };
        for (at, value) in self.list::<Float32Type>("context", i, row)?.into_iter().flatten().enumerate() {
            add(format!("context[{at}]"), value)?;
        }
        let indices = self.list::<UInt32Type>("context_indices", i, row)?;
        let names = self.names(i, row)?;
        let keys = match (indices, names) {
            (Some(_), Some(_)) => {
                let found = "there beside context_indices";
                return Err(unfit(self.place, row, "context_names", "null where context_indices is not", found));
            }
            (Some(indices), None) => Some(indices.iter().map(|index| format!("context[{index}]")).collect()),
            (None, names) => names,
        };
        let values = self.list::<Float32Type>("context_values", i, row)?;
        let (keys, values): (Vec<String>, _) = (keys.unwrap_or_default(), values.unwrap_or_default());
        if keys.len() != values.len() {
            let found = format!("{} for {}", values.len(), keys.len());
            return Err(unfit(self.place, row, "context_values", "one for each name or index", found));
        }
        for (key, value) in keys.into_iter().zip(values) {
            add(key, value)?;
        }
        for (field, column) in self.schema.fields().iter().zip(self.table.columns()) {
            if KNOWN.contains(&field.name().as_str()) {
                continue;
            }
            match cell(column, i) {
                Some(Cell::Text(text)) => add(format!("{}={text}", field.name()), 1.0)?,
                Some(Cell::Bool(value)) => add(field.name().clone(), f32::from(u8::from(value)))?,
                Some(Cell::Integer(value)) => add(field.name().clone(), value as f32)?,
                Some(Cell::Unsigned(value)) => add(field.name().clone(), value as f32)?,
                Some(Cell::Single(value)) => add(field.name().clone(), value)?,
                Some(Cell::Double(value)) => add(field.name().clone(), value as f32)?,
                Some(Cell::Null | Cell::List(_)) | None => {}
            }
        }
        Ok(features)
    }

    fn candidates(&self, i: usize, row: u64) -> Result<Option<Vec<Candidate>>> {
        let Some(Cell::List(items)) = self.cell("candidates", i) else { return Ok(None) };
        let Some(items) = items.as_struct_opt() else { return Ok(None) };
        let one = |j| {
            named(items, j, Some("id")).map_err(|(field, allowed, found)| {
                unfit(self.place, row, &format!("{field} of candidate {j}"), allowed, found)
            })
        };
        (0..items.len()).map(one).collect::<Result<_>>().map(Some)
    }

    fn names(&self, i: usize, row: u64) -> Result<Option<Vec<String>>> {
        let Some(Cell::List(items)) = self.cell("context_names", i) else { return Ok(None) };
        if items.null_count() > 0 {
            return Err(unfit(self.place, row, "context_names", "a list without nulls", "one with a null"));
        }
        Ok(items.as_string_opt::<i32>().map(|items| items.iter().flatten().map(str::to_owned).collect()))
    }
}
