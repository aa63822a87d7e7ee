//! Writing decisions as Vowpal Wabbit's text, one line each, or with candidates a line `shared`, a line per candidate and a
//! blank line.
//!
//! The format can hold `event_id`, `action`, `pscore`, `reward`, `eligible` and features. `timestamp`, `policy_version`
//! and `probabilities` are left out. Anything that would be read back differently is rejected: a record to skip, a drop
//! probability, a set of one eligible action (a label alone does not say what else was eligible), and names that
//! contain a space, `:` or `|`. All candidates must be eligible, since the format has no other list of them.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::Write;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::super::candidates::Candidate;
use super::super::decisions::{self, Decision, negated, write_lines};
use crate::error::Result;

pub(crate) fn write(
    place: &str,
    out: &mut dyn Write,
    schema: &SchemaRef,
    tables: &mut dyn Iterator<Item = Result<RecordBatch>>,
) -> Result<()> {
    write_lines(place, out, schema, tables, line)
}

type Unfit = decisions::Unfit<&'static str, &'static str>;

fn line(out: &mut String, decision: &Decision) -> std::result::Result<(), Unfit> {
    if decision.skip {
        return Err(("skip", "false, as this format has no place for it", "true".into()));
    }
    if let Some(pdrop) = decision.pdrop.filter(|pdrop| *pdrop != 0.0) {
        return Err(("pdrop", "0, as this format has no place for it", pdrop.to_string()));
    }
    if let Some(candidates) = &decision.candidates {
        return several(out, decision, candidates);
    }
    labels(out, decision)?;
    tag(out, "event_id", decision.event_id.as_deref())?;
    features(out, &decision.features)
}

/// A decision with candidates.
fn several(out: &mut String, decision: &Decision, candidates: &[Candidate]) -> std::result::Result<(), Unfit> {
    if decision.action as usize >= candidates.len() {
        let found = format!("{} of {}", decision.action, candidates.len());
        return Err(("action", "the place of a candidate", found));
    }
    if let Some(eligible) = &decision.eligible {
        let all: HashSet<u32> = eligible.iter().copied().collect();
        if all.len() != candidates.len() {
            let found = format!("{} of {} candidates", all.len(), candidates.len());
            return Err(("eligible", "all candidates, as this format lists no others", found));
        }
    }
    out.push_str("shared ");
    tag(out, "event_id", decision.event_id.as_deref())?;
    features(out, &decision.features)?;
    for (place, candidate) in (0u32..).zip(candidates) {
        if place == decision.action {
            let _ = write!(out, "{}:{}:{} ", u64::from(place) + 1, negated(decision.reward), decision.pscore);
        }
        tag(out, "the identity of a candidate", candidate.id.as_deref())?;
        features(out, &candidate.features)?;
    }
    out.push('\n');
    Ok(())
}

fn tag(out: &mut String, column: &'static str, tag: Option<&str>) -> std::result::Result<(), Unfit> {
    if let Some(tag) = tag {
        if tag.is_empty() || !fits(tag, &['|']) {
            return Err((column, "text without spaces and '|', and not empty", format!("{tag:?}")));
        }
        let _ = write!(out, "'{tag} ");
    }
    Ok(())
}

/// The features and the end of a line.
fn features(out: &mut String, features: &[(String, f32)]) -> std::result::Result<(), Unfit> {
    let mut open = None;
    for (name, value) in features {
        if name.is_empty() || !fits(name, &[':', '|']) {
            return Err((
                "the name of a feature",
                "text without spaces, ':' and '|', and not empty",
                format!("{name:?}"),
            ));
        }
        let split = name.split_once('^').filter(|(namespace, feature)| !namespace.is_empty() && !feature.is_empty());
        let (namespace, feature) = split.unwrap_or(("", name));
        if open != Some(namespace) {
            let _ = write!(out, "|{namespace} ");
            open = Some(namespace);
        }
        let _ = if *value == 1.0 { write!(out, "{feature} ") } else { write!(out, "{feature}:{value} ") };
    }
    out.push_str(if open.is_none() { "|\n" } else { "\n" });
    Ok(())
}

/// The eligible actions in their order, the chosen one with its cost and probability.
fn labels(out: &mut String, decision: &Decision) -> std::result::Result<(), Unfit> {
    let chosen = [decision.action];
    let listed = decision.eligible.as_deref().unwrap_or(&chosen);
    let mut sorted = listed.to_vec();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(("eligible", "every action once", "one with an action twice".into()));
    }
    if sorted.binary_search(&decision.action).is_err() {
        return Err(("eligible", "a list with the action that was chosen", format!("one without {}", decision.action)));
    }
    if decision.eligible.is_some() && listed.len() < 2 {
        return Err(("eligible", "two actions or more, as this format cannot say that there is one", "one".into()));
    }
    if sorted.last() == Some(&u32::MAX) {
        return Err(("eligible", "actions below 4294967295, as this format counts from 1", u32::MAX.to_string()));
    }
    for &action in listed {
        let _ = write!(out, "{}", u64::from(action) + 1);
        if action == decision.action {
            let _ = write!(out, ":{}:{}", negated(decision.reward), decision.pscore);
        }
        out.push(' ');
    }
    Ok(())
}

fn fits(name: &str, not: &[char]) -> bool {
    !name.chars().any(|character| character.is_whitespace() || character.is_control() || not.contains(&character))
}
