//! Decisions. An event is decided once; whoever asks again gets what was stored.

use surefoot::Policy as _;
use surefoot::logs::Eligible;

use super::{DecideAsk, Decided, Engine, Refusal, keyed};
use crate::config::Mode;
use crate::error::{Error, Result};
use crate::request::DecisionRequest;
use crate::store::{DecisionRow, RewardStatus};

impl Engine {
    pub(super) fn decide(&mut self, ask: &DecideAsk) -> Result<Result<Decided, Refusal>> {
        if let Some(row) = self.store.decision(&ask.event_id)? {
            return Ok(match DecisionRequest::same(&row.request, &ask.request) {
                true => Ok(self.answer(&row, ask, true)),
                false => Err(Refusal::unprocessable(
                    "other-body",
                    format!(
                        "event {} was decided for another request: ask for the same, or give the event another id",
                        ask.event_id
                    ),
                )),
            });
        }
        if self.rules.mode == Mode::Apprentice && ask.baseline.is_none() {
            let detail = "a loop in apprentice mode needs baseline, the action and the propensity of your own policy";
            return Ok(Err(Refusal::unprocessable("baseline", detail)));
        }
        let policy = self.open_round()?;
        let (action, propensity) = match (self.rules.mode, &ask.baseline) {
            (Mode::Apprentice, Some(baseline)) => (baseline.action, baseline.propensity),
            _ => {
                let Some(fingerprint) = policy else {
                    return Err(Error::Malformed {
                        place: format!("loop {}", self.name),
                        reason: "the round has no policy".into(),
                    });
                };
                let policy = self.policy(fingerprint)?;
                let sets = ask.eligible.as_ref().map(|set| Eligible::new([set])).transpose();
                let sets = sets.map_err(|reason| Error::core(&format!("event {}", ask.event_id))(reason))?;
                let sets = ask.candidates.as_ref().map(|candidates| candidates.encoded.clone()).or(sets);
                let key = keyed(&self.secret, ask.event_id.as_bytes());
                let key = u64::from_le_bytes(key[..8].try_into().expect("8 bytes"));
                // One at a time: a decision must not depend on what else was asked at the same moment.
                let drawn = policy.decide_keyed(&ask.context, sets.as_ref(), self.seed, &[key]);
                match drawn {
                    Ok(drawn) => (drawn[0].action, drawn[0].propensity),
                    Err(reason) => return Ok(Err(Refusal::unprocessable("context", reason.to_string()))),
                }
            }
        };
        let position = &mut self.position;
        let row = DecisionRow {
            number: position.decisions,
            event_id: ask.event_id.clone(),
            request: ask.request.clone(),
            action,
            propensity,
            round: position.open.as_ref().map_or(0, |open| open.round),
            policy,
            decided_at: position.time,
            activated_at: (!ask.defer).then_some(position.time),
        };
        self.store.add_decision(&row)?;
        position.decisions += 1;
        position.last_at = row.decided_at;
        if position.parked > 0 && !ask.defer {
            self.settle(&row)?;
        }
        self.close_if_over()?;
        Ok(Ok(self.answer(&row, ask, false)))
    }

    fn answer(&self, row: &DecisionRow, ask: &DecideAsk, again: bool) -> Decided {
        Decided {
            again,
            action: row.action,
            candidate: ask.candidates.as_ref().and_then(|all| all.ids.get(row.action as usize).cloned()),
            propensity: row.propensity,
            policy: row.policy,
            round: row.round,
            reward_until: row.decided_at.saturating_add(self.rules.window.0),
            deferred: ask.defer,
        }
    }

    /// Joins the rewards that came before their decision was drawn, or before it was active.
    pub(super) fn settle(&mut self, row: &DecisionRow) -> Result<()> {
        let rewards = self.store.rewards(&row.event_id)?;
        let parked = rewards.iter().filter(|reward| reward.status == RewardStatus::Parked).count() as u64;
        if parked > 0 {
            self.store.settle_parked(&row.event_id, row.decided_at.saturating_sub(self.rules.window.0))?;
            self.position.parked -= parked;
        }
        Ok(())
    }
}
