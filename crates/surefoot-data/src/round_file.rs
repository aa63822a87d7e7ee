//! Round files: rounds of logs.

use std::path::Path;

use serde::{Deserialize, Serialize};
use surefoot::contexts::{Column, ContextColumns, IndexColumn, Indices, Row};
use surefoot::logs::Eligible;
use surefoot::{Contexts, Fingerprint, Logs};

use crate::error::{Error, Result, at};
use crate::files::{Together, size};
use crate::mapped_file::spooled;
use crate::tensors::{Tensor, Tensors, check_fingerprint, write};

const FORMAT: &str = "surefoot-round";
/// Version 2: the fingerprint is a tree over chunks of records.
const VERSION: u64 = 2;

/// A round file of so many bytes is mapped.
const MAPPED: u64 = 1 << 24;

/// The number of rows that are looked at together.
const PIECE: usize = 8192;

/// A round of logs, and the policy that collected it.
#[derive(Debug, Clone)]
pub struct SavedRound {
    /// The logs.
    pub logs: Logs,
    /// The fingerprint of the policy that collected them, if known.
    pub policy: Option<Fingerprint>,
}

/// The metadata of a round file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    version: u64,
    records: usize,
    actions: usize,
    features: usize,
    /// The number of features of a candidate. Absent without candidates, and in old files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    candidates: Option<usize>,
    policy_version: String,
    policy: Option<Fingerprint>,
    fingerprint: Fingerprint,
}

/// Writes a round of logs, with the fingerprint of the policy that collected it.
pub fn write_round(path: &Path, logs: &Logs, policy: Option<Fingerprint>) -> Result<()> {
    let (n, contexts) = (logs.len(), logs.contexts());
    if contexts.len() != n {
        let (what, expected) = ("the contexts".into(), format!("{n} rows, one for each record"));
        let reason = surefoot::Error::Size { what, expected, found: contexts.len() };
        return Err(Error::Content { place: path.display().to_string(), reason });
    }
    let header = Header {
        format: FORMAT.into(),
        version: VERSION,
        records: n,
        actions: logs.actions(),
        features: contexts.features(),
        candidates: logs.eligible().and_then(Eligible::features),
        policy_version: logs.policy_version().to_owned(),
        policy,
        fingerprint: logs.fingerprint(),
    };
    let mut tensors = vec![
        Tensor::new("action", &[n], logs.action().iter().copied()),
        Tensor::new("propensity", &[n], logs.propensity().iter().copied()),
        Tensor::new("cost", &[n], logs.cost().iter().copied()),
    ];
    rows_of(&mut tensors, &CONTEXT, || contexts.iter(), [n, contexts.features()], contexts.is_sparse());
    if let Some(eligible) = logs.eligible() {
        let sets = move || (0..n).map(move |i| eligible.get(i));
        let offsets = offsets(sets().map(<[u32]>::len));
        let stored = offsets[n] as usize;
        match eligible.features() {
            None => {
                tensors.push(Tensor::new("eligible.offsets", &[n + 1], offsets));
                tensors.push(Tensor::new("eligible.actions", &[stored], sets().flatten().copied()));
            }
            Some(features) => {
                tensors.push(Tensor::new("candidates.offsets", &[n + 1], offsets));
                let of = move |i: usize| (0..eligible.get(i).len()).filter_map(move |a| eligible.candidate(i, a));
                let rows = move || (0..n).flat_map(of);
                let sparse = matches!(rows().next(), Some(Row::Sparse { .. }));
                rows_of(&mut tensors, &CANDIDATE, rows, [stored, features], sparse);
            }
        }
    }
    let mut together = Together::default();
    write(&mut together, path, &header, tensors)?;
    together.commit()
}

/// The names of the tensors of rows of features: dense, or sparse.
struct Names {
    dense: &'static str,
    offsets: &'static str,
    indices: &'static str,
    values: &'static str,
}

const CONTEXT: Names =
    Names { dense: "context", offsets: "context.offsets", indices: "context.indices", values: "context.values" };

const CANDIDATE: Names = Names {
    dense: "candidate",
    offsets: "candidate.offsets",
    indices: "candidate.indices",
    values: "candidate.values",
};

