//! Logs whose candidates have features, from raw records to the next policy and back.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::logs::Draws;

/// An empty folder.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("candidates").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn run(folder: &Path, arguments: &str) -> Output {
    let binary = env!("CARGO_BIN_EXE_surefoot");
    Command::new(binary).current_dir(folder).args(arguments.split_whitespace()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(run: &Output) -> Value {
    assert!(run.status.success(), "{}{}", text(&run.stdout), text(&run.stderr));
    serde_json::from_str(&text(&run.stdout)).unwrap()
}

fn failure(run: &Output) -> String {
    assert_eq!(run.status.code(), Some(1), "{}", text(&run.stdout));
    text(&run.stderr)
}

/// A user and articles with two tastes each.
struct Request {
    user: [f64; 2],
    articles: Vec<(usize, [f64; 2])>,
}

impl Request {
    /// Article `i` has tastes of its own.
    fn draw(draws: &mut Draws, first: usize) -> Self {
        let mut taste = || 2.0 * draws.next() - 1.0;
        let user = [taste(), taste()];
        let count = 3 + (3.0 * draws.next()) as usize;
        let mut articles: Vec<(usize, [f64; 2])> = Vec::new();
        while articles.len() < count {
            let id = first + (30.0 * draws.next()) as usize;
            if articles.iter().all(|(other, _)| *other != id) {
                let turn = id as f64 * 2.399;
                articles.push((id, [turn.cos(), turn.sin()]));
            }
        }
        Request { user, articles }
    }

    /// The probability of a click.
    fn clicks(&self, place: usize) -> f64 {
        let [x, y] = self.articles[place].1;
        (0.5 + 0.45 * (self.user[0] * x + self.user[1] * y)).clamp(0.02, 0.98)
    }

    fn json(&self, event: &str) -> String {
        let one = |(id, [x, y]): &(usize, [f64; 2])| format!(r#"{{"id":"n{id}","article":{{"x":{x:.4},"y":{y:.4}}}}}"#);
        let all: Vec<String> = self.articles.iter().map(one).collect();
        let [x, y] = self.user;
        format!(r#""event_id":"{event}","user":{{"x":{x:.4},"y":{y:.4}}},"candidates":[{}]"#, all.join(","))
    }
}

/// Requests that were answered uniformly.
fn logs(n: usize, seed: u64, first: usize) -> String {
    let (mut draws, mut out) = (Draws(seed), String::new());
    for i in 0..n {
        let request = Request::draw(&mut draws, first);
        let place = (draws.next() * request.articles.len() as f64) as usize;
        let reward = u8::from(draws.next() < request.clicks(place));
        let (id, p) = (request.articles[place].0, 1.0 / request.articles.len() as f64);
        let record = request.json(&format!("e{seed}-{i}"));
        let _ = writeln!(out, r#"{{{record},"action":"n{id}","pscore":{p},"reward":{reward}}}"#);
    }
    out
}

/// The mean reward of decisions on requests, and of the best ones.
fn value(decisions: &str, requests: &[Request]) -> [f64; 2] {
    let mut sums = [0.0; 2];
    for (line, request) in decisions.lines().zip(requests) {
        let decision: Value = serde_json::from_str(line).unwrap();
        let id: usize = decision["action"].as_str().unwrap()[1..].parse().unwrap();
        let place = request.articles.iter().position(|(other, _)| *other == id).unwrap();
        let p: Vec<f64> = decision["probabilities"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        assert_eq!(p.len(), request.articles.len());
        assert!((p[place] - decision["pscore"].as_f64().unwrap()).abs() < 1e-6);
        sums[0] += request.clicks(place);
        sums[1] += (0..p.len()).map(|place| request.clicks(place)).fold(0.0, f64::max);
    }
    sums.map(|sum| sum / requests.len() as f64)
}

#[test]
fn a_policy_over_candidates_is_learned_scored_and_evaluated() {
    let folder = &folder("learned");
    let at = |name: &str| folder.join(name);
    fs::write(at("logs.jsonl"), logs(3000, 1, 0)).unwrap();
    let learned = json(&run(folder, "learn logs.jsonl --out next.safetensors --json --quiet"));
    assert_eq!((&learned["actions"], &learned["candidates"]["features"]), (&5.into(), &32.into()));
    // Own features, and products of the tastes.
    assert_eq!((&learned["candidates"]["joint"], &learned["candidates"]["hashed"]), (&36.into(), &false.into()));
    assert_eq!(learned["certified"], true);
    let logged = learned["logged"][0].as_f64().unwrap();
    let at_least = learned["at_least"].as_f64().unwrap();
    let estimate = learned["estimate"][0].as_f64().unwrap();
    assert!(estimate > logged + 0.1 && at_least > 0.8 * logged, "{at_least} {estimate} {logged}");

    // Decisions on new requests, among new articles too.
    for first in [0, 1000] {
        let mut draws = Draws(99);
        let requests: Vec<Request> = (0..400).map(|_| Request::draw(&mut draws, first)).collect();
        let lines: String =
            (0..).zip(&requests).map(|(i, request)| format!("{{{}}}\n", request.json(&format!("v{i}")))).collect();
        fs::write(at("visitors.jsonl"), lines).unwrap();
        let scored = run(folder, "score next.safetensors visitors.jsonl --probabilities --json");
        assert!(scored.status.success(), "{}", text(&scored.stderr));
        let [found, best] = value(&text(&scored.stdout), &requests);
        assert!(found > 0.9 * best, "{found} of {best} from article {first}");
        assert!(at_least < found || first > 0);
    }

    // Other logs estimate the same.
    fs::write(at("later.jsonl"), logs(2000, 2, 0)).unwrap();
    let evaluated = run(folder, "evaluate later.jsonl --policy next.safetensors --policy uniform --json --quiet");
    let evaluated = json(&evaluated);
    let lower = |i: usize, of: &str| evaluated["policies"][i]["anytime"][of].as_f64().unwrap();
    assert!(lower(0, "lower") > lower(1, "upper"), "{evaluated}");
    let selected = json(&run(folder, "select later.jsonl --policy next.safetensors --policy uniform --json --quiet"));
    assert_eq!(selected["chosen"], "next");

    // The policy is the prior of the next one, and logs without candidates say that they do not fit.
    let again = "learn later.jsonl --prior next.safetensors --prior-is-older --out after.safetensors --json --quiet";
    assert_eq!(json(&run(folder, again))["certified"], true);
    fs::write(at("plain.csv"), "x,action,pscore,reward\n1,0,0.5,1\n2,1,0.5,0\n").unwrap();
    let said = failure(&run(folder, "learn plain.csv --prior next.safetensors --out a.safetensors"));
    assert!(said.contains("should have candidates with features, as the prior, but has fixed actions"), "{said}");
}

#[test]
fn what_is_not_for_candidates_says_so() {
    let folder = &folder("refused");
    fs::write(folder.join("logs.jsonl"), logs(200, 1, 0)).unwrap();
    let said = |arguments: &str| failure(&run(folder, arguments));
    let error = said("learn logs.jsonl --prior estimated");
    assert!(error.contains("the prior should be uniform or a policy file, as the records have candidates"), "{error}");
    let error = said("learn logs.jsonl --cross user:topic");
    assert!(error.contains("(user)") && error.contains("(article, id)"), "{error}");
    let error = said("learn logs.jsonl --actions 5");
    assert!(error.contains("actions should be not given, as every record has its own candidates"), "{error}");
    let error = said("evaluate logs.jsonl --policy uniform --model linear");
    assert!(error.contains("as the records have candidates"), "{error}");
}
