//! Cells that may be wrong: numbers, and the labels of actions.

use std::borrow::Cow;
use std::collections::HashMap;

use arrow_array::Array;
use arrow_array::cast::AsArray;

use crate::column::{Column, Lists, parse};
use crate::error::Result;
use crate::logs::LogBatch;

/// The numbers of a column, NaN where there is none.
pub(super) struct Numbers<'a> {
    pub(super) values: Cow<'a, [f64]>,
    column: Option<Column<'a>>,
}

/// What a cell should not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bad {
    Missing,
    /// A text, or NaN, or infinite.
    NotFinite,
}

impl<'a> Numbers<'a> {
    /// Those of a column, or as many missing ones as there are records.
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

    /// What stands in a cell.
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

/// What an action is called: a whole number, however it is written, or a name.
pub(super) enum Label<'a> {
    Number(u32),
    Name(Cow<'a, str>),
}

/// The whole number from 0 on that a number is.
pub(super) fn whole(x: f64) -> Option<u32> {
    (x >= 0.0 && x <= f64::from(u32::MAX - 1) && x.fract() == 0.0).then_some(x as u32)
}

impl<'a> Label<'a> {
    pub(super) fn of(text: Cow<'a, str>) -> Self {
        match parse(&text).and_then(whole) {
            // What parses as a truth value is a name.
            Some(number) if text.trim().starts_with(|c: char| c.is_ascii_digit()) => Label::Number(number),
            _ => Label::Name(text),
        }
    }
}

/// The most actions that are told apart: what is kept of each takes some 100 bytes, and logs that are to support a hundred
/// thousand actions are not looked at one action at a time.
pub(super) const MOST: usize = 100_000;

/// The place of an action that is not told apart.
pub(super) const OTHER: u32 = u32::MAX;

/// The actions in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    numbers: HashMap<u32, u32>,
    names: HashMap<String, u32>,
    labels: Vec<(Option<u32>, String)>,
    /// Whether there are more.
    pub(super) full: bool,
}

impl Vocabulary {
    /// The place of an action, a new one if need be.
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

    /// What an action is called.
    pub(super) fn name(&self, place: u32) -> &str {
        self.labels.get(place as usize).map_or("another", |(_, label)| label)
    }

    /// Its number, if it is one.
    pub(super) fn number(&self, place: u32) -> Option<u32> {
        self.labels.get(place as usize).and_then(|(number, _)| *number)
    }

    /// How many are names.
    pub(super) fn names(&self) -> usize {
        self.names.len()
    }

    /// The smallest and the largest number.
    pub(super) fn range(&self) -> Option<(u32, u32)> {
        Some((self.numbers.keys().copied().min()?, self.numbers.keys().copied().max()?))
    }
}

/// Lists of actions by their places.
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
