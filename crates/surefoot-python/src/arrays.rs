//! Conversion from NumPy, SciPy and Arrow, and back to NumPy.

use std::slice;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field};
use numpy::{
    Element, PyArray1, PyArray2, PyArrayDescrMethods, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2,
    PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::IntoPyDict;
use pyo3_arrow::PyTable;
use surefoot::Contexts;
use surefoot::contexts::Row;
use surefoot::logs::Eligible;

use crate::failure::{Failure, Result, setting, size};

/// How long contexts are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// During the call only: they are not copied.
    Call,
    /// Longer than the call: they are copied, so that nobody can change the data behind a certificate.
    On,
}

/// Contexts from a NumPy array, a SciPy matrix, an object with Arrow's C stream, or anything that NumPy can convert.
pub(crate) fn contexts(x: &Bound<'_, PyAny>, hold: Hold) -> Result<Contexts> {
    let py = x.py();
    if x.hasattr(intern!(py, "tocsr"))? {
        return csr(x);
    }
    if !x.is_instance_of::<PyUntypedArray>() && x.hasattr(intern!(py, "__arrow_c_stream__"))? {
        let (batches, columns) = table(x)?;
        return frame(&batches, columns);
    }
    if x.get_type().name()? == "MaskedArray" {
        return Err(setting("X", "an array without a mask", "a masked one"));
    }
    let array = py.import(intern!(py, "numpy"))?.call_method1(intern!(py, "asarray"), (x,))?;
    let array = array.cast_into::<PyUntypedArray>().map_err(PyErr::from)?;
    if array.ndim() != 2 {
        return Err(size("X", "2 dimensions, a row for each record", array.ndim()));
    }
    if !matches!(array.dtype().kind(), b'f' | b'i' | b'u' | b'b' | b'O') {
        let kind = array.dtype().str()?.to_string();
        return Err(setting("the type of X", "numbers (encode texts and categories first)", kind));
    }
    // No copy if it already has this type, is row-major and is aligned.
    let plain = require(&array, "float32")?;
    let plain = plain.cast_into::<PyArray2<f32>>().map_err(PyErr::from)?;
    let features = plain.shape()[1];
    if hold == Hold::Call {
        return Ok(Contexts::foreign(Box::new(Held::new(&plain)?), features)?);
    }
    Ok(Contexts::dense(plain.readonly().as_slice().map_err(PyErr::from)?.to_vec(), features)?)
}

/// The array with this type, row-major and aligned; a copy only if needed.
pub(crate) fn require<'py>(array: &Bound<'py, PyAny>, kind: &str) -> Result<Bound<'py, PyAny>> {
    let py = array.py();
    Ok(py.import(intern!(py, "numpy"))?.call_method1(intern!(py, "require"), (array, kind, ["C", "A"]))?)
}

/// An array that is used in place.
struct Held {
    _array: Py<PyArray2<f32>>,
    start: *const f32,
    len: usize,
}

impl Held {
    fn new(array: &Bound<'_, PyArray2<f32>>) -> Result<Self> {
        let (start, len) = {
            let view = array.readonly();
            let values = view.as_slice().map_err(PyErr::from)?;
            (values.as_ptr(), values.len())
        };
        Ok(Held { _array: array.clone().unbind(), start, len })
    }
}

#[expect(unsafe_code, reason = "the array's memory is looked at from other threads")]
mod held {
    use super::{Held, slice};

    // SAFETY: the memory is only ever read, and it is owned by the array, which is held.
    unsafe impl Send for Held {}
    // SAFETY: as above.
    unsafe impl Sync for Held {}

    impl AsRef<[f32]> for Held {
        fn as_ref(&self) -> &[f32] {
            let Held { _array, start, len } = self;
            // SAFETY: a contiguous array of `len` values begins there and lives as long as the array is held. It is
            // held for one call, during which it must not be written to.
            unsafe { slice::from_raw_parts(*start, *len) }
        }
    }
}

fn csr(x: &Bound<'_, PyAny>) -> Result<Contexts> {
    let py = x.py();
    let mut matrix = x.call_method0(intern!(py, "tocsr"))?;
    let found = rows_of(&matrix);
    // Indices may be unsorted or repeated; trying is faster than asking first.
    if found.is_ok() || matrix.getattr(intern!(py, "has_canonical_format"))?.extract::<bool>()? {
        return found;
    }
    if matrix.is(x) {
        matrix = matrix.call_method0(intern!(py, "copy"))?;
    }
    matrix.call_method0(intern!(py, "sum_duplicates"))?;
    rows_of(&matrix)
}

