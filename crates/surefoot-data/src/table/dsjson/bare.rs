//! Vowpal Wabbit's own JSON (`--json`): the context itself is the object of a line, with the label among its fields.
//!
//! | in the file | |
//! | --- | --- |
//! | `_label_Action` | the action, counted from 1, if there is no `_multi` |
//! | `_labelIndex` | the place of the chosen action in `_multi`, counted from 0 |
//! | `_label_Cost`, `_label_Probability` | cost and propensity, also in lower case |
//! | `_label` | all three of them: an object, or a text `action:cost:probability` |
//! | `_multi` | the actions with their features; one of them may have the label |
//! | `_tag` | the `event_id` |
//!
//! With `_labelIndex`, `_label_Action` is ignored, as Vowpal Wabbit does.

use super::super::decisions::{Decision, negated};
use super::super::json::Json;
use super::super::lines::LONGEST;
use super::Record;
use crate::error::Result;

/// The parts of a label.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Label {
    action: Option<u64>,
    cost: Option<f64>,
    probability: Option<f64>,
}

impl<'a> Record<'a> {
    /// Whether it is a line of Vowpal Wabbit's own JSON: it has a label or actions, and nothing of a logged decision.
    pub(super) fn is_bare(&self) -> bool {
        let Json::Object(fields) = &self.object else { return false };
        let envelope = ["c", "a", "p", "o", "RewardValue", "DeferredAction", "ActionTaken"];
        let bare = |name: &str| name == "_multi" || name.get(..6).is_some_and(|start| start == "_label");
        !fields.iter().any(|(name, _)| envelope.contains(&name.as_ref())) && fields.iter().any(|(name, _)| bare(name))
    }

    /// The decision of such a line.
    pub(super) fn bare(&self) -> Result<Decision> {
        let Json::Object(fields) = &self.object else { return Err(self.malformed("should be a JSON object")) };
        let actions = match self.object.get("_multi") {
            None | Some(Json::Null) => None,
            Some(Json::Array(actions)) => Some(actions),
            Some(other) => return Err(self.field("_multi", "an array with an object for each action", other)),
        };
        if actions.is_some_and(Vec::is_empty) {
            return Err(self.malformed("_multi should have an action, but is empty"));
        }
        let (label, action) = self.labelled(actions.map(Vec::as_slice))?;
        let known = match (label.cost, label.probability) {
            (Some(cost), Some(probability)) => Some((cost, probability)),
            (None, None) => None,
            (cost, _) => {
                let (there, missing) = if cost.is_some() { ("cost", "probability") } else { ("probability", "cost") };
                return Err(self.malformed(format!("a label with a {there} should have a {missing}, but has none")));
            }
        };
        let (cost, pscore) = known.unwrap_or_default();
        if known.is_some() && action.is_none() {
            let wanted = if actions.is_some() { "_labelIndex" } else { "_label_Action" };
            return Err(self.malformed(format!("a label should say which action was chosen ({wanted}), but does not")));
        }
        Ok(Decision {
            event_id: self.text("_tag", self.object.get("_tag"))?,
            action: action.unwrap_or_default(),
            pscore,
            reward: negated(cost),
            eligible: actions.map(|actions| (0..actions.len() as u32).collect()),
            unlabelled: known.is_none(),
            features: self.features_of("the context", fields, &mut { LONGEST })?,
            candidates: self.candidates_in("_multi", self.object.get("_multi"))?,
            ..Decision::default()
        })
    }

    /// The label, and the chosen action, counted from 0.
    fn labelled(&self, actions: Option<&[Json<'a>]>) -> Result<(Label, Option<u32>)> {
        let mut label = self.label("", &self.object)?;
        let mut chosen = match self.object.get("_labelIndex") {
            None | Some(Json::Null) => None,
            Some(Json::Number(digits)) if digits.parse::<u32>().is_ok() => digits.parse::<u32>().ok(),
            Some(other) => return Err(self.field("_labelIndex", "the place of an action, counted from 0", other)),
        };
        for (i, item) in actions.unwrap_or_default().iter().enumerate() {
            let own = self.label(&format!("_multi[{i}]."), item)?;
            if own.cost.is_none() && own.probability.is_none() {
                continue;
            }
            if label.cost.is_some() || label.probability.is_some() {
                return Err(self.malformed(format!("one label should be given, but _multi[{i}] has another")));
            }
            (label, chosen) = (own, Some(i as u32));
        }
        if chosen.is_none() && (label.cost.is_some() || actions.is_none()) {
            chosen = match label.action {
                None => None,
                Some(0) => return Err(self.malformed("_label_Action counts from 1 and should be at least 1, but is 0")),
                Some(action) => u32::try_from(action - 1).ok(),
            };
        }
        match (chosen, actions) {
            (Some(place), Some(actions)) if place as usize >= actions.len() => {
                let reason = format!("the chosen action should be one of the {} in _multi", actions.len());
                Err(self.malformed(format!("{reason}, but is number {place}, counted from 0")))
            }
            (chosen, _) => Ok((label, chosen)),
        }
    }

    /// The fields of a label in an object; `at` is where it is, for errors.
    fn label(&self, at: &str, object: &Json<'a>) -> Result<Label> {
        let Json::Object(fields) = object else { return Ok(Label::default()) };
        let mut label = Label::default();
        for (name, value) in fields {
            let place = format!("{at}{name}");
            match name.to_ascii_lowercase().as_str() {
                "_label" => self.whole_label(&place, value, &mut label)?,
                lower => {
                    if let Some(part) = lower.strip_prefix("_label_") {
                        self.part(&place, part, value, &mut label)?;
                    }
                }
            }
        }
        Ok(label)
    }

    fn part(&self, place: &str, part: &str, value: &Json<'a>, label: &mut Label) -> Result<()> {
        let known = match (part, value) {
            (_, Json::Null) => true,
            ("action", Json::Number(digits)) if digits.parse::<u64>().is_ok() => {
                label.action.replace(digits.parse().unwrap_or_default()).is_none()
            }
            ("action", other) => return Err(self.field(place, "the number of an action", other)),
            ("cost", value) => label.cost.replace(self.finite(place, value)?).is_none(),
            ("probability", value) => label.probability.replace(self.finite(place, value)?).is_none(),
            _ => true,
        };
        if known { Ok(()) } else { Err(self.malformed(format!("{place} should be given once, but is given twice"))) }
    }

    /// `_label`: an object, or the text of a label.
    fn whole_label(&self, place: &str, value: &Json<'a>, label: &mut Label) -> Result<()> {
        let allowed = "an object with Action, Cost and Probability, or a text action:cost:probability";
        match value {
            Json::Null => Ok(()),
            Json::Object(fields) => {
                let part = |(name, value): &(std::borrow::Cow<'a, str>, Json<'a>)| {
                    self.part(&format!("{place}.{name}"), &name.to_ascii_lowercase(), value, label)
                };
                fields.iter().try_for_each(part)
            }
            Json::Text(text) => {
                let parts: Vec<&str> = text.split(':').collect();
                let [action, cost, probability] = parts[..] else { return Err(self.field(place, allowed, value)) };
                let number = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite());
                let (Ok(action), Some(cost), Some(probability)) = (action.parse(), number(cost), number(probability))
                else {
                    return Err(self.field(place, allowed, value));
                };
                *label = Label { action: Some(action), cost: Some(cost), probability: Some(probability) };
                Ok(())
            }
            other => Err(self.field(place, allowed, other)),
        }
    }
}
