//! Encoded records in files: the same results as in memory, and never those of other records.

use std::fs;
use std::path::{Path, PathBuf};

use surefoot::learn::LearnerSettings;
use surefoot::observer::Silent;
use surefoot_data::{
    ColumnNames, EncodingSettings, LearnRequest, LogReader, Prior, ReadRequest, Rounds, Storage, learn,
};

use crate::common::Folder;

/// A number in [0, 1) that looks random.
fn random(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 11) as f64 / (1u64 << 53) as f64
}

/// Logs of two policies that alternate, with numbers, a gap, categories and a rare category.
fn logs(records: usize, seed: u64) -> String {
    let mut seed = seed;
    let mut text = String::from("action,pscore,reward,policy_version,age,height,city\n");
    for i in 0..records {
        let (age, height) = (random(&mut seed), random(&mut seed) - 0.5);
        let action = (3.0 * random(&mut seed)) as usize;
        let city = ["a", "b", "c"][(3.0 * random(&mut seed)) as usize];
        let good = action == usize::from(age > 0.5) + usize::from(city == "c" && height > 0.0);
        let reward = u8::from(random(&mut seed) < if good { 0.6 } else { 0.1 });
        let height = if i % 17 == 0 { String::new() } else { height.to_string() };
        let policy = if i > records / 2 && i % 3 > 0 { "new" } else { "old" };
        text.push_str(&format!("{action},{},{reward},{policy},{age},{height},{city}\n", 1.0 / 3.0));
    }
    text
}

fn reader(path: &Path) -> LogReader {
    LogReader::new(vec![path.to_owned()], None, ColumnNames::default())
        .with_actions(Some(surefoot_data::Actions::Count(3)))
}

fn request(storage: &Storage, algorithm: &str, encoding: &EncodingSettings, prior: &Prior) -> LearnRequest {
    let settings = LearnerSettings { algorithm: algorithm.into(), epochs: 2, ..LearnerSettings::default() };
    LearnRequest {
        read: ReadRequest { storage: storage.clone(), encoding: encoding.clone(), ..ReadRequest::default() },
        prior: prior.clone(),
        prior_is_older: false,
        learner: settings.learner().unwrap().0,
        held_back: 0.2,
        exploration: 0.05,
        intercept: true,
        contenders: Vec::new(),
    }
}

/// Everything that learning says, as a text. Times are left out.
fn learned(path: &Path, storage: &Storage, algorithm: &str, encoding: &EncodingSettings, prior: &Prior) -> String {
    let request = request(storage, algorithm, encoding, prior);
    let mut found = learn(&reader(path), &request, &mut Silent).unwrap();
    found.summary.members.iter_mut().for_each(|member| member.seconds = 0.0);
    let texts = [
        format!("{:?}", found.policy.identity()),
        serde_json::to_string(&found.inputs).unwrap(),
        serde_json::to_string(&found.summary).unwrap(),
        serde_json::to_string(&found.statements()).unwrap(),
    ];
    texts.join("\n")
}

fn kept(folder: &Folder) -> Storage {
    Storage { memory: None, cache: Some(folder.path().join("cache")) }
}

