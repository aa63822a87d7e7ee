//! Writing columns as Open Bandit Pipeline's arrays.
//!
//! The archive needs one array after the other, each with its shape first, but each batch has a part of every array. So
//! every array is written to a temporary file, and all are copied to the archive at the end. They are stored
//! uncompressed, as numpy does.
//!
//! The features are the columns of `context`, in the order of the schema: all entries of the list `context`, and every
//! other column of numbers or booleans, also `position`: the array of that name is for slates, and is 0 here. The features of `context_indices` and `context_values` come first, in dense
//! form. Candidates are `action_context` ([`super::actions`]). Columns that have no place (text, named features, eligible actions, ...) are rejected by name, and so are
//! nulls.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::actions::ActionContext;
use super::numbers::Column;
use crate::error::{Error, Result};
use crate::npy::Header;

/// Sparse features are made dense up to this number.
const WIDEST: u32 = 4096;

/// What becomes of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Role {
    Action,
    Reward,
    Pscore,
    Probabilities,
    ActionDist,
    /// A number or a list, as features.
    Feature,
    Indices,
    Values,
    Candidates,
}

pub(crate) fn write(
    place: &str,
    out: &mut dyn Write,
    schema: &SchemaRef,
    tables: &mut dyn Iterator<Item = Result<RecordBatch>>,
) -> Result<()> {
    let roles = roles(place, schema)?;
    let failed = |reason| Error::Write { place: place.to_owned(), reason };
    let mut rounds = Rounds::new(place, schema, roles).map_err(failed)?;
    for table in tables {
        rounds.add(&table?)?;
    }
    rounds.finish(out).map_err(failed)
}

/// What becomes of each column.
fn roles(place: &str, schema: &SchemaRef) -> Result<Vec<Role>> {
    let mut roles = Vec::new();
    for field in schema.fields() {
        let (name, data_type) = (field.name().as_str(), field.data_type());
        let list = matches!(data_type, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..));
        let number = |data_type: &DataType| data_type.is_numeric() || data_type == &DataType::Boolean;
        roles.push(match name {
            "action" if data_type.is_integer() => Role::Action,
            "reward" if number(data_type) => Role::Reward,
            "pscore" if number(data_type) => Role::Pscore,
            "probabilities" if list => Role::Probabilities,
            "action_dist" if list => Role::ActionDist,
            "context" if list => Role::Feature,
            "context_indices" if list && schema.column_with_name("context_values").is_some() => Role::Indices,
            "context_values" if list && schema.column_with_name("context_indices").is_some() => Role::Values,
            "candidates" if list => Role::Candidates,
            "action" | "reward" | "pscore" | "eligible" | "pdrop" | "skip" => {
                return Err(no_place(place, name, data_type));
            }
            _ if number(data_type) => Role::Feature,
            _ => return Err(no_place(place, name, data_type)),
        });
    }
    for (role, column) in [(Role::Action, "action"), (Role::Pscore, "pscore"), (Role::Reward, "reward")] {
        if !roles.contains(&role) {
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            let (place, column) = (place.to_owned(), column.to_owned());
            return Err(Error::MissingColumn { place, column, found: names.join(", ") });
        }
    }
    Ok(roles)
}

pub(super) fn no_place(place: &str, column: &str, found: &DataType) -> Error {
    Error::Field {
        place: place.to_owned(),
        column: column.to_owned(),
        allowed: "what Open Bandit Pipeline's arrays have a place for".into(),
        found: format!("of type {found}"),
    }
}

/// An array that is being written.
struct Spool {
    file: BufWriter<File>,
    /// The length of its lists, known after the first row.
    width: Option<usize>,
}

impl Spool {
    fn new() -> io::Result<Self> {
        Ok(Spool { file: BufWriter::with_capacity(1 << 16, tempfile::tempfile()?), width: None })
    }

    fn back(self) -> io::Result<BufReader<File>> {
        let mut file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(0))?;
        Ok(BufReader::with_capacity(1 << 16, file))
    }
}

/// The arrays, and statistics of all records so far.
struct Rounds<'a> {
    place: &'a str,
    schema: &'a SchemaRef,
    roles: Vec<Role>,
    rows: u64,
    /// One more than the largest action, and the number of sparse features.
    actions: i64,
    sparse: u32,
    /// The number of dense features.
    dense: usize,
    action: Spool,
    reward: Spool,
    pscore: Spool,
    context: Spool,
    /// For each record the number of sparse features, then their indices and values.
    features: Spool,
    probabilities: Spool,
    action_dist: Spool,
    candidates: ActionContext,
    /// A buffer for a row of one array.
    bytes: Vec<u8>,
}

