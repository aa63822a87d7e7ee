//! The queries, and what is in their rows and columns.

use std::sync::Arc;

use surefoot::Fingerprint;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::State;
use super::link::{Place, Query};
use crate::error::Result;
use crate::store::{Closed, DecisionRow, RewardRow, RewardStatus, RoundRow};

pub(super) const LEASE: &str = "SELECT version, structure, decisions, rewards, parked, time FROM state FOR UPDATE";
pub(super) const LOOK: &str = "SELECT version, structure, decisions, rewards, parked, time FROM state";
pub(super) const SET_STATE: &str =
    "UPDATE state SET version = $1, structure = $2, decisions = $3, rewards = $4, parked = $5, time = $6";
pub(super) const ABOUT: &str = "SELECT value FROM about WHERE name = $1";
pub(super) const SET_ABOUT: &str =
    "INSERT INTO about VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
pub(super) const DECISIONS_OF: &str = "SELECT number, event_id, request, action, propensity, round, policy, decided_at, activated_at \
     FROM decisions WHERE event_id = ANY($1::text[])";
pub(super) const DECIDED_AT_OF: &str =
    "SELECT event_id, decided_at, activated_at IS NOT NULL FROM decisions WHERE event_id = ANY($1::text[])";
pub(super) const DECISIONS_FROM: &str = "SELECT number, event_id, request, action, propensity, round, policy, decided_at, activated_at \
     FROM decisions WHERE number >= $1 ORDER BY number LIMIT $2";
pub(super) const REWARDS_OF: &str = "SELECT event_id, reward_id, value, received_at, status FROM rewards \
                                     WHERE event_id = ANY($1::text[]) ORDER BY number";
pub(super) const COUNTED_OF: &str =
    "SELECT event_id, value FROM rewards WHERE event_id = ANY($1::text[]) AND status = 1 ORDER BY number";
pub(super) const ADD_DECISIONS: &str = "INSERT INTO decisions \
     SELECT * FROM UNNEST($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::float8[], $6::bigint[], $7::text[], \
     $8::bigint[], $9::bigint[])";
pub(super) const ACTIVATE: &str = "UPDATE decisions SET activated_at = $2 WHERE event_id = $1";
pub(super) const ADD_REWARDS: &str = "INSERT INTO rewards \
     SELECT * FROM UNNEST($1::bigint[], $2::text[], $3::text[], $4::float8[], $5::bigint[], $6::bigint[])";
pub(super) const SETTLE: &str = "UPDATE rewards SET status = CASE WHEN received_at >= $2 THEN 1 ELSE 2 END \
                                 WHERE event_id = $1 AND status = 0";
pub(super) const ERASE_REWARDS: &str = "DELETE FROM rewards WHERE event_id = $1";
pub(super) const ERASE_DECISION: &str =
    "UPDATE decisions SET event_id = $2, request = $3, action = $4, propensity = $5 WHERE number = $1";
pub(super) const ROUNDS: &str = "SELECT round, policy, first, opened_at, records, last_at, by_hand, learned_at, report, erased FROM rounds \
     ORDER BY round";
pub(super) const PUT_ROUND: &str = "INSERT INTO rounds (round, policy, first, opened_at, records, last_at, by_hand, erased) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (round) DO UPDATE SET records = excluded.records, \
     last_at = excluded.last_at, by_hand = excluded.by_hand, erased = excluded.erased";
pub(super) const LEARNED: &str =
    "UPDATE rounds SET learned_at = $2, report = $3 WHERE round = $1 AND learned_at IS NULL";
pub(super) const STATEMENTS: &str = "SELECT statement FROM statements ORDER BY number";
pub(super) const ADD_STATEMENT: &str = "INSERT INTO statements (statement) VALUES ($1)";
pub(super) const ACTS: &str = "SELECT at, by, act FROM acts ORDER BY number";
pub(super) const ADD_ACT: &str = "INSERT INTO acts (at, by, act) VALUES ($1, $2, $3)";
/// A round is learned from by the server that says so, until it has not said so for a while. The database's clock counts.
pub(super) const CLAIM: &str = "INSERT INTO learner AS l SELECT true, $1, $2, now() + interval '30 seconds' \
     WHERE EXISTS (SELECT 1 FROM rounds WHERE round = $1 AND learned_at IS NULL) \
     ON CONFLICT (one) DO UPDATE SET round = excluded.round, server = excluded.server, until = excluded.until \
     WHERE l.server = excluded.server OR l.round <> excluded.round OR l.until < now()";
pub(super) const FILE_NAMES: &str = "SELECT name FROM files";
pub(super) const FILE: &str = "SELECT content FROM files WHERE name = $1";
pub(super) const ADD_FILE: &str = "INSERT INTO files VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";

pub(super) fn state(row: &Row) -> State {
    State {
        version: row.get(0),
        structure: row.get(1),
        decisions: row.get(2),
        rewards: row.get(3),
        parked: row.get(4),
        time: row.get(5),
    }
}

pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).expect("counts stay below 2^63")
}

pub(super) fn text(policy: Option<Fingerprint>) -> Option<String> {
    policy.map(|policy| policy.to_string())
}

pub(super) fn policy(place: &Place, text: Option<String>) -> Result<Option<Fingerprint>> {
    text.map(|text| text.parse().map_err(|reason| place.error("read", reason))).transpose()
}

fn unsigned<T: TryFrom<i64>>(place: &Place, value: i64) -> Result<T> {
    T::try_from(value).map_err(|_| place.error("read", format!("{value} where a count should be")))
}

pub(super) fn decision(place: &Place, row: &Row) -> Result<DecisionRow> {
    Ok(DecisionRow {
        number: unsigned(place, row.get(0))?,
        event_id: row.get(1),
        request: row.get(2),
        action: unsigned(place, row.get(3))?,
        propensity: row.get(4),
        round: unsigned(place, row.get(5))?,
        policy: policy(place, row.get(6))?,
        decided_at: row.get(7),
        activated_at: row.get(8),
    })
}

pub(super) fn reward(row: &Row) -> RewardRow {
    let status: i64 = row.get(4);
    RewardRow {
        event_id: row.get(0),
        reward_id: row.get(1),
        value: row.get(2),
        received_at: row.get(3),
        status: match status {
            0 => RewardStatus::Parked,
            1 => RewardStatus::Joined,
            _ => RewardStatus::Late,
        },
    }
}

pub(super) fn round(place: &Place, row: &Row) -> Result<RoundRow> {
    let (records, last_at, by_hand): (Option<i64>, Option<i64>, Option<bool>) = (row.get(4), row.get(5), row.get(6));
    let closed = match (records, last_at, by_hand) {
        (Some(records), Some(last_at), Some(by_hand)) => {
            Some(Closed { records: unsigned(place, records)?, last_at, by_hand })
        }
        _ => None,
    };
    let learned_at: Option<i64> = row.get(7);
    let report: Option<String> = row.get(8);
    Ok(RoundRow {
        round: unsigned(place, row.get(0))?,
        policy: policy(place, row.get(1))?,
        first: unsigned(place, row.get(2))?,
        opened_at: row.get(3),
        closed,
        learned: learned_at.map(|at| (at, report.unwrap_or_default())),
        erased: row.get(9),
    })
}

/// Decisions and rewards by column, so that one query adds all of a kind.
#[derive(Debug, Default)]
pub(super) struct Added<'a> {
    number: Vec<i64>,
    event_id: Vec<&'a str>,
    request: Vec<&'a str>,
    action: Vec<i64>,
    propensity: Vec<f64>,
    round: Vec<i64>,
    policy: Vec<Option<String>>,
    decided_at: Vec<i64>,
    activated_at: Vec<Option<i64>>,
    reward: RewardColumns<'a>,
}

#[derive(Debug, Default)]
struct RewardColumns<'a> {
    number: Vec<i64>,
    event_id: Vec<&'a str>,
    reward_id: Vec<&'a str>,
    value: Vec<f64>,
    received_at: Vec<i64>,
    status: Vec<i64>,
}

impl<'a> Added<'a> {
    pub(super) fn of(decisions: &'a [Arc<DecisionRow>], rewards: &'a [(i64, RewardRow)]) -> Self {
        let mut added = Self::default();
        for row in decisions {
            added.number.push(signed(row.number));
            added.event_id.push(&row.event_id);
            added.request.push(&row.request);
            added.action.push(i64::from(row.action));
            added.propensity.push(row.propensity);
            added.round.push(signed(row.round));
            added.policy.push(text(row.policy));
            added.decided_at.push(row.decided_at);
            added.activated_at.push(row.activated_at);
        }
        let columns = &mut added.reward;
        for (number, row) in rewards {
            columns.number.push(*number);
            columns.event_id.push(&row.event_id);
            columns.reward_id.push(&row.reward_id);
            columns.value.push(row.value);
            columns.received_at.push(row.received_at);
            columns.status.push(row.status as i64);
        }
        added
    }

    /// The queries that add them.
    pub(super) fn writes(&self) -> Vec<Query<'_>> {
        let mut writes: Vec<Query<'_>> = Vec::new();
        if !self.number.is_empty() {
            let Added {
                number, event_id, request, action, propensity, round, policy, decided_at, activated_at, ..
            } = self;
            let columns: [&(dyn ToSql + Sync); 9] =
                [number, event_id, request, action, propensity, round, policy, decided_at, activated_at];
            writes.push((ADD_DECISIONS, columns.to_vec()));
        }
        if !self.reward.number.is_empty() {
            let RewardColumns { number, event_id, reward_id, value, received_at, status } = &self.reward;
            let columns: [&(dyn ToSql + Sync); 6] = [number, event_id, reward_id, value, received_at, status];
            writes.push((ADD_REWARDS, columns.to_vec()));
        }
        writes
    }
}
