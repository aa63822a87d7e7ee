//! Policies that callers bring: as challengers, and to be evaluated.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use surefoot::audit::audit;
use surefoot::policy::{Softmax, Uniform};
use surefoot::{FeatureMap, LinearGaussian, Policy};
use surefoot_data::{
    ColumnNames, EvaluateRequest, Inputs, LogReader, NamedPolicy, PolicyReader, RecordPolicy, RunFiles, write_policy,
    write_policy_with,
};
use surefoot_serve::clock::ManualClock;
use surefoot_serve::{Limits, Loop, export};

use crate::common::{Answer, SHOP, get, open, post, request, rules, serve, visit};

const POLICIES: &str = "/v1/loops/shop/policies";

/// A loop with a gate, and its server.
pub(crate) struct Gated {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) lp: Arc<Loop>,
    pub(crate) to: std::net::SocketAddr,
    pub(crate) text: String,
}

pub(crate) fn gated(change: impl Fn(String) -> String) -> Gated {
    let text = change(SHOP.replace("\"always\"", "\"improvement\"").replace("records = 40", "records = 400"));
    let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::default()));
    clock.set(1_000_000);
    let lp = open(&folder.path().join("shop"), &text, &clock);
    let to = serve(&lp, &text, Limits::default());
    Gated { folder, clock, lp, to, text }
}

