//! Policies as files. Their basis is a file of its own beside them: the policies of a loop share one, and it is the
//! most of them by far (5 MB for the pixels of MNIST, where the rest is 63 kB).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use surefoot::{Basis, FeatureMap, Fingerprint, LinearGaussian, Policy, Posterior, Scale};

use crate::error::{Error, Result, at};
use crate::source::display_shape;
use crate::tensors::{Tensor, Tensors, check_fingerprint, write};

const POLICY: &str = "surefoot-policy";
const BASIS: &str = "surefoot-basis";
const VERSION: u64 = 1;

/// What a policy file says besides its tensors.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyHeader {
    format: String,
    version: u64,
    actions: usize,
    features: Features,
    exploration: f64,
    basis: Option<Fingerprint>,
    fingerprint: Fingerprint,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Features {
    input: usize,
    intercept: bool,
    fourier: Option<Fourier>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fourier {
    count: usize,
    bandwidth: f64,
    seed: u64,
}

impl Features {
    fn of(map: &FeatureMap) -> Self {
        let fourier = map.fourier_settings().map(|(count, bandwidth, seed)| Fourier { count, bandwidth, seed });
        Features { input: map.input(), intercept: map.intercept(), fourier }
    }

    fn map(&self) -> surefoot::Result<FeatureMap> {
        let map = match self.fourier {
            None => FeatureMap::identity(self.input),
            Some(Fourier { count, bandwidth, seed }) => FeatureMap::fourier(self.input, count, bandwidth, seed)?,
        };
        Ok(if self.intercept { map.with_intercept() } else { map })
    }

    /// The number of features that come out.
    fn output(&self) -> usize {
        self.fourier.map_or(self.input, |fourier| fourier.count).saturating_add(usize::from(self.intercept))
    }
}

/// What the file of a basis says besides its tensor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BasisHeader {
    format: String,
    version: u64,
    features: usize,
    fingerprint: Fingerprint,
}

/// Writes a policy, and its basis into the same folder, as `basis-FINGERPRINT.safetensors`, unless it is there already.
pub fn write_policy(path: &Path, policy: &LinearGaussian) -> Result<()> {
    let posterior = policy.posterior();
    if let Some(basis) = posterior.basis() {
        write_basis(path, basis)?;
    }
    let header = PolicyHeader {
        format: POLICY.into(),
        version: VERSION,
        actions: policy.actions(),
        features: Features::of(policy.features()),
        exploration: policy.exploration(),
        basis: posterior.basis().map(|basis| basis.fingerprint()),
        fingerprint: policy.fingerprint(),
    };
    let scale = match posterior.scale() {
        Scale::Shared(sigma) => Tensor::new("scale", &[], [*sigma]),
        Scale::PerFeature(sigmas) => Tensor::new("scale", &[sigmas.len()], sigmas.iter().copied()),
    };
    let shape = [posterior.features(), posterior.actions()];
    let mean = Tensor::new("mean", &shape, posterior.mean().iter().copied());
    write(path, &header, vec![mean, scale])
}

fn write_basis(policy: &Path, basis: &Basis) -> Result<()> {
    let path = basis_path(policy, basis.fingerprint());
    if path.exists() {
        return Ok(());
    }
    let (format, features) = (BASIS.into(), basis.features());
    let header = BasisHeader { format, version: VERSION, features, fingerprint: basis.fingerprint() };
    write(&path, &header, vec![Tensor::new("axes", &[features, features], basis.axes().iter().copied())])
}

/// Where the basis of a policy is.
fn basis_path(policy: &Path, basis: Fingerprint) -> PathBuf {
    policy.with_file_name(format!("basis-{basis}.safetensors"))
}

/// Reads a policy, and its basis from the same folder.
pub fn read_policy(path: &Path) -> Result<LinearGaussian> {
    PolicyReader::default().read(path)
}

/// Reads policies that share bases and feature maps, each of which is read and held once.
#[derive(Debug, Default)]
pub struct PolicyReader {
    bases: HashMap<Fingerprint, Arc<Basis>>,
    maps: Vec<(Features, FeatureMap)>,
}

impl PolicyReader {
    /// Reads a policy, and its basis from the same folder.
    ///
    /// Random Fourier features are made from their seed: they take eight bytes for each of their weights, which are not
    /// in the file.
    pub fn read(&mut self, path: &Path) -> Result<LinearGaussian> {
        let file = Tensors::read(path)?;
        let place = file.place();
        let header: PolicyHeader = file.header(POLICY, VERSION)?;
        file.expect(&["mean", "scale"])?;
        let p = header.features.output();
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
        let map = at(place, self.map(header.features))?;
        let policy = LinearGaussian::new(map, posterior).and_then(|policy| policy.with_exploration(header.exploration));
        let policy = at(place, policy)?;
        check_fingerprint(place, header.fingerprint, policy.fingerprint())?;
        Ok(policy)
    }

    fn map(&mut self, features: Features) -> surefoot::Result<FeatureMap> {
        if let Some((_, map)) = self.maps.iter().find(|(known, _)| *known == features) {
            return Ok(map.clone());
        }
        let map = features.map()?;
        self.maps.push((features, map.clone()));
        Ok(map)
    }

    /// The basis of this fingerprint, which a policy over `p` features refers to.
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
