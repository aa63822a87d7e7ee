//! Bodies: events with contexts of 40 numbers.

use std::fmt::Write as _;
use std::sync::Arc;

use super::load::{Follow, Request, post};

pub(crate) const FEATURES: usize = 40;
pub(crate) const ACTIONS: usize = 10;
/// Contexts that differ.
const CONTEXTS: usize = 512;
const PATH: &str = "/v1/loops/bench/decisions";

/// The file of the loop. Its rounds end by hand only.
pub(crate) fn config(window: &str) -> String {
    let features: Vec<String> = (0..FEATURES).map(|i| format!("{{ name = \"f{i}\", kind = \"number\" }}")).collect();
    format!(
        "[[loop]]\nname = \"bench\"\nactions = {ACTIONS}\nfeatures = [{}]\n\
         reward = {{ window = \"{window}\", default = 0 }}\nround = {{ records = 100000000 }}\n",
        features.join(", ")
    )
}

/// The contexts, as JSON, and the action that is right for each.
#[derive(Debug, Clone)]
pub(crate) struct Bodies(Arc<Vec<(String, usize)>>);

impl Bodies {
    pub(crate) fn new() -> Self {
        let mut state = 1_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / (1_u64 << 24) as f64
        };
        let context = |_| {
            let values: Vec<f64> = (0..FEATURES).map(|_| (1e4 * (2.0 * uniform() - 1.0)).round() / 1e4).collect();
            let right = (0..ACTIONS).max_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap_or(0);
            let mut text = String::from("{");
            for (i, value) in values.iter().enumerate() {
                let _ = write!(text, "{}\"f{i}\":{value}", if i > 0 { "," } else { "" });
            }
            (text + "}", right)
        };
        Bodies(Arc::new((0..CONTEXTS).map(context).collect()))
    }

    fn of(&self, number: u64) -> &(String, usize) {
        &self.0[number as usize % CONTEXTS]
    }

    /// What is asked of event `number`.
    pub(crate) fn event(&self, number: u64) -> String {
        format!("{{\"event_id\":\"visit-{number:010}\",\"context\":{}}}", self.of(number).0)
    }

    /// The contexts, each as a list of numbers.
    pub(crate) fn lists(&self) -> Vec<String> {
        let list = |(text, _): &(String, usize)| {
            let pairs = text.trim_matches(['{', '}']).split(',');
            let values: Vec<&str> = pairs.map(|pair| pair.split(':').next_back().unwrap_or_default()).collect();
            format!("[{}]", values.join(","))
        };
        self.0.iter().map(list).collect()
    }

    /// The id of event `number`, and its request as the store has it.
    pub(crate) fn stored(&self, number: u64) -> (String, String) {
        (format!("visit-{number:010}"), format!("{{\"context\":{}}}", self.of(number).0))
    }

    /// One decision per request.
    pub(crate) fn single(&self) -> Request {
        let all = self.clone();
        Arc::new(move |number, out| post(PATH, "application/json", all.event(number).as_bytes(), out))
    }

    /// So many decisions per request.
    pub(crate) fn batch(&self, lines: u64) -> Request {
        let all = self.clone();
        Arc::new(move |number, out| {
            let body: String = (0..lines).map(|i| all.event(number * lines + i) + "\n").collect();
            post(PATH, "application/x-ndjson", body.as_bytes(), out);
        })
    }

    /// One reward per request.
    pub(crate) fn reward(&self) -> Request {
        Arc::new(move |number, out| {
            let body = format!("{{\"event_id\":\"visit-{number:010}\",\"reward\":1}}");
            post("/v1/loops/bench/rewards", "application/json", body.as_bytes(), out);
        })
    }

    /// The reward of a decision: 1 if it was right.
    pub(crate) fn rewarded(&self) -> Follow {
        let all = self.clone();
        Arc::new(move |number, answer, out| {
            let right = format!("\"action\":{},", all.of(number).1);
            let reward = u8::from(String::from_utf8_lossy(answer).contains(&right));
            let body = format!("{{\"event_id\":\"visit-{number:010}\",\"reward\":{reward}}}");
            post("/v1/loops/bench/rewards", "application/json", body.as_bytes(), out);
        })
    }
}
