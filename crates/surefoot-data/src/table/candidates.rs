//! The column `candidates`, for the formats whose features have names (dsjson and Vowpal Wabbit's text).

use std::mem;
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field};

use super::cells::{Cell, cell};

/// A candidate of a decision.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) id: Option<String>,
    /// Names and values of the non-zero features.
    pub(crate) features: Vec<(String, f32)>,
}

impl Candidate {
    /// Whether it has neither features nor an identity.
    pub(super) fn is_bare(&self) -> bool {
        self.id.is_none() && self.features.is_empty()
    }
}

/// The column of the candidates of a batch.
#[derive(Default)]
pub(crate) struct Candidates {
    id: StringBuilder,
    names: ListBuilder<StringBuilder>,
    values: ListBuilder<Float32Builder>,
    lengths: Vec<usize>,
    known: Vec<bool>,
}

impl Candidates {
    pub(crate) fn push(&mut self, candidates: Option<&[Candidate]>) {
        for Candidate { id, features } in candidates.unwrap_or_default() {
            self.id.append_option(id.as_deref());
            for (name, value) in features {
                self.names.values().append_value(name);
                self.values.values().append_value(*value);
            }
            self.names.append(true);
            self.values.append(true);
        }
        self.lengths.push(candidates.map_or(0, <[Candidate]>::len));
        self.known.push(candidates.is_some());
    }

    /// The column, unless no decision has candidates. Starts a new batch.
    pub(super) fn finish(&mut self) -> Option<ArrayRef> {
        let any = self.known.contains(&true);
        Some(self.column()).filter(|_| any)
    }

    /// The type of the column.
    pub(crate) fn data_type() -> DataType {
        Candidates::default().column().data_type().clone()
    }

    /// The column. Starts a new batch.
    pub(crate) fn column(&mut self) -> ArrayRef {
        let (lengths, known) = (mem::take(&mut self.lengths), mem::take(&mut self.known));
        let (id, names, values) = (self.id.finish(), self.names.finish(), self.values.finish());
        let columns: [(&str, ArrayRef); 3] =
            [("id", Arc::new(id)), ("names", Arc::new(names)), ("values", Arc::new(values))];
        let field =
            |(name, array): (&str, ArrayRef)| (Arc::new(Field::new(name, array.data_type().clone(), true)), array);
        let items = StructArray::from(columns.into_iter().map(field).collect::<Vec<_>>());
        let item = Arc::new(Field::new("item", items.data_type().clone(), true));
        let (offsets, nulls) = (OffsetBuffer::from_lengths(lengths), NullBuffer::from(known));
        Arc::new(ListArray::new(item, offsets, Arc::new(items), Some(nulls)))
    }
}

/// Why a candidate cannot be named: the field, what is allowed, and what was found.
pub(crate) type Unnamed = (String, &'static str, String);

/// The candidate in row `j` of structs, with names for its features: a number by its field's name, a truth as 1 if it is
/// true, a text as `name=text` with value 1, the entries of a list of numbers as `name[0]`, `name[1]`, .. and those of a
/// list of texts as texts. `names` and `values` are features that have names already.
pub(crate) fn named(items: &StructArray, j: usize, identity: Option<&str>) -> Result<Candidate, Unnamed> {
    let mut candidate = Candidate::default();
    let has = |name: &str| items.column_by_name(name).is_some();
    let listed = has("names") && has("values");
    for (field, column) in items.fields().iter().zip(items.columns()) {
        let name = field.name().as_str();
        let Some(found) = cell(column, j) else {
            return Err((name.into(), "a truth, a number, text, or a list of these", field.data_type().to_string()));
        };
        if identity == Some(name) {
            candidate.id = match found {
                Cell::Null => None,
                Cell::Text(text) => Some(text.to_owned()),
                other => Some(number(name, &other)?.to_string()),
            };
            continue;
        }
        match found {
            Cell::List(values) if listed && name == "values" => {
                let Some(Cell::List(names)) = items.column_by_name("names").and_then(|names| cell(names, j)) else {
                    continue;
                };
                if names.len() != values.len() {
                    let found = format!("{} for {}", values.len(), names.len());
                    return Err(("values".into(), "one for each name", found));
                }
                for i in 0..names.len() {
                    let value = cell(&values, i).unwrap_or(Cell::Null);
                    match names.as_string_opt::<i32>().filter(|names| names.is_valid(i)) {
                        Some(names) => candidate.add(names.value(i).to_owned(), number("values", &value)? as f32)?,
                        None => return Err(("names".into(), "text", "null".into())),
                    }
                }
            }
            Cell::List(_) if listed && name == "names" => {}
            Cell::List(entries) => {
                for i in 0..entries.len() {
                    match cell(&entries, i) {
                        Some(Cell::Text(text)) => candidate.add(format!("{name}={text}"), 1.0)?,
                        Some(entry) => candidate.add(format!("{name}[{i}]"), number(name, &entry)? as f32)?,
                        None => return Err((name.into(), "a list of numbers or texts", "another".into())),
                    }
                }
            }
            Cell::Null => {}
            Cell::Text(text) => candidate.add(format!("{name}={text}"), 1.0)?,
            other => candidate.add(name.to_owned(), number(name, &other)? as f32)?,
        }
    }
    Ok(candidate)
}

/// A cell as a number.
fn number(name: &str, cell: &Cell<'_>) -> Result<f64, Unnamed> {
    Ok(match cell {
        Cell::Bool(value) => f64::from(u8::from(*value)),
        Cell::Integer(value) => *value as f64,
        Cell::Unsigned(value) => *value as f64,
        Cell::Single(value) => f64::from(*value),
        Cell::Double(value) => *value,
        other => return Err((name.into(), "a number", format!("{other:?}"))),
    })
}

impl Candidate {
    /// Adds a feature, unless it is 0.
    fn add(&mut self, name: String, value: f32) -> Result<(), Unnamed> {
        if !value.is_finite() {
            return Err((name, "a number within the range of 32 bits", value.to_string()));
        }
        if value != 0.0 {
            self.features.push((name, value));
        }
        Ok(())
    }
}
