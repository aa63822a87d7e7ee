//! Policies as bytes, and the tasks of a policy, for work that another process does.

use std::sync::{Arc, OnceLock};

use super::{Basis, LinearGaussian, Policy, Posterior, Scale};
use crate::contexts::Contexts;
use crate::error::{Error, Result};
use crate::features::FeatureMap;
use crate::logs::{Logs, Task, numbers};
use crate::math::linear::second_moments;
use crate::wire::{Reader, Writer};

impl LinearGaussian {
    /// Fails for a policy over candidates.
    pub(crate) fn write(&self, out: &mut Writer) -> Result<()> {
        if self.joint().is_some() {
            return Err(Error::setting("a policy for another process", "over actions", "over candidates"));
        }
        out.bytes(&view(self.features(), self.posterior().basis()));
        let posterior = self.posterior();
        out.count(posterior.actions());
        out.doubles(posterior.mean());
        match posterior.scale() {
            Scale::Shared(sigma) => {
                out.flag(false);
                out.double(*sigma);
            }
            Scale::PerFeature(sigmas) => {
                out.flag(true);
                out.doubles(sigmas);
            }
        }
        out.double(self.exploration());
        Ok(())
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self> {
        let (features, basis) = read_view(from.bytes()?)?;
        let (actions, mean) = (from.count()?, from.doubles()?);
        let scale = if from.flag()? { Scale::PerFeature(from.doubles()?) } else { Scale::Shared(from.double()?) };
        let mut posterior = Posterior::new(actions, mean, scale)?;
        if let Some(basis) = basis {
            posterior = posterior.with_basis(basis)?;
        }
        LinearGaussian::new(features, posterior)?.with_exploration(from.double()?)
    }
}

/// The policy as a linear Gaussian one over actions: only such a policy can be sent.
pub(crate) fn write_policy(policy: &dyn Policy, out: &mut Writer) -> Result<()> {
    let gaussian = policy.as_gaussian().ok_or_else(|| {
        Error::setting("a policy for records that an engine holds", "a linear Gaussian one", "another")
    })?;
    gaussian.write(out)
}

/// Features of contexts in the coordinates of a basis, as bytes.
pub(crate) fn view(features: &FeatureMap, basis: Option<&Arc<Basis>>) -> Vec<u8> {
    let mut out = Writer::default();
    features.write(&mut out);
    out.flag(basis.is_some());
    if let Some(basis) = basis {
        out.count(basis.features());
        out.doubles(basis.axes());
    }
    out.finish()
}

pub(crate) fn read_view(bytes: &[u8]) -> Result<(FeatureMap, Option<Arc<Basis>>)> {
    let mut from = Reader::new(bytes);
    let features = FeatureMap::read(&mut from)?;
    let basis = match from.flag()? {
        false => None,
        true => {
            // Its sender has checked that it is orthonormal, which takes long.
            let (features, axes) = (from.count()?, from.doubles()?);
            if features.checked_mul(features) != Some(axes.len()) {
                return Err(Error::size("a basis", format!("{features} x {features} entries"), axes.len()));
            }
            Some(Arc::new(Basis { features, axes, fingerprint: OnceLock::new() }))
        }
    };
    from.end()?;
    Ok((features, basis))
}

/// The features of contexts in the coordinates of a basis.
pub(crate) fn in_view(features: &FeatureMap, basis: Option<&Arc<Basis>>, contexts: &Contexts) -> Result<Contexts> {
    let x = features.apply(contexts)?;
    basis.map_or(Ok(x.clone()), |basis| basis.apply(&x))
}

/// The probabilities of the logged actions under a policy.
#[derive(Debug)]
pub(crate) struct Propensities<'a> {
    pub(crate) policy: &'a dyn Policy,
    /// Whether only of records whose cost is not 0.
    pub(crate) weighing: bool,
}

impl Task for Propensities<'_> {
    const NAME: &'static str = "propensities";

    type Output = Vec<f64>;

    fn write(&self, out: &mut Writer) -> Result<()> {
        out.flag(self.weighing);
        write_policy(self.policy, out)
    }

    fn chunk(&self, logs: &Logs) -> Result<Vec<f64>> {
        if !self.weighing {
            return self.policy.propensity(logs.contexts(), logs.action(), logs.eligible());
        }
        let weighing = logs.weighing();
        let p = self.policy.propensity(weighing.contexts(), weighing.action(), weighing.eligible());
        p.map_err(|error| match error {
            Error::Value { row, column, allowed, value } => {
                let place = (0..logs.len()).filter(|&i| logs.cost()[i] != 0.0).nth(row);
                Error::Value { row: place.unwrap_or(row), column, allowed, value }
            }
            error => error,
        })
    }

    fn merge(&self, sum: &mut Vec<f64>, next: Vec<f64>) {
        sum.extend(next);
    }

    fn write_output(&self, output: &Vec<f64>, out: &mut Writer) {
        numbers::write(output, out);
    }

    fn read_output(&self, from: &mut Reader<'_>) -> Result<Vec<f64>> {
        numbers::read(from)
    }

    /// Functions of others are called one after the other.
    fn parallel(&self) -> bool {
        self.policy.as_gaussian().is_some()
    }
}

/// The second moments `X'X` of features.
#[derive(Debug)]
pub(crate) struct SecondMoments<'a> {
    pub(crate) map: &'a FeatureMap,
}

/// Second moments of at most this many numbers are summed by several threads.
const SMALL: usize = 1 << 16;

impl Task for SecondMoments<'_> {
    const NAME: &'static str = "second moments";

    type Output = Vec<f64>;

    fn write(&self, out: &mut Writer) -> Result<()> {
        self.map.write(out);
        Ok(())
    }

    fn chunk(&self, logs: &Logs) -> Result<Vec<f64>> {
        second_moments(logs.contexts(), self.map.output(), |some| self.map.apply(some))
    }

    fn merge(&self, sum: &mut Vec<f64>, next: Vec<f64>) {
        sum.iter_mut().zip(next).for_each(|(sum, next)| *sum += next);
    }

    fn write_output(&self, output: &Vec<f64>, out: &mut Writer) {
        numbers::write(output, out);
    }

    fn read_output(&self, from: &mut Reader<'_>) -> Result<Vec<f64>> {
        numbers::read(from)
    }

    fn parallel(&self) -> bool {
        self.map.output().pow(2) <= SMALL
    }
}
