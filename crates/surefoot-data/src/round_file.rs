//! Round files: rounds of logs.

use std::path::Path;

use serde::{Deserialize, Serialize};
use surefoot::contexts::{Indices, Row};
use surefoot::logs::Eligible;
use surefoot::{Contexts, Fingerprint, Logs};

use crate::error::{Error, Result, at};
use crate::files::Together;
use crate::tensors::{Tensor, Tensors, check_fingerprint, write};

const FORMAT: &str = "surefoot-round";
/// Version 2: the fingerprint is a tree over chunks of records.
const VERSION: u64 = 2;

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
        policy_version: logs.policy_version().to_owned(),
        policy,
        fingerprint: logs.fingerprint(),
    };
    let mut tensors = vec![
        Tensor::new("action", &[n], logs.action().iter().copied()),
        Tensor::new("propensity", &[n], logs.propensity().iter().copied()),
        Tensor::new("cost", &[n], logs.cost().iter().copied()),
    ];
    let values = || contexts.iter().flat_map(|row| row.values().iter().copied());
    if contexts.is_sparse() {
        let offsets = offsets(contexts.iter().map(|row| row.values().len()));
        let stored = offsets[n] as usize;
        tensors.push(Tensor::new("context.offsets", &[n + 1], offsets));
        tensors.push(Tensor::new("context.indices", &[stored], contexts.iter().flat_map(indices)));
        tensors.push(Tensor::new("context.values", &[stored], values()));
    } else {
        tensors.push(Tensor::new("context", &[n, contexts.features()], values()));
    }
    if let Some(eligible) = logs.eligible() {
        let sets = || (0..n).map(|i| eligible.get(i));
        let offsets = offsets(sets().map(<[u32]>::len));
        let stored = offsets[n] as usize;
        tensors.push(Tensor::new("eligible.offsets", &[n + 1], offsets));
        tensors.push(Tensor::new("eligible.actions", &[stored], sets().flatten().copied()));
    }
    let mut together = Together::default();
    write(&mut together, path, &header, tensors)?;
    together.commit()
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

/// Reads a round of logs.
pub fn read_round(path: &Path) -> Result<SavedRound> {
    let file = Tensors::read(path)?;
    let place = file.place();
    let header: Header = file.header(FORMAT, VERSION)?;
    let (sparse, restricted) = (file.has("context.offsets"), file.has("eligible.offsets"));
    let mut names = vec!["action", "propensity", "cost"];
    names.extend_from_slice(match sparse {
        true => &["context.offsets", "context.indices", "context.values"],
        false => &["context"],
    });
    if restricted {
        names.extend_from_slice(&["eligible.offsets", "eligible.actions"]);
    }
    file.expect(&names)?;

    let n = header.records;
    let contexts = if sparse {
        let offsets = list_of_offsets(&file, "context.offsets", n)?;
        let (indices, values) = (file.list("context.indices")?, file.list("context.values")?);
        Contexts::sparse(offsets, indices, values, header.features)
    } else {
        Contexts::dense(file.items("context", &[n, header.features])?, header.features)
    };
    let contexts = at(&file.place_of("context"), contexts)?;
    let (action, propensity) = (file.items("action", &[n])?, file.items("propensity", &[n])?);
    let logs = Logs::new(header.actions, contexts, action, propensity, file.items("cost", &[n])?);
    let mut logs = at(place, logs)?;
    if restricted {
        let sets = eligible(&file, n)?;
        logs = at(place, logs.with_eligible(sets))?;
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
