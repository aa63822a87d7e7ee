//! Errors of the disk on request, for tests.

use std::cell::Cell;
use std::io;

thread_local! {
    /// The number of operations until one fails; 0 for never.
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Runs `work`, in which the `n`-th operation on the disk fails. Returns its result, and whether so many operations
/// were reached.
pub(crate) fn fail_at<T>(n: usize, work: impl FnOnce() -> T) -> (T, bool) {
    LEFT.set(n);
    let result = work();
    (result, LEFT.replace(0) == 0)
}

pub(super) fn step() -> io::Result<()> {
    match LEFT.get() {
        0 => Ok(()),
        left => {
            LEFT.set(left - 1);
            if left == 1 { Err(io::Error::other("the disk fails on request")) } else { Ok(()) }
        }
    }
}
