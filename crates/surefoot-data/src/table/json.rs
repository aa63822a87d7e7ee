//! A JSON parser that keeps the digits of numbers.
//!
//! `serde_json` reads a number as `u64`, `i64` or `f64`, so an id of 20 digits changes, and of two fields with the same
//! name it keeps the last. Both would silently change a log. So numbers stay text here until their use is known, and a
//! repeated name is an error. Otherwise this parser accepts what `serde_json` accepts, which the fuzz target
//! `json_lines` checks.

use std::borrow::Cow;
use std::collections::HashSet;

use super::lines::shown;

/// The largest nesting depth of arrays and objects.
const DEEPEST: usize = 64;
/// Up to this many names, comparing all pairs is the fastest way to find a repeated one.
const FEW: usize = 8;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json<'a> {
    Null,
    Bool(bool),
    /// As written.
    Number(&'a str),
    Text(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'a> Json<'a> {
    /// Parses a value that makes up the whole text. The error says what was expected where, and what was found.
    pub(super) fn parse(text: &'a str) -> Result<Self, String> {
        Self::parse_with(text, None)
    }

    /// Like [`Json::parse`], for objects whose fields are features, which may have the same name. Names that start with
    /// `_`, and these names in the outermost object, must be there once.
    pub(super) fn parse_features(text: &'a str, once: &'a [&'a str]) -> Result<Self, String> {
        Self::parse_with(text, Some(once))
    }

    fn parse_with(text: &'a str, once: Option<&'a [&'a str]>) -> Result<Self, String> {
        let mut parser = Parser { text, next: 0, once };
        parser.space();
        let value = parser.value(0)?;
        parser.space();
        if parser.next < text.len() {
            return Err(parser.should("the end of the line"));
        }
        Ok(value)
    }

    /// The field of an object.
    pub(super) fn get(&self, name: &str) -> Option<&Json<'a>> {
        match self {
            Json::Object(fields) => fields.iter().find(|(other, _)| other == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// A description of the value, for errors.
    pub(super) fn describe(&self) -> String {
        match self {
            Json::Null => "null".into(),
            Json::Bool(value) => value.to_string(),
            Json::Number(digits) if digits.len() <= 40 => (*digits).to_owned(),
            Json::Number(digits) => format!("{}...", &digits[..40]),
            Json::Text(text) => shown(text),
            Json::Array(_) => "an array".into(),
            Json::Object(_) => "an object".into(),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    next: usize,
    /// If fields may have the same name: the names that must not, in the outermost object.
    once: Option<&'a [&'a str]>,
}

impl<'a> Parser<'a> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.next).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.byte() == Some(byte);
        self.next += usize::from(found);
        found
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.byte() {
            self.next += 1;
        }
    }

    /// An error that says what was expected here.
    fn should(&self, allowed: &str) -> String {
        let found = self.text.get(self.next..).and_then(|rest| rest.chars().next());
        let found = found.map_or("the line ends".into(), |found| format!("there is {found:?}"));
        format!("should have {allowed} at byte {}, but {found}", self.next + 1)
    }

    fn value(&mut self, depth: usize) -> Result<Json<'a>, String> {
        match self.byte() {
            Some(b'{' | b'[') if depth == DEEPEST => {
                Err(format!("should have at most {DEEPEST} levels of arrays and objects, but has more"))
            }
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            _ => Err(self.should("a JSON value")),
        }
    }

    fn word(&mut self, word: &str, value: Json<'a>) -> Result<Json<'a>, String> {
        if !self.text[self.next..].starts_with(word) {
            return Err(self.should("a JSON value"));
        }
        self.next += word.len();
        Ok(value)
    }

    fn object(&mut self, depth: usize) -> Result<Json<'a>, String> {
        self.next += 1;
        let mut fields: Vec<(Cow<'a, str>, Json<'a>)> = Vec::new();
        self.space();
        if self.take(b'}') {
            return Ok(Json::Object(fields));
        }
        loop {
            self.space();
            if self.byte() != Some(b'"') {
                return Err(self.should("a name in quotes"));
            }
            let name = self.string()?;
            self.space();
            if !self.take(b':') {
                return Err(self.should("':'"));
            }
            self.space();
            let value = self.value(depth + 1)?;
            fields.push((name, value));
            self.space();
            if self.take(b'}') {
                break;
            }
            if !self.take(b',') {
                return Err(self.should("',' or '}'"));
            }
        }
        let found = match self.once {
            None => repeated(&fields),
            Some(once) => {
                let mut seen = HashSet::new();
                let counts = |name: &&str| name.starts_with('_') || depth == 0 && once.contains(name);
                fields.iter().map(|(name, _)| name.as_ref()).filter(counts).find(|name| !seen.insert(*name))
            }
        };
        match found {
            Some(name) => Err(format!("should have every field once, but has {} twice", shown(name))),
            None => Ok(Json::Object(fields)),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json<'a>, String> {
        self.next += 1;
        let mut items = Vec::new();
        self.space();
        if self.take(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            self.space();
            items.push(self.value(depth + 1)?);
            self.space();
            if self.take(b']') {
                return Ok(Json::Array(items));
            }
            if !self.take(b',') {
                return Err(self.should("',' or ']'"));
            }
        }
    }

    fn digits(&mut self) -> Result<(), String> {
        let start = self.next;
        while let Some(b'0'..=b'9') = self.byte() {
            self.next += 1;
        }
        if self.next == start { Err(self.should("a digit")) } else { Ok(()) }
    }

    fn number(&mut self) -> Result<Json<'a>, String> {
        let start = self.next;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        Ok(Json::Number(&self.text[start..self.next]))
    }

    fn string(&mut self) -> Result<Cow<'a, str>, String> {
        self.next += 1;
        let mut start = self.next;
        let mut changed: Option<String> = None;
        loop {
            // All delimiters are ASCII, so every slice is cut between characters.
            match self.byte() {
                None => return Err(self.should("the end of a text, '\"',")),
                Some(b'"') => {
                    let last = &self.text[start..self.next];
                    self.next += 1;
                    return Ok(match changed {
                        None => Cow::Borrowed(last),
                        Some(text) => Cow::Owned(text + last),
                    });
                }
                Some(b'\\') => {
                    let text = changed.get_or_insert_default();
                    text.push_str(&self.text[start..self.next]);
                    self.next += 1;
                    let character = self.escape()?;
                    changed.get_or_insert_default().push(character);
                    start = self.next;
                }
                Some(0..0x20) => return Err(self.should("no control character, unless escaped,")),
                Some(_) => self.next += 1,
            }
        }
    }

    /// Parses what follows a backslash.
    fn escape(&mut self) -> Result<char, String> {
        let found = match self.byte() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => return Err(self.should("one of \"\\/bfnrtu after a backslash")),
        };
        self.next += 1;
        Ok(found)
    }

    /// `uXXXX`, or two of them for a character that UTF-16 writes as two units.
    fn unicode(&mut self) -> Result<char, String> {
        let first = self.unit()?;
        let mut code = first;
        if (0xd800..0xdc00).contains(&first) && self.take(b'\\') {
            if self.byte() != Some(b'u') {
                return Err(self.should("the second half of a surrogate pair"));
            }
            let second = self.unit()?;
            if !(0xdc00..0xe000).contains(&second) {
                return Err(self.should("the second half of a surrogate pair before this"));
            }
            code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        }
        char::from_u32(code).ok_or_else(|| self.should("the other half of a surrogate pair"))
    }

    fn unit(&mut self) -> Result<u32, String> {
        self.next += 1;
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.byte().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else { return Err(self.should("a hexadecimal digit")) };
            unit = 16 * unit + digit;
            self.next += 1;
        }
        Ok(unit)
    }
}

