//! Namespaces: groups of features with a common beginning of their names, and which of them are multiplied.
//!
//! The namespace of `user.age` and of Vowpal Wabbit's `user^age` is `user`. A name without `.` and `^` is in the namespace
//! `context`, or `candidate` for a candidate. The identities of candidates are the namespace `id`.

use std::ops::Range;

use surefoot::features::{Cross, Joint};

use super::{Encoding, EncodingSettings, Field, NamedPart};
use crate::error::{Error, Result};
use crate::logs::ID;

/// The namespace of context features whose names have none.
const CONTEXT: &str = "context";
/// The namespace of candidate features whose names have none.
const CANDIDATE: &str = "candidate";

/// The features of each namespace, in the order in which the namespaces appear.
type Namespaces = Vec<(String, Vec<Range<usize>>)>;

/// What is before the first `.` or `^` of a name, empty if there is neither. A category after `=` is not part of the name.
pub(super) fn prefix(name: &str) -> &str {
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    name.split_once(['.', '^']).filter(|(before, after)| !before.is_empty() && !after.is_empty()).map_or("", |(b, _)| b)
}

/// The namespace of a column.
fn namespace<'n>(column: &'n str, other: &'n str) -> &'n str {
    match prefix(column) {
        "" => other,
        before => before,
    }
}

/// The namespaces of an encoding; `other` is the one of names that have none.
fn namespaces(encoding: &Encoding, other: &str) -> Namespaces {
    let mut found: Namespaces = Vec::new();
    let mut add = |name: &str, range: Range<usize>| {
        if range.is_empty() {
            return;
        }
        let at = found.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            found.push((name.to_owned(), Vec::new()));
            found.len() - 1
        });
        match found[at].1.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => found[at].1.push(range),
        }
    };
    let mut first = 0;
    for field in encoding.fields() {
        match field {
            Field::Constant {} => {}
            Field::Listed { parts, .. } => {
                let mut first = first;
                for part in parts {
                    add(namespace(NamedPart::column(part), other), first..first + part.width());
                    first += part.width();
                }
            }
            Field::Named { namespace: Some(name), .. } if !name.is_empty() => add(name, first..first + field.width()),
            Field::Named { .. } | Field::Sparse { .. } => add(other, first..first + field.width()),
            field => {
                let column = field.columns().first().copied().unwrap_or_default();
                // The column of identities has this name, and no feature of a context is in a namespace of this name.
                let name = if column == ID && other == CANDIDATE { ID } else { namespace(column, other) };
                add(name, first..first + field.width());
            }
        }
        first += field.width();
    }
    found
}

/// The names of namespaces, for errors.
fn listed(namespaces: &Namespaces) -> String {
    let names: Vec<&str> = namespaces.iter().map(|(name, _)| name.as_str()).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// Joins ranges that touch.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut found: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match found.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => found.push(range),
        }
    }
    found
}

