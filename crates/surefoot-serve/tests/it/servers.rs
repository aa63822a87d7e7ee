//! Several servers of one loop, on one PostgreSQL.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use surefoot::audit::audit;
use surefoot_data::RunFiles;
use surefoot_serve::clock::{Clock, ManualClock, SystemClock, Time};
use surefoot_serve::engine::{Answer, Ask, Decided, RewardAsk};
use surefoot_serve::request::DecisionRequest;
use surefoot_serve::store::{PostgresStore, SqliteStore, Storage, Store};
use surefoot_serve::{Loop, export_postgres};

use crate::common::{SHOP, rules, visit};
use crate::kills::{self, Server};
use crate::postgres::Postgres;

fn server(storage: &Storage, folder: &Path, text: &str, clock: Arc<dyn Clock>) -> Arc<Loop> {
    let (rules, first) = rules(text);
    Arc::new(Loop::open_in(storage, folder, "shop", rules, first, clock, 1).unwrap())
}

/// Opens a loop with a secret that is not drawn, so that two loops can be compared.
fn prepare(store: &mut dyn Store, text: &str) {
    let (rules, first) = rules(text);
    let ledger = rules.session("test", first).unwrap().ledger().to_string();
    store.begin().unwrap();
    store.open(&serde_json::to_string(&rules).unwrap(), &[7; 32], &ledger, Some(rules.first)).unwrap();
    store.commit().unwrap();
}

fn decide(lp: &Loop, i: usize) -> Result<Decided, u16> {
    let request: DecisionRequest = serde_json::from_value(visit(i)).unwrap();
    let ask = request.check(lp.rules()).unwrap();
    match lp.ask_blocking(Ask::Decide(vec![ask])).map_err(|refusal| refusal.status)? {
        Answer::Decided(mut answers) => answers.remove(0).map_err(|refusal| refusal.status),
        other => panic!("{other:?}"),
    }
}

/// Whether the reward was stored.
fn reward(lp: &Loop, i: usize, value: f64) -> bool {
    let ask = RewardAsk { event_id: format!("e{i}"), reward_id: String::new(), value };
    match lp.ask_blocking(Ask::Reward(vec![ask])) {
        Ok(Answer::Rewarded(answers)) => answers[0].is_ok(),
        _ => false,
    }
}

/// Waits until every round that can be learned from was.
fn settled(servers: &[Arc<Loop>], rounds: usize) {
    let began = Instant::now();
    while servers
        .iter()
        .any(|lp| lp.read(|reader| reader.rounds()).unwrap().iter().filter(|r| r.learned.is_some()).count() < rounds)
    {
        let failed: Vec<_> = servers.iter().filter_map(|lp| lp.status().failed).collect();
        assert!(failed.is_empty() && began.elapsed() < Duration::from_secs(120), "{failed:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn two_servers_answer_learn_and_certify_as_one_does() {
    let Some(database) = Postgres::start() else { return };
    let storage = Storage::Postgres(database.address());
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    prepare(&mut PostgresStore::open(&database.address(), "shop").unwrap(), SHOP);
    prepare(&mut SqliteStore::open(&folders[2].path().join("loop.sqlite")).unwrap(), SHOP);
    // Clocks of their own: time never goes back, also for a loop that nobody asks.
    let [ours, theirs] = [Arc::new(ManualClock::default()), Arc::new(ManualClock::default())];
    let two: Vec<Arc<Loop>> =
        folders[..2].iter().map(|folder| server(&storage, folder.path(), SHOP, Arc::clone(&ours) as _)).collect();
    let one = [server(&Storage::Folder, folders[2].path(), SHOP, Arc::clone(&theirs) as _)];
    let drive = |servers: &[Arc<Loop>], clock: &ManualClock| -> Vec<Decided> {
        let mut all = Vec::new();
        for i in 0..130 {
            let now = Time::try_from(1_000_000 + 10 * i + 10_000 * (i / 40)).unwrap();
            clock.set(now);
            let lp = &servers[i * i / 3 % servers.len()];
            let decided = decide(lp, i).unwrap();
            if i % 5 > 0 {
                // By the other server.
                let value = f64::from(u8::from(decided.action as usize == i % 2));
                assert!(reward(&servers[(i + 1) % servers.len()], i, value));
            }
            all.push(decided);
            if i % 40 == 39 {
                clock.set(now + 5000);
                settled(servers, (i + 1) / 40);
            }
        }
        all
    };
    let (shared, alone) = (drive(&two, &ours), drive(&one, &theirs));
    assert_eq!(shared, alone);
    assert!(shared.iter().map(|decided| decided.policy).collect::<HashSet<_>>().len() >= 3);
    let stored =
        |lp: &Loop| lp.read(|reader| Ok((reader.session()?.ledger, reader.ends()?, reader.statements()?))).unwrap();
    assert_eq!(stored(&two[0]), stored(&one[0]));
    let learned: Vec<u64> = two.iter().map(|lp| lp.status().round).collect();
    assert_eq!(learned, [3, 3]);
}

/// Callers of two servers ask on while the database is killed and started again.
#[test]
fn what_was_acknowledged_survives_a_database_that_is_killed_under_load() {
    let Some(database) = Postgres::start() else { return };
    let kills: usize = std::env::var("SUREFOOT_POSTGRES_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    let storage = Storage::Postgres(database.address());
    let text = SHOP.replace("\"1s\"", "\"200ms\"");
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let servers: Vec<Arc<Loop>> =
        folders.iter().map(|folder| server(&storage, folder.path(), &text, Arc::new(SystemClock))).collect();
    let (next, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let told: Mutex<HashMap<usize, Decided>> = Mutex::default();
    let (answered, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for caller in 0..6 {
            let (servers, next, over, told) = (&servers, &next, &over, &told);
            let (answered, refused) = (&answered, &refused);
            scope.spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    let i = next.fetch_add(1, Ordering::SeqCst);
                    // Until it is answered, by either server.
                    for attempt in caller.. {
                        match decide(&servers[attempt % 2], i) {
                            Ok(decided) => {
                                answered.fetch_add(1, Ordering::SeqCst);
                                told.lock().unwrap().insert(i, decided);
                                break;
                            }
                            Err(status) => {
                                assert_eq!(status, 503);
                                refused.fetch_add(1, Ordering::SeqCst);
                                std::thread::sleep(Duration::from_millis(20));
                            }
                        }
                    }
                }
            });
        }
        let (began, enough) = (Instant::now(), AtomicUsize::new(40));
        let wait = || {
            while answered.load(Ordering::SeqCst) < enough.load(Ordering::SeqCst) {
                assert!(began.elapsed() < Duration::from_secs(300), "nobody is answered");
                std::thread::sleep(Duration::from_millis(5));
            }
            enough.store(answered.load(Ordering::SeqCst) + 40, Ordering::SeqCst);
        };
        for kill in 0..kills {
            wait();
            std::thread::sleep(Duration::from_millis(170 * kill as u64 % 400));
            database.kill();
            std::thread::sleep(Duration::from_millis(100));
            database.run().unwrap();
        }
        wait();
        over.store(true, Ordering::SeqCst);
    });
    let told = told.into_inner().unwrap();
    assert!(refused.into_inner() > 0 && told.len() > 100, "{}", told.len());
    // Whoever asks again gets the same answer, from either server.
    for (i, decided) in told.iter().take(300) {
        let again = decide(&servers[i % 2], *i).unwrap();
        assert_eq!(again, Decided { again: true, ..decided.clone() });
    }
    let stored = servers[0].read(|reader| reader.decisions(0, 1_000_000)).unwrap();
    let events: HashSet<&String> = stored.iter().map(|row| &row.event_id).collect();
    assert_eq!(events.len(), stored.len());
    assert!(stored.iter().enumerate().all(|(i, row)| row.number == i as u64), "numbers without gaps");
    assert!(told.keys().all(|i| events.contains(&format!("e{i}"))));
    let full = stored.len() / 40;
    settled(&servers, full.min(5));
    drop(servers);
    let to = folders[0].path().join("run");
    export_postgres(&database.address(), "shop", &to).unwrap();
    let report = audit(&RunFiles::of(&to).unwrap().read().unwrap(), &[], || ());
    assert!(report.verified, "{:?}", report.all_differences());
}

