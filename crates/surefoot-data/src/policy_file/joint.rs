//! The joint features of policies over candidates, as their files describe them.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use surefoot::features::{Cross, Joint};

use crate::error::{Result, at};

/// How a context and a candidate become joint features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JointHeader {
    /// The number of features of a context, after the feature map, and of a candidate.
    contexts: usize,
    candidates: usize,
    /// Ranges of features of a candidate: the first, and the one after the last.
    own: Vec<[usize; 2]>,
    crosses: Vec<CrossHeader>,
    bits: u8,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CrossHeader {
    context: [usize; 2],
    candidate: [usize; 2],
}

fn pair(range: &Range<usize>) -> [usize; 2] {
    [range.start, range.end]
}

fn range([start, end]: [usize; 2]) -> Range<usize> {
    start..end
}

impl JointHeader {
    pub(super) fn of(joint: &Joint) -> Self {
        let cross = |cross: &Cross| CrossHeader { context: pair(&cross.context), candidate: pair(&cross.candidate) };
        JointHeader {
            contexts: joint.contexts(),
            candidates: joint.candidates(),
            own: joint.own().iter().map(pair).collect(),
            crosses: joint.crosses().iter().map(cross).collect(),
            bits: joint.bits(),
        }
    }

    /// The joint features; `place` is the file.
    pub(super) fn joint(&self, place: &str) -> Result<Joint> {
        let cross = |cross: &CrossHeader| Cross { context: range(cross.context), candidate: range(cross.candidate) };
        let own = self.own.iter().copied().map(range).collect();
        let crosses = self.crosses.iter().map(cross).collect();
        at(place, Joint::new(self.contexts, self.candidates, own, crosses, self.bits))
    }
}
