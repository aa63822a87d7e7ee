//! Deferred decisions. One counts like any other, as `docs/service.md` argues; its rewards count only if the caller says
//! within its window that it is shown.

use super::{Activation, Engine, Refusal};
use crate::error::Result;

impl Engine {
    pub(super) fn activate(&mut self, event_id: &str) -> Result<Result<Activation, Refusal>> {
        let Some(row) = self.store.decision(event_id)? else { return Ok(Err(Refusal::no_decision(event_id))) };
        if row.activated_at.is_some() {
            return Ok(Ok(Activation::Duplicate));
        }
        let now = self.position.time;
        if now > row.decided_at.saturating_add(self.rules.window.0) {
            return Ok(Ok(Activation::Late));
        }
        self.store.activate(event_id, now)?;
        self.settle(&row)?;
        Ok(Ok(Activation::Activated))
    }
}
