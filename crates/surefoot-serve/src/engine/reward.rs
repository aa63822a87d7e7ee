//! Rewards. A reward counts if it comes within the window of its decision, once.

use super::{Engine, Refusal, RewardAsk, RewardOutcome, Rewarded};
use crate::config::Aggregation;
use crate::error::Result;
use crate::store::{RewardRow, RewardStatus};

impl Engine {
    pub(super) fn reward(&mut self, ask: &RewardAsk) -> Result<Result<Rewarded, Refusal>> {
        let [lowest, highest] = self.rules.reward_range;
        let within = |x: f64| (lowest..=highest).contains(&x);
        if !within(ask.value) {
            let detail = format!("reward should be in [{lowest}, {highest}], but is {}", ask.value);
            return Ok(Err(Refusal::unprocessable("out-of-range", detail)));
        }
        let others = self.store.rewards(&ask.event_id)?;
        if let Some(same) = others.iter().find(|row| row.reward_id == ask.reward_id) {
            return Ok(match same.value == ask.value {
                true => Ok(Rewarded { outcome: RewardOutcome::Duplicate }),
                false => Err(Refusal::unprocessable(
                    "other-reward",
                    format!(
                        "reward {:?} of event {} is {}, and cannot become {}: a further reward needs a reward_id of its own",
                        ask.reward_id, ask.event_id, same.value, ask.value
                    ),
                )),
            });
        }
        let now = self.position.time;
        let status = match self.store.decided_at(&ask.event_id)? {
            None => RewardStatus::Parked,
            Some((decided_at, _)) if now > decided_at.saturating_add(self.rules.window.0) => RewardStatus::Late,
            Some((_, true)) => RewardStatus::Joined,
            Some((_, false)) => RewardStatus::Parked,
        };
        if self.rules.aggregation == Aggregation::Sum && status != RewardStatus::Late {
            let counted = others.iter().filter(|row| row.status != RewardStatus::Late);
            let sum = counted.map(|row| row.value).sum::<f64>() + ask.value;
            if !within(sum) {
                let detail = format!("the sum of the rewards should be in [{lowest}, {highest}], but would be {sum}");
                return Ok(Err(Refusal::unprocessable("out-of-range", detail)));
            }
        }
        self.store.add_reward(&RewardRow {
            event_id: ask.event_id.clone(),
            reward_id: ask.reward_id.clone(),
            value: ask.value,
            received_at: now,
            status,
        })?;
        self.position.rewards += 1;
        let outcome = match status {
            RewardStatus::Parked => RewardOutcome::Parked,
            RewardStatus::Joined => RewardOutcome::Joined,
            RewardStatus::Late => RewardOutcome::Late,
        };
        self.position.parked += u64::from(status == RewardStatus::Parked);
        Ok(Ok(Rewarded { outcome }))
    }
}
