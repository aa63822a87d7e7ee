//! FINGERPRINT: a name for a policy or a round of logs that depends only on its content.

use std::fmt::{self, Debug, Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::contexts::Row;
use crate::error::{Error, Result};

/// The SHA-256 of the content of a policy or of logs, in an encoding that does not depend on how they are stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The SHA-256 of some bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Fingerprint(Sha256::digest(bytes).into())
    }

    /// Its hexadecimal digits. A service writes some for every decision.
    fn hex<'a>(&self, digits: &'a mut [u8; 64]) -> &'a str {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for (two, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            two[0] = DIGITS[usize::from(byte >> 4)];
            two[1] = DIGITS[usize::from(byte & 15)];
        }
        str::from_utf8(digits).expect("digits are ASCII")
    }
}

impl Display for Fingerprint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.hex(&mut [0; 64]))
    }
}

impl Debug for Fingerprint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::setting("a fingerprint", "64 hexadecimal digits", text);
        let digits: &[u8; 64] = text.as_bytes().try_into().map_err(|_| bad())?;
        let digit = |digit: u8| (digit as char).to_digit(16).map(|value| value as u8).ok_or_else(bad);
        let mut bytes = [0; 32];
        for (byte, two) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(two[0])? << 4 | digit(two[1])?;
        }
        Ok(Fingerprint(bytes))
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.hex(&mut [0; 64]))
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Hashes numbers and texts. Each list is preceded by its length, so that different contents have different encodings.
#[derive(Debug)]
pub(crate) struct Hasher {
    sha: Sha256,
    /// Collects small pieces, because hashing them one by one would be slow.
    pending: Vec<u8>,
}

impl Hasher {
    /// `kind` separates the fingerprints of different kinds of content.
    pub(crate) fn new(kind: &str) -> Self {
        let mut hasher = Hasher { sha: Sha256::new(), pending: Vec::with_capacity(1 << 16) };
        hasher.text(kind);
        hasher
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= 1 << 15 {
            self.sha.update(&self.pending);
            self.pending.clear();
        }
    }

