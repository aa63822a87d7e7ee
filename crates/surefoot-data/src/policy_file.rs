//! Policy files. The basis and the kernel features of a policy are separate files in the same folder, since the
//! policies of a loop share them and they are by far the largest part (for the pixels of MNIST a basis takes 5 MB, the
//! rest of a policy 63 kB).

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use surefoot::contexts::Row;
use surefoot::features::KernelFeatures;
use surefoot::policy::{Basis, Class, Posterior, Scale, Softmax, Uniform};
use surefoot::{Contexts, FeatureMap, Fingerprint, Learner, LinearGaussian, Policy, RewardRange};

use crate::encoding::Encoding;
use crate::error::{Error, Result, at};
use crate::files::Together;
use crate::logs::Actions;
use crate::source::display_shape;
use crate::tensors::{Tensor, Tensors, bytes, check_fingerprint, write};

const POLICY: &str = "surefoot-policy";
const BASIS: &str = "surefoot-basis";
const FEATURES: &str = "surefoot-features";
const VERSION: u64 = 1;

/// The largest number of actions of a uniform policy.
const MOST_ACTIONS: usize = 1_000_000;

/// The metadata of a policy file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyHeader {
    format: String,
    version: u64,
    /// Old files do not have it: they hold linear Gaussian policies.
    #[serde(default)]
    class: ClassName,
    actions: usize,
    // Each class has some of the next fields ([`PolicyHeader::only`]). All classes write `basis`, which is often null.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    features: Option<Features>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    exploration: Option<f64>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    alpha: Option<f64>,
    #[serde(default)]
    basis: Option<Fingerprint>,
    fingerprint: Fingerprint,
    /// Absent in policies of a simulated environment, whose contexts already are features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inputs: Option<Inputs>,
}

impl PolicyHeader {
    /// Fails if the metadata have a field of another class; `allowed` are those of this one.
    fn only(&self, file: &Tensors, allowed: &[&str]) -> Result<()> {
        // Without `..`, so that a new field is not forgotten here.
        let PolicyHeader {
            format: _,
            version: _,
            class,
            actions: _,
            features,
            exploration,
            alpha,
            basis,
            fingerprint: _,
            inputs: _,
        } = self;
        let given = [
            ("features", features.is_some()),
            ("exploration", exploration.is_some()),
            ("alpha", alpha.is_some()),
            ("basis", basis.is_some()),
        ];
        let Some((part, _)) = given.into_iter().find(|(part, given)| *given && !allowed.contains(part)) else {
            return Ok(());
        };
        let class = serde_json::to_string(class).unwrap_or_default();
        let allowed = format!("absent, as the class is {class}");
        Err(Error::Header { place: file.place_of("metadata"), part: part.into(), allowed, found: "given".into() })
    }
}

/// A field that may be absent, but not null.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(input: D) -> std::result::Result<Option<T>, D::Error> {
    T::deserialize(input).map(Some)
}

/// The policy classes that can be saved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ClassName {
    #[default]
    LinearGaussian,
    Softmax,
    Uniform,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Features {
    input: usize,
    intercept: bool,
    fourier: Option<Fourier>,
    /// Absent in old files, from before kernel features existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kernel: Option<Kernel>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fourier {
    count: usize,
    bandwidth: f64,
    seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kernel {
    count: usize,
    fingerprint: Fingerprint,
}

impl Features {
    fn of(map: &FeatureMap) -> Self {
        let fourier = map.fourier_settings().map(|(count, bandwidth, seed)| Fourier { count, bandwidth, seed });
        let kernel = map.kernel_parts().map(|k| Kernel { count: k.count(), fingerprint: k.fingerprint() });
        Features { input: map.input(), intercept: map.intercept(), fourier, kernel }
    }

    /// The number of features after the feature map.
    fn output(&self) -> usize {
        let made = self.fourier.map(|fourier| fourier.count).or(self.kernel.map(|kernel| kernel.count));
        made.unwrap_or(self.input).saturating_add(usize::from(self.intercept))
    }
}

/// How a policy turns records into features, and where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    /// The actions.
    pub actions: Actions,
    /// How records become features.
    pub encoding: Encoding,
    /// The lowest and the highest possible reward.
    pub reward: [f64; 2],
    /// Where the policy comes from.
    pub lineage: Lineage,
    /// The SHA-256 of the JSON of the first three fields.
    hash: Fingerprint,
}