/// The rows of a CSR matrix.
fn rows_of(matrix: &Bound<'_, PyAny>) -> Result<Contexts> {
    let py = matrix.py();
    let numpy = py.import(intern!(py, "numpy"))?;
    let plain =
        |name: &str, kind: &str| numpy.call_method1(intern!(py, "ascontiguousarray"), (matrix.getattr(name)?, kind));
    let features = matrix.getattr(intern!(py, "shape"))?.get_item(1)?.extract::<usize>()?;
    let indices = matrix.getattr(intern!(py, "indices"))?;
    let indices: PyReadonlyArray1<'_, u32> = match indices.cast::<PyArray1<i32>>() {
        // The same bits; a negative index becomes larger than any feature index.
        Ok(narrow) => narrow.call_method1(intern!(py, "view"), ("uint32",))?.extract()?,
        Err(_) => plain("indices", "uint32")?.extract()?,
    };
    let offsets: PyReadonlyArray1<'_, u64> = plain("indptr", "uint64")?.extract()?;
    let values: PyReadonlyArray1<'_, f32> = plain("data", "float32")?.extract()?;
    let offsets = slice_of(&offsets)?.iter().map(|&at| at as usize).collect();
    Ok(Contexts::copied(offsets, slice_of(&indices)?, slice_of(&values)?, features)?)
}

/// A table from any object with Arrow's C stream, and its number of columns. The index of a pandas frame is not a
/// column.
pub(crate) fn table(x: &Bound<'_, PyAny>) -> Result<(Vec<RecordBatch>, usize)> {
    let module: String = x.get_type().getattr("__module__")?.extract()?;
    if module.starts_with("pandas") && x.hasattr("reset_index")? {
        let plain = x.call_method("reset_index", (), Some(&[("drop", true)].into_py_dict(x.py())?))?;
        return table_of(&plain);
    }
    table_of(x)
}

fn table_of(x: &Bound<'_, PyAny>) -> Result<(Vec<RecordBatch>, usize)> {
    let (batches, schema) = x.extract::<PyTable>()?.into_inner();
    Ok((batches, schema.fields().len()))
}

/// The contexts of a table: one feature per column, or lists of features in its only column.
fn frame(batches: &[RecordBatch], width: usize) -> Result<Contexts> {
    let Some(first) = batches.first().filter(|_| width > 0) else {
        return if width > 0 {
            Ok(Contexts::dense(Vec::new(), width)?)
        } else {
            Err(size("X", "at least 1 column", 0))
        };
    };
    let listed =
        |kind: &DataType| matches!(kind, DataType::FixedSizeList(..) | DataType::List(_) | DataType::LargeList(_));
    match first.num_columns() {
        1 if listed(first.column(0).data_type()) => lists(batches),
        _ => columns(batches),
    }
}

/// An error about a missing number of a table.
fn missing(row: usize, column: &str) -> Failure {
    let (column, allowed, value) = (column.to_owned(), "a number".to_owned(), "missing".to_owned());
    Failure::Core(surefoot::Error::Value { row, column, allowed, value })
}

/// Contexts of lists of numbers, all of the same length.
fn lists(batches: &[RecordBatch]) -> Result<Contexts> {
    let name = batches[0].schema().field(0).name().clone();
    let (mut values, mut width, mut row) = (Vec::new(), None, 0);
    for batch in batches {
        let item = |kind| Arc::new(Field::new("item", kind, true));
        let lists = arrow_cast::cast(batch.column(0), &DataType::LargeList(item(DataType::Float32)))
            .map_err(|e| setting(&format!("column {name}"), "lists of numbers", e))?;
        let lists = lists.as_list::<i64>();
        for i in 0..lists.len() {
            if lists.is_null(i) {
                return Err(missing(row, &name));
            }
            let list = lists.value(i);
            let list = list.as_primitive::<Float32Type>();
            if list.null_count() > 0 {
                return Err(missing(row, &name));
            }
            let expected = *width.get_or_insert(list.len());
            if list.len() != expected {
                let what = format!("row {row}: the list in {name}");
                return Err(size(what, format!("{expected} numbers, as the first"), list.len()));
            }
            values.extend_from_slice(list.values());
            row += 1;
        }
    }
    Ok(Contexts::dense(values, width.unwrap_or(0))?)
}

