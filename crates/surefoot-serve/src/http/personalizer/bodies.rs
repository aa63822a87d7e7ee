//! The bodies of Azure Personalizer's calls, and how they map to a loop.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use surefoot_data::Actions;

use crate::engine::Refusal;
use crate::http::problem::Problem;

/// A request for a ranking. Fields that are not named here are ignored.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RankRequest {
    /// The features of the context, as objects. Those in an inner object have its name before their own: `device.os`.
    #[serde(default)]
    pub(super) context_features: Option<Vec<Map<String, Value>>>,
    /// The actions to choose from.
    pub(super) actions: Vec<RankableAction>,
    /// The ids of actions that must not be chosen.
    #[serde(default)]
    pub(super) excluded_actions: Option<Vec<String>>,
    /// The id of the event; a new one if absent.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 256)]
    pub(super) event_id: Option<String>,
    /// Must be false or absent.
    #[serde(default)]
    pub(super) defer_activation: Option<bool>,
}

/// An action to choose from. Its features are ignored: a loop over fixed actions knows an action by its id.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(super) struct RankableAction {
    /// The name of an action of the loop, or its number.
    pub(super) id: String,
}

/// A ranking.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RankResponse {
    /// The actions, the most probable first. One that was excluded has the probability 0.
    pub(super) ranking: Vec<RankedAction>,
    /// The id of the event.
    pub(super) event_id: String,
    /// The action to show, drawn with its probability.
    pub(super) reward_action_id: String,
}

/// An action with its probability.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct RankedAction {
    id: String,
    probability: f64,
}

/// A reward.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(super) struct RewardValue {
    /// The reward, within the range of the loop.
    pub(super) value: f64,
}

/// An error, as Azure Personalizer's clients read it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct ErrorResponse {
    error: ErrorDetail,
}

/// What went wrong.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct ErrorDetail {
    /// `BadRequest`, `Unauthorized`, `ResourceNotFound` or `InternalServerError`.
    code: &'static str,
    /// What is allowed, and what came.
    message: String,
    /// What it is about.
    target: String,
}

/// A call that was refused.
#[derive(Debug)]
pub(in crate::http) struct Fault {
    status: StatusCode,
    detail: ErrorDetail,
}

impl Fault {
    pub(super) fn bad(target: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, target, message.into())
    }

    pub(super) fn missing(target: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, target, message.into())
    }

    fn new(status: StatusCode, target: &str, message: String) -> Self {
        // These clients know one status for everything that is wrong with a request.
        let (status, code) = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => (status, "Unauthorized"),
            StatusCode::NOT_FOUND => (status, "ResourceNotFound"),
            status if status.is_server_error() => (status, "InternalServerError"),
            StatusCode::PAYLOAD_TOO_LARGE => (status, "BadRequest"),
            _ => (StatusCode::BAD_REQUEST, "BadRequest"),
        };
        Fault { status, detail: ErrorDetail { code, message, target: target.into() } }
    }
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        let (status, kind, detail) = problem.parts();
        Fault::new(status, kind, detail)
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Problem::from(refusal).into()
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(ErrorResponse { error: self.detail })).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// Parses a body, whatever content type it says that it has.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(body).map_err(|e| Fault::bad("body", e.to_string()))
}

/// All context features as one object. Inner objects become names with dots.
pub(super) fn context(objects: Vec<Map<String, Value>>) -> Result<Map<String, Value>, Fault> {
    let mut all = Map::new();
    for object in objects {
        flatten("", object, &mut all)?;
    }
    Ok(all)
}

fn flatten(space: &str, object: Map<String, Value>, all: &mut Map<String, Value>) -> Result<(), Fault> {
    for (name, value) in object {
        let name = if space.is_empty() { name } else { format!("{space}.{name}") };
        match value {
            Value::Object(inner) => flatten(&name, inner, all)?,
            value => {
                if all.insert(name.clone(), value).is_some() {
                    let message = format!("a feature should have one value, but {name} has several");
                    return Err(Fault::bad("contextFeatures", message));
                }
            }
        }
    }
    Ok(())
}

/// The actions of a request: their ids, and what the loop calls them.
pub(super) fn offered(actions: &Actions, asked: &[RankableAction]) -> Result<Vec<(String, Value)>, Fault> {
    let mut all: Vec<(String, Value)> = Vec::with_capacity(asked.len());
    for RankableAction { id } in asked {
        let value = place(actions, id).map(|place| crate::request::action_value(actions, place as u32));
        let Some(value) = value else {
            let allowed = match actions {
                Actions::Count(count) => format!("a number below {count}"),
                Actions::Names(names) => format!("one of {}", names.join(", ")),
            };
            let message = format!("id should be {allowed}, as the loop has fixed actions, but is {id:?}");
            return Err(Fault::bad("actions", message));
        };
        if all.iter().any(|(other, _)| other == id) {
            return Err(Fault::bad("actions", format!("ids should differ, but {id:?} comes twice")));
        }
        all.push((id.clone(), value));
    }
    match all.is_empty() {
        true => Err(Fault::bad("actions", "actions should be at least one, but are none")),
        false => Ok(all),
    }
}

/// The number of the action with this id.
fn place(actions: &Actions, id: &str) -> Option<usize> {
    match actions {
        Actions::Names(names) => names.iter().position(|name| name == id),
        Actions::Count(count) => id.parse().ok().filter(|n: &usize| n < count && n.to_string() == id),
    }
}

/// The id of an action.
pub(super) fn id_of(action: &Value) -> String {
    action.as_str().map_or_else(|| action.to_string(), str::to_owned)
}

/// The actions of a request, the most probable first; those with the same probability keep their order. The chosen one has
/// the probability that it was drawn with, to the last bit.
pub(super) fn ranked(
    actions: &Actions,
    offered: &[(String, Value)],
    all: &[f64],
    (chosen, propensity): (&str, f64),
) -> Vec<RankedAction> {
    let probability = |id: &str| match id == chosen {
        true => propensity,
        false => place(actions, id).and_then(|place| all.get(place)).copied().unwrap_or(0.0),
    };
    let mut ranking: Vec<RankedAction> =
        offered.iter().map(|(id, _)| RankedAction { id: id.clone(), probability: probability(id) }).collect();
    ranking.sort_by(|a, b| b.probability.total_cmp(&a.probability));
    ranking
}