/// Where a policy comes from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lineage {
    /// The fingerprint of the prior that it was learned with.
    pub prior: Option<Fingerprint>,
    /// The fingerprints of the rounds that it was learned from.
    pub logs: Vec<Fingerprint>,
    /// The settings of the learner.
    pub learner: Option<Learner>,
    /// The program that wrote it.
    pub made_by: String,
}

impl Inputs {
    /// Combines the parts and computes their hash.
    pub fn new(actions: Actions, encoding: Encoding, reward: [f64; 2], lineage: Lineage) -> Self {
        let hash = hash(&actions, &encoding, reward);
        Inputs { actions, encoding, reward, lineage, hash }
    }

    /// The fingerprint of actions, encoding and reward range.
    pub fn fingerprint(&self) -> Fingerprint {
        self.hash
    }

    /// The version that a policy with these inputs signs its decisions with. It changes if an action is renamed, which
    /// the policy's own fingerprint does not.
    pub fn version(&self, policy: Fingerprint) -> Fingerprint {
        Fingerprint::of_bytes(format!("{policy} {}", self.hash).as_bytes())
    }

    /// Checks that the inputs fit this policy.
    fn check(&self, policy: &dyn Policy, input: Option<usize>) -> std::result::Result<(), String> {
        Encoding::new(self.encoding.fields().to_vec())?;
        let found = hash(&self.actions, &self.encoding, self.reward);
        if found != self.hash {
            return Err(format!("the inputs should have the hash {}, as the file says, but have {found}", self.hash));
        }
        if self.actions.len() != policy.actions() {
            let (k, found) = (policy.actions(), self.actions.len());
            return Err(format!("the inputs should have {k} actions, as the policy, but have {found}"));
        }
        if let Some(p) = input.filter(|&p| p != self.encoding.width()) {
            let found = self.encoding.width();
            return Err(format!("the encoding should have {p} features, as the policy, but has {found}"));
        }
        RewardRange::new(self.reward[0], self.reward[1]).map(|_| ()).map_err(|reason| reason.to_string())
    }
}

