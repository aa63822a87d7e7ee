//! The settings that are chosen by certificate: lambda and the sharpness of the prior.

use super::algorithm::Anchor;
use super::{Lambda, Learner, Sharpness, State};
use crate::error::{Result, check_setting};
use crate::policy::LinearGaussian;

/// One pair of settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Setting {
    pub(super) lambda: f64,
    pub(super) sharpness: f64,
}

/// The policy with its means multiplied by `sharpness`.
pub(super) fn sharpened(policy: &LinearGaussian, sharpness: f64) -> Result<LinearGaussian> {
    let posterior = policy.posterior();
    let mean = posterior.mean().iter().map(|mean| mean * sharpness).collect();
    Ok(policy.with_posterior(posterior.with(mean, posterior.scale().clone())?))
}

impl Learner {
    /// The settings to learn with, the number of all settings that may ever be chosen, and the setting that was chosen
    /// before this round.
    ///
    /// The first round tries every pair. Later rounds try the last choice, and the pairs that differ from it in one of
    /// the two.
    pub(super) fn settings(&self, m: usize, state: &State) -> Result<(Vec<Setting>, usize, Setting)> {
        let lambdas = match self.lambda {
            Lambda::Auto | Lambda::AutoDoubling if self.algorithm.smooths() => Lambda::CANDIDATES.to_vec(),
            rule => vec![rule.value(m)?],
        };
        let anchored = self.algorithm.recipe(1.0).anchor == Anchor::First;
        // Multiplying means of 0 changes nothing.
        let flat = state.prior.posterior().mean().iter().all(|&mean| mean == 0.0);
        let sharpnesses = match self.sharpness {
            Sharpness::Fixed(sharpness) if anchored => vec![sharpness],
            Sharpness::Auto if anchored && !flat && self.algorithm.smooths() => Sharpness::CANDIDATES.to_vec(),
            _ => vec![1.0],
        };
        for &sharpness in &sharpnesses {
            check_setting("the sharpness", sharpness, sharpness > 0.0, "above 0")?;
        }
        let all = lambdas.len() * sharpnesses.len();
        let one_of = |values: &[f64], kept: f64| if values.len() > 1 { kept } else { values[0] };
        let kept = state.kept.map(|kept| Setting {
            lambda: one_of(&lambdas, kept.lambda),
            sharpness: one_of(&sharpnesses, kept.sharpness),
        });
        // A setting that another learner chose is not among the settings that the bound accounts for.
        let Some(kept) = kept.filter(|kept| lambdas.contains(&kept.lambda) && sharpnesses.contains(&kept.sharpness))
        else {
            let with = |sharpness: f64| lambdas.iter().map(move |&lambda| Setting { lambda, sharpness });
            // Bold in the first round, about which no record has said anything: on MNIST, 0.9 has a lower risk than 0.4.
            let before = Setting { lambda: lambdas[lambdas.len() - 1], sharpness: sharpnesses[0] };
            return Ok((sharpnesses.iter().flat_map(|&sharpness| with(sharpness)).collect(), all, before));
        };
        let choose = (state.rounds() + 1).is_power_of_two();
        let mut settings = vec![kept];
        if choose || self.lambda == Lambda::Auto {
            settings = lambdas.iter().map(|&lambda| Setting { lambda, ..kept }).collect();
        }
        if choose {
            let others = sharpnesses.iter().filter(|&&sharpness| sharpness != kept.sharpness);
            settings.extend(others.map(|&sharpness| Setting { sharpness, ..kept }));
        }
        Ok((settings, all, kept))
    }
}