/// `SUREFOOT_SERVER_KILLS=100` kills more often.
#[test]
fn a_server_process_that_is_killed_beside_another_loses_nothing() {
    let Some(database) = Postgres::start() else { return };
    let kills: u64 = std::env::var("SUREFOOT_SERVER_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(5);
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let start = |place: usize| {
        let mut command = kills::command(folders[place].path());
        command.env(kills::DATABASE, database.address());
        Server::of(command)
    };
    let stays = start(0);
    let mut told: Vec<Value> = Vec::new();
    for kill in 0..kills {
        let dies = start(1);
        let process = dies.id().to_string();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100 + (kill * 37) % 200));
            std::process::Command::new("kill").args(["-9", &process]).status().unwrap()
        });
        let mut lives = true;
        while lives {
            let i = told.len();
            // Whoever gets no answer asks the other server, and gets the stored decision or a first one.
            let answer = dies.send("POST", "/decisions", &visit(i)).unwrap_or_else(|| {
                lives = false;
                stays.send("POST", "/decisions", &visit(i)).unwrap()
            });
            assert!(answer.0 == 201 || answer.0 == 200, "{answer:?}");
            told.push(answer.1);
            let reward = stays.send("POST", &format!("/decisions/e{i}/rewards"), &json!({ "reward": 1 })).unwrap();
            assert!(reward.0 == 201, "{reward:?}");
        }
        assert!(killer.join().unwrap().success());
    }
    // Enough for rounds to learn from and to certify.
    while told.len() < 130 {
        let (status, answer) = stays.send("POST", "/decisions", &visit(told.len())).unwrap();
        assert_eq!(status, 201, "{answer}");
        stays.send("POST", &format!("/decisions/e{}/rewards", told.len()), &json!({ "reward": 1 })).unwrap();
        told.push(answer);
    }
    let began = Instant::now();
    loop {
        let (_, status) = stays.send("GET", "", &Value::Null).unwrap();
        assert!(status["failed"].is_null() && began.elapsed() < Duration::from_secs(120), "{status}");
        if status["waiting_rounds"] == 0 {
            assert_eq!(status["decisions"], told.len());
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    for (i, answer) in told.iter().enumerate() {
        let (_, stored) = stays.send("GET", &format!("/decisions/e{i}"), &Value::Null).unwrap();
        for field in ["action", "propensity", "policy_version", "round", "reward_until"] {
            assert_eq!(stored[field], answer[field], "{field} of event {i}");
        }
        assert_eq!(stored["rewards"].as_array().unwrap().len(), 1);
    }
    eprintln!("{kills} kills of a server beside another, {} decisions", told.len());
    drop(stays);
    let to = folders[0].path().join("run");
    export_postgres(&database.address(), "shop", &to).unwrap();
    let report = audit(&RunFiles::of(&to).unwrap().read().unwrap(), &[], || ());
    assert!(report.verified, "{:?}", report.all_differences());
}
