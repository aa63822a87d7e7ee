//! OTLP: spans to a collector, over HTTP with JSON.
//!
//! A thread of its own sends what has come every two seconds. Requests never wait for it: if the collector is slower than
//! the spans, spans are dropped.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use axum::http::Method;
use serde_json::{Value, json};

use super::Span;
use crate::client::{Client, block_on};
use crate::error::{Error, Result};

/// The largest number of spans that wait, and of those in one message.
const MOST: usize = 4096;
const TOGETHER: usize = 512;
/// How long spans are collected before they are sent.
const EVERY: Duration = Duration::from_secs(2);

/// Where traces go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpConfig {
    /// The address to which traces are posted.
    url: String,
    /// Attributes of the service.
    resource: Vec<(String, String)>,
    /// Headers for the collector.
    headers: Vec<(String, String)>,
    /// The file of the certificates that are trusted, if the address is https.
    trusted: Option<PathBuf>,
}

impl OtlpConfig {
    /// The collector that the file of loops names, or the standard variables of the environment: `OTEL_SDK_DISABLED`,
    /// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`,
    /// `OTEL_EXPORTER_OTLP_CERTIFICATE`, `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`. `None` without any.
    pub fn find(endpoint: Option<&str>, variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let below = |base: &str| format!("{}/v1/traces", base.trim_end_matches('/'));
        let url = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
            .or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT").map(|base| below(&base)))
            .or_else(|| endpoint.map(below));
        let Some(url) = url else { return Ok(None) };
        let mut resource = listed("OTEL_RESOURCE_ATTRIBUTES", variable("OTEL_RESOURCE_ATTRIBUTES").as_deref())?;
        if let Some(name) = variable("OTEL_SERVICE_NAME") {
            resource.retain(|(key, _)| key != "service.name");
            resource.push(("service.name".into(), name));
        }
        if !resource.iter().any(|(key, _)| key == "service.name") {
            resource.push(("service.name".into(), "surefoot".into()));
        }
        let headers = listed("OTEL_EXPORTER_OTLP_HEADERS", variable("OTEL_EXPORTER_OTLP_HEADERS").as_deref())?;
        let trusted = variable("OTEL_EXPORTER_OTLP_CERTIFICATE").map(PathBuf::from);
        let config = OtlpConfig { url, resource, headers, trusted };
        config.client()?;
        Ok(Some(config))
    }

    fn client(&self) -> Result<Client> {
        let client = Client::new(&self.url, self.trusted.as_deref())?;
        Ok(self.headers.iter().fold(client, |client, (name, value)| client.with_header(name, value)))
    }

    fn message(&self, spans: &[Span]) -> Value {
        let attribute = |(key, value): &(String, String)| json!({ "key": key, "value": { "stringValue": value } });
        let resource: Vec<Value> = self.resource.iter().map(attribute).collect();
        let scope = json!({ "name": "surefoot", "version": env!("CARGO_PKG_VERSION") });
        let spans: Vec<Value> = spans.iter().map(Span::json).collect();
        json!({ "resourceSpans": [{ "resource": { "attributes": resource }, "scopeSpans": [{ "scope": scope, "spans": spans }] }] })
    }
}

/// Pairs such as `a=1,b=2`.
fn listed(name: &str, text: Option<&str>) -> Result<Vec<(String, String)>> {
    let wrong = |found: &dyn Display| Error::setting("the environment", name, "pairs such as a=1,b=2", found);
    let pair = |pair: &str| match pair.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err(wrong(&pair)),
    };
    text.into_iter().flat_map(|text| text.split(',')).map(pair).collect()
}

/// Where spans are put.
#[derive(Debug)]
pub(super) struct Spans(SyncSender<Span>);

impl Spans {
    pub(super) fn send(&self, span: Span) {
        // If too many wait, this one is dropped.
        let _ = self.0.try_send(span);
    }
}

/// Starts the thread that sends.
pub(super) fn start(config: OtlpConfig) -> Result<Spans> {
    let client = config.client()?;
    let (sender, spans) = sync_channel(MOST);
    let work = move || {
        // Without a runtime nothing is sent, and everything else goes on.
        let _ = block_on(forward(&config, &client, &spans));
    };
    let system = |reason| Error::System { place: "the thread of traces".into(), reason };
    std::thread::Builder::new().name("traces".into()).spawn(work).map_err(system)?;
    Ok(Spans(sender))
}

async fn forward(config: &OtlpConfig, client: &Client, spans: &Receiver<Span>) {
    while let Ok(first) = spans.recv() {
        let (mut some, until) = (vec![first], Instant::now() + EVERY);
        let mut open = true;
        while some.len() < TOGETHER && open {
            match spans.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(span) => some.push(span),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => open = false,
            }
        }
        // A collector that does not answer loses these spans; the next ones are tried again.
        let _ = client.ask(Method::POST, "", Some(config.message(&some).to_string().into_bytes())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(endpoint: Option<&str>, variables: &[(&str, &str)]) -> Result<Option<OtlpConfig>> {
        let of = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        OtlpConfig::find(endpoint, of)
    }

    #[test]
    fn the_standard_variables_are_read() {
        assert_eq!(found(None, &[]).unwrap(), None);
        assert_eq!(found(Some("http://c:4318"), &[("OTEL_SDK_DISABLED", "true")]).unwrap(), None);
        assert_eq!(found(Some("http://c:4318/"), &[]).unwrap().unwrap().url, "http://c:4318/v1/traces");
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://d:1");
        assert_eq!(found(Some("http://c:4318"), &[base]).unwrap().unwrap().url, "http://d:1/v1/traces");
        let config = found(
            None,
            &[
                base,
                ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://e:2/here"),
                ("OTEL_EXPORTER_OTLP_HEADERS", "x-key = 1"),
                ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,zone=a"),
                ("OTEL_SERVICE_NAME", "shop"),
            ],
        );
        let config = config.unwrap().unwrap();
        assert_eq!(config.url, "http://e:2/here");
        assert_eq!(config.headers, [("x-key".into(), "1".into())]);
        assert_eq!(config.resource, [("zone".into(), "a".into()), ("service.name".into(), "shop".into())]);
    }

    #[test]
    fn a_wrong_setting_is_named() {
        let said = |endpoint, variables: &[_]| found(endpoint, variables).unwrap_err().to_string();
        let text = said(Some("http://c"), &[("OTEL_EXPORTER_OTLP_HEADERS", "nothing")]);
        let expected = "the environment: OTEL_EXPORTER_OTLP_HEADERS should be pairs such as a=1,b=2, but is nothing";
        assert_eq!(text, expected);
        assert!(said(Some("ftp://c"), &[]).contains("URL should be an address such as http://127.0.0.1:8080"));
        assert!(said(Some("https://c"), &[]).contains("ca should be given"));
    }
}
