//! Contexts that other processes hold: the same bits as in one process, whatever happens to the workers.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use surefoot::learn::LearnerSettings;
use surefoot::logs::SPAN;
use surefoot::observer::{Observer, Silent};
use surefoot_data::shards::{Engine, run};
use surefoot_data::{
    ColumnNames, EncodingSettings, Error, Format, Grouping, LearnRequest, LogReader, Prior, ReadRequest, Result,
    Rounds, Storage, convert, learn,
};

use crate::common::Folder;

/// A number in [0, 1) that looks random.
fn random(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 11) as f64 / (1u64 << 53) as f64
}

/// Logs of two policies that alternate in the second half, in two files, with numbers, a gap and categories.
fn logs(folder: &Folder, records: usize) -> Vec<PathBuf> {
    let mut seed = 7;
    let mut files = Vec::new();
    for (file, range) in [(0, 0..records / 3), (1, records / 3..records)] {
        let mut text = String::from("action,pscore,reward,policy_version,age,height,city\n");
        for i in range {
            let (age, height) = (random(&mut seed), random(&mut seed) - 0.5);
            let action = (3.0 * random(&mut seed)) as usize;
            let city = ["a", "b", "c"][(3.0 * random(&mut seed)) as usize];
            let good = action == usize::from(age > 0.5) + usize::from(city == "c" && height > 0.0);
            let reward = u8::from(random(&mut seed) < if good { 0.6 } else { 0.1 });
            let height = if i % 17 == 0 { String::new() } else { height.to_string() };
            let policy = if i > records / 2 && i % 3 > 0 { "new" } else { "old" };
            text.push_str(&format!("{action},{},{reward},{policy},{age},{height},{city}\n", 1.0 / 3.0));
        }
        let csv = folder.write(&format!("part-{file}.csv"), text);
        let parquet = csv.with_extension("parquet");
        let reader = LogReader::new(vec![csv], None, ColumnNames::default());
        convert(&reader, &parquet, Format::Parquet, &[]).unwrap();
        files.push(parquet);
    }
    files
}

fn reader(files: &[PathBuf]) -> LogReader {
    LogReader::new(files.to_vec(), None, ColumnNames::default()).with_actions(Some(surefoot_data::Actions::Count(3)))
}

/// Several workers in threads, which take shards in a random order, lose results and files, and start again.
#[derive(Debug)]
struct Faulty {
    records: Option<usize>,
    workers: usize,
    seed: Mutex<u64>,
    /// The number of calls.
    calls: AtomicUsize,
}

impl Faulty {
    fn new(records: Option<usize>, workers: usize) -> Arc<Self> {
        Arc::new(Faulty { records, workers, seed: Mutex::new(3), calls: AtomicUsize::new(0) })
    }

    fn chance(&self) -> f64 {
        random(&mut self.seed.lock().unwrap())
    }
}

impl Engine for Faulty {
    fn map(&self, task: &str, shards: &[&[u8]], payload: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut order: Vec<usize> = (0..shards.len()).collect();
        order.sort_by_key(|_| (1e9 * self.chance()) as u64);
        let (todo, done) =
            (Mutex::new(order), Mutex::new((0..shards.len()).map(|_| None).collect::<Vec<Option<Result<Vec<u8>>>>>()));
        thread::scope(|scope| {
            for _ in 0..self.workers {
                scope.spawn(|| {
                    while let Some(place) = { todo.lock().unwrap().pop() } {
                        // The worker and its files are gone.
                        if self.chance() < 0.05 {
                            run("forget", shards[place], &[]).unwrap();
                        }
                        let result = run(task, shards[place], payload);
                        // The result is lost on its way.
                        if self.chance() < 0.1 {
                            todo.lock().unwrap().insert(0, place);
                            continue;
                        }
                        done.lock().unwrap()[place] = Some(result);
                    }
                });
            }
        });
        done.into_inner().unwrap().into_iter().map(|result| result.unwrap()).collect()
    }

    fn records(&self) -> Option<usize> {
        self.records
    }
}

struct Case<'a> {
    files: &'a [PathBuf],
    settings: LearnerSettings,
    encoding: EncodingSettings,
    prior: Prior,
    storage: Storage,
}

