//! Policies over candidates and rounds of logs with candidates, as files.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use surefoot::contexts::Row;
use surefoot::features::{Cross, Joint};
use surefoot::logs::Eligible;
use surefoot::policy::{Basis, Posterior, Scale};
use surefoot::{Contexts, FeatureMap, LinearGaussian, Logs, Policy};
use surefoot_data::{read_policy, read_round, write_policy, write_round};

use crate::common::Folder;

/// Two context features with an intercept, three candidate features: 2 own and 3 x 2 crossed.
fn joint(bits: u8) -> Joint {
    Joint::new(3, 3, vec![1..3; 1], vec![Cross { context: 0..3, candidate: 0..2 }], bits).unwrap()
}

fn over(joint: Joint, posterior: Posterior) -> LinearGaussian {
    LinearGaussian::over_candidates(FeatureMap::identity(2).with_intercept(), joint, 4, posterior).unwrap()
}

fn policies() -> Vec<LinearGaussian> {
    let mean = |n: usize| (0..n).map(|i| (i as f64 - 2.5) / 3.0).collect::<Vec<f64>>();
    let shared = Posterior::over_candidates(mean(8), Scale::Shared(0.1)).unwrap();
    let own =
        Posterior::over_candidates(mean(8), Scale::PerFeature((1..9).map(|i| 1.0 / f64::from(i)).collect())).unwrap();
    let hashed = Posterior::over_candidates(mean(4), Scale::Shared(2.0 / 3.0)).unwrap();
    let mut axes = vec![0.0; 64];
    (0..8).for_each(|i| axes[i * 8 + (i + 1) % 8] = 1.0);
    let turned = own.clone().with_basis(Arc::new(Basis::new(axes, 8).unwrap())).unwrap();
    vec![
        over(joint(18), shared),
        over(joint(18), own).with_exploration(0.05).unwrap(),
        over(joint(2), hashed),
        over(joint(18), turned),
    ]
}

fn logs(sparse: bool) -> Logs {
    let form = |rows: Contexts| if sparse { rows.to_sparse() } else { rows };
    let contexts = form(Contexts::dense(vec![0.5, 1.0, -1.0, 0.0], 2).unwrap());
    let rows = form(Contexts::dense((0..15).map(|v| (v % 4) as f32 / 3.0).collect(), 3).unwrap());
    let candidates = Eligible::candidates(vec![0, 2, 5], rows).unwrap();
    let logs = Logs::new(4, contexts, vec![1, 2], vec![0.5, 0.25], vec![-1.0, 0.0]).unwrap();
    logs.with_eligible(candidates).unwrap()
}

/// The features of all candidates, bit for bit.
fn candidates(logs: &Logs) -> Vec<Vec<(usize, u32)>> {
    let eligible = logs.eligible().unwrap();
    let of = |i: usize| (0..eligible.get(i).len()).map(move |a| eligible.candidate(i, a).unwrap());
    let filled = |row: Row<'_>| {
        let mut found = Vec::new();
        row.for_each(|f, v| found.push((f, v.to_bits() as u32)));
        found
    };
    (0..logs.len()).flat_map(of).map(filled).collect()
}

#[test]
fn policies_over_candidates_come_back_and_decide_alike() {
    let folder = Folder::new();
    let [path, again] = ["p.safetensors", "q.safetensors"].map(|name| folder.path().join(name));
    let logs = logs(false);
    for policy in policies() {
        write_policy(&path, &policy).unwrap();
        let read = read_policy(&path).unwrap();
        let found = read.as_gaussian().unwrap();
        assert_eq!((found.joint(), found.posterior()), (policy.joint(), policy.posterior()));
        assert_eq!((found.exploration(), found.actions()), (policy.exploration(), 4));
        assert_eq!(read.identity(), policy.identity());
        let decided = |policy: &dyn Policy| policy.distribution(logs.contexts(), logs.eligible()).unwrap();
        let bits = |values: Vec<f64>| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(decided(read.as_ref())), bits(decided(&policy)));
        write_policy(&again, &read).unwrap();
        assert_eq!(fs::read(&again).unwrap(), fs::read(&path).unwrap());
    }
}

#[test]
fn rounds_with_candidates_come_back_in_the_form_they_had() {
    let folder = Folder::new();
    let path = folder.path().join("r.safetensors");
    for sparse in [false, true] {
        // A part of a round is written as what it shows.
        for logs in [logs(sparse), logs(sparse).slice(1..2)] {
            write_round(&path, &logs, None).unwrap();
            let read = read_round(&path).unwrap().logs;
            assert_eq!(read.fingerprint(), logs.fingerprint());
            assert_eq!((candidates(&read), read.eligible().unwrap().features()), (candidates(&logs), Some(3)));
            let row = read.eligible().unwrap().candidate(0, 0).unwrap();
            assert_eq!(matches!(row, Row::Sparse { .. }), sparse);
        }
    }
}

