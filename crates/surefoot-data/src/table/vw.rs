//! Vowpal Wabbit's text for contextual bandits, in both of its forms.
//!
//! **One line per decision** (`--cb`): `2:-1:0.25 'tag |user age:3 city=Rome |device mobile`, that is
//! `action:cost:probability`, a tag, and features in namespaces. Actions are counted from 1 in the file and from 0
//! here; the reward is the negated cost. Other actions may be listed beside the label, without cost (`1 2:-1:0.25 3`):
//! they and the chosen one are then the eligible actions. They may also have costs (`1:0 2:-1:0.25 3:0`), which nobody
//! observed and which are not used; the action with a probability is the chosen one.
//!
//! **Several lines per decision** (`--cb_adf`): `shared |user age:3`, then a line for each action, one of them with a
//! label, up to a blank line. The `shared` line may be absent. The lines of the actions are the `candidates`, with their
//! tags as identities, unless all are empty. The action is the place of the line with the label (its own number is
//! ignored, as Vowpal Wabbit does), and all actions are eligible. A decision without a label on any line has none:
//! `action`, `pscore` and `reward` are null.
//!
//! Without `shared`, several lines between two blank lines are one decision if the first or the second of them has no label,
//! and decisions of one line each otherwise. If a file has neither `shared` nor labels nor blank lines, each of its lines is a
//! decision.
//!
//! **Features** are named `namespace^feature`, or `feature` if the namespace has no name. The value is 1 if none is
//! given, times the value of the namespace (`|user:0.5`). With a text as its value, `city:Rome`, it is `city=Rome` with the
//! value 1. Features without a name (`:3 :5`) are named by their places, `[0]`, `[1]`. A feature that occurs several times
//! counts as often, as in Vowpal Wabbit. The tag is the `event_id`: a last word that starts with `'`, or that is followed by `|` without a
//! space. So `1:0:0.5| a` has a tag and no label, and is rejected; Vowpal Wabbit would read it as a decision without a
//! label.
//!
//! **Other kinds** (`ccb`, `slates`, `ca`, and costs without any probability) are refused by their names.

mod several;
mod write;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::io::BufRead;
use std::mem;
use std::sync::Arc;

use super::decisions::{ALWAYS, Decision, Decisions, negated};
use super::kinds;
use super::lines::{BATCH, LONGEST, Line, Lines, field, long_names, malformed, shown, tables};
use super::{ROWS, Tables};
use crate::error::{Error, Result};
use several::Several;
pub(crate) use write::write;

/// Reads decisions. With `labels`, a line without a label among lines with labels is an error.
pub(crate) fn read(place: &str, input: impl BufRead + Send + 'static, labels: bool) -> Result<Tables> {
    let mut lines = Lines::new(place, input);
    let mut reader = Reader::new(place, labels);
    let mut decisions = Decisions::default();
    Ok(tables(move || {
        let mut bytes = 0;
        // A decision of several lines may be longer than the text of a batch.
        while decisions.len() < ROWS && (bytes < BATCH || decisions.len() == 0) {
            if let Some(decision) = reader.ready.pop_front() {
                decisions.push(&decision);
                continue;
            }
            match lines.next()? {
                Some(line) => {
                    bytes += line.text.len();
                    reader.line(line)?;
                }
                None => {
                    reader.close(true)?;
                    if reader.ready.is_empty() {
                        break;
                    }
                }
            }
        }
        if decisions.len() == 0 { Ok(None) } else { decisions.finish(&reader.place, &ALWAYS).map(Some) }
    }))
}

/// A group of at least this many lines without `shared`, labels and blank lines is no decision of several lines.
const LOOSE: usize = 4096;

/// With so many features, looking through them is faster than a table of their names.
const FEW: usize = 16;

/// Groups of lines between blank lines, and the decisions that they are.
struct Reader {
    place: Arc<str>,
    /// Whether every decision of one line must have a label.
    labels: bool,
    group: Group,
    /// Whether no blank line has come yet.
    whole: bool,
    ready: VecDeque<Decision>,
}

/// What is known of the lines since the last blank one.
enum Group {
    Empty,
    /// One line with a label: the only one of its decision, or the first of several. As the only one it may be wrong.
    One(Box<(Result<Decision>, Several)>),
    /// Decisions of one line each; whether they have labels.
    Lines(bool),
    /// One decision.
    Several(Box<Several>),
}

