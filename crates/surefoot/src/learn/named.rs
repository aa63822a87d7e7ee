//! Converts named settings to a learner and its gate, for flags, files and other languages.

#[cfg(doc)]
use super::Members;
use super::{Algorithm, Crm, Learner, Portfolio};
use crate::certificate::{Gate, Protocol, Spending};
use crate::error::{Error, Result};
use crate::optim::{Adam, Lbfgs, Optimiser};

/// The settings of a learner as texts and numbers. A setting is a text if it is a name, or if it may be a rule or a
/// number.
///
/// The default is that of the command line. It converges on small data too, where the paper's step size, the default of
/// [`Adam`], stops half-way.
///
/// ```
/// use surefoot::learn::LearnerSettings;
/// use surefoot::{Gate, Lambda};
///
/// let settings = LearnerSettings { lambda: "0.4".into(), gate: "improvement".into(), ..LearnerSettings::default() };
/// let (learner, gate) = settings.learner()?;
/// assert_eq!((learner.lambda, gate), (Lambda::Fixed(0.4), Gate::Improvement));
/// # Ok::<(), surefoot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LearnerSettings {
    /// The [`Algorithm`]: `portfolio`, `batch-ls`, `seq-ls`, `seq-adj-ls`, `shift-ls`, `shift-adj-ls`, `crm`, `scrm` or
    /// `thompson`.
    pub algorithm: String,
    /// The rule for [`lambda`](super::Lambda).
    pub lambda: String,
    /// The [`Family`](super::Family) of posteriors: `isotropic`, `per-feature` or `shaped`.
    pub posterior: String,
    /// The [`Sharpness`](super::Sharpness) of the prior: `auto` or a number.
    pub sharpness: String,
    /// Which records [choose](super::Choice) lambda and sharpness: `previous` or `newest`.
    pub choice: String,
    /// The [`Start`](super::Start) of each search: `warm` or `anchor`.
    pub start: String,
    /// The optimiser: `adam` or `lbfgs`.
    pub optimiser: String,
    /// The number of passes of Adam over the records.
    pub epochs: usize,
    /// The number of records per step of Adam.
    pub batch_size: usize,
    /// The step size of Adam.
    pub learning_rate: f64,
    /// The [`Decay`](crate::optim::Decay) of the step size: `none`, `linear` or `cosine`.
    pub decay: String,
    /// The [`Precision`](super::Precision) of the search: `single` or `double`.
    pub precision: String,
    /// The largest number of iterations of L-BFGS.
    pub iterations: usize,
    /// How much is held back: a number of rounds, or `auto` for the [usual](Learner::usually_held_back) one.
    pub held_back: String,
    /// The weight of the estimated risk in the choice of lambda and sharpness, see [`Learner::trade`].
    pub trade: f64,
    /// The failure probability of each family of certificates.
    pub delta: f64,
    /// How delta is [spent](Spending) over rounds: `forever` or `even`.
    pub spending: String,
    /// The number of rounds, if it is known; `even` needs it.
    pub rounds: Option<usize>,
    /// The [`Gate`]: `always`, `improvement`, `non-inferiority:MARGIN` or `certified-risk`.
    pub gate: String,
    /// The seed of the order of the records.
    pub seed: u64,
    /// For CRM and SCRM: `gamma` of the weights `p/(q + gamma)`, or `self-normalised`.
    pub crm_weights: String,
    /// For CRM and SCRM: the weight of the standard error.
    pub crm_penalty: f64,
    /// For CRM and SCRM: whether the divergence is added.
    pub crm_divergence: bool,
    /// For CRM and SCRM: whether the scale is fixed, not learned.
    pub crm_fixed_scale: bool,
    /// For SCRM: the [`Window`](super::Window), `newest` or `all`.
    pub crm_window: String,
    /// For a portfolio: its [`Members`], a list, `all`, or `usual` for the usual ones.
    pub members: String,
    /// For Thompson sampling and the reward models of a portfolio: how widely they explore, a number above 0, or `auto`
    /// for the [usual](Portfolio::usual_v) one.
    pub thompson_v: String,
    /// For the same: how widely the policy explores that is handed over.
    pub hand_over_v: f64,
    /// For the same: the [`Goal`](super::Goal), `policy` or `reward`.
    pub goal: String,
}