impl Names {
    /// Those that a file has.
    fn of(&self, file: &Tensors) -> Vec<&'static str> {
        match file.has(self.offsets) {
            true => vec![self.offsets, self.indices, self.values],
            false => vec![self.dense],
        }
    }

    /// Maps rows of `features` features. What the file does not have, norms and indices of 16 bits, goes to temporary files.
    fn map(&self, file: &Tensors, rows: usize, features: usize) -> Result<Contexts> {
        let at_rows = |reason| Error::Content { place: file.place_of(self.dense), reason };
        let pieces = || (0..rows).step_by(PIECE).map(|start| start..(start + PIECE).min(rows));
        let columns = if file.has(self.offsets) {
            let stored = file.shape(self.values).and_then(|shape| shape.first().copied()).unwrap_or(0);
            let offsets: Column<usize> = list_of_offsets(file, self.offsets, rows)?.into();
            let values: Column<f32> = file.column(self.values, &[stored])?;
            let indices: Column<u32> = file.column(self.indices, &[stored])?;
            // Checked before it is used: the rows of a piece are copied by it.
            if offsets[0] != 0 || offsets[rows] != stored || offsets.windows(2).any(|pair| pair[0] > pair[1]) {
                return self.read(file, rows, features);
            }
            let norms = spooled(pieces().map(|piece| {
                let (from, to) = (offsets[piece.start], offsets[piece.end]);
                let own = piece.clone().chain([piece.end]).map(|i| offsets[i] - from).collect();
                let part = Contexts::copied(own, &indices[from..to], &values[from..to], features).map_err(at_rows)?;
                Ok((0..part.len()).map(|i| part.norm(i)).collect())
            }))?;
            let indices = match features <= IndexColumn::NARROW {
                false => IndexColumn::Wide(indices),
                true => IndexColumn::Narrow(spooled(
                    // An index that does not fit was refused above.
                    indices.chunks(PIECE).map(|piece| Ok(piece.iter().map(|&index| index as u16).collect())),
                )?),
            };
            ContextColumns { features, values, norms, places: Some((offsets, indices)) }
        } else {
            let values: Column<f32> = file.column(self.dense, &[rows, features])?;
            let norms = spooled(pieces().map(|piece| {
                let part = values[piece.start * features..piece.end * features].to_vec();
                let part = Contexts::dense(part, features).map_err(at_rows)?;
                Ok((0..part.len()).map(|i| part.norm(i)).collect())
            }))?;
            ContextColumns { features, values, norms, places: None }
        };
        Contexts::of_columns(columns).map_err(at_rows)
    }

    /// Reads rows of `features` features.
    fn read(&self, file: &Tensors, rows: usize, features: usize) -> Result<Contexts> {
        let contexts = if file.has(self.offsets) {
            let offsets = list_of_offsets(file, self.offsets, rows)?;
            Contexts::sparse(offsets, file.list(self.indices)?, file.list(self.values)?, features)
        } else {
            Contexts::dense(file.items(self.dense, &[rows, features])?, features)
        };
        at(&file.place_of(self.dense), contexts)
    }
}

/// Adds the tensors of rows of features, dense or sparse.
fn rows_of<'a, I: Iterator<Item = Row<'a>> + 'a>(
    tensors: &mut Vec<Tensor<'a>>,
    names: &Names,
    rows: impl Fn() -> I,
    shape: [usize; 2],
    sparse: bool,
) {
    let values = rows().flat_map(|row| row.values().iter().copied());
    if sparse {
        let offsets = offsets(rows().map(|row| row.values().len()));
        let stored = offsets[shape[0]] as usize;
        tensors.push(Tensor::new(names.offsets, &[shape[0] + 1], offsets));
        tensors.push(Tensor::new(names.indices, &[stored], rows().flat_map(indices)));
        tensors.push(Tensor::new(names.values, &[stored], values));
    } else {
        tensors.push(Tensor::new(names.dense, &shape, values));
    }
}

