//! The four sets of the paper, and what is at hand of them.

use std::path::Path;

use serde::Serialize;
use surefoot::worlds::Dataset;
use surefoot_data::catalogue::{self, Entry};
use surefoot_terminal::Result;

/// A set of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Set {
    Mnist,
    FashionMnist,
    Emnist,
    #[value(name = "cifar-100")]
    #[serde(rename = "cifar-100")]
    Cifar100,
}

impl Set {
    pub(super) const ALL: [Set; 4] = [Set::Mnist, Set::FashionMnist, Set::Emnist, Set::Cifar100];

    pub(super) fn key(self) -> &'static str {
        match self {
            Set::Mnist => "mnist",
            Set::FashionMnist => "fashion-mnist",
            Set::Emnist => "emnist",
            Set::Cifar100 => "cifar-100",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Set::Mnist => "MNIST",
            Set::FashionMnist => "Fashion-MNIST",
            Set::Emnist => "EMNIST",
            Set::Cifar100 => "CIFAR-100",
        }
    }

    /// What it can be run on, the best first: the paper embeds the images of CIFAR-100 too, so that features stand nearer
    /// to it than pixels.
    fn candidates(self) -> &'static [&'static str] {
        match self {
            Set::Mnist => &["mnist"],
            Set::FashionMnist => &["fashion-mnist"],
            Set::Emnist => &["emnist", "emnist-subset"],
            Set::Cifar100 => &["cifar-100-resnet50", "cifar-100"],
        }
    }
}

/// What a set is run on.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Source {
    pub(super) set: Set,
    /// The name of the data: a key of the catalogue, or the digits.
    pub(super) name: &'static str,
    /// What it is, if it is not the set itself.
    pub(super) stand_in: Option<&'static str>,
    /// The fingerprint of its files.
    pub(super) fingerprint: String,
}

impl Source {
    /// What is in the data folder for a set, if anything is.
    pub(super) fn find(set: Set, folder: &Path) -> Result<Option<Source>> {
        let there = |entry: &&'static Entry| entry.find(folder).is_some();
        let Some(entry) = set.candidates().iter().filter_map(|key| catalogue::find(key)).find(there) else {
            return Ok(None);
        };
        let fingerprint = entry.fingerprint(folder)?;
        Ok(Some(Source { set, name: entry.key, stand_in: entry.stand_in, fingerprint }))
    }

    /// The digits that ship with Surefoot, in the place of a set.
    pub(super) fn digits(set: Set) -> Source {
        let stand_in = Some("the 8 x 8 digits that ship with Surefoot, for a quick look at the command");
        Source { set, name: "digits", stand_in, fingerprint: "digits".into() }
    }

    /// Its name where space is short.
    pub(super) fn title(&self) -> String {
        match self.name {
            name if name == self.set.key() => self.set.title().into(),
            name => format!("{} ({name})", self.set.title()),
        }
    }

    pub(super) fn load(&self, folder: &Path) -> Result<Dataset> {
        // Not by way of a path, which may have the same name.
        let data = match catalogue::find(self.name) {
            Some(entry) => entry.load(folder)?,
            None => surefoot_data::digits(),
        };
        Ok(data.unit_rows())
    }
}

/// How to get a set that is missing.
pub(super) fn how_to_get(set: Set) -> &'static str {
    catalogue::find(set.key()).map_or("", |entry| entry.how_to_get)
}
