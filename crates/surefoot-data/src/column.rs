//! COLUMNS: the cells of a batch as numbers, texts and lists, whatever types the file stores them as.
//!
//! A number may have any width, or be stored as text (in CSV everything is). A list may be stored as the text of a JSON
//! array. Missing values stay missing: as NaN, or as `None`.

use std::borrow::Cow;
use std::fmt::Display;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, OffsetSizeTrait, PrimitiveArray};
use arrow_schema::DataType;

use crate::error::{Error, Result};

/// A column of a batch, and its place in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column<'a> {
    /// The file.
    pub(crate) place: &'a str,
    /// The row of the batch's first record in the file.
    pub(crate) start: usize,
    /// The rows of the records, counted from `start`, if some records were left out.
    pub(crate) rows: Option<&'a [usize]>,
    /// The place of each candidate among those of its record, if the column is one of candidates.
    pub(crate) places: Option<&'a [usize]>,
    pub(crate) name: &'a str,
    pub(crate) array: &'a ArrayRef,
}

/// Lists of numbers, one per record: list `i` is `values[offsets[i]..offsets[i + 1]]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lists<T> {
    pub(crate) offsets: Vec<usize>,
    pub(crate) values: Vec<T>,
}

impl<T> Lists<T> {
    pub(crate) fn new() -> Self {
        Lists { offsets: vec![0], values: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    pub(crate) fn get(&self, i: usize) -> &[T] {
        &self.values[self.offsets[i]..self.offsets[i + 1]]
    }

    pub(crate) fn end(&mut self) {
        self.offsets.push(self.values.len());
    }
}

/// Converts to `f64`, null to NaN. `as` only widens, except for integers beyond 2^53.
macro_rules! widened {
    ($array:expr, $type:ty) => {{
        let array: &PrimitiveArray<$type> = $array.as_primitive();
        let number = |i: usize| if array.is_null(i) { f64::NAN } else { array.value(i) as f64 };
        Some((0..array.len()).map(number).collect())
    }};
}

/// The numbers of an array of a numeric type, `None` for another type.
fn numeric(array: &ArrayRef) -> Option<Vec<f64>> {
    match array.data_type() {
        DataType::Int8 => widened!(array, Int8Type),
        DataType::Int16 => widened!(array, Int16Type),
        DataType::Int32 => widened!(array, Int32Type),
        DataType::Int64 => widened!(array, Int64Type),
        DataType::UInt8 => widened!(array, UInt8Type),
        DataType::UInt16 => widened!(array, UInt16Type),
        DataType::UInt32 => widened!(array, UInt32Type),
        DataType::UInt64 => widened!(array, UInt64Type),
        DataType::Float32 => widened!(array, Float32Type),
        DataType::Float64 => widened!(array, Float64Type),
        DataType::Boolean => {
            let array = array.as_boolean();
            let number = |i: usize| if array.is_null(i) { f64::NAN } else { f64::from(u8::from(array.value(i))) };
            Some((0..array.len()).map(number).collect())
        }
        DataType::Null => Some(vec![f64::NAN; array.len()]),
        _ => None,
    }
}

/// Parses a text as a number.
pub(crate) fn parse(text: &str) -> Option<f64> {
    let text = text.trim();
    match text {
        "true" | "True" => Some(1.0),
        "false" | "False" => Some(0.0),
        _ => text.parse().ok(),
    }
}

impl<'a> Column<'a> {
    /// The place of a record, for error messages.
    pub(crate) fn at(&self, i: usize) -> String {
        let row = self.start + self.rows.map_or(i, |rows| rows[i]);
        match self.places {
            None => format!("{}, row {row}", self.place),
            Some(places) => format!("{}, row {row}, candidate {}", self.place, places[i]),
        }
    }

    /// An error about the cell of a record.
    pub(crate) fn error(&self, i: usize, allowed: impl Display, found: impl Display) -> Error {
        let (allowed, found) = (allowed.to_string(), found.to_string());
        Error::Field { place: self.at(i), column: self.name.into(), allowed, found }
    }

    pub(crate) fn mistyped(&self, allowed: &str) -> Error {
        Error::Field {
            place: self.place.into(),
            column: format!("the type of column {}", self.name),
            allowed: allowed.into(),
            found: self.array.data_type().to_string(),
        }
    }

    /// An error about a column in which only some cells are lists.
    pub(crate) fn mixed(&self) -> Error {
        let (place, column) = (self.place.into(), format!("column {}", self.name));
        Error::Field { place, column, allowed: "lists only, or no lists".into(), found: "both".into() }
    }

    /// The numbers, NaN where missing.
    pub(crate) fn numbers(&self) -> Result<Cow<'a, [f64]>> {
        if let DataType::Float64 = self.array.data_type() {
            let array: &PrimitiveArray<Float64Type> = self.array.as_primitive();
            if array.null_count() == 0 {
                return Ok(Cow::Borrowed(array.values()));
            }
        }
        if let Some(numbers) = numeric(self.array) {
            return Ok(Cow::Owned(numbers));
        }
        let DataType::Utf8 = self.array.data_type() else {
            return Err(self.mistyped("numbers"));
        };
        let texts = self.array.as_string::<i32>();
        let number = |i: usize| match texts.is_null(i) {
            true => Ok(f64::NAN),
            false => parse(texts.value(i)).ok_or_else(|| self.error(i, "a number", format!("{:?}", texts.value(i)))),
        };
        Ok(Cow::Owned((0..texts.len()).map(number).collect::<Result<_>>()?))
    }

    /// The numbers, none of which may be missing.
    pub(crate) fn all_numbers(&self) -> Result<Cow<'a, [f64]>> {
        let numbers = self.numbers()?;
        match (0..self.array.len()).find(|&i| self.array.is_null(i)) {
            Some(i) => Err(self.error(i, "a number", "missing")),
            None => Ok(numbers),
        }
    }

