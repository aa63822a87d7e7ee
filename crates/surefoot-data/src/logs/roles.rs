//! Which column plays which role.

use std::collections::HashMap;
use std::str::FromStr;

use arrow_array::RecordBatch;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The role of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    EventId,
    Timestamp,
    Action,
    Propensity,
    Reward,
    PolicyVersion,
    Eligible,
    Probabilities,
    DropProbability,
    Skip,
    Candidates,
}

impl Role {
    pub(super) const ALL: [Role; 11] = [
        Role::EventId,
        Role::Timestamp,
        Role::Action,
        Role::Propensity,
        Role::Reward,
        Role::PolicyVersion,
        Role::Eligible,
        Role::Probabilities,
        Role::DropProbability,
        Role::Skip,
        Role::Candidates,
    ];

    /// The names by which it is found, our own first.
    pub(super) fn names(self) -> &'static [&'static str] {
        match self {
            Role::EventId => &["event_id", "EventId"],
            Role::Timestamp => &["timestamp", "Timestamp"],
            Role::Action => &["action", "item_id"],
            Role::Propensity => &["pscore", "propensity", "action_prob", "propensity_score"],
            Role::Reward => &["reward", "click", "cost"],
            Role::PolicyVersion => &["policy_version"],
            Role::Eligible => &["eligible"],
            Role::Probabilities => &["probabilities", "pi_b"],
            Role::DropProbability => &["pdrop"],
            Role::Skip => &["skip"],
            Role::Candidates => &["candidates"],
        }
    }

    /// Whether this name is usually not that of a feature.
    pub(crate) fn is_usual(name: &str) -> bool {
        Role::ALL.iter().any(|role| role.names().contains(&name))
    }

    /// Our name for it.
    pub(crate) fn name(self) -> &'static str {
        self.names()[0]
    }
}

/// The column with the negated reward, used if there is no reward column.
pub(crate) const COST: &str = "cost";

/// The names of columns. `None` means that the usual names are searched.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnNames {
    /// The event id: `event_id`.
    pub event_id: Option<String>,
    /// The action: `action` or `item_id`, a number from 0 on or a name.
    pub action: Option<String>,
    /// Its propensity: `pscore`, `propensity`, `action_prob` or `propensity_score`.
    pub propensity: Option<String>,
    /// The reward: `reward` or `click`, or `cost`, the negated reward.
    pub reward: Option<String>,
    /// The version of the policy that made the decision: `policy_version`.
    pub policy_version: Option<String>,
    /// Whether numeric actions are counted from 1.
    pub from_one: bool,
    /// The candidates, lists of objects: `candidates`.
    pub candidates: Option<String>,
    /// The field of a candidate that is its identity: `id`, `_id`, `_tag`, `item_id` or `action_id`.
    pub identity: Option<String>,
    /// How the action names the chosen candidate. `None`: by its identity, if action and identities are both texts or
    /// both numbers, and otherwise by its place.
    pub action_is: Option<ActionIs>,
    /// Whether the places of candidates are the actions, and their features are ignored.
    pub positions: bool,
    /// Whether every row is a candidate, and the rows with the same event id are a record. No row need be
    /// marked as chosen, so that such records can be scored.
    pub rows_are_candidates: bool,
    /// If rows are candidates: the column that marks the chosen one, with 1 or true; or the column of the reward or the
    /// propensity, if only the chosen one has it. A column `chosen` beside event ids is taken for it.
    pub chosen: Option<String>,
    /// If rows are candidates: the columns that are features of candidates. `None`: those that differ between the rows
    /// of some record. A name that ends in `*` matches all columns that begin with what precedes it.
    pub candidate_features: Option<Vec<String>>,
}

impl ColumnNames {
    /// Whether a column of this name is usually not a feature, because readers of logs look for its role under this name.
    pub fn is_usual(name: &str) -> bool {
        Role::is_usual(name)
    }
}

/// How the action names the chosen candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActionIs {
    /// By its place among the candidates of the record, counted from 0, or from 1 if the user says so.
    Place,
    /// By its identity.
    Identity,
}

impl FromStr for ActionIs {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "place" => Ok(ActionIs::Place),
            "identity" => Ok(ActionIs::Identity),
            other => Err(format!("should be place or identity, but is {other}")),
        }
    }
}

impl ColumnNames {
    fn given(&self, role: Role) -> Option<&str> {
        match role {
            Role::EventId => self.event_id.as_deref(),
            Role::Action => self.action.as_deref(),
            Role::Propensity => self.propensity.as_deref(),
            Role::Reward => self.reward.as_deref(),
            Role::PolicyVersion => self.policy_version.as_deref(),
            Role::Candidates => self.candidates.as_deref(),
            _ => None,
        }
    }

    /// Finds the columns of a batch that have a role.
    pub(super) fn find(&self, place: &str, table: &RecordBatch, ragged: bool) -> Result<HashMap<&'static str, usize>> {
        let mut found = HashMap::new();
        for role in Role::ALL {
            if let Some(name) = self.given(role) {
                match table.schema().index_of(name) {
                    Ok(index) => {
                        found.insert(role.name(), index);
                    }
                    // No record of the batch has it.
                    Err(_) if ragged => {}
                    Err(_) => return Err(missing(place, name, table)),
                }
                continue;
            }
            let places: Vec<(&str, usize)> = role
                .names()
                .iter()
                .filter_map(|name| table.schema().index_of(name).ok().map(|index| (*name, index)))
                .collect();
            match places[..] {
                [] => {}
                [(_, index)] => {
                    found.insert(role.name(), index);
                }
                [(one, _), (other, _), ..] => {
                    return Err(Error::Field {
                        place: place.into(),
                        column: format!("the column of the {}", role.name()),
                        allowed: "unique, or named by an option".into(),
                        found: format!("{one} or {other}"),
                    });
                }
            }
        }
        Ok(found)
    }
}

pub(super) fn missing(place: &str, column: &str, table: &RecordBatch) -> Error {
    let schema = table.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let found = if names.is_empty() { "none".into() } else { names.join(", ") };
    Error::MissingColumn { place: place.into(), column: column.into(), found }
}
