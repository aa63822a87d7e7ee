//! TLS to PostgreSQL, by rustls. `sslmode` and `sslrootcert` of a connection string mean what they mean to libpq:
//!
//! | sslmode | |
//! | --- | --- |
//! | `disable` | never encrypted |
//! | `prefer`, if none is given | encrypted if the database offers it; nothing is checked |
//! | `require` | encrypted; the certificate is checked if there is an `sslrootcert` |
//! | `verify-ca` | encrypted, and the certificate is signed by one of `sslrootcert` |
//! | `verify-full` | the same, and it is for the host of the connection string |

use std::fmt::{self, Display};
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{self, CryptoProvider};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    self, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio_rustls::{TlsConnector, client};

use super::settings::Encryption;
use crate::error::{Error, Result};

/// How a connection is encrypted.
#[derive(Clone)]
pub(super) struct Tls(Arc<ClientConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// The encryption that a connection string asks for, and the mode of the driver.
    pub(super) fn new(asked: &Encryption) -> Result<(Self, SslMode)> {
        let wrong =
            |setting: &str, allowed: &str, found: &dyn Display| Error::setting("postgres", setting, allowed, found);
        let mode = asked.mode.as_deref().unwrap_or("prefer");
        let driver = match mode {
            "disable" => SslMode::Disable,
            "prefer" => SslMode::Prefer,
            "require" | "verify-ca" | "verify-full" => SslMode::Require,
            other => return Err(wrong("sslmode", "disable, prefer, require, verify-ca or verify-full", &other)),
        };
        let roots = match &asked.root {
            None => None,
            Some(_) if driver != SslMode::Require => {
                let allowed = "absent, unless sslmode is require, verify-ca or verify-full";
                return Err(wrong("sslrootcert", allowed, &"given"));
            }
            Some(path) => Some(Arc::new(roots(Path::new(path))?)),
        };
        let provider = Arc::new(crypto::ring::default_provider());
        let verifier = |roots: Arc<RootCertStore>| {
            WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
                .build()
                .map_err(|reason| wrong("sslrootcert", "the file of root certificates", &reason))
        };
        let checks: Arc<dyn ServerCertVerifier> = match (mode, roots) {
            ("verify-full", Some(roots)) => verifier(roots)?,
            (_, Some(roots)) => Arc::new(AnyName { signer: Some(verifier(roots)?), provider: Arc::clone(&provider) }),
            ("verify-ca" | "verify-full", None) => {
                return Err(wrong("sslrootcert", &format!("a file, because sslmode is {mode}"), &"absent"));
            }
            (_, None) => Arc::new(AnyName { signer: None, provider: Arc::clone(&provider) }),
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|reason| wrong("TLS", "1.2 or 1.3", &reason))?
            .dangerous()
            .with_custom_certificate_verifier(checks)
            .with_no_client_auth();
        Ok((Tls(Arc::new(config)), driver))
    }
}

fn roots(path: &Path) -> Result<RootCertStore> {
    let wrong = |reason: &dyn Display| Error::Malformed {
        place: path.display().to_string(),
        reason: format!("should be root certificates in PEM: {reason}"),
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|reason| wrong(&reason))? {
        let certificate = certificate.map_err(|reason| wrong(&reason))?;
        roots.add(certificate).map_err(|reason| wrong(&reason))?;
    }
    match roots.is_empty() {
        true => Err(wrong(&"there is none in it")),
        false => Ok(roots),
    }
}

/// Takes a certificate for any host: one that is signed by a root, or any at all.
#[derive(Debug)]
struct AnyName {
    signer: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(signer) = &self.signer else { return Ok(ServerCertVerified::assertion()) };
        match signer.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is compared after everything else.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        crypto::verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        crypto::verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// A connection that is about to be encrypted.
pub(super) struct Handshake {
    connector: TlsConnector,
    /// The host; a socket in the file system has none, and is never encrypted.
    host: Option<ServerName<'static>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Encrypted<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        let host = ServerName::try_from(host.to_owned()).ok();
        Ok(Handshake { connector: TlsConnector::from(Arc::clone(&self.0)), host })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Handshake {
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let no_host = || io::Error::new(io::ErrorKind::InvalidInput, "the host should be a name or an address");
            let host = self.host.ok_or_else(no_host)?;
            Ok(Encrypted(self.connector.connect(host, stream).await?))
        })
    }
}

/// An encrypted connection.
pub(super) struct Encrypted<S>(client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> tokio_postgres::tls::TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
