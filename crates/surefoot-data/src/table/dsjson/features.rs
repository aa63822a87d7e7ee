//! The features of contexts and candidates.

use std::borrow::Cow;
use std::collections::HashSet;

use super::super::candidates::Candidate;
use super::super::json::Json;
use super::super::lines::{LONGEST, long_names, shown};
use super::Record;
use crate::error::Result;

impl<'a> Record<'a> {
    /// The features of the context.
    pub(super) fn features(&self) -> Result<Vec<(String, f32)>> {
        let context = match self.object.get("c") {
            Some(Json::Object(context)) => context,
            other => return Err(self.field("c", "an object", other.unwrap_or(&Json::Null))),
        };
        self.features_of("c", context, &mut { LONGEST })
    }

    /// The candidates in `c._multi`, unless none has a feature or an identity.
    pub(super) fn candidates(&self) -> Result<Option<Vec<Candidate>>> {
        self.candidates_in("c._multi", self.object.get("c").and_then(|context| context.get("_multi")))
    }

    /// The candidates in an array, which is at this place, unless none has a feature or an identity.
    pub(super) fn candidates_in(&self, at: &str, all: Option<&Json<'a>>) -> Result<Option<Vec<Candidate>>> {
        let Some(Json::Array(all)) = all else { return Ok(None) };
        let mut room = LONGEST;
        let candidate = |(i, item): (usize, &Json<'a>)| {
            let at = format!("{at}[{i}]");
            let fields = match item {
                Json::Object(fields) => fields,
                other => return Err(self.field(&at, "an object with the features of an action", other)),
            };
            Ok(Candidate { id: self.identity(&at, item)?, features: self.features_of(&at, fields, &mut room)? })
        };
        let candidates: Vec<Candidate> = all.iter().enumerate().map(candidate).collect::<Result<_>>()?;
        Ok(Some(candidates).filter(|candidates| !candidates.iter().all(Candidate::is_bare)))
    }

    /// `_tag` or `_id` of a candidate.
    fn identity(&self, at: &str, candidate: &Json<'a>) -> Result<Option<String>> {
        for name in ["_tag", "_id"] {
            match candidate.get(name) {
                None | Some(Json::Null) => {}
                Some(Json::Text(text)) => return Ok(Some(text.clone().into_owned())),
                Some(Json::Number(digits)) => return Ok(Some((*digits).to_owned())),
                Some(other) => return Err(self.field(&format!("{at}.{name}"), "text or a number", other)),
            }
        }
        Ok(None)
    }

    pub(super) fn features_of(
        &self,
        at: &str,
        fields: &[(Cow<'a, str>, Json<'a>)],
        room: &mut usize,
    ) -> Result<Vec<(String, f32)>> {
        let mut features = Features { record: self, at, room, found: Vec::new() };
        for (name, value) in fields.iter().filter(|(name, _)| !name.starts_with('_')) {
            features.add(name, value)?;
        }
        let mut seen = HashSet::with_capacity(features.found.len());
        match features.found.iter().find(|(name, _)| !seen.insert(name.as_str())) {
            Some((name, _)) => {
                Err(self.malformed(format!("{at} should have every feature once, but has {} twice", shown(name))))
            }
            None => Ok(features.found),
        }
    }
}

/// The features of an object.
struct Features<'r, 'a> {
    record: &'r Record<'a>,
    /// Where the object is, for errors.
    at: &'r str,
    /// The number of bytes that names may still take: a long name of an object is repeated for each of its fields.
    room: &'r mut usize,
    found: Vec<(String, f32)>,
}

impl Features<'_, '_> {
    fn push(&mut self, name: String, value: f32) -> Result<()> {
        self.spend(&name)?;
        self.found.push((name, value));
        Ok(())
    }

    fn add(&mut self, name: &str, value: &Json<'_>) -> Result<()> {
        match value {
            Json::Null | Json::Bool(false) => Ok(()),
            Json::Bool(true) => self.push(name.to_owned(), 1.0),
            Json::Text(text) => self.push(format!("{name}={text}"), 1.0),
            // Parsed directly as 32 bits, since rounding twice could give another number.
            Json::Number(digits) => match digits.parse::<f32>().ok().filter(|value| value.is_finite()) {
                Some(0.0) => Ok(()),
                Some(number) => self.push(name.to_owned(), number),
                None => Err(self.record.field(
                    &format!("{}.{name}", self.at),
                    "a number within the range of 32 bits",
                    value,
                )),
            },
            Json::Object(fields) => {
                for (inner, value) in fields.iter().filter(|(inner, _)| !inner.starts_with('_')) {
                    self.inner(&format!("{name}.{inner}"), value)?;
                }
                Ok(())
            }
            Json::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    match item {
                        Json::Text(_) | Json::Object(_) => self.add(name, item)?,
                        _ => self.inner(&format!("{name}[{i}]"), item)?,
                    }
                }
                Ok(())
            }
        }
    }

    /// Descends one level.
    fn inner(&mut self, name: &str, value: &Json<'_>) -> Result<()> {
        self.spend(name)?;
        self.add(name, value)
    }

    fn spend(&mut self, name: &str) -> Result<()> {
        let Record { place, line, .. } = self.record;
        *self.room = self.room.checked_sub(name.len()).ok_or_else(|| long_names(place, *line))?;
        Ok(())
    }
}
