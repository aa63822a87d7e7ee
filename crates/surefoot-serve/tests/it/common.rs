//! A small loop, and a client for its server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use serde_json::{Value, json};
use surefoot::LinearGaussian;
use surefoot_serve::clock::ManualClock;
use surefoot_serve::config::{Rules, ServerConfig};
use surefoot_serve::{Limits, Loop, Server};

/// A loop with 3 actions and 2 features, whose rounds have 40 decisions.
pub(crate) const SHOP: &str = r#"
[[loop]]
name = "shop"
actions = ["red", "green", "blue"]
features = [
    { name = "x", kind = "number" },
    { name = "device", kind = "category", values = ["phone", "desktop"] },
]
reward = { window = "1s" }
round = { records = 40 }
learner = { algorithm = "seq-adj-ls", epochs = 2 }
gate = "always"
"#;

pub(crate) fn rules(text: &str) -> (Rules, LinearGaussian) {
    ServerConfig::parse("shop.toml", text).unwrap().loops[0].resolve("shop.toml").unwrap()
}

/// Opens the loop of this text in a folder.
pub(crate) fn open(folder: &std::path::Path, text: &str, clock: &Arc<ManualClock>) -> Arc<Loop> {
    let (rules, first) = rules(text);
    Arc::new(Loop::open(folder, "shop", rules, first, Arc::clone(clock) as _, 1).unwrap())
}

/// A server on a port of its own, which answers until the test ends.
pub(crate) fn serve(lp: &Arc<Loop>, config: &str, limits: Limits) -> SocketAddr {
    serve_all(vec![Arc::clone(lp)], config, limits)
}

/// The same for several loops.
pub(crate) fn serve_all(loops: Vec<Arc<Loop>>, config: &str, limits: Limits) -> SocketAddr {
    let ServerConfig { keys, tls, .. } = ServerConfig::parse("shop.toml", config).unwrap();
    let (sender, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let server = Server::bind("127.0.0.1:0".parse().unwrap(), keys, limits).await.unwrap();
            let server = server.with_tls(tls.as_ref()).unwrap();
            sender.send(server.address().unwrap()).unwrap();
            server.run(loops).await;
        });
    });
    address.recv().unwrap()
}

/// An answer of a server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let name = format!("{name}: ");
        self.headers.iter().find_map(|line| {
            line.get(..name.len()).filter(|start| start.eq_ignore_ascii_case(&name))?;
            Some(&line[name.len()..])
        })
    }
}

/// One request on a connection of its own.
pub(crate) fn request(to: SocketAddr, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(to).unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
    for header in headers {
        head += &format!("{header}\r\n");
    }
    head += &format!("Content-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).unwrap();
    // A server may refuse a body before it has read all of it.
    let _ = stream.write_all(body);
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
    let mut answer = Answer { status, headers: lines, body: Vec::new() };
    let _ = reader.read_to_end(&mut answer.body);
    answer
}

pub(crate) fn post(to: SocketAddr, path: &str, body: &Value) -> Answer {
    request(to, "POST", path, &["Content-Type: application/json"], body.to_string().as_bytes())
}

pub(crate) fn get(to: SocketAddr, path: &str) -> Answer {
    request(to, "GET", path, &[], b"")
}

/// The request for a decision on event `i`.
pub(crate) fn visit(i: usize) -> Value {
    let device = ["phone", "desktop"][i % 2];
    json!({ "event_id": format!("e{i}"), "context": { "x": (i % 7) as f64 / 3.0 - 1.0, "device": device } })
}
