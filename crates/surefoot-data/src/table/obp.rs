//! Open Bandit Pipeline's feedback, a dict of arrays, as written by `numpy.savez(path, **bandit_feedback)`.
//!
//! | array | shape | column |
//! | --- | --- | --- |
//! | `action` | (n,), integers | `action` |
//! | `reward` | (n,) | `reward` |
//! | `pscore` | (n,) | `pscore` |
//! | `context` | (n, d) | `context`; rounded to `Float32` |
//! | `pi_b` | (n, K, L), optional | `probabilities`: the slice at the position |
//! | `action_dist` | (n, K, L), optional | `action_dist`, in the same way: the probabilities of another policy |
//! | `position` | (n,), integers, optional | none: it must be the same in all records |
//! | `n_rounds`, `n_actions` | (), optional | none: they are checked against the other arrays |
//! | `action_context` | (K, m), optional | `candidates`: all actions with these features, in every record |
//!
//! Slates choose several actions at once. They have several positions, `slate_id` or propensities of whole lists, and are
//! refused by their name.
//!
//! If `action_context` is the identity matrix, as in the pipeline's synthetic data by default, it says no more than the
//! numbers of the actions, and there are no candidates. Other arrays are not read: no real log has `expected_reward`.
//! Numbers are booleans, integers or floats of up to 8 bytes in either byte order. An optional array that is `None`,
//! which numpy pickles, counts as absent; nothing is unpickled.
//!
//! The writer writes `n_rounds`, `n_actions`, `context`, `action`, `position` (zeros), `reward` and `pscore`, and `pi_b`,
//! `action_dist` and `action_context` if there are such columns ([`mod@write`]).

mod actions;
mod arrays;
mod features;
mod numbers;
mod write;

use std::io::{self, Read, Seek};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Float64Array, ListArray, PrimitiveArray, RecordBatch, UInt32Array};
use arrow_array::{ArrowPrimitiveType, types};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use self::arrays::{Archive, Array};
use self::features::Features;
pub(crate) use self::write::write;
use super::{ROWS, Tables};
use crate::error::{Error, Result};
use crate::npy::Kind;
use crate::npz::{Item, integer};

/// The largest number of bytes of a batch of wide rows, if it has more than one row.
const BATCH_BYTES: usize = 1 << 26;

/// Arrays that only the feedback of slates has.
const SLATES: [&str; 4] = ["slate_id", "pscore_cascade", "pscore_item_position", "evaluation_policy_pscore"];

const INTEGERS: &str = "an integer type";
const NUMBERS: &str = "a type of numbers";

/// Reads a file; `open` is called once per array.
pub(crate) fn read<R: Read + Seek + Send + 'static>(place: &str, open: impl Fn() -> io::Result<R>) -> Result<Tables> {
    let mut archive = Archive::open(place, open)?;
    if let Some(name) = SLATES.into_iter().find(|name| archive.has(name)) {
        return Err(slates(place, name));
    }
    if let Some(length) = archive.count("len_list")?.filter(|&length| length > 1)
        && !archive.has("position")
    {
        return Err(slates(place, &format!("len_list is {length}, and there is no array position")));
    }
    let action = Integers::new(archive.needed("action")?)?;
    let rows = match action.array.header.shape[..] {
        [rows] => rows,
        _ => return Err(action.array.shape("(n,), an action for each record".into())),
    };
    if let Some(found) = archive.count("n_rounds")?.filter(|&count| count != rows as i128) {
        return Err(differs(place, "n_rounds", format!("{rows}, as many as action has"), found));
    }
    let actions = archive.count("n_actions")?;
    let position = match archive.optional("position")? {
        Some(array) => Some(Integers::new(of_rows(array, rows)?)?),
        None => None,
    };
    let mut list = |name| -> Result<Option<Slices>> {
        let array = archive.optional(name)?;
        array.map(|array| Slices::new(array, rows, actions, position.is_some())).transpose()
    };
    let (probabilities, action_dist) = (list("pi_b")?, list("action_dist")?);
    let reals = |array: Result<Array>| Reals::new(of_rows(array?, rows)?);
    let (reward, pscore) = (reals(archive.needed("reward"))?, reals(archive.needed("pscore"))?);
    let context = Reals::new(archive.needed("context")?)?;
    match context.array.header.shape[..] {
        [found, width] if found == rows && i32::try_from(width).is_ok() => {}
        _ => return Err(context.array.shape(format!("({rows}, d), a row for each record"))),
    }
    let candidates = archive.optional("action_context")?.map(|array| Features::read(array, actions)).transpose()?;
    let actions = actions.map_or(u32::MAX, |count| u32::try_from(count).unwrap_or(u32::MAX));
    let candidates = candidates.flatten();
    let actions = candidates.as_ref().map_or(actions, |features| features.actions as u32);
    let rounds = Rounds {
        rows,
        row: 0,
        actions,
        action,
        position,
        only: None,
        reward,
        pscore,
        context,
        probabilities,
        action_dist,
        candidates,
    };
    Ok(Box::new(rounds.batches()))
}

