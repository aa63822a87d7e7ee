//! Whether the logged propensities are too small, or too large for sharp policies, to be those of any policy.
//!
//! Let `pi` be the logging policy of a record and `q = pi(a)` its logged propensity. Whatever `pi` is, each of these
//! numbers has an expectation of at most 1, given everything before the draw:
//!
//! | number | because |
//! | --- | --- |
//! | `1{a in S}/(q m)`, for `m` actions `S` that are known before the draw | `sum_{a in S} pi(a)/pi(a) <= m` |
//! | `1{q > 1/(k + 1)}/(k q)`, for `k = 1, 2` | at most `k` actions have a probability above `1/(k + 1)` |
//! | `1{a = b}/q`, for an action `b` | it is 1 if `pi(b) > 0`, and 0 otherwise |
//!
//! `S` are the eligible actions if they are logged, and otherwise the actions that occurred before. So nobody has to
//! know all actions. For a number `Z >= 0` of this kind and a fixed bet `b` in `(0, 1)`, the product of
//! `1 + b (Z - 1)` over the records is a supermartingale that starts at 1. So is a weighted mean of such products. By
//! Ville's inequality it exceeds `x` with a probability of at most `1/x`, for weights of any distribution.

use std::collections::HashMap;

use super::Logs;
use crate::error::{Error, Result};

/// The evidence at which propensities are refuted: right ones reach it in one log of a million.
pub const REFUTED: f64 = 1e6;

/// The bets. The best bet against a mean of `1 + d` with variance `v` is about `d/v`.
const BETS: [f64; 5] = [0.8, 0.3, 0.08, 0.015, 0.003];
/// A smaller excess over 1 is not counted: a propensity of 1/3 with three decimals is off by one in a thousand.
const NEGLIGIBLE: f64 = 2e-3;
/// Larger numbers count as this one, which only makes the evidence smaller.
const LARGEST: f64 = 1e12;
/// The largest number of actions that are told apart. The others never count as known.
const ACTIONS: usize = 10_000;
/// The largest `k` of the second kind of number.
const SHARP: usize = 2;
/// The number of factors after which a product is checked for its size: `LARGEST^8` does not overflow.
const CHAIN: u32 = 8;

/// The product of all factors at each bet, for one kind of number.
#[derive(Debug, Clone, PartialEq)]
struct Capital {
    product: [f64; BETS.len()],
    /// The logarithm of earlier products.
    logs: [f64; BETS.len()],
    /// The number of factors since the size of the products was checked.
    fresh: u32,
    sum: f64,
}

impl Default for Capital {
    fn default() -> Self {
        Capital { product: [1.0; BETS.len()], logs: [0.0; BETS.len()], fresh: 0, sum: 0.0 }
    }
}

impl Capital {
    fn add(&mut self, z: f64) {
        self.sum += z;
        let step = z.min(LARGEST) / (1.0 + NEGLIGIBLE) - 1.0;
        for (product, bet) in self.product.iter_mut().zip(BETS) {
            *product *= 1.0 + bet * step;
        }
        self.fresh += 1;
        if self.fresh == CHAIN {
            self.fresh = 0;
            for (product, log) in self.product.iter_mut().zip(&mut self.logs) {
                if !(1e-150..1e150).contains(product) {
                    *log += product.ln();
                    *product = 1.0;
                }
            }
        }
    }

    /// The logarithm of the mean product over the bets, after `zeros` more records with the number 0.
    fn evidence(&self, zeros: f64) -> f64 {
        let of = |i: usize| self.logs[i] + self.product[i].ln() + zeros * (-BETS[i]).ln_1p();
        log_mean((0..BETS.len()).map(|i| (of(i), 1.0 / BETS.len() as f64)))
    }
}

/// `ln sum_i w_i exp(x_i)`.
fn log_mean(terms: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let top = terms.clone().map(|(x, _)| x).fold(f64::NEG_INFINITY, f64::max);
    top + terms.map(|(x, w)| w * (x - top).exp()).sum::<f64>().ln()
}

