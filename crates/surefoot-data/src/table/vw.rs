//! Vowpal Wabbit's text for contextual bandits, in both of its forms.
//!
//! **One line per decision** (`--cb`): `2:-1:0.25 'tag |user age:3 city=Rome |device mobile`, that is
//! `action:cost:probability`, a tag, and features in namespaces. Actions are counted from 1 in the file and from 0
//! here; the reward is the negated cost. Other actions may be listed beside the label, without cost (`1 2:-1:0.25 3`):
//! they and the chosen one are then the eligible actions.
//!
//! **Several lines per decision** (`--cb_adf`): `shared |user age:3`, then a line for each action, one of them with a
//! label, up to a blank line. The action is the position of the line with the label (its own number is ignored, as
//! Vowpal Wabbit does), and all actions are eligible. Features of actions are not kept: a policy that is linear in the
//! context has no place for them. A decision without a `shared` line has no context and could not be distinguished from
//! lines of the first form, so it is rejected.
//!
//! **Features** are named `namespace^feature`, or `feature` if the namespace has no name. The value is 1 if none is
//! given, times the value of the namespace (`|user:0.5`). A feature that occurs several times counts as often, as in
//! Vowpal Wabbit. The tag is the `event_id`: a last word that starts with `'`, or that is followed by `|` without a
//! space. So `1:0:0.5| a` has a tag and no label, and is rejected; Vowpal Wabbit would read it as a decision without a
//! label.

mod write;

use std::collections::HashMap;
use std::io::BufRead;

use super::decisions::{ALWAYS, Decision, Decisions, negated};
use super::lines::{BATCH, LONGEST, Line, Lines, field, long_names, malformed, shown, tables};
use super::{ROWS, Tables};
use crate::error::{Error, Result};
pub(crate) use write::write;

/// The largest number of actions of a decision of several lines.
const ACTIONS: u32 = 1 << 20;

/// Reads decisions. Without `labels`, a decision need not have one.
pub(crate) fn read(place: &str, input: impl BufRead + Send + 'static, labels: bool) -> Result<Tables> {
    let mut lines = Lines::new(place, input);
    let mut reader = Reader { place: place.to_owned(), open: None, labels };
    let mut decisions = Decisions::default();
    Ok(tables(move || {
        let mut bytes = 0;
        // A decision of several lines may be longer than the text of a batch.
        while decisions.len() < ROWS && (bytes < BATCH || decisions.len() == 0) {
            let Some(line) = lines.next()? else {
                if let Some(decision) = reader.close()? {
                    decisions.push(&decision);
                }
                break;
            };
            bytes += line.text.len();
            if let Some(decision) = reader.line(line)? {
                decisions.push(&decision);
            }
        }
        if decisions.len() == 0 { Ok(None) } else { decisions.finish(&reader.place, &ALWAYS).map(Some) }
    }))
}

struct Reader {
    place: String,
    /// A decision of several lines that has not ended yet.
    open: Option<Several>,
    /// Whether every decision must have a label.
    labels: bool,
}

/// The lines of a decision so far.
struct Several {
    /// The line of `shared`.
    line: u64,
    tag: Option<String>,
    features: Vec<(String, f32)>,
    /// The action of the line with a label, and its cost and probability.
    chosen: Option<(u32, f64, f64)>,
    actions: u32,
}

