//! The records of a round whose contexts are kept, and the row of each.

/// A set of records, from which the place of a record in the set is found at once: a bit per record, and the number of
/// members before each word of bits. It takes a quarter of a byte per record.
#[derive(Debug)]
pub(super) struct Kept {
    words: Vec<u64>,
    before: Vec<usize>,
}

impl Kept {
    /// The set of the records for which `keep` is true.
    pub(super) fn new(records: usize, keep: impl Fn(usize) -> bool) -> Self {
        let (mut words, mut before, mut count) = (Vec::new(), Vec::new(), 0);
        for start in (0..records).step_by(64) {
            let bits = (start..(start + 64).min(records)).filter(|&i| keep(i));
            let word = bits.fold(0u64, |word, i| word | 1 << (i - start));
            words.push(word);
            before.push(count);
            count += word.count_ones() as usize;
        }
        Kept { words, before }
    }

    /// The number of members before a record.
    pub(super) fn place(&self, record: usize) -> usize {
        let (word, bit) = (record / 64, record % 64);
        let earlier = self.words[word] & ((1 << bit) - 1);
        self.before[word] + earlier.count_ones() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_record_is_the_number_of_members_before_it() {
        for (records, step) in [(1, 1), (63, 2), (64, 3), (65, 1), (1000, 7)] {
            let kept = Kept::new(records, |i| i % step == 0);
            let members: Vec<usize> = (0..records).step_by(step).collect();
            members.iter().enumerate().for_each(|(place, &i)| assert_eq!(kept.place(i), place));
        }
    }
}
