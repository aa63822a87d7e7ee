//! CLIENT: single requests to a server, for the commands that ask one.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::uri::Scheme;
use axum::http::{Method, Request, Uri, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::error::{Error, Result};

/// The largest answer, in bytes.
const LARGEST: usize = 64 << 20;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that is asked.
#[derive(Clone)]
pub struct Client {
    url: Uri,
    host: String,
    /// Headers of every request.
    headers: Vec<(String, String)>,
    tls: Option<TlsConnector>,
}

impl std::fmt::Debug for Client {
    /// Without headers, which have keys in them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("url", &self.url).finish_non_exhaustive()
    }
}

/// What a server has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The status of HTTP.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

impl Client {
    /// Asks the server with this address: `http://...`, or `https://...` with the file of the certificates, in PEM, that
    /// are trusted.
    pub fn new(url: &str, trusted: Option<&Path>) -> Result<Self> {
        let wrong = |found: &dyn Display| {
            Error::setting("the server to ask", "URL", "an address such as http://127.0.0.1:8080", found)
        };
        let parsed: Uri = url.parse().map_err(|e| wrong(&format!("{url}: {e}")))?;
        let host = parsed.host().ok_or_else(|| wrong(&url))?.trim_matches(['[', ']']).to_owned();
        let tls = match (parsed.scheme(), trusted) {
            (Some(scheme), _) if *scheme == Scheme::HTTP => None,
            (Some(scheme), Some(file)) if *scheme == Scheme::HTTPS => Some(connector(file)?),
            (Some(scheme), None) if *scheme == Scheme::HTTPS => {
                let allowed = "given, as a file of trusted certificates in PEM, if the address is https";
                return Err(Error::setting("the server to ask", "ca", allowed, "absent"));
            }
            _ => return Err(wrong(&url)),
        };
        Ok(Client { url: parsed, host, headers: Vec::new(), tls })
    }

    /// Sends a header with every request.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sends a key with every request, if there is one.
    #[must_use]
    pub fn with_key(self, key: Option<&str>) -> Self {
        match key {
            Some(key) => self.with_header("Authorization", &format!("Bearer {key}")),
            None => self,
        }
    }

    /// The path of the address, without `/` at its end.
    pub fn path(&self) -> &str {
        self.url.path().trim_end_matches('/')
    }

    /// Asks for a path below that of the address. A body is JSON.
    pub async fn ask(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Reply> {
        let asked = tokio::time::timeout(PATIENCE, self.exchange(method, path, body)).await;
        asked.unwrap_or_else(|_| Err(self.failed("no answer came within 60 s")))
    }

    async fn exchange(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Reply> {
        let port = self.url.port_u16().unwrap_or(if self.tls.is_some() { 443 } else { 80 });
        let stream = TcpStream::connect((self.host.as_str(), port)).await.map_err(|e| self.failed(e))?;
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.path()));
        request = request.header(header::HOST, self.url.authority().map_or("", |authority| authority.as_str()));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request.body(Body::from(body.unwrap_or_default())).map_err(|e| self.failed(e))?;
        match &self.tls {
            None => self.talk(stream, request).await,
            Some(tls) => {
                let name = ServerName::try_from(self.host.clone()).map_err(|e| self.failed(e))?;
                self.talk(tls.connect(name, stream).await.map_err(|e| self.failed(e))?, request).await
            }
        }
    }

    async fn talk(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        request: Request<Body>,
    ) -> Result<Reply> {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| self.failed(e))?;
        tokio::spawn(connection);
        let answer = sender.send_request(request).await.map_err(|e| self.failed(e))?;
        let status = answer.status().as_u16();
        let body = to_bytes(Body::new(answer.into_body()), LARGEST).await.map_err(|e| self.failed(e))?;
        Ok(Reply { status, body: body.into() })
    }

    fn failed(&self, reason: impl Display) -> Error {
        Error::Malformed { place: self.url.to_string(), reason: format!("the server cannot be asked: {reason}") }
    }
}

fn connector(trusted: &Path) -> Result<TlsConnector> {
    let wrong = |reason: &dyn Display| Error::Malformed {
        place: trusted.display().to_string(),
        reason: format!("should be certificates in PEM: {reason}"),
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(trusted).map_err(|e| wrong(&e))? {
        roots.add(certificate.map_err(|e| wrong(&e))?).map_err(|e| wrong(&e))?;
    }
    if roots.is_empty() {
        return Err(wrong(&"there is none in it"));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| wrong(&e))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Runs a future on this thread, until it is done.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|reason| Error::System { place: "a runtime".into(), reason })?;
    Ok(runtime.block_on(work))
}

/// Asks a server whether it answers: `/healthz`, unless the address has a path, such as `/readyz`.
pub fn check_health(url: &str, trusted: Option<&Path>) -> Result<()> {
    let client = Client::new(url, trusted)?;
    let path = if client.path().is_empty() { "/healthz" } else { "" };
    let reply = block_on(client.ask(Method::GET, path, None))??;
    match reply.status {
        200 => Ok(()),
        status => {
            let said: String = String::from_utf8_lossy(&reply.body).trim().chars().take(300).collect();
            Err(Error::Malformed {
                place: url.into(),
                reason: format!("should answer 200, but answers {status}: {said}"),
            })
        }
    }
}
