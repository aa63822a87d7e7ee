//! Contexts with known labels.

use super::Contexts;
use crate::error::{Error, Result};

/// Contexts with one label per row.
#[derive(Debug, Clone)]
pub struct Labelled {
    contexts: Contexts,
    labels: Vec<u32>,
}

impl Labelled {
    /// Pairs contexts with labels, one per row.
    pub fn new(contexts: Contexts, labels: Vec<u32>) -> Result<Self> {
        if contexts.len() != labels.len() {
            return Err(Error::size(
                "labels",
                format!("{} entries, one for each context", contexts.len()),
                labels.len(),
            ));
        }
        Ok(Labelled { contexts, labels })
    }

    /// The contexts.
    pub fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// The labels, one per row.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Selects rows in the given order; the contexts are shared.
    pub fn select(&self, rows: &[usize]) -> Self {
        Labelled { contexts: self.contexts.select(rows), labels: rows.iter().map(|&i| self.labels[i]).collect() }
    }

    /// The same labels with contexts computed from these.
    pub(crate) fn map(self, map: impl FnOnce(&Contexts) -> Result<Contexts>) -> Result<Self> {
        Ok(Labelled { contexts: map(&self.contexts)?, ..self })
    }

    /// The same labels with [unit rows](Contexts::unit_rows).
    pub(crate) fn unit_rows(self) -> Self {
        Labelled { contexts: self.contexts.unit_rows(), ..self }
    }
}
