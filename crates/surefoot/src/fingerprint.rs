//! FINGERPRINT: the name of a policy or of a round of logs that its content alone decides.

use std::fmt::{self, Debug, Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// SHA-256 of the content of a policy or of logs, in an encoding that does not depend on how they are stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

impl Display for Fingerprint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
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
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let mut bytes = [0; 32];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).map_err(|_| bad())?;
        }
        Ok(Fingerprint(bytes))
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Takes in numbers and texts; each list is preceded by its length, so that no two contents look alike.
#[derive(Debug)]
pub(crate) struct Hasher {
    sha: Sha256,
    /// Small pieces are gathered: hashing them one by one would be slow.
    pending: Vec<u8>,
}

impl Hasher {
    /// `kind` keeps the fingerprints of different things apart.
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
        // Zero has two signs, and one meaning.
        self.bytes(&(x + 0.0).to_le_bytes());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_as_it_is_written() {
        let mut hasher = Hasher::new("test");
        hasher.double(-0.0);
        let print = hasher.finish();
        assert_eq!(print.to_string().parse::<Fingerprint>().unwrap(), print);
        let mut other = Hasher::new("test");
        other.double(0.0);
        assert_eq!(other.finish(), print);
        let text = "zz".parse::<Fingerprint>().unwrap_err().to_string();
        assert_eq!(text, "a fingerprint should be 64 hexadecimal digits, but is zz");
    }

    #[test]
    fn it_is_sha_256() {
        // Of the eight bytes of a length of 0: an independent value (sha256sum).
        assert_eq!(
            Hasher::new("").finish().to_string(),
            "af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc"
        );
    }
}
