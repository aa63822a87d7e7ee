//! Records that are erased.

use std::sync::Arc;

use serde_json::{Value, json};
use surefoot::audit::{Entry, Ledger, audit};
use surefoot_data::RunFiles;
use surefoot_serve::clock::ManualClock;
use surefoot_serve::engine::{Ask, EraseAsk};
use surefoot_serve::request::DecisionRequest;
use surefoot_serve::{Loop, export};

use crate::challengers::{Gated, gated};
use crate::common::{Answer, SHOP, get, open, post, request, visit};

const ERASURES: &str = "/v1/loops/shop/erasures";

/// Everything that the loop stores and tells, as text.
fn all_of(shop: &Gated) -> String {
    let folder = shop.folder.path().join("shop");
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let stored = files.filter(|path| path.is_file()).map(|path| std::fs::read(path).unwrap_or_default());
    let decisions = get(shop.to, "/v1/loops/shop/decisions?limit=1000").text();
    stored.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect::<String>() + &decisions
}

#[test]
fn an_erased_record_is_gone_and_its_certificates_are_marked_in_the_api_and_by_verify() {
    let shop = gated(|text| text);
    let Gated { to, lp, folder, .. } = &shop;
    let erase = |body: Value| post(*to, ERASURES, &body);
    shop.visited(0, 800);
    let before = get(*to, "/v1/loops/shop/certificates").json();
    assert!(before.as_array().unwrap().iter().all(|certificate| certificate["recomputable"] == json!(true)));
    let made = before.as_array().unwrap().len();
    let answer = erase(json!({ "event_id": "e450" }));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let told = answer.json();
    assert_eq!((&told["decisions"], &told["rewards"], &told["rounds"]), (&json!(1), &json!(1), &json!([1])));
    assert_eq!(told["ledger_head"], json!(lp.status().ledger_head));
    assert_eq!(get(*to, "/v1/loops/shop/decisions/e450").status, 404);
    assert_eq!(
        get(*to, "/v1/loops/shop/decisions/erased:450").json()["request"],
        json!({ "context": {}, "eligible": ["red"] })
    );
    let log = get(*to, "/v1/loops/shop/rounds/1/logs?format=jsonl").text();
    let record: Value = serde_json::from_str(log.lines().nth(50).unwrap()).unwrap();
    assert_eq!((&record["event_id"], &record["reward"]), (&json!("erased:450"), &json!(0.0)));
    // The act is written down, and not whom it was about.
    let acts = get(*to, "/v1/loops/shop/acts").json();
    assert_eq!(acts[0]["act"], json!("erase 1 decisions and 1 rewards"));
    let after = get(*to, "/v1/loops/shop/certificates").json();
    let marked: Vec<bool> = after.as_array().unwrap().iter().map(|c| c["recomputable"] == json!(false)).collect();
    for (certificate, marked) in after.as_array().unwrap().iter().zip(&marked) {
        assert_eq!(*marked, certificate["round"] == json!(2), "{certificate}");
    }
    // The loop goes on: the next round is learned from and certified with what is left.
    shop.visited(800, 400);
    let run = folder.path().join("run");
    export(&folder.path().join("shop"), &run).unwrap();
    let heads = [told["ledger_head"].as_str().unwrap().parse().unwrap()];
    let report = audit(&RunFiles::of(&run).unwrap().read().unwrap(), &heads, || ());
    assert!(report.verified, "{:?}", report.all_differences());
    assert_eq!(report.lost, marked.iter().filter(|marked| **marked).count());
    assert!(report.certificates.len() > made && report.lost > 0 && report.lost < report.certificates.len());
    assert!(report.trust.iter().any(|trust| trust.starts_with("1 records were erased")), "{:?}", report.trust);
    // Whoever says that records were erased, and did not change them, is found out.
    let mut forged = RunFiles::of(&run).unwrap().read().unwrap();
    let ledger = forged.ledger.take().unwrap();
    let mut other = Ledger::open(ledger.opening().clone());
    for entry in &ledger.entries()[1..] {
        match entry {
            Entry::Erase { round, records, .. } => {
                other.append(Entry::Erase { round: *round, records: *records, logs: Some(ledger.head()) });
            }
            entry => other.append(entry.clone()),
        }
    }
    forged.ledger = Some(other);
    assert!(!audit(&forged, &[], || ()).verified);
}