/// The offsets of consecutive lists with these lengths, including the end of the last one.
fn offsets(lengths: impl Iterator<Item = usize>) -> Vec<u64> {
    let ends = lengths.scan(0, |end, length| {
        *end += length as u64;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

/// The feature indices of a sparse row.
fn indices(row: Row<'_>) -> Box<dyn Iterator<Item = u32> + '_> {
    match row {
        Row::Dense(values) => Box::new(0..values.len() as u32),
        Row::Sparse { indices: Indices::Narrow(indices), .. } => Box::new(indices.iter().map(|&i| u32::from(i))),
        Row::Sparse { indices: Indices::Wide(indices), .. } => Box::new(indices.iter().copied()),
    }
}

/// Reads a round of logs. A large one is mapped, and not held.
pub fn read_round(path: &Path) -> Result<SavedRound> {
    match size(path)? {
        size if size < MAPPED => {
            round(&Tensors::read(path)?, |file, rows, features| CONTEXT.read(file, rows, features))
        }
        _ => mapped_round(path),
    }
}

fn mapped_round(path: &Path) -> Result<SavedRound> {
    round(&Tensors::map(path)?, |file, rows, features| CONTEXT.map(file, rows, features))
}

fn round(file: &Tensors, contexts: impl FnOnce(&Tensors, usize, usize) -> Result<Contexts>) -> Result<SavedRound> {
    let place = file.place();
    let header: Header = file.header(FORMAT, VERSION)?;
    let restricted = file.has("eligible.offsets");
    let mut names = vec!["action", "propensity", "cost"];
    names.extend(CONTEXT.of(file));
    if restricted {
        names.extend_from_slice(&["eligible.offsets", "eligible.actions"]);
    }
    if header.candidates.is_some() {
        names.push("candidates.offsets");
        names.extend(CANDIDATE.of(file));
    }
    file.expect(&names)?;

    let n = header.records;
    let contexts = contexts(file, n, header.features)?;
    let (action, propensity) = (file.column("action", &[n])?, file.column("propensity", &[n])?);
    let logs = Logs::of_columns(header.actions, contexts, action, propensity, file.column("cost", &[n])?);
    let mut logs = at(place, logs)?;
    if restricted {
        let sets = eligible(file, n)?;
        logs = at(place, logs.with_eligible(sets))?;
    }
    if let Some(features) = header.candidates {
        if restricted {
            let (part, allowed, found) = ("candidates".into(), "absent, as there are eligible actions".into(), "given");
            return Err(Error::Header { place: file.place_of("metadata"), part, allowed, found: found.into() });
        }
        let offsets = list_of_offsets(file, "candidates.offsets", n)?;
        let rows = CANDIDATE.read(file, offsets[n], features)?;
        let candidates = at(&file.place_of("candidates.offsets"), Eligible::candidates(offsets, rows))?;
        logs = at(place, logs.with_eligible(candidates))?;
    }
    check_fingerprint(place, header.fingerprint, logs.fingerprint())?;
    Ok(SavedRound { logs: logs.with_policy_version(header.policy_version), policy: header.policy })
}

fn list_of_offsets(file: &Tensors, name: &str, records: usize) -> Result<Vec<usize>> {
    let offsets: Vec<u64> = file.items(name, &[records.saturating_add(1)])?;
    // An offset that does not fit exceeds the length of any list.
    Ok(offsets.into_iter().map(|offset| usize::try_from(offset).unwrap_or(usize::MAX)).collect())
}

fn eligible(file: &Tensors, records: usize) -> Result<Eligible> {
    let offsets = list_of_offsets(file, "eligible.offsets", records)?;
    let actions: Vec<u32> = file.list("eligible.actions")?;
    let bad = |index: usize, allowed| {
        let value = offsets[index].to_string();
        Err(Error::Value { place: file.place_of("eligible.offsets"), index, allowed, value })
    };
    if offsets[0] != 0 {
        return bad(0, "0");
    }
    if offsets[records] != actions.len() {
        return bad(records, "the number of eligible.actions");
    }
    if let Some(i) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
        return bad(i, "at most the next one");
    }
    let sets = offsets.windows(2).map(|pair| &actions[pair[0]..pair[1]]);
    at(file.place(), Eligible::new(sets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_that_is_mapped_is_the_round_that_is_read() {
        let n = 2 * PIECE + 3;
        let dense = Contexts::dense((0..3 * n).map(|i| (i % 17) as f32 - 8.0).collect(), 3).unwrap();
        let sparse = |features: usize| {
            let offsets = (0..=n).map(|i| 2 * i - (i / 3)).collect::<Vec<usize>>();
            let rows = offsets.windows(2).map(|pair| pair[1] - pair[0]);
            let indices = rows.enumerate().flat_map(|(i, stored)| (0..stored).map(move |j| (i % 50 + 60 * j) as u32));
            let values = (0..offsets[n]).map(|i| (i % 5 + 1) as f32).collect();
            Contexts::sparse(offsets.clone(), indices.collect(), values, features).unwrap()
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.safetensors");
        for contexts in [dense, sparse(200), sparse(100_000)] {
            let column = |of: fn(usize) -> f64| (0..n).map(of).collect::<Vec<f64>>();
            let action = (0..n).map(|i| (i % 3) as u32).collect();
            let (propensity, cost) = (column(|i| 1.0 / (2 + i % 7) as f64), column(|i| -((i % 4) as f64) / 4.0));
            let logs = Logs::new(3, contexts, action, propensity, cost).unwrap().with_policy_version("v");
            for logs in [logs.clone(), logs.with_eligible(Eligible::new(vec![vec![0, 1, 2]; n]).unwrap()).unwrap()] {
                write_round(&path, &logs, Some(logs.fingerprint())).unwrap();
                let (read, mapped) = (read_round(&path).unwrap(), mapped_round(&path).unwrap());
                for found in [read, mapped] {
                    assert_eq!(
                        (found.policy, found.logs.fingerprint()),
                        (Some(logs.fingerprint()), logs.fingerprint())
                    );
                    assert_eq!((found.logs.action(), found.logs.cost()), (logs.action(), logs.cost()));
                    assert_eq!(found.logs.eligible().is_some(), logs.eligible().is_some());
                    assert!((0..n).all(|i| found.logs.contexts().norm(i) == logs.contexts().norm(i)));
                }
            }
        }
        // What is wrong with a file is said in the same words.
        let good = std::fs::read(&path).unwrap();
        for place in [good.len() - 5, good.len() - 8 * n, 400] {
            let mut bad = good.clone();
            bad[place] ^= 0x55;
            std::fs::write(&path, &bad).unwrap();
            let said = |round: Result<SavedRound>| round.map(|_| ()).map_err(|error| error.to_string());
            assert_eq!(said(read_round(&path)), said(mapped_round(&path)));
        }
    }
}
