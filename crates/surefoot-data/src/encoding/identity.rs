//! Columns that look like identities of persons or devices. A vocabulary of such a column would put the identities into
//! the policy file.

use serde::{Deserialize, Serialize};
use std::collections::HashSet;

use twox_hash::XxHash64;

/// The number of different values that are counted.
const COUNTED: usize = 10_000;
/// From this number of values on, a column whose values are mostly different looks like an identity.
const ENOUGH: usize = 20;

/// Why a column looks like an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Identity {
    /// At least half of its values are e-mail addresses.
    Email,
    /// At least half of its values are UUIDs.
    Uuid,
    /// At least half of its values are IP addresses.
    Ip,
    /// At least half of its values are telephone numbers.
    Phone,
    /// At least nine in ten of its values are different.
    Distinct,
}

impl Identity {
    const PATTERNS: [Identity; 4] = [Identity::Email, Identity::Uuid, Identity::Ip, Identity::Phone];

    /// What its values are.
    pub fn describe(self) -> &'static str {
        match self {
            Identity::Email => "e-mail addresses",
            Identity::Uuid => "UUIDs",
            Identity::Ip => "IP addresses",
            Identity::Phone => "telephone numbers",
            Identity::Distinct => "values that are mostly different",
        }
    }

    fn matches(self, text: &str) -> bool {
        let text = text.trim();
        match self {
            Identity::Email => text.split_once('@').is_some_and(|(name, host)| {
                let plain = |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || c == '@');
                plain(name)
                    && plain(host)
                    && host.split('.').count() > 1
                    && host.split('.').all(|part| !part.is_empty())
            }),
            Identity::Uuid => {
                let digits: Vec<usize> = text.split('-').map(str::len).collect();
                (digits == [8, 4, 4, 4, 12] || digits == [32])
                    && text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
            }
            Identity::Ip => text.parse::<std::net::IpAddr>().is_ok(),
            // Not a property of a single value.
            Identity::Distinct => false,
            Identity::Phone => {
                let digits = text.bytes().filter(u8::is_ascii_digit).count();
                let marked = text.starts_with('+') || text.starts_with("00") || text.contains(['-', ' ', '(', '/']);
                let allowed = |b: u8| b.is_ascii_digit() || b"+-() ./".contains(&b);
                // A date has 8 digits.
                (9..=15).contains(&digits) && marked && text.bytes().all(allowed)
            }
        }
    }
}

/// Counts of the values of a column.
#[derive(Debug, Default)]
pub(super) struct Values {
    seen: usize,
    matching: [usize; Identity::PATTERNS.len()],
    /// The hashes of different values. Counting ends when there are [`COUNTED`].
    distinct: HashSet<u64>,
    counted: usize,
}

impl Values {
    pub(super) fn add(&mut self, text: &str) {
        self.seen += 1;
        for (count, pattern) in self.matching.iter_mut().zip(Identity::PATTERNS) {
            *count += usize::from(pattern.matches(text));
        }
        if self.distinct.len() < COUNTED {
            self.distinct.insert(XxHash64::oneshot(0, text.as_bytes()));
            self.counted += 1;
        }
    }

    /// Why the column looks like an identity, if it does.
    pub(super) fn identity(&self) -> Option<Identity> {
        let half = |&(count, _): &(&usize, Identity)| *count > 0 && 2 * count >= self.seen;
        let pattern = self.matching.iter().zip(Identity::PATTERNS).find(half).map(|(_, pattern)| pattern);
        let distinct = self.counted >= ENOUGH && 10 * self.distinct.len() >= 9 * self.counted;
        pattern.or(distinct.then_some(Identity::Distinct))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(values: impl IntoIterator<Item = String>) -> Option<Identity> {
        let mut seen = Values::default();
        values.into_iter().for_each(|value| seen.add(&value));
        seen.identity()
    }

    #[test]
    fn usual_identities_are_found_and_usual_categories_are_not() {
        let cases = [
            ("ann@example.org", Some(Identity::Email)),
            ("a.b+c@mail.example.co.uk", Some(Identity::Email)),
            ("ann@", None),
            ("ann at example.org", None),
            ("a@b@c.d", None),
            ("123e4567-e89b-12d3-a456-426614174000", Some(Identity::Uuid)),
            ("123e4567e89b12d3a456426614174000", Some(Identity::Uuid)),
            ("123e4567-e89b", None),
            ("192.168.0.1", Some(Identity::Ip)),
            ("2001:db8::1", Some(Identity::Ip)),
            ("1.2.3", None),
            ("+47 912 34 567", Some(Identity::Phone)),
            ("(030) 123-4567", Some(Identity::Phone)),
            ("2026-11-16", None),
            ("123456789", None),
            ("NO", None),
            ("news/sport", None),
        ];
        for (text, expected) in cases {
            assert_eq!(identity(vec![text.to_owned(); 3]), expected, "{text}");
        }
    }

    #[test]
    fn half_of_the_values_decide_a_pattern_and_nine_in_ten_that_all_are_different() {
        let of = |email: usize, other: usize| {
            let emails = (0..email).map(|_| "a@b.c".to_owned());
            identity(emails.chain((0..other).map(|_| "none".to_owned())))
        };
        assert_eq!((of(2, 2), of(2, 3), of(0, 0)), (Some(Identity::Email), None, None));
        let distinct = |n: usize, different: usize| identity((0..n).map(|i| format!("v{}", i % different)));
        assert_eq!(distinct(100, 90), Some(Identity::Distinct));
        assert_eq!(distinct(100, 89), None);
        assert_eq!(distinct(19, 19), None, "too few to tell");
        assert_eq!(distinct(50_000, 50_000), Some(Identity::Distinct));
    }
}
