//! Progress on standard error: a bar in a terminal, nothing in a pipe.

use std::ops::ControlFlow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
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
    drawn(None, "{spinner} {human_pos} records, {per_sec}", quiet)
}

/// The name of an activity and its time so far, for an unknown duration.
pub fn doing(what: &'static str, quiet: bool) -> ProgressBar {
    let bar = drawn(None, "{spinner} {msg}, {elapsed}", quiet);
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// An observer that shows the progress of a search.
#[derive(Debug)]
pub struct Learning<'a>(pub &'a ProgressBar);

impl Observer for Learning<'_> {
    fn searching(&mut self, share: f64) -> ControlFlow<()> {
        self.0.set_message(format!("learning, {:.0} % done", 100.0 * share));
        ControlFlow::Continue(())
    }
}

fn drawn(length: Option<u64>, template: &str, quiet: bool) -> ProgressBar {
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let style = ProgressStyle::with_template(template).expect("the template is well-formed");
    ProgressBar::with_draw_target(length, target).with_style(style)
}
