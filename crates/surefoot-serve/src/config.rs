//! CONFIGURATION: the loops of a server, as a TOML file describes them.
//!
//! [`ServerConfig::read`] parses a file and checks it. What a loop fixes before its first decision is its [`Rules`]: they
//! are stored with the loop, and a loop is never continued under other rules.

mod duration;
mod features;
mod rules;

pub use duration::Milliseconds;
pub use features::Feature;
pub use rules::{Aggregation, Mode, RoundRule, Rules};

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use surefoot::Fingerprint;
use surefoot::learn::LearnerSettings;

use crate::error::{Error, Result};
use crate::store::Storage;
use crate::telemetry::LogStyle;

/// The address on which a server listens if it is not told another: only this machine can reach it.
pub const LISTEN: &str = "127.0.0.1:8080";

/// A file of loops.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// The address to listen on.
    #[serde(default)]
    pub listen: Option<SocketAddr>,
    /// The folder of the stores.
    #[serde(default)]
    pub data: Option<PathBuf>,
    /// The certificate with which the server speaks TLS; without it, it speaks plain HTTP.
    #[serde(default)]
    pub tls: Option<TlsConfig>,
    /// The PostgreSQL database of the stores, as a connection string of libpq; without it, they are in `data`.
    #[serde(default)]
    pub postgres: Option<String>,
    /// How requests and rounds are logged.
    #[serde(default)]
    pub log: LogStyle,
    /// The collector to which traces are sent by OTLP, such as `http://127.0.0.1:4318`.
    #[serde(default)]
    pub otlp: Option<String>,
    /// The keys of callers. Without any, everybody who can reach the address may do everything.
    #[serde(default, rename = "key")]
    pub keys: Vec<KeyConfig>,
    /// The loops.
    #[serde(default, rename = "loop")]
    pub loops: Vec<LoopConfig>,
}

/// The files of a certificate, in PEM.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The certificate, followed by those that sign it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Ask for decisions.
    Decide,
    /// Send rewards.
    Reward,
    /// Read everything.
    Read,
    /// Change a loop. It includes all other roles.
    Admin,
}

/// A key of a caller. Only its hash is stored.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyConfig {
    /// Who has it; written with what it changes.
    pub name: String,
    /// What its bearer may do.
    pub roles: Vec<Role>,
    /// The SHA-256 of the key: `printf %s KEY | sha256sum`.
    pub sha256: Fingerprint,
}

/// The actions: a number or names.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum ActionsConfig {
    /// This many actions, numbered from 0.
    Count(usize),
    /// Their names.
    Names(Vec<String>),
}

/// The rewards of a loop.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RewardConfig {
    /// The lowest and the highest reward of a decision; 0 and 1 if absent, or those of the policy file.
    #[serde(default)]
    pub range: Option<[f64; 2]>,
    /// How long after a decision its rewards count.
    pub window: Milliseconds,
    /// The reward of a decision for which none came within its window.
    #[serde(default)]
    pub default: f64,
    /// How several rewards of a decision become one.
    #[serde(default)]
    pub aggregation: Aggregation,
}

/// The settings of the learner, as the flags of the command line have them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LearnerConfig {
    algorithm: Option<String>,
    lambda: Option<String>,
    posterior: Option<String>,
    sharpness: Option<String>,
    held_back: Option<String>,
    epochs: Option<usize>,
    members: Option<String>,
    goal: Option<String>,
    seed: Option<u64>,
}

