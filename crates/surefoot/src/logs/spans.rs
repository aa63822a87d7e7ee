//! The one order in which sums over the records of a round are added, for any number of threads, shards and machines.
//!
//! Records are counted from the first of the round. A *chunk* is [`CHUNK`] records, and a *span* is [`SPAN`] of them, both at
//! multiples of their size; records that were sliced off are missing from the first and the last one. The chunks of a span are
//! added one after the other. Spans are added by a binary tree that is aligned at powers of two: a node has the spans from
//! `i 2^k` to `(i + 1) 2^k`. So a shard of a power of two of spans, at a multiple of its size, is a node, and its sum has the
//! same bits wherever it is computed.

use std::ops::Range;

use super::CHUNK;
use crate::error::Result;

/// The number of records per span.
pub const SPAN: usize = 4 * CHUNK;

/// The spans of a range of records, which is not empty.
pub(super) fn spans(records: &Range<usize>) -> Range<usize> {
    records.start / SPAN..(records.end - 1) / SPAN + 1
}

/// The parts of a range of records that lie in different chunks.
pub(super) fn chunks(records: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let first = records.start / CHUNK;
    let last = if records.is_empty() { first } else { (records.end - 1) / CHUNK + 1 };
    (first..last).map(move |chunk| (chunk * CHUNK).max(records.start)..((chunk + 1) * CHUNK).min(records.end))
}

/// The part of a range of records that lies in a span.
pub(super) fn within(records: &Range<usize>, span: usize) -> Range<usize> {
    (span * SPAN).max(records.start)..((span + 1) * SPAN).min(records.end)
}

/// Where the root of the tree over some spans, two at least, is divided: at the multiple of the largest power of two.
fn middle(spans: &Range<usize>) -> usize {
    let last = spans.end - 1;
    last >> (spans.start ^ last).ilog2() << (spans.start ^ last).ilog2()
}

/// The sum over some spans, one at least. Two halves are computed at once if that is `parallel`.
pub(super) fn tree<T: Send>(
    spans: Range<usize>,
    parallel: bool,
    leaf: &(impl Fn(usize) -> Result<T> + Sync),
    merge: &(impl Fn(&mut T, T) + Sync),
) -> Result<T> {
    if spans.len() == 1 {
        return leaf(spans.start);
    }
    let middle = middle(&spans);
    let [left, right] = [spans.start..middle, middle..spans.end];
    let half = |spans| tree(spans, parallel, leaf, merge);
    let (left, right) = if parallel {
        rayon::join(|| half(left), || half(right))
    } else {
        let left = half(left)?;
        (Ok(left), half(right))
    };
    let mut sum = left?;
    merge(&mut sum, right?);
    Ok(sum)
}

/// The sum over shards, each of which is a node of the tree or what a slice left of it: the records of each and its sum, in
/// order. `None` without a shard.
pub(super) fn join<T>(shards: Vec<(Range<usize>, T)>, merge: &impl Fn(&mut T, T)) -> Option<T> {
    let (first, last) = (shards.first()?, shards.last()?);
    if shards.len() == 1 {
        return shards.into_iter().next().map(|(_, sum)| sum);
    }
    let middle = middle(&(first.0.start / SPAN..spans(&last.0).end)) * SPAN;
    let mut left = shards;
    let right = left.split_off(left.partition_point(|(records, _)| records.start < middle).clamp(1, left.len() - 1));
    let mut sum = join(left, merge)?;
    merge(&mut sum, join(right, merge)?);
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The order of a sum, in words.
    fn order(spans: Range<usize>) -> String {
        tree(spans, true, &|span| Ok(span.to_string()), &|sum: &mut String, next| *sum = format!("({sum} {next})"))
            .unwrap()
    }

    #[test]
    fn spans_are_added_by_a_tree_at_powers_of_two() {
        assert_eq!(order(0..1), "0");
        assert_eq!(order(0..5), "(((0 1) (2 3)) 4)");
        assert_eq!(order(3..9), "((3 ((4 5) (6 7))) 8)");
        assert_eq!(order(6..8), "(6 7)");
    }

    proptest! {
        #[test]
        fn shards_of_any_size_are_nodes_of_the_tree(start in 0usize..40 * SPAN, n in 1usize..40 * SPAN, size in 0u32..5) {
            let (records, size) = (start..start + n, SPAN << size);
            let words = |sum: &mut String, next: String| *sum = format!("({sum} {next})");
            let whole = order(spans(&records));
            let shards = (records.start / size..=(records.end - 1) / size).map(|shard| {
                let part = (shard * size).max(records.start)..((shard + 1) * size).min(records.end);
                (part.clone(), order(spans(&part)))
            });
            prop_assert_eq!(join(shards.collect(), &words).unwrap(), whole);
        }

        #[test]
        fn chunks_and_spans_cover_every_record_once(start in 0usize..3 * SPAN, n in 1usize..3 * SPAN) {
            let records = start..start + n;
            let all: Vec<Range<usize>> =
                spans(&records).flat_map(|span| chunks(within(&records, span)).collect::<Vec<_>>()).collect();
            prop_assert!(all.windows(2).all(|pair| pair[0].end == pair[1].start && pair[1].start % CHUNK == 0));
            prop_assert_eq!((all[0].start, all[all.len() - 1].end), (records.start, records.end));
            prop_assert!(all.iter().all(|chunk| !chunk.is_empty()));
        }
    }
}