impl Case<'_> {
    fn request(&self, engine: Option<Arc<dyn Engine>>) -> LearnRequest {
        LearnRequest {
            read: ReadRequest {
                storage: self.storage.clone(),
                encoding: self.encoding.clone(),
                engine,
                ..ReadRequest::default()
            },
            prior: self.prior.clone(),
            prior_is_older: false,
            learner: self.settings.learner().unwrap().0,
            held_back: 0.2,
            exploration: 0.05,
            intercept: true,
            contenders: Vec::new(),
        }
    }

    /// Everything that learning says, as a text. Times are left out.
    fn learned(&self, engine: Option<Arc<dyn Engine>>) -> String {
        let mut found = learn(&reader(self.files), &self.request(engine), &mut Silent).unwrap();
        found.summary.members.iter_mut().for_each(|member| member.seconds = 0.0);
        let texts = [
            format!("{:?}", found.policy.identity()),
            serde_json::to_string(&found.inputs).unwrap(),
            serde_json::to_string(&found.summary).unwrap(),
            serde_json::to_string(&found.statements()).unwrap(),
        ];
        texts.join("\n")
    }
}

fn settings(algorithm: &str, members: &str) -> LearnerSettings {
    LearnerSettings {
        algorithm: algorithm.into(),
        members: members.into(),
        optimiser: "lbfgs".into(),
        iterations: 8,
        ..LearnerSettings::default()
    }
}

/// The encodings: dense rows, sparse rows that become dense, and rows that stay sparse.
fn encodings() -> [EncodingSettings; 3] {
    [
        EncodingSettings { ignore: vec!["city".into()], ..EncodingSettings::default() },
        EncodingSettings::default(),
        EncodingSettings { vocabulary: 2, hash_bits: 4, ..EncodingSettings::default() },
    ]
}

#[test]
fn an_engine_learns_the_same_bits_as_one_process_whatever_happens_to_its_workers() {
    let folder = Folder::new();
    // Both rounds have several shards, and the records that are held back begin within one.
    let files = logs(&folder, 6 * SPAN + 777);
    for (place, encoding) in encodings().into_iter().enumerate() {
        for (algorithm, prior) in [("thompson", Prior::Uniform), ("seq-adj-ls", Prior::Estimated)] {
            let storage = Storage { memory: None, cache: None };
            let settings = settings(algorithm, "usual");
            let mut case = Case { files: &files, settings, encoding: encoding.clone(), prior, storage };
            let alone = case.learned(None);
            // Workers have folders of their own for each case, so that nothing is found that another one made.
            for (size, workers) in [(Some(SPAN), 3), (Some(4 * SPAN), 2), (None, 1)] {
                case.storage.cache = Some(folder.path().join(format!("cache-{place}-{algorithm}-{workers}")));
                let engine = Faulty::new(size, workers);
                let shared = case.learned(Some(engine.clone()));
                assert!(shared == alone, "{algorithm}, {workers} workers:\n{shared}\n\n{alone}");
                assert!(engine.calls.load(Ordering::Relaxed) > 3);
            }
        }
    }
}

#[test]
fn every_member_of_a_portfolio_learns_the_same_bits_on_an_engine() {
    let folder = Folder::new();
    let files = logs(&folder, 2 * SPAN + 99);
    let first = {
        let storage = Storage::default();
        let (settings, prior) = (settings("seq-adj-ls", "usual"), Prior::Estimated);
        let encoding = EncodingSettings { ignore: vec!["city".into()], ..EncodingSettings::default() };
        let case = Case { files: &files[..1], settings, encoding, prior, storage };
        learn(&reader(case.files), &case.request(None), &mut Silent).unwrap()
    };
    let knows = Prior::Policy { policy: Arc::new(first.prior), inputs: Some(Arc::new(first.inputs)) };
    for (members, prior) in [("linear,logistic,trees", Prior::Uniform), ("linear,search,trees", knows)] {
        let encoding = EncodingSettings { ignore: vec!["city".into()], ..EncodingSettings::default() };
        let storage = Storage { memory: None, cache: Some(folder.path().join(format!("cache-{members}"))) };
        let mut case = Case { files: &files, settings: settings("portfolio", members), encoding, prior, storage };
        let shared = case.learned(Some(Faulty::new(Some(SPAN), 2)));
        case.storage = Storage::default();
        let alone = case.learned(None);
        assert!(shared == alone, "{members}:\n{shared}\n\n{alone}");
    }
}

