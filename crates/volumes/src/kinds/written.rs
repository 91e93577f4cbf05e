use crate::layout::MadeKind;
use crate::payload::Payload;

/// Files that the node writes for the pod, and writes anew when they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// What they come from.
    pub kind: WrittenKind,
    /// The files.
    pub payload: Payload,
}

/// What files that the node writes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenKind {
    /// A ConfigMap. They are on the node's disk; all others in memory.
    ConfigMap,
    /// A Secret.
    Secret,
    /// The pod itself.
    DownwardApi,
    /// Several of these.
    Projected,
}

impl WrittenKind {
    pub(crate) fn made(self) -> MadeKind {
        match self {
            Self::ConfigMap => MadeKind::ConfigMap,
            Self::Secret => MadeKind::Secret,
            Self::DownwardApi => MadeKind::DownwardApi,
            Self::Projected => MadeKind::Projected,
        }
    }
}
