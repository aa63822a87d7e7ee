//! Damaged files: each is an error or a valid value, never a panic, and never takes more memory than stated. Alone in
//! its process, since it asks for the peak of all.
//!
//! `SUREFOOT_MUTATIONS=100000 cargo test -p surefoot-data --test mutations` tries more of them.

#![allow(missing_docs)]

#[path = "it/common/mod.rs"]
mod common;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{Folder, idx, npz_but};
use surefoot::features::{Joint, SoftmaxFeatures};
use surefoot::learn::LearnerSettings;
use surefoot::logs::Eligible;
use surefoot::observer::Silent;
use surefoot::policy::{Basis, Posterior, Scale, Softmax, Uniform};
use surefoot::worlds::{Environment, Synthetic, SyntheticSettings, Turn};
use surefoot::{Contexts, FeatureMap, Gate, LinearGaussian, Logs, Policy, Session};
use surefoot_data::lint::{Lint, LintSettings};
use surefoot_data::{
    ColumnNames, EvaluateRequest, Format, LearnRequest, LogReader, NamedPolicy, Prior, ReadRequest, RecordPolicy,
    RunFiles, Scorer, SelectRequest, convert, evaluate, learn, load, read_certificates, read_policy, read_round,
    read_session, select, write_policy, write_round, write_session,
};

/// The most memory in bytes: mostly the weights of random Fourier features, of which a file may ask for 1 GiB.
const MOST: usize = 3 << 29;

/// Numbers that look random and are always the same.
struct Draws(u64);

impl Draws {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n.max(1)
    }
}

/// Flips, replaces, inserts, removes or repeats a few bytes, or cuts the end off.
fn mutate(bytes: &mut Vec<u8>, draws: &mut Draws) {
    // Bytes that mean something in JSON or as a size, and any others.
    const TELLING: &[u8] = b"0123456789-.,:{}[]\"en\x00\x01\x7f\x80\xff";
    for _ in 0..1 + draws.below(3) {
        // The first bytes are mostly headers.
        let reach = if draws.below(2) == 0 { bytes.len().min(256) } else { bytes.len() };
        let at = draws.below(reach);
        let byte = if draws.below(4) == 0 { draws.below(256) as u8 } else { TELLING[draws.below(TELLING.len())] };
        let end = (at + 1 + draws.below(16)).min(bytes.len());
        match draws.below(6) {
            _ if bytes.is_empty() => bytes.push(byte),
            0 => bytes[at] ^= 1 << draws.below(8),
            1 => bytes[at] = byte,
            2 => bytes.insert(at, byte),
            3 => drop(bytes.drain(at..end)),
            4 => bytes.truncate(at),
            _ => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
        }
    }
}

/// Damages one file in many ways, and reads it each time. Most damaged files are errors.
fn try_all(name: &str, path: &Path, read: impl Fn() -> surefoot_data::Result<()>) {
    let (errors, cases) = try_any(name, path, cases(), read);
    assert!(2 * errors > cases, "{name}: only {errors} of {cases} are errors");
}

