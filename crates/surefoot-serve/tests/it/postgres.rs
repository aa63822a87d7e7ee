//! A real PostgreSQL, which needs no root: that of PyPI's `pgserver`. `make test` installs it where it can be had; otherwise
//! the tests that need it say that they are skipped.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// PostgreSQL does not run as root: there, it runs as nobody.
const NOBODY: u32 = 65_534;

/// A database of its own, which ends with this value.
pub(crate) struct Postgres {
    programs: PathBuf,
    folder: tempfile::TempDir,
    process: Mutex<Option<Child>>,
}

/// The folder of PostgreSQL's programs.
fn programs() -> Option<PathBuf> {
    let environment = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv-postgres/lib");
    let versions = std::fs::read_dir(environment).ok()?;
    let folders = versions.filter_map(|entry| Some(entry.ok()?.path().join("site-packages/pgserver/pginstall/bin")));
    folders.filter(|folder| folder.join("postgres").is_file()).find_map(|folder| folder.canonicalize().ok())
}

impl Postgres {
    /// Starts a database. Without one, says that the test is skipped.
    pub(crate) fn start() -> Option<Self> {
        let started = programs().ok_or("no pgserver in .venv-postgres".to_owned()).and_then(|programs| {
            let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
            let database = Postgres { programs, folder, process: Mutex::new(None) };
            database.init()?;
            database.run()?;
            Ok(database)
        });
        let skipped = |reason: &String| {
            eprintln!("SKIPPED: {reason}; make test installs it where the package index can be reached");
        };
        started.inspect_err(skipped).ok()
    }

    fn init(&self) -> Result<(), String> {
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(self.folder.path(), Some(NOBODY), Some(NOBODY)).map_err(|e| e.to_string())?;
        }
        let made = self.command("initdb").args(["-U", "postgres", "-A", "trust", "-D"]).arg(self.data()).output();
        match made {
            Ok(made) if made.status.success() => Ok(()),
            Ok(made) => Err(format!("initdb failed: {}", String::from_utf8_lossy(&made.stderr))),
            Err(reason) => Err(format!("initdb does not run: {reason}")),
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(self.folder.path());
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// Starts the process, and waits until it answers. After a kill, it recovers first.
    pub(crate) fn run(&self) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let mut command = self.command("postgres");
            command.arg("-D").arg(self.data()).arg("-k").arg(self.folder.path()).args(["-c", "listen_addresses="]);
            let mut process =
                command.stderr(Stdio::piped()).spawn().map_err(|e| format!("postgres does not run: {e}"))?;
            while process.try_wait().map_err(|e| e.to_string())?.is_none() {
                if self.ask("SELECT 1").is_ok() {
                    *self.process.lock().unwrap() = Some(process);
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            // Processes of the one that was killed may still be ending.
            if began.elapsed() > Duration::from_secs(30) {
                let mut said = String::new();
                let _ = process.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said));
                return Err(format!("postgres ends: {said}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// `kill -9` of its main process; the others end when they see that.
    pub(crate) fn kill(&self) {
        if let Some(mut process) = self.process.lock().unwrap().take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// A connection string.
    pub(crate) fn address(&self) -> String {
        format!("host={} user=postgres dbname=postgres", self.folder.path().display())
    }

    /// The file of its socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join(".s.PGSQL.5432")
    }

    fn ask(&self, query: &str) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let connected = tokio_postgres::connect(&self.address(), tokio_postgres::NoTls).await;
            let (client, connection) = connected.map_err(|e| e.to_string())?;
            let connection = tokio::spawn(connection);
            let done = client.batch_execute(query).await.map_err(|e| e.to_string());
            drop(client);
            let _ = connection.await;
            done
        })
    }

    /// Runs a query.
    pub(crate) fn execute(&self, query: &str) {
        self.ask(query).unwrap();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGTERM would wait for connections. What is stored here is of no use to anybody.
        self.kill();
    }
}
