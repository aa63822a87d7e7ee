//! Files that change while they are read, sizes that are too large, and values that a policy file should not list.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use surefoot::learn::LearnerSettings;
use surefoot::observer::Silent;
use surefoot::policy::Uniform;
use surefoot::{FeatureMap, LinearGaussian};
use surefoot_data::{
    ColumnNames, EncodingSettings, Error, Field, Grouping, LearnRequest, Learned, LogReader, Prior, ROWS, ReadRequest,
    Rounds, Scan, learn, read_policy, write_policy,
};

use crate::common::Folder;

const HEADER: &str = "x,action,pscore,reward,policy_version\n";

fn rows(n: usize, version: &str) -> String {
    (0..n).map(|i| format!("{},{},0.5,1,{version}\n", i % 7, i % 2)).collect()
}

fn append(path: &Path, text: &str) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

fn reader(path: &Path) -> LogReader {
    LogReader::new(vec![path.to_owned()], None, ColumnNames::default())
}

fn settings() -> LearnerSettings {
    LearnerSettings { algorithm: "seq-adj-ls".into(), epochs: 1, ..LearnerSettings::default() }
}

fn request() -> LearnRequest {
    LearnRequest {
        read: ReadRequest::default(),
        prior: Prior::Uniform,
        prior_is_older: false,
        learner: settings().learner().unwrap().0,
        held_back: 0.2,
        exploration: 0.05,
        intercept: true,
        contenders: Vec::new(),
    }
}

#[test]
fn a_file_that_changes_between_passes_is_an_error() {
    let folder = Folder::new();
    let path = folder.write("logs.csv", format!("{HEADER}{}", rows(40, "v1")));
    let shown = path.display();
    let size = fs::metadata(&path).unwrap().len();
    let reader = reader(&path);
    Scan::of(&reader, &Grouping::PolicyVersion).unwrap();
    Scan::of(&reader, &Grouping::PolicyVersion).unwrap();
    append(&path, "1,0,0.5,1,v2\n");
    let said = Scan::of(&reader, &Grouping::PolicyVersion).unwrap_err();
    assert!(matches!(said, Error::Changed { .. }));
    assert_eq!(
        said.to_string(),
        format!(
            "{shown}: changed while it was read: it had {size} bytes and now has {}; all passes must read the same \
             records: copy the file first, or wait until it is complete",
            size + 13
        )
    );
}

#[test]
fn a_change_that_keeps_the_size_and_the_time_is_found_too() {
    let folder = Folder::new();
    let path = folder.write("logs.csv", format!("{HEADER}{}", rows(40, "v1")));
    let reader = reader(&path);
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    Scan::of(&reader, &Grouping::PolicyVersion).unwrap();
    fs::write(&path, format!("{HEADER}{}", rows(40, "v2"))).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    let said = Scan::of(&reader, &Grouping::PolicyVersion).unwrap_err().to_string();
    assert!(said.contains("logs.csv: changed while it was read: it was written to; "), "{said}");
}

/// The file grows before any of the batches of the passes, with a whole record, with half a line, and with a version
/// that no earlier pass has seen.
#[test]
fn a_file_that_grows_at_any_time_is_an_error_or_is_read_as_it_is_in_the_end() {
    let mut errors = 0;
    for text in [rows(5, "v1"), rows(5, "v9"), "3,0,0.5".into()] {
        for when in 1.. {
            let folder = Folder::new();
            let path = folder.write("logs.csv", format!("{HEADER}{}", rows(ROWS + 300, "v1")));
            let asked = AtomicUsize::new(0);
            let grow = {
                let (path, text) = (path.clone(), text.clone());
                move || {
                    if asked.fetch_add(1, Ordering::Relaxed) + 1 == when {
                        append(&path, &text);
                    }
                    false
                }
            };
            let whole = fs::metadata(&path).unwrap().len();
            match Rounds::read(&reader(&path).stopped_by(grow), &ReadRequest::default(), None) {
                Err(Error::Changed { .. }) => errors += 1,
                Err(other) => assert!(when == 1, "{when}: {other}"),
                Ok(_) if when == 1 => {}
                Ok(rounds) => {
                    assert_eq!(fs::metadata(&path).unwrap().len(), whole, "{when}: it grew and was read");
                    assert_eq!(rounds.rounds.len(), 1);
                    break;
                }
            }
        }
    }
    assert!(errors >= 9, "{errors}");
}

