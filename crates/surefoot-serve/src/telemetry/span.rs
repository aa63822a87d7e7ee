//! Spans, as OTLP writes them in JSON.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::{drawn, hex, nanoseconds};

/// Who did the work of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The server itself.
    Internal = 1,
    /// The server, for a caller.
    Server = 2,
}

/// The span of a caller, as its header `traceparent` says it (W3C Trace Context).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parent {
    pub(crate) trace: String,
    span: String,
    /// Whether the caller records its trace.
    pub(crate) sampled: bool,
}

impl Parent {
    /// Parses the header; `None` if it is none that the standard allows.
    pub(crate) fn parse(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let fits = |text: &str, length: usize| {
            text.len() == length && text.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c))
        };
        let zero = |text: &str| text.bytes().all(|c| c == b'0');
        let valid = fits(version, 2) && version != "ff" && (version != "00" || parts.next().is_none());
        if !valid || !fits(trace, 32) || zero(trace) || !fits(span, 16) || zero(span) || !fits(flags, 2) {
            return None;
        }
        let sampled = u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1);
        Some(Parent { trace: trace.into(), span: span.into(), sampled })
    }
}

/// Work that has ended.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    name: String,
    kind: Kind,
    trace: String,
    span: String,
    parent: Option<String>,
    began: SystemTime,
    ended: SystemTime,
    attributes: Vec<(&'static str, Value)>,
    failed: bool,
}

impl Span {
    /// A span that ends now. Without a parent it begins a trace.
    pub(crate) fn ended(
        name: impl Into<String>,
        kind: Kind,
        parent: Option<Parent>,
        began: SystemTime,
        attributes: Vec<(&'static str, Value)>,
        failed: bool,
    ) -> Self {
        // Without random numbers there are no ids, and a collector drops the span.
        let id = || drawn::<8>().map(|bytes| hex(&bytes)).unwrap_or_default();
        let (trace, parent) = match parent {
            Some(parent) => (parent.trace, Some(parent.span)),
            None => (format!("{}{}", id(), id()), None),
        };
        Span { name: name.into(), kind, trace, span: id(), parent, began, ended: SystemTime::now(), attributes, failed }
    }

    /// The id of its trace.
    pub(crate) fn trace(&self) -> &str {
        &self.trace
    }

    pub(super) fn json(&self) -> Value {
        let attribute = |(key, value): &(&str, Value)| {
            let value = match value {
                Value::Number(number) => json!({ "intValue": number.to_string() }),
                value => json!({ "stringValue": value }),
            };
            json!({ "key": key, "value": value })
        };
        let mut span = json!({
            "traceId": self.trace,
            "spanId": self.span,
            "name": self.name,
            "kind": self.kind as u8,
            "startTimeUnixNano": nanoseconds(self.began).to_string(),
            "endTimeUnixNano": nanoseconds(self.ended).to_string(),
            "attributes": self.attributes.iter().map(attribute).collect::<Vec<_>>(),
            "status": if self.failed { json!({ "code": 2 }) } else { json!({}) },
        });
        if let Some(parent) = &self.parent {
            span["parentSpanId"] = json!(parent);
        }
        span
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_what_the_standard_allows() {
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        let parent = Parent::parse(&format!("00-{trace}-{span}-01")).unwrap();
        assert_eq!((parent.trace.as_str(), parent.span.as_str(), parent.sampled), (trace, span, true));
        assert!(!Parent::parse(&format!("00-{trace}-{span}-00")).unwrap().sampled);
        // Later versions may have more parts.
        assert!(Parent::parse(&format!("01-{trace}-{span}-01-more")).is_some());
        for wrong in [
            String::new(),
            format!("00-{trace}-{span}"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{trace}-{span}-01-more"),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{}-{span}-01", "\u{e9}".repeat(16)),
        ] {
            assert_eq!(Parent::parse(&wrong), None, "{wrong}");
        }
    }
}
