//! The service as others see it: health, logs, traces, a history, and clients that others have written.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

const SHOP: &str = r#"
[[loop]]
name = "shop"
actions = ["red", "green", "blue"]
features = [{ name = "x", kind = "number" }, { name = "device", kind = "category", values = ["phone", "desktop"] }]
reward = { window = "1h" }
round = { records = 40 }
gate = "improvement"
"#;

fn surefoot() -> Command {
    Command::new(env!("CARGO_BIN_EXE_surefoot"))
}

/// A server with one loop, and the lines that it writes.
struct Served {
    folder: tempfile::TempDir,
    server: Child,
    url: String,
    lines: Receiver<String>,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn served(with: impl FnOnce(&mut Command) -> &mut Command) -> Served {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.toml"), SHOP).unwrap();
    let mut command = surefoot();
    command.current_dir(folder.path()).args(["serve", "shop.toml", "--data", "data", "--listen", "127.0.0.1:0"]);
    let mut server = with(&mut command).stderr(Stdio::piped()).spawn().unwrap();
    let (sender, lines) = channel();
    let stderr = BufReader::new(server.stderr.take().unwrap());
    std::thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line))));
    let first: String = lines.recv_timeout(Duration::from_secs(60)).unwrap();
    let url = first.strip_prefix("listening on ").and_then(|rest| rest.split(',').next()).unwrap().to_owned();
    Served { folder, server, url, lines }
}

impl Served {
    /// The whole answer to a request.
    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.url.trim_start_matches("http://")).unwrap();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}");
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn decide(&self, headers: &str) -> String {
        let headers = format!("Content-Type: application/json\r\n{headers}");
        let body = r#"{"event_id":"customer-77","context":{"x":0.125,"device":"phone"}}"#;
        self.ask("POST", "/v1/loops/shop/decisions", &headers, body)
    }

    fn line(&self) -> Value {
        let line = self.lines.recv_timeout(Duration::from_secs(60)).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))
    }
}

#[test]
fn the_health_of_a_server_is_an_exit_code() {
    let shop = served(|command| command);
    let code = |url: &str| {
        let checked = surefoot().args(["serve", "--check-health", url]).output().unwrap();
        (checked.status.code(), String::from_utf8_lossy(&checked.stderr).into_owned())
    };
    assert_eq!(code(&shop.url), (Some(0), String::new()));
    assert_eq!(code(&format!("{}/readyz", shop.url)).0, Some(0));
    let (one, said) = code(&format!("{}/v1/loops/other", shop.url));
    assert!(one == Some(1) && said.contains("should answer 200, but answers 404"), "{said}");
    let url = shop.url.clone();
    drop(shop);
    let (gone, said) = code(&url);
    assert!(gone == Some(1) && said.contains("the server cannot be asked"), "{said}");
    assert!(code("here").1.contains("URL should be an address such as http://127.0.0.1:8080"));
}