/// The error for slates; `why` says how they were recognised.
fn slates(place: &str, why: &str) -> Error {
    let reason = "should be the feedback of decisions with one choice, but is that of slates, which choose several actions at \
                  once, one for each position";
    Error::Malformed {
        place: place.to_owned(),
        reason: format!("{reason} ({why}): these are not read; the records of one position are"),
    }
}

fn of_rows(array: Array, rows: usize) -> Result<Array> {
    array.check_shape(&[rows], &format!("({rows},), one for each record"))?;
    Ok(array)
}

fn differs(place: &str, array: &str, allowed: String, found: i128) -> Error {
    Error::Field { place: place.to_owned(), column: array.into(), allowed, found: found.to_string() }
}

/// All arrays, read up to `row`.
struct Rounds {
    rows: usize,
    row: usize,
    actions: u32,
    action: Integers,
    position: Option<Integers>,
    /// The position of all records, once the first is read.
    only: Option<u32>,
    reward: Reals,
    pscore: Reals,
    context: Reals,
    probabilities: Option<Slices>,
    action_dist: Option<Slices>,
    candidates: Option<Features>,
}

impl Rounds {
    fn batches(mut self) -> impl Iterator<Item = Result<RecordBatch>> + Send {
        let slices = || self.probabilities.iter().chain(&self.action_dist);
        let widths = [self.action.row, self.reward.row, self.pscore.row, self.context.row.saturating_mul(2)];
        let features = self.candidates.as_ref().map_or(0, Features::bytes);
        let widths = widths.into_iter().chain([features]);
        let row = widths.chain(slices().map(|slices| slices.reals.row)).fold(0, usize::saturating_add);
        let step = (BATCH_BYTES / row.max(1)).clamp(1, ROWS);
        let schema = self.schema();
        let mut over = false;
        std::iter::from_fn(move || {
            if over {
                return None;
            }
            let batch = if self.row < self.rows {
                let step = step.min(self.rows - self.row);
                self.batch(step, &schema).map(Some)
            } else {
                self.end().map(|()| None)
            };
            over = !matches!(batch, Ok(Some(_)));
            batch.transpose()
        })
    }

