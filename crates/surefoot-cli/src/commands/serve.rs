//! `surefoot serve`: the live loop.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use surefoot_data::{check_not_read, check_output, replace};
use surefoot_serve::config::{LISTEN, ServerConfig};
use surefoot_serve::{Limits, LogStyle, Loop, OtlpConfig, Telemetry, demo};
use surefoot_terminal::{Failure, Result, Running, note, print};

use crate::logs::{LogFlags, columns_failure};

/// Run loops live: decide over HTTP, log, join rewards, learn and redeploy
///
/// A file describes the loops. Decisions have exact propensities and are on disk before they are answered. A round is
/// learned from when the rewards of all its decisions are final; the new policy is deployed with the next round, if the
/// gate lets it pass. Everything is stored in a folder, with SQLite inside. The process may be ended at any time, also by
/// force: it goes on where it was. The paths are described at /openapi.json, and in docs/service.md.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
        surefoot serve --demo\n  \
        surefoot serve init logs.csv --out shop.toml\n  \
        surefoot serve shop.toml --listen 127.0.0.1:9000 --data loops\n  \
        surefoot serve import shop.toml decisions.dsjson\n  \
        surefoot serve export loops/shop --out run && surefoot verify run\n  \
        surefoot serve --check-health http://127.0.0.1:8080"
)]
pub(crate) struct Serve {
    #[command(subcommand)]
    action: Option<Action>,
    /// File of loops, as surefoot serve init writes it
    #[arg(required_unless_present_any = ["demo", "check_health"], conflicts_with = "demo")]
    file: Option<PathBuf>,
    /// Open a loop on the handwritten digits that ship with Surefoot, and send simulated visitors to it
    #[arg(long)]
    demo: bool,
    /// Visitors per second of the demo
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    visitors: u32,
    /// Address to listen on; one that other machines can reach needs keys in the file [default: that of the file, or
    /// 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Folder of the stores, one folder per loop in it [default: that of the file, or surefoot-data]
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// PostgreSQL database of the stores, for several servers of the same loops: host=... user=... dbname=... or
    /// postgresql://... [default: that of the file, or none: SQLite in the folder of the stores]
    #[arg(long, value_name = "DATABASE", env = "SUREFOOT_POSTGRES", hide_env_values = true, conflicts_with = "demo")]
    postgres: Option<String>,
    /// Number of threads that learn, for each loop; 0 for one per core. They have a low priority
    #[arg(long, value_name = "N", default_value_t = 1)]
    learning_threads: usize,
    /// How requests and rounds are logged, on the standard error: none, or json for one JSON object per line. No context,
    /// key, reward or event id is in it [default: that of the file, or none]
    #[arg(long, value_name = "STYLE")]
    log: Option<LogStyle>,
    /// Ask a running server whether it answers, and end: with 0 if it does, and with 1 if it does not. The path is /healthz
    /// if the address has none
    #[arg(long, value_name = "URL", conflicts_with_all = ["file", "demo"])]
    check_health: Option<String>,
    /// File of the certificates that are trusted, in PEM, if the address of --check-health begins with https
    #[arg(long, value_name = "FILE", requires = "check_health")]
    ca: Option<PathBuf>,
}

/// What else can be done.
#[derive(Debug, Subcommand)]
enum Action {
    /// Write a commented file of loops, with the actions, features and rewards of a log
    #[command(after_help = "Example:\n  surefoot serve init examples/logs.csv --ignore 'pi_*' --out shop.toml")]
    Init {
        #[command(flatten)]
        logs: Box<LogFlags>,
        /// Name of the loop
        #[arg(long, default_value = "shop")]
        name: String,
        /// Columns not to use as features, separated by commas; pi_* means all columns that begin with pi_
        #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
        ignore: Vec<String>,
        /// File to write
        #[arg(long, short, value_name = "FILE")]
        out: PathBuf,
        /// Replace the file if it exists
        #[arg(long)]
        force: bool,
    },
    /// Make logs the history of a loop: evidence for lint and evaluate, beside the loop and never in it
    ///
    /// The records are checked and stored in the folder of the loop, in the form of its own logs. The paths lint and
    /// evaluations of the service take them with over=history. No ledger names them, no certificate uses them, and no round
    /// has them. Logs in which lint finds an error are refused, and so are decisions of the loop itself.
    #[command(after_help = "Example:\n  surefoot serve import shop.toml decisions.dsjson")]
    Import {
        /// File of loops
        file: PathBuf,
        #[command(flatten)]
        logs: Box<LogFlags>,
        /// Name of the loop [default: the only one in the file]
        #[arg(long = "loop", value_name = "NAME")]
        name: Option<String>,
        /// Folder of the stores [default: that of the file, or surefoot-data]
        #[arg(long, value_name = "FOLDER")]
        data: Option<PathBuf>,
        #[command(flatten)]
        running: Running,
    },
    /// Write a loop as a run folder, which verify takes; lint, evaluate and learn take its logs.parquet
    #[command(after_help = "Example:\n  surefoot serve export surefoot-data/shop --out run && surefoot verify run")]
    Export {
        /// Folder of the loop: that of the stores, and its name; with --postgres, its name alone
        folder: PathBuf,
        /// PostgreSQL database of the stores
        #[arg(long, value_name = "DATABASE", env = "SUREFOOT_POSTGRES", hide_env_values = true)]
        postgres: Option<String>,
        /// Folder to write, new or empty
        #[arg(long, short, value_name = "FOLDER")]
        out: PathBuf,
        #[command(flatten)]
        running: Running,
    },
}

