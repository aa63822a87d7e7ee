//! Cells that may be invalid: numbers, and the labels of actions.

use std::borrow::Cow;
use std::collections::HashMap;

use arrow_array::Array;
use arrow_array::cast::AsArray;

use crate::column::{Column, Lists, parse};
use crate::error::Result;
use crate::logs::LogBatch;

/// The numbers of a column, NaN where a number is missing or invalid.
pub(super) struct Numbers<'a> {
    pub(super) values: Cow<'a, [f64]>,
    column: Option<Column<'a>>,
}

/// Why a cell is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bad {
    Missing,
    /// A text, or NaN, or infinite.
    NotFinite,
}

impl<'a> Numbers<'a> {
    /// The numbers of a column, or all missing if there is no column.
    pub(super) fn of(batch: &LogBatch, column: Option<Column<'a>>) -> Result<Self> {
        let values = match &column {
            None => Cow::Owned(vec![f64::NAN; batch.len()]),
            Some(column) if column.is_text() => {
                let texts = column.array.as_string::<i32>().iter();
                Cow::Owned(texts.map(|text| text.and_then(parse).unwrap_or(f64::NAN)).collect())
            }
            Some(column) => column.numbers()?,
        };
        Ok(Numbers { values, column })
    }

    /// The number, if it is finite.
    pub(super) fn get(&self, i: usize) -> std::result::Result<f64, Bad> {
        match self.values[i] {
            x if x.is_finite() => Ok(x),
            _ if self.column.is_none_or(|column| column.array.is_null(i)) => Err(Bad::Missing),
            _ => Err(Bad::NotFinite),
        }
    }

    /// The content of a cell, for messages.
    pub(super) fn shown(&self, i: usize) -> String {
        match &self.column {
            Some(column) if !column.array.is_null(i) => match column.is_text() {
                true => column.array.as_string::<i32>().value(i).to_owned(),
                false => self.values[i].to_string(),
            },
            _ => "missing".into(),
        }
    }
}

/// The label of an action: a whole number, however it is written, or a name.
pub(super) enum Label<'a> {
    Number(u32),
    Name(Cow<'a, str>),
}

/// Converts a number to a whole number from 0 on, if it is one.
pub(super) fn whole(x: f64) -> Option<u32> {
    (x >= 0.0 && x <= f64::from(u32::MAX - 1) && x.fract() == 0.0).then_some(x as u32)
}

impl<'a> Label<'a> {
    pub(super) fn of(text: Cow<'a, str>) -> Self {
        match parse(&text).and_then(whole) {
            // A text that parses as a boolean is a name.
            Some(number) if text.trim().starts_with(|c: char| c.is_ascii_digit()) => Label::Number(number),
            _ => Label::Name(text),
        }
    }
}

/// The largest number of distinct actions that are tracked. Each takes about 100 bytes, and nobody examines a hundred
/// thousand actions one by one.
pub(super) const MOST: usize = 100_000;

/// The index of every action that is not tracked.
pub(super) const OTHER: u32 = u32::MAX;

/// The actions in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    numbers: HashMap<u32, u32>,
    names: HashMap<String, u32>,
    labels: Vec<(Option<u32>, String)>,
    /// Whether there are more actions than are tracked.
    pub(super) full: bool,
}

impl Vocabulary {
    /// The index of an action. A new action gets a new index.
    pub(super) fn place(&mut self, label: Label<'_>) -> u32 {
        let known = match &label {
            Label::Number(number) => self.numbers.get(number),
            Label::Name(name) => self.names.get(&**name),
        };
        if let Some(&place) = known {
            return place;
        }
        if self.labels.len() == MOST {
            self.full = true;
            return OTHER;
        }
        let place = self.labels.len() as u32;
        match label {
            Label::Number(number) => {
                self.numbers.insert(number, place);
                self.labels.push((Some(number), number.to_string()));
            }
            Label::Name(name) => {
                self.names.insert(name.clone().into_owned(), place);
                self.labels.push((None, name.into_owned()));
            }
        }
        place
    }

    pub(super) fn len(&self) -> usize {
        self.labels.len()
    }

    /// The name of an action.
    pub(super) fn name(&self, place: u32) -> &str {
        self.labels.get(place as usize).map_or("another", |(_, label)| label)
    }

    /// Its number, if it is one.
    pub(super) fn number(&self, place: u32) -> Option<u32> {
        self.labels.get(place as usize).and_then(|(number, _)| *number)
    }

    /// The number of actions that are names.
    pub(super) fn names(&self) -> usize {
        self.names.len()
    }

    /// The smallest and the largest number.
    pub(super) fn range(&self) -> Option<(u32, u32)> {
        Some((self.numbers.keys().copied().min()?, self.numbers.keys().copied().max()?))
    }
}

/// The lists of actions, as indices into the vocabulary.
pub(super) fn places(column: &Column<'_>, vocabulary: &mut Vocabulary) -> Result<Lists<u32>> {
    if let Ok(lists) = column.lists() {
        let place = |&x: &f64| match whole(x) {
            Some(number) => vocabulary.place(Label::Number(number)),
            None => vocabulary.place(Label::Name(x.to_string().into())),
        };
        return Ok(Lists { values: lists.values.iter().map(place).collect(), offsets: lists.offsets });
    }
    let lists = column.text_lists()?;
    let values = lists.values.into_iter().map(|text| vocabulary.place(Label::of(text.into()))).collect();
    Ok(Lists { values, offsets: lists.offsets })
}
