//! The ledger of a run: which policy, protocol and records were fixed in which order.
//!
//! A ledger is a text of lines. Each line is one [`Entry`] in JSON, with the SHA-256 of the line before it. So the hash
//! of the last line, the *head*, fixes everything before it. Whoever is given the head before a round is collected can
//! later check that the protocol and the policy of that round are those in the ledger.
//!
//! ```text
//! open      the protocol: delta, lambdas, spending, gate, reward range, actions, when a round ends
//! deploy    before a round is collected: the policy that will collect it
//! challenge before a round is collected: a challenger of the caller's own, which that round judges first
//! collect   the records of the round, and the policy that collected them
//! erase     records that were erased, and the fingerprint of the round without them
//! learn     the policy learned from it, and the records that were held back from that policy
//! state     a certificate
//! ```

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Statement, StatementKind};
use crate::certificate::{FixedSince, Gate, Protocol};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;

const FORMAT: &str = "surefoot-ledger";
const VERSION: u64 = 1;

/// What a run fixes before its first record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opening {
    /// The first policy: the prior of the bounds on all records.
    pub first: Fingerprint,
    /// The number of actions.
    pub actions: usize,
    /// Delta, the grid of lambdas, the form of the bound and the spending of delta.
    pub protocol: Protocol,
    /// The rule by which a policy is deployed.
    pub gate: Gate,
    /// Whether learned policies are deployed at all.
    pub redeploys: bool,
    /// Whether the contexts may change from round to round.
    pub shifts: bool,
    /// What the core does not know of.
    pub terms: Terms,
}

/// What a run fixes about the world outside: it is written down, and only people can check it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// The lowest and the highest reward. A reward `r` is the cost `-(r - lowest)/(highest - lowest)`.
    pub reward_range: [f64; 2],
    /// The fingerprint of how raw records become contexts and actions, if policies decide on raw records.
    pub inputs: Option<Fingerprint>,
    /// When a round ends. The rule must not look at the costs of the round.
    pub rounds_end: String,
}

impl Default for Terms {
    fn default() -> Self {
        Terms { reward_range: [0.0, 1.0], inputs: None, rounds_end: "not stated".into() }
    }
}

/// One entry of a ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Entry {
    /// The first entry.
    Open(Opening),
    /// A policy is deployed. Every round needs such an entry before it is collected, also if the policy stays.
    Deploy {
        /// The policy.
        policy: Fingerprint,
    },
    /// A challenger of the caller's own is fixed.
    Challenge {
        /// The policy.
        policy: Fingerprint,
        /// The first round whose records judge it. None of them was drawn when this entry was written.
        round: usize,
    },
    /// A round was collected.
    Collect {
        /// The round, counted from 0.
        round: usize,
        /// The policy that collected it, if it is known.
        by: Option<Fingerprint>,
        /// Its records.
        logs: Fingerprint,
        /// Their number.
        records: usize,
    },
    /// Records were erased, as whoever they are about may ask. Their places stay: from now on they are records of an empty
    /// context that earned the lowest reward, which is a cost of 0.
    Erase {
        /// The round, counted from 0.
        round: usize,
        /// Their number.
        records: usize,
        /// The fingerprint of the round afterwards, if it was collected before this entry.
        logs: Option<Fingerprint>,
    },
    /// A policy was learned from all rounds so far.
    Learn {
        /// The newest round, counted from 0.
        round: usize,
        /// The policy.
        policy: Fingerprint,
        /// The records that it has not seen, if some were held back.
        fixed_since: Option<FixedSince>,
        /// The policy that would be handed over, if it is another one. It was learned from the same records.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hand_over: Option<Fingerprint>,
    },
    /// A certificate was made.
    State {
        /// The number of rounds that it is from.
        round: usize,
        /// Its role.
        kind: StatementKind,
        /// The hash of the certificate.
        certificate: Fingerprint,
    },
}

/// An entry as it is written: after the hash of the line before.
#[derive(Serialize, Deserialize)]
struct Line {
    previous: Fingerprint,
    #[serde(flatten)]
    entry: Entry,
}

/// The first line of the text.
#[derive(Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    version: u64,
}

