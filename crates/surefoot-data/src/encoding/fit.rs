//! Fitting an encoding to records.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::encode::matching;
use super::identity::Values;
use super::listed::ListedFit;
use super::namespaces::prefix;
use super::{Encoding, Field, Identity, MOST_BITS};
use crate::column::{Column, Lists, parse};
use crate::error::{Error, Result};
use crate::logs::{ID, LogBatch, Role};
use crate::moments::Moments;

/// Whether a column is among these names. A name that ends in `*` matches all columns that begin with what precedes it.
pub(crate) fn among(names: &[String], column: &str) -> bool {
    names.iter().any(|name| name.strip_suffix('*').map_or(name == column, |start| column.starts_with(start)))
}

/// Which columns become features, and how. A name that ends in `*` matches all columns that begin with what precedes
/// it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EncodingSettings {
    /// The feature columns. `None`: all columns that have no other role.
    pub features: Option<Vec<String>>,
    /// Columns that are not features.
    pub ignore: Vec<String>,
    /// Columns to treat as categories even if all their values are numbers.
    pub categorical: Vec<String>,
    /// The largest number of categories that get a feature each. A column with more categories is hashed.
    pub vocabulary: usize,
    /// The base-2 logarithm of the number of features of a hashed column, at most 20.
    pub hash_bits: u32,
    /// Whether numbers are centred and divided by their standard deviation. Lists are left unchanged.
    pub standardise: bool,
    /// For candidates: the products of context features and candidate features, as pairs of namespaces such as
    /// `user:article`. `None`: of all features, but not of identities.
    #[serde(default)]
    pub crosses: Option<Vec<String>>,
    /// For candidates: if own features and products are more than 2 to this power, they are hashed into so many.
    #[serde(default = "cross_bits")]
    pub cross_bits: u8,
}

fn cross_bits() -> u8 {
    18
}

impl Default for EncodingSettings {
    fn default() -> Self {
        EncodingSettings {
            features: None,
            ignore: Vec::new(),
            categorical: Vec::new(),
            vocabulary: 64,
            hash_bits: 8,
            standardise: true,
            crosses: None,
            cross_bits: cross_bits(),
        }
    }
}

pub(crate) const LIST: &str = "context";
const INDICES: &str = "context_indices";
pub(crate) const NAMES: &str = "context_names";
pub(crate) const VALUES: &str = "context_values";

/// What has been seen of a column so far.
#[derive(Debug, Default)]
struct Seen {
    numbers: Moments,
    missing: bool,
    /// Whether some cell was not a number.
    text: bool,
    /// How many were not, although the column was not given as categorical, and the first of them, with its place.
    texts: usize,
    first: Option<String>,
    /// The distinct values, at most one more than the vocabulary allows.
    categories: BTreeSet<String>,
    /// Whether the column looks like an identity.
    values: Values,
    order: Order,
}

impl Seen {
    /// With so few texts for each number, they are probably mistakes.
    const FEW: f64 = 0.05;
}

/// Whether the numbers of a column look like ids or times: whole numbers that increase from record to record.
#[derive(Debug, Default)]
struct Order {
    /// The number of values.
    count: usize,
    last: Option<f64>,
    /// Whether some number is not a whole one above the last.
    falls: bool,
}

impl Order {
    /// The smallest number of values that tells.
    const ENOUGH: usize = 20;

    fn add(&mut self, x: f64) {
        self.count += 1;
        self.falls |= x.fract() != 0.0 || self.last.is_some_and(|last| x <= last);
        self.last = Some(x);
    }

    fn increases(&self) -> bool {
        self.count >= Order::ENOUGH && !self.falls
    }
}

/// Fits an encoding to records.
#[derive(Debug)]
pub struct EncodingFit {
    settings: EncodingSettings,
    /// The scalar columns in the order in which they first appeared.
    order: Vec<String>,
    seen: HashMap<String, Seen>,
    /// The columns of lists of numbers, and their widths.
    lists: Vec<(String, usize)>,
    /// One more than the largest index in `context_indices`.
    sparse: Option<usize>,
    /// The named features: all of them, or those of each namespace.
    named: Vec<(Option<String>, ListedFit)>,
    /// The number of records so far.
    records: usize,
    /// Whether the records are candidates.
    candidates: bool,
    /// Whether the named features of each namespace are apart, so that they can be multiplied with others.
    by_namespace: bool,
    /// The names in the settings that no column has had so far, and the columns of the newest batch.
    unmatched: Vec<String>,
    columns: Vec<String>,
    /// Whether a record that comes later may have other columns.
    ragged: bool,
    /// Whether some named features are left out.
    leaves_out: bool,
}

