//! Calls of Azure Personalizer's clients, replayed.

use std::sync::Arc;

use serde_json::{Value, json};
use surefoot_serve::Limits;
use surefoot_serve::clock::ManualClock;

use crate::common::{Answer, get, open, post, request, serve, serve_all};

const LOOP: &str = r#"
[[loop]]
name = "shop"
actions = ["news", "sports", "art"]
features = [
    { name = "daypart", kind = "category", values = ["morning", "evening"] },
    { name = "device.mobile", kind = "number" },
]
reward = { range = [-1, 1], window = "1h", aggregation = "sum" }
round = { records = 100 }
gate = "improvement"
"#;
const KEYED: &str = r#"
[[key]]
name = "site"
roles = ["decide", "reward"]
sha256 = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
"#;

struct Articles {
    _folder: tempfile::TempDir,
    to: std::net::SocketAddr,
}

fn articles(text: &str) -> Articles {
    let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::default()));
    clock.set(1_000_000);
    let lp = open(folder.path(), text, &clock);
    Articles { to: serve(&lp, text, Limits::default()), _folder: folder }
}

/// A body as such clients send it, with features of actions.
fn ranking(event: &str) -> Value {
    json!({
        "contextFeatures": [{ "daypart": "morning" }, { "device": { "mobile": true, "os": "x" } }],
        "actions": [
            { "id": "news", "features": [{ "kind": "text" }] },
            { "id": "sports", "features": [{ "kind": "video" }] },
            { "id": "art", "features": [{ "kind": "text" }] },
        ],
        "excludedActions": ["sports"],
        "eventId": event,
        "deferActivation": false,
    })
}

fn rank(articles: &Articles, body: &Value) -> Answer {
    post(articles.to, "/personalizer/v1.0/rank", body)
}

fn error(answer: &Answer, status: u16, code: &str, text: &str) {
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (status, &json!(code)), "{}", answer.text());
    let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains(text), "{message}");
}

#[test]
fn a_ranking_is_a_decision_of_the_loop_with_its_exact_probability() {
    let articles = articles(LOOP);
    let first = rank(&articles, &ranking("visit-1"));
    assert_eq!(first.status, 201, "{}", first.text());
    let answer = first.json();
    assert_eq!(answer["eventId"], "visit-1");
    let actions = answer["ranking"].as_array().unwrap();
    assert_eq!(actions.len(), 3);
    assert_eq!(actions[2], json!({ "id": "sports", "probability": 0.0 }));
    let sum: f64 = actions.iter().map(|action| action["probability"].as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-9);
    // The stored decision is the one that was told, with the same probability and context.
    let stored = get(articles.to, "/v1/loops/shop/decisions/visit-1").json();
    assert_eq!(stored["action"], answer["rewardActionId"]);
    let told = actions.iter().find(|action| action["id"] == answer["rewardActionId"]).unwrap();
    assert_eq!(told["probability"], stored["propensity"]);
    assert_eq!(stored["request"]["context"], json!({ "daypart": "morning", "device.mobile": true, "device.os": "x" }));
    assert_eq!(stored["request"]["eligible"], json!(["news", "art"]));
    // The same event again is the same answer; the address may name the loop.
    assert_eq!(rank(&articles, &ranking("visit-1")).json(), answer);
    let named = post(articles.to, "/loops/shop/personalizer/v1.0/rank", &ranking("visit-1"));
    assert_eq!((named.status, named.json()), (201, answer));
    // Without an id the server draws one.
    let mut new = ranking("");
    new.as_object_mut().unwrap().remove("eventId");
    assert_eq!(rank(&articles, &new).json()["eventId"].as_str().unwrap().len(), 32);
    let least = rank(&articles, &json!({ "actions": [{ "id": "art" }] }));
    assert_eq!(least.json()["ranking"], json!([{ "id": "art", "probability": 1.0 }]));
}

#[test]
fn a_deferred_ranking_has_no_reward_until_it_is_activated() {
    let articles = articles(LOOP);
    let mut body = ranking("visit-1");
    body["deferActivation"] = json!(true);
    assert_eq!(rank(&articles, &body).status, 201);
    let reward = json!({ "value": 0.5 });
    assert_eq!(post(articles.to, "/personalizer/v1.0/events/visit-1/reward", &reward).status, 204);
    let status = || get(articles.to, "/v1/loops/shop/decisions/visit-1").json()["rewards"][0]["status"].clone();
    assert_eq!(status(), "parked");
    for _ in 0..2 {
        let answer = post(articles.to, "/personalizer/v1.0/events/visit-1/activate", &Value::Null);
        assert_eq!(answer.status, 204, "{}", answer.text());
    }
    assert_eq!(status(), "joined");
}