impl Reader {
    fn new(place: &str, labels: bool) -> Self {
        Reader { place: place.into(), labels, group: Group::Empty, whole: true, ready: VecDeque::new() }
    }

    fn line(&mut self, line: Line<'_>) -> Result<()> {
        if line.is_blank() {
            self.whole = false;
            return self.close(false);
        }
        let place = Arc::clone(&self.place);
        let text = Text { place: &place, line: line.number };
        let parts = Parts::of(line.text);
        if let Some(reason) = kinds::of_words(&parts.words) {
            return Err(text.malformed(reason));
        }
        if parts.words.first() == Some(&"shared") {
            return self.shared(&text, &parts);
        }
        let labels = parts.words.iter().map(|word| text.label(word)).collect::<Result<Vec<Label>>>()?;
        let known = labels.iter().any(|label| label.known.is_some());
        let bytes = line.text.len();
        self.group = match mem::replace(&mut self.group, Group::Empty) {
            Group::Several(mut open) => {
                open.add(&text, &parts, &labels, bytes)?;
                Group::Several(open)
            }
            Group::Lines(labelled) => {
                self.ready.push_back(text.single(&parts, &labels, self.labels && labelled)?);
                Group::Lines(labelled)
            }
            Group::One(first) if labels.is_empty() => {
                let (_, mut open) = *first;
                open.add(&text, &parts, &labels, bytes)?;
                Group::Several(Box::new(open))
            }
            Group::One(first) => {
                self.ready.push_back(first.0?);
                self.ready.push_back(text.single(&parts, &labels, self.labels)?);
                Group::Lines(true)
            }
            Group::Empty if known && labels.len() == 1 => {
                let mut open = Several::unshared(line.number);
                open.add(&text, &parts, &labels, bytes)?;
                Group::One(Box::new((text.single(&parts, &labels, self.labels), open)))
            }
            Group::Empty if labels.is_empty() && !(self.labels && parts.looks_labelled()) => {
                let mut open = Several::unshared(line.number);
                open.add(&text, &parts, &labels, bytes)?;
                Group::Several(Box::new(open))
            }
            Group::Empty => {
                self.ready.push_back(text.single(&parts, &labels, self.labels)?);
                Group::Lines(known)
            }
        };
        if let Group::Several(open) = &self.group
            && self.whole
            && open.is_loose()
            && open.actions() >= LOOSE
        {
            self.close(true)?;
            self.group = Group::Lines(false);
        }
        Ok(())
    }

    fn shared(&mut self, text: &Text<'_>, parts: &Parts<'_>) -> Result<()> {
        if let Group::Several(open) = &self.group {
            let reason =
                format!("should come after a blank line, which ends the decision of line {}, but does not", open.line);
            return Err(text.malformed(reason));
        }
        if let Some(word) = parts.words.get(1) {
            return Err(text.malformed(format!("a shared line should have no label, but has {}", shown(word))));
        }
        self.close(false)?;
        self.group = Group::Several(Box::new(Several::shared(text, parts)?));
        Ok(())
    }

    /// Ends the group, at a blank line or at the end of the file.
    fn close(&mut self, end: bool) -> Result<()> {
        match mem::replace(&mut self.group, Group::Empty) {
            Group::Empty | Group::Lines(_) => {}
            Group::One(first) => self.ready.push_back(first.0?),
            Group::Several(open) if open.is_loose() && (end && self.whole || open.actions() == 1) => {
                self.ready.extend(open.lines());
            }
            Group::Several(open) => self.ready.push_back(open.decision(&self.place)?),
        }
        Ok(())
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

    /// Whether the tag is a label without a space before the `|`.
    fn looks_labelled(&self) -> bool {
        self.tag
            .is_some_and(|tag| tag.split(':').count() == 3 && tag.split(':').all(|part| part.parse::<f64>().is_ok()))
    }
}

/// The characters that separate words.
const SPACE: [char; 2] = [' ', '\t'];

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(SPACE).filter(|word| !word.is_empty())
}

/// `action`, `action:cost` or `action:cost:probability`.
struct Label {
    /// The number as written.
    action: u32,
    /// Cost and probability.
    known: Option<(f64, f64)>,
    /// Whether it has a cost and no probability.
    costly: bool,
}