/// The joint features of contexts and candidates: all features of a candidate, and the products that the settings ask for.
///
/// Without such settings, every feature of the context is multiplied with every feature of the candidate, except with the
/// identity; if a candidate has nothing but an identity, with that.
pub(crate) fn joint(contexts: &Encoding, candidates: &Encoding, settings: &EncodingSettings) -> Result<Joint> {
    let (left, right) = (namespaces(contexts, CONTEXT), namespaces(candidates, CANDIDATE));
    let only_ids = right.iter().all(|(name, _)| name == ID);
    let all = |namespaces: &Namespaces, ids: bool| {
        let wanted = namespaces.iter().filter(|(name, _)| ids || name != ID);
        merged(wanted.flat_map(|(_, ranges)| ranges.clone()).collect())
    };
    let find = |namespaces: &Namespaces, name: &str, ids: bool| match name {
        "*" => Some(all(namespaces, ids)),
        name => namespaces.iter().find(|(known, _)| known == name).map(|(_, ranges)| ranges.clone()),
    };
    let mut products: Vec<(Range<usize>, Range<usize>)> = Vec::new();
    let everything = ["*:*".to_owned()];
    for text in settings.crosses.as_deref().unwrap_or(&everything) {
        let pair = text
            .split_once(':')
            .and_then(|(context, candidate)| Some((find(&left, context, true)?, find(&right, candidate, only_ids)?)));
        let Some((context, candidate)) = pair else {
            let allowed = format!(
                "CONTEXT:CANDIDATE, with CONTEXT one of the namespaces of the context ({}), CANDIDATE one of those of the \
                 candidates ({}), and * for all",
                listed(&left),
                listed(&right)
            );
            return Err(Error::setting("a product of features", &allowed, text));
        };
        for x in &context {
            products.extend(candidate.iter().map(|b| (x.clone(), b.clone())));
        }
    }
    let mut seen = Vec::new();
    products.retain(|product| {
        !seen.contains(product) && {
            seen.push(product.clone());
            true
        }
    });
    let crosses = products.into_iter().map(|(context, candidate)| Cross { context, candidate }).collect();
    let own = merged(right.iter().flat_map(|(_, ranges)| ranges.clone()).collect());
    Ok(Joint::new(contexts.width(), candidates.width(), own, crosses, settings.cross_bits)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(column: &str) -> Field {
        Field::Number { column: column.into(), mean: 0.0, scale: 1.0, indicator: false }
    }

    fn encodings() -> (Encoding, Encoding) {
        let context = Encoding::new(vec![number("user.age"), number("hour"), number("user.score")]).unwrap();
        let categories = vec!["a".to_owned(), "b".to_owned()];
        let id = Field::OneHot { column: ID.into(), categories };
        (context, Encoding::new(vec![number("article^length"), number("price"), id]).unwrap())
    }

    fn crossed(crosses: Option<&[&str]>) -> Result<Vec<(Range<usize>, Range<usize>)>> {
        let (context, candidate) = encodings();
        let crosses = crosses.map(|all| all.iter().map(|&text| text.to_owned()).collect());
        let joint = joint(&context, &candidate, &EncodingSettings { crosses, ..EncodingSettings::default() })?;
        let all: Vec<usize> = joint.own().iter().cloned().flatten().collect();
        assert_eq!((all, joint.contexts(), joint.candidates()), (vec![0, 1, 2, 3], 3, 4));
        Ok(joint.crosses().iter().map(|cross| (cross.context.clone(), cross.candidate.clone())).collect())
    }

    #[test]
    fn every_context_feature_meets_every_candidate_feature_but_the_identity() {
        assert_eq!(crossed(None).unwrap(), [(0..3, 0..2)]);
        assert_eq!(crossed(Some(&["*:*"])).unwrap(), [(0..3, 0..2)]);
        assert_eq!(crossed(Some(&[])).unwrap(), []);
    }

    #[test]
    fn products_are_of_the_namespaces_that_the_user_names() {
        assert_eq!(crossed(Some(&["user:article"])).unwrap(), [(0..1, 0..1), (2..3, 0..1)]);
        assert_eq!(crossed(Some(&["context:id", "context:id"])).unwrap(), [(1..2, 2..4)]);
        let error = crossed(Some(&["article:user"])).unwrap_err().to_string();
        assert!(error.contains("(user, context)") && error.contains("(article, candidate, id)"), "{error}");
        assert!(error.ends_with("article:user"), "{error}");
    }

    #[test]
    fn identities_meet_the_context_if_a_candidate_has_nothing_else() {
        let context = Encoding::new(vec![number("x")]).unwrap();
        let id = Field::OneHot { column: ID.into(), categories: vec!["a".into(), "b".into()] };
        let joint = joint(&context, &Encoding::new(vec![id]).unwrap(), &EncodingSettings::default()).unwrap();
        assert_eq!(joint.crosses(), [Cross { context: 0..1, candidate: 0..2 }]);
    }

    #[test]
    fn a_context_without_features_has_no_products() {
        let context = Encoding::constant();
        let joint = joint(&context, &encodings().1, &EncodingSettings::default()).unwrap();
        assert_eq!((joint.crosses().len(), joint.output()), (0, 4));
    }
}
