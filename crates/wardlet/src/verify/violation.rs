//! What does not hold.

use serde::Serialize;

use super::pods::Pod;

/// What sort of violation; the names are a contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum What {
    /// A process of the pod has an ID that is not of its block.
    Credentials,
    /// A process of the pod is outside the pod's user namespace.
    OutsideNamespace,
    /// Somebody else's process has an ID of the block.
    ForeignProcess,
    /// Somebody else's user namespace maps the block.
    ForeignNamespace,
    /// Two pods have IDs in common.
    Overlap,
    /// The pod's map holds IDs of the host itself.
    HostIds,
    /// Files of the host are seen with the host's owners.
    MountNotIdmapped,
    /// Files of the host are seen with owners of another block.
    MountWrongMap,
    /// A file of the container belongs to somebody outside.
    FileOwner,
    /// A namespace of the pod belongs to somebody else's user namespace, or is the host's own.
    NamespaceOwner,
    /// A process has another SELinux level than the lease says.
    Label,
    /// The ledger gives a block to nobody who is known here.
    LeaseWithoutPod,
    /// Neither the ledger nor the kubelet knows of the pod's block.
    PodWithoutLease,
    /// The ledger says another block.
    LeaseDiffers,
    /// The kubelet's record says another block.
    RecordDiffers,
    /// Asked for, and not there.
    NotIsolated,
}

impl What {
    pub(super) fn hint(self) -> &'static str {
        match self {
            Self::Credentials => "find out how it came to have the ID, and restart the pod",
            Self::OutsideNamespace => {
                "find out who put it into the pod's control group; it is not held by the pod's user namespace"
            }
            Self::ForeignProcess => {
                "find out who started it; it can act on the files and processes of the pod"
            }
            Self::ForeignNamespace => "end what keeps it, or restart the pod with another block",
            Self::Overlap => "stop one of the two and start it again with another block",
            Self::HostIds => "stop the pod at once: IDs inside are host accounts outside",
            Self::MountNotIdmapped => {
                "restart the pod with a runtime that idmaps its mounts (wardlet doctor says which can)"
            }
            Self::MountWrongMap => "restart the pod: its volume was made ready for another one",
            Self::FileOwner => "remove the file or give it to a user of the block; find out who changed it",
            Self::NamespaceOwner => {
                "restart the pod with a runtime that makes its namespaces in its user namespace"
            }
            Self::Label => "restart the pod: other pods may have this level too",
            Self::LeaseWithoutPod => "wardlet ids release HOLDER, if nothing of it is to come back",
            Self::PodWithoutLease => {
                "its block may be given away a second time: restart the pod, or wardlet ids import /var/lib/kubelet"
            }
            Self::LeaseDiffers => "restart the pod; until then do not release the lease",
            Self::RecordDiffers => "restart the pod: the kubelet may give its block to another",
            Self::NotIsolated => {
                "wardlet explain and wardlet doctor say why; restart the pod when that is mended"
            }
        }
    }

    /// Whether two looks must agree on the very process: runtimes have one there for a moment whenever a
    /// container or an exec starts.
    fn is_of_one_process(self) -> bool {
        matches!(self, Self::Credentials | Self::OutsideNamespace)
    }
}

/// One violation; the first six fields are a contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Violation {
    pub(super) what: What,
    pub(super) pod: Option<String>,
    pub(super) pid: Option<u32>,
    pub(super) path: Option<String>,
    pub(super) expected: String,
    pub(super) found: String,
    pub(super) hint: &'static str,
    /// The UIDs of all pods that it touches.
    #[serde(rename = "pods")]
    pub(super) touches: Vec<String>,
}

impl Violation {
    pub(super) fn new(what: What, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            what,
            pod: None,
            pid: None,
            path: None,
            expected: expected.into(),
            found: found.into(),
            hint: what.hint(),
            touches: Vec::new(),
        }
    }

    pub(super) fn of(mut self, pod: &Pod) -> Self {
        self.pod = Some(pod.title());
        self.and(pod)
    }

    /// It touches this pod as well.
    pub(super) fn and(mut self, pod: &Pod) -> Self {
        self.touches.push(pod.uid().to_owned());
        self
    }

    pub(super) fn by(mut self, pid: u32) -> Self {
        self.pid = Some(pid);
        self
    }

    pub(super) fn at(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Whether a second look shows the same.
    pub(super) fn is_again(&self, other: &Self) -> bool {
        let same_process = !self.what.is_of_one_process() || self.pid == other.pid;
        same_process && (self.what, &self.touches, &self.path) == (other.what, &other.touches, &other.path)
    }
}

/// What the checks have come to.
#[derive(Debug, Clone, Default)]
pub(super) struct Findings {
    pub(super) violations: Vec<Violation>,
    /// What the reader should know, without doubt falling on the rest.
    pub(super) notes: Vec<Note>,
    /// What could not be found out.
    pub(super) unseen: Vec<Unseen>,
}

/// Something that could not be found out, on a pod or on the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub(super) struct Unseen {
    /// The pod's UID.
    pub(super) uid: Option<String>,
    pub(super) text: String,
}

impl From<Unseen> for String {
    fn from(unseen: Unseen) -> Self {
        unseen.text
    }
}

/// A note, on a pod or on the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Note {
    pub(super) pod: Option<String>,
    #[serde(skip)]
    pub(super) uid: Option<String>,
    pub(super) text: String,
}

impl Findings {
    pub(super) fn violated(&mut self, violation: Violation) {
        self.violations.push(violation);
    }

    pub(super) fn unseen_on_node(&mut self, text: impl Into<String>) {
        self.unseen.push(Unseen { uid: None, text: text.into() });
    }

    pub(super) fn unseen_of(&mut self, pod: &Pod, text: impl Into<String>) {
        self.unseen.push(Unseen { uid: Some(pod.uid().to_owned()), text: text.into() });
    }

    pub(super) fn note(&mut self, pod: &Pod, text: impl Into<String>) {
        let note = Note { pod: Some(pod.title()), uid: Some(pod.uid().to_owned()), text: text.into() };
        self.notes.push(note);
    }
}
