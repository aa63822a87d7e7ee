//! Which member leads: by paired differences over records that no member has learned from.

use serde::{Deserialize, Serialize};

/// The weight of the rounds before, in each round: members change from round to round.
const MEMORY: f64 = 0.5;

/// The differences between all pairs of members, over the records so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Comparison {
    members: usize,
    /// The sum of the differences, `members x members`.
    sums: Vec<f64>,
    /// The sum of their squares.
    squares: Vec<f64>,
}

impl Comparison {
    pub(super) fn new(members: usize) -> Self {
        Comparison { members, sums: vec![0.0; members * members], squares: vec![0.0; members * members] }
    }

    /// Whether it compares this many members.
    pub(super) fn fits(&self, members: usize) -> bool {
        let squared = members * members;
        (self.members, self.sums.len(), self.squares.len()) == (members, squared, squared)
    }

    /// Begins a new round.
    pub(super) fn fade(&mut self) {
        self.sums.iter_mut().chain(&mut self.squares).for_each(|sum| *sum *= MEMORY);
    }

    /// Adds records: the values of each member, one per record. Larger is better. Members without values are not compared.
    pub(super) fn add(&mut self, values: &[Option<Vec<f64>>]) {
        for (a, own) in values.iter().enumerate() {
            for (b, other) in values.iter().enumerate().filter(|&(b, _)| b != a) {
                let (Some(own), Some(other)) = (own, other) else { continue };
                let at = a * self.members + b;
                for difference in own.iter().zip(other).map(|(own, other)| own - other) {
                    self.sums[at] += difference;
                    self.squares[at] += difference * difference;
                }
            }
        }
    }

    /// The member that is better than the leader by most standard errors, if by at least `clearly`; else the leader.
    pub(super) fn leader(&self, leader: usize, clearly: f64) -> usize {
        let score = |member: usize| {
            let at = member * self.members + leader;
            // The standard error of a sum of independent differences is at most the root of the sum of their squares.
            if self.squares[at] > 0.0 { self.sums[at] / self.squares[at].sqrt() } else { 0.0 }
        };
        let best = (0..self.members).filter(|&member| member != leader).max_by(|&a, &b| score(a).total_cmp(&score(b)));
        best.filter(|&member| score(member) >= clearly).unwrap_or(leader)
    }
}
