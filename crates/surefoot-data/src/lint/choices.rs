//! Actions: which exist, which were eligible, which were chosen, and their importance weights.

use std::borrow::Cow;

use super::Seen;
use super::cells::{Label, Numbers, OTHER, Vocabulary, places, whole};
use super::findings::{Finding, Occurrences, Severity, grouped, of};
use super::propensity::Uniform;
use crate::column::Lists;
use crate::error::Result;
use crate::logs::{LogBatch, Role};
use surefoot::evaluation::WeightSums;
use surefoot::logs::PropensityTest;

/// Counts and sums for an action.
#[derive(Debug, Clone, Default)]
struct Action {
    /// The number of records that chose it.
    chosen: usize,
    /// The number of records in which it was eligible, among those that log eligible actions.
    could: usize,
    /// `1/q` where it was chosen.
    weights: WeightSums,
    /// The last record in whose list it was found.
    last: usize,
}

#[derive(Debug, Default)]
pub(super) struct Choices {
    pub(super) vocabulary: Vocabulary,
    actions: Vec<Action>,
    from_one: bool,
    /// The number of records so far.
    records: usize,
    bad: Occurrences,
    zero: Occurrences,
    not_eligible: Occurrences,
    twice: Occurrences,
    /// `1/q` of records in which any action was eligible.
    open: WeightSums,
    /// `1/(m q)` of records with `m` eligible actions.
    limited: WeightSums,
    /// The number of the latter with `q = 1/m`.
    uniform: usize,
    /// Whether the propensities are too small, or too large for a sharp policy.
    pub(super) test: PropensityTest,
    /// The number that the last action which is not told apart got in the test; they count downwards.
    untold: u32,
    /// Whether the actions are candidates with features.
    candidates: bool,
}

