//! CONVERT: writes the records of any format in any other, with our column names and types.
//!
//! It takes two passes: the first finds a type that fits all cells of a column, the second writes the cells. Nothing is
//! repaired. If the target format has no place for something, the writer returns an error; times, versions and distributions,
//! which Vowpal Wabbit's text has no place for, are left out and named.

mod candidates;

use std::path::Path;
use std::slice::from_ref;
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, Float64Builder, ListBuilder, StringBuilder, UInt32Builder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::column::{Column, parse};
use crate::encoding::among;
use crate::error::{Error, Result};
use crate::logs::{Actions, LogBatch, LogReader, Role};
use crate::scan::{Grouping, Scan};
use crate::table::{ACTIONS, Format, write_table};
use candidates::Fields;

/// The common type of all cells of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All cells so far are missing.
    Unknown,
    Flag,
    Integer,
    Number,
    Text,
    Numbers,
    Texts,
    /// Lists of candidates.
    Objects,
}

impl Kind {
    /// The type of the cells of a batch.
    fn of(column: &Column<'_>) -> Kind {
        use DataType::*;
        let item = |field: &Field| if field.data_type().is_numeric() { Kind::Numbers } else { Kind::Texts };
        match column.array.data_type() {
            Null => Kind::Unknown,
            Boolean => Kind::Flag,
            List(field) | LargeList(field) | FixedSizeList(field, _) => item(field),
            Utf8 => column.array.as_string::<i32>().iter().flatten().fold(Kind::Unknown, |kind, text| {
                if kind == Kind::Text { kind } else { kind.or(Kind::of_text(text)).unwrap_or(Kind::Text) }
            }),
            kind if kind.is_integer() => Kind::Integer,
            kind if kind.is_numeric() => Kind::Number,
            _ => Kind::Text,
        }
    }

    /// The type of a text. A number with a leading zero is text: it is an id or a code.
    fn of_text(text: &str) -> Kind {
        let digits = text.trim_start_matches('-').as_bytes();
        if digits.len() > 1 && digits[0] == b'0' && digits[1].is_ascii_digit() {
            return Kind::Text;
        }
        if text.starts_with('[') {
            return match () {
                () if serde_json::from_str::<Vec<f64>>(text).is_ok() => Kind::Numbers,
                () if serde_json::from_str::<Vec<String>>(text).is_ok() => Kind::Texts,
                () => Kind::Text,
            };
        }
        match text {
            "true" | "false" | "True" | "False" => Kind::Flag,
            _ if text.parse::<i64>().is_ok() => Kind::Integer,
            _ if parse(text).is_some_and(f64::is_finite) => Kind::Number,
            _ => Kind::Text,
        }
    }

    /// The type that holds cells of both types. `None` if only one of them is a list.
    fn or(self, other: Kind) -> Option<Kind> {
        use Kind::*;
        match (self, other) {
            (a, b) if a == b => Some(a),
            (Unknown, kind) | (kind, Unknown) => Some(kind),
            // An empty list fits any list type.
            (Numbers, Texts) | (Texts, Numbers) => Some(Texts),
            (Objects, _) | (_, Objects) => None,
            (Numbers | Texts, _) | (_, Numbers | Texts) => None,
            (Text, _) | (_, Text) => Some(Text),
            _ => Some(Number),
        }
    }

    fn data_type(self) -> DataType {
        let list = |item| DataType::List(Arc::new(Field::new("item", item, true)));
        match self {
            Kind::Flag => DataType::Boolean,
            Kind::Integer => DataType::Int64,
            Kind::Number => DataType::Float64,
            Kind::Unknown | Kind::Text => DataType::Utf8,
            Kind::Numbers => list(DataType::Float64),
            Kind::Texts => list(DataType::Utf8),
            // The fields are those of all batches ([`candidates::Fields`]).
            Kind::Objects => DataType::Null,
        }
    }
}

/// A column of the file, and its name and type in the output.
#[derive(Debug)]
struct Target {
    /// Its name in the file.
    from: String,
    role: Option<Role>,
    kind: Kind,
    /// The fields of candidates.
    fields: Fields,
}

/// The result of a conversion.
#[derive(Debug, Clone, PartialEq)]
pub struct Converted {
    /// The number of records.
    pub records: u64,
    /// The renamed columns: old name, new name.
    pub renamed: Vec<(String, String)>,
    /// The names of the actions by their numbers, if actions had names and the target format supports only numbers.
    pub numbered: Option<Vec<String>>,
    /// The columns that the target format has no place for, and without which the records are the same.
    pub left_out: Vec<String>,
}

