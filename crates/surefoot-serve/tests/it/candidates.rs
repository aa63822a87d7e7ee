//! Loops whose decisions have candidates of their own, with features.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use surefoot::Policy as _;
use surefoot::audit::audit;
use surefoot::learn::LearnerSettings;
use surefoot::logs::Eligible;
use surefoot::observer::Silent;
use surefoot_data::{
    ColumnNames, EvaluateRequest, LearnRequest, LogReader, NamedPolicy, PolicyReader, Prior, ReadRequest, RecordPolicy,
    RunFiles, Scorer, evaluate, learn, write_policy_with,
};
use surefoot_serve::clock::ManualClock;
use surefoot_serve::config::ServerConfig;
use surefoot_serve::{Limits, Loop, export, init};

use crate::common::{Answer, get, open, post, request, rules, serve};

/// Draws are secret, and differ in every run. At the usual delta, one run in some dozens has records that contradict a
/// certificate, which is then refused.
const NEWS: &str = r#"
[[loop]]
name = "shop"
features = [{ name = "user.age", kind = "number", mean = 40, scale = 20 }]
candidates = { most = 4, features = [
    { name = "article.topic", kind = "category", values = ["news", "sport"] },
    { name = "words", kind = "number", mean = 500, scale = 500 },
    { name = "id", kind = "hashed", bits = 3 },
] }
reward = { window = "1s" }
round = { records = 40 }
learner = { algorithm = "seq-adj-ls", epochs = 2 }
gate = "always"
delta = 1e-9
"#;

const DECISIONS: &str = "/v1/loops/shop/decisions";

/// The request for a decision on event `i`: two to four articles, other ones each time.
fn reader(i: usize) -> Value {
    let article = |k: usize| {
        let topic = ["news", "sport"][(i + k) % 2];
        json!({ "id": format!("a{}", (3 * i + k) % 11), "article": { "topic": topic }, "words": 100 * ((i + 7 * k) % 9) })
    };
    let articles: Vec<Value> = (0..2 + i % 3).map(article).collect();
    json!({ "event_id": format!("e{i}"), "context": { "user": { "age": 20 + i % 50 } }, "candidates": articles })
}

struct News {
    folder: tempfile::TempDir,
    clock: Arc<ManualClock>,
    lp: Arc<Loop>,
    to: std::net::SocketAddr,
}

fn news(text: &str) -> News {
    let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::default()));
    clock.set(1_000_000);
    let lp = open(&folder.path().join("shop"), text, &clock);
    let to = serve(&lp, text, Limits::default());
    News { folder, clock, lp, to }
}