/// The folders of a cache.
fn folders(storage: &Storage) -> Vec<PathBuf> {
    let entries = fs::read_dir(storage.cache.as_ref().unwrap()).unwrap();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

fn fingerprints(path: &Path, storage: &Storage) -> Vec<String> {
    let request = ReadRequest { storage: storage.clone(), ..ReadRequest::default() };
    let rounds = Rounds::read(&reader(path), &request, None).unwrap();
    rounds.rounds.iter().chain(&rounds.set_aside).map(|logs| logs.fingerprint().to_string()).collect()
}

#[test]
fn every_learner_learns_the_same_from_stored_records_as_from_memory() {
    let folder = Folder::new();
    let path = folder.write("logs.csv", logs(40_000, 1));
    let dense = EncodingSettings { ignore: vec!["city".into()], ..EncodingSettings::default() };
    // Two of five values are not 0: sparse rows that are stored as dense ones. With hashing they stay sparse.
    let mixed = EncodingSettings::default();
    let sparse = EncodingSettings { vocabulary: 2, hash_bits: 4, ..EncodingSettings::default() };
    // 36,000 records of at least 40 bytes are more than a third of it.
    let temporary = Storage { memory: Some(4 << 20), cache: None };
    for (encoding, is_sparse) in [(dense, false), (mixed, false), (sparse, true)] {
        for (algorithm, prior) in [("seq-adj-ls", Prior::Estimated), ("thompson", Prior::Uniform)] {
            let in_memory = learned(&path, &Storage::default(), algorithm, &encoding, &prior);
            for storage in [&temporary, &kept(&folder), &kept(&folder)] {
                let stored = learned(&path, storage, algorithm, &encoding, &prior);
                assert!(stored == in_memory, "{algorithm}, {storage:?}:\n{stored}\n\n{in_memory}");
            }
        }
        let request = ReadRequest { storage: temporary.clone(), encoding, ..ReadRequest::default() };
        let rounds = Rounds::read(&reader(&path), &request, None).unwrap();
        assert!(rounds.rounds.iter().all(|logs| logs.contexts().is_sparse() == is_sparse));
    }
    assert_eq!(folders(&kept(&folder)).len(), 3, "one folder per encoding");
}

#[test]
fn a_portfolio_learns_the_same_from_stored_records_as_from_memory() {
    let folder = Folder::new();
    let path = folder.write("logs.csv", logs(3_000, 2));
    let text = |storage: &Storage| learned(&path, storage, "portfolio", &EncodingSettings::default(), &Prior::Uniform);
    let (stored, in_memory) = (text(&kept(&folder)), text(&Storage::default()));
    assert!(stored == in_memory, "{stored}\n\n{in_memory}");
}

#[test]
fn a_cache_is_used_again_only_for_the_same_files_read_in_the_same_way() {
    let folder = Folder::new();
    let path = folder.write("logs.csv", logs(2_000, 3));
    let storage = kept(&folder);
    let first = fingerprints(&path, &storage);
    let before = folders(&storage);
    assert_eq!(before.len(), 1);
    let written = fs::metadata(before[0].join("cache.json")).unwrap().modified().unwrap();
    assert_eq!(fingerprints(&path, &storage), first);
    assert_eq!(fs::metadata(before[0].join("cache.json")).unwrap().modified().unwrap(), written, "used again");

    // The same number of bytes, and the same beginning and end.
    let changed = logs(2_000, 3);
    let place = changed.len() / 2 + changed[changed.len() / 2..].find(",a\n").unwrap() + 1;
    let mut changed = changed.into_bytes();
    changed[place] = b'b';
    fs::write(&path, &changed).unwrap();
    let second = fingerprints(&path, &storage);
    assert_ne!(second, first);
    assert_eq!(second, fingerprints(&path, &Storage::default()));
    assert_eq!(folders(&storage).len(), 2);

    let request = ReadRequest { storage: storage.clone(), reward_range: [0.0, 2.0], ..ReadRequest::default() };
    let rounds = Rounds::read(&reader(&path), &request, None).unwrap();
    assert_ne!(rounds.rounds[0].fingerprint().to_string(), second[0]);
    assert_eq!(folders(&storage).len(), 3);
}

#[test]
fn a_damaged_cache_is_made_again() {
    let folder = Folder::new();
    let path = folder.write("logs.csv", logs(2_000, 4));
    let storage = kept(&folder);
    let whole = fingerprints(&path, &storage);
    let cached = folders(&storage).remove(0);
    let flip = |name: &str| {
        let file = cached.join(name);
        let mut bytes = fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&file, bytes).unwrap();
    };
    for name in
        ["round-0/values", "round-0/norms", "round-1/cost", "round-0/action", "round-2/propensity", "cache.json"]
    {
        flip(name);
        assert_eq!(fingerprints(&path, &storage), whole, "{name} was changed");
        fs::remove_file(cached.join(name)).unwrap();
        assert_eq!(fingerprints(&path, &storage), whole, "{name} was removed");
    }
    let file = cached.join("round-0/values");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 4]).unwrap();
    assert_eq!(fingerprints(&path, &storage), whole, "cut short");
    assert_eq!(folders(&storage), [cached]);
}

#[test]
fn a_limit_that_cannot_be_kept_is_refused_before_the_work() {
    let folder = Folder::new();
    let path = folder.write("logs.csv", logs(20_000, 6));
    let learned = |algorithm: &str, memory| {
        let storage = Storage { memory: Some(memory), cache: None };
        let request = request(&storage, algorithm, &EncodingSettings::default(), &Prior::Uniform);
        learn(&reader(&path), &request, &mut Silent)
    };
    let error = learned("seq-adj-ls", 1 << 19).unwrap_err().to_string();
    let expected = "with a reward above the lowest, or the algorithm should be thompson, which needs the least (option memory), \
                    but is 0.0 GB";
    assert!(error.starts_with("the memory should be at least 0.1 GB to learn from 18666 records, "), "{error}");
    assert!(error.ends_with(expected), "{error}");
    assert!(learned("thompson", 100 << 20).is_ok());
}

#[test]
fn files_that_are_removed_while_they_are_used_stay_readable() {
    let folder = Folder::new();
    let path = folder.write("logs.csv", logs(2_000, 5));
    let request = ReadRequest { storage: kept(&folder), ..ReadRequest::default() };
    let rounds = Rounds::read(&reader(&path), &request, None).unwrap();
    fs::remove_dir_all(folder.path().join("cache")).unwrap();
    let in_memory = Rounds::read(&reader(&path), &ReadRequest::default(), None).unwrap();
    for (stored, held) in rounds.rounds.iter().zip(&in_memory.rounds) {
        assert_eq!(stored.slice(0..stored.len()).fingerprint(), held.fingerprint());
        assert_eq!((stored.action(), stored.cost()), (held.action(), held.cost()));
    }
}

#[test]
fn records_that_can_only_be_held_in_memory_are_refused_if_it_is_too_small() {
    let folder = Folder::new();
    let mut text = String::new();
    for i in 0..20_000 {
        text.push_str(&format!(
            "{{\"action\": {}, \"pscore\": 0.5, \"reward\": 1, \"eligible\": [0, 1], \"age\": {i}}}\n",
            i % 2
        ));
    }
    let path = folder.write("logs.jsonl", text);
    let storage = Storage { memory: Some(1 << 20), cache: None };
    let request = ReadRequest { storage, ..ReadRequest::default() };
    let error = Rounds::read(&reader(&path), &request, None).unwrap_err().to_string();
    assert!(
        error.contains("records with eligible actions are held in memory (option memory), but is 0.0 GB"),
        "{error}"
    );
    assert_eq!(Rounds::read(&reader(&path), &ReadRequest::default(), None).unwrap().rounds[0].len(), 18_000);
}