/// Converts the records of all files of the reader into one file, without the ignored columns. In `ignore`, a name that
/// ends in `*` matches all columns that begin with what precedes it; it must match one.
pub fn convert(reader: &LogReader, path: &Path, format: Format, ignore: &[String]) -> Result<Converted> {
    let reader = reader.clone().with_skipped();
    let (mut targets, named) = targets(&reader)?;
    if let Some(name) = ignore.iter().find(|name| !targets.iter().any(|target| among(from_ref(name), &target.from))) {
        let found: Vec<&str> = targets.iter().map(|target| target.from.as_str()).collect();
        return Err(Error::MissingColumn { place: reader.place(), column: name.clone(), found: found.join(", ") });
    }
    targets.retain(|target| !among(ignore, &target.from));
    let (left_out, mut targets): (Vec<Target>, Vec<Target>) =
        targets.into_iter().partition(|target| target.role.is_some_and(|role| !has_place(format, role)));
    let strict = format.has_fixed_columns();
    if targets.iter().any(Target::is_candidates) && format == Format::Csv {
        let reason = format!(
            "{format} has no place for candidates with features: parquet, jsonl, dsjson and vw have, or the column \
             candidates can be left out"
        );
        return Err(Error::Malformed { place: path.display().to_string(), reason });
    }
    let arrays = format == Format::Obp;
    if arrays {
        // The number of an action is its row in the array.
        targets.iter_mut().for_each(|target| target.fields.leave_out_identity(reader.identity().as_deref()));
    }
    let actions = match targets.iter().any(|target| target.role == Some(Role::Action)) {
        true => match reader.given_actions() {
            Some(actions) => actions.clone(),
            None => Scan::of(&reader, &Grouping::File)?.actions,
        },
        false => Actions::Count(0),
    };
    let writer =
        Writer { targets, strict, named_features: strict && !arrays, actions, named_candidates: named && !strict };
    let schema = writer.schema();
    let mut tables = reader.batches().map(|batch| writer.table(&batch?, &schema));
    let records = write_table(path, format, &schema, &mut tables)?;
    let renamed = writer.targets.iter().filter_map(|target| {
        let name = target.name();
        (name != target.from).then(|| (target.from.clone(), name.to_owned()))
    });
    let numbered = match &writer.actions {
        Actions::Names(names) if strict => Some(names.clone()),
        _ => None,
    };
    let left_out = left_out.into_iter().map(|target| target.from).collect();
    Ok(Converted { records, renamed: renamed.collect(), numbered, left_out })
}

/// Whether a format can hold a column of this role.
fn has_place(format: Format, role: Role) -> bool {
    format != Format::Vw || !matches!(role, Role::Timestamp | Role::PolicyVersion | Role::Probabilities)
}

/// The columns of all batches, in the order in which they first appear, and whether actions are identities of candidates.
fn targets(reader: &LogReader) -> Result<(Vec<Target>, bool)> {
    let mut targets: Vec<Target> = Vec::new();
    let mut named = false;
    for batch in reader.batches() {
        let batch = batch?;
        named = named || candidates::are_named(&batch)?;
        for (column, role) in batch.columns() {
            let kind = if role == Some(Role::Candidates) { Kind::Objects } else { Kind::of(&column) };
            let target = match targets.iter_mut().position(|target| target.from == column.name) {
                None => {
                    targets.push(Target { from: column.name.into(), role, kind, fields: Fields::default() });
                    targets.len() - 1
                }
                Some(at) => {
                    targets[at].kind = targets[at].kind.or(kind).ok_or_else(|| column.mixed())?;
                    at
                }
            };
            if kind == Kind::Objects {
                targets[target].fields.add(&column)?;
            }
        }
    }
    Ok((targets, named))
}

impl Target {
    fn is_candidates(&self) -> bool {
        self.role == Some(Role::Candidates)
    }

    fn name(&self) -> &str {
        self.role.map_or(self.from.as_str(), |role| role.name())
    }
}

/// Renames and casts the columns of batches.
struct Writer {
    targets: Vec<Target>,
    /// Whether the format accepts only the types of the table in `table.rs`.
    strict: bool,
    /// Whether candidates have named features, and not fields.
    named_features: bool,
    actions: Actions,
    /// Whether actions and eligible actions stay the identities of candidates.
    named_candidates: bool,
}

impl Writer {
    fn schema(&self) -> SchemaRef {
        let field = |target: &Target| Field::new(target.name(), self.data_type(target), true);
        let fields: Vec<Field> = self.targets.iter().map(field).collect();
        let actions = (ACTIONS.to_owned(), self.actions.len().max(2).to_string());
        Arc::new(Schema::new_with_metadata(fields, self.strict.then_some(actions).into_iter().collect()))
    }

    fn named(&self) -> bool {
        !self.strict && matches!(self.actions, Actions::Names(_))
    }

    fn data_type(&self, target: &Target) -> DataType {
        let list = |item| DataType::List(Arc::new(Field::new("item", item, true)));
        match (target.role, target.name()) {
            (Some(Role::Candidates), _) => target.fields.data_type(self.named_features),
            (Some(Role::Action | Role::Eligible), _) if self.named_candidates => target.kind.data_type(),
            (Some(Role::EventId | Role::PolicyVersion), _) => DataType::Utf8,
            (Some(Role::Timestamp), _) if self.strict => DataType::Utf8,
            (Some(Role::Action), _) => {
                if self.named() {
                    DataType::Utf8
                } else {
                    DataType::UInt32
                }
            }
            (Some(Role::Eligible), _) => list(if self.named() { DataType::Utf8 } else { DataType::UInt32 }),
            (Some(Role::Propensity | Role::Reward | Role::DropProbability), _) => DataType::Float64,
            (Some(Role::Probabilities), _) => list(DataType::Float64),
            (Some(Role::Skip), _) => DataType::Boolean,
            (None, "context_indices") => list(DataType::UInt32),
            (None, "context" | "context_values") if self.strict => list(DataType::Float32),
            _ if self.strict && matches!(target.kind, Kind::Integer) => DataType::Float64,
            _ => target.kind.data_type(),
        }
    }