/// An action that occurred.
#[derive(Debug, Clone)]
struct Known {
    /// Its place among the actions, in the order of their first records.
    place: usize,
    /// The number of records without a set of eligible actions up to its first record.
    open: usize,
    /// The number of later records in whose set it was.
    limited: usize,
    /// The number of later records that chose it.
    chosen: usize,
    capital: Capital,
}

/// Tests logged propensities, record by record, in the order of the log. It needs no rewards.
///
/// ```
/// use surefoot::logs::PropensityTest;
///
/// let mut test = PropensityTest::default();
/// (0..200).for_each(|i| test.add(i % 2, 0.5, None));
/// assert!(test.check().is_ok());
/// // Two actions cannot both have a probability of 0.05.
/// (0..200).for_each(|i| test.add(i % 2, 0.05, None));
/// assert!(test.check().is_err());
/// ```
#[derive(Debug, Clone, Default)]
pub struct PropensityTest {
    records: usize,
    /// The number of records without a set of eligible actions.
    open: usize,
    pooled: Capital,
    sharp: [Capital; SHARP],
    known: HashMap<u32, Known>,
}

/// The kind of number with the most evidence.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Strongest {
    Pooled,
    Sharp(usize),
    Action(u32),
}

impl PropensityTest {
    /// Adds a record: its action, its propensity in `(0, 1]`, and the actions that were eligible, if they are logged.
    pub fn add(&mut self, action: u32, propensity: f64, eligible: Option<&[u32]>) {
        let inverse = self.add_sharp(propensity);
        let seen = self.known.len();
        match eligible {
            Some(set) => {
                self.pooled.add(inverse / set.len().max(1) as f64);
                set.iter().filter(|a| **a != action).for_each(|a| {
                    self.known.entry(*a).and_modify(|known| known.limited += 1);
                });
            }
            None => {
                self.open += 1;
                if seen > 0 {
                    self.pooled.add(if self.known.contains_key(&action) { inverse / seen as f64 } else { 0.0 });
                }
            }
        }
        match self.known.get_mut(&action) {
            Some(known) => {
                known.limited += usize::from(eligible.is_some());
                known.chosen += 1;
                known.capital.add(inverse);
            }
            None if seen < ACTIONS => {
                let capital = Capital::default();
                self.known.insert(action, Known { place: seen, open: self.open, limited: 0, chosen: 0, capital });
            }
            None => {}
        }
    }

    /// Adds a record that chose one of some candidates. Their places are not compared: a log may list the chosen one first.
    pub fn add_candidates(&mut self, propensity: f64, candidates: usize) {
        let inverse = self.add_sharp(propensity);
        self.pooled.add(inverse / candidates.max(1) as f64);
    }

    /// Adds what needs no name of an action, and returns `1/q`.
    fn add_sharp(&mut self, propensity: f64) -> f64 {
        let inverse = 1.0 / propensity;
        self.records += 1;
        for (k, capital) in (1..).zip(&mut self.sharp) {
            capital.add(if propensity * f64::from(k + 1) > 1.0 + 1e-9 { inverse / f64::from(k) } else { 0.0 });
        }
        inverse
    }

    /// The number of records.
    pub fn records(&self) -> usize {
        self.records
    }

    /// The logarithm of the evidence that the propensities of all actions together are too small.
    pub fn pooled(&self) -> f64 {
        self.pooled.evidence(0.0)
    }

    /// The logarithm of the evidence that an action was chosen more often than its propensities say; includes the price
    /// of testing every action.
    pub fn action(&self, action: u32) -> f64 {
        self.known.get(&action).map_or(0.0, |known| self.of(known) + share(known.place).ln())
    }

    fn of(&self, known: &Known) -> f64 {
        known.capital.evidence((self.could(known) - known.chosen) as f64)
    }

    /// The number of records after the first one of an action in which it could be chosen.
    fn could(&self, known: &Known) -> usize {
        self.open - known.open + known.limited
    }

