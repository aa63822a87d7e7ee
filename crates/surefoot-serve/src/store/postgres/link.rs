//! A connection to PostgreSQL for a thread that blocks. It is made when it is needed, and again when it was lost.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use futures_util::future::{join_all, join3};
use tokio::runtime::Runtime;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Row, Statement};

use super::settings::Encryption;
use super::tls::Tls;
use crate::error::{Error, Result};

/// How long the database may take for anything: a step of the engine waits as long, and callers with it.
const LONGEST: Duration = Duration::from_secs(10);

/// The longest name of a schema: PostgreSQL cuts longer ones without a word.
const LONGEST_NAME: usize = 63;

/// What every connection is told. Commits are flushed, whatever the default of the database is. A server that vanishes in
/// the middle of a transaction holds the loop for some seconds only.
const SESSION: &str = "SET synchronous_commit = on; SET idle_in_transaction_session_timeout = '5s'; \
                       SET lock_timeout = '8s'; SET client_min_messages = warning;";

/// Parameters of a query.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];
/// A query with its parameters.
pub(super) type Query<'a> = (&'static str, Vec<&'a (dyn ToSql + Sync)>);

/// A database, and the schema of a loop in it.
#[derive(Debug, Clone)]
pub(super) struct Place {
    config: Config,
    tls: Tls,
    pub(super) schema: String,
}

impl Place {
    /// `database` is a connection string, as libpq takes it.
    pub(super) fn new(database: &str, name: &str) -> Result<Self> {
        let (encryption, database) = Encryption::take(database);
        let (tls, mode) = Tls::new(&encryption)?;
        let mut config: Config = database.parse().map_err(|e| Error::Malformed {
            place: "postgres".into(),
            // The string itself may hold a password.
            reason: format!("the connection string cannot be read: {}", said(&e)),
        })?;
        let schema = format!("surefoot_{name}");
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if schema.len() > LONGEST_NAME || !name.chars().all(fits) {
            let allowed = format!("at most {} letters, digits, - or _", LONGEST_NAME - "surefoot_".len());
            return Err(Error::setting("postgres", "the name of a loop", allowed, format!("{name:?}")));
        }
        config.application_name("surefoot").connect_timeout(LONGEST / 2).ssl_mode(mode);
        Ok(Place { config, tls, schema })
    }

    pub(super) fn error(&self, what: &'static str, reason: impl fmt::Display) -> Error {
        Error::Store { place: format!("PostgreSQL, schema {}", self.schema), what, reason: reason.to_string() }
    }
}

