//! A real S3 server, which needs no root and no account: PyPI's `moto[server]`. `make test` installs it where it can be had;
//! otherwise the tests that need it say that they are skipped.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The server, with the bucket `bkt`. It ends with this value.
pub(crate) struct Store {
    process: Child,
    pub(crate) port: u16,
}

impl Store {
    /// Starts the server. Without it, says that the test is skipped.
    pub(crate) fn start() -> Option<Self> {
        Store::start_with(&[])
    }

    pub(crate) fn start_with(environment: &[(&str, &str)]) -> Option<Self> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv-stores/bin/moto_server");
        if !program.is_file() {
            eprintln!("SKIPPED: no moto in .venv-stores; make test installs it where the package index can be reached");
            return None;
        }
        let port = free_port();
        let process = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .envs(environment.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let store = Store { process, port };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(120), "moto does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        store.ask("PUT", "/bkt", b"");
        Some(store)
    }

    /// Puts an object into the bucket.
    pub(crate) fn put(&self, key: &str, content: &[u8]) {
        let answer = self.ask("PUT", &format!("/bkt/{key}"), content);
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    }

    /// The content of an object; `None` if there is none.
    pub(crate) fn get(&self, key: &str) -> Option<Vec<u8>> {
        let answer = self.ask("GET", &format!("/bkt/{key}"), b"");
        let body = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
        answer.starts_with(b"HTTP/1.1 200").then(|| answer[body..].to_vec())
    }

    /// The answer to a request. The server does not check signatures, unless it is told to.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: {}\r\nAuthorization: AWS4-HMAC-SHA256 \
             Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0\r\nConnection: close\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