    /// The logarithm of the whole evidence against the propensities. It exceeds `x` with a probability of at most
    /// `exp(-x)` if they are right.
    pub fn evidence(&self) -> f64 {
        let mut actions: Vec<(usize, f64)> = self.known.values().map(|known| (known.place, self.of(known))).collect();
        // In a fixed order, for the same bits.
        actions.sort_unstable_by_key(|(place, _)| *place);
        let together = [(self.pooled(), 0.25)];
        let sharp = self.sharp.iter().map(|capital| (capital.evidence(0.0), 0.25 / SHARP as f64));
        let actions = actions.iter().map(|&(place, evidence)| (evidence, 0.5 * share(place)));
        log_mean(together.into_iter().chain(sharp).chain(actions))
    }

    fn strongest(&self) -> Strongest {
        let mut best = (self.pooled() + 0.25f64.ln(), Strongest::Pooled);
        for (k, capital) in (1..).zip(&self.sharp) {
            let evidence = capital.evidence(0.0) + (0.25 / SHARP as f64).ln();
            if evidence > best.0 {
                best = (evidence, Strongest::Sharp(k));
            }
        }
        let mut actions: Vec<(&u32, &Known)> = self.known.iter().collect();
        actions.sort_unstable_by_key(|(_, known)| known.place);
        for (&action, known) in actions {
            let evidence = self.of(known) + (0.5 * share(known.place)).ln();
            if evidence > best.0 {
                best = (evidence, Strongest::Action(action));
            }
        }
        best.1
    }

    /// What contradicts the propensities, if the evidence against them is at least `limit`.
    /// `name` gives the name of an action.
    pub fn contradiction(&self, limit: f64, name: impl Fn(u32) -> String) -> Option<String> {
        if self.evidence() < limit.ln() {
            return None;
        }
        let n = self.records as f64;
        Some(match self.strongest() {
            Strongest::Pooled => format!(
                "the mean of 1/propensity is {} times the number of actions, but is at most 1 times that number for \
                 the propensities of any policy",
                shown(self.pooled.sum / n)
            ),
            Strongest::Sharp(k) => format!(
                "the mean of 1/propensity over the propensities above 1/{}, others counted as 0, is {}, but is at \
                 most {k} for the propensities of any policy",
                k + 1,
                shown(self.sharp[k - 1].sum * k as f64 / n)
            ),
            Strongest::Action(action) => {
                let known = &self.known[&action];
                format!(
                    "action {} was chosen {} times in {} records, which is more often than its propensities \
                     allow: the mean of 1/propensity where it was chosen, others counted as 0, is {}, but is at \
                     most 1 for the propensities of any policy",
                    name(action),
                    known.chosen,
                    self.could(known),
                    shown(known.capital.sum / self.could(known) as f64)
                )
            }
        })
    }

    /// Fails if the propensities are refuted: the evidence is at least [`REFUTED`].
    pub fn check(&self) -> Result<()> {
        self.contradiction(REFUTED, |action| action.to_string()).map_or(Ok(()), |what| Err(Error::Refuted { what }))
    }
}

/// A mean with four decimals, or as a power of ten if it is huge.
fn shown(mean: f64) -> String {
    if mean < 1e6 { format!("{mean:.4}") } else { format!("{mean:.2e}") }
}

/// The share of the evidence of the action with this place, counted from 0. All shares sum to at most 1.
fn share(place: usize) -> f64 {
    let place = place as f64;
    1.0 / ((place + 1.0) * (place + 2.0))
}

