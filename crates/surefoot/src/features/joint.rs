//! Joint features of a context and a candidate.

use std::ops::Range;

use crate::contexts::Row;
use crate::error::{Error, Result};
use crate::fingerprint::Hasher;

/// The products of all context features of one range with all candidate features of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cross {
    /// The context features.
    pub context: Range<usize>,
    /// The candidate features.
    pub candidate: Range<usize>,
}

/// How a context `x` and a candidate `b` become the joint features `phi(x, b)` that a score is linear in.
///
/// Some candidate features are joint features themselves; others are products of a context feature and a candidate
/// feature. If these are more than `2^bits`, they are hashed into `2^bits`. The map is part of a policy, and must be fixed
/// before the records that certify it.
///
/// ```
/// use surefoot::features::{Cross, Joint};
///
/// // Two features of a user, three of an article: the article's own, and all products.
/// let joint = Joint::new(2, 3, vec![0..3], vec![Cross { context: 0..2, candidate: 0..3 }], 18)?;
/// assert_eq!((joint.output(), joint.is_hashed()), (9, false));
/// # Ok::<(), surefoot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joint {
    contexts: usize,
    candidates: usize,
    own: Vec<Range<usize>>,
    crosses: Vec<Cross>,
    bits: u8,
    /// The first joint feature of each part, own ranges before crosses; `None` if they are hashed.
    bases: Option<Vec<usize>>,
    output: usize,
}

impl Joint {
    /// The largest `bits`.
    pub const MOST_BITS: u8 = 30;

    /// For this number of context features and of candidate features. `own` are ranges of candidate features.
    pub fn new(
        contexts: usize,
        candidates: usize,
        own: Vec<Range<usize>>,
        crosses: Vec<Cross>,
        bits: u8,
    ) -> Result<Self> {
        if !(1..=Self::MOST_BITS).contains(&bits) {
            return Err(Error::setting("the bits of joint features", format!("from 1 to {}", Self::MOST_BITS), bits));
        }
        let check = |what: &str, range: &Range<usize>, features: usize| {
            if range.start < range.end && range.end <= features {
                return Ok(());
            }
            let allowed = format!("a range within 0..{features} that is not empty");
            Err(Error::setting(what, allowed, format!("{range:?}")))
        };
        own.iter().try_for_each(|range| check("own features of a candidate", range, candidates))?;
        for cross in &crosses {
            check("crossed features of a context", &cross.context, contexts)?;
            check("crossed features of a candidate", &cross.candidate, candidates)?;
        }
        let sizes = own.iter().map(Range::len);
        let products = crosses.iter().map(|cross| cross.context.len().saturating_mul(cross.candidate.len()));
        let (mut bases, mut total) = (Vec::new(), 0usize);
        for size in sizes.chain(products) {
            bases.push(total);
            total = total.saturating_add(size);
        }
        if total == 0 {
            return Err(Error::size("joint features", "at least 1 range", 0));
        }
        let hashed = total > 1 << bits;
        let output = if hashed { 1 << bits } else { total };
        let bases = (!hashed).then_some(bases);
        Ok(Joint { contexts, candidates, own, crosses, bits, bases, output })
    }

    /// All features of a candidate, and their products with all features of the context.
    pub fn full(contexts: usize, candidates: usize, bits: u8) -> Result<Self> {
        let cross = Cross { context: 0..contexts, candidate: 0..candidates };
        Self::new(contexts, candidates, vec![0..candidates; 1], vec![cross], bits)
    }

    /// The number of context features.
    pub fn contexts(&self) -> usize {
        self.contexts
    }

    /// The number of features of a candidate.
    pub fn candidates(&self) -> usize {
        self.candidates
    }

    /// The ranges of candidate features that are joint features themselves.
    pub fn own(&self) -> &[Range<usize>] {
        &self.own
    }

    /// The products.
    pub fn crosses(&self) -> &[Cross] {
        &self.crosses
    }

    /// The logarithm of the largest number of joint features.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// The number of joint features.
    pub fn output(&self) -> usize {
        self.output
    }

    /// Whether the joint features are hashed: then some of them share a weight.
    pub fn is_hashed(&self) -> bool {
        self.bases.is_none()
    }

    /// The ranges of joint features of the same kind, which may have a common prior. If they are hashed, all are one kind.
    pub(crate) fn kinds(&self) -> Vec<Range<usize>> {
        let bases = self.bases.as_deref().unwrap_or(&[0]);
        let ends = bases[1..].iter().copied().chain([self.output]);
        bases.iter().zip(ends).map(|(&start, end)| start..end).collect()
    }

    /// The crossing of one context with its candidates.
    pub(crate) fn at<'a>(&'a self, context: Row<'_>, room: &'a mut Vec<(usize, f64)>) -> Crossing<'a> {
        room.clear();
        if !self.crosses.is_empty() {
            context.for_each(|f, v| {
                if v != 0.0 {
                    room.push((f, v));
                }
            });
        }
        Crossing { joint: self, context: room }
    }

    /// The joint feature of part `part`: candidate feature `f`, and for a cross the context feature `x`, both counted
    /// from the start of their ranges. `width` is the length of the candidate's range.
    #[inline(always)]
    fn index(&self, part: usize, x: usize, f: usize, width: usize) -> usize {
        match &self.bases {
            Some(bases) => bases[part] + x * width + f,
            None => hash(part as u64, x as u64, f as u64, self.bits),
        }
    }

    /// Adds itself to a fingerprint.
    pub(crate) fn hash(&self, hasher: &mut Hasher) {
        hasher.text("joint");
        hasher.count(self.contexts);
        hasher.count(self.candidates);
        hasher.count(self.own.len());
        hasher.count(self.crosses.len());
        let crossed = self.crosses.iter().flat_map(|cross| [&cross.context, &cross.candidate]);
        for range in self.own.iter().chain(crossed) {
            hasher.count(range.start);
            hasher.count(range.end);
        }
        hasher.count(usize::from(self.bits));
    }
}