impl<'a> Rounds<'a> {
    fn new(place: &'a str, schema: &'a SchemaRef, roles: Vec<Role>) -> io::Result<Self> {
        Ok(Rounds {
            place,
            schema,
            roles,
            rows: 0,
            actions: 0,
            sparse: 0,
            dense: 0,
            action: Spool::new()?,
            reward: Spool::new()?,
            pscore: Spool::new()?,
            context: Spool::new()?,
            features: Spool::new()?,
            probabilities: Spool::new()?,
            action_dist: Spool::new()?,
            candidates: ActionContext::default(),
            bytes: Vec::new(),
        })
    }

    fn add(&mut self, table: &RecordBatch) -> Result<()> {
        let schema = table.schema();
        if schema.fields() != self.schema.fields() {
            let reason = format!("every batch should have the columns {}, but one has {schema}", self.schema);
            return Err(Error::Malformed { place: self.place.to_owned(), reason });
        }
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let columns = table.columns().iter().zip(&names).zip(&self.roles);
        let columns: Vec<Option<Column<'_>>> = columns
            .map(|((array, name), role)| match role {
                Role::Candidates => self.candidates.add(self.place, self.rows, array).map(|()| None),
                _ => Column::new(array).map(Some).ok_or_else(|| no_place(self.place, name, array.data_type())),
            })
            .collect::<Result<_>>()?;
        for row in 0..table.num_rows() {
            self.row(row, &columns, &names)?;
            self.rows += 1;
        }
        Ok(())
    }