/// Fields of a candidate that tell which one was chosen or what it brought. They are never features.
const TOLD: [&str; 7] = ["chosen", "reward", "click", "pscore", "propensity", "action_prob", "propensity_score"];

/// The largest number of identities of candidates with a feature each. If there are more, they are hashed.
const MOST_IDS: usize = 4096;
/// The largest number of namespaces of named features, if they are apart.
const MOST_NAMESPACES: usize = 256;
/// The bits of the hash of identities.
const ID_BITS: u32 = 12;

impl EncodingFit {
    /// A fit that has seen no records yet.
    pub fn new(settings: EncodingSettings) -> std::result::Result<Self, String> {
        if settings.hash_bits > MOST_BITS {
            return Err(format!("the bits of a hash should be at most {MOST_BITS}, but are {}", settings.hash_bits));
        }
        let names = settings.features.iter().flatten().chain(&settings.ignore).chain(&settings.categorical);
        Ok(EncodingFit {
            unmatched: names.cloned().collect(),
            columns: Vec::new(),
            ragged: false,
            leaves_out: false,
            settings,
            order: Vec::new(),
            seen: HashMap::new(),
            lists: Vec::new(),
            sparse: None,
            named: Vec::new(),
            by_namespace: false,
            records: 0,
            candidates: false,
        })
    }

    /// A fit for candidates. Lists of numbers are features of a candidate, and its identity is one of its own kind.
    pub(crate) fn of_candidates(settings: EncodingSettings) -> std::result::Result<Self, String> {
        Ok(EncodingFit { candidates: true, ..EncodingFit::of_namespaces(settings)? })
    }

    /// A fit for the contexts of candidates. Named features are encoded by namespace.
    pub(crate) fn of_namespaces(settings: EncodingSettings) -> std::result::Result<Self, String> {
        Ok(EncodingFit { by_namespace: true, ..EncodingFit::new(settings)? })
    }

    /// Adds the records of a batch to the fit.
    pub fn add(&mut self, batch: &LogBatch) -> Result<()> {
        let has_names = batch.column(NAMES).is_some();
        for name in self.settings.features.iter().flatten().filter(|name| !has_names && !name.ends_with('*')) {
            // A column that the settings name must be there.
            batch.feature(name)?;
        }
        self.ragged |= batch.is_ragged();
        self.columns = batch.columns().map(|(column, _)| column.name.to_owned()).collect();
        let columns = &self.columns;
        self.unmatched.retain(|name| !columns.iter().any(|column| among(std::slice::from_ref(name), column)));
        for column in batch.others() {
            let asked = self.settings.features.as_ref();
            // A column with a usual name, such as `click`, that does not fill that role here is still not a feature
            // unless asked for.
            let usual = match self.candidates {
                true => TOLD.contains(&column.name),
                false => Role::is_usual(column.name),
            };
            // The features that are named in lists are chosen one by one.
            let wanted = asked.map_or(!usual, |names| among(names, column.name) || column.name == NAMES);
            if !wanted || among(&self.settings.ignore, column.name) {
                continue;
            }
            // Other records of the batch may have the field, but the encoding must not depend on them.
            if batch.is_ragged() && column.array.null_count() == column.array.len() {
                continue;
            }
            match column.name {
                LIST => self.list(&column)?,
                INDICES => self.indices(&column)?,
                NAMES => self.names(batch, &column)?,
                VALUES => {}
                _ if column.is_list() && (asked.is_some() || self.candidates) => self.list(&column)?,
                // It may be a feature, or a logged distribution that is not for learning.
                _ if column.is_list() => {
                    return Err(Error::Malformed {
                        place: batch.place().to_owned(),
                        reason: format!(
                            "the column {0} has lists, and may be a feature or not: name it with features, or ignore it",
                            column.name
                        ),
                    });
                }
                _ => self.scalar(&column)?,
            }
        }
        for (name, seen) in &mut self.seen {
            seen.missing |= batch.column(name).is_none();
        }
        self.records += batch.len();
        Ok(())
    }

    fn list(&mut self, column: &Column<'_>) -> Result<()> {
        let lists = column.lists()?;
        for i in 0..lists.len() {
            let found = lists.get(i).len();
            let known = self.lists.iter().find(|(name, _)| name == column.name).map(|(_, width)| *width);
            let width = known.unwrap_or_else(|| {
                self.lists.push((column.name.to_owned(), found));
                found
            });
            if found != width {
                return Err(column.error(i, format!("{width} numbers, as in the first record"), found));
            }
        }
        Ok(())
    }

    fn indices(&mut self, column: &Column<'_>) -> Result<()> {
        let lists = column.lists()?;
        let mut width = self.sparse.unwrap_or(0);
        for i in 0..lists.len() {
            for &x in lists.get(i) {
                width = width.max(column.whole(i, x)? as usize + 1);
            }
        }
        self.sparse = Some(width);
        Ok(())
    }

