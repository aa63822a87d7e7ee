//! Bearer keys. Only their hashes are known here.

use axum::http::{HeaderMap, StatusCode, header};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::problem::Problem;
use crate::config::{KeyConfig, Role};

/// The keys of all callers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keys(Vec<KeyConfig>);

/// The name of a caller where there are no keys.
const ANYBODY: &str = "anybody";

impl Keys {
    pub(crate) fn new(keys: Vec<KeyConfig>) -> Self {
        Keys(keys)
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name of the caller's key, if its bearer may do this. Every key is compared, each in constant time.
    pub(super) fn allow(&self, headers: &HeaderMap, role: Role) -> Result<String, Problem> {
        if self.is_empty() {
            return Ok(ANYBODY.into());
        }
        let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some(key) = sent.and_then(|text| text.strip_prefix("Bearer ")) else {
            let detail = "a header `Authorization: Bearer KEY` is needed";
            return Err(Problem::new(StatusCode::UNAUTHORIZED, "no-key", detail));
        };
        let hash = hex(&Sha256::digest(key.trim().as_bytes()));
        let mut found = None;
        for known in &self.0 {
            if bool::from(known.sha256.to_string().as_bytes().ct_eq(hash.as_bytes())) {
                found = Some(known);
            }
        }
        match found {
            None => Err(Problem::new(StatusCode::UNAUTHORIZED, "unknown-key", "the key is not known")),
            Some(key) if key.roles.contains(&role) || key.roles.contains(&Role::Admin) => Ok(key.name.clone()),
            Some(key) => {
                let role = serde_json::to_string(&role).unwrap_or_default();
                let detail = format!("this needs a key with the role {role}, which {} has not", key.name);
                Err(Problem::new(StatusCode::FORBIDDEN, "role", detail))
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
