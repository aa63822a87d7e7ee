//! Labelled data, from which a simulated bandit is made.

use crate::contexts::Labelled;
use crate::error::{Error, Result};

/// A data set for classification: a training and a test split.
#[derive(Debug, Clone)]
pub struct Dataset {
    name: String,
    classes: usize,
    train: Labelled,
    test: Labelled,
}

impl Dataset {
    /// The largest number of classes of a data set: a label beyond it is treated as an error.
    pub const MOST_CLASSES: usize = 1_000_000;

    /// Checks that both splits have rows and the same number of features; the classes are `0..=` the largest label.
    pub fn new(name: impl Into<String>, train: Labelled, test: Labelled) -> Result<Self> {
        let (p, q) = (train.contexts().features(), test.contexts().features());
        if p != q {
            return Err(Error::size("the test split", format!("{p} features, as the training split"), q));
        }
        for (split, rows) in [("the training split", train.len()), ("the test split", test.len())] {
            if rows == 0 {
                return Err(Error::size(split, "at least 1 row", 0));
            }
        }
        for split in [&train, &test] {
            if let Some(row) = split.labels().iter().position(|&y| y as usize >= Self::MOST_CLASSES) {
                let allowed = format!("below {}", Self::MOST_CLASSES);
                return Err(Error::value(row, "label", allowed, split.labels()[row]));
            }
        }
        let largest = |split: &Labelled| split.labels().iter().copied().max().unwrap_or(0) as usize;
        let classes = largest(&train).max(largest(&test)) + 1;
        if classes < 2 {
            return Err(Error::size("a data set", "at least 2 classes", classes));
        }
        Ok(Dataset { name: name.into(), classes, train, test })
    }

    /// The same data with [unit rows](crate::Contexts::unit_rows), which every bandit made from it can then share.
    #[must_use]
    pub fn unit_rows(self) -> Self {
        Dataset { train: self.train.unit_rows(), test: self.test.unit_rows(), ..self }
    }

    /// Its name in results.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The training split.
    pub fn train(&self) -> &Labelled {
        &self.train
    }

    /// The test split.
    pub fn test(&self) -> &Labelled {
        &self.test
    }
}