#[test]
fn a_portfolio_of_kernel_features_learns_the_same_bits_on_an_engine() {
    let folder = Folder::new();
    let files = logs(&folder, 9_000);
    let storage = Storage { memory: None, cache: Some(folder.path().join("cache")) };
    let (encoding, prior) = (EncodingSettings::default(), Prior::Uniform);
    let mut case = Case { files: &files, settings: settings("portfolio", "all"), encoding, prior, storage };
    let shared = case.learned(Some(Faulty::new(Some(SPAN), 2)));
    case.storage = Storage::default();
    let alone = case.learned(None);
    assert!(shared == alone, "{shared}\n\n{alone}");
}

#[test]
fn criteria_that_need_all_propensities_take_two_maps_and_give_the_same_bits() {
    let folder = Folder::new();
    let files = logs(&folder, 2 * SPAN);
    for weights in ["0.1", "self-normalised"] {
        let storage = Storage { memory: None, cache: Some(folder.path().join("cache")) };
        let (encoding, prior) = (encodings()[0].clone(), Prior::Uniform);
        let settings = LearnerSettings { crm_weights: weights.into(), ..settings("crm", "usual") };
        let mut case = Case { files: &files, settings, encoding, prior, storage };
        let shared = case.learned(Some(Faulty::new(Some(SPAN), 2)));
        case.storage = Storage::default();
        let alone = case.learned(None);
        assert!(shared == alone, "{weights}:\n{shared}\n\n{alone}");
    }
}

/// Fails after some calls.
#[derive(Debug)]
struct Mortal {
    left: AtomicUsize,
    done: AtomicUsize,
}

impl Mortal {
    fn new(calls: usize) -> Arc<Self> {
        Arc::new(Mortal { left: AtomicUsize::new(calls), done: AtomicUsize::new(0) })
    }
}

impl Engine for Mortal {
    fn map(&self, task: &str, shards: &[&[u8]], payload: &[u8]) -> Result<Vec<Vec<u8>>> {
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err() {
            return Err(Error::Stopped);
        }
        self.done.fetch_add(1, Ordering::Relaxed);
        shards.iter().map(|shard| run(task, shard, payload)).collect()
    }

    fn records(&self) -> Option<usize> {
        Some(SPAN)
    }
}

#[test]
fn a_driver_that_ended_in_a_search_goes_on_where_it_was() {
    let folder = Folder::new();
    let files = logs(&folder, SPAN);
    let storage = Storage { memory: None, cache: Some(folder.path().join("cache")) };
    let (encoding, prior) = (encodings()[0].clone(), Prior::Uniform);
    let mut settings = settings("seq-adj-ls", "usual");
    settings.lambda = "0.4".into();
    let mut case = Case { files: &files, settings, encoding, prior, storage };
    let whole = Mortal::new(usize::MAX);
    let text = case.learned(Some(whole.clone()));
    let calls = whole.done.load(Ordering::Relaxed);

    case.storage.cache = Some(folder.path().join("other"));
    let short = Mortal::new(calls - 8);
    let ended = learn(&reader(&files), &case.request(Some(short)), &mut Silent).unwrap_err().to_string();
    assert_eq!(ended, "stopped on request");
    let passes = || {
        fs::read_dir(folder.path().join("other"))
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "passes"))
    };
    assert_eq!(passes().count(), 1, "the passes so far are kept");
    let again = Mortal::new(usize::MAX);
    assert!(case.learned(Some(again.clone())) == text);
    assert!(again.done.load(Ordering::Relaxed) + 5 < calls, "{} of {calls}", again.done.load(Ordering::Relaxed));
    assert_eq!(passes().count(), 0, "they are removed when learning has ended");
    // In one process, a search is resumed in the same way.
    case.storage = Storage::default();
    assert!(case.learned(None) == text);
}

/// Stops a search after some steps, as Ctrl-C does.
struct Interrupt(usize);

impl Observer for Interrupt {
    fn searching(&mut self, _: f64) -> ControlFlow<()> {
        match self.0.checked_sub(1) {
            None => ControlFlow::Break(()),
            Some(left) => {
                self.0 = left;
                ControlFlow::Continue(())
            }
        }
    }
}

