use types::Refusal;

use crate::warning::Warning;

/// Reasons, warnings and refusals found while planning.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) refusals: Vec<Refusal>,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) reasons: Vec<String>,
}

impl Notes {
    /// Each refusal is kept once: two containers may share one of their pod.
    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        if !self.refusals.contains(&refusal) {
            self.refusals.push(refusal);
        }
    }

    pub(crate) fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }

    pub(crate) fn reason(&mut self, reason: impl Into<String>) {
        self.reasons.push(reason.into());
    }
}