/// The number of damaged versions of each file.
fn cases() -> u64 {
    std::env::var("SUREFOOT_MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

/// Like [`try_all`], for files that often stay valid. Returns the numbers of errors and of cases.
fn try_any(name: &str, path: &Path, cases: u64, read: impl Fn() -> surefoot_data::Result<()>) -> (u64, u64) {
    let whole = fs::read(path).unwrap();
    read().unwrap_or_else(|error| panic!("{name}: the whole file: {error}"));
    let mut errors = 0;
    for case in 0..cases {
        let mut bytes = whole.clone();
        mutate(&mut bytes, &mut Draws(case));
        fs::write(path, &bytes).unwrap();
        match catch_unwind(AssertUnwindSafe(&read)) {
            Ok(result) => errors += u64::from(result.is_err()),
            Err(_) => panic!("{name}: case {case} panics"),
        }
    }
    fs::write(path, whole).unwrap();
    (errors, cases)
}

fn reader(path: &Path) -> LogReader {
    LogReader::new(vec![path.to_owned()], None, ColumnNames::default())
}

fn request() -> LearnRequest {
    let settings = LearnerSettings { epochs: 1, lambda: "0.5".into(), ..LearnerSettings::default() };
    LearnRequest {
        read: ReadRequest::default(),
        prior: Prior::Uniform,
        prior_is_older: false,
        learner: settings.learner().unwrap().0,
        held_back: 0.2,
        exploration: 0.05,
        intercept: true,
        contenders: Vec::new(),
    }
}

/// Everything that commands do with logs, one after the other, whatever fails: `lint`, `evaluate`, `select`, `learn`,
/// `score` and `convert`. Returns the first error.
fn commands(path: &Path, scorer: &Scorer) -> surefoot_data::Result<()> {
    let reader = reader(path);
    let policies = || vec![NamedPolicy { name: "logged".into(), policy: RecordPolicy::Logged }];
    let mut lint = Lint::new(LintSettings::default());
    let linted = reader.batches().try_for_each(|batch| lint.add(&batch?));
    drop(lint.finish(0));
    let request = EvaluateRequest { policies: policies(), replicates: 10, ..EvaluateRequest::default() };
    let evaluated = evaluate(&reader, &request, |_| ()).map(drop);
    let request = SelectRequest { policies: policies(), prior: None, reward_range: [0.0, 1.0], delta: 0.05 };
    let selected = select(&reader, &request, |_| ()).map(drop);
    let learned = learn(&reader, &self::request(), &mut Silent).map(drop);
    let scored = reader.clone().without_labels().batches().try_for_each(|batch| scorer.score(&batch?).map(drop));
    let converted = convert(&reader, &path.with_extension("out"), Format::JsonLines, &[]).map(drop);
    linted.and(evaluated).and(selected).and(learned).and(scored).and(converted)
}

#[test]
fn damaged_logs_never_make_a_command_panic() {
    let folder = Folder::new();
    let row = |i: usize| format!("e{i},{},{},{},0.5,{}\n", i % 2, i % 7, ["red", "blue"][i / 3 % 2], i * 5 % 3 % 2);
    let csv = format!("event_id,action,x,colour,pscore,reward\n{}", (0..60).map(row).collect::<String>());
    let csv = folder.write("logs.csv", csv);
    for format in Format::ALL {
        let path = folder.path().join(format!("damaged.{}", format.extension()));
        // Open Bandit Pipeline's arrays hold no texts.
        let texts: &[String] = if format == Format::Obp { &["event_id".into(), "colour".into()] } else { &[] };
        convert(&reader(&csv), &path, format, texts).unwrap();
        let learned = learn(&reader(&path), &request(), &mut Silent).unwrap();
        let policy = RecordPolicy::Encoded { policy: learned.policy, inputs: Arc::new(learned.inputs) };
        let scorer = Scorer::new(policy, 1, true).unwrap();
        // Six commands take longer than one reader.
        let cases = cases().min(300).max(cases() / 50);
        try_any(format.name(), &path, cases, || commands(&path, &scorer));
    }
}

#[test]
fn damaged_logs_with_candidates_never_make_a_command_panic() {
    let folder = Folder::new();
    let line = |i: usize| {
        let (chosen, other) = (i % 2 + 1, 2 - i % 2);
        let articles = format!(
            r#"{{"_tag":"a{}","art":{{"x":{},"topic":"{}"}}}},{{"_tag":"b{}","art":{{"x":{}}}}}"#,
            i % 5,
            i % 7 + 1,
            ["news", "art"][i / 3 % 2],
            i % 4,
            i % 3 + 1
        );
        let context = format!(r#"{{"user":{{"age":{}}},"_multi":[{articles}]}}"#, 20 + i % 9);
        let label =
            format!(r#""_label_cost":-{},"_label_probability":0.5,"_labelIndex":{}"#, i * 5 % 3 % 2, chosen - 1);
        format!(r#"{{{label},"EventId":"e{i}","a":[{chosen},{other}],"c":{context},"p":[0.5,0.5]}}"#) + "\n"
    };
    let logs = folder.write("logs.dsjson", (0..60).map(line).collect::<String>());
    for format in [Format::Dsjson, Format::Vw, Format::JsonLines, Format::Parquet] {
        let path = folder.path().join(format!("damaged.{}", format.extension()));
        convert(&reader(&logs), &path, format, &[]).unwrap();
        let learned = learn(&reader(&path), &request(), &mut Silent).unwrap();
        let policy = RecordPolicy::Encoded { policy: Arc::new(learned.policy), inputs: Arc::new(learned.inputs) };
        let scorer = Scorer::new(policy, 1, true).unwrap();
        let cases = cases().min(100).max(cases() / 50);
        try_any(format.name(), &path, cases, || commands(&path, &scorer));
    }
}

/// The most bytes that the process has had in memory so far.
#[cfg(target_os = "linux")]
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    1024 * line.trim().trim_end_matches(" kB").parse::<usize>().unwrap()
}

fn saved_run(folder: &Path) {
    let world = Synthetic::new(SyntheticSettings::default()).unwrap();
    let first = world.first_policy(FeatureMap::identity(10), 0.2).unwrap();
    let settings = LearnerSettings { epochs: 1, ..LearnerSettings::default() };
    let mut session = Session::new(settings.learner().unwrap().0, Gate::Always, first).unwrap();
    let logs = world.collect(session.running().as_ref(), Turn { round: 0, start: 0, n: 40 }).unwrap();
    session.take(logs, false, &mut Silent).unwrap();
    write_session(folder, &session, Vec::new()).unwrap();
}

#[test]
fn damaged_files_are_errors_or_valid_and_never_panics() {
    let folder = Folder::new();
    let at = |name: &str| folder.path().join(name);

    let basis = Basis::new(vec![0.6, -0.8, 0.8, 0.6], 2).unwrap();
    let posterior = Posterior::new(2, vec![1.0, 2.0, 3.0, 4.0], Scale::PerFeature(vec![1.0, 0.5])).unwrap();
    let turned = posterior.clone().with_basis(Arc::new(basis)).unwrap();
    let landmarks = Contexts::dense((0..12).map(|i| i as f32 / 3.0).collect(), 3).unwrap();
    let policies: [(&str, Box<dyn Policy>); 8] = [
        ("candidates", {
            let joint = Joint::full(2, 1, 18).unwrap();
            let posterior = Posterior::over_candidates(vec![1.0, 2.0, 3.0], Scale::Shared(0.5)).unwrap();
            Box::new(LinearGaussian::over_candidates(FeatureMap::identity(2), joint, 3, posterior).unwrap())
        }),
        ("gaussian", Box::new(LinearGaussian::new(FeatureMap::identity(2), turned).unwrap())),
        ("fourier", {
            let map = FeatureMap::fourier(3, 2, 1.0, 7).unwrap();
            Box::new(LinearGaussian::new(map, posterior.clone()).unwrap())
        }),
        ("kernel", {
            let map = FeatureMap::kernel(&landmarks, 2, 1.0).unwrap();
            Box::new(LinearGaussian::new(map, posterior.clone()).unwrap())
        }),
        ("trees", {
            let map = FeatureMap::trees_from_parts(3, vec![1, u32::MAX, u32::MAX], vec![0.5, 0.0, 0.0]).unwrap();
            Box::new(LinearGaussian::new(map, posterior.clone()).unwrap())
        }),
        ("beside-softmax", {
            let softmax = SoftmaxFeatures::new(1, vec![0.5], vec![0.1]).unwrap();
            let map = FeatureMap::fourier(1, 1, 1.0, 7).unwrap().with_softmax(Arc::new(softmax)).unwrap();
            Box::new(LinearGaussian::new(map, posterior).unwrap())
        }),
        ("softmax", Box::new(Softmax::new(FeatureMap::identity(1), 2, vec![0.5, -0.5], 1.0).unwrap())),
        ("uniform", Box::new(Uniform::new(3).unwrap())),
    ];
    for (name, policy) in &policies {
        write_policy(&at(name), policy.as_ref()).unwrap();
        try_all(name, &at(name), || read_policy(&at(name)).map(drop));
    }
    let beside: Vec<PathBuf> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let parts = [("basis-", "gaussian"), ("features-", "kernel"), ("trees-", "trees"), ("softmax-", "beside-softmax")];
    for (start, name) in parts {
        let named = |path: &&PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(start);
        let path = beside.iter().find(named).unwrap();
        try_all(start, path, || read_policy(&at(name)).map(drop));
    }

    let run = at("run");
    saved_run(&run);
    try_all("session", &run.join("session.json"), || read_session(&run).map(drop));
    try_all("ledger", &run.join("ledger.jsonl"), || read_session(&run).map(drop));
    try_all("certificates", &run.join("certificates.json"), || {
        read_certificates(&run.join("certificates.json")).map(drop)
    });
    let round = run.join("rounds/000.safetensors");
    try_all("round", &round, || read_round(&round).map(drop));
    try_all("policy of a run", &run.join("policies/001.safetensors"), || RunFiles::of(&run)?.read().map(drop));

    let rows = Contexts::dense((0..10).map(|i| i as f32 / 3.0).collect(), 2).unwrap();
    let contexts = Contexts::dense(vec![1.0; 2], 1).unwrap();
    let logs = Logs::new(3, contexts, vec![1, 2], vec![0.5; 2], vec![-1.0; 2]).unwrap();
    let logs = logs.with_eligible(Eligible::candidates(vec![0, 2, 5], rows).unwrap()).unwrap();
    write_round(&at("candidates-round"), &logs, None).unwrap();
    try_all("round with candidates", &at("candidates-round"), || read_round(&at("candidates-round")).map(drop));

    let npz = folder.write("set.npz", npz_but(&[]));
    try_all("npz", &npz, || load(&npz).map(drop));
    let set = at("set");
    fs::create_dir(&set).unwrap();
    for (split, rows) in [("train", 3), ("t10k", 2)] {
        let pixels: Vec<u8> = (0..rows as u8 * 4).collect();
        fs::write(set.join(format!("{split}-images-idx3-ubyte")), idx(&[rows, 2, 2], &pixels)).unwrap();
        let labels: Vec<u8> = (0..rows as u8).collect();
        fs::write(set.join(format!("{split}-labels-idx1-ubyte")), idx(&[rows], &labels)).unwrap();
    }
    for name in ["train-images-idx3-ubyte", "t10k-labels-idx1-ubyte"] {
        try_all(name, &set.join(name), || load(&set).map(drop));
    }
    #[cfg(target_os = "linux")]
    assert!(peak() < MOST, "{} bytes", peak());
    #[cfg(not(target_os = "linux"))]
    let _ = MOST;
}
