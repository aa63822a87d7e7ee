//! From the text of a JSON object to a context, without an object in between: for a service, which parses many.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::encode::{Rows, place};
use super::{Encoding, Field};

/// Parses JSON objects straight into contexts.
///
/// A context is the one that [`Encoding::encode_object`] makes of the same object. It refuses more than that does: a column
/// twice, a text or a truth value that stands for a number. Who gets an error parses the object and encodes that, and so
/// gets the context, or the error that names the column.
#[derive(Debug, Clone)]
pub struct ContextReader {
    encoding: Encoding,
    /// The first feature of each field.
    first: Vec<u32>,
    /// The field of each column.
    fields: HashMap<String, usize>,
}

impl ContextReader {
    /// A reader for this encoding. `None` if a field needs two columns, two fields need the same, or a column may be a field of
    /// an inner object.
    pub fn new(encoding: &Encoding) -> Option<Self> {
        let (mut first, mut fields, mut next) = (Vec::new(), HashMap::new(), 0);
        for (i, field) in encoding.fields().iter().enumerate() {
            let again = match field {
                Field::Number { column, .. }
                | Field::OneHot { column, .. }
                | Field::Hashed { column, .. }
                | Field::Vector { column, .. } => fields.insert(column.clone(), i).is_some(),
                Field::Constant {} => false,
                Field::Sparse { .. } | Field::Named { .. } | Field::Listed { .. } => true,
            };
            // A column with a dot may be a field of an inner object.
            if again || field.columns().iter().any(|column| column.contains('.')) {
                return None;
            }
            first.push(next);
            next += field.width() as u32;
        }
        Some(ContextReader { encoding: encoding.clone(), first, fields })
    }

    /// An empty buffer for contexts.
    pub fn rows(&self) -> Rows {
        self.encoding.rows()
    }

    /// Parses an object with at most so many columns, and appends its context to `rows`.
    pub fn context<'a>(
        &'a self,
        most: usize,
        rows: &'a mut Rows,
    ) -> impl for<'de> DeserializeSeed<'de, Value = ()> + 'a {
        Context { reader: self, most, rows }
    }
}

struct Context<'a> {
    reader: &'a ContextReader,
    most: usize,
    rows: &'a mut Rows,
}

impl<'de> DeserializeSeed<'de> for Context<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Context<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let ContextReader { encoding, first, fields } = self.reader;
        let all = encoding.fields();
        let (mut came, mut missing) = (vec![false; all.len()], vec![true; all.len()]);
        let mut entries = Vec::with_capacity(all.len());
        let (mut columns, mut next) = (0, 0);
        while let Some(found) = map.next_key_seed(Name { fields, all, next })? {
            columns += 1;
            if columns > self.most {
                return Err(A::Error::custom("too many columns"));
            }
            let Some(i) = found else {
                map.next_value::<Valid>()?;
                continue;
            };
            if std::mem::replace(&mut came[i], true) {
                return Err(A::Error::custom("a column twice"));
            }
            next = i + 1;
            let first = first[i];
            let finite =
                |x: f64| Some(x as f32).filter(|x| x.is_finite()).ok_or_else(|| A::Error::custom("not finite"));
            match &all[i] {
                Field::Number { mean, scale, .. } => {
                    if let Some(x) = map.next_value::<Option<f64>>()? {
                        entries.push((first, finite((x - mean) / scale)?));
                        missing[i] = false;
                    }
                }
                Field::OneHot { categories, .. } => {
                    if let Some(category) = map.next_value_seed(Category)? {
                        let found = categories.binary_search_by(|known| known.as_str().cmp(&category));
                        entries.extend(found.ok().map(|i| (first + i as u32, 1.0)));
                    }
                }
                Field::Hashed { column, bits } => {
                    if let Some(category) = map.next_value_seed(Category)? {
                        entries.push((first + place(&[column.as_bytes(), b"=", category.as_bytes()], *bits), 1.0));
                    }
                }
                Field::Vector { width, .. } => {
                    let Some(list) = map.next_value::<Option<Vec<f64>>>()? else { continue };
                    if list.len() != *width {
                        return Err(A::Error::custom("a vector of another width"));
                    }
                    for (f, x) in list.into_iter().enumerate() {
                        entries.push((first + f as u32, finite(x)?));
                    }
                }
                _ => return Err(A::Error::custom("a field of two columns")),
            }
        }
        for (i, field) in all.iter().enumerate() {
            match field {
                Field::Number { indicator: true, .. } if missing[i] => entries.push((first[i] + 1, 1.0)),
                Field::Constant {} => entries.push((first[i], 1.0)),
                _ => {}
            }
        }
        self.rows.push(&mut entries);
        Ok(())
    }
}

/// The field of a column; `None` if it is no feature.
struct Name<'a> {
    fields: &'a HashMap<String, usize>,
    all: &'a [Field],
    /// The field after the last one: callers mostly send columns in the same order.
    next: usize,
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<usize>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a column")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Option<usize>, E> {
        match self.all.get(self.next) {
            Some(Field::Number { column, .. } | Field::OneHot { column, .. } | Field::Hashed { column, .. })
                if column == name =>
            {
                Ok(Some(self.next))
            }
            _ => Ok(self.fields.get(name).copied()),
        }
    }
}

/// The text of a category; `None` if it is null.
struct Category;