impl Choices {
    /// The actions of a batch, as indices into the vocabulary.
    pub(super) fn actions(&mut self, batch: &LogBatch) -> Result<Vec<Option<u32>>> {
        self.from_one = batch.counts_from_one();
        let column = batch.expected(Role::Action)?;
        let n = batch.len();
        let labels: Vec<Option<Label<'_>>> = match &column {
            Some(column) if column.is_text() => column.texts()?.into_iter().map(|text| text.map(Label::of)).collect(),
            _ => Numbers::of(batch, column)?.values.iter().map(|&x| whole(x).map(Label::Number)).collect(),
        };
        let mut found = Vec::with_capacity(n);
        for (i, label) in labels.into_iter().enumerate() {
            if label.is_none() {
                self.bad.add(batch, i, || Numbers::of(batch, column).map_or(String::new(), |cells| cells.shown(i)));
            }
            if self.from_one && matches!(label, Some(Label::Number(0))) {
                self.zero.add(batch, i, || "0".into());
                found.push(None);
                continue;
            }
            found.push(label.map(|label| self.vocabulary.place(label)));
        }
        self.grow();
        Ok(found)
    }

    /// The eligible actions, as indices into the vocabulary.
    pub(super) fn eligible(&mut self, batch: &LogBatch) -> Result<Option<Lists<u32>>> {
        let lists = batch.role(Role::Eligible).map(|column| places(&column, &mut self.vocabulary)).transpose();
        self.grow();
        lists
    }

    /// Prepares for the identities of candidates, which are in the vocabulary.
    pub(super) fn of_candidates(&mut self) {
        self.candidates = true;
        self.grow();
    }

    fn grow(&mut self) {
        self.actions.resize(self.vocabulary.len(), Action::default());
    }

    /// Which records have a propensity, an action that was eligible, and an unambiguous set of eligible actions.
    pub(super) fn sound(&mut self, batch: &LogBatch, seen: &Seen<'_>, eligible: Option<&Lists<u32>>) -> Vec<bool> {
        let mut sound = Vec::with_capacity(batch.len());
        for i in 0..batch.len() {
            self.records += 1;
            let set = eligible.map_or(&[][..], |sets| sets.get(i));
            let mut twice = None;
            for &b in set {
                let Some(action) = self.actions.get_mut(b as usize) else { continue };
                if action.last == self.records {
                    twice = Some(b);
                }
                action.last = self.records;
            }
            if let Some(b) = twice {
                self.twice.add(batch, i, || self.vocabulary.name(b).to_owned());
            }
            let Some(a) = seen.action[i] else {
                sound.push(false);
                continue;
            };
            if let Some(action) = self.actions.get_mut(a as usize) {
                action.chosen += 1;
            }
            // An action that is not tracked may be any of them.
            let outside = !set.is_empty() && a != OTHER && !set.contains(&a) && !set.contains(&OTHER);
            if outside {
                self.not_eligible.add(batch, i, || self.vocabulary.name(a).to_owned());
            }
            sound.push(seen.propensity[i].is_some() && !outside && twice.is_none());
        }
        sound
    }

    /// Adds the weights of a batch. `sets` are the actions with a positive probability; an empty set means possibly
    /// all.
    pub(super) fn add(&mut self, seen: &Seen<'_>, sets: Option<&Lists<u32>>) {
        self.grow();
        for i in 0..seen.sound.len() {
            let (true, Some(q), Some(a)) = (seen.sound[i], seen.propensity[i], seen.action[i]) else { continue };
            if let Some(action) = self.actions.get_mut(a as usize) {
                action.weights.add(1.0 / q);
            }
            let set = sets.map_or(&[][..], |sets| sets.get(i));
            if a == OTHER && !set.is_empty() {
                // It is not told apart, and no later record has the same.
                self.untold = self.untold.wrapping_sub(1);
                self.test.add(self.untold, q, Some(&vec![self.untold; set.len()]));
            } else {
                self.test.add(a, q, (!set.is_empty()).then_some(set));
            }
            match set {
                [] => self.open.add(1.0 / q),
                set => {
                    let w = 1.0 / (set.len() as f64 * q);
                    self.limited.add(w);
                    self.uniform += usize::from((w - 1.0).abs() <= surefoot::evaluation::NEGLIGIBLE);
                    for &b in set {
                        if let Some(action) = self.actions.get_mut(b as usize) {
                            action.could += 1;
                        }
                    }
                }
            }
        }
    }

    /// Whether actions are numbers from 1 on although no setting says so.
    fn counted_from_one(&self) -> Option<u32> {
        let (lowest, highest) = self.vocabulary.range()?;
        let all = self.vocabulary.len() == highest as usize && highest >= 2;
        (!self.from_one && self.vocabulary.names() == 0 && lowest == 1 && all).then_some(highest)
    }

    /// The number of actions.
    pub(super) fn count(&self) -> usize {
        match self.vocabulary.range() {
            Some((_, highest)) if self.vocabulary.names() == 0 => {
                let first = usize::from(self.from_one || self.counted_from_one().is_some());
                highest as usize + 1 - first.min(highest as usize)
            }
            _ => self.vocabulary.len(),
        }
    }

    /// The number of actions that were chosen.
    pub(super) fn chosen(&self) -> usize {
        self.actions.iter().filter(|action| action.chosen > 0).count()
    }

    pub(super) fn uniform(&self) -> Uniform {
        let over_sets = self.open.count == 0.0 && self.uniform as f64 == self.limited.count;
        Uniform { actions: self.count(), chosen: self.chosen(), over_sets }
    }

    /// The importance weights of the uniform policy over the eligible actions, or over all actions that were ever
    /// chosen.
    ///
    /// Actions that were never chosen are left out; another check reports them.
    pub(super) fn weights(&self) -> Option<WeightSums> {
        let weights = self.limited.and(&self.open.times(1.0 / self.chosen().max(1) as f64));
        (weights.count > 0.0 && !(self.vocabulary.full && self.open.count > 0.0)).then_some(weights)
    }

    /// The actions that were chosen, their weights `1{a = b}/q` over the records in which they were eligible, and the
    /// logarithm of the evidence that they were chosen too often.
    pub(super) fn weights_by_action(&self) -> impl Iterator<Item = (&str, WeightSums, f64)> {
        let named = (0..).zip(&self.actions).filter(|(_, action)| action.weights.count > 0.0);
        named.map(|(place, action)| {
            let could = self.open.count + action.could as f64;
            (self.vocabulary.name(place), action.weights.among(could), self.test.action(place))
        })
    }

    pub(super) fn findings(&self, findings: &mut Vec<Finding>) {
        let error = Severity::Error;
        findings.extend(
            self.bad.finding(error, "action", |n| {
                format!("{n} without an action, or with a number that is not 0, 1, 2, ...")
            }),
        );
        findings.extend(
            self.zero.finding(error, "action", |n| format!("{n} with action 0, but actions are counted from 1")),
        );
        let outside =
            self.not_eligible.finding(error, "not-eligible", |n| format!("{n} with an action that was not eligible"));
        findings.extend(outside);
        findings.extend(
            self.twice.finding(error, "eligible-twice", |n| {
                format!("{n} with the same action twice among the eligible ones")
            }),
        );
        let (names, all) = (self.vocabulary.names(), self.vocabulary.len());
        if names > 0 && names < all {
            let message = format!(
                "{} are numbers and {} are names: all are treated as names",
                of(all - names, "action"),
                grouped(names)
            );
            findings.push(Finding::new(Severity::Warning, "mixed-actions", message).counted(all));
        }
        if self.count() == 1 && !self.candidates {
            let hint = "learning needs two or more: --actions says which others there are";
            findings.push(Finding::new(Severity::Warning, "one-action", "there is one action").hint(hint));
        }
        if let Some(highest) = self.counted_from_one() {
            let message =
                format!("actions are numbers from 1 to {highest}, and 0 never occurs: are they counted from 1?");
            let hint = "if they are, use --actions-from-one; otherwise action 0 was never chosen";
            findings.push(Finding::new(Severity::Warning, "from-one", message).hint(hint));
        }
        if self.vocabulary.full {
            let message = format!("more than {} actions: the later ones are not told apart", grouped(all));
            findings.push(Finding::new(Severity::Note, "many-actions", message).counted(all));
        } else {
            findings.extend(self.coverage());
        }
    }

    /// Findings about actions that were never or rarely chosen.
    fn coverage(&self) -> Vec<Finding> {
        // With ten records, the share of an action is known up to a third.
        const RARE: usize = 10;
        let (count, chosen) = (self.count(), self.chosen());
        let never = count.saturating_sub(chosen);
        let mut findings = Vec::new();
        if self.candidates {
            if never > 0 {
                let message = format!("{} of {} never chosen", grouped(never), of(count, "candidate"));
                let hint = "a policy scores them by their features";
                findings.push(Finding::new(Severity::Note, "coverage", message).counted(never).hint(hint));
            }
            return findings;
        }
        if chosen == 1 {
            let message = "all records have the same action: nothing can be learned about any other action";
            findings.push(Finding::new(Severity::Warning, "coverage", message).counted(1));
        }
        if never > 0 {
            let shown = self.never().into_iter().take(5).collect::<Vec<_>>().join(", ");
            let more = if never > 5 { ", ..." } else { "" };
            let message = format!("{} of {} never chosen: {shown}{more}", grouped(never), of(count, "action"));
            let finding = Finding::new(Severity::Warning, "coverage", message).counted(never);
            findings.push(match never > chosen && self.vocabulary.names() == 0 {
                true => finding.hint(
                    "actions that are numbers are counted from 0: if these numbers are ids, use names such as \
                        id-17 instead",
                ),
                false => finding.hint("these logs cannot evaluate a policy that chooses them"),
            });
        }
        let rare = (0..).zip(&self.actions).filter(|(_, action)| (1..RARE).contains(&action.chosen));
        let mut rare: Vec<(usize, u32)> = rare.map(|(place, action)| (action.chosen, place)).collect();
        rare.sort_by_key(|&(chosen, place)| (chosen, Cow::Borrowed(self.vocabulary.name(place))));
        if let Some(&(least, place)) = rare.first()
            && self.records >= RARE * count
        {
            let message = format!(
                "{} chosen in fewer than {RARE} records; {} in {} of {}",
                of(rare.len(), "action"),
                self.vocabulary.name(place),
                grouped(least),
                grouped(self.records)
            );
            findings.push(Finding::new(Severity::Note, "coverage", message).counted(rare.len()));
        }
        findings
    }

    /// The first few actions that were never chosen.
    fn never(&self) -> Vec<String> {
        let first = u32::from(self.from_one || self.counted_from_one().is_some());
        let chosen = (0..).zip(&self.actions).filter(|(_, action)| action.chosen > 0);
        if self.vocabulary.names() > 0 {
            let unchosen = (0..).zip(&self.actions).filter(|(_, action)| action.chosen == 0);
            return unchosen.map(|(place, _)| self.vocabulary.name(place).to_owned()).take(5).collect();
        }
        let numbers: std::collections::BTreeSet<u32> =
            chosen.filter_map(|(place, _)| self.vocabulary.number(place)).collect();
        let all = first..first + self.count() as u32;
        all.filter(|number| !numbers.contains(number)).map(|number| number.to_string()).take(5).collect()
    }
}
