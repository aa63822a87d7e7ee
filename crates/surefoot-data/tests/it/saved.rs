//! Policies, rounds of logs and certificates as files: what comes back, and the text of every error.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::Folder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type};
use surefoot::audit::{Statement, StatementKind};
use surefoot::certificate::{Case, Smoothing};
use surefoot::contexts::Row;
use surefoot::features::{SoftmaxFeatures, TreeFeatures};
use surefoot::logs::Eligible;
use surefoot::policy::{Basis, Mixture, Posterior, Scale, Softmax, Uniform};
use surefoot::{Certificate, Contexts, FeatureMap, LinearGaussian, Logs, Policy, Protocol};
use surefoot_data::{
    Actions, Certificates, ColumnNames, Encoding, EvaluateRequest, Field, Inputs, Lineage, LogReader, NamedPolicy,
    PolicyReader, RecordPolicy, Scorer, SelectRequest, evaluate, files_beside, read_certificates, read_policy,
    read_round, select, write_certificates, write_policy, write_policy_with, write_round,
};

const AWKWARD: [f64; 6] = [0.1, -0.0, 1.0 / 3.0, -5e-324, 1e300, std::f64::consts::PI];

/// Three features that come out, two actions.
fn posterior(scale: Scale) -> Posterior {
    Posterior::new(2, AWKWARD.to_vec(), scale).unwrap()
}

fn basis() -> Arc<Basis> {
    let (c, s) = (0.3f64.cos(), 0.3f64.sin());
    Arc::new(Basis::new(vec![c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0], 3).unwrap())
}

/// Two kernel features of three landmarks.
fn kernel() -> FeatureMap {
    let landmarks = Contexts::dense(vec![0.1, -0.0, 3.0, 1.0, 0.0, 0.5], 2).unwrap();
    FeatureMap::kernel_from_parts(landmarks, 1.0 / 3.0, vec![0.1, -0.5, 1.0 / 7.0, 2.0, -5e-324, 1e300]).unwrap()
}

/// The name of the file that they are in.
fn kernel_name() -> String {
    format!("features-{}.safetensors", kernel().kernel_parts().unwrap().fingerprint())
}

/// A tree with three leaves.
fn trees() -> FeatureMap {
    let leaf = TreeFeatures::LEAF;
    FeatureMap::trees_from_parts(2, vec![1, 0, leaf, leaf, leaf], vec![0.1, -0.0, 0.0, 0.0, 0.0]).unwrap()
}

/// The name of the file that they are in.
fn trees_name() -> String {
    format!("trees-{}.safetensors", trees().tree_parts().unwrap().fingerprint())
}

/// Feature maps of each kind, with three features that come out.
fn maps() -> [FeatureMap; 5] {
    let fourier = FeatureMap::fourier(5, 2, 0.7 / 3.0, u64::MAX).unwrap().with_intercept();
    [FeatureMap::identity(3), FeatureMap::identity(2).with_intercept(), fourier, kernel().with_intercept(), trees()]
}

/// One policy of each class that has a file, over two actions. A new class is added here.
fn of_every_class(map: &FeatureMap, weights: &[f64]) -> Vec<Arc<dyn Policy>> {
    let posterior = Posterior::new(2, weights.to_vec(), Scale::Shared(0.1)).unwrap();
    vec![
        Arc::new(LinearGaussian::new(map.clone(), posterior).unwrap().with_exploration(0.05).unwrap()),
        Arc::new(Softmax::new(map.clone(), 2, weights.to_vec(), 1.0 / 3.0).unwrap()),
        Arc::new(Uniform::new(2).unwrap()),
    ]
}

/// A linear Gaussian policy of each kind.
fn policies() -> Vec<LinearGaussian> {
    let shared = || posterior(Scale::Shared(0.1));
    let shaped = posterior(Scale::PerFeature(vec![0.1, 2.0 / 3.0, 1e-50])).with_basis(basis()).unwrap();
    let fourier = FeatureMap::fourier(5, 2, 0.7 / 3.0, u64::MAX).unwrap().with_intercept();
    let beside = FeatureMap::fourier(1, 2, 0.3, 1).unwrap().with_contexts();
    vec![
        LinearGaussian::new(FeatureMap::identity(3), shared()).unwrap(),
        LinearGaussian::new(FeatureMap::identity(2).with_intercept(), shaped).unwrap().with_exploration(0.05).unwrap(),
        LinearGaussian::new(fourier, shared()).unwrap(),
        LinearGaussian::new(kernel().with_intercept(), shared()).unwrap(),
        LinearGaussian::new(beside, shared()).unwrap(),
        LinearGaussian::new(trees(), shared()).unwrap(),
        LinearGaussian::new(beside_softmax(), shared()).unwrap(),
    ]
}

/// Two softmax features beside a Fourier feature.
fn beside_softmax() -> FeatureMap {
    let softmax = SoftmaxFeatures::new(2, vec![0.1, -0.5, 1.0 / 7.0, 2.0], vec![-0.0, 1.0 / 3.0]).unwrap();
    FeatureMap::fourier(2, 1, 0.3, 1).unwrap().with_softmax(Arc::new(softmax)).unwrap()
}

/// The name of the file that they are in.
fn softmax_name() -> String {
    format!("softmax-{}.safetensors", beside_softmax().softmax().unwrap().fingerprint())
}

fn logs(sparse: bool, eligible: bool) -> Logs {
    let dense = Contexts::dense(vec![0.1, -0.0, 3.0, 0.0, 0.0, 0.0], 3).unwrap();
    let contexts = if sparse { dense.to_sparse() } else { dense };
    let logs = Logs::new(4, contexts, vec![3, 1], vec![1.0 / 3.0, 5e-324], vec![-0.0, -0.1]).unwrap();
    let logs = logs.with_policy_version("v \"1\" ü");
    if eligible { logs.with_eligible(Eligible::new([&[0, 3][..], &[1]]).unwrap()).unwrap() } else { logs }
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// The linear Gaussian policy that was read.
fn gaussian(policy: &Arc<dyn Policy>) -> LinearGaussian {
    policy.as_gaussian().unwrap().clone()
}

fn context_bits(contexts: &Contexts) -> Vec<(Vec<usize>, Vec<u32>)> {
    let row = |row: Row<'_>| {
        let mut indices = Vec::new();
        row.for_each(|f, _| indices.push(f));
        (indices, row.values().iter().map(|v| v.to_bits()).collect())
    };
    contexts.iter().map(row).collect()
}

