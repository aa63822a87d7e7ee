//! The parts of policies that have files of their own: bases, kernel, tree and softmax features.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use surefoot::contexts::Row;
use surefoot::features::{KernelFeatures, SoftmaxFeatures, TreeFeatures};
use surefoot::policy::Basis;
use surefoot::{Contexts, FeatureMap, Fingerprint};

use super::VERSION;
use crate::error::{Error, Result, at};
use crate::files::{Together, contains};
use crate::tensors::{Tensor, Tensors, bytes, check_fingerprint};

const BASIS: &str = "surefoot-basis";
const FEATURES: &str = "surefoot-features";
const TREES: &str = "surefoot-trees";
const SOFTMAX: &str = "surefoot-softmax";

/// The features of a policy, as its file describes them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Features {
    pub(super) input: usize,
    /// Whether the contexts stand before Fourier, kernel or tree features. Absent in old files, and where they do not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    contexts: bool,
    intercept: bool,
    fourier: Option<Fourier>,
    /// Absent in old files, from before kernel features existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kernel: Option<Named>,
    /// Absent without tree features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trees: Option<Named>,
    /// The softmax features before Fourier, kernel or tree features. Absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    softmax: Option<Named>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fourier {
    count: usize,
    bandwidth: f64,
    seed: u64,
}

/// Features in a file that their fingerprint names.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    count: usize,
    fingerprint: Fingerprint,
}

impl Features {
    fn of(map: &FeatureMap) -> Self {
        let fourier = map.fourier_settings().map(|(count, bandwidth, seed)| Fourier { count, bandwidth, seed });
        let kernel = map.kernel_parts().map(|k| Named { count: k.count(), fingerprint: k.fingerprint() });
        let trees = map.tree_parts().map(|t| Named { count: t.count(), fingerprint: t.fingerprint() });
        let softmax = map.softmax().map(|s| Named { count: s.count(), fingerprint: s.fingerprint() });
        let (input, contexts, intercept) = (map.input(), map.contexts(), map.intercept());
        Features { input, contexts, intercept, fourier, kernel, trees, softmax }
    }

    /// The kinds of made features; at most one in a valid file.
    fn made(&self) -> Vec<&'static str> {
        let kinds =
            [("fourier", self.fourier.is_some()), ("kernel", self.kernel.is_some()), ("trees", self.trees.is_some())];
        kinds.into_iter().filter(|(_, given)| *given).map(|(kind, _)| kind).collect()
    }

    /// The number of features after the feature map.
    pub(super) fn output(&self) -> usize {
        let named = self.kernel.or(self.trees).map(|named| named.count);
        let made = self.fourier.map(|fourier| fourier.count).or(named);
        let contexts = if self.contexts && made.is_some() { self.input } else { 0 };
        let parts = [contexts, self.softmax.map_or(0, |named| named.count), usize::from(self.intercept)];
        parts.into_iter().fold(made.unwrap_or(self.input), usize::saturating_add)
    }
}

/// The metadata of a basis file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BasisHeader {
    format: String,
    version: u64,
    features: usize,
    fingerprint: Fingerprint,
}

/// The metadata of a file of kernel features.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FeaturesHeader {
    format: String,
    version: u64,
    bandwidth: f64,
    fingerprint: Fingerprint,
}

/// The metadata of a file of tree or softmax features.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MapHeader {
    format: String,
    version: u64,
    input: usize,
    fingerprint: Fingerprint,
}

/// The description of the features in a policy file. Kernel, tree and softmax features are written to
/// files of their own.
pub(super) fn stage_features(together: &mut Together, path: &Path, map: &FeatureMap) -> Result<Features> {
    if let Some(kernel) = map.kernel_parts() {
        stage_kernel(together, path, kernel)?;
    }
    if let Some(trees) = map.tree_parts() {
        stage_trees(together, path, trees)?;
    }
    if let Some(softmax) = map.softmax() {
        stage_softmax(together, path, softmax)?;
    }
    Ok(Features::of(map))
}

