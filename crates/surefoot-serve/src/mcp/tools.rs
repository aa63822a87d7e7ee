//! The tools: what each asks of the service. Their schemas are those of `/openapi.json`.

use axum::http::Method;
use serde_json::{Map, Value, json};

use super::{Fault, INVALID_PARAMS};
use crate::client::Client;
use crate::http::schema;

/// A tool that is called.
#[derive(Debug)]
pub(super) struct Called {
    tool: &'static Tool,
    arguments: Map<String, Value>,
}

/// A tool.
#[derive(Debug)]
struct Tool {
    name: &'static str,
    about: &'static str,
    /// What comes after the name of the loop in its path; `None` if it is about all loops.
    path: Option<&'static str>,
    /// The name of the schema of its body, if it sends one.
    body: Option<&'static str>,
    /// The whole numbers that it takes as parts of the query.
    query: &'static [(&'static str, &'static str)],
}

const TOOLS: [Tool; 7] = [
    Tool { name: "list_loops", about: "List all loops with where they stand.", path: None, body: None, query: &[] },
    Tool {
        name: "decide",
        about: "Choose an action for a context, with its exact probability. The decision is stored. The same event_id with \
                the same context gets the same decision.",
        path: Some("/decisions"),
        body: Some("DecisionRequest"),
        query: &[],
    },
    Tool {
        name: "reward",
        about: "Send what a decision has brought, by its event_id. Rewards count until the decision's reward_until.",
        path: Some("/rewards"),
        body: Some("RewardRequest"),
        query: &[],
    },
    Tool {
        name: "read_loop",
        about: "Read where a loop stands: its policy, its rounds, and whether learning failed.",
        path: Some(""),
        body: None,
        query: &[],
    },
    Tool {
        name: "read_rules",
        about: "Read what a loop has fixed before its first decision: actions, rewards, rounds, gate and delta.",
        path: Some("/rules"),
        body: None,
        query: &[],
    },
    Tool {
        name: "read_rounds",
        about: "Read all rounds of a loop: mean rewards, certified rewards, and why a policy was promoted or not.",
        path: Some("/rounds"),
        body: None,
        query: &[],
    },
    Tool {
        name: "read_certificates",
        about: "Read what is proven, with the assumptions of each proof.",
        path: Some("/certificates"),
        body: None,
        query: &[("from_round", "The first round whose certificates are listed; 0 if absent.")],
    },
];

impl Tool {
    /// The schema of its arguments: those of the body, and the loop.
    fn schema(&self) -> Value {
        let mut schema = self.body.map_or_else(|| json!({ "type": "object", "properties": {} }), schema);
        if let (Some(_), Some(object)) = (self.path, schema.as_object_mut()) {
            object.entry("properties").or_insert_with(|| json!({}))["loop"] =
                json!({ "type": "string", "description": "The name of the loop." });
            for (name, about) in self.query {
                object["properties"][*name] = json!({ "type": "integer", "minimum": 0, "description": about });
            }
            let required = object.entry("required").or_insert_with(|| json!([]));
            required.as_array_mut().into_iter().for_each(|names| names.insert(0, json!("loop")));
        }
        schema["additionalProperties"] = json!(false);
        schema
    }

    fn writes(&self) -> bool {
        self.body.is_some()
    }
}

/// All tools, as `tools/list` gives them.
pub(super) fn listed() -> Vec<Value> {
    let told = |tool: &Tool| {
        json!({
            "name": tool.name,
            "description": tool.about,
            "inputSchema": tool.schema(),
            "annotations": { "readOnlyHint": !tool.writes(), "destructiveHint": false, "openWorldHint": false },
        })
    };
    TOOLS.iter().map(told).collect()
}

impl Called {
    /// The tool and the arguments that a call names.
    pub(super) fn of(mut params: Value) -> Result<Self, String> {
        let name = params["name"].as_str().unwrap_or_default();
        let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
            let known: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
            return Err(format!("name should be one of {}, but is {name:?}", known.join(", ")));
        };
        match params["arguments"].take() {
            Value::Object(arguments) => Ok(Called { tool, arguments }),
            Value::Null => Ok(Called { tool, arguments: Map::new() }),
            other => Err(format!("arguments should be an object, but are {other}")),
        }
    }

    /// The path to ask for. What is left of the arguments is the body.
    fn path(&mut self) -> Result<String, String> {
        let Some(path) = self.tool.path else { return self.nothing_left("/v1/loops".into()) };
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let name = match self.arguments.remove("loop") {
            Some(Value::String(name)) if !name.is_empty() && name.chars().all(fits) => name,
            Some(other) => return Err(format!("loop should be the name of a loop, but is {other}")),
            None => return Err("loop should be the name of a loop, but is absent".into()),
        };
        let mut query = Vec::new();
        for (name, _) in self.tool.query {
            match self.arguments.remove(*name) {
                None => {}
                Some(value) if value.is_u64() => query.push(format!("{name}={value}")),
                Some(value) => return Err(format!("{name} should be a whole number, but is {value}")),
            }
        }
        let mark = if query.is_empty() { "" } else { "?" };
        let path = format!("/v1/loops/{name}{path}{mark}{}", query.join("&"));
        if self.tool.writes() { Ok(path) } else { self.nothing_left(path) }
    }

    fn nothing_left(&self, path: String) -> Result<String, String> {
        match self.arguments.keys().next() {
            None => Ok(path),
            Some(name) => Err(format!("{} takes no argument {name}", self.tool.name)),
        }
    }
}

/// Asks the service. What it refuses is a result that says so: the agent can mend its arguments.
pub(super) async fn call(client: &Client, mut called: Called) -> Result<Value, Fault> {
    let path = called.path().map_err(|text| (INVALID_PARAMS, text))?;
    let (method, body) = match called.tool.writes() {
        true => (Method::POST, Some(Value::Object(called.arguments).to_string().into_bytes())),
        false => (Method::GET, None),
    };
    Ok(match client.ask(method, &path, body).await {
        Err(error) => failed(&error.to_string()),
        Ok(reply) => {
            let text = String::from_utf8_lossy(&reply.body).into_owned();
            match (reply.status, serde_json::from_str::<Value>(&text)) {
                (200..=299, Ok(value)) => {
                    let whole = if value.is_object() { value } else { json!({ "items": value }) };
                    json!({ "content": [{ "type": "text", "text": text }], "structuredContent": whole, "isError": false })
                }
                (_, Ok(problem)) if problem["detail"].is_string() => {
                    failed(problem["detail"].as_str().unwrap_or(&text))
                }
                (status, _) => failed(&format!("the server answers {status}: {text}")),
            }
        }
    })
}

fn failed(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "isError": true })
}
