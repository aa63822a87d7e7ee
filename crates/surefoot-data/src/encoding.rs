//! ENCODING: how the columns of a record become the features of a context.
//!
//! An encoding is fitted once, to records that are then set aside ([`EncodingFit`]), and is saved with the policy. The
//! same raw record always gives the same features. Values that did not occur when the encoding was fitted (a new
//! category, a missing number) are encoded too; they are not errors.

mod candidates;
mod encode;
mod fit;
mod identity;
mod listed;
mod namespaces;
mod object;
mod reader;

pub use candidates::CandidateInputs;
pub use encode::Rows;
pub(crate) use fit::LIST;
pub(crate) use fit::among;
pub use fit::{EncodingFit, EncodingSettings};
pub(crate) use fit::{NAMES, VALUES};
pub use identity::Identity;
pub use listed::NamedPart;
pub(crate) use namespaces::joint;
pub use reader::ContextReader;

use serde::{Deserialize, Serialize};

/// The features made from one column of the records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Field {
    /// `(x - mean)/scale`, 0 where the value is missing. With `indicator` there is a second feature, which is 1 where
    /// the value is missing.
    Number {
        /// The column.
        column: String,
        /// The value to subtract.
        mean: f64,
        /// The value to divide by.
        scale: f64,
        /// Whether there is a second feature that marks missing values.
        indicator: bool,
    },
    /// One feature per category: 1 for the record's category, 0 for all others. All are 0 if the category is missing or
    /// unknown.
    OneHot {
        /// The column.
        column: String,
        /// The categories.
        categories: Vec<String>,
    },
    /// `2^bits` features: 1 at `XXH64("column=category") mod 2^bits`, 0 elsewhere.
    Hashed {
        /// The column.
        column: String,
        /// The base-2 logarithm of the number of features.
        bits: u32,
    },
    /// The entries of a list of numbers.
    Vector {
        /// The column.
        column: String,
        /// The length of the list.
        width: usize,
    },
    /// Numbers at given indices, 0 elsewhere.
    Sparse {
        /// The column with the indices.
        indices: String,
        /// The column with the numbers.
        values: String,
        /// The number of features: one more than the largest index.
        width: usize,
    },
    /// Numbers with names. Each is added to the feature at `XXH64("name") mod 2^bits`.
    Named {
        /// The column with the names.
        names: String,
        /// The column with the numbers.
        values: String,
        /// The base-2 logarithm of the number of features.
        bits: u32,
        /// If given, only the names of this namespace count; empty for names without one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
    },
    /// Numbers with names, of which there are few enough for features of their own. Names that did not occur when the
    /// encoding was fitted give no feature.
    Listed {
        /// The column with the names.
        names: String,
        /// The column with the numbers.
        values: String,
        /// The features made from each name.
        parts: Vec<NamedPart>,
    },
    /// One feature, which is 1 for every record. For records whose candidates have features and whose context has none.
    Constant {},
}

impl Field {
    fn width(&self) -> usize {
        match self {
            Field::Number { indicator, .. } => 1 + usize::from(*indicator),
            Field::OneHot { categories, .. } => categories.len(),
            Field::Hashed { bits, .. } | Field::Named { bits, .. } => 1 << bits,
            Field::Vector { width, .. } | Field::Sparse { width, .. } => *width,
            Field::Listed { parts, .. } => parts.iter().map(NamedPart::width).sum(),
            Field::Constant {} => 1,
        }
    }

    /// Whether most of its features are 0.
    fn is_sparse(&self) -> bool {
        match self {
            Field::Number { .. } | Field::Vector { .. } | Field::Constant {} => false,
            Field::Listed { parts, .. } => !parts.iter().all(|part| matches!(part, NamedPart::Number { .. })),
            _ => true,
        }
    }

    /// The columns of the records that it uses; for named features, the names.
    fn columns(&self) -> Vec<&str> {
        match self {
            Field::Number { column, .. }
            | Field::OneHot { column, .. }
            | Field::Hashed { column, .. }
            | Field::Vector { column, .. } => vec![column],
            Field::Sparse { indices, values, .. } => vec![indices, values],
            Field::Named { names, values, .. } => vec![names, values],
            Field::Listed { parts, .. } => parts.iter().map(NamedPart::column).collect(),
            Field::Constant {} => Vec::new(),
        }
    }

    /// The columns whose values it lists, and how many.
    pub(crate) fn vocabularies(&self) -> Vec<(&str, usize)> {
        match self {
            Field::OneHot { column, categories } => vec![(column, categories.len())],
            Field::Listed { parts, .. } => parts.iter().filter_map(NamedPart::vocabulary).collect(),
            _ => Vec::new(),
        }
    }