/// The top bits of a product with odd numbers (multiplicative hashing).
#[inline(always)]
fn hash(part: u64, x: u64, f: u64, bits: u8) -> usize {
    const PART: u64 = 0xd6e8_feb8_6659_fd93;
    const CONTEXT: u64 = 0xa076_1d64_78bd_642f;
    const ALL: u64 = 0x9e37_79b9_7f4a_7c15;
    let key = part.wrapping_mul(PART).wrapping_add(x.wrapping_mul(CONTEXT)).wrapping_add(f);
    let mixed = (key ^ (key >> 32)).wrapping_mul(ALL);
    (mixed >> (64 - bits)) as usize
}

/// One context, ready to be crossed with its candidates: its non-zero features are listed once.
pub(crate) struct Crossing<'a> {
    joint: &'a Joint,
    context: &'a [(usize, f64)],
}

impl Crossing<'_> {
    /// Calls `visit(feature, value)` for every joint feature of a candidate that is not 0. If features are hashed, the
    /// same feature may be visited several times; its value is the sum.
    #[inline(always)]
    pub(crate) fn visit(&self, candidate: Row<'_>, mut visit: impl FnMut(usize, f64)) {
        let joint = self.joint;
        for (part, own) in joint.own.iter().enumerate() {
            candidate.for_each_in(own.clone(), |f, v| {
                if v != 0.0 {
                    visit(joint.index(part, 0, f - own.start, own.len()), f64::from(v));
                }
            });
        }
        for (part, cross) in (joint.own.len()..).zip(&joint.crosses) {
            let (from, width) = (cross.candidate.start, cross.candidate.len());
            let first = self.context.partition_point(|(x, _)| *x < cross.context.start);
            let last = self.context.partition_point(|(x, _)| *x < cross.context.end);
            let context = &self.context[first..last];
            candidate.for_each_in(cross.candidate.clone(), |f, v| {
                if v != 0.0 {
                    for &(x, u) in context {
                        visit(joint.index(part, x - cross.context.start, f - from, width), u * f64::from(v));
                    }
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contexts::Contexts;

    fn rows(values: Vec<f32>) -> Contexts {
        let n = values.len();
        Contexts::dense(values, n).unwrap()
    }

    fn phi(joint: &Joint, x: &Contexts, b: &Contexts) -> Vec<f64> {
        let (mut room, mut out) = (Vec::new(), vec![0.0; joint.output()]);
        joint.at(x.row(0), &mut room).visit(b.row(0), |f, v| out[f] += v);
        out
    }

    #[test]
    fn joint_features_are_the_candidate_s_own_and_the_products() {
        let (x, b) = (rows(vec![2.0, 0.0, 3.0]), rows(vec![5.0, 7.0]));
        let crosses = vec![Cross { context: 1..3, candidate: 0..2 }, Cross { context: 0..1, candidate: 1..2 }];
        let joint = Joint::new(3, 2, vec![1..2, 0..1], crosses, 10).unwrap();
        let expected = [7.0, 5.0, 0.0, 0.0, 15.0, 21.0, 14.0];
        assert_eq!(phi(&joint, &x, &b), expected);
        assert_eq!(phi(&joint, &x.to_sparse(), &b.to_sparse()), expected);
    }

    #[test]
    fn hashed_features_are_the_sums_of_those_that_share_a_place_and_are_spread_evenly() {
        let joint = Joint::full(100, 100, 8).unwrap();
        assert_eq!((joint.output(), joint.is_hashed()), (256, true));
        let ones = rows(vec![1.0; 100]);
        let counts = phi(&joint, &ones, &ones);
        assert_eq!(counts.iter().sum::<f64>(), 10_100.0);
        let mean = 10_100.0 / 256.0;
        let chi2: f64 = counts.iter().map(|count| (count - mean) * (count - mean) / mean).sum();
        // The 99.9 % point of chi-squared with 255 degrees of freedom.
        assert!(chi2 < 330.5, "{chi2}");
    }

    #[test]
    fn ranges_that_do_not_fit_are_refused() {
        let text = |own, crosses, bits| Joint::new(2, 3, own, crosses, bits).unwrap_err().to_string();
        assert_eq!(
            text(vec![1..4; 1], vec![], 4),
            "own features of a candidate should be a range within 0..3 that is not empty, but is 1..4"
        );
        assert_eq!(
            text(vec![], vec![Cross { context: 2..2, candidate: 0..1 }], 4),
            "crossed features of a context should be a range within 0..2 that is not empty, but is 2..2"
        );
        assert_eq!(text(vec![], vec![], 4), "joint features should have at least 1 range, but has 0");
        assert_eq!(text(vec![0..1; 1], vec![], 31), "the bits of joint features should be from 1 to 30, but is 31");
    }
}