    fn names(&mut self, batch: &LogBatch, names: &Column<'_>) -> Result<()> {
        let Some(values) = batch.feature(VALUES)? else { return Ok(()) };
        let (mut names, mut lists) = (names.text_lists()?, values.lists()?);
        matching(&values, &names.offsets, &lists)?;
        if self.settings.features.is_some() || !self.unmatched.is_empty() || !self.settings.ignore.is_empty() {
            (names, lists) = self.chosen(&names, &lists);
        }
        if !self.by_namespace {
            if self.named.is_empty() {
                self.named.push((None, ListedFit::default()));
            }
            self.named[0].1.add(&names, &lists, &self.settings);
            return Ok(());
        }
        for name in &names.values {
            if !self.named.iter().any(|(namespace, _)| namespace.as_deref() == Some(prefix(name))) {
                if self.named.len() == MOST_NAMESPACES {
                    return Err(Error::Field {
                        place: batch.place().to_owned(),
                        column: "the number of namespaces of named features".into(),
                        allowed: format!("at most {MOST_NAMESPACES}"),
                        found: format!("more, such as {:?}", prefix(name)),
                    });
                }
                self.named.push((Some(prefix(name).to_owned()), ListedFit::after(self.records)));
            }
        }
        for (namespace, fit) in &mut self.named {
            let (mut own, mut values) = (Lists::new(), Lists::new());
            for i in 0..names.len() {
                for (name, &x) in names.get(i).iter().zip(lists.get(i)) {
                    if namespace.as_deref() == Some(prefix(name)) {
                        own.values.push(name.clone());
                        values.values.push(x);
                    }
                }
                own.end();
                values.end();
            }
            fit.add(&own, &values, &self.settings);
        }
        Ok(())
    }

    /// The named features that the settings do not leave out. The name of `country=NO` is that before `=`, and that of
    /// `user^age` may be given without its namespace.
    fn chosen(&mut self, names: &Lists<String>, lists: &Lists<f64>) -> (Lists<String>, Lists<f64>) {
        let meant = |given: &[String], name: &str| {
            let name = name.split_once('=').map_or(name, |(before, _)| before);
            among(given, name) || name.split_once('^').is_some_and(|(_, own)| among(given, own))
        };
        let (mut kept, mut values) = (Lists::new(), Lists::new());
        for i in 0..names.len() {
            for (name, &x) in names.get(i).iter().zip(lists.get(i)) {
                self.unmatched.retain(|given| !meant(std::slice::from_ref(given), name));
                let asked = self.settings.features.as_ref();
                let wanted = asked.is_none_or(|given| meant(given, name) || among(given, NAMES));
                if wanted && !meant(&self.settings.ignore, name) {
                    kept.values.push(name.clone());
                    values.values.push(x);
                } else {
                    self.leaves_out = true;
                }
            }
            kept.end();
            values.end();
        }
        (kept, values)
    }

    fn scalar(&mut self, column: &Column<'_>) -> Result<()> {
        if !self.seen.contains_key(column.name) {
            self.order.push(column.name.to_owned());
        }
        let late = Seen { missing: self.records > 0, ..Seen::default() };
        let seen = self.seen.entry(column.name.to_owned()).or_insert(late);
        let identity = self.candidates && column.name == ID;
        let most = if identity { MOST_IDS + 1 } else { self.settings.vocabulary.saturating_add(1) };
        let categorical = identity || among(&self.settings.categorical, column.name);
        if !column.is_text() && !categorical {
            for (i, &x) in column.numbers()?.iter().enumerate() {
                if x.is_infinite() {
                    return Err(column.error(i, "finite", x));
                }
                if x.is_nan() {
                    seen.missing = true;
                } else {
                    seen.numbers.add(x);
                    seen.order.add(x);
                }
                // If another batch has texts, this number is a category too.
                if !x.is_nan() && seen.categories.len() < most {
                    seen.categories.insert(x.to_string());
                }
            }
            return Ok(());
        }
        seen.text |= categorical;
        for (i, text) in column.texts()?.into_iter().enumerate() {
            let Some(text) = text else {
                seen.missing = true;
                continue;
            };
            match parse(&text) {
                Some(x) if x.is_nan() => {
                    seen.missing = true;
                    continue;
                }
                Some(x) if x.is_infinite() && !seen.text => return Err(column.error(i, "finite", x)),
                Some(x) => {
                    seen.numbers.add(x);
                    seen.order.add(x);
                }
                None => {
                    seen.text = true;
                    if !categorical {
                        seen.texts += 1;
                        seen.first.get_or_insert_with(|| column.error(i, "a number, as most are", &*text).to_string());
                    }
                }
            }
            seen.values.add(&text);
            if seen.categories.len() < most && !seen.categories.contains(&*text) {
                seen.categories.insert(text.into_owned());
            }
        }
        Ok(())
    }