impl Default for LearnerSettings {
    fn default() -> Self {
        LearnerSettings {
            algorithm: "portfolio".into(),
            lambda: "auto".into(),
            posterior: "isotropic".into(),
            sharpness: "1".into(),
            choice: "previous".into(),
            start: "warm".into(),
            optimiser: "adam".into(),
            epochs: 10,
            batch_size: 128,
            learning_rate: 0.01,
            decay: "linear".into(),
            precision: "single".into(),
            iterations: 200,
            held_back: "auto".into(),
            trade: 0.0,
            delta: 0.05,
            spending: "forever".into(),
            rounds: None,
            gate: "always".into(),
            seed: 1,
            crm_weights: "0.01".into(),
            crm_penalty: 1.0,
            crm_divergence: false,
            crm_fixed_scale: false,
            crm_window: "newest".into(),
            members: "usual".into(),
            thompson_v: "auto".into(),
            hand_over_v: Portfolio::HAND_OVER,
            goal: "policy".into(),
        }
    }
}

impl LearnerSettings {
    /// The learner, and the gate for its candidates. Errors name a setting as its flag does: `held-back` for
    /// [`held_back`](LearnerSettings::held_back).
    pub fn learner(&self) -> Result<(Learner, Gate)> {
        let gate = self.gate.parse()?;
        let learner = Learner {
            algorithm: self.algorithm()?,
            lambda: self.lambda.parse()?,
            sharpness: self.sharpness.parse()?,
            choice: self.choice.parse()?,
            family: self.posterior.parse()?,
            start: self.start.parse()?,
            precision: self.precision.parse()?,
            optimiser: self.optimiser()?,
            trade: self.trade,
            protocol: Protocol {
                delta: self.delta,
                spending: Spending::named(&self.spending, self.rounds)?,
                ..Protocol::default()
            },
            seed: self.seed,
            ..Learner::default()
        };
        learner.protocol.check()?;
        let held_back = match self.held_back.as_str() {
            "auto" => learner.usually_held_back(gate),
            rounds => number("held-back", rounds, "auto or a number of rounds")?,
        };
        Ok((Learner { held_back, ..learner }, gate))
    }

    fn algorithm(&self) -> Result<Algorithm> {
        let crm = Crm {
            gamma: match self.crm_weights.as_str() {
                "self-normalised" => None,
                gamma => Some(number("crm-weights", gamma, "a number or self-normalised")?),
            },
            penalty: self.crm_penalty,
            divergence: self.crm_divergence,
            learn_scale: !self.crm_fixed_scale,
            window: self.crm_window.parse()?,
        };
        let v = match self.thompson_v.as_str() {
            "auto" => None,
            v => Some(number("thompson-v", v, "auto or a number above 0")?),
        };
        if self.algorithm != "portfolio" && self.members != "usual" {
            return Err(Error::setting("members", "usual, as only a portfolio has members", &self.members));
        }
        Ok(match self.algorithm.parse()? {
            Algorithm::Crm(_) => Algorithm::Crm(crm),
            Algorithm::Scrm(_) => Algorithm::Scrm(crm),
            Algorithm::Portfolio(portfolio) => {
                let members = match self.members.as_str() {
                    "usual" => portfolio.members,
                    names => Some(names.parse()?),
                };
                let portfolio =
                    Portfolio { members, v, hand_over: self.hand_over_v, goal: self.goal.parse()?, one_log: false };
                portfolio.check()?;
                Algorithm::Portfolio(portfolio)
            }
            other => other,
        })
    }

    fn optimiser(&self) -> Result<Optimiser> {
        match self.optimiser.as_str() {
            "adam" => Ok(Optimiser::Adam(Adam {
                learning_rate: self.learning_rate,
                decay: self.decay.parse()?,
                epochs: self.epochs,
                batch_size: self.batch_size,
                ..Adam::default()
            })),
            "lbfgs" => Ok(Optimiser::Lbfgs(Lbfgs { iterations: self.iterations, ..Lbfgs::default() })),
            other => Err(Error::setting("optimiser", "adam or lbfgs", other)),
        }
    }
}

