//! Progress on standard error: a bar in a terminal, nothing in a pipe.

use std::fmt::Write;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use surefoot::observer::Observer;

/// A bar of `rounds` steps, with the time left.
pub fn bar(rounds: usize, quiet: bool) -> ProgressBar {
    bar_of(rounds, "rounds", quiet)
}

/// A bar of `steps` steps of a kind, with the time left.
pub fn bar_of(steps: usize, kind: &str, quiet: bool) -> ProgressBar {
    drawn(Some(steps as u64), &format!("{{bar:40}} {{pos}}/{{len}} {kind}, {{eta}} left  {{msg}}"), quiet)
}

/// A bar of work in any unit, with the share that is done and the time left.
pub fn share(work: u64, quiet: bool) -> ProgressBar {
    drawn(Some(work), "{bar:30} {percent}%, {eta} left  {msg}", quiet)
}

/// A counter of records that were read, for an unknown total.
pub fn records(quiet: bool) -> ProgressBar {
    drawn(None, "{spinner} {human_pos} records, {speed}", quiet)
}

/// The name of an activity and its time so far, for an unknown duration.
pub fn doing(what: &'static str, quiet: bool) -> ProgressBar {
    let bar = drawn(None, "{spinner} {msg}, {elapsed}", quiet);
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// An observer that shows what is done, and how much of a search with the time left.
#[derive(Debug)]
pub struct Learning<'a> {
    bar: &'a ProgressBar,
    part: String,
    began: Instant,
}

impl<'a> Learning<'a> {
    /// Shows it in this bar.
    pub fn new(bar: &'a ProgressBar) -> Self {
        Learning { bar, part: "learning".into(), began: Instant::now() }
    }
}

impl Observer for Learning<'_> {
    fn begins(&mut self, part: &str) {
        self.bar.set_message(part.to_owned());
        (self.part, self.began) = (part.to_owned(), Instant::now());
    }

    fn searching(&mut self, share: f64) -> ControlFlow<()> {
        let left = HumanDuration(left(self.began.elapsed(), share));
        self.bar.set_message(format!("{}, {:.0} % done, {left:#} left", self.part, 100.0 * share));
        ControlFlow::Continue(())
    }
}

/// The time left, if this share of the work took so long.
fn left(elapsed: Duration, share: f64) -> Duration {
    let seconds = elapsed.as_secs_f64() * (1.0 - share) / share;
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// Shows the passes over a log: the records that were read, and from the second pass on their share and the time left. To be
/// called for each batch with the number of the pass, counted from 0, the number of records that it has read, and the number
/// of all records, if it is known.
pub fn reading(bar: ProgressBar) -> impl Fn(usize, u64, Option<u64>) + Send + Sync + 'static {
    let began: Mutex<(usize, Instant)> = Mutex::new((0, Instant::now()));
    move |pass, records, of| {
        let mut began = began.lock().unwrap_or_else(PoisonError::into_inner);
        if began.0 != pass {
            *began = (pass, Instant::now());
        }
        let number = HumanCount(records);
        bar.set_message(match of {
            None => format!("reading the logs, {number} records"),
            Some(all) => {
                let share = (records as f64 / all.max(1) as f64).min(1.0);
                let left = HumanDuration(left(began.1.elapsed(), share));
                format!("encoding, {number} of {} records, {:.0} % done, {left:#} left", HumanCount(all), 100.0 * share)
            }
        });
    }
}

/// A number per second. A fraction of a record says nothing.
fn speed(per_second: f64) -> String {
    format!("{}/s", HumanCount(per_second as u64))
}

fn drawn(length: Option<u64>, template: &str, quiet: bool) -> ProgressBar {
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let style = ProgressStyle::with_template(template).expect("the template is well-formed");
    let style = style.with_key("speed", |state: &ProgressState, to: &mut dyn Write| {
        // If that fails, there is nobody to tell.
        let _ = to.write_str(&speed(state.per_sec()));
    });
    ProgressBar::with_draw_target(length, target).with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_has_no_decimals() {
        assert_eq!(speed(998_167.2), "998,167/s");
        assert_eq!(speed(f64::NAN), "0/s");
    }

    #[test]
    fn the_time_left_is_in_proportion() {
        assert_eq!(left(Duration::from_secs(10), 0.25), Duration::from_secs(30));
        assert_eq!(left(Duration::from_secs(10), 1.0), Duration::ZERO);
        assert_eq!(left(Duration::from_secs(10), 0.0), Duration::ZERO);
    }
}
