//! DEMO: a loop on the digits that ship with Surefoot, and simulated visitors.
//!
//! A visitor shows a handwritten digit. The loop guesses which one it is, and the visitor is pleased or not: with
//! probability 0.8 if the guess is right, and 0.2 if it is wrong. The reward comes after a while; some come late, some
//! never, and some twice.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, json};
use surefoot::contexts::Labelled;

use crate::config::ServerConfig;
use crate::engine::{Answer, Ask, RewardAsk};
use crate::error::Result;
use crate::request::DecisionRequest;
use crate::sequencer::Loop;

/// The loop of the demo.
pub const CONFIG: &str = r#"# The loop of `surefoot serve --demo`.
[[loop]]
name = "digits"
actions = 10
features = [{ name = "pixels", kind = "vector", width = 64 }]
reward = { window = "2s", default = 0 }
round = { records = 300 }
learner = { algorithm = "thompson" }
gate = "always"
intercept = false
"#;

/// The configuration of the demo.
pub fn config() -> Result<ServerConfig> {
    ServerConfig::parse("the demo", CONFIG)
}

/// Sends visitors to a loop of the [demo](config), so many per second, until the process ends or the loop stops.
pub fn visit(lp: &Arc<Loop>, per_second: u32) {
    let digits = surefoot_data::digits().unit_rows();
    let mut visitors = Visitors::new(lp, digits.train());
    let pause = Duration::from_secs(1) / per_second.max(1);
    let mut next = Instant::now();
    while visitors.visit() && visitors.reward() {
        next += pause;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

struct Visitors<'a> {
    lp: &'a Arc<Loop>,
    digits: &'a Labelled,
    /// Counted over all starts of the demo, so that every visit is a new event.
    count: u64,
    /// Rewards on their way, by the time at which they arrive.
    coming: BinaryHeap<Reverse<(Instant, String, u8)>>,
}

impl<'a> Visitors<'a> {
    fn new(lp: &'a Arc<Loop>, digits: &'a Labelled) -> Self {
        Visitors { lp, digits, count: lp.status().decisions, coming: BinaryHeap::new() }
    }

    /// One visitor asks for a decision.
    fn visit(&mut self) -> bool {
        let draw = mixed(self.count);
        let row = draw as usize % self.digits.len();
        let mut pixels = vec![0.0; 64];
        self.digits.contexts().row(row).for_each(|place, value| pixels[place] = value);
        let event_id = format!("visit-{}", self.count);
        self.count += 1;
        let context = Map::from_iter([("pixels".to_owned(), json!(pixels))]);
        let request = DecisionRequest { event_id: Some(event_id.clone()), context, ..DecisionRequest::default() };
        let Ok(ask) = request.check(self.lp.rules()) else { return false };
        let began = Instant::now();
        let answered = self.lp.ask_blocking(Ask::Decide(vec![ask]));
        self.lp.metrics().answered(began.elapsed());
        let decided = match answered {
            Ok(Answer::Decided(answers)) => answers.into_iter().next(),
            Err(refusal) if refusal.kind == "stopped" => return false,
            _ => None,
        };
        if let Some(Ok(decided)) = decided {
            let share = |shift: u32| ((draw >> shift) & 0xff) as f64 / 256.0;
            let right = decided.action == self.digits.labels()[row];
            let pleased = share(16) < if right { 0.8 } else { 0.2 };
            // From at once to a little after the window of two seconds.
            let delay = Duration::from_secs_f64(2.1 * share(24) * share(32));
            let reward = Reverse((Instant::now() + delay, event_id, u8::from(pleased)));
            if share(40) < 0.05 {
                self.coming.push(reward.clone());
            }
            if share(48) < 0.95 {
                self.coming.push(reward);
            }
        }
        true
    }

    /// Sends the rewards whose time has come.
    fn reward(&mut self) -> bool {
        let mut asks = Vec::new();
        while let Some(Reverse((when, ..))) = self.coming.peek()
            && *when <= Instant::now()
            && let Some(Reverse((_, event_id, value))) = self.coming.pop()
        {
            asks.push(RewardAsk { event_id, reward_id: String::new(), value: f64::from(value) });
        }
        asks.is_empty() || !matches!(self.lp.ask_blocking(Ask::Reward(asks)), Err(refusal) if refusal.kind == "stopped")
    }
}

/// A number that looks random: SplitMix64.
fn mixed(count: u64) -> u64 {
    let z = count.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