fn number(name: &str, text: &str, allowed: &str) -> Result<f64> {
    text.parse().map_err(|_| Error::setting(name, allowed, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::{Choice, Family, Lambda, Precision, Sharpness, Start, Window};
    use crate::optim::Decay;

    fn refused(settings: &LearnerSettings) -> String {
        settings.learner().unwrap_err().to_string()
    }

    #[test]
    fn every_setting_arrives_where_it_belongs() {
        let settings = LearnerSettings {
            algorithm: "scrm".into(),
            lambda: "0.3".into(),
            posterior: "shaped".into(),
            sharpness: "3".into(),
            choice: "newest".into(),
            start: "anchor".into(),
            epochs: 3,
            batch_size: 7,
            learning_rate: 0.5,
            decay: "cosine".into(),
            precision: "double".into(),
            held_back: "0.5".into(),
            trade: 0.25,
            delta: 0.1,
            spending: "even".into(),
            rounds: Some(4),
            gate: "non-inferiority:0.01".into(),
            seed: 9,
            crm_weights: "self-normalised".into(),
            crm_penalty: 2.0,
            crm_divergence: true,
            crm_fixed_scale: true,
            crm_window: "all".into(),
            ..LearnerSettings::default()
        };
        let expected = Learner {
            algorithm: Algorithm::Scrm(Crm {
                gamma: None,
                penalty: 2.0,
                divergence: true,
                learn_scale: false,
                window: Window::All,
            }),
            lambda: Lambda::Fixed(0.3),
            sharpness: Sharpness::Fixed(3.0),
            choice: Choice::Newest,
            family: Family::Shaped,
            start: Start::Anchor,
            optimiser: Optimiser::Adam(Adam {
                learning_rate: 0.5,
                decay: Decay::Cosine,
                epochs: 3,
                batch_size: 7,
                ..Adam::default()
            }),
            precision: Precision::Double,
            held_back: 0.5,
            trade: 0.25,
            protocol: Protocol { delta: 0.1, spending: Spending::Even { rounds: 4 }, ..Protocol::default() },
            seed: 9,
            ..Learner::default()
        };
        assert_eq!(settings.learner().unwrap(), (expected, Gate::NonInferiority { margin: 0.01 }));
        let lbfgs = LearnerSettings { optimiser: "lbfgs".into(), iterations: 5, ..LearnerSettings::default() };
        let optimiser = lbfgs.learner().unwrap().0.optimiser;
        assert_eq!(optimiser, Optimiser::Lbfgs(Lbfgs { iterations: 5, ..Lbfgs::default() }));
    }

    #[test]
    fn the_default_readings_of_crm_are_those_of_crm() {
        let settings = LearnerSettings { algorithm: "crm".into(), ..LearnerSettings::default() };
        assert_eq!(settings.learner().unwrap().0.algorithm, Algorithm::Crm(Crm::default()));
    }

    #[test]
    fn what_is_usually_held_back_follows_the_rules_and_the_gate() {
        let held_back = |lambda: &str, gate: &str| {
            let (algorithm, lambda, gate) = ("seq-ls".into(), lambda.into(), gate.into());
            let settings = LearnerSettings { algorithm, lambda, gate, ..LearnerSettings::default() };
            settings.learner().unwrap().0.held_back
        };
        assert_eq!(held_back("auto", "always"), 1.0);
        assert_eq!(held_back("0.4", "always"), 0.0);
        assert_eq!(held_back("0.4", "improvement"), 1.0);
        let thompson =
            LearnerSettings { algorithm: "thompson".into(), thompson_v: "0.2".into(), ..LearnerSettings::default() };
        let learner = thompson.learner().unwrap().0;
        let expected = Algorithm::Portfolio(Portfolio { v: Some(0.2), ..Portfolio::thompson() });
        assert_eq!((learner.algorithm, learner.held_back), (expected, 0.3));
    }

    #[test]
    fn wrong_names_are_refused_with_what_is_allowed() {
        let with = |change: fn(&mut LearnerSettings)| {
            let mut settings = LearnerSettings::default();
            change(&mut settings);
            refused(&settings)
        };
        assert_eq!(
            with(|s| s.algorithm = "sgd".into()),
            "algorithm should be portfolio, batch-ls, seq-ls, seq-adj-ls, shift-ls, shift-adj-ls, crm, scrm or thompson, but is sgd"
        );
        assert_eq!(with(|s| s.choice = "x".into()), "choice should be previous or newest, but is x");
        assert_eq!(with(|s| s.start = "x".into()), "start should be warm or anchor, but is x");
        assert_eq!(with(|s| s.precision = "x".into()), "precision should be single or double, but is x");
        assert_eq!(with(|s| s.decay = "x".into()), "decay should be none, linear or cosine, but is x");
        assert_eq!(with(|s| s.optimiser = "x".into()), "optimiser should be adam or lbfgs, but is x");
        assert_eq!(with(|s| s.held_back = "x".into()), "held-back should be auto or a number of rounds, but is x");
        assert_eq!(with(|s| s.crm_weights = "x".into()), "crm-weights should be a number or self-normalised, but is x");
        assert_eq!(with(|s| s.crm_window = "x".into()), "crm-window should be newest or all, but is x");
        assert_eq!(with(|s| s.spending = "x".into()), "spending should be forever or even, but is x");
        assert_eq!(
            with(|s| s.spending = "even".into()),
            "spending should be forever where the number of rounds is not known, but is even"
        );
        assert_eq!(with(|s| s.delta = 1.0), "delta should be in (0, 1), but is 1");
    }
}
