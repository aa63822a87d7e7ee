//! The column `candidates`, for the formats whose features have names (dsjson and Vowpal Wabbit's text).

use std::mem;
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, ListBuilder, StringBuilder};
use arrow_array::{Array, ArrayRef, ListArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::Field;

/// A candidate of a decision.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Candidate {
    pub(super) id: Option<String>,
    /// Names and values of the non-zero features.
    pub(super) features: Vec<(String, f32)>,
}

impl Candidate {
    /// Whether it has neither features nor an identity.
    pub(super) fn is_bare(&self) -> bool {
        self.id.is_none() && self.features.is_empty()
    }
}

/// The column of the candidates of a batch.
#[derive(Default)]
pub(super) struct Candidates {
    id: StringBuilder,
    names: ListBuilder<StringBuilder>,
    values: ListBuilder<Float32Builder>,
    lengths: Vec<usize>,
    known: Vec<bool>,
}

impl Candidates {
    pub(super) fn push(&mut self, candidates: Option<&[Candidate]>) {
        for Candidate { id, features } in candidates.unwrap_or_default() {
            self.id.append_option(id.as_deref());
            for (name, value) in features {
                self.names.values().append_value(name);
                self.values.values().append_value(*value);
            }
            self.names.append(true);
            self.values.append(true);
        }
        self.lengths.push(candidates.map_or(0, <[Candidate]>::len));
        self.known.push(candidates.is_some());
    }

    /// The column, unless no decision has candidates. Starts a new batch.
    pub(super) fn finish(&mut self) -> Option<ArrayRef> {
        let (lengths, known) = (mem::take(&mut self.lengths), mem::take(&mut self.known));
        let (id, names, values) = (self.id.finish(), self.names.finish(), self.values.finish());
        if !known.contains(&true) {
            return None;
        }
        let columns: [(&str, ArrayRef); 3] =
            [("id", Arc::new(id)), ("names", Arc::new(names)), ("values", Arc::new(values))];
        let field =
            |(name, array): (&str, ArrayRef)| (Arc::new(Field::new(name, array.data_type().clone(), true)), array);
        let items = StructArray::from(columns.into_iter().map(field).collect::<Vec<_>>());
        let item = Arc::new(Field::new("item", items.data_type().clone(), true));
        let (offsets, nulls) = (OffsetBuffer::from_lengths(lengths), NullBuffer::from(known));
        Some(Arc::new(ListArray::new(item, offsets, Arc::new(items), Some(nulls))))
    }
}