/// Why labels with costs and without probabilities are refused, if no label has a probability.
const COSTLY: &str = "a label with a cost should have a probability, action:cost:probability, but none has: labels of \
                      cost-sensitive classification are not read";

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
        let number = |text: &str| text.parse().ok().filter(|value: &f64| value.is_finite());
        let known = match (cost, probability, parts.next()) {
            (None, ..) => None,
            (Some(cost), None, _) => {
                number(cost).ok_or_else(wrong)?;
                None
            }
            (Some(cost), Some(probability), None) => {
                Some((number(cost).ok_or_else(wrong)?, number(probability).ok_or_else(wrong)?))
            }
            _ => return Err(wrong()),
        };
        Ok(Label { action, known, costly: known.is_none() && cost.is_some() })
    }

    /// A decision of one line.
    fn single(&self, parts: &Parts<'_>, labels: &[Label], required: bool) -> Result<Decision> {
        let mut chosen = labels.iter().filter_map(|label| label.known.map(|known| (label.action, known)));
        let first = chosen.next();
        if first.is_none() && labels.iter().any(|label| label.costly) {
            return Err(self.malformed(COSTLY));
        }
        let Some((action, (cost, probability))) = first.or((!required).then_some((1, (0.0, 0.0)))) else {
            let hint = match parts.tag {
                Some(tag) if parts.looks_labelled() => {
                    format!(" ({} is a tag, since no space comes before the |)", shown(tag))
                }
                _ => String::new(),
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
        // The places of features by name, once there are too many to look through.
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut room = LONGEST;
        for part in text.into_iter().flat_map(|text| text.split('|')) {
            let named = !part.is_empty() && !part.starts_with(SPACE);
            let mut words = words(part);
            let namespace = if named { words.next().unwrap_or_default() } else { "" };
            let (namespace, weight) = self.weighted("the weight of a namespace", namespace)?;
            // A feature without a name is named by its place among such features of its namespace.
            let mut nameless = 0;
            for word in words {
                let (feature, value) = self.feature(word, &mut nameless)?;
                let name = match namespace {
                    "" => feature.into_owned(),
                    namespace => [namespace, "^", &feature].concat(),
                };
                room = room.checked_sub(name.len()).ok_or_else(|| long_names(self.place, self.line))?;
                let known = match features.len() {
                    ..=FEW => features.iter().position(|(other, _)| *other == name),
                    _ => places.get(&name).copied(),
                };
                match known {
                    Some(place) => features[place].1 += value * weight,
                    None => {
                        features.push((name, value * weight));
                        match features.len() {
                            ..=FEW => {}
                            n if places.is_empty() => places.extend((0..n).map(|i| (features[i].0.clone(), i))),
                            n => {
                                places.insert(features[n - 1].0.clone(), n - 1);
                            }
                        }
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

    /// The name and the value of a feature. A text as its value makes it one of several, as `city=Rome` does.
    fn feature<'t>(&self, word: &'t str, nameless: &mut u32) -> Result<(Cow<'t, str>, f64)> {
        let text = word.split_once(':').filter(|(name, value)| {
            let numeric = |first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.');
            !name.is_empty() && !value.contains(':') && !value.starts_with(numeric) && value.parse::<f32>().is_err()
        });
        if let Some((name, value)) = text.filter(|(_, value)| !value.is_empty()) {
            return Ok((Cow::Owned(format!("{name}={value}")), 1.0));
        }
        let (name, value) = self.weighted("the value of a feature", word)?;
        if !name.is_empty() {
            return Ok((Cow::Borrowed(name), value));
        }
        *nameless += 1;
        Ok((Cow::Owned(format!("[{}]", *nameless - 1)), value))
    }

    /// A name and the value after its colon, or 1. Parsed with 32 bits, as Vowpal Wabbit does.
    fn weighted<'t>(&self, what: &str, word: &'t str) -> Result<(&'t str, f64)> {
        let Some((name, value)) = word.split_once(':') else { return Ok((word, 1.0)) };
        let number = value.parse().ok().filter(|value: &f32| value.is_finite());
        let number = number.ok_or_else(|| self.field(what, "a number within the range of 32 bits", value))?;
        Ok((name, f64::from(number)))
    }
}
