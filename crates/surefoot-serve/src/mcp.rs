//! MCP: a server of the Model Context Protocol, over the HTTP API of a running service, so that agents can decide, reward
//! and read certificates.
//!
//! It speaks JSON-RPC 2.0, one message per line. It holds no state and no rule: every tool is a request to the service, and
//! what the service refuses comes back as the tool's error.

mod tools;

use std::io::{BufRead, Read as _, Write};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{Client, block_on};
use crate::error::{Error, Result};
use tools::{Called, call, listed};

/// The versions of the protocol that are spoken, the newest first.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// The longest message, in bytes.
const LONGEST: u64 = 4 << 20;

const PARSE: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const UNKNOWN_METHOD: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// A request, or a notification if it has no id.
#[derive(Debug, Deserialize)]
struct Message {
    jsonrpc: String,
    #[serde(default)]
    id: Option<Value>,
    method: String,
    #[serde(default)]
    params: Value,
}

/// Why a request was not done: a code of JSON-RPC and a text.
type Fault = (i64, String);

/// Answers messages until the input ends.
pub fn mcp(mut input: impl BufRead, mut output: impl Write, client: &Client) -> Result<()> {
    let failed = |reason| Error::System { place: "the standard streams".into(), reason };
    let mut line = Vec::new();
    loop {
        line.clear();
        (&mut input).take(LONGEST).read_until(b'\n', &mut line).map_err(failed)?;
        if line.is_empty() {
            return Ok(());
        }
        let whole = line.ends_with(b"\n") || (line.len() as u64) < LONGEST;
        if whole && line.trim_ascii().is_empty() {
            continue;
        }
        if let Some(answer) = answer(&line, client)? {
            writeln!(output, "{answer}").and_then(|()| output.flush()).map_err(failed)?;
        }
        if !whole {
            let reason = format!("a message should have at most {LONGEST} bytes");
            return Err(Error::Malformed { place: "the standard input".into(), reason });
        }
    }
}

/// The answer to a message; `None` to a notification.
fn answer(line: &[u8], client: &Client) -> Result<Option<Value>> {
    let message: Message = match serde_json::from_slice(line) {
        Ok(message) => message,
        Err(e) => {
            let code = if e.is_data() { INVALID_REQUEST } else { PARSE };
            return Ok(Some(refused(&Value::Null, (code, e.to_string()))));
        }
    };
    let Some(id) = message.id else { return Ok(None) };
    if message.jsonrpc != "2.0" || !(id.is_string() || id.is_number()) {
        let text = "jsonrpc should be \"2.0\", and id a text or a number".to_owned();
        return Ok(Some(refused(&Value::Null, (INVALID_REQUEST, text))));
    }
    let done = match message.method.as_str() {
        "initialize" => Ok(initialized(&message.params)),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({ "tools": listed() })),
        "tools/call" => match Called::of(message.params) {
            Ok(called) => block_on(call(client, called))?,
            Err(text) => Err((INVALID_PARAMS, text)),
        },
        other => {
            let text = format!("method should be initialize, ping, tools/list or tools/call, but is {other:?}");
            Err((UNKNOWN_METHOD, text))
        }
    };
    Ok(Some(match done {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(fault) => refused(&id, fault),
    }))
}

fn refused(id: &Value, (code, message): Fault) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

fn initialized(params: &Value) -> Value {
    let asked = params["protocolVersion"].as_str().unwrap_or_default();
    let version = VERSIONS.into_iter().find(|version| *version == asked).unwrap_or(VERSIONS[0]);
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "surefoot", "version": env!("CARGO_PKG_VERSION") },
        "instructions": "Decide with `decide`, follow the action that comes back, and send what it brought with `reward` \
            before `reward_until`. The same event_id gets the same decision. `read_certificates` says what is proven.",
    })
}
