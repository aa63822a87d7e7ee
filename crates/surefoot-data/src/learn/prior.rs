//! The prior of a learned policy.

use surefoot::contexts::Labelled;
use surefoot::policy::{Posterior, Scale};
use surefoot::{FeatureMap, LinearGaussian};

use super::{LearnRequest, Prior};
use crate::error::{Error, Result};
use crate::inputs::Inputs;
use crate::rounds::Rounds;

/// The largest number of parameters of a learned policy, one per action and feature: 2 GiB.
const MOST_PARAMETERS: usize = 1 << 28;

/// Checks the size of a policy before memory is taken for it: a large number of an action, or a large index of a
/// feature, takes few bytes in a file.
fn check_parameters(actions: usize, features: usize) -> Result<()> {
    match actions.checked_mul(features) {
        Some(..=MOST_PARAMETERS) => Ok(()),
        _ => {
            let allowed = format!("at most {MOST_PARAMETERS}");
            let found = format!("{actions} actions x {features} features");
            Err(Error::setting("the number of parameters", &allowed, found))
        }
    }
}

/// The prior over candidates.
fn prior_over_candidates(rounds: &Rounds, request: &LearnRequest) -> Result<LinearGaussian> {
    let actions = rounds.actions.len();
    match (&request.prior, &rounds.joint) {
        (Prior::Policy { policy, inputs }, _) => {
            let same = |inputs: &Inputs| inputs.encoding == rounds.encoding && inputs.candidates == rounds.candidates;
            if inputs.as_ref().is_some_and(|inputs| !same(inputs)) {
                return Err(Error::setting("the prior", "one over the features of the rounds", "another"));
            }
            let gaussian = policy.as_gaussian().filter(|policy| policy.joint().is_some());
            let gaussian = gaussian
                .ok_or_else(|| Error::setting("the prior", "a linear Gaussian policy over candidates", "another"))?;
            Ok(gaussian.with_most_candidates(actions)?)
        }
        (Prior::Uniform, Some(joint)) => {
            check_parameters(1, joint.output())?;
            let posterior = Posterior::over_candidates(vec![0.0; joint.output()], Scale::Shared(1.0))?;
            let map = FeatureMap::identity(rounds.encoding.width());
            let made = LinearGaussian::over_candidates(map, joint.clone(), actions, posterior)?;
            Ok(made.with_exploration(request.exploration)?)
        }
        (Prior::Uniform, None) => {
            Err(Error::setting("the prior", "the policy whose features the rounds have", "uniform"))
        }
        (Prior::Estimated, _) => {
            let allowed = "uniform or a policy file, as the records have candidates with features";
            Err(Error::setting("the prior", allowed, "estimated"))
        }
    }
}

/// The prior that the request asks for.
pub(super) fn prior(rounds: &Rounds, request: &LearnRequest) -> Result<LinearGaussian> {
    if rounds.candidates.is_some() {
        return prior_over_candidates(rounds, request);
    }
    let actions = rounds.actions.len();
    check_parameters(actions, rounds.encoding.width().saturating_add(usize::from(request.intercept)))?;
    let map = || {
        let map = FeatureMap::identity(rounds.encoding.width());
        if request.intercept { map.with_intercept() } else { map }
    };
    let made = match &request.prior {
        Prior::Policy { policy, inputs } => {
            if inputs.as_ref().is_some_and(|inputs| inputs.encoding != rounds.encoding) {
                return Err(Error::setting("the prior", "one over the features of the rounds", "another"));
            }
            let gaussian = policy.as_gaussian().cloned();
            return gaussian.ok_or_else(|| Error::setting("the prior", "a linear Gaussian policy", "another"));
        }
        Prior::Uniform => LinearGaussian::standard(map(), actions)?,
        Prior::Estimated => {
            let first = rounds.set_aside.as_ref().unwrap_or(&rounds.rounds[0]);
            let labelled = Labelled::new(first.gathered()?, first.action().to_vec())?;
            LinearGaussian::imitating(map(), &labelled, actions)?
        }
    };
    Ok(made.with_exploration(request.exploration)?)
}
