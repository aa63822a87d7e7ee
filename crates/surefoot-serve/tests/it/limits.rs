//! What callers may not do, and connections that are encrypted.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use surefoot_serve::config::{ServerConfig, TlsConfig};
use surefoot_serve::{Limits, Server};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto, pki_types};

use crate::common::{SHOP, get, post, request, visit};
use crate::http::{Shop, shop_of};

const DECISIONS: &str = "/v1/loops/shop/decisions";

#[test]
fn slow_callers_are_disconnected_and_many_wait() {
    let limits = Limits { head: Duration::from_millis(200), connections: 2, ..Limits::default() };
    let Shop { to, .. } = &shop_of(SHOP, limits);
    let mut slow: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(*to).unwrap()).collect();
    slow.iter_mut().for_each(|stream| stream.write_all(b"GET /healthz HTT").unwrap());
    // It waits until the slow ones are gone.
    assert_eq!(get(*to, "/healthz").status, 200);
    let mut rest = Vec::new();
    let _ = slow[0].read_to_end(&mut rest);
    assert!(!String::from_utf8_lossy(&rest).contains("200"), "{rest:?}");
}

#[test]
fn a_body_that_does_not_come_ends_the_request() {
    let limits = Limits { request: Duration::from_millis(200), ..Limits::default() };
    let Shop { to, .. } = &shop_of(SHOP, limits);
    let mut slow = TcpStream::connect(*to).unwrap();
    let head =
        format!("POST {DECISIONS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n");
    slow.write_all(head.as_bytes()).unwrap();
    slow.write_all(b"{").unwrap();
    let mut answer = Vec::new();
    let _ = slow.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&answer));
}

#[test]
fn an_answer_that_nobody_reads_ends_the_connection() {
    let limits = Limits { unread: Duration::from_millis(300), connections: 1, ..Limits::default() };
    let Shop { to, .. } = &shop_of(SHOP, limits);
    let mut deaf = TcpStream::connect(*to).unwrap();
    // More than any buffer between the two holds.
    let asked = "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(3000);
    deaf.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let _ = deaf.write_all(asked.as_bytes());
    // The only connection is free again, although the caller is still there.
    assert_eq!(get(*to, "/healthz").status, 200);
    drop(deaf);
}

#[test]
fn bodies_policies_batches_nesting_and_features_are_limited() {
    let limits = Limits { body: 2000, policy: 3000, batch: 2, features: 3, ..Limits::default() };
    let Shop { to, .. } = &shop_of(SHOP, limits);
    let send = |path: &str, kind: &str, body: &[u8]| {
        request(*to, "POST", path, &[&format!("Content-Type: {kind}")], body).status
    };
    let json = "application/json";
    assert_eq!(send(DECISIONS, json, visit(1).to_string().as_bytes()), 201);
    assert_eq!(send(DECISIONS, json, " ".repeat(2001).as_bytes()), 413);
    // A policy may be larger than other bodies.
    for path in ["/v1/loops/shop/policies", "/v1/loops/shop/evaluations"] {
        assert_eq!(send(path, "application/octet-stream", &[0; 2500]), 422, "{path}");
        assert_eq!(send(path, "application/octet-stream", &[0; 3001]), 413, "{path}");
        let form =
            format!("--b\r\nContent-Disposition: form-data; name=\"policy\"\r\n\r\n{}\r\n--b--\r\n", "x".repeat(3001));
        assert_eq!(send(path, "multipart/form-data; boundary=b", form.as_bytes()), 413, "{path}");
    }
    assert_eq!(send(DECISIONS, "application/x-ndjson", "{}\n".repeat(3).as_bytes()), 413);
    let nested = |depth: usize| format!("{{\"context\": {{\"y\": {}{}}}}}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(send(DECISIONS, json, nested(100).as_bytes()), 201);
    assert_eq!(send(DECISIONS, json, nested(130).as_bytes()), 400);
    let wide = json!({ "context": { "a": 1, "b": 1, "c": 1, "d": 1 } });
    assert_eq!(post(*to, DECISIONS, &wide).status, 422);
}

/// A self-signed certificate, in files.
fn certificate(folder: &std::path::Path) -> (TlsConfig, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
    let tls = TlsConfig { certificate: folder.join("cert.pem"), key: folder.join("key.pem") };
    std::fs::write(&tls.certificate, made.cert.pem()).unwrap();
    std::fs::write(&tls.key, made.signing_key.serialize_pem()).unwrap();
    (tls, made.cert.pem())
}

#[test]
fn with_a_certificate_the_server_speaks_tls_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (tls, pem) = certificate(folder.path());
    let text = format!("tls = {{ certificate = {:?}, key = {:?} }}\n{SHOP}", tls.certificate, tls.key);
    let limits = Limits { head: Duration::from_millis(500), connections: 1, ..Limits::default() };
    let Shop { to, .. } = &shop_of(&text, limits);
    // A handshake that does not come ends the connection, and plain HTTP is none.
    let mut silent = TcpStream::connect(*to).unwrap();
    let mut rest = Vec::new();
    let _ = silent.read_to_end(&mut rest);
    assert_eq!(rest, b"");
    let mut plain = TcpStream::connect(*to).unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let _ = plain.read_to_end(&mut rest);
    assert!(!String::from_utf8_lossy(&rest).contains("HTTP"), "{rest:?}");
    let mut roots = RootCertStore::empty();
    roots.add(pki_types::CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let answer = |roots: RootCertStore| -> std::io::Result<String> {
        let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = StreamOwned::new(client, TcpStream::connect(*to).unwrap());
        let body = visit(1).to_string();
        write!(
            stream,
            "POST {DECISIONS} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut text = String::new();
        // The server may end the connection without TLS's farewell.
        let _ = stream.read_to_string(&mut text);
        Ok(text)
    };
    let text = answer(roots).unwrap();
    assert!(text.starts_with("HTTP/1.1 201") && text.contains("\"propensity\""), "{text}");
    assert!(answer(RootCertStore::empty()).unwrap_err().to_string().contains("certificate"));
}

#[test]
fn a_certificate_that_is_none_is_told_with_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let (tls, _) = certificate(folder.path());
    let other = tempfile::tempdir().unwrap();
    let (foreign, _) = certificate(other.path());
    let nothing = folder.path().join("nothing.pem");
    std::fs::write(&nothing, "nothing").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (config, place, said) in [
        (TlsConfig { certificate: nothing.clone(), ..tls.clone() }, "nothing.pem", "a certificate in PEM"),
        (TlsConfig { key: nothing, ..tls.clone() }, "nothing.pem", "a private key in PEM"),
        (TlsConfig { key: folder.path().join("absent.pem"), ..tls.clone() }, "absent.pem", "a private key in PEM"),
        (TlsConfig { key: foreign.key, ..tls.clone() }, "key.pem", "the private key of the certificate"),
    ] {
        let bound = runtime.block_on(Server::bind("127.0.0.1:0".parse().unwrap(), Vec::new(), Limits::default()));
        let found = bound.unwrap().with_tls(Some(&config)).unwrap_err().to_string();
        assert!(found.contains(place) && found.contains(said), "{found}");
    }
    let read = folder.path().join("shop.toml");
    std::fs::write(&read, format!("tls = {{ certificate = \"cert.pem\", key = \"key.pem\" }}\n{SHOP}")).unwrap();
    assert_eq!(ServerConfig::read(&read).unwrap().tls, Some(tls));
}
