//! The columns as features: what learning would refuse, or would make something else of than was meant.

use super::findings::{Finding, Severity};
use crate::encoding::{EncodingFit, EncodingSettings};
use crate::logs::LogBatch;

/// All columns without a role, as features by default settings.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// `None` once a column was refused.
    fit: Option<EncodingFit>,
    refused: Option<String>,
}

impl Columns {
    /// The columns of distributions that begin like these are no features.
    pub(super) fn new(prefixes: &[String]) -> Self {
        let ignore = prefixes.iter().map(|prefix| format!("{prefix}*")).collect();
        Columns {
            fit: EncodingFit::new(EncodingSettings { ignore, ..EncodingSettings::default() }).ok(),
            refused: None,
        }
    }

    pub(super) fn add(&mut self, batch: &LogBatch) {
        if let Some(Err(error)) = self.fit.as_mut().map(|fit| fit.add(batch)) {
            (self.fit, self.refused) = (None, Some(error.to_string()));
        }
    }

    pub(super) fn findings(&self, findings: &mut Vec<Finding>) {
        let warning = |message: &String| Finding::new(Severity::Warning, "columns", message.clone());
        if let Some(refused) = &self.refused {
            findings
                .push(warning(refused).hint("learning refuses this feature: mend it, or leave it out with --ignore"));
        }
        let strange = self.fit.iter().flat_map(EncodingFit::warnings);
        findings.extend(strange.map(|message| warning(&message)));
    }
}