    fn row(&mut self, row: usize, columns: &[Option<Column<'_>>], names: &[&str]) -> Result<()> {
        let (place, at) = (self.place, self.rows);
        let wrong = |column: usize, allowed: String, found: String| {
            let place = format!("{place}, row {at}");
            Error::Field { place, column: names[column].to_owned(), allowed, found }
        };
        let failed = |reason| Error::Write { place: place.to_owned(), reason };
        let values = |column: usize| {
            let found = columns[column].as_ref().map_or(Some(Vec::new()), |column| column.row(row));
            found.ok_or_else(|| wrong(column, "a number everywhere".into(), "null".into()))
        };
        let (mut features, mut indices, mut sparse) = (0, None, None);
        for (column, role) in self.roles.iter().enumerate() {
            let found = values(column)?;
            let spool = match role {
                Role::Action => {
                    let allowed = || "from 0 to 4294967295".into();
                    let number = u32::try_from(found[0] as i64).ok().filter(|&number| f64::from(number) == found[0]);
                    let number = i64::from(number.ok_or_else(|| wrong(column, allowed(), found[0].to_string()))?);
                    self.actions = self.actions.max(number + 1);
                    self.action.file.write_all(&number.to_le_bytes()).map_err(failed)?;
                    continue;
                }
                Role::Candidates => continue,
                Role::Indices => {
                    indices = Some(found);
                    continue;
                }
                Role::Values => {
                    sparse = Some(found);
                    continue;
                }
                Role::Feature => {
                    features += found.len();
                    &mut self.context
                }
                Role::Reward => &mut self.reward,
                Role::Pscore => &mut self.pscore,
                Role::Probabilities => &mut self.probabilities,
                Role::ActionDist => &mut self.action_dist,
            };
            if *role != Role::Feature || names[column] == "context" {
                let width = *spool.width.get_or_insert(found.len());
                if width != found.len() {
                    let allowed = format!("of {width} entries, as in row 0");
                    return Err(wrong(column, allowed, format!("of {}", found.len())));
                }
            }
            self.bytes.clear();
            self.bytes.extend(found.iter().flat_map(|value| value.to_le_bytes()));
            spool.file.write_all(&self.bytes).map_err(failed)?;
        }
        self.dense = features;
        self.check_actions(names)?;
        match indices.zip(sparse) {
            Some((indices, values)) => self.sparse_row(&indices, &values),
            None => Ok(()),
        }
    }

    fn sparse_row(&mut self, indices: &[f64], values: &[f64]) -> Result<()> {
        let place = self.place;
        let at = format!("{place}, row {}", self.rows);
        let wrong = |allowed: String, found: String| {
            let column = "context_indices".into();
            Error::Field { place: at.clone(), column, allowed, found }
        };
        if indices.len() != values.len() {
            let allowed = format!("of {} entries, as context_values", values.len());
            return Err(wrong(allowed, format!("of {}", indices.len())));
        }
        self.bytes.clear();
        self.bytes.extend((indices.len() as u64).to_le_bytes());
        for (index, value) in indices.iter().zip(values) {
            if !(*index >= 0.0 && *index < f64::from(WIDEST)) {
                let allowed = format!("from 0 to {}, since the array is dense", WIDEST - 1);
                return Err(wrong(allowed, index.to_string()));
            }
            let index = *index as u32;
            self.sparse = self.sparse.max(index + 1);
            self.bytes.extend(index.to_le_bytes());
            self.bytes.extend(value.to_le_bytes());
        }
        let written = self.features.file.write_all(&self.bytes);
        written.map_err(|reason| Error::Write { place: place.to_owned(), reason })
    }

    /// Checks that the lists cover all actions, and that each record's action is one of them.
    fn check_actions(&self, names: &[&str]) -> Result<()> {
        let widths = [(Role::Probabilities, self.probabilities.width), (Role::ActionDist, self.action_dist.width)];
        let most = widths.iter().filter_map(|(_, width)| *width).max();
        let most = most.map_or(0, |width| width as u64).max(self.actions.cast_unsigned());
        for (role, width) in widths {
            if let Some(width) = width.filter(|&width| (width as u64) < most) {
                let column = self.roles.iter().position(|found| *found == role).map_or("", |column| names[column]);
                return Err(Error::Field {
                    place: format!("{}, row {}", self.place, self.rows),
                    column: column.to_owned(),
                    allowed: format!("of {most} entries, one for each action"),
                    found: format!("of {width}"),
                });
            }
        }
        Ok(())
    }

    /// Copies all arrays into the archive.
    fn finish(self, out: &mut dyn Write) -> io::Result<()> {
        let rows = usize::try_from(self.rows).map_err(io::Error::other)?;
        let has = |role| self.roles.contains(&role);
        let listed = self.probabilities.width.max(self.action_dist.width).unwrap_or(0);
        let listed = listed.max(self.candidates.actions());
        let actions = self.actions.max(i64::try_from(listed).map_err(io::Error::other)?);
        let mut archive = Arrays(ZipWriter::new_stream(out));
        archive.start("n_rounds", "<i8", &[])?.write_all(&self.rows.to_le_bytes())?;
        archive.start("n_actions", "<i8", &[])?.write_all(&actions.to_le_bytes())?;
        let (sparse, dense) = (self.sparse as usize, self.dense);
        let to = archive.start("context", "<f8", &[rows, sparse + dense])?;
        if has(Role::Indices) {
            densify(self.features.back()?, self.context.back()?, rows, sparse, dense, to)?;
        } else {
            io::copy(&mut self.context.back()?, to)?;
        }
        if has(Role::Candidates) {
            let to = archive.start("action_context", "<f8", &self.candidates.shape())?;
            self.candidates.values().iter().try_for_each(|value| to.write_all(&value.to_le_bytes()))?;
        }
        io::copy(&mut self.action.back()?, archive.start("action", "<i8", &[rows])?)?;
        io::copy(&mut io::repeat(0).take(8 * self.rows), archive.start("position", "<i8", &[rows])?)?;
        io::copy(&mut self.reward.back()?, archive.start("reward", "<f8", &[rows])?)?;
        io::copy(&mut self.pscore.back()?, archive.start("pscore", "<f8", &[rows])?)?;
        let lists =
            [("pi_b", Role::Probabilities, self.probabilities), ("action_dist", Role::ActionDist, self.action_dist)];
        for (name, role, spool) in lists {
            if self.roles.contains(&role) {
                let shape = [rows, spool.width.unwrap_or(0), 1];
                io::copy(&mut spool.back()?, archive.start(name, "<f8", &shape)?)?;
            }
        }
        archive.0.finish()?.into_inner().flush()
    }
}

/// Writes rows with the sparse features in dense form, followed by the dense ones.
fn densify(
    mut features: impl Read,
    mut rest: impl Read,
    rows: usize,
    sparse: usize,
    dense: usize,
    to: &mut impl Write,
) -> io::Result<()> {
    fn next<const N: usize>(input: &mut impl Read) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        input.read_exact(&mut bytes).map(|()| bytes)
    }
    for _ in 0..rows {
        let mut row = vec![0; 8 * sparse];
        for _ in 0..u64::from_le_bytes(next(&mut features)?) {
            let place = 8 * u32::from_le_bytes(next(&mut features)?) as usize;
            row[place..place + 8].copy_from_slice(&next::<8>(&mut features)?);
        }
        to.write_all(&row)?;
        io::copy(&mut rest.by_ref().take(8 * dense as u64), to)?;
    }
    Ok(())
}

/// The archive, array by array.
struct Arrays<'a>(ZipWriter<StreamWriter<&'a mut dyn Write>>);

impl<'a> Arrays<'a> {
    fn start(
        &mut self,
        array: &str,
        descr: &str,
        shape: &[usize],
    ) -> io::Result<&mut ZipWriter<StreamWriter<&'a mut dyn Write>>> {
        let header = Header { descr: descr.into(), fortran: false, shape: shape.to_vec() }.bytes();
        let size = shape.iter().fold(8, |size: u64, &n| size.saturating_mul(n as u64));
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            // A fixed time, so that the same records give the same bytes.
            .last_modified_time(DateTime::default())
            .large_file(size > u64::from(u32::MAX / 2));
        self.0.start_file(format!("{array}.npy"), options)?;
        self.0.write_all(&header)?;
        Ok(&mut self.0)
    }
}