#[test]
fn every_kind_of_policy_comes_back_bit_for_bit() {
    let folder = Folder::new();
    let [path, again] = ["p.safetensors", "q.safetensors"].map(|name| folder.path().join(name));
    for policy in maps().iter().flat_map(|map| of_every_class(map, &AWKWARD)) {
        write_policy(&path, &policy).unwrap();
        let read = read_policy(&path).unwrap();
        assert_eq!((read.class().name(), read.identity()), (policy.class().name(), policy.identity()));
        assert_eq!(format!("{read:?}"), format!("{policy:?}"));
        write_policy(&again, &read).unwrap();
        assert_eq!(fs::read(&again).unwrap(), fs::read(&path).unwrap());
    }
    for policy in policies() {
        write_policy(&path, &policy).unwrap();
        let read = gaussian(&read_policy(&path).unwrap());
        assert_eq!(read, policy);
        assert_eq!(bits(read.posterior().mean()), bits(policy.posterior().mean()));
        assert_eq!((read.fingerprint(), read.exploration()), (policy.fingerprint(), policy.exploration()));
    }
}

#[test]
fn one_scale_of_one_feature_is_told_from_a_shared_one() {
    let folder = Folder::new();
    let path = folder.path().join("p.safetensors");
    for scale in [Scale::Shared(2.0), Scale::PerFeature(vec![2.0])] {
        let posterior = Posterior::new(2, vec![1.0, 2.0], scale.clone()).unwrap();
        write_policy(&path, &LinearGaussian::new(FeatureMap::identity(1), posterior).unwrap()).unwrap();
        assert_eq!(*gaussian(&read_policy(&path).unwrap()).posterior().scale(), scale);
    }
}

#[test]
fn rounds_come_back_bit_for_bit_in_the_form_they_had() {
    let folder = Folder::new();
    let path = folder.path().join("r.safetensors");
    let collector = policies()[0].fingerprint();
    for (sparse, eligible) in [(false, false), (true, false), (false, true), (true, true)] {
        let logs = logs(sparse, eligible);
        write_round(&path, &logs, Some(collector)).unwrap();
        let round = read_round(&path).unwrap();
        let read = round.logs;
        assert_eq!((round.policy, read.contexts().is_sparse()), (Some(collector), sparse));
        assert_eq!(context_bits(read.contexts()), context_bits(logs.contexts()));
        assert_eq!((read.action(), read.policy_version()), (logs.action(), logs.policy_version()));
        assert_eq!((bits(read.propensity()), bits(read.cost())), (bits(logs.propensity()), bits(logs.cost())));
        let sets = |logs: &Logs| logs.eligible().map(|e| (0..2).map(|i| e.get(i).to_vec()).collect::<Vec<_>>());
        assert_eq!((sets(&read), read.fingerprint()), (sets(&logs), logs.fingerprint()));
    }
}

#[test]
fn indices_beyond_two_bytes_and_views_of_rows_survive() {
    let folder = Folder::new();
    let path = folder.path().join("r.safetensors");
    let contexts = Contexts::sparse(vec![0, 1, 2, 4], vec![7, 69_999, 0, 70_000], vec![1.0, 2.0, 0.0, 3.0], 70_001);
    let logs = Logs::new(2, contexts.unwrap().select(&[2, 0]), vec![0, 1], vec![0.5; 2], vec![-1.0; 2]).unwrap();
    write_round(&path, &logs, None).unwrap();
    let read = read_round(&path).unwrap();
    assert_eq!(read.policy, None);
    assert_eq!(context_bits(read.logs.contexts()), context_bits(logs.contexts()));
}

#[test]
fn certificates_come_back_to_the_last_bit() {
    let policy = LinearGaussian::new(FeatureMap::identity(3), Posterior::standard(3, 4).unwrap()).unwrap();
    let contexts = Contexts::dense(vec![0.1; 3], 3).unwrap();
    let rounds = [Logs::new(4, contexts, vec![3], vec![1.0 / 3.0], vec![-0.1]).unwrap()];
    let protocol = Protocol::default();
    let certificate = Certificate::risk(&policy, &policy, &Case::whole(&rounds, &protocol)).unwrap();
    let statements: Vec<Statement> = [StatementKind::Certificate, StatementKind::Ladder, StatementKind::Gate]
        .map(|kind| Statement { round: 1, kind, certificate: certificate.clone() })
        .into();
    let folder = Folder::new();
    let path = folder.path().join("certificates.json");
    let written = Certificates { reward_range: [-2.5, 40.0], statements };
    write_certificates(&path, written.clone()).unwrap();
    let read = read_certificates(&path).unwrap();
    assert_eq!(read, written);
    let read = read.statements;
    assert_eq!(read[0].certificate.upper.to_bits(), certificate.upper.to_bits());
    assert_eq!(bits(&read[0].certificate.lambdas), bits(&protocol.lambdas));
    assert!(surefoot::certificate::verify(&read[2].certificate, &[policy], &rounds).unwrap().is_empty());
}

#[test]
fn the_same_content_gives_the_same_bytes_and_no_other_file_stays() {
    let folder = Folder::new();
    let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
    let gaussians = policies().into_iter().map(|policy| Arc::new(policy) as Arc<dyn Policy>);
    for policy in gaussians.chain(of_every_class(&kernel().with_intercept(), &AWKWARD)) {
        write_policy(&a, &policy).unwrap();
        write_policy(&b, &policy).unwrap();
        assert_eq!(fs::read(&a).unwrap(), fs::read(&b).unwrap());
    }
    let mut names: Vec<String> =
        fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let basis = format!("basis-{}.safetensors", basis().fingerprint());
    assert_eq!(names, ["a", "b", &basis, &kernel_name(), &softmax_name(), &trees_name()]);
}