impl Logs {
    /// Fails if the logged propensities are refuted ([`PropensityTest`]).
    pub fn check_propensities(&self) -> Result<()> {
        let mut test = PropensityTest::default();
        for (i, (&action, &q)) in self.action().iter().zip(self.propensity()).enumerate() {
            match self.eligible() {
                Some(sets) if sets.features().is_some() => test.add_candidates(q, sets.get(i).len()),
                sets => test.add(action, q, sets.map(|sets| sets.get(i))),
            }
        }
        test.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contexts::Contexts;
    use crate::logs::Eligible;
    use crate::math::random::{Purpose, stream};
    use rand::RngExt;

    /// Draws from sharp distributions over `k` actions, each the softmax of `scale` times normal scores; `tilt` favours
    /// the first actions. `log` gives the logged propensity.
    fn test(seed: u64, (k, scale, tilt): (usize, f64, f64), log: impl Fn(&[f64], usize) -> f64) -> PropensityTest {
        let mut rng = stream(seed, Purpose::Decide, 3);
        let mut test = PropensityTest::default();
        for _ in 0..5000 {
            let mut normal = || {
                let (u, v): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
                (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
            };
            let scores: Vec<f64> = (0..k).map(|a| scale * normal() - tilt * a as f64).collect();
            let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let all: f64 = scores.iter().map(|s| (s - top).exp()).sum();
            let p: Vec<f64> = scores.iter().map(|s| (s - top).exp() / all).collect();
            let mut u: f64 = rng.random();
            let drawn = p.iter().position(|p| {
                u -= p;
                u < 0.0
            });
            let a = drawn.unwrap_or_else(|| p.iter().rposition(|p| *p > 0.0).unwrap());
            test.add(a as u32, log(&p, a), None);
        }
        test
    }

    #[test]
    fn right_propensities_are_not_refuted_however_heavy_the_tails() {
        for scale in [0.0, 1.0, 4.0, 6.0, 8.0] {
            for seed in 0..20 {
                let test = test(seed, (10, scale, 0.3), |p, a| p[a]);
                assert!(test.evidence() < 1e3f64.ln(), "{scale} {seed}: {}", test.evidence());
            }
        }
    }

    #[test]
    fn wrong_propensities_are_refuted() {
        let refuted = |scale: f64, log: &dyn Fn(&[f64], usize) -> f64| {
            (0..10).filter(|&seed| test(seed, (10, scale, 0.3), log).check().is_err()).count()
        };
        let top = |p: &[f64]| p.iter().copied().fold(0.0, f64::max);
        // Too small for the number of actions.
        assert_eq!(refuted(1.0, &|p, a| 0.8 * p[a]), 10);
        assert_eq!(refuted(1.0, &|_, _| 0.05), 10);
        // Those of another policy.
        assert_eq!(refuted(1.0, &|_, _| 0.1), 10);
        // The probability of the best action, whatever was drawn.
        assert_eq!(refuted(6.0, &|p, _| top(p)), 10);
        assert_eq!(refuted(8.0, &|p, _| top(p)), 10);
    }

    #[test]
    fn eligible_actions_count_and_others_do_not() {
        let (mut right, mut wrong) = (PropensityTest::default(), PropensityTest::default());
        for i in 0..300u32 {
            let set = if i % 3 == 0 { vec![0, 1, 2, 3] } else { vec![i % 2, 4] };
            let action = set[(i as usize / 3) % set.len()];
            right.add(action, 1.0 / set.len() as f64, Some(&set));
            wrong.add(action, 0.2, Some(&set));
        }
        assert!(right.check().is_ok(), "{:?}", right.evidence());
        let said = wrong.check().unwrap_err().to_string();
        assert!(said.contains("the mean of 1/propensity is 2.0833 times the number of actions"), "{said}");
    }

    #[test]
    fn candidates_may_be_listed_in_any_order_and_wrong_propensities_are_refuted_all_the_same() {
        let logs = |q: f64| {
            let features = Contexts::dense(vec![0.5; 4000], 1).unwrap();
            let eligible = Eligible::candidates((0..=1000).map(|i| 4 * i).collect(), features).unwrap();
            let contexts = Contexts::dense(vec![1.0; 1000], 1).unwrap();
            // The chosen candidate is always the first.
            let logs = Logs::new(4, contexts, vec![0; 1000], vec![q; 1000], vec![0.0; 1000]).unwrap();
            logs.with_eligible(eligible).unwrap()
        };
        assert!(logs(0.25).check_propensities().is_ok());
        assert!(logs(0.2).check_propensities().is_err());
    }

    #[test]
    fn tiny_propensities_do_not_overflow() {
        let mut test = PropensityTest::default();
        (0..100).for_each(|i| test.add(i % 2, f64::MIN_POSITIVE, None));
        assert!(test.evidence().is_finite());
        let said = test.check().unwrap_err().to_string();
        assert!(!said.contains("00000"), "{said}");
    }
}