/// The entries of a ledger, and their hashes.
#[derive(Debug, Clone, PartialEq)]
pub struct Ledger {
    entries: Vec<Entry>,
    hashes: Vec<Fingerprint>,
}

impl Ledger {
    /// A ledger with its first entry.
    pub fn open(opening: Opening) -> Self {
        let mut ledger = Ledger { entries: Vec::new(), hashes: Vec::new() };
        ledger.append(Entry::Open(opening));
        ledger
    }

    /// What the run fixed before its first record.
    pub fn opening(&self) -> &Opening {
        match &self.entries[0] {
            Entry::Open(opening) => opening,
            _ => unreachable!("a ledger begins with its opening"),
        }
    }

    /// Adds an entry.
    pub fn append(&mut self, entry: Entry) {
        let line = line(self.last(), &entry);
        self.hashes.push(Fingerprint::of_bytes(line.as_bytes()));
        self.entries.push(entry);
    }

    /// The hash that the next line begins with.
    fn last(&self) -> Fingerprint {
        self.hashes.last().copied().unwrap_or_else(|| Fingerprint::of_bytes(header().as_bytes()))
    }

    /// All entries, the oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The hash of the last entry. It fixes all entries.
    pub fn head(&self) -> Fingerprint {
        self.last()
    }

    /// The place of the entry with this hash.
    pub fn place(&self, head: Fingerprint) -> Option<usize> {
        self.hashes.iter().position(|hash| *hash == head)
    }

    /// The challengers of the caller's own, the oldest first: each with the first round whose records judge it.
    pub fn challenges(&self) -> impl Iterator<Item = (usize, Fingerprint)> {
        self.entries.iter().filter_map(|entry| match *entry {
            Entry::Challenge { policy, round } => Some((round, policy)),
            _ => None,
        })
    }

    /// The number of records of a round that were erased.
    pub fn erased(&self, round: usize) -> usize {
        let of_round = self.entries.iter().map(|entry| match entry {
            Entry::Erase { round: k, records, .. } if *k == round => *records,
            _ => 0,
        });
        of_round.sum()
    }

    /// The head as it was before this round was collected, if it has been collected.
    pub fn head_before(&self, round: usize) -> Option<Fingerprint> {
        let place =
            self.entries.iter().position(|entry| matches!(entry, Entry::Collect { round: k, .. } if *k == round));
        place.map(|place| self.hashes[place - 1])
    }
}

fn header() -> String {
    json(&Header { format: FORMAT.into(), version: VERSION })
}

fn line(previous: Fingerprint, entry: &Entry) -> String {
    json(&Line { previous, entry: entry.clone() })
}

/// Infinite numbers are not in any checked protocol, and all keys are texts: nothing can fail.
fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("an entry is numbers and texts")
}

/// The hash of a certificate with its role, as a ledger names it.
pub fn hash_of(statement: &Statement) -> Fingerprint {
    Fingerprint::of_bytes(json(statement).as_bytes())
}

/// The text: one line per entry.
impl Display for Ledger {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut previous = Fingerprint::of_bytes(header().as_bytes());
        writeln!(f, "{}", header())?;
        for (entry, hash) in self.entries.iter().zip(&self.hashes) {
            writeln!(f, "{}", line(previous, entry))?;
            previous = *hash;
        }
        Ok(())
    }
}

/// Reads a ledger and checks that its lines are a chain. What they say is checked by [`audit`](super::audit()).
impl FromStr for Ledger {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |row: usize, allowed: &str, value: String| Error::value(row, "the line", allowed, value);
        let Some(whole) = text.strip_suffix('\n') else {
            return Err(Error::setting("a ledger", "a text whose last line is complete", "one that was cut"));
        };
        let mut lines = whole.split('\n').enumerate();
        let first = lines.next().map_or("", |(_, line)| line);
        if first != header() {
            return Err(bad(0, &header(), shortened(first)));
        }
        let mut ledger = Ledger { entries: Vec::new(), hashes: Vec::new() };
        for (row, text) in lines {
            let Line { previous, entry } = serde_json::from_str(text)
                .map_err(|reason| bad(row, "an entry of a ledger", format!("{}: {reason}", shortened(text))))?;
            if previous != ledger.last() {
                return Err(Error::value(row, "previous", ledger.last(), previous));
            }
            if line(previous, &entry) != text {
                return Err(bad(row, "written as Surefoot writes it", shortened(text)));
            }
            if matches!(entry, Entry::Open(_)) != ledger.entries.is_empty() {
                return Err(bad(row, "open first, and once", shortened(text)));
            }
            ledger.append(entry);
        }
        if ledger.entries.is_empty() {
            return Err(Error::size("a ledger", "at least its opening", 0));
        }
        Ok(ledger)
    }
}

