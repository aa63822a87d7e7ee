//! `/openapi.json`, made from the handlers.

use axum::response::{IntoResponse, Response};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::{activating, admin, challengers, decisions, erasing, evaluating, reading, rewards};

/// The document.
#[derive(OpenApi)]
#[openapi(
    info(title = "Surefoot", description = "Decisions with exact propensities, rewards, learning and certificates."),
    paths(
        decisions::decide,
        decisions::list,
        decisions::one,
        activating::activate,
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
