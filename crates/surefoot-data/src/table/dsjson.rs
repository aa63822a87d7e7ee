//! Vowpal Wabbit's decision service JSON: one decision per line.
//!
//! | in the file | column |
//! | --- | --- |
//! | `EventId`, `Timestamp`, `VWState.m` | `event_id`, `timestamp`, `policy_version` |
//! | `a` | `eligible`; the first is the chosen action, `action`. Counted from 1 in the file, from 0 here |
//! | `p`, in the order of `a` | `probabilities`; the first is `pscore` |
//! | `_label_cost` | `reward`, the negated cost |
//! | `pdrop`, `_skipLearn` | `pdrop`, `skip` (false if absent) |
//! | `c` | `context_names` and `context_values` |
//!
//! **Checks.** `_label_Action` (from 1) and `_labelIndex` (from 0) must name the first action in `a`. Some loggers
//! multiply `_label_probability` by `1 - pdrop`, the probability that the record was kept, and also write `pdrop`. So
//! `_label_probability` is not used, but it must agree with `p[0]`, with or without that factor, to a relative 1e-4
//! (loggers use 32 bits). Probabilities are read unchanged, whereas Vowpal Wabbit clips those above 1. `_multi`, with
//! one object per action, must have as many objects as the largest number in `a`. If `a` has only one action but `_multi`
//! has more, the probabilities of the others are unknown, and `eligible` and `probabilities` are null.
//!
//! **Candidates.** If an object in `_multi` has a feature or an identity (`_tag`, or else `_id`), the objects are the
//! `candidates` of the decision, and `action` and `eligible` are places among them. If all objects are empty, there are no
//! candidates, only numbers of actions.
//!
//! **Lines that are not decisions** (rewards that were never joined, decisions with several slots) are errors: reading
//! the log without them would change it. A decision without `_label_cost` has no label: `action`, `pscore` and `reward`
//! are null.
//!
//! **Features.** `"ns": {"age": 3, "city": "Rome", "new": true}` in `c` gives `ns.age` with 3, `ns.city=Rome` with 1
//! and `ns.new` with 1; `false`, `null` and 0 give no feature. Fields of `c` that are not objects have no `ns.` prefix.
//! In arrays, a number gets its index in its name, `ns.x[0]`, a text is encoded like any other text, and an object is
//! read as if it stood there alone (`"FromUrl": [{"weather": "sunny"}]` is common). Names that start with `_`, such as
//! `_multi`, `_tag` or `_text`, are instructions to Vowpal Wabbit; they are left out with everything in them.

mod bare;
mod features;
mod write;

use std::collections::HashSet;
use std::io::BufRead;

use super::decisions::{ALWAYS, DSJSON, Decision, Decisions, negated};
use super::json::Json;
use super::kinds;
use super::lines::{BATCH, Lines, field, malformed, shown, tables};
use super::{ROWS, Tables};
use crate::error::{Error, Result};
pub(crate) use write::write;

/// The fields of a decision that are not features.
const ENVELOPE: [&str; 10] =
    ["a", "c", "p", "EventId", "Timestamp", "VWState", "pdrop", "RewardValue", "DeferredAction", "ActionTaken"];

/// The tolerance for `_label_probability`.
const AGREE: f64 = 1e-4;

/// Reads decisions. A decision without `_label_cost` has no label. Without `labels`, a line needs only the context `c`.
pub(crate) fn read(place: &str, input: impl BufRead + Send + 'static, labels: bool) -> Result<Tables> {
    let mut lines = Lines::new(place, input);
    let place = place.to_owned();
    let columns = [&ALWAYS[..], &DSJSON[..]].concat();
    let mut decisions = Decisions::default();
    Ok(tables(move || {
        let mut bytes = 0;
        while decisions.len() < ROWS && bytes < BATCH {
            let Some(line) = lines.next()? else { break };
            if line.is_blank() {
                continue;
            }
            let object =
                Json::parse_features(line.text, &ENVELOPE).map_err(|reason| malformed(&place, line.number, reason))?;
            let record = Record { place: &place, line: line.number, object };
            decisions.push(&record.read(labels)?);
            bytes += line.text.len();
        }
        if decisions.len() == 0 { Ok(None) } else { decisions.finish(&place, &columns).map(Some) }
    }))
}

/// One line.
struct Record<'a> {
    place: &'a str,
    line: u64,
    object: Json<'a>,
}