    pub(crate) fn count(&mut self, n: usize) {
        self.bytes(&(n as u64).to_le_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.count(text.len());
        self.bytes(text.as_bytes());
    }

    pub(crate) fn integer(&mut self, n: u32) {
        self.bytes(&n.to_le_bytes());
    }

    pub(crate) fn single(&mut self, x: f32) {
        // Positive and negative zero get the same bytes.
        self.bytes(&(x + 0.0).to_le_bytes());
    }

    /// Adds a row of contexts. Zeros are left out, so that dense and sparse rows have the same hash.
    pub(crate) fn row(&mut self, row: Row<'_>) {
        let mut pair = [0; 8];
        row.for_each(|f, v| {
            if v != 0.0 {
                pair[..4].copy_from_slice(&(f as u32).to_le_bytes());
                pair[4..].copy_from_slice(&(v as f32).to_le_bytes());
                self.pending.extend_from_slice(&pair);
            }
        });
        self.integer(u32::MAX);
    }

    pub(crate) fn double(&mut self, x: f64) {
        self.bytes(&(x + 0.0).to_le_bytes());
    }

    pub(crate) fn doubles(&mut self, values: &[f64]) {
        self.count(values.len());
        values.iter().for_each(|&x| self.double(x));
    }

    pub(crate) fn finish(mut self) -> Fingerprint {
        self.sha.update(&self.pending);
        Fingerprint(self.sha.finalize().into())
    }
}

/// The root of a binary tree over leaves in order; `None` if there are no leaves. The number of leaves in the left
/// subtree is the largest power of two that leaves at least one for the right subtree. So subtrees that start at such
/// an index can be computed separately.
pub(crate) fn tree(leaves: &[Fingerprint]) -> Option<Fingerprint> {
    match leaves {
        [] => None,
        [leaf] => Some(*leaf),
        _ => {
            let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
            let mut hasher = Hasher::new("node");
            [left, right].into_iter().filter_map(tree).for_each(|part| hasher.bytes(&part.0));
            Some(hasher.finish())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contexts::Contexts;
    use crate::features::FeatureMap;
    use crate::logs::{Eligible, Logs};
    use crate::policy::{Basis, LinearGaussian, Posterior, Scale};
    use proptest::prelude::*;
    use std::sync::Arc;

    /// Two records over two features and three actions: context, action, propensity and cost.
    type Sample = ([f32; 4], [u32; 2], [f64; 2], [f64; 2]);

    fn logs((x, a, q, c): Sample) -> Logs {
        Logs::new(3, Contexts::dense(x.to_vec(), 2).unwrap(), a.to_vec(), q.to_vec(), c.to_vec()).unwrap()
    }

    fn columns() -> impl Strategy<Value = Sample> {
        let x = prop_oneof![Just(0.0f32), -1.0f32..1.0];
        (prop::array::uniform4(x), prop::array::uniform2(0u32..3), [0.1..1.0, 0.1..1.0], [-1.0..=0.0, -1.0..=0.0])
    }

    fn gaussian(mean: Vec<f64>, scale: Scale) -> LinearGaussian {
        LinearGaussian::new(FeatureMap::identity(2), Posterior::new(2, mean, scale).unwrap()).unwrap()
    }

    proptest! {
        #[test]
        fn logs_have_the_same_fingerprint_exactly_if_they_say_the_same(
            a in columns(), b in columns(), shared in prop::array::uniform10(any::<bool>()),
        ) {
            // Only a few numbers differ.
            let mut b = b;
            for (i, shared) in shared.into_iter().enumerate() {
                match i {
                    _ if !shared => {}
                    0..4 => b.0[i] = a.0[i],
                    4..6 => b.1[i - 4] = a.1[i - 4],
                    6..8 => b.2[i - 6] = a.2[i - 6],
                    _ => b.3[i - 8] = a.3[i - 8],
                }
            }
            prop_assert_eq!(a == b, logs(a).fingerprint() == logs(b).fingerprint());
            let sparse = Logs::new(3, logs(a).contexts().to_sparse(), a.1.to_vec(), a.2.to_vec(), a.3.to_vec()).unwrap();
            prop_assert_eq!(sparse.fingerprint(), logs(a).fingerprint());
        }

        #[test]
        fn any_changed_number_changes_the_fingerprint_of_a_policy(
            mean in prop::array::uniform4(-1.0..1.0), scales in prop::array::uniform2(0.1..2.0), i in 0usize..6,
        ) {
            let print = |mean: [f64; 4], s: [f64; 2]| gaussian(mean.to_vec(), Scale::PerFeature(s.to_vec())).fingerprint();
            let (mut other, mut others) = (mean, scales);
            let number: &mut f64 = if i < 4 { &mut other[i] } else { &mut others[i - 4] };
            *number = number.next_up();
            prop_assert_ne!(print(mean, scales), print(other, others));
        }
    }

    #[test]
    fn all_that_makes_a_policy_is_in_its_fingerprint() {
        let plain = || gaussian(vec![0.0, 1.0, 0.5, 2.0], Scale::Shared(0.5));
        let q = || plain().posterior().clone();
        let over = |features| LinearGaussian::new(features, q()).unwrap();
        let swapped = Arc::new(Basis::new(vec![0.0, 1.0, 1.0, 0.0], 2).unwrap());
        let as_it_is = Arc::new(Basis::new(vec![1.0, 0.0, 0.0, 1.0], 2).unwrap());
        let fourier = |count, bandwidth, seed| over(FeatureMap::fourier(2, count, bandwidth, seed).unwrap());
        let kernel = |landmarks: [f32; 2], bandwidth, projection: [f64; 4]| {
            let landmarks = Contexts::dense(landmarks.to_vec(), 1).unwrap();
            over(FeatureMap::kernel_from_parts(landmarks, bandwidth, projection.to_vec()).unwrap())
        };
        let trees = |features: [u32; 3], threshold| {
            over(FeatureMap::trees_from_parts(2, features.to_vec(), vec![threshold, 0.0, 0.0]).unwrap())
        };
        let all = [
            plain(),
            plain().with_exploration(0.1).unwrap(),
            gaussian(vec![0.0, 1.0, 0.5, 2.0], Scale::PerFeature(vec![0.5, 0.5])),
            over(FeatureMap::identity(1).with_intercept()),
            over(FeatureMap::fourier(2, 1, 1.0, 3).unwrap().with_intercept()),
            fourier(2, 1.0, 3),
            fourier(2, 2.0, 3),
            fourier(2, 1.0, 4),
            kernel([0.5, 1.0], 1.0, [1.0, 2.0, 3.0, 4.0]),
            kernel([0.5, 2.0], 1.0, [1.0, 2.0, 3.0, 4.0]),
            kernel([0.5, 1.0], 1.5, [1.0, 2.0, 3.0, 4.0]),
            kernel([0.5, 1.0], 1.0, [1.0, 2.0, 3.0, 5.0]),
            trees([0, u32::MAX, u32::MAX], 0.5),
            trees([1, u32::MAX, u32::MAX], 0.5),
            trees([0, u32::MAX, u32::MAX], 1.5),
            plain().with_posterior(q().with_basis(swapped).unwrap()),
            plain().with_posterior(q().with_basis(as_it_is).unwrap()),
        ];
        let mut prints: Vec<Fingerprint> = all.iter().map(LinearGaussian::fingerprint).collect();
        prints.sort();
        prints.dedup();
        assert_eq!(prints.len(), all.len());
        assert_eq!(gaussian(vec![-0.0, 1.0, 0.5, 2.0], Scale::Shared(0.5)).fingerprint(), plain().fingerprint());
    }

    #[test]
    fn policies_keep_the_fingerprints_that_they_have_in_saved_runs() {
        // Independent values from Python's hashlib, by docs/formats.md.
        let posterior = || Posterior::new(2, vec![0.0, 1.0, 0.5, 2.0], Scale::Shared(0.5)).unwrap();
        let print = |features| LinearGaussian::new(features, posterior()).unwrap().fingerprint().to_string();
        assert_eq!(print(FeatureMap::identity(2)), "3a1db83fb4148fc1a94a669654eb39ac8e4457fc300b2ce77585231381d0c362");
        assert_eq!(
            print(FeatureMap::fourier(2, 1, 1.0, 3).unwrap().with_intercept()),
            "2eb0c32aef7b1089e9ff6067eded423e33fdd9ce084acfcf65311f55408f89d7"
        );
        let landmarks = Contexts::dense(vec![0.5, 1.0], 1).unwrap();
        let kernel = FeatureMap::kernel_from_parts(landmarks, 1.0, vec![1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!(print(kernel), "49ab6be9d981b711fe9bf1cf10f4e0f46107772c0af447c1cc2f6853a8de8368");
        let trees = FeatureMap::trees_from_parts(2, vec![0, u32::MAX, u32::MAX], vec![0.5, 0.0, 0.0]).unwrap();
        assert_eq!(print(trees), "e0020731957a9ca1fb9a92e3652badde7dc86650c65706629d08e903feff21a3");
    }

    #[test]
    fn all_that_is_logged_is_in_the_fingerprint() {
        let plain = || logs(([0.0, 1.0, 1.0, 0.0], [0, 1], [0.5, 0.5], [0.0, -1.0]));
        let of = |sets: [&[u32]; 2]| plain().with_eligible(Eligible::new(sets).unwrap()).unwrap().fingerprint();
        let all = [&[0, 1, 2][..], &[0, 1, 2]];
        let prints = [plain().fingerprint(), of(all), of([&[0, 1], &[1, 2]]), of([&[0], &[1]])];
        assert!((0..4).all(|i| (0..i).all(|j| prints[i] != prints[j])));
        // The fingerprint is requested before the sets were added, and after.
        let asked = plain();
        asked.fingerprint();
        assert_eq!(asked.with_eligible(Eligible::new(all).unwrap()).unwrap().fingerprint(), of(all));
        assert_eq!(plain().with_policy_version("7").fingerprint(), plain().fingerprint());
        let zeros = logs(([-0.0, 1.0, 1.0, -0.0], [0, 1], [0.5, 0.5], [-0.0, -1.0]));
        assert_eq!(zeros.fingerprint(), plain().fingerprint());
        // The same entries, in other rows.
        let moved = logs(([0.0, 1.0, 0.0, 1.0], [0, 1], [0.5, 0.5], [0.0, -1.0]));
        assert_ne!(moved.fingerprint(), plain().fingerprint());
        assert_eq!(plain().slice(0..2).fingerprint(), plain().fingerprint());
        assert_ne!(plain().slice(0..1).fingerprint(), plain().fingerprint());
    }

    #[test]
    fn a_fingerprint_is_read_as_it_is_written() {
        let mut hasher = Hasher::new("test");
        hasher.double(-0.0);
        let print = hasher.finish();
        assert_eq!(print.to_string().parse::<Fingerprint>().unwrap(), print);
        let mut other = Hasher::new("test");
        other.double(0.0);
        assert_eq!(other.finish(), print);
        assert!(print.to_string().to_uppercase().parse::<Fingerprint>().unwrap() == print);
        for wrong in [format!("{print}0"), print.to_string().replace(char::is_numeric, "g"), "\u{e9}".repeat(32)] {
            assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
        }
        let text = "zz".parse::<Fingerprint>().unwrap_err().to_string();
        assert_eq!(text, "a fingerprint should be 64 hexadecimal digits, but is zz");
    }

    #[test]
    fn it_is_sha_256() {
        // The eight bytes of a length of 0; an independent value (sha256sum).
        assert_eq!(
            Hasher::new("").finish().to_string(),
            "af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc"
        );
    }
}