    /// The columns of categories that look like identities, and why. They are hashed, unless they are named as
    /// categorical: then the categories of at most a vocabulary are stored.
    pub fn identities(&self) -> Vec<(String, Identity)> {
        let found = |column: &String| {
            let seen = self.seen.get(column).filter(|seen| seen.text && !(self.candidates && column == ID))?;
            Some((column.clone(), seen.values.identity()?))
        };
        let columns = self.order.iter().filter_map(found);
        columns.chain(self.named.iter().flat_map(|(_, named)| named.identities())).collect()
    }

    /// Warnings about columns of numbers that look like ids or times, which a policy cannot use for records that come later,
    /// about columns of numbers with a few texts, and about names in the settings that no record has.
    pub fn warnings(&self) -> Vec<String> {
        let strange = |name: &String| {
            self.seen.get(name).filter(|seen| !seen.text && seen.order.increases())?;
            Some(format!(
                "the column {name} is a feature, but looks like an id or a time: it increases from record to record; \
                 ignore it"
            ))
        };
        let mixed = |name: &String| {
            let seen = self.seen.get(name)?;
            let few = seen.texts as f64 <= Seen::FEW * seen.numbers.count;
            let first = seen.first.as_ref().filter(|_| few)?;
            let (texts, all) = (seen.texts, seen.texts + seen.numbers.count as usize);
            Some(format!("{first}; {texts} of {all} values are not, so that all become categories"))
        };
        let absent = self.unmatched.iter().filter(|_| !self.candidates && !self.by_namespace);
        let absent =
            absent.map(|name| format!("no column {name}, which was given to be a feature, a category or ignored"));
        let columns = || self.order.iter();
        columns().filter_map(strange).chain(columns().filter_map(mixed)).chain(absent).collect()
    }

    /// Whether no column is a feature.
    pub(crate) fn is_empty(&self) -> bool {
        let named = self.named.iter().all(|(_, named)| named.is_empty());
        self.order.is_empty() && self.lists.is_empty() && self.sparse.is_none() && named
    }

    /// The fitted encoding; `place` names the records in errors.
    pub fn finish(self, place: &str) -> Result<Encoding> {
        // With candidates, a name may be that of a field of theirs or of the context.
        if let Some(column) = self.unmatched.first().filter(|_| !self.ragged && !self.candidates && !self.by_namespace)
        {
            let (column, found) = (column.clone(), self.columns.join(", "));
            return Err(Error::MissingColumn { place: place.into(), column, found });
        }
        if self.leaves_out && self.named.iter().any(|(_, named)| named.is_hashed()) {
            let reason = "too many named features to leave some out: all are hashed together".into();
            return Err(Error::Malformed { place: place.into(), reason });
        }
        let EncodingFit { settings, order, mut seen, lists, sparse, named, candidates, leaves_out, .. } = self;
        let mut fields = Vec::new();
        let ids = if candidates { seen.remove(ID).filter(|seen| !seen.categories.is_empty()) } else { None };
        for column in order {
            let Some(Seen { numbers, missing, text, categories, values, .. }) = seen.remove(&column) else { continue };
            let hidden = values.identity().is_some() && !among(&settings.categorical, &column);
            fields.push(if !text {
                let (mean, scale) =
                    if settings.standardise { (numbers.mean().unwrap_or(0.0), numbers.scale()) } else { (0.0, 1.0) };
                Field::Number { column, mean, scale, indicator: missing }
            } else if categories.len() <= settings.vocabulary && !hidden {
                Field::OneHot { column, categories: categories.into_iter().collect() }
            } else {
                Field::Hashed { column, bits: settings.hash_bits }
            });
        }
        fields.extend(lists.into_iter().map(|(column, width)| Field::Vector { column, width }));
        let (indices, values) = (INDICES.into(), VALUES.to_owned());
        fields.extend(sparse.map(|width| Field::Sparse { indices, values, width }));
        // All names of a batch may have been left out.
        let named = named.into_iter().filter(|(_, named)| !(leaves_out && named.is_empty()));
        fields.extend(named.map(|(namespace, named)| named.finish(&settings, namespace)));
        fields.extend(ids.map(|Seen { categories, .. }| match categories.len() {
            ..=MOST_IDS => Field::OneHot { column: ID.into(), categories: categories.into_iter().collect() },
            _ => Field::Hashed { column: ID.into(), bits: settings.hash_bits.max(ID_BITS) },
        }));
        Encoding::new(fields).map_err(|reason| Error::Malformed { place: place.into(), reason })
    }
}
