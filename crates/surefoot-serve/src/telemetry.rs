//! TELEMETRY: what a server tells about requests and rounds, if it is asked to: lines of JSON on the standard error, and
//! traces by OTLP.
//!
//! Neither has a context, a key, a reward, an action or the id of an event in it: a request is known by its route, its loop,
//! its status and its time.

mod otlp;
mod span;

pub use otlp::OtlpConfig;
pub(crate) use span::{Kind, Parent, Span};

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::HeaderValue;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::clock::{Clock as _, SystemClock};
use crate::error::{Error, Result};
use crate::sequencer::{Event, Loop};
use crate::time::written;

/// How a server writes what happens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogStyle {
    /// Requests are not logged.
    #[default]
    None,
    /// One JSON object per line, on the standard error.
    Json,
}

impl std::str::FromStr for LogStyle {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(LogStyle::None),
            "json" => Ok(LogStyle::Json),
            other => Err(format!("should be none or json, but is {other}")),
        }
    }
}

/// Who is told. Clones share it.
#[derive(Debug, Clone)]
pub struct Telemetry(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    style: LogStyle,
    spans: Option<otlp::Spans>,
    /// What ids of requests begin with, and the number of the next one.
    prefix: String,
    next: AtomicU64,
}

impl Telemetry {
    /// Writes lines in this style, and sends traces to the collector, if there is one.
    pub fn new(style: LogStyle, otlp: Option<OtlpConfig>) -> Result<Self> {
        let spans = otlp.map(otlp::start).transpose()?;
        let prefix = hex(&drawn::<6>()?);
        Ok(Telemetry(Arc::new(Inner { style, spans, prefix, next: AtomicU64::new(0) })))
    }

    /// A new id for a request.
    pub(crate) fn request_id(&self) -> HeaderValue {
        let id = format!("{}-{:x}", self.0.prefix, self.0.next.fetch_add(1, Ordering::Relaxed));
        HeaderValue::try_from(id).expect("hexadecimal digits and a dash")
    }

    /// Whether anybody is told.
    pub(crate) fn listens(&self) -> bool {
        self.traces() || self.0.style != LogStyle::None
    }

    /// Whether traces are sent.
    pub(crate) fn traces(&self) -> bool {
        self.0.spans.is_some()
    }

    /// Sends a span, or drops it if the collector is too slow.
    pub(crate) fn send(&self, span: Span) {
        if let Some(spans) = &self.0.spans {
            spans.send(span);
        }
    }

    /// Writes a line. `fields` is an object.
    pub(crate) fn line(&self, level: &str, message: &str, fields: Value) {
        if self.0.style == LogStyle::None {
            return;
        }
        let mut line = json!({ "time": written(SystemClock.now()), "level": level, "message": message });
        if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
            line.extend(fields.into_iter().filter(|(_, value)| !value.is_null()));
        }
        // One write, so that lines of several threads do not mix. If nobody reads them, there is nobody to tell.
        let _ = std::io::stderr().lock().write_all(format!("{line}\n").as_bytes());
    }

    /// Tells what happens in a loop, until it stops.
    pub(crate) async fn follow(self, lp: Arc<Loop>) {
        use tokio::sync::broadcast::error::RecvError;
        let (mut events, name) = (lp.events(), lp.name().to_owned());
        drop(lp);
        let mut began = None;
        loop {
            let event = match events.recv().await {
                Ok(event) => event,
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            };
            match &event {
                Event::LearningStarted { round } => began = Some((*round, SystemTime::now())),
                Event::RoundLearned { .. } | Event::LearningFailed { .. } => {
                    if let (true, Some((round, began))) = (self.traces(), began.take()) {
                        let failed = matches!(event, Event::LearningFailed { .. });
                        let attributes = vec![("surefoot.loop", json!(name)), ("surefoot.round", json!(round))];
                        self.send(Span::ended("learn", Kind::Internal, None, began, attributes, failed));
                    }
                }
                _ => {}
            }
            let level = if matches!(event, Event::LearningFailed { .. }) { "error" } else { "info" };
            let mut fields = serde_json::to_value(&event).unwrap_or_default();
            let message = fields["event"].as_str().unwrap_or("event").to_owned();
            if let Value::Object(fields) = &mut fields {
                fields.remove("event");
                fields.insert("loop".into(), json!(name));
            }
            self.line(level, &message, fields);
        }
    }
}

/// Random bytes.
fn drawn<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let failed = |e| Error::Malformed { place: "telemetry".into(), reason: format!("no random numbers: {e}") };
    getrandom::fill(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Nanoseconds since 1970.
fn nanoseconds(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_nanos()
}
