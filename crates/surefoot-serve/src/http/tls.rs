//! TLS, by rustls.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

use crate::config::TlsConfig;
use crate::error::{Error, Result};

fn wrong(path: &Path, what: &str, reason: impl Display) -> Error {
    Error::Malformed { place: path.display().to_string(), reason: format!("should be {what} in PEM: {reason}") }
}

/// How connections are encrypted. Only HTTP/1.1 is offered.
pub(super) fn configured(config: &TlsConfig) -> Result<Arc<ServerConfig>> {
    let TlsConfig { certificate, key } = config;
    let no_certificate = |reason: &dyn Display| wrong(certificate, "a certificate", reason);
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|reason| no_certificate(&reason))?;
    if chain.is_empty() {
        return Err(no_certificate(&"there is none in it"));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|reason| wrong(key, "a private key", reason))?;
    let mut server = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_no_client_auth())
        .and_then(|builder| builder.with_single_cert(chain, secret))
        .map_err(|reason| wrong(key, "the private key of the certificate", reason))?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(server))
}