    fn check(&self) -> std::result::Result<(), String> {
        match self {
            Field::Number { column, mean, scale, .. } if !(mean.is_finite() && *scale > 0.0 && scale.is_finite()) => {
                Err(format!("{column} should have a finite mean and a scale above 0, but has {mean} and {scale}"))
            }
            Field::OneHot { column, categories } if !categories.is_sorted_by(|a, b| a < b) => {
                Err(format!("the categories of {column} should be in order and different, but are not"))
            }
            Field::Hashed { column: name, bits } | Field::Named { names: name, bits, .. } if *bits > MOST_BITS => {
                Err(format!("the bits of {name} should be at most {MOST_BITS}, but are {bits}"))
            }
            Field::Listed { parts, .. } => parts.iter().try_for_each(NamedPart::check),
            _ => Ok(()),
        }
    }
}

/// The largest number of hash bits: a million features.
pub(crate) const MOST_BITS: u32 = 20;

/// The largest number of features of an encoding.
const MOST_FEATURES: usize = 1 << 24;

/// How records become contexts: the features of all fields, concatenated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Encoding {
    fields: Vec<Field>,
}

impl Encoding {
    /// An encoding with these fields, in this order.
    pub fn new(fields: Vec<Field>) -> std::result::Result<Self, String> {
        fields.iter().try_for_each(Field::check)?;
        let encoding = Encoding { fields };
        let width = encoding.fields.iter().try_fold(0usize, |sum, field| sum.checked_add(field.width()));
        match width {
            Some(1..=MOST_FEATURES) => Ok(encoding),
            found => Err(format!(
                "there should be from 1 to {MOST_FEATURES} features, but there are {}",
                found.map_or("more".into(), |n| n.to_string())
            )),
        }
    }

    /// The encoding of contexts without features.
    pub fn constant() -> Self {
        Encoding { fields: vec![Field::Constant {}] }
    }

    /// The fields.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The number of features.
    pub fn width(&self) -> usize {
        self.fields.iter().map(Field::width).sum()
    }

    /// Whether records are encoded as sparse rows. Not if it is known before that more than a quarter of their values are
    /// used: [`Contexts::compact`](surefoot::Contexts::compact) would make them dense, and hold them twice meanwhile.
    pub(crate) fn is_sparse(&self) -> bool {
        let listed = |field: &Field| matches!(field, Field::Sparse { .. } | Field::Named { .. } | Field::Listed { .. });
        let sparse = self.fields.iter().any(Field::is_sparse);
        sparse && (self.fields.iter().any(listed) || 4 * self.used() <= self.width())
    }

    /// The largest number of values of a record, apart from values that its own lists name.
    pub(crate) fn entries(&self) -> usize {
        if self.is_sparse() { self.used() } else { self.width() }
    }

    /// The largest number of values of a record that are not 0, apart from values that its own lists name.
    fn used(&self) -> usize {
        let entries = |field: &Field| match field {
            Field::Number { .. } | Field::OneHot { .. } | Field::Hashed { .. } | Field::Constant {} => 1,
            Field::Vector { width, .. } => *width,
            Field::Listed { parts, .. } => parts.iter().map(NamedPart::width).sum(),
            Field::Sparse { .. } | Field::Named { .. } => 0,
        };
        self.fields.iter().map(entries).sum()
    }

    /// The columns that become features, in order. Named features count as columns, unless they are hashed.
    pub fn columns(&self) -> Vec<&str> {
        self.fields.iter().flat_map(Field::columns).collect()
    }

    /// The name of each feature.
    pub fn names(&self) -> Vec<String> {
        let numbered = |column: &str, n: usize| -> Vec<String> { (0..n).map(|i| format!("{column}[{i}]")).collect() };
        let names = |field: &Field| match field {
            Field::Number { column, indicator, .. } => {
                let missing = indicator.then(|| format!("{column} is missing"));
                [column.clone()].into_iter().chain(missing).collect()
            }
            Field::OneHot { column, categories } => categories.iter().map(|c| format!("{column}={c}")).collect(),
            Field::Hashed { column, bits } => numbered(&format!("{column}#"), 1 << bits),
            Field::Named { names, bits, namespace, .. } => numbered(
                &format!("{}#", namespace.as_deref().filter(|name| !name.is_empty()).unwrap_or(names)),
                1 << bits,
            ),
            Field::Vector { column, width } => numbered(column, *width),
            Field::Sparse { values, width, .. } => numbered(values, *width),
            Field::Listed { parts, .. } => parts.iter().flat_map(NamedPart::names).collect(),
            Field::Constant {} => vec!["1".into()],
        };
        self.fields.iter().flat_map(names).collect()
    }
}
