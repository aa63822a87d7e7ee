//! The methods of the comparison, each with all its settings. Settings that the paper leaves open are fixed here, and
//! explained in `paper/README.md`.

use serde::Serialize;

use super::sets::Source;
use crate::options::{Options, Text};

/// A method with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Method {
    /// Algorithms 1 and 2 with the setting that reproduces the paper's rows for MNIST.
    SeqLs,
    SeqAdjLs,
    /// Algorithms 1 and 2 with the settings that the paper prints: `lambda = 1/sqrt(m)`, batches of 128.
    PrintedSeqLs,
    PrintedSeqAdjLs,
    /// SCRM in four interpretations.
    ScrmFixedScale,
    ScrmDivergence,
    ScrmLargeBatch,
    Scrm,
    /// Surefoot's best setting, and the same with a prior as flat as the first policy.
    Surefoot,
    SurefootFlat,
}

impl Method {
    pub(super) const SCRM: [Method; 4] =
        [Method::Scrm, Method::ScrmLargeBatch, Method::ScrmFixedScale, Method::ScrmDivergence];

    /// The name in files.
    pub(super) fn key(self) -> String {
        let name = serde_json::to_value(self).ok();
        name.and_then(|name| name.as_str().map(Into::into)).unwrap_or_default()
    }

    /// The name in tables and legends.
    pub(super) fn label(self) -> &'static str {
        match self {
            Method::SeqLs => "SeqLS",
            Method::SeqAdjLs => "SeqAdjLS",
            Method::PrintedSeqLs => "SeqLS, lambda 1/sqrt(m)",
            Method::PrintedSeqAdjLs => "SeqAdjLS, lambda 1/sqrt(m)",
            Method::Scrm => "SCRM, scale learned",
            Method::ScrmLargeBatch => "SCRM, batch 1,024",
            Method::ScrmFixedScale => "SCRM, scale fixed",
            Method::ScrmDivergence => "SCRM, KL added",
            Method::Surefoot => "Surefoot",
            Method::SurefootFlat => "Surefoot, flat prior",
        }
    }

    /// The settings on a set, for `rounds` rounds.
    pub(super) fn options(self, source: &Source, rounds: usize) -> Options {
        let text = |text: &str| Some(Text(text.into()));
        // Adam with the paper's settings.
        let plain = Options {
            learning_rate: Some(1e-3),
            decay: Some("none".into()),
            batch_size: Some(1024),
            lambda: text("0.1"),
            ..Options::default()
        };
        let literal = Options { batch_size: Some(128), lambda: text("1/sqrt(m)"), ..plain.clone() };
        let scrm = Options { algorithm: Some("scrm".into()), ..plain.clone() };
        let algorithm = |name: &str, options: Options| Options { algorithm: Some(name.into()), ..options };
        match self {
            Method::SeqLs => algorithm("seq-ls", plain),
            Method::SeqAdjLs => algorithm("seq-adj-ls", plain),
            Method::PrintedSeqLs => algorithm("seq-ls", literal),
            Method::PrintedSeqAdjLs => algorithm("seq-adj-ls", literal),
            Method::Scrm => Options { batch_size: Some(128), ..scrm },
            Method::ScrmLargeBatch => scrm,
            Method::ScrmFixedScale => Options { crm_fixed_scale: Some(true), ..scrm },
            Method::ScrmDivergence => Options { crm_divergence: Some(true), ..scrm },
            Method::Surefoot => Options {
                algorithm: Some("seq-adj-ls".into()),
                posterior: Some("shaped".into()),
                lambda: text("auto-doubling"),
                sharpness: text("auto"),
                // The previous round chooses, so that no certificate pays for it. A single round has none before it.
                choice: Some(if rounds == 1 { "newest" } else { "previous" }.into()),
                // One round; a tenth of all rounds if there are so many that one round certifies little.
                held_back: Some(Text(if rounds < 50 { 1 } else { rounds / 10 }.to_string())),
                // Embeddings are trained for linear models; pixels are not.
                features: match source.name {
                    "cifar-100-resnet50" => None,
                    "digits" => Some("kernel:60".into()),
                    _ => Some("kernel:500".into()),
                },
                ..Options::default()
            },
            Method::SurefootFlat => Options { sharpness: text("1"), ..Method::Surefoot.options(source, rounds) },
        }
    }
}