impl Serve {
    pub(crate) fn run(self) -> Result<()> {
        match self.action {
            Some(Action::Init { logs, name, ignore, out, force }) => {
                check_output(&out).map_err(Failure::new)?;
                check_not_read(&out, logs.files()).map_err(Failure::new)?;
                if !force && out.exists() {
                    let exists = format!("{}: already exists", out.display());
                    return Err(Failure::new(exists).hint("--force replaces it"));
                }
                let text = surefoot_serve::init(&name, &logs.reader()?, &ignore, &out.to_string_lossy());
                let text = text.map_err(init_failure)?;
                replace(&out, text.as_bytes()).map_err(Failure::new)?;
                print(&format!("wrote {}: check the reward range, the window and the round in it", out.display()))
            }
            Some(Action::Export { folder, postgres, out, running }) => {
                running.start()?;
                let exported = match postgres {
                    None => surefoot_serve::export(&folder, &out),
                    Some(database) => surefoot_serve::export_postgres(&database, &folder.to_string_lossy(), &out),
                };
                let exported = exported.map_err(Failure::new)?;
                running.answer(&exported, || {
                    format!(
                        "wrote {} rounds with {} records and {} certificates to {}",
                        exported.rounds,
                        exported.records,
                        exported.certificates,
                        out.display()
                    )
                })
            }
            Some(Action::Import { file, logs, name, data, running }) => import(&file, &logs, name, data, &running),
            None => match &self.check_health {
                Some(url) => surefoot_serve::check_health(url, self.ca.as_deref()).map_err(Failure::new),
                None => self.serve(),
            },
        }
    }

    fn serve(self) -> Result<()> {
        let place = self.file.as_ref().map_or("the demo".into(), |file| file.display().to_string());
        let config = match &self.file {
            Some(file) => ServerConfig::read(file),
            None => demo::config(),
        };
        let mut config =
            config.map_err(|error| Failure::new(error).hint("surefoot serve init writes a file to begin with"))?;
        config.postgres = self.postgres.or(config.postgres);
        let listen = self.listen.or(config.listen).map_or_else(|| LISTEN.parse().map_err(Failure::new), Ok)?;
        let folder = if self.demo { "surefoot-demo-data" } else { "surefoot-data" };
        let data = self.data.or(config.data.clone()).unwrap_or_else(|| folder.into());
        let otlp = OtlpConfig::find(config.otlp.as_deref(), |name| std::env::var(name).ok()).map_err(Failure::new)?;
        let telemetry = Telemetry::new(self.log.unwrap_or(config.log), otlp).map_err(Failure::new)?;
        let shared = config.postgres.is_some();
        let (demo, visitors) = (self.demo, self.visitors);
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let open = || surefoot_serve::open_all(&config, &place, &data, self.learning_threads);
        let ready = |address: SocketAddr, loops: &[Arc<Loop>]| {
            let stored = if shared { "PostgreSQL".into() } else { data.display().to_string() };
            note(&format!("listening on {scheme}://{address}, storing in {stored}\n"));
            if demo {
                note(&format!("{visitors} visitors per second; watch them at {scheme}://{address}\n"));
                let visited = Arc::clone(&loops[0]);
                std::thread::spawn(move || demo::visit(&visited, visitors));
            }
        };
        let (tls, keys) = (config.tls.as_ref(), config.keys.clone());
        surefoot_serve::run_with(tls, &telemetry, keys, listen, Limits::default(), open, ready).map_err(|error| {
            let rules = matches!(error, surefoot_serve::Error::Begun { .. });
            let failure = Failure::new(error);
            match rules {
                true => failure.hint(
                    "a loop keeps the rules that it began with; other rules need another name, or another folder of stores",
                ),
                false => failure,
            }
        })
    }
}

/// The failure of a log that a loop cannot be made of.
fn init_failure(error: surefoot_serve::Error) -> Failure {
    match error {
        surefoot_serve::Error::Data(error) => columns_failure(error),
        error => Failure::new(error),
    }
}

/// Makes logs the history of a loop.
fn import(file: &Path, logs: &LogFlags, name: Option<String>, data: Option<PathBuf>, running: &Running) -> Result<()> {
    running.start()?;
    let config = ServerConfig::read(file).map_err(Failure::new)?;
    let name = match (name, config.loops.as_slice()) {
        (Some(name), _) => name,
        (None, [only]) => only.name.clone(),
        (None, _) => return Err(Failure::new("the file has several loops").hint("--loop NAME says which")),
    };
    let data = data.or(config.data.clone()).unwrap_or_else(|| "surefoot-data".into());
    let place = file.display().to_string();
    let imported = surefoot_serve::import(&config, &place, &name, &data, &logs.reader()?).map_err(|error| {
        let of_logs = matches!(error, surefoot_serve::Error::Data(_) | surefoot_serve::Error::Malformed { .. });
        let failure = Failure::new(error);
        if of_logs { failure.hint("surefoot lint shows what is wrong with logs; nothing was stored") } else { failure }
    })?;
    running.answer(&imported, || {
        let mut text = format!(
            "{} records are the history of loop {name}, {} were left out: evidence for lint and evaluations, not for certificates",
            imported.records, imported.left_out
        );
        for warning in &imported.warnings {
            text += &format!("\nwarning  {warning}");
        }
        text
    })
}