    fn table(&self, batch: &LogBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let column = |target: &Target| self.array(target, batch);
        let columns = self.targets.iter().map(column).collect::<Result<Vec<ArrayRef>>>()?;
        RecordBatch::try_new(Arc::clone(schema), columns)
            .map_err(|e| Error::Malformed { place: batch.place().into(), reason: e.to_string() })
    }

    fn array(&self, target: &Target, batch: &LogBatch) -> Result<ArrayRef> {
        let wanted = self.data_type(target);
        let Some(column) = batch.column(&target.from) else {
            return Ok(arrow_array::new_null_array(&wanted, batch.len()));
        };
        let there = |i: usize| !column.array.is_null(i);
        if target.is_candidates() {
            return target.fields.array(batch, &column, &wanted, self.named_features);
        }
        if self.named_candidates && matches!(target.role, Some(Role::Action | Role::Eligible)) {
            return cast(&column, &wanted, batch.len());
        }
        Ok(match (target.role, &wanted) {
            (Some(Role::Action), DataType::UInt32) => {
                let mut action = batch.action(&self.actions)?;
                if let Some(candidates) = batch.candidates()? {
                    action.iter_mut().enumerate().for_each(|(i, a)| *a = candidates.in_file(i, *a));
                }
                Arc::new(UInt32Array::from(action))
            }
            (Some(Role::Eligible), _) if batch.has_candidates() => candidates::eligible(batch, there)?,
            (Some(Role::Eligible), _) if !self.named() => {
                let lists = batch.eligible_lists(&self.actions)?.unwrap_or_else(|| unreachable!("it has the column"));
                let mut builder = ListBuilder::new(UInt32Builder::new());
                for i in 0..lists.len() {
                    builder.values().append_slice(lists.get(i));
                    builder.append(there(i));
                }
                Arc::new(builder.finish())
            }
            (Some(Role::Reward), _) => {
                let reward = batch.reward()?;
                Arc::new((0..batch.len()).map(|i| there(i).then_some(reward[i])).collect::<Float64Array>())
            }
            (_, wanted) => cast(&column, wanted, batch.len())?,
        })
    }
}

/// A column as one of this type.
fn cast(column: &Column<'_>, wanted: &DataType, rows: usize) -> Result<ArrayRef> {
    let there = |i: usize| !column.array.is_null(i);
    Ok(match wanted {
        DataType::Float64 => {
            let numbers = column.numbers()?;
            Arc::new((0..rows).map(|i| there(i).then_some(numbers[i])).collect::<Float64Array>())
        }
        DataType::Boolean => {
            let numbers = column.numbers()?;
            Arc::new((0..rows).map(|i| there(i).then_some(numbers[i] == 1.0)).collect::<BooleanArray>())
        }
        DataType::Int64 => {
            let whole = |(i, text): (usize, Option<std::borrow::Cow<'_, str>>)| match text {
                None => Ok(None),
                Some(text) => text.parse().map(Some).map_err(|_| column.error(i, "a whole number", text)),
            };
            Arc::new(column.texts()?.into_iter().enumerate().map(whole).collect::<Result<Int64Array>>()?)
        }
        DataType::List(item) => match item.data_type() {
            DataType::Utf8 => {
                let lists = column.text_lists()?;
                let mut builder = ListBuilder::new(StringBuilder::new());
                for i in 0..lists.len() {
                    lists.get(i).iter().for_each(|text| builder.values().append_value(text));
                    builder.append(there(i));
                }
                Arc::new(builder.finish())
            }
            DataType::UInt32 => {
                let lists = column.lists()?;
                let mut builder = ListBuilder::new(UInt32Builder::new());
                for i in 0..lists.len() {
                    for &x in lists.get(i) {
                        builder.values().append_value(column.whole(i, x)?);
                    }
                    builder.append(there(i));
                }
                Arc::new(builder.finish())
            }
            DataType::Float32 => {
                let lists = column.lists()?;
                let mut builder = ListBuilder::new(Float32Builder::new());
                for i in 0..lists.len() {
                    lists.get(i).iter().for_each(|&x| builder.values().append_value(x as f32));
                    builder.append(there(i));
                }
                Arc::new(builder.finish())
            }
            _ => {
                let lists = column.lists()?;
                let mut builder = ListBuilder::new(Float64Builder::new());
                for i in 0..lists.len() {
                    builder.values().append_slice(lists.get(i));
                    builder.append(there(i));
                }
                Arc::new(builder.finish())
            }
        },
        _ => Arc::new(column.texts()?.into_iter().collect::<StringArray>()),
    })
}
