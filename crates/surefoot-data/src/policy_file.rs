//! Policy files. The basis and the kernel or tree features of a policy are separate files in the same folder, since the
//! policies of a loop share them and they are by far the largest part (for the pixels of MNIST a basis takes 5 MB, the
//! rest of a policy 63 kB).

mod joint;
mod shared;

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use surefoot::features::Joint;
use surefoot::policy::{Class, Posterior, Scale, Softmax, Uniform};
use surefoot::{Fingerprint, LinearGaussian, Policy};

use crate::error::{Error, Result, at};
use crate::files::Together;
use crate::inputs::Inputs;
use crate::source::display_shape;
use crate::tensors::{Tensor, Tensors, check_fingerprint, write};
use joint::JointHeader;
use shared::{Features, Shared, stage_basis, stage_features};

const POLICY: &str = "surefoot-policy";
const VERSION: u64 = 1;

/// The largest number of actions of a uniform policy, and of candidates.
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
    joint: Option<JointHeader>,
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
            joint,
            exploration,
            alpha,
            basis,
            fingerprint: _,
            inputs: _,
        } = self;
        let given = [
            ("features", features.is_some()),
            ("joint", joint.is_some()),
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
    /// Linear Gaussian, over candidates with features.
    Candidates,
    Softmax,
    Uniform,
}

/// Writes a policy. If it has a basis, kernel, tree or softmax features, they are written to the same folder as `basis-`,
/// `features-`, `trees-` and `softmax-FINGERPRINT.safetensors`, unless these files exist with this content. All files appear
/// together or not at all.
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

/// Adds a policy, with its basis and its kernel or tree features before it, to the files that are written together.
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
        joint: None,
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
            header.class = match policy.joint() {
                None => ClassName::LinearGaussian,
                Some(_) => ClassName::Candidates,
            };
            header.joint = policy.joint().map(JointHeader::of);
            header.features = Some(stage_features(together, path, policy.features())?);
            header.exploration = Some(policy.exploration());
            header.basis = posterior.basis().map(|basis| basis.fingerprint());
            let scale = match posterior.scale() {
                Scale::Shared(sigma) => Tensor::new("scale", &[], [*sigma]),
                Scale::PerFeature(sigmas) => Tensor::new("scale", &[sigmas.len()], sigmas.iter().copied()),
            };
            let shape = [posterior.features(), posterior.actions()];
            // Candidates share one weight per joint feature.
            let shape = if policy.joint().is_some() { &shape[..1] } else { &shape };
            vec![Tensor::new("mean", shape, posterior.mean().iter().copied()), scale]
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

/// The names of the files beside the file of a policy, without which it cannot be read: its basis and its features.
pub fn files_beside(policy: &dyn Policy) -> Vec<String> {
    let basis = policy.as_gaussian().and_then(|policy| policy.posterior().basis());
    let paths = shared::paths(Path::new(""), basis.map(|basis| basis.fingerprint()), policy.class().features());
    paths.iter().map(|path| path.display().to_string()).collect()
}

/// Reads a policy. Its basis and its kernel or tree features are read from the same folder.
pub fn read_policy(path: &Path) -> Result<Arc<dyn Policy>> {
    PolicyReader::default().read(path)
}

/// Reads policies that share bases and feature maps. Each of these is read and kept in memory once.
#[derive(Debug, Default)]
pub struct PolicyReader {
    shared: Shared,
}

impl PolicyReader {
    /// Reads a policy. Its basis and its kernel or tree features are read from the same folder.
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
            ClassName::LinearGaussian | ClassName::Candidates => Arc::new(self.gaussian(path, &file, &header)?),
            ClassName::Softmax => {
                header.only(&file, &["features", "alpha"])?;
                file.expect(&["weights"])?;
                let features = required(&file, "features", header.features)?;
                let weights = file.items("weights", &[features.output(), header.actions])?;
                let alpha = required(&file, "alpha", header.alpha)?;
                let map = self.shared.map(path, &file, features)?;
                Arc::new(at(place, Softmax::new(map, header.actions, weights, alpha))?)
            }
            ClassName::Uniform => {
                header.only(&file, &[])?;
                file.expect(&[])?;
                // No tensor has a size by which the number of actions could be checked.
                few_actions(&file, header.actions)?;
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
        let over_candidates = header.class == ClassName::Candidates;
        let allowed = ["features", "exploration", "basis", "joint"];
        header.only(file, if over_candidates { &allowed } else { &allowed[..3] })?;
        file.expect(&["mean", "scale"])?;
        let features = required(file, "features", header.features)?;
        let joint = match over_candidates {
            true => Some(required(file, "joint", header.joint.clone())?.joint(&file.place_of("metadata"))?),
            false => None,
        };
        // No tensor has a size by which the number of candidates could be checked.
        if joint.is_some() {
            few_actions(file, header.actions)?;
        }
        let p = joint.as_ref().map_or(features.output(), Joint::output);
        let mean = match joint {
            None => file.items("mean", &[p, header.actions])?,
            Some(_) => file.items("mean", &[p])?,
        };
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
        let posterior = match joint {
            None => Posterior::new(header.actions, mean, scale),
            Some(_) => Posterior::over_candidates(mean, scale),
        };
        let mut posterior = at(place, posterior)?;
        if let Some(basis) = header.basis {
            let basis = self.shared.basis(path, basis, p)?;
            posterior = at(place, posterior.with_basis(basis))?;
        }
        let map = self.shared.map(path, file, features)?;
        let exploration = required(file, "exploration", header.exploration)?;
        let policy = match joint {
            None => LinearGaussian::new(map, posterior),
            Some(joint) => LinearGaussian::over_candidates(map, joint, header.actions, posterior),
        };
        at(place, policy.and_then(|policy| policy.with_exploration(exploration)))
    }
}

/// Fails for more actions than any policy has.
fn few_actions(file: &Tensors, actions: usize) -> Result<()> {
    if actions <= MOST_ACTIONS {
        return Ok(());
    }
    Err(Error::TooLarge {
        place: file.place_of("metadata"),
        what: "the number of actions".into(),
        limit: MOST_ACTIONS as u64,
        found: actions.to_string(),
    })
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