#[test]
fn requests_are_logged_as_json_with_their_ids_and_without_what_is_in_them() {
    let shop = served(|command| command.args(["--log", "json"]));
    let answer = shop.decide("X-Request-Id: mine-1\r\n");
    assert!(answer.starts_with("HTTP/1.1 201") && answer.to_lowercase().contains("x-request-id: mine-1"), "{answer}");
    let line = shop.line();
    let told = ["message", "level", "request_id", "method", "route", "loop", "status"].map(|field| line[field].clone());
    let route = "/v1/loops/{loop}/decisions";
    let expected =
        [json!("request"), json!("info"), json!("mine-1"), json!("POST"), json!(route), json!("shop"), json!(201)];
    assert_eq!(told, expected, "{line}");
    assert!(line["milliseconds"].as_f64().unwrap() > 0.0 && line["time"].as_str().unwrap().ends_with('Z'));
    // An id that could break a line is replaced, and a path that names an event is told by its route.
    let answer = shop.ask("GET", "/v1/loops/shop/decisions/customer-77", "X-Request-Id: a b\r\n", "");
    let id = answer.lines().find_map(|line| line.strip_prefix("x-request-id: ")).unwrap();
    let line = shop.line();
    assert_eq!(line["request_id"], json!(id));
    assert_eq!(line["route"], json!("/v1/loops/{loop}/decisions/{event_id}"));
    shop.ask(
        "POST",
        "/v1/loops/shop/rewards",
        "Content-Type: application/json\r\nAuthorization: Bearer my-key\r\n",
        r#"{"event_id":"customer-77","reward":0.625}"#,
    );
    let last = shop.line();
    // What happens in the loop is told too.
    shop.ask("POST", "/v1/loops/shop/decisions", "Content-Type: application/json\r\n", r#"{"context":{"x":0.125}}"#);
    shop.ask("POST", "/v1/loops/shop/rounds/current/close", "", "");
    let more: Vec<Value> = (0..3).map(|_| shop.line()).collect();
    let closed = more.iter().find(|line| line["message"] == "round_closed").unwrap();
    assert_eq!((&closed["loop"], &closed["round"]), (&json!("shop"), &json!(0)));
    for line in [&line, &last].into_iter().chain(&more) {
        let line = line.to_string();
        let secrets = ["customer-77", "phone", "0.125", "0.625", "my-key"];
        assert!(!secrets.iter().any(|secret| line.contains(secret)), "{line}");
    }
}

#[test]
fn without_being_asked_a_server_logs_no_request() {
    let shop = served(|command| command);
    let answer = shop.decide("");
    assert!(answer.to_lowercase().contains("x-request-id: "), "{answer}");
    assert!(shop.lines.recv_timeout(Duration::from_millis(300)).is_err());
}

/// A collector that takes one message, and gives its head and its body.
fn collector() -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, messages) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                if let Some(size) = line.to_lowercase().strip_prefix("content-length: ") {
                    length = size.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
                head += &line;
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
            if sender.send((head, serde_json::from_slice(&body).unwrap())).is_err() {
                return;
            }
        }
    });
    (url, messages)
}

#[test]
fn spans_go_to_a_collector_and_continue_the_trace_of_the_caller() {
    let (url, messages) = collector();
    let shop = served(|command| {
        command
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &url)
            .env("OTEL_SERVICE_NAME", "colours")
            .env("OTEL_EXPORTER_OTLP_HEADERS", "x-team=blue")
    });
    let (trace, caller) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    shop.decide(&format!("traceparent: 00-{trace}-{caller}-01\r\n"));
    // A caller that does not record its trace is not recorded here either.
    shop.ask("GET", "/v1/loops", &format!("traceparent: 00-{}-{caller}-00\r\n", "1".repeat(32)), "");
    shop.ask("GET", "/nowhere", "", "");
    let (head, message) = messages.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(head.starts_with("POST /v1/traces HTTP/1.1") && head.contains("x-team: blue"), "{head}");
    let service = &message["resourceSpans"][0];
    let name = json!([{ "key": "service.name", "value": { "stringValue": "colours" } }]);
    assert_eq!(service["resource"]["attributes"], name);
    let spans = service["scopeSpans"][0]["spans"].as_array().unwrap();
    assert_eq!(spans.len(), 2, "{message}");
    let first = &spans[0];
    assert_eq!((&first["traceId"], &first["parentSpanId"]), (&json!(trace), &json!(caller)));
    assert_eq!((&first["name"], &first["kind"]), (&json!("POST /v1/loops/{loop}/decisions"), &json!(2)));
    let nanoseconds = |field: &str| first[field].as_str().unwrap().parse::<u128>().unwrap();
    assert!(nanoseconds("startTimeUnixNano") < nanoseconds("endTimeUnixNano"));
    let attribute = |key: &str| {
        let all = first["attributes"].as_array().unwrap();
        all.iter().find(|attribute| attribute["key"] == key).unwrap()["value"].clone()
    };
    assert_eq!(attribute("http.response.status_code"), json!({ "intValue": "201" }));
    assert_eq!(attribute("surefoot.loop"), json!({ "stringValue": "shop" }));
    // Without a caller's trace there is a new one.
    assert!(spans[1].get("parentSpanId").is_none() && spans[1]["traceId"].as_str().unwrap().len() == 32);
    assert!(!message.to_string().contains("customer-77"));
}

