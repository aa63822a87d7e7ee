//! TLS to PostgreSQL. The database is a real one; that of `pgserver` is built without TLS, so a proxy in front of it answers
//! the request for TLS as PostgreSQL does, and decrypts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use surefoot_serve::store::{PostgresStore, Reader as _, Store as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, crypto};

use crate::postgres::Postgres;

/// What a client sends that wants TLS: the length 8 and a code.
const WANTS_TLS: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

struct Proxy {
    port: u16,
    /// Connections that were encrypted, and that were not.
    encrypted: Arc<AtomicUsize>,
    plain: Arc<AtomicUsize>,
}

/// A proxy to a database, with this certificate; without one, it offers no TLS.
fn proxy(database: &Postgres, with: Option<rcgen::CertifiedKey<rcgen::KeyPair>>) -> Proxy {
    let acceptor = with.map(|made| {
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    });
    let [encrypted, plain] = [Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0))];
    let (sender, port) = std::sync::mpsc::channel();
    let counts = (Arc::clone(&encrypted), Arc::clone(&plain));
    let socket = database.socket();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap().port()).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(pass(stream, acceptor.clone(), socket.clone(), counts.clone()));
            }
        });
    });
    Proxy { port: port.recv().unwrap(), encrypted, plain }
}

async fn pass(
    mut stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    socket: PathBuf,
    (encrypted, plain): (Arc<AtomicUsize>, Arc<AtomicUsize>),
) -> std::io::Result<()> {
    let mut database = UnixStream::connect(socket).await?;
    let mut first = [0; 8];
    stream.read_exact(&mut first).await?;
    if first == WANTS_TLS {
        let Some(acceptor) = acceptor else {
            stream.write_all(b"N").await?;
            plain.fetch_add(1, Ordering::SeqCst);
            copy_bidirectional(&mut stream, &mut database).await?;
            return Ok(());
        };
        stream.write_all(b"S").await?;
        let mut stream = acceptor.accept(stream).await?;
        encrypted.fetch_add(1, Ordering::SeqCst);
        copy_bidirectional(&mut stream, &mut database).await?;
    } else {
        plain.fetch_add(1, Ordering::SeqCst);
        database.write_all(&first).await?;
        copy_bidirectional(&mut stream, &mut database).await?;
    }
    Ok(())
}

/// A certificate for `localhost`, and the file of it.
fn certificate(folder: &Path, name: &str) -> (rcgen::CertifiedKey<rcgen::KeyPair>, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, made.cert.pem()).unwrap();
    (made, path.display().to_string())
}

/// Opens a store and writes to it.
fn used(database: &str) -> Result<(), String> {
    let mut store = PostgresStore::open(database, "shop").map_err(|e| e.to_string())?;
    let done = store.begin().and_then(|()| store.pin(None)).and_then(|()| store.commit()).and_then(|()| store.ends());
    done.map(|_| ()).map_err(|e| e.to_string())
}

#[test]
fn a_store_is_encrypted_as_its_connection_string_says_and_a_wrong_root_is_refused() {
    let Some(database) = Postgres::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (made, root) = certificate(folder.path(), "root.pem");
    let (_, other) = certificate(folder.path(), "other.pem");
    let tls = proxy(&database, Some(made));
    let none = proxy(&database, None);
    let at = |proxy: &Proxy, host: &str, rest: &str| {
        let port = proxy.port;
        format!("host={host} hostaddr=127.0.0.1 port={port} user=postgres dbname=postgres {rest}")
    };
    let counted = |proxy: &Proxy| (proxy.encrypted.load(Ordering::SeqCst), proxy.plain.load(Ordering::SeqCst));
    let quoted = |mode: &str, root: &str| format!("sslmode={mode} sslrootcert='{root}'");
    // Where, with which settings, and whether it is encrypted then; `None` if it is refused.
    for (proxy, host, settings, works) in [
        (&tls, "localhost", quoted("verify-full", &root), Some(true)),
        (&tls, "localhost", quoted("verify-full", &other), None),
        (&tls, "db.example", quoted("verify-full", &root), None),
        (&tls, "db.example", quoted("verify-ca", &root), Some(true)),
        (&tls, "db.example", quoted("verify-ca", &other), None),
        (&tls, "localhost", "sslmode=require".into(), Some(true)),
        (&tls, "localhost", quoted("require", &root), Some(true)),
        (&tls, "localhost", quoted("require", &other), None),
        (&tls, "localhost", String::new(), Some(true)),
        (&tls, "localhost", "sslmode=disable".into(), Some(false)),
        (&none, "localhost", String::new(), Some(false)),
        (&none, "localhost", "sslmode=prefer".into(), Some(false)),
        (&none, "localhost", "sslmode=require".into(), None),
        (&none, "localhost", quoted("verify-full", &root), None),
    ] {
        let before = counted(proxy);
        let done = used(&at(proxy, host, &settings));
        let after = counted(proxy);
        match works {
            None => {
                let said = done.unwrap_err();
                assert!(said.contains("certificate") || said.contains("does not support TLS"), "{settings}: {said}");
                assert_eq!(after.0, before.0, "{settings}");
            }
            Some(encrypted) => {
                assert_eq!(done, Ok(()), "{host} {settings}");
                assert_eq!((after.0 > before.0, after.1 > before.1), (encrypted, !encrypted), "{settings}");
            }
        }
    }
    // The same in the form of a URL.
    let escaped = root.replace('/', "%2F");
    let url =
        format!("postgresql://postgres@localhost:{}/postgres?sslmode=verify-full&sslrootcert={escaped}", tls.port);
    assert_eq!(used(&url), Ok(()));
}

#[test]
fn encryption_that_cannot_be_is_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = folder.path().join("nothing.pem");
    std::fs::write(&nothing, "nothing").unwrap();
    let nothing = nothing.display();
    for (settings, said) in [
        (
            "sslmode=verify-full".to_owned(),
            "sslrootcert should be a file, because sslmode is verify-full, but is absent",
        ),
        ("sslmode=maybe".into(), "sslmode should be disable, prefer, require, verify-ca or verify-full, but is maybe"),
        ("sslrootcert=x".into(), "sslrootcert should be absent, unless sslmode is require, verify-ca or verify-full"),
        (format!("sslmode=require sslrootcert={nothing}"), "should be root certificates in PEM: there is none in it"),
        ("sslmode=require sslrootcert=/absent.pem".into(), "/absent.pem: should be root certificates in PEM"),
    ] {
        let found = used(&format!("host=localhost user=postgres {settings}")).unwrap_err();
        assert!(found.contains(said), "{found}\n  should contain {said}");
    }
}