impl Reader {
    fn line(&mut self, line: Line<'_>) -> Result<Option<Decision>> {
        if line.is_blank() {
            return self.close();
        }
        let text = Text { place: &self.place, line: line.number };
        let parts = Parts::of(line.text);
        if parts.words.first() == Some(&"shared") {
            if let Some(open) = &self.open {
                let reason = format!(
                    "should come after a blank line, which ends the decision of line {}, but does not",
                    open.line
                );
                return Err(text.malformed(reason));
            }
            if let Some(word) = parts.words.get(1) {
                return Err(text.malformed(format!("a shared line should have no label, but has {}", shown(word))));
            }
            self.open = Some(Several {
                line: line.number,
                tag: parts.tag.map(str::to_owned),
                features: text.features(parts.features)?,
                chosen: None,
                actions: 0,
            });
            return Ok(None);
        }
        let labels = parts.words.iter().map(|word| text.label(word)).collect::<Result<Vec<Label>>>()?;
        let Some(open) = &mut self.open else { return text.single(&parts, &labels, self.labels).map(Some) };
        if labels.len() > 1 {
            return Err(text
                .malformed(format!("the line of an action should have at most one label, but has {}", labels.len())));
        }
        if let Some(Label { known: Some((cost, probability)), .. }) = labels.first() {
            if let Some((action, ..)) = open.chosen {
                let reason = format!(
                    "one action of a decision should have a label, but this is the second, after action {action}"
                );
                return Err(text.malformed(reason));
            }
            open.chosen = Some((open.actions, *cost, *probability));
        }
        text.features(parts.features)?;
        open.actions += 1;
        if open.actions > ACTIONS {
            return Err(text.malformed(format!("a decision should have at most {ACTIONS} actions, but has more")));
        }
        Ok(None)
    }

    /// Ends the decision of several lines, if there is one.
    fn close(&mut self) -> Result<Option<Decision>> {
        let Some(open) = self.open.take() else { return Ok(None) };
        let chosen = open.chosen.or((!self.labels).then_some((0, 0.0, 0.0)));
        let Some((action, cost, probability)) = chosen else {
            let reason = format!(
                "one of the lines after shared should have a label, action:cost:probability, but none of the {} has",
                open.actions
            );
            return Err(malformed(&self.place, open.line, reason));
        };
        Ok(Some(Decision {
            event_id: open.tag,
            action,
            pscore: probability,
            reward: negated(cost),
            eligible: Some((0..open.actions).collect()),
            unlabelled: open.chosen.is_none(),
            features: open.features,
            ..Decision::default()
        }))
    }
}

/// A line cut into its parts.
struct Parts<'a> {
    /// The words before the first `|`, without the tag.
    words: Vec<&'a str>,
    tag: Option<&'a str>,
    /// The text after it.
    features: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(line: &'a str) -> Self {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let (head, features) = match line.split_once('|') {
            Some((head, features)) => (head, Some(features)),
            None => (line, None),
        };
        let mut words: Vec<&str> = words(head).collect();
        let touches = features.is_some() && !head.is_empty() && !head.ends_with(SPACE);
        let tag =
            words.pop_if(|word| touches || word.starts_with('\'')).map(|word| word.strip_prefix('\'').unwrap_or(word));
        Parts { words, tag: tag.filter(|tag| !tag.is_empty()), features }
    }
}

/// The characters that separate words.
const SPACE: [char; 2] = [' ', '\t'];

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(SPACE).filter(|word| !word.is_empty())
}

/// `action` or `action:cost:probability`.
struct Label {
    /// The number as written.
    action: u32,
    /// Cost and probability.
    known: Option<(f64, f64)>,
}

/// Parses the parts of a line; it knows the line number for errors.
struct Text<'a> {
    place: &'a str,
    line: u64,
}

