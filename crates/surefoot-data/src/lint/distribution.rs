//! Logged distributions: whether each is a distribution, whether it agrees with the logged propensity, and whether the
//! actions were drawn from it.

use super::cells::{Label, OTHER, Vocabulary};
use super::findings::{Finding, Occurrences, Severity, of, short};
use super::{LEVEL, Seen, normal};
use crate::column::Lists;
use crate::error::Result;
use crate::logs::LogBatch;

/// The tolerance for an entry. Rounding to six decimals is off by at most half of it, 32-bit numbers by less.
const ROUNDING: f64 = 1e-6;

/// How often an action was expected, and how often it was chosen.
#[derive(Debug, Clone, Copy, Default)]
struct Expected {
    chosen: f64,
    /// The sums of `p`, `p (1 - p)` and `p (1 - p)(1 - 2p)`: mean, variance and third moment of the number of choices.
    mean: f64,
    variance: f64,
    third: f64,
}

#[derive(Debug, Default)]
pub(super) struct Distributions {
    /// The number of records with a distribution.
    count: usize,
    missing: Occurrences,
    length: Occurrences,
    outside: Occurrences,
    sum: Occurrences,
    differs: Occurrences,
    /// The length of the distributions over all actions.
    width: Option<usize>,
    /// The vocabulary indices of their actions, once actions are known to be numbers.
    all: Vec<u32>,
    expected: Vec<Expected>,
    drawn: Drawn,
}

/// The sum over the records of `p(a) - sum_b p(b)^2`: the probability of the chosen action minus its expectation.
#[derive(Debug, Clone, Copy, Default)]
struct Drawn {
    records: f64,
    chosen: f64,
    expected: f64,
    variance: f64,
}

impl Drawn {
    fn add(&mut self, chosen: f64, p: &[f64]) {
        let (squares, cubes) = p.iter().fold((0.0, 0.0), |(s, c), p| (s + p * p, c + p * p * p));
        self.records += 1.0;
        self.chosen += chosen;
        self.expected += squares;
        self.variance += (cubes - squares * squares).max(0.0);
    }

    /// Whether the chosen actions are less or more probable than actions drawn from the distributions. The terms are at
    /// most 1 and their variances are known, so Freedman's inequality bounds the tail for any distributions.
    fn differs(&self) -> bool {
        let off = (self.chosen - self.expected).abs();
        let chance = 2.0 * (-off * off / (2.0 * (self.variance + off / 3.0))).exp();
        off > surefoot::evaluation::NEGLIGIBLE * self.records && chance < LEVEL
    }
}

impl Distributions {
    /// Adds a batch. Returns the actions with a positive probability: those with a logged probability above 0, or the
    /// eligible actions where no distribution is logged. An empty set means possibly all actions.
    pub(super) fn add(
        &mut self,
        batch: &LogBatch,
        seen: &Seen<'_>,
        eligible: Option<&Lists<u32>>,
        vocabulary: &mut Vocabulary,
    ) -> Result<Option<Lists<u32>>> {
        let Some(lists) = batch.probabilities()? else {
            return Ok(eligible.cloned());
        };
        let mut sets = Lists { offsets: vec![0], values: Vec::new() };
        for i in 0..batch.len() {
            let set = eligible.map_or(&[][..], |sets| sets.get(i));
            if !self.record(batch, i, seen, set, lists.get(i), vocabulary, &mut sets.values) {
                sets.values.extend_from_slice(set);
            }
            sets.offsets.push(sets.values.len());
        }
        Ok(Some(sets))
    }

    /// Adds a record. Returns whether it has a valid distribution over known actions; if so, its actions with a
    /// positive probability are added to `support`.
    #[expect(clippy::too_many_arguments, reason = "a record has many parts")]
    fn record(
        &mut self,
        batch: &LogBatch,
        i: usize,
        seen: &Seen<'_>,
        set: &[u32],
        p: &[f64],
        vocabulary: &mut Vocabulary,
        support: &mut Vec<u32>,
    ) -> bool {
        if p.is_empty() {
            self.missing.add(batch, i, || "missing".into());
            return false;
        }
        self.count += 1;
        let expected = if set.is_empty() { *self.width.get_or_insert(p.len()) } else { set.len() };
        if p.len() != expected {
            self.length.add(batch, i, || format!("{} instead of {expected}", p.len()));
            return false;
        }
        if let Some(&bad) = p.iter().find(|p| !(0.0..=1.0).contains(*p)) {
            self.outside.add(batch, i, || bad.to_string());
            return false;
        }
        let sum: f64 = p.iter().sum();
        if (sum - 1.0).abs() > ROUNDING.max(0.5 * ROUNDING * p.len() as f64) {
            self.sum.add(batch, i, || sum.to_string());
            return false;
        }
        let places = if set.is_empty() {
            // Distributions over all actions are in the order of the action numbers. For named actions that order is
            // not known yet.
            if vocabulary.names() > 0 {
                return false;
            }
            let first = u32::from(batch.counts_from_one());
            while self.all.len() < p.len() {
                self.all.push(vocabulary.place(Label::Number(self.all.len() as u32 + first)));
            }
            &self.all[..]
        } else {
            set
        };
        let Some(chosen) = seen.action[i].filter(|&a| a != OTHER) else { return false };
        let Some(entry) = places.iter().position(|&place| place == chosen) else { return false };
        if let Some(q) = seen.propensity[i]
            && (p[entry] - q).abs() > ROUNDING
        {
            self.differs.add(batch, i, || format!("{q}, but {} in the distribution", p[entry]));
        }
        self.expected.resize(vocabulary.len(), Expected::default());
        for (&place, &p) in places.iter().zip(p) {
            let Some(expected) = self.expected.get_mut(place as usize) else { continue };
            let variance = p * (1.0 - p);
            expected.mean += p;
            expected.variance += variance;
            expected.third += variance * (1.0 - 2.0 * p);
        }
        self.expected[chosen as usize].chosen += 1.0;
        self.drawn.add(p[entry], p);
        support.extend(places.iter().zip(p).filter(|(_, p)| **p > 0.0).map(|(&place, _)| place));
        p[entry] > 0.0
    }

