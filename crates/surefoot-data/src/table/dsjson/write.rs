//! Writing decisions as dsjson.
//!
//! Reading the file gives back what was written, except that the eligible actions may be in another order, since the
//! chosen one must come first, and a null `skip` becomes false. Decisions that could not be read back are rejected:
//! - eligible actions without their probabilities, since `p` must have one for each action in `a`. If there are
//!   neither, `a` and `p` have only the chosen action, and `_multi` has more;
//! - a logged distribution whose probability of the action is not `pscore`;
//! - a feature whose name starts with `_`, or occurs twice.
//!
//! Candidates are the objects of `_multi`, with their identities as `_tag`. A feature `user.age` is the field `age` of the
//! object `user`, which is a namespace to Vowpal Wabbit.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io::Write;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::super::ACTIONS;
use super::super::candidates::Candidate;
use super::super::cells::push_json_text;
use super::super::decisions::{self, Decision, negated, write_lines};
use crate::error::Result;

/// Each line lists every action, so more actions would make a file of commas.
const MOST_ACTIONS: u32 = 1 << 16;

pub(crate) fn write(
    place: &str,
    out: &mut dyn Write,
    schema: &SchemaRef,
    tables: &mut dyn Iterator<Item = Result<RecordBatch>>,
) -> Result<()> {
    let actions = schema.metadata().get(ACTIONS).and_then(|actions| actions.parse().ok()).unwrap_or(2);
    write_lines(place, out, schema, tables, |out, decision| line(out, decision, actions))
}

type Unfit = decisions::Unfit<String, String>;

/// `actions` is the number of actions, if it is known, and otherwise the smallest that there can be.
fn line(out: &mut String, decision: &Decision, actions: usize) -> std::result::Result<(), Unfit> {
    let chosen = distribution(decision)?;
    let candidates = decision.candidates.as_deref();
    let largest = chosen.iter().map(|&(action, _)| action).max().unwrap_or(decision.action);
    if largest >= MOST_ACTIONS {
        return Err((
            "action".into(),
            format!("below {MOST_ACTIONS}, as every line lists all actions"),
            largest.to_string(),
        ));
    }
    let known = decision.probabilities.is_some();
    let all = match candidates {
        Some(candidates) if (largest as usize) < candidates.len() => candidates.len(),
        Some(candidates) => {
            let allowed = format!("the place of one of the {} candidates", candidates.len());
            return Err(("action".into(), allowed, largest.to_string()));
        }
        None if known => largest as usize + 1,
        None => (largest as usize + 1).max(actions),
    };
    if known && chosen.len() == 1 && all > 1 {
        let allowed = "more than one action, or action 0 alone, as the number of actions is not known otherwise".into();
        return Err(("eligible".into(), allowed, format!("action {largest} alone")));
    }

    let number = |value: f64| format!("{value:?}");
    let _ = write!(
        out,
        "{{\"_label_cost\":{},\"_label_probability\":{},\"_label_Action\":{},\"_labelIndex\":{}",
        number(negated(decision.reward)),
        number(chosen[0].1),
        u64::from(decision.action) + 1,
        decision.action
    );
    if decision.skip {
        out.push_str(",\"_skipLearn\":true");
    }
    let text = |out: &mut String, name: &str, value: &Option<String>| {
        if let Some(value) = value {
            let _ = write!(out, ",\"{name}\":");
            push_json_text(out, value);
        }
    };
    text(out, "Timestamp", &decision.timestamp);
    out.push_str(",\"Version\":\"1\"");
    text(out, "EventId", &decision.event_id);
    let list = |items: Vec<String>| items.join(",");
    let actions = list(chosen.iter().map(|&(action, _)| (u64::from(action) + 1).to_string()).collect());
    let _ = write!(out, ",\"a\":[{actions}],\"c\":{{");
    context(out, &decision.features)?;
    out.push_str("\"_multi\":[");
    for i in 0..all {
        if i > 0 {
            out.push(',');
        }
        out.push('{');
        if let Some(Candidate { id, features }) = candidates.and_then(|candidates| candidates.get(i)) {
            context(out, features)?;
            if let Some(id) = id {
                out.push_str("\"_tag\":");
                push_json_text(out, id);
            } else if out.ends_with(',') {
                out.pop();
            }
        }
        out.push('}');
    }
    out.push_str("]}");
    let probabilities = list(chosen.iter().map(|&(_, probability)| number(probability)).collect());
    let _ = write!(out, ",\"p\":[{probabilities}]");
    if let Some(version) = &decision.policy_version {
        out.push_str(",\"VWState\":{\"m\":");
        push_json_text(out, version);
        out.push('}');
    }
    if let Some(pdrop) = decision.pdrop {
        let _ = write!(out, ",\"pdrop\":{}", number(pdrop));
    }
    out.push_str("}\n");
    Ok(())
}