/// The text of the error, the folder left out.
fn error(folder: &Folder, path: &Path, policy: bool) -> String {
    let text = match policy {
        true => read_policy(path).map(|_| ()).unwrap_err().to_string(),
        false => read_round(path).map(|_| ()).unwrap_err().to_string(),
    };
    text.replace(&format!("{}/", folder.path().display()), "")
}

/// What reading says after a part of the metadata, of the same length, was replaced.
fn after(policy: bool, from: &str, to: &str) -> String {
    assert_eq!(from.len(), to.len());
    let folder = Folder::new();
    let path = folder.path().join("f");
    match policy {
        true => write_policy(&path, &policies()[0]).unwrap(),
        false => write_round(&path, &logs(true), None).unwrap(),
    }
    let bytes = fs::read(&path).unwrap();
    let found = bytes.windows(from.len()).position(|part| part == from.as_bytes());
    let at = found.unwrap_or_else(|| panic!("no {from}"));
    fs::write(&path, [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat()).unwrap();
    error(&folder, &path, policy)
}

#[test]
fn broken_parts_of_a_policy_over_candidates_are_named() {
    let joint = |from: &str, to: &str| after(true, &from.replace('\'', "\\\""), &to.replace('\'', "\\\""));
    assert!(joint("'bits':18", "'bits':31").contains("the bits of joint features should be from 1 to 30"));
    let range = joint("'own':[[1,3]]", "'own':[[1,4]]");
    assert!(range.contains("own features of a candidate should be a range within 0..3 that is not empty"), "{range}");
    let fewer = joint("'candidate':[0,2]", "'candidate':[0,1]");
    assert!(fewer.contains("mean: the shape should be (5,), but is (8,)"), "{fewer}");
    let contexts = joint("'joint':{'contexts':3", "'joint':{'contexts':4");
    assert!(contexts.contains("should have 3 context features, as the feature map, but has 4"), "{contexts}");
    let unknown = joint("'bits':18", "'bitt':18");
    assert!(unknown.contains("unknown field `bitt`"), "{unknown}");
    let other = joint("'crosses':[{'context':[0,3]", "'crosses':[{'context':[1,3]");
    assert!(other.contains("mean: the shape should be (6,), but is (8,)"), "{other}");
    let mut own = joint("'own':[[1,3]]", "'own':[[0,2]]");
    own.truncate(own.find("fingerprint").unwrap_or(0));
    assert_eq!(own, "f: the content should have the ");
}

#[test]
fn joint_features_belong_to_policies_over_candidates_and_to_no_others() {
    let joint = |from: &str, to: &str| after(true, &from.replace('\'', "\\\""), &to.replace('\'', "\\\""));
    let renamed = joint("'class':'candidates','actions':4", "'class':'softmax'   ,'actions':4");
    assert!(renamed.contains("joint should be absent, as the class is \"softmax\", but is given"), "{renamed}");
    let few = joint("'actions':4", "'actions':1");
    assert!(few.contains("the number of candidates should be at least 2, but is 1"), "{few}");
}

#[test]
fn broken_parts_of_candidates_in_a_round_are_named() {
    let features = after(false, r#"\"candidates\":3"#, r#"\"candidates\":1"#);
    assert!(features.starts_with("f: candidate: "), "{features}");
    let absent = after(false, r#"\"candidates\":3,"#, "                 ");
    assert!(absent.contains("the tensors should be"), "{absent}");
}

#[test]
fn no_single_changed_byte_and_no_cut_goes_unseen() {
    let folder = Folder::new();
    let [p, r] = ["p", "r"].map(|name| folder.path().join(name));
    let policy = &policies()[1];
    for sparse in [false, true] {
        let logs = logs(sparse);
        write_policy(&p, policy).unwrap();
        write_round(&r, &logs, None).unwrap();
        for (path, is_policy) in [(&p, true), (&r, false)] {
            let bytes = fs::read(path).unwrap();
            for i in 0..bytes.len() {
                for change in [1, 0x10, 0x80, 0xff] {
                    let mut broken = bytes.clone();
                    broken[i] ^= change;
                    fs::write(path, broken).unwrap();
                    match is_policy {
                        true => assert!(
                            read_policy(path).map_or(policy.identity(), |read| read.identity()) == policy.identity()
                        ),
                        false => assert!(
                            read_round(path).map_or(logs.fingerprint(), |read| read.logs.fingerprint())
                                == logs.fingerprint()
                        ),
                    }
                }
                fs::write(path, &bytes[..i]).unwrap();
                assert!(if is_policy { read_policy(path).is_err() } else { read_round(path).is_err() });
            }
        }
    }
}
