//! From one JSON object to a context, without a table in between: for a service, which gets one record at a time.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::encode::{Rows, place};
use super::listed::put_parts;
use super::namespaces::prefix;
use super::{Encoding, Field};
use crate::column::parse;
use crate::error::{Error, Result};

impl Encoding {
    /// Encodes one raw record, a JSON object of its columns, and appends its context to `rows`. The features are those of
    /// the same record in a table. A column that is absent or null is missing, and columns that are no features are
    /// ignored. The fields of inner objects are columns, with a dot between the names.
    pub fn encode_object(&self, event: &str, record: &Map<String, Value>, rows: &mut Rows) -> Result<()> {
        let mut entries = Vec::new();
        let mut first = 0;
        for field in self.fields() {
            put(field, event, record, first, &mut entries)?;
            first += field.width() as u32;
        }
        rows.push(&mut entries);
        Ok(())
    }

    /// The columns of a raw record that become features, by name, without those that are missing.
    pub fn raw(&self, record: &Map<String, Value>) -> Map<String, Value> {
        let columns = self.fields().iter().flat_map(|field| match field {
            Field::Listed { names, values, .. } => vec![names.as_str(), values],
            field => field.columns(),
        });
        columns.filter_map(|column| Some((column.to_owned(), cell(record, column)?.clone()))).collect()
    }
}

/// Appends the entries of a field, whose features begin at `first`.
fn put(
    field: &Field,
    event: &str,
    record: &Map<String, Value>,
    first: u32,
    entries: &mut Vec<(u32, f32)>,
) -> Result<()> {
    let cell = |column: &str| cell(record, column);
    match field {
        Field::Number { column, mean, scale, indicator } => match cell(column) {
            Some(value) => {
                let x = number(value).ok_or_else(|| refused(event, column, "a number", value))?;
                entries.push((first, finite(event, column, (x - mean) / scale)?));
            }
            None if *indicator => entries.push((first + 1, 1.0)),
            None => {}
        },
        Field::OneHot { column, categories } => {
            let Some(value) = cell(column) else { return Ok(()) };
            let category = text(value).ok_or_else(|| refused(event, column, "a text or a number", value))?;
            let found = categories.binary_search_by(|known| known.as_str().cmp(&category));
            entries.extend(found.ok().map(|i| (first + i as u32, 1.0)));
        }
        Field::Hashed { column, bits } => {
            let Some(value) = cell(column) else { return Ok(()) };
            let category = text(value).ok_or_else(|| refused(event, column, "a text or a number", value))?;
            entries.push((first + place(&[column.as_bytes(), b"=", category.as_bytes()], *bits), 1.0));
        }
        Field::Vector { column, width } => {
            let Some(value) = cell(column) else { return Ok(()) };
            let list = numbers(event, column, value)?;
            if list.len() != *width {
                return Err(wrong(event, column, format!("{width} numbers"), list.len().to_string()));
            }
            for (f, x) in list.into_iter().enumerate() {
                entries.push((first + f as u32, finite(event, column, x)?));
            }
        }
        Field::Sparse { indices, values, width } => {
            let (Some(places), Some(list)) = (cell(indices), cell(values)) else { return Ok(()) };
            let (places, list) = (numbers(event, indices, places)?, numbers(event, values, list)?);
            if places.len() != list.len() {
                let allowed = format!("{} numbers, one per index", places.len());
                return Err(wrong(event, values, allowed, list.len().to_string()));
            }
            for (at, x) in places.into_iter().zip(list) {
                if !(at >= 0.0 && at < *width as f64 && at.fract() == 0.0) {
                    return Err(wrong(event, indices, format!("whole numbers below {width}"), at.to_string()));
                }
                entries.push((first + at as u32, finite(event, values, x)?));
            }
        }
        Field::Constant {} => entries.push((first, 1.0)),
        Field::Named { names, values, bits, namespace } => {
            for (name, x) in named(event, names, values, record)? {
                if namespace.as_deref().is_none_or(|namespace| prefix(name) == namespace) {
                    entries.push((first + place(&[name.as_bytes()], *bits), finite(event, values, x)?));
                }
            }
        }
        Field::Listed { names, values, parts } => {
            let pairs = named(event, names, values, record)?;
            if cell(names).is_none() || cell(values).is_none() {
                return Ok(());
            }
            put_parts(parts, &pairs, first, entries, &|x| finite(event, values, x))?;
        }
    }
    Ok(())
}