impl Gated {
    /// Visitors, who like one colour on a phone and another on a desktop; then their windows pass.
    pub(crate) fn visited(&self, from: usize, n: usize) {
        for start in (from..from + n).step_by(100) {
            let batch: String = (start..start + 100).map(|i| visit(i).to_string() + "\n").collect();
            let lines = ["Content-Type: application/x-ndjson"];
            let answer = request(self.to, "POST", "/v1/loops/shop/decisions", &lines, batch.as_bytes());
            let colours = ["red", "green"];
            let reward = |line: &str| {
                let decided: Value = serde_json::from_str(line).unwrap();
                let i: usize = decided["event_id"].as_str().unwrap()[1..].parse().unwrap();
                let reward = f64::from(u8::from(decided["action"] == colours[i % 2]));
                json!({ "event_id": decided["event_id"], "reward": reward }).to_string() + "\n"
            };
            let rewards: String = answer.text().lines().map(reward).collect();
            request(self.to, "POST", "/v1/loops/shop/rewards", &lines, rewards.as_bytes());
        }
        self.clock.set(1_000_000 + 10_000 * i64::try_from(from + n).unwrap());
        let began = Instant::now();
        while self.lp.status().waiting_rounds > 0 {
            let status = self.lp.status();
            assert!(status.failed.is_none() && began.elapsed() < Duration::from_secs(120), "{status:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn send(&self, path: &str, file: &Path) -> Answer {
        request(self.to, "POST", path, &["Content-Type: application/octet-stream"], &std::fs::read(file).unwrap())
    }

    /// A policy that shows what visitors like, in a file.
    pub(crate) fn good(&self) -> std::path::PathBuf {
        let (rules, first) = rules(&self.text);
        let (width, actions) = (rules.encoding.width(), rules.actions.len());
        // The features are a number, whether it is missing, desktop and phone: those of a category are in order.
        let mut weights = vec![0.0; width * actions];
        for (feature, action) in [(width - 2, 1), (width - 1, 0)] {
            weights[feature * actions + action] = 6.0;
        }
        let policy = Softmax::new(FeatureMap::identity(width), actions, weights, 1.0).unwrap();
        assert_eq!(policy.actions(), first.actions());
        let path = self.folder.path().join("good.safetensors");
        write_policy_with(&path, &policy, Some(&rules.inputs())).unwrap();
        path
    }
}

#[test]
fn a_challenger_is_named_in_the_ledger_judged_by_later_rounds_promoted_and_verified() {
    let shop = gated(|text| text);
    let Gated { to, lp, folder, .. } = &shop;
    (0..5).for_each(|i| drop(post(*to, "/v1/loops/shop/decisions", &visit(i))));
    let before = lp.status().ledger_head;
    let good = shop.good();
    let answer = shop.send(POLICIES, &good);
    assert_eq!(answer.status, 201, "{}", answer.text());
    // Round 0 has begun, so that its decisions may have chosen the policy.
    let told = answer.json();
    assert_eq!((&told["judged_from_round"], &told["standing"]), (&json!(1), &json!("waiting")));
    assert_ne!(told["ledger_head"], json!(before));
    assert_eq!(answer.header("surefoot-ledger-head"), told["ledger_head"].as_str());
    // Sent again, it is the same.
    assert_eq!(shop.send(POLICIES, &good).json(), told);
    let acts = get(*to, "/v1/loops/shop/acts").json();
    assert!(acts[0]["act"].as_str().unwrap().starts_with("challenge by"), "{acts}");
    assert_eq!(acts.as_array().unwrap().len(), 1);
    let print = told["policy"].as_str().unwrap();
    assert_eq!(get(*to, &format!("{POLICIES}/{print}")).status, 200);
    shop.visited(5, 395);
    let standing = || get(*to, "/v1/loops/shop/challengers").json()[0]["standing"].clone();
    assert_eq!(standing(), json!("waiting"));
    // What was learned has not replaced what was named meanwhile.
    shop.visited(400, 400);
    assert_eq!(standing(), json!("promoted"));
    shop.visited(800, 400);
    let rounds = get(*to, "/v1/loops/shop/rounds").json();
    assert_eq!(rounds[2]["policy"], told["policy"], "it collects the next round");
    let run = folder.path().join("run");
    let exported = export(&folder.path().join("shop"), &run).unwrap();
    assert_eq!((exported.rounds, exported.records), (3, 1200));
    let heads = [told["ledger_head"].as_str().unwrap().parse().unwrap(), lp.status().ledger_head];
    let report = audit(&RunFiles::of(&run).unwrap().read().unwrap(), &heads, || ());
    assert!(report.verified, "{:?}", report.all_differences());
}

#[test]
fn a_challenger_that_is_brought_while_a_round_is_learned_from_stays_in_the_ledger() {
    let shop = gated(|text| text);
    let Gated { to, lp, folder, clock, .. } = &shop;
    let good = shop.good();
    for start in [0, 400] {
        for i in (start..start + 400).step_by(100) {
            let batch: String = (i..i + 100).map(|i| visit(i).to_string() + "\n").collect();
            request(*to, "POST", "/v1/loops/shop/decisions", &["Content-Type: application/x-ndjson"], batch.as_bytes());
        }
    }
    // Both rounds become ready now; the challenger comes at some time while they are learned from.
    clock.set(2_000_000);
    let answer = shop.send(POLICIES, &good).json();
    assert_eq!(answer["judged_from_round"], json!(2));
    shop.visited(800, 400);
    let ledger: surefoot::audit::Ledger = get(*to, "/v1/loops/shop/ledger").text().parse().unwrap();
    assert!(ledger.place(answer["ledger_head"].as_str().unwrap().parse().unwrap()).is_some());
    assert_eq!(ledger.own_challengers().len(), 1);
    let run = folder.path().join("run");
    export(&folder.path().join("shop"), &run).unwrap();
    let report = audit(&RunFiles::of(&run).unwrap().read().unwrap(), &[lp.status().ledger_head], || ());
    assert!(report.verified, "{:?}", report.all_differences());
}

#[test]
fn what_cannot_be_a_challenger_is_refused_and_nothing_changes() {
    let shop = gated(|text| text);
    let Gated { to, lp, folder, .. } = &shop;
    let (rules, first) = rules(&shop.text);
    let file = |name: &str, policy: &dyn Policy, inputs: Option<&Inputs>| {
        let path = folder.path().join(name);
        write_policy_with(&path, policy, inputs).unwrap();
        path
    };
    let before = lp.status();
    let said = |answer: Answer| (answer.status, answer.json()["detail"].as_str().unwrap().to_owned());
    let wide = LinearGaussian::standard(FeatureMap::identity(rules.encoding.width() + 1), 3).unwrap();
    let mut other = rules;
    other.reward_range = [0.0, 5.0];
    for (path, detail) in [
        (file("wide", &wide, None), "a challenger should be one of contexts with"),
        (file("four", &Uniform::new(4).unwrap(), None), "a challenger should be one with 3 actions, but is one with 4"),
        (file("range", &first, Some(&other.inputs())), "the reward range of the policy should be those of the loop"),
    ] {
        let (status, found) = said(shop.send(POLICIES, &path));
        assert!(status == 422 && found.starts_with(detail), "{status}: {found}");
    }
    let running = said(shop.send(POLICIES, &file("running", &first, None)));
    assert!(running.0 == 422 && running.1.contains("another policy than the running one"), "{running:?}");
    let broken = request(*to, "POST", POLICIES, &["Content-Type: application/octet-stream"], b"no policy");
    assert_eq!((broken.status, broken.json()["type"].as_str().unwrap()), (422, "urn:surefoot:policy-file"));
    assert!(!broken.text().contains("/tmp"), "{}", broken.text());
    assert_eq!(post(*to, POLICIES, &json!({})).status, 415);
    let empty = request(*to, "POST", POLICIES, &["Content-Type: multipart/form-data; boundary=b"], b"--b--\r\n");
    assert_eq!(empty.status, 422, "{}", empty.text());
    assert_eq!(lp.status(), before);
    assert_eq!(get(*to, "/v1/loops/shop/challengers").json(), json!([]));
    let always = gated(|text| text.replace("\"improvement\"", "\"always\""));
    let refused = always.send(POLICIES, &shop.good());
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(refused.text().contains("should be other than always"), "{}", refused.text());
}

#[test]
fn a_policy_is_sent_with_the_files_that_it_names() {
    let shop = gated(|text| text);
    let (rules, _) = rules(&shop.text);
    let contexts = surefoot::Contexts::dense((0..40).map(|i| (i % 7) as f32).collect(), 4).unwrap();
    let map = FeatureMap::kernel(&contexts, 3, 1.0).unwrap();
    let policy = LinearGaussian::standard(map, rules.actions.len()).unwrap();
    let place = shop.folder.path().join("sent");
    std::fs::create_dir(&place).unwrap();
    write_policy(&place.join("policy.safetensors"), &policy).unwrap();
    let features = std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path());
    let features = features.into_iter().find(|path| path.to_string_lossy().contains("features-")).unwrap();
    let alone = shop.send(POLICIES, &place.join("policy.safetensors"));
    assert_eq!(alone.status, 422, "{}", alone.text());
    let mut body = Vec::new();
    for (name, path) in [("policy", &place.join("policy.safetensors")), ("file", &features)] {
        let file = path.file_name().unwrap().to_string_lossy();
        body.extend(
            format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{file}\"\r\n\r\n").bytes(),
        );
        body.extend(std::fs::read(path).unwrap());
        body.extend(b"\r\n");
    }
    body.extend(b"--b--\r\n");
    let form = ["Content-Type: multipart/form-data; boundary=b"];
    let answer = request(shop.to, "POST", POLICIES, &form, &body);
    assert_eq!(answer.status, 201, "{}", answer.text());
    // The loop has the features now.
    assert_eq!(shop.send(POLICIES, &place.join("policy.safetensors")).status, 201);
    let stray = b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"../x\"\r\n\r\nx\r\n--b--\r\n";
    assert_eq!(request(shop.to, "POST", POLICIES, &form, stray).status, 422);
}

