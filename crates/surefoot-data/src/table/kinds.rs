//! Decisions of other kinds, which are not contextual bandits of one choice: they are refused by their names.

use super::json::Json;

/// Conditional contextual bandits: an action is chosen for each of several slots.
const CCB: &str = "conditional contextual bandits (CCB), which choose an action for each of several slots";
/// Slates: an action is chosen for each of several slots, and they share one reward.
const SLATES: &str = "slates, which choose several actions with one reward for all of them";
/// Actions on a line.
const CONTINUOUS: &str = "continuous actions (CATS), which are numbers on a line";

/// Why text of another kind is refused.
fn refused(what: &str, by: &str) -> String {
    format!("should be a decision with one choice among actions, but is one of {what} ({by}): these are not read")
}

/// The kind of a line of Vowpal Wabbit's text whose label is not that of a contextual bandit, by its first words.
pub(super) fn of_words(words: &[&str]) -> Option<String> {
    let (what, word) = match words {
        ["ccb", ..] => (CCB, "ccb"),
        ["slates", ..] => (SLATES, "slates"),
        ["ca", ..] => (CONTINUOUS, "ca"),
        _ => return None,
    };
    Some(refused(what, &format!("the line starts with {word}")))
}

/// The kind of an object of Vowpal Wabbit's JSON, with or without the envelope `c`, that is not a contextual bandit.
pub(super) fn of_object(object: &Json<'_>) -> Option<String> {
    let context = object.get("c").unwrap_or(object);
    // A slate has one cost beside its slots, a CCB decision one in each outcome. Its actions may name their slots.
    let slotted = match context.get("_multi") {
        Some(Json::Array(actions)) => actions.iter().any(|action| action.get("_slot_id").is_some()),
        _ => false,
    };
    let with = |object: &Json<'_>, name: &'static str| object.get(name).is_some().then_some(name);
    if slotted {
        return Some(refused(SLATES, "_slot_id"));
    }
    if let Some(by) = with(object, "_outcomes").or(with(context, "_outcomes")).or(with(context, "_slots")) {
        let slate = object.get("_label_cost").is_some() && context.get("_slots").is_some();
        return Some(refused(if slate { SLATES } else { CCB }, by));
    }
    let by = with(object, "_label_ca").or(with(context, "_label_ca"))?;
    Some(refused(CONTINUOUS, by))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_kinds_are_named() {
        let words = |line: &str| of_words(&line.split(' ').collect::<Vec<_>>());
        assert!(words("ccb shared").unwrap().contains("conditional contextual bandits (CCB)"));
        assert!(words("slates action 1").unwrap().contains("slates"));
        assert!(words("ca 1.5:0.2:0.1").unwrap().contains("continuous actions"));
        assert_eq!(words("shared"), None);
        assert_eq!(words("1:0:0.5"), None);
        let object = |text: &str| of_object(&Json::parse(text).unwrap());
        assert!(object(r#"{"c":{"_slots":[{}]},"_outcomes":[{"_label_cost":0}]}"#).unwrap().contains("(CCB)"));
        assert!(object(r#"{"_multi":[{}],"_slots":[{}]}"#).unwrap().contains("(_slots)"));
        assert!(object(r#"{"_label_cost":1,"c":{"_slots":[{}]},"_outcomes":[]}"#).unwrap().contains("slates"));
        assert!(object(r#"{"c":{"_multi":[{"_slot_id":0}],"_slots":[{}]}}"#).unwrap().contains("(_slot_id)"));
        assert!(object(r#"{"c":{},"_label_ca":{"action":1.5}}"#).unwrap().contains("continuous"));
        assert_eq!(object(r#"{"c":{"_multi":[{"a":1}]},"_label_cost":0}"#), None);
    }
}