/// Actions and their probabilities, the chosen one first.
fn distribution(decision: &Decision) -> std::result::Result<Vec<(u32, f64)>, Unfit> {
    let Decision { action, pscore, .. } = *decision;
    let mut all: Vec<(u32, f64)> = match (&decision.eligible, &decision.probabilities) {
        (None, None) => return Ok(vec![(action, pscore)]),
        // Without a list, all candidates are eligible.
        (Some(eligible), None) if decision.candidates.as_ref().is_some_and(|all| all.len() == eligible.len()) => {
            return Ok(vec![(action, pscore)]);
        }
        (Some(_), None) => {
            let allowed = "null without probabilities, as each action needs one in this format";
            return Err(("eligible".into(), allowed.into(), "there".into()));
        }
        (None, Some(probabilities)) => (0..).zip(probabilities.iter().copied()).collect(),
        (Some(eligible), Some(probabilities)) => {
            if eligible.len() != probabilities.len() {
                let allowed = format!("a probability for each of the {} eligible actions", eligible.len());
                return Err(("probabilities".into(), allowed, probabilities.len().to_string()));
            }
            eligible.iter().copied().zip(probabilities.iter().copied()).collect()
        }
    };
    let mut seen = HashSet::new();
    if let Some((twice, _)) = all.iter().find(|(action, _)| !seen.insert(*action)) {
        return Err(("eligible".into(), "every action once".into(), format!("one with action {twice} twice")));
    }
    let Some(at) = all.iter().position(|&(other, _)| other == action) else {
        let column = if decision.eligible.is_some() { "eligible" } else { "probabilities" };
        return Err((
            column.into(),
            format!("a list with the action that was chosen, {action}"),
            "one without it".into(),
        ));
    };
    if all[at].1 != pscore {
        let allowed = format!("the probability of action {action} in probabilities, {}", all[at].1);
        return Err(("pscore".into(), allowed, pscore.to_string()));
    }
    all[..=at].rotate_right(1);
    Ok(all)
}

/// Writes features, with a comma after each. `city=Rome` with 1 becomes `"city": "Rome"`, unless that name is taken, and
/// `user.age` the field `age` of the object `user`, unless there is a feature `user`, or others between those of `user`.
fn context(out: &mut String, features: &[(String, f32)]) -> std::result::Result<(), Unfit> {
    let mut taken: HashSet<&str> = HashSet::with_capacity(features.len());
    for (name, _) in features {
        if name.starts_with('_') {
            let allowed = "a name that does not start with _, which this format has for other things";
            return Err(("the name of a feature".into(), allowed.into(), format!("{name:?}")));
        }
        if !taken.insert(name) {
            return Err((
                "the name of a feature".into(),
                "there once".into(),
                format!("{name:?}, which is there twice"),
            ));
        }
    }
    let flat: HashSet<&str> = features.iter().map(|(name, value)| key(name, *value).0).collect();
    // A namespace is one object, so that its features must follow each other.
    let mut runs: HashMap<&str, usize> = HashMap::new();
    for run in features.chunk_by(|(a, _), (b, _)| space(a) == space(b)) {
        if let Some((space, _)) = namespace(&run[0].0) {
            *runs.entry(space).or_default() += 1;
        }
    }
    for run in features.chunk_by(|(a, _), (b, _)| space(a) == space(b)) {
        match space(&run[0].0).filter(|space| !flat.contains(space) && runs.get(space) == Some(&1)) {
            None => run.iter().for_each(|(name, value)| one(out, name, *value, &mut taken)),
            Some(space) => {
                push_json_text(out, space);
                out.push_str(":{");
                let inner: Vec<(&str, f32)> =
                    run.iter().filter_map(|(name, value)| Some((namespace(name)?.1, *value))).collect();
                let mut taken: HashSet<&str> = inner.iter().map(|(name, _)| *name).collect();
                inner.iter().for_each(|(name, value)| one(out, name, *value, &mut taken));
                out.pop();
                out.push_str("},");
            }
        }
    }
    Ok(())
}

/// The part of a feature's name before the first dot, if it comes before a text, and the rest.
fn namespace(name: &str) -> Option<(&str, &str)> {
    let (space, inner) = name.split_once('.')?;
    (!space.is_empty() && !space.contains('=') && !inner.is_empty() && !inner.starts_with('_'))
        .then_some((space, inner))
}

fn space(name: &str) -> Option<&str> {
    namespace(name).map(|(space, _)| space)
}

/// The field of a feature, and its text, if it has one.
fn key(name: &str, value: f32) -> (&str, Option<&str>) {
    match name.split_once('=').filter(|_| value == 1.0) {
        Some((key, text)) => (key, Some(text)),
        None => (name, None),
    }
}

fn one<'f>(out: &mut String, name: &'f str, value: f32, taken: &mut HashSet<&'f str>) {
    match key(name, value) {
        (key, Some(text)) if taken.insert(key) => {
            push_json_text(out, key);
            out.push(':');
            push_json_text(out, text);
        }
        _ => {
            push_json_text(out, name);
            let _ = write!(out, ":{value:?}");
        }
    }
    out.push(',');
}