/// Contexts of columns of numbers.
fn columns(batches: &[RecordBatch]) -> Result<Contexts> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let features = batches[0].num_columns();
    let mut values = vec![0f32; rows * features];
    let mut start = 0;
    for batch in batches {
        for (f, (column, field)) in batch.columns().iter().zip(batch.schema().fields()).enumerate() {
            if !(column.data_type().is_numeric() || column.data_type() == &DataType::Boolean) {
                let name = format!("the type of column {}", field.name());
                let allowed = "a number (encode texts and categories, or hand the whole frame to surefoot.open_logs)";
                return Err(setting(&name, allowed, column.data_type()));
            }
            let cast = arrow_cast::cast(column, &DataType::Float32)
                .map_err(|e| setting(&format!("column {}", field.name()), "a number", e))?;
            let cast = cast.as_primitive::<Float32Type>();
            if let Some(row) = (0..cast.len()).find(|&row| cast.is_null(row)) {
                return Err(missing(start + row, field.name()));
            }
            for (row, &value) in cast.values().iter().enumerate() {
                values[(start + row) * features + f] = value;
            }
        }
        start += batch.num_rows();
    }
    Ok(Contexts::dense(values, features)?)
}

/// A column of numbers, without a copy if possible.
pub(crate) fn column<'py, T: Element>(
    values: &Bound<'py, PyAny>,
    name: &str,
    kind: &str,
) -> Result<PyReadonlyArray1<'py, T>> {
    let py = values.py();
    if values.get_type().name()? == "MaskedArray" {
        return Err(setting(name, "an array without a mask", "a masked one"));
    }
    let found = py.import(intern!(py, "numpy"))?.call_method1(intern!(py, "asarray"), (values,))?;
    let found = found.cast_into::<PyUntypedArray>().map_err(PyErr::from)?;
    if !matches!(found.dtype().kind(), b'f' | b'i' | b'u' | b'b' | b'O') {
        return Err(setting(&format!("the type of {name}"), "numbers", found.dtype().str()?));
    }
    let array = require(&found, kind)?;
    if found.ndim() != 1 {
        return Err(size(name, "1 dimension, an entry for each record", found.ndim()));
    }
    Ok(array.extract()?)
}

/// A matrix of `f64`, without a copy if possible.
pub(crate) fn numbers2<'py>(values: &Bound<'py, PyAny>, name: &str) -> Result<PyReadonlyArray2<'py, f64>> {
    let py = values.py();
    let array = py.import(intern!(py, "numpy"))?.call_method1(intern!(py, "asarray"), (values, "float64"))?;
    let dimensions: usize = array.getattr(intern!(py, "ndim"))?.extract()?;
    if dimensions != 2 {
        return Err(size(name, "2 dimensions", dimensions));
    }
    Ok(array.extract()?)
}

/// A column of `f64`.
pub(crate) fn numbers<'py>(values: &Bound<'py, PyAny>, name: &str) -> Result<PyReadonlyArray1<'py, f64>> {
    column(values, name, "float64")
}

pub(crate) fn slice_of<'a, T: Element>(array: &'a PyReadonlyArray1<'_, T>) -> Result<&'a [T]> {
    Ok(array.as_slice().map_err(PyErr::from)?)
}

/// A column of actions: whole numbers from 0 on.
pub(crate) fn actions(values: &Bound<'_, PyAny>) -> Result<Vec<u32>> {
    let numbers = numbers(values, "action")?;
    let action = |(row, &a): (usize, &f64)| {
        if a.fract() == 0.0 && (0.0..4_294_967_296.0).contains(&a) {
            return Ok(a as u32);
        }
        Err(Failure::Core(surefoot::Error::Value {
            row,
            column: "action".into(),
            allowed: "a whole number from 0 on".into(),
            value: a.to_string(),
        }))
    };
    slice_of(&numbers)?.iter().enumerate().map(action).collect()
}

