//! The binary files of CIFAR-10 and CIFAR-100: each record has one or two labels and an image.

use std::path::PathBuf;

use surefoot::contexts::{ContextsBuilder, Labelled};

use crate::error::{Error, Result, at};
use crate::idx::brightness;
use crate::source::Source;

/// Three planes, red, green and blue, of 32 x 32 pixels.
const PIXELS: usize = 3 * 32 * 32;

/// A byte before the pixels.
#[derive(Debug)]
pub(crate) struct Label {
    name: &'static str,
    classes: u8,
}

pub(crate) const CIFAR_10: &[Label] = &[Label { name: "label", classes: 10 }];
pub(crate) const CIFAR_100: &[Label] =
    &[Label { name: "coarse label", classes: 20 }, Label { name: "fine label", classes: 100 }];

/// Reads a split from its files. If a record has several labels, the last one is taken, which is the finest.
pub(crate) fn split(files: &[PathBuf], labels: &[Label]) -> Result<Labelled> {
    let brightness = brightness();
    // Read twice, to count and then to build, so that only the result stays in memory.
    let (mut filled, mut classes) = (0, Vec::new());
    for file in files {
        let mut source = Source::open(file)?;
        let place = source.place().to_owned();
        let count = source.records(labels.len() + PIXELS, |first, bytes| {
            for (record, bytes) in (first..).zip(bytes.chunks_exact(labels.len() + PIXELS)) {
                let (head, pixels) = bytes.split_at(labels.len());
                check(&place, record, head, labels)?;
                classes.extend(head.last().map(|&class| u32::from(class)));
                filled += pixels.iter().filter(|&&byte| byte != 0).count();
            }
            Ok(())
        })?;
        if count == 0 {
            return Err(Error::Records { place, width: labels.len() + PIXELS, found: "is empty".into() });
        }
    }
    let place = files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ");
    let mut contexts = at(&place, ContextsBuilder::new(classes.len(), PIXELS, filled))?;
    for file in files {
        Source::open(file)?.records(labels.len() + PIXELS, |_, bytes| {
            bytes.chunks_exact(labels.len() + PIXELS).try_for_each(|bytes| {
                at(&place, contexts.extend(bytes[labels.len()..].iter().map(|&byte| brightness[usize::from(byte)])))
            })
        })?;
    }
    at(&place, Labelled::new(at(&place, contexts.finish())?, classes))
}

fn check(place: &str, record: usize, head: &[u8], labels: &[Label]) -> Result<()> {
    for (&value, label) in head.iter().zip(labels) {
        if value >= label.classes {
            return Err(Error::Record {
                place: place.to_owned(),
                record,
                part: label.name,
                allowed: format!("from 0 to {}", label.classes - 1),
                value,
            });
        }
    }
    Ok(())
}