impl<'a> Record<'a> {
    fn malformed(&self, reason: impl Into<String>) -> Error {
        malformed(self.place, self.line, reason)
    }

    fn field(&self, name: &str, allowed: &str, found: &Json<'_>) -> Error {
        field(self.place, self.line, name, allowed, found.describe())
    }

    fn read(&self, labels: bool) -> Result<Decision> {
        if let Some(reason) = kinds::of_object(&self.object) {
            return Err(self.malformed(reason));
        }
        if self.is_bare() {
            return self.bare();
        }
        if !labels {
            return self.context();
        }
        self.kind()?;
        match self.object.get("_label_cost") {
            None | Some(Json::Null) => self.context(),
            Some(_) => self.decision(),
        }
    }

    fn decision(&self) -> Result<Decision> {
        let actions = self.actions()?;
        let probabilities = self.probabilities(actions.len())?;
        let &[action, ..] = &actions[..] else { return Err(self.malformed("a should have an action, but is empty")) };
        let Some(&pscore) = probabilities.first() else { return Err(self.malformed("p should not be empty, but is")) };
        self.same_action(action)?;
        let pdrop = self.number("pdrop")?;
        self.same_probability(pscore, pdrop)?;
        let known = self.known(&actions)?;
        let cost = self.number("_label_cost")?;
        let cost = cost.ok_or_else(|| self.malformed("a decision should have a _label_cost, but has none"))?;
        let version = match self.object.get("VWState") {
            None | Some(Json::Null) => None,
            Some(state @ Json::Object(_)) => self.text("VWState.m", state.get("m"))?,
            Some(other) => return Err(self.field("VWState", "an object", other)),
        };
        let skip = match self.object.get("_skipLearn") {
            None | Some(Json::Null | Json::Bool(false)) => false,
            Some(Json::Bool(true)) => true,
            Some(other) => return Err(self.field("_skipLearn", "true or false", other)),
        };
        Ok(Decision {
            event_id: self.text("EventId", self.object.get("EventId"))?,
            timestamp: self.text("Timestamp", self.object.get("Timestamp"))?,
            policy_version: version,
            action,
            pscore,
            reward: negated(cost),
            eligible: known.then_some(actions),
            probabilities: known.then_some(probabilities),
            pdrop,
            skip,
            features: self.features()?,
            candidates: self.candidates()?,
            ..Decision::default()
        })
    }

    /// A line of which only the context and the eligible actions count. The actions are those in `a`, or all of `_multi`.
    fn context(&self) -> Result<Decision> {
        if !matches!(self.object, Json::Object(_)) {
            return Err(self.malformed(format!("should be a JSON object, but is {}", self.object.describe())));
        }
        let has = |name| self.object.get(name).is_some();
        if has("_label_cost") && has("a") && has("p") {
            return self.decision();
        }
        let all = match self.object.get("c").and_then(|context| context.get("_multi")) {
            None | Some(Json::Null) => None,
            Some(Json::Array(all)) => Some((0..all.len() as u32).collect()),
            Some(other) => return Err(self.field("c._multi", "an array with an object for each action", other)),
        };
        let eligible = match has("a") {
            true => {
                let actions = self.actions()?;
                self.known(&actions)?;
                Some(actions).filter(|actions| actions.len() > 1).or(all)
            }
            false => all,
        };
        Ok(Decision {
            event_id: self.text("EventId", self.object.get("EventId"))?,
            timestamp: self.text("Timestamp", self.object.get("Timestamp"))?,
            eligible,
            unlabelled: true,
            features: self.features()?,
            candidates: self.candidates()?,
            ..Decision::default()
        })
    }

    /// Rejects lines that are not decisions.
    fn kind(&self) -> Result<()> {
        if !matches!(self.object, Json::Object(_)) {
            return Err(self.malformed(format!("should be a JSON object, but is {}", self.object.describe())));
        }
        let has = |name| self.object.get(name).is_some();
        let observed = ["RewardValue", "DeferredAction", "ActionTaken"].into_iter().find(|name| has(name));
        if let Some(name) = observed
            && !has("a")
        {
            let event = self.text("EventId", self.object.get("EventId"))?;
            let event = event.map_or("an event".into(), |event| format!("event {}", shown(&event)));
            let reason = format!(
                "should be a decision, but is an observation ({name}) of {event}: rewards must be joined first"
            );
            return Err(self.malformed(reason));
        }
        match ["a", "c", "p"].into_iter().find(|name| !has(name)) {
            Some(name) => Err(self.malformed(format!("should be a decision with a, c and p, but has no {name}"))),
            None => Ok(()),
        }
    }

