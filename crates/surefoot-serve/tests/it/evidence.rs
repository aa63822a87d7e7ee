//! What a loop says about its newest decisions, and about records that did not choose a policy.

use serde_json::{Value, json};

use crate::challengers::{Gated, gated};
use crate::common::get;

const SHOP: &str = "/v1/loops/shop";

#[test]
fn the_newest_decisions_are_told_as_numbers_without_contexts() {
    let shop = gated(|text| text);
    let Gated { to, .. } = &shop;
    let none = get(*to, &format!("{SHOP}/activity")).json();
    assert_eq!(
        (&none["decisions"], &none["stretches"], none.get("smallest_propensity")),
        (&json!(0), &json!([]), None)
    );
    shop.visited(0, 400);
    shop.visited(400, 100);
    let told = get(*to, &format!("{SHOP}/activity"));
    assert_eq!(told.status, 200, "{}", told.text());
    assert!(!told.text().contains("device") && !told.text().contains("e17"), "{}", told.text());
    let told = told.json();
    let decisions = get(*to, &format!("{SHOP}/decisions?limit=1000")).json();
    let decisions = decisions.as_array().unwrap();
    assert_eq!((decisions.len(), &told["decisions"]), (500, &json!(500)));
    let smallest = decisions.iter().map(|d| d["propensity"].as_f64().unwrap()).fold(1.0, f64::min);
    assert_eq!(told["smallest_propensity"], json!(smallest));
    for share in told["actions"].as_array().unwrap() {
        let count = decisions.iter().filter(|d| d["action"] == share["action"]).count();
        assert_eq!(share["decisions"], json!(count));
    }
    let sum = |list: &Value| list.as_array().unwrap().iter().map(|x| x["decisions"].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum(&told["propensities"]), sum(&told["stretches"]), sum(&told["actions"])), (500, 500, 500));
    // The first 400 are at one time, whose windows have passed; those of the others have not.
    let stretches = told["stretches"].as_array().unwrap();
    assert_eq!(stretches.len(), 2);
    let (first, last) = (&stretches[0], &stretches[1]);
    assert_eq!((&first["decisions"], &first["final"], &last["final"]), (&json!(400), &json!(true), &json!(false)));
    let report = get(*to, &format!("{SHOP}/rounds")).json()[0]["report"].clone();
    let difference = first["mean_reward"].as_f64().unwrap() - report["mean_reward"].as_f64().unwrap();
    assert!(difference.abs() < 1e-12, "{first} {report}");
    assert_eq!(get(*to, &format!("{SHOP}/activity?newest=7")).json()["decisions"], json!(7));
    let refused = get(*to, &format!("{SHOP}/activity?newest=0"));
    assert_eq!(
        (refused.status, &refused.json()["detail"]),
        (422, &json!("newest should be from 1 to 100000, but is 0"))
    );
}

#[test]
fn a_policy_can_be_evaluated_on_the_rounds_after_those_that_chose_it() {
    let shop = gated(|text| text);
    let Gated { to, .. } = &shop;
    shop.visited(0, 800);
    let good = shop.good();
    let evaluated = |query: &str| shop.send(&format!("{SHOP}/evaluations?replicates=0&{query}"), &good);
    assert_eq!(evaluated("from_round=0").json()["records"], json!(800));
    assert_eq!(evaluated("from_round=1").json()["records"], json!(400));
    let early = evaluated("from_round=2");
    let detail = json!("no round from 2 on was learned from yet");
    assert_eq!((early.status, &early.json()["detail"]), (409, &detail));
    assert_eq!(get(*to, &format!("{SHOP}/lint?from_round=1")).json()["summary"]["records"], json!(400));
    // Certificates are counted after their round.
    let all = get(*to, &format!("{SHOP}/certificates")).json();
    let newest = get(*to, &format!("{SHOP}/certificates?from_round=1")).json();
    let (all, newest) = (all.as_array().unwrap(), newest.as_array().unwrap());
    assert!(!newest.is_empty() && newest.len() < all.len());
    assert!(newest.iter().all(|statement| statement["round"] == json!(2)));
}

#[test]
fn logs_have_every_feature_of_the_loop_and_nothing_else() {
    let never = r#"{ name = "never", kind = "number" }, { name = "nowhere", kind = "category", values = ["a"] },"#;
    let shop = gated(|text| text.replace("features = [", &format!("features = [{never}")));
    let Gated { to, .. } = &shop;
    shop.visited(0, 800);
    let lines = get(*to, &format!("{SHOP}/rounds/0/logs?format=jsonl")).text();
    let line: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((&line["never"], &line["nowhere"], line.get("round")), (&Value::Null, &Value::Null, None));
    assert!(line["x"].is_number(), "{line}");
    // A policy needs all of them, also where no context had them.
    let evaluated = shop.send(&format!("{SHOP}/evaluations?replicates=0&model=linear"), &shop.good());
    assert_eq!((evaluated.status, &evaluated.json()["records"]), (200, &json!(800)), "{}", evaluated.text());
    let findings = get(*to, &format!("{SHOP}/lint")).text();
    assert!(!findings.contains("drift"), "{findings}");
}

#[test]
fn the_verdict_of_the_gate_is_told_in_words_with_its_number() {
    let shop = gated(|text| text);
    shop.visited(0, 1600);
    let rounds = get(shop.to, &format!("{SHOP}/rounds")).json();
    let reports: Vec<&Value> = rounds.as_array().unwrap().iter().map(|round| &round["report"]).collect();
    assert_eq!(reports.len(), 4);
    assert!(reports.iter().any(|report| report["promoted"] == json!(true)), "{rounds}");
    for report in reports {
        let (verdict, promoted) = (report["verdict"].as_str().unwrap(), report["promoted"].as_bool().unwrap());
        assert_eq!(verdict.starts_with("promoted: "), promoted, "{verdict}");
        assert_eq!(verdict.starts_with("not promoted: "), !promoted, "{verdict}");
        let Some(difference) = report["gate"]["certified_risk_difference"].as_f64() else {
            assert!(verdict.contains("has collected no round yet"), "{verdict}");
            continue;
        };
        // Rewards are in [0, 1], so a difference of risks is one of rewards.
        let shown: f64 = format!("{:.3e}", difference.abs()).parse().unwrap();
        assert!(verdict.contains(&format!(" {shown} ")), "{verdict}: {difference}");
        assert!(verdict.contains(&report["gate"]["challenger"].as_str().unwrap()[..12]), "{verdict}");
    }
}
