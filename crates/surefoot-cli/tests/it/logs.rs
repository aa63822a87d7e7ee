//! From a log file to the next policy and back into a log file, as a user goes.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use surefoot_data::Format;

fn run_in(folder: &Path, arguments: &str) -> Output {
    let binary = env!("CARGO_BIN_EXE_surefoot");
    Command::new(binary).current_dir(folder).args(arguments.split_whitespace()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn output(run: &Output) -> String {
    assert!(run.status.success(), "{}{}", text(&run.stdout), text(&run.stderr));
    text(&run.stdout)
}

fn json(run: &Output) -> Value {
    serde_json::from_str(&output(run)).unwrap()
}

fn failure(run: &Output) -> String {
    assert_eq!(run.status.code(), Some(1), "{}", text(&run.stdout));
    text(&run.stderr)
}

/// Numbers in [0, 1) that look random and are always the same.
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

const NAMES: [&str; 3] = ["left", "right", "stay"];

/// Visitors from two countries: `left` is right for one, `right` for the other, `stay` never is. Each line is an event
/// without its decision.
fn visitors(n: usize, seed: u64) -> Vec<String> {
    let mut draws = Draws(seed);
    (0..n)
        .map(|i| {
            let country = if draws.next() < 0.5 { "NO" } else { "SE" };
            let age = (20.0 + 50.0 * draws.next()).floor();
            let age = if i % 17 == 0 { String::new() } else { age.to_string() };
            format!("e{seed}-{i},{country},{age}")
        })
        .collect()
}

fn reward(country: &str, action: &str, draws: &mut Draws) -> u8 {
    let good = matches!((country, action), ("NO", "left") | ("SE", "right"));
    u8::from(draws.next() < if good { 0.8 } else { 0.2 })
}

/// A folder with `logs.csv`, which a uniform policy collected.
fn folder(test: &str, n: usize) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("logs-{test}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let mut draws = Draws(99);
    let mut csv = String::from("event_id,country,age,action,pscore,reward,policy_version\n");
    for visitor in visitors(n, 1) {
        let action = NAMES[(3.0 * draws.next()) as usize];
        let country = visitor.split(',').nth(1).unwrap();
        let reward = reward(country, action, &mut draws);
        writeln!(csv, "{visitor},{action},0.3333333333333333,{reward},v1").unwrap();
    }
    fs::write(folder.join("logs.csv"), csv).unwrap();
    folder
}

const LEARN: &str = "learn logs.csv --epochs 5 --out next.safetensors --quiet";

#[test]
fn a_better_policy_comes_out_of_a_log_file_with_a_certificate_that_verifies() {
    let folder = folder("learn", 4000);
    let learned = json(&run_in(&folder, &format!("{LEARN} --save run --json")));
    assert_eq!(
        (&learned["actions"], &learned["set_aside"], &learned["certified"]),
        (&3.into(), &400.into(), &true.into())
    );
    let number = |key: &str| learned[key].as_f64().unwrap();
    assert!(learned["estimate"][0].as_f64().unwrap() > 0.55 && number("at_least") > 0.5, "{learned}");
    // The uniform policy has 0.4.
    assert!(number("better_by") > 0.05, "{learned}");
    assert!(folder.join("next.certificates.json").exists());
    let verified = output(&run_in(&folder, "verify run"));
    assert!(verified.contains("verified, on trust") && !verified.contains("DIFFERS"), "{verified}");
    // The same settings give the same bytes, on any number of threads.
    let bytes = fs::read(folder.join("next.safetensors")).unwrap();
    output(&run_in(&folder, &format!("{LEARN} --threads 1")));
    assert_eq!(fs::read(folder.join("next.safetensors")).unwrap(), bytes);

    // What it says is in rewards, and no policy is worse by more than their range.
    let said = output(&run_in(&folder, &format!("{LEARN} --reward-range=-2,3")));
    assert!(said.contains("rewards are in [-2, 3], and no record was dropped for its reward"), "{said}");
    assert!(!said.contains("cost"), "{said}");
    let few: String = fs::read_to_string(folder.join("logs.csv"))
        .unwrap()
        .lines()
        .take(13)
        .fold(String::new(), |all, line| all + line + "\n");
    fs::write(folder.join("few.csv"), few).unwrap();
    let few =
        json(&run_in(&folder, "learn few.csv --actions left,right,stay --lambda 0.01 --out c.safetensors --json"));
    assert!(few["better_by"].as_f64().is_none_or(|better_by| better_by > -1.0), "{few}");

    let warned = output(&run_in(&folder, "learn logs.csv --epochs 1 --set-aside 0 --out a.safetensors"));
    assert!(warned.contains("warning: NOT certified: the features or the prior may have been fitted"), "{warned}");
    let estimated = "learn logs.csv --prior estimated --epochs 1 --out a.safetensors --json";
    assert_eq!(json(&run_in(&folder, estimated))["certified"], true);
    // The next round starts from what was deployed.
    let next = json(&run_in(&folder, "learn logs.csv --prior next.safetensors --epochs 1 --out b.safetensors --json"));
    assert_eq!((&next["set_aside"], &next["features"]), (&0.into(), &learned["features"]));
    // It was learned from logs, and nobody says that these are others.
    assert_eq!(next["certified"], false);
    let older = "learn logs.csv --prior next.safetensors --prior-is-older --epochs 1 --out b.safetensors --json";
    assert_eq!(json(&run_in(&folder, older))["certified"], true);
}

#[test]
fn a_policy_decides_the_same_for_the_same_event_and_its_logs_can_be_learned_from() {
    let folder = folder("score", 3000);
    output(&run_in(&folder, LEARN));
    let lines = visitors(1500, 2);
    let write = |name: &str, lines: &[String]| {
        fs::write(folder.join(name), format!("event_id,country,age\n{}\n", lines.join("\n"))).unwrap();
    };
    write("visitors.csv", &lines);
    let decided = output(&run_in(&folder, "score next.safetensors visitors.csv --seed 3 --probabilities"));
    assert!(decided.starts_with("event_id,action,pscore,policy_version,probabilities\n"), "{}", &decided[..100]);
    // An input that cannot be read has no header.
    fs::write(folder.join("broken.csv"), "event_id,country\n\"e1").unwrap();
    for input in ["broken.csv", "missing.csv", "visitors.unknown"] {
        let run = run_in(&folder, &format!("score next.safetensors {input}"));
        assert!(!run.status.success() && run.stdout.is_empty(), "{input}: {}", String::from_utf8_lossy(&run.stdout));
    }
    // One event alone, and all backwards.
    let backwards: Vec<String> = lines.iter().rev().cloned().collect();
    write("backwards.csv", &backwards);
    write("one.csv", &lines[7..8]);
    let find = |decided: &str| decided.lines().find(|line| line.starts_with("e2-7,")).unwrap().to_owned();
    for other in ["backwards.csv", "one.csv"] {
        let again = output(&run_in(&folder, &format!("score next.safetensors {other} --seed 3 --probabilities")));
        assert_eq!(find(&again), find(&decided), "{other}");
    }
    assert_ne!(output(&run_in(&folder, "score next.safetensors visitors.csv --seed 4 --probabilities")), decided);

    // Decisions have columns of their own, so a format takes them unless its columns are fixed.
    for format in Format::ALL {
        let out = format!("decided.{}", format.extension());
        let run = run_in(&folder, &format!("score next.safetensors visitors.csv --seed 3 --out {out}"));
        if format.has_fixed_columns() {
            let wrong = failure(&run);
            assert!(wrong.starts_with(&format!("error: {out}: decisions can be written as .parquet, .csv")), "{wrong}");
            assert!(!wrong.contains(&format!(".{},", format.extension())), "{wrong}");
        } else {
            assert_eq!(output(&run), format!("wrote 1500 decisions to {out}\n"));
        }
    }
    // Events without ids get new ones, in every run.
    fs::write(folder.join("plain.csv"), "country,age\nNO,30\n").unwrap();
    let fresh = || {
        let said = output(&run_in(&folder, "score next.safetensors plain.csv --out decided.csv"));
        assert!(said.contains("note: the records have no event ids, so each decision has a new random one"), "{said}");
        fs::read_to_string(folder.join("decided.csv")).unwrap()
    };
    assert_ne!(fresh(), fresh());
    fs::write(folder.join("none.csv"), "event_id,country,age\n").unwrap();
    assert_eq!(
        output(&run_in(&folder, "score next.safetensors none.csv --out decided.csv")),
        "wrote 0 decisions to decided.csv\n"
    );

    // A reader that has seen enough is not an error.
    let mut run = Command::new(env!("CARGO_BIN_EXE_surefoot"))
        .current_dir(&folder)
        .args(["score", "next.safetensors", "visitors.csv"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(run.stdout.take());
    assert!(run.wait_with_output().unwrap().status.success());

    // What is logged is what the policy gives: the world answers, and the second round is in the file.
    let mut draws = Draws(5);
    let mut csv = String::from("event_id,country,age,action,pscore,reward,policy_version\n");
    let decided = output(&run_in(&folder, "score next.safetensors visitors.csv --seed 3"));
    let mut total = 0.0;
    for (visitor, line) in lines.iter().zip(decided.lines().skip(1)) {
        let cells: Vec<&str> = line.split(',').collect();
        let reward = reward(visitor.split(',').nth(1).unwrap(), cells[1], &mut draws);
        total += f64::from(reward);
        writeln!(csv, "{visitor},{},{},{reward},{}", cells[1], cells[2], cells[3]).unwrap();
    }
    assert!(total / 1500.0 > 0.5, "chance has 0.4: {total}");
    fs::write(folder.join("second.csv"), csv).unwrap();
    let run = run_in(
        &folder,
        "evaluate second.csv --policy next.safetensors --policy uniform --replicates 200 --json --figure forest.svg",
    );
    assert_eq!(text(&run.stderr), "wrote forest.svg and forest.png\n");
    let found = json(&run);
    let own = &found["policies"][0];
    let value = |policy: &Value, i: usize| policy["estimates"][i]["value"].as_f64().unwrap();
    assert!((value(own, 0) - total / 1500.0).abs() < 1e-6, "its own logs need no weights: {own}");
    assert!((own["weights"]["mean"].as_f64().unwrap() - 1.0).abs() < 1e-6);
    let uniform = &found["policies"][1];
    assert!((value(uniform, 1) - 0.4).abs() < 0.1, "{uniform}");
    let (low, high) = (uniform["anytime"]["lower"].as_f64().unwrap(), uniform["anytime"]["upper"].as_f64().unwrap());
    assert!(low < 0.4 && 0.4 < high);
    assert!(folder.join("forest.svg").exists() && folder.join("forest.png").exists());

    let both = json(&run_in(&folder, "learn logs.csv second.csv --epochs 2 --out third.safetensors --json"));
    assert_eq!(both["rounds"].as_array().unwrap().len(), 2);
    assert_eq!(both["rounds"][1]["records"], 1500);
}

#[test]
fn of_several_policies_the_one_with_the_most_proven_is_chosen() {
    let folder = folder("select", 4000);
    output(&run_in(&folder, LEARN));
    output(&run_in(&folder, "learn logs.csv --ignore country --epochs 2 --out blind.safetensors --quiet"));
    let found = json(&run_in(
        &folder,
        "select logs.csv --policy next.safetensors --policy blind.safetensors --mixture mixed.json --json --quiet",
    ));
    assert_eq!(found["chosen"], "next");
    let proven = |of: &Value| of["at_least"].as_f64().unwrap();
    assert!(proven(&found["candidates"][0]) > proven(&found["candidates"][1]) + 0.05, "{found}");
    assert!(proven(&found["mixture"]) >= proven(&found["candidates"][0]) - 1e-9);
    // The mixture is a policy like any other.
    let evaluated = output(&run_in(&folder, "evaluate logs.csv --policy mixed.json --replicates 0 --quiet"));
    assert!(evaluated.contains("SNIPS"), "{evaluated}");
    let scored = output(&run_in(&folder, "score mixed.json logs.csv"));
    assert_eq!(scored.lines().count(), 4001);
    let mut broken: Value = serde_json::from_slice(&fs::read(folder.join("mixed.json")).unwrap()).unwrap();
    broken["policies"][0]["weight"] = 0.7.into();
    broken["policies"][1]["weight"] = 0.7.into();
    fs::write(folder.join("mixed.json"), broken.to_string()).unwrap();
    assert!(failure(&run_in(&folder, "score mixed.json logs.csv")).contains("sum to 1"));
    // Policies over other actions do not mix.
    let other = fs::read_to_string(folder.join("logs.csv")).unwrap().replace(",stay,", ",jump,");
    fs::write(folder.join("other.csv"), other).unwrap();
    output(&run_in(&folder, "learn other.csv --epochs 1 --out other.safetensors --quiet"));
    let other = surefoot_data::read_policy(&folder.join("other.safetensors")).unwrap();
    broken["policies"][0]["weight"] = 0.3.into();
    broken["policies"][1]["file"] = "other.safetensors".into();
    broken["policies"][1]["fingerprint"] = other.identity().unwrap().to_string().into();
    fs::write(folder.join("mixed.json"), broken.to_string()).unwrap();
    let wrong = failure(&run_in(&folder, "score mixed.json logs.csv"));
    assert!(wrong.contains("should have the actions of the first policy"), "{wrong}");
    let wrong = failure(&run_in(&folder, "select logs.csv --policy uniform"));
    assert!(wrong.contains("uniform: the uniform policy needs all actions"), "{wrong}");
    let wrong =
        failure(&run_in(&folder, "select logs.csv --policy uniform --actions left,right,stay --mixture o.json"));
    assert!(
        wrong.contains(
            "uniform: every candidate of a written mixture should be a policy file in the folder of the mixture"
        ),
        "{wrong}"
    );
}

#[test]
fn a_log_file_survives_every_format() {
    let folder = folder("convert", 60);
    let value = |format: &str, named: bool| {
        let actions = if named { "left,right,stay" } else { "3" };
        let what = "--policy uniform --estimators ips,snips --replicates 50 --json";
        json(&run_in(&folder, &format!("evaluate logs.{format} --actions {actions} {what}")))["policies"].clone()
    };
    let expected = value("csv", true);
    for format in Format::ALL {
        let end = format!("{format}.{}", format.extension());
        let ignored = if format == Format::Obp { "--ignore event_id,country,policy_version,age" } else { "" };
        output(&run_in(&folder, &format!("convert logs.csv --out logs.{end} {ignored}")));
        let named = !format.has_fixed_columns();
        assert_eq!(value(&end, named), expected, "{format}");
        // And back.
        output(&run_in(&folder, &format!("convert logs.{end} --out back.jsonl")));
        let back = fs::read_to_string(folder.join("back.jsonl")).unwrap();
        assert_eq!(back.lines().count(), 60);
        fs::rename(folder.join("back.jsonl"), folder.join("logs.back.jsonl")).unwrap();
        assert_eq!(value("back.jsonl", named), expected, "{format} and back");
    }
    let said = output(&run_in(&folder, "convert logs.csv --out again.vw"));
    assert!(said.contains("action \"left\" is now 0"), "{said}");
    let wrong = failure(&run_in(&folder, "convert logs.csv --out logs.npz"));
    assert!(wrong.contains("event_id") && wrong.contains("--ignore"), "texts have no place among numbers: {wrong}");
    assert!(!folder.join("logs.npz").exists(), "nothing is half written");
}

#[test]
fn bad_logs_and_bad_policies_give_clear_errors() {
    let folder = folder("bad", 50);
    let good = fs::read_to_string(folder.join("logs.csv")).unwrap();
    fs::write(folder.join("zero.csv"), good.replacen("0.3333333333333333", "0", 1)).unwrap();
    let wrong = failure(&run_in(&folder, "learn zero.csv"));
    assert_eq!(
        wrong,
        "error: zero.csv, row 0: pscore should be in (0, 1], but is 0\n\
         hint: surefoot lint lists all errors in logs at once\n"
    );
    assert!(!folder.join("policy.safetensors").exists());
    // The files beside a policy are not copied.
    output(&run_in(&folder, "learn logs.csv --epochs 1 --out next.safetensors"));
    fs::create_dir(folder.join("elsewhere")).unwrap();
    fs::copy(folder.join("next.safetensors"), folder.join("elsewhere/next.safetensors")).unwrap();
    for command in
        ["evaluate logs.csv --policy elsewhere/next.safetensors", "score elsewhere/next.safetensors logs.csv"]
    {
        let wrong = failure(&run_in(&folder, command));
        assert!(wrong.contains("safetensors: cannot be read"), "{wrong}");
        assert!(wrong.ends_with("hint: a policy names files beside it: copy them along with it\n"), "{wrong}");
    }
    let wrong = failure(&run_in(&folder, "evaluate logs.csv --policy nothing.safetensors"));
    assert!(wrong.contains("nothing.safetensors: cannot be read"), "{wrong}");
    let wrong = failure(&run_in(&folder, "evaluate logs.csv --policy uniform --estimators dr"));
    assert!(
        wrong.contains("the reward model should be given, as DR needs one") && wrong.contains("--model linear"),
        "{wrong}"
    );
    let wrong = failure(&run_in(&folder, "evaluate logs.csv --policy uniform --estimators magic"));
    assert!(wrong.contains("an estimator should be ips, snips"), "{wrong}");
    output(&run_in(&folder, "simulate --dataset synthetic --interactions 100 --rounds 1 --save run --quiet"));
    let wrong = failure(&run_in(&folder, "evaluate logs.csv --policy run/policies/000.safetensors"));
    assert!(wrong.contains("does not say how records become its features"), "{wrong}");
    // A policy file with another encoding than it was written with is not believed.
    output(&run_in(&folder, "learn logs.csv --epochs 1 --out p.safetensors --quiet"));
    let mut bytes = fs::read(folder.join("p.safetensors")).unwrap();
    let at = bytes.windows(2).position(|pair| pair == b"NO").unwrap();
    bytes[at..at + 2].copy_from_slice(b"NP");
    fs::write(folder.join("p.safetensors"), bytes).unwrap();
    let wrong = failure(&run_in(&folder, "score p.safetensors logs.csv"));
    assert!(wrong.contains("the inputs should have the hash"), "{wrong}");
    let wrong = failure(&run_in(&folder, "convert logs.txt --out logs.parquet"));
    assert!(wrong.contains("the name should end in .parquet, .csv"), "{wrong}");
}

#[test]
fn actions_that_are_counted_from_one_are_called_so_ever_after() {
    let folder = folder("from-one", 600);
    let logs = fs::read_to_string(folder.join("logs.csv")).unwrap();
    let numbered = logs.replace(",left,", ",1,").replace(",right,", ",2,").replace(",stay,", ",3,");
    fs::write(folder.join("numbered.csv"), numbered).unwrap();
    output(&run_in(&folder, "learn numbered.csv --actions-from-one --epochs 1 --out p.safetensors --quiet"));
    output(&run_in(&folder, "learn logs.csv --epochs 1 --out q.safetensors --quiet"));
    let actions = |policy: &str| -> Vec<String> {
        let scored = output(&run_in(&folder, &format!("score {policy} logs.csv")));
        scored.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().to_owned()).collect()
    };
    let named: Vec<String> = actions("q.safetensors")
        .iter()
        .map(|name| (NAMES.iter().position(|n| n == name).unwrap() + 1).to_string())
        .collect();
    assert_eq!(actions("p.safetensors"), named);
    // With or without the flag, the policy knows which action is which.
    let value =
        |flags: &str| json(&run_in(&folder, &format!("evaluate numbered.csv --policy p.safetensors {flags} --json")));
    assert_eq!(value("")["policies"], value("--actions-from-one")["policies"]);
}

#[test]
fn a_model_of_the_rewards_serves_the_direct_method() {
    let folder = folder("model", 3000);
    output(&run_in(&folder, LEARN));
    let run =
        "evaluate logs.csv --policy next.safetensors --model linear --ignore event_id --replicates 100 --json --quiet";
    let found = json(&run_in(&folder, run));
    let value = |name: &str| {
        let all = found["policies"][0]["estimates"].as_array().unwrap();
        all.iter().find(|e| e["name"] == name).unwrap()["value"].as_f64().unwrap()
    };
    assert!((value("DM") - value("IPS")).abs() < 0.06, "{found}");
    assert!((value("DR") - value("IPS")).abs() < 0.06);
}

/// Logs of two actions with these propensities and ids.
fn two_actions(test: &str, propensity: &str, id: impl Fn(usize) -> String) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("logs-{test}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let (mut draws, mut csv) = (Draws(7), String::from("event_id,x,action,pscore,reward\n"));
    for i in 0..400 {
        let action = u8::from(draws.next() < 0.5);
        let reward = u8::from(draws.next() < if action == 0 { 0.7 } else { 0.3 });
        writeln!(csv, "{},{},{action},{propensity},{reward}", id(i), draws.next()).unwrap();
    }
    fs::write(folder.join("logs.csv"), csv).unwrap();
    folder
}

#[test]
fn logs_that_refute_themselves_are_an_error_and_flawed_ones_are_not_certified() {
    let folder = two_actions("refuted", "0.05", |i| i.to_string());
    for command in [
        "learn logs.csv",
        "evaluate logs.csv --actions 2 --policy uniform",
        "select logs.csv --actions 2 --policy uniform",
    ] {
        let said = failure(&run_in(&folder, command));
        assert!(said.contains("the logs contradict the assumptions of a certificate"), "{command}: {said}");
        assert!(said.contains("the mean of 1/propensity"), "{command}: {said}");
    }
    assert!(!folder.join("policy.safetensors").exists());

    let folder = two_actions("flawed", "0.5", |i| (i / 2).to_string());
    let said = output(&run_in(&folder, "learn logs.csv"));
    assert!(said.contains("... NOT certified") && !said.contains("... certified"), "{said}");
    assert!(said.contains("NOT certified: 200 records with an id that an earlier record has"), "{said}");
    let said = output(&run_in(&folder, "evaluate logs.csv --actions 2 --policy uniform --replicates 0"));
    assert!(said.contains("NOT proven: ") && !said.contains("proven, at any time"), "{said}");
    let said = output(&run_in(&folder, "select logs.csv --actions 2 --policy uniform"));
    assert!(said.contains("NOT certified: at least"), "{said}");

    let folder = two_actions("sound", "0.5", |i| i.to_string());
    let said = output(&run_in(&folder, "evaluate logs.csv --actions 2 --policy uniform --replicates 0"));
    let place = |text: &str| said.find(text).unwrap_or_else(|| panic!("{text}: {said}"));
    assert!(place("proven, at any time") < place("recommended: ") && place("recommended: ") < place("estimator"));
}

#[test]
fn a_file_that_is_read_is_never_written() {
    let folder = folder("read-and-written", 300);
    output(&run_in(&folder, "learn logs.csv --epochs 1 --algorithm thompson --out next.safetensors"));
    let before = |name: &str| fs::read(folder.join(name)).unwrap();
    let (log, policy) = (before("logs.csv"), before("next.safetensors"));
    fs::copy(folder.join("logs.csv"), folder.join("week")).unwrap();
    for command in [
        "learn week --format csv --out week",
        "convert logs.csv --out ./logs.csv",
        "score next.safetensors logs.csv --out logs.csv",
        "serve init logs.csv --force --out logs.csv",
        "select logs.csv --policy next.safetensors --mixture next.safetensors",
    ] {
        let said = failure(&run_in(&folder, command));
        // A mixture may not have the ending of a policy at all.
        let refused = match command.starts_with("select") {
            true => "the name of a mixture should end in .json",
            false => "cannot be written: it is one of the files that are read",
        };
        assert!(said.contains(refused), "{command}: {said}");
    }
    assert!(before("logs.csv") == log && before("week") == log && before("next.safetensors") == policy);
}

#[test]
fn names_of_columns_that_no_record_has_are_refused() {
    let folder = folder("no-such-column", 300);
    output(&run_in(&folder, "convert logs.csv --out logs.dsjson"));
    for command in [
        "learn logs.csv --ignore contry --out a.safetensors",
        "learn logs.csv --ignore pj_* --out a.safetensors",
        "learn logs.csv --categorical zip --out a.safetensors",
        "learn logs.dsjson --ignore contry --out a.safetensors",
        "convert logs.csv --ignore contry --out b.csv",
        "serve init logs.csv --ignore contry --out shop.toml",
    ] {
        let said = failure(&run_in(&folder, command));
        assert!(said.contains("no column") && said.contains("; it has event_id"), "{command}: {said}");
    }
    let said =
        failure(&run_in(&folder, "learn logs.csv --prior next.safetensors --ignore country --out a.safetensors"));
    assert!(said.contains("--ignore cannot be used with --prior next.safetensors"), "{said}");
    // Nor is a flag that would do nothing.
    let said = failure(&run_in(&folder, "learn logs.csv --algorithm thompson --members kernel --out a.safetensors"));
    assert!(said.contains("members should be usual, as only a portfolio has members, but is kernel"), "{said}");
    let said = failure(&run_in(&folder, "learn logs.csv --prior-is-older --out a.safetensors"));
    assert!(said.contains("--prior-is-older is about a policy file"), "{said}");
    for name in ["a.safetensors", "b.csv", "shop.toml"] {
        assert!(!folder.join(name).exists(), "{name}");
    }
}

#[test]
fn features_that_are_named_in_lists_are_chosen_like_columns() {
    let folder = folder("named-features", 300);
    let columns = |file: &str, flags: &str| {
        let command = format!("learn {file} {flags} --epochs 1 --algorithm thompson --out next.safetensors --json");
        let mut columns: Vec<String> = json(&run_in(&folder, &command))["columns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c.as_str().unwrap().into())
            .collect();
        columns.sort();
        columns
    };
    for format in ["dsjson", "vw"] {
        let file = format!("logs.{format}");
        let said = output(&run_in(&folder, &format!("convert logs.csv --out {file}")));
        assert_eq!(said.contains("left out, as vw has no place for it: policy_version"), format == "vw", "{said}");
        assert_eq!(columns(&file, ""), ["age", "country"], "{format}");
        assert_eq!(columns(&file, "--ignore country"), ["age"], "{format}");
        assert_eq!(columns(&file, "--features country"), ["country"], "{format}");
    }
    // Each decision lists all three actions, whichever was chosen.
    let written = fs::read_to_string(folder.join("logs.dsjson")).unwrap();
    assert!(written.lines().all(|line| line.contains(r#""_multi":[{},{},{}]"#)));
}

#[test]
fn lint_tells_what_learning_would_refuse_or_take_for_categories() {
    let folder = folder("strange-columns", 300);
    let log = fs::read_to_string(folder.join("logs.csv")).unwrap();
    let lint = |age: &str| {
        let (head, rest) = log.split_once("\ne1-1,").unwrap();
        let (country, rest) = rest.split_once(',').unwrap();
        let (_, rest) = rest.split_once(',').unwrap();
        fs::write(folder.join("strange.csv"), format!("{head}\ne1-1,{country},{age},{rest}")).unwrap();
        output(&run_in(&folder, "lint strange.csv"))
    };
    let said = lint("old");
    assert!(
        said.contains("columns: strange.csv, row 1: age should be a number, as most are, but is old; 1 of 282"),
        "{said}"
    );
    let said = lint("inf");
    assert!(said.contains("row 1: age should be finite, but is inf") && said.contains("--ignore"), "{said}");
    assert!(failure(&run_in(&folder, "learn strange.csv --out a.safetensors")).contains("age should be finite"));
    assert!(!lint("30").contains("columns:"));
    fs::write(folder.join("one.csv"), log.lines().take(2).collect::<Vec<_>>().join("\n")).unwrap();
    assert!(output(&run_in(&folder, "lint one.csv")).contains("there is one action"));
}
