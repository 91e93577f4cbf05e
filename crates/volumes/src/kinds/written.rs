use crate::layout::MadeKind;
use crate::payload::Payload;

/// Files that the node writes for the pod, and updates when they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Their source.
    pub kind: WrittenKind,
    /// The files.
    pub payload: Payload,
}

/// The source of files that the node writes.
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
