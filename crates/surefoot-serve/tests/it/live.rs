//! Loops that learn, stop and go on.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use surefoot::audit::{Statement, audit};
use surefoot_data::RunFiles;
use surefoot_serve::clock::{ManualClock, Time};
use surefoot_serve::engine::{Answer, Ask, Decided, RewardAsk};
use surefoot_serve::request::DecisionRequest;
use surefoot_serve::store::{SqliteStore, Store as _};
use surefoot_serve::{Loop, export};

use crate::common::{SHOP, open, rules, visit};

/// A store with a secret that is not drawn, so that two loops can be compared.
fn prepared(folder: &Path, text: &str) {
    let (rules, first) = rules(text);
    std::fs::create_dir_all(folder).unwrap();
    let ledger = rules.session("test", first).unwrap().ledger().to_string();
    let mut store = SqliteStore::open(&folder.join("loop.sqlite")).unwrap();
    store.begin().unwrap();
    let rules_text = serde_json::to_string(&rules).unwrap();
    let running = (!text.contains("apprentice")).then_some(rules.first);
    store.open(&rules_text, &[7; 32], &ledger, running).unwrap();
    store.commit().unwrap();
}

fn decide(lp: &Loop, i: usize) -> Decided {
    let request: DecisionRequest = serde_json::from_value(visit(i)).unwrap();
    let ask = request.check(lp.rules()).unwrap();
    match lp.ask_blocking(Ask::Decide(vec![ask])).unwrap() {
        Answer::Decided(mut answers) => answers.remove(0).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn reward(lp: &Loop, i: usize, value: f64) {
    let ask = RewardAsk { event_id: format!("e{i}"), reward_id: String::new(), value };
    match lp.ask_blocking(Ask::Reward(vec![ask])).unwrap() {
        Answer::Rewarded(answers) => drop(answers[0].clone().unwrap()),
        other => panic!("{other:?}"),
    }
}

/// A visitor likes one colour on a phone and another on a desktop, and says so at times.
fn visit_and_reward(lp: &Loop, i: usize) -> Decided {
    let decided = decide(lp, i);
    if !i.is_multiple_of(5) {
        reward(lp, i, f64::from(u8::from(decided.action as usize == i % 2)));
    }
    decided
}

/// A time after the window of decision `i`.
fn after(i: usize) -> Time {
    1_000_000 + 10_000 * (Time::try_from(i).unwrap() + 1)
}

/// Waits until every round that ended was learned from.
fn learned(lp: &Loop) {
    let began = Instant::now();
    while lp.status().waiting_rounds > 0 {
        let status = lp.status();
        assert!(status.failed.is_none() && began.elapsed() < Duration::from_secs(120), "{status:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn statements(lp: &Loop) -> (Vec<Statement>, String) {
    lp.read(|reader| Ok((reader.statements()?, reader.session()?.ledger))).unwrap()
}

#[test]
fn a_loop_learns_deploys_at_round_boundaries_and_exports_what_verifies() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    for (gate, learner) in [("always", "seq-adj-ls"), ("improvement", "seq-adj-ls"), ("always", "thompson")] {
        let text = SHOP.replace("\"always\"", &format!("\"{gate}\"")).replace("seq-adj-ls", learner);
        let place = folder.path().join(format!("{gate}-{learner}"));
        clock.set(1_000_000);
        let lp = open(&place, &text, &clock);
        let mut policies = Vec::new();
        for i in 0..170 {
            let decided = visit_and_reward(&lp, i);
            assert_eq!(decided.round, (i / 40) as u64);
            policies.push(decided.policy.unwrap());
            // In the middle of a round the one before becomes final: the policy must not change before the next.
            if i % 40 == 20 {
                clock.set(after(i));
                learned(&lp);
            }
        }
        for round in policies.chunks(40) {
            assert!(round.iter().all(|policy| *policy == round[0]), "one policy collects a round");
        }
        if gate == "always" {
            // What was learned from round 0 was there in the middle of round 1, and collects round 2.
            assert_eq!(policies[0], policies[40]);
            assert!(policies[80] != policies[40] && policies[120] != policies[80]);
        }
        let to = folder.path().join(format!("export-{gate}-{learner}"));
        let exported = export(&place, &to).unwrap();
        assert_eq!((exported.rounds, exported.records), (3, 120));
        let run = RunFiles::of(&to).unwrap().read().unwrap();
        let head = lp.status().ledger_head;
        let report = audit(&run, &[head], || ());
        assert!(report.certificates.len() >= 3, "{report:?}");
        assert!(report.verified, "{:?}", report.all_differences());
        assert!(to.join("logs.parquet").is_file() && to.join("policy.safetensors").is_file());
    }
}

#[test]
fn a_loop_that_was_stopped_anywhere_ends_with_the_same_policies_and_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, stops: &[usize]| {
        let (place, clock) = (folder.path().join(name), Arc::new(ManualClock::default()));
        prepared(&place, SHOP);
        clock.set(1_000_000);
        let mut lp = open(&place, SHOP, &clock);
        let mut decisions = Vec::new();
        for i in 0..130 {
            decisions.push(visit_and_reward(&lp, i));
            if i % 40 == 10 {
                clock.set(after(i));
                if !stops.contains(&i) {
                    learned(&lp);
                }
            }
            if stops.contains(&i) {
                // Perhaps in the middle of learning: what was not stored is learned again.
                drop(lp);
                lp = open(&place, SHOP, &clock);
                if i % 40 == 10 {
                    learned(&lp);
                }
                let again = decide(&lp, i);
                assert_eq!(Decided { again: false, ..again }, decisions[i]);
            }
        }
        clock.set(10_000_000);
        learned(&lp);
        (decisions, statements(&lp))
    };
    let whole = run("whole", &[]);
    assert!(!whole.1.0.is_empty());
    assert_eq!(run("stopped", &[3, 39, 50, 60, 79, 90, 129]), whole);
}

#[test]
fn a_loop_is_not_continued_under_other_rules_nor_opened_twice() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let lp = open(folder.path(), SHOP, &clock);
    let (again, first) = rules(SHOP);
    let said = Loop::open(folder.path(), "shop", again, first, Arc::clone(&clock) as _, 1).unwrap_err().to_string();
    assert!(said.contains("another process has this loop open"), "{said}");
    drop(lp);
    let (other, first) = rules(&SHOP.replace("\"1s\"", "\"2s\""));
    let said = Loop::open(folder.path(), "shop", other, first, clock, 1).unwrap_err().to_string();
    assert_eq!(said, "loop shop: window should be \"1s\", as when the loop began, but is \"2s\"");
}

#[test]
fn an_apprentice_logs_what_was_shown_and_says_when_it_could_take_over() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let text = SHOP
        .replace("name = \"shop\"", "name = \"shop\"\nmode = \"apprentice\"")
        .replace("\"always\"", "\"improvement\"")
        .replace("records = 40", "records = 400");
    let lp = open(folder.path(), &text, &clock);
    clock.set(1000);
    let mut last = None;
    for i in 0..1200 {
        let mut asked = visit(i);
        // The caller's own policy is uniform over the colours.
        let action = (i * 7 / 3) % 3;
        let colour = ["red", "green", "blue"][action];
        asked["baseline"] = serde_json::json!({ "action": colour, "propensity": 1.0 / 3.0 });
        let request: DecisionRequest = serde_json::from_value(asked).unwrap();
        let ask = request.check(lp.rules()).unwrap();
        let answer = lp.ask_blocking(Ask::Decide(vec![ask])).unwrap();
        let Answer::Decided(answers) = answer else { panic!("{answer:?}") };
        let decided = answers[0].clone().unwrap();
        assert_eq!((decided.action as usize, decided.propensity, decided.policy), (action, 1.0 / 3.0, None));
        reward(&lp, i, f64::from(u8::from(action == i % 2)));
        if i % 400 == 399 {
            clock.set(after(i));
            learned(&lp);
            last = lp.status().could_take_over;
        }
    }
    assert!(last.is_some(), "{:?}", lp.status());
    // It says so, and does not do it.
    assert_eq!(lp.status().policy, None);
    let said = serde_json::from_value::<DecisionRequest>(visit(5000)).unwrap().check(lp.rules()).unwrap_err();
    assert!(said.detail.contains("baseline should be the action and the propensity"), "{}", said.detail);
}

