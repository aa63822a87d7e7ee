//! Logs from before a loop: evidence beside it, and never in it.

use std::path::Path;

use serde_json::{Value, json};
use surefoot_data::{ColumnNames, LogReader};
use surefoot_serve::config::ServerConfig;
use surefoot_serve::{Imported, import};

use crate::challengers::{Gated, gated};
use crate::common::{get, post, visit};

const COLOURS: [&str; 3] = ["red", "green", "blue"];

/// A decision of another system, as dsjson has it: uniform over three candidates with tags.
fn decision(i: usize) -> Value {
    let draw = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    let chosen = (draw % 3) as usize;
    let others = (0..3).filter(|place| *place != chosen);
    let places: Vec<usize> = std::iter::once(chosen).chain(others).map(|place| place + 1).collect();
    let device = ["phone", "desktop"][i % 2];
    json!({
        "_label_cost": if chosen == i % 2 { -1 } else { 0 },
        "_label_probability": 1.0 / 3.0,
        "_label_Action": chosen + 1,
        "_labelIndex": chosen,
        "EventId": format!("old-{i}"),
        "a": places,
        "p": [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0],
        "c": {
            "x": (i % 7) as f64 / 3.0 - 1.0,
            "device": device,
            "_multi": COLOURS.map(|colour| json!({ "_tag": colour })),
        },
    })
}

fn written(folder: &Path, decisions: impl Iterator<Item = Value>) -> LogReader {
    let path = folder.join("old.dsjson");
    std::fs::write(&path, decisions.map(|decision| format!("{decision}\n")).collect::<String>()).unwrap();
    LogReader::new(vec![path], None, ColumnNames::default())
}

fn imported(shop: &Gated, logs: &LogReader) -> surefoot_serve::Result<Imported> {
    let config = ServerConfig::parse("shop.toml", &shop.text).unwrap();
    import(&config, "shop.toml", "shop", shop.folder.path(), logs)
}

#[test]
fn dsjson_logs_become_evidence_and_nothing_else() {
    let shop = gated(|text| text);
    let Gated { to, folder, .. } = &shop;
    let (history, evaluations) = ("/v1/loops/shop/history", "/v1/loops/shop/evaluations");
    assert_eq!(get(*to, history).json(), Value::Null);
    let good = shop.good();
    let early = shop.send(&format!("{evaluations}?over=history"), &good);
    assert_eq!((early.status, &early.json()["type"]), (409, &json!("urn:surefoot:no-logs")));
    let head = get(*to, "/v1/loops/shop").json()["ledger_head"].clone();
    let logs = written(folder.path(), (0..900).map(decision));
    let told = imported(&shop, &logs).unwrap();
    assert_eq!((told.records, told.left_out), (900, 0), "{told:?}");
    assert_eq!(get(*to, history).json()["records"], json!(900));
    // The policy that shows what visitors like brings nearly 1, and the logs say so.
    let found = shop.send(&format!("{evaluations}?over=history"), &good);
    assert_eq!(found.status, 200, "{}", found.text());
    let found = found.json();
    assert_eq!((&found["over"], &found["records"]), (&json!("history"), &json!(900)));
    assert!(found["on_trust"].as_str().unwrap().contains("another system"));
    assert!(found["policies"][0]["anytime"]["lower"].as_f64().unwrap() > 0.6, "{found}");
    let linted = get(*to, "/v1/loops/shop/lint?over=history").json();
    assert_eq!((&linted["errors"], &linted["summary"]["records"]), (&json!(0), &json!(900)), "{linted}");
    // The loop itself has not changed.
    assert_eq!(get(*to, "/v1/loops/shop").json()["ledger_head"], head);
    assert_eq!(get(*to, "/v1/loops/shop/rounds").json(), json!([]));
    assert_eq!(get(*to, "/v1/loops/shop/certificates").json(), json!([]));
    let rounds = shop.send(&format!("{evaluations}?over=rounds"), &good);
    assert_eq!(rounds.status, 409);
    let mixed = get(*to, "/v1/loops/shop/lint?over=history&from_round=1");
    assert_eq!(mixed.status, 422, "{}", mixed.text());
    let again = imported(&shop, &logs).unwrap_err().to_string();
    assert!(again.contains("the loop has a history already"), "{again}");
}

#[test]
fn what_would_flatter_or_does_not_fit_is_refused_and_nothing_is_stored() {
    let shop = gated(|text| text);
    let Gated { to, folder, .. } = &shop;
    let refused = |decisions: &mut dyn Iterator<Item = Value>| {
        let said = imported(&shop, &written(folder.path(), decisions)).unwrap_err().to_string();
        assert_eq!(get(*to, "/v1/loops/shop/history").json(), Value::Null);
        said
    };
    let changed = |change: fn(&mut Value)| {
        move |i: usize| {
            let mut decision = decision(i);
            change(&mut decision);
            decision
        }
    };
    let pink = changed(|decision| decision["c"]["_multi"][0]["_tag"] = json!("pink"));
    let said = refused(&mut (0..300).map(pink));
    assert!(said.contains("should be one of red, green, blue, but is \"pink\""), "{said}");
    let without = changed(|decision| drop(decision["c"].as_object_mut().unwrap().remove("device")));
    let said = refused(&mut (0..300).map(without));
    assert!(said.contains("no record has the feature device of the loop"), "{said}");
    // A reward outside the range of the loop.
    let dear = changed(|decision| decision["_label_cost"] = json!(-7));
    assert!(refused(&mut (0..300).map(dear)).contains("reward"));
    // Propensities that the choices contradict: the logger says that all had a probability of nearly 1.
    let sure = changed(|decision| {
        decision["p"] = json!([0.98, 0.01, 0.01]);
        decision["_label_probability"] = json!(0.98);
    });
    let said = refused(&mut (0..900).map(sure));
    assert!(said.contains("surefoot lint finds what makes estimates wrong"), "{said}");
    // A decision of the loop itself.
    assert_eq!(post(*to, "/v1/loops/shop/decisions", &visit(1)).status, 201);
    let own = changed(|decision| {
        if decision["EventId"] == "old-5" {
            decision["EventId"] = json!("e1");
        }
    });
    let said = refused(&mut (0..300).map(own));
    assert!(said.contains("event e1 is a decision of the loop itself"), "{said}");
    let config = ServerConfig::parse("shop.toml", &shop.text).unwrap();
    let logs = written(folder.path(), (0..3).map(decision));
    let said = import(&config, "shop.toml", "other", folder.path(), &logs).unwrap_err().to_string();
    assert_eq!(said, "shop.toml: loop should be one of shop, but is \"other\"");
}