/// One loop of the file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoopConfig {
    /// Its name, which is part of its paths.
    pub name: String,
    /// What it does with the decisions of its policy.
    #[serde(default)]
    pub mode: Mode,
    /// The actions; those of the policy file if absent.
    #[serde(default)]
    pub actions: Option<ActionsConfig>,
    /// The features of a context; those of the policy file if absent.
    #[serde(default)]
    pub features: Option<Vec<Feature>>,
    /// A policy file: the first policy. Without it, the first policy prefers no action.
    #[serde(default)]
    pub policy: Option<PathBuf>,
    /// The rewards.
    pub reward: RewardConfig,
    /// When a round ends.
    pub round: RoundRule,
    /// The learner.
    #[serde(default)]
    pub learner: LearnerConfig,
    /// The gate.
    #[serde(default = "improvement")]
    pub gate: String,
    /// The failure probability of each family of certificates.
    #[serde(default = "five_percent")]
    pub delta: f64,
    /// The exploration floor of the first policy.
    #[serde(default = "five_percent")]
    pub exploration: f64,
    /// Whether the first policy has an intercept.
    #[serde(default = "yes")]
    pub intercept: bool,
}

fn improvement() -> String {
    "improvement".into()
}

fn five_percent() -> f64 {
    0.05
}

fn yes() -> bool {
    true
}

impl ServerConfig {
    /// Where its loops are stored.
    pub fn storage(&self) -> Storage {
        self.postgres.clone().map_or(Storage::Folder, Storage::Postgres)
    }

    /// Reads a file of loops and checks what does not need other files. Relative paths in it are relative to its folder.
    pub fn read(path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|reason| Error::System { place: place.clone(), reason })?;
        let mut config = Self::parse(&place, &text)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let files = config.loops.iter_mut().filter_map(|lp| lp.policy.as_mut());
        let tls = config.tls.as_mut().into_iter().flat_map(|tls| [&mut tls.certificate, &mut tls.key]);
        files.chain(config.data.as_mut()).chain(tls).for_each(|file| *file = folder.join(&*file));
        Ok(config)
    }

    /// Parses the text of such a file; errors name `place`.
    pub fn parse(place: &str, text: &str) -> Result<Self> {
        let config: ServerConfig = toml::from_str(text)
            .map_err(|e| Error::Malformed { place: place.into(), reason: e.to_string().trim_end().into() })?;
        let mut names = HashSet::new();
        if config.loops.is_empty() {
            return Err(Error::setting(place, "loop", "at least one loop", "none"));
        }
        for lp in &config.loops {
            if !names.insert(&lp.name) {
                return Err(Error::setting(place, "name", "different for each loop", format!("{:?} twice", lp.name)));
            }
            lp.check_name(place)?;
        }
        if let Some(key) = config.keys.iter().find(|key| key.roles.is_empty()) {
            return Err(Error::setting(place, "roles", "at least one of decide, reward, read, admin", &key.name));
        }
        Ok(config)
    }
}

impl LoopConfig {
    /// A name is part of a path and of a file name.
    fn check_name(&self, place: &str) -> Result<()> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        match !self.name.is_empty() && self.name.len() <= 64 && self.name.chars().all(fits) {
            true => Ok(()),
            false => Err(Error::setting(
                place,
                "name",
                "1 to 64 letters, digits, - or _",
                format!("{:?}", self.name.chars().take(80).collect::<String>()),
            )),
        }
    }
}

impl LearnerConfig {
    /// The settings of the core.
    fn settings(&self, gate: &str, delta: f64) -> LearnerSettings {
        let usual = LearnerSettings::default();
        let or = |given: &Option<String>, usual: String| given.clone().unwrap_or(usual);
        LearnerSettings {
            algorithm: or(&self.algorithm, usual.algorithm),
            lambda: or(&self.lambda, usual.lambda),
            posterior: or(&self.posterior, usual.posterior),
            sharpness: or(&self.sharpness, usual.sharpness),
            held_back: or(&self.held_back, usual.held_back),
            members: or(&self.members, usual.members),
            goal: or(&self.goal, usual.goal),
            epochs: self.epochs.unwrap_or(usual.epochs),
            seed: self.seed.unwrap_or(usual.seed),
            gate: gate.into(),
            delta,
            ..LearnerSettings::default()
        }
    }
}

#[cfg(test)]
mod tests;