/// PostgreSQL's own words, without those of the crate around them.
fn said(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(reason), _) => reason.message().to_owned(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// A connection, and the statements that were prepared on it.
#[derive(Debug)]
pub(super) struct Connected {
    client: Client,
    prepared: RefCell<HashMap<&'static str, Statement>>,
}

impl Connected {
    async fn prepared(&self, query: &'static str) -> Result<Statement, tokio_postgres::Error> {
        if let Some(known) = self.prepared.borrow().get(query) {
            return Ok(known.clone());
        }
        let made = self.client.prepare(query).await?;
        self.prepared.borrow_mut().insert(query, made.clone());
        Ok(made)
    }

    pub(super) async fn query(&self, query: &'static str, with: Params<'_>) -> Result<Vec<Row>, tokio_postgres::Error> {
        let query = self.prepared(query).await?;
        self.client.query(&query, with).await
    }

    pub(super) async fn execute(&self, query: &'static str, with: Params<'_>) -> Result<u64, tokio_postgres::Error> {
        let query = self.prepared(query).await?;
        self.client.execute(&query, with).await
    }

    /// Sends all queries at once, with commands before and after them, and then waits for the answers. The database works on
    /// them in order, and on none after one that failed; a commit is then none.
    pub(super) async fn together(
        &self,
        before: &str,
        queries: &[Query<'_>],
        after: &str,
    ) -> Result<Vec<Vec<Row>>, tokio_postgres::Error> {
        let mut prepared = Vec::new();
        for (query, _) in queries {
            prepared.push(self.prepared(query).await?);
        }
        let command = async |text: &str| if text.is_empty() { Ok(()) } else { self.batch(text).await };
        // A query is sent when it is first polled, and these are polled in order.
        let queries = join_all(prepared.iter().zip(queries).map(|(query, (_, with))| self.client.query(query, with)));
        let (before, found, after) = join3(command(before), queries, command(after)).await;
        before?;
        let found = found.into_iter().collect::<Result<_, _>>()?;
        after?;
        Ok(found)
    }

    pub(super) async fn batch(&self, queries: &str) -> Result<(), tokio_postgres::Error> {
        self.client.batch_execute(queries).await
    }
}

/// A connection that is made when it is needed.
pub(super) struct Link {
    pub(super) place: Place,
    /// `None` only while this is dropped.
    runtime: Option<Runtime>,
    connected: RefCell<Option<Connected>>,
    /// Whether there is a transaction on it. If it is lost then, so is the lease: no other takes its place.
    transaction: Cell<bool>,
}

impl fmt::Debug for Link {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("schema", &self.place.schema).finish_non_exhaustive()
    }
}

impl Link {
    pub(super) fn new(place: Place) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|reason| Error::System { place: "a connection to PostgreSQL".into(), reason })?;
        Ok(Link { place, runtime: Some(runtime), connected: RefCell::default(), transaction: Cell::new(false) })
    }

    /// Works on the connection.
    pub(super) fn with<T>(
        &self,
        what: &'static str,
        work: impl AsyncFnOnce(&Connected) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T> {
        let runtime = self.runtime.as_ref().expect("there is a runtime until the end");
        let connected = self.connected.take().filter(|connected| !connected.client.is_closed());
        let error = |reason: &dyn fmt::Display| self.place.error(what, reason);
        let work = async {
            let connected = match connected {
                Some(connected) => connected,
                None if !self.transaction.get() => self.connect().await.map_err(|e| error(&said(&e)))?,
                None => return Err(error(&"the connection was lost")),
            };
            let done = work(&connected).await.map_err(|e| error(&said(&e)));
            Ok((connected, done))
        };
        let done = runtime.block_on(async { tokio::time::timeout(LONGEST, work).await });
        // A connection that did not answer in time is not used again.
        let (connected, done) = done.map_err(|_| error(&format!("no answer within {} s", LONGEST.as_secs())))??;
        self.connected.replace(Some(connected));
        done
    }

    async fn connect(&self) -> Result<Connected, tokio_postgres::Error> {
        let (client, connection) = self.place.config.connect(self.place.tls.clone()).await?;
        // Its end is seen by the client.
        tokio::spawn(connection);
        client.batch_execute(&format!("{SESSION} SET search_path = \"{}\"", self.place.schema)).await?;
        Ok(Connected { client, prepared: RefCell::default() })
    }

    pub(super) fn query(&self, query: &'static str, with: Params<'_>) -> Result<Vec<Row>> {
        self.with("read", async |db| db.query(query, with).await)
    }

    /// Begins a transaction with some queries.
    pub(super) fn begin(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<Row>>> {
        self.with("written", async |db| {
            self.transaction.set(true);
            db.together("BEGIN", queries, "").await
        })
    }

    /// Commits the transaction, after some queries in it. If this fails, nobody here knows whether it was committed.
    pub(super) fn commit(&self, queries: &[Query<'_>]) -> Result<()> {
        self.with("written", async |db| {
            db.together("", queries, "COMMIT").await?;
            self.transaction.set(false);
            Ok(())
        })
    }

    /// Ends the transaction, if there is one, and its connection if it cannot be ended otherwise.
    pub(super) fn rollback(&self) {
        if !self.transaction.get() {
            return;
        }
        let done = self.with("written", async |db| db.batch("ROLLBACK").await);
        self.transaction.set(false);
        if done.is_err()
            && let (Some(connected), Some(runtime)) = (self.connected.take(), &self.runtime)
        {
            drop(connected);
            // The end of the connection is sent by the runtime, which works only while somebody waits for it.
            runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // A runtime may not be dropped by a thread of another one in the ordinary way.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