#[test]
fn every_reward_of_such_a_client_counts_and_every_decision_is_active() {
    let articles = articles(LOOP);
    rank(&articles, &ranking("visit-1"));
    let reward =
        |value: Value| post(articles.to, "/personalizer/v1.0/events/visit-1/reward", &json!({ "value": value }));
    for value in [0.25, 0.25, -0.5] {
        let answer = reward(json!(value));
        assert_eq!((answer.status, answer.body.len()), (204, 0), "{}", answer.text());
    }
    let stored = get(articles.to, "/v1/loops/shop/decisions/visit-1").json();
    let values: Vec<&Value> = stored["rewards"].as_array().unwrap().iter().map(|reward| &reward["reward"]).collect();
    assert_eq!(values, [&json!(0.25), &json!(0.25), &json!(-0.5)]);
    error(&reward(json!(2)), 400, "BadRequest", "reward should be in [-1, 1], but is 2");
    error(&reward(json!("much")), 400, "BadRequest", "invalid type");
    let activate =
        |event: &str| post(articles.to, &format!("/personalizer/v1.0/events/{event}/activate"), &Value::Null);
    assert_eq!(activate("visit-1").status, 204);
    error(&activate("visit-2"), 404, "ResourceNotFound", "there is no decision on an event \"visit-2\"");
}

#[test]
fn what_a_loop_cannot_do_is_refused_in_the_form_of_the_service() {
    let articles = articles(LOOP);
    let refused = |change: &dyn Fn(&mut Value), text: &str| {
        let mut body = ranking("visit-9");
        change(&mut body);
        error(&rank(&articles, &body), 400, "BadRequest", text);
    };
    refused(&|body| body["actions"][0]["id"] = json!("weather"), "id should be one of news, sports, art");
    refused(&|body| body["actions"][0]["id"] = json!("art"), "\"art\" comes twice");
    refused(&|body| body["actions"] = json!([]), "at least one");
    refused(&|body| body["excludedActions"] = json!(["news", "sports", "art"]), "all are excluded");
    refused(&|body| body["contextFeatures"] = json!([{ "daypart": "a" }, { "daypart": "b" }]), "daypart has several");
    refused(
        &|body| body["contextFeatures"] = json!([{ "device": { "mobile": "yes" } }]),
        "device.mobile should be a number",
    );
    refused(&|body| drop(body.as_object_mut().unwrap().remove("actions")), "missing field `actions`");
    assert_eq!(get(articles.to, "/v1/loops/shop").json()["decisions"], 0);
    rank(&articles, &ranking("visit-1"));
    let mut other = ranking("visit-1");
    other["contextFeatures"] = json!([]);
    error(&rank(&articles, &other), 400, "BadRequest", "was decided for another request");
    let unknown = get(articles.to, "/personalizer/v1.0/configurations/service");
    error(&unknown, 404, "ResourceNotFound", "the calls are POST rank");
    let broken = request(articles.to, "POST", "/personalizer/v1.0/rank", &[], b"{");
    error(&broken, 400, "BadRequest", "EOF");
}

#[test]
fn the_key_of_such_a_client_is_the_key_of_the_loop() {
    // printf %s secret | sha256sum
    let articles = articles(&format!("{KEYED}{LOOP}"));
    let body = ranking("visit-1").to_string();
    let with = |headers: &[&str]| request(articles.to, "POST", "/personalizer/v1.0/rank", headers, body.as_bytes());
    error(&with(&[]), 401, "Unauthorized", "is needed");
    error(&with(&["Ocp-Apim-Subscription-Key: wrong"]), 401, "Unauthorized", "the key is not known");
    assert_eq!(with(&["Ocp-Apim-Subscription-Key: secret"]).status, 201);
}

#[test]
fn with_several_loops_the_address_names_one() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::default()));
    let first = open(&folder.path().join("a"), LOOP, &clock);
    let other = LOOP.replace("\"shop\"", "\"offers\"");
    let config = surefoot_serve::config::ServerConfig::parse("x", &other).unwrap();
    let (rules, policy) = config.loops[0].resolve("x").unwrap();
    let place = folder.path().join("b");
    let second = surefoot_serve::Loop::open(&place, "offers", rules, policy, Arc::clone(&clock) as _, 1).unwrap();
    let to = serve_all(vec![first, Arc::new(second)], LOOP, Limits::default());
    let refused = post(to, "/personalizer/v1.0/rank", &ranking("visit-1"));
    error(&refused, 404, "ResourceNotFound", "/loops/offers/personalizer/v1.0");
    let answer = post(to, "/loops/offers/personalizer/v1.0/rank", &ranking("visit-1"));
    assert_eq!(answer.status, 201, "{}", answer.text());
}