fn shortened(text: &str) -> String {
    const SHOWN: usize = 80;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::Since;

    fn print(n: u8) -> Fingerprint {
        Fingerprint::of_bytes(&[n])
    }

    fn ledger() -> Ledger {
        let mut ledger = Ledger::open(Opening {
            first: print(0),
            actions: 3,
            protocol: Protocol::default(),
            gate: Gate::NonInferiority { margin: 0.01 },
            redeploys: true,
            shifts: false,
            terms: Terms { rounds_end: "after 100 records".into(), ..Terms::default() },
        });
        ledger.append(Entry::Deploy { policy: print(0) });
        ledger.append(Entry::Challenge { policy: print(3), round: 0 });
        ledger.append(Entry::Collect { round: 0, by: Some(print(0)), logs: print(9), records: 100 });
        let fixed_since = Some(FixedSince { round: 0, since: Since { round: 0, record: 50 }, size: 2 });
        ledger.append(Entry::Learn { round: 0, policy: print(1), fixed_since, hand_over: Some(print(2)) });
        ledger.append(Entry::State { round: 1, kind: StatementKind::Gate, certificate: print(7) });
        ledger.append(Entry::Deploy { policy: print(1) });
        ledger
    }

    #[test]
    fn a_ledger_is_read_as_it_was_written() {
        let ledger = ledger();
        let text = ledger.to_string();
        assert_eq!(text.lines().count(), 8);
        let back: Ledger = text.parse().unwrap();
        assert_eq!(back, ledger);
        assert_eq!(back.head_before(0), ledger.hashes.get(2).copied());
        assert_eq!(back.place(back.head()), Some(6));
        assert_eq!(back.challenges().collect::<Vec<_>>(), [(0, print(3))]);
        // The head is the hash of the last line, as any tool computes it.
        assert_eq!(back.head(), Fingerprint::of_bytes(text.lines().last().unwrap().as_bytes()));
    }

    #[test]
    fn a_change_of_any_byte_is_seen() {
        let (ledger, text) = (ledger(), ledger().to_string());
        for place in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[place] = if bytes[place] == b'1' { b'2' } else { b'1' };
            let Ok(changed) = String::from_utf8(bytes) else { continue };
            // Only a change of the last line can make another ledger, and that one has another head.
            assert!(changed.parse::<Ledger>().is_ok_and(|other| other.head() == ledger.head()) == (changed == text));
        }
        let lines: Vec<&str> = text.lines().collect();
        for (what, wrong) in [
            ("a line left out", [&lines[..2], &lines[3..]].concat()),
            ("two lines exchanged", [&lines[..2], &[lines[3], lines[2]], &lines[4..]].concat()),
            ("a line twice", [&lines[..3], &lines[2..]].concat()),
            ("no opening", vec![lines[0]]),
        ] {
            assert!((wrong.join("\n") + "\n").parse::<Ledger>().is_err(), "{what}");
        }
        assert!(text.trim_end().parse::<Ledger>().is_err());
    }

    #[test]
    fn errors_name_the_line() {
        let text = ledger().to_string().replacen("\"records\":100", "\"records\":101", 1);
        let said = text.parse::<Ledger>().unwrap_err().to_string();
        assert!(said.starts_with("row 5: previous should be"), "{said}");
        let said = "{}\n".parse::<Ledger>().unwrap_err().to_string();
        assert_eq!(said, "row 0: the line should be {\"format\":\"surefoot-ledger\",\"version\":1}, but is \"{}\"");
    }
}