impl Text<'_> {
    fn malformed(&self, reason: impl Into<String>) -> Error {
        malformed(self.place, self.line, reason)
    }

    fn field(&self, column: &str, allowed: &str, found: &str) -> Error {
        field(self.place, self.line, column, allowed, shown(found))
    }

    fn label(&self, word: &str) -> Result<Label> {
        let mut parts = word.split(':');
        let (action, cost, probability) = (parts.next(), parts.next(), parts.next());
        let wrong = || self.field("the label", "action or action:cost:probability, with finite numbers", word);
        let action = action.and_then(|action| action.parse().ok()).ok_or_else(wrong)?;
        let known = match (cost, probability, parts.next()) {
            (None, ..) => None,
            (Some(cost), Some(probability), None) => {
                let number = |text: &str| text.parse().ok().filter(|value: &f64| value.is_finite());
                Some((number(cost).ok_or_else(wrong)?, number(probability).ok_or_else(wrong)?))
            }
            _ => return Err(wrong()),
        };
        Ok(Label { action, known })
    }

    /// A decision of one line.
    fn single(&self, parts: &Parts<'_>, labels: &[Label], required: bool) -> Result<Decision> {
        let mut chosen = labels.iter().filter_map(|label| label.known.map(|known| (label.action, known)));
        let first = chosen.next();
        let Some((action, (cost, probability))) = first.or((!required).then_some((1, (0.0, 0.0)))) else {
            let hint = match parts.tag {
                Some(tag) if tag.contains(':') => {
                    format!(" ({} is a tag, since no space comes before the |)", shown(tag))
                }
                _ => " (the lines of one decision would have to start with a line: shared |)".to_owned(),
            };
            return Err(self.malformed(format!("should have a label, action:cost:probability, but has none{hint}")));
        };
        if chosen.next().is_some() {
            return Err(self.malformed("should have one label with a cost, but has several"));
        }
        let counted = |action: u32| {
            action.checked_sub(1).ok_or_else(|| self.field("the action of a label", "counted from 1", "0"))
        };
        let listed = labels.iter().map(|label| counted(label.action)).collect::<Result<Vec<u32>>>()?;
        let mut sorted = listed.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            let reason = format!("should have every action once, but has {} twice", u64::from(twice[0]) + 1);
            return Err(self.malformed(reason));
        }
        Ok(Decision {
            event_id: parts.tag.map(str::to_owned),
            action: counted(action)?,
            pscore: probability,
            reward: negated(cost),
            eligible: (listed.len() > 1).then_some(listed),
            unlabelled: first.is_none(),
            features: self.features(parts.features)?,
            ..Decision::default()
        })
    }

    /// Parses everything after the first `|`.
    fn features(&self, text: Option<&str>) -> Result<Vec<(String, f32)>> {
        let mut features: Vec<(String, f64)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut room = LONGEST;
        for part in text.into_iter().flat_map(|text| text.split('|')) {
            let named = !part.is_empty() && !part.starts_with(SPACE);
            let mut words = words(part);
            let namespace = if named { words.next().unwrap_or_default() } else { "" };
            let (namespace, weight) = self.weighted("the weight of a namespace", namespace)?;
            for word in words {
                let (feature, value) = self.weighted("the value of a feature", word)?;
                if feature.is_empty() {
                    return Err(self.field("a feature", "a name, or a name and a value", word));
                }
                let name = if namespace.is_empty() { feature.to_owned() } else { format!("{namespace}^{feature}") };
                room = room.checked_sub(name.len()).ok_or_else(|| long_names(self.place, self.line))?;
                match places.get(&name) {
                    Some(&place) => features[place].1 += value * weight,
                    None => {
                        places.insert(name.clone(), features.len());
                        features.push((name, value * weight));
                    }
                }
            }
        }
        let mut found = Vec::with_capacity(features.len());
        for (name, value) in features {
            let value = value as f32;
            if !value.is_finite() {
                return Err(self.field(&name, "a number within the range of 32 bits", &value.to_string()));
            }
            if value != 0.0 {
                found.push((name, value));
            }
        }
        Ok(found)
    }

    /// A name and the value after its colon, or 1. Parsed with 32 bits, as Vowpal Wabbit does.
    fn weighted<'t>(&self, what: &str, word: &'t str) -> Result<(&'t str, f64)> {
        let Some((name, value)) = word.split_once(':') else { return Ok((word, 1.0)) };
        let number = value.parse().ok().filter(|value: &f32| value.is_finite());
        let number = number.ok_or_else(|| self.field(what, "a number within the range of 32 bits", value))?;
        Ok((name, f64::from(number)))
    }
}