#[test]
fn a_search_that_was_interrupted_in_one_process_goes_on_from_its_cache() {
    let folder = Folder::new();
    let files = logs(&folder, 3_000);
    let (encoding, prior) = (encodings()[0].clone(), Prior::Uniform);
    let mut settings = settings("seq-adj-ls", "usual");
    settings.lambda = "0.4".into();
    let mut case = Case { files: &files, settings, encoding, prior, storage: Storage::default() };
    let whole = case.learned(None);
    for (name, changed) in [("as it was", false), ("changed", true)] {
        let cache = folder.path().join(name);
        case.storage.cache = Some(cache.clone());
        let ended = learn(&reader(&files), &case.request(None), &mut Interrupt(5)).unwrap_err();
        assert_eq!(ended.to_string(), "stopped on request");
        let entries =
            |path: &Path| -> Vec<PathBuf> { fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect() };
        let passes = entries(&cache).into_iter().find(|path| path.extension().is_some_and(|end| end == "passes"));
        let passes = passes.expect("passes are kept");
        let files: Vec<PathBuf> = entries(&passes).iter().flat_map(|round| entries(round)).collect();
        assert!(files.len() >= 5, "{}", files.len());
        if changed {
            // The result of another pass: it is used, so that something else is learned.
            for file in &files[1..] {
                fs::copy(&files[0], file).unwrap();
            }
        }
        assert_eq!(case.learned(None) == whole, !changed, "{name}");
        assert!(!passes.exists(), "they are removed when learning has ended");
    }
}

#[test]
fn what_an_engine_cannot_do_is_refused_before_any_work() {
    let folder = Folder::new();
    let files = logs(&folder, 500);
    let case = |algorithm: &str, optimiser: &str| {
        let settings = LearnerSettings { optimiser: optimiser.into(), ..settings(algorithm, "usual") };
        let (encoding, prior, storage) = (EncodingSettings::default(), Prior::Uniform, Storage::default());
        Case { files: &files, settings, encoding, prior, storage }
    };
    let engine = Mortal::new(0);
    let refused = |case: &Case<'_>, files: &[PathBuf]| {
        learn(&reader(files), &case.request(Some(engine.clone())), &mut Silent).unwrap_err().to_string()
    };
    for algorithm in ["portfolio", "seq-adj-ls"] {
        let said = refused(&case(algorithm, "adam"), &files);
        assert!(said.starts_with("the optimiser should be lbfgs, with an engine"), "{said}");
    }
    let csv = files[0].with_extension("csv");
    let said = refused(&case("thompson", "lbfgs"), &[csv]);
    assert!(
        said.contains("should be Parquet, with an engine, but is csv: surefoot convert makes Parquet of it"),
        "{said}"
    );
    let said = run("no such task", b"{}", &[]).unwrap_err().to_string();
    assert!(said.starts_with("a shard: cannot be understood"), "{said}");
}

#[test]
fn a_worker_refuses_a_file_that_is_not_what_the_driver_read() {
    let folder = Folder::new();
    let files = logs(&folder, 2_000);
    let storage = Storage { memory: None, cache: Some(folder.path().join("cache")) };
    let engine = Faulty::new(None, 1);
    let request = ReadRequest { storage, engine: Some(engine), grouping: Grouping::File, ..ReadRequest::default() };
    let rounds = Rounds::read(&reader(&files), &request, None).unwrap();
    assert_eq!(rounds.rounds.len(), 2, "one round per file");
    let gathered = rounds.rounds[1].gathered().unwrap();
    let alone = Rounds::read(&reader(&files), &ReadRequest { engine: None, ..request }, None).unwrap();
    assert_eq!(alone.rounds[1].fingerprint(), rounds.rounds[1].fingerprint());
    assert!(gathered.iter().zip(alone.rounds[1].contexts().iter()).all(|(a, b)| a.values() == b.values()));
    rounds.forget().unwrap();
    let left = |path: &Path| {
        fs::read_dir(path).unwrap().filter(|entry| entry.as_ref().unwrap().path().join("shard.json").is_file()).count()
    };
    assert_eq!(left(&folder.path().join("cache")), 0, "the files of shards are gone");
    // They are made again, from the same log only.
    assert!(rounds.rounds[0].gathered().is_ok());
    rounds.forget().unwrap();
    let bytes = fs::read(&files[0]).unwrap();
    fs::write(&files[0], &bytes).unwrap();
    let said = rounds.rounds[0].gathered().unwrap_err().to_string();
    assert!(said.contains("changed while it was read: it is not what the driver read"), "{said}");
}
