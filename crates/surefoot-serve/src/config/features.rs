//! Declared features.

use serde::{Deserialize, Serialize};
use surefoot_data::{ColumnNames, Encoding, Field, NamedPart};

/// A feature that is declared before any record is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Feature {
    /// A number `x`, as `(x - mean)/scale`; a second feature is 1 where it is missing.
    Number {
        /// The field of the context.
        name: String,
        /// The value to subtract.
        #[serde(default)]
        mean: f64,
        /// The value to divide by.
        #[serde(default = "one")]
        scale: f64,
    },
    /// One of a few texts, each with a feature of its own. Other texts have none.
    Category {
        /// The field of the context.
        name: String,
        /// The texts.
        values: Vec<String>,
    },
    /// A text among many, hashed into `2^bits` features.
    Hashed {
        /// The field of the context.
        name: String,
        /// The base-2 logarithm of the number of features.
        #[serde(default = "eight")]
        bits: u32,
    },
    /// A list of numbers, always of the same length.
    Vector {
        /// The field of the context.
        name: String,
        /// The length of the list.
        width: usize,
    },
    /// Numbers with names, in the lists `context_names` and `context_values`, hashed into `2^bits` features.
    Named {
        /// The base-2 logarithm of the number of features.
        #[serde(default = "ten")]
        bits: u32,
    },
    /// The same, with features of their own for the names that are given. Others have none.
    Listed {
        /// What is made of each name.
        parts: Vec<NamedPart>,
    },
}

/// The lists of names and numbers.
const LISTS: [&str; 2] = ["context_names", "context_values"];

fn one() -> f64 {
    1.0
}

fn eight() -> u32 {
    8
}

fn ten() -> u32 {
    10
}

impl Feature {
    pub(super) fn name(&self) -> &str {
        match self {
            Feature::Number { name, .. }
            | Feature::Category { name, .. }
            | Feature::Hashed { name, .. }
            | Feature::Vector { name, .. } => name,
            Feature::Named { .. } | Feature::Listed { .. } => LISTS[0],
        }
    }

    fn field(&self) -> Field {
        let column = self.name().to_owned();
        match self {
            Feature::Number { mean, scale, .. } => {
                Field::Number { column, mean: *mean, scale: *scale, indicator: true }
            }
            Feature::Category { values, .. } => {
                let mut categories = values.clone();
                categories.sort_unstable();
                Field::OneHot { column, categories }
            }
            Feature::Hashed { bits, .. } => Field::Hashed { column, bits: *bits },
            Feature::Vector { width, .. } => Field::Vector { column, width: *width },
            Feature::Named { bits } => {
                Field::Named { names: column, values: LISTS[1].into(), bits: *bits, namespace: None }
            }
            Feature::Listed { parts } => Field::Listed { names: column, values: LISTS[1].into(), parts: parts.clone() },
        }
    }
}

/// The encoding of the declared features of candidates. The field `id` may be one of them.
pub(super) fn candidate_encoding(features: &[Feature]) -> Result<Encoding, String> {
    match features.iter().enumerate().find(|(i, one)| features[..*i].iter().any(|two| two.name() == one.name())) {
        Some((_, twice)) => Err(format!("the names of features should differ, but {} occurs twice", twice.name())),
        None => Encoding::new(features.iter().map(Feature::field).collect()),
    }
}

/// The encoding of declared features.
pub(super) fn encoding(features: &[Feature]) -> Result<Encoding, String> {
    for (i, feature) in features.iter().enumerate() {
        let name = feature.name();
        if name.is_empty() {
            return Err("the name of a feature should not be empty, but is".into());
        }
        let lists = matches!(feature, Feature::Named { .. } | Feature::Listed { .. });
        if !lists && ColumnNames::is_usual(name) {
            return Err(format!("a feature should not be called {name}: exported logs have a column of that name"));
        }
        if features[..i].iter().any(|other| other.name() == name) {
            return Err(format!("the names of features should differ, but {name} occurs twice"));
        }
    }
    Encoding::new(features.iter().map(Feature::field).collect())
}
