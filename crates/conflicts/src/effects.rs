//! What a change did: which pods ask other things of which volumes.

use smallvec::SmallVec;

use crate::ask::Ask;
use crate::keys::{PodKey, VolumeId};

/// What a change did: which pods now ask other things of which volumes. The conflicts that follow from
/// it are found when asked for, with the engine as it is right after the change.
#[derive(Debug, Default)]
pub struct Effects {
    pub(crate) steps: SmallVec<[Step; 1]>,
}

/// A pod asks something else of a volume.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) volume: VolumeId,
    pub(crate) pod: PodKey,
    pub(crate) before: Option<Ask>,
    pub(crate) after: Option<Ask>,
}

impl Effects {
    pub(crate) fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// The volumes of which a pod asks something else than before; one may come several times.
    pub fn volumes(&self) -> impl Iterator<Item = &VolumeId> {
        self.steps.iter().map(|step| &step.volume)
    }

    /// Whether no pod asks anything else than before. There may still be conflicts that matter more or
    /// less than before.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}