#[test]
fn policies_share_the_basis_that_they_were_written_with() {
    let folder = Folder::new();
    let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
    let mut reader = PolicyReader::default();
    write_policy(&a, &policies()[1]).unwrap();
    write_policy(&b, &policies()[1].clone().with_exploration(0.5).unwrap()).unwrap();
    let [a, b] = [a, b].map(|path| gaussian(&reader.read(&path).unwrap()));
    assert!(Arc::ptr_eq(a.posterior().basis().unwrap(), b.posterior().basis().unwrap()));
    assert_eq!(b.exploration(), 0.5);
}

#[test]
fn the_files_beside_a_policy_are_those_that_are_written_with_it() {
    let turned = posterior(Scale::PerFeature(vec![1.0; 3])).with_basis(basis()).unwrap();
    let turned = LinearGaussian::new(kernel().with_intercept(), turned).unwrap();
    let uniform = Uniform::new(2).unwrap();
    let all = policies();
    let all = all.iter().map(|policy| policy as &dyn Policy).chain([&turned as &dyn Policy, &uniform]);
    let mut most = 0;
    for policy in all {
        let folder = Folder::new();
        write_policy(&folder.path().join("a.safetensors"), policy).unwrap();
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut written: Vec<String> = fs::read_dir(folder.path()).unwrap().map(name).collect();
        let mut named = files_beside(policy);
        most = most.max(named.len());
        named.push("a.safetensors".into());
        written.sort();
        named.sort();
        assert_eq!(written, named);
    }
    assert_eq!(most, 2, "a basis and kernel features");
}

#[test]
fn policies_share_the_kernel_features_that_they_were_written_with() {
    let folder = Folder::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| folder.path().join(name));
    let mut reader = PolicyReader::default();
    write_policy(&a, &policies()[3]).unwrap();
    write_policy(&b, &policies()[3].clone().with_exploration(0.5).unwrap()).unwrap();
    // The same without an intercept.
    let posterior = Posterior::standard(2, 2).unwrap();
    write_policy(&c, &LinearGaussian::new(kernel(), posterior).unwrap()).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
    let all = [a, b, c].map(|path| gaussian(&reader.read(&path).unwrap()));
    let parts = all.each_ref().map(|policy| policy.features().kernel_parts().unwrap());
    assert!(std::ptr::eq(parts[0], parts[1]) && std::ptr::eq(parts[0], parts[2]));
    assert_eq!(all[2].features(), &kernel());
    assert_eq!(bits(parts[0].projection()), bits(kernel().kernel_parts().unwrap().projection()));
    assert_eq!(
        context_bits(&parts[0].landmarks().to_sparse()),
        context_bits(&kernel().kernel_parts().unwrap().landmarks().to_sparse())
    );
}

/// The error after a change of the header of the kernel features, or of the policy that has them.
fn kernel_error_after(in_policy: bool, from: &str, to: &str) -> String {
    let folder = Folder::new();
    let path = folder.path().join("p");
    write_policy(&path, &policies()[3]).unwrap();
    edit(&folder.path().join(if in_policy { "p".into() } else { kernel_name() }), from, to);
    error(&folder, &path).replace(&kernel_name(), "features")
}