fn repeated<'f>(fields: &'f [(Cow<'_, str>, Json<'_>)]) -> Option<&'f str> {
    let mut names = fields.iter().map(|(name, _)| name.as_ref());
    if fields.len() <= FEW {
        return fields
            .iter()
            .enumerate()
            .find_map(|(i, (name, _))| fields[..i].iter().any(|(other, _)| other == name).then_some(name.as_ref()));
    }
    let mut seen = HashSet::with_capacity(fields.len());
    names.find(|name| !seen.insert(*name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_as_they_are_written() {
        let text = r#" {"a": [1, -0.5e+3, 12345678901234567890123], "é\u00e9\ud83d\ude00\n": {"": null}, "t": true} "#;
        let value = Json::parse(text).unwrap();
        let digits = ["1", "-0.5e+3", "12345678901234567890123"].map(Json::Number).to_vec();
        assert_eq!(value.get("a"), Some(&Json::Array(digits)));
        assert_eq!(value.get("éé😀\n"), Some(&Json::Object(vec![("".into(), Json::Null)])));
        assert_eq!(value.get("t"), Some(&Json::Bool(true)));
    }

    #[test]
    fn it_reads_and_refuses_what_serde_json_reads_and_refuses() {
        let texts = [
            "",
            " ",
            "1",
            "-",
            "-0",
            "01",
            "1.",
            ".5",
            "1.5",
            "1e",
            "1e+",
            "1e5",
            "1E-5",
            "+1",
            "nul",
            "null",
            "nulll",
            "true",
            "tru",
            "[]",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[1,2",
            "{}",
            "{,}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{\"a\":1}x",
            "{a:1}",
            "\"",
            "\"\\",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u00e9\"",
            "\"\\ud83d\\ude00\"",
            "\"\\ud83d\"",
            "\"\\ude00\"",
            "\"\\ud83dx\"",
            "\"\\ud83d\\n\"",
            "\"\\ud83d\\ud83d\"",
            "\"a\tb\"",
            "\"\u{7f}\"",
            "\"é\"",
            "\u{a0}1",
            "[1]\n",
            "\"a\nb\"",
            "NaN",
            "Infinity",
            "[[[[]]]]",
            "{\"a\":{\"a\":[{}]}}",
            "'a'",
            "\"\\/\\b\\f\"",
        ];
        for text in texts {
            let (ours, theirs) = (Json::parse(text), serde_json::from_str::<serde_json::Value>(text));
            assert_eq!(ours.is_ok(), theirs.is_ok(), "{text:?}: {ours:?}, {theirs:?}");
        }
    }

    #[test]
    fn a_repeated_field_is_found_among_few_and_among_many() {
        assert_eq!(
            Json::parse("{\"a\":1,\"b\":2,\"a\":1}").unwrap_err(),
            "should have every field once, but has \"a\" twice"
        );
        let many: Vec<String> = (0..1000).chain([617]).map(|i| format!("\"f{i}\":0")).collect();
        let error = Json::parse(&format!("{{{}}}", many.join(","))).unwrap_err();
        assert_eq!(error, "should have every field once, but has \"f617\" twice");
        assert!(Json::parse(&format!("{{{}}}", many[..1000].join(","))).is_ok());
    }

    #[test]
    fn depth_ends_somewhere() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(Json::parse(&deep(DEEPEST)).is_ok());
        let error = Json::parse(&deep(100_000)).unwrap_err();
        assert_eq!(error, "should have at most 64 levels of arrays and objects, but has more");
    }
}
