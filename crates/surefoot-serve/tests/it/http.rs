//! The paths of the service, over real connections.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use surefoot_serve::Limits;
use surefoot_serve::clock::ManualClock;

use crate::common::{SHOP, get, open, post, request, serve, visit};

const DECISIONS: &str = "/v1/loops/shop/decisions";

pub(crate) struct Shop {
    _folder: tempfile::TempDir,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) to: std::net::SocketAddr,
}

pub(crate) fn shop_of(text: &str, limits: Limits) -> Shop {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    clock.set(1_000_000);
    let lp = open(folder.path(), text, &clock);
    let to = serve(&lp, text, limits);
    Shop { _folder: folder, clock, to }
}

fn shop() -> Shop {
    shop_of(SHOP, Limits::default())
}

#[test]
fn an_event_is_decided_once() {
    let Shop { to, clock, .. } = &shop();
    let first = post(*to, DECISIONS, &visit(1));
    assert_eq!(first.status, 201, "{}", first.text());
    let answer = first.json();
    assert_eq!(answer["event_id"], "e1");
    assert!(["red", "green", "blue"].contains(&answer["action"].as_str().unwrap()));
    let p = answer["propensity"].as_f64().unwrap();
    assert!(p > 0.0 && p <= 1.0);
    assert_eq!((&answer["round"], &answer["reward_until"]), (&json!(0), &json!("1970-01-01T00:16:41.000Z")));
    assert_eq!(first.header("surefoot-ledger-head"), answer["ledger_head"].as_str());
    clock.set(2_000_000);
    let again = post(*to, DECISIONS, &visit(1));
    assert_eq!((again.status, &again.json()), (200, &answer));
    // The order of fields, white space and escapes do not count, and the request is shown without its event.
    let context = &visit(1)["context"];
    let (x, device) = (&context["x"], &context["device"]);
    let text = format!(r#"{{ "context": {{"device": {device}, "x": {x}}},{}"event_id": "\u00651" }}"#, '\n');
    let same = request(*to, "POST", DECISIONS, &["Content-Type: application/json"], text.as_bytes());
    assert_eq!((same.status, &same.json()), (200, &answer));
    assert_eq!(get(*to, &format!("{DECISIONS}/e1")).json()["request"], json!({ "context": context }));
    let mut other = visit(1);
    other["context"]["x"] = json!(9);
    let refused = post(*to, DECISIONS, &other);
    assert_eq!(refused.status, 422);
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    assert_eq!(refused.json()["type"], "urn:surefoot:other-body");
    // Without an id, each gets a new one.
    let mut new = visit(1);
    new.as_object_mut().unwrap().remove("event_id");
    let ids: Vec<Value> = (0..2).map(|_| post(*to, DECISIONS, &new).json()["event_id"].clone()).collect();
    assert!(ids[0] != ids[1] && ids[0].as_str().unwrap().len() == 32);
}

#[test]
fn rewards_are_joined_duplicate_late_parked_or_out_of_range() {
    let Shop { to, clock, .. } = &shop();
    let reward =
        |i: usize, reward: Value| post(*to, &format!("{DECISIONS}/e{i}/rewards"), &json!({ "reward": reward }));
    post(*to, DECISIONS, &visit(1));
    let outcome = |answer: crate::common::Answer| (answer.status, answer.json()["outcome"].clone());
    assert_eq!(outcome(reward(1, json!(0.5))), (201, json!("joined")));
    assert_eq!(outcome(reward(1, json!(0.5))), (200, json!("duplicate")));
    let other = reward(1, json!(0.25));
    assert_eq!((other.status, &other.json()["type"]), (422, &json!("urn:surefoot:other-reward")));
    let out = reward(1, json!(1.5));
    assert_eq!((out.status, &out.json()["detail"]), (422, &json!("reward should be in [0, 1], but is 1.5")));
    assert_eq!(outcome(reward(2, json!(1))), (201, json!("parked")));
    post(*to, DECISIONS, &visit(2));
    assert_eq!(outcome(reward(2, json!(1))), (200, json!("duplicate")));
    post(*to, DECISIONS, &visit(3));
    clock.set(1_001_001);
    assert_eq!(outcome(reward(3, json!(1))), (201, json!("late")));
    let status = |i: usize| get(*to, &format!("{DECISIONS}/e{i}")).json()["rewards"][0]["status"].clone();
    assert_eq!([status(1), status(2), status(3)], [json!("joined"), json!("joined"), json!("late")]);
    let any = post(*to, "/v1/loops/shop/rewards", &json!({ "event_id": "e3", "reward_id": "second", "reward": 1 }));
    assert_eq!(outcome(any), (201, json!("late")));
    let none = post(*to, "/v1/loops/shop/rewards", &json!({ "reward": 1 }));
    assert_eq!((none.status, &none.json()["detail"]), (422, &json!("event_id should be given, but is absent")));
}

#[test]
fn a_batch_has_a_status_per_line() {
    let Shop { to, .. } = &shop();
    let body = format!("{}\n{{\"context\": 3}}\n\n{}\nnonsense\n{}\n", visit(1), visit(1), visit(2));
    let answer = request(*to, "POST", DECISIONS, &["Content-Type: application/x-ndjson"], body.as_bytes());
    assert_eq!(answer.status, 200);
    let lines: Vec<Value> = answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let statuses: Vec<u64> = lines.iter().map(|line| line["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [201, 422, 200, 400, 201]);
    assert_eq!(lines[0]["action"], lines[2]["action"]);
    let rewards = "{\"event_id\":\"e1\",\"reward\":1}\n{\"event_id\":\"e1\",\"reward\":7}\n";
    let answer =
        request(*to, "POST", "/v1/loops/shop/rewards", &["Content-Type: application/x-ndjson"], rewards.as_bytes());
    let statuses: Vec<u64> = answer
        .text()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["status"].as_u64().unwrap())
        .collect();
    assert_eq!(statuses, [201, 422]);
}

#[test]
fn a_bad_request_is_told_what_is_allowed_and_what_came() {
    let Shop { to, .. } = &shop_of(SHOP, Limits { body: 4000, batch: 3, features: 5, ..Limits::default() });
    let said = |body: Value| {
        let answer = post(*to, DECISIONS, &body);
        (answer.status, answer.json()["detail"].as_str().unwrap().to_owned())
    };
    for (body, status, detail) in [
        (json!({ "context": { "x": [1] } }), 422, "context: x should be a number, but is [1]"),
        (
            json!({ "context": {}, "eligible": ["pink"] }),
            422,
            "eligible should be one of red, green, blue, but is \"pink\"",
        ),
        (json!({ "context": {}, "eligible": [] }), 422, "eligible should be at least one action, but is empty"),
        (
            json!({ "context": {}, "event_id": "" }),
            422,
            "event_id should be 1 to 256 bytes without control characters, but has 0 bytes",
        ),
        (
            json!({ "context": {}, "baseline": { "action": "red", "propensity": 1 } }),
            422,
            "baseline should be absent, unless the loop is in apprentice mode, but is given",
        ),
        (
            json!({ "contexts": {} }),
            422,
            "unknown field `contexts`, expected one of `event_id`, `context`, `eligible`, `candidates`, `baseline`, `defer` at line 1 column 11",
        ),
        (
            json!({ "context": { "a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1 } }),
            422,
            "context should have at most 5 fields, but has 6",
        ),
    ] {
        assert_eq!(said(body), (status, detail.to_owned()));
    }
    let as_json = ["Content-Type: application/json"];
    let send = |headers: &[&str], body: &[u8]| request(*to, "POST", DECISIONS, headers, body);
    assert_eq!(send(&as_json, b"{").status, 400);
    assert_eq!(send(&as_json, format!("{{\"context\": {{\"x\": {}", "[".repeat(300)).as_bytes()).status, 400);
    assert_eq!(send(&as_json, "9".repeat(5000).as_bytes()).status, 413);
    assert_eq!(send(&["Content-Type: text/plain"], b"{}").status, 415);
    assert_eq!(send(&["Content-Type: application/x-ndjson"], "{}\n".repeat(4).as_bytes()).status, 413);
    let missing = get(*to, "/v1/loops/other");
    assert_eq!(
        (missing.status, &missing.json()["detail"]),
        (404, &json!("the loop should be one of shop, but is \"other\""))
    );
    assert_eq!(get(*to, "/nowhere").status, 404);
    assert_eq!(request(*to, "DELETE", "/v1/loops/shop", &[], b"").status, 405);
    assert_eq!(get(*to, &format!("{DECISIONS}/unknown")).status, 404);
    assert_eq!(get(*to, &format!("{DECISIONS}?limit=0")).status, 422);
    assert_eq!(get(*to, "/v1/loops/shop/policies/..%2Floop.sqlite").status, 404);
}

#[test]
fn keys_have_roles() {
    // The SHA-256 of the keys w, r and a.
    let keys = r#"
        [[key]]
        name = "web"
        roles = ["decide"]
        sha256 = "50e721e49c013f00c62cf59f2163542a9d8df02464efeb615d31051b0fddc326"
        [[key]]
        name = "operator"
        roles = ["admin"]
        sha256 = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
    "#;
    let Shop { to, .. } = &shop_of(&format!("{keys}{SHOP}"), Limits::default());
    let with = |key: &str, method: &str, path: &str, body: &[u8]| {
        let key = format!("Authorization: Bearer {key}");
        request(*to, method, path, &[&key, "Content-Type: application/json"], body)
    };
    let body = visit(1).to_string();
    let nobody = post(*to, DECISIONS, &visit(1));
    assert_eq!((nobody.status, nobody.header("www-authenticate")), (401, Some("Bearer")));
    assert_eq!(with("x", "POST", DECISIONS, body.as_bytes()).status, 401);
    assert_eq!(with("w", "POST", DECISIONS, body.as_bytes()).status, 201);
    assert_eq!(with("w", "GET", DECISIONS, b"").status, 403);
    assert_eq!(with("w", "POST", "/v1/loops/shop/pause", b"").status, 403);
    assert_eq!(with("a", "GET", DECISIONS, b"").status, 200);
    assert_eq!(with("a", "POST", "/v1/loops/shop/pause", b"").status, 200);
    let acts = with("a", "GET", "/v1/loops/shop/acts", b"").json();
    assert_eq!((&acts[0]["by"], &acts[0]["act"]), (&json!("operator"), &json!("pause")));
    assert_eq!(get(*to, "/metrics").status, 401);
    assert_eq!(get(*to, "/healthz").status, 200);
}

#[test]
fn a_round_is_learned_and_everything_can_be_read() {
    let Shop { to, clock, .. } = &shop();
    let mut events = TcpStream::connect(*to).unwrap();
    events.write_all(b"GET /v1/loops/shop/events HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut events = BufReader::new(events);
    let mut line = String::new();
    while line.trim_end() != "" || line.is_empty() {
        line.clear();
        events.read_line(&mut line).unwrap();
    }
    for i in 0..45 {
        post(*to, DECISIONS, &visit(i));
        post(*to, &format!("{DECISIONS}/e{i}/rewards"), &json!({ "reward": f64::from(i as u8 % 2) }));
    }
    clock.set(1_100_000);
    let began = Instant::now();
    let learned = loop {
        let rounds = get(*to, "/v1/loops/shop/rounds").json();
        if rounds[0]["report"].is_object() {
            break rounds;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "{rounds}");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!((&learned[0]["records"], &learned[0]["report"]["mean_reward"]), (&json!(40), &json!(0.5)));
    let status = get(*to, "/v1/loops/shop").json();
    assert_eq!(
        (&status["round"], &status["round_decisions"], &status["decisions"]),
        (&json!(1), &json!(5), &json!(45))
    );
    let next = status["next_policy"].as_str().unwrap();
    assert_ne!(status["policy"].as_str().unwrap(), next);
    assert!(get(*to, "/v1/loops/shop/certificates").json().as_array().unwrap().len() >= 2);
    let ledger: surefoot::audit::Ledger = get(*to, "/v1/loops/shop/ledger").text().parse().unwrap();
    assert_eq!(ledger.head().to_string(), status["ledger_head"].as_str().unwrap());
    let policy = get(*to, &format!("/v1/loops/shop/policies/{next}"));
    assert_eq!((policy.status, policy.body.len() > 100), (200, true));
    let log = get(*to, "/v1/loops/shop/rounds/0/logs?format=jsonl").text();
    assert_eq!(log.lines().count(), 40);
    let record: Value = serde_json::from_str(log.lines().nth(1).unwrap()).unwrap();
    assert_eq!(
        (&record["event_id"], &record["reward"], &record["device"]),
        (&json!("e1"), &json!(1.0), &json!("desktop"))
    );
    assert_eq!(&get(*to, "/v1/loops/shop/rounds/0/logs").body[..4], b"PAR1");
    assert_eq!(get(*to, "/v1/loops/shop/rounds/1/logs").status, 404);
    assert_eq!(get(*to, &format!("{DECISIONS}?from=40&limit=2")).json().as_array().unwrap().len(), 2);
    let metrics = get(*to, "/metrics").text();
    assert!(metrics.contains("surefoot_decisions_total{loop=\"shop\",outcome=\"drawn\"} 45"), "{metrics}");
    let document = get(*to, "/openapi.json").json();
    assert_eq!(document["paths"].as_object().unwrap().len(), 33);
    let rules = get(*to, "/v1/loops/shop/rules").json();
    assert_eq!((&rules["round"]["records"], &rules["reward_range"]), (&json!(40), &json!([0.0, 1.0])));
    for (path, begins) in [("/", "<!doctype html>"), ("/loops/shop", "<!doctype html>"), ("/page/page.js", "// ")] {
        assert!(get(*to, path).text().starts_with(begins), "{path}");
    }
    assert_eq!(get(*to, "/page/page.rs").status, 404);
    let mut told = Vec::new();
    while told.len() < 3 {
        line.clear();
        events.read_line(&mut line).unwrap();
        told.extend(
            line.strip_prefix("data: ").map(|data| serde_json::from_str::<Value>(data).unwrap()["event"].clone()),
        );
    }
    assert_eq!(told, [json!("round_closed"), json!("learning_started"), json!("round_learned")]);
}

#[test]
fn operators_close_pause_resume_and_roll_back() {
    let Shop { to, clock, .. } = &shop();
    let act = |path: &str, body: &Value| post(*to, &format!("/v1/loops/shop/{path}"), body);
    post(*to, DECISIONS, &visit(0));
    let short = act("rounds/current/close", &json!({}));
    assert_eq!((short.status, &short.json()["type"]), (409, &json!("urn:surefoot:round-too-short")));
    for i in 1..10 {
        post(*to, DECISIONS, &visit(i));
        post(*to, &format!("{DECISIONS}/e{i}/rewards"), &json!({ "reward": f64::from(i as u8 % 2) }));
    }
    let first = get(*to, "/v1/loops/shop").json()["policy"].as_str().unwrap().to_owned();
    assert_eq!(act("rounds/current/close", &json!({})).json()["round"], 1);
    clock.set(1_100_000);
    let began = Instant::now();
    while get(*to, "/v1/loops/shop").json()["waiting_rounds"] != 0 {
        assert!(began.elapsed() < Duration::from_secs(120));
        std::thread::sleep(Duration::from_millis(10));
    }
    (10..15).for_each(|i| drop(post(*to, DECISIONS, &visit(i))));
    let second = get(*to, "/v1/loops/shop").json()["policy"].as_str().unwrap().to_owned();
    assert_ne!(first, second);
    assert_eq!(act("rollback", &json!({ "policy": "0".repeat(64) })).status, 422);
    assert_eq!(act("rollback", &json!({ "policy": "zero" })).status, 422);
    let back = act("rollback", &json!({ "policy": first }));
    assert_eq!((back.status, &back.json()["paused"]), (200, &json!(true)));
    post(*to, DECISIONS, &visit(15));
    assert_eq!(get(*to, "/v1/loops/shop").json()["policy"], json!(first));
    assert_eq!(act("resume", &json!({})).json()["paused"], json!(false));
    assert_eq!(act("retrain", &json!({})).status, 409);
    let rounds = get(*to, "/v1/loops/shop/rounds").json();
    assert_eq!(rounds[0]["closed_by_hand"], json!(true));
}
