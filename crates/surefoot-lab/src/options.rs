//! The settings of a simulation: flags, then a TOML file, then defaults.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use surefoot::learn::LearnerSettings;
use surefoot::simulate::Schedule;
use surefoot_terminal::{Failure, Result};

/// Declares the options once: as flags, as keys of a TOML file, and as the complete `config` of a result.
macro_rules! options {
    ($($(#[doc = $doc:literal])* #[arg $arg:tt] $name:ident: $type:ty = $default:expr),* $(,)?) => {
        /// The settings of a simulation; `None` stands for the default.
        #[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields)]
        pub struct Options {
            $(
                $(#[doc = $doc])*
                #[arg $arg]
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $name: Option<$type>,
            )*
        }

        /// The complete settings of a simulation.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(rename_all = "kebab-case")]
        pub struct Config {
            $(
                $(#[doc = $doc])*
                pub $name: $type,
            )*
        }

        impl Options {
            /// These settings, with those of `other` in place of missing ones.
            #[must_use]
            pub fn or(self, other: Options) -> Options {
                Options { $($name: self.$name.or(other.$name),)* }
            }

            fn filled(self) -> Config {
                Config { $($name: self.$name.unwrap_or_else(|| $default),)* }
            }
        }
    };
}

/// The defaults of a learner's settings.
fn usual() -> LearnerSettings {
    LearnerSettings::default()
}

options! {
    /// World: digits, synthetic, drift, articles (candidates with features), changing-articles (all replaced after 2,000
    /// requests), a set that surefoot data lists, or the path of an .npz file or of a folder with the files of MNIST, EMNIST
    /// or CIFAR [default: digits]
    #[arg(long, value_name = "NAME|PATH", help_heading = "World")]
    dataset: String = "digits".into(),
    /// Probability that the right action gives no reward, and that a wrong action gives one, in [0, 0.5] [default: 0.2]
    #[arg(long, value_name = "EPS", help_heading = "World")]
    noise: f64 = 0.2,
    /// Quality of the first policy, at least 0: 0 is uniform, 1 is a policy trained on 5 % of the data [default: 0.2]
    #[arg(long, help_heading = "World")]
    alpha: f64 = 0.2,
    /// Total number of interactions; 0 means every record of a data set, or 10,000 in a synthetic world [default: 0]
    #[arg(long, value_name = "N", help_heading = "World")]
    interactions: usize = 0,
    /// Number of actions of a synthetic world, from 2 to 10,000 [default: 5]
    #[arg(long, value_name = "K", help_heading = "World")]
    actions: usize = 5,
    /// Number of features of a synthetic world, from 2 to 10,000 [default: 10]
    #[arg(long, value_name = "P", help_heading = "World")]
    dimensions: usize = 10,
    /// Margin between the expected costs of the best action and of the others in a synthetic world, in (0, 1] [default:
    /// 0.6]
    #[arg(long, value_name = "DELTA", help_heading = "World")]
    margin: f64 = 0.6,
    /// Share of a synthetic world's contexts whose margin is only half as large, in [0, 1) [default: 0.1]
    #[arg(long, value_name = "U", help_heading = "World")]
    ambiguous: f64 = 0.1,
    /// Rotation of the mean context of the drift world, in degrees per round [default: 18]
    #[arg(long, value_name = "DEGREES", help_heading = "World")]
    drift: f64 = 18.0,

    /// Learning algorithm [default: portfolio]
    #[arg(long, value_name = "NAME", help_heading = "Learning",
          value_parser = ["portfolio", "batch-ls", "seq-ls", "seq-adj-ls", "shift-ls", "shift-adj-ls", "crm", "scrm",
                          "thompson"])]
    algorithm: String = usual().algorithm,
    /// Scales of the posterior: one (isotropic), one per feature (per-feature), or one per principal axis of the
    /// contexts (shaped) [default: isotropic]
    #[arg(long, value_name = "SHAPE", help_heading = "Learning", value_parser = ["isotropic", "per-feature", "shaped"])]
    posterior: String = usual().posterior,
    /// Features of a context: raw, rff:NUMBER or rff:NUMBER:BANDWIDTH (random Fourier features), kernel:NUMBER or
    /// kernel:NUMBER:BANDWIDTH (principal components of a kernel). The default bandwidth is the median distance between
    /// contexts that are known before the data, and 0.5 times that for a kernel [default: raw]
    #[arg(long, value_name = "MAP", help_heading = "Learning")]
    features: String = "raw".into(),
    /// Add a constant feature [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Learning")]
    intercept: bool = false,
    /// Exploration floor: share of decisions that every policy draws uniformly, in [0, 1) [default: 0]
    #[arg(long, value_name = "E", help_heading = "Learning")]
    exploration: f64 = 0.0,
    /// Smoothing of the estimator, and strength of the divergence KL/(lambda N): auto (chosen by certificate in every
    /// round), auto-doubling (chosen in rounds 1, 2, 4, 8, ... and kept in between), a number (above 0, and below 1 for
    /// seq-adj-ls and shift-adj-ls), 1/sqrt(m), theorem-4.4:ALPHA:GAMMA or corollary-4.5:ALPHA:GAMMA:BETA1:BETA2
    /// [default: auto]
    #[arg(long, help_heading = "Learning")]
    lambda: Text = Text(usual().lambda),
    /// Factor by which the means of the first policy are multiplied to get the prior of the search: a number above 0,
    /// or auto (1, 3 or 7, chosen by certificate in rounds 1, 2, 4, 8, ...). A factor above 1 is useful if the first
    /// policy was flattened in order to explore [default: 1]
    #[arg(long, value_name = "FACTOR", help_heading = "Learning")]
    sharpness: Text = Text(usual().sharpness),
    /// Records that choose lambda and the sharpness among their candidates: those that the candidates of the previous
    /// round had not seen (previous), or those of the newest round, for which every certificate pays (newest) [default:
    /// previous]
    #[arg(long, value_name = "ROUND", help_heading = "Learning", value_parser = ["previous", "newest"])]
    choice: String = usual().choice,
    /// Start of the search in each round: the current policy (warm) or the prior (anchor) [default: warm]
    #[arg(long, value_name = "WHERE", help_heading = "Learning", value_parser = ["warm", "anchor"])]
    start: String = usual().start,

    /// Certify the policy of each round, and print the certified risk [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Certificates")]
    certify: bool = false,
    /// Failure probability of each kind of certificate, over all rounds, in (0, 1) [default: 0.05]
    #[arg(long, help_heading = "Certificates")]
    delta: f64 = usual().delta,
    /// Division of delta among the rounds: over infinitely many rounds (forever), or in equal shares over the rounds of
    /// this run (even) [default: forever]
    #[arg(long, value_name = "RULE", help_heading = "Certificates", value_parser = ["forever", "even"])]
    spending: String = usual().spending,
    /// Number of the newest records that are held back, in rounds (0.5 is half a round), at least 0. They are used only
    /// to certify until a later round learns from them. auto is 1 if lambda or the sharpness is chosen by certificate
    /// or there is a gate, and 0 otherwise [default: auto]
    #[arg(long, value_name = "ROUNDS", help_heading = "Certificates")]
    held_back: Text = Text(usual().held_back),
    /// Criterion by which lambda and sharpness are chosen, in [0, 1]: 0 is the certified risk, 1 the estimated risk,
    /// and a number in between a weighted mean of both [default: 0]
    #[arg(long, value_name = "T", help_heading = "Certificates")]
    trade: f64 = usual().trade,
    /// Gate: the rule by which a candidate replaces the running policy: always, improvement, non-inferiority:MARGIN or
    /// certified-risk [default: always]
    #[arg(long, value_name = "RULE", help_heading = "Certificates")]
    gate: String = usual().gate,

    /// Number of rounds, at least 1 [default: 20 for portfolio and thompson, 10 otherwise]
    #[arg(long, value_name = "K", help_heading = "Rounds")]
    rounds: usize = 10,
    /// Sizes of the rounds: auto (growing for portfolio and thompson, doubling for scrm, equal otherwise), equal, growing
    /// (each 1.15 times the one before), growing:FACTOR, doubling, or a list such as 100,200,400 [default: auto]
    #[arg(long, value_name = "SIZES", help_heading = "Rounds")]
    schedule: String = "auto".into(),

    /// Optimiser: adam uses minibatches, lbfgs the whole batch [default: adam]
    #[arg(long, value_name = "NAME", help_heading = "Search", value_parser = ["adam", "lbfgs"])]
    optimiser: String = usual().optimiser,
    /// Passes of Adam over the records per round, at least 1 [default: 10]
    #[arg(long, value_name = "N", help_heading = "Search")]
    epochs: usize = usual().epochs,
    /// Records per step of Adam, at least 1 [default: 128]
    #[arg(long, value_name = "N", help_heading = "Search")]
    batch_size: usize = usual().batch_size,
    /// Step size of Adam, above 0 [default: 0.01]
    #[arg(long, value_name = "RATE", help_heading = "Search")]
    learning_rate: f64 = usual().learning_rate,
    /// Decay of the step size to 0 within a round; none keeps it constant [default: linear]
    #[arg(long, value_name = "COURSE", help_heading = "Search", value_parser = ["none", "linear", "cosine"])]
    decay: String = usual().decay,
    /// Floating-point precision of Adam's search; logged and reported numbers always have double precision [default:
    /// single]
    #[arg(long, value_name = "NAME", help_heading = "Search", value_parser = ["single", "double"])]
    precision: String = usual().precision,

    /// Largest number of iterations of L-BFGS per round, at least 1 [default: 200]
    #[arg(long, value_name = "N", help_heading = "Search")]
    iterations: usize = usual().iterations,

    /// crm, scrm: gamma of the weights p/(q + gamma), at least 0, or self-normalised [default: 0.01]
    #[arg(long, value_name = "GAMMA", help_heading = "Variants of crm and scrm")]
    crm_weights: Text = Text(usual().crm_weights),
    /// crm, scrm: weight of the standard error in the objective, at least 0 [default: 1]
    #[arg(long, value_name = "WEIGHT", help_heading = "Variants of crm and scrm")]
    crm_penalty: f64 = usual().crm_penalty,
    /// crm, scrm: add the divergence KL/(lambda N) to the objective [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Variants of \
        crm and scrm")]
    crm_divergence: bool = usual().crm_divergence,
    /// crm, scrm: keep the scale of the posterior fixed [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Variants of \
        crm and scrm")]
    crm_fixed_scale: bool = usual().crm_fixed_scale,
    /// scrm: rounds to learn from [default: newest]
    #[arg(long, value_name = "ROUNDS", help_heading = "Variants of crm and scrm", value_parser = ["newest", "all"])]
    crm_window: String = usual().crm_window,

    /// portfolio: its members, separated by commas: kernel, linear and trees (reward models on kernel features, on those of
    /// --features, and on the leaves of boosted trees), logistic (as linear, for rewards that are clicks), search (seq-adj-ls),
    /// all, or usual for all but logistic [default: usual]
    #[arg(long, value_name = "NAMES", help_heading = "Variants of portfolio and thompson")]
    members: String = usual().members,
    /// portfolio, thompson: how widely reward models explore, above 0; 1 samples from their posterior, auto is 0.5 for up
    /// to 10 actions and 5 over their number beyond, but at least 0.1 [default: auto]
    #[arg(long, value_name = "V", help_heading = "Variants of portfolio and thompson")]
    thompson_v: Text = Text(usual().thompson_v),
    /// portfolio, thompson: the same for the policy that is handed over at the end [default: 0.1]
    #[arg(long, value_name = "V", help_heading = "Variants of portfolio and thompson")]
    hand_over_v: f64 = usual().hand_over_v,

    /// Seed of all random numbers [default: 1]
    #[arg(long, help_heading = "Run")]
    seed: u64 = usual().seed,
}

/// A text that may be written as a number in TOML.
#[derive(Debug, Clone, PartialEq)]
pub struct Text(pub String);

impl std::str::FromStr for Text {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        Ok(Text(text.to_owned()))
    }
}

impl Serialize for Text {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self.0.parse::<f64>() {
            Ok(number) if number.is_finite() => serializer.serialize_f64(number),
            _ => serializer.serialize_str(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a number or a text")]
        enum Either {
            Number(f64),
            Text(String),
        }
        Ok(match Either::deserialize(deserializer)? {
            Either::Number(number) => Text(number.to_string()),
            Either::Text(text) => Text(text),
        })
    }
}

impl Options {
    /// These settings, with the defaults in place of missing ones.
    pub fn complete(self) -> Config {
        let rounds = self.rounds;
        let mut config = self.filled();
        config.rounds = rounds.unwrap_or_else(|| Schedule::usual_rounds(&config.algorithm));
        config
    }

    /// Reads the settings from a TOML file.
    fn read(path: &Path) -> Result<Options> {
        let text = std::fs::read_to_string(path).map_err(|e| Failure::file(path, "read", e))?;
        let example = "the keys are the names of the flags, such as: algorithm = \"seq-ls\"";
        toml::from_str(&text).map_err(|e| Failure::file(path, "understood", e.to_string().trim_end()).hint(example))
    }

    /// These flags, with the settings of the file, if there is one, in place of missing ones.
    pub fn with_file(self, path: Option<&PathBuf>) -> Result<Options> {
        match path {
            Some(path) => Ok(self.or(Options::read(path)?)),
            None => Ok(self),
        }
    }
}
