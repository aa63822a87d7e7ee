//! `/openapi.json`, made from the handlers.

use axum::response::{IntoResponse, Response};
use serde_json::Value;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::{activity, admin, challengers, decisions, erasing, evaluating, personalizer, reading, rewards};

/// The document.
#[derive(OpenApi)]
#[openapi(
    info(title = "Surefoot", description = "Decisions with exact propensities, rewards, learning and certificates."),
    paths(
        decisions::decide,
        decisions::list,
        decisions::one,
        rewards::any,
        rewards::of_event,
        reading::loops,
        reading::status,
        reading::rules,
        reading::rounds,
        reading::logs,
        reading::policy,
        reading::certificates,
        reading::ledger,
        reading::acts,
        reading::events,
        activity::activity,
        evaluating::history,
        evaluating::lint,
        evaluating::evaluate,
        reading::healthz,
        reading::readyz,
        reading::metrics,
        admin::close,
        admin::pause,
        admin::resume,
        admin::rollback,
        admin::retrain,
        challengers::bring,
        challengers::list,
        erasing::erase,
        personalizer::rank_path,
        personalizer::reward_path,
        personalizer::activate_path,
    ),
    components(schemas(reading::LogFormat)),
    modifiers(&Bearer)
)]
struct Document;

/// Keys are sent as bearer tokens.
struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("key", scheme);
    }
}

pub(super) async fn document() -> Response {
    match Document::openapi().to_json() {
        Ok(text) => ([("content-type", "application/json")], text).into_response(),
        Err(_) => axum::http::StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// The schema of a body by the name of its type, with everything that it names in place.
pub(crate) fn schema(name: &str) -> Value {
    let document = serde_json::to_value(Document::openapi()).unwrap_or_default();
    let mut found = document["components"]["schemas"][name].clone();
    in_place(&mut found, &document["components"]["schemas"]);
    found
}

/// Puts what is named where its name is. Types of bodies do not name themselves.
fn in_place(value: &mut Value, schemas: &Value) {
    if let Some(name) = value.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
        *value = schemas[name].clone();
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|inner| in_place(inner, schemas)),
        Value::Array(list) => list.iter_mut().for_each(|inner| in_place(inner, schemas)),
        _ => {}
    }
}