    fn text(&self, name: &str, value: Option<&Json<'_>>) -> Result<Option<String>> {
        match value {
            None | Some(Json::Null) => Ok(None),
            Some(Json::Text(text)) => Ok(Some(text.clone().into_owned())),
            Some(other) => Err(self.field(name, "text", other)),
        }
    }

    fn finite(&self, name: &str, value: &Json<'_>) -> Result<f64> {
        match value {
            Json::Number(digits) => digits.parse().ok().filter(|value: &f64| value.is_finite()),
            _ => None,
        }
        .ok_or_else(|| self.field(name, "a number within the range of 64 bits", value))
    }

    fn number(&self, name: &str) -> Result<Option<f64>> {
        match self.object.get(name) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => self.finite(name, value).map(Some),
        }
    }

    fn array(&self, name: &str) -> Result<&[Json<'a>]> {
        match self.object.get(name) {
            Some(Json::Array(items)) => Ok(items),
            other => Err(self.field(name, "an array", other.unwrap_or(&Json::Null))),
        }
    }

    /// `a`, counted from 0.
    fn actions(&self) -> Result<Vec<u32>> {
        let mut seen = HashSet::new();
        let mut actions = Vec::new();
        for (i, item) in self.array("a")?.iter().enumerate() {
            let action = match item {
                Json::Number(digits) => digits.parse::<u32>().ok().and_then(|action| action.checked_sub(1)),
                _ => None,
            };
            let action = action
                .ok_or_else(|| self.field(&format!("a[{i}]"), "the number of an action, counted from 1", item))?;
            if !seen.insert(action) {
                return Err(self.malformed(format!("a should have every action once, but has {} twice", action + 1)));
            }
            actions.push(action);
        }
        Ok(actions)
    }

    fn probabilities(&self, actions: usize) -> Result<Vec<f64>> {
        let items = self.array("p")?;
        if items.len() != actions {
            let reason =
                format!("p should have a probability for each of the {actions} actions in a, but has {}", items.len());
            return Err(self.malformed(reason));
        }
        items.iter().enumerate().map(|(i, item)| self.finite(&format!("p[{i}]"), item)).collect()
    }

    /// Rejects labels that name another action.
    fn same_action(&self, action: u32) -> Result<()> {
        for (name, counted_from) in [("_label_Action", 1), ("_labelIndex", 0)] {
            let allowed = u64::from(action) + counted_from;
            match self.object.get(name) {
                None | Some(Json::Null) => {}
                Some(Json::Number(digits)) if digits.parse() == Ok(allowed) => {}
                Some(other) => {
                    let reason = format!(
                        "{name} counts from {counted_from} and should be {allowed}, as a[0] is {}, but is {}",
                        u64::from(action) + 1,
                        other.describe()
                    );
                    return Err(self.malformed(reason));
                }
            }
        }
        Ok(())
    }

    fn same_probability(&self, pscore: f64, pdrop: Option<f64>) -> Result<()> {
        let Some(label) = self.number("_label_probability")? else { return Ok(()) };
        let kept = pdrop.map_or(pscore, |pdrop| pscore * (1.0 - pdrop));
        if [pscore, kept].iter().any(|value| (label - value).abs() <= AGREE * value.abs()) {
            return Ok(());
        }
        let either = if pdrop.is_some() { format!(", or p[0] (1 - pdrop), which is {kept}") } else { String::new() };
        let allowed = format!("p[0], which is {pscore}{either}, to a relative {AGREE}");
        Err(field(self.place, self.line, "_label_probability", allowed, label.to_string()))
    }

    /// Whether the eligible actions are known.
    fn known(&self, actions: &[u32]) -> Result<bool> {
        let all = match self.object.get("c").and_then(|context| context.get("_multi")) {
            None => return Ok(actions.len() > 1),
            Some(Json::Array(all)) => all.len(),
            Some(other) => return Err(self.field("c._multi", "an array with an object for each action", other)),
        };
        match actions.iter().max() {
            Some(&most) if most as usize >= all => {
                let reason = format!(
                    "a should have actions up to {all}, as c._multi has that many, but has {}",
                    u64::from(most) + 1
                );
                Err(self.malformed(reason))
            }
            _ => Ok(actions.len() > 1 || all == 1),
        }
    }
}