#[test]
fn every_broken_part_of_kernel_features_is_named() {
    let broken = |from: &str, to: &str| kernel_error_after(false, from, to);
    assert_eq!(
        broken("surefoot-features", "surefoot-basis"),
        "features: metadata: the format should be surefoot-features, but is surefoot-basis"
    );
    assert_eq!(
        broken(r#"\"version\":1"#, r#"\"version\":2"#),
        "features: metadata: the version of the format should be 1, but is 2"
    );
    let text = broken(r#"\"bandwidth\""#, r#"\"width\""#);
    assert!(text.starts_with("features: metadata: cannot be understood: unknown field `width`"), "{text}");
    assert_eq!(
        broken(r#""landmarks":"#, r#""marks":"#),
        "features: the tensors should be landmarks, projection, but are marks, projection"
    );
    assert_eq!(
        broken(r#""shape":[3,2],"data_offsets":[48"#, r#""shape":[2,3],"data_offsets":[48"#),
        "features: landmarks: the shape should be (2, 2), but is (2, 3)"
    );
    assert_eq!(
        broken(r#""shape":[3,2],"data_offsets":[0"#, r#""shape":[6],"data_offsets":[0"#),
        "features: projection: the shape should be (3, 2), but is (6,)"
    );
    assert_eq!(
        broken(r#""dtype":"F32""#, r#""dtype":"I32""#),
        "features: landmarks: the type should be F32, but is I32"
    );
    let bandwidth = r#"\"bandwidth\":0.3333333333333333"#;
    assert_eq!(broken(bandwidth, r#"\"bandwidth\":-1.0"#), "features: the bandwidth should be above 0, but is -1");
    let text = broken(bandwidth, r#"\"bandwidth\":0.5"#);
    let claimed = kernel().kernel_parts().unwrap().fingerprint();
    assert!(text.starts_with(&format!("features: the content should have the fingerprint {claimed}")), "{text}");
}

#[test]
fn policies_and_kernel_features_that_do_not_fit_are_refused() {
    let broken = |from: &str, to: &str| kernel_error_after(true, from, to);
    assert_eq!(
        broken(r#"\"input\":2"#, r#"\"input\":3"#),
        "features: landmarks: the shape should be (3, 3), but is (3, 2)"
    );
    assert_eq!(broken(r#"\"count\":2"#, r#"\"count\":1"#), "p: mean: the shape should be (2, 2), but is (3, 2)");
    assert_eq!(
        broken(
            r#"\"intercept\":true,\"fourier\":null,\"kernel\":{\"count\":2"#,
            r#"\"intercept\":false,\"fourier\":null,\"kernel\":{\"count\":3"#
        ),
        "features: projection: the shape should be (3, 3), but is (3, 2)"
    );
    assert_eq!(
        broken(r#"\"fourier\":null"#, r#"\"fourier\":{\"count\":2,\"bandwidth\":1.0,\"seed\":1}"#),
        "p: metadata: features should be one of fourier, kernel and trees, but is fourier and kernel"
    );
    let folder = Folder::new();
    let path = folder.path().join("p");
    write_policy(&path, &policies()[3]).unwrap();
    let parts = kernel();
    let parts = parts.kernel_parts().unwrap();
    let other = FeatureMap::kernel_from_parts(parts.landmarks().clone(), 0.5, parts.projection().to_vec()).unwrap();
    let elsewhere = Folder::new();
    let policy = LinearGaussian::new(other.clone(), Posterior::standard(2, 2).unwrap()).unwrap();
    write_policy(&elsewhere.path().join("p"), &policy).unwrap();
    let exchanged = format!("features-{}.safetensors", other.kernel_parts().unwrap().fingerprint());
    fs::copy(elsewhere.path().join(exchanged), folder.path().join(kernel_name())).unwrap();
    let text = error(&folder, &path);
    let claimed = parts.fingerprint();
    let expected = format!("{}: the content should have the fingerprint {claimed}", kernel_name());
    assert!(text.starts_with(&expected), "{text}");
    fs::remove_file(folder.path().join(kernel_name())).unwrap();
    assert_eq!(
        error(&folder, &path),
        format!("{}: cannot be read: No such file or directory (os error 2)", kernel_name())
    );
}

#[test]
fn policies_with_tree_features_decide_alike_after_they_were_read() {
    let folder = Folder::new();
    let path = folder.path().join("p");
    let x = Contexts::dense(vec![0.0, 0.0, 0.5, 0.1, -1.0, 0.2, 3.0, 0.15], 2).unwrap();
    let beside = trees().with_contexts().with_intercept();
    let weights: Vec<f64> = (0..12).map(|i| (i as f64).sin()).collect();
    for policy in of_every_class(&beside, &weights) {
        write_policy(&path, &policy).unwrap();
        let read = read_policy(&path).unwrap();
        for x in [x.clone(), x.to_sparse()] {
            let [before, after] = [&policy, &read].map(|policy| bits(&policy.distribution(&x, None).unwrap()));
            assert_eq!(before, after);
        }
    }
    let mut reader = PolicyReader::default();
    let other = folder.path().join("q");
    write_policy(&path, &policies()[5]).unwrap();
    write_policy(&other, &policies()[5].clone().with_exploration(0.5).unwrap()).unwrap();
    let all = [path, other].map(|path| gaussian(&reader.read(&path).unwrap()));
    let parts = all.each_ref().map(|policy| policy.features().tree_parts().unwrap());
    assert!(std::ptr::eq(parts[0], parts[1]));
}

/// The error after a change of the header of the tree features, or of the policy that has them.
fn trees_error_after(in_policy: bool, from: &str, to: &str) -> String {
    let folder = Folder::new();
    let path = folder.path().join("p");
    write_policy(&path, &policies()[5]).unwrap();
    edit(&folder.path().join(if in_policy { "p".into() } else { trees_name() }), from, to);
    error(&folder, &path).replace(&trees_name(), "trees")
}

#[test]
fn every_broken_part_of_tree_features_is_named() {
    let broken = |from: &str, to: &str| trees_error_after(false, from, to);
    assert_eq!(
        broken("surefoot-trees", "surefoot-basis"),
        "trees: metadata: the format should be surefoot-trees, but is surefoot-basis"
    );
    assert_eq!(
        broken(r#"\"version\":1"#, r#"\"version\":2"#),
        "trees: metadata: the version of the format should be 1, but is 2"
    );
    assert_eq!(
        broken(r#"\"input\":2"#, r#"\"input\":3"#),
        "trees: metadata: the number of features of a context should be 2, as the policy's, but is 3"
    );
    assert_eq!(
        broken(r#""threshold":"#, r#""bound":"#),
        "trees: the tensors should be feature, threshold, but are bound, feature"
    );
    assert_eq!(
        broken(r#""dtype":"U32","shape":[5]"#, r#""dtype":"U32","shape":[5,1]"#),
        "trees: feature: the shape should be of 1 dimension, but is (5, 1)"
    );
    assert_eq!(
        broken(r#""dtype":"F32","shape":[5]"#, r#""dtype":"F32","shape":[1,5]"#),
        "trees: threshold: the shape should be (5,), but is (1, 5)"
    );
    assert_eq!(broken(r#""dtype":"F32""#, r#""dtype":"I32""#), "trees: threshold: the type should be F32, but is I32");
}

#[test]
fn policies_and_tree_features_that_do_not_fit_are_refused() {
    let broken = |from: &str, to: &str| trees_error_after(true, from, to);
    assert_eq!(
        broken(r#"\"input\":2"#, r#"\"input\":3"#),
        "trees: metadata: the number of features of a context should be 3, as the policy's, but is 2"
    );
    assert_eq!(broken(r#"\"count\":3"#, r#"\"count\":2"#), "p: mean: the shape should be (2, 2), but is (3, 2)");
    assert_eq!(
        broken(
            r#"\"intercept\":false,\"fourier\":null,\"trees\":{\"count\":3"#,
            r#"\"intercept\":true,\"fourier\":null,\"trees\":{\"count\":2"#
        ),
        "trees: metadata: the number of leaves should be 2, as the policy's, but is 3"
    );
    assert_eq!(
        broken(r#"\"fourier\":null"#, r#"\"fourier\":{\"count\":3,\"bandwidth\":1.0,\"seed\":1}"#),
        "p: metadata: features should be one of fourier, kernel and trees, but is fourier and trees"
    );
    let folder = Folder::new();
    let path = folder.path().join("p");
    write_policy(&path, &policies()[5]).unwrap();
    fs::remove_file(folder.path().join(trees_name())).unwrap();
    assert_eq!(
        error(&folder, &path),
        format!("{}: cannot be read: No such file or directory (os error 2)", trees_name())
    );
}

/// The error after the bytes of the nodes were changed: five thresholds, then five features, four bytes each.
fn forged(change: impl Fn(&mut [u8])) -> String {
    let folder = Folder::new();
    let path = folder.path().join("p");
    write_policy(&path, &policies()[5]).unwrap();
    let name = folder.path().join(trees_name());
    let mut bytes = fs::read(&name).unwrap();
    let start = bytes.len() - 40;
    change(&mut bytes[start..]);
    fs::write(&name, bytes).unwrap();
    error(&folder, &path).replace(&trees_name(), "trees")
}

#[test]
fn forged_trees_are_refused() {
    let put = |at: usize, value: [u8; 4]| forged(|bytes| bytes[4 * at..4 * at + 4].copy_from_slice(&value));
    let threshold = |node: usize, v: f32| put(node, v.to_le_bytes());
    let node = |node: usize, feature: u32| put(5 + node, feature.to_le_bytes());
    assert_eq!(node(1, 2), "trees: row 1: the feature of a node should be below 2, or 4294967295 for a leaf, but is 2");
    assert_eq!(node(4, 0), "trees: the last tree should be complete, but is without 2 of its parts");
    assert_eq!(threshold(0, f32::NAN), "trees: row 0: the threshold of a node should be finite, but is NaN");
    assert_eq!(threshold(4, 1.0), "trees: row 4: the threshold of a leaf should be 0, but is 1");
    let claimed = trees().tree_parts().unwrap().fingerprint();
    for text in [threshold(0, 0.2), node(1, 1)] {
        assert!(text.starts_with(&format!("trees: the content should have the fingerprint {claimed}")), "{text}");
    }
    assert_eq!(node(0, u32::MAX), "trees: row 0: the threshold of a leaf should be 0, but is 0.1");
}

/// The error after a change of the header of the softmax features, or of the policy that has them.
fn softmax_error_after(in_policy: bool, from: &str, to: &str) -> String {
    let folder = Folder::new();
    let path = folder.path().join("p");
    write_policy(&path, &policies()[6]).unwrap();
    edit(&folder.path().join(if in_policy { "p".into() } else { softmax_name() }), from, to);
    error(&folder, &path).replace(&softmax_name(), "softmax")
}

#[test]
fn every_broken_part_of_softmax_features_is_named() {
    let broken = |from: &str, to: &str| softmax_error_after(false, from, to);
    assert_eq!(
        broken("surefoot-softmax", "surefoot-feature"),
        "softmax: metadata: the format should be surefoot-softmax, but is surefoot-feature"
    );
    assert_eq!(
        broken(r#"\"input\":2"#, r#"\"input\":3"#),
        "softmax: metadata: the number of features of a context should be 2, as the policy's, but is 3"
    );
    assert_eq!(
        broken(r#""shape":[2,2]"#, r#""shape":[1,4]"#),
        "softmax: weights: the shape should be (2, 2), but is (1, 4)"
    );
    let claimed = beside_softmax().softmax().unwrap().fingerprint().to_string();
    let forged = format!("{}{}", if claimed.starts_with('0') { '1' } else { '0' }, &claimed[1..]);
    let text = broken(&claimed, &forged);
    assert!(text.starts_with("softmax: the content should have the fingerprint"), "{text}");
}

#[test]
fn policies_and_softmax_features_that_do_not_fit_are_refused() {
    let broken = |from: &str, to: &str| softmax_error_after(true, from, to);
    assert_eq!(
        broken(r#"\"softmax\":{\"count\":2"#, r#"\"softmax\":{\"count\":1"#),
        "p: mean: the shape should be (2, 2), but is (3, 2)"
    );
    let folder = Folder::new();
    let path = folder.path().join("p");
    write_policy(&path, &policies()[6]).unwrap();
    fs::remove_file(folder.path().join(softmax_name())).unwrap();
    assert_eq!(
        error(&folder, &path),
        format!("{}: cannot be read: No such file or directory (os error 2)", softmax_name())
    );
}

/// The error of a policy file or of a round, the folder left out.
fn error(folder: &Folder, path: &Path) -> String {
    let text = match path.file_name().unwrap().to_str().unwrap() {
        "r" => read_round(path).unwrap_err().to_string(),
        "c" => read_certificates(path).unwrap_err().to_string(),
        _ => read_policy(path).unwrap_err().to_string(),
    };
    text.replace(&format!("{}/", folder.path().display()), "")
}

/// A policy file `p` and a round `r`.
fn written(folder: &Folder) -> [PathBuf; 2] {
    let [p, r] = ["p", "r"].map(|name| folder.path().join(name));
    write_policy(&p, &policies()[0]).unwrap();
    write_round(&r, &logs(false, false), None).unwrap();
    [p, r]
}

/// Changes the header of a file, whose length follows.
fn edit(path: &Path, from: &str, to: &str) {
    let bytes = fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = std::str::from_utf8(&bytes[8..8 + length]).unwrap();
    assert!(header.contains(from), "{header}");
    let header = header.replacen(from, to, 1);
    let parts = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &bytes[8 + length..]];
    fs::write(path, parts.concat()).unwrap();
}

/// The error after such a change of the policy or of the round.
fn error_after(name: &str, from: &str, to: &str) -> String {
    let folder = Folder::new();
    written(&folder);
    let path = folder.path().join(name);
    edit(&path, from, to);
    error(&folder, &path)
}

#[test]
fn files_that_are_missing_or_none_of_ours_are_named() {
    let folder = Folder::new();
    let [p, r] = written(&folder);
    assert_eq!(error(&folder, &folder.path().join("q")), "q: cannot be read: No such file or directory (os error 2)");
    fs::copy(&r, folder.path().join("q")).unwrap();
    assert_eq!(
        error(&folder, &folder.path().join("q")),
        "q: metadata: the format should be surefoot-policy, but is surefoot-round"
    );
    folder.write("p", "short");
    assert_eq!(
        error(&folder, &p),
        "p: not a readable safetensors file: it has 5 bytes, and its header alone takes more"
    );
    folder.write("p", "{\"json\": \"but no tensors\"}");
    assert_eq!(error(&folder, &p), r#"p: not a readable safetensors file: it begins like text, with "{\"json\":""#);
    folder.write("p", [&100u64.to_le_bytes()[..], b"{}"].concat());
    assert_eq!(
        error(&folder, &p),
        "p: not a readable safetensors file: its header should have 100 bytes, but the file has 10"
    );
    folder.write("p", [&2u64.to_le_bytes()[..], b"{}"].concat());
    assert_eq!(
        error(&folder, &p),
        "p: the metadata should be one with the entry \"surefoot\", which surefoot-policy files have, but is without"
    );
}

#[test]
fn versions_and_fields_that_are_not_understood_are_refused() {
    assert_eq!(
        error_after("p", r#"\"version\":1"#, r#"\"version\":2"#),
        "p: metadata: the version of the format should be 1, but is 2"
    );
    let text = error_after("p", r#"\"exploration\""#, r#"\"explortion\""#);
    assert!(
        text.starts_with("p: metadata: cannot be understood: unknown field `explortion`, expected one of `format`, ")
            && text.ends_with(" at line 1 column 146"),
        "{text}"
    );
    let text = error_after("r", r#"\"records\":2"#, r#"\"records\":-2"#);
    assert!(
        text.starts_with("r: metadata: cannot be understood: invalid value: integer `-2`, expected usize"),
        "{text}"
    );
}

#[test]
fn fields_of_another_class_are_refused() {
    let fields = [
        ("features", r#"{\"input\":3,\"intercept\":false,\"fourier\":null}"#.to_owned()),
        ("exploration", "0.05".to_owned()),
        ("alpha", "0.5".to_owned()),
        ("basis", format!(r#"\"{}\""#, basis().fingerprint())),
    ];
    let folder = Folder::new();
    let path = folder.path().join("p");
    let mut refused = Vec::new();
    for policy in of_every_class(&FeatureMap::identity(3), &AWKWARD) {
        write_policy(&path, &policy).unwrap();
        let written = fs::read(&path).unwrap();
        let has = |text: &str| written.windows(text.len()).any(|window| window == text.as_bytes());
        for (name, value) in &fields {
            let key = format!(r#"\"{name}\":"#);
            let null = format!("{key}null");
            // Another field of its own class is for other tests.
            if has(&key) && (!has(&null) || policy.as_gaussian().is_some()) {
                continue;
            }
            let add = |value: &str| {
                fs::write(&path, &written).unwrap();
                if has(&null) {
                    edit(&path, &null, &format!("{key}{value}"));
                } else {
                    edit(&path, r#"\"actions\":2"#, &format!(r#"\"actions\":2,{key}{value}"#));
                }
                error(&folder, &path)
            };
            let expected = format!("p: metadata: {name} should be absent, as the class is \"");
            let text = add(value);
            assert!(text.starts_with(&expected) && text.ends_with("\", but is given"), "{text}");
            refused.push((policy.class().name(), *name));
            if !has(&null) {
                let text = add("null");
                assert!(text.starts_with("p: metadata: cannot be understood: invalid type: null"), "{text}");
            }
        }
    }
    for expected in [
        ("gaussian", "alpha"),
        ("softmax", "exploration"),
        ("softmax", "basis"),
        ("uniform", "features"),
        ("uniform", "exploration"),
        ("uniform", "alpha"),
        ("uniform", "basis"),
    ] {
        assert!(refused.contains(&expected), "{expected:?} of {refused:?}");
    }
}

#[test]
fn policies_without_a_file_are_refused_by_their_class() {
    #[derive(Debug)]
    struct Mine;
    impl Policy for Mine {
        fn actions(&self) -> usize {
            2
        }
        fn distribution(&self, contexts: &Contexts, _: Option<&Eligible>) -> surefoot::Result<Vec<f64>> {
            Ok(vec![0.5; 2 * contexts.len()])
        }
    }
    let folder = Folder::new();
    let path = folder.path().join("p");
    let mixture = Mixture::new(vec![Arc::new(policies().remove(0))], vec![1.0]).unwrap();
    for (policy, class) in [(&mixture as &dyn Policy, "mixture"), (&Mine, "custom")] {
        let text = write_policy(&path, policy).unwrap_err().to_string();
        assert_eq!(text, format!("{}: policies of class {class} have no file", path.display()));
    }
    assert!(!path.exists());
}

#[test]
fn every_class_goes_from_its_file_through_certificate_evaluation_selection_and_decisions() {
    let folder = Folder::new();
    let path = folder.path().join("p.safetensors");
    // Action 0 is right where x is 1, action 1 where it is -1. The logging policy is uniform.
    let n = 200;
    let (x, action) = (|i: usize| if i.is_multiple_of(2) { 1.0 } else { -1.0 }, |i: usize| (i / 2 % 2) as u32);
    let reward = |i: usize| f64::from(u8::from((x(i) > 0.0) == (action(i) == 0)));
    let contexts = Contexts::dense((0..n).map(|i| x(i) as f32).collect(), 1).unwrap();
    let cost = (0..n).map(|i| -reward(i)).collect();
    let actions: Vec<u32> = (0..n).map(action).collect();
    let rounds = [Logs::new(2, contexts.clone(), actions.clone(), vec![0.5; n], cost).unwrap()];
    let mut logs = String::from("event_id,action,pscore,reward,x\n");
    for i in 0..n {
        logs += &format!("e{i},{},0.5,{},{}\n", action(i), reward(i), x(i));
    }
    let reader = LogReader::new(vec![folder.write("logs.csv", logs)], None, ColumnNames::default());
    let encoding =
        Encoding::new(vec![Field::Number { column: "x".into(), mean: 0.0, scale: 1.0, indicator: false }]).unwrap();
    let inputs = Inputs::new(Actions::Count(2), encoding, [0.0, 1.0], Lineage::default());

    for policy in of_every_class(&FeatureMap::identity(1), &[1.0, -1.0]) {
        let class = policy.class().name();
        write_policy_with(&path, &policy, Some(&inputs)).unwrap();

        // A certificate by records that the policy has not seen, recomputed with the policy of the file.
        let protocol = Protocol::default();
        let certificate = Certificate::fixed(Smoothing::Ls, &policy, 1, &Case::whole(&rounds, &protocol)).unwrap();
        let read = [read_policy(&path).unwrap()];
        assert!(surefoot::certificate::verify(&certificate, &read, &rounds).unwrap().is_empty(), "{class}");

        let p = policy.propensity(&contexts, &actions, None).unwrap();
        let value = (0..n).map(|i| reward(i) * p[i] / 0.5).sum::<f64>() / n as f64;
        assert!(certificate.upper > -value && certificate.upper < 0.0, "{class}: {}", certificate.upper);
        let open = || RecordPolicy::open(path.to_str().unwrap(), &mut PolicyReader::default()).unwrap();
        let policies = || vec![NamedPolicy { name: class.into(), policy: open() }];
        let request = EvaluateRequest { policies: policies(), replicates: 0, ..EvaluateRequest::default() };
        let evaluated = evaluate(&reader, &request, |_| ()).unwrap();
        let found = evaluated.policies[0].estimates[0].estimate.value;
        assert!((found - value).abs() < 1e-9, "{class}: {found} {value}");

        let request = SelectRequest { policies: policies(), prior: None, reward_range: [0.0, 1.0], delta: 0.05 };
        let at_least = select(&reader, &request, |_| ()).unwrap().mixture.at_least;
        assert!(0.0 < at_least && at_least < value, "{class}: {at_least} {value}");

        let decided = Scorer::new(open(), 1, false).unwrap().score(&reader.batches().next().unwrap().unwrap()).unwrap();
        let column = |name: &str| decided.column_by_name(name).unwrap();
        let chosen = column("action").as_primitive::<UInt32Type>().values().to_vec();
        let expected = policy.propensity(&contexts, &chosen, None).unwrap();
        assert_eq!(column("pscore").as_primitive::<Float64Type>().values(), &expected[..], "{class}");
    }
}

#[test]
fn wrong_tensors_are_named_with_what_they_should_be() {
    assert_eq!(
        error_after("p", r#""mean":"#, r#""median":"#),
        "p: the tensors should be mean, scale, but are median, scale"
    );
    assert_eq!(
        error_after("r", r#""context":"#, r#""eligible.offsets":"#),
        "r: the tensors should be action, context, cost, eligible.actions, eligible.offsets, propensity, but are action, \
         cost, eligible.offsets, propensity"
    );
    assert_eq!(
        error_after("p", r#""shape":[3,2]"#, r#""shape":[2,3]"#),
        "p: mean: the shape should be (3, 2), but is (2, 3)"
    );
    assert_eq!(
        error_after("p", r#""dtype":"F64","shape":[3,2]"#, r#""dtype":"I64","shape":[3,2]"#),
        "p: mean: the type should be F64, but is I64"
    );
    assert_eq!(
        error_after("p", r#""shape":[],"#, r#""shape":[1],"#),
        "p: scale: the shape should be () or (3,), but is (1,)"
    );
    assert_eq!(
        error_after("r", r#"\"records\":2"#, r#"\"records\":3"#),
        "r: context: the shape should be (3, 3), but is (2, 3)"
    );
}

#[test]
fn values_that_the_core_refuses_are_refused_with_their_place() {
    assert_eq!(
        error_after("p", r#"\"exploration\":0.0"#, r#"\"exploration\":1.0"#),
        "p: exploration should be in [0, 1), but is 1"
    );
    let folder = Folder::new();
    let [_, r] = written(&folder);
    let mut bytes = fs::read(&r).unwrap();
    let cost = (-0.1f64).to_le_bytes();
    let at = bytes.windows(8).position(|w| w == cost).unwrap();
    bytes[at..at + 8].copy_from_slice(&0.5f64.to_le_bytes());
    fs::write(&r, &bytes).unwrap();
    assert_eq!(error(&folder, &r), "r: row 1: cost should be in [-1, 0], but is 0.5");
}

#[test]
fn content_that_was_changed_no_longer_has_its_fingerprint() {
    let folder = Folder::new();
    let [_, r] = written(&folder);
    let mut bytes = fs::read(&r).unwrap();
    let at = bytes.windows(8).position(|w| w == (-0.1f64).to_le_bytes()).unwrap();
    bytes[at..at + 8].copy_from_slice(&(-0.9f64).to_le_bytes());
    fs::write(&r, &bytes).unwrap();
    let (claimed, found) = (logs(false, false).fingerprint(), "but has ");
    let text = error(&folder, &r);
    assert!(text.starts_with(&format!("r: the content should have the fingerprint {claimed}, as the file says, ")));
    assert!(text.contains(found), "{text}");
    let text = error_after("p", r#"\"exploration\":0.0"#, r#"\"exploration\":0.1"#);
    assert!(text.starts_with("p: the content should have the fingerprint "), "{text}");
}

#[test]
fn a_basis_that_is_missing_or_exchanged_is_named() {
    let folder = Folder::new();
    let path = folder.path().join("p");
    write_policy(&path, &policies()[1]).unwrap();
    let name = format!("basis-{}.safetensors", basis().fingerprint());
    let other = Basis::new(vec![1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0], 3).unwrap();
    let exchanged = posterior(Scale::Shared(1.0)).with_basis(Arc::new(other)).unwrap();
    let elsewhere = Folder::new();
    write_policy(&elsewhere.path().join("q"), &LinearGaussian::new(FeatureMap::identity(3), exchanged).unwrap())
        .unwrap();
    let found = fs::read_dir(elsewhere.path()).unwrap().map(|e| e.unwrap().path());
    let found = found.into_iter().find(|path| !path.ends_with("q")).unwrap();
    fs::copy(found, folder.path().join(&name)).unwrap();
    let text = error(&folder, &path);
    let claimed = basis().fingerprint();
    assert!(text.starts_with(&format!("{name}: the content should have the fingerprint {claimed}")), "{text}");
    fs::remove_file(folder.path().join(&name)).unwrap();
    assert_eq!(error(&folder, &path), format!("{name}: cannot be read: No such file or directory (os error 2)"));
}

#[test]
fn broken_certificates_are_refused_with_line_and_column() {
    let folder = Folder::new();
    let path = folder.write("c", "{\"format\": \"surefoot-certificates\",\n \"version\": 7, \"more\": 1}");
    assert_eq!(error(&folder, &path), "c: the version of the format should be 3, but is 7");
    folder.write("c", "{\"format\": \"surefoot-certificates\",\n \"version\": 3, \"more\": 1}");
    assert_eq!(
        error(&folder, &path),
        "c: cannot be understood: unknown field `more`, expected one of `format`, `version`, `reward_range`, `certificates` at line 2 column 21"
    );
    folder.write("c", "[1, 2");
    assert_eq!(
        error(&folder, &path),
        "c: cannot be understood: invalid type: integer `1`, expected a string at line 1 column 2"
    );
}

#[test]
fn what_cannot_be_written_leaves_nothing_behind() {
    let folder = Folder::new();
    let path = folder.path().join("nowhere").join("p");
    let text = write_policy(&path, &policies()[0]).unwrap_err().to_string();
    let nowhere = folder.path().join("nowhere");
    assert!(text.ends_with(&format!("p: cannot be written: there is no folder {}", nowhere.display())), "{text}");
    // A folder is in the way of the rename.
    let path = folder.path().join("p");
    fs::create_dir(&path).unwrap();
    assert!(write_policy(&path, &policies()[0]).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn sizes_whose_sum_overflows_are_refused() {
    let folder = Folder::new();
    let size = 1u64 << 60;
    let tensors: Vec<String> = (0..16)
        .map(|i| {
            let end = if i == 15 { u64::MAX } else { (i + 1) * size };
            format!(r#""{i:x}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{end}]}}"#, end - i * size, i * size)
        })
        .collect();
    let header = format!("{{{}}}", tensors.join(","));
    let path = folder.write("p", [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat());
    assert_eq!(
        error(&folder, &path),
        format!("p: should have {} bytes, as its header says, but ends after {}", u64::MAX, header.len() + 8)
    );
}

#[test]
fn no_single_changed_byte_and_no_cut_makes_it_panic_or_goes_unseen() {
    let folder = Folder::new();
    let [p, b, r] = ["p", "b", "r"].map(|name| folder.path().join(name));
    let all = posterior(Scale::Shared(0.1)).with_basis(basis()).unwrap();
    let all = LinearGaussian::new(kernel().with_intercept(), all).unwrap();
    write_policy(&p, &all).unwrap();
    write_round(&r, &logs(true, true), Some(policies()[0].fingerprint())).unwrap();
    let name = format!("basis-{}.safetensors", basis().fingerprint());
    fs::copy(folder.path().join(&name), &b).unwrap();
    let k = folder.path().join(kernel_name());
    let policy = all.fingerprint();
    let round = logs(true, true).fingerprint();
    for (file, path) in [(&p, p.clone()), (&b, folder.path().join(&name)), (&k, k.clone()), (&r, r.clone())] {
        let bytes = fs::read(file).unwrap();
        for i in 0..bytes.len() {
            for change in [1, 0x10, 0x80, 0xff] {
                let mut broken = bytes.clone();
                broken[i] ^= change;
                fs::write(&path, broken).unwrap();
                // What is read all the same is what was written: the change was in the name of the collector, in a
                // space ...
                if *file == r {
                    assert!(read_round(&path).map_or(round, |round| round.logs.fingerprint()) == round);
                } else {
                    assert!(read_policy(&p).map_or(policy, |policy| policy.identity().unwrap()) == policy);
                }
            }
            fs::write(&path, &bytes[..i]).unwrap();
            assert!(if *file == r { read_round(&path).is_err() } else { read_policy(&p).is_err() });
        }
        fs::write(&path, bytes).unwrap();
    }
    assert_eq!(read_policy(&p).unwrap().actions(), 2);
}

/// Renamed actions do other things under the same name: the version that decisions are signed with must change.
#[test]
fn a_policy_whose_actions_are_exchanged_signs_with_another_version() {
    let policy: Arc<dyn Policy> = Arc::new(LinearGaussian::standard(FeatureMap::identity(2), 2).unwrap());
    let version = |names: [&str; 2]| {
        let actions = Actions::Names(names.map(str::to_owned).to_vec());
        let number = |column: &str| Field::Number { column: column.into(), mean: 0.0, scale: 1.0, indicator: false };
        let encoding = Encoding::new(vec![number("x"), number("y")]).unwrap();
        let inputs = Inputs::new(actions, encoding, [0.0, 1.0], Lineage::default());
        RecordPolicy::Encoded { policy: Arc::clone(&policy), inputs: Arc::new(inputs) }.version().unwrap()
    };
    assert_eq!(version(["left", "right"]), version(["left", "right"]));
    assert_ne!(version(["left", "right"]), version(["right", "left"]));
    assert_ne!(version(["left", "right"]), policy.identity().unwrap().to_string());
}