#[test]
fn logs_become_the_history_of_a_loop() {
    let shop = served(|command| command);
    let folder = shop.folder.path();
    let line = |i: usize| {
        let device = ["phone", "desktop"][i % 2];
        let action = ["red", "green", "blue"][(i * i + i / 3) % 3];
        let reward = u8::from(i.is_multiple_of(5));
        json!({ "event_id": format!("old-{i}"), "action": action, "pscore": 1.0 / 3.0, "reward": reward,
            "x": (i % 7) as f64, "device": device })
    };
    std::fs::write(folder.join("old.jsonl"), (0..60).map(|i| format!("{}\n", line(i))).collect::<String>()).unwrap();
    let import = || {
        let done = surefoot()
            .current_dir(folder)
            .args(["serve", "import", "shop.toml", "old.jsonl", "--data", "data"])
            .output();
        let done = done.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (done.status.code(), text(&done.stdout), text(&done.stderr))
    };
    let (code, out, said) = import();
    assert_eq!(code, Some(0), "{said}");
    let expected = "60 records are the history of loop shop, 0 were left out: evidence for lint and evaluations, not for certificates";
    assert!(out.starts_with(expected), "{out}");
    let told = shop.ask("GET", "/v1/loops/shop/history", "", "");
    assert!(told.starts_with("HTTP/1.1 200") && told.contains("\"records\":60"), "{told}");
    let (code, _, said) = import();
    assert!(code == Some(1) && said.contains("the loop has a history already"), "{said}");
}

/// A Python that has the clients of others.
fn python() -> Option<PathBuf> {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv-clients/bin/python");
    let python = std::env::var_os("SUREFOOT_CLIENTS_PYTHON").map_or(installed, PathBuf::from);
    python.exists().then_some(python)
}

/// What a script with such a client prints; `None` if there is no Python for it.
fn script(name: &str, arguments: &[&str]) -> Option<Value> {
    let Some(python) = python() else {
        eprintln!(
            "SKIPPED: no clients in .venv-clients; make test installs them where the package index can be reached"
        );
        return None;
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name);
    let done = Command::new(python).arg(path).args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(serde_json::from_slice(&done.stdout).unwrap())
}

#[test]
fn the_client_of_the_protocol_s_own_package_decides_and_rewards() {
    let shop = served(|command| command);
    let Some(told) = script("agent.py", &[env!("CARGO_BIN_EXE_surefoot"), &shop.url]) else { return };
    assert_eq!(told["server"], "surefoot");
    assert_eq!(told["tools"].as_array().unwrap().len(), 7);
    assert_eq!((&told["decided"]["event_id"], &told["rewarded"]["outcome"]), (&json!("agent-1"), &json!("joined")));
    assert_eq!(told["refused"], json!([true, "reward should be in [0, 1], but is 9"]));
    assert_eq!((&told["loop"]["decisions"], &told["loop"]["rewards"]), (&json!(1), &json!(1)));
}

#[test]
fn a_client_of_azure_personalizer_needs_another_address_and_nothing_else() {
    let shop = served(|command| command);
    for url in [shop.url.clone(), format!("{}/loops/shop", shop.url)] {
        let Some(told) = script("personalizer.py", &[&url]) else { return };
        assert_eq!(told["event_id"], "sdk-1");
        let ranking = told["ranking"].as_object().unwrap();
        assert_eq!((ranking.len(), &ranking["blue"]), (3, &json!(0.0)));
        assert!(["red", "green"].contains(&told["chosen"].as_str().unwrap()));
        let message = "there is no decision on an event \"sdk-2\"";
        assert_eq!(told["refused"], json!([404, "ResourceNotFound", message]));
    }
}
