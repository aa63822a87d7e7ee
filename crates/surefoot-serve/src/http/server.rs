//! The server: connections, their limits, and the paths behind them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::middleware::from_fn_with_state;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::{TlsAcceptor, rustls};

use super::keys::Keys;
use super::patience::Patient;
use super::{App, router, telling, tls};
use crate::config::{KeyConfig, TlsConfig};
use crate::error::{Error, Result};
use crate::sequencer::Loop;
use crate::telemetry::Telemetry;

/// What callers may send.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The largest body, in bytes.
    pub body: usize,
    /// The largest policy with the files that it names, in bytes.
    pub policy: usize,
    /// The largest number of lines of a batch.
    pub batch: usize,
    /// The largest number of fields of a context.
    pub features: usize,
    /// The largest number of open connections; more wait until one is closed.
    pub connections: usize,
    /// How long a caller may take to send the head of a request, and how long a connection may be idle.
    pub head: Duration,
    /// How long a request may take, with its body.
    pub request: Duration,
    /// How long a caller may leave an answer unread.
    pub unread: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body: 4 << 20,
            policy: 256 << 20,
            batch: 1000,
            features: 10_000,
            connections: 4096,
            head: Duration::from_secs(30),
            request: Duration::from_secs(60),
            unread: Duration::from_secs(60),
        }
    }
}

/// A server that is listening, before it has loops.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    keys: Vec<KeyConfig>,
    limits: Limits,
    tls: Option<Arc<rustls::ServerConfig>>,
    telemetry: Option<Telemetry>,
}

impl Server {
    /// Listens on an address. Without keys, only this machine may reach it.
    pub async fn bind(listen: SocketAddr, keys: Vec<KeyConfig>, limits: Limits) -> Result<Self> {
        if keys.is_empty() && !listen.ip().is_loopback() {
            let allowed = "an address of this machine only, such as 127.0.0.1, if there are no keys";
            return Err(Error::setting("the server", "listen", allowed, listen));
        }
        let failed = |reason| Error::System { place: format!("cannot listen on {listen}"), reason };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        Ok(Server { listener, keys, limits, tls: None, telemetry: None })
    }

    /// Speaks TLS with this certificate, if there is one.
    pub fn with_tls(mut self, tls: Option<&TlsConfig>) -> Result<Self> {
        self.tls = tls.map(tls::configured).transpose()?;
        Ok(self)
    }

    /// Gives every request an id, and tells what became of it.
    #[must_use]
    pub fn with_telemetry(mut self, telemetry: Telemetry) -> Self {
        self.telemetry = Some(telemetry);
        self
    }

    /// The address that it listens on.
    pub fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().map_err(|reason| Error::System { place: "the address".into(), reason })
    }

    /// Answers for ever.
    pub async fn run(self, loops: impl IntoIterator<Item = Arc<Loop>>) {
        let Server { listener, keys, limits, tls, telemetry } = self;
        let mut router = router(App::new(loops, Keys::new(keys), limits.clone()));
        if let Some(telemetry) = telemetry {
            router = router.layer(from_fn_with_state(telemetry, telling::tell));
        }
        let tls = tls.map(TlsAcceptor::from);
        let open = Arc::new(Semaphore::new(limits.connections));
        loop {
            let Ok(permit) = Arc::clone(&open).acquire_owned().await else { return };
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                // Too many open files, for example: connections that end make room.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            // Answers are small and should not wait for more.
            let _ = stream.set_nodelay(true);
            let service = TowerToHyperService::new(router.clone());
            let (head, tls) = (limits.head, tls.clone());
            let stream = Patient::new(stream, limits.unread);
            tokio::spawn(async move {
                let mut http = hyper::server::conn::http1::Builder::new();
                http.timer(TokioTimer::new()).header_read_timeout(head).max_buf_size(64 << 10);
                // Callers go away at any time; there is nobody to tell.
                match tls {
                    None => drop(http.serve_connection(TokioIo::new(stream), service).await),
                    Some(tls) => {
                        if let Ok(Ok(stream)) = tokio::time::timeout(head, tls.accept(stream)).await {
                            drop(http.serve_connection(TokioIo::new(stream), service).await);
                        }
                    }
                }
                drop(permit);
            });
        }
    }
}
