//! Decisions of which it is not certain yet that they are shown.

use serde_json::{Value, json};
use surefoot_serve::Limits;

use crate::common::{Answer, SHOP, get, post, request, visit};
use crate::http::{Shop, shop_of};

const DECISIONS: &str = "/v1/loops/shop/decisions";

fn later(i: usize) -> Value {
    let mut asked = visit(i);
    asked["defer"] = json!(true);
    asked
}

#[test]
fn the_rewards_of_a_deferred_decision_count_if_it_is_activated_within_its_window() {
    let Shop { to, clock, .. } = &shop_of(&SHOP.replace("records = 40", "records = 4"), Limits::default());
    let outcome = |answer: Answer| (answer.status, answer.json()["outcome"].clone());
    let reward = |i: usize| outcome(post(*to, &format!("{DECISIONS}/e{i}/rewards"), &json!({ "reward": 1 })));
    let activate = |i: usize| request(*to, "POST", &format!("{DECISIONS}/e{i}/activate"), &[], b"");
    let first = post(*to, DECISIONS, &later(0));
    assert_eq!((first.status, &first.json()["deferred"]), (201, &json!(true)));
    // Whoever asks the same gets the same; to defer is part of what is asked.
    let again = post(*to, DECISIONS, &later(0));
    assert_eq!((again.status, again.json()), (200, first.json()));
    assert_eq!(post(*to, DECISIONS, &visit(0)).json()["type"], json!("urn:surefoot:other-body"));
    for i in 1..4 {
        assert_eq!(post(*to, DECISIONS, &later(i)).status, 201);
    }
    assert_eq!(get(*to, &format!("{DECISIONS}/e0")).json()["activated_at"], Value::Null);
    // Before and after the activation.
    assert_eq!(reward(0), (201, json!("parked")));
    clock.set(1_000_400);
    assert_eq!(outcome(activate(0)), (200, json!("activated")));
    assert_eq!(outcome(activate(0)), (200, json!("duplicate")));
    let stored = get(*to, &format!("{DECISIONS}/e0")).json();
    assert_eq!(stored["activated_at"], json!("1970-01-01T00:16:40.400Z"));
    assert_eq!((&stored["rewards"][0]["status"], &stored["request"]["defer"]), (&json!("joined"), &json!(true)));
    assert_eq!(outcome(activate(1)), (200, json!("activated")));
    assert_eq!(reward(1), (201, json!("joined")));
    // A reward alone does not activate, and an activation may come too late.
    assert_eq!(reward(2), (201, json!("parked")));
    clock.set(1_001_001);
    assert_eq!(outcome(activate(2)), (200, json!("late")));
    // Every decision is in the round, with the default reward where nothing was shown.
    let log = get(*to, "/v1/loops/shop/rounds/0/logs?format=jsonl").text();
    let rewards: Vec<f64> =
        log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["reward"].as_f64().unwrap()).collect();
    assert_eq!(rewards, [1.0, 1.0, 0.0, 0.0]);
}

#[test]
fn what_cannot_be_deferred_or_activated_is_refused_by_name() {
    let Shop { to, .. } = &shop_of(SHOP, Limits::default());
    let activate = |id: &str| request(*to, "POST", &format!("{DECISIONS}/{id}/activate"), &[], b"");
    let unknown = activate("e9");
    assert_eq!((unknown.status, &unknown.json()["type"]), (404, &json!("urn:surefoot:no-such-event")));
    assert_eq!(activate("erased:1").status, 422);
    // What was not deferred is active at once.
    post(*to, DECISIONS, &visit(1));
    assert_eq!(activate("e1").json()["outcome"], json!("duplicate"));
    let mut asked = visit(2);
    asked["defer"] = json!("yes");
    assert_eq!(post(*to, DECISIONS, &asked).status, 422);
    let shadow = SHOP.replace("name = \"shop\"", "name = \"shop\"\nmode = \"shadow\"");
    let Shop { to, .. } = &shop_of(&shadow, Limits::default());
    let refused = post(*to, DECISIONS, &later(0));
    let said = "defer should be absent in a loop in shadow mode, whose decisions nobody shows, but is given";
    assert_eq!((refused.status, &refused.json()["detail"]), (422, &json!(said)));
}