/// The value of a column: a field of the record, or of an object in it.
fn cell<'a>(record: &'a Map<String, Value>, column: &str) -> Option<&'a Value> {
    let found = record.get(column).or_else(|| {
        let dots = column.match_indices('.').map(|(at, _)| (&column[..at], &column[at + 1..]));
        dots.filter_map(|(outer, inner)| cell(record.get(outer)?.as_object()?, inner)).next()
    });
    found.filter(|value| !value.is_null())
}

/// The names and values of a record that lists them.
fn named<'a>(event: &str, names: &str, values: &str, record: &'a Map<String, Value>) -> Result<Vec<(&'a str, f64)>> {
    let (Some(found), Some(list)) = (cell(record, names), cell(record, values)) else { return Ok(Vec::new()) };
    let texts = found.as_array().ok_or_else(|| refused(event, names, "a list of texts", found))?;
    let text = |value: &'a Value| value.as_str().ok_or_else(|| refused(event, names, "a list of texts", value));
    let texts: Vec<&str> = texts.iter().map(text).collect::<Result<_>>()?;
    let list = numbers(event, values, list)?;
    match texts.len() == list.len() {
        true => Ok(texts.into_iter().zip(list).collect()),
        false => {
            let allowed = format!("{} numbers, one per name", texts.len());
            Err(wrong(event, values, allowed, list.len().to_string()))
        }
    }
}

/// A number, or a text or a truth value that stands for one.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(x) => x.as_f64(),
        Value::Bool(x) => Some(f64::from(u8::from(*x))),
        Value::String(text) => parse(text),
        _ => None,
    }
}

/// The text of a category.
fn text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Bool(x) => Some(Cow::Borrowed(if *x { "true" } else { "false" })),
        Value::Number(x) if x.is_f64() => x.as_f64().map(|x| Cow::Owned(x.to_string())),
        Value::Number(x) => Some(Cow::Owned(x.to_string())),
        _ => None,
    }
}

fn numbers(event: &str, column: &str, value: &Value) -> Result<Vec<f64>> {
    let list = value.as_array().ok_or_else(|| refused(event, column, "a list of numbers", value))?;
    let entry = |value: &Value| value.as_f64().ok_or_else(|| refused(event, column, "a list of numbers", value));
    list.iter().map(entry).collect()
}

fn finite(event: &str, column: &str, x: f64) -> Result<f32> {
    match (x as f32).is_finite() {
        true => Ok(x as f32),
        false => Err(wrong(event, column, "finite, within the range of f32".into(), format!("{x:?}"))),
    }
}

fn refused(event: &str, column: &str, allowed: &str, value: &Value) -> Error {
    const SHOWN: usize = 80;
    let text = value.to_string();
    let found = match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    };
    wrong(event, column, allowed.into(), found)
}