#[test]
fn two_lines_cannot_ask_for_terabytes() {
    let folder = Folder::new();
    let line = |action: usize, index: usize| {
        format!(r#"{{"action":{action},"pscore":0.5,"reward":1,"context_indices":[{index}],"context_values":[1]}}"#)
    };
    let path = folder.write("logs.jsonl", [line(0, 16_777_000), line(999_999, 1)].join("\n"));
    let said = learn(&reader(&path), &request(), &mut Silent).unwrap_err().to_string();
    assert_eq!(
        said,
        "the number of parameters should be at most 268435456, but is 1000000 actions x 16777002 features"
    );
}

/// 20,000 features have a matrix of principal axes of 3 GiB, and more have none.
#[test]
fn many_features_need_no_principal_axes() {
    let folder = Folder::new();
    let line = |i: usize| {
        let (action, reward, index) = (i % 2, i % 3 % 2, i * 7919 % 30_000);
        let context = format!(r#""context_indices":[{index},29999],"context_values":[1,0.5]"#);
        format!(r#"{{"action":{action},"pscore":0.5,"reward":{reward},{context}}}"#)
    };
    let path = folder.write("logs.jsonl", (0..200).map(|i| line(i) + "\n").collect::<String>());
    let settings = LearnerSettings { posterior: "shaped".into(), ..settings() };
    let request = LearnRequest { learner: settings.learner().unwrap().0, ..request() };
    let learned = learn(&reader(&path), &request, &mut Silent).unwrap();
    let posterior = learned.policy.as_gaussian().unwrap().posterior();
    assert_eq!((posterior.features(), posterior.basis().is_some()), (30_001, false));
    assert!(learned.summary.certified);
    let expected = "the posterior has a scale per feature (per-feature, not shaped): principal axes are for at most 2048 \
        features, and there are 30001";
    assert!(learned.summary.warnings.iter().any(|warning| warning == expected), "{:?}", learned.summary.warnings);
}

#[test]
fn new_fields_on_every_line_cannot_ask_for_more_than_the_file_has() {
    let folder = Folder::new();
    let line = |i: usize| format!("{{\"action\":{},\"pscore\":0.5,\"reward\":1,\"k{i}\":1}}\n", i % 2);
    let path = folder.write("logs.jsonl", (0..40_000).map(line).collect::<String>());
    let bytes = fs::metadata(&path).unwrap().len();
    let read = ReadRequest { set_aside: 0.0, ..ReadRequest::default() };
    let said = Rounds::read(&reader(&path), &read, None).unwrap_err().to_string();
    assert!(
        said.ends_with(&format!(
            "logs.jsonl: the number of feature values from {bytes} bytes of logs should be at most 1073741824, but is \
             40000 records x 80000 features: leave columns out"
        )),
        "{said}"
    );
}

#[test]
fn small_policy_files_cannot_ask_for_gigabytes() {
    let folder = Folder::new();
    let path = folder.path().join("p");
    write_policy(&path, &Uniform::new(1_000_000_007).unwrap()).unwrap();
    assert!(fs::metadata(&path).unwrap().len() < 1000);
    let said = read_policy(&path).unwrap_err().to_string();
    assert!(
        said.ends_with("p: metadata: the number of actions should be at most 1000000, but is 1000000007"),
        "{said}"
    );

    // The weights of Fourier features are not in the file.
    let map = FeatureMap::fourier(100, 2, 1.0, 1).unwrap();
    write_policy(&path, &LinearGaussian::standard(map, 2).unwrap()).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(11).position(|part| part == br#"input\":100"#).unwrap();
    bytes.splice(at + 8..at + 11, *b"500000000");
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) + 6;
    bytes[..8].copy_from_slice(&length.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let said = read_policy(&path).unwrap_err().to_string();
    assert!(
        said.ends_with("features that go in x Fourier features should be at most 134217728, but is 500000000 x 2"),
        "{said}"
    );
}

/// Fields that only later records have would otherwise become features, or not, by the place where a batch ends.
#[test]
fn the_encoding_depends_only_on_the_records_that_were_set_aside() {
    let folder = Folder::new();
    let line = |i: usize| format!("{{\"action\":{},\"pscore\":0.5,\"reward\":1,\"k{i}\":1}}\n", i % 2);
    let path = folder.write("logs.jsonl", (0..100).map(line).collect::<String>());
    let rounds = Rounds::read(&reader(&path), &ReadRequest::default(), None).unwrap();
    let columns: Vec<&str> = rounds
        .encoding
        .fields()
        .iter()
        .map(|field| match field {
            Field::Number { column, .. } => column.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(columns, ["k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"]);
}

fn with_emails(folder: &Folder, categorical: Vec<String>) -> Learned {
    let mut csv = String::from("email,country,action,pscore,reward\n");
    for i in 0..400 {
        csv += &format!("user{}@example.org,{},{},0.5,{}\n", i % 24, ["NO", "SE"][i % 2], i % 2, i % 3 % 2);
    }
    let path = folder.write("logs.csv", csv);
    let mut request = request();
    request.read.encoding = EncodingSettings { categorical, ..EncodingSettings::default() };
    learn(&reader(&path), &request, &mut Silent).unwrap()
}

#[test]
fn a_policy_file_lists_no_identities_unless_asked_to() {
    let folder = Folder::new();
    let path = folder.path().join("p.safetensors");
    let holds = |learned: &Learned, text: &str| {
        surefoot_data::write_learned_to(&path, learned, None).unwrap();
        fs::read(&path).unwrap().windows(text.len()).any(|part| part == text.as_bytes())
    };
    let learned = with_emails(&folder, Vec::new());
    assert!(learned.inputs.encoding.fields().contains(&Field::Hashed { column: "email".into(), bits: 8 }));
    assert!(!holds(&learned, "user1@example.org") && holds(&learned, "\"NO"));
    let warning = "column email looks like an identity (e-mail addresses): it is hashed, and the policy file does not \
                   list its values; leave the column out unless it should be a feature";
    assert!(learned.summary.warnings.contains(&warning.to_owned()), "{:?}", learned.summary.warnings);
    let listed = |learned: &Learned| -> Vec<(String, usize)> {
        learned.summary.reveals.vocabularies.iter().map(|listed| (listed.column.clone(), listed.values)).collect()
    };
    assert_eq!(listed(&learned), [("country".to_owned(), 2)]);
    let reveals = &learned.summary.reveals;
    assert_eq!((reveals.action_names, reveals.landmarks, reveals.thresholds), (0, 0, 0));

    let learned = with_emails(&folder, vec!["email".into()]);
    assert!(holds(&learned, "user1@example.org"));
    assert_eq!(listed(&learned), [("email".to_owned(), 24), ("country".to_owned(), 2)]);
    let warning = "column email looks like an identity (e-mail addresses): the policy file lists its values; leave the \
                   column out unless it should be a feature";
    assert!(learned.summary.warnings.contains(&warning.to_owned()), "{:?}", learned.summary.warnings);
}
