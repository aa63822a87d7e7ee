//! METRICS: counters of a loop, in the text format of Prometheus.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::engine::{Answer, RewardOutcome, Status};

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The upper ends of the buckets of a histogram, in microseconds.
const BUCKETS: [u64; 10] = [250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 1_000_000];

/// How long answers took.
#[derive(Debug, Default)]
struct Histogram {
    buckets: [Counter; BUCKETS.len()],
    count: Counter,
    micros: Counter,
}

/// The counters of a loop since the server started.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    decided: Counter,
    again: Counter,
    joined: Counter,
    duplicate: Counter,
    late: Counter,
    parked: Counter,
    unprocessable: Counter,
    unavailable: Counter,
    /// Refused because too much was queued.
    pub(crate) refused: Counter,
    commits: Counter,
    learned: Counter,
    learned_micros: Counter,
    decisions: Histogram,
}

impl Metrics {
    /// Counts the answers of one commit.
    pub(crate) fn count(&self, answers: &[Answer]) {
        self.commits.add(u64::from(!answers.is_empty()));
        let refused = |status: u16| match status {
            503 => self.unavailable.add(1),
            _ => self.unprocessable.add(1),
        };
        for answer in answers {
            match answer {
                Answer::Decided(all) => all.iter().for_each(|one| match one {
                    Ok(decided) if decided.again => self.again.add(1),
                    Ok(_) => self.decided.add(1),
                    Err(refusal) => refused(refusal.status),
                }),
                Answer::Rewarded(all) => {
                    all.iter().for_each(|one| match one.as_ref().map(|rewarded| rewarded.outcome) {
                        Ok(RewardOutcome::Joined) => self.joined.add(1),
                        Ok(RewardOutcome::Duplicate) => self.duplicate.add(1),
                        Ok(RewardOutcome::Late) => self.late.add(1),
                        Ok(RewardOutcome::Parked) => self.parked.add(1),
                        Err(refusal) => refused(refusal.status),
                    });
                }
                Answer::Activated(_) | Answer::Challenged(_) | Answer::Erased(_) | Answer::Done(_) => {}
            }
        }
    }

    /// Counts a round that was learned from.
    pub(crate) fn learned(&self, took: Duration) {
        self.learned.add(1);
        self.learned_micros.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// Counts the time of a request for decisions.
    pub(crate) fn answered(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.decisions.count.add(1);
        self.decisions.micros.add(micros);
        let fits = BUCKETS.iter().zip(&self.decisions.buckets).filter(|(end, _)| micros <= **end);
        fits.for_each(|(_, bucket)| bucket.add(1));
    }
}

/// Values with the labels that tell them apart.
type Labelled = Vec<(String, f64)>;

/// The metrics of all loops as text.
pub(crate) fn text<'a>(loops: impl Iterator<Item = (Status, &'a Metrics)>) -> String {
    let all: Vec<(Status, &Metrics)> = loops.collect();
    let mut out = String::new();
    let mut family = |name: &str, kind: &str, help: &str, of: &dyn Fn(&Status, &Metrics) -> Labelled| {
        let _ = writeln!(out, "# HELP surefoot_{name} {help}\n# TYPE surefoot_{name} {kind}");
        for (status, metrics) in &all {
            for (labels, value) in of(status, metrics) {
                let _ = writeln!(out, "surefoot_{name}{{loop=\"{}\"{labels}}} {value}", status.name);
            }
        }
    };
    let one = |value: u64| vec![(String::new(), value as f64)];
    let by = |name: &str, of: &[(&str, u64)]| -> Labelled {
        of.iter().map(|(label, value)| (format!(",{name}=\"{label}\""), *value as f64)).collect()
    };
    family("decisions_total", "counter", "Decisions since the start, drawn or found again.", &|_, m| {
        by("outcome", &[("drawn", m.decided.get()), ("again", m.again.get())])
    });
    family("rewards_total", "counter", "Rewards since the start, by what became of them.", &|_, m| {
        let (joined, duplicate, late, parked) = (m.joined.get(), m.duplicate.get(), m.late.get(), m.parked.get());
        by("outcome", &[("joined", joined), ("duplicate", duplicate), ("late", late), ("parked", parked)])
    });
    family("refused_total", "counter", "Decisions and rewards that were refused, by reason.", &|_, m| {
        let reasons =
            [("overload", m.refused.get()), ("store", m.unavailable.get()), ("request", m.unprocessable.get())];
        by("reason", &reasons)
    });
    family("commits_total", "counter", "Commits since the start.", &|_, m| one(m.commits.get()));
    family("rounds_learned_total", "counter", "Rounds learned from since the start.", &|_, m| one(m.learned.get()));
    family("learning_seconds_total", "counter", "Time spent on learning since the start.", &|_, m| {
        vec![(String::new(), m.learned_micros.get() as f64 / 1e6)]
    });
    family("stored_decisions", "gauge", "Decisions in the store.", &|s, _| one(s.decisions));
    family("round", "gauge", "The round that is being collected.", &|s, _| one(s.round));
    family("waiting_rounds", "gauge", "Rounds that ended and were not learned from.", &|s, _| {
        one(s.waiting_rounds as u64)
    });
    family("learning_failed", "gauge", "1 if learning failed and waits for an operator.", &|s, _| {
        one(u64::from(s.failed.is_some()))
    });
    let name = "decision_duration_seconds";
    let _ = writeln!(
        out,
        "# HELP surefoot_{name} Time to answer requests for decisions.\n# TYPE surefoot_{name} histogram"
    );
    for (status, m) in &all {
        let label = format!("loop=\"{}\"", status.name);
        for (end, bucket) in BUCKETS.iter().zip(&m.decisions.buckets) {
            let _ = writeln!(out, "surefoot_{name}_bucket{{{label},le=\"{}\"}} {}", *end as f64 / 1e6, bucket.get());
        }
        let count = m.decisions.count.get();
        let _ = writeln!(out, "surefoot_{name}_bucket{{{label},le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "surefoot_{name}_sum{{{label}}} {}", m.decisions.micros.get() as f64 / 1e6);
        let _ = writeln!(out, "surefoot_{name}_count{{{label}}} {count}");
    }
    out
}