    fn schema(&self) -> SchemaRef {
        let list = |item| DataType::new_list(item, false);
        let mut fields = vec![("action", DataType::UInt32), ("pscore", DataType::Float64)];
        fields.push(("reward", DataType::Float64));
        fields.push(("context", list(DataType::Float32)));
        fields.extend(self.probabilities.is_some().then(|| ("probabilities", list(DataType::Float64))));
        fields.extend(self.action_dist.is_some().then(|| ("action_dist", list(DataType::Float64))));
        fields.extend(self.candidates.as_ref().map(|features| ("candidates", features.data_type())));
        let fields = fields.into_iter().map(|(name, data_type)| Field::new(name, data_type, false));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    fn batch(&mut self, rows: usize, schema: &SchemaRef) -> Result<RecordBatch> {
        let first = self.row;
        self.row += rows;
        let action = self.action.next(first, rows, self.actions, "an action from 0 to below n_actions")?;
        let pscore = self.pscore.next(rows)?.collect::<Vec<f64>>();
        let reward = self.reward.next(rows)?.collect::<Vec<f64>>();
        let position = self.position(first, rows)?;
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from(action)),
            Arc::new(Float64Array::from(pscore)),
            Arc::new(Float64Array::from(reward)),
        ];
        columns.push(self.context(first, rows)?);
        for slices in self.probabilities.iter_mut().chain(&mut self.action_dist) {
            columns.push(slices.next(first, rows, position)?);
        }
        let place = || self.context.array.place().to_owned();
        if let Some(features) = &self.candidates {
            columns
                .push(features.column(rows).map_err(|e| Error::Malformed { place: place(), reason: e.to_string() })?);
        }
        RecordBatch::try_new(schema.clone(), columns)
            .map_err(|reason| Error::Malformed { place: place(), reason: reason.to_string() })
    }

    /// The position of the next rows, which must be that of the rows before.
    fn position(&mut self, first: usize, rows: usize) -> Result<usize> {
        let Some(position) = &mut self.position else { return Ok(0) };
        let found = position.next(first, rows, u32::MAX, "a position from 0 to 4294967294")?;
        let only = *self.only.get_or_insert(found.first().copied().unwrap_or(0));
        if let Some(row) = found.iter().position(|&position| position != only) {
            let why = format!("row {}: position is {}, and {only} before", first + row, found[row]);
            return Err(slates(position.array.place(), &why));
        }
        Ok(only as usize)
    }

    fn context(&mut self, first: usize, rows: usize) -> Result<ArrayRef> {
        let width = self.context.array.header.shape[1];
        let place = self.context.array.place().to_owned();
        let wide = |(index, value): (usize, f64)| match value as f32 {
            narrow if narrow.is_infinite() && value.is_finite() => Err(Error::Value {
                place: place.clone(),
                index: first * width + index,
                allowed: "within what 32 bits hold",
                value: format!("{value:e}"),
            }),
            narrow => Ok(narrow),
        };
        let values = self.context.next(rows)?.enumerate().map(wide).collect::<Result<Vec<f32>>>()?;
        list::<types::Float32Type>(&place, rows, width, Float32Array::from(values))
    }

    fn end(&mut self) -> Result<()> {
        let slices = self.probabilities.iter_mut().chain(&mut self.action_dist);
        let reals = [&mut self.reward, &mut self.pscore, &mut self.context].into_iter();
        reals.chain(slices.map(|slices| &mut slices.reals)).try_for_each(|reals| reals.array.end())?;
        let integers = [Some(&mut self.action), self.position.as_mut()].into_iter().flatten();
        integers.map(|integers| &mut integers.array).try_for_each(Array::end)
    }
}

/// A list of `width` values for each row.
fn list<T: ArrowPrimitiveType>(place: &str, rows: usize, width: usize, values: PrimitiveArray<T>) -> Result<ArrayRef> {
    let item = Arc::new(Field::new_list_field(T::DATA_TYPE, false));
    let offsets = OffsetBuffer::from_repeated_length(width, rows);
    let list = ListArray::try_new(item, offsets, Arc::new(values), None);
    Ok(Arc::new(list.map_err(|reason| Error::Malformed { place: place.to_owned(), reason: reason.to_string() })?))
}

/// Converts the bytes of an item to an integer.
type Integer = Box<dyn Fn(&[u8]) -> i128 + Send>;

/// An array of integers.
struct Integers {
    array: Array,
    item: Item<Integer>,
    row: usize,
}

impl Integers {
    fn new(mut array: Array) -> Result<Self> {
        let boxed = |kind, width| -> Option<Integer> { Some(Box::new(integer(kind, width)?)) };
        let item = Item::new(&array.header, array.place(), INTEGERS, boxed)?;
        let row = array.begin(item.width)?;
        Ok(Integers { array, item, row })
    }

