//! A thread that moves what is committed from the write-ahead log into the file of the store, so that no commit waits for it.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use super::{Use, connect};

/// The number of rows after which the log is worth moving: about 4 MB of it. A commit that is flushed at the same time waits for the
/// disk: with ten times as many rows, one in a hundred answers took 40 to 60 ms instead of 5, and no more were given.
const ROWS: usize = 1000;
/// The size of the log, in pages, at which a commit moves the rest of it, so that the log can begin anew: 64 MB. By then the
/// thread has moved nearly all of it.
const MOST_PAGES: i64 = 16_384;

/// When the log is moved.
#[derive(Debug)]
pub(super) struct Checkpoints {
    path: PathBuf,
    rows: usize,
    /// Begins with the first rows that are worth it.
    thread: Option<(SyncSender<()>, JoinHandle<()>)>,
}

impl Checkpoints {
    /// The connection writes to the store at this path.
    pub(super) fn of(path: &Path, connection: &Connection) -> rusqlite::Result<Self> {
        connection.pragma_update(None, "wal_autocheckpoint", MOST_PAGES)?;
        Ok(Checkpoints { path: path.into(), rows: 0, thread: None })
    }

    /// A row will be committed.
    pub(super) fn add(&mut self) {
        self.rows += 1;
    }

    /// Something was committed.
    pub(super) fn committed(&mut self) {
        if self.rows < ROWS {
            return;
        }
        self.rows = 0;
        if self.thread.is_none() {
            let (to, asked) = sync_channel(1);
            let path = self.path.clone();
            let work = move || {
                let Ok(connection) = connect(&path, Use::Checkpoint) else { return };
                // What cannot be moved now is moved later, or by a commit.
                asked.iter().for_each(|()| drop(connection.query_row("PRAGMA wal_checkpoint", [], |_| Ok(()))));
            };
            // Without a thread, commits move it.
            self.thread = thread::Builder::new().name("checkpoint".into()).spawn(work).ok().map(|thread| (to, thread));
        }
        if let Some((thread, _)) = &self.thread {
            // If it is still at work, it need not be told twice.
            let _ = thread.try_send(());
        }
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        if let Some((asked, thread)) = self.thread.take() {
            drop(asked);
            let _ = thread.join();
        }
    }
}
