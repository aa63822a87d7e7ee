//! CLOCK: time as an argument, so that tests can move it.

use std::fmt::Debug;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub type Time = i64;

/// Tells the time.
pub trait Clock: Debug + Send + Sync {
    /// The time now. It may jump in both directions: a loop never goes back.
    fn now(&self) -> Time;
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time::try_from(since.as_millis()).unwrap_or(Time::MAX)
    }
}

/// A clock that stands still until it is set.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Sets the time.
    pub fn set(&self, now: Time) {
        self.0.store(now, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        self.0.load(Ordering::SeqCst)
    }
}