    /// The next rows, starting with row `first`; all values must be below `end`.
    fn next(&mut self, first: usize, rows: usize, end: u32, allowed: &'static str) -> Result<Vec<u32>> {
        let place = self.array.place().to_owned();
        let (width, bytes) = (self.item.width, self.array.rows(rows)?);
        let number = |(index, bytes)| {
            let number = self.item.number(bytes);
            let wrong = || Error::Value { place: place.clone(), index, allowed, value: number.to_string() };
            u32::try_from(number).ok().filter(|&number| number < end).ok_or_else(wrong)
        };
        (first..).zip(bytes.chunks_exact(width)).map(number).collect()
    }
}

/// An array of numbers.
struct Reals {
    array: Array,
    item: Item<fn(&[u8]) -> f64>,
    row: usize,
}

impl Reals {
    fn new(mut array: Array) -> Result<Self> {
        let item = Item::new(&array.header, array.place(), NUMBERS, real)?;
        let row = array.begin(item.width)?;
        Ok(Reals { array, item, row })
    }

    /// The items of the next rows.
    fn next(&mut self, rows: usize) -> Result<impl Iterator<Item = f64>> {
        let (item, bytes) = (&self.item, self.array.rows(rows)?);
        Ok(bytes.chunks_exact(item.width).map(|bytes| item.number(bytes)))
    }
}

/// An array (n, K, L) of which only the slice at one position is needed.
struct Slices {
    reals: Reals,
    actions: usize,
    positions: usize,
}

impl Slices {
    fn new(array: Array, rows: usize, actions: Option<i128>, with_position: bool) -> Result<Self> {
        let width = actions.map_or("K".into(), |count| count.to_string());
        let reals = Reals::new(array)?;
        match reals.array.header.shape[..] {
            [found, actions_found, positions]
                if found == rows
                    && actions.is_none_or(|count| count == actions_found as i128)
                    && i32::try_from(actions_found).is_ok()
                    && (positions == 1 || with_position && positions > 0) =>
            {
                Ok(Slices { reals, actions: actions_found, positions })
            }
            _ if with_position => Err(reals.array.shape(format!("({rows}, {width}, L)"))),
            _ => Err(reals.array.shape(format!("({rows}, {width}, 1), as there is no position"))),
        }
    }

    fn next(&mut self, first: usize, rows: usize, position: usize) -> Result<ArrayRef> {
        let (actions, positions) = (self.actions, self.positions);
        let place = self.reals.array.place().to_owned();
        if position >= positions {
            let place = format!("{place}, row {first}");
            let allowed = format!("from 0 to below {positions}");
            return Err(Error::Field { place, column: "position".into(), allowed, found: position.to_string() });
        }
        let wanted = self.reals.next(rows)?.skip(position).step_by(positions);
        list::<types::Float64Type>(&place, rows, actions, wanted.collect::<Vec<f64>>().into())
    }
}

/// All types of numbers.
fn real(kind: Kind, width: usize) -> Option<fn(&[u8]) -> f64> {
    fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
        std::array::from_fn(|i| bytes[i])
    }
    Some(match (kind, width) {
        (Kind::Boolean | Kind::Unsigned, 1) => |b| f64::from(b[0]),
        (Kind::Unsigned, 2) => |b| f64::from(u16::from_le_bytes(first(b))),
        (Kind::Unsigned, 4) => |b| f64::from(u32::from_le_bytes(first(b))),
        (Kind::Unsigned, 8) => |b| u64::from_le_bytes(first(b)) as f64,
        (Kind::Signed, 1) => |b| f64::from(i8::from_le_bytes(first(b))),
        (Kind::Signed, 2) => |b| f64::from(i16::from_le_bytes(first(b))),
        (Kind::Signed, 4) => |b| f64::from(i32::from_le_bytes(first(b))),
        (Kind::Signed, 8) => |b| i64::from_le_bytes(first(b)) as f64,
        (Kind::Float, 4) => |b| f64::from(f32::from_le_bytes(first(b))),
        (Kind::Float, 8) => |b| f64::from_le_bytes(first(b)),
        _ => return None,
    })
}