#[test]
fn a_file_of_loops_is_made_from_a_log_and_a_loop_without_rounds_can_be_exported() {
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/logs.csv");
    let reader = surefoot_data::LogReader::new(vec![log], None, surefoot_data::ColumnNames::default());
    let text = surefoot_serve::init("shop", &reader, &["pi_*".into()], "shop.toml").unwrap();
    let (rules, _) = rules(&text);
    assert!(rules.actions.len() >= 2 && rules.encoding.width() >= 2, "{text}");
    let folder = tempfile::tempdir().unwrap();
    let lp = open(&folder.path().join("shop"), &text, &Arc::new(ManualClock::default()));
    decide(&lp, 0);
    let exported = export(&folder.path().join("shop"), &folder.path().join("run")).unwrap();
    assert_eq!((exported.rounds, exported.records, exported.certificates), (0, 0, 0));
    assert!(folder.path().join("run/policy.safetensors").is_file());
}

#[test]
fn the_visitors_of_the_demo_are_decided_on_and_their_rewards_joined() {
    let folder = tempfile::tempdir().unwrap();
    let config = surefoot_serve::demo::config().unwrap();
    let lp = surefoot_serve::open_all(&config, "the demo", folder.path(), 1).unwrap().remove(0);
    let visited = Arc::clone(&lp);
    let visitors = std::thread::spawn(move || surefoot_serve::demo::visit(&visited, 1000));
    let began = Instant::now();
    while lp.status().decisions < 700 || lp.status().rewards < 100 || lp.status().ledger_head == first_head(&lp) {
        let status = lp.status();
        assert!(status.failed.is_none() && began.elapsed() < Duration::from_secs(120), "{status:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    lp.stop();
    visitors.join().unwrap();
}

/// The head of the ledger before the first round was learned from.
fn first_head(lp: &Loop) -> surefoot::Fingerprint {
    let ledger: surefoot::audit::Ledger = statements(lp).1.parse().unwrap();
    let mut opening = surefoot::audit::Ledger::open(ledger.opening().clone());
    opening.append(ledger.entries()[1].clone());
    opening.head()
}