    /// The number of a cell as a whole number from 0 on.
    pub(crate) fn whole(&self, i: usize, x: f64) -> Result<u32> {
        if x >= 0.0 && x <= f64::from(u32::MAX - 1) && x.fract() == 0.0 {
            return Ok(x as u32);
        }
        Err(self.error(i, "a whole number from 0 on", if x.is_nan() { "missing".into() } else { x.to_string() }))
    }

    /// Whether the cells are texts. The texts may be those of numbers.
    pub(crate) fn is_text(&self) -> bool {
        *self.array.data_type() == DataType::Utf8
    }

    /// Whether the cells are lists.
    pub(crate) fn is_list(&self) -> bool {
        use DataType::*;
        matches!(self.array.data_type(), List(_) | LargeList(_) | FixedSizeList(..))
    }

    /// The text of each cell, `None` where missing.
    pub(crate) fn texts(&self) -> Result<Vec<Option<Cow<'a, str>>>> {
        if self.is_text() {
            let texts = self.array.as_string::<i32>();
            return Ok(texts.iter().map(|text| text.map(Cow::Borrowed)).collect());
        }
        // Integers are written directly, since an `f64` cannot hold every id of 64 bits.
        macro_rules! written {
            ($type:ty) => {{
                let array: &PrimitiveArray<$type> = self.array.as_primitive();
                Ok(array.iter().map(|x| x.map(|x| Cow::Owned(x.to_string()))).collect())
            }};
        }
        match self.array.data_type() {
            DataType::Int64 => written!(Int64Type),
            DataType::UInt64 => written!(UInt64Type),
            DataType::Boolean => {
                let array = self.array.as_boolean();
                Ok(array.iter().map(|x| x.map(|x| Cow::Borrowed(if x { "true" } else { "false" }))).collect())
            }
            _ => {
                let numbers = numeric(self.array).ok_or_else(|| self.mistyped("texts or numbers"))?;
                let text = |(i, x): (usize, &f64)| (!self.array.is_null(i)).then(|| Cow::Owned(x.to_string()));
                Ok(numbers.iter().enumerate().map(text).collect())
            }
        }
    }

    /// The values of a list column, and where the list of each record begins and ends in them.
    fn parts(&self) -> Option<(ArrayRef, Vec<usize>)> {
        fn offsets<O: OffsetSizeTrait>(array: &ArrayRef) -> (ArrayRef, Vec<usize>) {
            // A slice of a list column still holds the entries of the whole column.
            let lists = array.as_list::<O>();
            let (offsets, first) = (lists.value_offsets(), lists.value_offsets()[0].as_usize());
            let offsets: Vec<usize> = offsets.iter().map(|o| o.as_usize() - first).collect();
            (lists.values().slice(first, offsets[lists.len()]), offsets)
        }
        match self.array.data_type() {
            DataType::List(_) => Some(offsets::<i32>(self.array)),
            DataType::LargeList(_) => Some(offsets::<i64>(self.array)),
            DataType::FixedSizeList(_, width) => {
                let lists = self.array.as_fixed_size_list();
                let width = usize::try_from(*width).unwrap_or(0);
                Some((lists.values().clone(), (0..=lists.len()).map(|i| i * width).collect()))
            }
            _ => None,
        }
    }

    /// A list of numbers for each record, empty where missing.
    pub(crate) fn lists(&self) -> Result<Lists<f64>> {
        let mut lists = Lists::new();
        if let Some((items, offsets)) = self.parts() {
            // If all lists are empty, their type does not matter.
            let missing = || (items.null_count() == items.len()).then(|| vec![f64::NAN; items.len()]);
            let values = numeric(&items).or_else(missing).ok_or_else(|| self.mistyped("lists of numbers"))?;
            for i in 0..self.array.len() {
                if !self.array.is_null(i) {
                    lists.values.extend_from_slice(&values[offsets[i]..offsets[i + 1]]);
                }
                lists.end();
            }
            return Ok(lists);
        }
        self.json_lists(&mut lists, "a list of numbers, such as [0.5, 1]")?;
        Ok(lists)
    }

    /// A list of texts for each record, empty where missing.
    pub(crate) fn text_lists(&self) -> Result<Lists<String>> {
        let mut lists = Lists::new();
        if let Some((items, offsets)) = self.parts() {
            let inner = Column { array: &items, ..*self };
            let values = inner.texts()?;
            for i in 0..self.array.len() {
                if !self.array.is_null(i) {
                    let texts = &values[offsets[i]..offsets[i + 1]];
                    lists.values.extend(texts.iter().map(|text| text.as_deref().unwrap_or_default().to_owned()));
                }
                lists.end();
            }
            return Ok(lists);
        }
        let mut found = Lists::new();
        let allowed = r#"a list of texts, such as ["a", "b"]"#;
        self.json_lists::<serde_json::Value>(&mut found, allowed)?;
        for i in 0..found.len() {
            for value in found.get(i) {
                lists.values.push(match value {
                    serde_json::Value::String(text) => text.clone(),
                    // An action may be named by a number.
                    serde_json::Value::Number(number) => number.to_string(),
                    other => return Err(self.error(i, allowed, other)),
                });
            }
            lists.end();
        }
        Ok(lists)
    }

    /// The same, without copies where the lists have texts.
    pub(crate) fn borrowed_text_lists(&self) -> Result<Lists<Cow<'a, str>>> {
        let texts =
            self.array.as_list_opt::<i32>().and_then(|lists| Some((lists, lists.values().as_string_opt::<i32>()?)));
        let Some((lists, texts)) = texts.filter(|(lists, texts)| lists.null_count() + texts.null_count() == 0) else {
            let Lists { offsets, values } = self.text_lists()?;
            return Ok(Lists { offsets, values: values.into_iter().map(Cow::Owned).collect() });
        };
        let first = lists.value_offsets()[0] as usize;
        let offsets: Vec<usize> = lists.value_offsets().iter().map(|&offset| offset as usize - first).collect();
        let text = |j: usize| Cow::Borrowed(texts.value(first + j));
        Ok(Lists { values: (0..offsets[lists.len()]).map(text).collect(), offsets })
    }

    /// Whether every list, of numbers, is 0, 1, .. up to the number of entries between two of these offsets.
    pub(crate) fn lists_all_places(&self, offsets: &[usize]) -> bool {
        let lists = self.array.as_list_opt::<i32>().filter(|lists| lists.null_count() == 0);
        let numbers = lists.and_then(|lists| Some((lists, lists.values().as_primitive_opt::<UInt32Type>()?)));
        numbers.filter(|(lists, numbers)| lists.len() + 1 == offsets.len() && numbers.null_count() == 0).is_some_and(
            |(lists, numbers)| {
                let list = |pair: &[i32]| &numbers.values()[pair[0] as usize..pair[1] as usize];
                let all = lists.value_offsets().windows(2).zip(offsets.windows(2));
                all.into_iter().all(|(pair, ends)| list(pair).iter().copied().eq(0..(ends[1] - ends[0]) as u32))
            },
        )
    }

    fn json_lists<T: serde::de::DeserializeOwned>(&self, lists: &mut Lists<T>, allowed: &str) -> Result<()> {
        if !self.is_text() {
            return Err(self.mistyped("lists"));
        }
        for (i, text) in self.array.as_string::<i32>().iter().enumerate() {
            if let Some(text) = text {
                let list: Vec<T> =
                    serde_json::from_str(text).map_err(|_| self.error(i, allowed, format!("{text:?}")))?;
                lists.values.extend(list);
            }
            lists.end();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{BooleanArray, Float64Array, Int64Array, ListArray, StringArray, UInt32Array};

    use super::*;

    fn column(array: &ArrayRef) -> Column<'_> {
        Column { place: "x.csv", start: 10, rows: None, places: None, name: "f", array }
    }

    #[test]
    fn numbers_come_from_any_numeric_type_and_from_their_texts() {
        let arrays: [ArrayRef; 5] = [
            Arc::new(Float64Array::from(vec![1.0, 0.0])),
            Arc::new(UInt32Array::from(vec![1, 0])),
            Arc::new(BooleanArray::from(vec![true, false])),
            Arc::new(StringArray::from(vec!["1e0", " 0"])),
            Arc::new(StringArray::from(vec!["true", "False"])),
        ];
        for array in &arrays {
            assert_eq!(column(array).numbers().unwrap()[..], [1.0, 0.0]);
        }
        let missing: ArrayRef = Arc::new(StringArray::from(vec![Some("2"), None]));
        assert!(column(&missing).numbers().unwrap()[1].is_nan());
        assert_eq!(
            column(&missing).all_numbers().unwrap_err().to_string(),
            "x.csv, row 11: f should be a number, but is missing"
        );
        let wrong: ArrayRef = Arc::new(StringArray::from(vec!["two"]));
        assert_eq!(
            column(&wrong).numbers().unwrap_err().to_string(),
            "x.csv, row 10: f should be a number, but is \"two\""
        );
    }

    #[test]
    fn an_id_of_64_bits_keeps_its_digits() {
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![9_007_199_254_740_993]));
        assert_eq!(column(&ids).texts().unwrap()[0].as_deref(), Some("9007199254740993"));
    }

    #[test]
    fn lists_come_as_lists_or_as_json() {
        let lists = ListArray::from_iter_primitive::<Float64Type, _, _>([Some(vec![Some(1.0), Some(2.0)]), None]);
        let json = StringArray::from(vec![Some("[1, 2.0]"), None]);
        let arrays: [ArrayRef; 2] = [Arc::new(lists), Arc::new(json)];
        for array in &arrays {
            let lists = column(array).lists().unwrap();
            assert_eq!((lists.len(), lists.get(0), lists.get(1)), (2, &[1.0, 2.0][..], &[][..]));
        }
        let wrong: ArrayRef = Arc::new(StringArray::from(vec!["1, 2"]));
        assert_eq!(
            column(&wrong).lists().unwrap_err().to_string(),
            "x.csv, row 10: f should be a list of numbers, such as [0.5, 1], but is \"1, 2\""
        );
        let number: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
        assert_eq!(
            column(&number).lists().unwrap_err().to_string(),
            "x.csv: the type of column f should be lists, but is Float64"
        );
    }

    #[test]
    fn whole_numbers_are_whole() {
        let array: ArrayRef = Arc::new(Float64Array::from(vec![0.5]));
        let column = column(&array);
        assert_eq!(column.whole(0, 3.0).unwrap(), 3);
        for bad in [-1.0, 0.5, 4294967295.0, f64::NAN] {
            assert!(column.whole(0, bad).is_err(), "{bad}");
        }
    }
}
