//! The settings of a simulation: flags, then a TOML file, then defaults.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use surefoot::learn::LearnerSettings;
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

            /// These settings, with the defaults in place of missing ones.
            pub fn complete(self) -> Config {
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
    /// The world: digits, synthetic, drift, a set that surefoot data lists, or the path of an .npz file or of a folder with
    /// the files of MNIST, EMNIST or CIFAR [default: digits]
    #[arg(long, value_name = "NAME|PATH", help_heading = "World")]
    dataset: String = "digits".into(),
    /// Probability that the right action brings no reward, and that a wrong one does [default: 0.2]
    #[arg(long, value_name = "EPS", help_heading = "World")]
    noise: f64 = 0.2,
    /// Quality of the first policy: 0 is uniform, 1 is as trained on 5 % of the data [default: 0.2]
    #[arg(long, help_heading = "World")]
    alpha: f64 = 0.2,
    /// Interactions in all; 0 for every record of a data set, or 10,000 in a synthetic world [default: 0]
    #[arg(long, value_name = "N", help_heading = "World")]
    interactions: usize = 0,
    /// Actions of a synthetic world [default: 5]
    #[arg(long, value_name = "K", help_heading = "World")]
    actions: usize = 5,
    /// Features of a synthetic world [default: 10]
    #[arg(long, value_name = "P", help_heading = "World")]
    dimensions: usize = 10,
    /// Gap between the best action and the others in a synthetic world [default: 0.6]
    #[arg(long, value_name = "DELTA", help_heading = "World")]
    margin: f64 = 0.6,
    /// Share of a synthetic world's contexts where the gap is only half of it [default: 0.1]
    #[arg(long, value_name = "U", help_heading = "World")]
    ambiguous: f64 = 0.1,
    /// Degrees by which the mean of the drift world's contexts turns each round [default: 18]
    #[arg(long, value_name = "DEGREES", help_heading = "World")]
    drift: f64 = 18.0,

    /// How the next policy is learned [default: seq-adj-ls]
    #[arg(long, value_name = "NAME", help_heading = "Learning",
          value_parser = ["batch-ls", "seq-ls", "seq-adj-ls", "shift-ls", "shift-adj-ls", "crm", "scrm"])]
    algorithm: String = usual().algorithm,
    /// Scales of the posterior: one, one a feature, or one a principal axis of the contexts [default: isotropic]
    #[arg(long, value_name = "SHAPE", help_heading = "Learning", value_parser = ["isotropic", "per-feature", "shaped"])]
    posterior: String = usual().posterior,
    /// Features of a context: raw, rff:NUMBER or rff:NUMBER:BANDWIDTH (random Fourier), kernel:NUMBER or
    /// kernel:NUMBER:BANDWIDTH (principal components of a kernel). Without a bandwidth, the median distance between
    /// contexts known before the data, 0.5 times it for a kernel [default: raw]
    #[arg(long, value_name = "MAP", help_heading = "Learning")]
    features: String = "raw".into(),
    /// Whether a constant feature is added [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Learning")]
    intercept: bool = false,
    /// Share of decisions that are drawn uniformly, in every policy [default: 0]
    #[arg(long, value_name = "E", help_heading = "Learning")]
    exploration: f64 = 0.0,
    /// Smoothing and strength of the divergence: auto (chosen by certificate), auto-doubling (in rounds
    /// 1, 2, 4, 8, ... and kept in between), a number, 1/sqrt(m), theorem-4.4:ALPHA:GAMMA or corollary-4.5:ALPHA:GAMMA:BETA1:BETA2 [default: auto]
    #[arg(long, help_heading = "Learning")]
    lambda: Text = Text(usual().lambda),
    /// How much sharper than the first policy the prior of the search is: a number, or auto (1, 3 or 7, chosen by
    /// certificate in rounds 1, 2, 4, 8, ...). More than 1 undoes the flattening of a first policy that was meant to explore
    /// [default: 1]
    #[arg(long, value_name = "FACTOR", help_heading = "Learning")]
    sharpness: Text = Text(usual().sharpness),
    /// Where the search of a round starts: at the current policy (warm) or at the prior (anchor) [default: warm]
    #[arg(long, value_name = "WHERE", help_heading = "Learning", value_parser = ["warm", "anchor"])]
    start: String = usual().start,

    /// Whether what is proven about each round's policy is told [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Certificates")]
    certify: bool = false,
    /// Probability with which any certificate of a kind may be wrong, in any round [default: 0.05]
    #[arg(long, help_heading = "Certificates")]
    delta: f64 = usual().delta,
    /// How delta is spent over rounds: as if there were no end to them (forever), or evenly over these (even)
    /// [default: forever]
    #[arg(long, value_name = "RULE", help_heading = "Certificates", value_parser = ["forever", "even"])]
    spending: String = usual().spending,
    /// How many of the newest records only certify, until later rounds learn from them, in rounds: 0.5 is half of one;
    /// auto is 1 where something is chosen by certificate or there is a gate, and 0 else [default: auto]
    #[arg(long, value_name = "ROUNDS", help_heading = "Certificates")]
    held_back: Text = Text(usual().held_back),
    /// By what lambda and sharpness are chosen: 0 the certified risk, 1 the estimated risk, or a mean of both [default: 0]
    #[arg(long, value_name = "T", help_heading = "Certificates")]
    trade: f64 = usual().trade,
    /// When a candidate replaces what is running: always, improvement, non-inferiority:MARGIN or certified-risk
    /// [default: always]
    #[arg(long, value_name = "RULE", help_heading = "Certificates")]
    gate: String = usual().gate,

    /// Rounds [default: 10]
    #[arg(long, value_name = "K", help_heading = "Rounds")]
    rounds: usize = 10,
    /// Sizes of the rounds: auto (doubling for scrm, else equal), equal, doubling, or a list such as 100,200,400
    /// [default: auto]
    #[arg(long, value_name = "SIZES", help_heading = "Rounds")]
    schedule: String = "auto".into(),

    /// Minibatches or the whole batch [default: adam]
    #[arg(long, value_name = "NAME", help_heading = "Search", value_parser = ["adam", "lbfgs"])]
    optimiser: String = usual().optimiser,
    /// Passes of Adam over the records in a round [default: 10]
    #[arg(long, value_name = "N", help_heading = "Search")]
    epochs: usize = usual().epochs,
    /// Records a step of Adam [default: 128]
    #[arg(long, value_name = "N", help_heading = "Search")]
    batch_size: usize = usual().batch_size,
    /// Step size of Adam [default: 0.01]
    #[arg(long, value_name = "RATE", help_heading = "Search")]
    learning_rate: f64 = usual().learning_rate,
    /// How the step size falls to 0 within a round [default: linear]
    #[arg(long, value_name = "COURSE", help_heading = "Search", value_parser = ["none", "linear", "cosine"])]
    decay: String = usual().decay,
    /// Numbers in which Adam searches; what is logged or reported is always in double precision [default: single]
    #[arg(long, value_name = "NAME", help_heading = "Search", value_parser = ["single", "double"])]
    precision: String = usual().precision,

    /// Iterations of L-BFGS in a round, at the most [default: 200]
    #[arg(long, value_name = "N", help_heading = "Search")]
    iterations: usize = usual().iterations,

    /// crm, scrm: gamma of the weights p/(q + gamma), or self-normalised [default: 0.01]
    #[arg(long, value_name = "GAMMA", help_heading = "Readings of crm and scrm")]
    crm_weights: Text = Text(usual().crm_weights),
    /// crm, scrm: weight of the standard error [default: 1]
    #[arg(long, value_name = "WEIGHT", help_heading = "Readings of crm and scrm")]
    crm_penalty: f64 = usual().crm_penalty,
    /// crm, scrm: whether KL/(lambda N) is added [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Readings of crm and scrm")]
    crm_divergence: bool = usual().crm_divergence,
    /// crm, scrm: whether the scale of the posterior stays as it is [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Readings of crm and scrm")]
    crm_fixed_scale: bool = usual().crm_fixed_scale,
    /// scrm: which rounds it learns from [default: newest]
    #[arg(long, value_name = "ROUNDS", help_heading = "Readings of crm and scrm", value_parser = ["newest", "all"])]
    crm_window: String = usual().crm_window,

    /// Seed of everything that is random [default: 1]
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