#[test]
fn a_person_is_erased_by_a_column_in_every_round_and_nothing_of_them_is_left() {
    let shop = gated(|text| text);
    let Gated { to, folder, lp, .. } = &shop;
    for i in 0..450 {
        let mut asked = visit(i);
        asked["context"]["customer"] = json!(if i % 100 == 7 { "Ada Byron 1815".to_owned() } else { format!("c{i}") });
        assert_eq!(post(*to, "/v1/loops/shop/decisions", &asked).status, 201);
    }
    // One round has ended and waits for its rewards, and one is open.
    assert!(all_of(&shop).contains("Ada Byron 1815"));
    let answer = post(*to, ERASURES, &json!({ "column": "customer", "value": "Ada Byron 1815" })).json();
    assert_eq!((&answer["decisions"], &answer["rounds"]), (&json!(5), &json!([0, 1])));
    let again = post(*to, ERASURES, &json!({ "column": "customer", "value": "Ada Byron 1815" })).json();
    assert_eq!((&again["decisions"], &again["ledger_head"]), (&json!(0), &answer["ledger_head"]));
    // A reward that overtook its decision is erased too.
    post(*to, "/v1/loops/shop/rewards", &json!({ "event_id": "early", "reward": 1 }));
    assert_eq!(lp.status().parked, 1);
    assert_eq!(post(*to, ERASURES, &json!({ "event_id": "early" })).json()["rewards"], json!(1));
    assert_eq!(lp.status().parked, 0);
    shop.visited(450, 350);
    assert!(!get(*to, "/v1/loops/shop/decisions?limit=1000").text().contains("Ada Byron"));
    let run = folder.path().join("run");
    export(&folder.path().join("shop"), &run).unwrap();
    let report = audit(&RunFiles::of(&run).unwrap().read().unwrap(), &[lp.status().ledger_head], || ());
    assert!(report.verified, "{:?}", report.all_differences());
    // They were erased before anything was certified.
    assert_eq!(report.lost, 0);
}

#[test]
fn nothing_of_an_erased_event_is_left_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let lp = open(folder.path(), SHOP, &Arc::new(ManualClock::default()));
    let said = |lp: &Loop, ask: Ask| lp.ask_blocking(ask).unwrap();
    for i in 0..50 {
        let mut asked = visit(i);
        asked["context"]["customer"] = json!(format!("Ada Byron {i}."));
        let request: DecisionRequest = serde_json::from_value(asked).unwrap();
        said(&lp, Ask::Decide(vec![request.check(lp.rules()).unwrap()]));
    }
    let on_disk = |name: &str| {
        let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        files
            .filter(|path| path.is_file())
            .any(|path| std::fs::read(path).unwrap().windows(name.len()).any(|bytes| bytes == name.as_bytes()))
    };
    assert!(on_disk("Ada Byron 7."));
    let events = (0..50).filter(|i| i % 10 == 7).map(|i| format!("e{i}")).collect();
    let answer = said(&lp, Ask::Erase(EraseAsk { by: "test".into(), events }));
    assert!(matches!(answer, surefoot_serve::engine::Answer::Erased(Ok(found)) if found.decisions == 5));
    assert!(on_disk("Ada Byron 8.") && !on_disk("Ada Byron 7.") && !on_disk("Ada Byron 47."));
    drop(lp);
    assert!(!on_disk("Ada Byron 7.") && !on_disk("Ada Byron 47."));
}

#[test]
fn what_to_erase_must_be_said() {
    let shop = gated(|text| text);
    let said = |answer: Answer| (answer.status, answer.json()["detail"].as_str().unwrap_or_default().to_owned());
    let either = "either event_id should be given, or column and value, and not both";
    for body in [json!({}), json!({ "column": "x" }), json!({ "event_id": "e", "column": "x", "value": 1 })] {
        assert_eq!(said(post(shop.to, ERASURES, &body)), (422, either.to_owned()));
    }
    let mut reserved = visit(0);
    reserved["event_id"] = json!("erased:1");
    let (status, detail) = said(post(shop.to, "/v1/loops/shop/decisions", &reserved));
    assert!(status == 422 && detail.contains("should not begin with erased:"), "{detail}");
}

#[test]
fn a_round_is_learned_from_again_if_its_records_are_erased_meanwhile() {
    let shop = gated(|text| text);
    let Gated { to, folder, lp, clock, .. } = &shop;
    for start in (0..800).step_by(100) {
        let batch: String = (start..start + 100).map(|i| visit(i).to_string() + "\n").collect();
        let lines = ["Content-Type: application/x-ndjson"];
        request(*to, "POST", "/v1/loops/shop/decisions", &lines, batch.as_bytes());
    }
    // Both rounds can be learned from now. Records are erased before, while and after that happens.
    clock.set(2_000_000);
    for i in 0..20 {
        let erased = post(*to, ERASURES, &json!({ "event_id": format!("e{}", 37 * i) })).json();
        assert_eq!(erased["decisions"], json!(1), "{erased}");
    }
    shop.visited(800, 400);
    let ledger: Ledger = get(*to, "/v1/loops/shop/ledger").text().parse().unwrap();
    let counted = ledger.entries().iter().map(|entry| match entry {
        Entry::Erase { records, .. } => *records,
        _ => 0,
    });
    assert_eq!(counted.sum::<usize>(), 20);
    let run = folder.path().join("run");
    assert_eq!(export(&folder.path().join("shop"), &run).unwrap().rounds, 3);
    let report = audit(&RunFiles::of(&run).unwrap().read().unwrap(), &[lp.status().ledger_head], || ());
    assert!(report.verified, "{:?}", report.all_differences());
}
