//! The four sets of the paper, and the available data for them.

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

    /// The data sets that can be used for a set, the best first. The paper embeds the images of CIFAR-100 too, so
    /// features are closer to it than pixels.
    fn candidates(self) -> &'static [&'static str] {
        match self {
            Set::Mnist => &["mnist"],
            Set::FashionMnist => &["fashion-mnist"],
            Set::Emnist => &["emnist", "emnist-subset"],
            Set::Cifar100 => &["cifar-100-resnet50", "cifar-100"],
        }
    }
}

/// The data of a set.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Source {
    pub(super) set: Set,
    /// The name of the data: a key of the catalogue, or the digits.
    pub(super) name: &'static str,
    /// A description of the data, if it is not the set itself.
    pub(super) stand_in: Option<&'static str>,
    /// The fingerprint of its files.
    pub(super) fingerprint: String,
}

impl Source {
    /// The data in the data folder for a set, if there is any.
    pub(super) fn find(set: Set, folder: &Path) -> Result<Option<Source>> {
        let there = |entry: &&'static Entry| entry.find(folder).is_some();
        let Some(entry) = set.candidates().iter().filter_map(|key| catalogue::find(key)).find(there) else {
            return Ok(None);
        };
        let fingerprint = entry.fingerprint(folder)?;
        Ok(Some(Source { set, name: entry.key, stand_in: entry.stand_in, fingerprint }))
    }

    /// The digits that ship with Surefoot, as a substitute for a set.
    pub(super) fn digits(set: Set) -> Source {
        let stand_in = Some("the 8 x 8 digits that ship with Surefoot, for a quick look at the command");
        Source { set, name: "digits", stand_in, fingerprint: "digits".into() }
    }

    /// A short title.
    pub(super) fn title(&self) -> String {
        match self.name {
            name if name == self.set.key() => self.set.title().into(),
            name => format!("{} ({name})", self.set.title()),
        }
    }

    pub(super) fn load(&self, folder: &Path) -> Result<Dataset> {
        // Loaded from the catalogue, because a path may have the same name.
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
