//! Thousands of made-up records, with all kinds of characters and numbers, written and read again.

use std::sync::Arc;

use crate::common::Folder;
use arrow_array::builder::{Float32Builder, Float64Builder, ListBuilder, StringBuilder, UInt32Builder};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray};
use surefoot_data::{Format, read_table, write_table};

const RECORDS: usize = 5000;

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) ^ (self.0 << 20 >> 33)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Any finite number, whatever its bits.
    fn number(&mut self) -> f64 {
        let value = f64::from_bits((self.next() << 32) ^ self.next());
        if value.is_finite() { value + 0.0 } else { 0.0 }
    }

    fn value(&mut self) -> f32 {
        let value = f32::from_bits(self.next() as u32);
        if value.is_finite() && value != 0.0 { value } else { 1.0 }
    }

    fn text(&mut self, letters: &[char]) -> String {
        (0..=self.below(6)).map(|_| letters[self.below(letters.len())]).collect()
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.below(3) == 0 { None } else { Some(make(self)) }
    }
}

fn there_and_back(format: Format, table: &RecordBatch) -> RecordBatch {
    let folder = Folder::new();
    let path = folder.path().join("log");
    write_table(&path, format, &table.schema(), &mut [Ok(table.clone())].into_iter()).unwrap();
    let mut tables: Vec<RecordBatch> = read_table(&path, format).unwrap().map(Result::unwrap).collect();
    assert_eq!(tables.len(), 1);
    tables.remove(0)
}

fn table(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

/// Decisions; with what only dsjson can hold, if so asked.
fn decisions(dsjson: bool, letters: &[char]) -> RecordBatch {
    let mut dice = Dice(7);
    let mut ids = StringBuilder::new();
    let (mut actions, mut pscores, mut rewards) = (UInt32Builder::new(), Float64Builder::new(), Float64Builder::new());
    let mut eligible = ListBuilder::new(UInt32Builder::new());
    let mut probabilities = ListBuilder::new(Float64Builder::new());
    let mut names = ListBuilder::new(StringBuilder::new());
    let mut values = ListBuilder::new(Float32Builder::new());
    for _ in 0..RECORDS {
        ids.append_option(dice.maybe(|dice| dice.text(letters)));
        let mut listed: Vec<u32> = (0..12).collect();
        (0..11).for_each(|i| listed.swap(i, i + dice.below(12 - i)));
        listed.truncate(2 + dice.below(10));
        let known = dice.below(2) == 0;
        // In dsjson the chosen action comes first.
        let at = if dsjson { 0 } else { dice.below(listed.len()) };
        let scores: Vec<f64> = listed.iter().map(|_| dice.number()).collect();
        actions.append_value(listed[at]);
        pscores.append_value(scores[at]);
        rewards.append_value(dice.number());
        if known {
            eligible.values().append_slice(&listed);
            probabilities.values().append_slice(&scores);
        }
        eligible.append(known);
        probabilities.append(known);
        let mut seen = Vec::new();
        for _ in 0..dice.below(8) {
            let name = dice.text(letters);
            if !seen.contains(&name) && !name.starts_with('_') {
                names.values().append_value(&name);
                values.values().append_value(if dice.below(2) == 0 { 1.0 } else { dice.value() });
                seen.push(name);
            }
        }
        names.append(true);
        values.append(true);
    }
    let mut texts = |chars: &[char]| -> ArrayRef {
        Arc::new((0..RECORDS).map(|_| dice.maybe(|dice| dice.text(chars))).collect::<StringArray>())
    };
    let (timestamps, versions) = (texts(letters), texts(letters));
    let mut columns: Vec<(&str, ArrayRef)> = vec![("event_id", Arc::new(ids.finish()))];
    if dsjson {
        columns.push(("timestamp", timestamps));
    }
    columns.push(("action", Arc::new(actions.finish())));
    columns.push(("pscore", Arc::new(pscores.finish())));
    columns.push(("reward", Arc::new(rewards.finish())));
    if dsjson {
        columns.push(("policy_version", versions));
    }
    columns.push(("eligible", Arc::new(eligible.finish())));
    if dsjson {
        let pdrop: Float64Array = (0..RECORDS).map(|_| dice.maybe(Dice::number)).collect();
        let skip: BooleanArray = (0..RECORDS).map(|_| Some(dice.below(2) == 0)).collect();
        columns.push(("probabilities", Arc::new(probabilities.finish())));
        columns.push(("pdrop", Arc::new(pdrop)));
        columns.push(("skip", Arc::new(skip)));
    }
    columns.push(("context_names", Arc::new(names.finish())));
    columns.push(("context_values", Arc::new(values.finish())));
    table(columns)
}

#[test]
fn dsjson_gives_back_what_it_got() {
    let table =
        decisions(true, &['a', 'b', '=', '.', '[', '0', ']', '_', '"', '\\', '\n', '\u{1}', ' ', 'é', '😀', '^']);
    assert_eq!(there_and_back(Format::Dsjson, &table), table);
}

#[test]
fn vw_gives_back_what_it_got() {
    let table = decisions(false, &['a', 'b', '=', '^', '\'', '0', '.', '"', 'é', '#']);
    assert_eq!(there_and_back(Format::Vw, &table), table);
}

#[test]
fn csv_and_json_lines_give_back_what_they_got() {
    let mut dice = Dice(11);
    let letters = ['a', ',', '"', '\n', '\r', ' ', '\\', '\u{1}', '\u{feff}', 'é', '😀', '1'];
    let texts: Vec<Option<String>> = (0..RECORDS).map(|_| dice.maybe(|dice| dice.text(&letters))).collect();
    let texts: ArrayRef = Arc::new(StringArray::from(texts));
    let numbers: Vec<Option<f64>> = (0..RECORDS).map(|_| dice.maybe(Dice::number)).collect();
    let numbers: ArrayRef = Arc::new(Float64Array::from(numbers));
    let truths: ArrayRef =
        Arc::new((0..RECORDS).map(|_| dice.maybe(|dice| dice.below(2) == 0)).collect::<BooleanArray>());
    let json = table(vec![("a \"quoted\"\nname", texts.clone()), ("n", numbers.clone()), ("t", truths)]);
    let back = there_and_back(Format::JsonLines, &json);
    // Columns come in the order in which the lines have them first.
    assert_eq!(back.num_columns(), 3);
    for name in ["a \"quoted\"\nname", "n", "t"] {
        assert_eq!(back.column_by_name(name), json.column_by_name(name));
    }

    let alone = table(vec![("one", texts.clone())]);
    assert_eq!(there_and_back(Format::Csv, &alone), alone);
    let more = table(vec![("a, \"quoted\"\nname", texts.clone()), ("n", numbers.clone()), ("u", texts)]);
    let back = there_and_back(Format::Csv, &more);
    assert_eq!((back.column(0), back.column(2)), (more.column(0), more.column(2)));
    let read: &StringArray = back.column(1).as_any().downcast_ref().unwrap();
    let read: Float64Array = read.iter().map(|text| text.map(|text| text.parse::<f64>().unwrap())).collect();
    assert_eq!(&(Arc::new(read) as ArrayRef), &numbers);
}