impl<'de> DeserializeSeed<'de> for Category {
    type Value = Option<Cow<'de, str>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Category {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a number")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(text.to_owned())))
    }

    fn visit_bool<E>(self, x: bool) -> Result<Self::Value, E> {
        Ok(Some(Cow::Borrowed(if x { "true" } else { "false" })))
    }

    fn visit_i64<E>(self, x: i64) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(x.to_string())))
    }

    fn visit_u64<E>(self, x: u64) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(x.to_string())))
    }

    fn visit_f64<E>(self, x: f64) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(x.to_string())))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// Any value, parsed to the end and forgotten: unlike `IgnoredAny`, it refuses numbers and texts that no value can hold.
struct Valid;

impl<'de> serde::Deserialize<'de> for Valid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Valid)
    }
}

impl<'de> Visitor<'de> for Valid {
    type Value = Valid;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Valid, E> {
        Ok(Valid)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Valid, E> {
        Ok(Valid)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Valid, E> {
        Ok(Valid)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Valid, E> {
        Ok(Valid)
    }

    fn visit_str<E>(self, _: &str) -> Result<Valid, E> {
        Ok(Valid)
    }

    fn visit_unit<E>(self) -> Result<Valid, E> {
        Ok(Valid)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Valid, A::Error> {
        while list.next_element::<Valid>()?.is_some() {}
        Ok(Valid)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Valid, A::Error> {
        while map.next_entry::<Valid, Valid>()?.is_some() {}
        Ok(Valid)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};
    use surefoot::Contexts;

    use super::*;

    fn encoding(sparse: bool) -> Encoding {
        let number =
            |column: &str, indicator| Field::Number { column: column.into(), mean: 2.0, scale: 4.0, indicator };
        let mut fields = vec![
            number("x", true),
            Field::Constant {},
            number("y", false),
            Field::Vector { column: "v".into(), width: 2 },
        ];
        if sparse {
            let categories = ["-0", "0.1", "7", "a", "true"].map(String::from).to_vec();
            fields.push(Field::OneHot { column: "c".into(), categories });
            fields.push(Field::Hashed { column: "h".into(), bits: 3 });
        }
        Encoding::new(fields).unwrap()
    }

    fn read(encoding: &Encoding, text: &str, most: usize) -> serde_json::Result<Contexts> {
        let reader = ContextReader::new(encoding).unwrap();
        let mut rows = reader.rows();
        let mut json = serde_json::Deserializer::from_str(text);
        reader.context(most, &mut rows).deserialize(&mut json)?;
        json.end()?;
        Ok(rows.contexts().unwrap())
    }

    fn encoded(encoding: &Encoding, text: &str) -> crate::Result<Contexts> {
        let object: Map<String, Value> = serde_json::from_str(text).unwrap();
        let mut rows = encoding.rows();
        encoding.encode_object("event 1", &object, &mut rows)?;
        Ok(rows.contexts().unwrap())
    }

    fn bits(contexts: &Contexts) -> Vec<u32> {
        contexts.to_dense().row(0).values().iter().map(|x| x.to_bits()).collect()
    }

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e3..1e3).prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "(-0|0.1|7|a|true|\\PC{0,3})".prop_map(Value::from),
            prop::collection::vec(-1.0..1.0, 0..4).prop_map(Value::from),
            Just(json!({ "a": [{}, 1e300, "\u{1f600}\n"] })),
        ]
    }

    proptest! {
        #[test]
        fn a_parsed_context_is_that_of_the_object(
            names in prop::collection::vec("(x|y|v|c|h|other)", 0..7), values in prop::array::uniform7(value()),
            sparse: bool,
        ) {
            let encoding = encoding(sparse);
            let object: Map<String, Value> = names.into_iter().zip(values).collect();
            let text = Value::Object(object).to_string();
            match (read(&encoding, &text, 9), encoded(&encoding, &text)) {
                (Ok(found), Ok(expected)) => prop_assert_eq!(bits(&found), bits(&expected)),
                (Ok(_), Err(error)) => prop_assert!(false, "{text} is refused: {error}"),
                // The other way parses what this one does not.
                (Err(_), _) => {}
            }
        }
    }

    #[test]
    fn numbers_and_categories_are_parsed_and_not_left_to_the_other_way() {
        let text = r#"{"x": 3, "y": -2.5e0, "v": [0.5, -1], "c": 7, "h": "p\u0068one", "more": {"a": [null]}}"#;
        assert_eq!(bits(&read(&encoding(true), text, 6).unwrap()), bits(&encoded(&encoding(true), text).unwrap()));
        assert!(read(&encoding(true), text, 5).is_err());
        let missing = r#"{"x": null}"#;
        assert_eq!(bits(&read(&encoding(false), missing, 6).unwrap())[..3], [0.0_f32, 1.0, 1.0].map(f32::to_bits));
    }

    #[test]
    fn what_no_value_can_hold_is_refused_also_where_it_is_no_feature() {
        for text in [r#"{"other": 1e999}"#, r#"{"other": "\ud800"}"#, r#"{"x": 1, "x": 2}"#, r#"{"x": 1} 2"#, "[]"] {
            assert!(read(&encoding(false), text, 9).is_err(), "{text}");
        }
        let deep = |n: usize| format!(r#"{{"other": {}{}}}"#, "[".repeat(n), "]".repeat(n));
        for n in [126, 127, 128, 1000] {
            let parsed = serde_json::from_str::<Map<String, Value>>(&deep(n));
            assert_eq!(read(&encoding(false), &deep(n), 9).is_ok(), parsed.is_ok(), "{n}");
        }
        let two = Field::Sparse { indices: "i".into(), values: "v".into(), width: 3 };
        assert!(ContextReader::new(&Encoding::new(vec![two]).unwrap()).is_none());
    }
}
