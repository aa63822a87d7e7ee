//! Records that are older than a loop keeps them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use surefoot::Policy;
use surefoot::audit::{Ledger, audit};
use surefoot_data::RunFiles;
use surefoot_serve::clock::Time;
use surefoot_serve::engine::{AdminAsk, Answer, Ask, Command, Engine, RewardAsk};
use surefoot_serve::export;
use surefoot_serve::request::DecisionRequest;
use surefoot_serve::store::{PostgresStore, Reader, SqliteStore, Store};

use crate::challengers::{Gated, gated};
use crate::common::{SHOP, get, rules, visit};
use crate::flaky::{Flaky, Fuse};
use crate::postgres::Postgres;

/// Waits until a decision is gone.
fn gone(shop: &Gated, event: &str) {
    let began = Instant::now();
    while get(shop.to, &format!("/v1/loops/shop/decisions/{event}")).status != 404 {
        assert!(began.elapsed() < Duration::from_secs(60), "{event} is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn rounds_that_are_too_old_are_erased_whole_and_the_run_is_still_verified() {
    let shop = gated(|text| text.replace("records = 400 }", "records = 400 }\nretention = \"5000s\""));
    let Gated { to, lp, folder, .. } = &shop;
    shop.visited(0, 400);
    let all = |path: &str| get(*to, &format!("/v1/loops/shop/{path}")).json().as_array().unwrap().clone();
    assert!(all("certificates").iter().all(|certificate| certificate["recomputable"] == json!(true)));
    // The clock goes on by 4,000 s with every 400 visitors.
    shop.visited(400, 400);
    gone(&shop, "e399");
    let marked = |round: u64| {
        let certificates = all("certificates");
        let of_round = certificates.iter().filter(|certificate| certificate["round"] == json!(round));
        of_round.map(|certificate| certificate["recomputable"] == json!(false)).collect::<Vec<_>>()
    };
    assert!(!marked(1).is_empty() && marked(1).iter().all(|marked| *marked));
    let erased: Vec<Value> = all("rounds").iter().map(|round| round["erased"].clone()).collect();
    assert_eq!(erased, [json!(true), Value::Null]);
    let log = get(*to, "/v1/loops/shop/rounds/0/logs?format=jsonl").text();
    let records: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 400);
    for (i, record) in records.iter().enumerate() {
        assert_eq!((&record["event_id"], &record["reward"]), (&json!(format!("erased:{i}")), &json!(0.0)));
        assert_eq!((&record["x"], &record["device"]), (&Value::Null, &Value::Null));
    }
    assert_eq!(get(*to, "/v1/loops/shop/decisions/e400").status, 200);
    assert_eq!(get(*to, "/v1/loops/shop/rules").json()["retention_seconds"], json!(5000.0));
    let acts = all("acts");
    assert_eq!((&acts[0]["by"], &acts[0]["act"]), (&json!("retention"), &json!("erase the 400 records of round 0")));
    // The loop goes on, with what is left.
    let head = lp.status().ledger_head;
    shop.visited(800, 400);
    gone(&shop, "e799");
    let run = folder.path().join("run");
    assert_eq!(export(&folder.path().join("shop"), &run).unwrap().rounds, 3);
    let report = audit(&RunFiles::of(&run).unwrap().read().unwrap(), &[head, lp.status().ledger_head], || ());
    assert!(report.verified, "{:?}", report.all_differences());
    assert!(report.lost > 0 && report.lost < report.certificates.len());
    assert!(report.trust.iter().any(|trust| trust.starts_with("800 records were erased")), "{:?}", report.trust);
}

fn engine(inner: Box<dyn Store>, fuse: &Fuse) -> Engine {
    let text = SHOP.replace("records = 40 }", "records = 2000 }\nretention = \"10s\"");
    let (rules, first) = rules(&text);
    let ledger = rules.session("test", first.clone()).unwrap().ledger().clone();
    let first: Arc<dyn Policy> = Arc::new(first);
    let find = Box::new(move |_| Ok(Arc::clone(&first)));
    Engine::open("shop", Arc::new(rules), &ledger, Box::new(Flaky { inner, fuse: Arc::clone(fuse) }), find).unwrap()
}

#[test]
fn a_few_records_are_erased_with_every_step_and_a_crash_in_between_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("loop.sqlite");
    in_steps(&|| Box::new(SqliteStore::open(&path).unwrap()), &|| Box::new(SqliteStore::open_to_read(&path).unwrap()));
}