    pub(super) fn findings(&self, vocabulary: &Vocabulary, findings: &mut Vec<Finding>) {
        const CHECK: &str = "distribution";
        let (error, warning) = (Severity::Error, Severity::Warning);
        if self.count > 0 {
            findings.extend(self.missing.finding(warning, CHECK, |n| format!("{n} without a logged distribution")));
        }
        findings.extend(self.length.finding(error, CHECK, |n| format!("{n} with a distribution of the wrong length")));
        findings.extend(self.outside.finding(error, CHECK, |n| format!("{n} with a probability outside [0, 1]")));
        findings.extend(self.sum.finding(error, CHECK, |n| format!("{n} with probabilities that do not sum to 1")));
        let differs = self.differs.finding(error, "distribution-propensity", |n| {
            format!("{n} whose probability of the chosen action differs from the propensity")
        });
        findings.extend(differs.map(|finding| {
            finding.hint(
                "the distribution may be that of another policy, or its entries may have another order than the \
                 actions",
            )
        }));
        let calibration = self.calibration(vocabulary);
        let calibrated = calibration.is_none();
        findings.extend(calibration);
        // Distributions of other records may still have each action as often as it was chosen.
        if calibrated && self.drawn.differs() {
            let Drawn { records, chosen, expected, .. } = self.drawn;
            let message = format!(
                "the chosen actions have the mean probability {} in the logged distributions, but actions drawn from \
                 them have {}",
                short(chosen / records),
                short(expected / records)
            );
            let finding = Finding::new(error, "distribution-choices", message).counted(records as usize);
            findings.push(finding.hint("the distributions are those of other records, or of another policy"));
        }
    }

    /// Checks whether actions are chosen as often as the distributions say. Let `N` be how often an action was chosen,
    /// `v` its variance and `t` its third moment under the logged distributions. Then `z = (N - E[N])/sqrt(v)`, minus
    /// the skewness correction `t/v^1.5 (z^2 - 1)/6` (Cornish and Fisher), is standard normal. The test needs no
    /// importance weights.
    fn calibration(&self, vocabulary: &Vocabulary) -> Option<Finding> {
        let tested: Vec<(u32, &Expected)> =
            (0..).zip(&self.expected).filter(|(_, e)| e.variance >= surefoot::evaluation::ENOUGH).collect();
        let limit = normal::limit(LEVEL / tested.len().max(1) as f64);
        let mut wrong: Vec<(f64, u32, &Expected)> = tested
            .iter()
            .map(|&(place, e)| {
                let z = (e.chosen - e.mean) / e.variance.sqrt();
                // The expansion is not monotone far out, where no correction is needed.
                let skewness = e.third / e.variance.powf(1.5);
                let corrected = z - skewness * (z * z - 1.0) / 6.0;
                (if z.abs() < 3.0 * limit { corrected } else { z }, place, e)
            })
            .filter(|(z, _, e)| z.abs() > limit && (e.chosen / e.mean - 1.0).abs() > surefoot::evaluation::NEGLIGIBLE)
            .collect();
        wrong.sort_by(|(a, place, _), (b, other, _)| b.abs().total_cmp(&a.abs()).then(place.cmp(other)));
        if wrong.is_empty() {
            return None;
        }
        let shown: Vec<String> = wrong
            .iter()
            .take(3)
            .map(|(z, place, e)| {
                let name = vocabulary.name(*place);
                format!("{name} {} times instead of {} (z {})", short(e.chosen), short(e.mean), short(*z))
            })
            .collect();
        let actions = of(tested.len(), "action");
        let message = format!("{} of {actions} not chosen as often as logged: {}", wrong.len(), shown.join(", "));
        let finding = Finding::new(Severity::Error, "distribution-choices", message).counted(wrong.len());
        Some(finding.hint("the actions were not drawn from these distributions"))
    }
}
