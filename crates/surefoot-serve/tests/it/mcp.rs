//! The Model Context Protocol: what an agent says, line by line, and what it gets.

use serde_json::{Value, json};
use surefoot_serve::{Client, Limits, mcp};

use crate::common::{SHOP, get};
use crate::http::shop_of;

/// The answers to these lines.
fn said(to: std::net::SocketAddr, key: Option<&str>, lines: &[String]) -> Vec<Value> {
    let client = Client::new(&format!("http://{to}"), None).unwrap().with_key(key);
    let mut out = Vec::new();
    mcp(lines.join("\n").as_bytes(), &mut out, &client).unwrap();
    String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn call(id: usize, tool: &str, arguments: &Value) -> String {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}

#[test]
fn an_agent_decides_rewards_and_reads() {
    let shop = shop_of(SHOP, Limits::default());
    let context = json!({ "x": 0.5, "device": "phone" });
    let answers = said(
        shop.to,
        None,
        &[
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } })
            .to_string(),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string(),
            json!({ "jsonrpc": "2.0", "id": "list", "method": "tools/list" }).to_string(),
            call(1, "decide", &json!({ "loop": "shop", "event_id": "a1", "context": context })),
            call(2, "reward", &json!({ "loop": "shop", "event_id": "a1", "reward": 1 })),
            call(3, "read_loop", &json!({ "loop": "shop" })),
            call(4, "read_rounds", &json!({ "loop": "shop" })),
            call(5, "read_certificates", &json!({ "loop": "shop", "from_round": 0 })),
            call(6, "list_loops", &json!({})),
            call(7, "read_rules", &json!({ "loop": "shop" })),
            json!({ "jsonrpc": "2.0", "id": 8, "method": "ping" }).to_string(),
        ],
    );
    // The notification has no answer.
    assert_eq!(answers.len(), 10, "{answers:?}");
    let first = &answers[0]["result"];
    assert_eq!((&first["protocolVersion"], &first["serverInfo"]["name"]), (&json!("2025-03-26"), &json!("surefoot")));
    let tools = answers[1]["result"]["tools"].as_array().unwrap();
    assert_eq!((tools.len(), &answers[1]["id"]), (7, &json!("list")));
    let decide = tools.iter().find(|tool| tool["name"] == "decide").unwrap();
    assert_eq!(decide["inputSchema"]["required"], json!(["loop", "context"]));
    // The schema is that of the service, with nothing left to look up.
    let document = get(shop.to, "/openapi.json").json();
    let described = &document["components"]["schemas"]["DecisionRequest"]["properties"]["event_id"];
    assert_eq!(&decide["inputSchema"]["properties"]["event_id"], described);
    assert!(!answers[1].to_string().contains("$ref"), "{}", answers[1]);
    let result = |place: usize| &answers[place]["result"]["structuredContent"];
    assert_eq!(result(2)["event_id"], "a1");
    assert_eq!(result(3)["outcome"], "joined");
    assert_eq!((&result(4)["decisions"], &result(4)["rewards"]), (&json!(1), &json!(1)));
    assert_eq!(result(5)["items"][0]["round"], 0);
    assert_eq!(result(6)["items"], json!([]));
    assert_eq!(result(7)["items"][0]["name"], "shop");
    assert_eq!(result(8)["gate"], "always");
    assert_eq!(answers[9]["result"], json!({}));
    for answer in &answers[2..9] {
        assert_eq!(answer["result"]["isError"], json!(false));
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        serde_json::from_str::<Value>(text).unwrap();
    }
    let stored = get(shop.to, "/v1/loops/shop/decisions/a1").json();
    assert_eq!((&stored["action"], &stored["rewards"][0]["reward"]), (&result(2)["action"], &json!(1.0)));
}

#[test]
fn what_is_wrong_is_told_by_the_codes_of_the_protocol() {
    let shop = shop_of(SHOP, Limits::default());
    let code = |line: &str| {
        let answers = said(shop.to, None, &[line.to_owned()]);
        assert_eq!(answers.len(), 1, "{line}");
        (answers[0]["error"]["code"].as_i64().unwrap(), answers[0]["error"]["message"].as_str().unwrap().to_owned())
    };
    assert_eq!(code("{").0, -32700);
    assert_eq!(code("[]").0, -32600);
    assert_eq!(code("{\"id\":1}").0, -32600);
    assert_eq!(code("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}").0, -32600);
    let (unknown, text) = code("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\"}");
    assert_eq!(unknown, -32601);
    assert!(text.contains("but is \"resources/list\""), "{text}");
    for (tool, arguments, told) in [
        ("forget", json!({}), "name should be one of list_loops, decide"),
        ("decide", json!([]), "arguments should be an object"),
        ("decide", json!({ "context": {} }), "loop should be the name of a loop, but is absent"),
        ("read_loop", json!({ "loop": "../metrics" }), "loop should be the name of a loop, but is"),
        ("read_loop", json!({ "loop": "shop", "more": 1 }), "read_loop takes no argument more"),
        ("list_loops", json!({ "loop": "shop" }), "list_loops takes no argument loop"),
        ("read_certificates", json!({ "loop": "shop", "from_round": -1 }), "from_round should be a whole number"),
    ] {
        let (code, text) = code(&call(1, tool, &arguments));
        assert_eq!(code, -32602);
        assert!(text.contains(told), "{text}");
    }
    // What the service refuses is a result, so that an agent can mend what it asks.
    let refused = |key: Option<&str>, tool: &str, arguments: &Value| {
        let answers = said(shop.to, key, &[call(1, tool, arguments)]);
        assert_eq!(answers[0]["result"]["isError"], json!(true), "{answers:?}");
        answers[0]["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    };
    let text = refused(None, "reward", &json!({ "loop": "shop", "event_id": "a", "reward": 7 }));
    assert_eq!(text, "reward should be in [0, 1], but is 7");
    let text = refused(None, "read_loop", &json!({ "loop": "other" }));
    assert_eq!(text, "the loop should be one of shop, but is \"other\"");
    // Versions that are not known get the newest one; empty lines get nothing.
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": "1999" } });
    let answers = said(shop.to, None, &[String::new(), hello.to_string()]);
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-11-25");
}

#[test]
fn a_service_that_is_not_there_is_told() {
    let client = Client::new("http://127.0.0.1:1", None).unwrap();
    let mut out = Vec::new();
    mcp(call(1, "list_loops", &json!({})).as_bytes(), &mut out, &client).unwrap();
    let answer: Value = serde_json::from_slice(&out).unwrap();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("the server cannot be asked"), "{text}");
}