fn hash(actions: &Actions, encoding: &Encoding, reward: [f64; 2]) -> Fingerprint {
    let text = serde_json::to_string(&(actions, encoding, reward)).expect("no map has keys that are no texts");
    Fingerprint::of_bytes(text.as_bytes())
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

/// Writes a policy. If it has a basis or kernel features, they are written to the same folder as
/// `basis-FINGERPRINT.safetensors` and `features-FINGERPRINT.safetensors`, unless these files exist with this content.
/// All files appear together or not at all.
///
/// Mixtures have a file format of their own ([`write_mixture`](crate::write_mixture)), and user-defined policies have no
/// file.
pub fn write_policy(path: &Path, policy: &dyn Policy) -> Result<()> {
    write_policy_with(path, policy, None)
}

/// Like [`write_policy`], with a description of how records become the policy's features.
pub fn write_policy_with(path: &Path, policy: &dyn Policy, inputs: Option<&Inputs>) -> Result<()> {
    let mut together = Together::default();
    stage_policy(&mut together, path, policy, inputs)?;
    together.commit()
}

/// Adds a policy, with its basis and its kernel features before it, to the files that are written together.
pub(crate) fn stage_policy(
    together: &mut Together,
    path: &Path,
    policy: &dyn Policy,
    inputs: Option<&Inputs>,
) -> Result<()> {
    let unknown = || Error::Malformed {
        place: path.display().to_string(),
        reason: format!("policies of class {} have no file", policy.class().name()),
    };
    let mut header = PolicyHeader {
        format: POLICY.into(),
        version: VERSION,
        class: ClassName::Uniform,
        actions: policy.actions(),
        features: None,
        exploration: None,
        alpha: None,
        basis: None,
        fingerprint: policy.identity().ok_or_else(unknown)?,
        inputs: inputs.cloned(),
    };
    let tensors = match policy.class() {
        Class::LinearGaussian(policy) => {
            let posterior = policy.posterior();
            if let Some(basis) = posterior.basis() {
                stage_basis(together, path, basis)?;
            }
            header.class = ClassName::LinearGaussian;
            header.features = Some(stage_features(together, path, policy.features())?);
            header.exploration = Some(policy.exploration());
            header.basis = posterior.basis().map(|basis| basis.fingerprint());
            let scale = match posterior.scale() {
                Scale::Shared(sigma) => Tensor::new("scale", &[], [*sigma]),
                Scale::PerFeature(sigmas) => Tensor::new("scale", &[sigmas.len()], sigmas.iter().copied()),
            };
            let shape = [posterior.features(), posterior.actions()];
            vec![Tensor::new("mean", &shape, posterior.mean().iter().copied()), scale]
        }
        Class::Softmax(policy) => {
            header.class = ClassName::Softmax;
            header.features = Some(stage_features(together, path, policy.features())?);
            header.alpha = Some(policy.alpha());
            let shape = [policy.features().output(), policy.actions()];
            vec![Tensor::new("weights", &shape, policy.weights().iter().copied())]
        }
        Class::Uniform(_) => Vec::new(),
        _ => return Err(unknown()),
    };
    write(together, path, &header, tensors)
}

/// The description of the features in a policy file. Kernel features are written to a file of their own.
fn stage_features(together: &mut Together, path: &Path, map: &FeatureMap) -> Result<Features> {
    if let Some(kernel) = map.kernel_parts() {
        stage_kernel(together, path, kernel)?;
    }
    Ok(Features::of(map))
}

/// Adds a file that is named by its content. Nothing is written if it exists with this content. A file with this name
/// and other content is damaged, and is replaced.
fn stage_named(together: &mut Together, path: &Path, header: &impl Serialize, tensors: Vec<Tensor>) -> Result<()> {
    let bytes = bytes(path, header, tensors)?;
    if std::fs::metadata(path).is_ok_and(|data| data.len() == bytes.len() as u64)
        && std::fs::read(path).is_ok_and(|found| found == bytes)
    {
        return Ok(());
    }
    together.file(path, |file| file.write_all(&bytes))
}

fn stage_basis(together: &mut Together, policy: &Path, basis: &Basis) -> Result<()> {
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

/// The path of a policy's basis.
fn basis_path(policy: &Path, basis: Fingerprint) -> PathBuf {
    policy.with_file_name(format!("basis-{basis}.safetensors"))
}

/// The path of a policy's kernel features.
fn kernel_path(policy: &Path, kernel: Fingerprint) -> PathBuf {
    policy.with_file_name(format!("features-{kernel}.safetensors"))
}

/// Reads a policy. Its basis and kernel features are read from the same folder.
pub fn read_policy(path: &Path) -> Result<Arc<dyn Policy>> {
    PolicyReader::default().read(path)
}

/// Reads policies that share bases and feature maps. Each of these is read and kept in memory once.
#[derive(Debug, Default)]
pub struct PolicyReader {
    bases: HashMap<Fingerprint, Arc<Basis>>,
    /// The feature maps, without intercepts.
    maps: Vec<(Features, FeatureMap)>,
}

impl PolicyReader {
    /// Reads a policy. Its basis and kernel features are read from the same folder.
    ///
    /// Random Fourier features are generated from their seed. They take eight bytes of memory per weight, although the
    /// weights are not in the file.
    pub fn read(&mut self, path: &Path) -> Result<Arc<dyn Policy>> {
        self.read_with(path).map(|(policy, _)| policy)
    }

    /// Like [`PolicyReader::read`]. Also returns how records become the policy's features, if the file says so.
    pub fn read_with(&mut self, path: &Path) -> Result<(Arc<dyn Policy>, Option<Inputs>)> {
        let file = Tensors::read(path)?;
        let place = file.place();
        let header: PolicyHeader = file.header(POLICY, VERSION)?;
        let policy: Arc<dyn Policy> = match header.class {
            ClassName::LinearGaussian => Arc::new(self.gaussian(path, &file, &header)?),
            ClassName::Softmax => {
                header.only(&file, &["features", "alpha"])?;
                file.expect(&["weights"])?;
                let features = required(&file, "features", header.features)?;
                let weights = file.items("weights", &[features.output(), header.actions])?;
                let alpha = required(&file, "alpha", header.alpha)?;
                let map = self.map(path, &file, features)?;
                Arc::new(at(place, Softmax::new(map, header.actions, weights, alpha))?)
            }
            ClassName::Uniform => {
                header.only(&file, &[])?;
                file.expect(&[])?;
                // No tensor has a size by which the number of actions could be checked.
                if header.actions > MOST_ACTIONS {
                    return Err(Error::TooLarge {
                        place: file.place_of("metadata"),
                        what: "the number of actions".into(),
                        limit: MOST_ACTIONS as u64,
                        found: header.actions.to_string(),
                    });
                }
                Arc::new(at(place, Uniform::new(header.actions))?)
            }
        };
        let found = policy.identity().expect("policies that have files have an identity");
        check_fingerprint(place, header.fingerprint, found)?;
        if let Some(inputs) = &header.inputs {
            let input = header.features.map(|features| features.input);
            let checked = inputs.check(policy.as_ref(), input);
            checked.map_err(|reason| Error::Malformed { place: file.place_of("metadata"), reason })?;
        }
        Ok((policy, header.inputs))
    }

    fn gaussian(&mut self, path: &Path, file: &Tensors, header: &PolicyHeader) -> Result<LinearGaussian> {
        let place = file.place();
        header.only(file, &["features", "exploration", "basis"])?;
        file.expect(&["mean", "scale"])?;
        let features = required(file, "features", header.features)?;
        let p = features.output();
        let mean = file.items("mean", &[p, header.actions])?;
        let scale = match file.shape("scale") {
            Some([]) => Scale::Shared(file.items("scale", &[])?[0]),
            Some([n]) if *n == p => Scale::PerFeature(file.items("scale", &[p])?),
            found => {
                return Err(Error::Shape {
                    place: file.place_of("scale"),
                    allowed: format!("() or {}", display_shape(&[p])),
                    found: display_shape(found.unwrap_or_default()),
                });
            }
        };
        let mut posterior = at(place, Posterior::new(header.actions, mean, scale))?;
        if let Some(basis) = header.basis {
            let basis = self.basis(&basis_path(path, basis), basis, p)?;
            posterior = at(place, posterior.with_basis(basis))?;
        }
        let map = self.map(path, file, features)?;
        let exploration = required(file, "exploration", header.exploration)?;
        at(place, LinearGaussian::new(map, posterior).and_then(|policy| policy.with_exploration(exploration)))
    }

    /// The feature map of a policy.
    fn map(&mut self, path: &Path, file: &Tensors, features: Features) -> Result<FeatureMap> {
        let made = Features { intercept: false, ..features };
        let map = match self.maps.iter().find(|(known, _)| *known == made) {
            Some((_, map)) => map.clone(),
            None => {
                let map = make(path, file, features)?;
                self.maps.push((made, map.clone()));
                map
            }
        };
        Ok(if features.intercept { map.with_intercept() } else { map })
    }

    /// The basis with this fingerprint, for a policy over `p` features.
    fn basis(&mut self, path: &Path, fingerprint: Fingerprint, p: usize) -> Result<Arc<Basis>> {
        if let Some(basis) = self.bases.get(&fingerprint) {
            return Ok(Arc::clone(basis));
        }
        let file = Tensors::read(path)?;
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

/// A field of the metadata that this class of policies requires.
fn required<T>(file: &Tensors, part: &str, value: Option<T>) -> Result<T> {
    value.ok_or_else(|| Error::Header {
        place: file.place_of("metadata"),
        part: part.into(),
        allowed: "given".into(),
        found: "missing".into(),
    })
}

/// Creates the feature map of a policy, without the intercept.
fn make(path: &Path, file: &Tensors, Features { input, fourier, kernel, .. }: Features) -> Result<FeatureMap> {
    match (fourier, kernel) {
        (None, None) => Ok(FeatureMap::identity(input)),
        (Some(Fourier { count, bandwidth, seed }), None) => {
            at(file.place(), FeatureMap::fourier(input, count, bandwidth, seed))
        }
        (None, Some(kernel)) => read_kernel(&kernel_path(path, kernel.fingerprint), kernel, input),
        (Some(_), Some(_)) => Err(Error::Header {
            place: file.place_of("metadata"),
            part: "features".into(),
            allowed: "fourier or kernel".into(),
            found: "both".into(),
        }),
    }
}

/// Reads the kernel features of a policy over contexts with `input` features.
fn read_kernel(path: &Path, Kernel { count, fingerprint }: Kernel, input: usize) -> Result<FeatureMap> {
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
