//! The usual request for a decision, an event and a context, parsed in one pass over its text. Most requests are of this
//! kind, and nothing else is done for them as often.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use surefoot_data::{ContextReader, EncodedRows};

use super::{check_id, new_id};
use crate::config::{Mode, Rules};
use crate::engine::DecideAsk;

/// Parses the usual requests of a loop.
#[derive(Debug)]
pub(crate) struct Usual(Option<ContextReader>);

impl Usual {
    pub(crate) fn new(rules: &Rules) -> Self {
        // An apprentice needs a baseline, and a loop over candidates these.
        let usual = rules.mode != Mode::Apprentice && rules.candidates.is_none();
        Usual(usual.then(|| ContextReader::new(&rules.encoding)).flatten())
    }

    /// What is asked, if that is a decision on a context with at most so many fields, and nothing else. `None` for every
    /// other text, also for a wrong one: a [`DecisionRequest`](super::DecisionRequest) then says what is asked, or wrong.
    pub(crate) fn parse(&self, text: &[u8], most: usize) -> Option<DecideAsk> {
        let reader = self.0.as_ref()?;
        let text = std::str::from_utf8(text.trim_ascii()).ok()?;
        let mut json = serde_json::Deserializer::from_str(text);
        let mut rows = reader.rows();
        let event_id = Request { reader, most, rows: &mut rows }.deserialize(&mut json).ok()?;
        json.end().ok()?;
        let event_id = match event_id {
            Some(id) => check_id("event_id", &id).is_ok().then(|| id.into_owned())?,
            None => new_id().ok()?,
        };
        Some(DecideAsk {
            event_id,
            request: text.to_owned(),
            context: rows.contexts().ok()?,
            eligible: None,
            candidates: None,
            baseline: None,
            defer: false,
        })
    }
}

/// A request: its context goes into `rows`, and the id of its event is returned.
struct Request<'a> {
    reader: &'a ContextReader,
    most: usize,
    rows: &'a mut EncodedRows,
}

impl<'de> DeserializeSeed<'de> for Request<'_> {
    type Value = Option<Cow<'de, str>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Request<'_> {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request for a decision")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut event_id, mut named) = (None, false);
        while let Some(Text(key)) = map.next_key::<Text<'de>>()? {
            match &*key {
                "event_id" if !std::mem::replace(&mut named, true) => {
                    event_id = map.next_value::<Option<Text<'de>>>()?;
                }
                "context" if self.rows.is_empty() => map.next_value_seed(self.reader.context(self.most, self.rows))?,
                _ => return Err(A::Error::custom("not the usual request")),
            }
        }
        match self.rows.is_empty() {
            true => Err(A::Error::custom("no context")),
            false => Ok(event_id.map(|Text(text)| text)),
        }
    }
}

/// A text, borrowed where it can be.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServerConfig;
    use crate::request::DecisionRequest;

    const LOOP: &str = "[[loop]]\nname = \"shop\"\nactions = 2\nfeatures = [{ name = \"x\", kind = \"number\" }, \
                        { name = \"device\", kind = \"category\", values = [\"phone\"] }]\n\
                        reward = { window = \"1h\" }\nround = { records = 40 }\n";

    fn rules(more: &str) -> Rules {
        ServerConfig::parse("shop.toml", &format!("{LOOP}{more}")).unwrap().loops[0].resolve("shop.toml").unwrap().0
    }

    #[test]
    fn the_usual_request_asks_what_it_asks_in_the_ordinary_way() {
        let rules = rules("");
        for text in [
            r#"{"event_id":"a","context":{"x":1.5,"device":"phone"}}"#,
            "\t{ \"context\" : {\"device\":\"\\u0070hone\", \"more\":[1]} , \"event_id\":\"\\u00e9\\n\"} \r",
            r#"{"event_id":"b","context":{}}"#,
        ] {
            let request: DecisionRequest = serde_json::from_str(text).unwrap();
            let Ok(asked) = request.clone().check(&rules) else {
                assert!(Usual::new(&rules).parse(text.as_bytes(), 9).is_none(), "{text}");
                continue;
            };
            let usual = Usual::new(&rules).parse(text.as_bytes(), 9).unwrap();
            assert_eq!((&usual.event_id, &usual.eligible), (&asked.event_id, &asked.eligible));
            assert_eq!(usual.context.to_dense().row(0).values(), asked.context.to_dense().row(0).values());
            assert_eq!(usual.request, text.trim());
            assert!(DecisionRequest::same(&usual.request, &asked.request), "{text}");
        }
        let drawn = Usual::new(&rules).parse(br#"{"context":{},"event_id":null}"#, 9).unwrap();
        assert_eq!(drawn.event_id.len(), 32);
    }

    #[test]
    fn everything_else_is_left_to_the_ordinary_way() {
        let rules_of = rules("");
        for text in [
            r#"{"event_id":"a"}"#,
            r#"{"event_id":"a","context":{},"eligible":[1]}"#,
            r#"{"event_id":"a","context":{},"context":{}}"#,
            r#"{"event_id":"a","event_id":"b","context":{}}"#,
            r#"{"event_id":"","context":{}}"#,
            r#"{"event_id":"erased:1","context":{}}"#,
            r#"{"event_id":1,"context":{}}"#,
            r#"{"context":{"x":1,"x":2}}"#,
            r#"{"context":{"x":"1"}}"#,
            r#"{"context":{"a":1,"b":2,"c":3}}"#,
            r#"{"context":{}} {}"#,
            r#"{"context":{}"#,
            "[]",
            "\u{0}",
        ] {
            assert!(Usual::new(&rules_of).parse(text.as_bytes(), 2).is_none(), "{text}");
        }
        assert!(Usual::new(&rules_of).parse(b"{\"context\":{\"x\":1,\"a\":\"\xff\"}}", 2).is_none());
        let apprentice = rules("mode = \"apprentice\"\n");
        assert!(Usual::new(&apprentice).parse(br#"{"context":{}}"#, 2).is_none());
    }

    #[test]
    fn requests_are_the_same_if_they_say_the_same() {
        let same = [
            r#"{"event_id":"a","context":{"x":1,"y":"\u0061"}}"#,
            r#"{"context":{"x":1,"y":"a"}}"#,
            "{ \"context\": {\"y\":\"a\",\"x\":1} }",
            r#"{"context":{"x":2,"y":"a","x":1}}"#,
        ];
        let other = [
            r#"{"context":{"x":1.0,"y":"a"}}"#,
            r#"{"context":{"x":1}}"#,
            r#"{"context":{"x":1,"y":"a"},"eligible":[0]}"#,
            r#"{"context":{"x":-0.0}}"#,
            r#"{"context":{"x":0.0}}"#,
        ];
        for (i, a) in same.iter().chain(&other).enumerate() {
            for (j, b) in same.iter().chain(&other).enumerate() {
                assert_eq!(DecisionRequest::same(a, b), i == j || i.max(j) < same.len(), "{a} and {b}");
            }
        }
    }
}
