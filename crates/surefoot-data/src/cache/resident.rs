//! How much of the mapped files is held in memory.
//!
//! A page of a mapped file is held from its first use on, until the system needs the memory. That is right for a machine, and
//! wrong for a process with a limit: it would seem to use all of the file. So a thread looks at what is held, and gives
//! everything back if it is too much. That changes no result: a page that is used again is mapped again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use memmap2::Mmap;

/// How often the thread looks.
const PERIOD: Duration = Duration::from_millis(10);

/// The mapped files of a run, and the thread that limits how much of them is held.
#[derive(Debug)]
pub(crate) struct Resident {
    maps: Arc<Mutex<Vec<Weak<Mmap>>>>,
    ended: Arc<AtomicBool>,
}

impl Resident {
    /// Holds at most this many bytes, up to what is read in a few milliseconds; `None` for no limit. Only Linux tells how
    /// much is held; elsewhere the system decides alone.
    pub(crate) fn new(limit: Option<u64>) -> Arc<Self> {
        let resident = Resident { maps: Arc::default(), ended: Arc::default() };
        if let Some(limit) = limit.filter(|_| held().is_some()) {
            let (maps, ended) = (Arc::clone(&resident.maps), Arc::clone(&resident.ended));
            thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    if held().is_some_and(|bytes| bytes > limit) {
                        let maps = maps.lock().unwrap_or_else(PoisonError::into_inner);
                        maps.iter().filter_map(Weak::upgrade).for_each(|map| release(&map));
                    }
                    thread::sleep(PERIOD);
                }
            });
        }
        Arc::new(resident)
    }

    /// Adds a mapped file.
    pub(crate) fn watch(&self, map: &Arc<Mmap>) {
        self.maps.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(map));
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// The number of bytes of files that this process holds in memory.
fn held() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(2)?.parse().ok()?;
    Some(pages * 4096)
}

/// Gives the pages of a file back.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the pages of a mapped file are given back")]
fn release(map: &Mmap) {
    // SAFETY: for a shared mapping of a file, MADV_DONTNEED only forgets which pages are held. The next read brings the same
    // bytes back from the file. Nothing is lost if it fails.
    let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
}

#[cfg(not(target_os = "linux"))]
fn release(_: &Mmap) {}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "a file is mapped")]
    fn pages_that_were_given_back_have_the_same_bytes() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..1u32 << 20).map(|i| (i % 251) as u8).collect();
        file.write_all(&bytes).unwrap();
        // SAFETY: nobody else has the file.
        let map = Arc::new(unsafe { Mmap::map(&file) }.unwrap());
        // A limit of 0 gives everything back all the time.
        let resident = Resident::new(Some(0));
        resident.watch(&map);
        for _ in 0..20 {
            assert!(map[..] == bytes[..]);
            release(&map);
            thread::sleep(PERIOD / 5);
        }
    }
}