#[test]
fn so_they_are_in_postgresql() {
    let Some(database) = Postgres::start() else { return };
    let address = database.address();
    in_steps(&|| Box::new(PostgresStore::open(&address, "shop").unwrap()), &|| {
        Box::new(PostgresStore::open_to_read(&address, "shop").unwrap())
    });
}

fn in_steps(store: &dyn Fn() -> Box<dyn Store>, reader: &dyn Fn() -> Box<dyn Reader>) {
    let fuse: Fuse = Arc::new((-1).into());
    let mut shop = engine(store(), &fuse);
    let decide = |shop: &mut Engine, range: std::ops::Range<usize>, time: Time| {
        let asks = range.clone().map(|i| {
            let request: DecisionRequest = serde_json::from_value(visit(i)).unwrap();
            request.check(shop.rules()).unwrap()
        });
        let asks = asks.collect();
        let rewards =
            range.map(|i| RewardAsk { event_id: format!("e{i}"), reward_id: String::new(), value: 1.0 }).collect();
        let answers = shop.step(&[Ask::Decide(asks), Ask::Reward(rewards)], time);
        let [Answer::Decided(decided), Answer::Rewarded(rewarded)] = &answers[..] else { panic!("{answers:?}") };
        assert!(decided.iter().all(Result::is_ok) && rewarded.iter().all(Result::is_ok));
    };
    decide(&mut shop, 0..700, 0);
    decide(&mut shop, 700..1200, 5000);
    let reader = reader();
    let erased = || {
        let rows = reader.decisions(0, 2000).unwrap();
        assert!(rows.iter().enumerate().all(|(i, row)| row.number == i as u64));
        let count = rows.iter().take_while(|row| row.event_id.starts_with("erased:")).count();
        assert!(rows[count..].iter().enumerate().all(|(i, row)| row.event_id == format!("e{}", count + i)));
        let ledger: Ledger = reader.session().unwrap().ledger.parse().unwrap();
        (count, ledger.erased(0))
    };
    // As old as the period, and not older.
    shop.retain(10_000).unwrap();
    assert_eq!(erased(), (0, 0));
    // If the store fails, nothing happens, and it is tried again a second later.
    for fails in 0..40 {
        let mut other = engine(store(), &fuse);
        fuse.store(fails, Ordering::SeqCst);
        assert!(other.retain(10_001).is_err(), "{fails}");
        fuse.store(-1, Ordering::SeqCst);
        assert_eq!(erased(), (0, 0));
    }
    let mut shop = engine(store(), &fuse);
    shop.retain(10_001).unwrap();
    assert_eq!(erased(), (500, 500));
    shop.retain(10_001).unwrap();
    assert_eq!(erased(), (500, 500), "there is a pause between two steps");
    drop(shop);
    let mut shop = engine(store(), &fuse);
    shop.retain(10_001).unwrap();
    assert_eq!(erased(), (700, 700), "the others are younger");
    shop.retain(15_000).unwrap();
    assert_eq!(erased(), (700, 700));
    // A round that has ended is erased whole: the ledger says so at once, and its records are read as erased.
    let closed = shop.step(&[Ask::Admin(AdminAsk { by: "test".into(), command: Command::Close })], 15_000);
    assert_eq!(closed, [Answer::Done(Ok(()))]);
    decide(&mut shop, 1200..1202, 15_001);
    shop.retain(15_001).unwrap();
    assert_eq!(erased(), (1200, 1200));
    let ready = shop.take_ready().unwrap();
    assert!(ready.erased);
    let logs = surefoot_serve::round_logs(reader.as_ref(), shop.rules(), &ready).unwrap();
    assert_eq!(logs.len(), 1200);
    assert!(logs.cost().iter().all(|cost| *cost == 0.0));
    assert!(logs.propensity().iter().all(|propensity| *propensity == 1.0));
    // The next round is younger.
    shop.retain(16_000).unwrap();
    assert_eq!(reader.decisions(1200, 1).unwrap()[0].event_id, "e1200");
}