impl News {
    /// Readers, who like sport.
    fn read(&self, from: usize, n: usize) {
        for i in from..from + n {
            let asked = reader(i);
            let answer = post(self.to, DECISIONS, &asked);
            assert_eq!(answer.status, 201, "{}", answer.text());
            let chosen = answer.json()["action"].clone();
            let article = asked["candidates"].as_array().unwrap().iter().find(|article| article["id"] == chosen);
            let reward = f64::from(u8::from(article.unwrap()["article"]["topic"] == "sport"));
            post(self.to, &format!("{DECISIONS}/e{i}/rewards"), &json!({ "reward": reward }));
        }
        self.clock.set(1_000_000 + 10_000 * i64::try_from(from + n).unwrap());
        let began = Instant::now();
        while self.lp.status().waiting_rounds > 0 {
            let status = self.lp.status();
            assert!(status.failed.is_none() && began.elapsed() < Duration::from_secs(120), "{status:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn logs(path: &Path) -> LogReader {
    LogReader::new(vec![path.to_owned()], None, ColumnNames::default())
}

/// The probability of the chosen candidate, as the core has it for the same features.
fn propensity(news: &News, asked: &Value, answer: &Value) -> f64 {
    let path =
        news.folder.path().join(format!("shop/policies/{}.safetensors", answer["policy_version"].as_str().unwrap()));
    let (policy, inputs) = PolicyReader::default().read_with(&path).unwrap();
    let inputs = inputs.unwrap();
    let of = inputs.candidates.unwrap();
    let (mut rows, mut candidates) = (inputs.encoding.rows(), of.encoding.rows());
    inputs.encoding.encode_object("x", asked["context"].as_object().unwrap(), &mut rows).unwrap();
    let all = asked["candidates"].as_array().unwrap();
    for candidate in all {
        of.encode_object("x", candidate.as_object().unwrap(), &mut candidates).unwrap();
    }
    let sets = Eligible::candidates(vec![0, all.len()], candidates.contexts().unwrap()).unwrap();
    let place = all.iter().position(|candidate| candidate["id"] == answer["action"]).unwrap();
    policy.propensity(&rows.contexts().unwrap(), &[place as u32], Some(&sets)).unwrap()[0]
}

#[test]
fn candidates_are_drawn_learned_from_exported_verified_linted_and_evaluated() {
    let news = news(NEWS);
    let News { folder, lp, to, .. } = &news;
    news.read(0, 40);
    news.read(40, 40);
    news.read(80, 40);
    // Exact propensities, and the same answer again.
    for i in [3, 50, 119] {
        let (asked, answer) = (reader(i), post(*to, DECISIONS, &reader(i)));
        assert_eq!(answer.status, 200);
        let answer = answer.json();
        let expected = propensity(&news, &asked, &answer);
        assert!((answer["propensity"].as_f64().unwrap() - expected).abs() < 1e-9, "{answer} {expected}");
        let stored = get(*to, &format!("{DECISIONS}/e{i}")).json();
        assert_eq!((&stored["action"], &stored["request"]["candidates"]), (&answer["action"], &asked["candidates"]));
    }
    let policies: std::collections::HashSet<String> =
        (0..3).map(|i| post(*to, DECISIONS, &reader(40 * i)).json()["policy_version"].to_string()).collect();
    assert_eq!(policies.len(), 3, "every round was collected by a policy of its own");
    let told = get(*to, "/v1/loops/shop/rules").json();
    assert_eq!((&told["most_candidates"], &told["actions"]), (&json!(4), &json!([])));
    assert_eq!(get(*to, "/v1/loops/shop/lint").status, 200);
    // One is erased, with its candidates, and the loop goes on.
    assert_eq!(post(*to, "/v1/loops/shop/erasures", &json!({ "event_id": "e5" })).status, 200);
    assert_eq!(get(*to, &format!("{DECISIONS}/erased:5")).json()["action"], json!("erased"));
    news.read(120, 40);
    let run = folder.path().join("run");
    assert_eq!(export(&folder.path().join("shop"), &run).unwrap().rounds, 4);
    let report = audit(&RunFiles::of(&run).unwrap().read().unwrap(), &[lp.status().ledger_head], || ());
    assert!(report.verified, "{:?}", report.all_differences());
    // The policy that runs, judged over HTTP and by the exported files.
    let policy = std::fs::read(run.join("policy.safetensors")).unwrap();
    let kind = ["Content-Type: application/octet-stream"];
    let told = request(*to, "POST", "/v1/loops/shop/evaluations?replicates=0", &kind, &policy);
    assert_eq!(told.status, 200, "{}", told.text());
    let policy = RecordPolicy::open_file(&run.join("policy.safetensors"), &mut PolicyReader::default()).unwrap();
    let policies = vec![NamedPolicy { name: "policy".into(), policy }];
    let wanted = EvaluateRequest { policies, replicates: 0, ..EvaluateRequest::default() };
    let evaluated = evaluate(&logs(&run.join("logs.parquet")), &wanted, |_| ()).unwrap();
    // The service knows what the policy was learned from, and does not call that proven; files alone cannot know.
    let (mut told, mut by_files) = (told.json(), serde_json::to_value(&evaluated).unwrap());
    assert_eq!((&told["certified"], &by_files["certified"]), (&json!(false), &json!(true)));
    let warning = told["policies"][0]["warnings"][0].as_str().unwrap();
    assert!(warning.contains("learned it from round 3") && warning.contains("from_round=4"), "{warning}");
    for verdict in [&mut told, &mut by_files] {
        verdict["certified"].take();
        verdict["policies"][0]["certified"].take();
        verdict["policies"][0]["warnings"].take();
    }
    assert_eq!((evaluated.records, told), (160, by_files));
}

#[test]
fn a_policy_of_learn_over_candidates_is_served_as_it_is() {
    let news = news(NEWS);
    news.read(0, 120);
    let run = news.folder.path().join("run");
    export(&news.folder.path().join("shop"), &run).unwrap();
    let log = logs(&run.join("logs.parquet"));
    let settings = LearnerSettings { epochs: 1, lambda: "0.5".into(), delta: 1e-9, ..LearnerSettings::default() };
    let request = LearnRequest {
        read: ReadRequest::default(),
        prior: Prior::Uniform,
        prior_is_older: false,
        learner: settings.learner().unwrap().0,
        held_back: 0.2,
        exploration: 0.05,
        intercept: true,
        contenders: Vec::new(),
    };
    let learned = learn(&log, &request, &mut Silent).unwrap();
    let path = news.folder.path().join("learned.safetensors");
    write_policy_with(&path, learned.policy.as_ref(), Some(&learned.inputs)).unwrap();
    let text = format!(
        "[[loop]]\nname = \"shop\"\npolicy = {path:?}\nreward = {{ window = \"1s\" }}\nround = {{ records = 40 }}\ngate = \"always\"\n\
         learner = {{ algorithm = \"seq-adj-ls\", epochs = 1 }}\n"
    );
    let (rules, first) = rules(&text);
    assert_eq!(rules.first, first.fingerprint());
    let served = self::news(&text);
    let policy = RecordPolicy::open_file(&path, &mut PolicyReader::default()).unwrap();
    let scorer = Scorer::new(policy, 1, false).unwrap();
    let mut compared = 0;
    for i in 200..230 {
        let asked = reader(i);
        let answer = post(served.to, DECISIONS, &asked).json();
        // The command line on the same record: whenever it draws the same candidate, it has the same probability.
        let mut record: Map<String, Value> = asked["context"].as_object().unwrap().clone();
        record.insert("candidates".into(), asked["candidates"].clone());
        let decision = scorer.decide(&format!("e{i}"), &record).unwrap();
        if asked["candidates"][decision.action as usize]["id"] == answer["action"] {
            compared += 1;
            let p = answer["propensity"].as_f64().unwrap();
            assert!((p - decision.propensity).abs() < 1e-9, "{p} {}", decision.propensity);
        }
    }
    assert!(compared > 3, "{compared}");
}

#[test]
fn init_writes_a_loop_over_the_candidates_of_a_log() {
    let news = news(NEWS);
    news.read(0, 40);
    let run = news.folder.path().join("run");
    export(&news.folder.path().join("shop"), &run).unwrap();
    let text = init("shop", &logs(&run.join("logs.parquet")), &[], "shop.toml").unwrap();
    let made = ServerConfig::parse("made.toml", &text).unwrap();
    let (rules, _) = made.loops[0].resolve("made.toml").unwrap();
    let names = rules.candidates.as_ref().unwrap().encoding.names();
    assert!(names.contains(&"article.topic=sport".to_owned()) && names.contains(&"words".to_owned()), "{names:?}");
    assert_eq!(rules.actions.len(), 4);
    let again = self::news(&text.replace("records = 1000", "records = 40"));
    assert_eq!(post(again.to, DECISIONS, &reader(1)).status, 201);
}

#[test]
fn candidates_that_do_not_fit_are_refused_by_name() {
    let news = news(NEWS);
    let said = |answer: Answer| (answer.status, answer.json()["detail"].as_str().unwrap_or_default().to_owned());
    let ask = |candidates: Value| said(post(news.to, DECISIONS, &json!({ "context": {}, "candidates": candidates })));
    let a = |id: &str| json!({ "id": id });
    for (candidates, detail) in [
        (json!([]), "candidates should be from 1 to 4, but are 0"),
        (json!([a("a"), a("b"), a("c"), a("d"), a("e")]), "candidates should be from 1 to 4, but are 5"),
        (json!([a("a"), a("a")]), "the ids of candidates should differ, but \"a\" occurs twice"),
        (json!([a("a"), {}]), "the id of candidate 1 should be a text of 1 to 256 bytes, but is absent"),
        (json!([{ "id": 7 }]), "the id of candidate 0 should be a text of 1 to 256 bytes, but is 7"),
        (json!([{ "id": "a", "words": "many" }]), "candidate 0: words should be a number, but is \"many\""),
    ] {
        assert_eq!(ask(candidates), (422, detail.to_owned()));
    }
    let absent = "candidates should be given, each with its id and features, but are absent";
    assert_eq!(said(post(news.to, DECISIONS, &json!({ "context": {} }))), (422, absent.to_owned()));
    let both = json!({ "context": {}, "candidates": [a("a")], "eligible": [0] });
    assert_eq!(post(news.to, DECISIONS, &both).status, 422);
    // A single candidate has probability 1; features that are missing are marked.
    let only = post(news.to, DECISIONS, &json!({ "context": {}, "candidates": [a("a")] }));
    assert_eq!((only.status, &only.json()["propensity"]), (201, &json!(1.0)));
    let fixed = crate::http::shop_of(crate::common::SHOP, Limits::default());
    let mut asked = crate::common::visit(1);
    asked["candidates"] = json!([a("a")]);
    let detail = "candidates should be absent in a loop with fixed actions, but are given";
    assert_eq!(said(post(fixed.to, DECISIONS, &asked)), (422, detail.to_owned()));
    let wrong = |from: &str, to: &str| {
        let text = NEWS.replace(from, to);
        ServerConfig::parse("x", &text).and_then(|config| config.loops[0].resolve("x")).unwrap_err().to_string()
    };
    let said = wrong("name = \"shop\"", "name = \"shop\"\nactions = 3");
    assert!(said.contains("actions should be absent, if decisions have candidates"), "{said}");
    let said = wrong("features = [\n", "cross = [\"nobody:article\"], features = [\n");
    assert!(said.contains("a product of features should be CONTEXT:CANDIDATE"), "{said}");
}