/// The eligible actions: a boolean matrix with one column per action, or a list of actions for each record.
pub(crate) fn eligible(sets: Option<&Bound<'_, PyAny>>) -> Result<Option<Eligible>> {
    let Some(sets) = sets.filter(|sets| !sets.is_none()) else { return Ok(None) };
    if let Ok(mask) = sets.cast::<PyArray2<bool>>() {
        let (mask, k) = (mask.readonly(), mask.shape()[1]);
        let set = |row: usize| {
            let allowed = |a: &u32| mask.get((row, *a as usize)).is_some_and(|&is| is);
            (0..k as u32).filter(allowed).collect::<Vec<u32>>()
        };
        return Ok(Some(Eligible::new((0..mask.shape()[0]).map(set))?));
    }
    // Booleans in nested lists are a mask too, not actions.
    if let Ok(array) = sets.py().import("numpy")?.call_method1("asarray", (sets,))
        && !sets.is_instance_of::<PyUntypedArray>()
        && array.cast::<PyArray2<bool>>().is_ok()
    {
        return eligible(Some(&array));
    }
    // A numeric matrix could mean either.
    if let Ok(array) = sets.cast::<PyUntypedArray>()
        && array.dtype().kind() != b'O'
    {
        let allowed = "a matrix of truth values, or a list of actions for each record";
        return Err(setting("eligible", allowed, format!("a matrix of {}", array.dtype().str()?)));
    }
    let sets: Vec<Vec<u32>> = sets.extract()?;
    Ok(Some(Eligible::new(sets)?))
}

/// The contexts, and what could be chosen in each: eligible actions or candidates with features, if one of them is given.
///
/// Candidates come in several forms, which Python brings into one: the features of all candidates, a row for each, and the
/// number of candidates of each record.
pub(crate) fn contexts_and_sets(
    x: &Bound<'_, PyAny>,
    hold: Hold,
    eligible: Option<&Bound<'_, PyAny>>,
    candidates: Option<&Bound<'_, PyAny>>,
) -> Result<(Contexts, Option<Eligible>)> {
    let Some(candidates) = candidates.filter(|candidates| !candidates.is_none()) else {
        return Ok((contexts(x, hold)?, self::eligible(eligible)?));
    };
    if eligible.is_some_and(|sets| !sets.is_none()) {
        return Err(setting("eligible", "not given beside candidates, which are the eligible ones", "given"));
    }
    let stacked = x.py().import("surefoot._candidates")?.call_method1("stacked", (x, candidates))?;
    let (x, features, counts): (Bound<'_, PyAny>, Bound<'_, PyAny>, Vec<usize>) = stacked.extract()?;
    let x = contexts(&x, hold)?;
    if counts.len() != x.len() {
        let expected = format!("{} entries, one for each row of X", x.len());
        return Err(size("candidates", expected, counts.len()));
    }
    let offsets: Vec<usize> = std::iter::once(0)
        .chain(counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        }))
        .collect();
    let features = contexts(&features, hold).map_err(|failure| in_record(failure, &offsets))?;
    Ok((x, Some(Eligible::candidates(offsets, features)?)))
}

/// An error about a row of all candidates, as one about a candidate of a record.
fn in_record(failure: Failure, offsets: &[usize]) -> Failure {
    match failure {
        Failure::Core(surefoot::Error::Value { row, column, allowed, value }) => {
            let record = offsets.partition_point(|&start| start <= row).saturating_sub(1);
            let column = format!("candidate {}, {column}", row - offsets[record]);
            Failure::Core(surefoot::Error::Value { row: record, column, allowed, value })
        }
        other => other,
    }
}

/// A matrix with this many columns.
pub(crate) fn matrix<T: Element>(py: Python<'_>, values: Vec<T>, columns: usize) -> Result<Bound<'_, PyArray2<T>>> {
    let rows = values.len() / columns;
    Ok(PyArray1::from_vec(py, values).reshape([rows, columns])?)
}

/// Contexts as a NumPy matrix, or as the three parts and the width of a SciPy sparse matrix.
pub(crate) fn to_python<'py>(py: Python<'py>, contexts: &Contexts) -> Result<Bound<'py, PyAny>> {
    if !contexts.is_sparse() {
        let values = contexts.iter().flat_map(|row| row.values().iter().copied()).collect();
        return Ok(matrix(py, values, contexts.features())?.into_any());
    }
    let (mut offsets, mut indices, mut values): (Vec<i64>, Vec<i64>, Vec<f32>) = (vec![0], Vec::new(), Vec::new());
    for row in contexts.iter() {
        if let Row::Sparse { values: stored, .. } = row {
            row.for_each(|f, _| indices.push(i64::from(f as u32)));
            values.extend_from_slice(stored);
        }
        offsets.push(i64::try_from(values.len()).unwrap_or(i64::MAX));
    }
    let parts = (PyArray1::from_vec(py, values), PyArray1::from_vec(py, indices), PyArray1::from_vec(py, offsets));
    let shape = (contexts.len(), contexts.features());
    let scipy = py.import(intern!(py, "scipy.sparse"))?;
    Ok(scipy.call_method1(intern!(py, "csr_matrix"), (parts, shape))?)
}
