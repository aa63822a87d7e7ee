//! The clients of the stores, and the threads on which they work.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path as Key;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use tokio::runtime::{Builder, Runtime};

use crate::error::{Error, Result};

/// Where an object is, or a prefix of objects.
#[derive(Debug, Clone)]
pub(super) struct Location {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) key: Key,
    /// The URL, as the caller wrote it.
    pub(super) place: String,
    pub(super) is_web: bool,
}

impl Location {
    pub(super) fn of(path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        let wrong = |reason: String| Error::Malformed { place: place.clone(), reason };
        let (scheme, rest) = super::split(path).ok_or_else(|| wrong("should be a URL in UTF-8".into()))?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let is_web = matches!(scheme, "http" | "https");
        if !is_web && !matches!(scheme, "s3" | "gs" | "az") {
            return Err(wrong(format!("the scheme should be s3, gs, az, http or https, but is {scheme}")));
        }
        if bucket.is_empty() {
            return Err(wrong(format!("should name a {}", if is_web { "server" } else { "bucket" })));
        }
        if is_web && key.contains(['?', '#']) {
            return Err(wrong("should be the address of a file, without a query, but has one".into()));
        }
        let key = if is_web { Key::from_url_path(key) } else { Key::parse(key) };
        let key = key.map_err(|reason| wrong(format!("is not the name of an object: {reason}")))?;
        let store = client(scheme, bucket).map_err(|reason| wrong(reason.to_string()))?;
        Ok(Location { store, key, place, is_web })
    }
}

/// All clients of a process.
struct Clients {
    /// A process that was forked has none of the threads.
    process: u32,
    runtime: &'static Runtime,
    stores: HashMap<String, Arc<dyn ObjectStore>>,
}

static CLIENTS: Mutex<Option<Clients>> = Mutex::new(None);

fn with_clients<T>(work: impl FnOnce(&mut Clients) -> T) -> io::Result<T> {
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if clients.as_ref().is_none_or(|clients| clients.process != std::process::id()) {
        // The clients need a provider of cryptography for TLS. Another part of the program may have chosen one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("stores").enable_all().build()?;
        let runtime: &'static Runtime = Box::leak(Box::new(runtime));
        *clients = Some(Clients { process: std::process::id(), runtime, stores: HashMap::new() });
    }
    Ok(work(clients.as_mut().expect("it was just made")))
}

/// Begins work on the threads of the clients.
pub(super) fn start<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> io::Result<Receiver<T>> {
    let (sender, receiver) = sync_channel(1);
    with_clients(|clients| {
        clients.runtime.spawn(async move {
            // Nobody listens if the reader was dropped.
            let _ = sender.send(work.await);
        });
    })?;
    Ok(receiver)
}

/// Does work on the threads of the clients, from any thread.
pub(super) fn wait<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
    start(work)?.recv().map_err(|_| io::Error::other("the client of the store failed"))
}

/// How often, and for how long, a request that failed is made again.
fn retries() -> RetryConfig {
    let backoff =
        BackoffConfig { init_backoff: Duration::from_millis(100), max_backoff: Duration::from_secs(3), base: 2.0 };
    RetryConfig { backoff, max_retries: 3, retry_timeout: Duration::from_secs(60) }
}

/// The client of a bucket or server. Its settings are in the environment, so a change there makes another client.
fn client(scheme: &str, bucket: &str) -> std::result::Result<Arc<dyn ObjectStore>, object_store::Error> {
    let mut settings: Vec<_> = std::env::vars_os()
        .filter(|(name, _)| {
            let name = name.to_string_lossy();
            ["AWS_", "GOOGLE_", "AZURE_", "SERVICE_ACCOUNT"].iter().any(|start| name.starts_with(start))
        })
        .collect();
    settings.sort();
    let mut hasher = DefaultHasher::new();
    settings.hash(&mut hasher);
    let name = format!("{scheme}://{bucket} {:016x}", hasher.finish());
    let failed = |reason: io::Error| object_store::Error::Generic { store: "stores", source: reason.into() };
    if let Some(known) = with_clients(|clients| clients.stores.get(&name).cloned()).map_err(failed)? {
        return Ok(known);
    }
    let store: Arc<dyn ObjectStore> = match scheme {
        "s3" => Arc::new(AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retries()).build()?),
        "gs" => Arc::new(GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket).with_retry(retries()).build()?),
        "az" => Arc::new(MicrosoftAzureBuilder::from_env().with_container_name(bucket).with_retry(retries()).build()?),
        _ => {
            // Whoever writes http:// has chosen it.
            let options = ClientOptions::new().with_allow_http(scheme == "http");
            let server = HttpBuilder::new().with_url(format!("{scheme}://{bucket}"));
            Arc::new(server.with_client_options(options).with_retry(retries()).build()?)
        }
    };
    with_clients(|clients| clients.stores.insert(name, store.clone())).map_err(failed)?;
    Ok(store)
}