fn wrong(event: &str, column: &str, allowed: String, found: String) -> Error {
    Error::Field { place: event.into(), column: column.into(), allowed, found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::NamedPart;
    use crate::logs::{ColumnNames, LogReader};
    use crate::table::{Format, read_table_bytes};
    use serde_json::json;

    fn encoding() -> Encoding {
        let number =
            |column: &str, indicator| Field::Number { column: column.into(), mean: 2.0, scale: 4.0, indicator };
        let categories = ["7", "a", "true"].map(String::from).to_vec();
        Encoding::new(vec![
            number("x", true),
            number("y", false),
            Field::OneHot { column: "c".into(), categories },
            Field::Hashed { column: "h".into(), bits: 3 },
            Field::Vector { column: "v".into(), width: 2 },
            Field::Constant {},
        ])
        .unwrap()
    }

    fn of_object(record: &Value) -> Result<surefoot::Contexts> {
        let mut rows = encoding().rows();
        encoding().encode_object("event 1", record.as_object().unwrap(), &mut rows)?;
        Ok(rows.contexts().unwrap())
    }

    #[test]
    fn an_object_has_the_features_of_the_same_record_in_a_table() {
        let cells = [json!(3), json!(-2.5), json!("a"), json!("7"), json!(7), json!(true), json!("new"), json!(" 1e1")];
        let mut compared = 0;
        for x in &cells {
            for c in &cells {
                let record = json!({ "x": x, "y": 1.25, "c": c, "h": c, "v": [0.5, -1], "other": 3 });
                let mut line = record.to_string().into_bytes();
                line.push(b'\n');
                let tables = read_table_bytes("event 1", line, Format::JsonLines).unwrap();
                let tables = tables.collect::<Result<Vec<_>>>().unwrap();
                let reader = LogReader::in_memory("event 1".into(), tables, ColumnNames::default());
                let expected = encoding().encode(&reader.batches().next().unwrap().unwrap());
                match (of_object(&record), expected) {
                    (Ok(found), Ok(expected)) => {
                        compared += 1;
                        let dense = |contexts: surefoot::Contexts| contexts.to_dense().row(0).values().to_vec();
                        assert_eq!(dense(found), dense(expected), "{record}");
                    }
                    (Err(_), Err(_)) => {}
                    (found, expected) => panic!("{record}: {found:?}, {expected:?}"),
                }
            }
        }
        assert_eq!(compared, 8 * 6);
    }

    /// The features of a record in a table, and as an object.
    fn both(encoding: &Encoding, record: &Value) -> (Result<Vec<f32>>, Result<Vec<f32>>) {
        let dense = |contexts: surefoot::Contexts| contexts.to_dense().row(0).values().to_vec();
        let mut rows = encoding.rows();
        let object = encoding.encode_object("event 1", record.as_object().unwrap(), &mut rows);
        let object = object.map(|()| dense(rows.contexts().unwrap()));
        let mut line = record.to_string().into_bytes();
        line.push(b'\n');
        let tables = read_table_bytes("event 1", line, Format::JsonLines).unwrap();
        let tables = tables.collect::<Result<Vec<_>>>().unwrap();
        let reader = LogReader::in_memory("event 1".into(), tables, ColumnNames::default());
        (encoding.encode(&reader.batches().next().unwrap().unwrap()).map(dense), object)
    }

    #[test]
    fn lists_of_names_and_inner_objects_have_the_features_of_the_same_record_in_a_table() {
        let (names, values) = ("context_names".to_owned(), "context_values".to_owned());
        let named = |namespace: Option<&str>| {
            let namespace = namespace.map(str::to_owned);
            Field::Named { names: names.clone(), values: values.clone(), bits: 4, namespace }
        };
        let parts = vec![
            NamedPart::Number { name: "age".into(), mean: 3.0, scale: 2.0 },
            NamedPart::OneHot { name: "city".into(), categories: vec!["Oslo".into(), "Rome".into()] },
            NamedPart::Hashed { name: "tag".into(), bits: 3 },
        ];
        let listed = Field::Listed { names: names.clone(), values: values.clone(), parts };
        let inner = Field::Number { column: "user.a.b".into(), mean: 0.0, scale: 1.0, indicator: true };
        let encoding = Encoding::new(vec![named(None), named(Some("user")), named(Some("")), listed, inner]).unwrap();
        for record in [
            json!({ "context_names": ["age", "city=Rome", "tag=x", "tag=y", "age"], "context_values": [5, 1, 2, 1, 0.5],
                "user": { "a": { "b": 1 } } }),
            json!({ "context_names": ["user.age", "user^x", "city=Nowhere"], "context_values": [-1, 2.5, 1],
                "user": { "a": { "b": -2.5 } } }),
            json!({ "context_names": ["age"], "context_values": [1], "user": { "a": { "b": 7 } } }),
        ] {
            let (table, object) = both(&encoding, &record);
            assert_eq!(object.unwrap(), table.unwrap(), "{record}");
        }
        let refused = |record: Value| both(&encoding, &record).1.unwrap_err().to_string();
        assert_eq!(
            refused(json!({ "context_names": ["a"], "context_values": [] })),
            "event 1: context_values should be 1 numbers, one per name, but is 0"
        );
        assert_eq!(
            refused(json!({ "context_names": [1], "context_values": [1] })),
            "event 1: context_names should be a list of texts, but is 1"
        );
    }

    #[test]
    fn what_is_missing_is_marked_and_what_does_not_fit_is_refused_by_name() {
        let missing = of_object(&json!({ "x": null })).unwrap().to_dense();
        assert_eq!(missing.row(0).values()[..3], [0.0, 1.0, 0.0]);
        let text = |record: Value| of_object(&record).unwrap_err().to_string();
        assert_eq!(text(json!({ "x": [1] })), "event 1: x should be a number, but is [1]");
        assert_eq!(text(json!({ "c": {} })), "event 1: c should be a text or a number, but is {}");
        assert_eq!(text(json!({ "v": [1] })), "event 1: v should be 2 numbers, but is 1");
        assert_eq!(text(json!({ "v": ["1", 2] })), "event 1: v should be a list of numbers, but is \"1\"");
        assert_eq!(text(json!({ "x": 1e300 })), "event 1: x should be finite, within the range of f32, but is 2.5e299");
    }
}