#[test]
fn lint_and_evaluations_say_what_the_command_line_says_on_the_export() {
    let shop = gated(|text| text);
    let Gated { to, folder, .. } = &shop;
    let (lint, evaluations) = ("/v1/loops/shop/lint", "/v1/loops/shop/evaluations");
    let good = shop.good();
    for early in [get(*to, lint), shop.send(evaluations, &good)] {
        assert_eq!((early.status, &early.json()["type"]), (409, &json!("urn:surefoot:no-logs")));
    }
    shop.visited(0, 800);
    let run = folder.path().join("run");
    export(&folder.path().join("shop"), &run).unwrap();
    let log = run.join("logs.parquet");
    let reader = LogReader::new(vec![log], None, ColumnNames::default());
    let settings = surefoot_data::lint::LintSettings::default();
    let mut linted = surefoot_data::lint::lint(&reader, settings, |_| ()).unwrap();
    for row in linted.report.findings.iter_mut().flat_map(|finding| &mut finding.rows) {
        row.file = "logs.parquet".into();
    }
    assert_eq!(linted.report.summary.records, 800);
    let found = get(*to, lint);
    assert_eq!((found.status, found.json()), (200, serde_json::to_value(&linted).unwrap()));
    let policy = RecordPolicy::open_file(&good, &mut PolicyReader::default()).unwrap();
    let wanted = EvaluateRequest {
        policies: vec![NamedPolicy { name: "policy".into(), policy }],
        delta: 0.01,
        ..EvaluateRequest::default()
    };
    let evaluated = surefoot_data::evaluate(&reader, &wanted, |_| ()).unwrap();
    let found = shop.send(&format!("{evaluations}?delta=0.01"), &good);
    assert_eq!((found.status, found.json()), (200, serde_json::to_value(&evaluated).unwrap()));
    assert!(found.json()["policies"][0]["anytime"]["lower"].as_f64().unwrap() > 0.5);
    // A policy without a word on its inputs has those of the loop.
    let (rules, _) = rules(&shop.text);
    let plain = folder.path().join("uniform.safetensors");
    write_policy(&plain, &Uniform::new(rules.actions.len()).unwrap()).unwrap();
    let found = shop.send(evaluations, &plain);
    assert_eq!((found.status, &found.json()["records"]), (200, &json!(800)), "{}", found.text());
    for (query, detail) in [
        ("delta=2", "delta should be in (0, 1), but is 2"),
        ("model=deep", "model should be none or linear, but is \"deep\""),
        ("replicates=100000", "replicates should be at most 10000, but are 100000"),
    ] {
        let refused = shop.send(&format!("{evaluations}?{query}"), &good);
        assert_eq!((refused.status, &refused.json()["detail"]), (422, &json!(detail)));
    }
}
