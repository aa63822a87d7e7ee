//! Decisions of several lines (`--cb_adf`).

use super::super::candidates::Candidate;
use super::super::decisions::{Decision, negated};
use super::super::lines::{LONGEST, malformed};
use super::{COSTLY, Label, Parts, Text};
use crate::error::Result;

/// The largest number of actions of a decision of several lines.
const ACTIONS: usize = 1 << 20;

/// The lines of a decision so far.
#[derive(Default)]
pub(super) struct Several {
    /// Its first line.
    pub(super) line: u64,
    /// Whether the first line is `shared`.
    pub(super) shared: bool,
    tag: Option<String>,
    features: Vec<(String, f32)>,
    /// The place of the line with a label, its cost and its probability.
    chosen: Option<(u32, f64, f64)>,
    candidates: Vec<Candidate>,
    /// The number of bytes of its lines.
    bytes: usize,
    /// Whether a line has a cost and no probability.
    costly: bool,
}

impl Several {
    /// The decision that begins with a line `shared |...`.
    pub(super) fn shared(text: &Text<'_>, parts: &Parts<'_>) -> Result<Self> {
        let features = text.features(parts.features)?;
        Ok(Several { line: text.line, shared: true, tag: parts.tag.map(str::to_owned), features, ..Several::default() })
    }

    /// The decision that begins with the line of an action.
    pub(super) fn unshared(line: u64) -> Self {
        Several { line, ..Several::default() }
    }

    /// Adds the line of an action.
    pub(super) fn add(&mut self, text: &Text<'_>, parts: &Parts<'_>, labels: &[Label], bytes: usize) -> Result<()> {
        if labels.len() > 1 {
            return Err(text
                .malformed(format!("the line of an action should have at most one label, but has {}", labels.len())));
        }
        if let Some(Label { known: Some((cost, probability)), .. }) = labels.first() {
            if let Some((action, ..)) = self.chosen {
                let reason = format!(
                    "one action of a decision should have a label, but this is the second, after action {action}"
                );
                return Err(text.malformed(reason));
            }
            self.chosen = Some((self.candidates.len() as u32, *cost, *probability));
        }
        self.costly |= labels.iter().any(|label| label.costly);
        self.bytes += bytes;
        if self.candidates.len() >= ACTIONS {
            return Err(text.malformed(format!("a decision should have at most {ACTIONS} actions, but has more")));
        }
        if self.bytes > LONGEST {
            return Err(text.malformed(format!("a decision should have at most {LONGEST} bytes, but has more")));
        }
        let (id, features) = (parts.tag.map(str::to_owned), text.features(parts.features)?);
        self.candidates.push(Candidate { id, features });
        Ok(())
    }

    /// The decision. Without a label on any line, it has none.
    pub(super) fn decision(self, place: &str) -> Result<Decision> {
        if self.candidates.is_empty() {
            return Err(malformed(place, self.line, "shared should be followed by a line for each action, but is not"));
        }
        if self.costly && self.chosen.is_none() {
            return Err(malformed(place, self.line, COSTLY));
        }
        let (action, cost, pscore) = self.chosen.unwrap_or_default();
        let bare = self.candidates.iter().all(Candidate::is_bare);
        Ok(Decision {
            event_id: self.tag,
            action,
            pscore,
            reward: negated(cost),
            eligible: Some((0..self.candidates.len() as u32).collect()),
            unlabelled: self.chosen.is_none(),
            features: self.features,
            candidates: (!bare).then_some(self.candidates),
            ..Decision::default()
        })
    }

    /// Whether its lines may just as well be decisions of one line each.
    pub(super) fn is_loose(&self) -> bool {
        !self.shared && self.chosen.is_none() && !self.costly
    }

    /// The number of its actions.
    pub(super) fn actions(&self) -> usize {
        self.candidates.len()
    }

    /// Its lines as decisions of one line each, without labels.
    pub(super) fn lines(self) -> impl Iterator<Item = Decision> {
        let line =
            |Candidate { id, features }| Decision { event_id: id, unlabelled: true, features, ..Decision::default() };
        self.candidates.into_iter().map(line)
    }
}
