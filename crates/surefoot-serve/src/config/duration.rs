//! Durations as people write them.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration in milliseconds. It is written as a whole number with a unit: `500ms`, `90s`, `15m`, `1h`, `7d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Milliseconds(pub i64);

/// The longest duration: some 100 years.
const LONGEST: i64 = 100 * 366 * 86_400_000;
const UNITS: [(&str, i64); 5] = [("ms", 1), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];

impl FromStr for Milliseconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad =
            || format!("a duration should be a whole number with ms, s, m, h or d, as in 90s or 7d, but is {text:?}");
        let (number, unit) =
            UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit))).ok_or_else(bad)?;
        let number: i64 = number.trim().parse().map_err(|_| bad())?;
        match number.checked_mul(unit) {
            Some(time @ 0..=LONGEST) => Ok(Milliseconds(time)),
            _ => Err(format!("a duration should be from 0 to 36600d, but is {text:?}")),
        }
    }
}

impl Display for Milliseconds {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let whole = |unit: i64| self.0 % unit == 0 && self.0 != 0;
        let (name, unit) = match self.0 {
            time if time % 1000 != 0 => ("ms", 1),
            _ if whole(86_400_000) => ("d", 86_400_000),
            _ if whole(3_600_000) => ("h", 3_600_000),
            _ if whole(60_000) => ("m", 60_000),
            _ => ("s", 1000),
        };
        write!(f, "{}{name}", self.0 / unit)
    }
}

impl Serialize for Milliseconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Milliseconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
