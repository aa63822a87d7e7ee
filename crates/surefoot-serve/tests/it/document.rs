//! `/openapi.json`, from which others generate clients.

use std::collections::HashSet;

use surefoot_serve::Limits;

use crate::common::{SHOP, get};
use crate::http::shop_of;

/// Operations have names of their own, parameters of a path are those in it, and bodies have all their fields.
#[test]
fn clients_can_be_generated_from_the_document() {
    let shop = shop_of(SHOP, Limits::default());
    let document = get(shop.to, "/openapi.json").json();
    let mut names = HashSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{method} {path}: {name} twice");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let name = parameter["name"].as_str().unwrap();
                let place = if path.contains(&format!("{{{name}}}")) { "path" } else { "query" };
                assert_eq!(parameter["in"], place, "{method} {path}: {name}");
            }
        }
    }
    let request = &document["components"]["schemas"]["DecisionRequest"]["properties"];
    for field in ["event_id", "context", "eligible", "baseline"] {
        assert!(request[field].is_object(), "{field} of {request}");
    }
}