/// Adds a file that is named by its content. Nothing is written if it exists with this content. A file with this name
/// and other content is damaged, and is replaced.
fn stage_named(together: &mut Together, path: &Path, header: &impl Serialize, tensors: Vec<Tensor>) -> Result<()> {
    let bytes = bytes(path, header, tensors)?;
    if contains(path, &bytes) {
        return Ok(());
    }
    together.file(path, |file| file.write_all(&bytes))
}

pub(super) fn stage_basis(together: &mut Together, policy: &Path, basis: &Basis) -> Result<()> {
    let path = basis_path(policy, basis.fingerprint());
    let (format, features) = (BASIS.into(), basis.features());
    let header = BasisHeader { format, version: VERSION, features, fingerprint: basis.fingerprint() };
    let axes = Tensor::new("axes", &[features, features], basis.axes().iter().copied());
    stage_named(together, &path, &header, vec![axes])
}

fn stage_kernel(together: &mut Together, policy: &Path, kernel: &KernelFeatures) -> Result<()> {
    let path = kernel_path(policy, kernel.fingerprint());
    let (format, bandwidth) = (FEATURES.into(), kernel.bandwidth());
    let header = FeaturesHeader { format, version: VERSION, bandwidth, fingerprint: kernel.fingerprint() };
    let landmarks = kernel.landmarks().to_dense();
    let shape = [landmarks.len(), landmarks.features()];
    let values = landmarks.iter().flat_map(|row: Row<'_>| row.values().iter().copied());
    let projection = kernel.projection().iter().copied();
    let tensors = vec![
        Tensor::new("landmarks", &shape, values),
        Tensor::new("projection", &[landmarks.len(), kernel.count()], projection),
    ];
    stage_named(together, &path, &header, tensors)
}

fn stage_trees(together: &mut Together, policy: &Path, trees: &TreeFeatures) -> Result<()> {
    let path = trees_path(policy, trees.fingerprint());
    let (format, input) = (TREES.into(), trees.input());
    let header = MapHeader { format, version: VERSION, input, fingerprint: trees.fingerprint() };
    let shape = [trees.features().len()];
    let tensors = vec![
        Tensor::new("feature", &shape, trees.features().iter().copied()),
        Tensor::new("threshold", &shape, trees.thresholds().iter().copied()),
    ];
    stage_named(together, &path, &header, tensors)
}

fn stage_softmax(together: &mut Together, policy: &Path, softmax: &SoftmaxFeatures) -> Result<()> {
    let path = softmax_path(policy, softmax.fingerprint());
    let (format, input, count) = (SOFTMAX.into(), softmax.input(), softmax.count());
    let header = MapHeader { format, version: VERSION, input, fingerprint: softmax.fingerprint() };
    let tensors = vec![
        Tensor::new("weights", &[input, count], softmax.weights().iter().copied()),
        Tensor::new("constants", &[count], softmax.constants().iter().copied()),
    ];
    stage_named(together, &path, &header, tensors)
}

/// The paths of everything that a policy with this basis and these features names.
pub(super) fn paths(policy: &Path, basis: Option<Fingerprint>, features: Option<&FeatureMap>) -> Vec<PathBuf> {
    let features = features.map(Features::of);
    let named = |named: fn(&Features) -> Option<Named>| Some(named(features.as_ref()?)?.fingerprint);
    let all = [
        basis.map(|print| basis_path(policy, print)),
        named(|features| features.kernel).map(|print| kernel_path(policy, print)),
        named(|features| features.trees).map(|print| trees_path(policy, print)),
        named(|features| features.softmax).map(|print| softmax_path(policy, print)),
    ];
    all.into_iter().flatten().collect()
}

/// The path of a policy's basis.
fn basis_path(policy: &Path, basis: Fingerprint) -> PathBuf {
    policy.with_file_name(format!("basis-{basis}.safetensors"))
}

/// The path of a policy's kernel features.
fn kernel_path(policy: &Path, kernel: Fingerprint) -> PathBuf {
    policy.with_file_name(format!("features-{kernel}.safetensors"))
}

/// The path of a policy's tree features.
fn trees_path(policy: &Path, trees: Fingerprint) -> PathBuf {
    policy.with_file_name(format!("trees-{trees}.safetensors"))
}

/// The path of a policy's softmax features.
fn softmax_path(policy: &Path, softmax: Fingerprint) -> PathBuf {
    policy.with_file_name(format!("softmax-{softmax}.safetensors"))
}

/// The bases and feature maps that were read so far.
#[derive(Debug, Default)]
pub(super) struct Shared {
    bases: HashMap<Fingerprint, Arc<Basis>>,
    /// The feature maps, without contexts and softmax features beside them and without intercepts.
    maps: Vec<(Features, FeatureMap)>,
    softmax: HashMap<Fingerprint, Arc<SoftmaxFeatures>>,
}

impl Shared {
    /// The feature map of a policy.
    pub(super) fn map(&mut self, path: &Path, file: &Tensors, features: Features) -> Result<FeatureMap> {
        for (part, given, allowed) in
            [("contexts", features.contexts, "false"), ("softmax", features.softmax.is_some(), "absent")]
        {
            if given && features.made().is_empty() {
                return Err(Error::Header {
                    place: file.place_of("metadata"),
                    part: part.into(),
                    allowed: format!("{allowed} without Fourier, kernel or tree features"),
                    found: if part == "contexts" { "true" } else { "given" }.into(),
                });
            }
        }
        let made = Features { contexts: false, softmax: None, intercept: false, ..features };
        let map = match self.maps.iter().find(|(known, _)| *known == made) {
            Some((_, map)) => map.clone(),
            None => {
                let map = make(path, file, features)?;
                self.maps.push((made, map.clone()));
                map
            }
        };
        let map = if features.contexts { map.with_contexts() } else { map };
        let map = match features.softmax {
            Some(softmax) => at(file.place(), map.with_softmax(self.softmax(path, softmax, features.input)?))?,
            None => map,
        };
        Ok(if features.intercept { map.with_intercept() } else { map })
    }

    /// The softmax features with this fingerprint, of contexts with `input` features.
    fn softmax(&mut self, policy: &Path, named: Named, input: usize) -> Result<Arc<SoftmaxFeatures>> {
        let Named { count, fingerprint } = named;
        let softmax = match self.softmax.get(&fingerprint) {
            Some(known) => Arc::clone(known),
            None => Arc::new(read_softmax(&softmax_path(policy, fingerprint), named, input)?),
        };
        if (softmax.input(), softmax.count()) != (input, count) {
            return Err(Error::Header {
                place: policy.display().to_string(),
                part: "softmax".into(),
                allowed: format!("{} scores of {} features", softmax.count(), softmax.input()),
                found: format!("{count} of {input}"),
            });
        }
        self.softmax.insert(fingerprint, Arc::clone(&softmax));
        Ok(softmax)
    }

    /// The basis with this fingerprint, for a policy over `p` features.
    pub(super) fn basis(&mut self, policy: &Path, fingerprint: Fingerprint, p: usize) -> Result<Arc<Basis>> {
        if let Some(basis) = self.bases.get(&fingerprint) {
            return Ok(Arc::clone(basis));
        }
        let file = Tensors::read(&basis_path(policy, fingerprint))?;
        let header: BasisHeader = file.header(BASIS, VERSION)?;
        file.expect(&["axes"])?;
        if header.features != p {
            return Err(Error::Header {
                place: file.place_of("metadata"),
                part: "the number of features".into(),
                allowed: format!("{p}, as the policy's"),
                found: header.features.to_string(),
            });
        }
        let basis = at(&file.place_of("axes"), Basis::new(file.items("axes", &[p, p])?, p))?;
        check_fingerprint(file.place(), header.fingerprint, basis.fingerprint())?;
        check_fingerprint(file.place(), fingerprint, basis.fingerprint())?;
        let basis = Arc::new(basis);
        self.bases.insert(fingerprint, Arc::clone(&basis));
        Ok(basis)
    }
}

/// Creates the feature map of a policy, without contexts beside it and without the intercept.
fn make(path: &Path, file: &Tensors, features: Features) -> Result<FeatureMap> {
    let made = features.made();
    if made.len() > 1 {
        return Err(Error::Header {
            place: file.place_of("metadata"),
            part: "features".into(),
            allowed: "one of fourier, kernel and trees".into(),
            found: made.join(" and "),
        });
    }
    let Features { input, fourier, kernel, trees, .. } = features;
    if let Some(Fourier { count, bandwidth, seed }) = fourier {
        return at(file.place(), FeatureMap::fourier(input, count, bandwidth, seed));
    }
    if let Some(kernel) = kernel {
        return read_kernel(&kernel_path(path, kernel.fingerprint), kernel, input);
    }
    match trees {
        Some(trees) => read_trees(&trees_path(path, trees.fingerprint), trees, input),
        None => Ok(FeatureMap::identity(input)),
    }
}

/// Reads the kernel features of a policy over contexts with `input` features.
fn read_kernel(path: &Path, Named { count, fingerprint }: Named, input: usize) -> Result<FeatureMap> {
    let file = Tensors::read(path)?;
    let header: FeaturesHeader = file.header(FEATURES, VERSION)?;
    file.expect(&["landmarks", "projection"])?;
    let rows = file.shape("landmarks").and_then(|shape| shape.first().copied()).unwrap_or(0);
    let landmarks = Contexts::dense(file.items("landmarks", &[rows, input])?, input);
    let landmarks = at(&file.place_of("landmarks"), landmarks)?.compact();
    let projection = file.items("projection", &[rows, count])?;
    let map = at(file.place(), FeatureMap::kernel_from_parts(landmarks, header.bandwidth, projection))?;
    let found = map.kernel_parts().map_or(fingerprint, KernelFeatures::fingerprint);
    check_fingerprint(file.place(), header.fingerprint, found)?;
    check_fingerprint(file.place(), fingerprint, found)?;
    Ok(map)
}

/// Reads the tree features of a policy over contexts with `input` features.
fn read_trees(path: &Path, Named { count, fingerprint }: Named, input: usize) -> Result<FeatureMap> {
    let file = Tensors::read(path)?;
    let header: MapHeader = file.header(TREES, VERSION)?;
    file.expect(&["feature", "threshold"])?;
    let wrong = |part: &str, allowed: usize, found: usize| {
        let (place, allowed) = (file.place_of("metadata"), format!("{allowed}, as the policy's"));
        Err(Error::Header { place, part: part.into(), allowed, found: found.to_string() })
    };
    if header.input != input {
        return wrong("the number of features of a context", input, header.input);
    }
    let feature: Vec<u32> = file.list("feature")?;
    let threshold = file.items("threshold", &[feature.len()])?;
    let map = at(file.place(), FeatureMap::trees_from_parts(input, feature, threshold))?;
    if map.output() != count {
        return wrong("the number of leaves", count, map.output());
    }
    let found = map.tree_parts().map_or(fingerprint, TreeFeatures::fingerprint);
    check_fingerprint(file.place(), header.fingerprint, found)?;
    check_fingerprint(file.place(), fingerprint, found)?;
    Ok(map)
}

/// Reads the softmax features of a policy over contexts with `input` features.
fn read_softmax(path: &Path, Named { count, fingerprint }: Named, input: usize) -> Result<SoftmaxFeatures> {
    let file = Tensors::read(path)?;
    let header: MapHeader = file.header(SOFTMAX, VERSION)?;
    file.expect(&["weights", "constants"])?;
    if header.input != input {
        return Err(Error::Header {
            place: file.place_of("metadata"),
            part: "the number of features of a context".into(),
            allowed: format!("{input}, as the policy's"),
            found: header.input.to_string(),
        });
    }
    let (weights, constants) = (file.items("weights", &[input, count])?, file.items("constants", &[count])?);
    let softmax = at(file.place(), SoftmaxFeatures::new(input, weights, constants))?;
    check_fingerprint(file.place(), header.fingerprint, softmax.fingerprint())?;
    check_fingerprint(file.place(), fingerprint, softmax.fingerprint())?;
    Ok(softmax)
}
